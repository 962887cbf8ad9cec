"""What the model's policy and webhook write into the pods that are created."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from simulator.kubernetes.admission import inject, webhook_configuration
from simulator.kubernetes.api_server import ApiServer
from simulator.kubernetes.node.container_status import environment
from simulator.kubernetes.objects import (
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    PODS,
    STATIC_GROUPS,
    Json,
)
from staticgroup.api import names
from staticgroup.api.injection import resolve_injected
from staticgroup.api.resources.client import Client, ClientType, EnvEntry
from staticgroup.api.resources.injected import InjectedMethod

from .plain_world import static_group
from .served import Clock, pod

INJECTED: Json = {
    "scope": "0123abcd",
    "watchEpoch": "e1",
    "method": "Policy",
    "idTemplate": "{podName}.0123abcd",
    "sessionTimeoutMs": 45000,
    "ids": [{"annotation": names.INSTANCE_ID_ANNOTATION, "suffix": ""}],
    "env": [
        {"container": "", "name": "KAFKA_GROUP_INSTANCE_ID", "annotation": names.INSTANCE_ID_ANNOTATION},
        {"container": "", "name": "KAFKA_SESSION_TIMEOUT_MS", "annotation": names.SESSION_TIMEOUT_ANNOTATION},
    ],
}


def admitted(server: ApiServer, clock: Clock, *, injected: Json = INJECTED, wait_s: float = 2.0, **spec: Any) -> Json:
    """Create the policy, a StaticGroup with its status, and then a pod."""
    server.create(MUTATING_POLICIES, {"metadata": {"name": server.policy_name}})
    server.create(STATIC_GROUPS, static_group(**spec))
    server.apply_status(STATIC_GROUPS, "shop", "orders", {"status": {"injected": injected}})
    clock.s += wait_s
    containers = [{"name": "app", "env": [{"name": "KAFKA_GROUP_INSTANCE_ID", "value": "old"}, {"name": "A"}]}]
    return server.create(PODS, pod("web-3", containers=[*containers, {"name": "side"}]))


@pytest.mark.parametrize(
    ("method", "answers", "is_given"), [("Webhook", True, True), ("Webhook", False, False), ("Policy", True, False)]
)
def test_webhook_injects_at_once_what_is_meant_for_it_while_it_answers(
    server: ApiServer, clock: Clock, method: str, answers: bool, is_given: bool
) -> None:
    """runtime/webhook: each review reads consistently, so nothing is late as with the policy's parameter informer."""
    server.create(MUTATING_WEBHOOKS, webhook_configuration(server.policy_name))
    server.webhook_answers = lambda: answers
    server.create(STATIC_GROUPS, static_group())
    server.apply_status(STATIC_GROUPS, "shop", "orders", {"status": {"injected": INJECTED | {"method": method}}})
    made = server.create(PODS, pod("web-3", containers=[{"name": "app"}]))
    found = made["metadata"].get("annotations", {})
    assert found.get(names.INSTANCE_ID_ANNOTATION) == ("web-3.0123abcd" if is_given else None)


def test_policy_injects_annotations_and_field_references_first(server: ApiServer, clock: Clock) -> None:
    """api/policy.py: ids as annotations, variables that read them, in front of the container's own."""
    made = admitted(server, clock)
    assert made["metadata"]["annotations"] == {
        names.INSTANCE_ID_ANNOTATION: "web-3.0123abcd",
        names.SESSION_TIMEOUT_ANNOTATION: "45000",
    }
    env = made["spec"]["containers"][0]["env"]
    assert [e["name"] for e in env] == ["KAFKA_GROUP_INSTANCE_ID", "KAFKA_SESSION_TIMEOUT_MS", "A"]
    assert env[0]["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.annotations['{names.INSTANCE_ID_ANNOTATION}']"
    assert "env" not in made["spec"]["containers"][1]


COMPOSED = copy.deepcopy(INJECTED)
COMPOSED["env"][0]["value"] = "$(STATICGROUP_POD_NAME).0123abcd"


def test_composed_id_stands_behind_the_pods_name_and_before_what_refers_to_it(server: ApiServer, clock: Clock) -> None:
    """api/policy.py: an entry with a value is written as it is, and the kubelet expands it."""
    made = admitted(server, clock, injected=COMPOSED)
    env = made["spec"]["containers"][0]["env"]
    assert env[0] == {"name": "STATICGROUP_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    assert env[1] == {"name": "KAFKA_GROUP_INSTANCE_ID", "value": "$(STATICGROUP_POD_NAME).0123abcd"}
    assert [e["name"] for e in env[2:]] == ["KAFKA_SESSION_TIMEOUT_MS", "A"]
    assert environment(made, "app")["KAFKA_GROUP_INSTANCE_ID"] == "web-3.0123abcd"
    assert made["metadata"]["annotations"][names.INSTANCE_ID_ANNOTATION] == "web-3.0123abcd"


@pytest.mark.parametrize("suffix", ["", "-orders"])
def test_operators_upgrade_and_rollback_change_no_id_that_a_pod_gets(
    server: ApiServer, clock: Clock, suffix: str
) -> None:
    """The same text, whether it is read from the annotation or composed of the pod's name."""
    issued = resolve_injected(
        Client(
            type=ClientType.CUSTOM,
            env=[EnvEntry(container="app", instance_id_name="KAFKA_GROUP_INSTANCE_ID", suffix=suffix)],
        ),
        method=InjectedMethod.POLICY, scope="0123abcd", id_template="{podName}.0123abcd", session_timeout_ms=45_000,
    ).to_wire()
    before = issued | {"env": [{k: v for k, v in e.items() if k != "value"} for e in issued["env"]]}
    old, new = (
        inject(pod("web-3"), [static_group() | {"status": {"injected": each}}], InjectedMethod.POLICY)
        for each in (before, issued)
    )
    assert "value" in new["spec"]["containers"][0]["env"][1]
    assert "valueFrom" in old["spec"]["containers"][0]["env"][0]
    for name in ("KAFKA_GROUP_INSTANCE_ID", "KAFKA_SESSION_TIMEOUT_MS"):
        assert environment(old, "app")[name] == environment(new, "app")[name]
    assert old["metadata"] == new["metadata"]
    assert environment(new, "app")["KAFKA_GROUP_INSTANCE_ID"] == f"web-3.0123abcd{suffix}"


def test_no_timeout_is_injected_where_there_is_none(server: ApiServer, clock: Clock) -> None:
    """KIP-848 clients refuse to start with session.timeout.ms, so its variable stays away too."""
    made = admitted(server, clock, injected=INJECTED | {"sessionTimeoutMs": None})
    assert names.SESSION_TIMEOUT_ANNOTATION not in made["metadata"]["annotations"]
    assert [e["name"] for e in made["spec"]["containers"][0]["env"]] == ["KAFKA_GROUP_INSTANCE_ID", "A"]


@pytest.mark.parametrize(
    ("spec", "injected", "wait_s"),
    [
        ({"mode": "Suspended"}, INJECTED, 2.0),
        ({"mode": "Observe"}, INJECTED, 2.0),
        ({"workloadRef": {"name": "another"}}, INJECTED, 2.0),
        ({}, INJECTED | {"method": "None"}, 2.0),
        ({}, INJECTED, 0.1),
    ],
    ids=["suspended", "observed", "another-workload", "method-none", "informer-lags"],
)
def test_policy_leaves_a_pod_alone(server: ApiServer, clock: Clock, spec: Json, injected: Json, wait_s: float) -> None:
    """The match conditions of api/policy.py, and the second until the policy knows its parameter."""
    made = admitted(server, clock, injected=injected, wait_s=wait_s, **spec)
    assert "annotations" not in made["metadata"]
