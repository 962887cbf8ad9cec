"""The leader's assignor of the eager protocol (`connect.protocol=eager`, version 0)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle

from .work import ClusterConfig, ConnectorsAndTasks, ConnectorTaskId


def assign_eagerly(config: ClusterConfig, workers: Iterable[str]) -> dict[str, ConnectorsAndTasks]:
    """Deal all connectors and then all tasks to the workers in turn; returns everything each one runs.

    It uses names only: no worker keeps its work, because each has stopped everything before it joined.
    Source: EagerAssignor.performTaskAssignment.
    """
    names = sorted(workers)
    connectors: dict[str, list[str]] = {name: [] for name in names}
    tasks: dict[str, list[ConnectorTaskId]] = {name: [] for name in names}
    turn = cycle(names)
    configured = config.configured()
    for connector in configured.connectors:
        connectors[next(turn)].append(connector)
    for task in configured.tasks:
        tasks[next(turn)].append(task)
    return {name: ConnectorsAndTasks.of(connectors[name], tasks[name]) for name in names}
