"""Rules of classic groups that Kafka's own tests pin and the catalogue of rows does not name: syncing to leaving.

GMMT is GroupMetadataManagerTest of Kafka 4.4, CGT is ClassicGroupTest; each docstring names the test it restates.
"""

from __future__ import annotations

import pytest

from conformance.answers import expect
from conformance.classic_bench import BOTH, GROUP, ClassicBench
from conformance.classic_groups import UNIDENTIFIED, errors, three_in_completing_rebalance, with_pending_member
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    HeartbeatRequest,
    LeaveGroupRequest,
    MemberIdentity,
)
from coordinator_model.base.records import Record, RecordType

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS


# syncing and beating ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name", "error"),
    [
        ("consumer", "range", NONE),
        (None, None, NONE),
        ("whatever", "range", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "whatever", ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_sync_names_the_protocol_only_when_it_succeeds(
    bench: ClassicBench, protocol_type: str | None, protocol_name: str | None, error: ErrorCode
) -> None:
    """GMMT.testSyncGroupReturnsAnErrorWhenProtocolTypeIsInconsistent, …NameIsInconsistent, …SucceedWhen…."""
    joins = [bench.join(name) for name in ("x", "y")]
    bench.advance(3_000)
    bench.advance(3_000)
    for join in joins:
        answer = bench.sync(join.joined.member_id, protocol_type=protocol_type, protocol_name=protocol_name)
        named = ("consumer", "range") if error is NONE else (None, None)
        assert (answer.error, answer.synced.protocol_type, answer.synced.protocol_name) == (error, *named)


def test_leader_may_leave_members_without_an_assignment(bench: ClassicBench) -> None:
    """GMMT.testSyncGroupEmptyAssignment: the group is stable all the same."""
    join = bench.join("x")
    bench.advance(3_000)
    answer = bench.sync(join.joined.member_id)
    assert (answer.error, answer.synced.assignment, bench.group.state) == (NONE, b"", "Stable")
    assert bench.heartbeat(join.joined.member_id, "x") is NONE


@pytest.mark.parametrize("silent", ["leader", "followers"])
def test_member_that_does_not_sync_is_removed_although_it_heartbeats(bench: ClassicBench, silent: str) -> None:
    """GMMT.testRebalanceTimesOutWhenSyncRequestIsNotReceivedFromLeaders, …FromFollowers (KAFKA-13419)."""
    leader_id, *followers = three_in_completing_rebalance(bench)
    bench.advance(2_500)
    assert [bench.heartbeat(m) for m in (leader_id, *followers)] == [NONE] * 3
    syncing = followers if silent == "leader" else [leader_id]
    syncs = [bench.sync(m) for m in syncing]
    bench.advance(2_500)
    assert bench.group.state == "PreparingRebalance"
    assert errors(syncs) == ([REBALANCING] * 2 if silent == "leader" else [NONE])
    errors_by_member = {m: bench.heartbeat(m, generation_id=1) for m in (leader_id, *followers)}
    assert errors_by_member == {m: REBALANCING if m in syncing else UNKNOWN for m in errors_by_member}


def test_no_member_is_removed_when_all_have_synced_in_time(bench: ClassicBench) -> None:
    """GMMT.testRebalanceDoesNotTimeOutWhenAllSyncAreReceived."""
    ids = three_in_completing_rebalance(bench)
    bench.advance(2_500)
    for member_id in reversed(ids):
        bench.sync(member_id)
    bench.advance(2_500)
    assert [bench.heartbeat(m) for m in ids] == [NONE] * 3
    assert bench.group.state == "Stable"


def test_heartbeat_in_every_state(bench: ClassicBench) -> None:
    """GMMT.testHeartbeatUnknownGroup, …DeadGroup, …EmptyGroup, …UnknownMemberExistingGroup, …DuringPreparingRebalance,
    …DuringCompletingRebalance, …IllegalGeneration, testValidHeartbeat."""
    absent = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
    assert bench.send(absent).error is UNKNOWN
    join = bench.join("x")
    member_id = next(iter(bench.group.members))
    assert bench.heartbeat(member_id, "x", 0) is REBALANCING
    bench.advance(3_000)
    assert bench.heartbeat(join.joined.member_id, "x", 1) is NONE
    bench.complete_round()
    assert bench.heartbeat(member_id, "x", 1) is NONE
    assert bench.heartbeat(member_id, "x", 2) is ErrorCode.ILLEGAL_GENERATION
    assert bench.heartbeat("made-up", None, 1) is UNKNOWN
    bench.group.transition_to("Dead", 0)
    assert bench.heartbeat(member_id, "x", 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_heartbeat_of_a_member_of_an_empty_group(bench: ClassicBench) -> None:
    """GMMT.testHeartbeatEmptyGroup: a member id that the group still has, in a group that is Empty."""
    (member_id,) = bench.stable("x")
    bench.group.transition_to("PreparingRebalance", 0)
    bench.group.transition_to("Empty", 0)
    assert bench.heartbeat(member_id, "x") is UNKNOWN


def test_duplicate_of_a_syncing_follower_outlives_a_leader_that_is_silent(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberFenceDuplicateSyncingFollowerAfterMemberIdChanged, to its end: two sessions are over.

    The duplicate's JoinGroup waits, which counts as being alive; the leader is out, and the round completes without it.
    """
    m1, m2 = bench.stable("x", "y", session_timeout_ms=6_000, rebalance_timeout_ms=10_000)
    leader = bench.join("x", m1, session_timeout_ms=6_000, rebalance_timeout_ms=10_000)
    follower = bench.join("y", m2, session_timeout_ms=6_000, rebalance_timeout_ms=10_000)
    assert errors([leader, follower]) == [NONE, NONE]
    parked = bench.sync(m2, instance_id="y")
    duplicate = bench.join("y", session_timeout_ms=6_000, rebalance_timeout_ms=10_000)
    assert (parked.error, duplicate.waits) == (ErrorCode.FENCED_INSTANCE_ID, True)
    bench.advance(5_999)
    assert (bench.group.state, len(bench.group.members)) == ("PreparingRebalance", 2)
    bench.advance(1)
    joined = duplicate.joined
    assert (bench.group.state, bench.group.generation_id) == ("CompletingRebalance", 3)
    assert (list(bench.group.members), joined.leader) == ([joined.member_id], joined.member_id)
    assert bench.group.static_members == {"y": joined.member_id}


def test_fenced_join_gets_nothing_of_the_group(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberFenceDuplicateRejoiningFollowerAfterMemberIdChanged:
    its own id, generation -1, no leader.
    """
    _, m2 = bench.stable("x", "y")
    bench.bounce("y")
    refused = bench.join("y", m2).joined
    assert (refused.error_code, refused.member_id, refused.generation_id) == (ErrorCode.FENCED_INSTANCE_ID, m2, -1)
    assert (refused.leader, refused.protocol_name, refused.protocol_type) == ("", None, None)
    assert (refused.members, refused.skip_assignment) == ((), False)


# leaving and going away ---------------------------------------------------------------------------------------------


def test_batch_of_joined_pending_and_unknown_members(bench: ClassicBench) -> None:
    """GMMT.testJoinedMemberPendingMemberBatchLeaveGroupWithUnknownMember: the waiting JoinGroups fail."""
    leader, follower, pending_id = with_pending_member(bench)
    leader_id, follower_id = bench.group.members
    answers = bench.leave((leader_id, None), (follower_id, None), (pending_id, None), ("made-up", None))
    assert answers == [NONE, NONE, NONE, UNKNOWN]
    assert errors([leader, follower]) == [UNKNOWN, UNKNOWN]
    assert (bench.group.state, bench.group.members, bench.group.pending_members) == ("Empty", {}, set())


@pytest.mark.parametrize("api_version", [0, 2, 3, 5])
def test_static_member_leaves_by_its_member_id_alone(bench: ClassicBench, api_version: int) -> None:
    """KIP-345, leave cases: without an instance id a static member goes like a dynamic one; before v3 there is none."""
    m1, m2 = bench.stable("x", "y")
    members = (MemberIdentity(member_id=m2, group_instance_id="x" if api_version < 3 else None),)
    answer = bench.send(LeaveGroupRequest(api_version=api_version, group_id=GROUP, members=members)).left
    assert answer.error_code is NONE
    assert [m.error_code for m in answer.members] == ([] if api_version < 3 else [NONE])
    assert (bench.group.static_members, list(bench.group.members)) == ({"x": m1}, [m1])


def test_unload_while_members_join(bench: ClassicBench) -> None:
    """GMMT.testClassicGroupOnUnloadedEmptyAndPreparingRebalance: NOT_COORDINATOR, with the member's id."""
    joins = [bench.join(api_version=UNIDENTIFIED) for _ in range(2)]
    group, ids = bench.group, list(bench.group.members)
    done = [completed.response for completed in bench.coordinator.unload(0).completed]
    assert [(answer.error_code, getattr(answer, "member_id", None)) for answer in done] == [
        (ErrorCode.NOT_COORDINATOR, member_id) for member_id in ids
    ]
    assert len(done) == len(joins)
    assert group.state == "Dead"


def test_unload_while_members_sync(bench: ClassicBench) -> None:
    """GMMT.testClassicGroupOnUnloadedCompletingRebalance: both followers get NOT_COORDINATOR, without assignment."""
    _, *followers = three_in_completing_rebalance(bench)
    group = bench.group
    assert all(bench.sync(m).waits for m in followers)
    done = [completed.response for completed in bench.coordinator.unload(0).completed]
    assert [(answer.error_code, getattr(answer, "assignment", None)) for answer in done] == [
        (ErrorCode.NOT_COORDINATOR, b"")
    ] * 2
    assert group.state == "Dead"
    assert len(bench.coordinator.timers) == 0


def test_only_an_empty_group_is_deleted(bench: ClassicBench) -> None:
    """CGT.testValidateDeleteGroup, GMMT.testClassicGroupMaybeDelete: one tombstone, and timers of it are gone."""

    def delete() -> ErrorCode:
        return expect(DeleteGroupsResponse, bench.send(DeleteGroupsRequest(group_ids=(GROUP,))).response).results[0][1]

    join = bench.join("x")
    assert delete() is ErrorCode.NON_EMPTY_GROUP
    bench.advance(3_000)
    assert delete() is ErrorCode.NON_EMPTY_GROUP
    bench.complete_round()
    assert delete() is ErrorCode.NON_EMPTY_GROUP
    assert bench.leave((join.joined.member_id, "x")) == [NONE]
    logged = len(bench.log)
    assert delete() is NONE
    assert bench.log[logged:] == [Record(RecordType.CLASSIC_GROUP_METADATA, (GROUP,), None)]
    assert bench.coordinator.timers.of_group(GROUP) == ()
    assert delete() is ErrorCode.GROUP_ID_NOT_FOUND


def test_new_generation_waits_for_every_sync_again(bench: ClassicBench) -> None:
    """CGT.testNewGenerationClearsPendingSyncMembers:
    pending syncs of the former generation become pending in the new one.
    """
    ids = three_in_completing_rebalance(bench)
    bench.sync(ids[1])
    assert bench.group.pending_sync_members == {ids[0], ids[2]}
    rejoins = [bench.join(member_id=m, protocols=BOTH, api_version=UNIDENTIFIED) for m in ids]
    assert errors(rejoins) == [NONE] * 3
    assert (bench.group.generation_id, bench.group.pending_sync_members) == (2, set(ids))
