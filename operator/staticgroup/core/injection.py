"""Which ids the next pods receive, since when ids can exist, and whether the agent comes into the next Connect workers.

* The admission policy injects nothing while `status.injected` is absent. The operator writes it only once its pod watch
  is whole, so no pod can carry an id of this StaticGroup that the watch has not seen.
* The policy decides for each pod whether it gets the agent (`api.policy`). The same is asked here of the pod
  template, so that the status names the field that keeps the agent out before a pod is made.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ..api.identifiers import AmbiguousIdentityError, IdScheme, InvalidInstanceIdError, resolve_template
from ..api.injection import env_entries, injector, options_may_be_absent
from ..api.names import AGENT_MOUNT_PATH, AGENT_NAME, JAVA_OPTIONS_VARIABLE
from ..api.ordinals import Ordinals
from ..api.reasons import Reason
from ..api.resources.client import ClientType
from ..api.resources.injected import InjectedMethod
from ..api.resources.memory import TEMPLATES_MAX
from ..api.resources.staticgroup import Mode, StaticGroupSpec
from .evidence.chain import PodState
from .findings import Obstacle
from .group import GroupView
from .ids.first_issue import obstacle_to_first_ids
from .ids.naming import drawn_scope, ordinal_of_pod, scheme_of, seat_name
from .ids.overlap import shared_by_two_ordinals
from .snapshot import History, Injected, Snapshot
from .workload import JavaOptions, WorkloadView, consumer_container

_NOT_SERVED = (
    "New pods get no id: neither the admission policy (Kubernetes 1.36; chart value injection.policy.enabled) nor the "
    "webhook (injection.webhook.enabled; it needs its certificate) is there; enable one, or set spec.client.type to "
    "Own and put the ids into the pod template yourself"
)


class InjectionVerdict(StrEnum):
    """What injection does now; the projection turns it into the Injected condition."""

    ACTIVE = "Active"
    OFF_BY_USER = "OffByUser"
    OBSERVE_ONLY = "ObserveOnly"
    NOT_SERVED = "NotServed"
    WAITING = "Waiting"
    INVALID = "Invalid"
    CONFLICTING = "Conflicting"
    HINDERED = "Hindered"


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionPlan:
    """The injection of one StaticGroup.

    Parameters
    ----------
    injected: what status.injected shall say but for the session timeout; None while no id may be issued.
    templates: resolved templates of earlier specs, newest first, whose ids may still be held.
    obstacle: why no first ids are issued, or those of another template not yet; None for any other reason.
    lacking_container: the first container that needs variables and that the pod template lacks; "" when it has all.
    brings_agent: the next pods get the agent of Connect workers.
    without_agent: what keeps it out of them; None where nothing does, or it is not asked for.
    watch: name of the pod watch that precedes every join with its ids, as they are issued only now; "" otherwise.
    """

    injected: Injected | None
    templates: tuple[str, ...]
    verdict: InjectionVerdict
    message: str = ""
    obstacle: Obstacle | None = None
    lacking_container: str = ""
    brings_agent: bool = False
    without_agent: Obstacle | None = None
    watch: str = ""


def plan_injection(spec: StaticGroupSpec, snapshot: Snapshot, history: History) -> InjectionPlan:
    """Decide which ids the injection may write into the next pods; the session timeout in it is that of before.

    The scope is fixed by the first acknowledgement: a new one would rename every member.
    """
    before = history.injected
    chosen = injector(policy_served=snapshot.policy_served, webhook_served=snapshot.webhook_served)
    verdict, message = _verdict(spec, chosen, snapshot)
    method = (chosen if verdict is InjectionVerdict.ACTIVE else InjectedMethod.NONE).value
    if before is None and not (snapshot.watch and snapshot.cluster_uid):
        message = "the pod watch is not complete yet"
        return InjectionPlan(injected=None, templates=(), verdict=InjectionVerdict.WAITING, message=message)
    scope = before.scope if before is not None else drawn_scope(snapshot)
    try:
        template = resolve_template(
            spec.template,
            namespace=snapshot.namespace,
            workload_name=spec.workload_ref.name,
            group_name=snapshot.name,
            scope=scope,
        )
    except InvalidInstanceIdError as error:
        return _refused(spec, history, method, str(error))
    templates = (before.id_template, *history.templates) if before is not None else history.templates
    templates = tuple(t for t in dict.fromkeys(templates) if t != template)
    is_other = before is None or before.id_template != template
    unfit = _ambiguous(spec, history, template) or _one_too_many(template, templates)
    unfit = unfit or _without_ordinal(spec, template)
    scheme = None
    with suppress(AmbiguousIdentityError):  # nothing is decided about such ids
        scheme = scheme_of(spec, template)
    unfit = unfit or (_carried_by_another(scheme, snapshot) if scheme is not None and is_other else "")
    if unfit:
        return _refused(spec, history, method, unfit)
    if verdict is InjectionVerdict.ACTIVE and snapshot.prior_claims:
        return _silenced(history, InjectionVerdict.CONFLICTING, " and ".join(snapshot.prior_claims))
    is_first = before is None or before.method == InjectedMethod.NONE.value
    if verdict is InjectionVerdict.ACTIVE and (is_first or is_other):
        # An ordinal of before says nothing of the ids that another template makes for it.
        issued = Ordinals() if is_other or templates else history.issued_ordinals
        is_scoped = "{scope}" in spec.template
        is_drawn = is_scoped and scope == drawn_scope(snapshot)
        obstacle = None
        if scheme is not None:
            obstacle = obstacle_to_first_ids(scheme, snapshot, issued, is_scoped=is_scoped, is_drawn=is_drawn)
        if obstacle is not None and is_first:
            return _silenced(history, InjectionVerdict.HINDERED, obstacle.sentence, obstacle)
        if obstacle is not None:
            found = f"new pods go on getting the earlier ids, because template {template} is not used yet"
            return replace(_refused(spec, history, method, f"{found}: {obstacle.sentence}"), obstacle=obstacle)
    injected = Injected(
        scope=scope,
        method=method,
        id_template=template,
        session_timeout_ms=before.session_timeout_ms if before is not None else None,
        container=_container(spec, snapshot, before),
    )
    is_active = verdict is InjectionVerdict.ACTIVE
    return InjectionPlan(
        injected=injected,
        watch=_first_watch(spec, snapshot, history, scope) if before is None else "",
        templates=templates,
        verdict=verdict,
        message=message,
        lacking_container=_lacking_container(spec, snapshot) if is_active else "",
        brings_agent=is_active and is_brought(spec, snapshot.workload),
        without_agent=hindrance(spec, snapshot.workload) if is_active else None,
    )


def _container(spec: StaticGroupSpec, snapshot: Snapshot, before: Injected | None) -> str:
    """Return the container that receives the variables that name none; the one of before while no template is seen."""
    if snapshot.workload is None or not snapshot.workload.containers:
        return spec.client.container or (before.container if before is not None else "")
    return consumer_container(spec.client, snapshot.workload.containers)


def _lacking_container(spec: StaticGroupSpec, snapshot: Snapshot) -> str:
    """Return the first container that needs variables and that no pod has; "" when there is none or it is not known.

    Other webhooks add containers that no template shows, such as Dapr's daprd: those that live pods have count too.
    """
    present = {c.name for c in snapshot.workload.containers} if snapshot.workload is not None else set()
    present = present and present.union(*(p.started_containers for p in snapshot.pods))
    named = (entry.container for entry in env_entries(spec.client))
    return next((name for name in named if name and present and name not in present), "")


def _silenced(
    history: History, verdict: InjectionVerdict, message: str, obstacle: Obstacle | None = None
) -> InjectionPlan:
    """Give the next pods no id, because others hold the same or would: a dynamic member fences nobody.

    What was never issued is not remembered either, or the conflict would outlast the template that caused it.
    """
    before = history.injected
    return InjectionPlan(
        injected=before and replace(before, method=InjectedMethod.NONE.value),
        templates=history.templates,
        verdict=verdict,
        message=message,
        obstacle=obstacle,
    )


def _refused(spec: StaticGroupSpec, history: History, method: str, message: str) -> InjectionPlan:
    """Keep the earlier template while this one's ids cannot be issued, unless the earlier one is ambiguous, too."""
    kept = history.injected
    if kept is not None:
        # Injection may have stopped because the ids are another StaticGroup's; a wrong template does not change that.
        is_off = kept.method == InjectedMethod.NONE.value or bool(_ambiguous(spec, history, kept.id_template))
        kept = replace(kept, method=InjectedMethod.NONE.value if is_off else method)
    return InjectionPlan(injected=kept, templates=history.templates, verdict=InjectionVerdict.INVALID, message=message)


def _without_ordinal(spec: StaticGroupSpec, template: str) -> str:
    """Say why a template makes no id of a Deployment's slot; "" where it does, and for other workloads."""
    if not spec.workload_ref.known_kind.has_slots or "{ordinal}" not in template:
        return ""
    kind = spec.workload_ref.kind
    return f"the pods of a {kind} have no {{ordinal}}; in spec.idTemplate take {{podName}}, which stands for the slot"


def _ambiguous(spec: StaticGroupSpec, history: History, template: str) -> str:
    """Say that a template gives a pod an id that an earlier one gave to another pod and so fences it; "" if not."""
    before = history.injected
    if before is None:
        return ""
    others = [t for t in (before.id_template, *history.templates) if t != template]
    with suppress(AmbiguousIdentityError):  # nothing is decided about such ids
        mine = scheme_of(spec, template)
        for earlier in others:
            example = shared_by_two_ordinals(mine, scheme_of(spec, earlier))
            if example is not None:
                return (
                    f"template {template} gives a pod an id that the earlier template {earlier} gave to another "
                    f"pod{f' (such as {example})' if example else ''}; take one with a word of its own behind the "
                    "ordinal, such as {podName}-b.{scope}"
                )
    return ""


def _one_too_many(template: str, earlier: tuple[str, ...]) -> str:
    """Say that an earlier template whose ids somebody may hold would be forgotten; "" where all of them are kept."""
    if len(earlier) <= TEMPLATES_MAX:
        return ""
    return (
        f"template {template} is one too many while ids of {TEMPLATES_MAX} earlier templates may be in use; "
        f"{earlier[0]} stays in force; set spec.idTemplate back to that one, roll until no pod has an older id, and "
        "then change it"
    )


def _carried_by_another(scheme: IdScheme, snapshot: Snapshot) -> str:
    """Say that a live pod carries an id that a scheme gives to another one, so that it is fenced; "" if none does.

    As after a template that is remembered no more, which gave web-2 what this one gives to web-21.
    """
    for pod in snapshot.pods:
        own = ordinal_of_pod(scheme.workload_name, seat_name(pod, snapshot.scope))
        for each in sorted(pod.instance_ids) if pod.state is PodState.LIVE else ():
            made = scheme.ordinal_of(each)
            if made is not None and made != own:
                return (
                    f"template {scheme.template} gives {each} to {scheme.workload_name}-{made}, and pod {pod.pod_name} "
                    "has it; take another template, or roll that pod first"
                )
    return ""


def _first_watch(spec: StaticGroupSpec, snapshot: Snapshot, history: History, scope: str) -> str:
    """Return the name of the watch that saw every carrier of the ids issued now; "" where there may be others.

    An id with a scope is issued by nobody else and never before, under whatever template. One that a pod or a member
    has all the same is explained by a history that was lost only, as is a StaticGroup that is older than `settle`. Ids
    without a scope may be held by processes that nobody saw, such as one of a pod that was deleted by force.
    """
    if "{scope}" not in spec.template or snapshot.age_s >= snapshot.settle_least_s:
        return ""
    if history.members.watch or history.members.attributions or history.issued_ordinals:
        return ""  # something is remembered, so only a part was lost
    members = snapshot.group.members if isinstance(snapshot.group, GroupView) else ()
    held = {m.instance_id for m in members if m.instance_id is not None}
    is_carried = any(scope in i for i in held.union(*(p.instance_ids for p in snapshot.known)))
    return "" if is_carried else snapshot.watch


def _verdict(spec: StaticGroupSpec, method: InjectedMethod, snapshot: Snapshot) -> tuple[InjectionVerdict, str]:
    """Say whether ids are injected, and why not."""
    if spec.client.type is ClientType.OWN:
        message = "client.type is Own: the application brings its ids, they are verified only"
        return InjectionVerdict.OFF_BY_USER, message
    if spec.mode is not Mode.MANAGE:
        return InjectionVerdict.OBSERVE_ONLY, f"nothing is injected in mode {spec.mode.value}"
    if snapshot.slot_obstacle:
        return InjectionVerdict.NOT_SERVED, f"New pods get no id: {snapshot.slot_obstacle}"
    if method is InjectedMethod.NONE:
        return InjectionVerdict.NOT_SERVED, _NOT_SERVED
    return InjectionVerdict.ACTIVE, ""


_OPTIONS: Final = {
    JavaOptions.ABSENT: (
        f"sets no {JAVA_OPTIONS_VARIABLE}, and to set it would replace the image's own",
        f'add {JAVA_OPTIONS_VARIABLE} to its env with the value that the image has ("" if it has none)',
    ),
    JavaOptions.PERHAPS_FROM_ELSEWHERE: (
        f"has envFrom, and a {JAVA_OPTIONS_VARIABLE} that is written would replace one that may come from there",
        f'add {JAVA_OPTIONS_VARIABLE} to its env with the value that comes from there ("" if none does)',
    ),
    JavaOptions.REFERENCE: (
        f"takes {JAVA_OPTIONS_VARIABLE} by valueFrom, to which nothing can be added",
        f"write it as text in its env ({JAVA_OPTIONS_VARIABLE}.value)",
    ),
    JavaOptions.TWICE: (f"sets {JAVA_OPTIONS_VARIABLE} twice", "set it once in its env"),
    JavaOptions.WITH_AGENT: (
        f"names the agent in {JAVA_OPTIONS_VARIABLE} itself, and a worker must not run two",
        "take it out there, or set spec.client.injectAgent to false",
    ),
}


def hindrance(spec: StaticGroupSpec, workload: WorkloadView | None) -> Obstacle | None:
    """Return what keeps the agent out of the next pods; None if nothing does, it is not wanted, or it is not known.

    Its remedy is of the pod template alone, without the roll that follows.
    """
    if workload is None or not spec.client.inject_agent:
        return None
    if workload.agent_names:
        field = workload.agent_names[0]
        sentence = f"{field} of {workload.kind.kind} {workload.name} has a {AGENT_NAME} of its own"
        remedy = "rename it, or set spec.client.injectAgent to false"
        return Obstacle(reason=Reason.AGENT_NOT_INJECTED, sentence=sentence, remedy=remedy)
    name = consumer_container(spec.client, workload.containers)
    container = next((c for c in workload.containers if c.name == name), None)
    if container is None:
        return None
    where = f"container {container.name} of {workload.kind.kind} {workload.name}"
    if container.has_agent_mount:
        return Obstacle(
            reason=Reason.AGENT_NOT_INJECTED,
            sentence=f"{where} mounts something at or above {AGENT_MOUNT_PATH}",
            remedy="mount it elsewhere, or set spec.client.injectAgent to false",
        )
    if container.java_options is JavaOptions.ABSENT and options_may_be_absent(spec.client):
        return None
    if container.java_options is JavaOptions.TEXT:
        return None
    sentence, remedy = _OPTIONS[container.java_options]
    return Obstacle(reason=Reason.AGENT_NOT_INJECTED, sentence=f"{where} {sentence}", remedy=remedy)


def is_brought(spec: StaticGroupSpec, workload: WorkloadView | None) -> bool:
    """True when the agent is asked for, and nothing in the pod template keeps it out."""
    return workload is not None and spec.client.inject_agent and hindrance(spec, workload) is None


def with_init_container(spec: StaticGroupSpec, workload: WorkloadView | None) -> WorkloadView | None:
    """Return a workload with the init container that its pods get besides those of their template."""
    if workload is None or not is_brought(spec, workload):
        return workload
    return replace(workload, init_container_count=workload.init_container_count + 1)
