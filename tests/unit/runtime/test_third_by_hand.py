"""Pods whose variable reads the annotation although the template in force, and every earlier one, is composed of the pod's name."""

from __future__ import annotations

from .operator_world import OperatorWorld, guards
from .stories import LIVING, away, blind, departs, gap, lost_stray


async def test_copy_of_a_pod_that_an_operator_of_before_injected_by_its_annotation() -> None:
    """Decision 9: the version before injected the same template by fieldRef; after the upgrade no pod is rolled.

    `kubectl debug web-2 --copy-to=canary-0 --keep-annotations` in a gap; the node of the copy is lost.
    """
    world = OperatorWorld()
    world.scale(3)
    await world.round()
    for ordinal in range(3):
        world.start(ordinal, ids_are_fixed=False)
    world.now_s += 300
    await world.settled(2)
    away(world)
    lost_stray(world, ids_are_fixed=False)
    gap(world)
    await world.settled(3)
    await departs(world, 4)
    assert LIVING not in dict(world.left)
    assert guards(world) == ["WatchGap"]
    assert blind(world) == "0-2147483647"
