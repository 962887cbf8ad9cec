"""All objects are traversed when the heap has grown, and not for what comes and goes, such as the pages of a LIST.

`gc.get_stats` shows it: CPython counts there how often it collected each generation.
"""

import asyncio
import gc
import json
import weakref
from collections.abc import Sequence
from pathlib import Path

import pytest

from staticgroup.runtime.process import heap as heap_module
from staticgroup.runtime.process.heap import GROWTH, GROWTH_MAX_BLOCKS, LONG_S, follow_growth, resident_bytes

MIB = 1024 * 1024
PAGE = json.dumps([{"metadata": {"labels": {str(n): [n]}}} for n in range(20_000)])


class Circle:
    """Refers to itself, and holds as much as an answer of a broker."""

    def __init__(self) -> None:
        self.itself = self
        self.answer = b"x" * (8 * MIB)


class Blocks:
    """A heap of given sizes: one at each count, then the end. A collection takes `collection_s`.

    Parameters
    ----------
    held: bytes that the process holds at each count; none: always the same.
    garbage: blocks that a collection frees. garbage_bytes: what the process holds less by it.
    """

    def __init__(
        self, *sizes: int, held: Sequence[int] = (), garbage: int = 0, garbage_bytes: int = 0, collection_s: float = 0.0
    ) -> None:
        self.sizes = list(sizes)
        self.held = list(held) or [0] * len(sizes)
        self.garbage_bytes = garbage_bytes
        self.garbage = garbage
        self.collection_s = collection_s
        self.now_s = 0.0
        self.collected_at: list[int] = []
        self.frozen_at: list[int] = []

    def count(self) -> int:
        return self.sizes[0]

    def resident(self) -> int:
        return self.held[0]

    def collect(self) -> None:
        self.collected_at.append(self.sizes[0])
        self.sizes[0] -= self.garbage
        self.held[0] -= self.garbage_bytes
        self.now_s += self.collection_s

    def freeze(self) -> None:
        self.frozen_at.append(self.sizes[0])

    async def sleep(self, delay_s: float) -> None:
        del self.sizes[0], self.held[0]
        if not self.sizes:
            raise asyncio.CancelledError


async def _followed(heap: Blocks) -> Blocks:
    with pytest.raises(asyncio.CancelledError):
        await follow_growth(
            blocks=heap.count, resident=heap.resident, collect=heap.collect, freeze=heap.freeze, clock_s=lambda: heap.now_s,
            sleep=heap.sleep,
        )
    return heap


@pytest.mark.parametrize(
    ("sizes", "garbage", "collected_at"),
    [
        ((1000, 1249, 1100, 1249), 0, []),
        ((1000, 1250, 1300, 1562, 1563), 0, [1250, 1563]),
        ((1000, 1250, 1240, 1312, 1313), 200, [1250, 1313]),
        ((1000, 400, 500), 0, [500]),
    ],
    ids=["less than a quarter came", "each quarter", "what was garbage counts again", "from where it has shrunk to"],
)
async def test_all_is_collected_for_each_quarter_that_came(
    sizes: tuple[int, ...], garbage: int, collected_at: list[int]
) -> None:
    assert GROWTH == 1.25
    assert (await _followed(Blocks(*sizes, garbage=garbage))).collected_at == collected_at


async def test_large_heap_is_collected_for_each_step_of_growth() -> None:
    at = 10 * GROWTH_MAX_BLOCKS
    heap = await _followed(Blocks(at, at + GROWTH_MAX_BLOCKS - 1, at + GROWTH_MAX_BLOCKS, at + GROWTH_MAX_BLOCKS + 1))
    assert heap.collected_at == [at + GROWTH_MAX_BLOCKS]


async def _held(*mib: int, garbage_mib: int = 0) -> int:
    """Return how often everything is collected while the process holds so much, and has as many objects as ever."""
    heap = Blocks(*[1000] * len(mib), held=[m * MIB for m in mib], garbage_bytes=garbage_mib * MIB)
    return len((await _followed(heap)).collected_at)


async def test_few_large_objects_are_growth_once_the_process_holds_much_more() -> None:
    """An answer of a broker is one object of up to 8 MiB."""
    assert await _held(100, 163, 163) == 0
    assert await _held(100, 164, 164) == 1
    assert await _held(1000, 1249, 1249) == 0, "of a large process a quarter, as of its objects"
    assert await _held(1000, 1250, 1250) == 1


async def test_what_the_process_holds_grows_from_what_the_last_collection_left_or_from_less() -> None:
    assert await _held(100, 164, 163, 164, garbage_mib=64) == 2
    assert await _held(200, 100, 163, 164) == 1


async def test_garbage_in_circles_of_few_objects_is_found_by_what_the_process_holds() -> None:
    """Each holds 8 MiB; the real counts, faster."""
    alive: list[weakref.ref[Circle]] = []
    made = 0

    async def sleep(delay_s: float) -> None:
        nonlocal made
        for _ in range(2):
            alive.append(weakref.ref(Circle()))
        made += 1
        if made == 12:
            raise asyncio.CancelledError

    gc.collect()
    with pytest.raises(asyncio.CancelledError):
        await follow_growth(sleep=sleep)
    assert sum(circle() is not None for circle in alive) <= 12
    gc.collect()


def test_process_knows_what_it_holds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert 10 * MIB < resident_bytes() < 10_000 * MIB
    monkeypatch.setattr(heap_module, "_STATM", tmp_path / "statm")
    assert resident_bytes() == 0


async def test_what_a_long_collection_leaves_is_frozen() -> None:
    heap = await _followed(Blocks(1000, 1250, 2000, garbage=50, collection_s=LONG_S + 0.01))
    assert (heap.collected_at, heap.frozen_at) == ([1250, 2000], [1200, 1950])
    heap = await _followed(Blocks(1000, 1250, 2000, garbage=50, collection_s=LONG_S - 0.01))
    assert (heap.collected_at, heap.frozen_at) == ([1250, 2000], [])


async def test_objects_that_are_set_apart_end_by_their_reference_counts_and_are_given_back_at_the_end() -> None:
    class Pod:
        pass

    pod, ended = Pod(), []
    weakref.finalize(pod, ended.append, True)
    sizes = iter([1000, 1250, 1250, 1250])

    async def sleep(delay_s: float) -> None:
        nonlocal pod
        if gc.get_freeze_count():
            del pod
            assert ended
            raise asyncio.CancelledError

    clock = iter([0.0, 1.0])
    with pytest.raises(asyncio.CancelledError):
        await follow_growth(blocks=lambda: next(sizes), clock_s=lambda: next(clock), sleep=sleep)
    assert not gc.get_freeze_count()


def _full_collections() -> int:
    return int(gc.get_stats()[2]["collections"])


async def test_pages_that_come_and_go_trigger_no_collection() -> None:
    before = gc.get_threshold()
    collections: list[int] = []

    async def sleep(delay_s: float) -> None:
        if collections:
            raise asyncio.CancelledError
        at = _full_collections()
        _read_pages()
        collections.append(_full_collections() - at)

    gc.collect()
    at = _full_collections()
    _read_pages()
    assert _full_collections() > at, "CPython's own rule"
    with pytest.raises(asyncio.CancelledError):
        await follow_growth(sleep=sleep)
    assert collections == [0]
    assert gc.get_threshold() == before, "others in the process have what they had"


def _read_pages() -> None:
    for _ in range(25):
        json.loads(PAGE)
