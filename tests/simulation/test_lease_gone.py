"""The Lease, with all that it tells, is deleted or emptied while a replica watches, whose own epoch goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from simulation.test_put_back import broken_promises, nobody_is_removed, put_back, zombie
from simulator.faults.memory import MANY, WRITES_A_STATUS
from simulator.kubernetes.objects import LEASES, Json
from simulator.world.teams import GROUP, NAMESPACE
from simulator.world.world import World

KEY = (NAMESPACE, GROUP)


def lease(world: World) -> Json:
    (found,) = [o for o in world.server.list_page(LEASES, "", None, limit=0, token="")["items"] if "staticgroup" in o["metadata"]["name"]]
    return found


def deleted(world: World) -> None:
    metadata = lease(world)["metadata"]
    world.server.delete(LEASES, metadata["namespace"], metadata["name"])


def emptied(world: World) -> None:
    found = lease(world)
    metadata = {k: v for k, v in found["metadata"].items() if k != "annotations"}
    world.server.update(LEASES, found | {"metadata": metadata})


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_doubt_outlives_the_lease_that_told_of_it(is_lost: bool) -> None:
    """One operator doubts and cannot write over it; a person deletes its Lease (or not), it takes a new one, and is killed."""

    async def test(world: World) -> None:
        older = await zombie(world)
        (holder,) = world.living
        holder.transport.link.faults.refusals[WRITES_A_STATUS[0]] = [503] * MANY
        put_back(world, older)
        await asyncio.sleep(8)
        assert KEY in holder.operator.stores.doubted
        if is_lost:
            deleted(world)
            await asyncio.sleep(8)
            assert world.leader() is holder
        world.crash_operator(holder)
        world.restart_operator(holder.name)
        await nobody_is_removed(world)

    assert broken_promises(test) == []


@pytest.mark.parametrize("lose", [deleted, emptied])
def test_a_standby_looks_back_also_when_the_lease_is_gone(lose: Callable[[World], None]) -> None:
    """The holder is killed, the Lease is lost, an older status is put back, and the standby is killed before it can write."""

    async def test(world: World) -> None:
        older = await zombie(world)
        world.restart_operator("operator-b")
        await asyncio.sleep(60)
        holder = world.leader()
        assert holder is not None
        (other,) = [o for o in world.living if o is not holder]
        restart, world.restart_operator = world.restart_operator, lambda name: None  # type: ignore[method-assign]
        other.transport.link.faults.refusals[WRITES_A_STATUS[0]] = [503] * MANY
        world.crash_operator(holder)
        lose(world)
        put_back(world, older)
        await world.until(lambda: other.operator.is_active, 60, "the other one acts")
        await asyncio.sleep(8)
        world.crash_operator(other)
        restart(other.name)
        await nobody_is_removed(world)

    assert broken_promises(test) == []
