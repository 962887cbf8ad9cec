"""The operator is killed at every await of short scenarios, one after the other, and starts again from what is stored.

The n-th run kills the process instead of its n-th resumption, for n = 1 … N, where N is what the scenario takes without
a crash; runs are equal up to there, so every await is tried. Nothing but objects of the API server and the group
survives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..engine.log_capture import captured_logs
from ..engine.loop import Process
from ..engine.loop import run as run_simulation
from ..kafka.requests import AppliedLeave
from ..kubernetes.objects import DEPLOYMENTS, PODS, is_true, uid_of
from ..oracles.promises import Violation
from ..world.rest import violations_at_rest
from ..world.settings import DEPLOYED_SHARE, deployed_team
from ..world.world import GROUP, NAMESPACE, RESTART_PAUSE_S, WORKLOAD, World, WorldSettings

SESSION_S = 30
GOAL_WITHIN_S = 200.0
"""Also by session expiry, after a crash that cost the evidence."""
AFTER_GOAL_S = 8.0
"""The crash is also tried here, while the operator verifies and reports."""
STANDBY_AFTER_S = 1.0
"""The second operator starts so much later, so that the first one leads."""
OUTAGE_S, FAIL_OVER_S = 0.5, 1.0
"""A coordinator fails over within `FAIL_OVER_S`."""
FROZEN_S = 25.0
"""Longer than the Lease, so that the standby takes over meanwhile."""
SETTLE_S, QUIET_S = 70.0, 30.0
UNTIL_S = 3000.0

Story = Callable[[World], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class CrashScenario:
    """A short history whose every await is a place to crash.

    Parameters
    ----------
    removals: without a crash; another number means that the scenario does not happen any more.
    victim: which operator is killed; operator-b exists only where `operators` is 2, and begins as the standby.
    is_of_slots: the workload is a Deployment.
    """

    name: str
    says: str
    protocol: str
    story: Story
    removals: int
    operators: int = 1
    victim: str = "operator-a"
    is_of_slots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashVerdict:
    """What became of one run.

    Parameters
    ----------
    at: the resumption that the process did not live to see; 0: it was not killed.
    resumptions: of the victim, up to the end of the story.
    removals: members that operators removed.
    """

    scenario: str
    at: int
    crashed: bool
    resumptions: int
    removals: int
    violations: tuple[Violation, ...]
    trace: str = ""


async def _removed(world: World, departed: str) -> None:
    await world.until(lambda: departed not in world.members(), GOAL_WITHIN_S, f"{departed} is no member any more")


async def _scale_down(world: World) -> None:
    """Web 2 → 1: the member of web-1 is removed."""
    departed = world.id_of(1)
    world.users.scale(NAMESPACE, WORKLOAD, 1)
    await _removed(world, departed)


async def _roll(world: World) -> None:
    """Every pod is replaced under its id, and no member is removed."""
    before = {uid_of(pod) for pod in world.server.list(PODS, NAMESPACE)}
    ids = set(world.members())
    world.users.roll(NAMESPACE, WORKLOAD)
    await world.until(lambda: _all_replaced(world, before), GOAL_WITHIN_S, "all pods are replaced and ready")
    await world.until(lambda: set(world.members()) == ids, GOAL_WITHIN_S, "all pods are members")
    if world.safety.removals:
        world.violations.append(Violation("S4", world.loop.time(), "a roll ended in a removal"))


async def _roll_deployment(world: World) -> None:
    """Each pod hands its slot to the one that replaces it; after a crash some may get slots of their own."""
    before = {uid_of(pod) for pod in world.server.list(PODS, NAMESPACE)}
    ids = set(world.members())
    world.users.roll(NAMESPACE, WORKLOAD, resource=DEPLOYMENTS)

    def is_rolled() -> bool:
        return world.is_settled() and not before & {uid_of(pod) for pod in world.server.list(PODS, NAMESPACE)}

    await world.until(is_rolled, GOAL_WITHIN_S, "all pods are replaced, and the members are theirs")
    if set(world.members()) != ids and all(operator.is_alive for operator in world.operators):
        world.violations.append(Violation("L6", world.loop.time(), "a roll without a crash changed the ids"))


def _all_replaced(world: World, before: set[str]) -> bool:
    pods = world.server.list(PODS, NAMESPACE)
    ready = [p for p in pods if is_true(p, "Ready")]
    return len(ready) == world.settings.replicas and not before & {uid_of(p) for p in pods}


async def _fail_over_after_the_leave(world: World) -> None:
    """The removal is acknowledged and lost with the coordinator: the member is back, and is removed again."""
    departed = world.id_of(1)

    def lose(applied: AppliedLeave) -> None:
        if applied.group_id == GROUP and not world.coordinator_epoch:
            world.coordinator_epoch += 1
            world.loop.world_call_later(0.003, lambda: world.kafka.fail_over(GROUP, is_clean=False, outage_s=OUTAGE_S))

    world.kafka.on_applied.append(lose)
    world.users.scale(NAMESPACE, WORKLOAD, 1)
    await world.until(
        lambda: world.coordinator_epoch or departed not in world.members(),
        GOAL_WITHIN_S,
        f"{departed} is removed a first time, or its session runs out",
    )
    await asyncio.sleep(FAIL_OVER_S)
    await _removed(world, departed)


async def _take_over(world: World) -> None:
    """The leader stands still in the middle of a scale-down, the standby takes over, and the first one goes on."""
    departed = world.id_of(1)
    world.users.scale(NAMESPACE, WORKLOAD, 1)
    await asyncio.sleep(0.3)
    leader = world.leader()
    if leader is not None:
        leader.process.freeze()
        world.loop.world_call_later(FROZEN_S, leader.process.thaw)
    await asyncio.sleep(FROZEN_S + 1.0)
    await _removed(world, departed)


SCENARIOS: tuple[CrashScenario, ...] = (
    CrashScenario("scale-down", "scale-down of a classic group", "classic", _scale_down, 1),
    CrashScenario("scale-down-two", "the same with a standby", "classic", _scale_down, 1, operators=2),
    CrashScenario("scale-down-kip848", "scale-down of a KIP-848 group", "consumer", _scale_down, 1),
    CrashScenario("roll", "a roll, after which nobody is removed", "classic", _roll, 0),
    CrashScenario(
        "fail-over", "the coordinator loses an acknowledged removal", "classic", _fail_over_after_the_leave, 2
    ),
    CrashScenario("fail-over-two", "the same with a standby", "classic", _fail_over_after_the_leave, 2, operators=2),
    CrashScenario(
        "take-over",
        "the standby takes over a leader that stands still, and the leader is killed",
        "classic",
        _take_over,
        1,
        operators=2,
    ),
    CrashScenario(
        "take-over-standby",
        "the same, and the standby is killed",
        "consumer",
        _take_over,
        1,
        operators=2,
        victim="operator-b",
    ),
)


DEPLOYED: tuple[CrashScenario, ...] = (
    CrashScenario("hand-out", "a roll of a Deployment", "classic", _roll_deployment, 0, is_of_slots=True),
    CrashScenario(
        "hand-out-two", "the same with a standby", "consumer", _roll_deployment, 0, operators=2, is_of_slots=True
    ),
)
"""Where slots pass on, one pod after the other."""
if DEPLOYED_SHARE:
    SCENARIOS += DEPLOYED


def scenario_named(name: str) -> CrashScenario:
    """Return a scenario.

    Raises
    ------
    ValueError: there is none of that name.
    """
    for scenario in SCENARIOS:
        if scenario.name == name:
            return scenario
    raise ValueError(f"no scenario {name!r}; there are {', '.join(s.name for s in SCENARIOS)}")


@dataclass(slots=True)
class _Run:
    """One run while it lasts."""

    scenario: CrashScenario
    at: int
    world: World | None = None
    resumptions: int = 0
    crashed: bool = False

    async def main(self) -> None:
        settings = WorldSettings(
            protocol=self.scenario.protocol,
            replicas=2,
            partitions=4,
            parallel=True,
            session_timeout_s=SESSION_S,
            startup_s=(0.5, 1.5),
            nodes=("n1", "n2"),
        )
        if self.scenario.is_of_slots:
            settings = replace(settings, team=deployed_team(settings))
        world = self.world = World(settings, seed=self.scenario.name)
        try:
            await self._story(world)
        except AssertionError as error:
            world.violations.append(Violation("L1", world.loop.time(), str(error)))
            return
        self.resumptions = self._victim(world).resumptions if not self.crashed else self.at
        for name in ("operator-a", "operator-b")[: self.scenario.operators]:
            world.restart_operator(name)
        await asyncio.sleep(SETTLE_S)
        leaves = world.leaves_sent
        await asyncio.sleep(QUIET_S)
        world.violations += violations_at_rest(world, since_leaves=leaves)

    async def _story(self, world: World) -> None:
        for name in ("operator-a", "operator-b")[: self.scenario.operators]:
            if name != "operator-a":
                await asyncio.sleep(STANDBY_AFTER_S)
            at = self.at if name == self.scenario.victim else 0
            operator = world.start_operator(name, crash_at_resumption=at)
            if at:
                operator.process.on_death.append(partial(self._died, world, operator.process))
        await world.bring_up()
        await self.scenario.story(world)
        await asyncio.sleep(AFTER_GOAL_S)

    def _died(self, world: World, process: Process) -> None:
        if process.resumptions != self.at:
            return  # it ended by itself, as after the loss of its Lease
        self.crashed = True
        world.trace.add(world.loop.time(), process.name, "operator killed", resumption=self.at)
        world.loop.world_call_later(RESTART_PAUSE_S, world.restart_operator, process.name)

    def _victim(self, world: World) -> Any:
        return next(o.process for o in world.operators if o.name == self.scenario.victim)


def crash(scenario: CrashScenario, at: int, *, keep_trace: bool = False) -> CrashVerdict:
    """Run a scenario and kill its victim instead of one resumption.

    Parameters
    ----------
    at: counted from 1 over all tasks of the victim; 0: no process is killed.
    keep_trace: return the history also when nothing was violated.
    """
    run = _Run(scenario, at)
    with captured_logs():
        run_simulation(run.main, seed=scenario.name, until_s=UNTIL_S)
    assert run.world is not None
    violations = tuple(run.world.violations)
    return CrashVerdict(
        scenario=scenario.name,
        at=at,
        crashed=run.crashed,
        resumptions=run.resumptions,
        removals=run.world.safety.removals,
        violations=violations,
        trace=run.world.trace.text() if violations or keep_trace else "",
    )
