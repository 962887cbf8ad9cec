"""Look for reference cycles when the heap has grown, not when much has come and gone.

CPython looks through all objects when a quarter as many as there are were made and outlived two looks at the young ones.
A LIST of a large fleet does that every few pages, though each page goes as it came: with 100,000 pods a third of the
processor went there, and each look stops the event loop. The one idea: what may be garbage in cycles is no more than what
the heap has grown by, so all of it is looked through when that is a quarter. The young are looked at as ever.
Source: "Garbage collector design" of CPython 3.11, section on generations.
"""

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable
from typing import Final

GROWTH: Final = 1.25
"""As CPython's own rule: what is looked through in all stays in proportion to what was made."""
LOOK_EACH_S: Final = 5.0
"""Counting the blocks takes 0.3 ms for each 100 MiB."""
_NEVER: Final = 2**31 - 1


async def follow_growth(
    *, blocks: Callable[[], int] = sys.getallocatedblocks, collect: Callable[[], object] = gc.collect,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Collect all generations whenever the heap has grown by a quarter since the last time, until cancelled.

    Parameters
    ----------
    blocks: counts the allocated blocks of memory.
    collect: looks through all objects. sleep: waits between two counts, seconds.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(*thresholds[:2], _NEVER)
    try:
        kept = blocks()
        while True:
            await sleep(LOOK_EACH_S)
            now = blocks()
            if now >= kept * GROWTH:
                collect()
                now = blocks()
            elif now > kept:
                continue
            kept = now
    finally:
        gc.set_threshold(*thresholds)
