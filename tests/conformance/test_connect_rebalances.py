"""Rows K01 to K09: how today's Connect distributes connectors and tasks as workers come and go.

They restate IncrementalCooperativeAssignorTest: the leader's assignor alone, fed with what the workers run.
"""

from __future__ import annotations

import pytest

from .connect_group import MAX_DELAY_MS, Group, nothing_assigned, nothing_changed, nothing_revoked


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
    outcome = group.rebalance()
    assert outcome.delay_ms == 0
    assert group.sizes() == ([0, 1], [0, 4])
    assert nothing_assigned(outcome)

    outcome = group.rebalance()
    assert outcome.delay_ms == 0
    assert nothing_revoked(outcome)
    assert group.sizes() == ([1, 1], [4, 4])
    group.assert_balanced_and_complete()

    outcome = group.rebalance()
    assert outcome.delay_ms == 0
    assert nothing_changed(outcome)


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
    outcome = group.rebalance()
    assert outcome.delay_ms == 40
    assert nothing_revoked(outcome)
    assert group.sizes() == ([0, 1, 2], [3, 3, 6])

    group.now_ms += 20
    group.join("worker4")
    outcome = group.rebalance()
    assert outcome.delay_ms == 20
    assert nothing_revoked(outcome)
    assert group.sizes() == ([0, 0, 1, 2], [0, 3, 3, 6])

    group.now_ms += 20
    group.join("worker5")
    assert group.rebalance().delay_ms == 0
    assert group.sizes() == ([0, 0, 0, 1, 1], [0, 0, 2, 3, 3])

    outcome = group.rebalance()
    assert outcome.delay_ms == 0
    assert nothing_revoked(outcome)
    assert group.sizes() == ([0, 0, 1, 1, 1], [2, 2, 2, 3, 3])
    group.assert_balanced_and_complete()


def test_K05_worker_leaves_permanently() -> None:
    """testTaskAssignmentWhenWorkerLeavesPermanently: its work waits out the whole delay, then goes to the survivor."""
    group = two_workers()
    group.leave("worker2")
    outcome = group.rebalance()
    assert outcome.delay_ms == 300_000
    assert nothing_changed(outcome)

    group.now_ms += 150_000
    outcome = group.rebalance()
    assert outcome.delay_ms == 150_000
    assert nothing_changed(outcome)

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
    outcome = group.rebalance()
    assert outcome.delay_ms == 75_000
    assert nothing_changed(outcome)

    group.now_ms += 75_000
    outcome = group.rebalance()
    assert outcome.delay_ms == 0
    assert nothing_revoked(outcome)
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
    outcome = group.rebalance()
    assert outcome.delay_ms == 0
    assert nothing_changed(outcome)


def test_K08_leader_bounces() -> None:
    """testTaskAssignmentWhenLeaderBounces: coming back it is a new worker; one round revokes, the next assigns."""
    group = three_workers()
    group.leave("worker1")
    group.new_leader()
    group.rebalance()
    assert group.sizes() == ([1, 1], [4, 4])

    group.join("worker1")
    outcome = group.rebalance()
    assert outcome.delay_ms == 0
    assert not nothing_revoked(outcome)
    assert group.sizes() == ([0, 1, 1], [0, 3, 3])

    outcome = group.rebalance()
    assert outcome.delay_ms == 0
    assert nothing_revoked(outcome)
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
    outcome = group.rebalance(delivered=False)
    assert outcome.delay_ms == 0
    assert not nothing_revoked(outcome)
    assert group.sizes() == ([0, 1, 1], [0, 4, 4])

    outcome = group.rebalance(missed_generation=missed_generation)
    assert outcome.delay_ms == 40
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
