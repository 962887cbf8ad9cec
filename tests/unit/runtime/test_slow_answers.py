"""What an answer shows became so when it was answered at the latest, and a describe may be repeated for a minute."""

from __future__ import annotations

import pytest

from unit.core.crashes import over, runs

from .operator_world import OperatorWorld
from .stories import force_delete, left
from .test_crash_release import consuming, released, shows


@pytest.mark.parametrize(("asked_before_s", "ahead_s"), [(11, 0), (1.5, 9)])
async def test_a_successor_that_joined_while_the_group_was_described_is_not_dated_before_that(
    asked_before_s: float, ahead_s: float
) -> None:
    """web-0's container leaves and ends meanwhile, and its next run joins, which the answer shows. With a node whose
    clock is 9 s ahead a short describe is enough."""
    world = await consuming()
    ended_s = 0.0

    def slow() -> None:
        nonlocal ended_s
        world.now_s += asked_before_s
        ended_s = world.now_s
        world.kafka.join(world.id_of(0), "its-successor")  # its predecessor has left for a while
        world.now_s += 0.5

    world.kafka.before["describe"] = slow
    await world.round()
    world.now_s = ended_s + 17 if ahead_s else ended_s + 1
    shows(world, runs(run="b", restarts=1, after=over(finished_at_s=ended_s + ahead_s)))
    for _ in range(3):
        await world.round()
        world.now_s += 1
    assert released(world) == []


@pytest.mark.parametrize("takes_s", [0.0, 50.0])
async def test_a_suspect_is_silent_only_from_the_answer_on_that_shows_its_seat_empty(takes_s: float) -> None:
    """Its session ends while a describe is repeated. It joins again after 598 s of silence, and `settle` is 600 s."""
    world = await OperatorWorld().started()
    force_delete(world, "web-2")  # its process lives on, cut off from the brokers for a while
    world.start(2, "u2b", joins=False)
    await world.round()
    world.now_s += 30

    def slow() -> None:
        world.now_s += takes_s
        del world.kafka.members[world.id_of(2)]

    world.kafka.before["describe"] = slow
    emptied_s = world.now_s + takes_s
    await world.round()
    while world.now_s + 30 < emptied_s + 598:
        world.now_s += 20
        await world.round()
    world.now_s = emptied_s + 598
    world.kafka.join(world.id_of(2), "of-the-suspect")
    await world.settled(2)
    world.scale(2)
    world.end(2, "u2b")
    await world.settled(4)
    assert left(world) == []
