"""The three-phase reconciliation: no worker gets work that another has not stopped (item 67)."""

from __future__ import annotations

from dataclasses import replace

from coordinator_model.connect.work import NOTHING, ConnectorsAndTasks

from ..records import CurrentMemberAssignment


def acknowledge(current: CurrentMemberAssignment, owned: ConnectorsAndTasks | None) -> CurrentMemberAssignment:
    """End phase 1 when a worker reports that it runs nothing of what it had to stop.

    Parameters: owned is what the request says the worker runs; None says nothing, so it acknowledges nothing.
    Item 89: the draft has the worker acknowledge "in the heartbeat response"; it means the next request.
    """
    if owned is None or not current.revoking or owned.common(current.revoking):
        return current
    return replace(current, revoking=NOTHING)


def advance(
    current: CurrentMemberAssignment,
    target: ConnectorsAndTasks,
    target_epoch: int,
    target_error: int,
    held_by_others: ConnectorsAndTasks,
) -> CurrentMemberAssignment:
    """Move one worker towards its target by at most one phase; returns its new current assignment.

    1. While something is being stopped, nothing changes. What it has and the target does not name is to be stopped.
    2. With nothing to stop it gets what is free of the target.
    3. Once it has all of the target it is at the target's epoch.

    The draft moves the epoch in phase 2 and adds the other work "incrementally" in phase 3, yet lets an answer carry an
    assignment only while the worker's epoch is behind; its case study 86 keeps W2 behind until W1 has let go. Followed
    here: behind means incomplete, so an epoch is reached exactly when its assignment is. An assignment of which a
    worker gets nothing new is reached at once: that is how W2 comes to epoch 1, which never named it (item 89).
    """
    if current.revoking or current.member_epoch == target_epoch:
        return current
    surplus = current.assigned.minus(target)
    if surplus:
        return replace(current, assigned=current.assigned.common(target), revoking=surplus)
    assigned = current.assigned.plus(target.minus(held_by_others))
    if not assigned.same_as(target):
        return replace(current, assigned=assigned)
    return replace(
        current,
        member_epoch=target_epoch,
        previous_epoch=current.member_epoch,
        error=target_error,
        assigned=target,
    )
