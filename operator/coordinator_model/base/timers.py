"""Timers as values: the model returns when to call it again, and never sleeps.

Source: org.apache.kafka.coordinator.common.runtime.CoordinatorTimer: one timer per key, scheduling again replaces it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

TimerKey = tuple[str, ...]
"""(kind, group id, and what the kind adds, such as the member id)."""


@dataclass(frozen=True, slots=True)
class TimerChange:
    """A timer that was armed, or cancelled when `deadline_ms` is None."""

    key: TimerKey
    deadline_ms: int | None


@dataclass(slots=True)
class Timers:
    """All timers of one coordinator."""

    _deadlines: dict[TimerKey, tuple[int, int]] = field(default_factory=dict)
    _heap: list[tuple[int, int, TimerKey]] = field(default_factory=list)
    _serial: int = 0

    def __len__(self) -> int:
        """Return the number of armed timers."""
        return len(self._deadlines)

    def arm(self, key: TimerKey, deadline_ms: int) -> None:
        """Set or replace a timer; among equal deadlines the one armed first is due first."""
        self._serial += 1
        self._deadlines[key] = (deadline_ms, self._serial)
        heapq.heappush(self._heap, (deadline_ms, self._serial, key))
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._deadlines):
            self._heap = [(d, s, k) for k, (d, s) in self._deadlines.items()]
            heapq.heapify(self._heap)

    def cancel(self, key: TimerKey) -> bool:
        """Drop a timer; returns False when there was none."""
        return self._deadlines.pop(key, None) is not None

    def deadline_ms(self, key: TimerKey) -> int | None:
        """Return when a timer is due; None when it is not armed."""
        armed = self._deadlines.get(key)
        return None if armed is None else armed[0]

    def keys(self) -> tuple[TimerKey, ...]:
        """Return the keys of all armed timers."""
        return tuple(self._deadlines)

    def of_group(self, group_id: str) -> tuple[TimerKey, ...]:
        """Return the keys of the armed timers of one group."""
        return tuple(k for k in self._deadlines if k[1] == group_id)

    def next_deadline_ms(self) -> int | None:
        """Return the earliest deadline; None when no timer is armed."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> tuple[TimerKey, ...]:
        """Return the keys whose deadline is not after `now_ms`, the earliest first; they stay armed."""
        ready = [(d, s, k) for k, (d, s) in self._deadlines.items() if d <= now_ms]
        return tuple(k for _, _, k in sorted(ready))

    def pop_due(self, now_ms: int) -> tuple[TimerKey, int] | None:
        """Take the earliest due timer off; None when none is due."""
        self._drop_stale()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        deadline_ms, _, key = heapq.heappop(self._heap)
        del self._deadlines[key]
        return key, deadline_ms

    def _drop_stale(self) -> None:
        while self._heap:
            deadline_ms, serial, key = self._heap[0]
            if self._deadlines.get(key) == (deadline_ms, serial):
                return
            heapq.heappop(self._heap)
