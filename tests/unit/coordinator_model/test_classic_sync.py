"""SyncGroup and Heartbeat of classic groups. GMMT is Kafka's GroupMetadataManagerTest."""

from __future__ import annotations

from conformance.classic_bench import BOTH, GROUP, ClassicBench
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import SyncGroupRequest

from .dynamic_members import ILLEGAL, NONE, REBALANCING, UNKNOWN, dynamic_members

# SyncGroup ------------------------------------------------------------------------------------------------------------


def test_sync_of_a_follower_before_and_after_the_leader(bench: ClassicBench) -> None:
    """GMMT.testSyncGroupFollowerAfterLeader and testSyncGroupLeaderAfterFollower."""
    m1, m2, m3 = dynamic_members(bench, 3)
    before = bench.sync(m2)
    assert before.waits
    leader = bench.sync(m1, assign=[m1, m2])
    assert leader.synced.assignment == f"assigned-{m1}".encode()
    assert before.synced.assignment == f"assigned-{m2}".encode()
    assert bench.sync(m3).synced.assignment == b""
    assert bench.group.state == "Stable"
    assert bench.sync(m2).synced.assignment == f"assigned-{m2}".encode()
    assert (leader.synced.protocol_type, leader.synced.protocol_name) == ("consumer", "range")


def test_sync_refusals(bench: ClassicBench) -> None:
    """GMMT.testSyncGroupFromUnknownGroup, …UnknownMember, …IllegalGeneration."""
    nowhere = SyncGroupRequest(group_id="nowhere", generation_id=1, member_id="m")
    assert bench.send(nowhere).error is UNKNOWN
    m1, _ = dynamic_members(bench, 2)
    unknown, late = bench.sync("made-up"), bench.sync(m1, generation_id=2)
    assert (unknown.error, unknown.synced.assignment) == (UNKNOWN, b"")
    assert (late.error, late.synced.assignment) == (ILLEGAL, b"")
    bench.complete_round()
    bench.join(None, m1)
    assert bench.sync(m1).error is REBALANCING
    bench.group.transition_to("Dead", 0)
    assert bench.sync(m1).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_sync_on_an_empty_group(bench: ClassicBench) -> None:
    """GMM.classicGroupSync."""
    (m1,) = bench.stable("x")
    bench.leave((m1, "x"))
    assert bench.sync(m1).error is UNKNOWN


def test_assignment_that_is_not_stored_fails_every_sync(bench: ClassicBench) -> None:
    """GMMT.testSyncGroupAsLeaderAppendFailureTransformsError: a rebalance follows."""
    m1, m2 = dynamic_members(bench, 2)
    parked = bench.sync(m2)
    bench.coordinator.write_error = ErrorCode.MESSAGE_TOO_LARGE
    leader = bench.sync(m1, assign=[m1, m2])
    assert (leader.error, parked.error) == (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR)
    assert bench.group.state == "PreparingRebalance"


def test_leader_that_dies_before_its_sync_is_replaced(bench: ClassicBench) -> None:
    """GMMT.testLeaderFailureInSyncGroup."""
    m1, m2 = bench.stable("x", "y", session_timeout_ms=6_000)
    bench.join("x", m1, session_timeout_ms=6_000)
    bench.join("y", m2, session_timeout_ms=6_000)
    parked = bench.sync(m2, instance_id="y")
    bench.advance(6_000)
    assert parked.error is REBALANCING
    again = bench.join("y", m2, session_timeout_ms=6_000)
    assert (again.joined.generation_id, again.joined.leader) == (3, m2)


def test_waiting_sync_keeps_a_member_alive_and_its_answer_starts_the_session_again(bench: ClassicBench) -> None:
    """ClassicGroupMember.hasSatisfiedHeartbeat; GMM.propagateAssignment: an expiry in between was ignored."""
    m1, m2 = dynamic_members(bench, 2, session_timeout_ms=6_000, rebalance_timeout_ms=60_000)
    parked = bench.sync(m2)
    for _ in range(4):
        bench.advance(3_000)
        assert bench.heartbeat(m1) is NONE
    assert parked.waits
    bench.sync(m1, assign=[m1, m2])
    assert parked.synced.assignment == f"assigned-{m2}".encode()
    bench.advance(5_999)
    assert set(bench.group.members) == {m1, m2}
    bench.advance(1)
    assert bench.group.members == {}


def test_next_rebalance_ends_the_wait_for_syncs(bench: ClassicBench) -> None:
    """GMM.removeSyncExpiration."""
    m1, _ = dynamic_members(bench, 2)
    assert bench.coordinator.timers.deadline_ms(("classic-sync", GROUP)) is not None
    bench.join(None, m1, protocols=BOTH)
    assert bench.group.state == "PreparingRebalance"
    assert bench.coordinator.timers.deadline_ms(("classic-sync", GROUP)) is None
    assert not bench.group.pending_sync_members


def test_members_that_send_no_sync_are_removed(bench: ClassicBench) -> None:
    """GMMT.testRebalanceTimesOutWhenSyncRequestIsNotReceived (KAFKA-13419)."""
    ids = dynamic_members(bench, 3, session_timeout_ms=6_000, rebalance_timeout_ms=5_000)
    bench.advance(2_500)
    assert [bench.heartbeat(m) for m in ids] == [NONE, NONE, NONE]
    logged = len(bench.log)
    bench.advance(2_500)
    assert [bench.heartbeat(m, generation_id=1) for m in ids] == [UNKNOWN, UNKNOWN, UNKNOWN]
    assert bench.group.state == "Empty"
    assert len(bench.log) == logged + 1


# Heartbeat ------------------------------------------------------------------------------------------------------------


def test_heartbeats_maintain_the_session(bench: ClassicBench) -> None:
    """GMMT.testClassicGroupMemberHeartbeatMaintainsSession, testHeartbeatDuringRebalanceCausesRebalanceInProgress."""
    (m1,) = bench.stable("x", session_timeout_ms=6_000)
    for _ in range(4):
        bench.advance(5_999)
        assert bench.heartbeat(m1, "x") is NONE
    bench.join("y", rebalance_timeout_ms=60_000)
    for _ in range(4):
        bench.advance(5_999)
        assert bench.heartbeat(m1, "x") is REBALANCING
    assert m1 in bench.group.members
