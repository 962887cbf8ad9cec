"""The bounds of every recommended session timeout; the operator has its own (`core.timeouts.bounds`)."""

from __future__ import annotations

from journal.recommendations.records import DurationMs, RecordBase
from staticgroup.api.schema import HEARTBEATS_PER_TIMEOUT_MIN, TIMEOUT_MS_MAX


class TimeoutBounds(RecordBase):
    """Hold every bound on a session timeout; None means no bound.

    Recommendations lie within [max(spec minimum, broker minimum, 3 heartbeats), min(spec maximum, broker
    maximum)].
    """

    spec_minimum_ms: DurationMs | None = None
    spec_maximum_ms: DurationMs | None = None
    broker_minimum_ms: DurationMs | None = None
    broker_maximum_ms: DurationMs | None = None
    heartbeat_interval_ms: DurationMs | None = None

    @property
    def minimum_ms(self) -> int:
        """Return the highest of the lower bounds; 0 without one."""
        heartbeats_ms = HEARTBEATS_PER_TIMEOUT_MIN * (self.heartbeat_interval_ms or 0)
        return max(self.spec_minimum_ms or 0, self.broker_minimum_ms or 0, heartbeats_ms)

    @property
    def maximum_ms(self) -> int:
        """Return the lowest of the upper bounds; one day without one."""
        known = (each for each in (self.spec_maximum_ms, self.broker_maximum_ms) if each is not None)
        return min(known, default=TIMEOUT_MS_MAX)

    @property
    def is_feasible(self) -> bool:
        """Return whether any timeout satisfies all bounds."""
        return self.minimum_ms <= self.maximum_ms

    def clamped_ms(self, timeout_ms: int) -> int | None:
        """Clip a timeout to the bounds; None if no timeout satisfies them."""
        return max(self.minimum_ms, min(timeout_ms, self.maximum_ms)) if self.is_feasible else None
