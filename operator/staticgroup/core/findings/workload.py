"""Whether the workload is there, its pods carry their ids, and the session timeout outlasts their restarts."""

from __future__ import annotations

from typing import Final

from ...api import names, remedies
from ...api.injection import follows_annotation
from ...api.reasons import ConditionStatus, ConditionType, Reason
from ...api.resources.staticgroup import StaticGroupSpec
from ..evidence.chain import IncarnationState
from ..ids.collisions import Collision
from ..ids.suffixes import unheeded_suffix
from ..next_pods.injection import InjectionPlan, InjectionVerdict
from ..next_pods.timeouts import TimeoutPlan, TimeoutVerdict, seconds
from ..plan import Plan
from ..seats import Standing
from ..snapshot import Snapshot
from . import Finding, ended

TOO_LARGE: Final = "Not looked at for a workload of this size: see WorkloadFound."
UNREAD: Final = "Not known while the StatefulSet cannot be read: see WorkloadFound."
_UNKNOWN, _TRUE = ConditionStatus.UNKNOWN, ConditionStatus.TRUE


def workload_found(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan) -> Finding:
    """Say whether the StatefulSet is there and can be served."""
    kind, name = ConditionType.WORKLOAD_FOUND, f"StatefulSet {snapshot.namespace}/{spec.workload_ref.name}"
    if snapshot.workload_problem:
        return Finding(
            kind=kind,
            reason=Reason.WORKLOAD_UNREADABLE,
            status=_UNKNOWN,
            sentence=f"{name} cannot be read: {snapshot.workload_problem}. Nothing is decided until it is.",
            remedy="If this lasts, grant get, list and watch on statefulsets in this namespace (chart value watchNamespaces).",
        )
    if snapshot.workload is None:
        remedy = "Create it or correct spec.workloadRef.name."
        return Finding(kind=kind, reason=Reason.WORKLOAD_NOT_FOUND, sentence=f"{name} does not exist.", remedy=remedy)
    if plan.too_large:
        return Finding(
            kind=kind,
            reason=Reason.WORKLOAD_TOO_LARGE,
            sentence=f"StatefulSet {plan.too_large}. Nothing is decided about it: departed members leave when their session expires.",
            remedy="Lower spec.replicas of the StatefulSet or spec.identity.membersPerPod, or divide the consumers among several "
            "StatefulSets with a StaticGroup each.",
        )
    sentence = f"{name} exists and wants {snapshot.workload.replicas} pods."
    return Finding(kind=kind, reason=Reason.WORKLOAD_EXISTS, status=_TRUE, sentence=sentence)


def ids_injected(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan) -> Finding:
    """Say whether the pods carry the ids that are issued to them."""
    kind, injection = ConditionType.INJECTED, plan.injection
    if snapshot.workload_problem:
        return Finding(kind=kind, reason=Reason.NOT_OBSERVED_YET, status=_UNKNOWN, sentence=UNREAD)
    if plan.identity_error or (injection is not None and injection.verdict is InjectionVerdict.INVALID):
        cause = plan.identity_error or (injection.message if injection else "")
        sentence = f"The ids of this spec cannot be issued: {cause}."
        return Finding(kind=kind, reason=Reason.IDENTITY_INVALID, sentence=sentence, remedy="Correct spec.identity.")
    if injection is None or injection.verdict is InjectionVerdict.WAITING:
        sentence = "Ids are issued once the pod watch is complete."
        return Finding(kind=kind, reason=Reason.NOT_OBSERVED_YET, status=_UNKNOWN, sentence=sentence)
    if plan.too_large:
        return Finding(kind=kind, reason=Reason.NOT_OBSERVED_YET, status=_UNKNOWN, sentence=TOO_LARGE)
    if injection.verdict is InjectionVerdict.NOT_SERVED:
        return Finding(kind=kind, reason=Reason.POLICY_NOT_SERVED, sentence=f"{injection.message}.")
    if snapshot.collisions or (plan.pods_without_id and injection.verdict is not InjectionVerdict.OBSERVE_ONLY):
        return collided(kind, snapshot.collisions[0]) if snapshot.collisions else _pods_without_id(snapshot, plan)
    if injection.verdict is InjectionVerdict.ACTIVE:
        live = sum(p.state is IncarnationState.LIVE for p in snapshot.pods)
        sentence = f"All {live} pods carry the id that was issued to them.{_annotation_note(spec, injection)}{_suffix_note(spec, plan)}"
        return Finding(kind=kind, reason=Reason.IDS_INJECTED, status=_TRUE, sentence=sentence)
    sentence = f"Nothing is injected: {injection.message}.{_suffix_note(spec, plan)}"
    return Finding(kind=kind, reason=Reason.INJECTION_OFF, status=_TRUE, sentence=sentence)


def collided(kind: ConditionType, found: Collision) -> Finding:
    """Say that two StaticGroups write one place of the same pods."""
    sentence, remedy = f"{found.sentence}; neither removes members.", f"{found.remedy[0].upper()}{found.remedy[1:]}."
    return Finding(kind=kind, reason=Reason.CONFLICTING_STATIC_GROUPS, sentence=sentence, remedy=remedy)


def _pods_without_id(snapshot: Snapshot, plan: Plan) -> Finding:
    without, workload = plan.pods_without_id, snapshot.workload.name if snapshot.workload else ""
    return Finding(
        kind=ConditionType.INJECTED,
        reason=Reason.PODS_WITHOUT_ID,
        sentence=f"{len(without)} pods run without the id they should have, such as {without[0].pod_name}: they were created "
        "before the injection was in force or set another id",
        remedy=remedies.give_ids(snapshot.namespace, workload),
    )


def _annotation_note(spec: StaticGroupSpec, injection: InjectionPlan) -> str:
    """Say that the ids can be edited where they can; nothing where they are composed of the pod's name."""
    if injection.injected is None or not follows_annotation(spec.identity, injection.injected.id_template):
        return ""
    return (
        f" These ids follow the pod annotation {names.INSTANCE_ID_ANNOTATION}, which is read whenever a container starts: "
        "do not edit it. A copy of a pod may keep it, so a gap of the pod watch leaves every seat in doubt."
    )


def _suffix_note(spec: StaticGroupSpec, plan: Plan) -> str:
    """Say that the preset's client appends what nobody expects; nothing where members show that it does not."""
    if plan.table is not None and plan.table.of(Standing.JOINED):
        return ""
    note = unheeded_suffix(spec.identity, plan.history.injected)
    return f" {note}" if note else ""


def timeout_sufficient(plan: Plan) -> Finding:
    """Say whether the session timeout outlasts a restart."""
    t, kind = plan.timeout, ConditionType.TIMEOUT_SUFFICIENT
    if plan.too_large:
        return Finding(kind=kind, reason=Reason.TIMEOUT_UNKNOWN, status=_UNKNOWN, sentence=TOO_LARGE)
    if t is None or t.verdict in (TimeoutVerdict.UNKNOWN, TimeoutVerdict.BOUNDS_UNREADABLE):
        sentence = ended(t.message if t else "The session timeout in force is not known yet.")
        return Finding(kind=kind, reason=Reason.TIMEOUT_UNKNOWN, status=_UNKNOWN, sentence=sentence)
    if t.verdict is TimeoutVerdict.SUFFICIENT:
        needed = f"outlasts the {-(-t.need_ms // 1000)} s that a restart is estimated to take"
        if t.is_from_fleet:
            needed = f"reaches the {-(-t.need_ms // 1000)} s that the fleet learner recommends"
        return Finding(kind=kind, reason=Reason.TIMEOUT_FITS, status=_TRUE, sentence=ended(_timeout_that_fits(t, needed)))
    is_below = t.verdict is TimeoutVerdict.BELOW_NEED
    reason = Reason.TIMEOUT_BELOW_NEED if is_below else Reason.BROKER_BOUND_TOO_LOW
    return Finding(kind=kind, reason=reason, sentence=ended(t.message))


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
