"""Rules of classic groups that Kafka's own tests pin and the catalogue of rows does not name: size, log, joining.

GMMT is GroupMetadataManagerTest of Kafka 4.4; each docstring names the test it restates.
"""

from __future__ import annotations

import pytest

from conformance.classic_bench import BOTH, GROUP, RANGE, ClassicBench
from conformance.classic_groups import UNIDENTIFIED, errors, given_members, with_pending_member
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import Protocol
from coordinator_model.base.records import Record, RecordType
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.classic.member import GroupMetadata, MemberMetadata

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
FULL = ErrorCode.GROUP_MAX_SIZE_REACHED
MAX_SIZE = 10


@pytest.fixture
def small() -> ClassicBench:
    """A coordinator whose groups hold ten members and wait 50 ms for the first ones."""
    return ClassicBench(BrokerSettings(group_max_size=MAX_SIZE, group_initial_rebalance_delay_ms=50))


# size ---------------------------------------------------------------------------------------------------------------


def test_eleventh_joiner_of_ten_is_refused(small: ClassicBench) -> None:
    """GMMT.testJoinGroupShouldReceiveErrorIfGroupOverMaxSize: the ten go on waiting, nothing is written."""
    joins = [small.join(api_version=UNIDENTIFIED) for _ in range(MAX_SIZE)]
    logged = len(small.log)
    assert small.join(api_version=UNIDENTIFIED).error is FULL
    assert all(join.waits for join in joins)
    assert len(small.log) == logged


def test_member_ids_are_given_out_beyond_the_size_but_not_used(small: ClassicBench) -> None:
    """GMMT.testDynamicMembersJoinGroupWithMaxSizeAndRequiredKnownMember: in CompletingRebalance the ten may repeat."""
    ids = [small.join().joined.member_id for _ in range(MAX_SIZE + 1)]
    assert (small.group.state, len(small.group.pending_members)) == ("Empty", MAX_SIZE + 1)
    joins = [small.join(member_id=m) for m in ids]
    small.advance(50)
    small.advance(50)
    assert errors(joins) == [NONE] * MAX_SIZE + [FULL]
    assert (small.group.state, len(small.group.members)) == ("CompletingRebalance", MAX_SIZE)
    assert not small.group.pending_members
    assert errors([small.join(member_id=m) for m in ids]) == [NONE] * MAX_SIZE + [FULL]


def test_old_clients_are_counted_at_their_only_join(small: ClassicBench) -> None:
    """GMMT.testDynamicMembersJoinGroupWithMaxSizeAndNotRequiredKnownMember."""
    joins = [small.join(api_version=UNIDENTIFIED) for _ in range(MAX_SIZE + 1)]
    assert (small.group.state, small.group.awaiting_join) == ("PreparingRebalance", MAX_SIZE)
    small.advance(50)
    small.advance(50)
    assert errors(joins) == [NONE] * MAX_SIZE + [FULL]
    again = [small.join(member_id=join.joined.member_id, api_version=UNIDENTIFIED) for join in joins]
    assert errors(again) == [NONE] * MAX_SIZE + [FULL]
    assert (small.group.state, small.group.awaiting_join) == ("CompletingRebalance", 0)


def test_static_members_are_counted_like_others(small: ClassicBench) -> None:
    """GMMT.testStaticMembersJoinGroupWithMaxSize: with the id it was given a member may repeat its JoinGroup."""
    joins = [small.join(f"x{n}") for n in range(MAX_SIZE + 1)]
    assert (small.group.state, small.group.awaiting_join) == ("PreparingRebalance", MAX_SIZE)
    small.advance(50)
    small.advance(50)
    assert errors(joins) == [NONE] * MAX_SIZE + [FULL]
    again = [small.join(f"x{n}", join.joined.member_id) for n, join in enumerate(joins)]
    assert errors(again) == [NONE] * MAX_SIZE + [FULL]
    assert len(small.group.static_members) == MAX_SIZE


def test_waiting_members_of_a_full_group_may_join_again(small: ClassicBench) -> None:
    """GMMT.testDynamicMembersCanRejoinGroupWithMaxSizeWhileRebalancing: the later JoinGroup is the one answered."""
    ids = [small.join().joined.member_id for _ in range(MAX_SIZE + 1)]
    for member_id in ids:
        small.join(member_id=member_id)
    assert (small.group.state, small.group.awaiting_join) == ("PreparingRebalance", MAX_SIZE)
    again = [small.join(member_id=m) for m in ids]
    small.advance(50)
    small.advance(50)
    assert errors(again) == [NONE] * MAX_SIZE + [FULL]
    assert (small.group.state, small.group.awaiting_join) == ("CompletingRebalance", 0)


def test_last_to_rejoin_a_group_that_became_too_large_are_out(small: ClassicBench) -> None:
    """GMMT.testLastJoiningMembersAreKickedOutWhenRejoiningGroupWithMaxSize, by a size lowered at a fail-over, and
    testOnLoadedExceedGroupMaxSizeTriggersRebalance: all are kept until they rejoin."""
    given_members(small, MAX_SIZE + 2, static=False)
    assert (small.group.state, len(small.group.members)) == ("PreparingRebalance", MAX_SIZE + 2)
    joins = [small.join(member_id=f"m{n}") for n in range(MAX_SIZE + 2)]
    # The refused ones no longer count, but only the join phase's end triggers a check.
    assert [join.waits for join in joins] == [True] * MAX_SIZE + [False] * 2
    small.advance(9_000)
    assert errors(joins) == [NONE] * MAX_SIZE + [FULL] * 2
    assert list(small.group.members) == [f"m{n}" for n in range(MAX_SIZE)]
    assert small.group.state == "CompletingRebalance"


# the log ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rebalance_timeout_ms", [-1, 9_000])
def test_reloaded_group_is_what_its_record_says(bench: ClassicBench, rebalance_timeout_ms: int) -> None:
    """GMMT.testReplayGroupMetadataRecords: before version 1 the record has no rebalance timeout."""
    stored = MemberMetadata("m0", "x0", "c", "/h", rebalance_timeout_ms, 4_000, b"s", b"\x02")
    value = GroupMetadata("consumer", 1, "range", "m0", 7, (stored,))
    bench.log.append(Record(RecordType.CLASSIC_GROUP_METADATA, (GROUP,), value))
    bench.fail_over()
    group, member = bench.group, bench.group.members["m0"]
    assert (group.state, group.generation_id, group.leader, group.state_timestamp_ms) == ("Stable", 1, "m0", 7)
    assert (group.protocol_type, group.protocol_name, group.static_members) == ("consumer", "range", {"x0": "m0"})
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (4_000, max(4_000, rebalance_timeout_ms))
    assert (member.protocols, member.assignment) == ((Protocol("range", b"s"),), b"\x02")
    assert (member.client_id, member.client_host, member.is_new) == ("c", "/h", False)


def test_loading_gives_every_member_its_session(bench: ClassicBench) -> None:
    """GMMT.testOnLoadedSchedulesClassicGroupMemberHeartbeats."""
    bench.now_ms = 100
    given_members(bench, 2)
    deadlines = [bench.coordinator.timers.deadline_ms(("classic-session", GROUP, m)) for m in ("m0", "m1")]
    assert deadlines == [4_100, 4_100]


def test_new_group_is_recorded_without_its_first_joiner(bench: ClassicBench) -> None:
    """GMMT.testGenerateRecordsOnNewClassicGroup: also when that one only gets a member id."""
    assert bench.join().error is ErrorCode.MEMBER_ID_REQUIRED
    (record,) = bench.log
    assert record == Record(RecordType.CLASSIC_GROUP_METADATA, (GROUP,), GroupMetadata("", 0, None, None, 0))


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_group_that_cannot_be_recorded_is_gone_for_good(
    bench: ClassicBench, refused: ErrorCode, error: ErrorCode
) -> None:
    """GMMT.testGenerateRecordsOnNewClassicGroupFailureTransformsError: the failed append reverts the new group."""
    bench.coordinator.write_error = refused
    assert bench.join("x").error is error
    assert bench.coordinator.groups == {}
    bench.coordinator.write_error = None
    bench.advance(400_000)
    assert bench.coordinator.groups == {}


def test_failed_replacement_leaves_the_former_member_in_its_place(bench: ClassicBench) -> None:
    """GMMT.…ChangeOfProtocolWhileSelectProtocolUnchangedPersistenceFailure: the old member id goes on to work."""
    leader_id, follower_id = bench.stable("x", "y", protocols=BOTH)
    bench.coordinator.write_error = ErrorCode.MESSAGE_TOO_LARGE
    refused = bench.join("y", protocols=RANGE)
    bench.coordinator.write_error = None
    assert (refused.error, refused.joined.generation_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, 1)
    assert (refused.joined.leader, refused.joined.protocol_name) == (leader_id, "range")
    assert refused.joined.member_id != follower_id
    follower = bench.join("y", follower_id, protocols=RANGE)
    leader = bench.join("x", leader_id, protocols=RANGE)
    assert errors([leader, follower]) == [NONE, NONE]
    assert bench.sync(leader_id, instance_id="x").error is NONE
    assert bench.sync(follower_id, instance_id="y").error is NONE
    assert bench.group.state == "Stable"


# joining ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("instance_id", [None, "x"])
def test_made_up_member_id_creates_no_group(bench: ClassicBench, instance_id: str | None) -> None:
    """GMMT.testJoinGroupUnknownMemberNewGroup, testJoinGroupProtocolTypeIsNotProvidedWhenAnErrorOccurs."""
    answer = bench.join(instance_id, "made-up")
    assert (answer.error, answer.joined.protocol_type) == (UNKNOWN, None)
    assert bench.coordinator.groups == {}
    assert bench.log == []


def test_second_join_without_protocols_is_refused_and_may_be_repeated(bench: ClassicBench) -> None:
    """GMMT.testJoinGroupSecondJoinInconsistentProtocol: the given-out id is still good."""
    member_id = bench.join().joined.member_id
    assert bench.join(member_id=member_id, protocols=()).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    answer = bench.join(member_id=member_id)
    bench.advance(3_000)
    assert answer.error is NONE


@pytest.mark.parametrize("instance_id", [None, "x"])
def test_empty_protocol_type_is_refused(bench: ClassicBench, instance_id: str | None) -> None:
    """GMMT.testJoinGroupWithEmptyProtocolType."""
    answer = bench.join(instance_id, protocol_type="", api_version=9 if instance_id else UNIDENTIFIED)
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_every_admitted_member_gets_the_protocol_type(bench: ClassicBench) -> None:
    """GMMT.testJoinGroupReturnsTheProtocolType."""
    joins = [bench.join(api_version=UNIDENTIFIED) for _ in range(2)]
    bench.advance(3_000)
    bench.advance(3_000)
    assert [join.joined.protocol_type for join in joins] == ["consumer", "consumer"]


def test_member_of_an_endless_first_round_expires_and_empties_the_group() -> None:
    """GMMT.testHeartbeatExpirationShouldRemoveMember: its JoinGroup fails; the group does not wait for its delay.

    The empty generation is recorded.
    """
    bench = ClassicBench(BrokerSettings(group_initial_rebalance_delay_ms=600_000))
    join = bench.join(api_version=UNIDENTIFIED)
    logged = len(bench.log)
    bench.advance(300_000)
    assert join.error is UNKNOWN
    assert (bench.group.state, bench.group.members) == ("Empty", {})
    (record,) = bench.log[logged:]
    assert isinstance(record.value, GroupMetadata)
    assert (record.value.generation_id, record.value.members) == (1, ())


def test_changed_follower_of_a_stable_group_rebalances_an_unchanged_one_does_not(bench: ClassicBench) -> None:
    """GMMT.testJoinGroupAsExistingMemberWithUpdatedMetadataTriggersRebalanceInStableState,
    …DoesNotTriggerRebalance….
    """
    leader_id, follower_id = bench.stable("x", "y")
    unchanged = bench.join("y", follower_id)
    assert (unchanged.error, unchanged.joined.generation_id, bench.group.state) == (NONE, 1, "Stable")
    changed = bench.join("y", follower_id, protocols=BOTH)
    assert changed.waits
    leader = bench.join("x", leader_id)
    assert errors([leader, changed]) == [NONE, NONE]
    assert (bench.group.state, bench.group.generation_id) == ("CompletingRebalance", 2)


def test_unchanged_leader_rebalances(bench: ClassicBench) -> None:
    """GMMT.testJoinGroupAsExistingLeaderTriggersRebalanceInStableState,
    testJoinGroupFromUnchangedLeaderShouldRebalance.
    """
    (leader_id,) = bench.stable("x")
    answer = bench.join("x", leader_id)
    assert (answer.error, answer.joined.generation_id, bench.group.state) == (NONE, 2, "CompletingRebalance")


def test_known_leader_of_a_group_that_is_unexpectedly_empty_is_unknown(bench: ClassicBench) -> None:
    """GMMT.testStaticMemberRejoinWithLeaderIdAndUnexpectedEmptyGroup."""
    leader_id, _ = bench.stable("x", "y")
    bench.group.transition_to("PreparingRebalance", 0)
    bench.group.transition_to("Empty", 0)
    logged = len(bench.log)
    assert bench.join("x", leader_id).error is UNKNOWN
    assert len(bench.log) == logged


def test_static_member_that_waits_is_fenced_by_the_next_one_of_its_name_each_time(bench: ClassicBench) -> None:
    """GMMT.testJoinGroupReplaceStaticMember: only the last of three waits and is admitted."""
    joins = [bench.join("x") for _ in range(3)]
    assert [join.waits for join in joins] == [False, False, True]
    bench.advance(3_000)
    bench.advance(3_000)
    assert errors(joins) == [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID, NONE]
    assert len(bench.group.members) == 1


def test_round_completes_when_the_given_out_id_expires(bench: ClassicBench) -> None:
    """GMMT.testJoinGroupCompletionWhenPendingMemberTimesOut: by the session timeout of the request for the id."""
    leader, follower, _ = with_pending_member(bench)
    bench.advance(5_999)
    assert (leader.waits, follower.waits) == (True, True)
    bench.advance(1)
    assert errors([leader, follower]) == [NONE, NONE]
    assert (bench.group.state, len(bench.group.members)) == ("CompletingRebalance", 2)
    assert not bench.group.pending_members


def test_round_completes_when_the_pending_member_joins(bench: ClassicBench) -> None:
    """GMMT.testJoinGroupCompletionWhenPendingMemberJoins."""
    leader, follower, pending_id = with_pending_member(bench)
    last = bench.join(member_id=pending_id)
    assert errors([leader, follower, last]) == [NONE] * 3
    assert (bench.group.state, len(bench.group.members)) == ("CompletingRebalance", 3)
