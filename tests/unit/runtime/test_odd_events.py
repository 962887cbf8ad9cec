"""Odd but legal users and events: each test is one case in which a rule once did not hold."""

from __future__ import annotations

from staticgroup.api import names

from .operator_world import OperatorWorld, guards, static_group
from .stories import (
    left,
    start_as,
)
from .test_shared_workload import AUDIT, SharedWorld


async def test_pod_with_a_number_beyond_every_ordinal_in_its_name_stops_nothing() -> None:
    """A user runs `kubectl run web-$(date +%Y%m%d%H%M%S)` beside a StatefulSet `web`: no status can be written any
    more."""
    world = await OperatorWorld().started()
    start_as(world, "web-20261122093000", "script", set(), ids_are_fixed=False)
    await world.settled(2)
    assert len(world.status.seats) == 3


async def test_rollout_while_suspended_makes_no_suspects_at_a_restart() -> None:
    """While suspended the group is not described; the pods of before the rollout have ended gracefully, each with a
    certificate."""
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2, suspend=True))
    await world.settled(2)
    for ordinal in range(3):
        world.end(ordinal)
        world.start(ordinal, f"u{ordinal}b")
    await world.settled(2)
    world.restart()
    await world.settled(2)
    world.declare(static_group(generation=3, suspend=False))
    await world.settled(2)
    world.scale(1)
    for ordinal in (1, 2):
        world.end(ordinal, f"u{ordinal}b")
    await world.settled(4)
    assert left(world) == [world.id_of(1), world.id_of(2)], guards(world)


async def test_staticgroup_that_cannot_be_read_spoils_no_round_of_another_on_its_workload() -> None:
    """An operator is rolled back under a newer CRD and cannot read one of two StaticGroups of a workload."""
    world = await SharedWorld().started()
    unreadable = world.kube.objects[names.STATIC_GROUP_PLURAL, *AUDIT]
    world.stores.put_group(AUDIT, unreadable | {"spec": unreadable["spec"] | {"protocol": "Newer"}})
    world.scaled_down()
    for _ in range(4):
        await world.round()
        world.now_s += 10
    assert world.ids(2)[0] not in world.members("orders")


