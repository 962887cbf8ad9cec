"""Nodes, kubelets and pods."""

from __future__ import annotations

from random import Random

from ..kubernetes.objects import PODS, uid_of
from ..world.world import NAMESPACE, WORKLOAD, World
from .registry import Heal, attempt, draw_node, draw_pod, fault, node_comes_back, setting


@fault(weight=1.5, lasts_s=(10, 120))
def node_freezes(world: World, rng: Random) -> Heal:
    """The machine stands still; its processes are silent and alive."""
    node = draw_node(world, rng)
    node.freeze()
    return node.thaw


@fault(lasts_s=(10, 120))
def kubelet_freezes(world: World, rng: Random) -> Heal:
    """The kubelet stands still; the processes run on."""
    node = draw_node(world, rng)
    node.freeze_kubelet()
    return node.thaw_kubelet


@fault(weight=1.5, lasts_s=(20, 200))
def node_is_cut_off(world: World, rng: Random) -> Heal:
    """The node does not reach the API server; the processes reach Kafka."""
    node = draw_node(world, rng)
    node.cut()
    return node.heal


@fault(weight=4.0, lasts_s=(90, 240))
def zombie_of_a_lost_node(world: World, rng: Random) -> Heal:
    """A node is cut off, its pods are force-deleted and no longer wanted: their processes live on."""
    ordinals = world.truth.desired(WORKLOAD)
    node = world.kubernetes.node_of(NAMESPACE, f"{WORKLOAD}-{ordinals[-1]}") if len(ordinals) > 1 else None
    node = node or draw_node(world, rng)
    node.cut()
    if len(ordinals) > 1:
        attempt(lambda: world.users.scale(NAMESPACE, WORKLOAD, len(ordinals) - 1))
    for pod in world.server.list(PODS, NAMESPACE):
        if pod["spec"].get("nodeName") == node.name:
            name = pod["metadata"]["name"]
            attempt(lambda name=name: world.users.delete_pod(NAMESPACE, name, grace_s=0))  # type: ignore[misc]
    return node.heal


@fault(lasts_s=(0, 0))
def node_reboots(world: World, rng: Random) -> None:
    """The machine restarts: processes end without a written status."""
    draw_node(world, rng).reboot(rng.uniform(5, 60))


@fault(lasts_s=(30, 150))
def node_is_out_of_service(world: World, rng: Random) -> Heal:
    """The machine has no power, and an administrator says so."""
    node = draw_node(world, rng)
    node.power_off()
    attempt(lambda: world.users.taint_out_of_service(node.name))

    def heal() -> None:
        attempt(lambda: world.users.untaint_out_of_service(node.name))
        node.power_on()

    return heal


@fault(lasts_s=(30, 150))
def node_object_is_deleted(world: World, rng: Random) -> Heal:
    """A Node object is deleted; its machine is off where the operators count on that, else it is cut off."""
    node = draw_node(world, rng)
    if world.settings.nodes_outlive_machines:
        node.power_off()
    else:
        node.cut()
    attempt(lambda: world.users.delete_node(node.name))
    return node_comes_back(world, node)


@fault(lasts_s=(0, 0))
def kubelet_restarts(world: World, rng: Random) -> None:
    """The kubelet's process is replaced; pods do not notice."""
    draw_node(world, rng).restart_kubelet(rng.uniform(0.5, 10))


@fault(weight=1.5, lasts_s=(10, 40))
def kubelet_rejects_running_pods(world: World, rng: Random) -> Heal:
    """A restarted kubelet finds no room for pods that run and fails them; one of them is no longer wanted."""
    node, ordinals = draw_node(world, rng), world.truth.desired(WORKLOAD)
    if len(ordinals) > 1:
        node = world.kubernetes.node_of(NAMESPACE, f"{WORKLOAD}-{ordinals[-1]}") or node
        attempt(lambda: world.users.scale(NAMESPACE, WORKLOAD, len(ordinals) - 1))
    node.rejections = rng.randint(1, 2)
    node.restart_kubelet(rng.uniform(0.1, 2))

    return setting(node, rejections=0)


@fault(weight=1.5, lasts_s=(0, 0))
def pod_is_force_deleted(world: World, rng: Random) -> None:
    """A `kubectl` delete --force: the object is gone before the process."""
    pod = draw_pod(world, rng)
    if pod is not None:
        attempt(lambda: world.users.delete_pod(NAMESPACE, pod, grace_s=0))


@fault(lasts_s=(5, 60))
def pod_leaves_the_selector(world: World, rng: Random) -> Heal | None:
    """A user removes the label from a running pod, and restores it later."""
    pod = draw_pod(world, rng)
    if pod is None:
        return None
    found = world.server.get(PODS, NAMESPACE, pod) or {"metadata": {}}
    label = (found["metadata"].get("labels") or {}).get("app", WORKLOAD)
    attempt(lambda: world.users.label_pod(NAMESPACE, pod, {"app": None}))
    return lambda: attempt(lambda: world.users.label_pod(NAMESPACE, pod, {"app": label}))


@fault(weight=1.5, lasts_s=(0, 0))
def container_crashes(world: World, rng: Random) -> None:
    """The process ends at once and is restarted in the same pod."""
    pod = draw_pod(world, rng)
    found = world.server.get(PODS, NAMESPACE, pod) if pod is not None else None
    if found is not None:
        for container in found["spec"]["containers"]:
            world.processes.signal(uid_of(found), container["name"], "KILL")


@fault(lasts_s=(0, 0))
def pod_is_evicted(world: World, rng: Random) -> None:
    """A `kubectl` drain evicts a pod."""
    pod = draw_pod(world, rng)
    if pod is not None:
        attempt(lambda: world.users.drain_pod(NAMESPACE, pod))
