"""The conditions of one round, each from one finding: what is so, why, and what to do.

`Ready` sums the others up and carries the reason and message of the first that is not True, so that the one line a user
reads is the one to act on. What passes by itself (a pod restarts, a departed pod ends, a removal settles) is told by its own
condition and leaves `Ready` True: a rolling restart that goes well must not page anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from ...api import remedies
from ...api.reasons import ConditionStatus, ConditionType, Reason
from ...api.resources.conditions import Condition, set_condition, stated
from ...api.resources.staticgroup import Mode, StaticGroupSpec
from ..findings import Finding
from ..findings.kafka import authorized, connected
from ..findings.membership import membership_complete
from ..findings.recommendation import recommendation_current
from ..findings.removal import removal_settled
from ..findings.workload import collided, ids_injected, timeout_sufficient, workload_found
from ..outcomes import Executed
from ..plan import Plan
from ..snapshot import Snapshot

_T = ConditionType
_SUMMED_UP: Final = (
    _T.WORKLOAD_FOUND, _T.CONNECTED, _T.AUTHORIZED, _T.INJECTED, _T.MEMBERSHIP_COMPLETE, _T.REMOVAL_SETTLED,
)
"""Conditions that make the whole not Ready, in the order in which a user should look at them."""
_SUMMED_UP_WHEN_OBSERVING: Final = (_T.WORKLOAD_FOUND, _T.CONNECTED, _T.AUTHORIZED)
"""In mode Observe nothing is injected or removed, so only what keeps the operator from looking counts."""


def findings_of_round(
    spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan, executed: Executed
) -> tuple[Finding, ...]:
    """Return one finding for each condition, Ready first; RecommendationCurrent only while recommendations are read."""
    parts = (
        workload_found(spec, snapshot, plan),
        connected(snapshot, executed),
        authorized(snapshot, executed),
        ids_injected(spec, snapshot, plan),
        membership_complete(spec, snapshot, plan),
        timeout_sufficient(plan),
        removal_settled(spec, snapshot, plan, executed),
        *recommendation_current(plan),
    )
    return (_ready(spec, snapshot, parts), *parts)


def conditions_of(
    spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan, executed: Executed, now: datetime
) -> tuple[Condition, ...]:
    """Return the condition of each finding of a round."""
    generation = snapshot.metadata_generation
    return tuple(_condition(finding, generation, now) for finding in findings_of_round(spec, snapshot, plan, executed))


def suspended_conditions(before: Sequence[Condition], observed_generation: int, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions of a suspended StaticGroup: nobody looks, so what was true before may be so no more.

    Parameters
    ----------
    before: as they stand; those of other writers are kept.
    """
    finding = Finding(
        kind=_T.READY,
        reason=Reason.SUSPENDED,
        sentence="Nothing is done because spec.suspend is true.",
        remedy="Set it to false to go on.",
    )
    unseen = (
        Finding(
            kind=kind,
            reason=Reason.NOT_OBSERVED_YET,
            status=ConditionStatus.UNKNOWN,
            sentence="Not looked at while spec.suspend is true.",
        )
        for kind in _T
        if kind is not _T.READY and any(c.type == kind for c in before)
    )
    conditions = tuple(before)
    for told in (finding, *unseen):
        conditions = set_condition(conditions, _condition(told, observed_generation, now), now)
    return conditions


def _condition(finding: Finding, observed_generation: int, now: datetime) -> Condition:
    return stated(
        ConditionType(finding.kind),
        Reason(finding.reason),
        status=finding.status,
        message=finding.text,
        observed_generation=observed_generation,
        now=now,
    )


def _silence(snapshot: Snapshot) -> str:
    """Say that the next pods get no id; nothing where the ids were this StaticGroup's first."""
    if not snapshot.prior_claims:
        return ""
    return f" Until then new pods of this one get no id, because {' and '.join(snapshot.prior_claims)}; pods that run keep theirs."


def _ready(spec: StaticGroupSpec, snapshot: Snapshot, parts: Sequence[Finding]) -> Finding:
    if snapshot.same_scope:
        return Finding(
            kind=_T.READY,
            reason=Reason.CONFLICTING_STATIC_GROUPS,
            sentence=f"StaticGroup {', '.join(snapshot.same_scope)} of this Kafka group has the same scope as this one, which is for one "
            f"StaticGroup alone; neither removes members.{_silence(snapshot)}",
            remedy=f"{remedies.DIVIDE_SCOPES[0].upper()}{remedies.DIVIDE_SCOPES[1:]}.",
        )
    if snapshot.overlaps:
        return Finding(
            kind=_T.READY,
            reason=Reason.CONFLICTING_STATIC_GROUPS,
            sentence=f"StaticGroup {', '.join(snapshot.overlaps)} may issue the same ids of this group (by its present or an "
            "earlier id template); neither removes members until the template of one of them is changed, its pods are restarted "
            f"with the new ids, and the members of the old ids are gone.{_silence(snapshot)}",
        )
    if snapshot.collisions:
        return collided(_T.READY, snapshot.collisions[0])
    by_kind = {part.kind: part for part in parts}
    is_observing = spec.mode is Mode.OBSERVE
    summed_up = (by_kind[kind] for kind in (_SUMMED_UP_WHEN_OBSERVING if is_observing else _SUMMED_UP))
    pending = [part for part in summed_up if part.status is not ConditionStatus.TRUE]
    for part in pending:
        if not part.is_transient:
            sentence = f"{part.kind} ({part.reason}): {part.sentence}"
            return Finding(
                kind=_T.READY, reason=Reason.DEGRADED, status=part.status, sentence=sentence, remedy=part.remedy
            )
    if is_observing:
        return Finding(
            kind=_T.READY,
            reason=Reason.OBSERVING,
            status=ConditionStatus.TRUE,
            sentence="Observed only: nothing is injected or removed, because mode is Observe here or in the operator's settings.",
            remedy="Set spec.mode to Manage to act.",
        )
    text = "Everything the spec asks for has been seen to be so."
    if pending:
        text = f"All is well, something is in progress. {pending[0].kind}: {pending[0].text}"
    return Finding(kind=_T.READY, reason=Reason.RECONCILED, status=ConditionStatus.TRUE, sentence=text)
