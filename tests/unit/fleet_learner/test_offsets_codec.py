"""The decoder of `__consumer_offsets` against Kafka's own message classes, and against every cut and every number."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet_learner.offsets.bytes import BadRecord
from fleet_learner.offsets.codec import (
    GROUP_KEY_TYPES,
    GroupRecord,
    GroupType,
    Member,
    RecordKind,
    classic_assignment,
    decode,
)
from unit.fleet_learner import offsets_encoder

VECTORS = {
    row["name"]: (bytes.fromhex(row["key"]), bytes.fromhex(row["value"]))
    for row in json.loads((Path(__file__).parent / "offsets_vectors.json").read_text())["records"]
}
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"

names = st.text("abc.-é0", min_size=1, max_size=9)
int32 = st.integers(-(2**31), 2**31 - 1)
topic_ids = st.sampled_from([TOPIC_ID, "__________-__________w"])
tags = st.dictionaries(st.integers(100, 2**28), st.binary(max_size=4), max_size=2)


def partitions(topics: st.SearchStrategy[str], pattern: str = "{}-{}") -> st.SearchStrategy[tuple[str, ...]]:
    pairs = st.lists(st.tuples(topics, st.integers(0, 2**31 - 1)), max_size=4)
    return pairs.map(lambda some: tuple(sorted(pattern.format(*pair) for pair in some)))


def tasks() -> st.SearchStrategy[tuple[str, ...]]:
    kinds = [partitions(names, kind + ":{}_{}") for kind in ("active", "standby", "warmup")]
    return st.tuples(*kinds).map(lambda three: three[0] + three[1] + three[2])


@st.composite
def classic_records(draw: st.DrawFn) -> GroupRecord:
    version = draw(st.integers(0, 4))
    protocol_type = draw(st.sampled_from(["consumer", "connect"]))
    members = st.builds(
        Member, member_id=names, instance_id=st.none() | names if version >= 3 else st.none(), client_id=names,
        client_host=names, session_timeout_ms=int32, rebalance_timeout_ms=int32 if version >= 1 else st.none(),
        assignment=partitions(names) if protocol_type == "consumer" else st.none(),
    )  # fmt: skip
    return GroupRecord(
        kind=RecordKind.GROUP_METADATA, key_type=2, group_id=draw(names), group_type=GroupType.CLASSIC,
        value_version=version, epoch=draw(int32), protocol_type=protocol_type, protocol_name=draw(st.none() | names),
        leader_id=draw(st.none() | names), members=tuple(draw(st.lists(members, max_size=3))),
    )  # fmt: skip


@st.composite
def modern_records(draw: st.DrawFn) -> GroupRecord:
    group_type = draw(st.sampled_from([GroupType.CONSUMER, GroupType.STREAMS]))
    consumer = group_type is GroupType.CONSUMER
    offset = {"EPOCH": (3, 17), "MEMBER": (5, 19), "TARGET_EPOCH": (6, 20), "TARGET_MEMBER": (7, 21)}
    kind = draw(st.sampled_from(["EPOCH", "MEMBER", "TARGET_EPOCH", "TARGET_MEMBER", "CURRENT_MEMBER"]))
    assignments = partitions(topic_ids) if consumer else tasks()
    member: Member | None = None
    if kind == "MEMBER":
        member = Member(
            member_id=draw(names), instance_id=draw(st.none() | names), client_id=draw(names), client_host=draw(names),
            rebalance_timeout_ms=draw(int32), session_timeout_ms=draw(st.none() | int32) if consumer else None,
        )  # fmt: skip
    elif kind == "TARGET_MEMBER":
        member = Member(member_id=draw(names), assignment=draw(assignments))
    elif kind == "CURRENT_MEMBER":
        member = Member(
            member_id=draw(names), member_epoch=draw(int32), state=draw(st.integers(-128, 127)),
            assignment=draw(assignments), pending_revocation=draw(assignments),
        )  # fmt: skip
    return GroupRecord(
        kind=RecordKind[kind], key_type=offset.get(kind, (8, 22))[0 if consumer else 1], group_id=draw(names),
        group_type=group_type, value_version=0, epoch=None if member else draw(int32),
        members=(member,) if member else (),
    )  # fmt: skip


records = classic_records() | modern_records()


@given(records, tags)
@settings(deadline=None)
def test_what_a_coordinator_writes_is_read_back_whatever_a_newer_one_adds(
    record: GroupRecord, unknown: dict[int, bytes]
) -> None:
    """KIP-482: tagged fields that a reader does not know are skipped, in every structure."""
    assert decode(offsets_encoder.key_of(record), offsets_encoder.value_of(record, unknown)) == record


@given(records, tags, st.data())
@settings(deadline=None)
def test_bytes_that_end_early_are_a_bad_record(
    record: GroupRecord, unknown: dict[int, bytes], data: st.DataObject
) -> None:
    key, value = offsets_encoder.key_of(record), offsets_encoder.value_of(record, unknown)
    for cut in range(len(key)):
        with pytest.raises(BadRecord):
            decode(key[:cut], value)
    for cut in range(len(value)):
        with pytest.raises(BadRecord):
            decode(key, value[:cut])
    with pytest.raises(BadRecord):
        decode(key, value + data.draw(st.binary(min_size=1, max_size=3)))


@given(records, st.data())
@settings(deadline=None)
def test_a_changed_byte_never_escapes_as_another_error(record: GroupRecord, data: st.DataObject) -> None:
    value = bytearray(offsets_encoder.value_of(record, {}) or b"")
    at = data.draw(st.integers(0, len(value) - 1))
    value[at] = data.draw(st.integers(0, 255))
    try:
        decode(offsets_encoder.key_of(record), bytes(value))
    except BadRecord:
        return


@given(st.binary(max_size=40), st.none() | st.binary(max_size=60))
@settings(deadline=None)
def test_noise_is_a_record_or_a_bad_record(key: bytes, value: bytes | None) -> None:
    try:
        record = decode(key, value)
    except BadRecord:
        return
    assert record.key_type == struct.unpack(">h", key[:2])[0]


@given(records)
@settings(deadline=None)
def test_a_null_value_is_a_tombstone_of_what_the_key_names(record: GroupRecord) -> None:
    gone = decode(offsets_encoder.key_of(record), None)
    assert (gone.tombstone, gone.kind, gone.group_id, gone.value_version) == (True, record.kind, record.group_id, None)
    assert [m.member_id for m in gone.members] == [
        m.member_id for m in record.members if record.kind is not RecordKind.GROUP_METADATA
    ]


@given(st.integers(-(2**15), 2**15 - 1).filter(lambda number: number not in GROUP_KEY_TYPES | {0, 1}))
@settings(deadline=None)
def test_a_type_that_nobody_knows_is_reported_with_its_number(key_type: int) -> None:
    """GroupCoordinatorService.loadPartition skips unknown types; so must an auditor."""
    record = decode(struct.pack(">h", key_type) + b"anything", b"anything")
    assert (record.kind, record.key_type, record.group_id) == (RecordKind.UNKNOWN, key_type, None)


@given(records, st.integers(5, 2**15 - 1))
@settings(deadline=None)
def test_a_value_of_a_version_that_nobody_knows_keeps_its_group(record: GroupRecord, version: int) -> None:
    value = struct.pack(">h", version) + b"anything"
    unknown = decode(offsets_encoder.key_of(record), value)
    assert (unknown.kind, unknown.group_id, unknown.value_version) == (RecordKind.UNKNOWN, record.group_id, version)


def test_a_record_without_a_key_is_bad() -> None:
    with pytest.raises(BadRecord, match="no key"):
        decode(None, b"")


def test_an_array_that_claims_two_billion_items_is_refused_at_once() -> None:
    value = struct.pack(">h", 3) + offsets_encoder.string("consumer") + offsets_encoder.i32(1)
    value += offsets_encoder.string(None) * 2 + struct.pack(">q", 0) + offsets_encoder.i32(2**31 - 1)
    with pytest.raises(BadRecord, match="an array of 2147483647 items"):
        decode(b"\x00\x02\x00\x01g", value)


def test_a_varint_of_more_than_32_bits_is_refused() -> None:
    """ByteUtils.readUnsignedVarint."""
    with pytest.raises(BadRecord, match="more than 32 bits"):
        decode(b"\x00\x03\x00\x01g", b"\x00\x00" + b"\x00\x00\x00\x01" + b"\xff" * 5)


def test_an_assignment_that_only_clients_understand_spoils_nothing() -> None:
    assert classic_assignment(b"") == ()
    assert classic_assignment(b"\x00") is None
    assert classic_assignment(b"\xff\xff\x00\x00\x00\x00") is None


STATIC = Member(
    member_id="m-1", instance_id="orders-0", client_id="c", client_host="/127.0.0.1", session_timeout_ms=45000,
    rebalance_timeout_ms=300000, assignment=("orders-0", "orders-3"),
)  # fmt: skip


@pytest.mark.parametrize("version", [3, 4])
def test_classic_group_as_kafka_writes_it(version: int) -> None:
    """GroupMetadataValue; brokers still write 3, the highest that is not flexible."""
    assert decode(*VECTORS[f"GroupMetadataValue v{version}"]) == GroupRecord(
        kind=RecordKind.GROUP_METADATA, key_type=2, group_id="orders", group_type=GroupType.CLASSIC,
        value_version=version, epoch=7, protocol_type="consumer", protocol_name="range", leader_id="m-1",
        members=(STATIC,),
    )  # fmt: skip


@pytest.mark.parametrize("version", [0, 1, 2])
def test_classic_group_of_older_brokers(version: int) -> None:
    member = decode(*VECTORS[f"GroupMetadataValue v{version}"]).members[0]
    assert (member.instance_id, member.session_timeout_ms) == (None, 45000)
    assert member.rebalance_timeout_ms == (300000 if version else None)
    assert member.assignment == STATIC.assignment


def test_an_empty_classic_group() -> None:
    record = decode(*VECTORS["GroupMetadataValue v3 empty"])
    assert (record.epoch, record.members, record.leader_id) == (8, (), None)


@pytest.mark.parametrize(
    ("name", "epoch"),
    [
        ("ConsumerGroupMetadataValue", 11),
        ("ConsumerGroupTargetAssignmentMetadataValue", 11),
        ("StreamsGroupMetadataValue", 12),
        ("StreamsGroupTargetAssignmentMetadataValue", 12),
    ],
)
def test_epochs_with_all_their_tagged_fields(name: str, epoch: int) -> None:
    assert decode(*VECTORS[name]).epoch == epoch


@pytest.mark.parametrize(
    ("name", "session_timeout_ms"),
    [
        ("ConsumerGroupMemberMetadataValue", None),
        ("ConsumerGroupMemberMetadataValue classic", 45000),
        ("StreamsGroupMemberMetadataValue", None),
        ("StreamsGroupMemberMetadataValue endpoint", None),
    ],
)
def test_members_of_the_new_protocols(name: str, session_timeout_ms: int | None) -> None:
    """A nullable structure is null as 0 in a tagged field and as -1 elsewhere; 4.4 writes the null one."""
    assert decode(*VECTORS[name]).members == (
        Member(
            member_id="m-1", instance_id="orders-0", client_id="c", client_host="/h", rebalance_timeout_ms=300000,
            session_timeout_ms=session_timeout_ms,
        ),
    )  # fmt: skip


def test_assignments_of_the_new_protocols() -> None:
    mine = (f"{TOPIC_ID}-0", f"{TOPIC_ID}-1")
    target = decode(*VECTORS["ConsumerGroupTargetAssignmentMemberValue"]).members[0]
    assert target == Member(member_id="m-1", assignment=mine)
    current = decode(*VECTORS["ConsumerGroupCurrentMemberAssignmentValue"]).members[0]
    assert current == Member(member_id="m-1", member_epoch=-2, state=1, assignment=mine, pending_revocation=mine)
    streams = decode(*VECTORS["StreamsGroupTargetAssignmentMemberValue"]).members[0]
    assert streams.assignment == ("active:0_1", "active:0_2", "standby:1_0")
    running = decode(*VECTORS["StreamsGroupCurrentMemberAssignmentValue"]).members[0]
    assert running.assignment == ("active:1_0", "warmup:0_1", "warmup:0_2")
    assert (running.member_epoch, running.pending_revocation) == (12, ("active:0_1", "active:0_2"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("OffsetCommitValue v3", RecordKind.OFFSET_COMMIT),
        ("ConsumerGroupRegularExpressionValue", RecordKind.REGULAR_EXPRESSION),
        ("ShareGroupMemberMetadataValue", RecordKind.MEMBER),
    ],
)
def test_other_records_are_named_by_their_key(name: str, kind: RecordKind) -> None:
    record = decode(*VECTORS[name])
    assert (record.kind, record.group_id) == (kind, "orders")
