"""Rows K11 to K13: what Connect does with work that a worker took along, and with work that two workers run."""

from __future__ import annotations

from coordinator_model.connect.incremental import IncrementalCooperativeAssignor
from coordinator_model.connect.loads import WorkerLoad, assign_connectors, assign_tasks, worker_loads
from coordinator_model.connect.work import ConnectorsAndTasks, ConnectorTaskId

from .connect_group import MAX_DELAY_MS, Group, nothing_changed, nothing_revoked


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
    outcome = group.rebalance()
    assert outcome.delay_ms == 0
    assert nothing_revoked(outcome)
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
    outcome = group.rebalance()
    assert outcome.delay_ms == 0
    assert nothing_revoked(outcome)
    assert group.sizes() == ([0, 1], [2, 2])
    group.assert_balanced_and_complete()
    assert nothing_changed(group.rebalance())
