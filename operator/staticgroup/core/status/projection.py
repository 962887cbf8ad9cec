"""From what was decided to what users read: the status as a pure projection of one round.

Nothing is decided here. The durable parts of the memory (injected, issued, settling, ledger) are written by
`memory`, the sentences by `conditions_of`; this module puts the whole together and keeps every list bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from ...api.protocols import GroupProtocol
from ...api.reasons import ConditionType
from ...api.resources import durable
from ...api.resources import status as api
from ...api.resources.conditions import Condition, set_condition
from ...api.resources.staticgroup import StaticGroupSpec
from ...api.roles import RoleChoice
from ...api.schema import INT32_MAX
from ..evidence.certificate import Certificate
from ..evidence.chain import Incarnation
from ..findings.seats import findings_of_seats
from ..group import GroupView, KafkaProblem
from ..guards import Guard
from ..next_pods.advice import moment
from ..next_pods.timeouts import TimeoutPlan, in_short
from ..outcomes import Executed
from ..plan import Plan, Removal
from ..protocols import told_as
from ..seats import Standing
from ..snapshot import Snapshot
from .absences import wire_absences
from .checkpoints import sealed, wire_continuity
from .connect import connect_status
from .exceptions import MESSAGE_MAX, exceptions_of
from .memory import wire_injected, wire_issued, wire_ledger, wire_settling
from .shared_settings import own_ms, wire_shared_setting
from .statements import conditions_of


def project(
    spec: StaticGroupSpec,
    snapshot: Snapshot,
    plan: Plan,
    executed: Executed,
    ledger: Sequence[Incarnation],
    before: api.StaticGroupStatus | None,
    now: datetime,
) -> api.StaticGroupStatus:
    """Return the status that tells one round.

    Parameters
    ----------
    ledger: incarnations whose fate must survive a restart of the operator.
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
    return sealed(api.StaticGroupStatus(
        observed_generation=snapshot.metadata_generation,
        static_group_uid=snapshot.uid,
        conditions=sorted(conditions, key=lambda c: order.index(c.type) if c.type in order else len(order)),
        protocol=_protocol(group, previous),
        group_state=group.state if isinstance(group, GroupView) else previous.group_state,
        columns=_columns(plan),
        injected=wire_injected(spec, plan.history.injected),
        issued=wire_issued(plan.history),
        members=_members(plan, previous),
        exceptions=exceptions_of(findings_of_seats(plan, snapshot, ledger), previous.exceptions, now),
        ledger=wire_ledger(ledger, needed=_needed(ledger, plan, group), namespace=snapshot.namespace),
        settling=wire_settling(plan.history),
        last_removal=_last_removal(executed, previous, now),
        last_confirmed_removal=_last_confirmed_removal(executed, previous, now),
        last_node_removal=_last_node_removal(executed, previous, now),
        timeout=_timeout(plan, previous),
        absences=wire_absences(plan.history),
        connect=connect_status(plan, group, previous.connect) if spec.role is RoleChoice.CONNECT else None,
        continuity=wire_continuity(plan.history.continuity),
        writer=previous.writer,
    ))


def _needed(ledger: Sequence[Incarnation], plan: Plan, group: GroupView | KafkaProblem) -> frozenset[str]:
    """Return the uids whose ids a described member holds, or whose removal is not verified yet; none when unknown."""
    if plan.naming is None or not isinstance(group, GroupView):
        return frozenset()
    ids = {m.instance_id for m in group.members}
    ids |= {r.instance_id for r in plan.history.removals if r.settled_at_s is None}
    return frozenset(i.uid for i in ledger if not ids.isdisjoint(plan.naming.expand(i).instance_ids))


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
    proven = [r for r in executed.removed if word_behind(r) is None and node_behind(r) is None]
    if not proven:
        return previous.last_removal
    first = proven[0]
    newest = max(first.chain.incarnations, key=lambda i: i.resource_version)
    certificate = newest.certificate
    if certificate is None:
        raise AssertionError("a removal without a certificate was planned")
    return api.LastRemoval(
        at=now,
        instance_id=first.entry.instance_id,
        member_id=first.entry.member_id[:300],
        certificate=durable.Certificate(certificate.kind.value),
        reason=first.entry.reason[:MESSAGE_MAX],
        count=len(proven),
    )


def _last_confirmed_removal(
    executed: Executed, previous: api.StaticGroupStatus, now: datetime
) -> api.ConfirmedRemoval | None:
    for removal in executed.removed:
        word = word_behind(removal)
        if word is not None:
            return api.ConfirmedRemoval(
                at=now,
                instance_id=removal.entry.instance_id,
                member_id=removal.entry.member_id[:300],
                confirmed_by=word.said_by,
                reason=removal.entry.reason[:MESSAGE_MAX],
            )
    return previous.last_confirmed_removal


def _last_node_removal(executed: Executed, previous: api.StaticGroupStatus, now: datetime) -> api.NodeRemoval | None:
    for removal in executed.removed:
        proof = node_behind(removal)
        if proof is not None and word_behind(removal) is None:
            return api.NodeRemoval(
                at=now,
                instance_id=removal.entry.instance_id,
                member_id=removal.entry.member_id[:300],
                certificate=durable.NodeCertificate(proof.kind.value),
                evidence=proof.statement[:MESSAGE_MAX],
                reason=removal.entry.reason[:MESSAGE_MAX],
            )
    return previous.last_node_removal


def node_behind(removal: Removal) -> Certificate | None:
    """Return what became of a node that a removal rests on, because some carrier's end is known by nothing else; None: by nothing."""
    return next((i.certificate for i in removal.chain.incarnations if i.certificate and i.certificate.is_of_node), None)


def word_behind(removal: Removal) -> Certificate | None:
    """Return the word that a removal rests on, because some carrier's end is known by nothing else; None: by none."""
    return next((i.certificate for i in removal.chain.incarnations if i.certificate and i.certificate.is_word), None)


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
            reasons=[reason.value for reason in record.reasons[: api.RECOMMENDATION_REASONS_MAX]],
        ), min(record.evidence.stops, INT32_MAX)
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
