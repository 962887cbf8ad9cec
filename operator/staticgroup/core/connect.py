"""What the workers of a Kafka Connect cluster hold together, and what waits for a worker that was lost.

The group itself tells it, which is right also for a worker whose REST interface does not answer any more. How much waits it does
not tell: the leader keeps the work of a lost worker back for a while (scheduled.rebalance.max.delay.ms, KIP-415) without a word
about what it is, so what was held before is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass

from .group import GroupView, WorkerView


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectLoad:
    """What the workers of one group hold.

    Parameters
    ----------
    connectors, tasks: of all whose allocation is known, together. unknown: how many others there are.
    delay_ms: see `WorkerView`; the longest of them.
    waiting: how many connectors and tasks are kept back; None: not known.
    is_whole: all workers are static, and the group stores all work of each.
    """

    connectors: int
    tasks: int
    unknown: int
    delay_ms: int
    waiting: int | None
    is_whole: bool


def load_of(group: GroupView, work_before: int | None) -> ConnectLoad | None:
    """Return what the workers of a group hold.

    Parameters
    ----------
    work_before: `History.connect_work`.

    Returns
    -------
    None where no worker's allocation is known, as during a rebalance or of another group.
    """
    workers = [member.worker for member in group.members if member.worker is not None]
    known = [(w.connectors, w.tasks) for w in workers if w.connectors is not None and w.tasks is not None]
    if not known or len(workers) < len(group.members):
        return None
    connectors, tasks = sum(c for c, _ in known), sum(t for _, t in known)
    unknown, delay_ms = len(workers) - len(known), max(w.delay_ms for w in workers)
    waiting: int | None = None
    if not unknown:
        waiting = 0 if not delay_ms else None if work_before is None else max(0, work_before - connectors - tasks)
    return ConnectLoad(
        connectors=connectors,
        tasks=tasks,
        unknown=unknown,
        delay_ms=delay_ms,
        waiting=waiting,
        is_whole=all(m.instance_id is not None and _is_whole(m.worker) for m in group.members),
    )


def work_after(load: ConnectLoad | None, work_before: int | None) -> int | None:
    """Return `History.connect_work` after a reading: what is held counts while none of it is kept back."""
    if load is None or load.unknown or load.delay_ms:
        return work_before
    return load.connectors + load.tasks


def _is_whole(worker: WorkerView | None) -> bool:
    return worker is not None and worker.is_whole
