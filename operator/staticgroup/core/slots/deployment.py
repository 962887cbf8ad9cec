"""The slots of one Deployment: which its pods have, which are kept for pods to come, and what the next notes say.

A slot is called `<deployment>-<number>`, as the pods of a StatefulSet are, so ids, seats and removals know it as a pod
name. What a Deployment wants is therefore read from its pods: the slots of those that stay, and as many slots of pods
that end or have ended as there are pods to come that may take them over. The rest has departed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...api.names import SLOT_ANNOTATION
from ...api.schema import INT32_MAX
from ...api.workloads import WorkloadKind
from ..evidence.chain import KnownPod, PodState
from ..evidence.pod import NodeView, SlotView
from ..ids.naming import Naming, ordinal_of_pod
from ..members.memory import Members, is_under
from ..workload import Rollout, WorkloadView
from .hand_out import Demand, SlotPod, Step, hand_out

LATE_S: Final = 30.0
"""A pod that is being deleted is lost when it has not ended so long after its grace period."""
BEAT_S: Final = 10.0
"""A pod that waits hears anew so often; after 30 s without a word it starts without a slot."""
AGAIN_S: Final = 2.0
"""A pod that has not begun so long after it was given a slot hears of it again, as its kubelet may have missed it, then
ever more rarely: each time after half of the time that has passed."""
AGAIN_FOR_S: Final = 60.0
"""But not for longer: by then it has started without, or nobody there reads notes."""
WAIT_MAX_S: Final = 300.0
"""A pod waits for so long on top of what a pod of the Deployment may take to start and to end."""
FILES_MINOR: Final = 35
"""From this kubelet on a variable may be read from a file (fileKeyRef, KEP-3721; Kubernetes 1.35)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotNote:
    """One note to be written.

    Parameters
    ----------
    pod: as the watch has shown it; the note is written over that version.
    annotation, text: what is written. step: what it says. slot: that it is about; "" for none.
    """

    pod: KnownPod
    annotation: str
    text: str
    step: Step
    slot: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPlan:
    """What one round decides about the slots of a Deployment.

    Parameters
    ----------
    notes: to be written now. waiting: of each pod that waits, what its next note does, the oldest first.
    longest_wait_s: how long the pod has waited that waits longest, seconds; None for a workload that is no Deployment.
    requeue_after_s: when the next note is due if nothing happens before; None: none is.
    """

    notes: tuple[SlotNote, ...] = ()
    waiting: tuple[tuple[KnownPod, Step, str], ...] = ()
    longest_wait_s: float | None = None
    requeue_after_s: float | None = None


def slot_obstacle(kind: WorkloadKind, oldest: NodeView | None, is_fence_served: bool) -> str:
    """Say why pods of a kind can get no slot, as a sentence without a full stop; "" where they can.

    Parameters
    ----------
    oldest: the Node with the oldest kubelet; None where no Node can be read.
    is_fence_served: the policy is installed that keeps everybody but the operator from writing notes.
    """
    if not is_fence_served:
        return f"{kind.kind}s are not served here; set chart value {kind.chart_value} to true"
    if oldest is None:
        return f"pods of a {kind.kind} read ids from files, which old kubelets cannot, and no Node can be read"
    if oldest.is_virtual:
        return f"node {oldest.name} is virtual, and pods of a {kind.kind} read ids from files that a real kubelet reads"
    if (oldest.kubelet_minor or 0) < FILES_MINOR:
        return (
            f"node {oldest.name} runs kubelet {oldest.kubelet_version}, and pods of a {kind.kind} read ids from files, "
            f"which needs 1.{FILES_MINOR} on every node; until then take a StatefulSet"
        )
    return ""


def slot_pods(known: Iterable[KnownPod], scope: str, watch_no: int, now_s: float) -> tuple[SlotPod, ...]:
    """Return what the watch has shown of the pods that have or want a slot of one StaticGroup.

    Parameters
    ----------
    known: every pod of the Deployment that was seen, present or gone. watch_no: of the pod watch, see `PodBook`.

    Returns
    -------
    In the order of `known`; without copies of pods, which have no note and wait in vain.
    """
    found = ((pod, pod.slot_of(scope)) for pod in known)
    shown = ((pod, slot) for pod, slot in found if slot is not None)
    ours = ((pod, slot) for pod, slot in shown if slot.given or slot.claimed or _is_owned(pod, slot.workload_name))
    return tuple(_slot_pod(pod, slot, watch_no, now_s) for pod, slot in ours)


def _slot_pod(pod: KnownPod, slot: SlotView, watch_no: int, now_s: float) -> SlotPod:
    is_late = pod.ends_by_s is not None and now_s > pod.ends_by_s + LATE_S
    has_ended = pod.state is PodState.DEAD and not pod.has_lost_run
    # A pod of which a run was lost lives on after its node was restarted, but its end will never be certified.
    is_uncertain = pod.has_lost_run and (pod.is_deleting or not pod.runs)
    return SlotPod(
        uid=pod.uid,
        given=slot.given,
        claimed=slot.claimed,
        is_waiting=slot.is_waiting and not slot.given and pod.state is PodState.LIVE and not pod.is_deleting,
        waits_since_s=slot.changed_s,
        has_started=slot.has_started,
        is_ending=pod.is_deleting and not has_ended,
        is_lost=not has_ended
        and (pod.state is not PodState.LIVE or is_uncertain or pod.is_over or (pod.is_deleting and is_late)),
        is_released=not pod.is_owned,
        has_ended=has_ended,
        is_end_watched=has_ended and pod.ended_under == watch_no,
    )


def with_slots(view: WorkloadView, pods: Sequence[SlotPod]) -> WorkloadView:
    """Return a Deployment with the numbers of the slots that it wants.

    Parameters
    ----------
    pods: see `slot_pods`, in the order in which they changed last.
    """
    is_behind = view.observed_generation < view.metadata_generation
    updated = 0 if is_behind else view.updated_replicas
    # During a pause, which may last for days, nobody comes for a slot but those that come already.
    to_replace = 0 if view.rollout is not None and view.rollout.is_paused else view.replicas - updated
    coming = to_replace + sum(pod.comes for pod in pods)
    to_come = max(view.replicas - sum(pod.fills for pod in pods), coming, 0)
    wanted = [pod.given for pod in pods if pod.given and pod.stays]
    claimed = {pod.claimed for pod in pods if pod.is_waiting}
    passing = {p.given for p in pods if p.given and not p.stays and not p.is_lost} - set(wanted)
    passing -= {p.given for p in pods if p.is_lost}
    # Slots that were left long ago must not stand for those that pass on now.
    newest = {p.given: number for number, p in enumerate(pods)}
    wanted += sorted(passing, key=lambda slot: (slot not in claimed, -newest[slot]))[:to_come]
    numbers = (ordinal_of_pod(view.name, slot) for slot in wanted)
    listed = tuple(sorted({int(n) for n in numbers if n is not None}))
    return replace(view, listed=listed, start=listed[0] if listed else 0)


def plan_slots(
    view: WorkloadView | None, known: Sequence[KnownPod], members: Members, naming: Naming, now_s: float, *,
    scope: str, watch: str, watch_no: int,
) -> SlotPlan:  # fmt: skip
    """Decide on the next notes; nothing for a workload that is no Deployment.

    Parameters
    ----------
    known, scope, watch_no: see `slot_pods`. members: as described last; they count only under the watch that has seen
        their pods. naming: of the ids that are issued. watch: its name; "" while it is not whole.
    """
    if view is None or view.rollout is None:
        return SlotPlan()
    pods = slot_pods(known, scope, watch_no if watch else -1, now_s)
    is_seen = is_under(members.watch, watch) or is_under(members.watch_described, watch)
    worth = _worth(members, naming, pods) if is_seen else ()
    by_uid = {pod.uid: pod for pod in known}
    demand = _demand(view, view.rollout, known, scope)
    notes: list[SlotNote] = []
    waiting: list[tuple[KnownPod, Step, str]] = []
    waits = []
    taken = {pod.given for pod in pods} | {pod.claimed for pod in pods}
    for uid, step, offered in hand_out(pods, worth, demand, now_s):
        pod = by_uid[uid]
        shown = pod.slot_of(scope)
        slot = _own_slot(view.name, uid, taken) if step is Step.OWN else offered
        taken.add(slot)
        waiting.append((pod, step, slot))
        if shown is None or not pod.resource_version:  # of no version a note would be written over any
            continue
        if step is Step.WAIT and shown.count and 0 <= now_s - shown.noted_s < BEAT_S:
            waits.append(BEAT_S - (now_s - shown.noted_s))
            continue
        waits.append(BEAT_S)
        notes.append(_note(pod, shown, step, slot))
    for pod in known:
        shown = pod.slot_of(scope)
        is_here = pod.state is PodState.LIVE and not pod.is_deleting
        if not is_here or shown is None or not shown.given or not shown.is_waiting:
            continue
        if now_s - shown.changed_s >= AGAIN_FOR_S:
            continue
        due_s = shown.noted_s + max(AGAIN_S, (shown.noted_s - shown.changed_s) / 2)
        if now_s >= due_s:
            notes.append(_note(pod, shown, Step.GIVE, shown.given))
        waits.append(max(0.1, due_s - now_s))
    longest_s = max((now_s - pod.waits_since_s for pod in pods if pod.is_waiting), default=0.0)
    return SlotPlan(
        notes=tuple(notes), waiting=tuple(waiting), longest_wait_s=longest_s, requeue_after_s=min(waits, default=None)
    )


def _demand(view: WorkloadView, rollout: Rollout, known: Iterable[KnownPod], scope: str) -> Demand:
    """Return what a Deployment asks for; a pod waits longer where pods take long to start and to end."""
    slots = (pod.slot_of(scope) for pod in known)
    given_s = (slot.changed_s for slot in slots if slot is not None and slot.given)
    start_s = max((c.startup_budget_s or 0 for c in view.containers), default=0)
    return Demand(
        replicas=view.replicas,
        gives_up=rollout.ends_before_it_begins and not rollout.is_paused,
        passed_on_s=max(given_s, default=0.0),
        max_wait_s=WAIT_MAX_S + view.termination_grace_s + start_s + rollout.min_ready_s,
    )


def _worth(members: Members, naming: Naming, pods: Iterable[SlotPod]) -> Collection[str]:
    """Return the slots of which a member was in the group whose pods have all ended or are ending."""
    going = {pod.uid for pod in pods if (pod.has_ended or pod.is_ending) and not pod.is_lost}
    found = ((naming.schemes[0].ordinal_of(i), a.carriers) for i, a in members.attributions.items())
    name = naming.schemes[0].workload_name
    return {f"{name}-{ordinal}" for ordinal, carriers in found if ordinal is not None and carriers <= going}


def _own_slot(workload_name: str, uid: str, taken: Collection[str]) -> str:
    """Return a slot that nobody had: its number is drawn from the uid of the pod that has it first."""
    return next(slot for slot in _drawn(workload_name, uid) if slot not in taken)


def _drawn(workload_name: str, uid: str) -> Iterator[str]:
    draw = 0
    while True:
        number = int.from_bytes(hashlib.sha256(f"{uid}/{draw}".encode()).digest()[:4]) & INT32_MAX
        yield f"{workload_name}-{number}"
        draw += 1


def _is_owned(pod: KnownPod, workload_name: str) -> bool:
    """Return True for a pod of one of the Deployment's ReplicaSets, which are called `<deployment>-<hash>`."""
    return pod.owner_name.rpartition("-")[0] == workload_name


def _note(pod: KnownPod, shown: SlotView, step: Step, slot: str) -> SlotNote:
    count = shown.count + 1
    text = f"{pod.uid} waits {count} {slot or '-'}"
    if step in (Step.GIVE, Step.OWN):
        text = f"{pod.uid} has {slot} {count}"
    annotation = f"{SLOT_ANNOTATION}-{shown.scope}"
    return SlotNote(pod=pod, annotation=annotation, text=text, step=step, slot=slot)
