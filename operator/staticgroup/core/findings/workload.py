"""Whether the workload is there, its pods carry their ids, and the session timeout outlasts their restarts."""

from __future__ import annotations

from functools import partial
from typing import Final

from ...api import names, remedies
from ...api.injection import follows_annotation
from ...api.reasons import ConditionType, Reason
from ...api.resources.injected import InjectedMethod
from ...api.resources.staticgroup import StaticGroupSpec
from ...api.workloads import NAMED_DIGITS_MAX, STATEFUL_SET, STRIMZI_POD_SET, WorkloadKind
from ..evidence.chain import PodState
from ..ids.naming import ordinal_of_pod, seat_name
from ..injection import InjectionPlan, InjectionVerdict
from ..plan import Plan
from ..protocols import role_of
from ..snapshot import Snapshot
from ..timeouts.in_force import TimeoutPlan, seconds
from . import Finding, Obstacle, as_sentence, ended

_injected: Final = partial(Finding, kind=ConditionType.INJECTED)
_NOT_GIVEN: Final = (InjectionVerdict.NOT_SERVED, InjectionVerdict.CONFLICTING, InjectionVerdict.HINDERED)
_NO_IDS: Final = {
    InjectionVerdict.OBSERVE_ONLY: remedies.ACT,
    InjectionVerdict.NOT_SERVED: remedies.SEE_WHY_NO_ID,
    InjectionVerdict.CONFLICTING: remedies.SEE_WHY_NO_ID,
    InjectionVerdict.HINDERED: remedies.SEE_WHY_NO_ID,
}
"""What to do about pods without an id while new ones get none either."""
_BY: Final = {InjectedMethod.POLICY.value: " by the admission policy", InjectedMethod.WEBHOOK.value: " by the webhook"}
_STAYS: Final = "The session timeout stays as it is."
_RECOMMENDATIONS: Final[dict[Reason, tuple[str, str]]] = {
    Reason.RECOMMENDATION_USED: ("The session timeout is the one that the fleet learner recommends: {cause}.", ""),
    Reason.RECOMMENDATION_SHOWN: (
        "The recommendation of the fleet learner changes nothing: {cause}.", ""
    ),
    Reason.NOT_OBSERVED_YET: (
        "Not observed yet since the operator started.",
        "If this stays for more than a minute, read the operator's log.",
    ),
    Reason.RECOMMENDATION_ABSENT: (
        "There is no recommendation for this group: {cause}. " + _STAYS,
        "It appears once the fleet learner has read enough of the journal of this group.",
    ),
    Reason.RECOMMENDATION_UNREACHABLE: (
        "The recommendations cannot be read: {cause}. " + _STAYS,
        "Check the operator's setting STATICGROUP_RECOMMENDATIONS_SOURCE and that the fleet learner has published "
        "there.",
    ),
    Reason.RECOMMENDATION_CORRUPT: (
        "The recommendations are refused as a whole: {cause}. " + _STAYS,
        "Publish them again and check that every file arrives; while a copy is under way this passes by itself.",
    ),
    Reason.RECOMMENDATION_UNSUPPORTED: (
        "The recommendations are of a version that this operator does not read: {cause}. " + _STAYS,
        "Upgrade the older of the two, operator or fleet learner.",
    ),
    Reason.RECOMMENDATION_STALE: (
        "The recommendations are out of date: {cause}. " + _STAYS,
        "Run the fleet learner again and see that it publishes.",
    ),
    Reason.RECOMMENDATION_FROM_THE_FUTURE: (
        "The recommendations are newer than the operator's clock: {cause}. " + _STAYS,
        "Set the clocks of both machines.",
    ),
}


def why_unknown(snapshot: Snapshot, plan: Plan) -> str:
    """Say why nothing is decided about the ids of a workload; "" where it is."""
    if snapshot.workload_problem:
        return "Unknown while the workload cannot be read: see WorkloadFound."
    return "Not checked for a workload of this size: see WorkloadFound." if plan.too_large else ""


def unlisted(kind: ConditionType, reason: Reason, snapshot: Snapshot, plan: Plan) -> Finding:
    """Say why the members are not known."""
    sentence = why_unknown(snapshot, plan) or "The members cannot be listed: see the conditions above."
    return Finding(kind=kind, reason=reason, sentence=sentence)


def workload_found(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan) -> Finding:
    """Say whether the workload is there and can be served."""
    what = spec.workload_ref.known_kind
    kind, name = ConditionType.WORKLOAD_FOUND, f"{what.kind} {snapshot.namespace}/{spec.workload_ref.name}"
    if snapshot.workload_problem:
        return Finding(
            kind=kind,
            reason=Reason.WORKLOAD_UNREADABLE,
            sentence=f"{name} cannot be read: {snapshot.workload_problem}. Nothing is decided until it can be.",
            remedy=_way_to_read(what, spec, snapshot),
        )
    if snapshot.workload is None:
        remedy = "Create it, or a StaticGroup with the right spec.workloadRef.name."
        return Finding(kind=kind, reason=Reason.WORKLOAD_NOT_FOUND, sentence=f"{name} does not exist.", remedy=remedy)
    if plan.too_large:
        return Finding(
            kind=kind,
            reason=Reason.WORKLOAD_TOO_LARGE,
            sentence=f"{what.kind} {plan.too_large}. Nothing is decided about it: departed members leave when their "
            "session expires.",
            remedy=f"Lower {'spec.replicas' if what is not STRIMZI_POD_SET else 'the pods'} of the {what.kind} or "
            f"spec.client.concurrency, or divide the {role_of(spec).plural} among several {what.kind}s with a "
            "StaticGroup each.",
        )
    sentence = f"{name} exists and wants {snapshot.workload.replicas} pods."
    if snapshot.workload.is_deleting:
        left = "its pods stay" if snapshot.workload.is_orphaning else "its pods are deleted with it"
        sentence = f"{name} is being deleted; {left}."
    return Finding(kind=kind, reason=Reason.WORKLOAD_EXISTS, sentence=sentence)


def _way_to_read(kind: WorkloadKind, spec: StaticGroupSpec, snapshot: Snapshot) -> str:
    """Say what makes a workload readable."""
    if snapshot.is_workload_unfit and kind is STRIMZI_POD_SET:
        name = spec.workload_ref.name
        shape = f"{name}-<ordinal>, such as {name}-0"
        return f"Correct that field: every pod of the list is called {shape}, and none is listed twice."
    if kind is STATEFUL_SET:
        remedy = "grant get, list and watch on statefulsets in this namespace (chart value watchNamespaces)"
    else:
        setting = f"set chart value {kind.chart_value} to true, which lets the operator read it"
        remedy = f"install {kind.provider}, and {setting}"
    return f"If this lasts, {remedy}."


def ids_injected(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan) -> Finding:
    """Say whether the pods carry the ids that are issued to them."""
    injection = plan.injection
    if injection is None:  # the workload cannot be read
        return _injected(reason=Reason.NOT_OBSERVED_YET, sentence=why_unknown(snapshot, plan))
    if plan.identity_error or injection.verdict is InjectionVerdict.INVALID:
        sentence = f"The ids of this spec cannot be issued: {plan.identity_error or injection.message}."
        obstacle = injection.obstacle
        remedy = as_sentence(obstacle.remedy) if obstacle is not None else "Correct spec.idTemplate or spec.client."
        return _injected(reason=Reason.IDENTITY_INVALID, sentence=sentence, remedy=remedy)
    is_early = injection.verdict is InjectionVerdict.WAITING
    if plan.too_large or is_early:
        sentence = "Ids are issued once the pod watch is complete." if is_early else why_unknown(snapshot, plan)
        return _injected(reason=Reason.NOT_OBSERVED_YET, sentence=sentence)
    if injection.verdict in _NOT_GIVEN or injection.lacking_container:
        return _not_given(spec, injection)
    hindered = _hindered(snapshot, injection)
    if hindered is not None:
        return hindered
    if plan.pods_without_id and injection.verdict is not InjectionVerdict.OBSERVE_ONLY:
        return _pods_without_id(snapshot, plan)
    if injection.verdict is InjectionVerdict.ACTIVE:
        sentence = f"{_carriers(spec, snapshot, plan)}.{_annotation_note(spec, plan)}"
        return _injected(reason=Reason.IDS_INJECTED, sentence=sentence)
    sentence = f"Nothing is injected: {injection.message}."
    return _injected(reason=Reason.INJECTION_OFF, sentence=sentence)


def _hindered(snapshot: Snapshot, injection: InjectionPlan) -> Finding | None:
    """Say that what pods get is not what their StaticGroup asks for; None when it is."""
    if snapshot.collisions:
        return collided(ConditionType.INJECTED, snapshot.collisions[0])
    found = injection.without_agent
    if found is None:
        return None
    return _injected(
        reason=found.reason,
        sentence=f"New pods get no Connect agent, without which workers drop their ids: {found.sentence}",
        remedy=remedies.make_room_for_agent(found.remedy),
    )


def _carriers(spec: StaticGroupSpec, snapshot: Snapshot, plan: Plan) -> str:
    """Say how many pods carry the ids that were issued to them, where no expected pod lacks one."""
    live = [p for p in snapshot.pods if p.state is PodState.LIVE]
    if snapshot.workload is not None:
        wants = snapshot.workload.wants
        injected = plan.injection.injected if plan.injection is not None else None
        by = _BY.get(injected.method, "") if injected is not None else ""
        ordinals = (ordinal_of_pod(spec.workload_ref.name, seat_name(p, snapshot.scope)) for p in live)
        carriers = sum(ordinal is not None and wants(ordinal) for ordinal in ordinals)
        return f"All {carriers} pods carry the id that was issued to them{by}"
    carrying = sum(plan.naming is not None and plan.naming.gives(p) for p in live)
    running = f"{carrying} pods still run with the id that was issued to them"
    return f"There is no {spec.workload_ref.kind}, so no pod is expected; {running}"


def collided(kind: ConditionType, found: Obstacle) -> Finding:
    """Say that two StaticGroups write one place of the same pods."""
    sentence, remedy = f"{found.sentence}; neither removes members.", as_sentence(found.remedy)
    return Finding(kind=kind, reason=found.reason, sentence=sentence, remedy=remedy)


def _not_given(spec: StaticGroupSpec, injection: InjectionPlan) -> Finding:
    """Say why the next pods get no id although the spec asks for it."""
    if injection.lacking_container:
        sentence = (
            f"spec.client names container {injection.lacking_container}, which the pods of {spec.workload_ref.kind} "
            f"{spec.workload_ref.name} do not have, so its variables are written nowhere"
        )
        return _injected(reason=Reason.IDENTITY_INVALID, sentence=sentence, remedy=remedies.NAME_CONTAINER)
    if injection.obstacle is not None:
        found = injection.obstacle
        sentence = f"New pods get no id: {found.sentence}"
        return _injected(reason=found.reason, sentence=sentence, remedy=found.remedy)
    if injection.verdict is InjectionVerdict.NOT_SERVED:
        return _injected(reason=Reason.INJECTION_NOT_SERVED, sentence=f"{injection.message}.")
    others = "pods with the same id would fence each other; pods that run keep theirs"
    sentence = f"New pods get no id: {injection.message}, and {others}"
    return _injected(reason=Reason.CONFLICTING_STATIC_GROUPS, sentence=sentence, remedy="change spec.idTemplate here")


def _pods_without_id(snapshot: Snapshot, plan: Plan) -> Finding:
    without = plan.pods_without_id
    first = without[0]
    cause = "they were created before the injection was in force or set another id"
    injected = plan.injection.injected if plan.injection is not None else None
    if injected is not None and injected.method == InjectedMethod.WEBHOOK:
        cause = (
            "they were created before the injection was in force or while the webhook did not answer, or set another id"
        )
    if plan.injection is not None and plan.injection.verdict is InjectionVerdict.OFF_BY_USER:
        cause = "client.type is Own, and they show another id"
    if first.slots:
        cause = "the operator did not answer them for 30 s when they started"
    if _has_own_id(plan, first.pod_name):
        cause = "they set ids of their own"
    others = _whose(plan)
    if others:
        cause += f"; some carry the id of {min(others)}, and the members of one id fence each other"
    return _injected(
        reason=Reason.PODS_WITHOUT_ID,
        sentence=f"{len(without)} pods run without the id they should have, such as {first.pod_name}: {cause}",
        remedy=way_to_id(snapshot, plan, first.pod_name),
    )


def _whose(plan: Plan) -> set[str]:
    """Return the names of the pods whose ids are carried by other pods, which lack their own."""
    owners = {seat.key: seat.pod_name for seat in plan.table.wanted} if plan.table is not None else {}
    carried = ((pod.pod_name, owners.get(i)) for pod in plan.pods_without_id for i in pod.instance_ids)
    return {owner for pod_name, owner in carried if owner is not None and owner != pod_name}


def _has_own_id(plan: Plan, pod_name: str) -> bool:
    """True when the member of a pod joined under an id of the application's own."""
    return plan.own_ids is not None and pod_name in plan.own_ids.pod_of.values()


def way_to_id(snapshot: Snapshot, plan: Plan, pod_name: str) -> str:
    """Say how a pod that runs without its id gets it."""
    injection = plan.injection
    if injection is not None and injection.lacking_container:
        return remedies.NAME_CONTAINER
    is_rolling = snapshot.workload is not None and snapshot.workload.is_rolling
    if plan.own_ids is not None and _has_own_id(plan, pod_name) and not is_rolling:
        return plan.own_ids.remedy
    if injection is not None and injection.verdict in _NO_IDS:
        return _NO_IDS[injection.verdict]
    if injection is not None and injection.verdict is InjectionVerdict.OFF_BY_USER and injection.injected is not None:
        return remedies.write_ids(injection.injected.id_template, had_others=bool(injection.templates))
    return _way_to_new_pod(snapshot, pod_name)


def _way_to_new_pod(snapshot: Snapshot, pod_name: str) -> str:
    """Say how a pod is replaced by one that gets its id."""
    workload = snapshot.workload
    if workload is None:
        return remedies.give_ids(snapshot.namespace, pod_name.rpartition("-")[0])
    ordinal = ordinal_of_pod(workload.name, pod_name)
    if not workload.kind.indexes_pods and ordinal is not None and len(str(ordinal)) > NAMED_DIGITS_MAX:
        return remedies.shorten_ordinal(pod_name)
    is_below = ordinal is not None and ordinal - workload.start < workload.partition
    if workload.update_strategy == "OnDelete" or is_below:
        return remedies.give_id(snapshot.namespace, pod_name)
    if workload.is_rolling:
        return remedies.AWAIT_ROLL
    return remedies.give_ids(snapshot.namespace, workload.name, workload.kind)


def _annotation_note(spec: StaticGroupSpec, plan: Plan) -> str:
    """Say that the ids can be edited where they can; nothing where they are composed of the pod's name."""
    injected = plan.history.injected
    if injected is None or not follows_annotation(spec.client, injected.id_template):
        return ""
    return (
        f" These ids follow the pod annotation {names.INSTANCE_ID_ANNOTATION}, which is read whenever a container "
        "starts: do not edit it."
    )


def timeout_sufficient(snapshot: Snapshot, plan: Plan) -> Finding:
    """Say whether the session timeout outlasts a restart."""
    t, kind, unknown = plan.timeout, ConditionType.TIMEOUT_SUFFICIENT, why_unknown(snapshot, plan)
    if t is None or unknown:
        return Finding(kind=kind, reason=Reason.TIMEOUT_UNKNOWN, sentence=unknown)
    sentence, need_s = t.message, -(-t.desired.need_ms // 1000)
    if t.reason is Reason.TIMEOUT_FITS:
        needed = f"outlasts the {need_s} s that a restart is estimated to take"
        if t.desired.is_measured:
            needed = f"outlasts the {need_s} s that a restart takes by the absences that were measured"
        if t.desired.is_from_fleet:
            needed = f"reaches the {need_s} s that the fleet learner recommends"
        sentence = _timeout_that_fits(t, needed)
    if t.group_config.note:
        sentence = f"{sentence.removesuffix('.')}; {t.group_config.note}"
    return Finding(kind=kind, reason=t.reason, sentence=ended(sentence))


def _timeout_that_fits(t: TimeoutPlan, needed: str) -> str:
    """Say which session timeouts hold, that they suffice, and which one comes with the next restart if it differs."""
    shortest_ms, longest_ms, next_ms = t.in_force.shortest_ms, t.in_force.longest_ms, t.next_ms
    if shortest_ms is None or longest_ms is None:
        return f"There is no pod now; the next ones get {seconds(next_ms or 0)}, which {needed}"
    others = f"; pods get {seconds(next_ms)} with their next restart" if next_ms is not None and (
        shortest_ms, longest_ms) != (next_ms, next_ms) else ""
    if shortest_ms == longest_ms:
        return f"The session timeout of {seconds(shortest_ms)} {needed}{others}"
    return f"The shortest session timeout of the pods, {seconds(shortest_ms)}, {needed}{others}"


def recommendation_current(plan: Plan) -> tuple[Finding, ...]:
    """Return the finding; none while no recommendations are read."""
    verdict = plan.timeout.desired.advice if plan.timeout is not None else None
    if verdict is None:
        return ()
    sentence, remedy = _RECOMMENDATIONS[verdict.reason]
    return (
        Finding(
            kind=ConditionType.RECOMMENDATION_CURRENT,
            reason=verdict.reason,
            sentence=sentence.format(cause=verdict.cause),
            remedy=remedy,
        ),
    )
