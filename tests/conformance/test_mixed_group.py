"""Members of the classic protocol inside a consumer group: JoinGroup, SyncGroup and Heartbeat on it.

GMMT is Kafka's GroupMetadataManagerTest; all members start stable at epoch 10 on foo (6 partitions) and bar (3).
"""

from __future__ import annotations

import pytest

from conformance.answers import answered
from coordinator_model.assignors.subscription import decode_assignment
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import Protocol
from coordinator_model.consumer.member import MemberState

from .consumer_bench import (
    ALL,
    CURRENT,
    EPOCH,
    FIRST,
    GROUP,
    MEMBER,
    REPLACEMENT,
    SECOND,
    TARGET,
    TARGET_EPOCH,
    ConsumerBench,
    broker_settings,
    member,
    protocols,
    subscription,
)
from .mixed_groups import admitted, given_mixed, partitions

NONE, UNKNOWN, FENCED = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
INCONSISTENT = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS


def test_new_dynamic_classic_member_joins() -> None:
    """GMMT.testJoiningConsumerGroupWithNewDynamicMember:
    id first, then admitted at once, with sync and session timer.
    """
    bench = ConsumerBench()
    bench.given(member("m1", None, ALL))
    first = answered(bench.join_classic())
    assert first.error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert bench.last.records == ()
    joined = answered(bench.join_classic(first.member_id))
    assert (joined.error_code, joined.generation_id, joined.leader, joined.members) == (NONE, 11, "", ())
    assert (joined.protocol_type, joined.protocol_name, joined.skip_assignment) == ("consumer", "range", False)
    assert bench.types() == [MEMBER, EPOCH, TARGET, TARGET, TARGET_EPOCH, CURRENT]
    deadline = bench.coordinator.timers.deadline_ms
    assert deadline(("consumer-session", GROUP, first.member_id)) == bench.now_ms + 10_000
    assert deadline(("consumer-sync", GROUP, first.member_id)) == bench.now_ms + 5_000
    assert partitions(bench.sync_classic(first.member_id, 11)) == ()
    assert deadline(("consumer-sync", GROUP, first.member_id)) is None


def test_old_dynamic_classic_member_is_admitted_in_one_request() -> None:
    """JoinGroupRequest.requiresKnownMemberId: before v4 there is no MEMBER_ID_REQUIRED."""
    bench = ConsumerBench()
    bench.given(member("m1", None, ALL))
    joined = admitted(bench.join_classic(api_version=3))
    assert joined.member_id in bench.group.members


def test_classic_member_replaces_the_holder_without_its_leave() -> None:
    """GMMT.testJoiningConsumerGroupReplacingExistingStaticMember: one side classic, so no -2 is needed."""
    bench = ConsumerBench(broker_settings(migration_policy="upgrade"))
    bench.given(member("m1", None, FIRST), member("m2", "y", SECOND))
    joined = answered(bench.join_classic("", "y"))
    assert (joined.error_code, joined.generation_id) == (NONE, 10)
    assert bench.types() == [*REPLACEMENT, MEMBER, CURRENT]
    assert partitions(bench.sync_classic(joined.member_id, 10, "y")) == SECOND
    assert bench.beat("m2", 10, "y").error_code is FENCED


@pytest.mark.parametrize(("member_id", "instance_id", "code"), [("m1", "unknown", UNKNOWN), ("m1", "y", FENCED)])
def test_known_member_id_with_the_wrong_instance_id(member_id: str, instance_id: str, code: ErrorCode) -> None:
    """GMMT.testStaticMemberJoiningConsumerGroupWithUnknownInstanceId, …WithUnmatchedMemberId."""
    bench = ConsumerBench()
    given_mixed(bench)
    for answer in (bench.join_classic(member_id, instance_id), bench.sync_classic(member_id, 10, instance_id)):
        assert answer is not None
        assert answer.error_code is code
    assert bench.beat_classic(member_id, 10, instance_id) is code


@pytest.mark.parametrize(
    "offers", [protocols("foo", name="roundrobin"), (Protocol("range", b"\x00"),)], ids=["other name", "malformed"]
)
def test_joiner_must_share_a_protocol_and_speak_it(offers: tuple[Protocol, ...]) -> None:
    """GMMT.testJoiningConsumerGroupThrowsExceptionIfProtocolIsNotSupported, …FailsOnMalformedSubscriptionMetadata."""
    bench = ConsumerBench()
    given_mixed(bench)
    assert answered(bench.join_classic("", "z", offers=offers)).error_code is INCONSISTENT
    assert (bench.last.records, set(bench.group.members)) == ((), {"m1", "m2"})


def test_classic_member_revokes_in_one_join_and_receives_in_the_next() -> None:
    """GMMT.testReconciliationInJoiningConsumerGroupWithCooperativeProtocol, for one member on each side."""
    bench = ConsumerBench()
    bench.given(member("m1", None, ALL, classic=True))
    bench.join("m2", "y", assignor="range")
    assert bench.beat_classic("m1", 10) is REBALANCING
    assert bench.coordinator.timers.deadline_ms(("consumer-join", GROUP, "m1")) == bench.now_ms + 5_000
    assert answered(bench.join_classic("m1", offers=protocols("foo", "bar", owned=ALL))).generation_id == 10
    assert bench.coordinator.timers.deadline_ms(("consumer-join", GROUP, "m1")) is None
    kept = partitions(bench.sync_classic("m1", 10))
    assert kept == (("bar", (2,)), ("foo", (3, 4, 5)))
    assert bench.beat("m2", 11, "y").assignment is None
    assert bench.beat_classic("m1", 10) is REBALANCING
    assert answered(bench.join_classic("m1", offers=protocols("foo", "bar", owned=kept))).generation_id == 11
    assert bench.beat_classic("m1", 11) is NONE
    assert bench.beat("m2", 11, "y").assignment == (("bar", (0, 1)), ("foo", (0, 1, 2)))


def test_classic_member_waits_for_what_another_holds() -> None:
    """GMMT.testClassicGroupHeartbeatToConsumerGroupRebalanceInProgress: unreleased is quiet until it is free."""
    bench = ConsumerBench()
    bench.given(member("m1", None, ALL))
    first = answered(bench.join_classic())
    assert answered(bench.join_classic(first.member_id)).generation_id == 11
    assert bench.beat_classic(first.member_id, 11) is NONE
    bench.beat("m1", 10, None, ALL)
    kept = bench.group.targets["m1"]
    assert bench.beat_classic(first.member_id, 11) is NONE
    bench.beat("m1", 10, None, kept)
    assert bench.beat_classic(first.member_id, 11) is REBALANCING


@pytest.mark.parametrize("generation_id", [9, 11])
def test_wrong_generation(generation_id: int) -> None:
    """GMMT.testClassicGroupHeartbeatToConsumerWithIllegalGenerationId, …SyncToConsumerGroupWithIllegalGeneration."""
    bench = ConsumerBench()
    given_mixed(bench)
    assert bench.beat_classic("m1", generation_id) is ErrorCode.ILLEGAL_GENERATION
    assert answered(bench.sync_classic("m1", generation_id)).error_code is ErrorCode.ILLEGAL_GENERATION


def test_consumer_protocol_member_has_no_classic_heartbeat() -> None:
    """GMMT.testClassicGroupHeartbeatToConsumerWithMemberNotUsingClassicProtocol."""
    bench = ConsumerBench()
    given_mixed(bench)
    assert bench.beat_classic("m2", 10, "y") is UNKNOWN
    assert answered(bench.sync_classic("m2", 10, "y")).error_code is UNKNOWN


@pytest.mark.parametrize(("kind", "name"), [("connect", "range"), ("consumer", "sticky")])
def test_sync_with_another_protocol(kind: str, name: str) -> None:
    """GMMT.testClassicGroupSyncToConsumerGroupWithInconsistentGroupProtocol."""
    bench = ConsumerBench()
    given_mixed(bench)
    assert answered(bench.sync_classic("m1", 10, protocol_type=kind, protocol_name=name)).error_code is INCONSISTENT


def test_sync_while_a_newer_target_is_there() -> None:
    """GMMT.testClassicGroupSyncToConsumerGroupRebalanceInProgress."""
    bench = ConsumerBench()
    given_mixed(bench)
    bench.join("m3", "z", assignor="range")
    assert answered(bench.sync_classic("m1", 10)).error_code is REBALANCING
    assert bench.coordinator.timers.deadline_ms(("consumer-join", GROUP, "m1")) == bench.now_ms + 5_000


def test_sync_does_not_hand_out_a_deleted_topic() -> None:
    """Utils.toConsumerProtocolAssignment: a topic id that the metadata image does not name is left out."""
    bench = ConsumerBench()
    bench.given(member("m1", "x", ALL, classic=True), member("m2"))
    bench.coordinator.image = bench.coordinator.image.without_topic("bar")
    assert partitions(bench.sync_classic("m1", 10, "x")) == (("foo", (0, 1, 2, 3, 4, 5)),)


def test_classic_member_is_left_alone_until_the_new_target_is_there() -> None:
    """GMMT.testClassicGroupSyncToConsumerGroupDuringAssignmentDelay, …HeartbeatToConsumerGroupDuringAssignmentDelay."""
    bench = ConsumerBench()
    bench.given(
        member("m1", None, (("foo", (0, 1, 2)),), classic=True),
        member("m2", None, (("foo", (3, 4, 5)),), topics=["bar"]),
    )
    bench.group.group_epoch = 11
    quiet = answered(bench.sync_classic("m1", 10))
    assert (quiet.error_code, bench.beat_classic("m1", 10)) == (NONE, NONE)
    assert bench.beat("m2", 10, None, (("foo", (3, 4, 5)),)).member_epoch == 10
    assert bench.group.assignment_epoch == 11
    loud = answered(bench.sync_classic("m1", 10))
    assert (loud.error_code, bench.beat_classic("m1", 10)) == (REBALANCING, REBALANCING)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_assignment_is_written_in_the_members_version(version: int) -> None:
    """GMMT.testClassicGroupSyncToConsumerGroupWithAllConsumerProtocolVersions."""
    bench = ConsumerBench()
    bench.given(member("m1", "x", FIRST, classic=True), member("m2", "y", SECOND))
    offers = (Protocol("range", subscription("foo", "bar", version=version)),)
    joined = answered(bench.join_classic("m1", "x", offers=offers))
    synced = answered(bench.sync_classic("m1", joined.generation_id, "x"))
    decoded = decode_assignment(synced.assignment)
    assert (decoded.version, decoded.partitions) == (version, FIRST)


@pytest.mark.parametrize(("timer", "delay_ms"), [("consumer-session", 5_000), ("consumer-join", 5_000)])
def test_classic_member_is_fenced_by_its_timers(timer: str, delay_ms: int) -> None:
    """GMMT.testConsumerGroupMemberUsingClassicProtocolFencedWhenSessionTimeout, …WhenJoinTimeout."""
    bench = ConsumerBench()
    bench.given(
        member("m1", None, FIRST, classic=True, session_timeout_ms=5_000 if timer == "consumer-session" else 60_000),
        member("m2", "y", SECOND),
    )
    bench.join("m3", "z", assignor="range")
    assert bench.beat_classic("m1", 10) is REBALANCING
    assert bench.coordinator.timers.deadline_ms((timer, GROUP, "m1")) == bench.now_ms + delay_ms
    bench.advance(delay_ms)
    assert set(bench.group.members) == {"m2", "m3"}


def test_classic_member_that_does_not_sync_is_fenced() -> None:
    """scheduleConsumerGroupSyncTimeout: JoinGroup must be followed by SyncGroup within the rebalance timeout."""
    bench = ConsumerBench()
    bench.given(member("m1", "x", FIRST, classic=True), member("m2", "y", SECOND))
    assert bench.join_classic("m1", "x", rebalance_timeout_ms=4_000) is not None
    bench.advance(4_000)
    assert set(bench.group.members) == {"m2"}


def test_fail_over_gives_classic_members_the_groups_session() -> None:
    """GroupMetadataManager.onLoaded: not their own session timeout, until their next heartbeat."""
    bench = ConsumerBench()
    given_mixed(bench)
    key = ("consumer-session", GROUP, "m1")
    assert bench.beat_classic("m1", 10) is NONE
    assert bench.coordinator.timers.deadline_ms(key) == bench.now_ms + 5_000
    bench.fail_over()
    assert bench.coordinator.timers.deadline_ms(key) == bench.now_ms + 45_000
    assert bench.beat_classic("m1", 10) is NONE
    assert bench.coordinator.timers.deadline_ms(key) == bench.now_ms + 5_000


def test_revoking_classic_member_is_asked_to_join_again() -> None:
    """classicGroupHeartbeatToConsumerGroup, condition 2: also when it has the newest epoch already."""
    bench = ConsumerBench()
    revoking = member("m1", None, FIRST, classic=True, state=MemberState.UNREVOKED_PARTITIONS)
    bench.given(revoking, member("m2", "y", SECOND))
    assert bench.beat_classic("m1", 10) is REBALANCING
