"""The coordinator's log: groups that change their type, writes that are refused, timers."""

from __future__ import annotations

from dataclasses import replace

from conformance.classic_bench import GROUP, ClassicBench
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import (
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberIdentity,
)
from coordinator_model.base.offset_messages import OffsetCommitRequest, OffsetFetchRequest, TxnOffsetCommitRequest
from coordinator_model.classic.group import ClassicGroup
from coordinator_model.classic.member import GroupMetadata
from coordinator_model.coordinator import TIMER_RETRY_MS, GroupCoordinator
from coordinator_model.streams.messages import StreamsGroupHeartbeatRequest, Subtopology, Topology

from .coordinator_bench import NONE, UNKNOWN, commit, fetch, join_consumer_group


def join_streams_group(bench: ClassicBench) -> None:
    bench.coordinator.image = TopicImage({"t": 1})
    joined = StreamsGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", process_id="p", rebalance_timeout_ms=1_000,
        topology=Topology(0, (Subtopology("s", ("t",)),)), active_tasks=(), standby_tasks=(), warmup_tasks=(),
    )
    assert bench.send(joined).error is NONE


def test_streams_group_becomes_classic_only_when_it_is_empty(bench: ClassicBench) -> None:
    """GMM.classicGroupJoin: INCONSISTENT_GROUP_PROTOCOL while it has members."""
    join_streams_group(bench)
    assert bench.join("x").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.send(StreamsGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=-1)).error is NONE
    assert bench.join("x").waits
    bench.fail_over()
    assert isinstance(bench.coordinator.groups[GROUP], ClassicGroup)


def test_known_member_id_finds_no_member_in_an_empty_consumer_group(bench: ClassicBench) -> None:
    """GMM.classicGroupJoinToClassicGroup: the group is forgotten, but its tombstones are not written."""
    join_consumer_group(bench, GROUP)
    bench.send(ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=-1))
    logged = len(bench.log)
    assert bench.join("x", "made-up").error is UNKNOWN
    assert (GROUP in bench.coordinator.groups, len(bench.log)) == (False, logged)
    bench.fail_over()
    assert bench.coordinator.groups[GROUP].group_type == "consumer"


def test_streams_group_fences_commits(bench: ClassicBench) -> None:
    """StreamsGroup.validateOffsetCommit and validateOffsetFetch."""
    join_streams_group(bench)
    epoch = bench.coordinator.groups[GROUP].members["m"].current.member_epoch
    assert commit(bench, "m", None, epoch) is NONE
    assert commit(bench, "m", None, epoch, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(bench, "n", None, epoch) is UNKNOWN
    assert commit(bench, "m", None, epoch + 1) is ErrorCode.STALE_MEMBER_EPOCH
    txn = TxnOffsetCommitRequest(group_id=GROUP, generation_id=epoch + 1, member_id="m", offsets=(("t", 0, 1),))
    assert bench.send(txn).error is ErrorCode.ILLEGAL_GENERATION, "the only error that older versions know"
    assert bench.send(replace(txn, api_version=6)).error is ErrorCode.STALE_MEMBER_EPOCH
    absent = replace(txn, group_id="nowhere")
    assert bench.send(absent).error is ErrorCode.ILLEGAL_GENERATION
    assert bench.send(replace(absent, api_version=6)).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.send(TxnOffsetCommitRequest(group_id=GROUP, offsets=(("t", 0, 1),))).error is NONE
    assert fetch(bench) == (("t", 0, 42),)
    stale = OffsetFetchRequest(group_id=GROUP, member_id="m", member_epoch=epoch + 1)
    assert bench.send(stale).error is ErrorCode.STALE_MEMBER_EPOCH


def test_refused_append_undoes_the_step_of_a_consumer_group(bench: ClassicBench) -> None:
    """CoordinatorRuntime: state made of records goes back to what the log has."""
    join_consumer_group(bench, GROUP)
    before = len(bench.log)
    bench.coordinator.write_error = ErrorCode.NOT_ENOUGH_REPLICAS
    joiner = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="n", rebalance_timeout_ms=5_000, subscribed_topic_names=("t",), topic_partitions=()
    )
    assert bench.send(joiner).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(bench.coordinator.groups[GROUP].members) == ["m"]
    assert commit_to(bench, "loner") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "loner" not in bench.coordinator.groups
    assert len(bench.log) == before
    bench.coordinator.write_error = None
    assert bench.send(joiner).error is NONE


def commit_to(bench: ClassicBench, group_id: str) -> ErrorCode:
    return bench.send(OffsetCommitRequest(group_id=group_id, offsets=(("t", 0, 1),))).error


def test_expiry_that_is_not_stored_is_tried_again(bench: ClassicBench) -> None:
    """CoordinatorTimerImpl: modern groups' timers retry after 500 ms; classic ones do not need the log."""
    join_consumer_group(bench, GROUP)
    bench.coordinator.write_error = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.advance(45_000)
    assert list(bench.coordinator.groups[GROUP].members) == ["m"]
    bench.coordinator.write_error = None
    bench.advance(TIMER_RETRY_MS - 1)
    assert list(bench.coordinator.groups[GROUP].members) == ["m"]
    bench.advance(1)
    assert bench.coordinator.groups[GROUP].is_empty


def test_leave_that_is_not_stored_has_ended_the_session(bench: ClassicBench) -> None:
    """GMM.cancelTimers: called while the records are made, and a failed append brings back records, not timers."""
    join_consumer_group(bench, GROUP)
    bench.coordinator.write_error = ErrorCode.NOT_ENOUGH_REPLICAS
    leave = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id="m"),))
    assert bench.send(leave).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.coordinator.write_error = None
    bench.advance(1_000_000)
    assert list(bench.coordinator.groups[GROUP].members) == ["m"]
    assert bench.send(leave).error is NONE
    assert bench.coordinator.groups[GROUP].is_empty


def test_classic_expiry_does_not_wait_for_the_log(bench: ClassicBench) -> None:
    """GMM.completeClassicGroupJoin: the failed empty record is only warned about."""
    bench.stable("x", session_timeout_ms=6_000)
    logged = len(bench.log)
    bench.coordinator.write_error = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.advance(6_000)
    assert (bench.group.state, len(bench.log)) == ("Empty", logged)


def test_default_ids_repeat_and_given_ones_are_used() -> None:
    request = JoinGroupRequest(group_id=GROUP, group_instance_id="x")
    for _ in range(2):
        coordinator = GroupCoordinator()
        coordinator.handle(request, 0)
        assert list(coordinator.groups[GROUP].members) == ["x-00000001"]
    coordinator = GroupCoordinator(new_uuid=lambda: "abc", image=TopicImage({"t": 1}))
    coordinator.handle(request, 0)
    assert list(coordinator.groups[GROUP].members) == ["x-abc"]


def test_timers_fire_at_their_own_deadlines(bench: ClassicBench) -> None:
    """However late `expire` is called, time in between is not lost: the delay is over at 3 s, the session at 9 s."""
    bench.join("x", session_timeout_ms=6_000, rebalance_timeout_ms=60_000)
    bench.advance(1_000_000)
    assert isinstance(bench.log[-1].value, GroupMetadata)
    assert bench.log[-1].value.current_state_timestamp_ms == 9_000
    assert bench.group.generation_id == 2
