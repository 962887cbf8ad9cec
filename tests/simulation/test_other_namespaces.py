"""A copy of a pod holds its id in any namespace: the watch of each namespace must pass the read. One that is gone
delays no removal.

Copied by hand with `kubectl get pod -o yaml`, without its labels, so the copy has no owner, and the original's name and
id.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from simulation.fault_world import kept
from simulator.faults.labels import copy_without_labels
from simulator.kubernetes.objects import NAMESPACES, PODS
from simulator.world.teams import NAMESPACE, WORKLOAD
from simulator.world.world import World
from staticgroup.runtime.process.namespaces import there
from support.narrowing import some

OTHER = "team-0"
WANTED = (NAMESPACE, OTHER)


def copy_to_the_other_one(world: World) -> None:
    original = some(world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-2"))
    copied = copy_without_labels(original)
    copied["metadata"]["namespace"] = OTHER
    world.users.create(PODS, copied)


@pytest.mark.parametrize("silent_s", [0.0, 30.0])
@kept(watched=2)
async def test_copy_in_a_namespace_whose_watch_is_silent(world: World, silent_s: float) -> None:
    """One TCP connection of several has died silently, which is noticed after 75 s."""
    await asyncio.sleep(30)
    (running,) = world.living
    (watch,) = [each for each in running.transport.link.open if each.follows == (PODS, OTHER)]
    watch.lag_s = silent_s
    copy_to_the_other_one(world)
    await asyncio.sleep(4)
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(90)
    assert len(world.members()) == 3  # the copy's is held


async def without_the_other_one(world: World) -> None:
    """Delete the namespace and let the operator begin again without it, as `run` does."""
    (running,) = world.living
    world.users.delete_namespace(OTHER)
    await world.until(lambda: world.server.get(NAMESPACES, "", OTHER) is None, 60, "it is gone")
    assert await there(running.transport, WANTED) == (NAMESPACE,)
    world.settings = replace(world.settings, watched=1)
    world.end_operator(running)
    await world.until(lambda: not running.is_alive, 10, "it has ended")
    await world.until(lambda: bool(world.living) and world.living[0].operator.is_active, 60, "it acts again")


@kept(watched=2)
async def test_scale_down_beside_a_namespace_that_is_gone(world: World) -> None:
    await asyncio.sleep(30)
    await without_the_other_one(world)
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await world.until(lambda: len(world.members()) == 2, 30, "the departed member is removed")
