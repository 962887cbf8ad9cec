"""Rows C of the catalogue: how members join a classic group, static ones above all."""

from __future__ import annotations

import pytest

from conformance.classic_bench import BOTH, GROUP, RANGE, ROUND_ROBIN, Bench
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import Protocol
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.classic.member import GroupMetadata


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_C01_static_member_joins_as_first_member(bench: Bench) -> None:
    """GMMT.testStaticMemberJoinAsFirstMember: no MEMBER_ID_REQUIRED round."""
    answer = bench.join("x")
    assert answer.waits
    bench.advance(3_000)
    assert answer.error is ErrorCode.NONE
    assert bench.group.static_members == {"x": answer.joined.member_id}
    assert list(bench.group.members) == [answer.joined.member_id]
    assert answer.joined.member_id.startswith("x-")
    assert not bench.group.pending_members


def test_C02_static_member_with_made_up_member_id_is_fenced(bench: Bench) -> None:
    """GMMT.testStaticMemberRejoinWithExplicitUnknownMemberId."""
    bench.stable("x")
    answer = bench.join("x", "made-up")
    assert answer.error is ErrorCode.FENCED_INSTANCE_ID
    assert answer.joined.member_id == "made-up"
    assert bench.group.state == "Stable"


def test_C03_unknown_instance_id_with_known_member_id_is_unknown(bench: Bench) -> None:
    """GMMT.testStaticMemberJoinWithUnknownInstanceIdAndKnownMemberId; the proposal's case 4.2 was not built."""
    (m1,) = bench.stable("x")
    assert bench.join("y", m1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.group.static_members == {"x": m1}


def test_C04_parked_join_of_the_same_instance_is_replaced(bench: Bench) -> None:
    """GMMT.testJoinGroupReplaceStaticMember: the waiting JoinGroup is fenced at once (KAFKA-8500)."""
    first = bench.join("x")
    second = bench.join("x")
    assert first.error is ErrorCode.FENCED_INSTANCE_ID
    assert second.waits
    assert len(bench.group.members) == 1
    assert bench.group.awaiting_join == 1
    bench.advance(6_000)
    assert second.error is ErrorCode.NONE
    assert len(bench.group.members) == 1


def test_X01_parked_join_is_replaced_during_a_rebalance(bench: Bench) -> None:
    """GMMT.testStaticMemberFenceDuplicateRejoinedFollower, in a round that other members started."""
    _, m2 = bench.stable("x", "y")
    bench.join("z")
    parked = bench.join("y", m2)
    assert parked.waits
    assert bench.join("y").waits
    assert parked.error is ErrorCode.FENCED_INSTANCE_ID


def test_C06_every_rejoin_gets_another_member_id(bench: Bench) -> None:
    """GMMT.testGetDifferentStaticMemberIdAfterEachRejoin."""
    (m1,) = bench.stable("x")
    seen = {m1}
    for _ in range(5):
        answer = bench.join("x")
        assert answer.error is ErrorCode.NONE
        seen.add(answer.joined.member_id)
    assert len(seen) == 6


@pytest.mark.parametrize("api_version", range(5, 10))
@pytest.mark.parametrize("rebalance_timeout_ms", [4_500, 6_000])
def test_C07_static_member_replaced_in_stable_state_without_rebalance(
    bench: Bench, api_version: int, rebalance_timeout_ms: int
) -> None:
    """GMMT.testReplaceStaticMemberInStableStateNoError and …Succeeds (KAFKA-10284, KAFKA-14009, KIP-814)."""
    (old,) = bench.stable("x")
    logged = len(bench.log)
    answer = bench.join(
        "x",
        session_timeout_ms=7_000,
        rebalance_timeout_ms=rebalance_timeout_ms,
        api_version=api_version,
    )
    new = answer.joined.member_id
    assert answer.error is ErrorCode.NONE
    assert new != old
    assert (bench.group.state, bench.group.generation_id) == ("Stable", 1)
    assert answer.joined.generation_id == 1
    (record,) = bench.log[logged:]
    assert isinstance(record.value, GroupMetadata)
    (stored,) = record.value.members
    assert (stored.member_id, stored.session_timeout_ms, stored.rebalance_timeout_ms) == (
        new,
        7_000,
        rebalance_timeout_ms,
    )
    assert stored.assignment == f"assigned-{old}".encode()
    assert record.value.leader == new
    if api_version >= 9:
        assert (answer.joined.leader, answer.joined.skip_assignment) == (new, True)
        assert [m.member_id for m in answer.joined.members] == [new]
    else:
        assert (answer.joined.leader, answer.joined.skip_assignment) == (old, False)
        assert answer.joined.members == ()


def test_C07_first_session_after_a_replacement_is_the_former_one(bench: Bench) -> None:
    """GMM.updateStaticMemberThenRebalanceOrCompleteJoin arms the timer before it takes the new timeouts over."""
    bench.stable("x", session_timeout_ms=10_000)
    new = bench.bounce("x", session_timeout_ms=30_000)
    key = ("classic-session", GROUP, new)
    assert bench.coordinator.timers.deadline_ms(key) == bench.now_ms + 10_000
    bench.heartbeat(new, "x")
    assert bench.coordinator.timers.deadline_ms(key) == bench.now_ms + 30_000


def test_C07_changed_subscription_alone_does_not_rebalance(bench: Bench) -> None:
    """GMM: only the selected protocol's name is compared (KAFKA-12759, open)."""
    bench.stable("x", "y")
    new = bench.bounce("y", protocols=(Protocol("range", b"other topics"),))
    assert (bench.group.state, bench.group.generation_id) == ("Stable", 1)
    assert bench.group.members[new].metadata("range") == b"other topics"


def test_C08_replacement_with_another_selected_protocol_rebalances(bench: Bench) -> None:
    """GMMT.testReplaceStaticMemberInStableStateWithUpdatedProtocolTriggersRebalance."""
    bench.stable("x", protocols=BOTH)
    assert bench.group.protocol_name == "range"
    answer = bench.join("x", protocols=ROUND_ROBIN)
    assert answer.error is ErrorCode.NONE
    assert (answer.joined.generation_id, answer.joined.protocol_name) == (2, "roundrobin")
    assert (bench.group.state, bench.group.generation_id) == ("CompletingRebalance", 2)


@pytest.mark.parametrize(
    ("refused", "heard"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NETWORK_EXCEPTION),
    ],
)
def test_C09_replacement_that_is_not_stored_is_undone(bench: Bench, refused: ErrorCode, heard: ErrorCode) -> None:
    """GMMT.testReplaceStaticMemberInStableStateErrors and testJoinGroupAppendErrorConversion."""
    (old,) = bench.stable("x", session_timeout_ms=8_000, rebalance_timeout_ms=9_000)
    logged = list(bench.log)
    bench.coordinator.write_error = refused
    answer = bench.join("x", protocols=BOTH, session_timeout_ms=7_000, rebalance_timeout_ms=6_000)
    assert answer.error is heard
    assert (answer.joined.member_id, answer.joined.leader, answer.joined.generation_id) == ("", old, 1)
    assert not answer.joined.skip_assignment
    member = bench.group.members[old]
    assert list(bench.group.members) == [old]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms, member.protocols) == (8_000, 9_000, RANGE)
    assert bench.group.static_members == {"x": old}
    assert bench.group.leader == old
    assert bench.group.awaiting_join == 0
    assert bench.log == logged
    bench.coordinator.write_error = None
    assert bench.heartbeat(old, "x") is ErrorCode.NONE


def test_C10_replacement_while_the_rebalance_completes_rebalances(bench: Bench) -> None:
    """GMMT.testReplaceStaticMemberInCompletingRebalanceStateTriggersRebalance (KAFKA-9801)."""
    first = bench.join("x")
    second = bench.join("y")
    bench.advance(6_000)
    parked = bench.sync(second.joined.member_id, instance_id="y")
    other = bench.join("x", "")
    assert parked.error is ErrorCode.REBALANCE_IN_PROGRESS
    assert other.waits
    assert bench.group.state == "PreparingRebalance"
    again = bench.join("y", second.joined.member_id)
    assert (other.error, again.error) == (ErrorCode.NONE, ErrorCode.NONE)
    assert other.joined.generation_id == 2
    assert bench.sync(first.joined.member_id, instance_id="x").error is ErrorCode.FENCED_INSTANCE_ID


def test_C11_duplicate_of_a_rejoined_follower_fences_it(bench: Bench) -> None:
    """GMMT.testStaticMemberFenceDuplicateRejoinedFollower."""
    m1, m2 = bench.stable("x", "y")
    leader = bench.join("x", m1)
    assert bench.group.state == "PreparingRebalance"
    fenced_before = bench.join("y", m2)
    # All had joined, so the round is complete; the leader starts the next one.
    assert leader.joined.generation_id == 2
    assert fenced_before.error is ErrorCode.NONE
    bench.complete_round()
    bench.join("z")
    parked = bench.join("y", m2)
    duplicate = bench.join("y")
    assert parked.error is ErrorCode.FENCED_INSTANCE_ID
    assert parked.joined.member_id == m2
    leader = bench.join("x", m1)
    assert duplicate.error is ErrorCode.NONE
    assert leader.joined.generation_id == 3
    assert set(bench.group.static_members) == {"x", "y", "z"}


def test_C12_duplicate_of_a_syncing_follower_fences_it(bench: Bench) -> None:
    """GMMT.testStaticMemberFenceDuplicateSyncingFollowerAfterMemberIdChanged."""
    m1, m2 = bench.stable("x", "y")
    leader = bench.join("x", m1)
    bench.join("y", m2)
    assert leader.joined.generation_id == 2
    parked = bench.sync(m2, instance_id="y")
    assert parked.waits
    duplicate = bench.join("y")
    assert parked.error is ErrorCode.FENCED_INSTANCE_ID
    assert bench.group.state == "PreparingRebalance"
    assert duplicate.waits
    leader = bench.join("x", m1)
    assert leader.joined.generation_id == duplicate.joined.generation_id == 3
    assert bench.heartbeat(m2, "y") is ErrorCode.FENCED_INSTANCE_ID


def test_C13_follower_with_its_former_member_id_is_fenced_during_a_rebalance(bench: Bench) -> None:
    """GMMT.testStaticMemberFenceDuplicateRejoiningFollowerAfterMemberIdChanged."""
    m1, m2 = bench.stable("x", "y")
    leader = bench.join("x", m1)
    duplicate = bench.join("y")
    assert leader.joined.generation_id == duplicate.joined.generation_id == 2
    assert bench.join("y", m2).error is ErrorCode.FENCED_INSTANCE_ID
    assert bench.group.state == "CompletingRebalance"
    assert bench.group.static_members["y"] == duplicate.joined.member_id


def test_C14_rejoin_with_known_member_id_returns_the_current_generation(bench: Bench) -> None:
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
def test_C15_leader_returns_with_unknown_member_id(bench: Bench, api_version: int) -> None:
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


def test_C16_leader_rejoins_with_known_member_id_and_rebalances(bench: Bench) -> None:
    """GMMT.testStaticMemberRejoinWithLeaderIdAndKnownMemberId: a silent follower goes by its session, which is shorter."""
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
    ("state", "error"),
    [("Dead", ErrorCode.COORDINATOR_NOT_AVAILABLE), ("Empty", ErrorCode.UNKNOWN_MEMBER_ID)],
)
def test_C17_known_leader_rejoins_a_dead_or_empty_group(bench: Bench, state: str, error: ErrorCode) -> None:
    """GMMT.testStaticMemberRejoinWithLeaderIdAndUnexpectedDeadGroup and …EmptyGroup."""
    m1, _ = bench.stable("x", "y")
    bench.group.state = state
    assert bench.join("x", m1).error is error


def test_C18_known_follower_with_changed_protocols_rebalances(bench: Bench) -> None:
    """GMMT.testStaticMemberRejoinWithFollowerIdAndChangeOfProtocol; an absent dynamic leader is replaced."""
    _, m2 = bench.stable("x", "y", rebalance_timeout_ms=5_000)
    answer = bench.join("y", m2, protocols=BOTH, rebalance_timeout_ms=5_000)
    assert answer.waits
    bench.advance(5_000)
    assert answer.joined.generation_id == 2
    assert answer.joined.leader == m2


def test_C19_unknown_member_id_that_changes_the_selected_protocol_rebalances(bench: Bench) -> None:
    """GMMT.testStaticMemberRejoinWithUnknownMemberIdAndChangeOfProtocolWithSelectedProtocolChanged."""
    m1, _ = bench.stable("x", "y", protocols=BOTH)
    answer = bench.join("y", protocols=ROUND_ROBIN)
    assert answer.waits
    assert bench.group.state == "PreparingRebalance"
    leader = bench.join("x", m1, protocols=BOTH)
    assert (leader.joined.generation_id, answer.joined.generation_id) == (2, 2)
    assert bench.group.protocol_name == "roundrobin"


def test_C20_changed_protocols_with_the_same_selection_do_not_rebalance(bench: Bench) -> None:
    """GMMT.testStaticMemberRejoinWithUnknownMemberIdAndChangeOfProtocolWhileSelectProtocolUnchanged."""
    bench.stable("x", "y", protocols=BOTH)
    answer = bench.join("y", protocols=RANGE)
    assert answer.error is ErrorCode.NONE
    assert (bench.group.state, bench.group.generation_id) == ("Stable", 1)


def test_C20_persistence_failure_of_a_follower_restores_it(bench: Bench) -> None:
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


def test_C21_leader_rejoin_then_follower_with_changed_protocol(bench: Bench) -> None:
    """GMMT.testStaticMemberRejoinWithKnownLeaderIdToTriggerRebalanceAndFollowerWithChangeOfProtocol."""
    m1, m2 = bench.stable("x", "y")
    leader = bench.join("x", m1)
    follower = bench.join("y", m2)
    assert leader.joined.generation_id == follower.joined.generation_id == 2
    bench.complete_round()
    follower = bench.join("y", m2, protocols=BOTH)
    leader = bench.join("x", m1)
    assert leader.joined.generation_id == follower.joined.generation_id == 3


def test_C22_restarted_follower_gets_its_assignment_back(bench: Bench) -> None:
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


def test_C23_known_follower_rejoins_unchanged(bench: Bench) -> None:
    """GMMT.testStaticMemberRejoinAsFollowerWithKnownMemberIdAndNoProtocolChange: no record."""
    _, m2 = bench.stable("x", "y")
    logged = len(bench.log)
    answer = bench.join("y", m2)
    assert answer.error is ErrorCode.NONE
    assert answer.joined.generation_id == 1
    assert (bench.group.state, len(bench.log)) == ("Stable", logged)


def test_C24_member_id_and_instance_id_of_different_members(bench: Bench) -> None:
    """GMMT.…WithMismatchedInstanceId, …SyncAsLeaderWithInvalidMemberId, …HeartbeatLeaderWithInvalidMemberId."""
    m1, m2 = bench.stable("x", "y")
    assert bench.join("x", m2).error is ErrorCode.FENCED_INSTANCE_ID
    assert bench.join("y", m1).error is ErrorCode.FENCED_INSTANCE_ID
    assert bench.sync("made-up", instance_id="x").error is ErrorCode.FENCED_INSTANCE_ID
    assert bench.heartbeat("made-up", "x") is ErrorCode.FENCED_INSTANCE_ID
    assert bench.heartbeat(m1, None) is ErrorCode.NONE
    assert bench.heartbeat(m1, "x") is ErrorCode.NONE


def test_C25_replacement_in_an_empty_group_is_an_illegal_state(bench: Bench) -> None:
    """GMMT.testStaticMemberReJoinWithIllegalStateAsUnknownMember."""
    (m1,) = bench.stable("x")
    bench.group.state = "Empty"
    assert bench.join("x").error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert list(bench.group.members) == [m1]


def test_C26_absent_static_follower_survives_the_rebalance_timeout(bench: Bench) -> None:
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


def test_C27_absent_static_leader_is_kept_but_does_not_lead(bench: Bench) -> None:
    """GMMT.testStaticMemberLeaderFailToRejoinBeforeRebalanceTimeout."""
    options = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 10_000}
    m1, m2 = bench.stable("x", "y", **options)
    dynamic = bench.join_dynamic(**options)
    follower = bench.join("y", m2, **options)  # type: ignore[arg-type]
    bench.advance(10_000)
    assert follower.joined.generation_id == 2
    assert m1 in bench.group.members
    assert follower.joined.leader == dynamic.joined.leader != m1


def test_C27_static_member_without_sync_is_removed_after_a_further_rebalance_timeout(bench: Bench) -> None:
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


def test_C27_return_before_the_sync_timeout_still_costs_a_rebalance(bench: Bench) -> None:
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


def test_C28_rebalance_in_which_nobody_rejoins_waits_for_the_sessions(bench: Bench) -> None:
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


def dynamic_id(bench: Bench) -> str:
    (member_id,) = [m.member_id for m in bench.group.members.values() if not m.is_static]
    return member_id


def test_C29_validation_of_member_and_instance_ids(bench: Bench) -> None:
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


def test_C30_member_without_heartbeats_is_removed_after_its_session(bench: Bench) -> None:
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


def test_C30_session_expiry_completes_a_rebalance_that_waits_for_the_dead(bench: Bench) -> None:
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


def test_A4_rebalance_waits_for_an_absent_static_member(bench: Bench) -> None:
    """The stall is the shortest of downtime, remaining session and rebalance timeout."""
    for down_ms, session_ms, rebalance_ms in [
        (2_000, 30_000, 20_000),
        (90_000, 30_000, 60_000),
        (90_000, 30_000, 7_000),
    ]:
        bench = Bench()
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


def test_A7_fail_over_gives_an_absent_member_its_session_again(bench: Bench) -> None:
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


def test_A7_sessions_do_run_after_a_fail_over(bench: Bench) -> None:
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
    bench = Bench(BrokerSettings(group_max_size=2))
    _, m2 = bench.stable("x", "y")
    assert bench.join("y").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.join("y", m2).error is ErrorCode.NONE
    assert bench.group.static_members["y"] == m2


def test_I13_every_api_fences_a_replaced_static_member(bench: Bench) -> None:
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
