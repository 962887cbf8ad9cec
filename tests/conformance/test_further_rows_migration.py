"""Rules for groups of both protocols that Kafka's own tests pin and the catalogue of rows does not name.

GMMT is GroupMetadataManagerTest of Kafka 4.4; each docstring names the test it restates.
"""

from __future__ import annotations

import pytest

from conformance.answers import answered, expect
from coordinator_model.assignors.subscription import decode_assignment
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage, metadata_hash
from coordinator_model.base.messages import TopicPartitions
from coordinator_model.base.records import Record, RecordType
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.classic.group import ClassicGroup
from coordinator_model.classic.member import GroupMetadata
from coordinator_model.consumer.group import ResolvedRegex
from coordinator_model.consumer.member import CurrentAssignment, MemberState, with_epoch
from coordinator_model.consumer.records import GroupMetadataValue

from .consumer_bench import (
    ALL,
    CURRENT,
    EPOCH,
    FIRST,
    GROUP,
    MEMBER,
    REGEX,
    REPLACEMENT,
    SECOND,
    TARGET,
    TARGET_EPOCH,
    TOPICS,
    ConsumerBench,
    member,
    protocols,
)
from .mixed_groups import admitted, partitions

NONE, UNKNOWN, FENCED = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS
CLASSIC = RecordType.CLASSIC_GROUP_METADATA


def deadline(bench: ConsumerBench, kind: str, member_id: str) -> int | None:
    """Return in how many milliseconds a member's timer is due."""
    armed = bench.coordinator.timers.deadline_ms((f"consumer-{kind}", GROUP, member_id))
    return None if armed is None else armed - bench.now_ms


# classic members join a consumer group ------------------------------------------------------------------------------


def test_new_static_classic_member_needs_one_request_only() -> None:
    """GMMT.testJoiningConsumerGroupWithNewStaticMember:
    admitted with session and sync timer, waiting for partitions.
    """
    bench = ConsumerBench()
    bench.given(member("m1", None, (("foo", (0, 1, 2, 3, 4, 5)),), topics=["foo"]))
    joined = admitted(bench.join_classic("", "x"))
    assert (joined.generation_id, joined.protocol_type, joined.protocol_name) == (11, "consumer", "range")
    assert (joined.leader, joined.members) == ("", ())
    assert bench.types() == [MEMBER, EPOCH, TARGET, TARGET, TARGET_EPOCH, CURRENT]
    assert bench.last.records[1].value == GroupMetadataValue(11, metadata_hash({"foo", "bar"}, TOPICS))
    assert deadline(bench, "session", joined.member_id) == 10_000
    assert deadline(bench, "sync", joined.member_id) == 5_000
    assert bench.group.static_members == {"x": joined.member_id}


def test_static_classic_member_changes_its_subscription_under_its_own_id() -> None:
    """GMMT.testJoiningConsumerGroupWithExistingStaticMemberAndNewSubscription: what it keeps keeps its epoch."""
    bench = ConsumerBench()
    bench.given(
        member("m1", "x", (("foo", (0, 1, 2)),), topics=["foo"], classic=True),
        member("m2", None, (("foo", (3, 4, 5)),), topics=["foo"]),
    )
    joined = admitted(bench.join_classic("m1", "x", offers=protocols("foo", "bar")))
    assert (joined.member_id, joined.generation_id) == ("m1", 11)
    assert bench.types() == [MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    held = bench.group.members["m1"].current
    expected = with_epoch([("bar", p) for p in range(3)], 11) | with_epoch([("foo", p) for p in range(3)], 10)
    assert held == CurrentAssignment(11, 10, MemberState.STABLE, expected)
    assert partitions(bench.sync_classic("m1", 11, "x")) == (("bar", (0, 1, 2)), ("foo", (0, 1, 2)))


def test_eager_classic_member_owns_nothing_when_it_joins() -> None:
    """GMMT.testReconciliationInJoiningConsumerGroupWithEagerProtocol: nothing to revoke; it waits for the other."""
    bench = ConsumerBench(image=TopicImage({"foo": 2, "bar": 1}))
    bench.given(
        member("m1", "x", (("foo", (0,)),), topics=["foo"], classic=True, rebalance_timeout_ms=500),
        member("m2", None, (("bar", (0,)), ("foo", (1,)))),
        targets={"m1": (("foo", (0, 1)),), "m2": (("bar", (0,)),)},
    )
    bench.group.group_epoch = bench.group.assignment_epoch = 11
    eager = protocols("foo")
    joined = admitted(bench.join_classic("m1", "x", offers=eager, rebalance_timeout_ms=500))
    assert joined.generation_id == 11
    assert bench.group.members["m1"].current.state is MemberState.UNRELEASED_PARTITIONS
    assert partitions(bench.sync_classic("m1", 11, "x")) == (("foo", (0,)),)
    assert bench.beat_classic("m1", 11, "x") is NONE
    bench.beat("m2", 10, None, (("bar", (0,)), ("foo", (1,))))
    bench.beat("m2", 10, None, (("bar", (0,)),))
    assert bench.beat_classic("m1", 11, "x") is REBALANCING
    assert deadline(bench, "join", "m1") == 500
    admitted(bench.join_classic("m1", "x", offers=eager, rebalance_timeout_ms=500))
    assert bench.types() == [CURRENT]
    assert deadline(bench, "join", "m1") is None
    assert partitions(bench.sync_classic("m1", 11, "x")) == (("foo", (0, 1)),)


@pytest.mark.parametrize("instance_id", [None, "z"])
def test_full_consumer_group_refuses_classic_joiners(instance_id: str | None) -> None:
    """GMMT.testJoiningConsumerGroupThrowsExceptionIfGroupOverMaxSize: before a member id is given out."""
    bench = ConsumerBench(BrokerSettings(consumer_max_size=1))
    bench.given(member("m1", "x", ALL))
    answer = answered(bench.join_classic("", instance_id))
    assert (answer.error_code, bench.last.records) == (ErrorCode.GROUP_MAX_SIZE_REACHED, ())


def test_classic_joiner_that_could_not_be_stored_is_no_member() -> None:
    """GMMT.testJoiningConsumerGroupFailingToPersistRecords: neither a member nor timers of it remain."""
    bench = ConsumerBench()
    bench.given(member("m1", None, ALL))
    bench.coordinator.write_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answered(bench.join_classic("", "x")).error_code is ErrorCode.NOT_COORDINATOR
    assert (list(bench.group.members), bench.group.group_epoch, bench.last.records) == (["m1"], 10, ())
    assert {key[2] for key in bench.coordinator.timers.of_group(GROUP)} == {"m1"}


@pytest.mark.parametrize("names", [("foo",), ()])
def test_expression_of_a_consumer_member_goes_when_it_returns_classic(names: tuple[str, ...]) -> None:
    """GMMT.testConsumerMemberWithRegexReplacedByClassicMemberWithSameSubscription, …WithChangedSubscription."""
    bench = ConsumerBench()
    bench.given(
        member("m1", "x", FIRST, topics=["foo"], regex="bar*"),
        member("m2", None, (("foo", (3, 4, 5)),), topics=["foo"]),
    )
    bench.coordinator.replay([Record(REGEX, (GROUP, "bar*"), ResolvedRegex(("bar",), 0))])
    joined = admitted(bench.join_classic("", "x", offers=protocols(*names)))
    assert joined.generation_id == 11
    types = bench.types()
    assert types[:9] == [*REPLACEMENT, MEMBER, REGEX, EPOCH]
    assert bench.last.records[7] == Record(REGEX, (GROUP, "bar*"), None)
    assert bench.last.records[8].value == GroupMetadataValue(11, metadata_hash({"foo"}, TOPICS))
    assert types[-2:] == [TARGET_EPOCH, CURRENT]
    assert bench.group.regexes == {}


def test_member_that_came_back_classic_has_a_new_id_and_the_old_one_is_fenced_everywhere() -> None:
    """GMMT.testClassicGroupSyncToConsumerGroupWithFencedInstanceId, …HeartbeatToConsumerWithFencedInstanceId."""
    bench = ConsumerBench()
    bench.given(member("m1", "x", FIRST, classic=True), member("m2", None, SECOND))
    back = admitted(bench.join_classic("", "x"))
    sync = answered(bench.sync_classic("m1", 10, "x"))
    assert (sync.error_code, bench.beat_classic("m1", 10, "x")) == (FENCED, FENCED)
    assert bench.leave(("m1", "x")) == [FENCED]
    assert partitions(bench.sync_classic(back.member_id, 10, "x")) == FIRST
    assert bench.beat_classic(back.member_id, 10, "x") is NONE


def test_unknown_member_in_a_consumer_group() -> None:
    """GMMT.testClassicGroupSyncToConsumerGroupWithUnknownMemberId, …HeartbeatToConsumerWithUnknownMember."""
    bench = ConsumerBench()
    bench.given(member("m1", None, FIRST, classic=True), member("m2", None, SECOND))
    for instance_id in (None, "nobody"):
        sync = answered(bench.sync_classic("made-up", 10, instance_id))
        assert (sync.error_code, bench.beat_classic("made-up", 10, instance_id)) == (UNKNOWN, UNKNOWN)


def test_heartbeats_keep_a_classic_member_by_its_own_session_timeout() -> None:
    """GMMT.testClassicGroupHeartbeatToConsumerGroupMaintainsSession, …FencedWhenSessionTimeout."""
    bench = ConsumerBench()
    bench.given(member("m1", None, FIRST, classic=True), member("m2", None, SECOND))
    for _ in range(4):
        assert bench.beat_classic("m1", 10) is NONE
        assert deadline(bench, "session", "m1") == 5_000
        assert bench.advance(2_500).records == ()
    assert bench.advance(2_500).records != ()
    assert list(bench.group.members) == ["m2"]


# up and down --------------------------------------------------------------------------------------------------------


def test_upgrade_of_a_group_whose_member_has_no_assignment_yet() -> None:
    """GMMT.testConsumerGroupHeartbeatToClassicGroupWithEmptyAssignmentMember: it never sent SyncGroup."""
    bench = ConsumerBench()
    first = bench.join_classic("", None, api_version=3, session_timeout_ms=6_000)
    assert first is None
    bench.advance(3_000)
    bench.advance(3_000)
    (old,) = bench.coordinator.groups[GROUP].members
    answer = bench.join("m2")
    assert (answer.error_code, answer.member_epoch) == (NONE, 2)
    assert answer.assignment != ()
    converted = [CLASSIC, MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    assert bench.types()[:6] == converted
    assert bench.group.members[old].current == CurrentAssignment(1, 1)
    assert (deadline(bench, "session", old), deadline(bench, "session", "m2")) == (6_000, 45_000)


def test_downgrade_after_a_revocation_that_took_too_long() -> None:
    """GMMT.testLastConsumerProtocolMemberRebalanceTimeoutInConsumerGroup: the generation is the bumped group epoch."""
    bench = ConsumerBench(BrokerSettings(consumer_assignors=("range",), migration_policy="downgrade"))
    bench.given(
        member("m1", None, FIRST, classic=True, session_timeout_ms=600_000),
        member("m2", "y", SECOND, rebalance_timeout_ms=30_000),
    )
    bench.beat_classic("m1", 10)
    bench.beat("m2", 10, "y", SECOND, topics=("foo",))
    assert (bench.group.group_epoch, deadline(bench, "rebalance", "m2")) == (11, 30_000)
    bench.advance(30_001)
    group = expect(ClassicGroup, bench.coordinator.groups[GROUP])
    assert (list(group.members), group.generation_id, group.state) == (["m1"], 11, "PreparingRebalance")
    stored = expect(GroupMetadata, bench.last.records[-1].value)
    (only,) = stored.members
    assert (stored.generation_id, stored.leader, only.member_id) == (11, "m1", "m1")
    assert decode_assignment(only.assignment).partitions == bench_target(bench)


def bench_target(bench: ConsumerBench) -> TopicPartitions:
    """Return the last target that the log has for m1 apart from tombstones."""
    targets = [r.value for r in bench.log if r.record_type is TARGET and r.key[1] == "m1" and r.value is not None]
    return targets[-1].topic_partitions  # type: ignore[attr-defined]


def test_downgraded_group_lives_on_as_a_classic_one() -> None:
    """GMMT.testLastConsumerProtocolMemberLeavingConsumerGroup, and what follows: the rest rejoins and syncs."""
    bench = ConsumerBench(BrokerSettings(consumer_assignors=("range",), migration_policy="bidirectional"))
    bench.given(member("m1", "x", FIRST, classic=True), member("m2", "y", SECOND))
    bench.beat("m2", -1, "y")
    assert bench.beat_classic("m1", 10, "x") is REBALANCING
    joined = admitted(bench.join_classic("m1", "x"))
    assert (joined.member_id, joined.generation_id, joined.leader) == ("m1", 11, "m1")
    assert partitions(bench.sync_classic("m1", 11, "x", assignments=(("m1", b"\x00\x01" + b"\x00" * 8),))) == ()
    assert bench.beat_classic("m1", 11, "x") is NONE
    bench.fail_over()
    group = bench.coordinator.groups[GROUP]
    assert (group.group_type, group.state, list(group.members)) == ("classic", "Stable", ["m1"])


@pytest.mark.parametrize("policy", ["bidirectional", "downgrade", "upgrade", "disabled"])
def test_static_member_away_returns_with_the_classic_protocol(policy: str) -> None:
    """GMMT.testStaticMemberCanRejoinConsumerGroupWithClassicProtocol…: its -2 is not asked for, its policy is.

    Only `disabled` refuses it; only a policy with downgrades turns the group of its last new-protocol member classic.
    """
    bench = ConsumerBench(BrokerSettings(consumer_assignors=("range",), migration_policy=policy))
    bench.given(member("m1", "x", FIRST, classic=True), member("m2", "y", SECOND))
    bench.beat("m2", -2, "y")
    answer = answered(bench.join_classic("", "y"))
    assert answer.error_code is (ErrorCode.INCONSISTENT_GROUP_PROTOCOL if policy == "disabled" else NONE)
    downgraded = policy in ("bidirectional", "downgrade")
    assert bench.coordinator.groups[GROUP].group_type == ("classic" if downgraded else "consumer")
    if policy == "upgrade":
        assert partitions(bench.sync_classic(answer.member_id, answer.generation_id, "y")) == SECOND


def test_interrupted_upgrade_leaves_the_classic_group() -> None:
    """GMMT.testConsumerGroupHeartbeatWith…ClassicGroup with a write that fails: nothing is converted."""
    bench = ConsumerBench()
    assert bench.join_classic("", "x") is None
    bench.advance(3_000)
    bench.advance(3_000)
    (old,) = bench.coordinator.groups[GROUP].members
    bench.sync_classic(old, 1, "x", assignments=((old, b""),))
    bench.coordinator.write_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.join("m2", "y").error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.coordinator.write_error = None
    group = bench.coordinator.groups[GROUP]
    assert (group.group_type, group.state, list(group.members)) == ("classic", "Stable", [old])
    assert bench.beat_classic(old, 1, "x") is NONE
