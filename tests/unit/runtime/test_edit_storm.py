"""Edits that come faster than a status can be written: each write meets a newer version of the object, which is no
failure."""

from __future__ import annotations

import asyncio

import pytest

from staticgroup.api import names
from staticgroup.kube.problem import problem_of
from staticgroup.runtime.memory.memory import RACE_PAUSES_S, RACE_REQUEUE_S
from staticgroup.runtime.memory.pace import EDITS_PACE_S
from staticgroup.runtime.work_queue import WorkQueue

from .operator_world import KEY, OperatorWorld, kafka_connection, static_group

pytestmark = pytest.mark.looptime
ROUNDS = 10
TRIES = len(RACE_PAUSES_S)


class World(OperatorWorld):
    """One whose clocks go with the loop's."""

    @property
    def now_s(self) -> float:
        """Seconds since the Unix epoch."""
        return self._ahead_s + asyncio.get_running_loop().time()

    @now_s.setter
    def now_s(self, value: float) -> None:
        self._ahead_s = value - asyncio.get_running_loop().time()


async def test_edits_that_follow_each_other_are_reported_together() -> None:
    """A write costs the API server as much as the edit, so one for each of them leaves it no time for other clients."""
    world = await World().started()
    await asyncio.sleep(EDITS_PACE_S)
    queue, writes = WorkQueue(world.reconciler.reconcile), len(world.kube.status_writes)
    queue.start()
    for generation in range(2, 102):
        world.declare(static_group(generation=generation))
        queue.add(KEY)
        await asyncio.sleep(0.05)
        if generation == 2:
            assert world.status.observed_generation == 2
        assert world.status.observed_generation > generation - 1 - EDITS_PACE_S / 0.05
    assert len(world.kube.status_writes) - writes <= 1 + 100 * 0.05 / EDITS_PACE_S
    await asyncio.sleep(EDITS_PACE_S)
    await queue.stop()
    assert world.status.observed_generation == 101


@pytest.mark.parametrize(
    "what", ["the Lease is lost", "a write fails once", "the clock is set back", "the StaticGroup is made again"]
)
async def test_edit_that_waits_meets_what_may_happen_meanwhile(what: str) -> None:
    """A waiting message is written by the next process that may write, within the same time, and never twice."""
    world = await World().started()
    await asyncio.sleep(EDITS_PACE_S)
    queue = WorkQueue(world.reconciler.reconcile)
    queue.start()
    for generation in (2, 3):
        world.declare(static_group(generation=generation))
        queue.add(KEY)
        await asyncio.sleep(0.05)
    assert world.status.observed_generation == 2
    writes, uid = len(world.kube.status_writes), "sg-1"
    match what:
        case "the Lease is lost":
            world.is_holder = False
        case "a write fails once":
            world.kube.problems["apply_status"] = problem_of(500, verb="patch", resource="staticgroups")
            asyncio.get_running_loop().call_later(EDITS_PACE_S, world.kube.problems.clear)
        case "the clock is set back":
            world.set_clock(-3600)
        case "the StaticGroup is made again":
            uid = "sg-2"
            world.declare(static_group(uid=uid, generation=4))
    queue.add(KEY)
    await asyncio.sleep(EDITS_PACE_S + 5)
    await queue.stop()
    if what == "the Lease is lost":
        assert len(world.kube.status_writes) == writes
    else:
        assert len(world.kube.status_writes) > writes
        assert world.status.observed_generation == (4 if uid == "sg-2" else 3)


async def test_edit_that_changes_more_than_the_generation_is_written_at_once() -> None:
    world = await World().started()
    await asyncio.sleep(EDITS_PACE_S)
    for generation, seconds in ((2, 400), (3, 500)):
        world.declare(static_group(generation=generation, sessionTimeout={"seconds": seconds}))
        await world.reconciler.reconcile(KEY)
        assert world.status.observed_generation == generation


async def test_status_says_the_last_edit_a_moment_after_the_storm() -> None:
    """As failures they would be tried again after 1, 2, 4 … 60 s, also when the storm is over."""
    world = await World().started()
    left = ROUNDS * TRIES

    def edit() -> None:
        nonlocal left
        if left > 0:
            left -= 1
            world.declare(static_group(generation=2 + ROUNDS * TRIES - left))
            world.kube.before["apply_status"] = edit

    world.kube.before["apply_status"] = edit
    queue = WorkQueue(world.reconciler.reconcile)
    queue.start()
    world.declare(static_group(generation=2))
    queue.add(KEY)
    await asyncio.sleep((ROUNDS + 1) * (sum(RACE_PAUSES_S) + RACE_REQUEUE_S) + EDITS_PACE_S)
    await queue.stop()
    assert left == 0
    assert world.status.observed_generation == 2 + ROUNDS * TRIES


async def test_edits_that_never_end_do_not_make_a_write_at_every_conflict() -> None:
    """The API server has as little time as the edits take: it gets a pause after each race that was lost."""
    world = await World().started()
    queue = WorkQueue(world.reconciler.reconcile)
    loop, generation = asyncio.get_running_loop(), 2
    tried_s: list[float] = []

    def edit() -> None:
        nonlocal generation
        tried_s.append(loop.time())
        if len(tried_s) < 1_000:
            generation += 1
            world.declare(static_group(generation=generation))
            queue.add(KEY)
            world.kube.before["apply_status"] = edit

    world.kube.before["apply_status"] = edit
    queue.start()
    world.declare(static_group(generation=2))
    queue.add(KEY)
    await asyncio.sleep(10)
    await queue.stop()
    assert TRIES < len(tried_s) <= (10 / sum(RACE_PAUSES_S) + 1) * TRIES


@pytest.mark.parametrize(
    ("what", "written"),
    [("nothing", 1), ("the Lease is lost", 0), ("the StaticGroup is deleted", 0), ("the next read fails", 0)],
)
async def test_status_is_written_after_the_pause_unless_something_stands_against_it(what: str, written: int) -> None:
    world = await World().started()
    tries = 0

    def meanwhile() -> None:
        match what:
            case "the Lease is lost":
                world.is_holder = False
            case "the StaticGroup is deleted":
                world.kube.objects.pop(("staticgroups", *KEY))
            case "the next read fails":
                world.kube.problems["read_object"] = problem_of(
                    503, verb="get", resource="staticgroups", namespace=KEY[0]
                )

    def edit() -> None:
        nonlocal tries
        tries += 1
        world.declare(static_group(generation=3))
        asyncio.get_running_loop().call_later(RACE_PAUSES_S[0] / 2, meanwhile)

    world.declare(static_group(generation=2))
    writes = len(world.kube.status_writes)
    world.kube.before["apply_status"] = edit
    await world.round()
    assert tries == 1
    assert len(world.kube.status_writes) == writes + written


async def test_writes_of_the_status_itself_are_no_such_storm() -> None:
    """Two writers of one status must not set each other's pace."""
    world = await World().started()
    world.declare(static_group(generation=2))

    def overwrite() -> None:
        body = world.kube.objects["staticgroups", *KEY]
        world.kube.put_object("staticgroups", body | {"status": body["status"] | {"groupState": "Empty"}})

    world.kube.before["apply_status"] = overwrite
    assert (await world.round()).failed


# a renewal of the Lease that comes late: the holder may not write for a moment, no other replica had the Lease, and
# nothing is lost; `ActiveLease.run` reports only changes that it sees between two of its attempts, so no new term
# begins, and whatever was due meanwhile has to come again by itself


CONNECTION = ("shop", "kafka")
LATE_S, PATIENCE_S = 1.5, 30.0


async def test_round_that_falls_into_the_moment_is_held_afterwards() -> None:
    """An edit is seen then, and no other event follows."""
    world = await OperatorWorld().started()
    queue = WorkQueue(world.reconciler.reconcile)
    queue.start()
    world.declare(static_group(generation=2))
    world.is_holder = False
    queue.add(KEY)
    await asyncio.sleep(LATE_S)
    world.is_holder = True
    await asyncio.sleep(PATIENCE_S)
    await queue.stop()
    assert world.status.observed_generation == 2


@pytest.mark.parametrize("is_late_at_once", [True, False], ids=["from the start", "while the brokers are asked"])
async def test_connection_gets_its_status_afterwards(is_late_at_once: bool) -> None:
    world = OperatorWorld()
    world.kube.put_object(names.KAFKA_CONNECTION_PLURAL, kafka_connection())
    reporter = world.reporter()
    world.is_holder = not is_late_at_once
    probe = world.kafka.probe

    async def late(*arguments: object) -> object:
        world.is_holder = False
        return await probe(*arguments)  # type: ignore[arg-type]

    if not is_late_at_once:
        world.kafka.probe = late  # type: ignore[assignment,method-assign]
    queue = WorkQueue(reporter.reconcile)
    queue.start()
    queue.add(CONNECTION)
    await asyncio.sleep(0.5)
    world.is_holder, world.kafka.probe = True, probe  # type: ignore[method-assign]
    await asyncio.sleep(PATIENCE_S)
    await queue.stop()
    assert world.kube.objects[names.KAFKA_CONNECTION_PLURAL, *CONNECTION]["status"]["observedGeneration"] == 1
