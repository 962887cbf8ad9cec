"""Rows K01–K15: how today's Connect distributes connectors and tasks.

K01–K13 restate IncrementalCooperativeAssignorTest: the leader's assignor alone, fed with what the workers run. K14 and
K15 restate tests of whole clusters and run on ConnectCluster, in which every metadata and assignment goes through its
wire form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from coordinator_model.connect.cluster import ConnectCluster
from coordinator_model.connect.incremental import ClusterAssignment, IncrementalCooperativeAssignor, Round
from coordinator_model.connect.loads import WorkerLoad, assign_connectors, assign_tasks, worker_loads
from coordinator_model.connect.protocol import ConnectProtocolCompatibility
from coordinator_model.connect.work import ClusterConfig, ConnectorsAndTasks, ConnectorTaskId

MAX_DELAY_MS = 300_000


@dataclass
class Group:
    """The workers of IncrementalCooperativeAssignorTest: they do what they are told unless a round fails."""

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
        told = self.assignor.assign(
            Round(ClusterConfig(618, dict(self.connectors)), before, last, self.generation_id), self.now_ms
        )
        assert set(told.complete) == set(before)
        self._check_new_work(told, before)
        if delivered:
            for worker, had in before.items():
                self.running[worker] = had.minus(told.revoked[worker]).plus(told.assigned[worker])
                assert self.running[worker].same_as(told.complete[worker])
        return told

    def _check_new_work(self, told: ClusterAssignment, before: dict[str, ConnectorsAndTasks]) -> None:
        new = [item for work in told.assigned.values() for item in (*work.connectors, *work.tasks)]
        assert len(new) == len(set(new))
        assert not ConnectorsAndTasks.union(told.assigned.values()).common(ConnectorsAndTasks.union(before.values()))

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


def nothing_assigned(told: ClusterAssignment) -> bool:
    return not any(told.assigned.values())


def nothing_revoked(told: ClusterAssignment) -> bool:
    return not any(told.revoked.values())


def nothing_changed(told: ClusterAssignment) -> bool:
    return nothing_assigned(told) and nothing_revoked(told)


def three_connectors(max_delay_ms: int = MAX_DELAY_MS) -> Group:
    """Worker 1 with three connectors and twelve tasks, then worker 2 and the round that takes from worker 1."""
    group = Group(connectors={"connector1": 4, "connector2": 4, "connector3": 4}, max_delay_ms=max_delay_ms)
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([3], [12])
    group.join("worker2")
    group.rebalance()
    assert group.sizes() == ([0, 2], [0, 6])
    return group


def two_workers() -> Group:
    group = Group(workers=["worker1", "worker2"])
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([1, 1], [4, 4])
    group.assert_balanced_and_complete()
    return group


def three_workers() -> Group:
    group = Group(workers=["worker1", "worker2", "worker3"])
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([0, 1, 1], [2, 3, 3])
    group.assert_balanced_and_complete()
    return group


def test_K01_worker_joins() -> None:
    """testTaskAssignmentWhenWorkerJoins: one round revokes, the next assigns, then nothing moves."""
    group = Group()
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([2], [8])
    group.assert_balanced_and_complete()

    group.join("worker2")
    told = group.rebalance()
    assert told.delay_ms == 0
    assert group.sizes() == ([0, 1], [0, 4])
    assert nothing_assigned(told)

    told = group.rebalance()
    assert told.delay_ms == 0
    assert nothing_revoked(told)
    assert group.sizes() == ([1, 1], [4, 4])
    group.assert_balanced_and_complete()

    told = group.rebalance()
    assert told.delay_ms == 0
    assert nothing_changed(told)


def test_K02_workers_join_after_revocations() -> None:
    """testAssignmentsWhenWorkersJoinAfterRevocations: a second revoking round in a row waits 40 ms, a third 1600."""
    group = three_connectors()

    group.join("worker3")
    assert group.rebalance().delay_ms == 40
    assert group.sizes() == ([0, 1, 2], [3, 3, 6])

    group.now_ms += 40
    group.join("worker4")
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([0, 0, 1, 1], [0, 3, 3, 3])

    group.join("worker5")
    assert group.rebalance().delay_ms == 1600
    assert group.sizes() == ([0, 0, 1, 1, 1], [1, 2, 3, 3, 3])

    group.now_ms += 1600
    group.join("worker6")
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([0, 0, 0, 1, 1, 1], [0, 1, 2, 2, 2, 2])

    group.rebalance()
    assert group.sizes() == ([0, 0, 0, 1, 1, 1], [2, 2, 2, 2, 2, 2])
    group.assert_balanced_and_complete()


def test_K03_immediate_revocations_when_max_delay_is_0() -> None:
    """testImmediateRevocationsWhenMaxDelayIs0: with delays off every round may revoke."""
    group = three_connectors(max_delay_ms=0)

    group.join("worker3")
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([0, 1, 1], [3, 3, 4])

    assert nothing_revoked(group.rebalance())
    assert group.sizes() == ([1, 1, 1], [4, 4, 4])
    group.assert_balanced_and_complete()


def test_K04_successive_revocations_when_max_delay_is_the_first_back_off() -> None:
    """testSuccessiveRevocationsWhenMaxDelayIsEqualToExpBackOffInitialInterval: the back-off is capped at 1 ms."""
    group = three_connectors(max_delay_ms=1)
    group.join("worker3")
    assert group.rebalance().delay_ms == 1
    assert group.sizes() == ([0, 1, 2], [3, 3, 6])


def test_K04_worker_joining_during_delayed_rebalance() -> None:
    """testWorkerJoiningDuringDelayedRebalance: nothing is revoked before the delay has passed."""
    group = three_connectors()
    group.join("worker3")
    told = group.rebalance()
    assert told.delay_ms == 40
    assert nothing_revoked(told)
    assert group.sizes() == ([0, 1, 2], [3, 3, 6])

    group.now_ms += 20
    group.join("worker4")
    told = group.rebalance()
    assert told.delay_ms == 20
    assert nothing_revoked(told)
    assert group.sizes() == ([0, 0, 1, 2], [0, 3, 3, 6])

    group.now_ms += 20
    group.join("worker5")
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([0, 0, 0, 1, 1], [0, 0, 2, 3, 3])

    told = group.rebalance()
    assert told.delay_ms == 0
    assert nothing_revoked(told)
    assert group.sizes() == ([0, 0, 1, 1, 1], [2, 2, 2, 3, 3])
    group.assert_balanced_and_complete()


def test_K05_worker_leaves_permanently() -> None:
    """testTaskAssignmentWhenWorkerLeavesPermanently: its work waits out the whole delay, then goes to the survivor."""
    group = two_workers()
    group.leave("worker2")
    told = group.rebalance()
    assert told.delay_ms == 300_000
    assert nothing_changed(told)

    group.now_ms += 150_000
    told = group.rebalance()
    assert told.delay_ms == 150_000
    assert nothing_changed(told)

    group.now_ms += 150_001
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([2], [8])
    group.assert_balanced_and_complete()


def test_K06_worker_bounces() -> None:
    """testTaskAssignmentWhenWorkerBounces: back after three quarters, it gets its work at the end of the delay."""
    group = two_workers()
    before = group.running["worker2"]
    group.leave("worker2")
    assert group.rebalance().delay_ms == 300_000

    group.now_ms += 150_000
    assert group.rebalance().delay_ms == 150_000

    group.now_ms += 75_000
    group.join("worker2")
    told = group.rebalance()
    assert told.delay_ms == 75_000
    assert nothing_changed(told)

    group.now_ms += 75_000
    told = group.rebalance()
    assert told.delay_ms == 0
    assert nothing_revoked(told)
    assert group.sizes() == ([1, 1], [4, 4])
    assert group.running["worker2"].same_as(before)
    group.assert_balanced_and_complete()


def test_K07_leader_leaves_permanently() -> None:
    """testTaskAssignmentWhenLeaderLeavesPermanently: the new leader remembers nothing, so nothing waits."""
    group = three_workers()
    group.leave("worker1")
    group.new_leader()
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([1, 1], [4, 4])
    group.assert_balanced_and_complete()
    told = group.rebalance()
    assert told.delay_ms == 0
    assert nothing_changed(told)


def test_K08_leader_bounces() -> None:
    """testTaskAssignmentWhenLeaderBounces: coming back it is a new worker; one round revokes, the next assigns."""
    group = three_workers()
    group.leave("worker1")
    group.new_leader()
    group.rebalance()
    assert group.sizes() == ([1, 1], [4, 4])

    group.join("worker1")
    told = group.rebalance()
    assert told.delay_ms == 0
    assert not nothing_revoked(told)
    assert group.sizes() == ([0, 1, 1], [0, 3, 3])

    told = group.rebalance()
    assert told.delay_ms == 0
    assert nothing_revoked(told)
    assert group.sizes() == ([0, 1, 1], [2, 3, 3])
    group.assert_balanced_and_complete()


def test_K09_first_assignment_attempt_fails() -> None:
    """testTaskAssignmentWhenFirstAssignmentAttemptFails: nobody left, so what seems lost is new (KAFKA-9848)."""
    group = Group(workers=["worker1", "worker2"])
    assert group.rebalance(delivered=False).delay_ms == 0
    assert group.sizes() == ([0, 0], [0, 0])
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([1, 1], [4, 4])
    group.assert_balanced_and_complete()


@pytest.mark.parametrize("missed_generation", [False, True], ids=["in the assignor", "outside the assignor"])
def test_K09_subsequent_assignment_attempt_fails(missed_generation: bool) -> None:
    """testTaskAssignmentWhenSubsequentAssignmentAttemptFails and …OutsideTheAssignor: lost revocations come again."""
    group = two_workers()
    group.join("worker3")
    told = group.rebalance(delivered=False)
    assert told.delay_ms == 0
    assert not nothing_revoked(told)
    assert group.sizes() == ([0, 1, 1], [0, 4, 4])

    told = group.rebalance(missed_generation=missed_generation)
    assert told.delay_ms == 40
    assert group.sizes() == ([0, 1, 1], [0, 4, 4])

    group.now_ms += 40
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([0, 1, 1], [0, 3, 3])
    group.rebalance()
    assert group.sizes() == ([0, 1, 1], [2, 3, 3])
    group.assert_balanced_and_complete()


def test_X02_connectors_are_deleted() -> None:
    """testTaskAssignmentWhenConnectorsAreDeleted: a deleted connector and its tasks are revoked at once."""
    group = Group(workers=["worker1", "worker2"], connectors={"connector1": 4, "connector2": 4, "connector3": 4})
    group.rebalance()
    assert group.sizes() == ([1, 2], [6, 6])
    del group.connectors["connector3"]
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([1, 1], [4, 4])
    group.assert_balanced_and_complete()


def numbered(kind: str, start: int, end: int) -> list[str]:
    return [f"{kind}{i}" for i in range(start, end)]


def load(worker: str, connectors: range = range(0), tasks: range = range(0)) -> WorkerLoad:
    return WorkerLoad(worker, [f"connector{i}" for i in connectors], [ConnectorTaskId("task", i) for i in tasks])


def test_K11_spread_over_balanced_workers() -> None:
    """testAssignConnectorsWhenBalanced, testAssignTasksWhenBalanced: in turn, by the workers' names."""
    loads = [load(f"worker{i}", range(2 * i, 2 * i + 2), range(2 * i, 2 * i + 2)) for i in range(3)]
    assign_connectors(loads, numbered("connector", 6, 11))
    assign_tasks(loads, [ConnectorTaskId("task", i) for i in range(6, 11)])
    assert [w.connectors[2:] for w in loads] == [
        ["connector6", "connector9"],
        ["connector7", "connector10"],
        ["connector8"],
    ]
    assert [[t.task for t in w.tasks[2:]] for w in loads] == [[6, 9], [7, 10], [8]]


def test_K11_spread_over_imbalanced_workers() -> None:
    """testAssignConnectorsWhenImbalanced: the emptiest are filled up first."""
    loads = [
        load("worker0", range(0, 2), range(0, 2)),
        load("worker1", range(2, 5), range(2, 5)),
        load("worker2", range(5, 9), range(5, 9)),
        load("worker3"),
    ]
    assign_connectors(loads, numbered("connector", 9, 24))
    assign_tasks(loads, [ConnectorTaskId("task", i) for i in range(9, 24)])
    assert [len(w.connectors) for w in loads] == [6, 6, 6, 6]
    assert [len(w.tasks) for w in loads] == [6, 6, 6, 6]


LOST = ConnectorsAndTasks.of(["connector2", "connector3"], [ConnectorTaskId("task", i) for i in range(4, 8)])
SURVIVORS = {
    "worker0": load("worker0", range(0, 2), range(0, 4)).work(),
    "worker2": load("worker2", range(4, 6), range(8, 12)).work(),
}
EVERYBODY = {**SURVIVORS, "worker1": LOST}
EMPTY = ConnectorsAndTasks()


def lose(max_delay_ms: int = MAX_DELAY_MS) -> IncrementalCooperativeAssignor:
    """An assignor that has seen three workers and nothing lost."""
    assignor = IncrementalCooperativeAssignor(max_delay_ms)
    assert assignor.handle_lost_assignments(EMPTY, worker_loads(EVERYBODY), 5_000) == EMPTY
    assert schedule(assignor) == ([], 0, 0)
    assignor.previous_members = frozenset(EVERYBODY)
    return assignor


def schedule(assignor: IncrementalCooperativeAssignor) -> tuple[list[str], int, int]:
    return assignor.candidate_workers, assignor.scheduled_rebalance_ms, assignor.delay_ms


def handle(
    assignor: IncrementalCooperativeAssignor, workers: dict[str, ConnectorsAndTasks], now_ms: int
) -> tuple[ConnectorsAndTasks, dict[str, ConnectorsAndTasks]]:
    loads = worker_loads(workers)
    as_new = assignor.handle_lost_assignments(LOST, loads, now_ms)
    assignor.previous_members = frozenset(workers)
    return as_new, {w.worker: w.work() for w in loads}


def test_K11_lost_assignment_when_worker_bounces() -> None:
    """testLostAssignmentHandlingWhenWorkerBounces: the returned empty worker is the candidate and gets all."""
    assignor = lose()
    assert handle(assignor, SURVIVORS, 5_000)[0] == EMPTY
    assert schedule(assignor) == ([], 305_000, 300_000)
    handle(assignor, {**SURVIVORS, "worker1": EMPTY}, 155_000)
    assert schedule(assignor) == (["worker1"], 305_000, 150_000)
    as_new, loads = handle(assignor, {**SURVIVORS, "worker1": EMPTY}, 305_000)
    assert as_new == EMPTY
    assert loads["worker1"] == LOST
    assert schedule(assignor) == ([], 0, 0)


def test_K11_lost_assignment_when_worker_leaves_permanently() -> None:
    """testLostAssignmentHandlingWhenWorkerLeavesPermanently: without a candidate it is like new work."""
    assignor = lose()
    handle(assignor, SURVIVORS, 5_000)
    handle(assignor, SURVIVORS, 155_000)
    assert schedule(assignor) == ([], 305_000, 150_000)
    assert handle(assignor, SURVIVORS, 305_000) == (LOST, SURVIVORS)
    assert schedule(assignor) == ([], 0, 0)


def test_K11_lost_assignment_with_more_than_one_candidate() -> None:
    """testLostAssignmentHandlingWithMoreThanOneCandidates: they share it in turn, even if no longer empty."""
    assignor = lose()
    handle(assignor, {**SURVIVORS, "worker3": EMPTY}, 5_000)
    assert schedule(assignor) == (["worker3"], 305_000, 300_000)
    handle(assignor, {**SURVIVORS, "worker1": EMPTY, "worker3": EMPTY}, 155_000)
    assert schedule(assignor) == (["worker3", "worker1"], 305_000, 150_000)
    busy = {
        **SURVIVORS,
        "worker1": load("worker1", range(6, 8), range(12, 16)).work(),
        "worker3": load("worker3", range(8, 10), range(16, 20)).work(),
    }
    as_new, loads = handle(assignor, busy, 305_000)
    assert as_new == EMPTY
    assert [len(loads[w].minus(busy[w])) for w in ("worker1", "worker3")] == [3, 3]
    assert LOST.within(loads["worker1"].plus(loads["worker3"]))
    assert schedule(assignor) == ([], 0, 0)


def test_K11_lost_assignment_when_worker_bounces_back_but_finally_leaves() -> None:
    """testLostAssignmentHandlingWhenWorkerBouncesBackButFinallyLeaves: a candidate that is gone counts for nothing."""
    assignor = lose()
    handle(assignor, SURVIVORS, 5_000)
    handle(assignor, {**SURVIVORS, "worker1": EMPTY}, 155_000)
    assert assignor.candidate_workers == ["worker1"]
    assert handle(assignor, SURVIVORS, 305_000) == (LOST, SURVIVORS)
    assert schedule(assignor) == ([], 0, 0)


def test_K12_lost_assignment_when_scheduled_delay_is_disabled() -> None:
    """testLostAssignmentHandlingWhenScheduledDelayIsDisabled: with delay 0 lost work is new work (KAFKA-15693)."""
    assignor = lose(max_delay_ms=0)
    assert handle(assignor, SURVIVORS, 5_000) == (LOST, SURVIVORS)
    assert schedule(assignor) == ([], 0, 0)


def test_K12_scheduled_delay_is_disabled() -> None:
    """testScheduledDelayIsDisabled: the same round in which a worker is missing gives its work away."""
    group = Group(workers=["worker1", "worker2"], max_delay_ms=0)
    group.rebalance()
    assert group.sizes() == ([1, 1], [4, 4])
    group.leave("worker2")
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([2], [8])
    group.assert_balanced_and_complete()


def duplicated_by_worker2(group: Group) -> None:
    """Worker 2 joins running what worker 1 runs too (connector1 and its four tasks)."""
    group.join("worker2")
    group.running["worker2"] = ConnectorsAndTasks.of(
        ["connector1"], [ConnectorTaskId("connector1", task) for task in range(4)]
    )


def test_K13_tasks_duplicated_in_worker_assignment() -> None:
    """testTaskAssignmentWhenTasksDuplicatedInWorkerAssignment: stopped everywhere first, assigned once after."""
    group = Group()
    group.rebalance()
    duplicated_by_worker2(group)
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([0, 1], [0, 4])
    told = group.rebalance()
    assert told.delay_ms == 0
    assert nothing_revoked(told)
    assert group.sizes() == ([1, 1], [4, 4])
    group.assert_balanced_and_complete()
    assert nothing_changed(group.rebalance())


def test_K13_duplicated_assignments_deleted() -> None:
    """testDuplicatedAssignmentHandleWhenTheDuplicatedAssignmentsDeleted: deleted meanwhile, it is gone everywhere."""
    group = Group()
    group.rebalance()
    del group.connectors["connector1"]
    duplicated_by_worker2(group)
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([0, 1], [0, 2])
    told = group.rebalance()
    assert told.delay_ms == 0
    assert nothing_revoked(told)
    assert group.sizes() == ([0, 1], [2, 2])
    group.assert_balanced_and_complete()
    assert nothing_changed(group.rebalance())


# whole clusters ----------------------------------------------------------------------------------------------------


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
