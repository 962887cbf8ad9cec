"""More suspects than a status has room for: removals stop, the status says which words let them go on, and they do."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from staticgroup.api.resources.durable import INCARNATIONS_MAX
from staticgroup.core.evidence.continuity import GapWord
from staticgroup.core.evidence.words import Word

from .operator_world import OperatorWorld, guards, static_group
from .stories import (
    LIVING,
    blind,
    left,
)


async def lost_pods(world: OperatorWorld, count: int) -> OperatorWorld:
    """Lose pods of web-2, one each second, as a node that is taken away again and again does."""
    world.end(2)
    for number in range(count):
        world.start(2, f"lost-{number:03}", joins=False)
        world.remove_object(2)
        world.now_s += 1
    await world.settled(2)
    return world


def remembered(world: OperatorWorld) -> set[str]:
    """Return the suspects of the ledger, among them those that a word has closed."""
    assert world.status.ledger is not None
    return {e.uid for e in world.status.ledger.incarnations if e.state.value == "Suspect"}


async def depart(world: OperatorWorld, ordinal: int, uid: str = "") -> None:
    world.scale(ordinal)
    world.end(ordinal, uid)
    await world.settled(4)


def word(world: OperatorWorld, uid: str) -> Word:
    return Word(
        namespace="shop", pod_name="web-2", pod_uid=uid, said_at_s=world.now_s, said_by="alice", statement="its machine is gone"
    )


async def test_suspects_without_room_hold_every_seat_until_words_are_given_about_all_of_them() -> None:
    world = await lost_pods(await OperatorWorld().started(), INCARNATIONS_MAX + 2)
    world.start(2, "u2b", joins=False)
    await depart(world, 2, "u2b")
    assert (left(world), guards(world)) == ([], ["WatchGap"])
    assert "LedgerFull" in world.condition("RemovalSettled")[2]
    assert world.status.ledger is not None
    assert world.status.ledger.overflow

    # A word about that time is about those without room; each of the others waits for its own.
    world.gap_words = (GapWord(since_s=0, until_s=world.now_s, said_at_s=world.now_s, said_by="alice"),)
    await world.settled(2)
    assert (blind(world), left(world), guards(world)) == ("", [], ["DeathNotProven"])
    heard: set[str] = set()
    for room_for in (False, True):
        heard |= remembered(world)
        world.pods.book.hear([word(world, uid) for uid in heard])
        assert guards(world) == ["DeathNotProven"]
        await world.settled(2)
        assert world.status.ledger is not None
        assert (world.status.ledger.overflow, remembered(world) - heard == set()) == (False, room_for)
    assert left(world) == [world.id_of(2)]
    assert blind(world) == ""


async def test_suspect_that_was_forgotten_for_lack_of_room_is_still_blind_after_a_restart() -> None:
    """The process of the last one lives on and joins again; nobody knows its pod any more."""
    world = await lost_pods(await OperatorWorld().started(), INCARNATIONS_MAX + 1)
    heard = [word(world, uid) for uid in remembered(world)]
    world.restart()
    world.pods.book.hear(heard)
    world.start(2, "u2b", joins=False)
    world.kafka.join(world.id_of(2), LIVING)
    await depart(world, 2, "u2b")
    assert (left(world), guards(world)) == ([], ["WatchGap"])


async def test_ledger_that_is_full_is_written_once_and_not_in_every_round() -> None:
    world = await lost_pods(await OperatorWorld().started(), INCARNATIONS_MAX + 1)
    before = len(world.kube.status_writes)
    for _ in range(5):
        world.now_s += 30
        await world.round()
    assert len(world.kube.status_writes) == before


@pytest.mark.parametrize("was_there", [True, False], ids=["lost before the end of another one", "lost between the two"])
async def test_new_staticgroup_does_not_inherit_a_full_ledger(was_there: bool) -> None:
    """None of those suspects can hold an id that nobody could know when they were lost."""
    world = await OperatorWorld().started()
    if was_there:
        await lost_pods(world, INCARNATIONS_MAX + 1)
    world.template = f"web-{{ordinal}}.{world.scope}"
    world.delete_group()
    if not was_there:
        await lost_pods(world, INCARNATIONS_MAX + 1)
    world.now_s += 600
    world.template = ""
    body = static_group(uid="sg-2")
    body["metadata"]["creationTimestamp"] = datetime.fromtimestamp(world.now_s, tz=UTC).isoformat()
    world.declare(body)
    await world.round()
    for ordinal in range(3):
        world.start(ordinal, f"new-{ordinal}")
    await world.settled(2)
    assert world.status.ledger is None
    await depart(world, 2, "new-2")
    assert left(world) == [world.id_of(2)]
    assert all(world.pods.book.unwritten.is_durable(f"lost-{n:03}") for n in range(INCARNATIONS_MAX + 1)), "nobody waits for them"
