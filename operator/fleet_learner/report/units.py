"""Format numbers for people: durations, instants, shares, amounts, partition time, money.

The one idea: three significant figures, a suitable unit, and no rounding of a share to 0 % or 100 %.
"""

from __future__ import annotations

from datetime import UTC, datetime

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
WEEK_DAYS = 7


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
            number, rest = divmod(round(whole / part_ms), unit_ms // part_ms)
            return f"{number} {name} {rest} {part}" if rest else f"{number} {name}"
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
    return f"{amount(seconds / 3600)} partition-h" if _is_long(partition_ms) else f"{amount(seconds)} partition-s"


def partition_span(low_ms: float, high_ms: float) -> str:
    """Write two ends in one unit, that of the greater: `19 to 35 partition-h`."""
    is_long = _is_long(max(abs(low_ms), abs(high_ms)))
    ends = [ms / SECOND_MS / (3600 if is_long else 1) for ms in (low_ms, high_ms)]
    return f"{amount(ends[0])} to {amount(ends[1])} partition-{'h' if is_long else 's'}"


def _is_long(partition_ms: float) -> bool:
    return abs(partition_ms) >= 36_000 * SECOND_MS


def percent(share: float) -> str:
    """Write a share: `99.7 %`; never 100 % for less, never 0 % for more."""
    per_cent = share * 100
    if share < 1 and per_cent >= 99.95:
        return "> 99.9 %"
    if 0 < per_cent < 0.05:
        return "< 0.1 %"
    return f"{per_cent:.3g} %"
