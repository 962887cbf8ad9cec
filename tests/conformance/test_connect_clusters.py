"""Rows K14 and K15: whole Connect clusters, in which every metadata and assignment goes through the coordinator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from coordinator_model.connect.cluster import ConnectCluster
from coordinator_model.connect.protocol import ConnectProtocolCompatibility
from coordinator_model.connect.work import ConnectorsAndTasks


def assert_unique_and_balanced(cluster: ConnectCluster) -> None:
    """RebalanceSourceConnectorsIntegrationTest.assertConnectorAndTasksAreUniqueAndBalanced, and that all is there."""
    work = list(cluster.running().values())
    union = ConnectorsAndTasks.union(work)
    assert union.same_as(cluster.config.configured())
    assert len(union) == sum(len(w) for w in work)
    for sizes in ([len(w.connectors) for w in work], [len(w.tasks) for w in work]):
        assert max(sizes) - min(sizes) <= 1


def rebalance_source_cluster() -> ConnectCluster:
    """Three workers of the compatible protocol, four connectors of four tasks, a delay of 30 s."""
    cluster = ConnectCluster(max_delay_ms=30_000, mode=ConnectProtocolCompatibility.COMPATIBLE)
    cluster.start("worker0", "worker1", "worker2")
    for i in range(4):
        cluster.configure(f"seq-source1{i}", 4)
    cluster.advance(60_000)
    assert_unique_and_balanced(cluster)
    return cluster


def test_K14_adding_worker() -> None:
    """RebalanceSourceConnectorsIntegrationTest.testAddingWorker: balanced over four, within 60 s."""
    cluster = rebalance_source_cluster()
    cluster.start("worker3")
    cluster.advance(60_000)
    assert_unique_and_balanced(cluster)
    assert all(len(work.connectors) == 1 and len(work.tasks) == 4 for work in cluster.running().values())


def test_K14_removing_worker() -> None:
    """testRemovingWorker: what the removed one ran sleeps 30 s and then runs on the other two."""
    cluster = rebalance_source_cluster()
    lost = cluster.running()["worker2"]
    cluster.stop("worker2")
    assert cluster.rounds[-1].delay_ms == 30_000
    cluster.advance(29_999)
    assert not ConnectorsAndTasks.union(cluster.running().values()).common(lost)
    cluster.advance(1)
    assert_unique_and_balanced(cluster)
    assert sorted(len(work.tasks) for work in cluster.running().values()) == [8, 8]


@pytest.mark.parametrize("gone", [("worker1", "worker2"), ("worker0", "worker1")], ids=["followers", "with the leader"])
def test_K14_multiple_workers_rejoining(gone: tuple[str, str]) -> None:
    """testMultipleWorkersRejoining: two of three away for 10 s; balanced within 60 s of their return."""
    cluster = rebalance_source_cluster()
    cluster.advance(10_000)
    cluster.stop(*gone)
    cluster.advance(10_000)
    assert len(cluster.running()) == 1
    cluster.start(*gone)
    cluster.advance(10_000)
    cluster.advance(60_000)
    assert_unique_and_balanced(cluster)


def test_K14_deleting_connector() -> None:
    """testDeleteConnector: a deleted connector runs nowhere and the rest is balanced."""
    cluster = rebalance_source_cluster()
    cluster.delete("seq-source13")
    cluster.advance(60_000)
    assert_unique_and_balanced(cluster)
    assert all(t.connector != "seq-source13" for work in cluster.running().values() for t in work.tasks)


@dataclass
class Tasks:
    """What VerifiableSource or VerifiableSink tasks leave behind: numbered messages and a committed position each.

    A running task handles ten messages every 100 ms and commits every 10 s; a task that is stopped by its worker
    commits, a task whose worker is killed does not and starts again from its last commit.
    """

    connector: str
    available: Callable[[int], int]
    seen: dict[int, list[int]] = field(default_factory=lambda: {task: [] for task in range(3)})
    committed: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(3), 0))
    position: dict[tuple[str, int], int] = field(default_factory=dict)
    reached: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(3), 0))

    def step(self, running: dict[str, ConnectorsAndTasks], commit: bool) -> None:
        for member, work in running.items():
            for task in (t.task for t in work.tasks if t.connector == self.connector):
                start = self.position.setdefault((member, task), self.committed[task])
                end = min(start + 10, self.available(task))
                self.seen[task] += range(start, end)
                self.position[member, task] = end
                self.reached[task] = max(self.reached[task], end)
                if commit:
                    self.committed[task] = end

    def ended(self, member: str, clean: bool) -> None:
        for key in [key for key in self.position if key[0] == member]:
            position = self.position.pop(key)
            if clean:
                self.committed[key[1]] = position

    def moved_away(self, member: str, work: ConnectorsAndTasks) -> None:
        mine = {t.task for t in work.tasks if t.connector == self.connector}
        for key in [key for key in self.position if key[0] == member and key[1] not in mine]:
            self.committed[key[1]] = self.position.pop(key)


class Bounce:
    """connect_distributed_test.test_bounce on the model: a source and a sink, three rounds of rolling restarts."""

    def __init__(self, clean: bool, protocol: str) -> None:
        self.clean = clean
        self.cluster = ConnectCluster(max_delay_ms=60_000, mode=ConnectProtocolCompatibility.from_protocol(protocol))
        self.cluster.start("worker1", "worker2", "worker3")
        self.cluster.configure("source", 3)
        self.cluster.configure("sink", 3)
        self.source = Tasks("source", lambda task: 1 << 60)
        self.sink = Tasks("sink", lambda task: self.source.reached[task])
        self.ticks = 0

    def live(self) -> dict[str, ConnectorsAndTasks]:
        return {worker.member_id: worker.running for worker in self.cluster.workers.values()}

    def flow(self, duration_ms: int) -> None:
        for _ in range(duration_ms // 100):
            self.cluster.advance(100)
            self.ticks += 1
            running = self.live()
            owners = [t for work in running.values() for t in work.tasks]
            assert len(owners) == len(set(owners)), "a task runs twice"
            for tasks in (self.source, self.sink):
                for member, work in running.items():
                    tasks.moved_away(member, work)
                tasks.step(running, commit=self.ticks % 100 == 0)

    def restart(self, name: str) -> None:
        member = self.cluster.workers[name].member_id
        for tasks in (self.source, self.sink):
            tasks.ended(member, self.clean)
        if self.clean:
            self.cluster.stop(name)
        else:
            self.cluster.kill(name)
        self.flow(3_000)
        self.cluster.start(name)

    def run(self) -> None:
        self.flow(15_000)
        names = ["worker1", "worker2", "worker3"]
        for start in range(3):
            for name in names[start:] + names[:start]:
                self.restart(name)
                self.flow(15_000)
        self.flow(60_000)
        self.flow(15_000)


def missing_and_repeated(tasks: Tasks) -> Iterator[tuple[set[int], int]]:
    for seen in tasks.seen.values():
        yield set(range(max(seen) + 1)) - set(seen), len(seen) - len(set(seen))


@pytest.mark.parametrize("protocol", ["default", "compatible", "sessioned"])
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_K15_bounce(clean: bool, protocol: str) -> None:
    """connect_distributed_test.test_bounce: clean bounces lose and repeat nothing, unclean ones lose nothing."""
    bounce = Bounce(clean, protocol)
    bounce.run()
    assert_unique_and_balanced(bounce.cluster)
    for tasks in (bounce.source, bounce.sink):
        assert all(max(seen) >= 1000 for seen in tasks.seen.values())
        losses = list(missing_and_repeated(tasks))
        assert all(not missing for missing, _ in losses)
        repeated = sum(count for _, count in losses)
        assert (repeated == 0) if clean else (repeated > 0)
