"""How much each worker carries, and how work is spread and taken back evenly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from .work import ConnectorsAndTasks, ConnectorTaskId

Item = TypeVar("Item")


@dataclass(slots=True)
class WorkerLoad:
    """The connectors and tasks of one worker while a round is computed (WorkerCoordinator.WorkerLoad)."""

    worker: str
    connectors: list[str] = field(default_factory=list)
    tasks: list[ConnectorTaskId] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def remove(self, work: ConnectorsAndTasks) -> None:
        """Take the given work away."""
        self.connectors = [c for c in self.connectors if c not in work.connectors]
        self.tasks = [t for t in self.tasks if t not in work.tasks]

    def work(self) -> ConnectorsAndTasks:
        """The load as a value."""
        return ConnectorsAndTasks.of(self.connectors, self.tasks)


def worker_loads(assignments: Mapping[str, ConnectorsAndTasks]) -> list[WorkerLoad]:
    """One load per worker, in the order of the workers' names.

    Kafka walks a hash map here; a fixed order makes the same choice every time.
    """
    return [
        WorkerLoad(name, list(assignments[name].connectors), list(assignments[name].tasks))
        for name in sorted(assignments)
    ]


def assign_connectors(loads: Sequence[WorkerLoad], connectors: Iterable[str]) -> None:
    """Give connectors to the least loaded workers in turn (IncrementalCooperativeAssignor.assignConnectors)."""
    _spread(loads, connectors, lambda load: load.connectors)


def assign_tasks(loads: Sequence[WorkerLoad], tasks: Iterable[ConnectorTaskId]) -> None:
    """Give tasks to the least loaded workers in turn (IncrementalCooperativeAssignor.assignTasks)."""
    _spread(loads, tasks, lambda load: load.tasks)


def _spread(loads: Sequence[WorkerLoad], items: Iterable[Item], kind: Callable[[WorkerLoad], list[Item]]) -> None:
    ordered = sorted(loads, key=lambda load: (len(kind(load)), load.worker))
    waiting = iter(items)
    while True:
        level = len(kind(ordered[0]))
        lowest = []
        for load in ordered:
            if len(kind(load)) > level:
                break
            lowest.append(load)
        for load in lowest:
            item = next(waiting, None)
            if item is None:
                return
            kind(load).append(item)


def load_balancing_revocations(
    configured: ConnectorsAndTasks, loads: Sequence[WorkerLoad]
) -> dict[str, ConnectorsAndTasks]:
    """What to take from which worker so that none has more than in a balanced cluster; empty if nothing.

    Connectors and tasks are balanced apart: with N of them on W workers each keeps at most N // W, and N % W workers
    one more (IncrementalCooperativeAssignor.performLoadBalancingRevocations).
    """
    if not configured or not any(loads):
        return {}
    connectors = _surplus(len(configured.connectors), loads, lambda load: load.connectors)
    tasks = _surplus(len(configured.tasks), loads, lambda load: load.tasks)
    return {
        load.worker: ConnectorsAndTasks.of(connectors.get(load.worker, ()), tasks.get(load.worker, ()))
        for load in loads
        if load.worker in connectors or load.worker in tasks
    }


def _surplus(
    total: int, loads: Sequence[WorkerLoad], kind: Callable[[WorkerLoad], list[Item]]
) -> dict[str, list[Item]]:
    least, extras = divmod(total, len(loads))
    sizes = [len(kind(load)) for load in loads]
    if sizes.count(least + 1) == extras and sizes.count(least) + extras == len(loads):
        return {}
    surplus: dict[str, list[Item]] = {}
    for load in loads:
        held = kind(load)
        if len(held) <= least:
            continue
        keep = least
        if extras:
            extras -= 1
            keep += 1
        if len(held) > keep:
            surplus[load.worker] = held[: len(held) - keep]
    return surplus
