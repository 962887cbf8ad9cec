"""The data of one group's charts: points of curves and instants on an axis, as plain values.

All instants are Unix milliseconds in UTC, all costs partition-milliseconds without consumption.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The window of a report.

    Parameters
    ----------
    start_ms, end_ms: the half-open interval, Unix milliseconds.
    """

    start_ms: int
    end_ms: int

    @property
    def days(self) -> float:
        """Length in days."""
        return (self.end_ms - self.start_ms) / 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SurvivalPoint:
    """One step of a Kaplan-Meier curve: the share of stops that last longer than `gap_ms`, with its band."""

    gap_ms: int
    survival: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPoint:
    """The cost of one session timeout per day, split into needless evictions and waiting."""

    timeout_ms: int
    eviction_partition_ms: int
    waiting_partition_ms: int
    evictions_per_day: float

    @property
    def total_partition_ms(self) -> int:
        """The sum of both costs."""
        return self.eviction_partition_ms + self.waiting_partition_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class HazardPoint:
    """The chance per second that a member returns, given that it is still away after `gap_ms`."""

    gap_ms: int
    per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A rollout: from its start to its end, or to the end of the window."""

    start_ms: int
    end_ms: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Rollouts, restarts and generations of one group on one axis.

    Parameters
    ----------
    generations: (instant, generation or group epoch) at each step.
    absorbed_ms, evicted_ms, removed_ms: instants of restarts that were absorbed, that led to an eviction, and of
        removals by the operator.
    timeout_changes: (instant, new session timeout in milliseconds).
    """

    window: Window
    rollouts: tuple[Span, ...] = ()
    generations: tuple[tuple[int, int], ...] = ()
    absorbed_ms: tuple[int, ...] = ()
    evicted_ms: tuple[int, ...] = ()
    removed_ms: tuple[int, ...] = ()
    timeout_changes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """One line of a what-if table: the same group under another timeout, or with dynamic members."""

    label: str
    timeout_ms: int | None
    evictions_per_day: float
    rebalances_per_day: float
    lost_partition_ms_per_day: int
