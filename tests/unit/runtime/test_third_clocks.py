"""The wall clock is set forward (NTP, a machine that was paused) while the pod watch says nothing."""

from __future__ import annotations

import pytest

from .operator_world import OperatorWorld, static_group
from .stories import LIVING, away, blind, departs, gap, lost_stray, lost_untold

NONE = {"method": "None"}


@pytest.mark.parametrize("step_s", [0.0, 100.0])
async def test_method_that_changed_while_the_watch_was_silent_and_the_clock_was_set(step_s: float) -> None:
    """The watch was heard 70 s ago by the clock that never steps; the step makes these 70 s none of before the edit."""
    world = await OperatorWorld(identity=NONE).started()
    await world.settled(2)
    away(world)
    world.pods.age_s = lambda: 70.0  # type: ignore[method-assign]
    lost_stray(world)
    world.declare(static_group(generation=2, identity={"method": "Policy"}))
    await world.settled(2)
    world.now_s += step_s
    await world.settled(3)
    gap(world)
    await world.settled(3)
    await departs(world, 4)
    assert LIVING not in dict(world.left)
    assert blind(world) == "0-2147483647"


@pytest.mark.parametrize("behind_s", [0.0, 900.0])
async def test_suspect_that_was_lost_while_the_clock_of_the_operator_was_behind(behind_s: float) -> None:
    """The clock is a quarter of an hour behind when web-2 is lost, minutes after the StaticGroup was made, and is set right then."""
    world = await OperatorWorld().started()
    world.now_s -= behind_s
    await lost_untold(world)
    world.now_s += behind_s
    await world.settled(3)
    world.now_s += 300
    await departs(world, 4, "u2c")
    assert LIVING not in dict(world.left)
