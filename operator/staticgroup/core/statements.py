"""The conditions of one round: what is so, why, and what to do, one reason each.

Each function looks at one aspect and returns one condition. `Ready` sums the others up and carries the reason and
message of the first that is not True, so that the one line a user reads is the one to act on. What passes by itself
(a pod restarts, a departed pod ends, a removal settles) is told by its own condition and leaves `Ready` True: a rolling
restart that goes well must not page anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ..api import names
from ..api.conditions import Condition, condition, stated
from ..api.injection import follows_annotation
from ..api.reasons import ConditionStatus, ConditionType, Reason
from ..api.staticgroup import Mode, ProtocolChoice, RemovalPolicy, StaticGroupSpec
from .chain import IncarnationState
from .group import GroupType, GroupView, KafkaProblem, KafkaProblemKind, LeaveOutcome
from .guards import TRANSIENT_GUARDS, Guard, Held
from .injection import InjectionPlan, InjectionVerdict
from .membership import Membership
from .plan import Plan
from .snapshot import Snapshot
from .timeouts import TimeoutPlan, TimeoutVerdict, seconds

if TYPE_CHECKING:
    from .projection import Executed

_T = ConditionType
CONNECTION_REASONS = {
    KafkaProblemKind.UNREACHABLE: Reason.BROKERS_UNREACHABLE,
    KafkaProblemKind.TLS_FAILED: Reason.TLS_FAILED,
    KafkaProblemKind.AUTHENTICATION_FAILED: Reason.AUTHENTICATION_FAILED,
    KafkaProblemKind.WRONG_CLUSTER: Reason.CLUSTER_ID_MISMATCH,
    KafkaProblemKind.BROKER_TOO_OLD: Reason.BROKER_TOO_OLD,
    KafkaProblemKind.COORDINATOR_UNAVAILABLE: Reason.COORDINATOR_UNAVAILABLE,
    KafkaProblemKind.UNEXPECTED_ANSWER: Reason.COORDINATOR_UNAVAILABLE,
    KafkaProblemKind.ANSWER_TOO_LARGE: Reason.COORDINATOR_UNAVAILABLE,
    KafkaProblemKind.UNSUPPORTED_GROUP: Reason.COORDINATOR_UNAVAILABLE,
    KafkaProblemKind.ADDRESS_REFUSED: Reason.ADDRESS_REFUSED,
    KafkaProblemKind.SECRET_MISSING: Reason.SECRET_NOT_FOUND,
    KafkaProblemKind.SECRET_INVALID: Reason.SECRET_KEY_MISSING,
    KafkaProblemKind.CONNECTION_MISSING: Reason.CONNECTION_NOT_FOUND,
    KafkaProblemKind.CONNECTION_INVALID: Reason.CONNECTION_NOT_FOUND,
}
_SUMMED_UP = (_T.WORKLOAD_FOUND, _T.CONNECTED, _T.AUTHORIZED, _T.INJECTED, _T.MEMBERSHIP_COMPLETE, _T.REMOVAL_SETTLED)
"""Conditions that make the whole not Ready, in the order in which a user should look at them."""
_TRANSIENT = frozenset({Reason.MEMBERS_AWAY, Reason.REMOVAL_IN_PROGRESS})
"""Reasons of conditions that are not True yet and become so without anybody's help."""
_RACE_OUTCOMES = frozenset({LeaveOutcome.FENCED, LeaveOutcome.UNKNOWN})
"""Answers by which the compare-and-set tells that the group changed meanwhile; the next round describes it again."""
_TOO_LARGE = "Not looked at for a workload of this size: see WorkloadFound."
_SUMMED_UP_WHEN_OBSERVING = (_T.WORKLOAD_FOUND, _T.CONNECTED, _T.AUTHORIZED)
"""In mode Observe nothing is injected or removed, so only what keeps the operator from looking counts."""


def conditions_of(
    spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan, executed: Executed, now: datetime
) -> tuple[Condition, ...]:
    """Return every condition of one round, Ready first; RecommendationCurrent only while recommendations are read."""
    parts = (
        _workload_found(spec, snapshot, plan, now),
        _connected(snapshot, executed, now),
        _authorized(snapshot, executed, now),
        _injected(spec, snapshot, plan, now),
        _membership(spec, snapshot, plan, now),
        _timeout(snapshot, plan, now),
        _removal(spec, snapshot, plan, executed, now),
        *_recommendation(snapshot, plan, now),
    )
    return (_ready(spec, snapshot, parts, now), *parts)


def suspended_condition(observed_generation: int, now: datetime) -> Condition:
    """Return the Ready condition of a suspended StaticGroup."""
    return condition(_T.READY, Reason.SUSPENDED, observed_generation=observed_generation, now=now)


def _say(
    kind: ConditionType, reason: Reason, status: ConditionStatus, message: str, snapshot: Snapshot, now: datetime
) -> Condition:
    return stated(
        kind, reason, status=status, message=message, observed_generation=snapshot.metadata_generation, now=now
    )


def _ready(spec: StaticGroupSpec, snapshot: Snapshot, parts: tuple[Condition, ...], now: datetime) -> Condition:
    if snapshot.overlaps:
        return _say(
            _T.READY,
            Reason.CONFLICTING_STATIC_GROUPS,
            ConditionStatus.FALSE,
            f"StaticGroup {', '.join(snapshot.overlaps)} may issue the same ids of this group (by its present or an earlier id template); neither removes members until the template of one of them is changed.",
            snapshot,
            now,
        )
    by_type = {c.type: c for c in parts}
    summed_up = _SUMMED_UP_WHEN_OBSERVING if spec.mode is Mode.OBSERVE else _SUMMED_UP
    pending = [p for p in (by_type[kind] for kind in summed_up) if p.status is not ConditionStatus.TRUE]
    for part in pending:
        if part.reason not in _TRANSIENT:
            return _say(
                _T.READY, Reason.DEGRADED, part.status, f"{part.type} ({part.reason}): {part.message}", snapshot, now
            )
    if spec.mode is Mode.OBSERVE:
        return condition(_T.READY, Reason.OBSERVING, observed_generation=snapshot.metadata_generation, now=now)
    if pending:
        message = f"All is well, something is in progress. {pending[0].type}: {pending[0].message}"
        return _say(_T.READY, Reason.RECONCILED, ConditionStatus.TRUE, message, snapshot, now)
    return condition(_T.READY, Reason.RECONCILED, observed_generation=snapshot.metadata_generation, now=now)


def _workload_found(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan, now: datetime) -> Condition:
    name = f"StatefulSet {snapshot.namespace}/{spec.workload_ref.name}"
    if snapshot.workload is None:
        return _say(
            _T.WORKLOAD_FOUND,
            Reason.WORKLOAD_NOT_FOUND,
            ConditionStatus.FALSE,
            f"{name} does not exist. Create it or correct spec.workloadRef.name.",
            snapshot,
            now,
        )
    if plan.too_large:
        generation = snapshot.metadata_generation
        return condition(
            _T.WORKLOAD_FOUND, Reason.WORKLOAD_TOO_LARGE, observed_generation=generation, now=now, cause=plan.too_large
        )
    return _say(
        _T.WORKLOAD_FOUND,
        Reason.WORKLOAD_EXISTS,
        ConditionStatus.TRUE,
        f"{name} exists and wants {snapshot.workload.replicas} pods.",
        snapshot,
        now,
    )


def _connected(snapshot: Snapshot, executed: Executed, now: datetime) -> Condition:
    problem = snapshot.group if isinstance(snapshot.group, KafkaProblem) else executed.problem
    if problem is not None and problem.kind not in (
        KafkaProblemKind.NOT_AUTHORIZED,
        KafkaProblemKind.UNSUPPORTED_GROUP,
    ):
        return _say(
            _T.CONNECTED, CONNECTION_REASONS[problem.kind], ConditionStatus.FALSE, problem.message, snapshot, now
        )
    return _say(_T.CONNECTED, Reason.BROKERS_REACHABLE, ConditionStatus.TRUE, "The brokers answer.", snapshot, now)


def _authorized(snapshot: Snapshot, executed: Executed, now: datetime) -> Condition:
    group = snapshot.group
    if isinstance(group, KafkaProblem):
        if group.kind is KafkaProblemKind.UNSUPPORTED_GROUP:
            return condition(
                _T.AUTHORIZED, Reason.RIGHTS_SUFFICIENT, observed_generation=snapshot.metadata_generation, now=now
            )
        if group.kind is not KafkaProblemKind.NOT_AUTHORIZED:
            return _say(
                _T.AUTHORIZED,
                Reason.NOT_OBSERVED_YET,
                ConditionStatus.UNKNOWN,
                "Not known while the brokers do not answer: see Connected.",
                snapshot,
                now,
            )
        topic = "topic" in group.missing_acl.lower()
        return _say(
            _T.AUTHORIZED,
            Reason.DESCRIBE_TOPIC_DENIED if topic else Reason.DESCRIBE_GROUP_DENIED,
            ConditionStatus.FALSE,
            group.message,
            snapshot,
            now,
        )
    denied = executed.problem if executed.problem and executed.problem.kind is KafkaProblemKind.NOT_AUTHORIZED else None
    if denied is not None or LeaveOutcome.NOT_AUTHORIZED in executed.outcomes:
        message = (
            denied.message
            if denied
            else f"LeaveGroup was refused. Allow READ on Group '{group.group_id}' to the connection's principal, or set spec.mode to Observe."
        )
        return _say(_T.AUTHORIZED, Reason.READ_GROUP_DENIED, ConditionStatus.FALSE, message, snapshot, now)
    return condition(_T.AUTHORIZED, Reason.RIGHTS_SUFFICIENT, observed_generation=snapshot.metadata_generation, now=now)


def _injected(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan, now: datetime) -> Condition:
    injection = plan.injection
    if plan.identity_error or (injection is not None and injection.verdict is InjectionVerdict.INVALID):
        cause = plan.identity_error or (injection.message if injection else "")
        return _say(
            _T.INJECTED,
            Reason.IDENTITY_INVALID,
            ConditionStatus.FALSE,
            f"The ids of this spec cannot be issued: {cause}. Correct spec.identity.",
            snapshot,
            now,
        )
    if injection is None or injection.verdict is InjectionVerdict.WAITING:
        return _say(
            _T.INJECTED,
            Reason.NOT_OBSERVED_YET,
            ConditionStatus.UNKNOWN,
            "Ids are issued once the pod watch is complete.",
            snapshot,
            now,
        )
    if plan.too_large:
        return _say(_T.INJECTED, Reason.NOT_OBSERVED_YET, ConditionStatus.UNKNOWN, _TOO_LARGE, snapshot, now)
    if injection.verdict is InjectionVerdict.NOT_SERVED:
        return _say(
            _T.INJECTED, Reason.POLICY_NOT_SERVED, ConditionStatus.FALSE, f"{injection.message}.", snapshot, now
        )
    without = plan.pods_without_id
    if without and injection.verdict is not InjectionVerdict.OBSERVE_ONLY:
        workload = snapshot.workload.name if snapshot.workload else ""
        message = (
            f"{len(without)} pods run without the id they should have, such as {without[0].pod_name}: they were created before the "
            f"injection was in force or set another id. Give them one: kubectl -n {snapshot.namespace} rollout restart statefulset/{workload}"
        )
        return _say(_T.INJECTED, Reason.PODS_WITHOUT_ID, ConditionStatus.FALSE, message, snapshot, now)
    if injection.verdict is InjectionVerdict.ACTIVE:
        live = sum(p.state is IncarnationState.LIVE for p in snapshot.pods)
        return _say(
            _T.INJECTED,
            Reason.IDS_INJECTED,
            ConditionStatus.TRUE,
            f"All {live} pods carry the id that was issued to them.{_annotation_note(spec, injection)}",
            snapshot,
            now,
        )
    return _say(
        _T.INJECTED,
        Reason.INJECTION_OFF,
        ConditionStatus.TRUE,
        f"Nothing is injected: {injection.message}.",
        snapshot,
        now,
    )


def _annotation_note(spec: StaticGroupSpec, injection: InjectionPlan) -> str:
    """Say that the ids can be edited where they can; nothing where they are composed of the pod's name."""
    if injection.injected is None or not follows_annotation(spec.identity, injection.injected.id_template):
        return ""
    return (
        f" These ids follow the pod annotation {names.INSTANCE_ID_ANNOTATION}, which is read whenever a container starts: "
        "do not edit it. A copy of a pod may keep it, so a gap of the pod watch leaves every seat in doubt."
    )


def _membership(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan, now: datetime) -> Condition:
    group, m, kind = snapshot.group, plan.membership, _T.MEMBERSHIP_COMPLETE
    if isinstance(group, KafkaProblem) and group.kind is KafkaProblemKind.UNSUPPORTED_GROUP:
        return _say(kind, Reason.PROTOCOL_MISMATCH, ConditionStatus.FALSE, group.message, snapshot, now)
    if plan.too_large:
        return _say(kind, Reason.MEMBERSHIP_UNKNOWN, ConditionStatus.UNKNOWN, _TOO_LARGE, snapshot, now)
    if not isinstance(group, GroupView) or m is None:
        return condition(kind, Reason.MEMBERSHIP_UNKNOWN, observed_generation=snapshot.metadata_generation, now=now)
    fault = _wrong_group(spec, group) or _absent_members(group, m, plan)
    if fault is not None:
        return _say(kind, fault[0], ConditionStatus.FALSE, fault[1], snapshot, now)
    message = f"All {len(m.expected)} expected members are in the group."
    return _say(kind, Reason.ALL_MEMBERS_JOINED, ConditionStatus.TRUE, message, snapshot, now)


def _wrong_group(spec: StaticGroupSpec, group: GroupView) -> tuple[Reason, str] | None:
    """Say that the group is not the one the spec speaks of; None when it may be."""
    wanted = {ProtocolChoice.CLASSIC: GroupType.CLASSIC, ProtocolChoice.CONSUMER: GroupType.CONSUMER}.get(spec.protocol)
    if wanted is not None and group.members and group.group_type is not wanted:
        return Reason.PROTOCOL_MISMATCH, (
            f"Group {group.group_id} is of type {group.group_type.value}, spec.protocol expects {spec.protocol.value}. "
            "Set spec.protocol to Auto or to what the consumers use."
        )
    if group.protocol_type not in ("", "consumer"):
        return Reason.PROTOCOL_MISMATCH, (
            f"Group {group.group_id} is a group of protocol type {group.protocol_type}, not of consumers. Correct spec.groupId."
        )
    return None


def _absent_members(group: GroupView, m: Membership, plan: Plan) -> tuple[Reason, str] | None:
    """Say which expected members are not in the group, the most telling cause first; None when all are."""
    if group.group_type is GroupType.ABSENT and m.expected:
        return Reason.GROUP_NOT_FOUND, (
            f"The brokers know no group {group.group_id}. It appears when the first consumer joins; if consumers run, "
            "compare their group.id with spec.groupId."
        )
    if m.unissued:
        return Reason.MEMBERS_MISSING, (
            f"{len(m.unissued)} of {len(m.expected)} members cannot be told apart, because their pods run without the id "
            "they should have: see Injected."
        )
    if m.missing:
        pod = plan.identity.pod_name_of(m.missing[0]) if plan.identity else ""
        return Reason.MEMBERS_MISSING, (
            f"{len(m.missing)} of {len(m.expected)} members are not in the group though their pods are Ready, such as {pod}. "
            "A fenced client does not come back by itself: restart that pod."
        )
    if m.overdue:
        pod = plan.identity.pod_name_of(m.overdue[0]) if plan.identity else ""
        return Reason.MEMBERS_MISSING, (
            f"{len(m.overdue)} of {len(m.expected)} members are not in the group, and their pods have not become Ready for "
            f"minutes, such as {pod}. Look at it with kubectl describe pod {pod}."
        )
    if m.away:
        return Reason.MEMBERS_AWAY, (
            f"{len(m.away)} of {len(m.expected)} members are away while their pods restart. Nothing to do unless it outlasts "
            "the session timeout."
        )
    return None


def _timeout(snapshot: Snapshot, plan: Plan, now: datetime) -> Condition:
    t, kind = plan.timeout, _T.TIMEOUT_SUFFICIENT
    if plan.too_large:
        return _say(kind, Reason.TIMEOUT_UNKNOWN, ConditionStatus.UNKNOWN, _TOO_LARGE, snapshot, now)
    if t is None or t.verdict in (TimeoutVerdict.UNKNOWN, TimeoutVerdict.BOUNDS_UNREADABLE):
        message = t.message if t else "The session timeout in force is not known yet."
        return _say(kind, Reason.TIMEOUT_UNKNOWN, ConditionStatus.UNKNOWN, _sentence(message), snapshot, now)
    if t.verdict is TimeoutVerdict.SUFFICIENT:
        needed = f"outlasts the {-(-t.need_ms // 1000)} s that a restart is estimated to take"
        if t.is_from_fleet:
            needed = f"reaches the {-(-t.need_ms // 1000)} s that the fleet learner recommends"
        return _say(kind, Reason.TIMEOUT_FITS, ConditionStatus.TRUE, _sentence(_timeout_that_fits(t, needed)), snapshot, now)
    reasons = {
        TimeoutVerdict.OUTSIDE_BROKER_BOUNDS: Reason.BROKER_BOUND_TOO_LOW,
        TimeoutVerdict.GROUP_CONFIG_TOO_SHORT: Reason.BROKER_BOUND_TOO_LOW,
        TimeoutVerdict.BELOW_NEED: Reason.TIMEOUT_BELOW_NEED,
    }
    return _say(kind, reasons[t.verdict], ConditionStatus.FALSE, _sentence(t.message), snapshot, now)


def _timeout_that_fits(t: TimeoutPlan, needed: str) -> str:
    """Say which session timeouts hold, that they suffice, and which one comes with the next restart if it is another."""
    shortest_ms, longest_ms, next_ms = t.in_force.shortest_ms, t.in_force.longest_ms, t.next_ms
    if shortest_ms is None or longest_ms is None:
        return f"There is no pod now; the next ones get {seconds(next_ms or 0)}, which {needed}"
    others = f"; pods get {seconds(next_ms)} with their next restart" if next_ms is not None and (
        shortest_ms, longest_ms) != (next_ms, next_ms) else ""
    if shortest_ms == longest_ms:
        return f"The session timeout of {seconds(shortest_ms)} {needed}{others}"
    return f"The shortest session timeout of the pods, {seconds(shortest_ms)}, {needed}{others}"


def _recommendation(snapshot: Snapshot, plan: Plan, now: datetime) -> tuple[Condition, ...]:
    """Say what became of the fleet learner's recommendation; nothing while none are read. Ready does not depend on it."""
    verdict = plan.timeout.advice if plan.timeout is not None else None
    if verdict is None:
        return ()
    generation = snapshot.metadata_generation
    kind = _T.RECOMMENDATION_CURRENT
    facts = dict(verdict.facts)
    return (condition(kind, verdict.reason, observed_generation=generation, now=now, status=None, **facts),)


def _removal(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan, executed: Executed, now: datetime) -> Condition:
    kind, m = _T.REMOVAL_SETTLED, plan.membership
    if m is None:
        listed = "The members cannot be listed: see Connected and Authorized."
        return _say(
            kind,
            Reason.MEMBERSHIP_UNKNOWN,
            ConditionStatus.UNKNOWN,
            _TOO_LARGE if plan.too_large else listed,
            snapshot,
            now,
        )
    refused = [o for o in executed.outcomes if o is not LeaveOutcome.REMOVED and o not in _RACE_OUTCOMES]
    if executed.problem is not None or refused:
        cause = executed.problem.message if executed.problem else f"the coordinator answered {refused[0].value}"
        return _say(
            kind,
            Reason.REMOVAL_REFUSED,
            ConditionStatus.FALSE,
            _sentence(f"A removal did not succeed: {cause}. It is decided afresh"),
            snapshot,
            now,
        )
    if executed.observe_only and plan.actions:
        count = sum(len(a.removals) for a in plan.actions)
        return _say(
            kind,
            Reason.REMOVAL_OFF,
            ConditionStatus.FALSE,
            f"{count} departed members would be removed now, but the operator may only observe. Set spec.mode to Manage (or lift the operator's forced Observe).",
            snapshot,
            now,
        )
    lasting = [h for h in plan.held if h.guard not in TRANSIENT_GUARDS]
    if lasting:
        return _held(spec, lasting, snapshot, now)
    return _in_progress(plan, executed, snapshot, now) or _settled(plan, snapshot, now)


def _in_progress(plan: Plan, executed: Executed, snapshot: Snapshot, now: datetime) -> Condition | None:
    """Say what a removal waits for that comes by itself; None when nothing is under way."""
    kind = _T.REMOVAL_SETTLED
    if plan.held:
        first = plan.held[0]
        message = _sentence(
            f"{len(plan.held)} departed members leave soon; {first.instance_id} ({first.guard.value}): {first.message}"
        )
        return _say(kind, Reason.REMOVAL_IN_PROGRESS, ConditionStatus.FALSE, message, snapshot, now)
    if plan.actions and not executed.removed:
        message = "A departed member is about to be removed: the group is read once more first. Nothing to do."
        return _say(kind, Reason.REMOVAL_IN_PROGRESS, ConditionStatus.FALSE, message, snapshot, now)
    pending = sum(r.settled_at_s is None for r in plan.history.removals)
    if pending:
        return _say(
            kind,
            Reason.REMOVAL_IN_PROGRESS,
            ConditionStatus.FALSE,
            f"{pending} removals are acknowledged and not yet seen to last. Nothing to do.",
            snapshot,
            now,
        )
    return None


def _settled(plan: Plan, snapshot: Snapshot, now: datetime) -> Condition:
    """Say that no departed member is left."""
    kind = _T.REMOVAL_SETTLED
    if plan.history.removals:
        return _say(
            kind,
            Reason.REMOVED,
            ConditionStatus.TRUE,
            f"{len(plan.history.removals)} departed members were removed and the group is stable without them.",
            snapshot,
            now,
        )
    return condition(kind, Reason.NOTHING_TO_REMOVE, observed_generation=snapshot.metadata_generation, now=now)


def _held(spec: StaticGroupSpec, held: Sequence[Held], snapshot: Snapshot, now: datetime) -> Condition:
    """Say which guard holds the first departed member; the exceptions list every one of them."""
    first = held[0]
    reasons = {
        Guard.CHAIN: Reason.DEATH_NOT_PROVEN,
        Guard.POD_PRESENT: Reason.DEATH_NOT_PROVEN,
        Guard.GAP: Reason.WATCH_GAP,
        Guard.UNSCOPED: Reason.UNSCOPED_IDS,
        Guard.POLICY_NEVER: Reason.REMOVAL_OFF,
        Guard.SUSPENDED: Reason.REMOVAL_OFF,
    }
    reason = reasons.get(first.guard, Reason.REMOVAL_HELD)
    if spec.removal.policy is RemovalPolicy.NEVER:
        reason = Reason.REMOVAL_OFF
    message = f"{len(held)} departed members are kept; {first.instance_id} ({first.guard.value}): {first.message}"
    return _say(_T.REMOVAL_SETTLED, reason, ConditionStatus.FALSE, _sentence(message), snapshot, now)


def _sentence(text: str) -> str:
    """End a message with a full stop."""
    return text if text.endswith(".") else f"{text}."
