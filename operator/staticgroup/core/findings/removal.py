"""Whether departed members are gone, and if not, what their removal waits for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...api.reasons import ConditionStatus, ConditionType, Reason
from ...api.resources.staticgroup import RemovalPolicy, StaticGroupSpec
from ..group import LeaveOutcome
from ..guards import Guard
from ..outcomes import Executed
from ..plan import Plan
from ..snapshot import Snapshot
from . import Finding, ended
from .workload import TOO_LARGE, UNREAD

_KIND = ConditionType.REMOVAL_SETTLED
_RACE_OUTCOMES: Final = frozenset({LeaveOutcome.FENCED, LeaveOutcome.UNKNOWN})
"""Answers by which the compare-and-set tells that the group changed meanwhile; the next round describes it again."""
_REASONS: Final = {
    Guard.POD_PRESENT: Reason.END_NOT_SEEN,
    Guard.SUSPECT: Reason.END_NOT_SEEN,
    Guard.UNATTRIBUTED: Reason.END_NOT_SEEN,
    Guard.JOINED_BEFORE_WATCH: Reason.END_NOT_SEEN,
    Guard.UNSCOPED: Reason.UNSCOPED_IDS,
    Guard.POLICY_NEVER: Reason.REMOVAL_OFF,
    Guard.SUSPENDED: Reason.REMOVAL_OFF,
}


def removal_settled(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan, executed: Executed) -> Finding:
    """Say whether no departed member is left."""
    if plan.table is None:
        sentence = TOO_LARGE if plan.too_large else "The members cannot be listed: see Connected and Authorized."
        sentence = UNREAD if snapshot.workload_problem else sentence
        return Finding(kind=_KIND, reason=Reason.MEMBERSHIP_UNKNOWN, status=ConditionStatus.UNKNOWN, sentence=sentence)
    refused = [o for o in executed.outcomes if o is not LeaveOutcome.REMOVED and o not in _RACE_OUTCOMES]
    if executed.problem is not None or refused:
        cause = executed.problem.message if executed.problem else f"the coordinator answered {refused[0].value}"
        sentence = f"A removal did not succeed: {cause}. It is decided afresh."
        return Finding(kind=_KIND, reason=Reason.REMOVAL_REFUSED, sentence=sentence)
    if executed.observe_only and plan.actions:
        count = sum(len(a.removals) for a in plan.actions)
        return Finding(
            kind=_KIND,
            reason=Reason.REMOVAL_OFF,
            sentence=f"{count} departed members would be removed now, but the operator may only observe.",
            remedy="Set spec.mode to Manage (or lift the operator's forced Observe).",
        )
    lasting = [finding for finding in plan.held if not finding.is_transient]
    return _kept(spec, lasting) if lasting else _in_progress(plan, executed) or _settled(plan)


def _kept(spec: StaticGroupSpec, held: Sequence[Finding]) -> Finding:
    """Say which guard holds the first departed member; the exceptions list every one of them."""
    first = held[0]
    reason = _REASONS.get(Guard(first.reason), Reason.REMOVAL_HELD)
    if spec.removal.policy is RemovalPolicy.NEVER:
        reason = Reason.REMOVAL_OFF
    text = f"{len(held)} departed members are kept; {first.subject.instance_id} ({first.reason}): {first.text}"
    return Finding(kind=_KIND, reason=reason, sentence=ended(text))


def _in_progress(plan: Plan, executed: Executed) -> Finding | None:
    """Say what a removal waits for that comes by itself; None when nothing is under way."""
    pending = sum(r.settled_at_s is None for r in plan.history.removals)
    if plan.held:
        first = plan.held[0]
        text = f"{len(plan.held)} departed members leave soon; {first.subject.instance_id} ({first.reason}): {first.text}"
    elif plan.actions and not executed.removed:
        text = "A departed member is about to be removed: the group is read once more first. Nothing to do."
    elif pending:
        text = f"{pending} removals are acknowledged and not yet seen to last. Nothing to do."
    else:
        return None
    return Finding(kind=_KIND, reason=Reason.REMOVAL_IN_PROGRESS, sentence=ended(text), is_transient=True)


def _settled(plan: Plan) -> Finding:
    """Say that no departed member is left."""
    count = len(plan.history.removals)
    sentence = f"{count} departed members were removed, and it was seen that they are gone."
    return Finding(
        kind=_KIND,
        reason=Reason.REMOVED if count else Reason.NOTHING_TO_REMOVE,
        status=ConditionStatus.TRUE,
        sentence=sentence if count else "No departed member is in the group.",
    )
