"""StaticGroups as the API server has them, and the command line over a kubectl that answers from a table."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from staticgroup.cli import command_line
from staticgroup.cli.api_server import GROUP_PATH, through_kubectl

from .fake_kubectl import FakeKubectl, Json

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
UID = "5a7e0000-0000-0000-0000-000000000002"
GROUPS = f"{GROUP_PATH}/namespaces/shop/staticgroups"


def group(**status: Any) -> Json:
    metadata = {"name": "orders", "namespace": "shop", "generation": 3, "creationTimestamp": "2026-11-21T11:15:00Z"}
    spec = {"groupId": "orders", "mode": "Manage", "workloadRef": {"name": "web"}}
    return {"metadata": metadata, "spec": spec, "status": status}


def condition(status: str, reason: str = "Healthy", message: str = "all is well") -> Json:
    return {
        "type": "Ready", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-21T11:50:00Z",
    }


READY = group(
    conditions=[condition("True")], members={"expected": 3, "joined": 3, "departed": 0}, sessionTimeout={"summary": "45s"},
    observedGeneration=3,
)
WAITING = group(
    conditions=[condition("False", "RemovalHeld", "2 removals wait")],
    members={"expected": 3, "joined": 5, "departed": 2},
    observedGeneration=2,
    issues=[{"instanceId": "web-4.3fa9", "podName": "web-4", "kind": "Held", "reason": "JoinedBeforeWatch", "message": "a pod that nobody saw may hold it"}],
)  # fmt: skip
SUSPECT = {"pod": "web-2", "uid": UID, "since": "2026-11-21T11:00:00Z", "node": "node-3"}


def call(monkeypatch: pytest.MonkeyPatch, fake: FakeKubectl, *arguments: str) -> int:
    monkeypatch.setattr(command_line, "api_server", lambda flags: through_kubectl(flags, run=fake))
    monkeypatch.setattr(command_line, "run", fake)
    return command_line.main(arguments)
