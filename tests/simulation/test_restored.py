"""etcd is set back, and forgets pods and nodes that live: no operator concludes anything from what is not there any
more."""

from __future__ import annotations

import asyncio

import pytest

from simulation.fault_world import kept
from simulator.faults.control_plane import BUMP
from simulator.faults.registry import restore_etcd
from simulator.kubernetes.objects import NODES, PODS, uid_of
from simulator.kubernetes.storage import Backup
from simulator.world.teams import NAMESPACE, WORKLOAD
from simulator.world.world import World
from support.narrowing import some

DEPARTS = f"{WORKLOAD}-2"
YOUNG = "n9"
"""A node that is younger than the backup."""


def uid_present(world: World) -> str:
    found = world.server.get(PODS, NAMESPACE, DEPARTS)
    return uid_of(found) if found is not None else ""


@pytest.mark.parametrize("seed", range(1, 4))
@kept("seed")
async def test_a_pod_that_came_after_the_backup_and_is_forgotten_keeps_its_member(world: World, seed: int) -> None:
    """A pod is replaced between backup and restore, which only shows as a watch that cannot resume; its node is cut
    off, so it lives on."""
    await asyncio.sleep(60)
    backup = world.server.backup()
    (operator,) = world.living
    world.crash_operator(operator)
    kept = uid_present(world)
    world.users.delete_pod(NAMESPACE, DEPARTS)
    await world.until(lambda: uid_present(world) not in ("", kept), 60, "another one has its name")
    forgotten = uid_present(world)

    def lives() -> bool:
        return any(p.pod_uid == forgotten for p in world.processes.running())

    await world.until(lives, 60, "it runs")
    await asyncio.sleep(20)
    node = some(world.kubernetes.node_of(NAMESPACE, DEPARTS))
    node.cut()
    restore_etcd(world, backup, bump=BUMP)
    world.restart_operator(operator.name)
    await world.until(lambda: uid_present(world) == kept, 60, "the one of before is back")
    await asyncio.sleep(60)
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(300)
    assert lives()
    assert world.safety.removals == 0
    (held,) = world.status["issues"]
    assert held["reason"] == "JoinedBeforeWatch"


async def grow_onto_a_new_node(world: World) -> Backup:
    """Add a node with a pod of a seat that was not wanted before, and cut the node off; return the backup from
    before."""
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await world.until(world.is_settled, 60, "seat 2 is empty")
    backup = world.server.backup()
    node = world.kubernetes.add_node(YOUNG)
    for name in world.settings.nodes:
        world.users.cordon(name)
    world.users.scale(NAMESPACE, WORKLOAD, 3)
    await world.until(world.is_settled, 60, "seat 2 has another pod")
    await asyncio.sleep(40)
    node.cut()
    return backup


@pytest.mark.parametrize("is_known_as_a_suspect", [False, True])
@pytest.mark.parametrize("is_killed_then", [False, True])
@pytest.mark.parametrize("bump", [0, BUMP], ids=["set back", "set ahead"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@kept("protocol", provider="aws", node_lifecycle="Auto")
async def test_a_node_that_a_restored_etcd_does_not_have_proves_no_end(
    world: World, protocol: str, bump: int, is_killed_then: bool, is_known_as_a_suspect: bool
) -> None:
    """Nodes are deleted only after their machines here, and this one was not deleted."""
    backup = await grow_onto_a_new_node(world)
    (running,) = [p for p in world.processes.running() if p.node == YOUNG]
    if is_known_as_a_suspect:
        world.users.delete_pod(NAMESPACE, DEPARTS, grace_s=0)
        await asyncio.sleep(1)
    (operator,) = world.living
    restore_etcd(world, backup, bump=bump)
    assert world.server.get(NODES, "", YOUNG) is None
    await asyncio.sleep(40)
    if is_killed_then:
        world.crash_operator(operator)
        world.restart_operator(operator.name)
    await asyncio.sleep(300)
    assert running.is_alive
    assert len(world.members()) == 3
    assert "Suspect" in {e["reason"] for e in world.status["issues"]}
