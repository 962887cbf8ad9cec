"""A Connect cluster seen from outside, wherever its workers run: its REST API, and its tasks' own lines.

One idea: whether tasks run, and where, is waited for in what they write themselves; REST is only asked to change
something.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from support.connect import ticks
from support.devcluster.kafka_log import now_ms
from support.waiting import until

REST_MS = 4_000
"""More than a heartbeat interval: within it every member learns of a round."""


def call(url: str, method: str, path: str, body: Any = None, timeout_s: float = 90) -> Any:
    """Call the REST API of a worker.

    Returns
    -------
    The answer; None for an empty one.
    """
    request = urllib.request.Request(f"{url}{path}", method=method)
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=timeout_s) as answer:
        text = answer.read()
    return json.loads(text) if text else None


class ConnectCluster(ABC):
    """Workers of one group, and the ticking tasks that they run."""

    __slots__ = ()

    @abstractmethod
    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Call the REST API of a worker that runs."""

    @abstractmethod
    def lines(self) -> list[ticks.Line]:
        """Return what all tasks wrote so far."""

    @abstractmethod
    def leader(self) -> str:
        """Return the name of the worker that leads, by what the workers logged last."""

    def configure(self, connector: str, tasks: int) -> None:
        """Create or change a ticking connector."""
        self.create(connector, {"connector.class": "ticking.TickSource", "tasks.max": str(tasks)})

    def create(self, connector: str, config: Mapping[str, str]) -> None:
        """Create or change any connector."""
        until(lambda: self._accepts(connector, config), deadline_s=60, what=f"{connector} to be accepted", poll_s=0.2)

    def _accepts(self, connector: str, config: Mapping[str, str]) -> bool:
        try:
            self.request("PUT", f"/connectors/{connector}/config", config)
        except urllib.error.HTTPError as refused:
            if refused.code in (404, 409, 500, 503):  # it is not ready, or in a round
                return False
            raise
        return True

    def await_ticking(self, count: int, deadline_s: float = 60) -> dict[str, str]:
        """Wait until so many tasks tick, each in one worker; returns which runs where."""

        def settled() -> dict[str, str] | None:
            ticking = ticks.tasks(self.lines(), since_ms=now_ms() - 900)
            if len(ticking) == count and all(len(workers) == 1 for workers in ticking.values()):
                return {task: next(iter(workers)) for task, workers in ticking.items()}
            return None

        return until(settled, deadline_s=deadline_s, what=f"{count} tasks to tick", poll_s=0.2)

    def await_rest(self, count: int, deadline_s: float = 90) -> dict[str, str]:
        """Wait until so many tasks tick and nothing was started or stopped for a while; returns which runs where.

        A new connector's tasks are started, and started again when their configuration is handled.
        """

        def settled() -> bool:
            return now_ms() - max(line.at_ms for line in self.lines() if line.what != "TICK") > REST_MS

        self.await_ticking(count, deadline_s)
        until(settled, deadline_s=deadline_s, what="tasks to stay as they are", poll_s=0.2)
        return self.await_ticking(count, deadline_s)

    def await_heartbeats(self) -> None:
        """Wait for a heartbeat interval, in which every member learns of a round that goes on."""
        began_ms = now_ms()
        until(lambda: now_ms() - began_ms > REST_MS, deadline_s=30, what="a heartbeat interval to pass")
