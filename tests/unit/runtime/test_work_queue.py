"""The work queue in virtual time: what runs when, and what never runs twice at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from staticgroup.runtime.work_queue import BACKOFF_MAX_S, Key, Result, WorkQueue

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


def lasting(seconds: float, outcome: Result = Result()) -> Callable[[Key], Awaitable[Result]]:  # noqa: B008 - frozen
    async def act(_: Key) -> Result:
        await asyncio.sleep(seconds)
        return outcome

    return act


async def failing(_: Key) -> Result:
    return Result(failed=True)


async def test_adds_before_a_worker_is_free_make_one_round() -> None:
    rounds = Rounds()
    async with running(rounds) as queue:
        for _ in range(5):
            queue.add(A)
        await asyncio.sleep(1)
    assert rounds.times() == [0]


async def test_adds_while_a_key_runs_make_exactly_one_more_round_after_it() -> None:
    rounds = Rounds()
    rounds.act = lasting(10)
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(1)
        for _ in range(5):
            queue.add(A)
        await asyncio.sleep(60)
    assert rounds.times() == [0, 10]


async def test_failures_back_off_from_one_second_doubling_to_one_minute() -> None:
    rounds = Rounds()
    rounds.act = failing
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(2_000)
    times = rounds.times()
    gaps = [round(later - earlier) for earlier, later in pairwise(times)]
    assert gaps[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert max(gaps) == BACKOFF_MAX_S


async def test_success_ends_the_back_off() -> None:
    rounds = Rounds()
    outcomes = iter([Result(failed=True), Result(failed=True), Result(), Result(failed=True), Result()])

    async def act(_: Key) -> Result:
        return next(outcomes)

    rounds.act = act
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(10)
        queue.add(A)
        await asyncio.sleep(10)
    assert rounds.times() == [0, 1, 3, 10, 11]


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


async def test_add_cuts_a_back_off_short() -> None:
    rounds = Rounds()
    rounds.act = failing
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(3.5)
        queue.add(A)
        await asyncio.sleep(0.1)
    assert rounds.times() == [0, 1, 3, 3.5]


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


async def test_failure_while_dirty_still_backs_off() -> None:
    """A key whose events never pause must not make a broken cluster spin."""
    rounds = Rounds()
    rounds.act = lasting(0.5, Result(failed=True))
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(0.2)
        queue.add(A)
        await asyncio.sleep(1.4)
    assert rounds.times() == [0, 1.5]


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


async def test_add_after_keeps_the_earlier_of_two_times() -> None:
    rounds = Rounds()
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(1)
        queue.add_after(A, 5)
        queue.add_after(A, 2)
        queue.add_after(A, 50)
        await asyncio.sleep(100)
    assert rounds.times() == [0, 3]


async def test_add_after_does_not_delay_a_round_that_is_due() -> None:
    rounds = Rounds()
    async with running(rounds) as queue:
        queue.add(A)
        queue.add_after(A, 50)
        await asyncio.sleep(100)
    assert rounds.times() == [0]


async def test_round_that_asks_for_it_is_repeated() -> None:
    rounds = Rounds()
    rounds.act = lasting(1, Result(requeue_after_s=4))
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(12)
    assert rounds.times() == [0, 5, 10]


async def test_forgotten_key_is_not_run_again() -> None:
    rounds = Rounds()
    rounds.act = lasting(1, Result(requeue_after_s=4))
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(2)
        queue.forget(A)
        await asyncio.sleep(60)
        assert len(queue) == 0
    assert rounds.times() == [0]


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


async def test_failure_of_a_round_that_was_forgotten_meanwhile_is_not_tried_again() -> None:
    rounds = Rounds()

    async def act(key: Key) -> Result:
        await asyncio.sleep(5)
        return Result(failed=True)

    rounds.act = act
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(1)
        queue.forget(A)
        await asyncio.sleep(60)
        assert len(queue) == 0
    assert rounds.times() == [0]


async def test_forgotten_and_added_again_starts_without_the_back_off_of_its_former_life() -> None:
    rounds = Rounds()

    async def act(key: Key) -> Result:
        await asyncio.sleep(5)
        return Result(failed=len(rounds.ran) == 1)

    rounds.act = act
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(1)
        queue.forget(A)
        queue.add(A)
        await asyncio.sleep(60)
    assert rounds.times() == [0, 5]


async def test_forgotten_and_added_again_runs_again_but_never_beside_its_old_round() -> None:
    rounds = Rounds()
    rounds.act = lasting(5)
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(1)
        queue.forget(A)
        queue.add(A)
        await asyncio.sleep(60)
    assert rounds.times() == [0, 5]


async def test_crash_of_a_round_counts_as_failure_and_is_logged_once_with_its_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rounds = Rounds()

    async def act(key: Key) -> Result:
        if len(rounds.ran) == 1:
            raise RuntimeError("boom")
        return Result()

    rounds.act = act
    with caplog.at_level(logging.ERROR):
        async with running(rounds) as queue:
            queue.add(A)
            await asyncio.sleep(30)
    assert rounds.times() == [0, 1]
    (record,) = caplog.records
    assert record.__dict__["key"] == "shop/a"


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
