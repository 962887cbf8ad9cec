"""etcd is restored with a raised revision while no operator runs, its Lease and the statuses with it: only the leap of resourceVersions tells."""

from __future__ import annotations

import asyncio

import pytest

from simulation.fault_world import in_world
from simulator.faults.control_plane import BUMP
from simulator.kubernetes.objects import PODS, STATIC_GROUPS, uid_of
from simulator.world.teams import NAMESPACE, WORKLOAD
from simulator.world.world import World

DEPARTS = f"{WORKLOAD}-2"


def uid_present(world: World) -> str:
    found = world.server.get(PODS, NAMESPACE, DEPARTS)
    return uid_of(found) if found is not None else ""


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_pod_that_came_after_the_backup_and_is_forgotten_keeps_its_member(seed: int) -> None:
    """A pod is replaced between backup and restore; its node is cut off, so it lives on under the name of the one that is back."""

    async def test(world: World) -> None:
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
        node = world.kubernetes.node_of(NAMESPACE, DEPARTS)
        assert node is not None
        node.cut()
        world.kubernetes.restore_etcd(backup, bump=BUMP)
        world.truth.resync(world.server)
        world.statuses.restored(world.server.list(STATIC_GROUPS))
        world.restart_operator(operator.name)
        await world.until(lambda: uid_present(world) == kept, 60, "the one of before is back")
        await asyncio.sleep(60)
        world.users.scale(NAMESPACE, WORKLOAD, 2)
        await asyncio.sleep(300)
        assert lives()
        assert world.safety.removals == 0
        (held,) = world.status["exceptions"]
        assert held["reason"] == "JoinedBeforeWatch"

    assert in_world(test, seed=seed).violations == []
