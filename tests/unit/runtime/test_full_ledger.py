"""More suspects than a status has room for: removals stop, the status says which words let them go on, and they do."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from staticgroup.api.resources.durable import INCARNATIONS_MAX
from staticgroup.core.evidence.spans import BlindSpan, GapWord
from staticgroup.core.evidence.words import Word
from staticgroup.core.status.checkpoints import checkpoint_from
from staticgroup.runtime.commands.gaps import Cover, OpenSpan, covers
from unit.core.builders import ended

from .operator_world import OperatorWorld, guards, static_group
from .stories import LIVING, blind, by_annotations, departs, left, managed, start_as


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


# copies that live ------------------------------------------------------------------------------------------------------------


async def copies(of: int) -> OperatorWorld:
    """Return a world with one living copy of a pod more than a ledger holds."""
    world = await by_annotations()
    world.pods.is_managed = managed
    for n in range(INCARNATIONS_MAX + 1):
        start_as(world, f"canary-{n}", f"stray-{n:03}", {world.id_of(of)}, ids_are_fixed=False)
    await world.settled(3)
    return world


def listed(world: OperatorWorld, *others: OpenSpan) -> tuple[Cover, ...]:
    """Return what `staticgroup confirm-gap --list` prints a command for."""
    known = checkpoint_from(world.status.continuity)
    assert known is not None
    return covers([*(OpenSpan(group="shop/orders", span=s) for s in known.blind), *others], world.now_s)


async def test_way_out_of_a_ledger_that_living_copies_fill() -> None:
    """No word helps while they live; once they have ended, the list has a command, and it is not refused as of the future."""
    world = await copies(of=1)
    await departs(world, 3)
    (held,) = (e for e in world.status.exceptions if e.kind.value == "Held")
    assert "may have come and gone unseen" not in held.message
    assert "the ledger has no room for every pod that may hold one of these ids" in held.message
    assert held.message.endswith(
        "or give the ids a {scope} or end the pods that status.ledger names, then say a word: staticgroup confirm-gap --list"
    )
    assert listed(world) == ()
    for n in range(INCARNATIONS_MAX + 1):
        world._happens(replace(ended(0, f"stray-{n:03}", instance_ids=frozenset()), name=f"canary-{n}"))
        world._happens(world.kube.pods["shop", f"canary-{n}"], is_deleted=True)
    await world.settled(3)
    assert (left(world), blind(world)) == ([], "0-2147483647")
    (cover,) = listed(world)
    assert cover.until_s <= world.now_s
    world.gap_words = (GapWord(since_s=cover.since_s, until_s=cover.until_s, said_at_s=world.now_s, said_by="anna"),)
    await world.settled(4)
    assert (left(world), blind(world)) == ([world.id_of(2)], "")


async def test_full_ledger_has_a_command_of_its_own_and_takes_nobody_elses_gap_into_it() -> None:
    world = await copies(of=2)
    known = checkpoint_from(world.status.continuity)
    assert known is not None
    (full,) = known.blind
    assert full.reason == "LedgerFull"
    gap_of_another = BlindSpan(ordinals=full.ordinals, since_s=full.since_s + 1, until_s=full.since_s + 3, reason="WatchGap")
    other = OpenSpan(group="bill/payments", span=gap_of_another)
    (alone,) = listed(world, other)
    assert (alone.until_s, alone.spans) == (gap_of_another.until_s, (other,))
    world.now_s = full.until_s
    both = listed(world, other)
    assert [[s.group for s in c.spans] for c in both] == [["shop/orders", "bill/payments"], ["bill/payments"]]
