"""Axes for any data: one day or a year, a thousand values, one or none.

The one idea: the ends of an axis are ticks, so any axis has at least two. Matplotlib's locators choose them; durations
get the steps of a clock, which are not powers of ten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from .canvas import LEFT_PX, RIGHT_PX, WIDTH_PX
from .units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, amount, clock, day, duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CLOCK_MS: Final = tuple(
    number * unit
    for unit, numbers in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (SECOND_MS, (1, 2, 5, 10, 20, 30)),
        (MINUTE_MS, (1, 2, 5, 10, 20, 30)),
        (HOUR_MS, (1, 2, 6, 12)),
        (DAY_MS, (1, 2, 7, 14, 28, 91, 364, 3_640, 36_400)),
    )
    for number in numbers
)
_DURATION_TICKS: Final = 6
_VALUE_TICKS: Final = 4
_DATE_TICKS: Final = 5
_LETTER_PX: Final = 7.0  # of the widest digits, DejaVu Sans at 11 px


def linear(axes: Axes, high: float, *, written: Callable[[float], str] = amount) -> None:
    """Scale the vertical axis from zero to the first nice tick at or above `high`; to one if that is zero."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    top = high if math.isfinite(high) and high > 1e-9 else 1.0
    ticks = MaxNLocator(nbins=_VALUE_TICKS, steps=[1, 2, 2.5, 5, 10]).tick_values(0.0, top)
    axes.set_ylim(0.0, float(ticks[-1]))
    axes.yaxis.set_major_locator(FixedLocator([float(t) for t in ticks if t >= 0.0]))
    is_tiny = top < 0.01  # amounts would round to zero
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2g}" if is_tiny else written(value)))


def durations(axes: Axes, values_ms: Iterable[float]) -> None:
    """Scale the horizontal axis logarithmically from one step of a clock to another, with all values between them."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    known = [max(float(value), 1.0) for value in values_ms] or [float(SECOND_MS), float(MINUTE_MS)]
    first = max((i for i, step in enumerate(_CLOCK_MS) if step <= min(known)), default=0)
    last = min((i for i, step in enumerate(_CLOCK_MS) if step >= max(known)), default=len(_CLOCK_MS) - 1)
    last = max(last, first + 1)
    first = min(first, last - 1)
    chosen = _spread(_CLOCK_MS[first : last + 1])
    axes.set_xscale("log")
    axes.set_xlim(chosen[0], max(chosen[-1], *known))
    axes.xaxis.set_major_locator(FixedLocator(_apart(axes, chosen, duration)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))


def _spread(steps: tuple[int, ...]) -> list[int]:
    """Keep as many steps as their labels fit, including both ends."""
    every = math.ceil((len(steps) - 1) / (_DURATION_TICKS - 1))
    return [*steps[:-1][::every], steps[-1]]


def _apart(axes: Axes, ticks: Sequence[float], written: Callable[[float], str]) -> list[float]:
    """Drop ticks whose labels would touch the previous label; of the last two the last one stays."""
    across = axes.get_position().width * WIDTH_PX

    def place(tick: float) -> float:
        shown = axes.transData.transform((tick, 1.0))[0]
        begin, end = (axes.transData.transform((x, 1.0))[0] for x in axes.get_xlim())
        return float((shown - begin) / max(end - begin, 1e-9) * across)

    def meets(one: float, other: float) -> bool:
        return abs(place(other) - place(one)) < (len(written(one)) + len(written(other)) + 1) / 2 * _LETTER_PX

    kept: list[float] = []
    for tick in ticks:
        if not kept or not meets(kept[-1], tick):
            kept.append(tick)
    if kept[-1] != ticks[-1] and len(kept) > 1:
        kept[-1] = ticks[-1]
    return kept


def dates(axes: Axes, start_ms: int, end_ms: int) -> None:
    """Scale the horizontal axis over a window of UTC instants in milliseconds, ticks at midnight or at full hours."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    end_ms = max(end_ms, start_ms + HOUR_MS)
    step_ms = next((s for s in _CLOCK_MS if s >= HOUR_MS and s * _DATE_TICKS >= end_ms - start_ms), _CLOCK_MS[-1])
    ticks = list(range(-(-start_ms // step_ms) * step_ms, end_ms + 1, step_ms)) or [start_ms, end_ms]
    axes.set_xlim(start_ms, end_ms)

    def written(at_ms: float) -> str:
        return day(at_ms) if at_ms % DAY_MS == 0 or step_ms >= DAY_MS else clock(at_ms)

    axes.xaxis.set_major_locator(FixedLocator(_apart(axes, ticks, written)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value)))


def thinned(instants: Iterable[float], start_ms: int, end_ms: int, *, apart_px: float) -> list[float]:
    """Keep one of the instants of a window that would be drawn on top of each other."""
    ms_per_px = max(end_ms - start_ms, 1) / (WIDTH_PX - LEFT_PX - RIGHT_PX)
    inside = sorted(at for at in instants if start_ms <= at <= end_ms)
    kept = inside[:1]
    for at in inside[1:]:
        if at - kept[-1] >= apart_px * ms_per_px:
            kept.append(at)
    return kept
