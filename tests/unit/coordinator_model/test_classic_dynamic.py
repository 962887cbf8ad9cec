"""Dynamic members, initial delay, pending members and size of classic groups (GMMT: GroupMetadataManagerTest)."""

from __future__ import annotations

import pytest

from conformance.classic_bench import BOTH, GROUP, RANGE, ROUND_ROBIN, ClassicBench
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import Protocol
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.classic.member import GroupMetadata

from .dynamic_members import ILLEGAL, NONE, REBALANCING, UNKNOWN, dynamic_members

# what JoinGroup refuses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("session_timeout_ms", "error"), [(5_999, False), (6_000, True), (1_800_000, True), (1_800_001, False)]
)
def test_session_timeout_has_bounds(bench: ClassicBench, session_timeout_ms: int, error: bool) -> None:
    """GroupCoordinatorServiceTest.testJoinGroupInvalidSessionTimeout; KIP-345 raised the upper one to 30 minutes."""
    answer = bench.join("x", session_timeout_ms=session_timeout_ms)
    assert answer.waits is error
    if not error:
        assert answer.error is ErrorCode.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", ())])
def test_join_without_a_protocol(bench: ClassicBench, protocol_type: str, protocols: tuple[Protocol, ...]) -> None:
    """GMMT.testJoinGroupWithEmptyProtocolType and testJoinGroupWithEmptyGroupProtocol."""
    answer = bench.join("x", protocol_type=protocol_type, protocols=protocols)
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert answer.joined.protocol_type is None
    # A group that is created is recorded, though the joiner was refused.
    assert isinstance(bench.log[0].value, GroupMetadata)
    assert bench.group.is_simple


def test_join_with_other_protocols_than_the_group(bench: ClassicBench) -> None:
    """GMMT.testClassicGroupJoinInconsistentProtocolType and testJoinGroupInconsistentGroupProtocol."""
    bench.stable("x")
    assert bench.join("y", protocol_type="connect").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.join("y", protocols=ROUND_ROBIN).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.join("y", protocols=BOTH).waits


def test_join_with_a_made_up_member_id(bench: ClassicBench) -> None:
    """GMMT.testJoinGroupUnknownConsumerExistingGroup; an absent group is not created for one."""
    assert bench.join(None, "made-up").error is UNKNOWN
    assert bench.coordinator.groups == {}
    assert bench.log == []
    bench.stable("x")
    assert bench.join(None, "made-up").error is UNKNOWN


def test_join_of_a_dead_group(bench: ClassicBench) -> None:
    """GMMT.testJoinGroupUnknownConsumerNewDeadGroup and testExistingMemberJoinDeadGroup."""
    (m1,) = bench.stable("x")
    bench.group.transition_to("Dead", 0)
    for member_id in ("", m1):
        answer = bench.join(None, member_id)
        assert answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert answer.joined.member_id == member_id


def test_pending_member_with_an_instance_id_is_an_illegal_state(bench: ClassicBench) -> None:
    """GMMT.testJoinGroupExistingPendingMemberWithGroupInstanceIdThrowsException."""
    pending = bench.join().joined.member_id
    assert bench.join("x", pending).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert pending in bench.group.pending_members


# member ids -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("api_version", range(0, 10))
def test_first_join_of_a_dynamic_member(bench: ClassicBench, api_version: int) -> None:
    """KIP-394: from version 4 on it comes back with the id it was given."""
    answer = bench.join(api_version=api_version, client_id="app")
    if api_version < 4:
        assert answer.waits
        bench.advance(3_000)
    else:
        assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
        assert bench.group.members == {}
        answer = bench.join(None, answer.joined.member_id, api_version=api_version)
        bench.advance(3_000)
    assert answer.error is NONE
    assert answer.joined.member_id.startswith("app-")
    assert not bench.group.pending_members


@pytest.mark.parametrize("api_version", range(0, 5))
def test_instance_id_is_not_on_the_wire_before_version_5(bench: ClassicBench, api_version: int) -> None:
    answer = bench.join("x", api_version=api_version)
    if api_version == 4:
        assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert bench.group.static_members == {}


def test_version_0_uses_the_session_timeout_as_rebalance_timeout(bench: ClassicBench) -> None:
    """JoinGroupRequest's constructor."""
    bench.join(api_version=0, session_timeout_ms=7_000, rebalance_timeout_ms=60_000)
    assert bench.group.rebalance_timeout_ms == 7_000


def test_given_out_id_that_is_not_used_expires(bench: ClassicBench) -> None:
    """GMMT.testHeartbeatExpirationShouldRemovePendingMember and testSecondMemberPartiallyJoinAndTimeout."""
    (m1,) = bench.stable("x")
    pending = bench.join(session_timeout_ms=6_000).joined.member_id
    for _ in range(2):
        bench.advance(3_000)
        assert bench.heartbeat(m1, "x") is NONE
    assert not bench.group.pending_members
    assert (bench.group.state, bench.group.generation_id, list(bench.group.members)) == ("Stable", 1, [m1])
    assert bench.join(None, pending).error is UNKNOWN


# the first rebalance --------------------------------------------------------------------------------------------------


def test_initial_delay(bench: ClassicBench) -> None:
    """GMMT.testDelayInitialRebalanceByGroupInitialRebalanceDelayOnEmptyGroup."""
    joined = bench.join("x")
    bench.advance(2_999)
    assert joined.waits
    bench.advance(1)
    assert joined.joined.generation_id == 1


def test_initial_delay_is_extended_while_members_keep_coming(bench: ClassicBench) -> None:
    """GMMT.testResetRebalanceDelayWhenNewMemberJoinsGroupDuringInitialRebalance."""
    first = bench.join("x", rebalance_timeout_ms=9_000)
    bench.advance(2_999)
    second = bench.join("y", rebalance_timeout_ms=9_000)
    bench.advance(3_000)
    assert (first.waits, second.waits) == (True, True)
    bench.advance(1)
    assert first.joined.generation_id == second.joined.generation_id == 1


def test_initial_delay_ends_at_the_rebalance_timeout(bench: ClassicBench) -> None:
    """GMMT.testDelayRebalanceUptoRebalanceTimeout."""
    joins = [bench.join(i, rebalance_timeout_ms=6_000) for i in "xy"]
    bench.advance(3_001)
    joins.append(bench.join("z", rebalance_timeout_ms=6_000))
    bench.advance(2_998)
    assert [j.waits for j in joins] == [True, True, True]
    bench.advance(1)
    assert {j.joined.generation_id for j in joins} == {1}


def test_group_that_is_dead_when_the_delay_is_over_stays_so(bench: ClassicBench) -> None:
    """GMMT.testCompleteJoinPhaseInEmptyStateSkipsRebalance."""
    bench.join("x")
    bench.group.transition_to("Dead", 0)
    bench.advance(3_000)
    assert (bench.group.state, bench.group.generation_id) == ("Dead", 0)


# new members ----------------------------------------------------------------------------------------------------------


def test_new_member_expires_although_its_join_waits(bench: ClassicBench) -> None:
    """GMMT.testNewMemberJoinExpiration: a JoinGroup nobody waits for any more must not stay for ever."""
    long = {"session_timeout_ms": 400_000, "rebalance_timeout_ms": 700_000}
    (m1,) = bench.stable("x", **long)
    second = bench.join("y", rebalance_timeout_ms=5_000)
    bench.advance(299_999)
    assert second.waits
    bench.advance(1)
    assert second.error is UNKNOWN
    assert second.joined.member_id == ""
    assert list(bench.group.members) == [m1]


def test_new_member_timeout_ends_with_the_join(bench: ClassicBench) -> None:
    """GMMT.testNewMemberTimeoutCompletion."""
    bench.stable("x", session_timeout_ms=305_000)
    bench.advance(300_000)
    assert len(bench.group.members) == 1
    bench.advance(5_000)
    assert (bench.group.state, bench.group.generation_id) == ("Empty", 2)
    assert bench.log[-1].value == GroupMetadata("consumer", 2, None, None, bench.now_ms)


def test_members_expire_normally_after_their_first_generation(bench: ClassicBench) -> None:
    """GMMT.testNewMemberFailureAfterJoinGroupCompletion."""
    (m1,) = dynamic_members(bench, 1, session_timeout_ms=6_000)
    bench.complete_round()
    other = bench.join_dynamic(session_timeout_ms=6_000)
    again = bench.join(None, m1, session_timeout_ms=6_000)
    assert again.joined.generation_id == other.joined.generation_id == 2
    bench.advance(6_000)
    assert (bench.group.state, bench.group.members) == ("Empty", {})


# rebalances of dynamic members ----------------------------------------------------------------------------------------


def test_dynamic_members_that_do_not_rejoin_are_removed(bench: ClassicBench) -> None:
    """GMMT.testCompleteJoinRemoveNotYetRejoinedDynamicMembers: where a static one would stay."""
    m1, m2 = dynamic_members(bench, 2, session_timeout_ms=30_000, rebalance_timeout_ms=5_000)
    bench.complete_round()
    rejoined = bench.join(None, m1, session_timeout_ms=30_000, rebalance_timeout_ms=5_000)
    bench.advance(5_000)
    assert rejoined.joined.generation_id == 2
    assert list(bench.group.members) == [m1]
    assert bench.coordinator.timers.deadline_ms(("classic-session", GROUP, m2)) is None


def test_unchanged_follower_does_not_rebalance_but_the_leader_does(bench: ClassicBench) -> None:
    """GMMT.testJoinGroupFromUnchangedFollowerDoesNotRebalance and …UnchangedLeaderShouldRebalance."""
    m1, m2 = dynamic_members(bench, 2)
    bench.complete_round()
    follower = bench.join(None, m2)
    assert (follower.error, follower.joined.generation_id, follower.joined.leader) == (NONE, 1, m1)
    assert bench.group.state == "Stable"
    assert bench.join(None, m1).waits
    assert bench.group.state == "PreparingRebalance"


def test_changed_member_rebalances_while_the_round_completes(bench: ClassicBench) -> None:
    """GMMT.testJoinGroupExistingMemberUpdatedMetadataTriggersRebalance."""
    m1, m2 = dynamic_members(bench, 2)
    parked = bench.sync(m2)
    assert bench.join(None, m1, protocols=BOTH).waits
    assert parked.error is REBALANCING
    assert parked.synced.assignment == b""


def test_known_member_of_an_empty_group(bench: ClassicBench) -> None:
    """GMMT.testJoinGroupExistingMemberInEmptyState."""
    (m1,) = dynamic_members(bench, 1)
    bench.group.transition_to("PreparingRebalance", 0)
    bench.group.transition_to("Empty", 0)
    assert bench.join(None, m1).error is UNKNOWN


def test_join_phase_goes_on_without_a_rejoin(bench: ClassicBench) -> None:
    """GMMT.testCompleteJoinPhaseNoMembersRejoinedExtendsJoinPhase."""
    options = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 10_000}
    m1, m2 = bench.stable("x", "y", **options)
    bench.group.transition_to("PreparingRebalance", 0)
    bench.coordinator.timers.arm(("classic-join", GROUP), bench.now_ms + 10_000)
    bench.advance(10_000)
    assert (bench.group.state, bench.group.generation_id) == ("PreparingRebalance", 1)
    deadline_ms = bench.coordinator.timers.deadline_ms(("classic-join", GROUP))
    assert deadline_ms == bench.now_ms + 10_000
    rejoins = [bench.join(i, m, **options) for i, m in (("x", m1), ("y", m2))]  # type: ignore[arg-type]
    assert [r.joined.generation_id for r in rejoins] == [2, 2]


def test_rebalance_completes_before_a_static_member_joins(bench: ClassicBench) -> None:
    """GMMT.testRebalanceCompletesBeforeMemberJoins: the absentee lives on until its session is over."""
    options = {"session_timeout_ms": 6_000, "rebalance_timeout_ms": 10_000}
    (m1,) = bench.stable("x", **options)
    other = bench.join_dynamic(**options)
    for _ in range(3):
        bench.advance(3_000)
        assert bench.heartbeat(m1, "x") is REBALANCING
    bench.advance(1_000)
    assert other.joined.generation_id == 2
    m2 = other.joined.member_id
    assert other.joined.leader == m2
    assert len(bench.group.members) == 2
    bench.sync(m2, assign=[m2])
    assert bench.heartbeat(m1, "x", generation_id=1) is ILLEGAL
    errors = []
    for _ in range(3):
        bench.advance(2_000)
        errors.append(bench.heartbeat(m2))
    assert errors == [NONE, NONE, REBALANCING]
    assert list(bench.group.members) == [m2]
    assert bench.join(None, m2).joined.generation_id == 3
    bench.complete_round()
    for _ in range(20):
        bench.advance(2_000)
        assert bench.heartbeat(m2) is NONE


# size -----------------------------------------------------------------------------------------------------------------


def test_full_group_refuses_newcomers_and_keeps_members(bench: ClassicBench) -> None:
    """GMMT.testDynamicMembersJoinGroupWithMaxSize…: in every state but Empty."""
    bench = ClassicBench(BrokerSettings(group_max_size=2))
    joins = [bench.join_dynamic() for _ in range(2)]
    assert bench.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED
    bench.advance(6_000)
    assert bench.join("z").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    bench.complete_round()
    answer = bench.join()
    assert (answer.error, answer.joined.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert bench.join(None, joins[1].joined.member_id).error is NONE
