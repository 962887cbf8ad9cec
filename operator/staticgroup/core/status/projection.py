"""From what was decided to what users read: the status as a pure projection of one round.

Nothing is decided here. The durable parts of the memory (injected, issued, settling, members) are written by
`memory`, the sentences by `conditions_of`; this module puts the whole together and keeps every list bounded.
"""

from __future__ import annotations

from datetime import datetime

from ...api.protocols import GroupProtocol
from ...api.reasons import ConditionType
from ...api.resources import status as api
from ...api.resources.conditions import Condition, set_condition
from ...api.resources.staticgroup import StaticGroupSpec
from ...api.roles import RoleChoice
from ...api.schema import INT32_MAX
from ..findings.seats import findings_of_seats
from ..group import GroupView, KafkaProblem
from ..guards import Guard
from ..outcomes import Executed
from ..plan import Plan
from ..protocols import told_as
from ..seats import Standing
from ..snapshot import Snapshot
from ..timeouts.desired import moment
from ..timeouts.in_force import TimeoutPlan
from .absences import wire_absences
from .connect import connect_status
from .exceptions import MESSAGE_MAX, exceptions_of
from .members import wire_members
from .memory import wire_injected, wire_issued, wire_settling
from .statements import conditions_of


def project(
    spec: StaticGroupSpec,
    snapshot: Snapshot,
    plan: Plan,
    executed: Executed,
    before: api.StaticGroupStatus | None,
    now: datetime,
) -> api.StaticGroupStatus:
    """Return the status that tells one round.

    Parameters
    ----------
    before: the status as it is; its timestamps are kept where nothing changed.
    now: aware time.

    Returns
    -------
    A complete status; equal to `before` when nothing but time has passed.
    """
    previous = before or api.StaticGroupStatus()
    stated = conditions_of(spec, snapshot, plan, executed, now)
    is_advised = any(c.type == ConditionType.RECOMMENDATION_CURRENT for c in stated)
    conditions: tuple[Condition, ...] = tuple(
        c for c in previous.conditions if is_advised or c.type != ConditionType.RECOMMENDATION_CURRENT
    )
    for condition in stated:
        conditions = set_condition(conditions, condition, now)
    order = [kind.value for kind in ConditionType]
    group = snapshot.group
    return api.StaticGroupStatus(
        observed_generation=snapshot.metadata_generation,
        static_group_uid=snapshot.uid,
        conditions=sorted(conditions, key=lambda c: order.index(c.type) if c.type in order else len(order)),
        protocol=_protocol(group, previous),
        group_state=group.state if isinstance(group, GroupView) else previous.group_state,
        columns=_columns(plan),
        injected=wire_injected(spec, plan.history.injected),
        issued=wire_issued(plan.history),
        members=_members(plan, previous),
        exceptions=exceptions_of(findings_of_seats(plan, snapshot), previous.exceptions, now),
        settling=wire_settling(plan.history),
        last_removal=_last_removal(executed, previous, now),
        timeout=_timeout(plan, previous),
        absences=wire_absences(plan.history),
        connect=connect_status(plan, group, previous.connect) if spec.role is RoleChoice.CONNECT else None,
        **wire_members(snapshot.namespace, plan.history.members),
        writer=previous.writer,
    )


def _protocol(group: GroupView | KafkaProblem, previous: api.StaticGroupStatus) -> GroupProtocol:
    """Report the protocol the group has; an empty or unreadable group keeps the last one seen."""
    return told_as(group) or previous.protocol or GroupProtocol.UNKNOWN


def _columns(plan: Plan) -> api.Columns:
    table, timeout = plan.table, plan.timeout
    members = f"{len(table.of(Standing.JOINED))}/{len(table.wanted)}" if table is not None else None
    return api.Columns(members=members, timeout=_in_short(timeout) if timeout is not None else None)


def _in_short(t: TimeoutPlan) -> str | None:
    """Return what holds and what the next pods get, such as 125s, 125s→300s or ?→125s; None when neither is known.

    Notes
    -----
    With an arrow only where they differ. Of pods that differ among themselves those are named that have not yet what the
    next ones get.
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


def _members(plan: Plan, previous: api.StaticGroupStatus) -> api.Members | None:
    """Count; an unreadable group keeps the last counts, the conditions say that they are old."""
    table = plan.table
    if table is None:
        return previous.members
    conflicting = len(table.duplicates) + sum(h.reason == Guard.CONFLICT for h in plan.held)
    return api.Members(
        expected=len(table.wanted),
        joined=len(table.of(Standing.JOINED)),
        away=len(table.of(Standing.AWAY, Standing.OVERDUE, Standing.WITHOUT_POD)),
        missing=len(table.of(Standing.MISSING, Standing.LOCKED_OUT)),
        departed=sum(len(seat.holders) for seat in table.departed),
        foreign=len(table.foreign),
        dynamic=len(table.dynamic),
        conflicting=conflicting,
    )


def _last_removal(executed: Executed, previous: api.StaticGroupStatus, now: datetime) -> api.LastRemoval | None:
    if not executed.removed:
        return previous.last_removal
    first = executed.removed[0]
    return api.LastRemoval(
        at=now,
        instance_id=first.entry.instance_id,
        member_id=first.entry.member_id[:300],
        evidence=first.evidence[:MESSAGE_MAX],
        reason=first.entry.reason[:MESSAGE_MAX],
        count=len(executed.removed),
    )


def _timeout(plan: Plan, previous: api.StaticGroupStatus) -> api.Timeout | None:
    t, before = plan.timeout, previous.timeout
    if t is None:
        return before
    own_ms = t.chosen_ms if t.is_of_group else None
    if t.protocol is None and before is not None:  # others rely on it, and there may be members again
        own_ms = before.own_ms
    recommended, samples = _recommended(t, before)
    return api.Timeout(
        effective_ms=t.in_force.shortest_ms,
        effective_max_ms=t.in_force.longest_ms,
        next_ms=t.next_ms,
        own_ms=own_ms,
        written_ms=plan.history.group_config.written_ms,
        unknown_pods=min(t.in_force.unknown, INT32_MAX),
        recommended=recommended,
        samples=samples,
        source=t.desired.source,
        basis=t.desired.basis.value,
        why=t.desired.why[:MESSAGE_MAX] or None,
        broker_min_ms=t.brokers.min_ms,
        broker_max_ms=t.brokers.max_ms,
    )


def _recommended(t: TimeoutPlan, before: api.Timeout | None) -> tuple[api.Recommended, int]:
    """Report what is recommended, and from how many restarts; the fleet's stays while nothing newer can be read."""
    advice, desired = t.desired.advice, t.desired
    record = advice.record if advice is not None else None
    if advice is not None and record is not None and advice.recommended_ms is not None:
        target_ms = advice.recommended_ms
        return api.Recommended(
            lower_ms=target_ms if record.lower_ms is None else record.lower_ms,
            target_ms=target_ms,
            upper_ms=target_ms if record.upper_ms is None else record.upper_ms,
            uncapped_ms=target_ms if record.uncapped_ms is None else record.uncapped_ms,
            source=api.RecommendationSource.FLEET,
            valid_until=moment(advice.valid_until_ms),
            reasons=[reason.value for reason in record.reasons[: api.RECOMMENDATION_REASONS_MAX]],
        ), min(record.evidence.stops, INT32_MAX)
    kept = before.recommended if before is not None else None
    if advice is not None and record is None and kept is not None and kept.source is api.RecommendationSource.FLEET:
        return kept, before.samples if before is not None else 0
    return api.Recommended(
        lower_ms=desired.need_ms if desired.is_measured else desired.structural_ms,
        target_ms=t.chosen_ms,
        upper_ms=desired.target_ms,
        uncapped_ms=desired.target_ms,
    ), desired.samples if desired.is_measured else 0
