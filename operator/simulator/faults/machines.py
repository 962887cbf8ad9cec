"""What may become of a machine while its pods' objects are gone: the evidence of nodes is drawn from this.

Each loses the pod of the last ordinal, by force and unwanted, so that only its node can prove what became of it. What
the operators' settings say of nodes (`WorldSettings`) is true: a Node goes only after its machine where the lifecycle
says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from ..kubernetes.node.kubelet import Kubelet
from ..kubernetes.objects import PODS, name_of, namespace_of, uid_of
from ..world.world import NAMESPACE, WORKLOAD, World
from .registry import Heal, attempt, draw_node, fault, node_comes_back, restore_etcd, wait_for

MOVES_WITHIN_S: Final = 60.0
OVERDUE_S: Final = 60.0


def _last_seat(world: World, rng: Random) -> tuple[str, Kubelet]:
    """Return the pod of the last ordinal, "" where only one is left, and its node."""
    ordinals = world.truth.desired(WORKLOAD)
    name = f"{WORKLOAD}-{ordinals[-1]}" if len(ordinals) > 1 else ""
    return name, (world.kubernetes.node_of(NAMESPACE, name) if name else None) or draw_node(world, rng)


def _unwant(world: World) -> None:
    ordinals = world.truth.desired(WORKLOAD)
    if len(ordinals) > 1:
        attempt(lambda: world.users.scale(NAMESPACE, WORKLOAD, len(ordinals) - 1))


def _lose(world: World, name: str) -> None:
    """Want the last ordinal no more, and delete its pod by force; "" names none."""
    _unwant(world)
    if name:
        attempt(lambda: world.users.delete_pod(NAMESPACE, name, grace_s=0))


def _force_delete_all(world: World, node: Kubelet) -> None:
    """Delete by force every pod that is bound to a node."""
    for pod in world.server.list(PODS):
        if pod["spec"].get("nodeName") == node.name:
            place, name = namespace_of(pod), name_of(pod)
            attempt(lambda place=place, name=name: world.users.delete_pod(place, name, grace_s=0))  # type: ignore[misc]


def _later_pods(world: World, rng: Random) -> None:
    """Roll, so that every node that takes pods soon starts newer ones."""
    for after_s in (rng.uniform(1, 20), rng.uniform(40, 90)):
        world.loop.world_call_later(after_s, lambda: attempt(lambda: world.users.roll(NAMESPACE, WORKLOAD)))


@fault(weight=2.0, lasts_s=(100, 260), is_beside=True)
def machine_is_replaced(world: World, rng: Random) -> Heal | None:
    """A machine is cut off with a process that lives on, and another takes its Node's name over; it may come back."""
    _, node = _last_seat(world, rng)
    if node.is_replaced or node.host != node.name:
        return None
    node.cut()
    _unwant(world)
    _force_delete_all(world, node)
    comes_back = rng.random() < 0.5
    world.loop.world_call_later(rng.uniform(0, 80), _take_over, world, node)
    _later_pods(world, rng)

    def heal() -> None:
        if not node.is_replaced:
            node.heal()
        elif comes_back:
            world.kubernetes.give_back(node)
        else:
            node.power_off()

    return heal


def _take_over(world: World, node: Kubelet) -> None:
    """Let another machine have a node's name once no pod is bound to it that has run on the first."""
    _force_delete_all(world, node)
    if world.kubernetes.nodes[node.name] is node and node.is_cut:
        world.kubernetes.replace_machine(node.name)


@fault(weight=2.0, lasts_s=(60, 200), is_beside=True)
def node_is_deleted_after_its_pod(world: World, rng: Random) -> Heal:
    """A pod is lost with its node and unwanted; then the Node object is deleted, as `nodeLifecycle` allows."""
    name, node = _last_seat(world, rng)
    node.cut()
    _lose(world, name)

    def delete() -> None:
        if world.settings.nodes_outlive_machines:
            node.power_off()
        attempt(lambda: world.users.delete_node(node.name))

    world.loop.world_call_later(rng.uniform(0, 50), delete)
    return node_comes_back(world, node)


@fault(weight=3.0, lasts_s=(20, 150), is_beside=True)
def kubelet_sleeps_through_a_deletion(world: World, rng: Random) -> Heal:
    """A kubelet freezes while a pod of it is deleted by force and unwanted; later it starts newer pods."""
    name, node = _last_seat(world, rng)
    node.freeze_kubelet()
    _lose(world, name)

    def heal() -> None:
        node.thaw_kubelet()
        _later_pods(world, rng)

    return heal


@fault(weight=2.0, lasts_s=(150, 300), is_beside=True)
def kill_hangs(world: World, rng: Random) -> Heal | None:
    """A runtime does not end one pod that it is asked to end; the rest of its node works."""
    name, node = _last_seat(world, rng)
    found = world.server.get(PODS, NAMESPACE, name)
    if found is None:
        return None
    node.kills.hold(uid_of(found))
    is_seen = rng.random() < 0.6
    _unwant(world)

    async def act() -> None:
        if is_seen:
            await asyncio.sleep(OVERDUE_S)
        attempt(lambda: world.users.delete_pod(NAMESPACE, name, grace_s=0))
        _later_pods(world, rng)

    world.loop.spawn(act(), name="kill hangs")
    return node.let_kills_through


@fault(weight=1.5, lasts_s=(120, 240), is_beside=True)
def node_joined_after_the_backup(world: World, rng: Random) -> Heal:
    """A node joins and gets a pod, is cut off, and etcd is restored: the machine runs on unknown."""
    backup = world.server.backup()
    node = world.kubernetes.add_node(f"n{len(world.kubernetes.nodes) + 1}")
    others = [other for other in sorted(world.kubernetes.nodes) if other != node.name]

    async def act() -> None:
        name, _ = _last_seat(world, rng)
        for other in others:
            attempt(lambda other=other: world.users.cordon(other))  # type: ignore[misc]
        attempt(lambda: world.users.delete_pod(NAMESPACE, name))
        await wait_for(world, _is_bound(world, name, node), MOVES_WITHIN_S)
        for other in others:
            attempt(lambda other=other: world.users.cordon(other, unschedulable=False))  # type: ignore[misc]
        await asyncio.sleep(rng.uniform(5, 40))
        node.cut()
        if rng.random() < 0.5:
            attempt(lambda: world.users.delete_pod(NAMESPACE, name, grace_s=0))
            await asyncio.sleep(rng.uniform(0, 10))
        restore_etcd(world, backup)
        await asyncio.sleep(rng.uniform(0, 20))
        _unwant(world)

    world.loop.spawn(act(), name="node joined after the backup")
    return node_comes_back(world, node)


def _is_bound(world: World, pod_name: str, node: Kubelet) -> Callable[[], bool]:
    def is_bound() -> bool:
        pod = world.server.get(PODS, NAMESPACE, pod_name)
        return pod is not None and pod["spec"].get("nodeName") == node.name

    return is_bound
