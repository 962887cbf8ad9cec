"""What the workers of a Connect cluster hold, as a status tells it: totals, and a bounded list of the expected workers."""

from __future__ import annotations

from ...api.resources import status as api
from ...api.schema import INT32_MAX, TIMEOUT_MS_MAX
from ..group import GroupView, KafkaProblem
from ..plan import Plan


def connect_status(plan: Plan, group: GroupView | KafkaProblem, previous: api.Connect | None) -> api.Connect | None:
    """Return what a round has to tell; the last word where nothing was read, or a rebalance hides it.

    Parameters
    ----------
    plan: of a StaticGroup with role Connect. previous: as the status tells it so far.
    """
    load, table = plan.load, plan.table
    if load is None or table is None:
        return None if isinstance(group, GroupView) and not group.members else previous
    held = ((seat.key, holder.worker) for seat in table.wanted for holder in seat.holders[:1])
    workers = [
        api.ConnectWorker(instance_id=key, connectors=w.connectors, tasks=w.tasks)
        for key, w in held
        if w is not None and w.connectors is not None and w.tasks is not None
    ]
    return api.Connect(
        connectors=min(load.connectors, INT32_MAX),
        tasks=min(load.tasks, INT32_MAX),
        unknown=load.unknown,
        rebalance_delay_ms=min(load.delay_ms, TIMEOUT_MS_MAX),
        waiting=None if load.waiting is None else min(load.waiting, INT32_MAX),
        workers=workers[: api.CONNECT_WORKERS_MAX],
    )
