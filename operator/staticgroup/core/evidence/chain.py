"""What is known of one pod: its object versions folded into one value, with the certificate of its end or none.

A pod is LIVE while its object exists uncertified, ENDED once a certificate was seen (stable), and a SUSPECT when its
object is gone without one.

The newest end of a run of each container is kept, as its kubelet reports it. A pod object outlives its containers, so
the end of one run is no certificate of the pod. It proves less: all that this container had started before that moment
is over, because a kubelet starts a run only after the one before it has ended. So a member that was described well
before the end of a run of each container that can hold its id is dead. Source: kubelet convertToAPIContainerStatuses
(state, lastState), SyncPod (computePodActions: a container starts again when its last run is in the state exited).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Final

from ...api.identifiers import may_become
from .certificate import (
    LOST_RUN_REASONS,
    PHASE_MANAGERS_REFUSED,
    Certificate,
    RefusalReason,
    certify,
    certify_unbound,
    is_terminal,
    kubelet_refusal,
    shows_lost_run,
)
from .pod import ContainerPhase, ContainerView, NodeView, PodVersion, SlotView

CLOCK_AHEAD_MAX_S: Final = 1.0
"""A time of a node may be so much later than the same moment by another clock; all of them are in whole seconds."""


class PodState(StrEnum):
    """What is known of one pod UID."""

    LIVE = "Live"
    DEAD = "Ended"
    SUSPECT = "Suspect"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of one run.

    Parameters
    ----------
    finished_at_s: by the node's clock, whole seconds since the Unix epoch.
    received_at_s: when the operator first received it, its own clock, seconds since the Unix epoch.
    doubt: why nothing is concluded from it; "" when nothing stands against that.
    """

    container_id: str
    finished_at_s: float
    received_at_s: float
    doubt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnd:
    """One container that may hold an instance id, and the newest end of a run of it.

    Parameters
    ----------
    end: None while none is known.
    only_ids: see `ContainerView`, of all versions.
    """

    container: str
    end: RunEnd | None = None
    only_ids: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPod:
    """One pod UID as far as the watch has shown it.

    Parameters
    ----------
    instance_ids: union of all ids any version carried; ids are never dropped.
    certificate: the proof of its end; None unless DEAD.
    refusal: the clause that stands against a certificate, for `explain`; "" when none was asked.
    refusal_reason: its kind, a `RefusalReason`; "" when none was asked in this process.
    since_s: when the present state was entered, seconds since the Unix epoch, operator's clock.
    resource_version: of the version last folded.
    object_present: False once the watch said DELETED or a complete LIST did not show it.
    from_birth: the watch delivered every version of this UID from its first.
    runs_known: whatever is not among `started_containers` never ran.
    ids_are_fixed: in every version that was folded; see `PodVersion`.
    started_containers: names of the containers of which any version showed a run; they only accumulate.
    has_lost_run: a process of it may run of which its kubelet tells nothing: any version showed a run as lost (as the
        kubelet does that finds a pod of its Node not among what it runs), or the pod was bound twice. Nothing takes
        that back, and the pod gets no certificate.
    session_timeouts_ms: what its containers started with, as far as it shows; see `PodVersion`.
    ends: of each container that may hold an id, the newest end of a run; forgotten at a restart.
    grace_s: the longest time that its kubelet may let it end by itself; None when no version shows it.
    placed_at_s: when it came to its node, by the API server's clock; 0.0 when that is not known.
    addresses: its own, as it showed them last; shown_at_s: since when, operator's clock, seconds since the Unix epoch.
    ended_no: which certificate of this process it got, counted from 1; 0 for one that no watch brought.
    owner_name: of the last controller that owned it; "" when none did.
    revision: its controller-revision-hash; "" when it has none.
    is_owned: a controller owns it. is_over: its phase is terminal, certified or not.
    ends_by_s: by when it ought to have ended, seconds since the Unix epoch; None while it is not being deleted.
    slots: of a Deployment's pod, see `PodVersion`.
    alive_under, ended_under: under which watch (`PodBook.watch_no`) it was shown last as not ended, and when the watch
        brought its end, by which it had shown it alive; 0: under none of this process.
    """

    namespace: str
    pod_name: str
    uid: str
    instance_ids: frozenset[str]
    node_name: str
    state: PodState
    since_s: float
    resource_version: int
    certificate: Certificate | None = None
    refusal: str = ""
    refusal_reason: str = ""
    object_present: bool = True
    from_birth: bool = False
    runs_known: bool = False
    started_containers: frozenset[str] = frozenset()
    has_lost_run: bool = False
    runs: bool = False
    ready_since_s: float | None = None
    is_deleting: bool = False
    created_at_s: float = 0.0
    restarts: int = 0
    ids_are_fixed: bool = False
    session_timeouts_ms: tuple[int, ...] = ()
    ends: tuple[ContainerEnd, ...] = ()
    grace_s: int | None = None
    placed_at_s: float = 0.0
    addresses: tuple[str, ...] = ()
    shown_at_s: float = 0.0
    ended_no: int = 0
    owner_name: str = ""
    revision: str = ""
    is_owned: bool = True
    is_over: bool = False
    ends_by_s: float | None = None
    slots: tuple[SlotView, ...] = ()
    alive_under: int = 0
    ended_under: int = 0

    @property
    def workload_name(self) -> str:
        """Name of the workload whose pods are called so; of a Deployment's pod, what its init container says."""
        return self.slots[0].workload_name if self.slots else self.pod_name.rpartition("-")[0]

    def slot_of(self, scope: str) -> SlotView | None:
        """Return what it shows of the slot that the StaticGroup of a scope gives it; None where that gives it none."""
        return next((slot for slot in self.slots if slot.scope == scope), None)


def fold(
    known: KnownPod | None, version: PodVersion, node: NodeView | None, *, from_birth: bool, runs_known: bool = False,
    now_s: float,
) -> KnownPod:
    """Fold one object version into what is known of its pod.

    Parameters
    ----------
    known: the pod so far; None when this UID is new.
    from_birth: True when nothing of a new UID can have been missed before this version.
    runs_known: True when no run can have been missed before it; so it is where nothing can.

    Notes
    -----
    A certificate is stable: later versions never take it back. Ids only accumulate. A session timeout may follow an
    annotation, which a container reads when it starts.
    """
    base = known or KnownPod(
        namespace=version.namespace, pod_name=version.name, uid=version.uid, instance_ids=frozenset(), node_name="",
        state=PodState.LIVE, since_s=now_s, resource_version=version.resource_version, from_birth=from_birth,
        created_at_s=version.created_at_s, ids_are_fixed=version.ids_are_fixed,
    )  # fmt: skip
    is_under_way = bool(base.started_containers) and version.restart_count <= base.restarts
    seen = replace(
        base,
        session_timeouts_ms=base.session_timeouts_ms if is_under_way else version.session_timeouts_ms,
        instance_ids=base.instance_ids | version.instance_ids,
        node_name=version.node_name or base.node_name,
        resource_version=max(base.resource_version, version.resource_version),
        object_present=True,
        started_containers=_shared(base.started_containers | version.started_containers),
        has_lost_run=base.has_lost_run or shows_lost_run(version),
        runs=any(c.phase is ContainerPhase.RUNNING for c in version.required),
        ready_since_s=version.ready_since_s,
        is_deleting=version.is_deleting,
        restarts=version.restart_count,
        runs_known=base.runs_known or base.from_birth or runs_known,
        ids_are_fixed=base.ids_are_fixed and version.ids_are_fixed,
        ends=followed(base.ends, version, node, now_s=now_s),
        grace_s=max(
            (s for s in (base.grace_s, version.grace_s, version.deletion_grace_s) if s is not None), default=None
        ),
        placed_at_s=version.scheduled_at_s or base.placed_at_s,
        addresses=version.addresses or base.addresses,
        shown_at_s=now_s if version.addresses and version.addresses != base.addresses else base.shown_at_s,
        owner_name=version.owner_name or base.owner_name,
        revision=version.revision,
        is_owned=bool(version.owner_name),
        is_over=is_terminal(version),
        ends_by_s=_ends_by_s(version),
        slots=_slots(base.slots, version.slots, now_s),
    )
    if seen.certificate is not None:
        return seen
    verdict = certify(
        version, node, started=seen.started_containers, runs_known=seen.runs_known, has_lost_run=seen.has_lost_run
    )
    if isinstance(verdict, Certificate):
        return died(replace(seen, since_s=now_s), verdict)
    since_s = seen.since_s if seen.state is PodState.LIVE else now_s
    return replace(
        seen, state=PodState.LIVE, refusal=verdict.clause, refusal_reason=verdict.reason.value, since_s=since_s
    )


def _ends_by_s(version: PodVersion) -> float | None:
    """Return by when a pod ought to have ended that is being deleted."""
    asked_at_s = version.deletion_asked_at_s
    return None if asked_at_s is None else asked_at_s + (version.deletion_grace_s or 0)


def _slots(known: tuple[SlotView, ...], shown: tuple[SlotView, ...], now_s: float) -> tuple[SlotView, ...]:
    """Return what a version shows of a pod's slots, with since when; a slot that was given is never taken back."""
    if not shown:
        return known
    before = {slot.scope: slot for slot in known}
    return tuple(_slot(before.get(slot.scope), slot, now_s) for slot in shown)


def _slot(known: SlotView | None, shown: SlotView, now_s: float) -> SlotView:
    if known is None:
        return replace(shown, changed_s=now_s)
    shown = replace(shown, given=known.given or shown.given)
    is_same_note = (shown.given, shown.claimed, shown.count) == (known.given, known.claimed, known.count)
    is_same_state = (shown.is_waiting, shown.has_started) == (known.is_waiting, known.has_started)
    return replace(
        shown,
        noted_s=known.noted_s if is_same_note else now_s,
        changed_s=known.changed_s if is_same_state else now_s,
    )


def with_given(known: tuple[SlotView, ...], older: tuple[SlotView, ...]) -> tuple[SlotView, ...]:
    """Add to a pod's slots what an older version shows as given."""
    given = {slot.scope: slot.given for slot in older}
    return tuple(replace(slot, given=slot.given or given.get(slot.scope, "")) for slot in known)


@lru_cache(maxsize=1024)
def _shared(names: frozenset[str]) -> frozenset[str]:
    """Return one and the same set for equal ones, as for the containers of all pods of a workload."""
    return names


def died(known: KnownPod, proof: Certificate) -> KnownPod:
    """Return the pod with the proof of its end, in place of what stood against one."""
    return replace(known, state=PodState.DEAD, certificate=proof, refusal="", refusal_reason="", runs=False)


def vanish(known: KnownPod, *, last: PodVersion | None = None, now_s: float) -> KnownPod:
    """Record that the object is gone; without a certificate the pod becomes a suspect.

    Parameters
    ----------
    last: the version in the watch's DELETED event, after which there is none; None when only the absence is known
        (a LIST does not show the object), so that what happened before it went was not seen.
    """
    if known.state is PodState.DEAD:
        return replace(known, object_present=False)
    if known.state is PodState.SUSPECT:
        return known
    gone = replace(
        known, state=PodState.SUSPECT, object_present=False, from_birth=False, runs_known=False, since_s=now_s
    )
    if last is not None:
        verdict = certify_unbound(last, ever_bound=bool(known.node_name))
        if isinstance(verdict, Certificate):
            return died(gone, verdict)
    return replace(
        gone,
        refusal=f"its object vanished uncertified: {known.refusal or 'its end was not seen'}",
        refusal_reason=known.refusal_reason or RefusalReason.END_UNSEEN.value,
    )


def followed(
    known: tuple[ContainerEnd, ...], version: PodVersion, node: NodeView | None, *, now_s: float
) -> tuple[ContainerEnd, ...]:
    """Add what one version shows to what is known of the ends of a pod's containers.

    Parameters
    ----------
    known: of this UID so far. node: None when it cannot be read.

    Returns
    -------
    One for each container that may hold an instance id, or might in an earlier version.
    """
    before = {each.container: each for each in known}
    shown = {container.name: container for container in version.required}
    holders = (name for name, container in shown.items() if container.may_hold_id)
    ends = tuple(
        _followed(_allowed(before.get(name), name, shown.get(name)), shown.get(name), version, node, now_s)
        for name in dict.fromkeys((*before, *holders))
    )
    return known if ends == known else ends


def holders(ends: Iterable[ContainerEnd], instance_id: str) -> tuple[ContainerEnd, ...]:
    """Return the containers that may hold one id; a client may have appended anything to what its container carries."""
    return tuple(each for each in ends if not each.only_ids or any(may_become(i, instance_id) for i in each.only_ids))


def _allowed(known: ContainerEnd | None, name: str, shown: ContainerView | None) -> ContainerEnd:
    """Return what is known of a container, with the ids that it may hold now; no version takes back what one allows."""
    if known is None:
        return ContainerEnd(container=name, only_ids=shown.only_ids if shown is not None else frozenset())
    if shown is None or not shown.may_hold_id:
        return known
    are_few = bool(known.only_ids and shown.only_ids)
    return replace(known, only_ids=known.only_ids | shown.only_ids if are_few else frozenset())


def _followed(
    known: ContainerEnd, shown: ContainerView | None, version: PodVersion, node: NodeView | None, now_s: float
) -> ContainerEnd:
    """Take the end that a version shows, unless a later one is known."""
    last = shown.last_end if shown is not None else None
    if last is None or last.finished_at_s is None or last.reason in LOST_RUN_REASONS or not last.container_id:
        return known
    if known.end is not None and last.finished_at_s <= known.end.finished_at_s:
        return known
    end = RunEnd(
        container_id=last.container_id, finished_at_s=last.finished_at_s, received_at_s=now_s,
        doubt=_doubt(version, node) or _clock_doubt(last.finished_at_s, version, now_s),
    )
    return replace(known, end=end)


def _doubt(version: PodVersion, node: NodeView | None) -> str:
    """Return why a container's end may not end its processes, or does not come from its kubelet; else ""."""
    refusal = kubelet_refusal(version, node)
    if refusal is not None:
        return refusal.clause
    if version.shares_processes:
        return "the pod shares one process namespace, so its processes may outlive their containers"
    if not version.phase_has_statuses or version.phase_manager in PHASE_MANAGERS_REFUSED:
        return f"the status was written by {version.phase_manager or 'nobody known'}, not by the kubelet alone"
    return ""


def _clock_doubt(finished_at_s: float, version: PodVersion, now_s: float) -> str:
    """Return that the node's clock is ahead when it dates an end after its report by other clocks; "" otherwise."""
    if version.phase_written_at_s is None:
        return "the object does not say when its status was written, so the node's clock cannot be judged"
    is_ahead = finished_at_s > min(now_s, version.phase_written_at_s) + CLOCK_AHEAD_MAX_S
    return f"the clock of node {version.node_name} is ahead" if is_ahead else ""
