"""Rules of KIP-848 groups that Kafka's own tests pin and the catalogue of rows does not name.

GMMT is GroupMetadataManagerTest of Kafka 4.4; each docstring names the test it restates. The groups are those
of its tests: topics foo (6 partitions) and bar (3), all stable at epoch 10.
"""

from __future__ import annotations

from dataclasses import fields

import pytest
from kio.schema.consumer_group_heartbeat.v1.response import Assignment as FinalAssignment
from kio.schema.consumer_group_heartbeat.v1.response import ConsumerGroupHeartbeatResponse as FinalHeartbeatResponse

from conformance.answers import expect
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage, metadata_hash
from coordinator_model.base.messages import ConsumerGroupHeartbeatResponse, TopicPartitions
from coordinator_model.base.records import Record, RecordType
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.classic.member import GroupMetadata
from coordinator_model.consumer.group import ResolvedRegex
from coordinator_model.consumer.member import CurrentAssignment, MemberState, with_epoch
from coordinator_model.consumer.records import GroupMetadataValue, TargetMemberValue, TargetMetadataValue

from .consumer_bench import (
    CURRENT,
    EPOCH,
    FIRST,
    GROUP,
    MEMBER,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    TOMBSTONES,
    TOPICS,
    ConsumerBench,
    member,
)

NONE, FENCED, NOT_FOUND = ErrorCode.NONE, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND
FOO: TopicPartitions = (("foo", (0, 1, 2, 3, 4, 5)),)


# heartbeats ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [100, -1, -2])
def test_heartbeat_to_an_absent_group_makes_none(epoch: int) -> None:
    """GMMT.testUnknownGroupId, testConsumerGroupLeave…: only epoch 0 creates a group."""
    bench = ConsumerBench()
    assert bench.beat("m1", epoch, "x", topics=("foo",)).error_code is NOT_FOUND
    assert bench.coordinator.groups == {}


def test_changed_subscription_of_a_member_makes_a_new_target() -> None:
    """GMMT.testUpdatingSubscriptionTriggersNewTargetAssignment: what it keeps keeps its epoch, the rest is of 11."""
    bench = ConsumerBench()
    bench.given(member("m1", None, FOO, topics=["foo"]))
    answer = bench.beat("m1", 10, topics=("foo", "bar"))
    assert (answer.member_epoch, answer.assignment) == (11, (("bar", (0, 1, 2)), *FOO))
    assert bench.types() == [MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    hashed, target_epoch, current = (bench.last.records[n].value for n in (1, 3, 4))
    assert hashed == GroupMetadataValue(11, metadata_hash({"foo", "bar"}, TOPICS))
    assert target_epoch == TargetMetadataValue(11, bench.now_ms)
    held = with_epoch([("bar", p) for p in range(3)], 11) | with_epoch([("foo", p) for p in range(6)], 10)
    assert current == CurrentAssignment(11, 10, MemberState.STABLE, held)


def test_newly_known_racks_bump_the_epoch_although_nothing_moves() -> None:
    """GMMT.testNewRacksDataInMetadataImageTriggersEpochBump: no target record, and the answer has no assignment."""
    bench = ConsumerBench()
    bench.given(member("m1", None, FOO, topics=["foo"]))
    racks = {("foo", p): frozenset({"rack0", "rack1"}) for p in range(6)}
    bench.coordinator.image = TopicImage(TOPICS.partitions, racks)
    answer = bench.beat("m1", 10)
    assert (answer.member_epoch, answer.assignment) == (11, None)
    assert bench.types() == [EPOCH, TARGET_EPOCH, CURRENT]


def test_new_dynamic_member_gets_nothing_until_the_others_revoke(pair: ConsumerBench) -> None:
    """GMMT.testNewJoiningMemberTriggersNewTargetAssignment."""
    answer = pair.join("m3", assignor="range")
    assert (answer.member_epoch, answer.assignment) == (11, ())
    assert pair.types() == [MEMBER, EPOCH, TARGET, TARGET, TARGET, TARGET_EPOCH, CURRENT]
    targets = {r.key[1]: r.value.topic_partitions for r in pair.last.records if isinstance(r.value, TargetMemberValue)}
    # The range assignor puts static members first, in the order of their instance ids.
    assert targets == {
        "m1": (("bar", (0,)), ("foo", (0, 1))),
        "m2": (("bar", (1,)), ("foo", (2, 3))),
        "m3": (("bar", (2,)), ("foo", (4, 5))),
    }
    assert pair.group.members["m3"].current == CurrentAssignment(11, 0, MemberState.UNRELEASED_PARTITIONS)


@pytest.mark.parametrize(
    ("instance_id", "error"), [("x", ErrorCode.UNRELEASED_INSTANCE_ID), ("z", ErrorCode.GROUP_MAX_SIZE_REACHED)]
)
def test_full_group_says_first_what_is_wrong_with_the_instance_id(instance_id: str, error: ErrorCode) -> None:
    """GMMT.testStaticMemberRejoinWithUnreleasedInstanceIdFailsWhenConsumerGroupIsFull,
    testNewStaticMemberIsRejected….
    """
    bench = ConsumerBench(BrokerSettings(consumer_assignors=("range",), consumer_max_size=1))
    bench.given(member("m1", "x", FIRST))
    assert bench.join("m2", instance_id).error_code is error
    assert bench.last.records == ()


def test_metadata_change_that_could_not_be_stored_is_seen_again() -> None:
    """GMMT.testSubscriptionMetadataRefreshedAgainAfterWriteFailure: the next heartbeat finds it once more."""
    bench = ConsumerBench()
    bench.given(member("m1", None, (("foo", (0, 1, 2)),), topics=["foo"]))
    bench.coordinator.image = TOPICS.with_topic("foo", 7)
    bench.coordinator.write_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.beat("m1", 10).error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (bench.group.group_epoch, bench.last.records) == (10, ())
    bench.coordinator.write_error = None
    answer = bench.beat("m1", 10)
    assert (answer.member_epoch, answer.assignment) == (11, (("foo", (0, 1, 2, 3, 4, 5, 6)),))
    assert bench.types() == [EPOCH, TARGET, TARGET_EPOCH, CURRENT]


@pytest.mark.parametrize("epoch", [0, 10])
def test_own_instance_id_is_no_pass_for_another_member_id(pair: ConsumerBench, epoch: int) -> None:
    """GMMT.testShouldThrowFencedInstanceIdException…, testShouldThrowUnreleasedInstanceIdException…: by the epoch."""
    answer = pair.join("m9", "x") if epoch == 0 else pair.beat("m9", epoch, "x")
    assert answer.error_code is (ErrorCode.UNRELEASED_INSTANCE_ID if epoch == 0 else FENCED)
    assert pair.last.records == ()
    assert pair.last.timers == ()


def test_refused_replacement_does_not_keep_the_holder_alive(pair: ConsumerBench) -> None:
    """GMMT.testConsumerGroupSessionTimeoutExpirationStaticMember: its session is its own;
    then the waiting one gets in.
    """
    pair.advance(30_000)
    pair.beat("m2", 10, "y")
    assert pair.join("m9", "x").error_code is ErrorCode.UNRELEASED_INSTANCE_ID
    pair.advance(15_000)
    assert pair.types() == [*TOMBSTONES, EPOCH]
    assert pair.join("m9", "x", assignor="range").member_epoch == 12


def test_leave_by_member_id_alone_needs_no_instance_id(pair: ConsumerBench) -> None:
    """GroupMetadataManager.consumerGroupLeave:
    without an instance id -1 removes a static member, whatever its epoch.
    """
    assert pair.beat("m2", -1).error_code is NONE
    assert pair.types() == [*TOMBSTONES, EPOCH]
    assert pair.group.static_members == {"x": "m1"}


@pytest.mark.parametrize("epoch", [0, 10])
def test_assignor_that_the_broker_does_not_have_is_refused(pair: ConsumerBench, epoch: int) -> None:
    """GroupCoordinatorServiceTest.testConsumerHeartbeatRequestValidation: at a join and in any later heartbeat."""
    member_id, topics = ("m3", ("foo",)) if epoch == 0 else ("m1", None)
    owned = () if epoch == 0 else None
    answer = pair.beat(member_id, epoch, None, owned, topics=topics, assignor="sticky", rebalance_timeout_ms=5_000)
    assert answer.error_code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert answer.error_message == "ServerAssignor sticky is not supported. Supported assignors: range, uniform."
    assert (pair.last.records, set(pair.group.members)) == ((), {"m1", "m2"})


def test_heartbeat_answer_has_the_fields_of_the_final_protocol_only() -> None:
    """ConsumerGroupHeartbeatResponse.json v1: no ShouldComputeAssignment, assignment error, pending or metadata."""
    ours = {field.name for field in fields(ConsumerGroupHeartbeatResponse)}
    kafkas = {field.name for field in fields(FinalHeartbeatResponse)} - {"throttle_time"}
    assert ours == {name.replace("heartbeat_interval", "heartbeat_interval_ms") for name in kafkas}
    assert {field.name for field in fields(FinalAssignment)} == {"topic_partitions"}


# removal by an administrator ----------------------------------------------------------------------------------------


def test_batch_removal_drops_unused_expressions() -> None:
    """GMMT.testResolvedRegularExpressionsRemovedWhenConsumerMembersRemovedByAdminApi: one by each form of identity."""
    bench = ConsumerBench()
    bench.given(
        member("m1", None, (("foo", (0, 1, 2)),), topics=(), regex="foo*"),
        member("m2", "y", (("foo", (3, 4, 5)),), topics=(), regex="foo*"),
        member("m3", "z", (("bar", (0, 1)),), topics=(), regex="bar*"),
        member("m4", "w", (("bar", (2,)),), topics=(), regex="bar*"),
    )
    resolved = [Record(REGEX, (GROUP, f"{topic}*"), ResolvedRegex((topic,), 0)) for topic in ("foo", "bar")]
    bench.coordinator.replay(resolved)
    assert bench.leave(("m1", None), ("m2", "y"), ("", "z")) == [NONE] * 3
    assert bench.types() == [*TOMBSTONES * 3, REGEX, EPOCH]
    assert bench.last.records[9] == Record(REGEX, (GROUP, "foo*"), None)
    assert bench.last.records[10].value == GroupMetadataValue(11, metadata_hash({"bar"}, TOPICS))
    assert set(bench.group.regexes) == {"bar*"}


def given_two_of_each_protocol(bench: ConsumerBench) -> None:
    """Classic m1 and static m2 (y), consumer-protocol m3 and static m4 (w)."""
    bench.given(
        member("m1", None, (("foo", (0, 1)),), classic=True), member("m2", "y", (("foo", (2, 3)),), classic=True),
        member("m3", None, (("bar", (0, 1, 2)),)), member("m4", "w", (("foo", (4, 5)),)),
    )


LEAVERS: tuple[tuple[str, str | None], ...] = (("m2", None), ("m3", None), ("", "w"))


def test_batch_removal_of_the_last_consumer_protocol_members_downgrades() -> None:
    """GMMT.testLastConsumerProtocolMemberLeavingConsumerGroupByAdminApi: the classic member that is left rebalances.

    The generation is the group epoch before the removal; tombstones of all four, then the classic group.
    """
    bench = ConsumerBench(BrokerSettings(consumer_assignors=("range",), migration_policy="downgrade"))
    given_two_of_each_protocol(bench)
    assert bench.leave(*LEAVERS) == [NONE] * 3
    once = [TARGET_EPOCH, RecordType.CONSUMER_GROUP_PARTITION_METADATA, EPOCH]
    assert sorted(bench.types()) == sorted([*[CURRENT, TARGET, MEMBER] * 4, *once, RecordType.CLASSIC_GROUP_METADATA])
    value = expect(GroupMetadata, bench.last.records[-1].value)
    assert (value.generation_id, value.leader, [m.member_id for m in value.members]) == (10, "m1", ["m1"])
    group = bench.coordinator.groups[GROUP]
    assert (group.group_type, group.state) == ("classic", "PreparingRebalance")
    armed = {key[0] for key in bench.coordinator.timers.of_group(GROUP)}
    assert {"classic-session", "classic-join"} <= armed


def test_downgrade_that_could_not_be_stored_leaves_the_consumer_group() -> None:
    """The same test's end: the write fails, and the group is a consumer group with all of its members."""
    bench = ConsumerBench(BrokerSettings(consumer_assignors=("range",), migration_policy="downgrade"))
    given_two_of_each_protocol(bench)
    bench.coordinator.write_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(AssertionError):
        bench.leave(*LEAVERS)
    assert bench.last.response is not None
    assert bench.last.response.error_code is ErrorCode.NOT_COORDINATOR
    assert (set(bench.group.members), bench.group.group_epoch) == ({"m1", "m2", "m3", "m4"}, 10)


def test_timers_go_with_a_batch_of_removed_members(pair: ConsumerBench) -> None:
    """GroupMetadataManager.cancelTimers: session and rebalance timers, of those removed and of nobody else."""
    pair.join("m3", assignor="range")
    pair.beat("m1", 10, "x", FIRST)
    assert ("consumer-rebalance", GROUP, "m1") in pair.coordinator.timers.of_group(GROUP)
    assert pair.leave(("m1", "x"), ("m3", None)) == [NONE, NONE]
    assert {key[2] for key in pair.coordinator.timers.of_group(GROUP)} == {"m2"}
