"""The wires between one client and the API server, with everything that can go wrong on them.

Every fault is a switch in `ClientFaults` and may be changed at any time. Events of one watch arrive in the order in
which they were sent, late or not at all, but never in another order.

Source: storage/cacher cache_watcher.go (bookmarks about once a minute and two seconds before the end of a watch).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from ..engine.loop import Process, SimulationLoop
from ..kubernetes.api_server import ApiServer
from ..kubernetes.objects import Json
from ..kubernetes.watch_log import Selector, Subscription

BOOKMARK_EVERY_S: Final = 60.0
BOOKMARK_BEFORE_END_S: Final = 2.0
BOOKMARK_EARLY_S: Final = 0.6
BOOKMARK_LATE_S: Final = 1.0
"""Watches wait in buckets of a second that are served about once a second (seen: due at 1 s, sent at 0.44 to 1.63
s)."""


@dataclass(slots=True, kw_only=True)
class ClientFaults:
    """What is wrong between one client and the API server, now.

    Attributes
    ----------
    latency_s: least and most seconds of one way of a request or event.
    is_cut: partition: calls get no answer, watches are silent; what the server had sent arrives after it has healed.
    is_refusing: connections are reset at once.
    lost_requests: so many next requests never reach the server.
    lost_answers: so many next requests are carried out, but their answer never arrives.
    conflicts: so many next conditional writes are answered 409, as if another writer had been faster.
    refusals: (verb, resource) → statuses with which its next requests are answered; 0: the connection breaks.
    held_s: the next request is so much longer on its way to the server.
    failing_status: every request is answered with this HTTP status while it is not 0.
    watch_delay_s: further delay of watch events, as of an API server whose cache lags.
    stale_s: how old the answers of reads with resourceVersion=0 are.
    dropped_events: so many next watch events are lost while the watch goes on; this breaks the API's promise.
    """

    latency_s: tuple[float, float] = (0.001, 0.005)
    is_cut: bool = False
    is_refusing: bool = False
    lost_requests: int = 0
    lost_answers: int = 0
    conflicts: int = 0
    refusals: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    held_s: float = 0.0
    failing_status: int = 0
    watch_delay_s: float = 0.0
    stale_s: float = 0.0
    dropped_events: int = 0


class Link:
    """The wires between one client and the server.

    Parameters
    ----------
    user: whose rights apply.
    process: which sends; None for a part of the world.
    """

    def __init__(
        self, server: ApiServer, loop: SimulationLoop, *, user: str, rng: Random, process: Process | None
    ) -> None:
        self.server = server
        self.loop = loop
        self.user = user
        self.rng = rng
        self.process = process
        self.faults = ClientFaults()
        self.open: list[Connection] = []
        self.on_request: list[Callable[[str, str], None]] = []
        """Called with verb and resource of each request, in the moment in which it is sent."""

    @property
    def is_dead(self) -> bool:
        """True when nothing of this client may reach the world any more."""
        return self.loop.is_closing or (self.process is not None and self.process.is_dead)

    def one_way_s(self) -> float:
        """Draw how long one way takes."""
        low, high = self.faults.latency_s
        return low + (high - low) * self.rng.random()

    def heal(self) -> None:
        """End a partition; what was under way arrives now."""
        self.faults.is_cut = self.faults.is_refusing = False
        for connection in tuple(self.open):
            connection.flush()

    def send_error(self, code: int) -> None:
        """Let every watch end with an ERROR event, such as 410 when the server cannot go on from its place."""
        for connection in tuple(self.open):
            connection.send_error(code)

    def break_watches(self) -> None:
        """Cut the connection of every watch."""
        for connection in tuple(self.open):
            connection.break_off()


class Connection:
    """One watch: events arrive in the order in which they were sent, or it breaks.

    Parameters
    ----------
    on_arrival: called when something arrived, the end included.

    Attributes
    ----------
    lag_s: further delay of what it is sent, as where one TCP connection of several is silent for a while.
    """

    def __init__(self, link: Link, on_arrival: Callable[[], None]) -> None:
        self.arrived: deque[Json] = deque()
        self.is_broken = False
        self.has_ended = False
        self.lag_s = 0.0
        self._link = link
        self._on_arrival = on_arrival
        self._in_flight: deque[Json | None] = deque()
        self._held = 0
        self._is_last_bookmark = False
        self._last_s = 0.0
        self._subscription: Subscription | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._sent_version = 0
        self._ends_s = 0.0

    def open(
        self, resource: str, *, namespace: str, selector: Selector, since: int, timeout_s: float, bookmarks: bool
    ) -> None:
        """Subscribe at the server; called when the request reaches it."""
        link = self._link
        self._subscription, missed = link.server.subscribe(
            resource, namespace, selector, since, self._send, self.break_off
        )
        self._sent_version = since
        link.open.append(self)
        for event in missed:
            self._send(event)
        loop = link.loop
        self._ends_s = loop.time() + timeout_s
        self._timers = [loop.world_call_later(timeout_s, self._end)]
        if bookmarks:
            self._schedule_bookmark()

    @property
    def follows(self) -> tuple[str, str]:
        """Resource and namespace; two empty texts before the request has reached the server."""
        return (
            (self._subscription.resource, self._subscription.namespace) if self._subscription is not None else ("", "")
        )

    def _send(self, event: Json) -> None:
        faults = self._link.faults
        if faults.dropped_events > 0 and event["type"] != "BOOKMARK":
            faults.dropped_events -= 1
            return
        self._sent_version = int(event["object"]["metadata"]["resourceVersion"])
        self._put(event)

    def _put(self, item: Json | None) -> None:
        link = self._link
        now_s = link.loop.time()
        self._last_s = max(self._last_s, now_s + link.one_way_s() + link.faults.watch_delay_s + self.lag_s)
        self._in_flight.append(item)
        link.loop.world_call_later(self._last_s - now_s, self._arrive)

    def _arrive(self) -> None:
        if self.is_broken:
            return
        if self._link.faults.is_cut:
            self._held += 1
            return
        item = self._in_flight.popleft()
        if item is None:
            self.has_ended = True
        else:
            self.arrived.append(item)
        self._on_arrival()

    def flush(self) -> None:
        """Let everything arrive that a partition held up."""
        held, self._held = self._held, 0
        for _ in range(held):
            self._arrive()

    def _schedule_bookmark(self) -> None:
        """Plan the next bookmark: in a minute or two seconds before the end, as the server gets round to it."""
        loop, rng = self._link.loop, self._link.rng
        now_s = loop.time()
        before_end_s = self._ends_s - BOOKMARK_BEFORE_END_S
        due_s = now_s + BOOKMARK_EVERY_S
        if now_s + 0.001 < before_end_s < due_s:
            due_s, self._is_last_bookmark = before_end_s, True
        if due_s >= self._ends_s:
            return
        delay_s = due_s - now_s - BOOKMARK_EARLY_S + (BOOKMARK_EARLY_S + BOOKMARK_LATE_S) * rng.random()
        self._timers.append(loop.world_call_later(delay_s, self._bookmark))
        self._timers = [t for t in self._timers if not t.cancelled() and t.when() > now_s]

    def _bookmark(self) -> None:
        if self._subscription is None:
            return
        version = self._link.server.bookmark_version(self._subscription.resource)
        if version > self._sent_version:
            self._send({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}})
        if not self._is_last_bookmark:
            self._schedule_bookmark()

    def send_error(self, code: int) -> None:
        """Send an ERROR event, as the server does when it cannot go on."""
        self._put({"type": "ERROR", "object": {"kind": "Status", "code": code}})

    def _end(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
            self._put(None)

    def break_off(self) -> None:
        """Cut the connection; what was in flight is lost."""
        if not self.is_broken:
            self.is_broken = True
            self.close()
            self._on_arrival()

    def close(self) -> None:
        """End it from the client's side."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self in self._link.open:
            self._link.open.remove(self)
