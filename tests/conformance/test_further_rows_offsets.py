"""Who may commit and fetch offsets, and which of several commits counts, as Kafka's own tests pin it.

OMMT is OffsetMetadataManagerTest of Kafka 4.4, CGT is ConsumerGroupTest; each docstring names the test it restates.
"""

from __future__ import annotations

import pytest

from conformance.answers import answered, expect
from conformance.classic_bench import GROUP as CLASSIC_GROUP
from conformance.classic_bench import ClassicBench
from conformance.consumer_bench import GROUP, ConsumerBench, member
from conformance.streams_app import GROUP as STREAMS_GROUP
from conformance.streams_app import accepted, beat, coordinator, join
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberIdentity,
    Request,
    SyncGroupRequest,
)
from coordinator_model.base.offset_messages import (
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitRequest,
)
from coordinator_model.base.records import Record, RecordType
from coordinator_model.coordinator import GroupCoordinator
from coordinator_model.offsets import OffsetCommitValue

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
STALE, ILLEGAL = ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION
FOO = (("foo", 0, 100),)


def commit(
    broker: GroupCoordinator,
    group_id: str,
    member_id: str = "",
    epoch: int = -1,
    *,
    instance_id: str | None = None,
    api_version: int = 10,
    offsets: tuple[tuple[str, int, int], ...] = FOO,
) -> ErrorCode:
    """Send OffsetCommit; returns the error that its partitions share."""
    request = OffsetCommitRequest(
        api_version=api_version, group_id=group_id, member_id=member_id, generation_id_or_member_epoch=epoch,
        group_instance_id=instance_id, offsets=offsets,
    )
    return answered(broker.handle(request, 0).response).error_code


def commit_in_transaction(
    broker: GroupCoordinator,
    group_id: str,
    member_id: str = "",
    epoch: int = -1,
    *,
    producer_id: int = 5,
    api_version: int = 5,
    offsets: tuple[tuple[str, int, int], ...] = FOO,
) -> ErrorCode:
    """Send TxnOffsetCommit; returns the error that its partitions share."""
    request = TxnOffsetCommitRequest(
        api_version=api_version, group_id=group_id, producer_id=producer_id, member_id=member_id, generation_id=epoch,
        offsets=offsets,
    )
    return answered(broker.handle(request, 0).response).error_code


def fetched(broker: GroupCoordinator, group_id: str) -> tuple[tuple[str, int, int], ...]:
    answer = expect(OffsetFetchResponse, broker.handle(OffsetFetchRequest(group_id=group_id), 0).response)
    assert answer.error_code is NONE
    return answer.offsets


# classic groups -----------------------------------------------------------------------------------------------------


def test_commit_to_a_dead_group() -> None:
    """OMMT.testGenericGroupOffsetCommitWithDeadGroup."""
    bench = ClassicBench()
    bench.stable("x")
    bench.group.transition_to("Dead", 0)
    assert commit(bench.coordinator, CLASSIC_GROUP, "m", 10) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_commit_under_an_unknown_instance_id() -> None:
    """OMMT.testGenericGroupOffsetCommitWithUnknownInstanceId, …WithFencedInstanceId: the member id does not help."""
    bench = ClassicBench()
    (static_id,) = bench.stable("x")
    assert commit(bench.coordinator, CLASSIC_GROUP, static_id, 1, instance_id="y") is UNKNOWN
    dynamic = ClassicBench()
    joined = dynamic.join(api_version=3)
    dynamic.advance(3_000)
    dynamic.complete_round()
    assert commit(dynamic.coordinator, CLASSIC_GROUP, joined.joined.member_id, 1, instance_id="y") is UNKNOWN


def test_commit_of_an_unknown_member_or_of_another_generation() -> None:
    """OMMT.testGenericGroupOffsetCommitWithUnknownMemberId, …WithIllegalGeneration, …WithoutMemberIdAndGeneration."""
    bench = ClassicBench()
    (member_id,) = bench.stable("x")
    assert commit(bench.coordinator, CLASSIC_GROUP, "made-up", 1) is UNKNOWN
    assert commit(bench.coordinator, CLASSIC_GROUP, member_id, 10) is ILLEGAL
    assert commit(bench.coordinator, CLASSIC_GROUP) is UNKNOWN
    assert fetched(bench.coordinator, CLASSIC_GROUP) == ()


def test_commit_while_the_members_still_sync() -> None:
    """OMMT.testGenericGroupOffsetCommitWhileInCompletingRebalanceState: also of a member that is known and current."""
    bench = ClassicBench()
    joined = bench.join("x")
    bench.advance(3_000)
    answer = commit(bench.coordinator, CLASSIC_GROUP, joined.joined.member_id, 1)
    assert answer is ErrorCode.REBALANCE_IN_PROGRESS


def test_commit_without_group_management_ignores_the_instance_id() -> None:
    """OMMT.testSimpleGroupOffsetCommit, testSimpleGroupOffsetCommitWithInstanceId: the group is made for it."""
    broker = GroupCoordinator()
    assert commit(broker, CLASSIC_GROUP, instance_id="x") is NONE
    assert fetched(broker, CLASSIC_GROUP) == FOO


def test_fetch_from_a_dead_or_absent_group_finds_nothing() -> None:
    """OMMT.testGenericGroupFetchOffsetsWithDeadGroup, testFetchOffsetsWithUnknownGroup: -1 for what was asked."""
    bench = ClassicBench()
    (member_id,) = bench.stable("x")
    assert commit(bench.coordinator, CLASSIC_GROUP, member_id, 1) is NONE
    bench.group.transition_to("Dead", 0)
    for group_id in (CLASSIC_GROUP, "absent"):
        request = OffsetFetchRequest(group_id=group_id, partitions=(("foo", 0), ("bar", 0)))
        answer = expect(OffsetFetchResponse, bench.coordinator.handle(request, 0).response)
        assert (answer.error_code, answer.offsets) == (NONE, (("foo", 0, -1), ("bar", 0, -1)))
        assert fetched(bench.coordinator, group_id) == ()


@pytest.mark.parametrize(
    "request_",
    [
        JoinGroupRequest(group_id="", member_id="m"),
        SyncGroupRequest(group_id="", generation_id=1, member_id="m"),
        HeartbeatRequest(group_id="", generation_id=1, member_id="m"),
        LeaveGroupRequest(group_id="", members=(MemberIdentity(member_id="m"),)),
        TxnOffsetCommitRequest(group_id="", offsets=FOO),
    ],
    ids=lambda request_: type(request_).__name__,
)
def test_empty_group_id_is_no_group_id(request_: Request) -> None:
    """GroupCoordinatorServiceTest.testJoinGroupWithInvalidGroupId, testSyncGroupInvalidGroupId and their like: a member
    id comes back.
    """
    broker = GroupCoordinator()
    answer = answered(broker.handle(request_, 0).response)
    assert answer.error_code is ErrorCode.INVALID_GROUP_ID
    assert getattr(answer, "member_id", "m") == "m"
    assert broker.groups == {}


def test_empty_group_id_may_hold_offsets() -> None:
    """GroupCoordinatorService.commitOffsets, fetchOffsets, deleteGroups: kept for clients of old."""
    broker = GroupCoordinator()
    assert commit(broker, "") is NONE
    assert fetched(broker, "") == FOO
    deleted = expect(DeleteGroupsResponse, broker.handle(DeleteGroupsRequest(group_ids=("",)), 0).response)
    assert deleted.results == (("", NONE),)
    assert fetched(broker, "") == ()


# KIP-848 and streams groups -----------------------------------------------------------------------------------------


def test_consumer_member_commits_in_its_epoch_only() -> None:
    """OMMT.testConsumerGroupOffsetCommit, …WithUnknownMemberId, …WithStaleMemberEpoch; CGT.testValidateOffsetCommit."""
    bench = ConsumerBench()
    bench.given(member("m1", "x", (("foo", (1,)),)))
    assert commit(bench.coordinator, GROUP, "m1", 10) is NONE
    assert [commit(bench.coordinator, GROUP, "m1", epoch) for epoch in (9, 11)] == [STALE, STALE]
    assert commit(bench.coordinator, GROUP, "m1", 10, api_version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(bench.coordinator, GROUP, "made-up", 10) is UNKNOWN
    assert commit(bench.coordinator, GROUP) is UNKNOWN


def test_classic_member_of_a_consumer_group_hears_the_classic_error() -> None:
    """OMMT.testConsumerGroupOffsetCommitWithIllegalGenerationId,
    testConsumerGroupOffsetFetchWithIllegalGenerationId, CGT.testValidateOffsetCommitWithClassicProtocolMember.
    """
    bench = ConsumerBench()
    bench.given(member("m1", "x", classic=True))
    assert [commit(bench.coordinator, GROUP, "m1", epoch) for epoch in (9, 11)] == [ILLEGAL, ILLEGAL]
    assert [commit(bench.coordinator, GROUP, "m1", 10, api_version=version) for version in (2, 8)] == [NONE, NONE]
    fetch = OffsetFetchRequest(group_id=GROUP, member_id="m1", member_epoch=9)
    assert answered(bench.coordinator.handle(fetch, 0).response).error_code is ILLEGAL


def test_tools_commit_to_an_empty_consumer_group() -> None:
    """OMMT.testConsumerGroupOffsetCommitFromAdminClient: by the epoch -1, once the last member is gone."""
    bench = ConsumerBench()
    bench.given(member("m1", "x"))
    assert bench.leave(("m1", "x")) == [NONE]
    assert commit(bench.coordinator, GROUP) is NONE
    assert fetched(bench.coordinator, GROUP) == FOO


@pytest.mark.parametrize("revoking", [False, True])
@pytest.mark.parametrize(("epoch", "error"), [(11, STALE), (10, NONE), (7, NONE), (6, STALE)])
def test_older_epoch_is_good_for_what_was_held_since(revoking: bool, epoch: int, error: ErrorCode) -> None:
    """CGT.testValidateOffsetCommitWithEpochValidation, …WithUnassignedTopicOrPartition (KIP-1251).

    The member at epoch 10 got foo-0 in epoch 7; it never had foo-1 or bar-0.
    """
    bench = ConsumerBench()
    held = member("m1", "x", epoch=7, holds=(("foo", (0,)),)).current.assigned
    now = member("m1", "x")
    bench.given(now)
    current = now.current
    value = type(current)(10, 9, current.state, {} if revoking else held, held if revoking else {})
    bench.coordinator.replay([Record(RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, (GROUP, "m1"), value)])
    assert commit(bench.coordinator, GROUP, "m1", epoch) is error
    assert commit_in_transaction(bench.coordinator, GROUP, "m1", epoch, api_version=6) is error
    for elsewhere in (("foo", 1, 1), ("bar", 0, 1)):
        answer = commit(bench.coordinator, GROUP, "m1", epoch, offsets=(*FOO, elsewhere))
        assert answer is (NONE if epoch == 10 else STALE)


def test_away_member_cannot_commit_in_its_former_epoch() -> None:
    """GroupMetadataManager.consumerGroupStaticMemberGroupLeave:
    at -2 every epoch that a process could name is stale.
    """
    bench = ConsumerBench()
    bench.given(member("m1", "x", (("foo", (0,)),)))
    bench.beat("m1", -2, "x")
    assert commit(bench.coordinator, GROUP, "m1", 10, instance_id="x") is STALE
    back = bench.join("m2", "x")
    assert commit(bench.coordinator, GROUP, "m1", 10, instance_id="x") is UNKNOWN
    assert commit(bench.coordinator, GROUP, "m2", back.member_epoch, instance_id="x") is NONE


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"), [("m1", 10, NONE), ("m1", 9, STALE), ("made-up", 10, UNKNOWN)]
)
def test_fetch_that_names_a_member(member_id: str, epoch: int, error: ErrorCode) -> None:
    """OMMT.testConsumerGroupOffsetFetchWithMemberIdAndEpoch, …WithUnknownMemberId, …WithStaleMemberEpoch;
    CGT.testValidateOffsetFetch.
    """
    bench = ConsumerBench()
    bench.given(member("m1", "x"))
    request = OffsetFetchRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch)
    assert answered(bench.coordinator.handle(request, 0).response).error_code is error


def test_streams_member_commits_in_an_older_epoch_if_it_has_had_the_task_since() -> None:
    """OMMT.testStreamsGroupOffsetCommitWithAssignmentEpochValid, …Stale, …WithStaleMemberEpoch,
    …WithUnknownMemberId.
    """
    broker = coordinator(partitions=2)
    first = accepted(broker.handle(join("m1", "X"), 0))
    accepted(broker.handle(join("m2", "Y", process_id="other"), 1))
    accepted(broker.handle(beat("m1", first.member_epoch, "X", (("subtopology1", (0, 1)),)), 2))
    later = accepted(broker.handle(beat("m1", first.member_epoch, "X", (("subtopology1", (0,)),)), 3))
    assert later.member_epoch > first.member_epoch
    assert commit(broker, STREAMS_GROUP, "m1", later.member_epoch) is NONE
    assert commit(broker, STREAMS_GROUP, "m1", first.member_epoch) is NONE
    assert commit(broker, STREAMS_GROUP, "m1", first.member_epoch - 1) is STALE
    assert commit(broker, STREAMS_GROUP, "m1", later.member_epoch + 1) is STALE
    assert commit(broker, STREAMS_GROUP, "m1", first.member_epoch, offsets=(("foo", 1, 1),)) is STALE
    assert commit(broker, STREAMS_GROUP, "made-up", later.member_epoch) is UNKNOWN


# transactions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("api_version", "error"), [(5, ILLEGAL), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_transactional_commit_to_an_absent_group(api_version: int, error: ErrorCode) -> None:
    """OMMT.testTransactionalOffsetCommitWithUnknownGroupId: the true error came with version 6 (KIP-1319)."""
    assert commit_in_transaction(GroupCoordinator(), GROUP, "m", 10, api_version=api_version) is error


@pytest.mark.parametrize(("api_version", "error"), [(5, ILLEGAL), (6, STALE)])
def test_transactional_commit_of_a_stale_member(api_version: int, error: ErrorCode) -> None:
    """OMMT.testConsumerGroupTransactionalOffsetCommitWithStaleMemberEpoch, …WithUnknownMemberId;
    CGT.testValidateTransactionalOffsetCommit: member and epoch may be left out, not given wrong.
    """
    bench = ConsumerBench()
    bench.given(member("m1", "x"))
    answers = [
        commit_in_transaction(bench.coordinator, GROUP, "m1", epoch, api_version=api_version) for epoch in (9, 11)
    ]
    assert answers == [error, error]
    for member_id, epoch in (("", -1), ("m1", 10)):
        assert commit_in_transaction(bench.coordinator, GROUP, member_id, epoch, api_version=api_version) is NONE
    assert commit_in_transaction(bench.coordinator, GROUP, "made-up", 10, api_version=api_version) is UNKNOWN


def reloaded(log: list[Record]) -> GroupCoordinator:
    broker = GroupCoordinator()
    broker.replay(log)
    return broker


def logged(producer_id: int | None, offset: int) -> Record:
    return Record(RecordType.OFFSET_COMMIT, (GROUP, "foo", 0), OffsetCommitValue(offset, producer_id))


def test_last_written_commit_counts_whenever_its_transaction_ended() -> None:
    """OMMT.testReplayTransactionEndMarkerKeepsTheMostRecentCommittedOffset, …WithCommit; and after a fail-over."""
    log = [logged(5, 100), logged(None, 101), logged(6, 102), logged(7, 103)]
    broker = reloaded(log)
    for producer_id, offset in ((5, 101), (7, 103), (6, 103)):
        log += broker.end_transaction(producer_id, 0, committed=True).records
        assert fetched(broker, GROUP) == (("foo", 0, offset),)
        assert fetched(reloaded(log), GROUP) == (("foo", 0, offset),)
    assert not any(broker.pending_offsets.values())


def test_aborted_offsets_never_count() -> None:
    """OffsetMetadataManager.replayEndTransactionMarker, ABORT: nor by the next transaction after a fail-over."""
    log = [logged(5, 100)]
    log += reloaded(log).end_transaction(5, 0, committed=False).records
    broker = reloaded(log)
    broker.end_transaction(5, 0, committed=True)
    assert fetched(broker, GROUP) == ()


def test_deleted_offsets_take_the_pending_ones_along() -> None:
    """OMMT.testReplayWithTombstoneAndPendingTransactionalOffsets, testDeleteGroupAllOffsetsWithPending…."""
    broker = reloaded([logged(None, 100), logged(5, 101), logged(6, 102)])
    result = broker.handle(DeleteGroupsRequest(group_ids=(GROUP,)), 0)
    assert Record(RecordType.OFFSET_COMMIT, (GROUP, "foo", 0), None) in result.records
    for producer_id in (5, 6):
        broker.end_transaction(producer_id, 0, committed=True)
    assert fetched(broker, GROUP) == ()
