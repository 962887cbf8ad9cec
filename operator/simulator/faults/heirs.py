"""A process that outlives its pod, and an heir of its name that ends properly: all that is left is what is remembered.

Around it something happens to that memory, drawn from all that can, before the pod is lost, between, or after.
"""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random

from ..kubernetes.node.kubelet import Kubelet
from ..kubernetes.objects import PODS, is_true, uid_of
from ..kubernetes.watch_log import Event
from ..world.world import NAMESPACE, WORKLOAD, World
from .registry import FAULTS, Heal, attempt, carry_out, each, fault, wait_for

TROUBLES = (
    "api_server_is_away",
    "api_server_restarts",
    "etcd_is_restored",
    "etcd_is_restored_ahead",
    "first_read_of_the_lease_is_refused",
    "lease_cannot_be_read",
    "lease_is_deleted",
    "operator_freezes_in_a_status_write",
    "operators_are_away",
    "pods_come_without_the_index_label",
    "status_is_emptied",
    "status_is_set_back",
    "watch_lags",
    "watch_position_is_too_old",
)
"""Faults that touch what is known or remembered of pods."""
STANDS_STILL = "operator_freezes_in_a_status_write"
STANDS_STILL_WITHIN_S = 30.0
STAGES = ("before", "between", "after")
HEIR_WITHIN_S = 40.0


@fault(weight=5.0, lasts_s=(170, 260))
def zombie_has_an_heir(world: World, rng: Random) -> Heal:
    """A node is cut off, its pod is force-deleted and started elsewhere; later the ordinal is no longer wanted."""
    lost: list[Kubelet] = []
    trouble = FAULTS[rng.choice(TROUBLES)]
    stage = "before" if trouble.kind == STANDS_STILL else rng.choice(STAGES)

    async def meet(now: str) -> None:
        if now == stage:
            world.loop.spawn(carry_out(world, rng, trouble), name=trouble.kind)
            if trouble.kind == STANDS_STILL:
                await wait_for(world, lambda: _frozen(world), STANDS_STILL_WITHIN_S)
            await asyncio.sleep(rng.uniform(0, 3))

    async def act() -> None:
        ordinals = world.truth.desired(WORKLOAD)
        name = f"{WORKLOAD}-{ordinals[-1]}" if len(ordinals) > 1 else ""
        await meet("before")
        node = world.kubernetes.node_of(NAMESPACE, name)
        found = world.server.get(PODS, NAMESPACE, name)
        if node is None or found is None:
            return
        lost.append(node)
        zombie = uid_of(found)
        lose_pod(world, node, name)
        await meet("between")
        await wait_for_heir(world, name)
        await wait_for(world, lambda: not _frozen(world), HEIR_WITHIN_S)
        await asyncio.sleep(rng.uniform(0.2, 8))
        await meet("after")
        if rng.random() < 0.6:
            _restart_operators(world, rng)
        await asyncio.sleep(rng.uniform(10, 40))
        if rng.random() < 0.7:
            # The lost process starts afresh on its node, and so comes back into the group under its id.
            world.processes.signal(zombie, world.team.container, "KILL")
            await asyncio.sleep(rng.uniform(1, 15))
        attempt(lambda: world.users.scale(NAMESPACE, WORKLOAD, len(ordinals) - 1))

    world.loop.spawn(act(), name="zombie with an heir")

    return each(partial(find_again, world), lost)


def lose_pod(world: World, node: Kubelet, name: str) -> None:
    """Cut a node off, keep new pods away from it, and force-delete one of its pods: the process lives on."""
    node.cut()
    attempt(lambda: world.users.cordon(node.name))
    attempt(lambda: world.users.delete_pod(NAMESPACE, name, grace_s=0))


def find_again(world: World, node: Kubelet) -> None:
    """Connect a lost node again."""
    attempt(lambda: world.users.cordon(node.name, unschedulable=False))
    node.heal()


async def wait_for_heir(world: World, name: str) -> None:
    """Wait until a pod of a name is ready, for a while."""

    def is_ready() -> bool:
        pod = world.server.get(PODS, NAMESPACE, name)
        return pod is not None and is_true(pod, "Ready")

    await wait_for(world, is_ready, HEIR_WITHIN_S)


def _frozen(world: World) -> bool:
    return any(operator.process.is_frozen for operator in world.living)


def _restart_operators(world: World, rng: Random) -> None:
    """Kill the active operator, or all of them, and start them again soon."""
    leader = world.leader()
    dying = [leader] if leader is not None and rng.random() < 0.6 else list(world.living)
    for operator in dying:
        world.crash_operator(operator)
        world.loop.world_call_later(rng.uniform(1, 25), world.restart_operator, operator.name)


@fault(weight=2.5, lasts_s=(170, 260))
def node_is_lost_between_two_runs(world: World, rng: Random) -> Heal:
    """A node is cut off just when its kubelet said that no container runs; then one runs."""
    lost: list[Kubelet] = []
    ordinals = world.truth.desired(WORKLOAD)
    name = f"{WORKLOAD}-{ordinals[-1]}" if ordinals else ""
    is_new = rng.random() < 0.5
    found = world.server.get(PODS, NAMESPACE, name)
    old_uid = uid_of(found) if found is not None else ""

    def observe(resource: str, event: Event) -> None:
        pod = event.current
        if resource != PODS or pod is None or pod["metadata"]["name"] != name or lost:
            return
        shown = (pod.get("status") or {}).get("containerStatuses") or []
        if is_new:
            is_moment = uid_of(pod) != old_uid and bool(shown) and not any(s.get("containerID") for s in shown)
        else:
            is_moment = bool(shown) and all("terminated" in s["state"] for s in shown)
        node = world.kubernetes.nodes.get(pod["spec"].get("nodeName") or "")
        if is_moment and node is not None and not pod["metadata"].get("deletionTimestamp"):
            lost.append(node)
            node.cut()
            world.loop.world_call_later(rng.uniform(8, 20), unwant)

    def unwant() -> None:
        wanted = world.truth.desired(WORKLOAD)
        attempt(lambda: world.users.scale(NAMESPACE, WORKLOAD, max(0, len(wanted) - 1)))

    world.server.observers.append(observe)
    if is_new:
        attempt(lambda: world.users.delete_pod(NAMESPACE, name))
    elif found is not None:
        world.processes.signal(old_uid, world.team.container, "KILL")

    def heal() -> None:
        world.server.observers.remove(observe)
        for node in lost:
            node.heal()

    return heal
