"""Rows C29 and C30 and their like: ids that are refused, sessions that run out, fail-overs."""

from __future__ import annotations

from conformance.classic_bench import ClassicBench
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.classic.member import GroupMetadata


def test_C29_validation_of_member_and_instance_ids(bench: ClassicBench) -> None:
    """ClassicGroupTest.testReplaceGroupInstance and ClassicGroup.validateMember."""
    m1, m2 = bench.stable("x", "y")
    cases = {
        (m1, "x"): ErrorCode.NONE,
        (m1, None): ErrorCode.NONE,
        (m1, "y"): ErrorCode.FENCED_INSTANCE_ID,
        (m1, "unknown"): ErrorCode.UNKNOWN_MEMBER_ID,
        ("unknown", "x"): ErrorCode.FENCED_INSTANCE_ID,
        ("unknown", None): ErrorCode.UNKNOWN_MEMBER_ID,
        ("unknown", "unknown"): ErrorCode.UNKNOWN_MEMBER_ID,
    }
    assert {ids: bench.heartbeat(*ids) for ids in cases} == cases
    new = bench.bounce("x")
    assert bench.group.leader == new
    assert bench.group.static_members == {"x": new, "y": m2}


def test_C30_member_without_heartbeats_is_removed_after_its_session(bench: ClassicBench) -> None:
    """GMMT.testClassicGroupMemberSessionTimeout."""
    m1, m2 = bench.stable("x", "y", session_timeout_ms=10_000)
    bench.advance(5_000)
    bench.heartbeat(m1, "x")
    bench.advance(4_999)
    assert m2 in bench.group.members
    bench.advance(1)
    assert list(bench.group.members) == [m1]
    assert bench.group.static_members == {"x": m1}
    assert bench.group.state == "PreparingRebalance"
    assert bench.heartbeat(m1, "x") is ErrorCode.REBALANCE_IN_PROGRESS
    bench.advance(10_000)
    assert (bench.group.state, bench.group.generation_id) == ("Empty", 2)
    assert isinstance(bench.log[-1].value, GroupMetadata)
    assert bench.log[-1].value.members == ()


def test_C30_session_expiry_completes_a_rebalance_that_waits_for_the_dead(bench: ClassicBench) -> None:
    """GMMT.testClassicGroupMemberSessionTimeoutDuringRebalance."""
    m1, m2 = bench.stable("x", "y", session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
    bench.advance(2_000)
    waiting = bench.join("x", m1)
    assert bench.group.state == "PreparingRebalance"
    bench.advance(7_999)
    assert waiting.waits
    bench.advance(1)
    assert waiting.joined.generation_id == 2
    assert m2 not in bench.group.members


def test_A4_rebalance_waits_for_an_absent_static_member(bench: ClassicBench) -> None:
    """The stall is the shortest of downtime, remaining session and rebalance timeout."""
    for down_ms, session_ms, rebalance_ms in [
        (2_000, 30_000, 20_000),
        (90_000, 30_000, 60_000),
        (90_000, 30_000, 7_000),
    ]:
        bench = ClassicBench()
        options = {"session_timeout_ms": session_ms, "rebalance_timeout_ms": rebalance_ms}
        m1, _ = bench.stable("x", "y", **options)
        bench.join("z", **options)  # type: ignore[arg-type]
        rejoined = bench.join("x", m1, **options)  # type: ignore[arg-type]
        started_ms = bench.now_ms
        while rejoined.waits:
            bench.advance(500)
            if bench.now_ms - started_ms == down_ms:
                bench.join("y", **options)  # type: ignore[arg-type]
        assert bench.now_ms - started_ms == min(down_ms, session_ms, rebalance_ms)


def test_A7_fail_over_gives_an_absent_member_its_session_again(bench: ClassicBench) -> None:
    """GMM.onLoaded: all timers start in full, so that one may be away for up to twice its session."""
    m1, m2 = bench.stable("x", "y", session_timeout_ms=10_000)
    bench.advance(9_999)
    bench.fail_over()
    assert set(bench.group.members) == {m1, m2}
    bench.heartbeat(m1, "x")
    bench.advance(9_999)
    new = bench.bounce("y")
    assert (bench.group.state, bench.group.generation_id) == ("Stable", 1)
    assert bench.sync(new, instance_id="y").synced.assignment == f"assigned-{m2}".encode()


def test_A7_sessions_do_run_after_a_fail_over(bench: ClassicBench) -> None:
    """GMM.onLoaded."""
    bench.stable("x", "y", session_timeout_ms=10_000)
    bench.advance(9_999)
    bench.fail_over()
    bench.advance(9_999)
    assert len(bench.group.members) == 2
    bench.advance(1)
    assert bench.group.state == "Empty"


def test_A12_full_group_refuses_a_returning_static_member() -> None:
    """GMM.acceptJoiningMember asks for the member id, which a restarted process does not have."""
    bench = ClassicBench(BrokerSettings(group_max_size=2))
    _, m2 = bench.stable("x", "y")
    assert bench.join("y").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.join("y", m2).error is ErrorCode.NONE
    assert bench.group.static_members["y"] == m2


def test_I13_every_api_fences_a_replaced_static_member(bench: ClassicBench) -> None:
    """core JoinGroup/SyncGroup/HeartbeatRequestTest; versions without an instance id take it for a dynamic member."""
    _, m2 = bench.stable("x", "y")
    new = bench.bounce("y")
    for api_version in range(5, 10):
        assert bench.join("y", m2, api_version=api_version).error is ErrorCode.FENCED_INSTANCE_ID
    for api_version in range(3, 6):
        assert bench.sync(m2, instance_id="y", api_version=api_version).error is ErrorCode.FENCED_INSTANCE_ID
    for api_version in range(0, 5):
        assert bench.join("y", m2, api_version=api_version).error is ErrorCode.UNKNOWN_MEMBER_ID
    for api_version in range(0, 3):
        assert bench.sync(m2, instance_id="y", api_version=api_version).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.heartbeat(new, "y") is ErrorCode.NONE
