"""Streams groups beyond the rows: timers, topology, reconciliation, records. Tests named are GroupMetadataManagerTest's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_model.assignors.subscription import to_topic_partitions
from coordinator_model.base.errors import ErrorCode, GroupError
from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import (
    AlterGroupConfigRequest,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberIdentity,
)
from coordinator_model.base.records import Record, RecordType
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.coordinator import GroupCoordinator
from coordinator_model.streams import assignor as streams_assignor
from coordinator_model.streams.group import StreamsGroup, check_commit, check_fetch
from coordinator_model.streams.member import (
    CurrentAssignment,
    HeldTasks,
    Holders,
    Member,
    MemberMetadata,
    MemberState,
    Task,
    Tasks,
    reconcile,
    tasks_of,
)
from coordinator_model.streams.messages import (
    Status,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    Topology,
)

GROUP = "app"
TOPOLOGY = Topology(0, (Subtopology("s", ("foo",), is_stateful=True),))


def coordinator(partitions: int = 4, **chosen: object) -> GroupCoordinator:
    at_once = {"streams_initial_rebalance_delay_ms": 0, "streams_assignment_interval_ms": 0}
    values: dict[str, object] = {**at_once, **chosen}
    return GroupCoordinator(BrokerSettings(**values), image=TopicImage({"foo": partitions}))  # type: ignore[arg-type]


def join(member_id: str, process_id: str = "p", **fields: object) -> StreamsGroupHeartbeatRequest:
    values: dict[str, object] = {"topology": TOPOLOGY, "rebalance_timeout_ms": 1_500, **fields}
    return StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        process_id=process_id,
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
        **values,  # type: ignore[arg-type]
    )


def beat(member_id: str, epoch: int, active: TaskIds | None = None, **fields: object) -> StreamsGroupHeartbeatRequest:
    others: TaskIds | None = None if active is None else ()
    values: dict[str, object] = {"standby_tasks": others, "warmup_tasks": others, **fields}
    return StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        active_tasks=active,
        **values,  # type: ignore[arg-type]
    )


def send(broker: GroupCoordinator, request: StreamsGroupHeartbeatRequest, now_ms: int) -> StreamsGroupHeartbeatResponse:
    response = broker.handle(request, now_ms).response
    assert isinstance(response, StreamsGroupHeartbeatResponse)
    return response


def group(broker: GroupCoordinator) -> StreamsGroup:
    found = broker.groups[GROUP]
    assert isinstance(found, StreamsGroup)
    return found


def types(records: tuple[Record, ...]) -> list[RecordType]:
    return [record.record_type for record in records]


# joining ------------------------------------------------------------------------------------------------------------


def test_first_member_writes_six_records_and_is_at_epoch_2() -> None:
    """testMemberJoinsEmptyStreamsGroup."""
    result = coordinator().handle(join("m1"), 7)
    response = result.response
    assert isinstance(response, StreamsGroupHeartbeatResponse)
    assert (response.member_epoch, response.heartbeat_interval_ms, response.status) == (2, 5_000, ())
    assert (response.active_tasks, response.standby_tasks, response.warmup_tasks) == ((("s", (0, 1, 2, 3)),), (), ())
    assert types(result.records) == [
        RecordType.STREAMS_GROUP_MEMBER_METADATA,
        RecordType.STREAMS_GROUP_TOPOLOGY,
        RecordType.STREAMS_GROUP_METADATA,
        RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
        RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
        RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    ]


def test_nothing_new_means_no_record_and_no_tasks_in_the_answer() -> None:
    """testStreamsGroupHeartbeatPartialResponseWhenNothingChanges."""
    broker = coordinator()
    broker.handle(join("m1"), 0)
    result = broker.handle(beat("m1", 2), 10)
    response = result.response
    assert isinstance(response, StreamsGroupHeartbeatResponse)
    assert (response.active_tasks, response.standby_tasks, response.warmup_tasks) == (None, None, None)
    assert result.records == ()


def test_first_assignment_waits_for_the_initial_delay() -> None:
    """testStreamsInitialRebalanceDelayEmptyDuringDelayAssignsAfterTimer."""
    broker = coordinator(2, streams_initial_rebalance_delay_ms=1_000)
    first = send(broker, join("m1"), 0)
    assert (first.member_epoch, first.active_tasks) == (1, ())
    assert [status for status, _ in first.status] == [Status.ASSIGNMENT_DELAYED]
    assert send(broker, join("m2", "q"), 500).member_epoch == 1
    assert types(broker.expire(1_000).records) == [
        RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
        RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
        RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
    ]
    assert send(broker, beat("m1", 1, ()), 1_001).active_tasks == (("s", (0,)),)
    assert send(broker, beat("m2", 1, ()), 1_002).active_tasks == (("s", (1,)),)


def test_assignment_interval_holds_the_next_assignment_back() -> None:
    """testStreamsGroupAssignmentInterval (KIP-1263); an emptied group does not wait (KAFKA-20442)."""
    broker = coordinator(streams_assignment_interval_ms=1_000)
    broker.handle(join("m1"), 5_000)
    waiting = send(broker, join("m2", "q"), 5_500)
    assert (waiting.member_epoch, waiting.active_tasks) == (2, ())
    assert [status for status, _ in waiting.status] == [Status.ASSIGNMENT_DELAYED]
    assert send(broker, beat("m2", 2, ()), 6_000).member_epoch == 3
    for member_id in ("m1", "m2"):
        broker.handle(beat(member_id, -1), 6_001)
    assert send(broker, join("m3"), 6_002).active_tasks == (("s", (0, 1, 2, 3)),)


def test_timestamp_0_lets_the_next_assignment_be_computed_now() -> None:
    """GroupMetadataManager.canComputeNextTargetAssignment: 0 is no time to count from, however early it is."""
    broker = coordinator(streams_assignment_interval_ms=1_000)
    assert send(broker, join("m1"), 5).active_tasks == (("s", (0, 1, 2, 3)),)
    broker.handle(beat("m1", -1), 6)
    assert send(broker, join("m2"), 7).active_tasks == (("s", (0, 1, 2, 3)),)


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (beat("m1", 2, (("s", (0, 1)),)), ErrorCode.NONE),
        (beat("m1", 2, (("s", ()),)), ErrorCode.NONE),
        (beat("m1", 2, ()), ErrorCode.NONE),
        (beat("m1", 2, (("other", ()),)), ErrorCode.FENCED_MEMBER_EPOCH),
        (beat("m1", 2, (), standby_tasks=(("s", ()),)), ErrorCode.FENCED_MEMBER_EPOCH),
        (beat("m1", 2, (), warmup_tasks=(("s", ()),)), ErrorCode.FENCED_MEMBER_EPOCH),
        (beat("m1", 2), ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_the_previous_epoch_passes_with_no_subtopology_that_is_not_assigned(
    sent: StreamsGroupHeartbeatRequest, error: ErrorCode
) -> None:
    """GroupMetadataManager.areOwnedTasksContainedInAssignedTasks…: refused even if no task of it is reported."""
    broker = coordinator()
    broker.handle(join("m1"), 0)
    broker.handle(join("m2", "q"), 1)
    kept = send(broker, beat("m1", 2, (("s", (0, 1, 2, 3)),)), 2).active_tasks
    assert kept == (("s", (0, 1)),)
    assert send(broker, beat("m1", 2, kept), 3).member_epoch == 3
    assert send(broker, sent, 4).error_code is error


def test_missing_source_topic_leaves_the_group_not_ready() -> None:
    """testStreamsGroupMemberJoiningWithMissingSourceTopic; the topic's arrival assigns (testStreamsOnMetadataUpdate)."""
    broker = coordinator()
    broker.image = TopicImage()
    first = send(broker, join("m1"), 0)
    assert (first.member_epoch, first.active_tasks) == (2, ())
    assert [status for status, _ in first.status] == [Status.MISSING_SOURCE_TOPICS]
    assert group(broker).state == "NotReady"
    broker.image = TopicImage({"foo": 2})
    later = send(broker, beat("m1", 2, ()), 10)
    assert (later.member_epoch, later.active_tasks, later.status) == (3, (("s", (0, 1)),), ())
    assert group(broker).state == "Stable"


def test_new_partitions_bump_the_group_epoch_once() -> None:
    """testStreamsUpdatingPartitionMetadataTriggersNewTargetAssignment."""
    broker = coordinator(2)
    broker.handle(join("m1"), 0)
    broker.image = TopicImage({"foo": 3, "unrelated": 1})
    grown = send(broker, beat("m1", 2), 10)
    assert (grown.member_epoch, grown.active_tasks) == (3, (("s", (0, 1, 2)),))
    broker.image = broker.image.with_topic("another", 4)
    assert broker.handle(beat("m1", 3), 20).records == ()


def test_topology_is_set_once() -> None:
    """testStreamsGroupMemberJoiningWithStaleTopology, maybeUpdateTopology: updates are not supported yet."""
    broker = coordinator()
    newer = Topology(1, TOPOLOGY.subtopologies)
    broker.handle(join("m1", topology=newer), 0)
    stale = send(broker, join("m2", "q", topology=TOPOLOGY), 1)
    assert [status for status, _ in stale.status] == [Status.STALE_TOPOLOGY]
    records = broker.handle(join("m3", topology=Topology(1, (Subtopology("other", ("foo",)),))), 2)
    assert (records.response.error_code if records.response else None, records.records) == (
        ErrorCode.INVALID_REQUEST,
        (),
    )
    assert (
        send(broker, join("m4", topology=Topology(2, TOPOLOGY.subtopologies)), 3).error_code
        is ErrorCode.INVALID_REQUEST
    )


def test_shutdown_of_the_application_reaches_everybody_until_the_group_is_empty() -> None:
    """testStreamsGroupMemberRequestingShutdownApplication, …UponLeaving."""
    broker = coordinator()
    broker.handle(join("m1"), 0)
    broker.handle(join("m2", "q"), 1)
    broker.handle(beat("m1", -1, shutdown_application=True), 2)
    assert Status.SHUTDOWN_APPLICATION in dict(send(broker, beat("m2", 3), 3).status)
    broker.handle(beat("m2", -1), 4)
    assert send(broker, join("m3"), 5).status == ()


@pytest.mark.parametrize(
    "wrong",
    [
        join(""),
        replace(join("m1"), group_id=""),
        join("m1", group_instance_id=""),
        join("m1", rack_id=""),
        join(" "),
        replace(join("m1"), group_id="\t"),
        join("m1", group_instance_id=" "),
        join("m1", rack_id=" \n"),
        join("m1", rebalance_timeout_ms=-1),
        replace(join("m1"), topology=None),
        replace(join("m1"), active_tasks=(("s", (0,)),)),
        beat("m1", -2),
        beat("m1", -3),
        beat("m1", 2, ()).__class__(group_id=GROUP, member_id="m1", member_epoch=2, active_tasks=()),
        replace(beat("m1", 2), topology=TOPOLOGY),
        beat("m1", 2, (("s", (4,)),)),
        beat("m1", 2, (("unknown", (0,)),)),
    ],
)
def test_requests_that_no_member_sends(wrong: StreamsGroupHeartbeatRequest) -> None:
    """GroupCoordinatorServiceTest.testStreamsHeartbeatRequestValidation; testStreamsOwnedTasksValidation."""
    broker = coordinator()
    broker.handle(join("m1"), 0)
    result = broker.handle(wrong, 1)
    assert result.response is not None
    assert (result.response.error_code, result.records) == (ErrorCode.INVALID_REQUEST, ())


def test_unknown_groups_and_groups_of_other_types() -> None:
    """testUnknownStreamsGroupId, testUnknownMemberIdJoinsStreamsGroup, testStreamsGroupHeartbeatWithNonEmptyClassicGroup."""
    broker = coordinator()
    assert send(broker, beat("m1", 1), 0).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert send(broker, beat("m1", -1), 0).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    broker.handle(JoinGroupRequest(group_id=GROUP, group_instance_id="c"), 0)
    assert send(broker, join("m1"), 0).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    described = broker.handle(StreamsGroupDescribeRequest(group_ids=(GROUP, "none")), 0).response
    assert isinstance(described, StreamsGroupDescribeResponse)
    assert [g.error_code for g in described.groups] == [ErrorCode.GROUP_ID_NOT_FOUND] * 2


def test_empty_groups_change_their_type_with_whoever_joins() -> None:
    """testStreamsGroupHeartbeatWithEmptyClassicGroup, testClassicGroupJoinWithEmptyStreamsGroup, …WithNonEmpty…."""
    broker = coordinator()
    log = list(broker.handle(join("m1"), 0).records)
    refused = broker.handle(JoinGroupRequest(group_id=GROUP, group_instance_id="c"), 1).response
    assert refused is not None
    assert refused.error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    log += broker.handle(beat("m1", -1), 2).records
    log += broker.handle(JoinGroupRequest(group_id=GROUP, group_instance_id="c"), 3).records
    assert broker.groups[GROUP].group_type == "classic"
    leave = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(group_instance_id="c"),))
    log += broker.handle(leave, 4).records
    log += broker.expire(10_000).records
    assert broker.groups[GROUP].is_empty
    back = broker.handle(join("m2"), 10_001)
    log += back.records
    assert back.response is not None
    assert back.response.error_code is ErrorCode.NONE
    assert (group(broker).metadata.epoch, list(group(broker).members)) == (2, ["m2"])
    loaded = coordinator()
    loaded.replay(log)
    assert (group(loaded).metadata, group(loaded).members) == (group(broker).metadata, group(broker).members)


def test_listing_and_deleting() -> None:
    """testListGroups, testStreamsGroupDelete…: a group with members stays; without them its tombstones are written."""
    broker = coordinator(streams_initial_rebalance_delay_ms=3_000)
    log = list(broker.handle(join("m1"), 0).records)
    listed = broker.handle(ListGroupsRequest(), 1).response
    assert isinstance(listed, ListGroupsResponse)
    assert listed.groups == (ListedGroup(GROUP, "streams", "Assigning", "Streams"),)
    for expected in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE):
        result = broker.handle(DeleteGroupsRequest(group_ids=(GROUP,)), 2)
        assert isinstance(result.response, DeleteGroupsResponse)
        assert result.response.results == ((GROUP, expected),)
        log += result.records
        log += broker.handle(beat("m1", -1), 3).records
    assert (broker.groups, broker.expire(3_000).records) == ({}, ())
    loaded = coordinator()
    loaded.replay(log)
    assert loaded.groups == {}


def test_denied_principal() -> None:
    """KafkaApisTest: READ on the group for heartbeats, DESCRIBE for describes."""
    broker = GroupCoordinator(BrokerSettings(is_denied=lambda principal, operation, group_id: True))
    assert send(broker, join("m1"), 0).error_code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    described = broker.handle(StreamsGroupDescribeRequest(group_ids=(GROUP,)), 0).response
    assert isinstance(described, StreamsGroupDescribeResponse)
    assert described.groups[0].error_code is ErrorCode.GROUP_AUTHORIZATION_FAILED


# timers -------------------------------------------------------------------------------------------------------------


def test_each_heartbeat_renews_the_session() -> None:
    """testStreamsSessionTimeoutLifecycle."""
    broker = coordinator()
    broker.handle(join("m1"), 0)
    broker.handle(beat("m1", 2), 22_500)
    assert broker.timers.deadline_ms(("streams-session", GROUP, "m1")) == 67_500
    assert broker.expire(67_499).records == ()
    broker.handle(beat("m1", -1), 67_499)
    assert len(broker.timers) == 0


def test_session_expiry_removes_and_bumps() -> None:
    """testStreamsSessionTimeoutExpiration."""
    broker = coordinator()
    broker.handle(join("m1"), 0)
    broker.handle(join("m2", "q"), 1_000)
    broker.expire(45_000)
    assert (list(group(broker).members), group(broker).metadata.epoch) == (["m2"], 4)
    back = send(broker, beat("m1", 2), 45_001)
    assert back.error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_revokes_in_time_loses_its_timer() -> None:
    """testStreamsRebalanceTimeoutLifecycle."""
    broker = coordinator()
    broker.handle(join("m1", rebalance_timeout_ms=12_000), 0)
    broker.handle(join("m2", "q"), 1)
    told = send(broker, beat("m1", 2, (("s", (0, 1, 2, 3)),)), 10)
    assert (told.member_epoch, told.active_tasks) == (2, (("s", (0, 1)),))
    assert broker.timers.deadline_ms(("streams-rebalance", GROUP, "m1")) == 12_010
    assert send(broker, beat("m1", 2, (("s", (0, 1)),)), 20).member_epoch == 3
    assert broker.timers.deadline_ms(("streams-rebalance", GROUP, "m1")) is None


def test_a_member_that_does_not_revoke_is_fenced() -> None:
    """testStreamsRebalanceTimeoutExpiration."""
    broker = coordinator()
    broker.handle(join("m1", rebalance_timeout_ms=10_000), 0)
    broker.handle(join("m2", "q"), 1)
    broker.handle(beat("m1", 2, (("s", (0, 1, 2, 3)),)), 10)
    assert broker.expire(10_009).records == ()
    broker.expire(10_010)
    assert (list(group(broker).members), group(broker).metadata.epoch) == (["m2"], 4)


def test_leaving_while_revoking_leaves_no_timer() -> None:
    """streamsGroupFenceMember cancels both timers of the member."""
    broker = coordinator()
    broker.handle(join("m1"), 0)
    broker.handle(join("m2", "q"), 1)
    broker.handle(beat("m1", 2, (("s", (0, 1, 2, 3)),)), 10)
    broker.handle(beat("m1", -1), 11)
    assert broker.timers.keys() == (("streams-session", GROUP, "m2"),)


def test_load_restarts_every_timer_in_full() -> None:
    """testOnLoadedWithStreamsGroup."""
    broker = coordinator()
    log = [*broker.handle(join("m1"), 0).records, *broker.handle(join("m2", "q"), 1).records]
    log += broker.handle(beat("m1", 2, (("s", (0, 1, 2, 3)),)), 2).records
    loaded = coordinator()
    loaded.replay(log, now_ms=30_000)
    armed = loaded.timers.keys()
    assert {key: loaded.timers.deadline_ms(key) for key in armed} == {
        ("streams-session", GROUP, "m1"): 75_000,
        ("streams-session", GROUP, "m2"): 75_000,
        ("streams-rebalance", GROUP, "m1"): 31_500,
    }


# assignment ---------------------------------------------------------------------------------------------------------


def test_standbys_go_to_other_processes_and_take_over() -> None:
    """StickyTaskAssignorTest: a stateful task's standby is elsewhere, and becomes active when its owner is gone."""
    broker = coordinator(2, streams_num_standby_replicas=1)
    broker.handle(join("m1", "p"), 0)
    broker.handle(join("m2", "q"), 1)
    for _ in range(4):
        for member_id in ("m1", "m2"):
            held = group(broker).members[member_id].current
            owned = {"standby_tasks": to_topic_partitions(held.assigned.standby), "warmup_tasks": ()}
            broker.handle(beat(member_id, held.member_epoch, to_topic_partitions(held.assigned.active), **owned), 2)
    held_by = {m: member.current.assigned for m, member in group(broker).members.items()}
    assert set(held_by["m1"].active) | set(held_by["m2"].active) == {("s", 0), ("s", 1)}
    assert held_by["m1"].standby == frozenset(held_by["m2"].active)
    broker.handle(beat("m2", -1), 3)
    taken = send(broker, beat("m1", group(broker).members["m1"].current.member_epoch), 4)
    assert (taken.active_tasks, taken.standby_tasks) == ((("s", (0, 1)),), ())


def test_a_lost_task_goes_to_its_standby_rather_than_to_the_least_loaded() -> None:
    """StickyTaskAssignorTest: state decides before load."""
    members = {m: Member(m, MemberMetadata(process_id=m)) for m in ("m1", "m2")}
    topology = Topology(0, (Subtopology("s", ("foo",), is_stateful=True),))
    targets = {"m2": Tasks(standby=frozenset({A}))}
    assigned = streams_assignor.assign(members, targets, topology, TopicImage({"foo": 2}), 0)
    assert (assigned["m2"].active, assigned["m1"].active) == (frozenset({A}), frozenset({B}))


def test_groups_have_their_own_settings_within_the_brokers_bounds() -> None:
    """testStreamsGroupDynamicConfigs, testStreamsGroupEvaluatedConfigs: standbys, delay, session, interval."""
    broker = coordinator(2)

    def alter(name: str, value: str) -> ErrorCode:
        request = AlterGroupConfigRequest(group_id=GROUP, configs=((f"streams.{name}", value),))
        response = broker.handle(request, 0).response
        assert response is not None
        return response.error_code

    assert alter("num.standby.replicas", "1") is ErrorCode.NONE
    assert alter("initial.rebalance.delay.ms", "2000") is ErrorCode.NONE
    assert alter("session.timeout.ms", "50000") is ErrorCode.NONE
    assert alter("heartbeat.interval.ms", "6000") is ErrorCode.NONE
    wrong = [
        ("num.standby.replicas", "3"),
        ("num.standby.replicas", "-1"),
        ("initial.rebalance.delay.ms", "-1"),
        ("session.timeout.ms", "44999"),
        ("session.timeout.ms", "60001"),
        ("heartbeat.interval.ms", "15001"),
        ("assignment.interval.ms", "15001"),
    ]
    assert [alter(name, value) for name, value in wrong] == [ErrorCode.INVALID_CONFIG] * len(wrong)
    assert send(broker, join("m1"), 0).heartbeat_interval_ms == 6_000
    assert broker.timers.deadline_ms(("streams-initial", GROUP)) == 2_000
    assert broker.timers.deadline_ms(("streams-session", GROUP, "m1")) == 50_000
    assert group(broker).metadata.num_standby_replicas == 1


def test_number_of_standbys_changed_bumps_the_epoch_at_the_next_heartbeat() -> None:
    """testStreamsGroupEpochIncreaseWithNumStandbyReplicasConfigChanges."""
    broker = coordinator()
    broker.handle(join("m1"), 0)
    broker.settings = replace(broker.settings, streams_num_standby_replicas=1)
    assert send(broker, beat("m1", 2), 10).member_epoch == 3
    assert broker.handle(beat("m1", 3), 20).records == ()


def test_a_task_moves_only_after_it_was_released() -> None:
    """testStreamsReconciliationProcess, reduced to two members."""
    broker = coordinator(2)
    broker.handle(join("m1"), 0)
    joined = send(broker, join("m2", "q"), 1)
    assert (joined.member_epoch, joined.active_tasks) == (3, ())
    assert group(broker).state == "Reconciling"
    assert send(broker, beat("m1", 2, (("s", (0, 1)),)), 2).active_tasks == (("s", (0,)),)
    assert send(broker, beat("m2", 3, ()), 3).active_tasks is None
    assert send(broker, beat("m1", 2), 4).member_epoch == 2
    assert send(broker, beat("m1", 2, (("s", (0,)),)), 5).member_epoch == 3
    assert group(broker).state == "Reconciling"
    assert send(broker, beat("m2", 3, ()), 6).active_tasks == (("s", (1,)),)
    assert group(broker).state == "Stable"


def current(state: MemberState = MemberState.STABLE, epoch: int = 1, **held: frozenset[Task]) -> CurrentAssignment:
    active = dict.fromkeys(held.get("active", frozenset()), epoch)
    tasks = HeldTasks(active, held.get("standby", frozenset()), held.get("warmup", frozenset()))
    return CurrentAssignment(epoch, epoch - 1, state, tasks)


def step(start: CurrentAssignment, target: Tasks, holders: Holders, owned: Tasks | None = None) -> CurrentAssignment:
    return reconcile(Member("m", MemberMetadata(process_id="p"), start), 2, target, holders, owned)


A, B = ("s", 0), ("s", 1)


def test_a_standby_becomes_active_in_place_once_the_owner_released() -> None:
    """CurrentAssignmentBuilderTest, promotion: until then the member keeps the standby and reveals no revocation."""
    start = current(standby=frozenset({A}))
    target = Tasks(active=frozenset({A}))
    waiting = step(start, target, Holders(active={A: "q"}, standby={A: {"p"}}))
    assert (waiting.state, waiting.member_epoch) == (MemberState.UNRELEASED_TASKS, 2)
    assert (waiting.assigned.standby, dict(waiting.assigned.active)) == (frozenset({A}), {})
    granted = step(waiting, target, Holders(standby={A: {"p"}}))
    assert (granted.state, dict(granted.assigned.active), granted.assigned.standby) == (
        MemberState.STABLE,
        {A: 2},
        frozenset(),
    )
    assert not granted.pending_revocation


def test_a_standby_stays_until_the_member_has_revoked_what_it_must() -> None:
    """CurrentAssignmentBuilderTest: no grant while a revocation of the same member is open, and no lost replica."""
    start = replace(current(standby=frozenset({A})), assigned=HeldTasks({B: 1}, frozenset({A})))
    target = Tasks(active=frozenset({A}))
    told = step(start, target, Holders(active={B: "p"}, standby={A: {"p"}}))
    assert (told.state, dict(told.assigned.active), told.assigned.standby) == (
        MemberState.UNREVOKED_TASKS,
        {},
        frozenset({A}),
    )
    assert (dict(told.pending_revocation.active), told.pending_revocation.standby) == ({B: 1}, frozenset())
    done = step(told, target, Holders(active={B: "p"}, standby={A: {"p"}}), Tasks(standby=frozenset({A})))
    assert (done.state, dict(done.assigned.active), done.assigned.standby) == (MemberState.STABLE, {A: 2}, frozenset())


def test_an_active_task_becomes_standby_in_place_and_is_still_acknowledged() -> None:
    """CurrentAssignmentBuilderTest, demotion: both halves in one answer, but the group must see the release."""
    start = current(active=frozenset({A}))
    told = step(start, Tasks(standby=frozenset({A})), Holders(active={A: "p"}))
    assert (told.state, told.member_epoch) == (MemberState.UNREVOKED_TASKS, 1)
    assert (told.assigned.standby, dict(told.pending_revocation.active)) == (frozenset({A}), {A: 1})
    acknowledged = step(told, Tasks(standby=frozenset({A})), Holders(active={A: "p"}), Tasks(standby=frozenset({A})))
    assert (acknowledged.state, acknowledged.member_epoch) == (MemberState.STABLE, 2)


def test_a_warmup_becomes_standby_and_back_without_a_revocation() -> None:
    """CurrentAssignmentBuilderTest, replica roles."""
    warm = step(current(standby=frozenset({A})), Tasks(warmup=frozenset({A})), Holders(standby={A: {"p"}}))
    assert (warm.state, warm.assigned.warmup, warm.assigned.standby) == (
        MemberState.STABLE,
        frozenset({A}),
        frozenset(),
    )
    cold = step(current(warmup=frozenset({A})), Tasks(standby=frozenset({A})), Holders(warmup={A: {"p"}}))
    assert (cold.state, cold.assigned.standby, cold.assigned.warmup) == (
        MemberState.STABLE,
        frozenset({A}),
        frozenset(),
    )


def test_a_standby_waits_while_a_neighbour_in_the_process_runs_the_task() -> None:
    """CurrentAssignmentBuilderTest: one process holds one copy of a task's state."""
    target = Tasks(standby=frozenset({A}))
    assert step(current(), target, Holders(active={A: "p"})).state is MemberState.UNRELEASED_TASKS
    assert step(current(), target, Holders(active={A: "q"})).assigned.standby == frozenset({A})
    assert (
        step(current(), Tasks(warmup=frozenset({A})), Holders(warmup={A: {"p"}})).state is MemberState.UNRELEASED_TASKS
    )
    assert (
        step(current(), Tasks(active=frozenset({A})), Holders(standby={A: {"p"}})).state is MemberState.UNRELEASED_TASKS
    )
    assert step(current(), Tasks(active=frozenset({A, B})), Holders(standby={A: {"q"}})).state is MemberState.STABLE


# properties ---------------------------------------------------------------------------------------------------------

steps = st.lists(
    st.tuples(
        st.sampled_from(["join", "beat", "beat", "beat", "silent", "leave", "away", "wait", "grow"]),
        st.sampled_from([("m1", "X"), ("m2", "Y"), ("m3", None), ("m4", None)]),
        st.sampled_from(["p", "q"]),
    ),
    max_size=40,
)


@settings(max_examples=80, derandomize=True, deadline=None)
@given(steps=steps, standbys=st.integers(0, 1))
def test_no_task_runs_twice_and_the_log_gives_the_state(
    steps: list[tuple[str, tuple[str, str | None], str]], standbys: int
) -> None:
    """KIP-1071: an active task has one owner at any moment; a fresh coordinator reads the same state from the log."""
    broker = coordinator(3, streams_num_standby_replicas=standbys)
    log: list[Record] = []
    owned: dict[str, TaskIds] = {}
    now_ms = 0
    for action, (member_id, instance_id), process_id in steps:
        now_ms += 100
        held = broker.groups[GROUP].members.get(member_id) if GROUP in broker.groups else None
        epoch = 0 if held is None else held.current.member_epoch
        if action == "join":
            result = broker.handle(join(member_id, process_id, group_instance_id=instance_id), now_ms)
        elif action in ("beat", "silent"):
            told = None if action == "silent" or held is None else owned.get(member_id, ())
            standby = None if told is None or held is None else to_topic_partitions(held.current.assigned.standby)
            tells = {"standby_tasks": standby, "group_instance_id": instance_id}
            result = broker.handle(beat(member_id, max(epoch, 1), told, **tells), now_ms)
        elif action in ("leave", "away"):
            left = -2 if action == "away" and instance_id is not None else -1
            result = broker.handle(beat(member_id, left, group_instance_id=instance_id), now_ms)
        elif action == "grow":
            broker.image = broker.image.with_topic("foo", broker.image.partitions["foo"] + 1)
            continue
        else:
            now_ms += 20_000
            result = broker.expire(now_ms)
        log += result.records
        answer = result.response
        if isinstance(answer, StreamsGroupHeartbeatResponse) and answer.active_tasks is not None:
            owned[member_id] = answer.active_tasks
        if GROUP in broker.groups:
            runs = [task for m in group(broker).members.values() for task in m.current.assigned.active]
            assert len(runs) == len(set(runs))
    loaded = coordinator(3)
    loaded.replay(log)
    assert loaded.groups.keys() == broker.groups.keys()
    if GROUP in broker.groups:
        for name in ("members", "static_members", "targets", "topology", "metadata", "target_metadata", "state"):
            assert getattr(group(loaded), name) == getattr(group(broker), name)


# records ------------------------------------------------------------------------------------------------------------


def test_a_refused_write_leaves_nothing_and_is_tried_again() -> None:
    """testStreamsPartitionMetadataRefreshedAgainAfterWriteFailure."""
    broker = coordinator(2)
    broker.handle(join("m1"), 0)
    broker.write_error = ErrorCode.NOT_COORDINATOR
    broker.image = TopicImage({"foo": 3})
    before = (dict(group(broker).members), group(broker).metadata)
    assert send(broker, beat("m1", 2), 1).error_code is ErrorCode.NOT_COORDINATOR
    assert send(broker, join("m2"), 1).error_code is ErrorCode.NOT_COORDINATOR
    assert (group(broker).members, group(broker).metadata) == before
    broker.write_error = None
    assert send(broker, beat("m1", 2), 2).active_tasks == (("s", (0, 1, 2)),)


def test_tombstones_delete_the_group() -> None:
    """testReplayStreamsGroupEpochTombstoneExisting, StreamsGroupTest.testCreateGroupTombstoneRecords."""
    broker = coordinator()
    log = list(broker.handle(join("m1"), 0).records)
    log += broker.handle(beat("m1", -1), 1).records
    log += group(broker).tombstones()
    loaded = coordinator()
    loaded.replay(log)
    assert loaded.groups == {}


def test_compacted_log_without_the_member_record_is_read() -> None:
    """testReplayStreamsGroupCurrentMemberAssignmentWithCompaction."""
    broker = coordinator()
    log = [
        r for r in broker.handle(join("m1"), 0).records if r.record_type is not RecordType.STREAMS_GROUP_MEMBER_METADATA
    ]
    log += [
        Record(RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT, (GROUP, "gone"), None),
        Record(RecordType.STREAMS_GROUP_METADATA, ("other",), None),
    ]
    loaded = coordinator()
    loaded.replay(log)
    assert list(loaded.groups) == [GROUP]
    assert set(group(loaded).members["m1"].current.assigned.active) == tasks_of((("s", (0, 1, 2, 3)),))


# offsets ------------------------------------------------------------------------------------------------------------


def test_commits_of_an_older_epoch_pass_for_tasks_held_since() -> None:
    """StreamsGroupTest.testValidateOffsetCommit… (KIP-1251)."""
    broker = coordinator(2)
    broker.handle(join("m1"), 0)
    broker.handle(join("m2", "q"), 1)
    broker.handle(beat("m1", 2, (("s", (0, 1)),)), 2)
    broker.handle(beat("m1", 2, (("s", (0,)),)), 3)
    broker.handle(beat("m2", 3, ()), 4)
    app = group(broker)
    check_commit(app, "m1", 3, "foo", 0)
    check_commit(app, "m1", 2, "foo", 0)
    check_fetch(app, "m1", 3)
    check_fetch(app, None, -1)
    refusals = [("m1", 1, "foo", 0), ("m1", 4, "foo", 0), ("m1", 2, "foo", 1), ("m2", 2, "foo", 1), ("m1", 2, "bar", 0)]
    for member_id, epoch, topic, partition in refusals:
        with pytest.raises(GroupError, match="STALE_MEMBER_EPOCH"):
            check_commit(app, member_id, epoch, topic, partition)
    with pytest.raises(GroupError, match="UNKNOWN_MEMBER_ID"):
        check_commit(app, "", -1, "foo", 0)
    with pytest.raises(GroupError, match="STALE_MEMBER_EPOCH"):
        check_fetch(app, "m1", 2)
