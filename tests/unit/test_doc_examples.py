"""Every example of a page is what the operator, the chart or the learner reads."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from fleet_learner.configuration import Configuration as FleetConfiguration
from staticgroup.api import crd
from staticgroup.api.resources.clusterkafkaconnection import ClusterKafkaConnection
from staticgroup.api.resources.kafkaconnection import KafkaConnection
from staticgroup.api.resources.staticgroup import StaticGroup
from unit.test_docs import IDS, PAGES, REPOSITORY


def examples() -> Iterator[Any]:
    for page, name in zip(PAGES, IDS, strict=True):
        for block in re.findall(r"^ *```yaml\n(.*?)^ *```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
            for number, document in enumerate(yaml.safe_load_all(block)):
                if isinstance(document, dict):
                    kind = str(document.get("kind", "part"))
                    yield pytest.param(document, id=f"{name}-{kind}-{number}")


def unknown_fields(value: Any, schema: Mapping[str, Any], path: str = "") -> list[str]:
    """Name the fields of an example that the CRD's schema does not have."""
    if isinstance(value, list):
        return [found for each in value for found in unknown_fields(each, schema["items"], f"{path}[]")]
    if not isinstance(value, dict) or "properties" not in schema:
        return []
    known = schema["properties"]
    return [f"{path}.{key}" for key in value if key not in known] + [
        found
        for key, child in value.items()
        if key in known
        for found in unknown_fields(child, known[key], f"{path}.{key}")
    ]


def unknown_values(value: Any, known: Any, path: str = "") -> list[str]:
    """Name the values of an example that the chart does not have; an empty map of the chart takes any."""
    if not isinstance(value, dict) or not known:
        return []
    return [f"{path}.{key}" for key in value if key not in known] + [
        found
        for key, child in value.items()
        if key in known
        for found in unknown_values(child, known[key], f"{path}.{key}")
    ]


@pytest.mark.parametrize("example", list(examples()))
def test_example_is_what_the_operator_reads(example: dict[str, Any]) -> None:
    is_connection = example.get("kind") in ("KafkaConnection", "ClusterKafkaConnection")
    definition = crd.definition(example["kind"] if is_connection else "StaticGroup")
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    match example.get("kind"):
        case "StaticGroup":
            assert StaticGroup.from_wire(example).spec.workload_ref.name
        case "KafkaConnection":
            assert KafkaConnection.from_wire(example).spec.bootstrap_servers
        case "ClusterKafkaConnection":
            assert ClusterKafkaConnection.from_wire(example).spec.allowed_namespaces
        case None if example.keys() & FleetConfiguration.model_fields.keys():
            shown = {name: value for name, value in example.items() if value != "…"}
            assert FleetConfiguration.model_validate({"root": "/data", **shown}).root
            return
        case None if "dependencies" in example:
            values = yaml.safe_load((REPOSITORY / "charts/staticgroup/values.yaml").read_text(encoding="utf-8"))
            assert unknown_values(example["staticgroup"] | {"global": example["global"]}, values) == []
            return
        case None:
            example = {"spec": example} if "client" in example else example
        case "Application":
            source = example["spec"]["source"]
            values = yaml.safe_load((REPOSITORY / source["path"] / "values.yaml").read_text(encoding="utf-8"))
            assert unknown_values(source["helm"]["valuesObject"], values) == []
            return
        case other:
            assert other in ("StatefulSet", "Kustomization", "KafkaConnect", "ConfigMap")
            return
    assert unknown_fields(example["spec"], schema) == []


def test_an_unknown_field_of_an_example_is_found() -> None:
    schema = {"properties": {"a": {"properties": {"b": {}}}, "c": {"items": {"properties": {"d": {}}}}}}
    assert unknown_fields({"a": {"b": 1, "x": 1}, "c": [{"d": 1, "y": 1}]}, schema) == [".a.x", ".c[].y"]


def test_an_unknown_value_of_an_example_is_found() -> None:
    chart = {"image": {"repository": ""}, "nodeSelector": {}}
    assert unknown_values({"image": {"repo": "x"}, "nodeSelector": {"a": "b"}, "y": 1}, chart) == [".y", ".image.repo"]
