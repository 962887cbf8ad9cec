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


def broken_promises(test: Test, **settings: Any) -> list[str]:
    """Play a test in a world of its own, and return which of the operator's promises were broken in it."""
    return [str(v) for v in in_world(test, **settings).violations]


def begin(world: World, kind: str, seed: int = 1) -> Callable[[], None] | None:
    return FAULTS[kind].begin(world, Random(seed))


def pod(world: World, ordinal: int) -> Json:
    found = world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-{ordinal}")
    assert found is not None
    return found


def trace_count(world: World, what: str) -> int:
    return sum(entry.what == what for entry in world.trace.entries)
