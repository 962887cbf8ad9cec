"""ConsumerGroupHeartbeat beyond the catalogue's rows: validation, answers, metadata, states, settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.answers import answered, expect
from conformance.consumer_bench import (
    CURRENT,
    EPOCH,
    GROUP,
    MEMBER,
    TARGET,
    TARGET_EPOCH,
    TOPICS,
    ConsumerBench,
    member,
)
from coordinator_model.base.config_messages import AlterGroupConfigRequest
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage, metadata_hash
from coordinator_model.base.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.consumer.member import CurrentAssignment, Member, MemberState, with_epoch
from coordinator_model.consumer.records import current_record
from coordinator_model.coordinator import GroupCoordinator

NONE, INVALID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
ALL: TopicPartitions = (("bar", (0, 1, 2)), ("foo", (0, 1, 2, 3, 4, 5)))
JOIN = ConsumerGroupHeartbeatRequest(
    group_id=GROUP, member_id="m1", rebalance_timeout_ms=5_000, subscribed_topic_names=("foo",), topic_partitions=()
)


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, NONE),
        ({"group_id": ""}, INVALID),
        ({"group_id": " "}, INVALID),
        ({"member_id": ""}, INVALID),
        ({"member_id": "", "api_version": 0}, NONE),
        ({"member_id": "", "member_epoch": 1, "api_version": 0}, INVALID),
        ({"member_id": "", "member_epoch": -1, "api_version": 0}, INVALID),
        ({"group_instance_id": ""}, INVALID),
        ({"rack_id": ""}, INVALID),
        ({"rebalance_timeout_ms": -1}, INVALID),
        ({"topic_partitions": None}, INVALID),
        ({"topic_partitions": (("foo", (0,)),)}, INVALID),
        ({"subscribed_topic_names": None}, INVALID),
        ({"subscribed_topic_names": None, "subscribed_topic_regex": ""}, NONE),
        ({"subscribed_topic_names": ()}, NONE),
        ({"member_epoch": -2}, INVALID),
        ({"member_epoch": -3, "group_instance_id": "x"}, INVALID),
        ({"server_assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"server_assignor": "range"}, NONE),
    ],
)
def test_validation(bench: ConsumerBench, change: dict[str, object], code: ErrorCode) -> None:
    """GroupCoordinatorServiceTest.testConsumerHeartbeatRequestValidation."""
    assert answered(bench.send(replace(JOIN, **change))).error_code is code
    assert (bench.coordinator.groups == {}) is (code is not NONE)


def test_access() -> None:
    """KafkaApis: READ on the group for heartbeats, DESCRIBE for descriptions; refused groups come first."""
    denied = {("eve", "READ"), ("eve", "DESCRIBE")}
    settings = BrokerSettings(is_denied=lambda principal, operation, group: (principal, operation) in denied)
    bench = ConsumerBench(settings)
    assert answered(bench.send(replace(JOIN, principal="eve"))).error_code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert bench.join("m1").error_code is NONE
    described = bench.send(ConsumerGroupDescribeRequest(group_ids=(GROUP,), principal="eve"))
    assert isinstance(described, ConsumerGroupDescribeResponse)
    assert [g.error_code for g in described.groups] == [ErrorCode.GROUP_AUTHORIZATION_FAILED]


def test_member_id_is_made_for_old_clients(bench: ConsumerBench) -> None:
    """GMMT.testMemberIdGeneration: v0 may leave it to the coordinator."""
    answer = bench.join("", api_version=0)
    assert answer.member_id
    assert set(bench.group.members) == {answer.member_id}


@pytest.mark.parametrize("epoch", [1, 2])
def test_first_member_epoch(epoch: int) -> None:
    """GMMT.testMemberJoinsEmptyConsumerGroup; KAFKA-20268: 2 since 4.3, 1 before."""
    bench = ConsumerBench(BrokerSettings(first_consumer_epoch=epoch))
    answer = bench.join("m1")
    assert (answer.member_epoch, answer.heartbeat_interval_ms, answer.assignment) == (epoch, 5_000, ALL)
    assert bench.types() == [MEMBER, EPOCH, TARGET, TARGET_EPOCH, CURRENT]


def test_unknown_member_of_a_known_group(bench: ConsumerBench) -> None:
    """GMMT.testUnknownMemberIdJoinsConsumerGroup."""
    bench.join("m1")
    assert bench.beat("m2", 100).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.beat("m2", -1).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_assignment_is_sent_once_and_on_full_requests(bench: ConsumerBench) -> None:
    """GMMT.testConsumerGroupHeartbeatFullResponse."""
    assert bench.join("m1").assignment == ALL
    assert bench.beat("m1", 2).assignment is None
    assert bench.beat("m1", 2, None, ALL).assignment is None
    full = bench.beat("m1", 2, None, ALL, topics=("foo", "bar"), rebalance_timeout_ms=5_000)
    assert full.assignment == ALL
    assert bench.last.records == ()


def test_steady_heartbeat_writes_nothing_and_renews_the_session(bench: ConsumerBench) -> None:
    """The short way of a steady heartbeat does what the long way does."""
    bench.join("m1", "x")
    bench.advance(44_000)
    for _ in range(2):
        answer = bench.beat("m1", 2, "x")
        assert (answer.error_code, answer.member_epoch, answer.member_id, answer.assignment) == (NONE, 2, "m1", None)
        assert bench.last.records == ()
    assert bench.coordinator.timers.deadline_ms(("consumer-session", GROUP, "m1")) == bench.now_ms + 45_000
    assert bench.beat("m1", 2, "y").error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.beat("m1", 3, "x").error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert bench.beat("m1", 2).error_code is NONE


def test_third_party_heartbeat_changes_client_id(bench: ConsumerBench) -> None:
    """As a 4.4.0 broker does: a client that beats for an absent member is shown as its client."""
    bench.join("m1", "x")
    bench.beat("m1", 2, "x", client_id="operator")
    assert bench.types() == [MEMBER]
    assert [m.client_id for m in bench.describe().members] == ["operator"]


def test_changed_metadata_bumps_the_epoch_once(bench: ConsumerBench) -> None:
    """GMMT.testSubscriptionMetadataRefreshedAfterGroupIsLoaded and …Again:
    partitions and racks count, other topics not.
    """
    bench.join("m1")
    bench.coordinator.image = TOPICS.with_topic("zar", 1)
    assert bench.beat("m1", 2).member_epoch == 2
    bench.coordinator.image = TOPICS.with_topic("foo", 7)
    answer = bench.beat("m1", 2)
    assert (answer.member_epoch, answer.assignment) == (3, (("bar", (0, 1, 2)), ("foo", (0, 1, 2, 3, 4, 5, 6))))
    assert bench.beat("m1", 3).member_epoch == 3
    bench.coordinator.image = TopicImage(bench.coordinator.image.partitions, {("foo", 0): frozenset({"r"})})
    assert bench.beat("m1", 3).member_epoch == 4


def test_deleted_topic_is_taken_away(bench: ConsumerBench) -> None:
    """CurrentAssignmentBuilder.subscribedTopicIds: a topic that is gone is in nobody's assignment."""
    bench.join("m1")
    bench.coordinator.image = TOPICS.without_topic("bar")
    answer = bench.beat("m1", 2, None, (("foo", (0, 1, 2, 3, 4, 5)),))
    assert (answer.member_epoch, answer.assignment) == (3, (("foo", (0, 1, 2, 3, 4, 5)),))


def test_metadata_hash_tells_topics_apart() -> None:
    """Utils.computeGroupHash: 0 without topics; order does not matter."""
    assert metadata_hash(["nowhere"], TOPICS) == 0
    assert metadata_hash(["foo", "bar"], TOPICS) == metadata_hash(["bar", "foo"], TOPICS)
    assert metadata_hash(["foo"], TOPICS) != metadata_hash(["bar"], TOPICS)


def test_group_states(bench: ConsumerBench) -> None:
    """GMMT.testConsumerGroupStates; ConsumerGroupTest.testGroupState."""
    bench.join("m1")
    assert bench.group.state == "Stable"
    bench.join("m2")
    assert bench.group.state == "Reconciling"
    bench.settle(("m1", None), ("m2", None))
    bench.beat("m2", -1)
    assert bench.group.state == "Assigning"
    bench.beat("m1", -1)
    assert bench.group.state == "Empty"


def test_reconciliation_process() -> None:
    """GMMT.testReconciliationProcess: revoke, acknowledge, then the newcomer is given what was let go."""
    bench = ConsumerBench()
    bench.given(
        member("m1", None, (("bar", (0, 1)), ("foo", (0, 1, 2)))),
        member("m2", None, (("bar", (2,)), ("foo", (3, 4, 5)))),
    )
    assert bench.join("m3", assignor="range").assignment == ()
    answer = bench.beat("m1", 10, None, (("bar", (0, 1)), ("foo", (0, 1, 2))))
    assert (answer.member_epoch, answer.assignment) == (10, (("bar", (0,)), ("foo", (0, 1))))
    assert bench.group.members["m1"].current.state is MemberState.UNREVOKED_PARTITIONS
    answer = bench.beat("m2", 10, None, (("bar", (2,)), ("foo", (3, 4, 5))))
    assert (answer.member_epoch, answer.assignment) == (10, (("foo", (3,)),))
    assert bench.beat("m3", 11).assignment is None
    done = bench.beat("m1", 10, None, (("bar", (0,)), ("foo", (0, 1))))
    assert (done.member_epoch, done.assignment) == (11, None)
    partly = bench.beat("m2", 10, None, (("foo", (3,)),))
    assert (partly.member_epoch, partly.assignment) == (11, (("bar", (1,)), ("foo", (2, 3))))
    assert bench.beat("m3", 11).assignment == (("bar", (2,)), ("foo", (4, 5)))
    assert bench.group.state == "Stable"


def test_preferred_assignor_is_the_most_wanted(bench: ConsumerBench) -> None:
    """ConsumerGroupTest.testPreferredServerAssignor; on a tie uniform."""
    bench.join("m1", assignor="range")
    assert bench.describe().assignor_name == "range"
    bench.join("m2", assignor="uniform")
    assert bench.describe().assignor_name == "uniform"
    epoch = bench.group.group_epoch
    bench.beat("m2", bench.epochs["m2"], None, (), assignor="range")
    assert (bench.describe().assignor_name, bench.group.group_epoch) == ("range", epoch + 1)


def test_assignment_interval_delays_the_next_target() -> None:
    """GMMT.testConsumerGroupAssignmentInterval (KIP-1263): the epoch is bumped at once, the target follows."""
    bench = ConsumerBench(BrokerSettings(consumer_assignment_interval_ms=15_000))
    assert bench.join("m1").member_epoch == 2
    assert bench.join("m2").member_epoch == 2
    assert (bench.group.group_epoch, bench.group.assignment_epoch) == (3, 2)
    bench.advance(14_999)
    assert bench.beat("m2", 2).member_epoch == 2
    bench.advance(1)
    assert bench.beat("m2", 2).member_epoch == 3
    bench.beat("m1", -1)
    bench.beat("m2", -1)
    assert bench.group.assignment_timestamp_ms == 0
    assert bench.join("m1").member_epoch == bench.group.group_epoch


@pytest.mark.parametrize(
    ("owned", "code"),
    [
        ((("foo", (0,)),), NONE),
        ((), NONE),
        ((("foo", ()),), NONE),
        ((("bar", ()),), ErrorCode.FENCED_MEMBER_EPOCH),
        ((("deleted", ()),), ErrorCode.FENCED_MEMBER_EPOCH),
        ((("foo", (1,)),), ErrorCode.FENCED_MEMBER_EPOCH),
        (None, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_the_previous_epoch_passes_with_no_topic_that_is_not_assigned(
    bench: ConsumerBench, owned: TopicPartitions | None, code: ErrorCode
) -> None:
    """GroupMetadataManager.isSubset: a topic that is not assigned is refused even if no partition of it is reported."""
    bench.given(member("m1", None, (("foo", (0,)),)), member("m2", None, (("foo", (1, 2, 3, 4, 5)), ALL[0])))
    assert bench.beat("m1", 9, None, owned).error_code is code


@pytest.mark.parametrize("api_version", [0, 1])
def test_describe(bench: ConsumerBench, api_version: int) -> None:
    """GMMT.testConsumerGroupDescribeNoErrors, …WithErrors; what is being revoked is still shown as assigned."""
    bench.given(
        member("m1", "x", (("foo", (0,)),), pending=(("foo", (1,)),), state=MemberState.UNREVOKED_PARTITIONS),
        member("m2", None, (("bar", (0,)),), classic=True),
        targets={"m1": (("bar", (2,)),)},
    )
    request = ConsumerGroupDescribeRequest(group_ids=(GROUP, "none", ""), api_version=api_version)
    answer = expect(ConsumerGroupDescribeResponse, bench.send(request))
    found, missing, empty = answer.groups
    assert (found.group_state, found.group_epoch, found.assignor_name) == ("Reconciling", 10, "range")
    first, second = found.members
    assert (first.assignment, first.target_assignment) == ((("foo", (0, 1)),), (("bar", (2,)),))
    assert (first.subscribed_topic_names, first.subscribed_topic_regex) == (("bar", "foo"), "")
    assert (first.instance_id, second.instance_id) == ("x", None)
    assert (first.member_type, second.member_type) == ((1, 0) if api_version else (-1, -1))
    assert missing.error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert empty.error_code is ErrorCode.INVALID_GROUP_ID


def test_refused_write_leaves_the_state_alone(bench: ConsumerBench) -> None:
    """CoordinatorRuntime: what the log refuses has not happened; the client gets a retriable error."""
    bench.join("m1", "x")
    bench.coordinator.write_error = ErrorCode.REQUEST_TIMED_OUT
    assert bench.join("m2", "y").error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (bench.last.records, set(bench.group.members), bench.group.group_epoch) == ((), {"m1"}, 2)
    assert bench.beat("m1", 2, "x").error_code is NONE
    bench.advance(45_000)
    assert set(bench.group.members) == {"m1"}
    bench.coordinator.write_error = None
    bench.advance(500)
    assert bench.group.is_empty


def test_compacted_log_with_a_partition_that_moved() -> None:
    """GMMT.testReplayConsumerGroupCurrentMemberAssignmentWithCompaction, …UnownedTopicWithCompaction."""

    def holds(member_id: str, epoch: int, *partitions: tuple[str, int]) -> None:
        current = CurrentAssignment(epoch, epoch - 1, MemberState.STABLE, with_epoch(partitions, epoch))
        coordinator.apply(current_record(GROUP, Member(member_id, current=current)))

    coordinator = GroupCoordinator(image=TOPICS)
    holds("a", 11, ("foo", 0))
    holds("b", 12, ("foo", 0))
    holds("a", 13, ("foo", 1))
    group = coordinator.groups[GROUP]
    assert (group.owner_epoch(("foo", 0)), group.owner_epoch(("foo", 1))) == (12, 13)
    holds("b", 14)
    assert group.owner_epoch(("foo", 0)) == -1


@pytest.mark.parametrize(
    ("configs", "code"),
    [
        ({"consumer.session.timeout.ms": "45000"}, NONE),
        ({"consumer.session.timeout.ms": "60000"}, NONE),
        ({"consumer.session.timeout.ms": "60001"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.session.timeout.ms": "44999"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.session.timeout.ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.heartbeat.interval.ms": "15001"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.assignment.interval.ms": "15000"}, NONE),
        ({"consumer.group.size": "1"}, ErrorCode.INVALID_CONFIG),
        ({"streams.session.timeout.ms": "61000"}, ErrorCode.INVALID_CONFIG),
        ({"share.heartbeat.interval.ms": "5000"}, NONE),
        ({"streams.num.standby.replicas": "2"}, NONE),
        ({"streams.num.standby.replicas": "3"}, ErrorCode.INVALID_CONFIG),
        ({"streams.initial.rebalance.delay.ms": "-1"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.session.timeout.ms": None}, NONE),
    ],
)
def test_group_config_bounds(bench: ConsumerBench, configs: dict[str, str | None], code: ErrorCode) -> None:
    """GroupConfigTest.testInvalidProps…; the group need not exist."""
    answer = answered(bench.send(AlterGroupConfigRequest(group_id=GROUP, configs=tuple(configs.items()))))
    assert answer.error_code is code
    stored = {k: v for k, v in configs.items() if v is not None} if code is NONE else {}
    assert bench.coordinator.group_configs.get(GROUP, {}) == stored


def test_session_must_exceed_heartbeat() -> None:
    """GroupConfig.validateSessionExceedsHeartbeat: the broker's value stands in for what is not set."""
    bench = ConsumerBench(
        BrokerSettings(consumer_min_session_timeout_ms=1_000, consumer_max_heartbeat_interval_ms=100_000)
    )
    assert bench.alter(consumer_session_timeout_ms="5000") is ErrorCode.INVALID_CONFIG
    assert bench.alter(consumer_session_timeout_ms="5001") is NONE
    assert bench.alter(consumer_heartbeat_interval_ms="6000") is ErrorCode.INVALID_CONFIG
    assert bench.alter(consumer_heartbeat_interval_ms="6000", consumer_session_timeout_ms="7000") is NONE


def test_changed_heartbeat_interval_is_in_the_next_answer(bench: ConsumerBench) -> None:
    """GMMT.testConsumerGroupDynamicConfigs: session and interval count from the next heartbeat."""
    bench.join("m1")
    assert bench.beat("m1", 2).heartbeat_interval_ms == 5_000
    assert bench.alter(consumer_heartbeat_interval_ms="6000", consumer_session_timeout_ms="50000") is NONE
    assert bench.beat("m1", 2).heartbeat_interval_ms == 6_000
    assert bench.coordinator.timers.deadline_ms(("consumer-session", GROUP, "m1")) == bench.now_ms + 50_000
    assert bench.alter(consumer_heartbeat_interval_ms=None, consumer_session_timeout_ms=None) is NONE
    assert bench.beat("m1", 2).heartbeat_interval_ms == 5_000
    assert bench.coordinator.group_configs == {}


def test_stored_values_are_clamped_and_block_single_changes() -> None:
    """GMMT.testConsumerGroupEvaluatedConfigs (4.4), and what a broker was seen to do after its bounds changed."""
    bench = ConsumerBench()
    bench.coordinator.group_configs[GROUP] = {
        "consumer.session.timeout.ms": "500000",
        "consumer.heartbeat.interval.ms": "300",
    }
    assert bench.join("m1").heartbeat_interval_ms == 5_000
    assert bench.coordinator.timers.deadline_ms(("consumer-session", GROUP, "m1")) == bench.now_ms + 60_000
    assert bench.alter(consumer_session_timeout_ms="50000") is ErrorCode.INVALID_CONFIG
    assert bench.alter(consumer_session_timeout_ms="50000", consumer_heartbeat_interval_ms="6000") is NONE
    assert bench.alter(consumer_session_timeout_ms="51000") is NONE
