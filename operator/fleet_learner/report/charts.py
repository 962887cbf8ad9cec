"""The charts of a report: the curves, marks and labels of each.

The one idea: a dash, a shape or a label repeats the meaning of every colour, and every drawing has a sentence that
describes it. Without data a chart is `None`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from . import scales
from .canvas import BAND_OPACITY, COLOURS, add_axes, settings, sheet, to_svg
from .curves import Timeline, Window
from .model import DayCost, GroupPage
from .units import DAY_MS, amount, duration, partition_time, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HOUR_MS: Final = 3_600_000
_ROW_PX: Final = 15
_PLOT_PX: Final = 150
_FOOT_PX: Final = 28
_LANE_PX: Final = 17
_LANES_PX: Final = 82
_STEPS_PX: Final = 62
_DASHES: Final = {"c0": "-", "c1": (0, (5, 2.5)), "c2": (0, (1.5, 2)), "c3": (0, (6, 2, 1.5, 2))}
"""A dash for each colour, so that nobody has to distinguish colours."""


def day_costs(days: Sequence[DayCost], window: Window) -> str:
    """Draw the whole fleet's cost of each day: rebalances below, waiting for members above."""
    top = max((d.rebalance_partition_ms + d.waiting_partition_ms for d in days), default=0)
    unit_ms, unit = _unit(top)
    with settings("days"):
        figure, axes = _sheet(unit + " per day", plot_px=110, legend_rows=1)
        scales.dates(axes, window.start_ms, window.end_ms)
        scales.linear(axes, top / unit_ms)
        starts = [max(d.day_ms, window.start_ms) for d in days]
        below = [d.rebalance_partition_ms / unit_ms for d in days]
        above = [d.waiting_partition_ms / unit_ms for d in days]
        # An unfinished day is as wide as it is long.
        widths = [
            max(min(d.day_ms + 0.86 * DAY_MS, window.end_ms) - start, 1) for d, start in zip(days, starts, strict=True)
        ]
        common: dict[str, Any] = {"width": widths, "align": "edge", "clip_on": False}
        axes.bar(starts, below, color=COLOURS["c0"], label="rebalances", **common)
        hatched: dict[str, Any] = {
            "color": COLOURS["ground"],
            "edgecolor": COLOURS["c1"],
            "hatch": "////",
            "linewidth": 0.8,
        }
        axes.bar(starts, above, bottom=below, label="waiting for members", **hatched, **common)
        _legend(figure)
        what = f"The worst of {len(days)} days lost {partition_time(top)}" if days else "No day was watched"
        return to_svg(figure, title="Partition time without consumption per day", description=what)


def survival(page: GroupPage, salt: str) -> str | None:
    """Draw the share of stops that last longer than a time, with its band."""
    points = [p for p in page.survival if p.gap_ms > 0]
    if not points:
        return None
    gaps = [p.gap_ms for p in points]
    at_ms = page.row.advice.then_ms or page.row.session_timeout_ms or gaps[-1]
    beyond = next((p.survival for p in reversed(points) if p.gap_ms <= at_ms), 1.0)
    with settings(salt):
        marks = _marks(page)
        figure, axes = _sheet("stops that last longer", marks=len(marks), legend_rows=1)
        scales.durations(axes, [*gaps, *(t for t, _, _ in marks)])
        scales.linear(axes, 1.0, written=percent)
        # Begin with all members away: a single value is no curve.
        first = axes.get_xlim()[0]
        xs = [first, *gaps]
        band = axes.fill_between(xs, [1.0, *(p.lower for p in points)], [1.0, *(p.upper for p in points)], step="post",
                                 color=COLOURS["c0"], alpha=BAND_OPACITY, linewidth=0, label="95 % band")  # fmt: skip
        band.set_clip_on(False)
        _line(axes, xs, [1.0, *(p.survival for p in points)], "c0", "share of stops", drawstyle="steps-post")
        _draw_marks(axes, marks)
        _legend(figure)
        description = f"{percent(beyond)} of {page.samples} stops last longer than {duration(at_ms)}"
        return to_svg(figure, title="How long members stay away", description=description)


def cost(page: GroupPage, salt: str) -> str | None:
    """Draw the cost of each session timeout per day: evictions, waiting, and both."""
    if not page.cost:
        return None
    best = min(page.cost, key=lambda p: p.total_partition_ms)
    top = max(p.total_partition_ms for p in page.cost)
    unit_ms, unit = _unit(top)
    timeouts = [p.timeout_ms for p in page.cost]
    with settings(salt):
        marks = _marks(page)
        figure, axes = _sheet(f"{unit} lost per day", marks=len(marks), legend_rows=1)
        scales.durations(axes, [*timeouts, *(t for t, _, _ in marks)])
        scales.linear(axes, top / unit_ms)
        for name, colour, values in (
            ("evictions", "c1", [p.eviction_partition_ms for p in page.cost]),
            ("waiting", "c2", [p.waiting_partition_ms for p in page.cost]),
            ("both", "c0", [p.total_partition_ms for p in page.cost]),
        ):
            _line(axes, timeouts, [value / unit_ms for value in values], colour, name)
        _draw_marks(axes, marks)
        _legend(figure)
        description = f"Least at {duration(best.timeout_ms)}: {partition_time(best.total_partition_ms)} per day"
        return to_svg(figure, title="What a timeout costs", description=description)


def hazard(page: GroupPage, salt: str) -> str | None:
    """Draw the chance per second of a return against ν/κ: waiting pays while the curve is above the line."""
    threshold = page.indifference_per_second
    if not page.hazard or threshold is None:
        return None
    times = [p.gap_ms for p in page.hazard]
    high = max([p.per_second for p in page.hazard] + [threshold]) * 100
    with settings(salt):
        marks = _marks(page)[-1:]
        figure, axes = _sheet("chance of return, % per second", marks=len(marks), legend_rows=1)
        scales.durations(axes, [*times, *(t for t, _, _ in marks)])
        scales.linear(axes, high)
        _line(axes, times, [p.per_second * 100 for p in page.hazard], "c0", "chance of return")
        _line(axes, list(axes.get_xlim()), [threshold * 100] * 2, "c1", "waiting pays above (ν/κ)")
        _draw_marks(axes, marks)
        _legend(figure)
        description = f"Waiting pays while the chance of return is above {amount(threshold * 100)} % per second"
        return to_svg(figure, title="When waiting stops paying", description=description)


def timeline(page: GroupPage, salt: str) -> str:
    """Draw rollouts, restarts and generations over the window."""
    shown, counts = page.timeline, page.row.counts
    lanes = _lanes(shown)
    above_px = _LANE_PX * (len(lanes) + 1)
    with settings(salt):
        figure, axes = sheet(
            above_px + _STEPS_PX + _FOOT_PX + 28, top_px=4, foot_px=_STEPS_PX + _FOOT_PX + 24, left_px=_LANES_PX
        )
        _draw_lanes(axes, shown, lanes)
        below = add_axes(figure, top_px=above_px + 24, foot_px=_FOOT_PX, left_px=_LANES_PX)
        _draw_generations(below, shown)
        for each in (axes, below):
            scales.dates(each, shown.window.start_ms, shown.window.end_ms)
        axes.tick_params(labelbottom=False)
        description = (
            f"{len(shown.rollouts)} rollouts, {counts.restarts} restarts of which {counts.absorbed_restarts} were "
            f"absorbed, {counts.rebalances} rebalances"
        )
        return to_svg(figure, title="Rollouts, restarts and generations", description=description)


def _unit(top_partition_ms: float) -> tuple[int, str]:
    return (_HOUR_MS, "partition-h") if top_partition_ms >= 10 * _HOUR_MS else (1_000, "partition-s")


def _sheet(label: str, *, marks: int = 0, plot_px: int = _PLOT_PX, legend_rows: int = 0) -> tuple[Figure, Axes]:
    """Return a sheet with the vertical axis' label on top, rows for marks above it and for a legend below."""
    top, foot = 22 + _ROW_PX * marks, _FOOT_PX + (_ROW_PX + 6) * legend_rows
    figure, axes = sheet(top + plot_px + foot, top_px=top, foot_px=foot)
    axes.annotate(label, (0, 1), xycoords="axes fraction", xytext=(0, 7), textcoords="offset points")
    return figure, axes


def _line(axes: Axes, xs: Sequence[float], ys: Sequence[float], colour: str, name: str, **more: Any) -> None:
    axes.plot(
        xs, ys, color=COLOURS[colour], linestyle=_DASHES[colour], linewidth=1.7, label=name, clip_on=False, **more
    )


def _legend(figure: Figure) -> None:
    figure.legend(loc="lower left", ncols=3, borderaxespad=0.3, handlelength=2.2, columnspacing=1.2, handletextpad=0.5)


def _marks(page: GroupPage) -> list[tuple[int, str, str]]:
    """Return (timeout, label, colour) of the session timeout in force and of the advised one."""
    now_ms, then_ms = page.row.session_timeout_ms, page.row.advice.then_ms
    marks = []
    if now_ms is not None and now_ms > 0:
        marks.append((now_ms, f"now {duration(now_ms)}", "c1"))
    if then_ms is not None and then_ms > 0:
        marks.append((then_ms, f"advised {duration(then_ms)}", "c3"))
    return marks


def _draw_marks(axes: Axes, marks: Sequence[tuple[int, str, str]]) -> None:
    """Draw a line across the chart for each mark, with its label in a row of its own above, on the free side."""
    low, high = axes.transData.transform([(x, 1.0) for x in axes.get_xlim()])[:, 0]
    for row, (at_ms, words, colour) in enumerate(reversed(marks)):
        offset = 21 + _ROW_PX * row
        share = (axes.transData.transform((at_ms, 1.0))[0] - low) / (high - low)
        is_left = share > 0.5
        axes.annotate(
            words, (at_ms, 1), xycoords=("data", "axes fraction"), xytext=(-4 if is_left else 4, offset),
            textcoords="offset points", ha="right" if is_left else "left", annotation_clip=False,
        )  # fmt: skip
        top = 1 + (offset + 9) / _PLOT_PX
        axes.plot([at_ms, at_ms], [0, top], transform=axes.get_xaxis_transform(), color=COLOURS[colour],
                  linestyle=_DASHES[colour], linewidth=1.3, clip_on=False)  # fmt: skip


_LANE_MARKS: Final = {"absorbed": ("|", "c2"), "evicted": ("^", "c1"), "removed": ("x", "c3"), "timeout": ("D", "c0")}


def _lanes(shown: Timeline) -> list[tuple[str, str, Sequence[int]]]:
    """Return (kind, label, instants) of the lanes below the rollouts, without empty ones."""
    lanes = [
        ("absorbed", "absorbed", shown.absorbed_ms),
        ("evicted", "evicted", shown.evicted_ms),
        ("removed", "removed", shown.removed_ms),
        ("timeout", "timeout set", [at for at, _ in shown.timeout_changes]),
    ]
    return [(kind, words, instants) for kind, words, instants in lanes if instants]


def _draw_lanes(axes: Axes, shown: Timeline, lanes: Sequence[tuple[str, str, Sequence[int]]]) -> None:
    """Draw a lane of bars for the rollouts, and one of marks for each kind of restart."""
    start_ms, end_ms = shown.window.start_ms, shown.window.end_ms
    axes.set_ylim(-len(lanes) - 0.5, 0.5)
    axes.set_yticks([-i for i in range(len(lanes) + 1)], ["rollouts", *(words for _, words, _ in lanes)])
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", pad=9)
    if not shown.rollouts:
        axes.annotate("none was seen", (start_ms, 0), va="center_baseline")
    least = (end_ms - start_ms) / 250
    inside = [span for span in shown.rollouts if span.end_ms >= start_ms and span.start_ms <= end_ms]
    _pieces(axes, [(max(s.start_ms, start_ms), 0, max(s.end_ms, s.start_ms + least), 0) for s in inside], "c0", 8)
    for row, (kind, _, instants) in enumerate(lanes, start=1):
        shape, colour = _LANE_MARKS[kind]
        kept = scales.thinned(instants, start_ms, end_ms, apart_px=1.5 if kind == "absorbed" else 4)
        if kind == "absorbed":
            _pieces(axes, [(at, -row - 0.25, at, 0.25 - row) for at in kept], colour, 1.2)
        else:
            axes.plot(kept, [-row] * len(kept), shape, color=COLOURS[colour], markersize=6, clip_on=False)


def _pieces(axes: Axes, ends: Sequence[tuple[float, float, float, float]], colour: str, width: float) -> None:
    """Draw many straight pieces (x, y, to x, to y) as one path with gaps."""
    xs = [x for begin, _, end, _ in ends for x in (begin, end, math.nan)]
    ys = [y for _, begin, _, end in ends for y in (begin, end, math.nan)]
    axes.plot(xs, ys, color=COLOURS[colour], linewidth=width, solid_capstyle="butt", clip_on=False)


def _draw_generations(axes: Axes, shown: Timeline) -> None:
    """Draw the generation as a step curve, counted from the last value before its first step."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    steps = [(at, value) for at, value in shown.generations if shown.window.start_ms <= at <= shown.window.end_ms]
    if not steps:
        axes.set_yticks([])
        axes.annotate("no rebalance was seen", (0, 0.5), xycoords="axes fraction")
        return
    first = min(value for _, value in steps) - 1
    values = [0, *(value - first for _, value in steps), steps[-1][1] - first]
    instants = [shown.window.start_ms, *(at for at, _ in steps), shown.window.end_ms]
    _line(axes, instants, values, "c0", "generation", drawstyle="steps-post")
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3, integer=True, min_n_ticks=2))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value)))
    label = f"generations after {first:,}" if first else "rebalances"
    axes.annotate(label, (0, 1), xycoords="axes fraction", xytext=(0, 5), textcoords="offset points")
    axes.set_ylim(0, max(*values, 1))
