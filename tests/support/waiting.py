"""Wait for a condition with a deadline, or hold that one stays: the only ways in which a test lets real time pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T | None], *, deadline_s: float, what: str, poll_s: float = 0.1) -> T:
    """Wait until a condition gives something true, and return it."""
    ends = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > ends:
            raise AssertionError(f"{what}: not within {deadline_s:.0f} s; last seen: {value!r}")
        time.sleep(poll_s)


def holds(condition: Callable[[], bool], *, for_s: float, what: str, poll_s: float = 0.25) -> int:
    """Check again and again that a condition stays true, and return the number of checks."""
    began_s, checks = time.monotonic(), 0
    while (elapsed_s := time.monotonic() - began_s) < for_s:
        if not condition():
            raise AssertionError(f"{what}: not so after {elapsed_s:.1f} s")
        checks += 1
        time.sleep(poll_s)
    return checks
