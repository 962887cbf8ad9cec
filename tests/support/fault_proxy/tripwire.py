"""Switch something on at the very moment at which a certain request passes a proxy.

The one idea: proxies show each request before they pass it, and both proxies of an operator show theirs to the same
wire; so a fault of the API server can begin with a request to Kafka, and the other way round.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class Peer(StrEnum):
    """Who is asked."""

    API_SERVER = "API server"
    BROKER = "broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """One request, or the answer to it.

    Parameters
    ----------
    call: method of HTTP, or the API key of Kafka as a number.
    path: of HTTP, with its query.
    """

    peer: Peer
    call: str
    path: str = ""
    is_answer: bool = False


@dataclass(slots=True)
class Tripwire:
    """What is waited for, and what happens then; once."""

    _is_it: Callable[[Passing], bool] | None = None
    _act: Callable[[], None] | None = None
    touched: threading.Event = field(default_factory=threading.Event)

    def arm(self, is_it: Callable[[Passing], bool], act: Callable[[], None]) -> None:
        """Wait for a request; `act` is called in the loop of the proxies, before the request is passed."""
        self.touched.clear()
        self._is_it, self._act = is_it, act

    def disarm(self) -> None:
        """Wait for nothing."""
        self._is_it = self._act = None

    def see(self, passing: Passing) -> None:
        """Be shown a request before it is passed."""
        if self._is_it is None or self._act is None or not self._is_it(passing):
            return
        act = self._act
        self.disarm()
        act()
        self.touched.set()
