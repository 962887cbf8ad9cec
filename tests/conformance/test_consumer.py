"""Rows N of the catalogue: KIP-848 groups.

GMMT is Kafka's GroupMetadataManagerTest. The groups are those of its tests: topics foo (6 partitions) and bar (3),
all stable at epoch 10.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.answers import answered
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage, metadata_hash
from coordinator_model.base.messages import TopicPartitions
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.consumer.group import TargetMemberValue
from coordinator_model.consumer.member import CurrentAssignment, MemberState
from coordinator_model.share.messages import ShareGroupHeartbeatRequest

from .consumer_bench import (
    CURRENT,
    EPOCH,
    FIRST,
    GROUP,
    MEMBER,
    SECOND,
    TARGET,
    TARGET_EPOCH,
    TOMBSTONES,
    UNIFORM,
    ConsumerBench,
    broker_settings,
    member,
)
from .streams_app import join as streams_join

NONE, UNKNOWN, FENCED = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID
UNRELEASED = ErrorCode.UNRELEASED_INSTANCE_ID


def test_N01_new_static_member_bumps_group_epoch(pair: ConsumerBench) -> None:
    """GMMT.testGroupEpochBumpWhenNewStaticMemberJoins."""
    answer = pair.join("m3", "z", assignor="range")
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (NONE, 11, ())
    assert pair.types() == [MEMBER, EPOCH, TARGET, TARGET, TARGET, TARGET_EPOCH, CURRENT]
    targets = {r.key[1]: r.value.topic_partitions for r in pair.last.records if isinstance(r.value, TargetMemberValue)}
    assert targets == {
        "m1": (("bar", (0,)), ("foo", (0, 1))),
        "m2": (("bar", (1,)), ("foo", (2, 3))),
        "m3": (("bar", (2,)), ("foo", (4, 5))),
    }
    assert pair.last.records[-1].value == CurrentAssignment(11, 0, MemberState.UNRELEASED_PARTITIONS)


def test_N02_static_member_gets_back_assignment_upon_rejoin(pair: ConsumerBench) -> None:
    """GMMT.testStaticMemberGetsBackAssignmentUponRejoin."""
    held = pair.group.members["m2"]
    away = pair.beat("m2", -2, "y")
    assert (away.error_code, away.member_id, away.member_epoch) == (NONE, "m2", -2)
    (record,) = pair.last.records
    assert record.value == replace(held.current, member_epoch=-2, assigned=dict.fromkeys(held.current.assigned, 0))

    back = pair.join("m2-again", "y", assignor="range")
    assert (back.error_code, back.member_epoch, back.assignment) == (NONE, 10, SECOND)
    assert pair.types() == [*TOMBSTONES, MEMBER, TARGET, CURRENT, CURRENT]
    assert [r.key[1] for r in pair.last.records] == ["m2"] * 3 + ["m2-again"] * 4
    assert [r.value is None for r in pair.last.records] == [True] * 3 + [False] * 4
    since_0 = dict.fromkeys(held.current.assigned, 0)
    assert pair.last.records[3].value == held.metadata
    assert pair.last.records[5].value == CurrentAssignment(0, 0, MemberState.STABLE, since_0)
    assert pair.last.records[6].value == CurrentAssignment(10, 0, MemberState.STABLE, since_0)
    assert (pair.group.group_epoch, pair.group.state) == (10, "Stable")
    pair.beat("m1", 10, "x")
    pair.beat("m2-again", 10, "y")
    pair.advance(44_999)
    assert pair.last.records == ()
    assert set(pair.group.members) == {"m1", "m2-again"}


def test_N03_static_member_rejoins_with_new_subscribed_topics() -> None:
    """GMMT.testStaticMemberRejoinsWithNewSubscribedTopics."""
    bench = ConsumerBench()
    foo_first: TopicPartitions = (("foo", (0, 1, 2)),)
    foo_second: TopicPartitions = (("foo", (3, 4, 5)),)
    bench.given(member("m1", "x", foo_first, topics=["foo"]), member("m2", "y", foo_second, topics=["foo"]))
    bench.beat("m2", -2, "y")
    back = bench.join("m2-again", "y", assignor="range")
    assert (back.member_epoch, back.assignment) == (11, (("bar", (0, 1, 2)), ("foo", (3, 4, 5))))
    assert bench.types() == [*TOMBSTONES, MEMBER, TARGET, CURRENT, MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    epochs = bench.group.members["m2-again"].current.assigned
    assert {epoch for (topic, _), epoch in epochs.items() if topic == "foo"} == {0}
    assert {epoch for (topic, _), epoch in epochs.items() if topic == "bar"} == {11}


def test_N04_changed_subscription_with_the_same_assignment_leaves_the_other_alone(pair: ConsumerBench) -> None:
    """GMMT.testStaticMemberRejoinsWithNewSubscribedTopicsAndNoAssignmentChange: the new topic does not exist."""
    pair.beat("m2", -2, "y")
    back = pair.join("m2-again", "y", topics=("foo", "bar", "zar"), assignor="range")
    assert (back.member_epoch, back.assignment) == (11, SECOND)
    assert pair.types() == [*TOMBSTONES, MEMBER, TARGET, CURRENT, MEMBER, EPOCH, TARGET_EPOCH, CURRENT]
    answer = pair.beat("m1", 10, "x")
    assert (answer.member_epoch, answer.assignment) == (11, None)


def test_N05_returning_with_another_assignor_bumps_once_it_is_the_most_wanted() -> None:
    """GMMT.testStaticMembersRejoinWithNewServerAssignor (KAFKA-20434)."""
    bench = ConsumerBench(broker_settings(consumer_assignors=UNIFORM))
    thirds: list[TopicPartitions] = [(("foo", pair),) for pair in ((0, 1), (2, 3), (4, 5))]
    bench.given(*(member(f"m{n}", f"x{n}", thirds[n], topics=["foo"], assignor="uniform") for n in range(3)))
    for n, epoch in ((1, 10), (2, 11)):
        bench.beat(f"m{n}", -2, f"x{n}")
        assert bench.join(f"m{n}-again", f"x{n}", topics=("foo",), assignor="range").member_epoch == epoch
    assert bench.describe().assignor_name == "range"


def test_N06_no_epoch_bump_when_static_member_temporarily_leaves(pair: ConsumerBench) -> None:
    """GMMT.testNoGroupEpochBumpWhenStaticMemberTemporarilyLeaves."""
    pair.beat("m2", -2, "y")
    assert pair.types() == [CURRENT]
    assert pair.last.timers == ()
    assert (pair.group.group_epoch, pair.epochs) == (10, {"m1": 10, "m2": -2})


def test_N06_temporary_leave_ends_a_revocation() -> None:
    """consumerGroupStaticMemberGroupLeave: what was to be revoked is free, and its timer finds another epoch.

    The state byte is left as it was (KAFKA-20680 tracks it).
    """
    bench = ConsumerBench()
    bench.given(member("m1", "x", FIRST), member("m2", "y", SECOND))
    bench.join("m3", "z", assignor="range")
    bench.beat("m1", 10, "x", FIRST)
    assert bench.coordinator.timers.deadline_ms(("consumer-rebalance", GROUP, "m1")) == bench.now_ms + 5_000
    kept = bench.group.members["m1"].current.assigned
    bench.beat("m1", -2, "x")
    away = bench.group.members["m1"].current
    assert (away.state, away.assigned.keys()) == (MemberState.UNREVOKED_PARTITIONS, kept.keys())
    assert away.pending_revocation == {}
    bench.advance(5_000)
    assert not bench.last.records
    assert bench.epochs["m1"] == -2


def test_N07_leaving_static_member_bumps_group_epoch(pair: ConsumerBench) -> None:
    """GMMT.testLeavingStaticMemberBumpsGroupEpoch."""
    before = pair.group.metadata_hash
    answer = pair.beat("m2", -1, "y")
    assert (answer.error_code, answer.member_epoch) == (NONE, -1)
    assert pair.types() == [*TOMBSTONES, EPOCH]
    assert (pair.group.group_epoch, pair.group.metadata_hash, pair.group.state) == (11, before, "Assigning")
    assert pair.coordinator.timers.deadline_ms(("consumer-session", GROUP, "m2")) is None


def test_N07_leaving_takes_its_own_topics_out_of_the_hash(pair: ConsumerBench) -> None:
    """GMMT.testLeavingStaticMemberBumpsGroupEpoch: no member subscribes to zar any more."""
    pair = ConsumerBench(image=TopicImage({"foo": 6, "bar": 3, "zar": 1}))
    pair.given(member("m1", "x", FIRST), member("m2", "y", SECOND, topics=["foo", "bar", "zar"]))
    before = pair.group.metadata_hash
    pair.beat("m2", -1, "y")
    assert pair.group.metadata_hash != before
    without = ConsumerBench()
    without.given(member("m1", "x", FIRST))
    assert pair.group.metadata_hash == without.group.metadata_hash


def test_N08_same_member_id_may_come_back_with_another_instance_id(pair: ConsumerBench) -> None:
    """GMMT.testStaticMemberRejoinsWithSameMemberIdAndDifferentInstanceId."""
    assert pair.join("m1", "z", assignor="range").assignment == FIRST
    assert pair.group.static_members == {"z": "m1", "y": "m2"}


def test_N08_after_a_temporary_leave_it_comes_back_without_partitions(pair: ConsumerBench) -> None:
    """ConsumerGroup.targetAssignment finds the target by the new instance id, which no member held: nothing is found.

    The group then reads Stable with partitions that nobody has, until something else bumps its epoch.
    """
    pair.beat("m1", -2, "x")
    answer = pair.join("m1", "z", assignor="range")
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (NONE, 10, ())
    assert pair.group.static_members == {"z": "m1", "y": "m2"}
    assert (pair.group.targets["m1"], pair.group.state) == (FIRST, "Stable")


def test_N09_instance_id_in_use_is_unreleased(pair: ConsumerBench) -> None:
    """GMMT.testShouldThrownUnreleasedInstanceIdExceptionWhenNewMemberJoinsWithInUseInstanceId."""
    answer = pair.join("m3", "x")
    assert answer.error_code is UNRELEASED
    assert answer.error_message is not None
    assert "owned by m1" in answer.error_message
    assert (pair.last.records, pair.epochs) == ((), {"m1": 10, "m2": 10})


@pytest.mark.parametrize("instance_id", [None, "x"])
def test_N12_member_epoch_validation(instance_id: str | None) -> None:
    """GMMT.testConsumerGroupMemberEpochValidation, …ForStaticMember: ahead, behind, and the lost answer."""
    bench = ConsumerBench()
    held: TopicPartitions = (("foo", (1, 2, 3)),)
    bench.given(member("m1", instance_id, held, topics=["foo"], epoch=100), epoch=100)
    fenced = ErrorCode.FENCED_MEMBER_EPOCH
    assert bench.beat("m1", 200, instance_id, held).error_code is fenced
    assert bench.beat("m1", 50, instance_id, held).error_code is fenced
    assert bench.beat("m1", 99, instance_id, (("foo", (3, 4)),)).error_code is fenced
    assert bench.beat("m1", 99, instance_id, None).error_code is fenced
    assert bench.beat("m1", 99, instance_id, (("foo", (1, 2)),)).member_epoch == 100
    assert bench.beat("m1", 100, instance_id, held).member_epoch == 100


@pytest.mark.parametrize(
    ("state", "holds", "pending", "epoch"),
    [(MemberState.UNREVOKED_PARTITIONS, (0, 1), (2,), 101), (MemberState.UNRELEASED_PARTITIONS, (0,), (), 100)],
)
def test_N12_epoch_0_in_the_middle_of_reconciliation(
    state: MemberState, holds: tuple[int, ...], pending: tuple[int, ...], epoch: int
) -> None:
    """GMMT.testMemberCanRejoinWithEpochZeroInUnrevokedPartitionsState, …InUnreleasedPartitionsState."""
    bench = ConsumerBench(image=TopicImage({"foo": 3}))
    shape = member("m1", None, (("foo", holds),), topics=["foo"], epoch=100, state=state, pending=(("foo", pending),))
    target: TopicPartitions = (("foo", (0, 1) if pending else (0, 1, 2)),)
    bench.given(shape, epoch=epoch, targets={"m1": target})
    answer = bench.join("m1", topics=("foo",))
    assert (answer.member_epoch, answer.assignment) == (epoch, target)


def test_N12_fenced_member_comes_back_with_its_own_id() -> None:
    """ConsumerGroupHeartbeatRequestTest.testFencedMemberCanRejoinWithEpochZero: dynamic members only."""
    bench = ConsumerBench()
    bench.join("m1")
    assert bench.beat("m1", 99, None, ()).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert bench.join("m1").error_code is NONE
    assert bench.group.group_epoch == 2


@pytest.mark.parametrize("owned", [(0, 1), (0,)])
def test_N12_repeated_full_heartbeat_gets_the_same_answer(owned: tuple[int, ...]) -> None:
    """ConsumerGroupHeartbeatRequestTest.testDuplicateFullHeartbeatDuringRevocation, …WithRevocationAck."""
    bench = ConsumerBench(image=TopicImage({"foo": 2}))
    bench.join("m1", topics=("foo",))
    bench.join("m2", topics=("foo",))
    answers = [
        bench.beat("m1", epoch, None, (("foo", owned),), topics=("foo",), rebalance_timeout_ms=300_000)
        for epoch in (2, 2)
    ]
    assert answers[0] == answers[1]
    assert answers[0].member_epoch == (2 if len(owned) == 2 else 3)


def test_N12_epoch_0_of_a_known_dynamic_member_is_always_a_rejoin() -> None:
    """GMMT.testMemberCanRejoinWithEpochZeroInStableState (KAFKA-19233)."""
    bench = ConsumerBench()
    bench.given(member("m1", None, (("foo", (0, 1, 2, 3, 4, 5)),), topics=["foo"], epoch=100), epoch=100)
    answer = bench.join("m1", topics=("foo",), assignor="range")
    assert (answer.member_epoch, answer.assignment) == (100, (("foo", (0, 1, 2, 3, 4, 5)),))
    assert bench.last.records == ()


def test_N14_full_group() -> None:
    """GMMT.testStaticMemberCanRejoinWhenConsumerGroupIsFull and its neighbours (KAFKA-20601)."""
    bench = ConsumerBench(BrokerSettings(consumer_max_size=2))
    bench.given(member("m1", "x", FIRST), member("m2", "y", SECOND))
    assert bench.join("m3", "z").error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.join("m3").error_code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.join("m1-again", "x").error_code is UNRELEASED
    bench.beat("m1", -2, "x")
    assert bench.join("m1-again", "x").error_code is NONE
    assert set(bench.group.members) == {"m1-again", "m2"}


def test_N19_batch_leave_bumps_once() -> None:
    """GMMT.testConsumerGroupMemberUsingClassicProtocolBatchLeaveGroup: six identities, two protocols, one epoch."""
    bench = ConsumerBench()
    bench.given(
        member("m1", None, (("foo", (0,)),), classic=True),
        member("m2", "y", (("foo", (1,)),), classic=True),
        member("m3", "z", (("bar", (0,)),)),
    )
    errors = bench.leave(("m1", None), ("", "y"), ("m3", "z"), ("m?", None), ("", "y?"), ("m?", "z"))
    assert errors == [NONE, NONE, NONE, UNKNOWN, UNKNOWN, FENCED]
    assert bench.types() == [*TOMBSTONES * 3, EPOCH, TARGET_EPOCH]
    assert (bench.group.group_epoch, bench.group.metadata_hash, bench.group.state) == (11, 0, "Empty")
    assert bench.coordinator.timers.keys() == ()


def test_batch_leave_takes_the_leavers_topics_out_of_the_hash() -> None:
    """GMMT.testConsumerGroupMemberUsingClassicProtocolBatchLeaveGroupUpdatingSubscriptionMetadata."""
    bench = ConsumerBench()
    bench.given(
        member("m1", None, (("foo", (0,)),), topics=["foo"], classic=True),
        member("m2", "y", (("bar", (0,)),), topics=["bar"]),
        member("m3", "z", (("foo", (1,)),), topics=["foo"]),
    )
    assert bench.leave(("m2", "y")) == [NONE]
    assert bench.group.metadata_hash == metadata_hash(["foo"], bench.image)


def test_identity_named_twice_is_answered_twice(pair: ConsumerBench) -> None:
    """What a broker of 4.4.0 was seen to do, unlike for classic groups: the batch is a set of members."""
    assert pair.leave(("", "x"), ("m1", "x"), ("m1", None)) == [NONE, NONE, NONE]
    assert pair.types() == [*TOMBSTONES, EPOCH]
    assert (pair.group.group_epoch, list(pair.group.members)) == (11, ["m2"])


@pytest.mark.parametrize("identity", [("m?", None), ("", None), ("", "y?"), ("m1", "y")])
def test_N21_without_valid_member_nothing_is_written(pair: ConsumerBench, identity: tuple[str, str | None]) -> None:
    """GMMT.testClassicGroupLeaveToConsumerGroupWithoutValidLeaveGroupMember."""
    pair.leave(identity)
    assert (pair.last.records, pair.group.group_epoch) == ((), 10)


@pytest.mark.parametrize("kind", ["streams", "share"])
def test_N23_leave_group_does_not_reach_other_group_types(kind: str) -> None:
    """GMMT.testClassicGroupLeaveOnStreamsGroup, testClassicGroupLeaveOnShareGroup:
    every member is unknown, the group stays as it is.
    """
    bench = ConsumerBench()
    joiner = (
        streams_join("m1", "x", group_id=GROUP)
        if kind == "streams"
        else ShareGroupHeartbeatRequest(group_id=GROUP, member_id="m1", subscribed_topic_names=("foo",))
    )
    answer = answered(bench.send(joiner))
    assert (answer.error_code, bench.coordinator.groups[GROUP].group_type) == (NONE, kind)
    assert bench.leave(("m1", None), ("", "x"), ("m1", "x")) == [UNKNOWN] * 3
    assert list(bench.coordinator.groups[GROUP].members) == ["m1"]


def test_survivors_take_over_on_their_next_heartbeat(pair: ConsumerBench) -> None:
    """PlaintextAdminIntegrationTest.testConsumerGroupWithMemberRemoval, seen from the coordinator."""
    assert pair.leave(("m2", "y")) == [NONE]
    answer = pair.beat("m1", 10, "x", FIRST)
    everything: TopicPartitions = (("bar", (0, 1, 2)), ("foo", (0, 1, 2, 3, 4, 5)))
    assert (answer.member_epoch, answer.assignment) == (11, everything)
