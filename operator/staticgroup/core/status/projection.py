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
from ..next_pods.advice import moment
from ..next_pods.timeouts import TimeoutPlan, in_short
from ..outcomes import Executed
from ..plan import Plan
from ..protocols import told_as
from ..seats import Standing
from ..snapshot import Snapshot
from .absences import wire_absences
from .connect import connect_status
from .exceptions import MESSAGE_MAX, exceptions_of
from .members import wire_members
from .memory import wire_injected, wire_issued, wire_settling
from .shared_settings import own_ms, wire_shared_setting
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
    return api.Columns(members=members, timeout=in_short(timeout) if timeout is not None else None)


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
    t = plan.timeout
    if t is None:
        return previous.timeout
    recommended, samples = _recommended(t, previous.timeout)
    return api.Timeout(
        effective_ms=t.in_force.shortest_ms,
        effective_max_ms=t.in_force.longest_ms,
        next_ms=t.next_ms,
        own_ms=own_ms(t, previous.timeout),
        shared_setting=wire_shared_setting(plan.history.shared_setting),
        unknown_pods=min(t.in_force.unknown, INT32_MAX),
        recommended=recommended,
        samples=samples,
        source=t.source,
        basis=t.basis.value,
        why=t.why[:MESSAGE_MAX] or None,
        broker_min_ms=t.broker_min_ms,
        broker_max_ms=t.broker_max_ms,
    )


def _recommended(t: TimeoutPlan, previous: api.Timeout | None) -> tuple[api.Recommended, int]:
    """Report what is recommended, and from how many restarts; the fleet's word stays while nothing newer can be read."""
    record = t.advice_verdict.record if t.advice_verdict is not None else None
    if t.advice_verdict is not None and record is not None and t.advice_verdict.recommended_ms is not None:
        target_ms = t.advice_verdict.recommended_ms
        return api.Recommended(
            lower_ms=target_ms if record.lower_ms is None else record.lower_ms,
            target_ms=target_ms,
            upper_ms=target_ms if record.upper_ms is None else record.upper_ms,
            uncapped_ms=target_ms if record.uncapped_ms is None else record.uncapped_ms,
            source=api.RecommendationSource.FLEET,
            valid_until=moment(t.advice_verdict.valid_until_ms),
            reasons=list(record.reasons[: api.RECOMMENDATION_REASONS_MAX]),
        ), min(record.stops, INT32_MAX)
    before = previous.recommended if previous is not None else None
    if (
        t.advice_verdict is not None
        and record is None
        and previous is not None
        and before is not None
        and before.source is api.RecommendationSource.FLEET
    ):
        return before, previous.samples
    chosen_ms = t.inject_ms
    if chosen_ms is None and t.group_target_ms is not None and t.own_ms is not None:  # what is set may be longer, for others
        chosen_ms = max(t.broker_min_ms or 0, min(t.own_ms, t.group_target_ms))
    target_ms = t.target_ms if chosen_ms is None else chosen_ms
    lower_ms = t.need_ms if t.is_measured else t.structural_ms
    recommended = api.Recommended(lower_ms=lower_ms, target_ms=target_ms, upper_ms=t.target_ms, uncapped_ms=t.target_ms)
    return recommended, t.samples if t.is_measured else 0
