"""Know whether the API server is away, and how soon to ask again.

In an outage the API server answers nothing at all. Only this module logs it: once after a few seconds, and once when it
is over. All retries share one rule of delays: short, to notice the end of an outage at once, and random, so that
replicas and watches do not all come back at the same moment.
"""

import logging
from collections.abc import Callable
from random import Random
from typing import Final

_log = logging.getLogger(__name__)

OUTAGE_AFTER_S: Final = 5.0
"""A server that restarts behind a load balancer is shorter and no news."""
RETRY_MAX_S: Final = 3.0
"""Longest delay between two tries: the end of an outage shall be noticed within 5 s, a hurried connection included."""


class Outage:
    """Follow whether the API server answers; the transport reports every call.

    Parameters
    ----------
    clock_s: monotonic seconds.

    Attributes
    ----------
    on_end: called when an outage is over.
    """

    def __init__(self, *, clock_s: Callable[[], float]) -> None:
        self.on_end: Callable[[], None] = lambda: None
        self.is_on = False
        self._clock_s = clock_s
        self._answered_s = clock_s()
        self._back_s = clock_s()

    def missed(self, message: str) -> None:
        """Note that a call got no answer, or only that the server cannot serve it now (5xx, 429)."""
        if not self.is_on and self._clock_s() - self._answered_s >= OUTAGE_AFTER_S:
            self.is_on = True
            _log.warning("the API server is away; nothing is done until it answers", extra={"problem": message})

    def answered(self) -> None:
        """Note that a call was answered, whatever the answer was."""
        now_s = self._clock_s()
        away_s, self._answered_s = now_s - self._answered_s, now_s
        if self.is_on:
            self.is_on, self._back_s = False, now_s
            _log.warning("the API server answers again", extra={"away_s": round(away_s, 1)})
            self.on_end()

    def answering_s(self) -> float:
        """Return for how long the API server has been answering, in seconds; 0 during an outage."""
        return 0.0 if self.is_on else self._clock_s() - self._back_s


class Backoff:
    """Delays between tries that fail: doubled each time up to a limit, each shortened at random by up to half."""

    def __init__(self, rng: Random, *, first_s: float, max_s: float = RETRY_MAX_S) -> None:
        self._rng = rng
        self._first_s = first_s
        self._max_s = max_s
        self._next_s = first_s

    def next_s(self) -> float:
        """Return how long to wait before the next try, in seconds."""
        delay_s, self._next_s = self._next_s, min(self._next_s * 2, self._max_s)
        return delay_s * (1 - self._rng.random() / 2)

    def reset(self) -> None:
        """Begin with the first delay again, after a success."""
        self._next_s = self._first_s
