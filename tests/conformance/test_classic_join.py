"""Rows C01 to C13: how static members join a classic group, and which are fenced then."""

from __future__ import annotations

import pytest

from conformance.classic_bench import BOTH, GROUP, RANGE, ROUND_ROBIN, ClassicBench
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import Protocol
from coordinator_model.classic.member import GroupMetadata


def test_C01_static_member_joins_as_first_member(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberJoinAsFirstMember: no MEMBER_ID_REQUIRED round."""
    answer = bench.join("x")
    assert answer.waits
    bench.advance(3_000)
    assert answer.error is ErrorCode.NONE
    assert bench.group.static_members == {"x": answer.joined.member_id}
    assert list(bench.group.members) == [answer.joined.member_id]
    assert answer.joined.member_id.startswith("x-")
    assert not bench.group.pending_members


def test_C02_static_member_with_made_up_member_id_is_fenced(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberRejoinWithExplicitUnknownMemberId."""
    bench.stable("x")
    answer = bench.join("x", "made-up")
    assert answer.error is ErrorCode.FENCED_INSTANCE_ID
    assert answer.joined.member_id == "made-up"
    assert bench.group.state == "Stable"


def test_C03_unknown_instance_id_with_known_member_id_is_unknown(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberJoinWithUnknownInstanceIdAndKnownMemberId; the proposal's case 4.2 was not built."""
    (m1,) = bench.stable("x")
    assert bench.join("y", m1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.group.static_members == {"x": m1}


def test_C04_parked_join_of_the_same_instance_is_replaced(bench: ClassicBench) -> None:
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


def test_X01_parked_join_is_replaced_during_a_rebalance(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberFenceDuplicateRejoinedFollower, in a round that other members started."""
    _, m2 = bench.stable("x", "y")
    bench.join("z")
    parked = bench.join("y", m2)
    assert parked.waits
    assert bench.join("y").waits
    assert parked.error is ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("api_version", range(5, 10))
@pytest.mark.parametrize("rebalance_timeout_ms", [4_500, 6_000])
def test_C07_static_member_replaced_in_stable_state_without_rebalance(
    bench: ClassicBench, api_version: int, rebalance_timeout_ms: int
) -> None:
    """GMMT.testReplaceStaticMemberInStableStateNoError and …Succeeds (KAFKA-10284, KAFKA-14009, KIP-814)."""
    (old,) = bench.stable("x")
    logged = len(bench.log)
    answer = bench.join(
        "x", session_timeout_ms=7_000, rebalance_timeout_ms=rebalance_timeout_ms, api_version=api_version
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
        new, 7_000, rebalance_timeout_ms,
    )
    assert stored.assignment == f"assigned-{old}".encode()
    assert record.value.leader == new
    if api_version >= 9:
        assert (answer.joined.leader, answer.joined.skip_assignment) == (new, True)
        assert [m.member_id for m in answer.joined.members] == [new]
    else:
        assert (answer.joined.leader, answer.joined.skip_assignment) == (old, False)
        assert answer.joined.members == ()


def test_C07_first_session_after_a_replacement_is_the_former_one(bench: ClassicBench) -> None:
    """GMM.updateStaticMemberThenRebalanceOrCompleteJoin arms the timer before it takes the new timeouts over."""
    bench.stable("x", session_timeout_ms=10_000)
    new = bench.bounce("x", session_timeout_ms=30_000)
    key = ("classic-session", GROUP, new)
    assert bench.coordinator.timers.deadline_ms(key) == bench.now_ms + 10_000
    bench.heartbeat(new, "x")
    assert bench.coordinator.timers.deadline_ms(key) == bench.now_ms + 30_000


def test_C07_changed_subscription_alone_does_not_rebalance(bench: ClassicBench) -> None:
    """GMM: only the selected protocol's name is compared (KAFKA-12759, open)."""
    bench.stable("x", "y")
    new = bench.bounce("y", protocols=(Protocol("range", b"other topics"),))
    assert (bench.group.state, bench.group.generation_id) == ("Stable", 1)
    assert bench.group.members[new].metadata("range") == b"other topics"


def test_C08_replacement_with_another_selected_protocol_rebalances(bench: ClassicBench) -> None:
    """GMMT.testReplaceStaticMemberInStableStateWithUpdatedProtocolTriggersRebalance."""
    bench.stable("x", protocols=BOTH)
    assert bench.group.protocol_name == "range"
    answer = bench.join("x", protocols=ROUND_ROBIN)
    assert answer.error is ErrorCode.NONE
    assert (answer.joined.generation_id, answer.joined.protocol_name) == (2, "roundrobin")
    assert (bench.group.state, bench.group.generation_id) == ("CompletingRebalance", 2)


@pytest.mark.parametrize(
    ("refused", "error"),
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
def test_C09_replacement_that_is_not_stored_is_undone(
    bench: ClassicBench, refused: ErrorCode, error: ErrorCode
) -> None:
    """GMMT.testReplaceStaticMemberInStableStateErrors and testJoinGroupAppendErrorConversion."""
    (old,) = bench.stable("x", session_timeout_ms=8_000, rebalance_timeout_ms=9_000)
    logged = list(bench.log)
    bench.coordinator.write_error = refused
    answer = bench.join("x", protocols=BOTH, session_timeout_ms=7_000, rebalance_timeout_ms=6_000)
    assert answer.error is error
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


def test_C10_replacement_while_the_rebalance_completes_rebalances(bench: ClassicBench) -> None:
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


def test_C11_duplicate_of_a_rejoined_follower_fences_it(bench: ClassicBench) -> None:
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


def test_C12_duplicate_of_a_syncing_follower_fences_it(bench: ClassicBench) -> None:
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


def test_C13_follower_with_its_former_member_id_is_fenced_during_a_rebalance(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberFenceDuplicateRejoiningFollowerAfterMemberIdChanged."""
    m1, m2 = bench.stable("x", "y")
    leader = bench.join("x", m1)
    duplicate = bench.join("y")
    assert leader.joined.generation_id == duplicate.joined.generation_id == 2
    assert bench.join("y", m2).error is ErrorCode.FENCED_INSTANCE_ID
    assert bench.group.state == "CompletingRebalance"
    assert bench.group.static_members["y"] == duplicate.joined.member_id
