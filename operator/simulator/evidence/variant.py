"""How far one exploration goes: which faults may happen, how often, and to how many incarnations.

Every count is a bound of the exploration, not of the product. Within them every interleaving is explored.
"""

from __future__ import annotations

from dataclasses import dataclass

STEPS = ("describe", "read workload", "read pod", "barrier and chains", "leave")
"""The order of a removal (Reconciler.observe and execute); each step waits once, so the world may move in between.

The chains are taken and the plan is made when the barrier has passed, without waiting in between.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One exploration.

    Parameters
    ----------
    says: what it is about, for the table.
    pods: most incarnations of the ordinal. toggles: changes of the wanted replica count.
    consumer: KIP-848 instead of the classic protocol.
    members: members (threads) of one pod. containers: containers of one pod; the client runs in the last one.
    first_is_init: the first of two containers ends before the last one starts. unpulled: the image of any container may
        never be pulled, and a kubelet may lose what runs in all the ways that it has.
    operators: replicas that work at the same time, each with its own watch.
    kubelet: version that the node reports. host_pid: the pod's processes may outlive its containers.
    forces, crashes, partitions, node_deletions, rejections, reboots, losses, failovers, gaps, restores,
        suspensions, restarts, temporary_leaves, outages: how often each may happen in all.
    stranger: a living process outside of every pod may hold the id; the id template has no scope.
    max_percent_of_group, hold_seconds: of spec.removal; whether the hold is over is then open at every plan.
    intent: watch over unwanted removals as well as over dangerous ones.
    progress: show too that every departure that can be proven ends in a removal.
    one_manager: kubelet and controllers write under one name, as one program. taint_unseen: a taint out-of-service
        comes into the operator's sight too late, if ever.
    rejects_unposted: a kubelet may restart and reject a pod whose start it never posted.
    steps: the operator's order; only mutants change it, and the fields below.
    lags: the watch may lag behind at every step; without it events are delivered at once except between the read of
        the pod and the barrier, which is the same as long as nothing else looks at the book.
    """

    name: str
    says: str = ""
    pods: int = 2
    toggles: int = 3
    consumer: bool = False
    members: int = 1
    containers: int = 1
    first_is_init: bool = False
    unpulled: bool = False
    operators: int = 1
    kubelet: str = "v1.36.3"
    host_pid: bool = False
    forces: int = 0
    crashes: int = 0
    partitions: int = 0
    node_deletions: int = 0
    rejections: int = 0
    reboots: int = 0
    losses: int = 0
    failovers: int = 0
    gaps: int = 0
    restores: int = 0
    suspensions: int = 0
    restarts: int = 0
    temporary_leaves: int = 0
    outages: int = 0
    stranger: bool = False
    max_percent_of_group: int = 100
    hold_seconds: int = 0
    intent: bool = False
    progress: bool = False
    one_manager: bool = False
    taint_unseen: bool = False
    rejects_unposted: bool = False
    steps: tuple[str, ...] = STEPS
    lags: bool = False
    instance_only_leave: bool = False
    restore_unnoticed: bool = False
    suspension_unnoticed: bool = False


VARIANTS = (
    Variant(name="orderly", says="scaling only, three incarnations", pods=3, toggles=4, progress=True),
    Variant(name="force delete", says="an object vanishes while its process lives", pods=3, forces=1),
    Variant(name="fail-over", says="a classic coordinator loses its last write", toggles=2, forces=1, failovers=1),
    Variant(
        name="consumer",
        says="KIP-848: epoch -2, UNRELEASED, a living member away",
        consumer=True,
        forces=1,
        temporary_leaves=1,
        progress=True,
    ),
    Variant(
        name="stale describe",
        says="KIP-848 described as before the last write",
        consumer=True,
        toggles=1,
        forces=1,
        temporary_leaves=1,
        failovers=1,
    ),
    Variant(
        name="lost node",
        says="crash with a stale end, partition, Node deleted, PodGC; one program is kubelet and controllers",
        toggles=1,
        one_manager=True,
        crashes=1,
        partitions=1,
        node_deletions=1,
    ),
    Variant(
        name="out-of-service",
        says="an out-of-service taint that is false over a stale end or an unposted start, not seen in time",
        toggles=1,
        taint_unseen=True,
        crashes=1,
        partitions=1,
        outages=1,
    ),
    Variant(
        name="out-of-service, one name",
        says="the same where one program is kubelet and controllers, the taint in sight",
        toggles=1,
        one_manager=True,
        crashes=1,
        partitions=1,
        outages=1,
    ),
    Variant(name="rejection", says="pods without container statuses", toggles=2, rejections=1),
    Variant(name="reboot", says="processes end and start again in place, partition", reboots=1, partitions=1),
    Variant(name="crash", says="stale ends, in-place restarts", crashes=2, forces=1, toggles=1),
    Variant(
        name="lost container",
        says="ContainerStatusUnknown of a container that runs beside one that ended",
        containers=2,
        losses=1,
    ),
    Variant(
        name="never pulled",
        says="an image is never pulled, or the kubelet loses what it started, posted or not; rejection of what runs",
        unpulled=True,
        toggles=2,
        losses=1,
        rejections=1,
        progress=True,
    ),
    Variant(
        name="never pulled, sidecar",
        says="the same where one container of two runs and the other one's image is never pulled",
        containers=2,
        unpulled=True,
        toggles=2,
        losses=1,
        progress=True,
    ),
    Variant(
        name="never pulled, init",
        says="the same behind an init container, also while that runs",
        containers=2,
        first_is_init=True,
        unpulled=True,
        toggles=2,
        losses=1,
        progress=True,
    ),
    Variant(
        name="never pulled, gap",
        says="the same, and events are lost for ever (410)",
        pods=1,
        unpulled=True,
        toggles=1,
        losses=1,
        gaps=1,
    ),
    Variant(
        name="never pulled, restart",
        says="the same, and the operator restarts meanwhile",
        pods=1,
        containers=2,
        unpulled=True,
        toggles=1,
        losses=1,
        restarts=1,
    ),
    Variant(name="old kubelet", says="1.26: a terminal phase too early", kubelet="v1.26.9", crashes=1),
    Variant(name="virtual kubelet", says="statuses of no real kubelet", kubelet="v1.31.0-vk-2", crashes=1),
    Variant(name="unknown kubelet", says="a version that cannot be read", kubelet="", crashes=1),
    Variant(name="hostPID", says="a process outlives its container", host_pid=True),
    Variant(name="etcd restore", says="a certified pod runs again", toggles=1, restores=1),
    Variant(name="watch gap", says="events are lost for ever (410)", toggles=2, forces=1, gaps=1),
    Variant(name="restart", says="ledger, stored position, LIST and replay", toggles=1, forces=1, restarts=1),
    Variant(
        name="restart, rejection",
        says="a pod first seen by a LIST, whose image may never be pulled",
        pods=1,
        unpulled=True,
        toggles=1,
        losses=1,
        rejections=1,
        restarts=1,
        progress=True,
    ),
    Variant(name="two operators", says="both act, each with its own watch", toggles=2, forces=1, operators=2),
    Variant(
        name="two threads",
        says="two members of one pod, removal budget",
        toggles=1,
        forces=1,
        members=2,
        max_percent_of_group=50,
    ),
    Variant(
        name="holds",
        says="suspend, hold window, scaled up again",
        suspensions=2,
        hold_seconds=60,
        intent=True,
    ),
    Variant(name="stranger", says="another cluster issues the same id", stranger=True),
)
"""Everything that must be safe."""

ASSUMPTIONS = (
    Variant(
        name="taint unseen under one name",
        says="kubelet and controllers are one program, and PodGC's Failed is seen before the out-of-service taint is",
        pods=1,
        toggles=1,
        one_manager=True,
        taint_unseen=True,
        crashes=1,
        partitions=1,
        outages=1,
    ),
    Variant(
        name="rejection before the first status",
        says="a kubelet that ends between start and first post, rejects the pod when it is back, and has lost it (E1')",
        pods=1,
        toggles=1,
        rejections=1,
        losses=1,
        rejects_unposted=True,
    ),
    Variant(
        name="restore nobody notices",
        says="after an etcd restore resourceVersions pass the operator's position before it looks",
        pods=1,
        toggles=1,
        restores=1,
        restore_unnoticed=True,
    ),
)
"""What the proof rests on: without each of these the model finds a living member removed."""
