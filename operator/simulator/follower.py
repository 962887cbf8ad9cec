"""Feed the handlers of an operator process, in place of the handler framework.

Source: kopf `continuous_watch` (resume from the position, list again after 410) and its queueing (a handler is called
0.1 s after an event, when no other event of the object has come).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from .api_server import ApiError
from .connection import Connection, Link
from .objects import Json
from .watch_log import Selector


class Follower:
    """Watch one resource for the handlers of a process, as kopf does; made by `ModelTransport.follow`.

    Notes
    -----
    Events of one resource keep their order; those of two resources come over two connections and do not. A watch that
    ended is resumed from its position; where that is too old, the objects are listed again, and a deletion in between
    is never told (kopf `continuous_watch`).
    """

    RETRY_S: Final = (0.1, 1.0)
    HANDLING_S: Final = (0.1, 0.2)
    """kopf waits 0.1 s for further events of an object before it calls a handler."""

    def __init__(self, link: Link, resource: str, namespace: str, callback: Callable[[str, Json], None]) -> None:
        self._link = link
        self._resource = resource
        self._namespace = namespace
        self._callback = callback
        self._inbox: deque[tuple[str, Json]] = deque()
        self._position: int | None = None
        self._last_s = 0.0
        self._connection = Connection(link, self._arrived)
        link.loop.world_call_later(link.one_way_s(), self._connect)

    def _connect(self) -> None:
        link = self._link
        if link.is_dead:
            return
        faults, server = link.faults, link.server
        is_allowed = all(server.is_allowed(link.user, verb, self._resource) for verb in ("list", "watch"))
        if faults.is_cut or faults.is_refusing or faults.failing_status or not is_allowed:
            self._retry()
            return
        selector = Selector()
        if self._position is None:
            page = server.list_page(self._resource, self._namespace, selector)
            self._position = int(page["metadata"]["resourceVersion"])
            for obj in page["items"]:
                self._hand_over("", obj)
        self._connection = Connection(link, self._arrived)
        try:
            self._connection.open(
                self._resource,
                namespace=self._namespace,
                selector=selector,
                since=self._position,
                timeout_s=300.0,
                bookmarks=True,
            )
        except ApiError:
            self._position = None
            self._retry()

    def _retry(self) -> None:
        low, high = self.RETRY_S
        self._link.loop.world_call_later(low + (high - low) * self._link.rng.random(), self._connect)

    def _arrived(self) -> None:
        connection = self._connection
        while connection.arrived:
            event = connection.arrived.popleft()
            if event["type"] == "ERROR":
                self._position = None
                connection.break_off()
                return
            self._position = int(event["object"]["metadata"]["resourceVersion"])
            if event["type"] != "BOOKMARK":
                self._hand_over(event["type"], event["object"])
        if connection.has_ended or connection.is_broken:
            connection.close()
            self._retry()

    def _hand_over(self, kind: str, obj: Json) -> None:
        low, high = self.HANDLING_S
        now_s = self._link.loop.time()
        self._last_s = max(self._last_s, now_s + low + (high - low) * self._link.rng.random())
        self._inbox.append((kind, obj))
        self._link.loop.world_call_later(self._last_s - now_s, self._wake)

    def _wake(self) -> None:
        process = self._link.process
        if process is None:
            self._handle_next()
        elif not self._link.is_dead:
            process.call_soon(self._handle_next)

    def _handle_next(self) -> None:
        self._callback(*self._inbox.popleft())
