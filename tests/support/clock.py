"""A clock that tests set."""

from __future__ import annotations


class Clock:
    """Seconds that pass only by a call."""

    def __init__(self, now_s: float = 1_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s
