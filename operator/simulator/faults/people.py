"""What people do to their StaticGroups at the wrong moment."""

from __future__ import annotations

from random import Random

from ..world.world import GROUP, NAMESPACE, World
from .registry import Heal, attempt, fault


@fault(lasts_s=(10, 90))
def group_is_suspended(world: World, rng: Random) -> Heal:
    """The user says stop, and go on later."""
    attempt(lambda: world.users.edit_group(NAMESPACE, GROUP, {"mode": "Suspended"}))
    return lambda: attempt(lambda: world.users.edit_group(NAMESPACE, GROUP, {"mode": "Manage"}))


@fault(weight=0.7, lasts_s=(10, 90))
def mode_is_observe(world: World, rng: Random) -> Heal:
    """The user switches to mode Observe."""
    attempt(lambda: world.users.edit_group(NAMESPACE, GROUP, {"mode": "Observe"}))
    return lambda: attempt(lambda: world.users.edit_group(NAMESPACE, GROUP, {"mode": "Manage"}))


@fault(weight=0.5, lasts_s=(1, 40))
def group_is_created_again(world: World, rng: Random) -> Heal:
    """The StaticGroup is deleted and created again under the same name."""
    attempt(lambda: world.users.delete_group(NAMESPACE, GROUP))
    return lambda: attempt(world.create_group)
