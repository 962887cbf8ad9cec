"""The leader's assignor of Connect, fed with what the workers run."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator_model.connect.incremental import ClusterAssignment, IncrementalCooperativeAssignor, Round
from coordinator_model.connect.work import ClusterConfig, ConnectorsAndTasks

MAX_DELAY_MS = 300_000


@dataclass
class Group:
    """The workers of IncrementalCooperativeAssignorTest: they follow their assignments unless a round fails."""

    workers: list[str] = field(default_factory=lambda: ["worker1"])
    connectors: dict[str, int] = field(default_factory=lambda: {"connector1": 4, "connector2": 4})
    max_delay_ms: int = MAX_DELAY_MS
    now_ms: int = 1_000_000
    generation_id: int = 1000

    def __post_init__(self) -> None:
        self.running: dict[str, ConnectorsAndTasks] = {}
        self.join(*self.workers)
        self.new_leader()

    def new_leader(self) -> None:
        self.assignor = IncrementalCooperativeAssignor(
            max_delay_ms=self.max_delay_ms, previous_generation_id=self.generation_id
        )

    def join(self, *workers: str) -> None:
        for worker in workers:
            assert worker not in self.running
            self.running[worker] = ConnectorsAndTasks()

    def leave(self, worker: str) -> None:
        del self.running[worker]

    def rebalance(self, *, delivered: bool = True, missed_generation: bool = False) -> ClusterAssignment:
        self.generation_id += 1
        last = self.generation_id - (2 if missed_generation else 1)
        before = dict(self.running)
        outcome = self.assignor.assign(
            Round(ClusterConfig(618, dict(self.connectors)), before, last, self.generation_id), self.now_ms
        )
        assert set(outcome.complete) == set(before)
        self._check_new_work(outcome, before)
        if delivered:
            for worker, had in before.items():
                self.running[worker] = had.minus(outcome.revoked[worker]).plus(outcome.assigned[worker])
                assert self.running[worker].same_as(outcome.complete[worker])
        return outcome

    def _check_new_work(self, outcome: ClusterAssignment, before: dict[str, ConnectorsAndTasks]) -> None:
        new = [item for work in outcome.assigned.values() for item in (*work.connectors, *work.tasks)]
        assert len(new) == len(set(new))
        assert not ConnectorsAndTasks.union(outcome.assigned.values()).common(ConnectorsAndTasks.union(before.values()))

    def sizes(self) -> tuple[list[int], list[int]]:
        work = self.running.values()
        return sorted(len(w.connectors) for w in work), sorted(len(w.tasks) for w in work)

    def assert_balanced_and_complete(self) -> None:
        connectors, tasks = self.sizes()
        assert max(connectors) - min(connectors) <= 1
        assert max(tasks) - min(tasks) <= 1
        union = ConnectorsAndTasks.union(self.running.values())
        assert union.same_as(ClusterConfig(0, self.connectors).configured())
        assert len(union) == sum(len(work) for work in self.running.values())


def nothing_assigned(outcome: ClusterAssignment) -> bool:
    return not any(outcome.assigned.values())


def nothing_revoked(outcome: ClusterAssignment) -> bool:
    return not any(outcome.revoked.values())


def nothing_changed(outcome: ClusterAssignment) -> bool:
    return nothing_assigned(outcome) and nothing_revoked(outcome)
