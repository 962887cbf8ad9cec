"""Which specs the API server refuses for role Connect: the generated rules, evaluated for whole specs.

They are logic over enumerations, so Python can say what CEL says of them; `tests/operator/test_manifests.py` asks an
API server.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from staticgroup.api.crd import static_group_crd
from staticgroup.api.resources.staticgroup import StaticGroupSpec

ENV = [{"instanceIdName": "WORKER_INSTANCE_ID", "sessionTimeoutName": ""}]


def refusals(**spec: Any) -> list[str]:
    """Return the messages of the rules about Connect that a spec breaks."""
    body = {"workloadRef": {"name": "web"}, "connectionRef": {"name": "kafka"}, "groupId": "connect-cluster"} | spec
    wire = StaticGroupSpec.model_validate(body).to_wire()
    identity = SimpleNamespace(**wire["identity"])
    (version,) = static_group_crd()["spec"]["versions"]
    whole = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    nodes = ((SimpleNamespace(**wire | {"identity": identity}), whole), (identity, whole["properties"]["identity"]))
    rules = [
        (node, rule)
        for node, schema in nodes
        for rule in schema["x-kubernetes-validations"]
        if "'Connect'" in rule["rule"] or "'Inject'" in rule["rule"]
    ]
    assert len(rules) == 9
    return [rule["message"] for node, rule in rules if not _holds(node, rule["rule"])]


def _holds(node: SimpleNamespace, rule: str) -> bool:
    assert re.fullmatch(r"[\w.'\[\],()=!<>&|\s-]+", rule), f"more than logic: {rule}"
    logic = re.sub(r"!(?!=)", " not ", rule.replace("||", " or ").replace("&&", " and "))
    return bool(eval(logic, {"__builtins__": {}}, {"self": node, "size": len}))


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"identity": {"preset": "Connect"}},
        {"identity": {"preset": "Connect", "suffix": "None", "container": "connect"}, "protocol": "Classic"},
        {"identity": {"preset": "Connect", "method": "None"}, "crashRelease": "Off"},
        {"identity": {"preset": "Custom", "env": ENV}},
        {"identity": {"agent": "Inject"}},
        {"identity": {"preset": "Debezium", "agent": "Inject", "method": "Policy"}},
        {"identity": {"preset": "Debezium", "method": "None"}},
    ],
)
def test_role_connect_takes_what_a_worker_can_be(spec: dict[str, Any]) -> None:
    assert refusals(role="Connect", **spec) == []


@pytest.mark.parametrize(
    ("spec", "field", "remedy"),
    [
        ({"identity": {"env": ENV}}, "spec.identity.preset", "leave it out, which means Connect"),
        ({"identity": {"preset": "Quarkus"}}, "spec.identity.preset", "or set it to Custom"),
        ({"identity": {"preset": "KafkaStreams"}}, "spec.identity.preset", "leave it out, which means Connect"),
        (
            {"identity": {"preset": "Connect"}, "protocol": "Consumer"}, "spec.protocol",
            "set spec.protocol to Auto or Classic",
        ),
        (
            {"identity": {"preset": "Connect"}, "crashRelease": "Release"}, "spec.crashRelease",
            "set spec.crashRelease to Report",
        ),
        ({"identity": {"preset": "Connect", "env": ENV}}, "spec.identity.env", "or set spec.identity.preset to Custom"),
        (
            {"identity": {"preset": "Custom", "env": ENV, "suffix": "Streams"}}, "spec.identity",
            "spec.identity.suffix to Auto",
        ),
        (
            {"identity": {"preset": "Debezium", "env": ENV}}, "spec.identity.env",
            "or set spec.identity.preset to Custom",
        ),
        ({"identity": {"agent": "Inject", "method": "None"}}, "spec.identity.agent", "or spec.identity.method to Auto"),
        (
            {"identity": {"agent": "Inject", "preset": "Custom", "env": ENV}}, "spec.identity.agent",
            "leave spec.identity.preset out",
        ),
        (
            {"identity": {"preset": "Connect", "membersPerPod": 2}}, "spec.identity",
            "set spec.identity.membersPerPod to 1",
        ),
    ],
)
def test_role_connect_refuses_what_contradicts_it_with_the_field_and_what_to_do(
    spec: dict[str, Any], field: str, remedy: str
) -> None:
    (message,) = refusals(role="Connect", **spec)
    assert message.startswith(f"{field} ")
    assert remedy in message


@pytest.mark.parametrize("role", ["Consumer", "Streams"])
def test_the_agents_variables_are_for_workers_only(role: str) -> None:
    for preset in ("Connect", "Debezium"):
        (message,) = refusals(role=role, identity={"preset": preset})
        assert "set spec.role to Connect, or choose another preset" in message


@pytest.mark.parametrize("role", ["Consumer", "Streams"])
def test_the_agent_is_injected_into_workers_only(role: str) -> None:
    (message,) = refusals(role=role, identity={"agent": "Inject"})
    assert "set spec.role to Connect, or spec.identity.agent to Provided" in message


@pytest.mark.parametrize(
    "spec", [{}, {"protocol": "Consumer", "crashRelease": "Release"}, {"identity": {"preset": "SpringBoot"}}]
)
def test_objects_of_other_roles_are_judged_as_before(spec: dict[str, Any]) -> None:
    assert refusals(**spec) == []
