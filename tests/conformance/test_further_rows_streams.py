"""Rules of streams groups that Kafka's own tests pin and the catalogue of rows does not name.

`static` is StreamsGroupStaticMemberGroupMetadataManagerTest of Kafka 4.4, `mixed` is
StreamsGroupMixedGroupMetadataManagerTest, GMMT is GroupMetadataManagerTest, SGT is StreamsGroupTest; each docstring
names the test it restates.
"""

from __future__ import annotations

import pytest

from conformance.answers import expect
from coordinator_model.base.epoch_group import TargetMetadata
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.records import Record, RecordType
from coordinator_model.coordinator import GroupCoordinator
from coordinator_model.offsets import OffsetCommitValue
from coordinator_model.streams.group import GroupMetadata, StreamsGroup
from coordinator_model.streams.member import CurrentAssignment, MemberMetadata, MemberState, Tasks, tasks_of
from coordinator_model.streams.messages import Status, TaskIds

from .streams_app import GROUP, TOPOLOGY, accepted, answer, beat, coordinator, describe, join, types

CURRENT = RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT
TARGET = RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER
TARGET_EPOCH = RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA
MEMBER = RecordType.STREAMS_GROUP_MEMBER_METADATA
EPOCH = RecordType.STREAMS_GROUP_METADATA


def tasks(*partitions: int) -> TaskIds:
    return (("subtopology1", partitions),)


def pair(**settings: object) -> GroupCoordinator:
    """Static m1 (X) and m2 (Y) of different processes, two tasks each, settled at epoch 3."""
    broker = coordinator(**settings)
    accepted(broker.handle(join("m1", "X"), 0))
    accepted(broker.handle(join("m2", "Y", process_id="other"), 1))
    accepted(broker.handle(beat("m1", 2, "X", tasks(0, 1, 2, 3)), 2))
    accepted(broker.handle(beat("m1", 2, "X", tasks(0, 1)), 3))
    assert accepted(broker.handle(beat("m2", 3, "Y", ()), 4)).active_tasks == tasks(2, 3)
    return broker


def group_of(broker: GroupCoordinator) -> StreamsGroup:
    return expect(StreamsGroup, broker.groups[GROUP])


def state_of(broker: GroupCoordinator, member_id: str) -> MemberState:
    return group_of(broker).members[member_id].current.state


# static members -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [100, 2])
def test_second_static_member_joins_receives_leaves_and_returns(size: int) -> None:
    """static.testStaticMemberJoinThenRevokeAndReceiveTasks, …InMaxSizeBoundary."""
    broker = coordinator(streams_max_size=size)
    accepted(broker.handle(join("m1", "X"), 0))
    joined = accepted(broker.handle(join("m2", "Y", process_id="other"), 1))
    assert (joined.member_epoch, joined.active_tasks) == (3, ())
    answer = accepted(broker.handle(beat("m1", 2, "X"), 2))
    assert (answer.member_epoch, answer.active_tasks) == (2, tasks(0, 1))
    done = accepted(broker.handle(beat("m1", 2, "X", tasks(0, 1)), 3))
    assert (done.member_epoch, done.active_tasks) == (3, None)
    assert accepted(broker.handle(beat("m2", 3, "Y"), 4)).active_tasks == tasks(2, 3)
    away = accepted(broker.handle(beat("m2", -2, "Y"), 5))
    assert (away.member_epoch, away.active_tasks, away.heartbeat_interval_ms) == (-2, None, 0)
    back = accepted(broker.handle(join("m3", "Y", process_id="other"), 6))
    assert (back.member_id, back.member_epoch, back.active_tasks) == ("m3", 3, tasks(2, 3))


def test_temporary_leave_while_tasks_are_not_released_yet_keeps_the_state() -> None:
    """static.…EpochFromUnreleasedState, static.testStaticMemberRejoinsAfterTemporaryLeaveFromUnreleasedState."""
    broker = coordinator()
    accepted(broker.handle(join("m1", "X"), 0))
    accepted(broker.handle(join("m2", "Y", process_id="other"), 1))
    assert state_of(broker, "m2") is MemberState.UNRELEASED_TASKS
    left = broker.handle(beat("m2", -2, "Y"), 2)
    assert types(left.records) == [CURRENT]
    assert (state_of(broker, "m2"), group_of(broker).metadata.epoch) == (MemberState.UNRELEASED_TASKS, 3)
    back = accepted(broker.handle(join("m3", "Y", process_id="other"), 3))
    assert (back.member_epoch, back.active_tasks) == (3, ())
    assert (state_of(broker, "m3"), group_of(broker).metadata.epoch) == (MemberState.UNRELEASED_TASKS, 3)


def test_temporary_leave_while_revoking_keeps_the_state_and_drops_what_was_pending() -> None:
    """static.testStaticMemberLeaveWithLeaveGroupStaticMemberEpochFromUnrevokedState: the previous epoch stays too."""
    broker = coordinator()
    accepted(broker.handle(join("m1", "X"), 0))
    accepted(broker.handle(join("m2", "Y", process_id="other"), 1))
    accepted(broker.handle(beat("m1", 2, "X", tasks(0, 1, 2, 3)), 2))
    before = group_of(broker).members["m1"].current
    (record,) = broker.handle(beat("m1", -2, "X"), 3).records
    assert isinstance(record.value, CurrentAssignment)
    assert (record.value.state, record.value.member_epoch) == (MemberState.UNREVOKED_TASKS, -2)
    assert record.value.previous_member_epoch == before.previous_member_epoch
    assert record.value.assigned.active == dict.fromkeys(tasks_of(tasks(0, 1)), 0)
    assert not record.value.pending_revocation


def test_replacement_writes_three_tombstones_and_three_copies() -> None:
    """static.testStaticMemberRejoinWritesReplacementRecordsInStreamsGroup: the neighbour is not touched;
    static.testStaticMemberJoinEmptyStreamsGroupRegistersStaticMember1.
    """
    broker = pair()
    assert group_of(broker).static_members == {"X": "m1", "Y": "m2"}
    neighbour = group_of(broker).members["m1"]
    old = group_of(broker).members["m2"]
    broker.handle(beat("m2", -2, "Y"), 5)
    records = broker.handle(join("m3", "Y", process_id="other"), 6).records
    assert types(records) == [CURRENT, TARGET, MEMBER, MEMBER, TARGET, CURRENT, CURRENT]
    assert [r.value for r in records[:3]] == [None] * 3
    assert [r.key[1] for r in records] == ["m2"] * 3 + ["m3"] * 4
    assert (records[3].value, records[4].value) == (old.metadata, Tasks(tasks_of(tasks(2, 3))))
    assert group_of(broker).members["m1"] is neighbour


@pytest.mark.parametrize(("member_id", "epoch"), [("m9", -1), ("m9", -2), ("m9", 3)])
def test_mismatched_member_id_is_fenced_and_changes_nothing(member_id: str, epoch: int) -> None:
    """static.testStaticMemberLeaveWithMismatchedMemberIdThrowsFencedInstanceIdInStreamsGroup."""
    broker = pair()
    result = broker.handle(beat(member_id, epoch, "Y"), 5)
    assert answer(result).error_code is ErrorCode.FENCED_INSTANCE_ID
    assert (result.records, result.timers) == ((), ())


# static and dynamic members together --------------------------------------------------------------------------------


def test_seat_of_an_absent_member_is_not_free() -> None:
    """mixed.testDynamicJoinFailsAtMaxSizeWhileStaticMemberIsTemporarilyLeftAndDynamicMemberStillExists,
    GMMT.testStreamsNewMemberIsRejectedWithMaximumMembersIsReached.
    """
    broker = coordinator(streams_max_size=2)
    accepted(broker.handle(join("m1", "X"), 0))
    accepted(broker.handle(join("m2", process_id="other"), 1))
    broker.handle(beat("m1", -2, "X"), 2)
    refused = broker.handle(join("m3", process_id="third"), 3)
    assert (answer(refused).error_code, refused.records) == (ErrorCode.GROUP_MAX_SIZE_REACHED, ())
    assert accepted(broker.handle(join("m4", "X"), 4)).member_id == "m4"


def test_return_to_a_full_group_leaves_the_dynamic_member_alone() -> None:
    """mixed.testStaticRejoinSucceedsAtMaxSizeWhileDynamicMemberStillExists."""
    broker = coordinator(streams_max_size=2)
    accepted(broker.handle(join("m1", "X"), 0))
    accepted(broker.handle(join("m2", process_id="other"), 1))
    accepted(broker.handle(beat("m1", 2, "X", tasks(0, 1)), 2))
    assert accepted(broker.handle(beat("m2", 3, active=()), 3)).active_tasks == tasks(2, 3)
    dynamic = group_of(broker).members["m2"]
    broker.handle(beat("m1", -2, "X"), 4)
    back = accepted(broker.handle(join("m9", "X"), 5))
    assert (back.member_epoch, back.active_tasks) == (3, tasks(0, 1))
    group = group_of(broker)
    assert (set(group.members), group.static_members) == ({"m2", "m9"}, {"X": "m9"})
    assert group.members["m2"] is dynamic
    assert (group.targets["m2"], group.metadata.epoch) == (Tasks(tasks_of(tasks(2, 3))), 3)


def test_session_of_the_absent_ends_and_its_tasks_go_to_the_dynamic_member() -> None:
    """mixed.testDynamicJoinSucceedsAfterTemporarilyLeftStaticMemberSessionTimeoutInMixedGroup, present members."""
    broker = coordinator()
    accepted(broker.handle(join("m1", "X"), 0))
    accepted(broker.handle(join("m2", process_id="other"), 1))
    accepted(broker.handle(beat("m1", 2, "X", tasks(0, 1)), 2))
    accepted(broker.handle(beat("m2", 3, active=()), 3))
    broker.handle(beat("m1", -2, "X"), 4)
    accepted(broker.handle(beat("m2", 3, active=tasks(2, 3)), 40_000))
    broker.expire(45_002)
    answer = accepted(broker.handle(beat("m2", 3, active=tasks(2, 3)), 45_003))
    assert (answer.member_epoch, answer.active_tasks) == (4, tasks(0, 1, 2, 3))


# dynamic members ----------------------------------------------------------------------------------------------------


def test_leaving_member_is_removed_with_one_epoch() -> None:
    """GMMT.testStreamsLeavingMemberRemovesMemberAndBumpsGroupEpoch: three tombstones; no target before a heartbeat."""
    broker = pair()
    result = broker.handle(beat("m2", -1), 5)
    assert (accepted(result).member_id, accepted(result).member_epoch) == ("m2", -1)
    assert types(result.records) == [CURRENT, TARGET, MEMBER, EPOCH]
    assert [record.value for record in result.records[:3]] == [None] * 3
    assert (group_of(broker).metadata.epoch, group_of(broker).target_metadata.assignment_epoch) == (4, 3)
    assert {key[2] for key in broker.timers.of_group(GROUP)} == {"m1"}


def test_epoch_0_of_a_known_dynamic_member_is_a_rejoin() -> None:
    """GMMT.testStreamsGroupMemberCanRejoinWithEpochZero: the same tasks in the same epoch."""
    broker = coordinator()
    accepted(broker.handle(join("m1"), 0))
    back = accepted(broker.handle(join("m1"), 1))
    assert (back.member_epoch, back.active_tasks) == (2, tasks(0, 1, 2, 3))


def test_changed_process_id_of_a_dynamic_member_makes_a_new_target() -> None:
    """GMMT.testStreamsUpdatingMemberMetadataTriggersNewTargetAssignment: by a regular heartbeat too."""
    broker = coordinator()
    accepted(broker.handle(join("m1"), 0))
    request = join("m1", member_epoch=2, process_id="process-2", topology=None, active_tasks=tasks(0, 1, 2, 3))
    result = broker.handle(request, 1)
    assert accepted(result).member_epoch == 3
    assert types(result.records)[:2] == [MEMBER, EPOCH]
    assert types(result.records)[-2:] == [TARGET_EPOCH, CURRENT]


def test_initial_delay_applies_to_an_old_group_that_is_empty_again() -> None:
    """GMMT.testStreamsRebalanceDelayWhenJoiningEmptyGroupWithNonZeroEpoch."""
    broker = coordinator(streams_initial_rebalance_delay_ms=1_000)
    broker.replay(
        [
            Record(EPOCH, (GROUP,), GroupMetadata(10, 0, -1, 0)),
            Record(TARGET_EPOCH, (GROUP,), TargetMetadata(10, 0)),
            Record(RecordType.STREAMS_GROUP_TOPOLOGY, (GROUP,), TOPOLOGY),
        ]
    )
    joined = accepted(broker.handle(join("m1", "X"), 0))
    assert (joined.active_tasks, [status for status, _ in joined.status]) == ((), [Status.ASSIGNMENT_DELAYED])
    broker.expire(1_000)
    answer = accepted(broker.handle(beat("m1", joined.member_epoch, "X", ()), 1_001))
    assert answer.active_tasks == tasks(0, 1, 2, 3)


# the log ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [EPOCH, RecordType.STREAMS_GROUP_TOPOLOGY, MEMBER, TARGET, TARGET_EPOCH, CURRENT])
def test_tombstone_of_what_is_not_there(kind: RecordType) -> None:
    """GMMT.testReplayStreamsGroup…TombstoneNotExisting: no group is made by it."""
    broker = coordinator()
    key = (GROUP, "m9") if kind in (MEMBER, TARGET, CURRENT) else (GROUP,)
    broker.replay([Record(kind, key, None)])
    assert broker.groups == {}


def test_tombstones_of_what_is_there() -> None:
    """GMMT.testReplayStreamsGroupCurrentMemberAssignmentTombstoneExisting, …TopologyTombstoneExists,
    …Target…Existing.
    """
    broker = pair()
    group = group_of(broker)
    broker.replay([Record(CURRENT, (GROUP, "m1"), None)])
    current = group.members["m1"].current
    assert (current.member_epoch, current.previous_member_epoch) == (-1, -1)
    assert not current.assigned
    broker.replay([Record(TARGET, (GROUP, "m1"), None), Record(MEMBER, (GROUP, "m1"), None)])
    assert (set(group.members), set(group.targets), group.static_members) == ({"m2"}, {"m2"}, {"Y": "m2"})
    broker.replay([Record(RecordType.STREAMS_GROUP_TOPOLOGY, (GROUP,), None), Record(TARGET_EPOCH, (GROUP,), None)])
    assert (group.topology, group.target_metadata) == (None, TargetMetadata(-1, 0))


def test_streams_records_take_the_place_of_a_group_of_offsets() -> None:
    """GMMT.testReplayStreamsGroupMemberMetadataWithSimpleClassicGroup."""
    broker = coordinator()
    broker.replay([Record(RecordType.OFFSET_COMMIT, (GROUP, "foo", 0), OffsetCommitValue(7))])
    assert broker.groups[GROUP].group_type == "classic"
    broker.replay([Record(MEMBER, (GROUP, "m1"), MemberMetadata(instance_id="X"))])
    assert (broker.groups[GROUP].group_type, set(group_of(broker).members)) == ("streams", {"m1"})


# describe -----------------------------------------------------------------------------------------------------------


def test_instance_id_and_epoch_of_an_absent_member_are_described() -> None:
    """SGT.testAsDescribedGroup with a member at -2: it is listed with its tasks, and the group is reconciling."""
    broker = pair()
    broker.handle(beat("m2", -2, "Y"), 5)
    group = describe(broker)
    assert group.group_state == "Reconciling"
    shown = {m.instance_id: (m.member_id, m.member_epoch, m.assignment.active_tasks) for m in group.members}
    assert shown == {"X": ("m1", 3, tasks(0, 1)), "Y": ("m2", -2, tasks(2, 3))}
