"""A team that keeps its StaticGroup in a repository, with the scope of its ids as text, and applies it after deletions.

So ids outlive their StaticGroup, whose user says each time that nobody else has them. What happens while there is none
is drawn: pods come, go and are lost, operators stop and start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from ..faults.heirs import find_again, lose_pod
from ..faults.registry import attempt, wait_for
from ..kubernetes.objects import STATIC_GROUPS, merged
from ..world.teams import Team
from ..world.world import GROUP, NAMESPACE, WORKLOAD, World

APPLIED_AGAIN: Final = "applies again"
KEPT_SHARE: Final = 0.3
"""Of the teams whose ids have a scope."""
ISSUED_WITHIN_S: Final = 60.0
HEALED_AFTER_S: Final = (60.0, 200.0)


def repository_source(team: Team | None, seed: object) -> Random | None:
    """Return the source of what happens to a team's repository; None where it keeps none."""
    source = Random(f"repository/{seed}")
    return source if team is not None and team.is_scoped and source.random() < KEPT_SHARE else None


class Repository:
    """What one team applies.

    Parameters
    ----------
    rng: of what happens to it.
    """

    def __init__(self, world: World, rng: Random) -> None:
        self._world = world
        self._rng = rng

    async def follow(self) -> None:
        """Write the scope down, then let the StaticGroup be deleted and applied again, now and then."""
        world, rng = self._world, self._rng
        await wait_for(world, lambda: "injected" in world.status, ISSUED_WITHIN_S)
        injected = world.status.get("injected")
        if not injected or not world.team.is_scoped:
            return
        written = {"idTemplate": world.team.template.replace("{scope}", injected["scope"]), "assumeExclusive": True}
        world.change_team(replace(world.team, spec=merged(world.team.spec, written)))
        attempt(lambda: world.users.edit_group(NAMESPACE, GROUP, written))
        world.trace.add(world.loop.time(), "user", "writes the scope down")
        for _ in range(rng.randint(1, 3)):
            await asyncio.sleep(rng.uniform(20, 150))
            await self._apply_again()

    async def _apply_again(self) -> None:
        """Delete the StaticGroup, let something happen, and create it as the repository has it."""
        world, rng = self._world, self._rng
        if world.server.get(STATIC_GROUPS, NAMESPACE, GROUP) is None:
            return
        world.trace.add(world.loop.time(), "user", APPLIED_AGAIN)
        attempt(lambda: world.users.delete_group(NAMESPACE, GROUP))
        if rng.random() < 0.4:
            for operator in list(world.living):
                world.crash_operator(operator)
                world.loop.world_call_later(rng.uniform(1, 40), world.restart_operator, operator.name)
        await asyncio.sleep(rng.uniform(0, 5))
        for happens in rng.sample(self._happenings(), rng.randint(0, 2)):
            happens()
        await asyncio.sleep(rng.uniform(0.5, 40))
        attempt(world.create_group)
        await asyncio.sleep(rng.uniform(0, 20))
        wanted = len(world.truth.desired(WORKLOAD, NAMESPACE))
        if rng.random() < 0.6 and wanted > 1:
            attempt(lambda: world.users.scale(NAMESPACE, WORKLOAD, wanted - 1))

    def _happenings(self) -> tuple[Callable[[], None], ...]:
        """Return what may happen to pods without a workload."""
        users, wanted = self._world.users, self._world.truth.desired(WORKLOAD, NAMESPACE)
        if not wanted:
            return (lambda: None,) * 2
        last = f"{WORKLOAD}-{wanted[-1]}"
        return (
            lambda: attempt(lambda: users.scale(NAMESPACE, WORKLOAD, max(0, len(wanted) - 1))),
            lambda: attempt(lambda: users.delete_pod(NAMESPACE, last)),
            lambda: attempt(lambda: users.roll(NAMESPACE, WORKLOAD)),
            partial(self._lose, last),
        )

    def _lose(self, name: str) -> None:
        """Cut off a pod's node and delete the pod by force: its process lives on, a new pod takes its name."""
        node = self._world.kubernetes.node_of(NAMESPACE, name)
        if node is not None:
            lose_pod(self._world, node, name)
            self._world.loop.world_call_later(self._rng.uniform(*HEALED_AFTER_S), find_again, self._world, node)
