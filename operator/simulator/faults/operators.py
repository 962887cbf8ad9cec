"""The operator processes and their Lease."""

from __future__ import annotations

from random import Random

from ..kubernetes.objects import LEASES
from ..world.world import SYSTEM, RunningOperator, World
from .registry import Heal, attempt, fault, operator_fault


@operator_fault(weight=2.0, lasts_s=(1, 30))
def operator_crashes(world: World, rng: Random, operator: RunningOperator) -> Heal:
    """An operator is killed and starts again."""
    world.crash_operator(operator)
    return lambda: world.restart_operator(operator.name)


@operator_fault(weight=2.0, lasts_s=(0, 0), is_beside=True)
def operator_is_terminated(world: World, rng: Random, operator: RunningOperator) -> None:
    """Its Deployment rolls, or its node is drained; half of the time right after an edit."""
    team = rng.choice(world.teams)
    if rng.random() < 0.5:
        attempt(lambda: world.users.edit_without_effect(team.namespace, team.name))
    world.loop.world_call_later(rng.uniform(0, 0.3), world.end_operator, operator)


@operator_fault(lasts_s=(3, 45))
def operator_freezes(world: World, rng: Random, operator: RunningOperator) -> Heal:
    """An operator stands still, perhaps beyond its Lease, and goes on as if nothing had been."""
    operator.process.freeze()
    return operator.process.thaw


@fault(lasts_s=(0, 0))
def second_operator_starts(world: World, rng: Random) -> None:
    """A standby is added."""
    if not any(o.name == "operator-b" for o in world.living):
        world.restart_operator("operator-b")


@fault(weight=0.7, lasts_s=(0, 0))
def lease_is_deleted(world: World, rng: Random) -> None:
    """A user deletes the Lease, and with it the stored position of the watch."""
    attempt(lambda: world.server.delete(LEASES, SYSTEM, "staticgroup-operator"))
