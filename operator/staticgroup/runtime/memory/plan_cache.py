"""Skip planning when spec, snapshot and history are unchanged.

`core.plan.plan` is a function of these three and of the time. The group of a StaticGroup in which nothing happens is described every
half minute and is the same for days: then neither the plan nor the status can change, but for what depends on an age. So it is planned
again every few minutes, and at once when anything was marked as changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...api.resources.staticgroup import StaticGroupSpec
from ...api.workloads import STATEFUL_SET
from ...core.group import GroupView, KafkaProblem, KafkaProblemKind
from ...core.plan import ACTIVE_REQUEUE_S, STEADY_REQUEUE_S, Plan
from ...core.seats import SAME_MEMBER_READY_S
from ...core.snapshot import History, Snapshot

REPLAN_S = 300.0
"""An unchanged StaticGroup is planned again after so long: absences grow old, and what nobody needs any more is forgotten."""
REPLAN_AWAY_S = 30.0
"""So is one of which a member is away; its return is in the description, and is planned at once."""
_NO_GROUP = KafkaProblem(kind=KafkaProblemKind.COORDINATOR_UNAVAILABLE, message="")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """What one round plans from.

    Parameters
    ----------
    snapshot: without its members and pods, and without the times that pass.
    members, pods: hashes of the described group, and of the pods, also of those of other names; to keep them would take much more.
    shares_group_or_ids: other StaticGroups of the same Kafka group, or pods of other names that matter, were there.
    history: of which the plan is made. change_count: of the memory, before the round began.
    """

    spec: StaticGroupSpec
    snapshot: Snapshot
    members: int
    pods: int
    shares_group_or_ids: bool
    history: History
    change_count: int

    @classmethod
    def of(cls, spec: StaticGroupSpec, snapshot: Snapshot, history: History, *, change_count: int) -> PlanInputs:
        """Take them from what was observed."""
        s = snapshot
        rivals = (s.overlaps, s.same_scope, s.prior_claims, s.collisions, s.unheard, s.asked_by_others_ms)
        sight = s.sight and replace(s.sight, described_at_s=0.0, dated_at_s=0.0, ends=0)
        return cls(
            spec=spec,
            snapshot=replace(s, described_at_s=0.0, age_s=0.0, group=_NO_GROUP, pods=(), known=(), others=(), copies=(), evidence={}, sight=None),
            members=hash(s.group),
            pods=hash((s.pods, s.known, s.others, s.copies, tuple(s.evidence.items()), repr(sight))),
            shares_group_or_ids=any((*rivals, s.others, s.copies, s.carried_elsewhere)),
            history=history,
            change_count=change_count,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPlan:
    """The inputs of a complete round that changed nothing, and until when a round with the same need not plan.

    Parameters
    ----------
    until_s: from then on a round plans in any case; monotonic seconds.
    """

    inputs: PlanInputs
    until_s: float
    requeue_after_s: float


def cached_plan(inputs: PlanInputs, snapshot: Snapshot, decided: Plan, *, began_s: float, before: CachedPlan | None) -> CachedPlan:
    """Return what is kept of a complete round that changed nothing.

    Parameters
    ----------
    began_s: before the round observed anything; monotonic seconds.
    before: of the round before, if that too changed nothing. Only the second round with the same inputs allows skipping: it is the
        first that may have begun after all that they show (`core.absences.measure`).
    """
    is_same = before is not None and before.inputs == inputs
    holds_for_s = min(_holds_for_s(inputs.spec, snapshot, decided), _ready_long_enough_after_s(snapshot)) if is_same else 0.0
    return CachedPlan(inputs=inputs, until_s=began_s + holds_for_s, requeue_after_s=decided.requeue_after_s)


def _holds_for_s(spec: StaticGroupSpec, snapshot: Snapshot, decided: Plan) -> float:
    """Return for how long the same inputs give the same plan."""
    is_settled = isinstance(snapshot.group, GroupView) and snapshot.group.is_settled
    is_waited_for = any(f.requeue_after_s is not None for f in (*decided.held, *decided.locked_out))
    # Workloads of other kinds are not watched: each round reads them, and that may change the plan.
    if not is_settled or is_waited_for or spec.workload_ref.kind != STATEFUL_SET.kind:
        return 0.0
    # A member is said to be locked out for as long as its session may last, and no event shows the end of that.
    if decided.requeue_after_s >= STEADY_REQUEUE_S and not decided.locked_out:
        return REPLAN_S
    return REPLAN_AWAY_S if decided.requeue_after_s >= ACTIVE_REQUEUE_S else 0.0


def _ready_long_enough_after_s(snapshot: Snapshot) -> float:
    """Return how long it is until a pod has been Ready for long enough that its member is noted beside it, of which no event tells."""
    ready_s = (p.ready_since_s + SAME_MEMBER_READY_S for p in snapshot.pods if p.ready_since_s is not None)
    return min((s - snapshot.described_at_s for s in ready_s if s > snapshot.described_at_s), default=math.inf)
