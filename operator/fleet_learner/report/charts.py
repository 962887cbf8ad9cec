"""The charts of a report: which curves, marks and words each question needs."""

from __future__ import annotations

from collections.abc import Sequence

from . import svg
from .axis import amount, dates, duration, durations, linear, partition_time, percent
from .model import DayCost, GroupPage, GroupRow, Window

_HOUR_MS = 3_600_000
_PARTITION_MS_PER_HOUR = 3_600_000


def day_costs(days: Sequence[DayCost], window: Window) -> str:
    """Draw what each day cost the whole fleet: rebalances below, waiting for members above."""
    top = max((d.rebalance_partition_ms + d.waiting_partition_ms for d in days), default=0) / _PARTITION_MS_PER_HOUR
    return svg.stacked_days(
        title="Partition time without consumption per day",
        description=f"Between {len(days)} days; the worst day lost {amount(top)} partition-hours",
        x=dates(window.start_ms, window.end_ms),
        y=linear("partition-hours per day", 0, top, amount),
        names=("rebalances", "waiting for members"),
        days=[
            (
                d.day_ms,
                d.rebalance_partition_ms / _PARTITION_MS_PER_HOUR,
                d.waiting_partition_ms / _PARTITION_MS_PER_HOUR,
            )
            for d in days
        ],
    )


def timeout_marks(row: GroupRow) -> list[svg.Mark]:
    """Return a mark for the session timeout in force and one for the recommended."""
    marks = []
    if row.session_timeout_ms is not None:
        marks.append(svg.Mark(at=row.session_timeout_ms, text=f"now {duration(row.session_timeout_ms)}", style=1))
    if row.recommended_timeout_ms not in (None, row.session_timeout_ms):
        chosen_ms = row.recommended_timeout_ms
        assert chosen_ms is not None
        marks.append(svg.Mark(at=chosen_ms, text=f"recommended {duration(chosen_ms)}", style=3))
    return marks


def _timeouts(page: GroupPage) -> list[int]:
    return [t for t in (page.row.session_timeout_ms, page.row.recommended_timeout_ms) if t is not None]


def survival(page: GroupPage) -> str:
    """Draw the share of stops that last longer than a time, with its band."""
    gaps = [p.gap_ms for p in page.survival if p.gap_ms > 0]
    low, high = min([*gaps, *_timeouts(page)]), max([*gaps, *_timeouts(page)])
    points = [p for p in page.survival if p.gap_ms > 0]
    chosen_ms = page.row.recommended_timeout_ms or page.row.session_timeout_ms or high
    beyond = next((p.survival for p in reversed(points) if p.gap_ms <= chosen_ms), 1.0)
    return svg.line_chart(
        title="How long members stay away",
        description=f"{percent(beyond)} of {page.samples} stops last longer than {duration(chosen_ms)}",
        x=durations("time away", max(low * 0.8, 1), high * 1.1),
        y=linear("stops that last longer", 0, 1, percent),
        lines=[svg.Line(name="share of stops", points=[(p.gap_ms, p.survival) for p in points], is_step=True)],
        band=svg.Band(name="95 % band", points=[(p.gap_ms, p.lower, p.upper) for p in points], is_step=True),
        marks=timeout_marks(page.row),
    )


def cost(page: GroupPage) -> str:
    """Draw what each session timeout costs per day: evictions, waiting, and both."""
    best = min(page.cost, key=lambda p: p.total_partition_ms)
    high = max(p.total_partition_ms for p in page.cost)
    unit_ms, unit = (_PARTITION_MS_PER_HOUR, "partition-h") if high >= 10 * _HOUR_MS else (1000, "partition-s")
    timeouts = [p.timeout_ms for p in page.cost]

    def curve(name: str, style: int, values: Sequence[int]) -> svg.Line:
        points = [(t, value / unit_ms) for t, value in zip(timeouts, values, strict=True)]
        return svg.Line(name=name, points=points, style=style)

    return svg.line_chart(
        title="What a timeout costs",
        description=f"Least at {duration(best.timeout_ms)}: {partition_time(best.total_partition_ms)} per day",
        x=durations("session timeout", min([*timeouts, *_timeouts(page)]), max([*timeouts, *_timeouts(page)])),
        y=linear(f"{unit} lost per day", 0, high / unit_ms, amount),
        lines=[
            curve("both", 0, [p.total_partition_ms for p in page.cost]),
            curve("evictions", 1, [p.eviction_partition_ms for p in page.cost]),
            curve("waiting", 2, [p.waiting_partition_ms for p in page.cost]),
        ],
        marks=timeout_marks(page.row),
    )


def hazard(page: GroupPage) -> str:
    """Draw the chance per second of a return against ν/κ: waiting pays while the curve is above the line."""
    line = page.indifference_per_second or 0.0
    times = [p.gap_ms for p in page.hazard]
    high = max([p.per_second for p in page.hazard] + [line])
    ends = ((min(times), line), (max(times), line))
    return svg.line_chart(
        title="When waiting stops paying",
        description=f"Waiting pays while the chance of return is above {amount(line * 100)} % per second",
        x=durations("time away", min(times), max(times)),
        y=linear("chance of return, % per second", 0, high * 100, amount),
        lines=[
            svg.Line(name="chance of return", points=[(p.gap_ms, p.per_second * 100) for p in page.hazard]),
            svg.Line(name="ν/κ", points=[(t, v * 100) for t, v in ends], style=1),
        ],
        marks=timeout_marks(page.row)[-1:],
    )


def timeline(page: GroupPage) -> str:
    """Draw rollouts, restarts and generations over the window."""
    shown, counts = page.timeline, page.row.counts
    return svg.timeline_chart(
        shown,
        title="Rollouts, restarts and generations",
        description=(
            f"{len(shown.rollouts)} rollouts, {counts.restarts} restarts of which {counts.absorbed_restarts} were "
            f"absorbed, {counts.rebalances} rebalances"
        ),
    )
