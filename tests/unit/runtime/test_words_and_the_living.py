"""A word about a gap is about what went unseen; what pods that live took up unseen it cannot tell, so it waits for them.

A living pod may hold the id that its annotation said once, and be there before and after.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from staticgroup.core.evidence.spans import GapWord
from staticgroup.runtime.commands.gaps import MEANING

from .operator_world import KEY, OperatorWorld, guards
from .stories import LIVING, blind, by_annotations, departs, empty_seat, gap, left, managed, start_as
from .test_carried_by_the_living import edited_and_put_right, living


def say(world: OperatorWorld) -> None:
    """Let a person say what is true of machines: nothing that went unseen runs any more."""
    world.now_s += 60
    world.gap_words = (GapWord(since_s=0.0, until_s=world.now_s, said_at_s=world.now_s, said_by="anna"),)


def replaced(world: OperatorWorld, *ordinals: int) -> None:
    """Replace pods of seats some minutes later; the new ones join under the ids of their own."""
    world.now_s += 300
    for ordinal in ordinals:
        world.end(ordinal)
        world.start(ordinal, f"u{ordinal}-new", ids_are_fixed=False, created_at_s=world.now_s)
    world.now_s += 60


async def web_1(world: OperatorWorld) -> None:
    edited_and_put_right(world)
    await world.settled(3)


async def a_copy(world: OperatorWorld) -> None:
    start_as(world, "canary-0", "stray", {world.id_of(2)}, ids_are_fixed=False)
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(2)
    start_as(world, "canary-0", "stray", set(), ids_are_fixed=False)
    await world.settled(2)


async def managed_world() -> OperatorWorld:
    world = await by_annotations()
    world.pods.is_managed = managed
    return world


@pytest.mark.parametrize("who", [web_1, a_copy])
@pytest.mark.parametrize("is_emptied", [False, True])
async def test_word_about_a_lost_memory_waits_for_pods_that_live(who: Callable[[OperatorWorld], Awaitable[None]], is_emptied: bool) -> None:
    """The status is emptied while no operator runs; the pod that holds web-2's id lives on, in plain sight."""
    world = await managed_world()
    await who(world)
    assert living(world)
    if is_emptied:
        world.kube.objects["staticgroups", *KEY]["status"] = {}
        world.declare(world.kube.objects["staticgroups", *KEY])
    world.kube.resource_version += 1
    world.restart(epoch="epoch-2")
    world.pods.is_managed = managed
    await world.settled(3)
    say(world)
    await world.settled(3)
    assert blind(world) == "0-2147483647"
    await departs(world, 4)
    assert (left(world), guards(world)) == ([], ["WatchGap"])


async def test_word_about_a_gap_in_which_nothing_went_waits_for_the_pod_that_restarted() -> None:
    """web-1's annotation says web-2's id while its container starts again, and is put right, all in one gap."""
    world = await managed_world()
    world.pods.is_lagging = True
    edited_and_put_right(world)
    gap(world)
    await world.settled(3)
    say(world)
    await departs(world, 4)
    assert (left(world), guards(world)) == ([], ["WatchGap"])
    (held,) = (e for e in world.status.exceptions if e.kind.value == "Held")
    assert "or a living one such as shop/web-1 have taken this id" in held.message
    assert held.message.endswith("or, once 1 such pods are replaced, by a word: staticgroup confirm-gap --list")
    del world.kafka.members[world.id_of(1)]
    replaced(world, 1)
    await world.settled(4)
    assert blind(world) == ""
    assert left(world) == [world.id_of(2)], "the process that held the id is proven dead"


async def test_word_does_not_wait_for_pods_that_ran_on_through_the_gap() -> None:
    """Their ids can be edited, and yet no container of theirs has read one since."""
    world = await managed_world()
    await empty_seat(world)
    world.pods.is_lagging = True
    start_as(world, "web-3", "u3", {world.id_of(3)}, ids_are_fixed=False)
    world._happens(world.kube.pods["shop", "web-3"], is_deleted=True)
    gap(world)
    await world.settled(3)
    assert blind(world) == "0-2147483647"
    say(world)
    await world.settled(3)
    assert blind(world) == ""
    world.kafka.problems.clear()
    await world.settled(4)
    assert left(world) == [world.id_of(2)]


def test_word_says_what_nobody_but_a_person_can_know() -> None:
    """Of a copy with another name, whose annotation was taken off before anybody remembered it, nothing is known."""
    assert "no pod that is still here took another id in that time" in MEANING
