"""Rows C14 to C28: known members that join a classic group again, and rebalances in which one does not."""

from __future__ import annotations

import pytest

from conformance.classic_bench import BOTH, RANGE, ROUND_ROBIN, ClassicBench
from coordinator_model.base.errors import ErrorCode


def test_C14_rejoin_with_known_member_id_returns_the_current_generation(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberRejoinWithKnownMemberId."""
    first = bench.join("x")
    bench.advance(3_000)
    m1 = first.joined.member_id
    again = bench.join("x", m1)
    assert again.error is ErrorCode.NONE
    assert again.joined.generation_id == 1
    assert [m.member_id for m in again.joined.members] == [m1]
    assert bench.group.state == "CompletingRebalance"
    assert bench.sync(m1, instance_id="x", assign=[m1]).synced.assignment == f"assigned-{m1}".encode()


@pytest.mark.parametrize("api_version", range(5, 10))
def test_C15_leader_returns_with_unknown_member_id(bench: ClassicBench, api_version: int) -> None:
    """GMMT.testStaticMemberRejoinWithLeaderIdAndUnknownMemberId."""
    m1, m2 = bench.stable("x", "y")
    answer = bench.join("x", api_version=api_version)
    assert answer.error is ErrorCode.NONE
    assert answer.joined.generation_id == bench.group.generation_id == 1
    assert bench.group.state == "Stable"
    expected = answer.joined.member_id if api_version >= 9 else m1
    assert answer.joined.leader == expected
    assert bench.join("x", m1).error is ErrorCode.FENCED_INSTANCE_ID
    assert bench.sync(m1, instance_id="x").error is ErrorCode.FENCED_INSTANCE_ID
    assert bench.join(None, m1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.heartbeat(m2, "y") is ErrorCode.NONE


def test_C16_leader_rejoins_with_known_member_id_and_rebalances(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberRejoinWithLeaderIdAndKnownMemberId:
    a silent follower goes by its session, which is shorter.
    """
    options = {"session_timeout_ms": 6_000, "rebalance_timeout_ms": 10_000}
    m1, m2 = bench.stable("x", "y", **options)
    answer = bench.join("x", m1, **options)
    assert answer.waits
    assert bench.group.state == "PreparingRebalance"
    bench.advance(5_999)
    assert answer.waits
    assert m2 in bench.group.members
    bench.advance(1)
    assert (answer.joined.generation_id, answer.joined.leader) == (2, m1)
    assert [member.group_instance_id for member in answer.joined.members] == ["x"]
    assert list(bench.group.members) == [m1]


@pytest.mark.parametrize(
    ("state", "error"), [("Dead", ErrorCode.COORDINATOR_NOT_AVAILABLE), ("Empty", ErrorCode.UNKNOWN_MEMBER_ID)]
)
def test_C17_known_leader_rejoins_a_dead_or_empty_group(bench: ClassicBench, state: str, error: ErrorCode) -> None:
    """GMMT.testStaticMemberRejoinWithLeaderIdAndUnexpectedDeadGroup and …EmptyGroup."""
    m1, _ = bench.stable("x", "y")
    bench.group.state = state
    assert bench.join("x", m1).error is error


def test_C18_known_follower_with_changed_protocols_rebalances(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberRejoinWithFollowerIdAndChangeOfProtocol; an absent dynamic leader is replaced."""
    _, m2 = bench.stable("x", "y", rebalance_timeout_ms=5_000)
    answer = bench.join("y", m2, protocols=BOTH, rebalance_timeout_ms=5_000)
    assert answer.waits
    bench.advance(5_000)
    assert answer.joined.generation_id == 2
    assert answer.joined.leader == m2


def test_C19_unknown_member_id_that_changes_the_selected_protocol_rebalances(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberRejoinWithUnknownMemberIdAndChangeOfProtocolWithSelectedProtocolChanged."""
    m1, _ = bench.stable("x", "y", protocols=BOTH)
    answer = bench.join("y", protocols=ROUND_ROBIN)
    assert answer.waits
    assert bench.group.state == "PreparingRebalance"
    leader = bench.join("x", m1, protocols=BOTH)
    assert (leader.joined.generation_id, answer.joined.generation_id) == (2, 2)
    assert bench.group.protocol_name == "roundrobin"


def test_C20_changed_protocols_with_the_same_selection_do_not_rebalance(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberRejoinWithUnknownMemberIdAndChangeOfProtocolWhileSelectProtocolUnchanged."""
    bench.stable("x", "y", protocols=BOTH)
    answer = bench.join("y", protocols=RANGE)
    assert answer.error is ErrorCode.NONE
    assert (bench.group.state, bench.group.generation_id) == ("Stable", 1)


def test_C20_persistence_failure_of_a_follower_restores_it(bench: ClassicBench) -> None:
    """GMMT.…ChangeOfProtocolWhileSelectProtocolUnchangedPersistenceFailure."""
    _, m2 = bench.stable("x", "y", protocols=BOTH)
    bench.coordinator.write_error = ErrorCode.MESSAGE_TOO_LARGE
    assert bench.join("y", protocols=RANGE).error is ErrorCode.UNKNOWN_SERVER_ERROR
    bench.coordinator.write_error = None
    assert bench.group.static_members["y"] == m2
    answer = bench.join("y", protocols=ROUND_ROBIN)
    assert answer.waits
    assert answer.request is not None
    assert bench.group.state == "PreparingRebalance"


def test_C22_restarted_follower_gets_its_assignment_back(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberRejoinAsFollowerWithUnknownMemberId."""
    _, m2 = bench.stable("x", "y")
    answer = bench.join("y")
    new = answer.joined.member_id
    assert answer.joined.generation_id == 1
    assert answer.joined.members == ()
    assert bench.group.state == "Stable"
    assert bench.sync(new, instance_id="y").synced.assignment == f"assigned-{m2}".encode()
    assert bench.sync(m2, instance_id="y").error is ErrorCode.FENCED_INSTANCE_ID
    assert bench.heartbeat(m2, "y") is ErrorCode.FENCED_INSTANCE_ID


def test_C23_known_follower_rejoins_unchanged(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberRejoinAsFollowerWithKnownMemberIdAndNoProtocolChange: no record."""
    _, m2 = bench.stable("x", "y")
    logged = len(bench.log)
    answer = bench.join("y", m2)
    assert answer.error is ErrorCode.NONE
    assert answer.joined.generation_id == 1
    assert (bench.group.state, len(bench.log)) == ("Stable", logged)


def test_C25_replacement_in_an_empty_group_is_an_illegal_state(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberReJoinWithIllegalStateAsUnknownMember."""
    (m1,) = bench.stable("x")
    bench.group.state = "Empty"
    assert bench.join("x").error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert list(bench.group.members) == [m1]


def test_C26_absent_static_follower_survives_the_rebalance_timeout(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberFollowerFailToRejoinBeforeRebalanceTimeout."""
    options = {"session_timeout_ms": 15_000, "rebalance_timeout_ms": 10_000}
    m1, m2 = bench.stable("x", "y", **options)
    newcomer = bench.join("z", **options)
    assert newcomer.waits
    assert bench.group.state == "PreparingRebalance"
    leader = bench.join("x", m1, **options)
    assert leader.waits
    bench.advance(10_000)
    assert (leader.joined.generation_id, newcomer.joined.generation_id) == (2, 2)
    assert (leader.joined.leader, newcomer.joined.leader) == (m1, m1)
    assert [m.group_instance_id for m in leader.joined.members] == ["x", "y", "z"]
    assert newcomer.joined.members == ()
    assert bench.group.state == "CompletingRebalance"
    assert m2 in bench.group.pending_sync_members


def test_C27_absent_static_leader_is_kept_but_does_not_lead(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberLeaderFailToRejoinBeforeRebalanceTimeout."""
    options = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 10_000}
    m1, m2 = bench.stable("x", "y", **options)
    dynamic = bench.join_dynamic(**options)
    follower = bench.join("y", m2, **options)  # type: ignore[arg-type]
    bench.advance(10_000)
    assert follower.joined.generation_id == 2
    assert m1 in bench.group.members
    assert follower.joined.leader == dynamic.joined.leader != m1


def test_C27_static_member_without_sync_is_removed_after_a_further_rebalance_timeout(bench: ClassicBench) -> None:
    """GMM.expirePendingSync: at most one generation is handed to an absent member, then one more rebalance."""
    options = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 10_000}
    m1, m2 = bench.stable("x", "y", **options)
    bench.join("x", m1, **options)  # type: ignore[arg-type]
    bench.advance(10_000)
    bench.sync(m1, instance_id="x", assign=[m1, m2])
    assert bench.group.state == "Stable"
    bench.heartbeat(m1, "x")
    bench.advance(10_000)
    assert list(bench.group.members) == [m1]
    assert bench.heartbeat(m1, "x") is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.join("x", m1).joined.generation_id == 3


def test_C27_return_before_the_sync_timeout_still_costs_a_rebalance(bench: ClassicBench) -> None:
    """ClassicGroup.replaceStaticMember leaves the former id among the pending syncs, which then time out."""
    options = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 10_000}
    m1, m2 = bench.stable("x", "y", **options)
    bench.join("x", m1, **options)  # type: ignore[arg-type]
    bench.advance(10_000)
    bench.sync(m1, instance_id="x", assign=[m1, m2])
    new = bench.bounce("y", **options)
    assert bench.sync(new, instance_id="y").error is ErrorCode.NONE
    bench.advance(9_999)
    assert (bench.heartbeat(m1, "x"), bench.heartbeat(new, "y")) == (ErrorCode.NONE, ErrorCode.NONE)
    bench.advance(1)
    assert set(bench.group.members) == {m1, new}
    assert bench.group.state == "PreparingRebalance"


def test_C28_rebalance_without_a_rejoin_waits_for_the_sessions(bench: ClassicBench) -> None:
    """GMMT.testGroupStuckInRebalanceTimeoutDueToNonjoinedStaticMember."""
    options = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 5_000}
    m1, _ = bench.stable("x", "y", **options)
    dynamic = bench.join_dynamic(**options)
    bench.leave((dynamic_id(bench), None))
    assert dynamic.error is ErrorCode.UNKNOWN_MEMBER_ID
    bench.advance(5_000)
    assert bench.group.state == "PreparingRebalance"
    assert len(bench.group.members) == 2
    bench.heartbeat(m1, "x")
    bench.advance(5_000)
    assert list(bench.group.members) == [m1]
    assert bench.group.state == "PreparingRebalance"
    bench.advance(5_000)
    assert bench.group.state == "Empty"
    assert bench.group.generation_id == 2


def dynamic_id(bench: ClassicBench) -> str:
    (member_id,) = [m.member_id for m in bench.group.members.values() if not m.is_static]
    return member_id
