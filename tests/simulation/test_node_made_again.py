"""A machine that registers under the name of a Node that went with its own machine may run the pods again."""

from __future__ import annotations

import asyncio

import pytest

from simulation.fault_world import kept, pod
from simulator.kubernetes.objects import uid_of
from simulator.world.teams import NAMESPACE, WORKLOAD
from simulator.world.world import World


@pytest.mark.parametrize("node_lifecycle", ["Cloud", "Fixed"])
@kept("node_lifecycle")
async def test_a_pod_that_ran_again_on_a_machine_of_the_same_name_has_not_ended_with_the_first(
    world: World, node_lifecycle: str
) -> None:
    await asyncio.sleep(30)
    found = pod(world, 2)
    node = world.kubernetes.nodes[found["spec"]["nodeName"]]
    node.power_off()
    await asyncio.sleep(5)
    world.users.delete_node(node.name)
    await asyncio.sleep(3)
    second = world.kubernetes.add_node(node.name, host=f"{node.name}-b")  # before the pods of n are collected
    await world.until(
        lambda: world.processes.is_running(uid_of(found), world.team.container, node=second.host), 120, "it runs on the second machine"
    )
    await asyncio.sleep(90)
    second.cut()
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    world.users.delete_pod(NAMESPACE, f"{WORKLOAD}-2", grace_s=0)
    await asyncio.sleep(20)
