"""A model API server with two namespaces, a clock, pods, and watches."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.kubernetes.api_server import ApiServer
from simulator.kubernetes.objects import (
    PODS,
    Json,
)
from simulator.kubernetes.storage import ApiError
from simulator.kubernetes.watch_log import Selector
from staticgroup.api import names

POD_INDEX = Selector(labels=names.POD_INDEX_LABEL)


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


def pod(name: str = "web-0", **spec: Any) -> Json:
    labels = {"app": "web", names.POD_INDEX_LABEL: name.rpartition("-")[2]}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set-1", "controller": True}
    return {
        "metadata": {"namespace": "shop", "name": name, "labels": labels, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "app"}]} | spec,
        "status": {"phase": "Pending"},
    }


def refused(status: int) -> Any:
    return pytest.raises(ApiError, match=f"^{status} ")


class Watching:
    """A watch and what it has delivered."""

    def __init__(self, server: ApiServer, *, since: int | None = None, selector: Selector = POD_INDEX) -> None:
        self.delivered: list[Json] = []
        self.breaks = 0
        since = server.resource_version if since is None else since
        self.subscription, missed = server.subscribe(PODS, "shop", selector, since, self.delivered.append, self._broke)
        self.delivered += missed

    def _broke(self) -> None:
        self.breaks += 1

    @property
    def events(self) -> list[tuple[str, str, int]]:
        return [
            (e["type"], e["object"]["metadata"]["name"], int(e["object"]["metadata"]["resourceVersion"]))
            for e in self.delivered
        ]
