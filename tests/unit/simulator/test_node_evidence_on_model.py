"""The real operator on the model cluster closes what a node has reaped, and nothing that may still run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from simulator.kubernetes.node.kubelet import Kubelet
from simulator.kubernetes.objects import STATEFULSETS, Json, is_terminating, uid_of
from simulator.kubernetes.users import stateful_set

from .plain_world import PlainWorld, simulate
from .test_operator_on_model import populated

KNOWN_AFTER_S = 70.0
"""A machine that the operator's first LIST shows is known for sure from a minute later on."""


async def lost(world: PlainWorld, strike: Callable[[Kubelet], None]) -> tuple[Kubelet, Json]:
    """Let a node be struck, scale its pod away and delete it by force; the node and the pod as it was."""
    await asyncio.sleep(KNOWN_AFTER_S)
    await populated(world)
    pod = world.pods[2]
    node = world.cluster.nodes[pod["spec"]["nodeName"]]
    strike(node)
    world.users.scale("shop", "web", 2)
    await world.until(lambda: is_terminating(world.pods[2]))
    world.users.delete_pod("shop", "web-2", grace_s=0)
    await asyncio.sleep(30)
    assert world.processes.is_running(uid_of(pod), "app")
    return node, pod


def later_pods(world: PlainWorld) -> None:
    """Have pods bound to every node that there is."""
    world.users.create(STATEFULSETS, stateful_set("shop", "later", 6))


def entry(world: PlainWorld, uid: str) -> Json:
    found = (world.status.get("ledger") or {}).get("incarnations") or ()
    return next((e for e in found if e["uid"] == uid), {})


@pytest.mark.parametrize("restarts", [False, True])
def test_a_frozen_kubelet_that_goes_on_reaps_and_the_member_is_removed(restarts: bool) -> None:
    """Also where the operator was another process in between: what it needs of pod and node is written down."""

    async def main() -> None:
        world = PlainWorld()
        process, _, _ = world.start_operator(trust_kubelet=True)
        node, pod = await lost(world, Kubelet.freeze_kubelet)
        departed = world.id_of(2)
        if restarts:
            await world.until(lambda: entry(world, uid_of(pod)))
            process.kill()
            await asyncio.sleep(20)
            world.start_operator("two", trust_kubelet=True)
            await asyncio.sleep(40)
        node.thaw_kubelet()
        thawed_s = world.loop.time()
        await asyncio.sleep(60)
        assert world.left == [], "its kubelet has shown nothing of what it heard"
        assert "has to start a container" in entry(world, uid_of(pod))["owed"]
        later_pods(world)
        await world.until(lambda: world.left)
        assert world.left == [departed]
        assert not world.processes.is_running(uid_of(pod), "app")
        assert 90 < world.loop.time() - thawed_s - 60 < 140
        await world.until(lambda: world.status.get("lastNodeRemoval"))
        assert world.status["lastNodeRemoval"]["certificate"] == "E3"

    simulate(main)


@pytest.mark.parametrize("offset_s", [0, 5, 10, 15])
def test_a_node_that_is_ready_again_is_looked_at_soon(offset_s: int) -> None:
    """Grace and margin, and on top of them a tick before and after, and a renewal of its Lease; no wait for a node that was away."""

    async def main() -> None:
        world = PlainWorld()
        world.start_operator(trust_kubelet=True)
        node, _ = await lost(world, Kubelet.freeze_kubelet)
        later_pods(world)
        await asyncio.sleep(60 + offset_s)
        node.thaw_kubelet()
        thawed_s = world.loop.time()
        await world.until(lambda: world.left)
        assert 90 < world.loop.time() - thawed_s < 90 + 5 + 5 + 10

    simulate(main)


def test_a_machine_that_was_booted_again_proves_the_same() -> None:
    async def main() -> None:
        world = PlainWorld()
        world.start_operator(trust_kubelet=True)
        node, pod = await lost(world, Kubelet.cut)
        await asyncio.sleep(60)
        node.reboot(30.0)
        node.heal()
        await asyncio.sleep(60)
        later_pods(world)
        await world.until(lambda: world.left)
        assert not world.processes.is_running(uid_of(pod), "app")
        await world.until(lambda: world.status.get("lastNodeRemoval"))
        assert world.status["lastNodeRemoval"]["certificate"] == "E4"

    simulate(main)


def test_a_node_that_stays_away_proves_nothing_and_neither_does_its_deletion() -> None:
    async def main() -> None:
        world = PlainWorld()
        world.start_operator(trust_kubelet=True)
        node, pod = await lost(world, Kubelet.cut)
        later_pods(world)
        world.users.delete_node(node.name)
        await asyncio.sleep(600)
        assert world.processes.is_running(uid_of(pod), "app")
        assert world.left == []
        assert "says nothing of its machine" in entry(world, uid_of(pod))["owed"]

    simulate(main)


def test_a_deleted_node_is_believed_where_its_lifecycle_says_so() -> None:
    async def main() -> None:
        world = PlainWorld()
        world.start_operator(node_lifecycle="Cloud")
        node, _ = await lost(world, Kubelet.cut)
        node.power_off()
        world.users.delete_node(node.name)
        await world.until(lambda: world.left)
        await world.until(lambda: world.status.get("lastNodeRemoval"))
        assert world.status["lastNodeRemoval"]["certificate"] == "E2Node"

    simulate(main)
