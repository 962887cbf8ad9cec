"""One partition of `__consumer_offsets`: its persisted log, and the coordinator that one broker runs on it.

Source: GroupCoordinatorShard and CoordinatorRuntime: one coordinator for each partition, its state loaded from the log
by the new leader, requests that waited at the old one answered NOT_COORDINATOR when it resigns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator_model.base.errors import ErrorCode, GroupError
from coordinator_model.base.messages import (
    ConsumerGroupDescribeRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    Request,
    Response,
)
from coordinator_model.base.records import Record
from coordinator_model.base.result import Result
from coordinator_model.coordinator import ERROR_RESPONSE, GroupCoordinator

from ..engine.loop import SimulationLoop
from .network import Exchange

READS = (DescribeGroupsRequest, ConsumerGroupDescribeRequest, ListGroupsRequest)
"""Answered from what is known to be committed (CoordinatorRuntime.scheduleReadOperation)."""
NEVER_S = float("-inf")


def refusal(request: Request, code: ErrorCode) -> Response:
    """Return the error response of a request's own type; a describe carries the error in each group."""
    return ERROR_RESPONSE[type(request)](request, GroupError(code))


@dataclass(eq=False, slots=True)
class Shard:
    """The groups of one partition of `__consumer_offsets`.

    Parameters
    ----------
    make_coordinator: makes an empty coordinator.

    Attributes
    ----------
    leader: the broker that coordinates; None during a change.
    log: what was persisted: (virtual milliseconds, record).
    write_error: what the log answers to appends; None: it takes them.
    refused_until_s, refused_with: answered to everything until then, as while loading.
    on_request: called with the sender just before the coordinator does a request, and with None just after.
    """

    loop: SimulationLoop
    index: int
    leader: int | None
    make_coordinator: Callable[[], GroupCoordinator]
    log: list[tuple[int, Record]] = field(default_factory=list)
    refused_until_s: float = NEVER_S
    refused_with: ErrorCode = ErrorCode.NONE
    write_error: ErrorCode | None = None
    on_request: Callable[[Exchange | None, Request], None] = field(default=lambda exchange, request: None)
    coordinator: GroupCoordinator = field(init=False)
    _former: GroupCoordinator | None = None
    _former_until_s: float = NEVER_S
    _waiting: dict[int, tuple[Request, Exchange]] = field(default_factory=dict)
    _timer: asyncio.TimerHandle | None = None
    _timer_ms: int = 0

    def __post_init__(self) -> None:
        self.coordinator = self.make_coordinator()

    def handle(self, request: Request, exchange: Exchange) -> Response | None:
        """Do a request; None when it waits and the exchange is answered later."""
        now_s = self.loop.time()
        if self.leader != exchange.node_id:
            return refusal(request, ErrorCode.NOT_COORDINATOR)
        if now_s < self.refused_until_s:
            return refusal(request, self.refused_with)
        if self._former is not None and isinstance(request, READS):
            if now_s < self._former_until_s:
                return self._former.handle(request, now_ms(self.loop)).response
            self._former = None
        self.on_request(exchange, request)
        result = self.coordinator.handle(request, now_ms(self.loop))
        self.on_request(None, request)
        if result.ticket is not None:
            self._waiting[result.ticket] = (request, exchange)
        self._take(result)
        return result.response

    def resign(self, *, is_clean: bool) -> None:
        """Stop coordinating: what waits is answered NOT_COORDINATOR, or its connection breaks with the broker."""
        self.leader = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, {}
        for request, exchange in waiting.values():
            if is_clean:
                exchange.reply(refusal(request, ErrorCode.NOT_COORDINATOR))
            else:
                exchange.refuse()

    def load(self, leader: int) -> None:
        """Take over on another broker: state is what the log says, timers start in full."""
        self.leader = leader
        self.coordinator = self.make_coordinator()
        self.coordinator.write_error = self.write_error
        self._take(self.coordinator.replay([record for _, record in self.log], now_ms(self.loop)))

    def refuse_writes(self, code: ErrorCode | None) -> None:
        """Let the log refuse appends, also those of later coordinators; None: accept them again."""
        self.write_error = self.coordinator.write_error = code

    def read_stale(self, *, behind_s: float, for_s: float) -> None:
        """Answer reads for a while with what the log held `behind_s` ago (seen on 4.4.0 after a fail-over)."""
        as_of_ms = now_ms(self.loop) - round(behind_s * 1000)
        self._former = self.make_coordinator()
        self._former.replay([record for at_ms, record in self.log if at_ms <= as_of_ms], as_of_ms)
        self._former_until_s = self.loop.time() + for_s

    def wake_timers(self) -> None:
        """See to it that the coordinator is asked again at its next deadline."""
        deadline_ms = self.coordinator.timers.next_deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        self._timer = self.loop.world_call_later(deadline_ms / 1000 - self.loop.time(), self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._take(self.coordinator.expire(now_ms(self.loop)))

    def _take(self, result: Result) -> None:
        if result.records:
            at_ms = now_ms(self.loop)
            self.log += [(at_ms, record) for record in result.records]
        for completed in result.completed:
            waiting = self._waiting.pop(completed.ticket, None)
            if waiting is not None:
                waiting[1].reply(completed.response)
        self.wake_timers()


def now_ms(loop: SimulationLoop) -> int:
    """Return virtual time as a coordinator counts it."""
    return round(loop.time() * 1000)
