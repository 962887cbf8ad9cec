"""Have glibc give large blocks back to the machine as soon as they are free.

Answers of the API server and of brokers have up to 8 MiB and live for milliseconds. glibc maps such a block for itself and
unmaps it when it is free, but takes the first one that is freed as a reason to cut all later ones of that size out of its heap,
where what is kept between them holds them in place; and each thread that asks while another is asking gets a heap of its own.
Sources: mallopt(3), M_MMAP_THRESHOLD ("dynamic mmap threshold"), M_ARENA_MAX; malloc_trim(3).
"""

import ctypes
from typing import Any, Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
LARGE_BYTES: Final = 128 * 1024
"""What glibc begins with; once it is set, glibc does not change it."""
ARENAS_MAX: Final = 1
"""All work is done in one thread; the others only look up names and read files."""


def _libc() -> Any:
    return ctypes.CDLL(None)


def give_back_early() -> None:
    """Set it, once and before there are threads; without glibc nothing is set."""
    if (mallopt := getattr(_libc(), "mallopt", None)) is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(_M_TRIM_THRESHOLD, LARGE_BYTES)
        mallopt(_M_ARENA_MAX, ARENAS_MAX)


def give_back_now() -> None:
    """Give back whole pages that are free between what is not."""
    if (trim := getattr(_libc(), "malloc_trim", None)) is not None:
        trim(0)
