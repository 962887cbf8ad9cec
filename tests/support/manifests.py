"""Read the manifests that the API server must accept and refuse."""

from pathlib import Path
from typing import Any, NamedTuple

import yaml

FOLDER = Path(__file__).parents[1] / "operator" / "manifests"
CONNECTION = {"bootstrapServers": ["kafka-0.example.com:9092"]}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "group-": (
        "StaticGroup",
        {"workloadRef": {"name": "orders"}, "connectionRef": {"name": "kafka"}, "groupId": "orders"},
    ),
    "connection-": ("KafkaConnection", CONNECTION),
    "cluster-": ("ClusterKafkaConnection", CONNECTION),
}


class Refused(NamedTuple):
    """A manifest that is refused, what the answer must say, and the object of which it is a change."""

    body: dict[str, Any]
    field: str
    message: str
    before: dict[str, Any] | None


def _read(name: str) -> dict[str, Any]:
    cases: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    return cases


def _body(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    kind, usual = next(found for prefix, found in KINDS.items() if name.startswith(prefix))
    return {
        "apiVersion": "staticgroup.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {field: value for field, value in (usual | spec).items() if value is not None},
    }


def accepted() -> dict[str, dict[str, Any]]:
    """Return the accepted manifests by name."""
    return {name: _body(name, spec) for name, spec in _read("valid.yaml").items()}


def refused() -> dict[str, Refused]:
    """Return the refused manifests by name."""
    cases = _read("invalid-groups.yaml") | _read("invalid-connections.yaml")
    return {
        name: Refused(
            _body(name, case["spec"]), field, message, _body(name, case["before"]) if "before" in case else None
        )
        for name, case in cases.items()
        for field, message in [case["says"]]
    }
