"""The work queue in virtual time: what runs when, and what never runs twice at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from staticgroup.runtime.work_queue import BACKOFF_MAX_S, SPACING_S, Key, Result, WorkQueue

pytestmark = pytest.mark.looptime
A, B, C = ("shop", "a"), ("shop", "b"), ("shop", "c")


class Rounds:
    """Work that notes when it ran and does what the test says."""

    def __init__(self) -> None:
        self.ran: list[tuple[Key, float]] = []
        self.at_once: dict[Key, int] = {}
        self.most_at_once = 0
        self.act: Callable[[Key], Awaitable[Result]] | None = None

    async def __call__(self, key: Key) -> Result:
        self.ran.append((key, asyncio.get_running_loop().time()))
        self.at_once[key] = self.at_once.get(key, 0) + 1
        self.most_at_once = max(self.most_at_once, sum(self.at_once.values()))
        assert self.at_once[key] == 1, "a key ran twice at once"
        try:
            return await self.act(key) if self.act else Result()
        finally:
            self.at_once[key] -= 1

    def times(self, key: Key = A) -> list[float]:
        """Seconds of each round, counted from the first."""
        begun = [at for k, at in self.ran if k == key]
        return [round(at - begun[0], 3) for at in begun]


@asynccontextmanager
async def running(rounds: Rounds, concurrency: int = 4) -> AsyncIterator[WorkQueue]:
    queue = WorkQueue(rounds, concurrency=concurrency)
    queue.start()
    try:
        yield queue
    finally:
        await queue.stop()


def lasting(seconds: float, *outcomes: Result) -> Callable[[Key], Awaitable[Result]]:
    """Return rounds of that length; each ends by the next outcome, and the last one is for all that follow."""
    left = list(outcomes or (OK,))

    async def act(_: Key) -> Result:
        await asyncio.sleep(seconds)
        return left.pop(0) if len(left) > 1 else left[0]

    return act


async def steps(queue: WorkQueue, *what: str | float) -> None:
    """Do with key A what is said, and let the seconds pass that stand between."""
    for step in what:
        match step:
            case "add":
                queue.add(A)
            case "soon":
                queue.add_soon(A)
            case "forget":
                queue.forget(A)
            case str():
                queue.add_after(A, float(step.removeprefix("after ")))
            case _:
                await asyncio.sleep(step)


OK, FAILED = Result(), Result(failed=True)
LATER = Result(requeue_after_s=4)
MUCH_LATER = Result(requeue_after_s=30)
STORIES: dict[str, tuple[Callable[[Key], Awaitable[Result]], tuple[str | float, ...], list[float]]] = {
    "adds before a worker is free make one round": (lasting(0), ("add",) * 5 + (1,), [0]),
    "adds while a key runs make exactly one more round after it": (
        lasting(10), ("add", 1, *("add",) * 5, 60), [0, 10],
    ),
    "success ends the back-off": (
        lasting(0, FAILED, FAILED, OK, FAILED, OK), ("add", 10, "add", 10), [0, 1, 3, 10, 11],
    ),
    "add cuts a back-off short": (lasting(0, FAILED), ("add", 3.5, "add", 0.1), [0, 1, 3, 3.5]),
    "a key whose events never pause backs off all the same": (
        lasting(0.5, FAILED), ("add", 0.2, "add", 1.4), [0, 1.5],
    ),
    "the earlier of two times counts": (
        lasting(0), ("add", 1, "after 5", "after 2", "after 50", 100), [0, 3],
    ),
    "a later time does not delay a round that is due": (lasting(0), ("add", "after 50", 100), [0]),
    "a round that asks for it is repeated": (lasting(1, LATER), ("add", 12), [0, 5, 10]),
    "a forgotten key is not run again": (lasting(1, LATER), ("add", 2, "forget", 60), [0]),
    "failure of a round that was forgotten meanwhile is not tried again": (
        lasting(5, FAILED), ("add", 1, "forget", 60), [0],
    ),
    "forgotten and added again runs again, never beside its old round": (
        lasting(5), ("add", 1, "forget", "add", 60), [0, 5],
    ),
    "forgotten and added again has no back-off of its former life": (
        lasting(5, FAILED, OK), ("add", 1, "forget", "add", 60), [0, 5],
    ),
    # a pod that ends terminates, its containers do, and its object goes
    "the first news are seen at once and those that follow together": (
        lasting(0, MUCH_LATER), ("soon", 0.1) * 4 + (10,), [0, SPACING_S],
    ),
    "news during a short round wait for the spacing": (lasting(0.2), ("soon", 0.1, "soon", 10), [0, SPACING_S]),
    "news during a long round are seen after it": (lasting(2), ("soon", 0.1, "soon", 10), [0, 2]),
    "what is asked for at once waits for no spacing": (
        lasting(0, MUCH_LATER), ("soon", 0.1, "soon", "add", 10), [0, 0.1],
    ),
    "nor does it during a round": (lasting(0.1), ("add", 0.05, "soon", "add", 10), [0, 0.1]),
    "a round that comes earlier of itself is not put off": (
        lasting(0.1, Result(requeue_after_s=0.05)), ("add", 0.05, "soon", 0.2), [0, 0.15],
    ),
    "news cut a back-off short": (lasting(0, FAILED), ("add", 20, "soon", 0.1), [0, 1, 3, 7, 15, 20]),
}  # fmt: skip


@pytest.mark.parametrize("name", STORIES)
async def test_rounds_of_a_key_begin_when_they_should(name: str) -> None:
    rounds = Rounds()
    rounds.act, what, expected = STORIES[name]
    async with running(rounds) as queue:
        await steps(queue, *what)
        assert "forget" not in what or len(queue) == 0
    assert rounds.times() == expected


async def test_crash_of_a_round_counts_as_failure_and_is_logged_once_with_its_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rounds = Rounds()

    async def act(key: Key) -> Result:
        if len(rounds.ran) == 1:
            raise RuntimeError("boom")
        return OK

    rounds.act = act
    with caplog.at_level(logging.ERROR):
        async with running(rounds) as queue:
            await steps(queue, "add", 30)
    assert rounds.times() == [0, 1]
    (record,) = caplog.records
    assert record.__dict__["key"] == "shop/a"


async def test_failures_back_off_from_one_second_doubling_to_half_a_minute() -> None:
    rounds = Rounds()
    rounds.act = lasting(0, FAILED)
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(2_000)
    times = rounds.times()
    gaps = [round(later - earlier) for earlier, later in pairwise(times)]
    assert gaps[:7] == [1, 2, 4, 8, 16, 30, 30]
    assert max(gaps) == BACKOFF_MAX_S


async def test_back_off_belongs_to_one_key() -> None:
    rounds = Rounds()

    async def act(key: Key) -> Result:
        return Result(failed=key == A, requeue_after_s=None if key == A else 5)

    rounds.act = act
    async with running(rounds) as queue:
        queue.add(A)
        queue.add(B)
        await asyncio.sleep(21)
    assert rounds.times(B) == [0, 5, 10, 15, 20]
    assert rounds.times(A) == [0, 1, 3, 7, 15]


async def test_events_during_an_outage_do_not_make_the_back_off_longer_than_the_outage() -> None:
    """The end of one pod is five events, and each round that they cause fails at once while the brokers are away for
    some seconds."""
    rounds = Rounds()
    began_s = asyncio.get_running_loop().time()

    async def act(_: Key) -> Result:
        return Result(failed=asyncio.get_running_loop().time() - began_s < 5)

    rounds.act = act
    async with running(rounds) as queue:
        for _ in range(8):
            queue.add(A)
            await asyncio.sleep(0.5)
        await asyncio.sleep(120)
    assert rounds.times()[-1] < 10


async def test_concurrency_is_bounded_and_everyone_gets_a_turn() -> None:
    rounds = Rounds()
    rounds.act = lasting(0.5)
    keys = [(f"shop{n}", "a") for n in range(10)]
    async with running(rounds, concurrency=3) as queue:
        for key in keys:
            queue.add(key)
        assert len(queue) == 10
        await asyncio.sleep(1.75)
        assert rounds.most_at_once == 3
        await asyncio.sleep(0.5)
        assert len(queue) == 0
    assert sorted(k for k, _ in rounds.ran) == sorted(keys)


async def test_stuck_key_delays_no_other() -> None:
    """L5: one dead Kafka cluster must not delay the others."""
    rounds = Rounds()

    async def act(key: Key) -> Result:
        await asyncio.sleep(3_600 if key == A else 0)
        return Result()

    rounds.act = act
    async with running(rounds, concurrency=2) as queue:
        queue.add(A)
        queue.add(B)
        queue.add(C)
        await asyncio.sleep(0.1)
    assert {k for k, _ in rounds.ran} == {A, B, C}


async def test_forgetting_a_running_key_lets_its_round_end() -> None:
    rounds = Rounds()
    ended: list[Key] = []

    async def act(key: Key) -> Result:
        await asyncio.sleep(5)
        ended.append(key)
        return Result()

    rounds.act = act
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(1)
        queue.add(A)
        queue.forget(A)
        await asyncio.sleep(60)
    assert ended == [A]


async def test_stop_cancels_running_rounds_and_waits_for_them() -> None:
    rounds = Rounds()
    cut: list[Key] = []

    async def act(key: Key) -> Result:
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            cut.append(key)
            raise
        return Result()

    rounds.act = act
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(1)
    assert cut == [A]
