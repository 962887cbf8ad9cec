"""Write the records that the decoder reads: the coordinator's side, from the message definitions of Kafka 4.4."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from fleet_learner.offsets.codec import GroupRecord, GroupType, Member, RecordKind

Tags = Mapping[int, bytes]


def classic_group(epoch: int | None, *members: Member, group_id: str = "g", **more: Any) -> GroupRecord:
    """Return the record of a classic group of consumers."""
    return GroupRecord(
        kind=RecordKind.GROUP_METADATA, key_type=2, group_id=group_id, group_type=GroupType.CLASSIC, epoch=epoch,
        members=members, **{"protocol_type": "consumer", "protocol_name": "range"} | more,
    )  # fmt: skip


CLASSIC_GONE = GroupRecord(
    kind=RecordKind.GROUP_METADATA, key_type=2, group_id="g", group_type=GroupType.CLASSIC, tombstone=True
)


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def string(text: str | None) -> bytes:
    """Write a (NULLABLE_)STRING."""
    if text is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(text.encode())) + text.encode()


def compact(text: str | None) -> bytes:
    """Write a COMPACT_(NULLABLE_)STRING."""
    return varint(0) if text is None else varint(len(text.encode()) + 1) + text.encode()


def i32(number: int) -> bytes:
    return struct.pack(">i", number)


def tagged(tags: Tags) -> bytes:
    return varint(len(tags)) + b"".join(varint(n) + varint(len(b)) + b for n, b in sorted(tags.items()))


def compact_array(items: Sequence[bytes]) -> bytes:
    return varint(len(items) + 1) + b"".join(items)


def key_of(record: GroupRecord) -> bytes:
    parts = [struct.pack(">h", record.key_type), string(record.group_id)]
    if record.kind in {RecordKind.MEMBER, RecordKind.TARGET_MEMBER, RecordKind.CURRENT_MEMBER}:
        parts.append(string(record.members[0].member_id))
    return b"".join(parts)


def value_of(record: GroupRecord, tags: Tags) -> bytes | None:
    """Write the value; every structure of a flexible version carries these unknown tags besides its own."""
    if record.tombstone or record.value_version is None:
        return None
    return struct.pack(">h", record.value_version) + _BODIES[record.kind, record.group_type](record, tags)


def classic_assignment(assignment: Sequence[str]) -> bytes:
    """Write a ConsumerProtocolAssignment 1, one entry for each partition."""
    split = [text.rsplit("-", 1) for text in assignment]
    topics = b"".join(string(topic) + i32(1) + i32(int(partition)) for topic, partition in split)
    return struct.pack(">h", 1) + i32(len(split)) + topics + i32(-1)


def _group_metadata(record: GroupRecord, tags: Tags) -> bytes:
    version = record.value_version or 0
    flexible = version >= 4
    text = compact if flexible else string

    def data(content: bytes) -> bytes:
        return (varint(len(content) + 1) if flexible else i32(len(content))) + content

    def member(one: Member) -> bytes:
        assigned = classic_assignment(one.assignment or ()) if record.protocol_type == "consumer" else b"\x01\x02"
        return b"".join(
            [
                text(one.member_id),
                text(one.instance_id) if version >= 3 else b"",
                text(one.client_id),
                text(one.client_host),
                i32(one.rebalance_timeout_ms or 0) if version >= 1 else b"",
                i32(one.session_timeout_ms or 0),
                data(b"\x00\x01"),
                data(assigned),
                tagged(tags) if flexible else b"",
            ]
        )

    members = [member(one) for one in record.members]
    return b"".join(
        [
            text(record.protocol_type),
            i32(record.epoch or 0),
            text(record.protocol_name),
            text(record.leader_id),
            struct.pack(">q", 5) if version >= 2 else b"",
            compact_array(members) if flexible else i32(len(members)) + b"".join(members),
            tagged(tags) if flexible else b"",
        ]
    )


def _epoch(record: GroupRecord, tags: Tags) -> bytes:
    return i32(record.epoch or 0) + tagged(tags)


def _hashed_epoch(record: GroupRecord, tags: Tags) -> bytes:
    return i32(record.epoch or 0) + struct.pack(">q", 7) + tagged(tags)


def _consumer_member(record: GroupRecord, tags: Tags) -> bytes:
    one = record.members[0]
    classic = varint(0) if one.session_timeout_ms is None else varint(1) + i32(one.session_timeout_ms) + varint(1)
    names = compact_array([compact("orders")])
    head = compact(one.instance_id) + compact(None) + compact(one.client_id) + compact(one.client_host) + names
    return (
        head + compact("o.*") + i32(one.rebalance_timeout_ms or 0) + compact("uniform") + tagged({**tags, 0: classic})
    )


def _topics(assignment: Sequence[str], tags: Tags) -> bytes:
    import base64

    split = [text.rsplit("-", 1) for text in assignment]
    return compact_array(
        [
            base64.urlsafe_b64decode(topic + "==") + compact_array([i32(int(partition))]) + tagged(tags)
            for topic, partition in split
        ]
    )


def _target(record: GroupRecord, tags: Tags) -> bytes:
    return _topics(record.members[0].assignment or (), tags) + tagged(tags)


def _current(record: GroupRecord, tags: Tags) -> bytes:
    one = record.members[0]
    head = i32(one.member_epoch or 0) + i32(3) + struct.pack(">b", one.state or 0)
    return head + _topics(one.assignment or (), tags) + _topics(one.pending_revocation or (), tags) + tagged(tags)


def _streams_member(record: GroupRecord, tags: Tags) -> bytes:
    one = record.members[0]
    head = compact(one.instance_id) + compact(None) + compact(one.client_id) + compact(one.client_host)
    endpoint = b"\x01" + compact("host") + struct.pack(">H", 65535) + tagged(tags) if one.instance_id else b"\xff"
    client_tags = compact_array([compact("zone") + compact("a") + tagged(tags)])
    return head + i32(one.rebalance_timeout_ms or 0) + i32(9) + compact("p") + endpoint + client_tags + tagged(tags)


def _tasks(assignment: Sequence[str], tags: Tags) -> bytes:
    parts = []
    for kind in ("active", "standby", "warmup"):
        mine = [text.split(":", 1)[1].rsplit("_", 1) for text in assignment if text.startswith(kind + ":")]
        parts.append(compact_array([compact(s) + compact_array([i32(int(p))]) + tagged(tags) for s, p in mine]))
    return b"".join(parts)


def _streams_target(record: GroupRecord, tags: Tags) -> bytes:
    return _tasks(record.members[0].assignment or (), tags) + tagged(tags)


def _streams_current(record: GroupRecord, tags: Tags) -> bytes:
    one = record.members[0]
    head = i32(one.member_epoch or 0) + i32(3) + struct.pack(">b", one.state or 0)
    return head + _tasks(one.assignment or (), tags) + _tasks(one.pending_revocation or (), tags) + tagged(tags)


_BODIES: Mapping[tuple[RecordKind, GroupType | None], Callable[[GroupRecord, Tags], bytes]] = {
    (RecordKind.GROUP_METADATA, GroupType.CLASSIC): _group_metadata,
    (RecordKind.EPOCH, GroupType.CONSUMER): _epoch,
    (RecordKind.MEMBER, GroupType.CONSUMER): _consumer_member,
    (RecordKind.TARGET_EPOCH, GroupType.CONSUMER): _epoch,
    (RecordKind.TARGET_MEMBER, GroupType.CONSUMER): _target,
    (RecordKind.CURRENT_MEMBER, GroupType.CONSUMER): _current,
    (RecordKind.EPOCH, GroupType.STREAMS): _hashed_epoch,
    (RecordKind.MEMBER, GroupType.STREAMS): _streams_member,
    (RecordKind.TARGET_EPOCH, GroupType.STREAMS): _epoch,
    (RecordKind.TARGET_MEMBER, GroupType.STREAMS): _streams_target,
    (RecordKind.CURRENT_MEMBER, GroupType.STREAMS): _streams_current,
}


def commit_key(key_type: int, group_id: str, topic: str, partition: int) -> bytes:
    return struct.pack(">h", key_type) + string(group_id) + string(topic) + i32(partition)


def commit_value(
    version: int, committed_offset: int, commit_ms: int, *, leader_epoch: int = -1, metadata: str = "",
    expire_ms: int = -1, topic_id: bytes | None = None, tags: Tags = MappingProxyType({}),
) -> bytes:  # fmt: skip
    """Write an OffsetCommitValue; what the version does not have is left out, as Kafka does with ignorable fields."""
    head = struct.pack(">hq", version, committed_offset) + (i32(leader_epoch) if version >= 3 else b"")
    stamp = struct.pack(">q", commit_ms)
    if version >= 4:
        all_tags = {**tags, **({} if topic_id is None else {0: topic_id})}
        return head + compact(metadata) + stamp + tagged(all_tags)
    return head + string(metadata) + stamp + (struct.pack(">q", expire_ms) if version == 1 else b"")
