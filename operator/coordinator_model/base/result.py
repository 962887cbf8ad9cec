"""What one step of the coordinator brings about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .image import TopicImage
from .messages import Response
from .records import Record
from .settings import BrokerSettings
from .timers import TimerChange, TimerKey, Timers


@dataclass(frozen=True, slots=True)
class Completed:
    """The answer to a request that had been parked under this ticket."""

    ticket: int
    response: Response


@dataclass(frozen=True, slots=True)
class Result:
    """What one step brought about.

    Parameters
    ----------
    response: the answer; None when the request waits (JoinGroup and SyncGroup do) and is answered later.
    ticket: names the waiting request in a later result's `completed`; None when it was answered at once.
    records: appended to the log by this step, in order, already applied.
    timers: timers armed or cancelled by this step, in order.
    completed: answers to requests that had been parked by earlier steps, in order.
    """

    response: Response | None
    records: tuple[Record, ...] = ()
    timers: tuple[TimerChange, ...] = ()
    completed: tuple[Completed, ...] = ()
    ticket: int | None = None


@dataclass(slots=True)
class Step:
    """The effects of one step while it is being carried out; handlers write here and nowhere else.

    Parameters
    ----------
    now_ms: the coordinator's time.
    new_uuid: returns the next random part of a member id.
    next_ticket: returns a ticket for a request that must wait.
    """

    now_ms: int
    settings: BrokerSettings
    image: TopicImage
    timers: Timers
    new_uuid: Callable[[], str]
    next_ticket: Callable[[], int]
    ticket: int | None = None
    records: list[Record] = field(default_factory=list)
    timer_changes: list[TimerChange] = field(default_factory=list)
    completed: list[Completed] = field(default_factory=list)

    def arm(self, key: TimerKey, delay_ms: int) -> None:
        """Set or replace a timer, due `delay_ms` from now."""
        self.timers.arm(key, self.now_ms + delay_ms)
        self.timer_changes.append(TimerChange(key, self.now_ms + delay_ms))

    def cancel(self, key: TimerKey) -> None:
        """Drop a timer if it is armed."""
        if self.timers.cancel(key):
            self.timer_changes.append(TimerChange(key, None))

    def park(self) -> int:
        """Leave the request of this step waiting; returns the ticket under which `complete` answers it."""
        self.ticket = self.next_ticket()
        return self.ticket

    def complete(self, ticket: int, response: Response) -> None:
        """Answer a parked request."""
        self.completed.append(Completed(ticket, response))

    def result(self, response: Response | None) -> Result:
        """Return the finished step; a request that was parked and completed in the same step is answered directly."""
        own = [c for c in self.completed if c.ticket == self.ticket] if self.ticket is not None else []
        if response is None and own:
            others = tuple(c for c in self.completed if c.ticket != self.ticket)
            return Result(own[0].response, tuple(self.records), tuple(self.timer_changes), others, None)
        return Result(response, tuple(self.records), tuple(self.timer_changes), tuple(self.completed), self.ticket)
