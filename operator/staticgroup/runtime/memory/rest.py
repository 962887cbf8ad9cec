"""When a round needs to decide nothing, because it sees what the round before it saw.

`core.plan.plan` is a function of the spec, the picture, what is remembered, and the time. A group at rest is described every
half minute, and its picture is the same for days: then neither the plan nor the status can be others than they were, but for
what comes of age. That is looked for every few minutes, and at once when anything was told of the StaticGroup.
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

AT_REST_S = 300.0
"""A StaticGroup at rest is planned again after so long: absences grow old, and what nobody needs any more is forgotten."""
WAITING_S = 30.0
"""So is one of which somebody is away; a return is in the description, and decided on at the next look."""
_NO_GROUP = KafkaProblem(kind=KafkaProblemKind.COORDINATOR_UNAVAILABLE, message="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What one round has to decide on.

    Parameters
    ----------
    quiet: the snapshot without its members and pods, and without the times that pass: while an age decides, no round rests.
    members, pods: hashes of the described group, and of the pods, also of those of other names; to keep them would take much more.
    has_company: StaticGroups of the same Kafka group, or pods of other names that matter, were there.
    history: of which the plan is made. change_count: of the memory, before the round began.
    """

    spec: StaticGroupSpec
    quiet: Snapshot
    members: int
    pods: int
    has_company: bool
    history: History
    change_count: int

    @classmethod
    def of(cls, spec: StaticGroupSpec, snapshot: Snapshot, history: History, *, change_count: int) -> Picture:
        """Take it from what was observed."""
        s = snapshot
        rivals = (s.overlaps, s.same_scope, s.prior_claims, s.collisions, s.unheard, s.asked_by_others_ms)
        sight = s.sight and replace(s.sight, described_at_s=0.0, dated_at_s=0.0, ends=0)
        return cls(
            spec=spec,
            quiet=replace(s, described_at_s=0.0, age_s=0.0, group=_NO_GROUP, pods=(), known=(), others=(), copies=(), evidence={}, sight=None),
            members=hash(s.group),
            pods=hash((s.pods, s.known, s.others, s.copies, tuple(s.evidence.items()), repr(sight))),
            has_company=any((*rivals, s.others, s.copies, s.told_elsewhere)),
            history=history,
            change_count=change_count,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a whole round that changed nothing has seen, and until when a round that sees the same need not plan.

    Parameters
    ----------
    until_s: from then on a round plans, whatever it sees; monotonic seconds.
    """

    picture: Picture
    until_s: float
    requeue_after_s: float


def seen(picture: Picture, snapshot: Snapshot, decided: Plan, *, began_s: float, before: Seen | None) -> Seen:
    """Return what is to be kept of a whole round that has changed nothing.

    Parameters
    ----------
    began_s: before the round looked; monotonic seconds.
    before: of the round before, if that too has changed nothing. Only a second look at the same picture is enough: it is the
        first that may have begun after all that it shows (`core.absences.following`).
    """
    is_same = before is not None and before.picture == picture
    holds_for_s = min(_holds_for_s(picture.spec, snapshot, decided), _grown_after_s(snapshot)) if is_same else 0.0
    return Seen(picture=picture, until_s=began_s + holds_for_s, requeue_after_s=decided.requeue_after_s)


def _holds_for_s(spec: StaticGroupSpec, snapshot: Snapshot, decided: Plan) -> float:
    """Return for how long the same picture gives the same plan, where nobody tells of anything."""
    is_settled = isinstance(snapshot.group, GroupView) and snapshot.group.is_settled
    is_waited_for = any(f.requeue_after_s is not None for f in (*decided.held, *decided.locked_out))
    # no watch tells of workloads of other kinds: each round reads them, and may begin something by that
    if not is_settled or is_waited_for or spec.workload_ref.kind != STATEFUL_SET.kind:
        return 0.0
    # that a member may be locked out is told for as long as its session may last, and nobody tells when that is over
    if decided.requeue_after_s >= STEADY_REQUEUE_S and not decided.locked_out:
        return AT_REST_S
    return WAITING_S if decided.requeue_after_s >= ACTIVE_REQUEUE_S else 0.0


def _grown_after_s(snapshot: Snapshot) -> float:
    """Return how long it is until a pod has been Ready for long enough that its member is noted beside it, which nobody tells."""
    grown_s = (p.ready_since_s + SAME_MEMBER_READY_S for p in snapshot.pods if p.ready_since_s is not None)
    return min((s - snapshot.described_at_s for s in grown_s if s > snapshot.described_at_s), default=math.inf)
