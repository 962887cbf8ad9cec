"""Workloads that come while no operator watches."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random

from ..kubernetes.node.kubelet import Kubelet
from ..kubernetes.objects import PODS, STATEFULSETS, STATIC_GROUPS
from ..world.world import GROUP, NAMESPACE, WORKLOAD, World
from .heirs import find_again, lose_pod, wait_for_heir
from .registry import Heal, attempt, each, fault, wait_for

PUBLISHED_WITHIN_S = 60.0


@fault(weight=0.8, lasts_s=(240, 330))
def workload_comes_while_no_operator_lives(world: World, rng: Random) -> Heal:
    """StaticGroup and StatefulSet are made again; ids are published, the operators end, and only then pods come."""
    lost: list[Kubelet] = []

    async def act() -> None:
        attempt(lambda: world.users.delete_group(NAMESPACE, GROUP))
        attempt(lambda: world.users.delete_workload(NAMESPACE, WORKLOAD))
        await asyncio.sleep(rng.uniform(20, 30))
        if world.server.get(STATIC_GROUPS, NAMESPACE, GROUP) is None:
            world.create_group()
        await come_unseen(world, rng, lost)

    world.loop.spawn(act(), name="unseen workload")

    return each(partial(find_again, world), lost)


async def come_unseen(world: World, rng: Random, lost: list[Kubelet]) -> None:
    """Let the ids be published, the operators be away, and the workload come; perhaps a pod is lost at once.

    Parameters
    ----------
    lost: takes the node that was cut off.
    """
    await wait_for(world, lambda: "injected" in world.status, PUBLISHED_WITHIN_S)
    await asyncio.sleep(1.0)
    names = [operator.name for operator in world.living]
    for operator in world.living:
        world.crash_operator(operator)
    if world.server.get(STATEFULSETS, NAMESPACE, WORKLOAD) is None:
        world.create_workload()
    await asyncio.sleep(rng.uniform(20, 50))
    ordinals = world.truth.desired(WORKLOAD)
    node = world.kubernetes.node_of(NAMESPACE, f"{WORKLOAD}-{ordinals[-1]}") if ordinals else None
    if node is not None and rng.random() < 0.6:
        lost.append(node)
        lose_pod(world, node, f"{WORKLOAD}-{ordinals[-1]}")
        await wait_for_heir(world, f"{WORKLOAD}-{ordinals[-1]}")
    if rng.random() < 0.7:
        world.server.compact(PODS)
    for name in names:
        world.restart_operator(name)
