"""Ordinals that no int32 holds: no StatefulSet keeps such a pod, but pods of such names and ids are made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unit.core.builders import ended

from .operator_world import guards
from .stories import LIVING, away, by_hand, force_delete, gap, start_as


@pytest.mark.parametrize("ordinal", [7, 3_000_000_000, 20261122093000])
async def test_member_that_joined_in_a_gap_is_kept_whatever_its_number(ordinal: int) -> None:
    """Ids are set by hand: one that was seen to end, and in a gap another pod with the same id, which was lost."""
    world = await by_hand()
    name, the_id = f"web-{ordinal}", f"web-{ordinal}.{world.scope}"
    start_as(world, name, "first", {the_id})
    world.kafka.join(the_id, "first-member")
    await world.settled(2)
    world._happens(replace(ended(0, "first", instance_ids=frozenset({the_id}), ids_are_fixed=True), name=name))
    world._happens(world.kube.pods["shop", name], is_deleted=True)
    away(world)
    start_as(world, "canary-0", "second", {the_id})
    world.kafka.join(the_id, LIVING)
    force_delete(world, "canary-0")
    gap(world)
    await world.settled(5)
    assert LIVING not in dict(world.left)
    assert guards(world) == ["JoinedBeforeWatch"]
