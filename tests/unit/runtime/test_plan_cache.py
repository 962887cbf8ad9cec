"""Rounds that skip planning: a quiet group is described as often as before, and planned when something has changed."""

from __future__ import annotations

import collections.abc
import dataclasses
import typing
from collections.abc import Iterator
from itertools import pairwise

import pytest

from journal.rounds import Remembered
from staticgroup.api import names
from staticgroup.core.absences.measure import Reading
from staticgroup.core.evidence.chain import KnownPod
from staticgroup.core.group import GroupType, GroupView
from staticgroup.core.members.memory import SETTLE_MIN_S
from staticgroup.core.snapshot import Evidence
from staticgroup.runtime.gather import BOUNDS_MAX_AGE_S
from staticgroup.runtime.memory.pace import REPLAN_AWAY_S, REPLAN_S

from .operator_world import KEY, UNREACHABLE, OperatorWorld, static_group
from .stories import LIVING, force_delete, start_as

POLL_S = 30.0


def rounds(world: OperatorWorld, result: str) -> float:
    return world.reconciler.metrics.registry.get_sample_value("staticgroup_rounds_total", {"result": result}) or 0.0


async def at_rest() -> OperatorWorld:
    """Return a world in which the last round needed no plan."""
    world = await OperatorWorld().started()
    for _ in range(20):
        before = rounds(world, "nothing_new")
        await world.look()
        world.now_s += POLL_S
        if rounds(world, "nothing_new") > before:
            return world
    raise AssertionError("there was always something new")


async def plans(world: OperatorWorld) -> bool:
    """Run one round, and say whether it planned."""
    before = rounds(world, "nothing_new")
    await world.look()
    return rounds(world, "nothing_new") == before


async def test_a_group_at_rest_is_described_as_often_and_planned_now_and_then() -> None:
    world = await at_rest()
    planned = []
    for _ in range(30):
        planned.append(await plans(world))
        assert world.did("describe") == [("orders",)]
        world.now_s += POLL_S
    assert planned.count(True) == 30 * POLL_S / REPLAN_S


async def test_what_the_group_shows_is_decided_on_at_once() -> None:
    world = await at_rest()
    del world.kafka.members[world.id_of(1)]
    assert await plans(world)
    assert world.members.joined == 2
    world.kafka.members[world.id_of(1)] = "consumer-again"
    assert await plans(world)
    assert world.members.joined == 3


async def test_a_group_with_an_absent_member_is_planned_more_often() -> None:
    world = await at_rest()
    del world.kafka.members[world.id_of(1)]
    planned = []
    for _ in range(48):
        planned.append(await plans(world))
        world.now_s += 5
    assert 48 * 5 / REPLAN_AWAY_S <= planned.count(True) <= 48 * 5 / REPLAN_AWAY_S + 3


async def test_every_change_is_planned() -> None:
    """Not all that a round reads is in its picture."""
    world = await at_rest()
    world.reconciler.memories.mark_changed(KEY)
    assert [await plans(world) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize("is_suspended", [False, True])
async def test_a_foreign_pod_that_vanishes_with_an_id_is_written_by_the_next_round_before_the_position(
    is_suspended: bool,
) -> None:
    """No event of a pod of another name wakes the StaticGroup whose id it carries."""
    world = await at_rest()
    if is_suspended:
        world.declare(static_group(generation=2, mode="Suspended"))
        result = await world.round()
        assert result.requeue_after_s == POLL_S
    memories = world.reconciler.memories
    looked_s = world.now_s
    await world.look()
    assert memories.unstored_since_s(0.0) is None
    world.now_s += POLL_S
    start_as(world, "canary-0", "stray", {world.id_of(1)})
    force_delete(world, "canary-0")
    assert memories.unstored_since_s(0.0) in (looked_s, looked_s - POLL_S)
    await world.look()
    assert memories.unstored_since_s(0.0) is None
    assert "stray" in {s.uid for s in world.status.memory.suspects}
    world.restart()
    world.kafka.join(world.id_of(1), LIVING)
    world.declare(static_group(generation=3))
    await world.settled(2)
    world.scale(1)
    world.end(2)
    world.end(1)
    await world.settled(4)
    assert LIVING not in dict(world.left)


async def test_a_pod_that_vanishes_with_an_id_of_somebody_else_costs_one_comparison() -> None:
    world = await at_rest()
    start_as(world, "canary-0", "stray", {"somebody-elses"})
    force_delete(world, "canary-0")
    assert not await plans(world)


async def test_another_staticgroup_of_the_kafka_group_is_reported_in_the_next_round() -> None:
    world = await at_rest()
    rival = static_group("sg-2", idTemplate="{podName}." + world.scope)
    rival["metadata"]["name"] = "orders-too"
    world.stores.put_group((KEY[0], "orders-too"), rival)
    assert await plans(world)
    assert not any(c.type == "Ready" and c.status.value == "True" for c in world.status.conditions)


async def test_what_the_brokers_allow_is_read_as_often_as_before() -> None:
    world, read_at_s = await at_rest(), list[float]()
    for number in range(40):
        if number % 7 == 0:  # it is planned at other times than the bounds are read
            world.reconciler.memories.mark_changed(KEY)
        await world.look()
        read_at_s += [world.now_s for _ in world.did("bounds")]
        world.now_s += POLL_S
    assert {later - earlier for earlier, later in pairwise(read_at_s)} == {BOUNDS_MAX_AGE_S}


async def test_a_group_that_cannot_be_read_is_never_at_rest() -> None:
    world = await at_rest()
    world.kafka.problems["describe"] = UNREACHABLE
    for _ in range(4):
        assert await plans(world)
        world.now_s += POLL_S


async def test_what_is_forgotten_by_its_age_is_forgotten_in_time() -> None:
    """A suspect that was silent for long enough, though nothing happens meanwhile."""
    world = await at_rest()
    world.remove_object(2)
    del world.kafka.members[world.id_of(2)]
    world.reconciler.memories.mark_changed(KEY)
    await passes(world, SETTLE_MIN_S - 60)
    assert [s.uid for s in world.status.memory.suspects] == ["u2"]
    await passes(world, 120)
    assert world.status.memory.suspects == []


async def test_an_earlier_template_of_which_nothing_is_left_is_forgotten_in_time() -> None:
    world = await at_rest()
    memory = world.reconciler.memories._by_key[KEY]
    memory.history = dataclasses.replace(memory.history, templates=(f"{{podName}}-b.{world.scope}",))
    world.reconciler.memories.mark_changed(KEY)
    seen = []
    for _ in range(8):
        await world.look()
        seen.append(len(world.issued.templates))
        world.now_s += POLL_S / 2
    assert seen == [1, 1, 1, 1, 0, 0, 0, 0]


async def test_a_status_that_the_watch_delivers_before_the_write_is_answered_is_no_change() -> None:
    """Each write of a status would have a second round, because the status would seem to be another writer's."""
    world = await OperatorWorld().started()
    seen: list[bool] = []
    apply = world.kube.apply_status

    async def told_first(*args: object, **kwargs: object) -> object:
        answer = await apply(*args, **kwargs)  # type: ignore[arg-type]
        world.stores.put_group(KEY, world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY])
        seen.append(world.reconciler.memories.is_overwritten(KEY))
        return answer

    world.kube.apply_status = told_first  # type: ignore[method-assign, assignment]
    del world.kafka.members[world.id_of(1)]
    await world.look()
    assert seen == [False]
    assert not world.reconciler.memories.is_overwritten(KEY)


def test_what_changes_next_has_changed_since_the_last_look() -> None:
    """What the journal says of when a rebalance began depends on the last round that showed the group settled."""
    settled = Reading(group_type=GroupType.CLASSIC, state="Stable", epoch=None, began_ms=1_000, settled_ms=1_000)
    before = Remembered(uid="sg-1", group_key="k/orders", seen_ms=1_000, reading=settled)
    after = before.seen_again(31_000)
    assert (after.seen_ms, after.reading) == (31_000, dataclasses.replace(settled, began_ms=31_000, settled_ms=31_000))
    moving = dataclasses.replace(settled, settled_ms=500)
    assert moving.seen_again(31_000) == dataclasses.replace(settled, began_ms=31_000, settled_ms=500)


def unhashable_parts(kind: object, seen_types: set[object]) -> Iterator[object]:
    """Yield every type that values of a type are made of and that cannot be hashed."""
    if kind in seen_types:
        return
    seen_types.add(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        if kind.__hash__ is None:
            yield kind
        for found in typing.get_type_hints(kind).values():
            yield from unhashable_parts(found, seen_types)
    elif (origin := typing.get_origin(kind)) is not None:
        views = (collections.abc.Mapping, collections.abc.Sequence)
        if (isinstance(origin, type) and origin.__hash__ is None) or origin in views:
            yield kind
        for found in typing.get_args(kind):
            yield from unhashable_parts(found, seen_types)
    elif isinstance(kind, type) and kind.__hash__ is None:
        yield kind


@pytest.mark.parametrize("kind", [GroupView, KnownPod, Evidence])
def test_every_part_that_rounds_are_compared_by_can_be_hashed(kind: type) -> None:
    """For every protocol and role, also the metadata of Connect workers: otherwise every round of such a group would
    fail."""
    assert list(unhashable_parts(kind, set())) == []


async def passes(world: OperatorWorld, seconds: float) -> None:
    """Let time pass with the rounds that come by themselves, without any change."""
    until_s = world.now_s + seconds
    while world.now_s < until_s:
        result = await world.look()
        world.now_s += min(result.requeue_after_s or POLL_S, until_s - world.now_s)


async def becomes_ready(world: OperatorWorld, uid: str) -> None:
    """Start web-2 anew; its pod appears, and is Ready a while later. Its client joins nothing."""
    for ready_since_s, lasts_s in ((None, 40.0), (world.now_s + 40, 240.0)):
        world.start(2, uid, joins=False, ready_since_s=ready_since_s)
        world.reconciler.memories.mark_changed(KEY)
        await passes(world, lasts_s)


async def test_a_member_that_replaces_another_beside_a_ready_pod_is_reported_after_a_skipped_plan() -> None:
    world = await at_rest()
    world.end(2)
    world.kafka.join(world.id_of(2), "its-own")
    await becomes_ready(world, "u2b")
    world.kafka.join(world.id_of(2), LIVING)
    await world.look()
    assert [e.reason for e in world.status.issues] == ["MemberReplaced"]
