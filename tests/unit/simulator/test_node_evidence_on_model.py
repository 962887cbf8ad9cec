"""The real operator on the model cluster: what the deletion of a Node says of a pod that was lost with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from simulator.kubernetes.node.kubelet import Kubelet
from simulator.kubernetes.objects import Json, is_terminating, uid_of
from staticgroup.core.guards import Guard
from staticgroup.core.members.node_gone import WATCHED_S

from .plain_world import PlainWorld
from .test_operator_on_model import populated
from .virtual_time import simulated


async def lost(world: PlainWorld, strike: Callable[[Kubelet], None]) -> tuple[Kubelet, Json]:
    """Let a node be struck, scale its pod away and delete it by force; the node and the pod as it was."""
    await populated(world)
    await asyncio.sleep(WATCHED_S + 10)
    pod = world.pods[2]
    node = world.cluster.nodes[pod["spec"]["nodeName"]]
    strike(node)
    world.users.scale("shop", "web", 2)
    await world.until(lambda: is_terminating(world.pods[2]))
    world.users.delete_pod("shop", "web-2", grace_s=0)
    await asyncio.sleep(30)
    assert world.processes.is_running(uid_of(pod), "app")
    return node, pod


def held_by(world: PlainWorld) -> set[str]:
    return {e["reason"] for e in world.status.get("issues") or ()}


@pytest.mark.parametrize(("lifecycle", "provider"), [("Auto", ""), ("Auto", "kind"), ("Untrusted", "aws")])
@simulated
async def test_a_node_that_stays_away_proves_nothing_and_neither_does_its_deletion(
    lifecycle: str, provider: str
) -> None:
    world = PlainWorld(provider=provider)
    world.start_operator(node_lifecycle=lifecycle)
    node, pod = await lost(world, Kubelet.cut)
    world.users.delete_node(node.name)
    await asyncio.sleep(1000)
    assert world.processes.is_running(uid_of(pod), "app")
    assert world.left == []
    assert Guard.SUSPECT in held_by(world)


@pytest.mark.parametrize(("lifecycle", "provider"), [("Auto", "aws"), ("Auto", "gce"), ("Cloud", ""), ("Fixed", "")])
@simulated
async def test_a_deleted_node_is_believed_where_its_lifecycle_says_so(lifecycle: str, provider: str) -> None:
    world = PlainWorld(provider=provider)
    world.start_operator(node_lifecycle=lifecycle)
    node, _ = await lost(world, Kubelet.cut)
    await asyncio.sleep(100)
    assert world.left == []
    node.power_off()
    world.users.delete_node(node.name)
    await world.until(lambda: world.left)
    assert world.left == [world.id_of(2)]


@simulated
async def test_a_node_of_the_same_name_that_is_younger_than_the_pod_says_the_same() -> None:
    world = PlainWorld(provider="aws")
    _, _, transport = world.start_operator()
    node, pod = await lost(world, Kubelet.cut)
    node.power_off()
    transport.faults.is_cut = True
    world.users.delete_node(node.name)
    node.power_on()
    node.heal()
    await asyncio.sleep(5)
    transport.link.heal()
    assert not world.processes.is_running(uid_of(pod), "app")
    await world.until(lambda: world.left)
    assert world.left == [world.id_of(2)]
