"""Decode the records of `__consumer_offsets` about members, generations and assignments, in plain Python.

Why: the coordinator's log is evidence independent of the operator. The one idea: bytes in, one `GroupRecord` out; an
unknown type is a record of kind UNKNOWN (Kafka's own loader skips it, too), and bytes that end early or have a wrong
length are a `BadRecord`, never an IndexError and never a long allocation.

How to read them: the same generation with another member.id for an instance id is a restart that static membership
absorbed; the next generation is a rebalance; an instance that is missing afterwards left or was evicted. The start of a
rebalance, heartbeats and the reason of an eviction are never written.

Source: the message definitions of Kafka's group-coordinator 4.4 (`GroupMetadataValue` 0-4, `ConsumerGroup*Value` 0,
`StreamsGroup*Value` 0; the same layouts in 4.0 and 4.1), `CoordinatorRecordType`, `GroupCoordinatorRecordSerde`;
`ConsumerProtocolAssignment` 0-3 for the assignment bytes of classic members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from .bytes import BadRecord, Reader

LEFT_FOR_A_WHILE_EPOCH: Final = -2
"""`member_epoch` of a static member that closed and means to return (KIP-848)."""


class GroupType(StrEnum):
    """Name the protocol of the group that a record belongs to."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"


class RecordKind(StrEnum):
    """Name a record type; the text is the name in `CoordinatorRecordType`."""

    OFFSET_COMMIT = "OFFSET_COMMIT"
    GROUP_METADATA = "GROUP_METADATA"
    EPOCH = "METADATA"
    PARTITION_METADATA = "PARTITION_METADATA"
    MEMBER = "MEMBER_METADATA"
    TARGET_EPOCH = "TARGET_ASSIGNMENT_METADATA"
    TARGET_MEMBER = "TARGET_ASSIGNMENT_MEMBER"
    CURRENT_MEMBER = "CURRENT_MEMBER_ASSIGNMENT"
    REGULAR_EXPRESSION = "REGULAR_EXPRESSION"
    STATE_PARTITION_METADATA = "STATE_PARTITION_METADATA"
    TOPOLOGY = "TOPOLOGY"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member as a record shows it; fields that the record lacks are None.

    Parameters
    ----------
    member_epoch: -2 when a static member closed and means to return.
    session_timeout_ms: of the client; a KIP-848 member has one only while it uses the classic protocol.
    assignment: `<topic or topic id>-<partition>`; of a streams member `<kind>:<subtopology>_<partition>`. Sorted.
    pending_revocation: partitions that it has to revoke and still holds.
    state: `MemberState` as the coordinator numbers it.
    """

    member_id: str
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    member_epoch: int | None = None
    state: int | None = None
    assignment: tuple[str, ...] | None = None
    pending_revocation: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """One record; `members` of a member's record holds that member.

    Parameters
    ----------
    key_type: the number before the key.
    group_id: None only for kind UNKNOWN.
    value_version: the number before the value; None for a tombstone.
    tombstone: the value was null, so the key's object is gone.
    epoch: generation (classic), group epoch or target assignment epoch, by kind.
    """

    kind: RecordKind
    key_type: int
    group_id: str | None = None
    group_type: GroupType | None = None
    value_version: int | None = None
    tombstone: bool = False
    epoch: int | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: tuple[Member, ...] = field(default=())


_TYPES: Final[Mapping[int, tuple[RecordKind, GroupType | None]]] = MappingProxyType(
    {
        0: (RecordKind.OFFSET_COMMIT, None),
        1: (RecordKind.OFFSET_COMMIT, None),
        2: (RecordKind.GROUP_METADATA, GroupType.CLASSIC),
        3: (RecordKind.EPOCH, GroupType.CONSUMER),
        4: (RecordKind.PARTITION_METADATA, GroupType.CONSUMER),
        5: (RecordKind.MEMBER, GroupType.CONSUMER),
        6: (RecordKind.TARGET_EPOCH, GroupType.CONSUMER),
        7: (RecordKind.TARGET_MEMBER, GroupType.CONSUMER),
        8: (RecordKind.CURRENT_MEMBER, GroupType.CONSUMER),
        9: (RecordKind.PARTITION_METADATA, GroupType.SHARE),
        10: (RecordKind.MEMBER, GroupType.SHARE),
        11: (RecordKind.EPOCH, GroupType.SHARE),
        12: (RecordKind.TARGET_EPOCH, GroupType.SHARE),
        13: (RecordKind.TARGET_MEMBER, GroupType.SHARE),
        14: (RecordKind.CURRENT_MEMBER, GroupType.SHARE),
        15: (RecordKind.STATE_PARTITION_METADATA, GroupType.SHARE),
        16: (RecordKind.REGULAR_EXPRESSION, GroupType.CONSUMER),
        17: (RecordKind.EPOCH, GroupType.STREAMS),
        19: (RecordKind.MEMBER, GroupType.STREAMS),
        20: (RecordKind.TARGET_EPOCH, GroupType.STREAMS),
        21: (RecordKind.TARGET_MEMBER, GroupType.STREAMS),
        22: (RecordKind.CURRENT_MEMBER, GroupType.STREAMS),
        23: (RecordKind.TOPOLOGY, GroupType.STREAMS),
    }
)
GROUP_KEY_TYPES: Final = frozenset(_TYPES) - {0, 1}
"""Key types to decode; all other records of the topic are offset commits."""
_OF_A_MEMBER: Final = frozenset({RecordKind.MEMBER, RecordKind.TARGET_MEMBER, RecordKind.CURRENT_MEMBER})


def decode(key: bytes | None, value: bytes | None) -> GroupRecord:
    """Decode one record.

    Parameters
    ----------
    key, value: as the consumer hands them over; value None is a tombstone.

    Returns
    -------
    The record; its kind is UNKNOWN for a type or a value version that this decoder does not know.

    Raises
    ------
    BadRecord: there is no key, or the bytes break the layout of their type.
    """
    if key is None:
        raise BadRecord("no key")
    reader = Reader(key)
    key_type = reader.int16()
    if key_type not in _TYPES:
        return GroupRecord(kind=RecordKind.UNKNOWN, key_type=key_type, tombstone=value is None)
    kind, group_type = _TYPES[key_type]
    group_id = reader.string()
    member_id = reader.string() if kind in _OF_A_MEMBER else None
    if kind is RecordKind.OFFSET_COMMIT:
        reader.string()
        reader.int32()
    elif kind is RecordKind.REGULAR_EXPRESSION:
        reader.string()
    reader.finish()
    bare = GroupRecord(
        kind=kind,
        key_type=key_type,
        group_id=group_id,
        group_type=group_type,
        tombstone=value is None,
        members=() if member_id is None else (Member(member_id=member_id),),
    )
    return bare if value is None else _with_value(bare, value)


def _with_value(bare: GroupRecord, value: bytes) -> GroupRecord:
    reader = Reader(value)
    version = reader.int16()
    layout = _VALUES.get((bare.kind, bare.group_type))
    if layout is None:  # the key alone suffices
        return replace(bare, value_version=version)
    highest, read = layout
    if not 0 <= version <= highest:
        return replace(bare, kind=RecordKind.UNKNOWN, value_version=version)
    changes = read(reader, version, bare.members[0].member_id if bare.members else "")
    reader.finish()
    return replace(bare, value_version=version, **changes)  # type: ignore[arg-type]


def _group_metadata(reader: Reader, version: int, _: str) -> dict[str, object]:
    flexible = version >= 4
    string = reader.compact_string if flexible else reader.string
    nullable = reader.compact_nullable_string if flexible else reader.nullable_string
    protocol_type, epoch, protocol, leader = string(), reader.int32(), nullable(), nullable()
    if version >= 2:
        reader.int64()  # current_state_timestamp
    is_consumer = protocol_type == "consumer"

    def member() -> Member:
        member_id = string()
        instance_id = nullable() if version >= 3 else None
        client_id, client_host = string(), string()
        rebalance_timeout_ms = reader.int32() if version >= 1 else None
        session_timeout_ms = reader.int32()
        data = reader.compact_data if flexible else reader.data
        data()  # the subscription
        assigned = data()
        if flexible:
            reader.tags()
        return Member(
            member_id=member_id,
            instance_id=instance_id,
            client_id=client_id,
            client_host=client_host,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            assignment=classic_assignment(assigned) if is_consumer else None,
        )

    members = (reader.compact_array if flexible else reader.array)(member)
    if flexible:
        reader.tags()
    return {
        "protocol_type": protocol_type,
        "epoch": epoch,
        "protocol_name": protocol,
        "leader_id": leader,
        "members": tuple(members),
    }


def classic_assignment(data: bytes) -> tuple[str, ...] | None:
    """Decode the assignment of a classic consumer by the group's leader.

    Returns
    -------
    `<topic>-<partition>`, sorted; None if the bytes are not a ConsumerProtocolAssignment, which clients write and the
    coordinator never checks (a group between two generations has none).
    """
    if not data:
        return ()
    reader = Reader(data)
    try:
        if reader.int16() < 0:
            return None
        topics = reader.array(lambda: (reader.string(), reader.array(reader.int32)))
    except BadRecord:
        return None
    return _partitions(topics)


def _partitions(topics: list[tuple[str, list[int]]], pattern: str = "{}-{}") -> tuple[str, ...]:
    return tuple(sorted(pattern.format(topic, partition) for topic, partitions in topics for partition in partitions))


def _epoch(reader: Reader, _: int, __: str) -> dict[str, object]:
    epoch = reader.int32()
    reader.tags()
    return {"epoch": epoch}


def _hashed_epoch(reader: Reader, _: int, __: str) -> dict[str, object]:
    epoch = reader.int32()
    reader.int64()  # metadata_hash
    reader.tags()
    return {"epoch": epoch}


def _consumer_member(reader: Reader, _: int, member_id: str) -> dict[str, object]:
    instance_id = reader.compact_nullable_string()
    reader.compact_nullable_string()  # rack_id
    client_id, client_host = reader.compact_string(), reader.compact_string()
    reader.compact_array(reader.compact_string)  # subscribed_topic_names
    reader.compact_nullable_string()  # subscribed_topic_regex
    rebalance_timeout_ms = reader.int32()
    reader.compact_nullable_string()  # server_assignor
    classic = reader.tags().get(0)
    member = Member(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=rebalance_timeout_ms,
        session_timeout_ms=None if classic is None else _classic_session_timeout(classic),
    )
    return {"members": (member,)}


def _classic_session_timeout(classic_member_metadata: bytes) -> int | None:
    """Take the session timeout of a tagged nullable structure: 0 for null (elsewhere that is -1), then its fields."""
    reader = Reader(classic_member_metadata)
    return None if reader.varint() == 0 else reader.int32()


def _topics(reader: Reader) -> list[tuple[str, list[int]]]:
    def topic() -> tuple[str, list[int]]:
        entry = (reader.uuid(), reader.compact_array(reader.int32))
        reader.tags()
        return entry

    return reader.compact_array(topic)


def _target_member(reader: Reader, _: int, member_id: str) -> dict[str, object]:
    member = Member(member_id=member_id, assignment=_partitions(_topics(reader)))
    reader.tags()
    return {"members": (member,)}


def _current_member(reader: Reader, _: int, member_id: str) -> dict[str, object]:
    member_epoch = reader.int32()
    reader.int32()  # previous_member_epoch
    state = reader.int8()
    assignment, pending = _partitions(_topics(reader)), _partitions(_topics(reader))
    reader.tags()
    member = Member(
        member_id=member_id, member_epoch=member_epoch, state=state, assignment=assignment, pending_revocation=pending
    )
    return {"members": (member,)}


def _streams_member(reader: Reader, _: int, member_id: str) -> dict[str, object]:
    instance_id = reader.compact_nullable_string()
    reader.compact_nullable_string()  # rack_id
    client_id, client_host = reader.compact_string(), reader.compact_string()
    rebalance_timeout_ms = reader.int32()
    reader.int32()  # topology_epoch
    reader.compact_string()  # process_id
    if reader.int8() >= 0:  # user_endpoint
        reader.compact_string()
        reader.int16()
        reader.tags()

    def client_tag() -> None:
        reader.compact_string()
        reader.compact_string()
        reader.tags()

    reader.compact_array(client_tag)
    reader.tags()
    member = Member(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=rebalance_timeout_ms,
    )
    return {"members": (member,)}


def _tasks(reader: Reader) -> tuple[str, ...]:
    def subtopology() -> tuple[str, list[int]]:
        entry = (reader.compact_string(), reader.compact_array(reader.int32))
        reader.tags()
        return entry

    kinds = ("active", "standby", "warmup")
    return tuple(task for kind in kinds for task in _partitions(reader.compact_array(subtopology), kind + ":{}_{}"))


def _streams_target(reader: Reader, _: int, member_id: str) -> dict[str, object]:
    member = Member(member_id=member_id, assignment=_tasks(reader))
    reader.tags()
    return {"members": (member,)}


def _streams_current(reader: Reader, _: int, member_id: str) -> dict[str, object]:
    member_epoch = reader.int32()
    reader.int32()  # previous_member_epoch
    state = reader.int8()
    assignment, pending = _tasks(reader), _tasks(reader)
    reader.tags()
    member = Member(
        member_id=member_id, member_epoch=member_epoch, state=state, assignment=assignment, pending_revocation=pending
    )
    return {"members": (member,)}


_Layout = tuple[int, Callable[[Reader, int, str], dict[str, object]]]
_VALUES: Final[Mapping[tuple[RecordKind, GroupType | None], _Layout]] = MappingProxyType(
    {
        (RecordKind.GROUP_METADATA, GroupType.CLASSIC): (4, _group_metadata),
        (RecordKind.EPOCH, GroupType.CONSUMER): (0, _epoch),
        (RecordKind.MEMBER, GroupType.CONSUMER): (0, _consumer_member),
        (RecordKind.TARGET_EPOCH, GroupType.CONSUMER): (0, _epoch),
        (RecordKind.TARGET_MEMBER, GroupType.CONSUMER): (0, _target_member),
        (RecordKind.CURRENT_MEMBER, GroupType.CONSUMER): (0, _current_member),
        (RecordKind.EPOCH, GroupType.STREAMS): (0, _hashed_epoch),
        (RecordKind.MEMBER, GroupType.STREAMS): (0, _streams_member),
        (RecordKind.TARGET_EPOCH, GroupType.STREAMS): (0, _epoch),
        (RecordKind.TARGET_MEMBER, GroupType.STREAMS): (0, _streams_target),
        (RecordKind.CURRENT_MEMBER, GroupType.STREAMS): (0, _streams_current),
    }
)
"""The highest known version of a value, and its reader; for other kinds the key suffices."""
