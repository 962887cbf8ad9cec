"""One round serves changes that follow each other closely, and a round that was asked for does not wait."""

from __future__ import annotations

import asyncio

import pytest

from staticgroup.runtime.work_queue import SPACING_S, Result

from .test_work_queue import A, Rounds, failing, lasting, running

pytestmark = pytest.mark.looptime


async def test_the_first_news_are_seen_at_once_and_those_that_follow_together() -> None:
    """As of a pod that ends: it terminates, its containers do, and its object goes."""
    rounds = Rounds()
    rounds.act = lasting(0, Result(requeue_after_s=30))
    async with running(rounds) as queue:
        for _ in range(4):
            queue.add_soon(A)
            await asyncio.sleep(0.1)
        await asyncio.sleep(10)
    assert rounds.times() == [0, SPACING_S]


async def test_news_during_a_round_are_seen_after_it_and_after_the_spacing() -> None:
    rounds = Rounds()
    for lasts_s, next_s in ((0.2, SPACING_S), (2.0, 2.0)):
        rounds.ran.clear()
        rounds.act = lasting(lasts_s)
        async with running(rounds) as queue:
            queue.add_soon(A)
            await asyncio.sleep(0.1)
            queue.add_soon(A)
            await asyncio.sleep(10)
        assert rounds.times() == [0, next_s]


async def test_what_is_asked_for_at_once_waits_for_no_spacing() -> None:
    rounds = Rounds()
    rounds.act = lasting(0, Result(requeue_after_s=30))
    async with running(rounds) as queue:
        queue.add_soon(A)
        await asyncio.sleep(0.1)
        queue.add_soon(A)
        queue.add(A)
        await asyncio.sleep(10)
        assert rounds.times() == [0, 0.1]
        rounds.act = lasting(0.1)
        queue.add(A)
        await asyncio.sleep(0.05)
        queue.add_soon(A)
        queue.add(A)
        await asyncio.sleep(10)
    assert [round(at - rounds.ran[2][1], 3) for _, at in rounds.ran[2:]] == [0, 0.1]


async def test_a_round_that_comes_earlier_of_itself_is_not_put_off() -> None:
    rounds = Rounds()
    rounds.act = lasting(0.1, Result(requeue_after_s=0.05))
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(0.05)
        queue.add_soon(A)
        await asyncio.sleep(0.2)
    assert rounds.times() == [0, 0.15]


async def test_news_cut_a_back_off_short() -> None:
    rounds = Rounds()
    rounds.act = failing
    async with running(rounds) as queue:
        queue.add(A)
        await asyncio.sleep(20)  # the next would be after 31 s
        queue.add_soon(A)
        await asyncio.sleep(0.1)
    assert rounds.times() == [0, 1, 3, 7, 15, 20]
