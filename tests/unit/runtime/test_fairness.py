"""No tenant waits for the broker of another one: starts of rounds in virtual time over the real queue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from staticgroup.runtime.assembly import CONNECTION_CONCURRENCY
from staticgroup.runtime.work_queue import LATE_AFTER_S, Key, Result, WorkQueue
from support.long_drills import by_length
from support.tar_pits import SCENES, Scene, p99, play

pytestmark = pytest.mark.looptime
SILENCE_S = 60.0
FAILED = Result(failed=True)


class Brokers:
    """Work whose duration depends on the connection; StaticGroup `<connection>.<n>` uses that connection."""

    def __init__(self) -> None:
        self.silent: set[Key] = set()
        self.answer_s: dict[Key, float] = {}
        self.begun: list[tuple[Key, float]] = []
        self.under_way: list[Key] = []
        self.most: dict[Key, int] = {}

    def connection_of(self, key: Key) -> Key:
        return key[0], key[1].partition(".")[0]

    async def __call__(self, key: Key) -> Result:
        connection = self.connection_of(key)
        self.begun.append((key, asyncio.get_running_loop().time()))
        self.under_way.append(key)
        now = [self.connection_of(k) for k in self.under_way].count(connection)
        self.most[connection] = max(self.most.get(connection, 0), now)
        try:
            is_silent = connection in self.silent
            await asyncio.sleep(SILENCE_S if is_silent else self.answer_s.get(connection, 0.1))
            return FAILED if is_silent else Result()
        finally:
            self.under_way.remove(key)

    def waited_s(self, key: Key, since_s: float) -> float:
        """Return how long the first round of a key that began after an instant was waited for."""
        return min((at for k, at in self.begun if k == key and at >= since_s), default=float("inf")) - since_s


@asynccontextmanager
async def running(brokers: Brokers, concurrency: int = 32, deadline_s: float = 90.0) -> AsyncIterator[WorkQueue]:
    queue = WorkQueue(brokers, concurrency=concurrency, lane_of=brokers.connection_of, deadline_s=deadline_s)
    queue.start()
    try:
        yield queue
    finally:
        await queue.stop()


def groups(namespace: str, connection: str, count: int) -> list[Key]:
    return [(namespace, f"{connection}.{n}") for n in range(count)]


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def waits_of(queue: WorkQueue, brokers: Brokers, keys: list[Key], every_s: float = 1.0) -> list[float]:
    """Ask for one round after the other and return how long each was waited for."""
    asked: list[tuple[Key, float]] = []
    for key in keys:
        asked.append((key, now_s()))
        queue.add(key)
        await asyncio.sleep(every_s)
    return [brokers.waited_s(key, at) for key, at in asked]


HOLES = [("evil", f"hole{n}") for n in range(200)]


@pytest.mark.parametrize(
    ("silent", "each", "before_s", "asks"),
    [
        ([("evil", "hole")], 200, 5, "good"),
        (HOLES, 5, 0, "good"),
        ([("shop", f"hole{n}") for n in range(100)], 1, 600, "shop"),
    ],
    ids=["many groups of one connection", "many connections of one tenant", "dead ones beside a live one"],
)
async def test_silent_brokers_delay_no_round_of_others(
    silent: list[Key], each: int, before_s: float, asks: str
) -> None:
    brokers = Brokers()
    brokers.silent = set(silent)
    async with running(brokers) as queue:
        for namespace, name in sorted(silent):
            for key in groups(namespace, name, each):
                queue.add(key)
        await asyncio.sleep(before_s)
        waits = await waits_of(queue, brokers, groups(asks, "kafka", 60), every_s=15)
    assert max(waits) < 0.01


async def test_more_silent_tenants_than_places_do_not_stop_the_others() -> None:
    brokers = Brokers()
    brokers.silent = {(f"evil{n}", "hole") for n in range(100)}
    async with running(brokers) as queue:
        for namespace, name in sorted(brokers.silent):
            for key in groups(namespace, name, 5):
                queue.add(key)
        waits = await waits_of(queue, brokers, groups("good", "kafka", 60), every_s=15)
    assert max(waits) < 5.0
    assert sorted(waits)[len(waits) // 2] < 0.01


async def test_connection_that_has_not_answered_yet_gets_one_round_at_a_time() -> None:
    brokers = Brokers()
    brokers.silent = {("shop", "hole")}
    async with running(brokers) as queue:
        for key in groups("shop", "hole", 50):
            queue.add(key)
        await asyncio.sleep(300)
    assert brokers.most["shop", "hole"] == 1


async def test_connection_that_answers_gets_a_quarter_of_the_places_and_no_more() -> None:
    brokers = Brokers()
    async with running(brokers) as queue:
        for key in groups("shop", "kafka", 100):
            queue.add(key)
        await asyncio.sleep(30)
    assert len(brokers.begun) == 100
    assert brokers.most["shop", "kafka"] == 8


async def test_connection_that_answers_again_gets_its_places_back_at_once() -> None:
    brokers = Brokers()
    brokers.silent = {("shop", "kafka")}
    async with running(brokers) as queue:
        for key in groups("shop", "kafka", 40):
            queue.add(key)
        await asyncio.sleep(100)
        brokers.silent.clear()
        await asyncio.sleep(30)
        assert brokers.most["shop", "kafka"] == 8
        assert len({key for key, _ in brokers.begun}) == 40


async def test_quick_failure_of_one_group_does_not_narrow_its_connection() -> None:
    """A missing right fails in milliseconds; only silence holds places."""
    brokers = Brokers()

    async def work(key: Key) -> Result:
        await brokers(key)
        return FAILED if key[1] == "kafka.0" else Result()

    queue = WorkQueue(work, concurrency=32, lane_of=brokers.connection_of)
    queue.start()
    for key in groups("shop", "kafka", 2):
        queue.add(key)
    await asyncio.sleep(200)
    queue.add(("shop", "kafka.0"))
    await asyncio.sleep(0.5)
    brokers.answer_s["shop", "kafka"] = 0.5
    brokers.most.clear()
    for key in groups("shop", "kafka", 9)[1:]:
        queue.add(key)
    await asyncio.sleep(0.2)
    await queue.stop()
    assert brokers.most["shop", "kafka"] == 8


async def test_one_tenant_gets_half_of_the_places_that_move() -> None:
    brokers = Brokers()
    async with running(brokers) as queue:
        for n in range(100):
            queue.add(("shop", f"kafka{n}.0"))
        await asyncio.sleep(0.05)
        assert len(brokers.under_way) == 16
        await asyncio.sleep(10)
    assert len(brokers.begun) == 100


async def test_tenants_take_turns_whichever_asked_first() -> None:
    brokers = Brokers()
    async with running(brokers, concurrency=2) as queue:
        for n in range(50):
            queue.add(("many", f"kafka{n}.0"))
        for name in ("one", "two", "three"):
            queue.add((name, "kafka.0"))
        await asyncio.sleep(60)
    order = [namespace for (namespace, _), _ in brokers.begun]
    assert max(order.index(name) for name in ("one", "two", "three")) < 8
    assert len(order) == 53


async def test_connections_of_one_tenant_take_turns() -> None:
    brokers = Brokers()
    async with running(brokers, concurrency=2) as queue:
        for key in groups("shop", "many", 50):
            queue.add(key)
        queue.add(("shop", "one.0"))
        await asyncio.sleep(60)
    order = [name for (_, name), _ in brokers.begun]
    assert order.index("one.0") < 4


async def test_rounds_that_last_long_are_bounded_too() -> None:
    brokers = Brokers()
    brokers.silent = {(f"evil{n}", "hole") for n in range(200)}
    async with running(brokers, concurrency=4) as queue:
        for namespace, name in sorted(brokers.silent):
            queue.add((namespace, f"{name}.0"))
        await asyncio.sleep(55)
        assert len(brokers.under_way) == 4 + 16 * 4


async def test_round_beyond_its_deadline_is_given_up_and_tried_again_with_back_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun: list[float] = []
    cut: list[float] = []
    given_up: list[Key] = []

    async def work(key: Key) -> Result:
        begun.append(now_s())
        try:
            await asyncio.sleep(10_000)
        except asyncio.CancelledError:
            cut.append(now_s())
            raise
        return Result()

    queue = WorkQueue(work, concurrency=4, deadline_s=90.0, on_given_up=given_up.append)
    queue.start()
    started_s = now_s()
    queue.add(("shop", "a"))
    with caplog.at_level(logging.WARNING):
        await asyncio.sleep(90 + 1 + 90 + 2 + 0.5)
    await queue.stop()
    assert [round(at - started_s) for at in begun] == [0, 91, 183]
    assert [round(at - started_s) for at in cut[:2]] == [90, 181]
    assert given_up == [("shop", "a")] * 2
    assert [r.__dict__["key"] for r in caplog.records] == ["shop/a"] * 2


async def test_timeout_inside_a_round_is_a_fault_of_the_round_and_not_its_deadline(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given_up: list[Key] = []

    async def work(key: Key) -> Result:
        raise TimeoutError

    queue = WorkQueue(work, deadline_s=90.0, on_given_up=given_up.append)
    queue.start()
    queue.add(("shop", "a"))
    with caplog.at_level(logging.ERROR):
        await asyncio.sleep(0.5)
    await queue.stop()
    assert given_up == []
    assert [r.levelname for r in caplog.records] == ["ERROR"]


async def test_add_while_a_round_is_given_up_waits_for_the_back_off() -> None:
    begun: list[float] = []

    async def work(key: Key) -> Result:
        begun.append(now_s())
        await asyncio.sleep(10_000)
        return Result()

    queue = WorkQueue(work, deadline_s=10.0)
    queue.start()
    queue.add(("shop", "a"))
    await asyncio.sleep(5)
    queue.add(("shop", "a"))
    await asyncio.sleep(7)
    await queue.stop()
    assert round(begun[1] - begun[0]) == 11


async def test_forgotten_key_that_waits_for_its_turn_does_not_get_one() -> None:
    brokers = Brokers()
    brokers.silent = {("shop", "hole")}
    async with running(brokers) as queue:
        for key in groups("shop", "hole", 2):
            queue.add(key)
        await asyncio.sleep(10)
        queue.forget(("shop", "hole.1"))
        assert len(queue) == 1
        await asyncio.sleep(200)
    assert {key for key, _ in brokers.begun} == {("shop", "hole.0")}


async def test_probes_of_ten_silent_connections_do_not_delay_the_others_of_their_namespace() -> None:
    brokers = Brokers()
    brokers.silent = {("shop", f"hole{n}") for n in range(10)}
    brokers.connection_of = lambda key: key  # type: ignore[method-assign]
    async with running(brokers, CONNECTION_CONCURRENCY) as queue:
        for key in sorted(brokers.silent):
            queue.add(key)
        waits = await waits_of(queue, brokers, [("shop", f"kafka{n}") for n in range(60)], every_s=15)
    assert max(waits) <= LATE_AFTER_S
    assert sorted(waits)[-2] < 0.01


def long_enough(scene: Scene) -> Scene:
    """Return a scene that lasts until 3,000 events have come, and longer than a tar pit's timeout."""
    enough_s = scene.events_from_s + max(3_400 / scene.events_per_s, 1.5 * scene.timeout_s)
    return replace(scene, lasts_s=by_length(short=enough_s, long=scene.lasts_s))


@pytest.mark.looptime(enabled=False)
@pytest.mark.parametrize("name", SCENES)
def test_tar_pits_leave_the_others_waits_within_a_tenth_of_what_they_were(name: str) -> None:
    scene = long_enough(SCENES[name])
    without, beside = (play(scene, are_pits_silent=silent) for silent in (False, True))
    assert len(beside.ended_s) == len(without.ended_s) > 3_000
    assert (without.never, beside.never) == (0, 0)
    assert p99(beside.ended_s) <= 1.1 * p99(without.ended_s)
    assert p99(beside.begun_s) <= 1.1 * p99(without.begun_s) + 0.02
    assert max(beside.ended_s) <= 1.1 * max(without.ended_s) + LATE_AFTER_S


@pytest.mark.looptime(enabled=False)
def test_scene_of_tar_pits_plays_the_same_each_time() -> None:
    scene = replace(SCENES["10 of 200, each a tenant"], lasts_s=60.0)
    assert play(scene, are_pits_silent=True) == play(scene, are_pits_silent=True)
