"""Small charts as inline SVG: lines with a band, stacked areas, a timeline in lanes, a sparkline.

The one idea: a chart is drawn in units of CSS pixels for a narrow column and scales with it (`viewBox`, no width), so
its letters are as large on a phone as on a desk. Every text's width is estimated before it is placed, labels that would
meet are left out or get a row of their own, and whatever colour says is said by a dash, a shape or a word too. Colours
are CSS classes: the page decides between dark and light.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from .axis import Axis, dates
from .model import Timeline

WIDTH = 360
_LETTER = 6.4  # an 11 px letter of the page's sans-serif faces is at most that wide on average (DejaVu Sans)
_ROW = 15
_LEFT, _RIGHT, _FOOT = 48, 12, 34
_TEXT = 'class="t"'

Point = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One curve.

    Parameters
    ----------
    style: number of a colour and a dash, 0 to 3.
    is_step: hold each value until the next point.
    """

    name: str
    points: Sequence[Point]
    style: int = 0
    is_step: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The area between two curves over the same x: (x, lower, upper)."""

    name: str
    points: Sequence[tuple[float, float, float]]
    is_step: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A line across the chart at one x, with its words in a row above the chart."""

    at: float
    text: str
    style: int = 0


def text_width(text: str) -> float:
    """Estimate the width of a text, in units of the drawing."""
    return len(text) * _LETTER


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _path(points: Iterable[Point]) -> str:
    return "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)


def _stepped(points: Sequence[Point]) -> list[Point]:
    """Turn points into the corners of a step curve that holds each value until the next point."""
    corners = list(points[:1])
    for (_, held), (x, y) in itertools.pairwise(points):
        corners += [(x, held), (x, y)]
    return corners


def _text(x: float, y: float, words: str, anchor: str = "start", more: str = _TEXT) -> str:
    return f'<text {more} x="{_number(x)}" y="{_number(y)}" text-anchor="{anchor}">{escape(words)}</text>'


def _figure(title: str, description: str, height: float, parts: Iterable[str]) -> str:
    """Wrap a drawing; a screen reader gets the title and the description instead of the lines."""
    label = f"{title}. {description}"
    drawn = list(parts)
    # Words come last: their halo keeps them readable where a line crosses them.
    ordered = [p for p in drawn if not p.startswith("<text")] + [p for p in drawn if p.startswith("<text")]
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {_number(height)}" role="img" aria-label="{escape(label)}">'
        f"<title>{escape(title)}</title><desc>{escape(description)}</desc>{''.join(ordered)}</svg>"
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """The drawing area between the axes."""

    x: Axis
    y: Axis
    top: float
    height: float

    def place(self, point: Point) -> Point:
        """Return the place of a pair of values on the paper."""
        across, up = self.x.share(point[0]), self.y.share(point[1])
        return _LEFT + across * (WIDTH - _LEFT - _RIGHT), self.top + (1 - up) * self.height

    def axes(self) -> Iterable[str]:
        """Draw grid, ticks and the label of the horizontal axis."""
        yield from _horizontal_ticks(self.x, self.top, self.top + self.height)
        for tick in self.y.ticks:
            _, y = self.place((self.x.low, tick))
            yield f'<path class="grid" d="M{_LEFT} {_number(y)}H{WIDTH - _RIGHT}"/>'
            yield _text(_LEFT - 5, y + 4, self.y.written(tick), "end")
        yield _text(_LEFT, self.top - 8, self.y.label)
        if self.x.label:
            yield _text(WIDTH - _RIGHT, self.top + self.height + 30, self.x.label, "end")


def _horizontal_ticks(axis: Axis, top: float, bottom: float) -> Iterable[str]:
    """Draw the ticks of a horizontal axis, leaving out words that would touch the ones before."""
    free_from = _LEFT - 3.0  # left of it is the vertical axis' own writing
    for tick in axis.ticks:
        x = _LEFT + axis.share(tick) * (WIDTH - _LEFT - _RIGHT)
        yield f'<path class="grid" d="M{_number(x)} {_number(top)}V{_number(bottom)}"/>'
        half = text_width(axis.written(tick)) / 2
        middle = min(x, WIDTH - half)
        if middle - half >= free_from:
            yield _text(middle, bottom + 15, axis.written(tick), "middle")
            free_from = middle + half + _LETTER


def _legend(entries: Sequence[tuple[str, str]], top: float) -> tuple[list[str], float]:
    """Write (drawing of a sample 22 wide, words) in as many rows as they need; returns the parts and their height."""
    parts, x, y = [], float(_LEFT), top
    for sample, words in entries:
        width = 28 + text_width(words)
        if x > _LEFT and x + width > WIDTH:
            x, y = float(_LEFT), y + _ROW
        parts.append(f'<g transform="translate({_number(x)} {_number(y)})">{sample}{_text(28, 4, words)}</g>')
        x += width + 10
    return parts, y - top + _ROW if entries else 0.0


def line_chart(
    *,
    title: str,
    description: str,
    x: Axis,
    y: Axis,
    lines: Sequence[Line],
    band: Band | None = None,
    marks: Sequence[Mark] = (),
    height: float = 150,
) -> str:
    """Draw curves, an optional band under them, and marks across them.

    Parameters
    ----------
    title, description: for those who do not see the drawing; the description says what the curves say.
    height: of the drawing area, in units of the drawing (the width is `WIDTH`).

    Returns
    -------
    The SVG element.
    """
    top = 20.0 + _ROW * len(marks)
    frame = _Frame(x, y, top, height)
    parts = list(frame.axes())
    if band:
        parts.append(f'<path class="band" d="{_band_path(frame, band)}Z"/>')
    for line in lines:
        points = [frame.place(p) for p in (_stepped(line.points) if line.is_step else line.points)]
        if points:
            parts.append(f'<path class="line s{line.style}" d="{_path(points)}"/>')
    for row, mark in enumerate(marks):
        parts += _mark(frame, mark, _ROW * row + 10.0)
    entries = [(f'<path class="line s{line.style}" d="M0 0H22"/>', line.name) for line in lines]
    if band:
        entries.append(('<path class="band" d="M0 -5H22V5H0Z"/>', band.name))
    below, legend_height = _legend(entries, top + height + _FOOT + 8)
    return _figure(title, description, top + height + _FOOT + 2 + legend_height, parts + below)


def _band_path(frame: _Frame, band: Band) -> str:
    lower: Sequence[Point] = [(x, low) for x, low, _ in band.points]
    upper: Sequence[Point] = [(x, high) for x, _, high in band.points]
    if band.is_step:
        lower, upper = _stepped(lower), _stepped(upper)
    return _path([frame.place(p) for p in [*upper, *reversed(lower)]])


def _mark(frame: _Frame, mark: Mark, y: float) -> list[str]:
    """Draw a mark's line from its row of words down to the axis, the words on the side where there is room."""
    x, bottom = frame.place((mark.at, frame.y.low))
    width = text_width(mark.text)
    fits_right = x + 5 + width <= WIDTH
    words = _text(x + 5, y, mark.text) if fits_right else _text(max(x - 5, width), y, mark.text, "end")
    return [f'<path class="mark s{mark.style}" d="M{_number(x)} {_number(y - 9)}V{_number(bottom)}"/>', words]


def stacked_days(
    *,
    title: str,
    description: str,
    x: Axis,
    y: Axis,
    names: tuple[str, str],
    days: Sequence[tuple[float, float, float]],
) -> str:
    """Draw one bar a day of two parts, (day, lower part, upper part); the upper part is hatched."""
    top, height = 20.0, 110.0
    frame = _Frame(x, y, top, height)
    parts = list(frame.axes())
    room = (WIDTH - _LEFT - _RIGHT) / max(1, len(days))
    for start, below, above in days:
        left, foot = frame.place((start, y.low))
        _, middle = frame.place((start, below))
        _, head = frame.place((start, below + above))
        for low, high, kind in ((foot, middle, "bar"), (middle, head, "bar hatch")):
            if low - high >= 0.05:
                parts.append(
                    f'<rect class="{kind}" x="{_number(left + 0.5)}" y="{_number(high)}" '
                    f'width="{_number(max(room - 1, 1))}" height="{_number(low - high)}"/>'
                )
    samples = [(f'<rect class="{kind}" y="-6" width="22" height="11"/>', name)
               for kind, name in zip(("bar", "bar hatch"), names, strict=True)]  # fmt: skip
    below_parts, legend_height = _legend(samples, top + height + _FOOT)
    return _figure(title, description, top + height + _FOOT - 6 + legend_height, parts + below_parts)


def sparkline(values: Sequence[float], label: str) -> str:
    """Draw a line of one row's height; the greatest value touches the top, zero the bottom."""
    high = max(values, default=0) or 1
    step = 80 / max(1, len(values) - 1)
    path = _path((i * step, 17 - 15 * value / high) for i, value in enumerate(values)) if values else ""
    return (
        f'<svg class="spark" viewBox="0 0 80 18" role="img" aria-label="{escape(label)}">'
        f'<path class="line s0" d="{path}"/></svg>'
    )


_SHAPES = {
    "absorbed": '<path class="glyph absorbed" d="M{x} {y}m0 -4v8"/>',
    "evicted": '<path class="glyph evicted" d="M{x} {y}m-4 4h8l-4 -8z"/>',
    "removed": '<path class="glyph removed" d="M{x} {y}m-3 -3l6 6m0 -6l-6 6"/>',
    "timeout": '<path class="glyph timeout" d="M{x} {y}m0 -4l4 4l-4 4l-4 -4z"/>',
}


def _shapes(kind: str, axis: Axis, instants: Iterable[float], y: float) -> Iterable[str]:
    """Draw one shape per instant; instants that fall on the same tenth of a pixel are one shape."""
    places = sorted({_number(_LEFT + axis.share(at) * (WIDTH - _LEFT - _RIGHT)) for at in instants}, key=float)
    return (_SHAPES[kind].format(x=x, y=_number(y)) for x in places)


def timeline_chart(timeline: Timeline, *, title: str, description: str) -> str:
    """Draw rollouts, restarts and generations in three lanes over one axis of days.

    Returns
    -------
    The SVG element.
    """
    axis = dates(timeline.window.start_ms, timeline.window.end_ms)
    across = WIDTH - _LEFT - _RIGHT
    bottom = 158.0
    parts = list(_horizontal_ticks(axis, 20, bottom))
    parts.append(_text(_LEFT, 14, "rollouts"))
    for span in timeline.rollouts:
        x, end = (_LEFT + axis.share(at) * across for at in (span.start_ms, span.end_ms))
        parts.append(f'<rect class="bar" x="{_number(x)}" y="20" width="{_number(max(end - x, 1.5))}" height="10"/>')
    parts.append(_text(_LEFT, 50, "restarts"))
    for kind, instants, y in (
        ("absorbed", timeline.absorbed_ms, 60.0),
        ("evicted", timeline.evicted_ms, 72.0),
        ("removed", timeline.removed_ms, 72.0),
        ("timeout", tuple(at for at, _ in timeline.timeout_changes), 60.0),
    ):
        parts += _shapes(kind, axis, instants, y)
    parts.append(_text(_LEFT, 97, "generation"))
    parts += _generations(timeline, axis, 104.0, bottom)
    shown = [("absorbed", "absorbed"), ("evicted", "evicted")]
    shown += [("removed", "removed by the operator")] if timeline.removed_ms else []
    shown += [("timeout", "timeout changed")] if timeline.timeout_changes else []
    samples = [(_SHAPES[kind].format(x=11, y=0), words) for kind, words in shown]
    legend, height = _legend(samples, bottom + 36)
    return _figure(title, description, bottom + 28 + height, parts + legend)


def _generations(timeline: Timeline, axis: Axis, top: float, bottom: float) -> Iterable[str]:
    """Draw the generation as a step curve between its first and its last value, which are written at the left."""
    steps = timeline.generations
    if not steps:
        yield _text(_LEFT, (top + bottom) / 2 + 8, "no rebalance was seen")
        return
    low, high = steps[0][1] - 1, steps[-1][1]
    scale = (bottom - top) / max(1, high - low)
    points: list[Point] = [(timeline.window.start_ms, low), *steps, (timeline.window.end_ms, high)]
    corners = _stepped(points)
    across = WIDTH - _LEFT - _RIGHT
    yield f'<path class="line s0" d="{_path((_LEFT + axis.share(x) * across, bottom - (y - low) * scale) for x, y in corners)}"/>'
    for value, y in ((high, top + 4), (low, bottom)):
        yield _text(_LEFT - 5, y + (0 if value == low else 4), str(value), "end")
