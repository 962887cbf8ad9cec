"""Axes: which values get a tick, how they are written, and where they lie on the paper.

Nice numbers after Heckbert, "Nice numbers for graph labels", Graphics Gems (1990): a step is 1, 2 or 5 times a power of
ten; durations get the steps of a clock instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

_CLOCK_STEPS_MS = tuple(
    count * unit
    for unit, counts in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (SECOND_MS, (1, 2, 5, 10, 20, 30)),
        (MINUTE_MS, (1, 2, 5, 10, 20, 30)),
        (HOUR_MS, (1, 2, 6, 12)),
        (DAY_MS, (1, 2, 7, 14, 28, 91, 364)),
    )
    for count in counts
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis of a chart.

    Parameters
    ----------
    label: what is drawn, with its unit.
    low, high: the values at both ends, low < high; on a logarithmic axis low > 0.
    ticks: the values that are labelled, ascending, within both ends.
    written: how a value is written beside its tick.
    """

    label: str
    low: float
    high: float
    ticks: tuple[float, ...]
    written: Callable[[float], str]
    is_logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return where a value lies between both ends, 0 to 1; a value outside lies on the nearer end."""
        if self.is_logarithmic:
            value, low, high = (math.log(max(v, self.low)) for v in (value, self.low, self.high))
        else:
            low, high = self.low, self.high
        return min(1.0, max(0.0, (value - low) / (high - low)))


def nice_step(length: float, count: int) -> float:
    """Return the least step of 1, 2 or 5 times a power of ten that makes at most `count` intervals of a length > 0."""
    raw = length / count
    magnitude = 10.0 ** math.floor(math.log10(raw))
    return next(step for m in (1, 2, 5, 10) if (step := m * magnitude) >= raw * (1 - 1e-9))


def linear(label: str, low: float, high: float, written: Callable[[float], str], count: int = 4) -> Axis:
    """Make a linear axis whose upper end is the first nice tick at or above `high`."""
    # Ends so close that a float has no room for ticks between them are one value.
    narrowest = 1e-9 * max(abs(low), abs(high))
    if high - low <= narrowest:
        high = low + max(1.0, narrowest)
    step = nice_step(high - low, count)
    last = math.ceil(high / step - 1e-9)
    first = math.floor(low / step + 1e-9)
    ticks = tuple(k * step for k in range(first, last + 1))
    # A multiple of the step may fall short of the end by a rounding error.
    return Axis(label=label, low=min(low, ticks[0]), high=max(high, ticks[-1]), ticks=ticks, written=written)


def durations(label: str, low_ms: float, high_ms: float) -> Axis:
    """Make a logarithmic axis of durations in milliseconds, ticks as on a clock, at most six of them."""
    high_ms = max(high_ms, low_ms * 2)
    steps = [s for s in _CLOCK_STEPS_MS if low_ms <= s <= high_ms]
    every = max(1, math.ceil(len(steps) / 6))
    return Axis(
        label=label, low=low_ms, high=high_ms, ticks=tuple(steps[::every]), written=duration, is_logarithmic=True
    )


def dates(window_start_ms: int, window_end_ms: int, count: int = 5) -> Axis:
    """Make a linear axis of UTC instants with a tick at midnight every so many days, or every so many hours."""
    length_ms = max(window_end_ms - window_start_ms, 1)
    step_ms = next((s for s in _CLOCK_STEPS_MS if s >= HOUR_MS and s * count >= length_ms), _CLOCK_STEPS_MS[-1])
    first = -(-window_start_ms // step_ms) * step_ms
    ticks = tuple(float(t) for t in range(first, window_end_ms + 1, step_ms))
    written = day if step_ms >= DAY_MS else clock
    return Axis(label="", low=window_start_ms, high=window_start_ms + length_ms, ticks=ticks, written=written)


def day(instant_ms: float) -> str:
    """Write a UTC day: `3 Nov`."""
    moment = datetime.fromtimestamp(instant_ms / 1000, UTC)
    return f"{moment.day} {moment:%b}"


def clock(instant_ms: float) -> str:
    """Write a UTC time of day: `14:00`."""
    return f"{datetime.fromtimestamp(instant_ms / 1000, UTC):%H:%M}"


def minute(instant_ms: float) -> str:
    """Write a UTC instant to the minute: `2026-11-03 14:05 UTC`."""
    return f"{datetime.fromtimestamp(instant_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def duration(ms: float) -> str:
    """Write a duration in the greatest unit that keeps two figures: `850 ms`, `45 s`, `1 min 30 s`, `2 h`, `3 d`."""
    whole = round(ms)
    if whole < 10 * SECOND_MS:
        return f"{whole} ms" if whole < SECOND_MS else f"{whole / SECOND_MS:.3g} s"
    for unit_ms, name, part_ms, part in (
        (DAY_MS, "d", HOUR_MS, "h"),
        (HOUR_MS, "h", MINUTE_MS, "min"),
        (MINUTE_MS, "min", SECOND_MS, "s"),
    ):
        if whole >= unit_ms:
            count, rest = divmod(round(whole / part_ms), unit_ms // part_ms)
            return f"{count} {name} {rest} {part}" if rest else f"{count} {name}"
    return f"{round(whole / SECOND_MS)} s"


def amount(value: float) -> str:
    """Write a number with three figures: `0.25`, `980`, `12,300`, `4.5 M`."""
    size = abs(value)
    for limit, divisor, suffix in ((1e9, 1e9, " G"), (1e6, 1e6, " M")):
        if size >= limit * 0.9995:
            return f"{value / divisor:.3g}{suffix}"
    if size >= 100 or value == round(value):
        figures = max(0, len(str(int(size))) - 3)
        return f"{round(value, -figures):,.0f}"
    return f"{value:.3g}" if size >= 0.001 else "0"


def count(number: int, noun: str) -> str:
    """Write a number with its noun: `1 group`, `12 groups`."""
    return f"{amount(number)} {noun}{'' if number == 1 else 's'}"


def partition_time(partition_ms: float) -> str:
    """Write partition-milliseconds in the unit that suits: `850 partition-s`, `12.5 partition-h`."""
    seconds = partition_ms / SECOND_MS
    return f"{amount(seconds / 3600)} partition-h" if abs(seconds) >= 36_000 else f"{amount(seconds)} partition-s"


def percent(share: float) -> str:
    """Write a share: `99.7 %`; never 100 % for less, never 0 % for more."""
    per_cent = share * 100
    if share < 1 and per_cent >= 99.95:
        return "> 99.9 %"
    if 0 < per_cent < 0.05:
        return "< 0.1 %"
    return f"{per_cent:.3g} %"
