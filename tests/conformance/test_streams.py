"""Streams groups (KIP-1071) with static membership (Kafka 4.4), rows S01-S14.

The tests restated are those of StreamsGroupStaticMemberGroupMetadataManagerTest ("static") and
StreamsGroupMixedGroupMetadataManagerTest ("mixed") unless another class is named.
"""

from __future__ import annotations

import pytest

from conformance.answers import expect
from coordinator_model.base.config_messages import AlterGroupConfigRequest
from coordinator_model.base.epoch_group import TargetMetadata
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from coordinator_model.base.records import RecordType
from coordinator_model.coordinator import GroupCoordinator
from coordinator_model.streams.member import CurrentAssignment, MemberState, tasks_of

from .streams_app import ALL_FOUR, GROUP, accepted, answer, beat, coordinator, describe, epochs, join, types

TOMBSTONES = [
    RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
    RecordType.STREAMS_GROUP_MEMBER_METADATA,
]


def with_static_member(**settings: object) -> GroupCoordinator:
    """Member m1 holds X and all four tasks at epoch 2."""
    broker = coordinator(**settings)
    first = accepted(broker.handle(join("m1", "X"), 0))
    assert (first.member_epoch, first.active_tasks) == (2, ALL_FOUR)
    return broker


# S01-S03 ------------------------------------------------------------------------------------------------------------


def test_S01_epoch_minus_1_with_instance_removes_and_bumps() -> None:
    """static.testStaticMemberLeaveWithMinusOneFencesMemberAndBumpsStreamsGroupEpoch."""
    broker = with_static_member()
    result = broker.handle(beat("m1", -1, "X"), 10)
    assert (accepted(result).member_id, accepted(result).member_epoch) == ("m1", -1)
    assert types(result.records) == [
        *TOMBSTONES,
        RecordType.STREAMS_GROUP_METADATA,
        RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
    ]
    assert [record.value for record in result.records[:3]] == [None] * 3
    assert result.records[4].value == TargetMetadata(3, 0)
    assert epochs(broker) == (3, {})
    assert len(broker.timers) == 0


def test_S01_epoch_minus_2_keeps_the_member_with_one_record() -> None:
    """static.testStaticMemberLeaveWithLeaveGroupStaticMemberEpoch."""
    broker = with_static_member()
    before = broker.timers.deadline_ms(("streams-session", GROUP, "m1"))
    result = broker.handle(beat("m1", -2, "X"), 10)
    assert (accepted(result).member_id, accepted(result).member_epoch) == ("m1", -2)
    assert types(result.records) == [RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT]
    current = expect(CurrentAssignment, result.records[0].value)
    assert current.previous_member_epoch == 0
    assert current.assigned.active == dict.fromkeys(tasks_of(ALL_FOUR), 0)
    assert not current.pending_revocation
    assert epochs(broker) == (2, {"m1": -2})
    assert broker.timers.deadline_ms(("streams-session", GROUP, "m1")) == before == 45_000
    assert describe(broker).group_state == "Reconciling"


def test_S01_epoch_minus_2_twice_gives_the_same_answer() -> None:
    """static.testStaticMemberLeaveWithLeaveGroupStaticMemberEpochThenShouldBeIdempotence."""
    broker = with_static_member()
    first = broker.handle(beat("m1", -2, "X"), 10)
    second = broker.handle(beat("m1", -2, "X"), 20)
    assert (second.response, second.records) == (first.response, first.records)


@pytest.mark.parametrize("member_id", ["m2", "m1"])
def test_S02_rejoin_after_minus_2_gets_the_same_tasks_and_no_bump(member_id: str) -> None:
    """static.…AndRejoinWithNewMemberId, …AndRejoinWithSameMemberId, …RejoinWritesReplacementRecordsInStreamsGroup."""
    broker = with_static_member()
    broker.handle(beat("m1", -2, "X"), 10)
    result = broker.handle(join(member_id, "X"), 20)
    back = accepted(result)
    assert (back.member_id, back.member_epoch, back.active_tasks) == (member_id, 2, ALL_FOUR)
    assert types(result.records) == [
        *TOMBSTONES,
        *reversed(TOMBSTONES),
        RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    ]
    assert [record.key for record in result.records[:3]] == [(GROUP, "m1")] * 3
    assert [record.key for record in result.records[3:]] == [(GROUP, member_id)] * 4
    copied = expect(CurrentAssignment, result.records[5].value)
    assert (copied.member_epoch, copied.previous_member_epoch) == (0, 0)
    assert epochs(broker) == (2, {member_id: 2})
    assert describe(broker).group_state == "Stable"


def test_S02_old_member_id_is_fenced_after_the_replacement() -> None:
    """mixed.testOldStaticMemberIdIsFencedAfterReplacementInMixedGroup."""
    broker = with_static_member()
    broker.handle(beat("m1", -2, "X"), 10)
    broker.handle(join("m2", "X"), 20)
    assert answer(broker.handle(beat("m1", 2, "X"), 30)).error_code is ErrorCode.FENCED_INSTANCE_ID
    expired = broker.expire(45_000)
    assert (expired.records, epochs(broker)) == ((), (2, {"m2": 2}))


def test_S03_rejoin_with_another_process_id_bumps_the_group_epoch() -> None:
    """static.testStaticMemberRejoinWithUpdatedProcessIdBumpsStreamsGroupEpoch."""
    broker = with_static_member()
    broker.handle(beat("m1", -2, "X"), 10)
    back = accepted(broker.handle(join("m2", "X", process_id="another"), 20))
    assert (back.member_epoch, back.active_tasks) == (3, ALL_FOUR)
    assert epochs(broker) == (3, {"m2": 3})


def test_S03_rejoin_with_the_same_process_id_from_another_host_does_not() -> None:
    """static.testStaticMemberRejoinWithSameProcessIdDoesNotBumpStreamsGroupEpoch: new client id and host are stored."""
    broker = with_static_member()
    broker.handle(beat("m1", -2, "X"), 10)
    result = broker.handle(join("m2", "X", client_id="new", client_host="/127.0.0.2"), 20)
    assert (accepted(result).member_epoch, accepted(result).active_tasks) == (2, ALL_FOUR)
    assert RecordType.STREAMS_GROUP_METADATA not in types(result.records)
    member = describe(broker).members[0]
    assert (member.client_id, member.client_host) == ("new", "/127.0.0.2")


@pytest.mark.parametrize("change", [{"rack_id": "other"}, {"client_tags": (("zone", "b"),)}])
def test_S03_rejoin_from_another_rack_bumps_the_group_epoch(change: dict[str, object]) -> None:
    """static.…RejoinAndOtherRackIdThenGroupBumpOccur; the same rule covers client tags (KIP-1071)."""
    broker = with_static_member()
    broker.handle(beat("m1", -2, "X"), 10)
    assert accepted(broker.handle(join("m2", "X", **change), 20)).member_epoch == 3


# S05, S06 -----------------------------------------------------------------------------------------------------------


def test_S05_session_runs_out_while_away() -> None:
    """static.testStreamsStaticMemberTemporaryLeaveSessionTimeoutExpiration."""
    broker = with_static_member()
    broker.handle(beat("m1", -2, "X"), 0)
    assert broker.expire(44_999).records == ()
    result = broker.expire(45_001)
    assert types(result.records) == [
        *TOMBSTONES,
        RecordType.STREAMS_GROUP_METADATA,
        RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
    ]
    assert epochs(broker) == (3, {})


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (-2, ErrorCode.FENCED_INSTANCE_ID),
        (-1, ErrorCode.FENCED_INSTANCE_ID),
        (1, ErrorCode.FENCED_INSTANCE_ID),
        (11, ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_S06_foreign_member_id_with_a_used_instance_is_fenced(epoch: int, error: ErrorCode) -> None:
    """static.testStaticMemberSendHeartbeatWithVariousEpochThenThrowError, testStaticMemberLeaveWithMismatched…."""
    broker = with_static_member()
    result = broker.handle(beat("m2", epoch, "X"), 10)
    assert (answer(result).error_code, result.records) == (error, ())


def test_S06_join_with_a_used_instance_is_unreleased() -> None:
    """static.testStreamsStaticJoinWithUnreleasedInstanceThrowsUnreleasedInstanceIdAtMaxSize, also by its holder."""
    broker = with_static_member(streams_max_size=1)
    for member_id in ("m2", "m1"):
        result = broker.handle(join(member_id, "X"), 10)
        assert (answer(result).error_code, result.records) == (ErrorCode.UNRELEASED_INSTANCE_ID, ())


@pytest.mark.parametrize(
    ("epoch", "active", "error"),
    [
        (0, (), ErrorCode.NONE),
        (2, None, ErrorCode.NONE),
        (3, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, (("subtopology1", (0, 1)),), ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_S06_epochs_of_a_dynamic_member(epoch: int, active: object, error: ErrorCode) -> None:
    """GroupMetadataManagerTest.testStreamsGroupMemberEpochValidation;
    epoch 0 always rejoins (…CanRejoinWithEpochZero).
    """
    broker = coordinator()
    broker.handle(join("m1"), 0)
    request = join("m1") if epoch == 0 else beat("m1", epoch, active=active)  # type: ignore[arg-type]
    assert answer(broker.handle(request, 10)).error_code is error


@pytest.mark.parametrize(
    ("partitions", "error"),
    [((0, 1), ErrorCode.NONE), ((0, 1, 2), ErrorCode.NONE), ((0, 1, 2, 3), ErrorCode.FENCED_MEMBER_EPOCH)],
)
def test_S06_previous_epoch_passes_if_what_is_owned_was_assigned(partitions: tuple[int, ...], error: ErrorCode) -> None:
    """static.testStreamsStaticMemberHeartbeatWithPreviousEpochAndOwnedActiveTasks: the last answer was lost."""
    broker = coordinator(partitions=5)
    broker.handle(join("m1", "X"), 0)
    broker.handle(join("m0"), 1)
    keeps = (("subtopology1", (0, 1, 2)),)
    moved = accepted(broker.handle(beat("m1", 2, "X", (("subtopology1", (0, 1, 2, 3, 4)),)), 2))
    assert (moved.member_epoch, moved.active_tasks) == (2, keeps)
    assert accepted(broker.handle(beat("m1", 2, "X", keeps), 3)).member_epoch == 3
    assert answer(broker.handle(beat("m1", 2, "X", (("subtopology1", partitions),)), 4)).error_code is error


def test_S06_full_group_takes_a_new_member_once_the_absent_one_expired() -> None:
    """mixed.testDynamicJoinSucceedsAfterTemporarilyLeftStaticMemberSessionTimeoutInMixedGroup."""
    broker = with_static_member(streams_max_size=2)
    broker.handle(beat("m1", -2, "X"), 0)
    broker.handle(join("m2"), 30_000)
    assert answer(broker.handle(join("m3"), 30_001)).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    broker.expire(45_000)
    assert accepted(broker.handle(join("m3"), 45_001)).member_epoch == 5


def test_A2_release_in_the_name_of_a_dead_process_lets_its_successor_in() -> None:
    """No Kafka test: after a crash the seat is unreleased until a client sends -2 with both ids."""
    broker = with_static_member()
    assert answer(broker.handle(join("m2", "X"), 1_000)).error_code is ErrorCode.UNRELEASED_INSTANCE_ID
    broker.handle(beat("m1", -2, "X"), 2_000)
    assert accepted(broker.handle(join("m2", "X"), 3_000)).active_tasks == ALL_FOUR
    assert epochs(broker) == (2, {"m2": 2})


def test_A6_a_longer_session_does_not_reach_an_absent_member() -> None:
    """No Kafka test: the group's session timeout is read at heartbeats only."""
    broker = with_static_member()
    broker.handle(join("m2"), 1_000)
    broker.handle(beat("m1", -2, "X"), 2_000)
    broker.handle(AlterGroupConfigRequest(group_id=GROUP, configs=(("streams.session.timeout.ms", "60000"),)), 3_000)
    broker.handle(beat("m2", 3), 4_000)
    deadlines = [broker.timers.deadline_ms(("streams-session", GROUP, m)) for m in ("m1", "m2")]
    assert deadlines == [45_000, 64_000]


def test_A7_a_fail_over_during_a_bounce_gives_the_absent_member_a_full_session_again() -> None:
    """No Kafka test: onLoaded starts all session timers in full; the seat and its tasks are in the log."""
    broker = with_static_member()
    log = list(coordinator().handle(join("m1", "X"), 0).records)
    log += broker.handle(beat("m1", -2, "X"), 10_000).records
    loaded = coordinator()
    loaded.replay(log, now_ms=40_000)
    assert loaded.timers.deadline_ms(("streams-session", GROUP, "m1")) == 85_000
    assert accepted(loaded.handle(join("m2", "X"), 84_000)).active_tasks == ALL_FOUR
    assert epochs(loaded) == (2, {"m2": 2})


def test_static_rejoin_with_another_process_id_is_reconciled_by_dynamic_neighbours() -> None:
    """mixed.testStaticRejoinWithUpdatedProcessIdRecomputes…,
    mixed.testStaticRejoinWithSameProcessIdDoesNotBumpEpoch….
    """
    broker = with_static_member()
    broker.handle(join("m2", process_id="other"), 1)
    broker.handle(beat("m1", 2, "X", ALL_FOUR), 2)
    half = (("subtopology1", (0, 1)),)
    broker.handle(beat("m1", 2, "X", half), 3)
    broker.handle(beat("m2", 3, active=()), 4)
    broker.handle(beat("m1", -2, "X"), 5)
    accepted(broker.handle(join("m3", "X"), 6))
    assert broker.handle(beat("m2", 3), 7).records == ()
    broker.handle(beat("m3", -2, "X"), 8)
    moved = accepted(broker.handle(join("m4", "X", process_id="new"), 9))
    assert (moved.member_epoch, moved.active_tasks) == (4, half)
    answer = broker.handle(beat("m2", 3), 10)
    assert (accepted(answer).member_epoch, accepted(answer).active_tasks) == (4, None)
    assert types(answer.records) == [RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT]


def test_temporary_leave_keeps_the_tasks_from_others() -> None:
    """mixed.testStaticTemporaryLeaveDoesNotTransferTasksToExistingDynamicMember."""
    broker = with_static_member()
    broker.handle(join("m2"), 1)
    broker.handle(beat("m1", 2, "X", ALL_FOUR), 2)
    broker.handle(beat("m1", 2, "X", (("subtopology1", (0, 1)),)), 3)
    assert accepted(broker.handle(beat("m2", 3, active=()), 4)).active_tasks == (("subtopology1", (2, 3)),)
    broker.handle(beat("m1", -2, "X"), 5)
    quiet = broker.handle(beat("m2", 3, active=(("subtopology1", (2, 3)),)), 6)
    assert (accepted(quiet).active_tasks, quiet.records) == (None, ())
    assert epochs(broker) == (3, {"m1": -2, "m2": 3})


def test_temporary_leave_while_revoking_releases_what_was_pending() -> None:
    """static.…FromUnrevokedStateAllowsUnreleasedMemberToProgress, …FromUnrevokedState: the state stays Unrevoked."""
    broker = with_static_member()
    broker.handle(join("m2"), 1)
    answer = accepted(broker.handle(beat("m1", 2, "X", ALL_FOUR), 2))
    assert (answer.member_epoch, answer.active_tasks) == (2, (("subtopology1", (0, 1)),))
    assert accepted(broker.handle(beat("m2", 3, active=()), 3)).active_tasks is None
    left = expect(CurrentAssignment, broker.handle(beat("m1", -2, "X"), 4).records[0].value)
    assert (left.state, bool(left.pending_revocation)) == (MemberState.UNREVOKED_TASKS, False)
    assert accepted(broker.handle(beat("m2", 3, active=()), 5)).active_tasks == (("subtopology1", (2, 3)),)


def test_same_member_id_may_take_another_instance_id() -> None:
    """static.testStaticMemberRejoinsWithSameMemberIdAndDifferentInstanceId."""
    broker = with_static_member()
    accepted(broker.handle(join("m1", "Y"), 1))
    assert [m.instance_id for m in describe(broker).members] == ["Y"]
    assert answer(broker.handle(beat("m1", 2, "X"), 2)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_before_4_4_any_instance_id_is_refused() -> None:
    """GroupCoordinatorService 4.1-4.3: InstanceId is not yet supported."""
    broker = coordinator(streams_static_membership=False)
    assert answer(broker.handle(join("m1", "X"), 0)).error_code is ErrorCode.INVALID_REQUEST
    assert accepted(broker.handle(join("m1"), 0)).member_epoch == 2


def test_leave_group_on_a_streams_group_knows_no_member() -> None:
    """GroupMetadataManagerTest.testClassicGroupLeaveOnStreamsGroup: LeaveGroup does not remove streams members."""
    broker = with_static_member()
    request = LeaveGroupRequest(
        group_id=GROUP,
        members=(MemberIdentity(member_id="m1", group_instance_id="X"), MemberIdentity(group_instance_id="X")),
    )
    response = expect(LeaveGroupResponse, broker.handle(request, 10).response)
    assert [m.error_code for m in response.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert epochs(broker) == (2, {"m1": 2})


# S08-S14: applications of several threads ---------------------------------------------------------------------------
