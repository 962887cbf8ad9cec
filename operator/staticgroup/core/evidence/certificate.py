"""Death certificates: what one version of a Pod object proves about its processes.

There are only two certificates. E1 "ended": the kubelet itself reports that every container has stopped or was never
started. E1' "never ran": no process ever existed. Everything else (a vanished object, a NotReady node, silence) is no
evidence, and the pod stays a suspect. Each clause closes a hole found by attacking the rule, so each is a mutant that
the tests must kill.

Source: since 1.27 the kubelet withholds a terminal phase while containers may run (kubernetes/kubernetes PR 115331);
it ends a container that it never started, or cannot find, as ContainerStatusUnknown without an id, or leaves it waiting
(status manager's TerminatePod); StatefulSet at-most-one semantics and force deletion (KEP-3329, task "Force Delete
StatefulSet Pods"); PodGCController writes Failed in the kubelet's place, for pods of vanished nodes with the reason
DeletionByPodGC (gcOrphaned) and for pods of out-of-service nodes with none (gcTerminating).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from .pod import ContainerPhase, ContainerView, NodeView, PodVersion

KUBELET_MINOR_MIN = 27
"""Kubelets before 1.27 could post a terminal phase before the containers had stopped."""

PHASE_MANAGERS_REFUSED = frozenset({"kube-controller-manager", "PodGC"})
"""Field managers of the pod garbage collector, "PodGC" up to 1.26. Names only refuse: what was written shows that a
kubelet wrote it (`PodVersion.phase_has_statuses`), not a name, because in some distributions (k3s, MicroK8s) kubelet
and controllers are one program with one name."""

STATUS_UNKNOWN = "ContainerStatusUnknown"
"""Reason that a kubelet writes for a container that it cannot find when the pod ends, lost or never started."""
LOST_RUN_REASONS = frozenset({STATUS_UNKNOWN, "Unknown"})
"""Reasons of an end that nothing saw; containerd writes the second for a run whose shim is gone (unknownExitReason)
and whose process may live (containerd/containerd#10727)."""


class CertificateKind(StrEnum):
    """Kinds of certificates of an end; the value is what the journal keeps."""

    ENDED = "E1"
    NEVER_RAN = "E1Prime"


WORDS: Final = {CertificateKind.ENDED: "has ended", CertificateKind.NEVER_RAN: "never ran"}
"""What each kind proves, to stand behind a pod's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Proof by one object version that no process of its pod runs, in words for the audit line; stable once true."""

    kind: CertificateKind
    resource_version: int
    statement: str


class RefusalReason(StrEnum):
    """Kinds of refusals; the value is a label of the metric that counts them."""

    NOT_TERMINAL = "NotTerminal"
    POD_GARBAGE_COLLECTOR = "PodGarbageCollector"
    OTHER_WRITER = "OtherWriter"
    HOST_PID = "HostPID"
    MIRROR_POD = "MirrorPod"
    NODE_UNREADABLE = "NodeUnreadable"
    NODE_VIRTUAL = "NodeVirtual"
    NODE_OUT_OF_SERVICE = "NodeOutOfService"
    NODE_REPLACED = "NodeReplaced"
    OLD_KUBELET = "OldKubelet"
    NO_CONTAINERS = "NoContainers"
    CONTAINER_ABSENT = "ContainerAbsent"
    CONTAINER_NOT_ENDED = "ContainerNotEnded"
    CONTAINER_LOST = "ContainerLost"
    END_INCOMPLETE = "EndIncomplete"
    END_UNSEEN = "EndUnseen"


class Unproven(NamedTuple):
    """Why a version proves no end; `clause` is stable text for tests and `explain`."""

    reason: RefusalReason
    clause: str


def is_terminal(version: PodVersion) -> bool:
    """Return True in phase Succeeded or Failed, which the kubelet withholds while containers may still run."""
    return version.phase in ("Succeeded", "Failed")


def shows_every_run(version: PodVersion) -> bool:
    """Return True when a version shows whatever ran before it: it has an entry for each container, and is not terminal.

    A kubelet carries a run that it has posted from version to version, as an id, an end or a restart count, until the
    pod ends (convertToAPIContainerStatuses); what it writes then may lack all three (TerminatePod).
    """
    entries = (*version.required, *version.inits)
    is_running = bool(version.required) and not is_terminal(version)
    return is_running and all(c.phase is not ContainerPhase.ABSENT for c in entries)


def _phase_refusal(version: PodVersion) -> Unproven | None:
    """Apply the phase rule: a terminal phase whose writer wrote the container statuses too, which only kubelets do.

    A controller that fails pods of lost nodes (pod garbage collector, Kueue's failure recovery) writes the phase over
    the last statuses of a kubelet that no longer reports.
    """
    if not is_terminal(version):
        return Unproven(RefusalReason.NOT_TERMINAL, f"phase is {version.phase or 'unset'}, not Succeeded or Failed")
    if version.disruption_reason == "DeletionByPodGC":
        return Unproven(
            RefusalReason.POD_GARBAGE_COLLECTOR,
            "the terminal phase was written by the pod garbage collector, not by the kubelet",
        )
    if version.phase_manager in PHASE_MANAGERS_REFUSED:
        return Unproven(
            RefusalReason.POD_GARBAGE_COLLECTOR,
            f"the terminal phase was written by {version.phase_manager}, not by the kubelet",
        )
    if not version.phase_has_statuses:
        writer = version.phase_manager or "nobody known"
        return Unproven(
            RefusalReason.OTHER_WRITER, f"the terminal phase was written by {writer}, the container statuses were not"
        )
    return None


def kubelet_refusal(version: PodVersion, node: NodeView | None) -> Unproven | None:
    """Refuse reports of kubelets whose terminal phase does not imply stopped containers."""
    if version.host_pid:
        return Unproven(RefusalReason.HOST_PID, "the pod uses hostPID, so its processes may outlive its containers")
    if version.is_mirror:
        return Unproven(
            RefusalReason.MIRROR_POD,
            "it mirrors a static pod, which its kubelet starts again whatever becomes of the object",
        )
    if node is None:
        return Unproven(
            RefusalReason.NODE_UNREADABLE, f"node {version.node_name} is not readable, so its kubelet cannot be judged"
        )
    if node.is_virtual or version.is_peer_pod:
        peer = "it is a peer pod, whose machine may outlive it"
        clause = f"node {node.name} is a virtual-kubelet node" if node.is_virtual else peer
        return Unproven(RefusalReason.NODE_VIRTUAL, clause)
    if node.is_out_of_service:
        return Unproven(
            RefusalReason.NODE_OUT_OF_SERVICE,
            f"node {node.name} is out of service, so its pods are ended without its kubelet",
        )
    if _was_replaced(version, node):
        return Unproven(
            RefusalReason.NODE_REPLACED,
            f"node {node.name} was made anew, or had another machine, since the pod came to it",
        )
    if node.kubelet_minor is None or node.kubelet_minor < KUBELET_MINOR_MIN:
        return Unproven(
            RefusalReason.OLD_KUBELET,
            f"kubelet {node.kubelet_version or 'of unknown version'} is older than 1.{KUBELET_MINOR_MIN}",
        )
    return None


def _was_replaced(version: PodVersion, node: NodeView) -> bool:
    """True when another Node object or machine is known to have had the name since a pod came to it.

    The later machine's kubelet starts the pods bound to its name and knows only what it runs itself, while the first
    machine may only be cut off and still run them. The API server dates a binding and a Node. The kubelet dates the
    binding of a pod made with its node, so that date never counts as earlier than the pod's creation.
    """
    came_s = max(version.created_at_s, version.scheduled_at_s or 0.0)
    return came_s < max(node.created_at_s, int(node.other_until_s))


def _never_started(container: ContainerView, started: frozenset[str] | None) -> bool:
    """True for an entry without an end, of a container that never ran, as `started` shows; None shows nothing."""
    if started is None or container.name in started:
        return False
    is_unknown = container.phase is ContainerPhase.TERMINATED and container.reason == STATUS_UNKNOWN
    return container.phase is ContainerPhase.WAITING or (is_unknown and not container.finished_at)


def _container_refusal(version: PodVersion, started: frozenset[str] | None) -> Unproven | None:
    """Demand of every container the spec names that it ended or never started; an absent entry means alive.

    A required container that ended shows that the init containers before it had ended. One that never started does
    not, so then the init containers must have ended too.
    """
    if not version.required:
        return Unproven(RefusalReason.NO_CONTAINERS, "the pod's spec names no container, which no real pod does")
    is_any_unstarted = any(_never_started(c, started) for c in version.required)
    for container in version.required + (version.inits if is_any_unstarted else ()):
        against = None if _never_started(container, started) else _end_refusal(container)
        if against is not None:
            return against
    return None


def shows_lost_run(version: PodVersion) -> bool:
    """Return True when one version shows a run as lost to kubelet or runtime: its process may live on."""
    return any(c.was_lost or _ended_unseen(c) for c in version.required)


def _ended_unseen(container: ContainerView) -> bool:
    """Return True for a run that has an id and an end that nothing saw."""
    end = container.last_end
    is_over = container.phase is ContainerPhase.TERMINATED and end is not None and bool(end.container_id)
    return is_over and end is not None and end.reason in LOST_RUN_REASONS


def _end_refusal(container: ContainerView) -> Unproven | None:
    """Demand a kubelet-written end of one container."""
    if container.phase is not ContainerPhase.TERMINATED:
        is_absent = container.phase is ContainerPhase.ABSENT
        return Unproven(
            RefusalReason.CONTAINER_ABSENT if is_absent else RefusalReason.CONTAINER_NOT_ENDED,
            f"container {container.name} is {container.phase.value}",
        )
    if container.reason in LOST_RUN_REASONS:
        return Unproven(
            RefusalReason.CONTAINER_LOST,
            f"container {container.name} is lost to its kubelet or runtime ({container.reason})",
        )
    if not container.container_id or not container.finished_at:
        return Unproven(RefusalReason.END_INCOMPLETE, f"container {container.name} lacks containerID or finishedAt")
    return None


def certify(
    version: PodVersion, node: NodeView | None, *, started: frozenset[str], runs_known: bool, has_lost_run: bool = False
) -> Certificate | Unproven:
    """Judge whether one object version proves that no process of this pod runs.

    Parameters
    ----------
    version: one object version (never merged from several).
    node: the Node it was bound to; None when it cannot be read.
    started: names of the containers of which this or any earlier version of the same UID showed a run.
    runs_known: True when whatever is not among them is known never to have run.
    has_lost_run: see `KnownPod`.

    Returns
    -------
    A Certificate, or the first clause that stands against it.

    Notes
    -----
    E1 needs phase rule, kubelet rule and container rule on *one* version. It is E1' when the container rule holds
    because no container of the pod, init containers included, ever showed a run. `certify_unbound` judges the vanish of
    a never-bound pod.
    """
    ever = started | version.started_containers
    lost = "an earlier run of a container is lost to its kubelet or runtime"
    refusal = (
        _phase_refusal(version)
        or kubelet_refusal(version, node)
        or _container_refusal(version, ever if runs_known else None)
        or (Unproven(RefusalReason.CONTAINER_LOST, lost) if has_lost_run else None)
    )
    if refusal is not None:
        return refusal
    kind, statement = CertificateKind.ENDED, _ended_statement(version, node, ever)
    if not ever:
        kind = CertificateKind.NEVER_RAN
        statement = f"phase {version.phase} and no container of this pod ever had a containerID"
    return Certificate(kind=kind, resource_version=version.resource_version, statement=statement)


def _ended_statement(version: PodVersion, node: NodeView | None, started: frozenset[str]) -> str:
    """Say which containers ended and which never started, for the audit line."""
    ended = [c for c in version.required if c.name in started]
    unstarted = [c.name for c in version.required if c.name not in started]
    last = max((c.finished_at for c in (*ended, *version.inits) if c.finished_at), default="")
    parts = [f"phase {version.phase}", f"{len(ended)} of {len(version.required)} containers terminated"]
    if unstarted:
        parts.append(f"{', '.join(unstarted)} never started")
    parts.append(f"last finished at {last}")
    parts.append(f"kubelet {node.kubelet_version if node else ''} on {version.node_name}")
    return ", ".join(parts)


def certify_unbound(version: PodVersion, *, ever_bound: bool) -> Certificate | Unproven:
    """Judge a pod that was deleted without ever being bound to a node.

    Parameters
    ----------
    version: the last one, in the DELETED event of a watch without a selector: the object is gone.
    ever_bound: True when any version of this UID showed a nodeName.
    """
    if ever_bound or version.node_name:
        return Unproven(
            RefusalReason.END_UNSEEN,
            f"the object vanished while bound to {version.node_name or 'a node'}, its end was not seen",
        )
    statement = "the pod was deleted before it was bound to a node"
    return Certificate(kind=CertificateKind.NEVER_RAN, resource_version=version.resource_version, statement=statement)
