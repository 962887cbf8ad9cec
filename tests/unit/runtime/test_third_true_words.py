"""A word that is true, and after which a living member is removed.

WatchGapConfirmation says: no process of a pod that came and went, or went, in that time unseen runs any more (`confirm_gap.MEANING`);
after a lost memory also that every pod has ended which is not here any more (`BEYOND_THE_TIMES`). Of pods that are here it says
nothing, and a living pod may hold the id that its annotation said once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from staticgroup.api.resources.durable import INCARNATIONS_MAX
from staticgroup.core.evidence.continuity import GapWord
from unit.core.builders import ended

from .operator_world import KEY, OperatorWorld
from .stories import LIVING, blind, by_annotations, departs, gap, managed, start_as
from .test_carried_by_the_living import edited_and_put_right, living


def say(world: OperatorWorld, until_s: float) -> None:
    """Let a person say truly that nothing that went unseen runs any more."""
    world.gap_words = (GapWord(since_s=0.0, until_s=until_s, said_at_s=world.now_s, said_by="anna"),)


async def web_1(world: OperatorWorld) -> None:
    edited_and_put_right(world)
    await world.settled(3)


async def a_copy(world: OperatorWorld) -> None:
    start_as(world, "canary-0", "stray", {world.id_of(2)}, ids_are_fixed=False)
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(2)
    start_as(world, "canary-0", "stray", set(), ids_are_fixed=False)
    await world.settled(2)


@pytest.mark.parametrize("who", [web_1, a_copy])
@pytest.mark.parametrize("is_emptied", [False, True])
async def test_word_about_a_lost_memory(who: Callable[[OperatorWorld], Awaitable[None]], is_emptied: bool) -> None:
    """The status is emptied while no operator runs; the pod that holds web-2's id lives on, in plain sight."""
    world = await by_annotations()
    world.pods.is_managed = managed
    await who(world)
    assert living(world)
    if is_emptied:
        world.kube.objects["staticgroups", *KEY]["status"] = {}
        world.declare(world.kube.objects["staticgroups", *KEY])
    world.kube.resource_version += 1
    world.restart(epoch="epoch-2")
    world.pods.is_managed = managed
    await world.settled(3)
    assert blind(world) == "0-2147483647"
    world.now_s += 60
    say(world, world.now_s)
    await world.settled(3)
    assert blind(world) == ""
    await departs(world, 4)
    assert LIVING not in dict(world.left)


async def test_word_about_a_full_ledger() -> None:
    """One living copy more than a ledger holds; annotations are taken off all, and the operator is restarted. After the hour the word counts."""
    world = await by_annotations()
    world.pods.is_managed = managed
    for n in range(INCARNATIONS_MAX + 1):
        world.now_s += 1
        start_as(world, f"canary-{n}", f"stray-{n:03}", {world.id_of(2)}, ids_are_fixed=False)
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(3)
    left_out = f"stray-{INCARNATIONS_MAX:03}"
    assert left_out not in living(world)
    assert len(living(world)) == INCARNATIONS_MAX
    for n in range(INCARNATIONS_MAX + 1):
        start_as(world, f"canary-{n}", f"stray-{n:03}", set(), ids_are_fixed=False)
    world.kube.resource_version += 1
    world.restart(epoch="epoch-2")
    world.pods.is_managed = managed
    await world.settled(3)
    for n in range(INCARNATIONS_MAX):  # all but the one that is left out end as they should
        ended_copy(world, n)
    await world.settled(3)
    world.now_s += 7200
    say(world, world.now_s)
    await world.settled(3)
    await departs(world, 4)
    assert LIVING not in dict(world.left)


def ended_copy(world: OperatorWorld, n: int) -> None:
    """Let a copy end as its kubelet tells."""
    world._happens(replace(ended(0, f"stray-{n:03}", instance_ids=frozenset()), name=f"canary-{n}"))
    world._happens(world.kube.pods["shop", f"canary-{n}"], is_deleted=True)


async def test_word_about_a_gap_in_which_nothing_went() -> None:
    """web-1's annotation says web-2's id while its container starts again, and is put right, all in one gap. web-1 is here before and after."""
    world = await by_annotations()
    world.pods.is_managed = managed
    world.pods.is_lagging = True
    edited_and_put_right(world)
    gap(world)
    await world.settled(3)
    assert blind(world) == "0-2147483647"
    world.now_s += 60
    say(world, world.now_s)
    await world.settled(3)
    await departs(world, 4)
    assert LIVING not in dict(world.left)
