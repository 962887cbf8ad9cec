"""Decode one offset commit of `__consumer_offsets` in plain Python: the oracle of `commits.py`, which decodes them all.

Source: `OffsetCommitKey`, `OffsetCommitValue` 0-4 and their `Legacy…` forms (key type 0) of Kafka's group-coordinator
4.4, which writes version 4, and version 1 for the few clients that still set an expiry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fleet_learner.offsets.bytes import BadRecord, Reader

COMMIT_KEY_TYPES: Final = (0, 1)
HIGHEST_VERSION: Final = 4
TOPIC_ID_TAG: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    """One commit; fields that its version lacks are None.

    Parameters
    ----------
    value_version: None for a tombstone: the offset was deleted or has expired.
    committed_offset: None for a tombstone, and for a version that this decoder does not know.
    topic_id: written since 4.1 where the topic has one.
    commit_ms, expire_ms: by the coordinator's clock.
    """

    group_id: str
    topic: str
    partition: int
    value_version: int | None = None
    committed_offset: int | None = None
    leader_epoch: int | None = None
    metadata: str | None = None
    commit_ms: int | None = None
    expire_ms: int | None = None
    topic_id: str | None = None


def decode_commit(key: bytes, value: bytes | None) -> OffsetCommit:
    """Decode a record with the key of an offset commit.

    Raises
    ------
    BadRecord: the key has another type, or the bytes break the layout of their version.
    """
    reader = Reader(key)
    key_type = reader.int16()
    if key_type not in COMMIT_KEY_TYPES:
        raise BadRecord(f"a key of type {key_type} is not an offset commit's")
    group_id, topic, partition = reader.string(), reader.string(), reader.int32()
    reader.finish()
    if value is None:
        return OffsetCommit(group_id=group_id, topic=topic, partition=partition)
    reader = Reader(value)
    version = reader.int16()
    if not 0 <= version <= HIGHEST_VERSION:
        return OffsetCommit(group_id=group_id, topic=topic, partition=partition, value_version=version)
    flexible = version >= 4
    committed_offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else None
    metadata = reader.compact_string() if flexible else reader.string()
    commit_ms = reader.int64()
    expire_ms = reader.int64() if version == 1 else None
    topic_id = reader.tags().get(TOPIC_ID_TAG) if flexible else None
    reader.finish()
    return OffsetCommit(
        group_id=group_id,
        topic=topic,
        partition=partition,
        value_version=version,
        committed_offset=committed_offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_ms=commit_ms,
        expire_ms=expire_ms,
        topic_id=None if topic_id is None else Reader(topic_id).uuid(),
    )
