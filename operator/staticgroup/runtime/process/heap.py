"""Look for reference cycles where the heap has grown, and never through all of a large one.

CPython looks through all objects when a quarter as many as there are were made and outlived two looks at the young ones.
A LIST of a large fleet does that every few pages, though each page goes as it came: with 100,000 pods the decoding of these
LISTs, such looks included, took a third of the processor. And one look stops everything: for 4.5 s at 775 MiB on a busy
machine, longer than the Lease may go without a renewal. Two ideas. What may be garbage in cycles is no more than what the heap has grown by, so it is looked for when that
is much. And once a look takes long, what it leaves is not looked through again: nearly all of it is the fleet, which ends by
its reference counts. The young are looked at as ever.
Source: gc.freeze; "Garbage collector design" of CPython 3.11, section on generations.
"""

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

GROWTH: Final = 1.25
"""As CPython's own rule: what is looked through in all stays in proportion to what was made."""
GROWTH_MAX_BLOCKS: Final = 1_000_000
"""About 60 MiB, which are looked through in 0.1 s."""
LONG_S: Final = 0.2
"""A look that takes longer is the last one at what it leaves."""
LOOK_EACH_S: Final = 5.0
"""Counting the blocks takes 0.3 ms for each 100 MiB."""
_NEVER: Final = 2**31 - 1


async def follow_growth(
    *, blocks: Callable[[], int] = sys.getallocatedblocks, collect: Callable[[], object] = gc.collect,
    freeze: Callable[[], object] = gc.freeze, clock_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Collect all generations whenever the heap has grown by a quarter, or by much, since the last time; until cancelled.

    Parameters
    ----------
    blocks: counts the allocated blocks of memory.
    collect: looks through all objects but those that `freeze` has set apart.
    clock_s: monotonic seconds. sleep: waits between two counts, seconds.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(*thresholds[:2], _NEVER)
    try:
        kept = blocks()
        while True:
            await sleep(LOOK_EACH_S)
            now = blocks()
            if now >= min(kept * GROWTH, kept + GROWTH_MAX_BLOCKS):
                began_s = clock_s()
                collect()
                if clock_s() - began_s > LONG_S:
                    freeze()
                now = blocks()
            elif now > kept:
                continue
            kept = now
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
