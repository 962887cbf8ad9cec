"""What the watch has shown of the pods of a plain world, and how it is judged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from simulator.kubernetes.objects import NODES, PODS, Json, is_terminating, is_true
from simulator.kubernetes.watch_log import Event
from staticgroup.core.evidence.certificate import Certificate, Unproven, certify
from staticgroup.core.evidence.pod import PodVersion
from staticgroup.kube.translate import node_view, pod_version
from support.narrowing import of_type, some

from .plain_world import PlainWorld
from .virtual_time import simulate, told_by

Step = Callable[[PlainWorld], Awaitable[None]]


def in_world(test: Step, *, seed: object = 1, replicas: int = 3, **options: Any) -> None:
    """Run a test in a world whose workload is up."""

    async def main() -> None:
        world = PlainWorld(seed)
        await asyncio.sleep(1)
        world.create_workload(replicas, **options)
        await world.until(lambda: is_up(world, replicas))
        await asyncio.sleep(1)
        await test(world)

    simulate(main, seed)


up = told_by(in_world)


def is_up(world: PlainWorld, replicas: int) -> bool:
    return len(world.pods) == replicas and all(is_true(p, "Ready") and not is_terminating(p) for p in world.pods)


def versions_of(world: PlainWorld) -> list[tuple[str, Json]]:
    """Collect (kind of event, object) of every pod event from now on."""
    found: list[tuple[str, Json]] = []

    def observe(resource: str, event: Event) -> None:
        if resource == PODS:
            obj = some(event.current or event.previous)
            found.append(("DELETED" if event.current is None else "WRITTEN", obj))

    world.server.observers.append(observe)
    return found


def judged(world: PlainWorld, raw: Json, *, node: Json | None = None) -> Certificate | Unproven:
    """Judge one version as the product does; it is not known from birth."""
    version = of_type(PodVersion, pod_version(raw))
    raw_node = node or world.server.get(NODES, "", version.node_name)
    view = node_view(raw_node)
    return certify(version, view, started=version.started_containers, runs_known=False)
