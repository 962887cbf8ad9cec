"""Death certificates: what one version of a Pod object proves about its processes.

Only two certificates are made. E1 "ended" is the kubelet's own word that every container has stopped or was never started;
E1' "never ran" says that no process ever existed. Everything else (a vanished object, a NotReady node, silence) is no
evidence, and the pod stays a suspect. Each clause closes a
hole that was found by attacking the rule, so each is a mutant that the tests must kill.

Source: the kubelet withholds a terminal phase while containers may still run since 1.27 (kubernetes/kubernetes PR 115331);
it ends a container that it never started, or cannot find, as ContainerStatusUnknown without an id, or leaves it waiting
(status manager's TerminatePod); StatefulSet at-most-one semantics and force deletion (KEP-3329, task "Force Delete
StatefulSet Pods"); PodGCController writes Failed in the kubelet's place, for pods of vanished nodes with the reason
DeletionByPodGC (gcOrphaned) and for pods of out-of-service nodes with none (gcTerminating).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .pod import ContainerPhase, ContainerView, NodeView, PodVersion

KUBELET_MINOR_MIN = 27
"""Kubelets before 1.27 could post a terminal phase before the containers had stopped."""

PHASE_MANAGERS_REFUSED = frozenset({"kube-controller-manager", "PodGC"})
"""Field managers of the pod garbage collector, "PodGC" up to 1.26. Names only refuse: that a kubelet spoke is told by
what was written (`PodVersion.phase_has_statuses`), not by a name, because in some distributions (k3s, MicroK8s) kubelet
and controllers are one program with one name."""

STATUS_UNKNOWN = "ContainerStatusUnknown"
"""Reason that a kubelet writes for a container that it cannot find when the pod ends, whether it was lost or never was."""
LOST_RUN_REASONS = frozenset({STATUS_UNKNOWN, "Unknown"})
"""Reasons of an end that nobody saw; containerd writes the second for a run whose shim is gone (unknownExitReason), and its process may live
(containerd/containerd#10727)."""


class CertificateKind(StrEnum):
    """Kinds of certificates of an end; the value is what status, Events and the audit line show."""

    ENDED = "E1"
    NEVER_RAN = "E1Prime"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Proof that no process of one pod runs; stable once true.

    Parameters
    ----------
    resource_version: of the object version that proves it.
    statement: the evidence in words, for the audit line.
    """

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a version proves nothing; `clause` is stable text for tests and `explain`, `reason` its kind."""

    clause: str
    reason: RefusalReason


def _phase_refusal(version: PodVersion) -> Refusal | None:
    """Apply the phase rule: a terminal phase whose writer wrote the container statuses too, which only kubelets do.

    A controller that fails pods of lost nodes (the pod garbage collector, Kueue's failure recovery) writes the phase
    over statuses of a kubelet that nobody hears any more.
    """
    if not version.is_terminal:
        return Refusal(
            clause=f"phase is {version.phase or 'unset'}, not Succeeded or Failed", reason=RefusalReason.NOT_TERMINAL
        )
    if version.disruption_reason == "DeletionByPodGC":
        return Refusal(
            clause="the terminal phase was written by the pod garbage collector, not by the kubelet",
            reason=RefusalReason.POD_GARBAGE_COLLECTOR,
        )
    if version.phase_manager in PHASE_MANAGERS_REFUSED:
        return Refusal(
            clause=f"the terminal phase was written by {version.phase_manager}, not by the kubelet",
            reason=RefusalReason.POD_GARBAGE_COLLECTOR,
        )
    if not version.phase_has_statuses:
        writer = version.phase_manager or "nobody known"
        return Refusal(
            clause=f"the terminal phase was written by {writer}, the container statuses were not",
            reason=RefusalReason.OTHER_WRITER,
        )
    return None


def kubelet_refusal(version: PodVersion, node: NodeView | None) -> Refusal | None:
    """Refuse the word of kubelets whose terminal phase does not imply stopped containers."""
    if version.host_pid:
        return Refusal(
            clause="the pod uses hostPID, so its processes may outlive its containers", reason=RefusalReason.HOST_PID
        )
    if version.is_mirror:
        return Refusal(
            clause="it mirrors a static pod, which its kubelet starts again whatever becomes of the object", reason=RefusalReason.MIRROR_POD
        )
    if node is None:
        return Refusal(
            clause=f"node {version.node_name} is not readable, so its kubelet cannot be judged",
            reason=RefusalReason.NODE_UNREADABLE,
        )
    if node.is_virtual or version.is_peer_pod:
        clause = f"node {node.name} is a virtual-kubelet node" if node.is_virtual else "it is a peer pod, whose machine may outlive it"
        return Refusal(clause=clause, reason=RefusalReason.NODE_VIRTUAL)
    if node.is_out_of_service:
        return Refusal(
            clause=f"node {node.name} is out of service, so its pods are ended without its kubelet",
            reason=RefusalReason.NODE_OUT_OF_SERVICE,
        )
    if _was_replaced(version, node):
        return Refusal(
            clause=f"node {node.name} was made anew, or had another machine, since the pod came to it",
            reason=RefusalReason.NODE_REPLACED,
        )
    if node.kubelet_minor is None or node.kubelet_minor < KUBELET_MINOR_MIN:
        return Refusal(
            clause=f"kubelet {node.kubelet_version or 'of unknown version'} is older than 1.{KUBELET_MINOR_MIN}",
            reason=RefusalReason.OLD_KUBELET,
        )
    return None


def _was_replaced(version: PodVersion, node: NodeView) -> bool:
    """True when another Node object or machine is known to have had the name since a pod came to it.

    Notes
    -----
    The kubelet of the later one starts the pods that it finds bound to its name and knows only what it runs itself, while the first
    machine may be only cut off and run them on. The API server dates a binding and a Node; of a pod that was made with its node the
    kubelet dates the former, so it is never taken to be before the pod was made.
    """
    came_s = max(version.created_at_s, version.scheduled_at_s or 0.0)
    return came_s < max(node.created_at_s, int(node.other_until_s))


def _never_started(container: ContainerView, started: frozenset[str] | None) -> bool:
    """True for an entry without an end, of a container that is known never to have run.

    Parameters
    ----------
    started: names of the containers that ever showed a run; None when that is not known.
    """
    if started is None or container.name in started:
        return False
    is_unknown = container.phase is ContainerPhase.TERMINATED and container.reason == STATUS_UNKNOWN
    return container.phase is ContainerPhase.WAITING or (is_unknown and not container.finished_at)


def _container_refusal(version: PodVersion, started: frozenset[str] | None) -> Refusal | None:
    """Demand of every container the spec names that it ended or never started; an absent entry means alive.

    A required container that ended tells that the init containers before it had ended; one that never started does not,
    so then they are asked too.
    """
    if not version.required:
        return Refusal(
            clause="the pod's spec names no container, which no real pod does", reason=RefusalReason.NO_CONTAINERS
        )
    is_any_unstarted = any(_never_started(c, started) for c in version.required)
    for container in version.required + (version.inits if is_any_unstarted else ()):
        against = None if _never_started(container, started) else _end_refusal(container)
        if against is not None:
            return against
    return None


def lost_runs(version: PodVersion) -> frozenset[str]:
    """Name the runs that one version shows as lost to kubelet or runtime, as container and number: each may live on.

    Notes
    -----
    A kubelet that cannot find a run counts its restart at once, a runtime's end is counted when the next run is made.
    """
    found = set()
    for container in version.required:
        end, count = container.last_end, container.restart_count
        is_named = end is not None and bool(end.container_id)
        if container.was_lost:
            is_counted = container.phase is not ContainerPhase.WAITING or not is_named
            found.add(f"{container.name}/{count - 1 if is_counted else count}")
        elif end is not None and is_named and container.phase is ContainerPhase.TERMINATED and end.reason in LOST_RUN_REASONS:
            found.add(f"{container.name}/{count}")
    return frozenset(found)


def _lost_refusal(has_lost: bool) -> Refusal | None:
    """Refuse the end of the last runs for that of one which is on no kubelet's list."""
    clause = "an earlier run of a container is lost to its kubelet or runtime"
    return Refusal(clause=clause, reason=RefusalReason.CONTAINER_LOST) if has_lost else None


def _end_refusal(container: ContainerView) -> Refusal | None:
    """Demand a kubelet-written end of one container."""
    if container.phase is not ContainerPhase.TERMINATED:
        is_absent = container.phase is ContainerPhase.ABSENT
        return Refusal(
            clause=f"container {container.name} is {container.phase.value}",
            reason=RefusalReason.CONTAINER_ABSENT if is_absent else RefusalReason.CONTAINER_NOT_ENDED,
        )
    if container.reason in LOST_RUN_REASONS:
        return Refusal(
            clause=f"container {container.name} is lost to its kubelet or runtime ({container.reason})",
            reason=RefusalReason.CONTAINER_LOST,
        )
    if not container.container_id or not container.finished_at:
        return Refusal(
            clause=f"container {container.name} lacks containerID or finishedAt", reason=RefusalReason.END_INCOMPLETE
        )
    return None


def certify(
    version: PodVersion, node: NodeView | None, *, started: frozenset[str], runs_known: bool, has_lost: bool = False
) -> Certificate | Refusal:
    """Judge whether one object version proves that no process of this pod runs.

    Parameters
    ----------
    version: one object version (never merged from several).
    node: the Node it was bound to; None when it cannot be read.
    started: names of the containers of which this or any earlier version of the same UID showed a run.
    runs_known: True when whatever is not among them is known never to have run.
    has_lost: a run that this or any earlier version of the same UID shows as lost may live, see `lost_runs`.

    Returns
    -------
    A Certificate, or the first clause that stands against it.

    Notes
    -----
    E1 needs phase rule, kubelet rule and container rule on *one* version. It is E1' when the container rule holds because
    no container of the pod, init containers included, ever showed a run. The vanish of a never-bound pod is judged by
    `certify_unbound`.
    """
    ever = started | version.started_containers
    refusal = (
        _phase_refusal(version)
        or kubelet_refusal(version, node)
        or _container_refusal(version, ever if runs_known else None)
        or _lost_refusal(has_lost)
    )
    if refusal is not None:
        return refusal
    if not ever:
        return Certificate(
            kind=CertificateKind.NEVER_RAN,
            resource_version=version.resource_version,
            statement=f"phase {version.phase} and no container of this pod ever had a containerID",
        )
    return Certificate(
        kind=CertificateKind.ENDED,
        resource_version=version.resource_version,
        statement=_ended_statement(version, node, ever),
    )


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


def certify_unbound(version: PodVersion, *, ever_bound: bool) -> Certificate | Refusal:
    """Judge a pod that was deleted without ever being bound to a node.

    Parameters
    ----------
    version: the last one, in the DELETED event of a watch without a selector: the object is gone.
    ever_bound: True when any version of this UID showed a nodeName.
    """
    if ever_bound or version.node_name:
        return Refusal(
            clause=f"the object vanished while bound to {version.node_name or 'a node'}, its end was not seen",
            reason=RefusalReason.END_UNSEEN,
        )
    return Certificate(
        kind=CertificateKind.NEVER_RAN,
        resource_version=version.resource_version,
        statement="the pod was deleted before it was bound to a node",
    )
