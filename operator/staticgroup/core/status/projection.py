"""The status of one round, as a pure projection of what was decided: its conditions, its issues, its counts.

`Ready` sums the other conditions up and carries the reason and message of the first that is not True, so that the one
line a user reads is the one to act on. What passes by itself (a pod restarts, a departed pod ends, a removal settles)
has its own condition and leaves `Ready` True: a rolling restart that goes well must not page anybody.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from ...api import remedies
from ...api.protocols import GroupProtocol, RoleChoice
from ...api.reasons import ConditionStatus, ConditionType, Reason
from ...api.resources import status as api
from ...api.resources.memory import StatusMemory, TimeoutMemory
from ...api.resources.staticgroup import Mode, StaticGroupSpec
from ...api.schema import INT32_MAX, TIMEOUT_MS_MAX, Condition
from ..findings import MESSAGE_MAX, Finding, conditions_of, issues_of
from ..findings.issues import findings_of_seats
from ..findings.kafka import authorized, connected, consuming, rolls_quietly
from ..findings.members import membership_complete, removal_settled
from ..findings.slots import wire_slots
from ..findings.workload import collided, ids_injected, recommendation_current, timeout_sufficient, workload_found
from ..group import GroupView, KafkaProblem
from ..guards import Guard
from ..outcomes import Executed
from ..plan import Plan
from ..protocols import protocol_of
from ..seats import Standing
from ..snapshot import Snapshot
from ..timeouts.in_force import TimeoutPlan
from .memory import wire_history, wire_injected

_T = ConditionType
_ORDER: Final = {kind.value: place for place, kind in enumerate(ConditionType)}
_SUMMED_UP: Final = (
    _T.WORKLOAD_FOUND, _T.CONNECTED, _T.AUTHORIZED, _T.INJECTED, _T.MEMBERSHIP_COMPLETE, _T.CONSUMING,
    _T.REMOVAL_SETTLED,
)
"""Conditions that make the whole not Ready, in the order in which a user should read them."""
_SUMMED_UP_WHEN_OBSERVING: Final = (_T.WORKLOAD_FOUND, _T.CONNECTED, _T.AUTHORIZED)
"""In mode Observe nothing is injected or removed, so only what keeps the operator from observing counts."""


def project(
    spec: StaticGroupSpec,
    snapshot: Snapshot,
    plan: Plan,
    executed: Executed,
    before: api.StaticGroupStatus | None,
    now: datetime,
    *,
    docs_url: str = "",
) -> api.StaticGroupStatus:
    """Return the status of one round.

    Parameters
    ----------
    before: the status as it is; its timestamps are kept where nothing changed.
    now: aware time.
    docs_url: where the site of docs/ is read, for the messages; "" for nowhere.

    Returns
    -------
    A complete status; equal to `before` when nothing but time has passed.
    """
    previous, group = before or api.StaticGroupStatus(), snapshot.group
    found = findings_of_round(spec, snapshot, plan, executed)
    is_advised = any(finding.kind is _T.RECOMMENDATION_CURRENT for finding in found)
    # The condition of a recommendation stays only while recommendations are read.
    kept = [c for c in previous.conditions if is_advised or c.type != _T.RECOMMENDATION_CURRENT]
    generation = snapshot.metadata_generation
    conditions = conditions_of(found, kept, observed_generation=generation, now=now, docs_url=docs_url)
    return api.StaticGroupStatus(
        observed_generation=generation,
        conditions=sorted(conditions, key=lambda c: _ORDER.get(c.type, len(_ORDER))),
        # An empty or unreadable group keeps the last one.
        protocol=protocol_of(group).reported_as or previous.protocol or GroupProtocol.UNKNOWN,
        group_state=group.state if isinstance(group, GroupView) else previous.group_state,
        members=_members(plan, previous),
        issues=issues_of(findings_of_seats(spec, plan, snapshot), previous.issues, now),
        last_removal=_last_removal(executed, previous, now),
        session_timeout=_session_timeout(plan, previous),
        connect=_connect(plan, group, previous.connect) if spec.role is RoleChoice.CONNECT else None,
        injected=wire_injected(spec, plan.history.injected),
        slots=wire_slots(snapshot, plan) if spec.workload_ref.known_kind.has_slots else None,
        memory=StatusMemory(
            static_group_uid=snapshot.uid,
            timeout=_remembered_timeout(plan, previous.memory.timeout),
            writer=previous.memory.writer,
            **wire_history(snapshot.namespace, plan.history),
        ),
    )


def findings_of_round(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan, executed: Executed) -> tuple[Finding, ...]:
    """Return one finding for each condition, Ready first; RecommendationCurrent only while recommendations are read."""
    parts = (
        workload_found(spec, snapshot, plan),
        connected(snapshot, executed),
        authorized(snapshot, executed),
        ids_injected(spec, snapshot, plan),
        membership_complete(spec, snapshot, plan),
        consuming(snapshot, plan),
        timeout_sufficient(snapshot, plan),
        rolls_quietly(snapshot, plan),
        removal_settled(snapshot, plan, executed),
        *recommendation_current(plan),
    )
    return (_ready(spec, snapshot, parts), *parts)


def suspended_conditions(
    before: Sequence[Condition], observed_generation: int, now: datetime, *, docs_url: str
) -> list[Condition]:
    """Return the conditions of a suspended StaticGroup, of which what was true may be so no more; others' are kept."""
    sentence = "Nothing is done because spec.mode is Suspended."
    found = [Finding(kind=_T.READY, reason=Reason.SUSPENDED, sentence=sentence, remedy="Set it to Manage to go on.")]
    sentence = "Not checked while spec.mode is Suspended."
    for kind in (kind for kind in _T if kind is not _T.READY and any(c.type == kind for c in before)):
        found.append(Finding(kind=kind, reason=Reason.NOT_OBSERVED_YET, sentence=sentence))
    return list(conditions_of(found, before, observed_generation=observed_generation, now=now, docs_url=docs_url))


def _ready(spec: StaticGroupSpec, snapshot: Snapshot, parts: Sequence[Finding]) -> Finding:
    shared = _shared_ids(snapshot)
    if shared is not None:
        return shared
    by_kind = {part.kind: part for part in parts}
    is_observing = spec.mode is Mode.OBSERVE
    kinds = _SUMMED_UP_WHEN_OBSERVING if is_observing else _SUMMED_UP
    pending = [by_kind[kind] for kind in kinds if by_kind[kind].status is not ConditionStatus.TRUE]
    lasting = next((part for part in pending if not part.is_transient), None)
    if lasting is not None:
        return replace(lasting, kind=_T.READY, sentence=f"{lasting.kind}: {lasting.sentence}")
    if is_observing:
        return Finding(
            kind=_T.READY,
            reason=Reason.OBSERVING,
            sentence="Observed only: nothing is injected or removed.",
            remedy=f"To act, {remedies.MANAGE}.",
        )
    text = "Everything the spec asks for is in place."
    if pending:
        text = f"In progress, nothing to do yet. {pending[0].kind}: {pending[0].text}"
    return Finding(kind=_T.READY, reason=Reason.RECONCILED, sentence=text)


def _shared_ids(snapshot: Snapshot) -> Finding | None:
    """Say that another StaticGroup may issue the same ids, or writes the same pods; None where none does."""
    silence = ""
    if snapshot.prior_claims:
        why = " and ".join(snapshot.prior_claims)
        silence = f" Until then new pods of this one get no id, because {why}; pods that run keep theirs."
    if snapshot.overlaps:
        return Finding(
            kind=_T.READY,
            reason=Reason.CONFLICTING_STATIC_GROUPS,
            sentence=f"StaticGroup {', '.join(snapshot.overlaps)} may issue the same ids of this group (by its present "
            "or an earlier id template); neither removes members until the template of one of them is changed, its "
            f"pods are restarted with the new ids, and the members of the old ids are gone.{silence}",
        )
    return collided(_T.READY, snapshot.collisions[0]) if snapshot.collisions else None


def _in_short(t: TimeoutPlan) -> str | None:
    """Return what holds and what the next pods get, such as 125s, 125s→300s or ?→125s; None when neither is known.

    With an arrow only where they differ. Of pods that differ among themselves it names those without the next value.
    """
    held = sorted({t.in_force.shortest_ms, t.in_force.longest_ms} - {None, t.next_ms})  # type: ignore[type-var]
    others = "-".join(f"{value_ms / 1000:g}s" for value_ms in held if value_ms is not None)
    if t.in_force.unknown:
        others = "?" if t.next_ms is not None or others else ""
    if t.next_ms is None:
        return others or None
    if not others and t.in_force.shortest_ms is not None:
        return f"{t.next_ms / 1000:g}s"
    return f"{others}→{t.next_ms / 1000:g}s"


def _members(plan: Plan, previous: api.StaticGroupStatus) -> api.MembersStatus | None:
    """Count; an unreadable group keeps the last counts, the conditions say that they are old."""
    table = plan.table
    if table is None:
        return previous.members
    standing = Counter(seat.standing for seat in table.seats)
    return api.MembersStatus(
        expected=len(table.wanted),
        joined=standing[Standing.JOINED],
        away=standing[Standing.AWAY] + standing[Standing.OVERDUE] + standing[Standing.WITHOUT_POD],
        missing=standing[Standing.MISSING] + standing[Standing.LOCKED_OUT],
        departed=sum(len(seat.holders) for seat in table.seats if seat.standing is Standing.DEPARTED),
        foreign=len(table.foreign),
        dynamic=len(table.dynamic),
        conflicting=len(table.duplicates) + sum(h.reason == Guard.CONFLICT for h in plan.held),
    )


def _last_removal(executed: Executed, previous: api.StaticGroupStatus, now: datetime) -> api.LastRemoval | None:
    removed = executed.removed
    if not removed:
        return previous.last_removal
    first = removed[0]
    return api.LastRemoval(
        at=now,
        instance_id=first.entry.instance_id,
        member_id=first.entry.member_id[:300],
        evidence=first.evidence[:MESSAGE_MAX],
        reason=first.entry.reason[:MESSAGE_MAX],
        count=len(removed),
    )


def _connect(plan: Plan, group: GroupView | KafkaProblem, previous: api.Connect | None) -> api.Connect | None:
    """Say what the workers of a Connect cluster hold; as before where nothing was read, or a rebalance hides it."""
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
        rebalance_delay_seconds=_rounded_up(load.delay_ms),
        waiting=None if load.waiting is None else min(load.waiting, INT32_MAX),
        workers=workers[: api.CONNECT_WORKERS_MAX],
    )


def _session_timeout(plan: Plan, previous: api.StaticGroupStatus) -> api.SessionTimeoutStatus | None:
    t = plan.timeout
    if t is None:
        return previous.session_timeout
    shortest_ms, longest_ms, advice = t.in_force.shortest_ms, t.in_force.longest_ms, t.desired.advice
    recommended_ms = advice.recommended_ms if advice is not None else None
    if recommended_ms is None and t.desired.source is not api.TimeoutSource.FIXED:
        recommended_ms = t.chosen_ms
    return api.SessionTimeoutStatus(
        summary=_in_short(t),
        seconds=None if shortest_ms is None else shortest_ms // 1000,
        longest_seconds=None if longest_ms is None else _rounded_up(longest_ms),
        next_seconds=None if t.next_ms is None else t.next_ms // 1000,
        recommended_seconds=None if recommended_ms is None else _rounded_up(recommended_ms),
        unknown_pods=min(t.in_force.unknown, INT32_MAX),
        source=t.desired.source,
        why=t.desired.why[:MESSAGE_MAX] or None,
    )


def _remembered_timeout(plan: Plan, before: TimeoutMemory | None) -> TimeoutMemory | None:
    t = plan.timeout
    if t is None:
        return before
    own_ms = t.chosen_ms if t.is_of_group else None
    if t.protocol is None and before is not None:  # others rely on it, and there may be members again
        own_ms = before.own_ms
    return TimeoutMemory(own_ms=own_ms, written_ms=plan.history.group_config.written_ms, next_ms=t.next_ms)


def _rounded_up(value_ms: int) -> int:
    """Return seconds."""
    return -(-min(value_ms, TIMEOUT_MS_MAX) // 1000)
