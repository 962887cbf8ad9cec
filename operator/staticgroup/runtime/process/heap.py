"""Collect reference cycles where the heap has grown, and never through all of a large heap.

CPython traverses all objects once a quarter as many new ones survived two collections of the young generation. A LIST
of a large fleet triggers that every few pages, though each page is freed at once: with 100,000 pods decoding,
collections included, took a third of the processor, and one full collection stopped everything for 4.5 s (775 MiB, busy
machine), longer than the Lease may go without a renewal. Garbage in cycles is at most what the heap has grown by, so a
full collection runs only after much growth: in objects, which may be many and small, or in resident memory, because an
answer of 8 MiB is one object. Once a collection takes long, its survivors are frozen: nearly all of them are the fleet,
which is freed by reference counts. The young generations are collected as usual.
Source: proc(5), /proc/self/statm; gc.freeze; "Garbage collector design" of CPython 3.11, section on generations.
"""

import asyncio
import gc
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

GROWTH: Final = 1.25
"""As CPython's own rule: the traversed objects stay in proportion to those that were made."""
GROWTH_MAX_BLOCKS: Final = 1_000_000
"""About 60 MiB, which are traversed in 0.1 s."""
GROWTH_MIN_BYTES: Final = 64 * 1024 * 1024
"""Of what the process holds, beside the share of GROWTH; less comes and goes with the pages of a LIST."""
LONG_S: Final = 0.2
"""After a collection that takes longer, the objects that survived it are frozen."""
COUNT_EVERY_S: Final = 5.0
"""Counting the blocks takes 0.3 ms for each 100 MiB."""
YOUNG: Final = 10_000
"""New objects after which the young generation is collected: at CPython's 700 that was 5 % of the processor time of
edits."""
_NEVER: Final = 2**31 - 1
_STATM: Final = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Return how much of the machine's memory this process holds; 0 where the kernel does not say."""
    try:
        return int(_STATM.read_text().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


async def follow_growth(
    *, blocks: Callable[[], int] = sys.getallocatedblocks, resident: Callable[[], int] = resident_bytes,
    collect: Callable[[], object] = gc.collect, freeze: Callable[[], object] = gc.freeze,
    clock_s: Callable[[], float] = time.monotonic, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Collect all generations each time the heap has grown by a quarter, or by much; until cancelled.

    Parameters
    ----------
    blocks: counts the allocated blocks of memory. resident: bytes that the process holds, 0 when that is not known.
    collect: traverses all objects but those that `freeze` has set apart.
    clock_s: monotonic seconds. sleep: waits between two counts, seconds.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(YOUNG, thresholds[1], _NEVER)
    try:
        kept, held = blocks(), resident()
        while True:
            await sleep(COUNT_EVERY_S)
            now, now_held = blocks(), resident()
            has_grown = now >= min(kept * GROWTH, kept + GROWTH_MAX_BLOCKS)
            if has_grown or now_held >= max(held * GROWTH, held + GROWTH_MIN_BYTES):
                began_s = clock_s()
                collect()
                if clock_s() - began_s > LONG_S:
                    freeze()
                kept, held = blocks(), resident()
            else:
                kept, held = min(kept, now), min(held, now_held)
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
