"""All objects are looked through when the heap has grown, and not for what comes and goes, such as the pages of a LIST.

`gc.get_stats` is what tells: CPython counts there how often it looked through each generation.
"""

import asyncio
import gc
import json

import pytest

from staticgroup.runtime.process.heap import GROWTH, follow_growth

PAGE = json.dumps([{"metadata": {"labels": {str(n): [n]}}} for n in range(20_000)])


class Blocks:
    """A heap whose size is told: what it is at each look, then the end."""

    def __init__(self, *sizes: int, garbage: int = 0) -> None:
        self.sizes = list(sizes)
        self.garbage = garbage
        self.collected_at: list[int] = []

    def count(self) -> int:
        return self.sizes[0]

    def collect(self) -> None:
        self.collected_at.append(self.sizes[0])
        self.sizes[0] -= self.garbage

    async def sleep(self, delay_s: float) -> None:
        del self.sizes[0]
        if not self.sizes:
            raise asyncio.CancelledError


async def _collected(*sizes: int, garbage: int = 0) -> list[int]:
    heap = Blocks(*sizes, garbage=garbage)
    with pytest.raises(asyncio.CancelledError):
        await follow_growth(blocks=heap.count, collect=heap.collect, sleep=heap.sleep)
    return heap.collected_at


async def test_nothing_is_looked_through_while_the_heap_does_not_grow_by_a_quarter() -> None:
    assert await _collected(1000, 1249, 1100, 1249) == []


async def test_all_is_looked_through_for_each_quarter_that_came() -> None:
    assert GROWTH == 1.25
    assert await _collected(1000, 1250, 1300, 1562, 1563) == [1250, 1563]


async def test_what_was_garbage_counts_as_growth_again() -> None:
    assert await _collected(1000, 1250, 1240, 1312, 1313, garbage=200) == [1250, 1313]


async def test_heap_that_has_shrunk_is_looked_through_when_it_grows_from_there() -> None:
    assert await _collected(1000, 400, 500) == [500]


def _looks_at_all() -> int:
    return int(gc.get_stats()[2]["collections"])


async def test_pages_that_come_and_go_have_nothing_looked_through() -> None:
    before = gc.get_threshold()
    looks: list[int] = []

    async def sleep(delay_s: float) -> None:
        if looks:
            raise asyncio.CancelledError
        at = _looks_at_all()
        _read_pages()
        looks.append(_looks_at_all() - at)

    gc.collect()
    at = _looks_at_all()
    _read_pages()
    assert _looks_at_all() > at, "CPython's own rule"
    with pytest.raises(asyncio.CancelledError):
        await follow_growth(sleep=sleep)
    assert looks == [0]
    assert gc.get_threshold() == before, "others in the process have what they had"


def _read_pages() -> None:
    for _ in range(25):
        json.loads(PAGE)
