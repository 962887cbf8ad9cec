"""The wall clock is set forward (NTP, a machine that was paused) while the pod watch says nothing."""

from __future__ import annotations

import pytest

from .operator_world import OperatorWorld, static_group
from .stories import LIVING, away, blind, departs, gap, lost_stray

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
