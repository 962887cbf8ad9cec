"""Each mistake has its own condition, reason and remedy; what passes by itself raises no alarm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.evidence.chain import PodState
from staticgroup.core.findings.kafka import CONNECTION_REASONS
from staticgroup.core.group import GroupType, KafkaProblem, KafkaProblemKind, LeaveOutcome
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import plan
from staticgroup.core.snapshot import Injected, Snapshot
from support.bounds import broker_bounds

from .builders import (
    NOW_S,
    attributed,
    departure,
    group,
    history,
    id_of,
    known_pod,
    member,
    members,
    sight,
    spec,
    workload,
)
from .plans import conditions_of

DEAD, SUSPECT = PodState.DEAD, PodState.SUSPECT
WELL = departure(group=group(member(0), member(1)))


def problem(kind: KafkaProblemKind, message: str = "what happened and what to do") -> KafkaProblem:
    return KafkaProblem(kind=kind, message=message, missing_acl=message)


def test_everything_well_is_ready_and_says_so_in_every_condition() -> None:
    conditions = conditions_of(WELL)
    assert {c.status.value for c in conditions.values()} == {"True"}
    assert conditions["Ready"].reason == "Reconciled"


@pytest.mark.parametrize(
    ("template", "follows"), [("{podName}.{scope}", False), ("{workloadName}-{ordinal}.{scope}", True)]
)
def test_ids_that_follow_an_annotation_come_with_the_request_to_leave_it_alone(template: str, follows: bool) -> None:
    """Annotations can be edited and are read again when a container starts; a pod's name cannot."""
    found = conditions_of(WELL, wish=spec(idTemplate=template))["Injected"]
    assert (found.reason, found.status.value) == ("IdsInjected", "True")
    assert found.message.startswith("All 2 pods carry the id that was issued to them by the admission policy.")
    assert ("do not edit it" in found.message) is follows
    assert ("staticgroup.io/instance-id" in found.message) is follows


def test_conditions_of_a_workload_that_is_too_large_claim_nothing_and_name_the_one_that_says_why() -> None:
    conditions = conditions_of(departure(workload=workload(1_500_000)))
    unknown = {kind: c.reason for kind, c in conditions.items() if c.status.value == "Unknown"}
    assert unknown == {
        "Injected": "NotObservedYet", "MembershipComplete": "MembershipUnknown", "TimeoutSufficient": "TimeoutUnknown",
        "RemovalSettled": "MembershipUnknown", "Consuming": "NotObservedYet", "RollsQuietly": "NotObservedYet",
    }
    assert all("see WorkloadFound" in conditions[kind].message for kind in unknown)
    assert conditions["Ready"].reason == "WorkloadTooLarge"
    assert "Lower spec.replicas" in conditions["Ready"].message


MISTAKES: list[tuple[str, Any, str, str, str]] = [
    ("the workload does not exist", departure(workload=None), "WorkloadFound", "WorkloadNotFound", "workloadRef.name"),
    (
        "more replicas than are served", departure(workload=workload(1_500_000)), "WorkloadFound", "WorkloadTooLarge",
        "web wants 1500000 pods, 1 id for each; a StaticGroup serves 10000 ids at most",
    ),
    (
        "no consumer has ever joined", departure(group=group(group_type=GroupType.ABSENT, state="Dead")),
        "MembershipComplete", "GroupNotFound", "compare their group.id with spec.groupId",
    ),
    (
        "a Streams group", departure(group=group(member(0), group_type=GroupType.STREAMS)), "MembershipComplete",
        "ProtocolMismatch", "Set spec.groupProtocol to Auto",
    ),
    (
        "a group of the other protocol",
        departure(group=group(member(0, member_epoch=1), group_type=GroupType.CONSUMER)), "MembershipComplete",
        "ProtocolMismatch", "spec.groupProtocol expects Classic",
    ),
    (
        "a share group that the gateway refuses to read",
        departure(group=problem(KafkaProblemKind.UNSUPPORTED_GROUP, "only classic and KIP-848 groups are supported")),
        "MembershipComplete", "ProtocolMismatch", "only classic and KIP-848 groups",
    ),
    (
        "a Connect cluster's group", departure(group=group(member(0), protocol_type="connect")), "MembershipComplete",
        "ProtocolMismatch", "Set spec.client.type to Connect, or create a StaticGroup with the right spec.groupId",
    ),
    (
        "a Kafka Streams application's group",
        departure(group=group(member(0), group_type=GroupType.STREAMS, protocol_type="streams")), "MembershipComplete",
        "ProtocolMismatch", "spec.groupProtocol expects Classic",
    ),
    ("two StaticGroups", replace(WELL, overlaps=("shop/twin",)), "Ready", "ConflictingStaticGroups", "shop/twin"),
    (
        "a wrong bootstrap address",
        departure(group=problem(KafkaProblemKind.UNREACHABLE, "no broker answered; check spec.bootstrapServers")),
        "Connected", "BrokersUnreachable", "check spec.bootstrapServers",
    ),
    (
        "a wrong certificate authority",
        departure(group=problem(KafkaProblemKind.TLS_FAILED, "check spec.tls.caSecretRef")), "Connected", "TlsFailed",
        "caSecretRef",
    ),
    (
        "a wrong password",
        departure(group=problem(KafkaProblemKind.AUTHENTICATION_FAILED, "check user and password in the Secret")),
        "Connected", "AuthenticationFailed", "in the Secret",
    ),
    (
        "another cluster",
        departure(group=problem(KafkaProblemKind.WRONG_CLUSTER, "correct the addresses or spec.clusterId")),
        "Connected", "ClusterIdMismatch", "clusterId",
    ),
    (
        "a missing Secret",
        departure(group=problem(KafkaProblemKind.SECRET_MISSING, "Secret 'kafka-user' does not exist; create it")),
        "Connected", "SecretNotFound", "'kafka-user' does not exist; create it",
    ),
    (
        "no KafkaConnection",
        departure(group=problem(KafkaProblemKind.CONNECTION_MISSING, "KafkaConnection shop/kafka does not exist")),
        "Connected", "ConnectionNotFound", "shop/kafka",
    ),
    (
        "a broker before 2.4", departure(group=problem(KafkaProblemKind.BROKER_TOO_OLD, "StaticGroup needs Kafka 2.4")),
        "Connected", "BrokerTooOld", "needs Kafka 2.4",
    ),
    (
        "no right to describe the group",
        departure(group=problem(KafkaProblemKind.NOT_AUTHORIZED, "grant DESCRIBE on Group 'orders' to User:op")),
        "Authorized", "DescribeGroupDenied", "DESCRIBE on Group 'orders'",
    ),
    (
        "no right to describe the topics",
        departure(group=problem(KafkaProblemKind.NOT_AUTHORIZED, "grant DESCRIBE on the Topics of group 'orders'")),
        "Authorized", "DescribeTopicDenied", "DESCRIBE on the Topics",
    ),
    (
        "a policy that is not served", replace(WELL, policy_served=False), "Injected", "InjectionNotServed",
        "set spec.client.type to Own",
    ),
    (
        "pods from before the injection",
        replace(WELL, pods=(known_pod(0, "u0"), known_pod(1, "u1", instance_ids=frozenset()))), "Injected",
        "PodsWithoutId", "rollout restart statefulset/web",
    ),
    (
        "a fenced client", departure(group=group(member(0))), "MembershipComplete", "MembersMissing",
        "a fenced client does not come back by itself, restart its pod: kubectl -n shop delete pod web-1",
    ),
    (
        "a force-deleted pod",
        departure(chains={id_of(2): (known_pod(state=SUSPECT),)}, sight=sight(ended=frozenset())), "RemovalSettled",
        "EndNotSeen", "was there when it joined, and its end was not seen; the member leaves when its session expires",
    ),
]


@pytest.mark.parametrize(
    ("snapshot", "kind", "reason", "remedy"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES]
)
def test_each_mistake_has_its_own_condition_reason_and_remedy(
    snapshot: Snapshot, kind: str, reason: str, remedy: str
) -> None:
    conditions = conditions_of(snapshot)
    found = conditions[kind]
    assert (found.status.value, found.reason) == ("False", reason)
    assert remedy in found.message
    ready = conditions["Ready"]
    assert ready.status.value == "False"
    assert ready.reason == reason
    assert kind == "Ready" or kind in ready.message


def test_every_kafka_problem_has_a_reason_of_the_connected_condition() -> None:
    """UNSUPPORTED_GROUP and NOT_AUTHORIZED have conditions of their own."""
    for kind in set(KafkaProblemKind) - {KafkaProblemKind.NOT_AUTHORIZED, KafkaProblemKind.UNSUPPORTED_GROUP}:
        assert conditions_of(departure(group=problem(kind)))["Connected"].reason == CONNECTION_REASONS[kind].value


def test_refused_leave_names_read_on_the_group() -> None:
    (action,) = plan(spec(), departure(), history(), NOW_S).actions
    executed = Executed(removals=action.removals, outcomes=(LeaveOutcome.NOT_AUTHORIZED,))
    conditions = conditions_of(departure(), executed=executed)
    assert conditions["Authorized"].reason == "ReadGroupDenied"
    assert "READ on Group 'orders'" in conditions["Authorized"].message
    assert conditions["Ready"].status.value == "False"


def test_id_that_the_broker_would_refuse_for_its_length_is_named_before_any_pod_gets_it() -> None:
    """The broker takes 1 to 249 characters (Topic.validate is used for instance ids)."""
    long_pod = "w" * 230
    wish = spec(workloadRef={"name": long_pod}, idTemplate="{podName}.{podName}.{scope}")
    conditions = conditions_of(WELL, wish=wish)
    assert conditions["Injected"].reason == "IdentityInvalid"
    assert "Correct spec.idTemplate or spec.client." in conditions["Injected"].message


def test_unscoped_template_names_the_two_ways_out() -> None:
    memory = history(
        injected=Injected(scope="3fa9c1d2", method="Policy", id_template="{podName}", session_timeout_ms=None)
    )
    world = departure(
        group=group(replace(member(2), instance_id="web-2")),
        chains={"web-2": (known_pod(state=DEAD, instance_ids=frozenset({"web-2"})),)},
    )
    memory = replace(memory, members=members(attributions={"web-2": attributed("m2", "u2")}))
    found = conditions_of(world, memory, wish=spec(idTemplate="{podName}"))["RemovalSettled"]
    assert found.reason == "UnscopedIds"
    assert "set spec.assumeExclusive to true" in found.message


@pytest.mark.parametrize(
    ("wish", "bounds", "reason", "setting"),
    [
        (
            {"seconds": 1800}, (6_000, 300_000), "BrokerBoundTooLow",
            "group.max.session.timeout.ms to 1800000",
        ),
        (
            {"seconds": 10}, (30_000, 300_000), "BrokerBoundTooLow",
            "group.min.session.timeout.ms to 10000",
        ),
        ({}, (6_000, 45_000), "TimeoutBelowNeed", "group.max.session.timeout.ms on the brokers to at least"),
        ({"maxSeconds": 40}, (6_000, 300_000), "TimeoutBelowNeed", "spec.sessionTimeout.maxSeconds to at least"),
    ],
)
def test_timeout_outside_the_brokers_bounds_names_the_setting_and_the_value(
    wish: dict[str, Any], bounds: tuple[int, int], reason: str, setting: str
) -> None:
    world = replace(WELL, bounds=broker_bounds(classic_min_ms=bounds[0], classic_max_ms=bounds[1]))
    conditions = conditions_of(world, wish=spec(sessionTimeout=wish))
    found = conditions["TimeoutSufficient"]
    assert (found.status.value, found.reason) == ("False", reason)
    assert setting in found.message
    assert conditions["Ready"].status.value == "True"


def test_observe_mode_is_ready_with_a_reason_of_its_own() -> None:
    ready = conditions_of(WELL, wish=spec(mode="Observe"))["Ready"]
    assert (ready.status.value, ready.reason) == ("True", "Observing")
