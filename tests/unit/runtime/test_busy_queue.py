"""Turns of keys in a busy process: its rounds last long, which says nothing about the brokers that they wait for."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from staticgroup.runtime.work_queue import Key, Result, WorkQueue

from .test_work_queue import Rounds

pytestmark = pytest.mark.looptime


def computing(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return what lets the loop's clock go on while no task waits, as when this process computes or is stopped."""
    loop, ahead_s = asyncio.get_running_loop(), 0.0
    time_of_loop = loop.time

    def spend(seconds: float) -> None:
        nonlocal ahead_s
        ahead_s += seconds

    monkeypatch.setattr(loop, "time", lambda: time_of_loop() + ahead_s)
    return spend


def computes(
    spend: Callable[[float], None], *, steps: int, step_s: float, pause_s: float
) -> Callable[[Key], Awaitable[Result]]:
    """Return a round that computes for so long in each of its steps, and waits for an answer after each."""

    async def work(_: Key) -> Result:
        for _step in range(steps):
            spend(step_s)
            await asyncio.sleep(pause_s)
        return Result()

    return work


async def test_rounds_that_last_long_because_this_process_is_busy_keep_their_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More of them at once would make each longer still, and everything else that waits for the loop: the Lease, above
    all."""
    spend, rounds = computing(monkeypatch), Rounds()
    rounds.act = computes(spend, steps=20, step_s=0.02, pause_s=0)
    queue = WorkQueue(rounds, concurrency=16, lane_of=lambda key: (key[0], "kafka"))
    for n in range(200):
        queue.add((f"team-{n % 20}", f"orders-{n}"))
    queue.start()
    async with asyncio.timeout(3600):
        while len(queue):  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(1)
    await queue.stop()
    assert rounds.most_at_once == 16


async def test_whatever_waits_for_the_loop_gets_its_turns_however_many_rounds_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A renewal of the Lease waits for the loop eight times (counted with aiohttp, over a connection that is open), and
    has 3.5 s in all."""
    spend, rounds = computing(monkeypatch), Rounds()

    async def renewals_s() -> list[float]:
        lasted_s = []
        for _ in range(20):
            began_s = asyncio.get_running_loop().time()
            for _turn in range(8):
                await asyncio.sleep(0.002)
            lasted_s.append(asyncio.get_running_loop().time() - began_s)
        return lasted_s

    rounds.act = computes(spend, steps=4, step_s=0.02, pause_s=0.005)  # several get their answer together
    queue = WorkQueue(rounds, concurrency=32, lane_of=lambda key: (key[0], "kafka"))
    for n in range(2_000):
        queue.add((f"team-{n % 20}", f"orders-{n}"))
    queue.start()
    await asyncio.sleep(2)
    lasted_s = await renewals_s()
    await queue.stop()
    assert len(rounds.ran) < 2_000, "they ended before"
    assert max(lasted_s) < 1.75, lasted_s  # half of it: two may fail


@pytest.mark.parametrize("stopped_s", [0.0, 60.0])
async def test_rounds_that_wait_for_silent_brokers_give_up_their_places_in_a_busy_or_stopped_process(
    monkeypatch: pytest.MonkeyPatch, stopped_s: float
) -> None:
    spend, rounds = computing(monkeypatch), Rounds()
    answered = computes(spend, steps=20, step_s=0.01, pause_s=0.01)

    async def work(key: Key) -> Result:
        if key[1] == "silent":
            await asyncio.sleep(600)
        return await answered(key)

    rounds.act = work
    queue = WorkQueue(rounds, concurrency=2, lane_of=lambda key: (key[0], "kafka"))
    for name, count in (("silent", 4), ("orders", 10)):
        for n in range(count):
            queue.add((f"team-{name}-{n}", name))
    queue.start()
    await asyncio.sleep(0.5)
    spend(stopped_s)
    await asyncio.sleep(30)
    assert len(rounds.ran) == 14
    await queue.stop()


async def waited_s(spend: Callable[[float], None], seed: int, slices_s: tuple[float, float]) -> float:
    """Return how long a StaticGroup whose broker answers waits for its turn, where two tenants have silent ones and
    pods come all the time."""
    rounds, rng = Rounds(), random.Random(seed)

    async def work(key: Key) -> Result:
        if key[0] == "healthy":
            return Result()
        await asyncio.sleep(60)  # requestTimeoutSeconds may be as long
        return Result(failed=True)

    async def pods_come() -> None:
        while True:
            spend(rng.uniform(*slices_s))
            await asyncio.sleep(0)

    rounds.act = work
    queue = WorkQueue(rounds, concurrency=32, lane_of=lambda key: key)
    for n in range(64):
        queue.add((f"tarpit-{n % 2}", f"orders-{n}"))
    queue.start()
    busy = asyncio.ensure_future(pods_come())
    await asyncio.sleep(2)
    began_s = asyncio.get_running_loop().time()
    queue.add(("healthy", "orders"))
    while not any(key[0] == "healthy" for key, _ in rounds.ran):  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.1)
    busy.cancel()
    await queue.stop()
    return asyncio.get_running_loop().time() - began_s


@pytest.mark.parametrize("slices_s", [(0.02, 0.04), (0.05, 0.15), (0.2, 0.4), (0.5, 1.5)])
async def test_silent_brokers_of_two_tenants_keep_no_other_waiting_for_long_in_a_busy_process(
    monkeypatch: pytest.MonkeyPatch, slices_s: tuple[float, float]
) -> None:
    spend = computing(monkeypatch)
    waits_s = [await waited_s(spend, seed, slices_s) for seed in range(5)]
    assert max(waits_s) < 10, waits_s


async def test_a_lane_that_fell_silent_is_doubted_however_busy_the_process_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or it would take the places of one that answers each time again."""
    spend, rounds, silent = computing(monkeypatch), Rounds(), set[str]()

    async def work(key: Key) -> Result:
        if key[0] in silent:
            await asyncio.sleep(60)
        return Result(failed=key[0] in silent)

    async def pods_come() -> None:
        while True:
            spend(0.3)
            await asyncio.sleep(0)

    rounds.act = work
    queue = WorkQueue(rounds, concurrency=32, lane_of=lambda key: (key[0], "kafka"))
    queue.start()
    queue.add(("tarpit", "orders"))
    await asyncio.sleep(1)
    silent.add("tarpit")
    for n in range(8):
        queue.add(("tarpit", f"orders-{n}"))
    busy = asyncio.ensure_future(pods_come())
    await asyncio.sleep(65)
    busy.cancel()
    assert len(rounds.ran) == 1 + 8 + 1, "all eight are tried again, and have one place until their broker has answered"
    await queue.stop()
