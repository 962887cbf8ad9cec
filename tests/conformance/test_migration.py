"""Rows M of the catalogue: classic and consumer protocol in one group, up and down.

GMMT is Kafka's GroupMetadataManagerTest; most of its groups are foo (6 partitions) and bar (3) at epoch 10.
"""

from __future__ import annotations

import pytest

from conformance.answers import answered, expect
from coordinator_model.assignors.subscription import decode_assignment
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    JoinGroupResponse,
    Protocol,
    SyncGroupResponse,
)
from coordinator_model.base.records import RecordType
from coordinator_model.classic.group import ClassicGroup
from coordinator_model.classic.member import GroupMetadata
from coordinator_model.consumer.group import ConsumerGroup
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
)
from .mixed_groups import classic_group, given_mixed, stable_classic

NONE = ErrorCode.NONE
NOT_FOUND, INCONSISTENT = ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INCONSISTENT_GROUP_PROTOCOL
REBALANCING = ErrorCode.REBALANCE_IN_PROGRESS
CLASSIC = RecordType.CLASSIC_GROUP_METADATA


def test_M01_classic_static_member_returns_with_the_new_protocol() -> None:
    """GMMT.testConsumerGroupHeartbeatToClassicGroupFromExistingStaticMember: no -2 is needed."""
    bench = ConsumerBench()
    (old,) = stable_classic(bench, "x")
    answer = bench.join("m1", "x")
    assert (answer.error_code, answer.member_id, answer.member_epoch, answer.assignment) == (NONE, "m1", 1, ALL)
    converted = [CLASSIC, MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    assert bench.types() == [*converted, *REPLACEMENT, MEMBER, CURRENT]
    assert [r.key[1] for r in bench.last.records[6:9]] == [old] * 3
    assert bench.coordinator.timers.deadline_ms(("consumer-session", GROUP, "m1")) == bench.now_ms + 45_000
    assert (bench.group.group_epoch, bench.group.classic_members) == (1, 0)


def test_M02_mixed_group_lets_a_later_classic_static_member_come_over() -> None:
    """GMMT.testConsumerGroupHeartbeatFromExistingClassicStaticMember."""
    bench = ConsumerBench()
    bench.given(member("m1", "x", FIRST, classic=True), member("m2", "y", SECOND))
    answer = bench.join("m1-new", "x", assignor="range")
    assert (answer.error_code, answer.member_epoch, answer.assignment) == (NONE, 10, FIRST)
    assert bench.types() == [*REPLACEMENT, MEMBER, CURRENT]
    assert [m.member_type for m in bench.describe().members] == [1, 1]


@pytest.mark.parametrize("subscription_changes", [False, True])
def test_M03_last_consumer_protocol_static_member_returns_classic(subscription_changes: bool) -> None:
    """GMMT.testLastStaticConsumerProtocolMemberReplacedByClassicProtocolMember: the group is classic again."""
    bench = ConsumerBench(broker_settings(migration_policy="downgrade"))
    bench.given(member("m1", None, FIRST, classic=True), member("m2", "y", (("foo", (3, 4, 5)),), topics=["foo"]))
    topics = ("foo", "bar") if subscription_changes else ("foo",)
    answer = answered(bench.join_classic("", "y", offers=protocols(*topics)))
    assert answer.error_code is NONE
    group = classic_group(bench)
    assert set(group.members) == {"m1", answer.member_id}
    assert group.generation_id == 10
    assert group.state == ("PreparingRebalance" if subscription_changes else "Stable")
    gone = [CURRENT, CURRENT, TARGET, TARGET, TARGET_EPOCH, MEMBER, MEMBER]
    gone += [RecordType.CONSUMER_GROUP_PARTITION_METADATA, EPOCH]
    assert bench.types() == [*REPLACEMENT, MEMBER, EPOCH if subscription_changes else CURRENT, *gone, CLASSIC]
    assert [r.value is None for r in bench.last.records[8:17]] == [True] * 9
    assert {r.key[1] for r in bench.last.records[8:17] if len(r.key) > 1} == {"m1", answer.member_id}
    stored = expect(GroupMetadata, bench.last.records[-1].value)
    assigned = {m.member_id: decode_assignment(m.assignment).partitions for m in stored.members}
    assert assigned == {"m1": FIRST, answer.member_id: (("foo", (3, 4, 5)),)}
    assert bench.coordinator.timers.deadline_ms(("classic-session", GROUP, "m1")) == bench.now_ms + 5_000


def test_M03_with_stale_target_assignment_the_downgraded_group_rebalances() -> None:
    """GMMT …ReplacedByClassicProtocolMemberWhenTargetAssignmentIsStale."""
    bench = ConsumerBench(broker_settings(migration_policy="downgrade"))
    given_mixed(bench)
    bench.group.group_epoch = 11
    assert bench.join_classic("", "y") is not None
    assert classic_group(bench).state == "PreparingRebalance"


def test_M03_with_missing_target_assignment() -> None:
    """GMMT …ReplacedByClassicProtocolMemberWhenTargetAssignmentIsMissing."""
    bench = ConsumerBench(broker_settings(migration_policy="downgrade"))
    given_mixed(bench)
    del bench.group.targets["m2"]
    answer = answered(bench.join_classic("", "y"))
    assert answer.error_code is NONE
    assert decode_assignment(classic_group(bench).members[answer.member_id].assignment).partitions == ()


@pytest.mark.parametrize("how", ["heartbeat", "admin", "session", "rebalance timeout"])
def test_M03_last_consumer_protocol_member_goes(how: str) -> None:
    """GMMT.testLastConsumerProtocolMemberLeaving…, …SessionTimeout…, …RebalanceTimeout…, …ByAdminApi (KAFKA-18150)."""
    bench = ConsumerBench(broker_settings(migration_policy="downgrade"))
    revoking = MemberState.UNREVOKED_PARTITIONS
    bench.given(
        member("m1", None, FIRST, classic=True, session_timeout_ms=600_000),
        member("m2", "y", SECOND, state=revoking if how == "rebalance timeout" else MemberState.STABLE),
    )
    bench.beat_classic("m1", 10)
    if how == "heartbeat":
        bench.beat("m2", -1, "y")
    elif how == "admin":
        assert bench.leave(("", "y")) == [NONE]
    else:
        bench.advance(5_001 if how == "rebalance timeout" else 45_000)
    group = classic_group(bench)
    assert (list(group.members), group.generation_id, group.state) == (["m1"], 10, "PreparingRebalance")
    assert bench.coordinator.timers.deadline_ms(("classic-join", GROUP)) is not None
    assert bench.types()[-1] is CLASSIC
    bench.fail_over()
    assert list(classic_group(bench).members) == ["m1"]


@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_M03_policy_without_downgrade_keeps_the_group(policy: str) -> None:
    """GMMT: the downgrade is asked of group.consumer.migration.policy; the classic member stays in the group."""
    bench = ConsumerBench(broker_settings(migration_policy=policy))
    given_mixed(bench)
    bench.beat("m2", -1, "y")
    assert (bench.group.group_type, list(bench.group.members), bench.group.group_epoch) == ("consumer", ["m1"], 11)


def test_M03_too_many_members_for_a_classic_group_keep_it() -> None:
    """GMMT.validateOnlineDowngradeWithFencedMembers: group.max.size."""
    bench = ConsumerBench(broker_settings(group_max_size=0))
    given_mixed(bench)
    bench.beat("m2", -1, "y")
    assert isinstance(bench.coordinator.groups[GROUP], ConsumerGroup)


@pytest.mark.parametrize("instance_id", [None, "z", "y"])
def test_M07_disabled_policy_refuses_classic_joiners(instance_id: str | None) -> None:
    """GMMT.testClassicMemberJoinToConsumerGroupWithDisabledMigrationPolicy (KAFKA-20640)."""
    bench = ConsumerBench(broker_settings(migration_policy="disabled"))
    given_mixed(bench)
    assert answered(bench.join_classic("", instance_id)).error_code is INCONSISTENT
    assert bench.last.records == ()


def test_M08_upgrade_one_by_one_and_back() -> None:
    """ConsumerProtocolMigrationTest: group type and epochs follow."""
    bench = ConsumerBench(image=TopicImage({"foo": 6, "bar": 3}))
    stable_classic(bench, "x", "y")
    first = bench.join("m1", "x")
    assert (first.member_epoch, bench.group.classic_members) == (1, 1)
    bench.join("m2", "y")
    assert (bench.group.classic_members, bench.group.group_type) == (0, "consumer")
    bench.join("m3", "z")
    bench.settle(("m1", "x"), ("m2", "y"), ("m3", "z"))
    epoch = bench.group.group_epoch
    assert bench.leave(("", "z")) == [NONE]
    bench.settle(("m1", "x"), ("m2", "y"))
    assert answered(bench.join_classic("", "x")).error_code is NONE
    assert isinstance(bench.coordinator.groups[GROUP], ConsumerGroup)
    last = answered(bench.join_classic("", "y"))
    assert last.error_code is NONE
    group = classic_group(bench)
    assert group.generation_id > epoch
    assert answered(bench.sync_classic(last.member_id, group.generation_id, "y")).error_code is NONE


def test_heartbeat_to_a_stable_classic_group_converts_it() -> None:
    """GMMT.testConsumerGroupHeartbeatWithStableClassicGroup: epochs are the generation, the newcomer waits."""
    bench = ConsumerBench(broker_settings(migration_policy="upgrade"))
    (m1,) = stable_classic(bench, None)
    answer = bench.join("m2", assignor="range")
    assert (answer.member_epoch, answer.assignment) == (2, ())
    assert bench.types()[:6] == [CLASSIC, MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    assert bench.types()[6:] == [MEMBER, EPOCH, TARGET, TARGET, TARGET_EPOCH, CURRENT]
    assert bench.epochs == {m1: 1, "m2": 2}
    assert bench.group.members["m2"].current.state is MemberState.UNRELEASED_PARTITIONS
    assert bench.coordinator.timers.deadline_ms(("consumer-session", GROUP, m1)) == bench.now_ms + 10_000
    assert bench.beat_classic(m1, 1) is REBALANCING


def test_heartbeat_to_a_preparing_classic_group_answers_the_waiting() -> None:
    """GMMT.testConsumerGroupHeartbeatWithPreparingRebalanceClassicGroup: the joiners are sent round again."""
    bench = ConsumerBench()
    (m1,) = stable_classic(bench, "x")
    assert bench.join_classic("", "y") is None
    ticket = answered(bench.last.ticket)
    bench.join("m2")
    assert expect(JoinGroupResponse, bench.completed[ticket]).error_code is REBALANCING
    assert m1 in bench.group.members


def test_heartbeat_to_a_completing_classic_group_answers_the_syncing() -> None:
    """GMMT.testConsumerGroupHeartbeatWithCompletingRebalanceClassicGroup."""
    bench = ConsumerBench()
    bench.join_classic("", "x")
    bench.join_classic("", "y")
    bench.advance(3_000)
    bench.advance(3_000)
    group = classic_group(bench)
    follower = next(m for m in group.members if m != group.leader)
    assert bench.sync_classic(follower, 1, group.members[follower].group_instance_id) is None
    ticket = answered(bench.last.ticket)
    bench.join("m3")
    assert expect(SyncGroupResponse, bench.completed[ticket]).error_code is REBALANCING
    assert bench.group.members[follower].current.assigned == {}
    assert bench.beat_classic(follower, 1, bench.group.members[follower].instance_id) is REBALANCING


def test_heartbeat_to_an_empty_classic_group_starts_again() -> None:
    """GMMT.testConsumerGroupHeartbeatWithEmptyClassicGroup."""
    bench = ConsumerBench(broker_settings(migration_policy="disabled"))
    (m1,) = stable_classic(bench, "x")
    assert bench.leave((m1, "x")) == [NONE]
    answer = bench.join("m2")
    assert (answer.error_code, answer.member_epoch) == (NONE, 2)
    assert bench.types() == [CLASSIC, MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]
    assert bench.last.records[0].value is None


@pytest.mark.parametrize(
    ("policy", "code"), [("bidirectional", NONE), ("upgrade", NONE), ("downgrade", NOT_FOUND), ("disabled", NOT_FOUND)]
)
def test_upgrade_is_asked_of_the_policy(policy: str, code: ErrorCode) -> None:
    """GMMT.testConsumerGroupHeartbeatWithNonEmptyClassicGroup, validateOnlineUpgrade."""
    bench = ConsumerBench(broker_settings(migration_policy=policy))
    stable_classic(bench, "x")
    assert bench.join("m2", "y").error_code is code
    assert bench.coordinator.groups[GROUP].group_type == ("consumer" if code is NONE else "classic")


def test_upgrade_needs_room() -> None:
    """validateOnlineUpgrade: the classic group must fit into group.consumer.max.size."""
    bench = ConsumerBench(broker_settings(consumer_max_size=1))
    stable_classic(bench, "x", "y")
    assert bench.join("m3").error_code is NOT_FOUND


def test_upgrade_refuses_a_custom_assignor() -> None:
    """GMMT.testConsumerGroupHeartbeatWithCustomAssignorClassicGroup (KAFKA-18134): user data would be lost."""
    bench = ConsumerBench()
    stable_classic(bench, "x", user_data=b"mine")
    assert bench.join("m2").error_code is NOT_FOUND
    assert classic_group(bench).state == "Stable"


def test_upgrade_refuses_malformed_metadata() -> None:
    """GMMT.testConsumerGroupHeartbeatWithStableClassicGroupFailsOnMalformedProtocol."""
    bench = ConsumerBench()
    bench.join_classic("", "x", offers=(Protocol("range", b"\x00"),))
    bench.advance(3_000)
    (m1,) = classic_group(bench).members
    bench.sync_classic(m1, 1, "x")
    assert bench.join("m2").error_code is NOT_FOUND


def test_regular_heartbeat_does_not_convert() -> None:
    """getOrMaybeCreateConsumerGroup: only a join converts; other requests get GROUP_ID_NOT_FOUND."""
    bench = ConsumerBench()
    assert bench.beat("m2", 1).error_code is NOT_FOUND
    stable_classic(bench, "x")
    for epoch in (1, -1):
        assert bench.beat("m2", epoch).error_code is NOT_FOUND


def test_classic_join_to_an_empty_consumer_group() -> None:
    """GMMT.testClassicGroupJoinWithEmptyConsumerGroup: deleted and begun again."""
    bench = ConsumerBench()
    bench.join("m1", "x")
    bench.beat("m1", -1, "x")
    assert bench.join_classic("", "y") is None
    assert isinstance(bench.coordinator.groups[GROUP], ClassicGroup)
    assert [(r.record_type, r.value is None) for r in bench.last.records] == [
        (TARGET_EPOCH, True),
        (RecordType.CONSUMER_GROUP_PARTITION_METADATA, True),
        (EPOCH, True),
        (CLASSIC, False),
    ]


def test_to_and_fro_leaves_partitions_in_two_hands() -> None:
    """ClassicGroup.fromConsumerGroup writes the target where ConsumerGroup.fromClassicGroup then reads the assignment.

    So a classic member that was about to revoke, and has not joined again between downgrade and upgrade, goes on using,
    until its next heartbeat, what the next consumer-protocol member is given at once. No test of Kafka's covers it.
    """
    bench = ConsumerBench()
    bench.given(member("m1", "x", ALL, classic=True))
    bench.join("m2", assignor="range")
    bench.beat("m2", -1)
    assert classic_group(bench).state == "PreparingRebalance"
    answer = bench.join("m3", "z", assignor="range")
    assert answer.assignment == (("bar", (2,)), ("foo", (3, 4, 5)))
    assert bench.beat_classic("m1", 10, "x") is ErrorCode.ILLEGAL_GENERATION


def test_downgrade_does_not_hand_out_a_deleted_topic() -> None:
    """ClassicGroup.fromConsumerGroup: Utils.toConsumerProtocolAssignment leaves out what the metadata image has not."""
    bench = ConsumerBench()
    given_mixed(bench)
    bench.coordinator.image = bench.coordinator.image.without_topic("bar")
    assert bench.leave(("m2", "y")) == [ErrorCode.NONE]
    held = classic_group(bench).members["m1"].assignment
    assert decode_assignment(held).partitions == (("foo", (0, 1, 2)),)


def test_deleted_group_is_gone_from_the_log() -> None:
    """GMMT.testConsumerGroupDelete, testConsumerGroupMaybeDelete: only an empty group;
    its tombstones undo its records.
    """
    bench = ConsumerBench()
    given_mixed(bench)

    def delete() -> ErrorCode:
        return expect(DeleteGroupsResponse, bench.send(DeleteGroupsRequest(group_ids=(GROUP,)))).results[0][1]

    assert delete() is ErrorCode.NON_EMPTY_GROUP
    assert bench.leave(("m1", None), ("m2", "y")) == [NONE, NONE]
    assert delete() is NONE
    bench.fail_over()
    assert bench.coordinator.groups == {}


def test_upgrade_forgets_topics_that_are_gone() -> None:
    """Utils.toTopicPartitionMap: an assignment of the classic group may name topics that no longer exist."""
    bench = ConsumerBench()
    (m1,) = stable_classic(bench, "x")
    bench.coordinator.image = bench.image.without_topic("bar")
    bench.join("m2", "y")
    assert {topic for topic, _ in bench.group.members[m1].current.assigned} == {"foo"}
