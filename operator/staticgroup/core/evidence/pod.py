"""What one version of a Pod object says, as the API server sent it, reduced to what the evidence chain needs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ContainerPhase(StrEnum):
    """State of one container as its status entry shows it; ABSENT means there is no entry at all."""

    ABSENT = "absent"
    WAITING = "waiting"
    RUNNING = "running"
    TERMINATED = "terminated"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndView:
    """The newest end of a run that a status entry shows, of the present state or else of `lastState`.

    Parameters
    ----------
    container_id: runtime id of the run that ended; "" when the entry shows none.
    finished_at_s: `terminated.finishedAt` by the node's clock, seconds since the Unix epoch; None when not shown.
    reason: of that end, such as OOMKilled.
    """

    container_id: str
    finished_at_s: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One run of a container.

    Parameters
    ----------
    restart_count: how many runs came before. started_at_s: node's clock, seconds since the Unix epoch, or None.
    end: None while it runs.
    """

    restart_count: int
    started_at_s: float | None = None
    end: EndView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerView:
    """One container named in the pod's spec, with the status entry of the same name.

    Parameters
    ----------
    phase: ABSENT when the status has no entry for it.
    container_id: runtime id of the run that the state is about; "" when the status shows none.
    finished_at: RFC 3339 text of `terminated.finishedAt`; "" when the status shows none.
    reason: reason of the current state; "" when none.
    may_hold_id: it shows or may hide an instance id: in a variable, an argument, `envFrom`, a file of an annotation.
    only_ids: the only instance ids that it may hold, or that its client's id begins with; empty: any of its pod.
    last_end: None when the entry shows no end of any run.
    was_lost: its kubelet could not find the run before this one any more, and need not have ended it.
    runs: those that the entry shows, the older first. image_digest: of the newest, or what names its image.
    """

    name: str
    phase: ContainerPhase
    container_id: str = ""
    finished_at: str = ""
    reason: str = ""
    may_hold_id: bool = False
    only_ids: frozenset[str] = frozenset()
    restart_count: int = 0
    last_end: EndView | None = None
    was_lost: bool = False
    runs: tuple[RunView, ...] = ()
    image_digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotView:
    """What a pod of a Deployment shows of the slot that one StaticGroup gives it (`core.slots`).

    Parameters
    ----------
    scope: of the StaticGroup, 8 hex digits.
    workload_name: of the Deployment, as the init container says that waits for the slot.
    given: the slot that the operator's note gives this pod; "" for none.
    claimed: the slot that the note says the pod waits for; "" likewise.
    count: how many notes there were, as the note says.
    is_waiting: the init container runs.
    has_started: the init container has ended, so what comes after it may run.
    noted_s: since when the note is as it is, if that was seen. changed_s: since when it waits, or does not. Both by the
        operator's clock, seconds since the Unix epoch; 0.0 in a single version of a pod.
    """

    scope: str
    workload_name: str
    given: str = ""
    claimed: str = ""
    count: int = 0
    is_waiting: bool = False
    has_started: bool = False
    noted_s: float = 0.0
    changed_s: float = 0.0

    @property
    def shown(self) -> tuple[object, ...]:
        """What decisions read but for times."""
        return self.given, self.claimed, self.is_waiting, self.has_started


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVersion:
    """One version of one Pod object.

    Parameters
    ----------
    resource_version: as an integer; comparable within the resource type pods (KEP-5504).
    owner_name: of the controller that owns it (metadata.ownerReferences with controller=true); "" when none does.
    revision: its controller-revision-hash; "" when it has none.
    created_at_s: metadata.creationTimestamp, seconds since the Unix epoch.
    deletion_grace_s: metadata.deletionGracePeriodSeconds; None while the pod is not being deleted.
    deletion_asked_at_s: when its deletion was asked for, seconds since the Unix epoch; None while it was not.
    grace_s: spec.terminationGracePeriodSeconds; None when the object does not say.
    scheduled_at_s: lastTransitionTime of PodScheduled=True, seconds since the Unix epoch; None when not shown.
    is_mirror: a kubelet made the object from a static pod, which runs whatever becomes of the object.
    is_peer_pod: its containers run in a machine beside its node, unseen by the kubelet (cloud-api-adaptor).
    required: one entry for *every* container the spec names that may hold a client: containers,
        restartable init containers (sidecars) and ephemeral containers; entries without a status are ABSENT.
    inits: one entry for every other init container, which ends before those that are required begin.
    started_containers: names of all containers, of whatever kind, whose status entry shows that one ran: a container id
        of the present or the last run, a running state, the end of an earlier run, a restart.
    phase_manager: field manager that wrote the phase (metadata.managedFields); "" when the object does not say.
    phase_has_statuses: the writer of the phase wrote every list of container statuses too, as only a kubelet does.
    phase_written_at_s: when the phase was written, API server's clock, whole seconds since the Unix epoch, or None.
    shares_processes: its containers see each other's processes, which may outlive their own container.
    disruption_reason: reason of the DisruptionTarget condition with status True; "" when there is none.
    reason: status.reason, such as Evicted; "" when there is none.
    ready_since_s: lastTransitionTime of Ready=True; None when not ready.
    instance_ids: every group.instance.id this version is known to carry (annotations and resolved env).
    ids_are_fixed: nobody can change its ids while the pod lives. Each one in its environment comes from literals,
        metadata.name, metadata.namespace and metadata.uid, and a consumer reads no annotation that says an id, except
        one that repeats an id. Without any id neither stands in an annotation.
    session_timeouts_ms: every session.timeout.ms that it shows, in its environment or else its annotation, ascending;
        empty when it shows none.
    addresses: status.podIPs of a pod that has an address of its own; empty of one in its node's network.
    slots: of a Deployment's pod, one for each StaticGroup that gives it one.
    """

    namespace: str
    name: str
    uid: str
    resource_version: int
    owner_name: str = ""
    revision: str = ""
    node_name: str = ""
    phase: str = ""
    phase_manager: str = ""
    phase_has_statuses: bool = False
    phase_written_at_s: float | None = None
    created_at_s: float = 0.0
    is_deleting: bool = False
    deletion_grace_s: int | None = None
    deletion_asked_at_s: float | None = None
    grace_s: int | None = None
    scheduled_at_s: float | None = None
    is_mirror: bool = False
    host_pid: bool = False
    is_peer_pod: bool = False
    shares_processes: bool = False
    disruption_reason: str = ""
    reason: str = ""
    required: tuple[ContainerView, ...] = ()
    inits: tuple[ContainerView, ...] = ()
    started_containers: frozenset[str] = frozenset()
    ready_since_s: float | None = None
    restart_count: int = 0
    instance_ids: frozenset[str] = frozenset()
    ids_are_fixed: bool = False
    session_timeouts_ms: tuple[int, ...] = ()
    addresses: tuple[str, ...] = ()
    slots: tuple[SlotView, ...] = ()


CLOCKS_APART_S: Final = 10.0
"""The clocks of the operator and of the API server differ by less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """Facts of one Node object that decide whether its kubelet's report is evidence.

    Parameters
    ----------
    kubelet_minor: minor of the kubelet's version 1.x; None when it cannot be read.
    is_virtual: True for a virtual-kubelet node, whose pod statuses are not written by a real kubelet.
    is_out_of_service: it carries the taint by which an administrator declares that nothing runs there any more; the
        pod garbage collector then ends its pods in the kubelet's place.
    machine: machineID and systemUUID of status.nodeInfo, as its kubelet read them at its start; "" before that.
    created_at_s: metadata.creationTimestamp, seconds since the Unix epoch.
    provider: scheme of spec.providerID, such as aws; "" when it has none, or when a program other than the cloud's
        controller deletes the Node (Karpenter, see `members.node_gone`).
    machine_since_s: since when this process has known of this machine under this name, its own clock, seconds since the
        Unix epoch.
    other_until_s: until when at the latest a Node of this name stood for another machine than later, as far as this
        process saw, by the API server's clock, seconds since the Unix epoch; 0.0: never. The object does not say it.
    """

    name: str
    uid: str
    kubelet_version: str = ""
    kubelet_minor: int | None = None
    is_virtual: bool = False
    is_out_of_service: bool = False
    machine: str = ""
    created_at_s: float = 0.0
    provider: str = ""
    machine_since_s: float = 0.0
    other_until_s: float = 0.0
