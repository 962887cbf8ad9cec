"""Share groups as far as membership goes. Tests named are GroupMetadataManagerTest's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.answers import answered, expect
from coordinator_model.base.config_messages import AlterGroupConfigRequest
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import (
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
)
from coordinator_model.base.records import Record, RecordType
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.coordinator import GroupCoordinator
from coordinator_model.share.group import ShareGroup
from coordinator_model.share.messages import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from coordinator_model.streams.messages import StreamsGroupHeartbeatRequest, Topology

GROUP = "share"


def coordinator(**chosen: object) -> GroupCoordinator:
    values: dict[str, object] = {"share_assignment_interval_ms": 0, **chosen}
    return GroupCoordinator(BrokerSettings(**values), image=TopicImage({"foo": 3}))  # type: ignore[arg-type]


def beat(member_id: str, epoch: int = 0, topics: tuple[str, ...] | None = None) -> ShareGroupHeartbeatRequest:
    names = ("foo",) if epoch == 0 and topics is None else topics
    return ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id=member_id, member_epoch=epoch, subscribed_topic_names=names
    )


def send(broker: GroupCoordinator, request: ShareGroupHeartbeatRequest, now_ms: int) -> ShareGroupHeartbeatResponse:
    return expect(ShareGroupHeartbeatResponse, broker.handle(request, now_ms).response)


def group(broker: GroupCoordinator) -> ShareGroup:
    return expect(ShareGroup, broker.groups[GROUP])


def test_first_member_gets_everything_at_epoch_2() -> None:
    """testShareGroupMemberJoinsEmptyGroupWithAssignments, without the record of the delivery state."""
    broker = coordinator()
    assert (broker.groups, send(broker, beat("m1", 1), 0).error_code) == ({}, ErrorCode.GROUP_ID_NOT_FOUND)
    result = broker.handle(beat("m1"), 0)
    assert result.response == ShareGroupHeartbeatResponse(
        member_id="m1", member_epoch=2, heartbeat_interval_ms=5_000, assignment=(("foo", (0, 1, 2)),)
    )
    assert [record.record_type for record in result.records] == [
        RecordType.SHARE_GROUP_MEMBER_METADATA,
        RecordType.SHARE_GROUP_METADATA,
        RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
        RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
        RecordType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    ]
    quiet = broker.handle(beat("m1", 2), 10)
    assert (quiet.records, quiet.response) == (
        (),
        ShareGroupHeartbeatResponse(member_id="m1", member_epoch=2, heartbeat_interval_ms=5_000),
    )


def test_partitions_are_shared_and_not_revoked_first() -> None:
    """KIP-932: more members than partitions are fine, and a member reaches a new epoch in one heartbeat."""
    broker = coordinator()
    for n in range(4):
        broker.handle(beat(f"m{n}"), n)
    assert send(broker, beat("m0", 2), 10).assignment == (("foo", (0,)),)
    assert send(broker, beat("m3", 5), 10).assignment is None
    assert group(broker).members["m3"].current.assigned == (("foo", (0,)),)


def test_leaving_removes_and_bumps() -> None:
    """testShareGroupLeavingMemberBumpsGroupEpoch."""
    broker = coordinator()
    broker.handle(beat("m1"), 0)
    broker.handle(beat("m2"), 1)
    result = broker.handle(beat("m2", -1), 2)
    assert result.response == ShareGroupHeartbeatResponse(member_id="m2", member_epoch=-1)
    assert [(record.record_type, record.value is None) for record in result.records] == [
        (RecordType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT, True),
        (RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER, True),
        (RecordType.SHARE_GROUP_MEMBER_METADATA, True),
        (RecordType.SHARE_GROUP_METADATA, False),
    ]
    assert (group(broker).metadata.epoch, list(group(broker).members)) == (4, ["m1"])
    assert send(broker, beat("m2", -1), 3).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert broker.timers.keys() == (("share-session", GROUP, "m1"),)
    last = broker.handle(beat("m1", -1), 4).records[-1]
    assert last.record_type is RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA
    assert group(broker).state == "Empty"


def test_session_expiry_and_its_renewal() -> None:
    """testSessionTimeoutExpirationForShareMember, testOnLoadedSessionTimeoutExpirationForShareMember."""
    broker = coordinator()
    log = list(broker.handle(beat("m1"), 0).records)
    broker.handle(beat("m1", 2), 10_000)
    assert broker.expire(54_999).records == ()
    broker.expire(55_000)
    assert (group(broker).is_empty, group(broker).metadata.epoch) == (True, 3)
    loaded = coordinator()
    loaded.replay(log, now_ms=7)
    assert loaded.timers.deadline_ms(("share-session", GROUP, "m1")) == 45_007


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (0, ErrorCode.NONE),
        (3, ErrorCode.NONE),
        (2, ErrorCode.NONE),
        (4, ErrorCode.FENCED_MEMBER_EPOCH),
        (1, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_epochs(epoch: int, error: ErrorCode) -> None:
    """throwIfShareGroupMemberEpochIsInvalid; testShareGroupMemberCanRejoinWithEpochZero: the previous epoch passes."""
    broker = coordinator()
    broker.handle(beat("m1"), 0)
    broker.handle(beat("m2"), 1)
    assert send(broker, beat("m1", 2), 2).member_epoch == 3
    assert send(broker, beat("m1", epoch), 3).error_code is error


def test_full_group() -> None:
    """testShareGroupNewMemberIsRejectedWithMaximumMembersIsReached."""
    broker = coordinator(share_max_size=1)
    broker.handle(beat("m1"), 0)
    assert send(broker, beat("m2"), 1).error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert send(broker, beat("m1"), 2).error_code is ErrorCode.NONE


@pytest.mark.parametrize(
    "wrong",
    [
        beat(""),
        replace(beat("m1"), group_id=""),
        replace(beat("m1"), rack_id=""),
        beat(" "),
        replace(beat("m1"), group_id=" \t"),
        replace(beat("m1"), rack_id=" "),
        replace(beat("m1"), subscribed_topic_names=None),
        replace(beat("m1"), subscribed_topic_names=()),
        beat("m1", -2),
    ],
)
def test_requests_that_no_member_sends(wrong: ShareGroupHeartbeatRequest) -> None:
    """GroupCoordinatorServiceTest.testShareGroupHeartbeatRequestValidation;
    -2 does not exist without static members.
    """
    result = coordinator().handle(wrong, 0)
    assert result.response is not None
    assert (result.response.error_code, result.records) == (ErrorCode.INVALID_REQUEST, ())


def test_subscriptions_and_metadata_changes_bump_the_epoch() -> None:
    """shareGroupHeartbeat: names that changed, or partitions of a subscribed topic, and nothing else."""
    broker = coordinator()
    broker.handle(beat("m1"), 0)
    broker.image = broker.image.with_topic("bar", 1)
    assert broker.handle(beat("m1", 2), 1).records == ()
    assert send(broker, beat("m1", 2, ("foo", "bar")), 2).assignment == (("bar", (0,)), ("foo", (0, 1, 2)))
    broker.image = broker.image.with_topic("bar", 2)
    assert send(broker, beat("m1", 3), 3).assignment == (("bar", (0, 1)), ("foo", (0, 1, 2)))


def test_assignment_interval_holds_the_next_assignment_back_but_timestamp_0_does_not() -> None:
    """GroupMetadataManager.canComputeNextTargetAssignment (KIP-1263):
    0 is no time to count from, however early it is.
    """
    broker = coordinator(share_assignment_interval_ms=1_000)
    assert send(broker, beat("m1"), 5).assignment == (("foo", (0, 1, 2)),)
    assert send(broker, beat("m2"), 1_004).assignment == ()
    assert send(broker, beat("m2", 2), 1_005).assignment is not None
    for member_id in ("m1", "m2"):
        broker.handle(beat(member_id, -1), 1_006)
    assert send(broker, beat("m3"), 1_007).assignment == (("foo", (0, 1, 2)),)


def test_requests_of_other_group_types() -> None:
    """test…OnShareGroup: JoinGroup, SyncGroup, LeaveGroup, ConsumerGroupHeartbeat, StreamsGroupHeartbeat."""
    broker = coordinator()
    broker.handle(beat("m1"), 0)

    def error(request: object) -> ErrorCode:
        return answered(broker.handle(request, 1).response).error_code

    assert error(JoinGroupRequest(group_id=GROUP)) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert error(SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="m1")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        error(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP, member_id="m1", rebalance_timeout_ms=1_000, subscribed_topic_names=("foo",),
                topic_partitions=(),
            )
        )
        is ErrorCode.GROUP_ID_NOT_FOUND
    )
    streams = StreamsGroupHeartbeatRequest(
        group_id=GROUP, member_id="m1", rebalance_timeout_ms=1_000, topology=Topology()
    )
    assert error(streams) is ErrorCode.GROUP_ID_NOT_FOUND
    left = broker.handle(LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id="m1"),)), 1).response
    assert isinstance(left, LeaveGroupResponse)
    assert [member.error_code for member in left.members] == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert list(group(broker).members) == ["m1"]


def test_group_settings_apply_at_the_next_heartbeat_within_the_brokers_bounds() -> None:
    """testShareGroupDynamicConfigs; GroupConfigTest: 45-60 s for the session, 5-15 s for the interval by default."""
    broker = coordinator()
    broker.handle(beat("m1"), 0)

    def alter(name: str, value: str) -> ErrorCode:
        response = broker.handle(AlterGroupConfigRequest(group_id=GROUP, configs=((name, value),)), 0).response
        assert response is not None
        return response.error_code

    assert alter("share.session.timeout.ms", "50000") is ErrorCode.NONE
    assert alter("share.heartbeat.interval.ms", "10000") is ErrorCode.NONE
    for name, value in [
        ("share.session.timeout.ms", "44999"),
        ("share.session.timeout.ms", "60001"),
        ("share.heartbeat.interval.ms", "4999"),
        ("share.heartbeat.interval.ms", "15001"),
    ]:
        assert alter(name, value) is ErrorCode.INVALID_CONFIG
    assert broker.timers.deadline_ms(("share-session", GROUP, "m1")) == 45_000
    assert send(broker, beat("m1", 2), 100).heartbeat_interval_ms == 10_000
    assert broker.timers.deadline_ms(("share-session", GROUP, "m1")) == 50_100


def test_describe() -> None:
    """testShareGroupDescribeNoErrors, testShareGroupDescribeRequest, testShareGroupStates."""
    broker = coordinator()
    broker.handle(beat("m1"), 0)
    response = broker.handle(ShareGroupDescribeRequest(group_ids=(GROUP, "none")), 1).response
    assert isinstance(response, ShareGroupDescribeResponse)
    found, missing = response.groups
    assert (found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name) == (
        "Stable", 2, 2, "simple",
    )
    assert [(m.member_id, m.member_epoch, m.assignment) for m in found.members] == [("m1", 2, (("foo", (0, 1, 2)),))]
    assert (missing.error_code, missing.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["beat", "beat", "leave", "wait", "grow"]), st.sampled_from(["m1", "m2", "m3", "m4"])
        ),
        max_size=30,
    )
)
def test_every_partition_has_a_reader_and_the_log_gives_the_state(steps: list[tuple[str, str]]) -> None:
    """KIP-932: nothing is left unread while a member subscribes; a fresh coordinator reads the same from the log."""
    broker = coordinator()
    log: list[Record] = []
    now_ms = 0
    for action, member_id in steps:
        now_ms += 100
        if action == "grow":
            broker.image = broker.image.with_topic("foo", broker.image.partitions["foo"] + 1)
            continue
        if action == "wait":
            now_ms += 30_000
            result = broker.expire(now_ms)
        else:
            result = broker.handle(beat(member_id, 0 if action == "beat" else -1), now_ms)
        log += result.records
        if action == "beat":
            read = {p for target in group(broker).targets.values() for _, partitions in target for p in partitions}
            assert read == set(range(broker.image.partitions["foo"]))
    loaded = coordinator()
    loaded.replay(log)
    for group_id, found in broker.groups.items():
        for name in ("members", "targets", "metadata", "target_metadata", "state"):
            assert getattr(loaded.groups[group_id], name) == getattr(found, name)
    log += [record for found in broker.groups.values() for record in found.tombstones()]
    emptied = coordinator()
    emptied.replay(log)
    assert emptied.groups == {}
