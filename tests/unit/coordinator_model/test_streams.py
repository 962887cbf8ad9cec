"""Joining a streams group. Tests named are GroupMetadataManagerTest's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.answers import answered, expect
from conformance.streams_app import types
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberIdentity,
)
from coordinator_model.base.records import RecordType
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.coordinator import GroupCoordinator
from coordinator_model.streams.messages import (
    Status,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    Topology,
)

from .streams_bench import GROUP, TOPOLOGY, beat, coordinator, group, join, send


def test_first_member_writes_six_records_and_is_at_epoch_2() -> None:
    """testMemberJoinsEmptyStreamsGroup."""
    result = coordinator().handle(join("m1"), 7)
    response = expect(StreamsGroupHeartbeatResponse, result.response)
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
    response = expect(StreamsGroupHeartbeatResponse, result.response)
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
    """testStreamsGroupMemberJoiningWithMissingSourceTopic;
    the topic's arrival assigns (testStreamsOnMetadataUpdate).
    """
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


def test_shutdown_of_the_application_reaches_all_until_the_group_is_empty() -> None:
    """testStreamsGroupMemberRequestingShutdownApplication, …UponLeaving."""
    broker = coordinator()
    broker.handle(join("m1"), 0)
    broker.handle(join("m2", "q"), 1)
    assert send(broker, beat("m1", -1, shutdown_application=True), 2).status == ()
    ((status, detail),) = send(broker, beat("m2", 3), 3).status
    assert status is Status.SHUTDOWN_APPLICATION
    assert "m1" in detail
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
    """testUnknownStreamsGroupId, testUnknownMemberIdJoinsStreamsGroup,
    testStreamsGroupHeartbeatWithNonEmptyClassicGroup.
    """
    broker = coordinator()
    assert send(broker, beat("m1", 1), 0).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert send(broker, beat("m1", -1), 0).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    broker.handle(JoinGroupRequest(group_id=GROUP, group_instance_id="c"), 0)
    assert send(broker, join("m1"), 0).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    described = broker.handle(StreamsGroupDescribeRequest(group_ids=(GROUP, "none")), 0).response
    assert isinstance(described, StreamsGroupDescribeResponse)
    assert [g.error_code for g in described.groups] == [ErrorCode.GROUP_ID_NOT_FOUND] * 2


def test_empty_groups_change_their_type_with_the_next_join() -> None:
    """testStreamsGroupHeartbeatWithEmptyClassicGroup, testClassicGroupJoinWithEmptyStreamsGroup, …WithNonEmpty…."""
    broker = coordinator()
    log = list(broker.handle(join("m1"), 0).records)
    refused = answered(broker.handle(JoinGroupRequest(group_id=GROUP, group_instance_id="c"), 1).response)
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
    """testListGroups, testStreamsGroupDelete…: a group with members stays; without them its tombstones are written.

    testStreamsGroupDeleteCancelsInitialRebalanceTimer.
    """
    broker = coordinator(streams_initial_rebalance_delay_ms=3_000)
    log = list(broker.handle(join("m1"), 0).records)
    listed = expect(ListGroupsResponse, broker.handle(ListGroupsRequest(), 1).response)
    assert listed.groups == (ListedGroup(GROUP, "streams", "Assigning", "Streams"),)
    for expected in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.NONE):
        result = broker.handle(DeleteGroupsRequest(group_ids=(GROUP,)), 2)
        assert isinstance(result.response, DeleteGroupsResponse)
        assert result.response.results == ((GROUP, expected),)
        log += result.records
        log += broker.handle(beat("m1", -1), 3).records
    assert (broker.groups, broker.timers.of_group(GROUP), broker.expire(3_000).records) == ({}, (), ())
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
