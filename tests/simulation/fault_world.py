"""A world that is up, in which one fault is carried out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from simulator.engine.log_capture import captured_logs
from simulator.engine.loop import run as run_simulation
from simulator.faults import FAULTS
from simulator.kubernetes.objects import (
    PODS,
    Json,
)
from simulator.world.teams import NAMESPACE, WORKLOAD
from simulator.world.world import World, WorldSettings
from support.narrowing import some
from unit.simulator.virtual_time import told_by

Test = Callable[[World], Awaitable[None]]


def in_world(test: Test, *, seed: int = 1, populate: bool = True, **settings: Any) -> World:
    """Run a test in a world that is up, and return the world."""
    worlds: list[World] = []

    async def main() -> None:
        nodes = settings.pop("nodes", ("n1", "n2", "n3", "n4"))
        world = World(
            WorldSettings(**{"parallel": True, "session_timeout_s": 30, "nodes": nodes, **settings}), seed=seed
        )
        worlds.append(world)
        if populate:
            await world.populate()
        await test(world)

    with captured_logs():
        run_simulation(main, seed=seed, until_s=20_000)
    return worlds[0]


def keep_promises(test: Test, **settings: Any) -> None:
    """Run a test in such a world, and see that the operator breaks no promise in it."""
    world = in_world(test, **settings)
    assert [str(found) for found in (*world.violations, *world.breaches)] == []


up, kept = told_by(in_world), told_by(keep_promises)


def begin(world: World, kind: str, seed: int = 1) -> Callable[[], None]:
    """Begin a fault and return what ends it."""
    return FAULTS[kind].begin(world, Random(seed)) or without_end


def without_end() -> None:
    raise AssertionError("a fault that ends by itself")


def pod(world: World, ordinal: int) -> Json:
    found = some(world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-{ordinal}"))
    return found


def trace_count(world: World, what: str) -> int:
    return sum(entry.what == what for entry in world.trace.entries)
