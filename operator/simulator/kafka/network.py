"""The way between one Kafka client and the brokers, with everything that can go wrong on it.

A request that was sent arrives even if its sender dies meanwhile, and an answer that is lost does not undo what the
broker did. So both legs are timers of the world, and the sender only holds a future.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..engine.loop import SimulationLoop


class ConnectionLost(Exception):
    """The connection broke or was refused; whether the broker has acted is unknown."""


class RequestTimeout(ConnectionLost):
    """No answer came in time; whether the broker has acted is unknown."""


@dataclass(eq=False, slots=True, kw_only=True)
class KafkaLink:
    """One client's way to the brokers.

    Parameters
    ----------
    owner: the process that the client belongs to; None: one that no process table knows.
    latency_s: one way.
    timeout_s: after it an answer that has not come is given up (request.timeout.ms).
    is_cut: nothing passes, in either direction.
    requests_to_lose, answers_to_lose: so many of the next ones vanish.
    is_dead: its process was killed; it sends nothing any more.
    coordinators: where the client believes groups to be coordinated: group id → node id.
    """

    name: str
    owner: object | None = None
    principal: str = "User:client"
    host: str = "/10.0.0.1"
    latency_s: float = 0.002
    timeout_s: float = 30.0
    is_cut: bool = False
    requests_to_lose: int = 0
    answers_to_lose: int = 0
    is_dead: bool = False
    coordinators: dict[str, int] = field(default_factory=dict)


class Exchange:
    """One request on its way to a broker and back.

    Parameters
    ----------
    work: does the request at the broker, which answers by `reply`, at once or later.
    principal: of the sender, for the authorizer; None: the link's own.
    """

    __slots__ = ("_at_broker", "_loop", "_sent_s", "_timeout_s", "_work", "answer", "link", "node_id", "principal")

    def __init__(
        self,
        loop: SimulationLoop,
        link: KafkaLink,
        node_id: int,
        work: Callable[[Exchange], None],
        at_broker: dict[Exchange, None],
        timeout_s: float | None = None,
        principal: str | None = None,
    ) -> None:
        self.link = link
        self.principal = principal or link.principal
        self.node_id = node_id
        self.answer: asyncio.Future[Any] = loop.create_future()
        self._loop = loop
        self._work = work
        self._at_broker = at_broker
        self._sent_s = loop.time()
        self._timeout_s = link.timeout_s if timeout_s is None else timeout_s

    def send(self) -> None:
        """Put the request on the wire."""
        if self.link.is_dead:
            self._fail(ConnectionLost("the client is dead"))
        elif self.link.requests_to_lose > 0:
            self.link.requests_to_lose -= 1
            self.time_out()
        else:
            self._loop.world_call_later(self.link.latency_s, self._arrive)

    def _arrive(self) -> None:
        if self.link.is_cut:
            self.time_out()
        else:
            self._at_broker[self] = None
            self._work(self)

    def reply(self, value: Any) -> None:
        """Send the broker's answer back."""
        self._at_broker.pop(self, None)
        if self.link.answers_to_lose > 0:
            self.link.answers_to_lose -= 1
            self.time_out()
        else:
            self._loop.world_call_later(self.link.latency_s, self._deliver, value)

    def refuse(self) -> None:
        """Break the connection: the broker is gone."""
        self._at_broker.pop(self, None)
        self._loop.world_call_later(self.link.latency_s, self._fail, ConnectionLost(f"broker {self.node_id} is gone"))

    def time_out(self) -> None:
        """Let the client give up when its time is over."""
        left_s = max(0.0, self._sent_s + self._timeout_s - self._loop.time())
        self._loop.world_call_later(left_s, self._fail, RequestTimeout(f"no answer from broker {self.node_id}"))

    def _deliver(self, value: Any) -> None:
        if self.link.is_cut:
            self.time_out()
        elif not self.answer.done():
            self.answer.set_result(value)

    def _fail(self, error: ConnectionLost) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # a sender that died meanwhile never reads it; asyncio must not log that as a bug
