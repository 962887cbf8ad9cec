"""Which specs the API server refuses for what a role implies: the generated rules, evaluated for whole specs.

The rules over the whole spec are logic over enumerations, lists and lengths, so Python can say what CEL says of them;
`tests/operator/test_manifests.py` asks an API server the same.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from staticgroup.api.crd import static_group_crd
from staticgroup.api.resources.staticgroup import StaticGroupSpec

_EXPRESSION = re.compile(r"[\w.'\[\],()=!<>&|\s-]+")
ENV = [{"instanceIdName": "ORDERS_INSTANCE_ID", "sessionTimeoutName": ""}]


def rules() -> list[dict[str, str]]:
    """Return the generated rules over the whole spec."""
    version = static_group_crd()["spec"]["versions"][0]
    found: list[dict[str, str]] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"]
    return found


def as_object(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{key: as_object(each) for key, each in value.items()})
    return value


def refusals(**spec: Any) -> dict[str, str]:
    """Return field path and message of every rule that a spec breaks."""
    body = {"workloadRef": {"name": "web"}, "connectionRef": {"name": "kafka"}, "groupId": "app"} | spec
    wire = as_object(StaticGroupSpec.model_validate(body).to_wire())
    broken: dict[str, str] = {}
    for rule in rules():
        text = rule["rule"]
        assert _EXPRESSION.fullmatch(text), f"more than logic: {text}"
        logic = re.sub(r"!(?!=)", " not ", text.replace("||", " or ").replace("&&", " and "))
        if not eval(logic, {"__builtins__": {}}, {"self": wire, "size": len}):
            broken[rule["fieldPath"]] = rule["message"]
    return broken


@pytest.mark.parametrize(
    ("identity", "more"),
    [
        ({}, {}),
        ({"membersPerPod": 3}, {}),
        ({"preset": "KafkaStreams"}, {}),
        ({"preset": "KafkaStreams", "suffix": "Streams", "membersPerPod": 3, "container": "app"}, {}),
        ({"suffix": "Streams"}, {}),
        ({"preset": "Custom", "env": ENV}, {}),
        ({"preset": "Custom", "env": ENV, "membersPerPod": 3}, {}),
        ({"method": "None"}, {}),
        ({}, {"protocol": "Classic"}),
        ({}, {"protocol": "Streams"}),
        ({}, {"protocol": "Streams", "crashRelease": "Release"}),
    ],
)
def test_role_streams_leaves_what_it_implies_out_or_says_the_same(
    identity: dict[str, Any], more: dict[str, Any]
) -> None:
    assert refusals(role="Streams", identity=identity, **more) == {}


@pytest.mark.parametrize(
    ("identity", "more", "field", "remedy"),
    [
        (
            {"preset": "SpringBoot"}, {}, ".identity.preset",
            "name the variables that the application reads in spec.identity.env",
        ),
        ({"preset": "Quarkus"}, {}, ".identity.preset", "leave it out, which means KafkaStreams"),
        ({}, {"protocol": "Classic", "crashRelease": "Release"}, ".crashRelease", "spec.protocol to Auto or Streams"),
        ({"preset": "Librdkafka"}, {}, ".identity.preset", "leave it out"),
        ({"env": ENV}, {}, ".identity.env", "set spec.identity.preset to Custom"),
        ({"suffix": "None"}, {}, ".identity.suffix", "remove spec.identity.suffix"),
        ({"suffix": "Spring", "membersPerPod": 2}, {}, ".identity.suffix", "or set spec.role to Consumer"),
        ({"suffix": "Custom", "customSuffixes": ["-a"]}, {}, ".identity.suffix", "remove spec.identity.suffix"),
        ({}, {"protocol": "Consumer"}, ".protocol", "set spec.protocol to Auto, Classic or Streams"),
    ],
)
def test_role_streams_refuses_what_contradicts_it_with_the_field_and_what_to_do(
    identity: dict[str, Any], more: dict[str, Any], field: str, remedy: str
) -> None:
    found = refusals(role="Streams", identity=identity, **more)
    assert list(found) == [field]
    assert remedy in found[field]


@pytest.mark.parametrize("role", ["Consumer", "Connect"])
def test_protocol_streams_is_for_role_streams(role: str) -> None:
    assert "set spec.role to Streams" in refusals(role=role, protocol="Streams")[".protocol"]


@pytest.mark.parametrize(
    ("identity", "is_refused"),
    [
        ({"membersPerPod": 3}, True),
        ({"membersPerPod": 3, "preset": "Librdkafka"}, True),
        ({"membersPerPod": 3, "preset": "KafkaStreams"}, False),
        ({"membersPerPod": 3, "preset": "SpringBoot"}, False),
        ({"membersPerPod": 3, "suffix": "Streams"}, False),
        ({"preset": "SpringBoot", "suffix": "None"}, False),
    ],
)
def test_objects_without_a_role_are_judged_as_before(identity: dict[str, Any], is_refused: bool) -> None:
    assert (list(refusals(identity=identity)) == [".identity.membersPerPod"]) is is_refused
