"""Rules of KIP-848 groups that Kafka's own tests pin and the catalogue of rows does not name: types, log, ownership.

GMMT is GroupMetadataManagerTest of Kafka 4.4, CGT is ConsumerGroupTest; each docstring names the test it restates.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.answers import answered
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    Request,
    SyncGroupRequest,
)
from coordinator_model.base.records import Record, RecordType
from coordinator_model.consumer.group import ConsumerGroup, ResolvedRegex
from coordinator_model.consumer.member import CurrentAssignment, MemberState, with_epoch
from coordinator_model.consumer.records import GroupMetadataValue, TargetMetadataValue
from coordinator_model.coordinator import GroupCoordinator
from coordinator_model.share.messages import ShareGroupHeartbeatRequest
from coordinator_model.streams.messages import StreamsGroupHeartbeatRequest

from .consumer_bench import (
    CURRENT,
    EPOCH,
    FIRST,
    GROUP,
    MEMBER,
    REGEX,
    SECOND,
    TARGET,
    TARGET_EPOCH,
    ConsumerBench,
    member,
)
from .streams_app import join as streams_join

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
NOT_FOUND, INCONSISTENT = ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# other types of group -----------------------------------------------------------------------------------------------


def group_of(kind: str) -> GroupCoordinator:
    bench = ConsumerBench()
    if kind == "share":
        join = ShareGroupHeartbeatRequest(group_id=GROUP, member_id="m1", subscribed_topic_names=("foo",))
        bench.send(join)
    elif kind == "streams":
        bench.send(streams_join("m1", group_id=GROUP))
    else:
        bench.given(member("m1", None, FIRST))
    assert bench.coordinator.groups[GROUP].group_type == kind
    return bench.coordinator


def consumer_heartbeat(epoch: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="m1", member_epoch=epoch, rebalance_timeout_ms=5_000, subscribed_topic_names=("foo",),
        topic_partitions=(),
    )


def share_heartbeat(epoch: int) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id="m1", member_epoch=epoch, subscribed_topic_names=("foo",)
    )


def streams_heartbeat(epoch: int) -> StreamsGroupHeartbeatRequest:
    return streams_join("m1", group_id=GROUP, member_epoch=epoch)


JOIN = JoinGroupRequest(group_id=GROUP, group_instance_id="x")
SYNC = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="m1")
BEAT = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m1")


@pytest.mark.parametrize(
    ("kind", "request_", "error"),
    [
        ("share", consumer_heartbeat(0), NOT_FOUND),
        ("share", streams_heartbeat(0), NOT_FOUND),
        ("share", JOIN, INCONSISTENT),
        ("share", SYNC, UNKNOWN),
        ("share", BEAT, UNKNOWN),
        ("streams", consumer_heartbeat(0), NOT_FOUND),
        ("streams", share_heartbeat(0), NOT_FOUND),
        ("streams", JOIN, INCONSISTENT),
        ("streams", SYNC, UNKNOWN),
        ("streams", BEAT, UNKNOWN),
        ("consumer", streams_heartbeat(0), NOT_FOUND),
        ("consumer", share_heartbeat(0), NOT_FOUND),
    ],
)
def test_request_of_another_protocol(kind: str, request_: Request, error: ErrorCode) -> None:
    """GMMT.testConsumerGroupHeartbeatOnShareGroup, testClassicGroupJoinOnStreamsGroup and their ten like."""
    broker = group_of(kind)
    result = broker.handle(request_, 2_000)
    assert result.response is not None
    assert (result.response.error_code, result.records, result.timers) == (error, (), ())
    assert list(broker.groups[GROUP].members) == ["m1"]


@pytest.mark.parametrize("kind", ["share", "streams", None])
def test_describe_of_what_is_no_consumer_group(kind: str | None) -> None:
    """GMMT.testConsumerGroupDescribeOnShareGroup, …OnStreamsGroup, testConsumerGroupDescribeWithErrors."""
    broker = group_of(kind) if kind else GroupCoordinator()
    answer = broker.handle(ConsumerGroupDescribeRequest(group_ids=(GROUP, "")), 2_000).response
    assert isinstance(answer, ConsumerGroupDescribeResponse)
    assert [group.error_code for group in answer.groups] == [NOT_FOUND, ErrorCode.INVALID_GROUP_ID]
    reason = f"Group {GROUP} is not a consumer group." if kind else f"Group {GROUP} not found."
    assert answer.groups[0].error_message == reason


# the log ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "record",
    [
        Record(EPOCH, (GROUP,), None),
        Record(RecordType.CONSUMER_GROUP_PARTITION_METADATA, (GROUP,), None),
        Record(MEMBER, (GROUP, "m9"), None),
        Record(TARGET_EPOCH, (GROUP,), None),
        Record(TARGET, (GROUP, "m9"), None),
        Record(CURRENT, (GROUP, "m9"), None),
        Record(REGEX, (GROUP, "abc*"), None),
    ],
)
def test_tombstone_of_what_is_not_there(record: Record) -> None:
    """GMMT.testReplayConsumerGroup…Tombstone: neither a group nor a member is made by it."""
    broker = GroupCoordinator()
    broker.replay([record])
    assert broker.groups == {}
    broker = GroupCoordinator()
    others = [Record(EPOCH, ("other",), GroupMetadataValue(10, 0)), replace(record, key=("other", *record.key[1:]))]
    if record.record_type is not EPOCH:
        broker.replay(others)
        assert (broker.groups["other"].group_epoch, broker.groups["other"].members) == (10, {})


def test_tombstone_of_the_target_resets_epoch_and_time() -> None:
    """GMMT.testReplayConsumerGroupTargetAssignmentMetadata, …TombstoneExisting; the group is made by the record."""
    broker = GroupCoordinator()
    broker.replay([Record(TARGET_EPOCH, (GROUP,), TargetMetadataValue(10, 12_345))])
    group = broker.groups[GROUP]
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (10, 12_345)
    broker.replay([Record(TARGET_EPOCH, (GROUP,), None)])
    assert (group.assignment_epoch, group.assignment_timestamp_ms) == (-1, 0)


def test_resolved_expression_comes_back_from_the_log_and_goes_with_its_tombstone() -> None:
    """GMMT.testReplayConsumerGroupRegularExpression, …Tombstone."""
    broker = GroupCoordinator()
    resolved = ResolvedRegex(("abc", "abcd"), 12_345)
    broker.replay([Record(REGEX, (GROUP, "abc*"), resolved)])
    assert broker.groups[GROUP].regexes == {"abc*": resolved}
    broker.replay([Record(REGEX, (GROUP, "abc*"), None)])
    assert broker.groups[GROUP].regexes == {}


def test_partition_that_lost_its_unassignment_to_compaction() -> None:
    """GMMT.testReplayConsumerGroupCurrentMemberAssignmentUnownedTopicWithCompaction: a's old claim to foo-0 is void."""
    broker = GroupCoordinator()

    def now(member_id: str, epoch: int, *held: tuple[str, int]) -> Record:
        value = CurrentAssignment(epoch, epoch - 1, MemberState.STABLE, with_epoch(held, epoch))
        return Record(CURRENT, (GROUP, member_id), value)

    broker.replay([now("a", 11, ("foo", 0)), now("b", 12, ("foo", 0)), now("b", 13), now("a", 14, ("bar", 0))])
    group = broker.groups[GROUP]
    assert (group.owner_epoch(("foo", 0)), group.owner_epoch(("bar", 0))) == (-1, 14)


# the group ----------------------------------------------------------------------------------------------------------


def holder(member_id: str, epoch: int, *held: tuple[str, int], pending: tuple[tuple[str, int], ...] = ()) -> Record:
    value = CurrentAssignment(epoch, epoch - 1, MemberState.STABLE, with_epoch(held, 5), with_epoch(pending, 5))
    return Record(CURRENT, (GROUP, member_id), value)


def test_owner_of_a_partition_is_its_claimer_in_the_highest_epoch() -> None:
    """CGT.testUpdatingMemberUpdatesPartitionEpochWhenPartitionIsNotReleased, testAddPartitionEpochs."""
    broker = GroupCoordinator()
    broker.replay([holder("m1", 10, ("foo", 1)), holder("m2", 11, ("foo", 1))])
    assert broker.groups[GROUP].owner_epoch(("foo", 1)) == 11
    with pytest.raises(AssertionError, match="still owned at epoch 11"):
        broker.replay([holder("m3", 10, ("foo", 1))])


def test_partition_may_be_given_back_to_the_member_that_was_to_revoke_it() -> None:
    """CGT.testUpdatingMemberUpdatesPartitionEpochWhenPartitionIsReassignedBeforeBeingRevoked."""
    broker = GroupCoordinator()
    broker.replay([holder("m1", 10, pending=(("foo", 1),))])
    assert broker.groups[GROUP].owner_epoch(("foo", 1)) == 10
    broker.replay([holder("m1", 11, ("foo", 1))])
    assert broker.groups[GROUP].owner_epoch(("foo", 1)) == 11


def test_removal_of_an_older_claim_leaves_the_newer_one() -> None:
    """CGT.testRemovePartitionEpochs, testDeletingMemberRemovesPartitionEpoch."""
    broker = GroupCoordinator()
    broker.replay([holder("m1", 10, ("foo", 1)), holder("m2", 11, ("foo", 1)), Record(MEMBER, (GROUP, "m1"), None)])
    assert broker.groups[GROUP].owner_epoch(("foo", 1)) == 11
    broker.replay([Record(MEMBER, (GROUP, "m2"), None)])
    assert broker.groups[GROUP].owner_epoch(("foo", 1)) == -1


def test_member_waits_for_a_partition_that_another_has_not_revoked() -> None:
    """CGT.testWaitingOnUnreleasedPartition: what the member itself holds or gives up is nothing to wait for."""
    group = ConsumerGroup(GROUP, 0)
    group.targets["m1"] = (("foo", (1, 2, 3)), ("zar", (7, 8, 9)))
    first = member("m1", None, (("foo", (1, 2, 3)),), pending=(("bar", (4, 5, 6)),))
    group.put_member(first)
    assert not group.waits_for_unreleased(first)
    group.put_member(member("m2", pending=(("zar", (7,)),)))
    assert group.waits_for_unreleased(first)


def test_tombstones_of_a_group_name_the_replacement_instead_of_the_replaced() -> None:
    """CGT.testCreateGroupTombstoneRecordsWithReplacedMember."""
    bench = ConsumerBench()
    bench.given(member("m1", None, FIRST), member("m2", "y", SECOND), member("m3", regex="foo*"))
    resolved = Record(REGEX, (GROUP, "foo*"), ResolvedRegex(("foo", "fooo"), 12_345))
    bench.coordinator.replay([resolved])
    records = bench.group.tombstones(("m3", "m4"))
    assert [record.value for record in records] == [None] * len(records)
    by_type = {kind: [r.key[1:] for r in records if r.record_type is kind] for kind in RecordType}
    all_members = [("m1",), ("m2",), ("m4",)]
    assert [by_type[kind] for kind in (CURRENT, TARGET, MEMBER)] == [all_members] * 3
    assert by_type[REGEX] == [("foo*",)]
    assert [by_type[kind] for kind in (TARGET_EPOCH, RecordType.CONSUMER_GROUP_PARTITION_METADATA, EPOCH)] == [[()]] * 3


def test_instance_id_is_free_once_its_member_is_removed(pair: ConsumerBench) -> None:
    """CGT.testRemoveStaticMember, testNoStaticMember, testGetStaticMemberByInstanceId."""
    assert answered(pair.group.static_member("x")).member_id == "m1"
    assert pair.group.static_member("z") is None
    pair.leave(("", "x"))
    assert pair.group.static_member("x") is None
    assert pair.join("m9", "x", assignor="range").error_code is NONE
