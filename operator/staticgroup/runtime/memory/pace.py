"""When a round need not plan, and when a status is written: at once, in turn, a moment later, or again after a refusal.

A plan is a function of spec, snapshot, history and time, and an idle StaticGroup stays the same for days.

In a roll of thousands of pods each join changes a status. Writes that only show progress share a rate, so that the API
server gets at most two writes a second from this operator, renewals of the Lease included. The StaticGroups take turns,
and each writes what is true at its turn. While one waits, the position of the pod watch that the Lease keeps waits too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Final

from ...api.remedies import APPLY_CRDS
from ...api.resources.memory import StatusMemory
from ...api.resources.staticgroup import StaticGroupSpec
from ...api.resources.status import StaticGroupStatus
from ...api.workloads import STATEFUL_SET
from ...core.group import GroupView, KafkaProblem, KafkaProblemKind
from ...core.plan import ACTIVE_REQUEUE_S, STEADY_REQUEUE_S, Plan
from ...core.seats import SAME_MEMBER_READY_S
from ...core.snapshot import History, Snapshot
from ...kube.problem import KubeProblem, KubeProblemKind
from ..work_queue import Key

WRITES_PER_S: Final = 1.3
"""With a renewal of the Lease every 2 s fewer than two writes a second."""
BURST: Final = 20
"""Statuses that are written at once before any waits."""
WAIT_MAX_S: Final = 20.0
"""Longest wait, however many there are: 26 StaticGroups are written at the rate, more of them faster than it."""
EDITS_PACE_S: Final = 0.3
"""Between two writes of one status in which only edits of its spec are new. A write costs an API server ten times as
much as the round that led to it, and one that an edit overtakes is for nothing."""
RETRY_FIRST_S: Final = 1.0
RETRY_MAX_S: Final = 45.0
"""A minute less the longest wait for a turn: who upgrades the CRDs sees the end of a refusal within a minute."""

_PROGRESS: Final = frozenset({"conditions", "group_state", "issues", "members", "slots"})
"""Fields of a status that show progress. All others are read by the admission policy, the next process, or somebody who
waits for an edit to be observed."""

REMEDIES: Final = {
    KubeProblemKind.UNDECLARED: f"the CRD is older than this operator and lacks a field of the status; {APPLY_CRDS}",
    KubeProblemKind.INVALID: (
        "the status holds a value, such as a protocol of groups, or a length that the CRD does not allow, as when the "
        f"CRD is older than this operator; {APPLY_CRDS}; when they are of the same version, it is a fault "
        "of the operator"
    ),
    KubeProblemKind.FORBIDDEN: (
        "the operator's right is missing; grant patch on staticgroups/status (API group staticgroup.io) to its service "
        "account, as the chart's roles do (rbac.create)"
    ),
    KubeProblemKind.TOO_LARGE: (
        "the object with this status is larger than the API server stores; take large annotations off it, or split the "
        "workload over several StatefulSets"
    ),
}
"""What to do about each refusal; a kind that is not in here is none."""


def can_wait(before: StaticGroupStatus | None, after: StaticGroupStatus) -> bool:
    """Return True when only such fields of a status are new as change with every pod.

    Parameters
    ----------
    before: as it was written last; None when it never was.
    """
    if before is None or _ready(before) != _ready(after):
        return False
    if _next_timeout(before) != _next_timeout(after):
        return False
    if _lasting(before.memory) != _lasting(after.memory):
        return False
    fields = StaticGroupStatus.model_fields.keys() - _PROGRESS - {"session_timeout", "memory"}
    return all(getattr(before, name) == getattr(after, name) for name in fields)


def shows_only_edits(before: StaticGroupStatus | None, after: StaticGroupStatus) -> bool:
    """Return True when a status shows that an edit of the spec was observed, and nothing else that cannot wait."""
    if before is None or before.observed_generation == after.observed_generation:
        return False
    return can_wait(before.model_copy(update={"observed_generation": after.observed_generation}), after)


def _next_timeout(status: StaticGroupStatus) -> object:
    """Return the session timeout but for what the live pods hold, which changes with every pod."""
    of_pods = {"summary": None, "seconds": None, "longest_seconds": None, "unknown_pods": 0, "why": None}
    return status.session_timeout.model_copy(update=of_pods) if status.session_timeout is not None else None


def _lasting(memory: StatusMemory) -> StatusMemory:
    """Return what is remembered but for what changes with every pod."""
    return memory.model_copy(update={"absences": None, "seal": None, "seats": [], "suspects": []})


def _ready(status: StaticGroupStatus) -> str:
    return next((c.status.value for c in status.conditions if c.type == "Ready"), "")


@dataclass(slots=True)
class Pace:
    """Give turns to write, at WRITES_PER_S after a BURST; all times are monotonic seconds."""

    _next_s: float = float("-inf")
    _turns: dict[Key, float] = field(default_factory=dict)

    def turn(self, key: Key, now_s: float) -> float:
        """Return when a StaticGroup may write.

        Returns
        -------
        A time that has come, and then the turn is over; or a later one, which it has from now on.
        """
        due_s = self._turns.pop(key, None)
        if due_s is None:
            due_s = self._count(now_s)
        if due_s > now_s:
            self._turns[key] = due_s
        return due_s

    def take(self, key: Key, now_s: float) -> None:
        """Count a write that cannot wait; it stands for the turn that the StaticGroup may have."""
        if self._turns.pop(key, None) is None:
            self._count(now_s)

    def forget(self, key: Key) -> None:
        """Drop the turn of a StaticGroup that is gone."""
        self._turns.pop(key, None)

    def _count(self, now_s: float) -> float:
        """Count one write and return when the rate allows it, at most WAIT_MAX_S from now."""
        earliest_s = now_s - (BURST + 0.5) / WRITES_PER_S  # half a write more than are counted, for the rounding
        self._next_s = min(max(self._next_s, earliest_s) + 1 / WRITES_PER_S, now_s + WAIT_MAX_S)
        return max(now_s, self._next_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRefusal:
    """A status that was refused and is still to be written.

    Parameters
    ----------
    problem: the answer; its kind is in REMEDIES.
    tries: refusals in a row, 1 or more.
    retry_at_s: when it is sent again, monotonic seconds.
    """

    problem: KubeProblem
    tries: int
    retry_at_s: float

    @property
    def text(self) -> str:
        """What happened and what to do, for people."""
        return (
            f"{self.problem.message}. Until this is mended, nothing of this StaticGroup is remembered over a restart, "
            f"and its conditions are those of before: {REMEDIES[self.problem.kind]}"
        )


def refused(problem: KubeProblem, before: StatusRefusal | None, now_s: float) -> StatusRefusal | None:
    """Return the refusal that an answer to the write of a status is.

    Parameters
    ----------
    before: the refusal that this try followed; None for the first. now_s: monotonic seconds.

    Returns
    -------
    None when the answer needs no person: the API server is away, or somebody else wrote.
    """
    if problem.kind not in REMEDIES:
        return None
    tries = before.tries + 1 if before is not None else 1
    return StatusRefusal(
        problem=problem, tries=tries, retry_at_s=now_s + min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(tries - 1, 16))
    )


REPLAN_S = 300.0
"""An unchanged StaticGroup is planned again after so long: absences age, and what nobody needs is forgotten."""
REPLAN_AWAY_S = 30.0
"""So is one of which a member is away; its return is in the description, and is planned at once."""
_NO_GROUP = KafkaProblem(kind=KafkaProblemKind.COORDINATOR_UNAVAILABLE, message="")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInputs:
    """What one round plans from.

    Parameters
    ----------
    snapshot: without its members and pods, and without the times that pass.
    members, pods: hashes of the described group, and of all pods of the snapshot, which would take much more memory.
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
        rivals = (s.overlaps, s.prior_claims, s.collisions, s.unheard, s.asked_by_others_ms)
        sight = s.sight and replace(s.sight, described_at_s=0.0, took_s=0.0, dated_at_s=0.0, ends=0)
        shown = replace(s, group=_NO_GROUP, pods=(), known=(), others=(), copies=(), evidence={}, sight=None)
        return cls(
            spec=spec,
            snapshot=replace(shown, described_at_s=0.0, age_s=0.0),
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


def cached_plan(
    inputs: PlanInputs, snapshot: Snapshot, decided: Plan, *, began_s: float, before: CachedPlan | None
) -> CachedPlan:
    """Return what is kept of a complete round that changed nothing.

    Parameters
    ----------
    began_s: before the round observed anything; monotonic seconds.
    before: of the round before, if that changed nothing either. Only the second round with the same inputs allows
        skipping: it is the first that may have begun after all that they show (`core.absences.measure`).
    """
    is_same = before is not None and before.inputs == inputs
    holds_for_s = min(_holds_for_s(inputs.spec, snapshot, decided), _noted_ready_after_s(snapshot)) if is_same else 0.0
    return CachedPlan(inputs=inputs, until_s=began_s + holds_for_s, requeue_after_s=decided.requeue_after_s)


def _holds_for_s(spec: StaticGroupSpec, snapshot: Snapshot, decided: Plan) -> float:
    """Return for how long the same inputs give the same plan."""
    is_settled = isinstance(snapshot.group, GroupView) and snapshot.group.is_settled
    is_waited_for = any(f.requeue_after_s is not None for f in (*decided.held, *decided.locked_out))
    # Workloads of other kinds are not watched: each round reads them, and that may change the plan.
    if not is_settled or is_waited_for or spec.workload_ref.known_kind is not STATEFUL_SET:
        return 0.0
    # A member is said to be locked out for as long as its session may last, and no event shows the end of that.
    if decided.requeue_after_s >= STEADY_REQUEUE_S and not decided.locked_out:
        return REPLAN_S
    return REPLAN_AWAY_S if decided.requeue_after_s >= ACTIVE_REQUEUE_S else 0.0


def _noted_ready_after_s(snapshot: Snapshot) -> float:
    """Return the seconds until a pod was Ready for long enough to note its member beside it; no event tells of it."""
    ready_s = (p.ready_since_s + SAME_MEMBER_READY_S for p in snapshot.pods if p.ready_since_s is not None)
    return min((s - snapshot.described_at_s for s in ready_s if s > snapshot.described_at_s), default=math.inf)
