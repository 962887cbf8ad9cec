"""Draws a scenario as an SVG: each happening as two strips of time, without and with StaticGroup, and their costs.

The one idea: a bar is the share of partitions that nobody works on, so what is empty is good.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape

from .comparison import Cost, History
from .scenario import Happening, Scenario
from .words import chapters, clock, sentence, words

WIDTH, LEFT, RIGHT = 960, 90, 20
STRIP_HEIGHT, CHAPTER_HEIGHT, HEADER_HEIGHT, ROW_HEIGHT = 34, 138, 70, 22
BARS: Final = 300
COLOURS: Final = {"without": "#c2410c", "with": "#15803d"}
_STYLE: Final = (
    "text{font-family:system-ui,sans-serif;font-size:13px;fill:#1f2937}"
    ".title{font-size:17px;font-weight:600}.dim{fill:#6b7280}.head{font-weight:600}.number{text-anchor:end}"
)


def drawn(scenario: Scenario, without: History, with_operator: History) -> str:
    """Return the SVG of a scenario.

    Parameters
    ----------
    without, with_operator: what the two worlds went through.
    """
    parts: list[str] = []
    y = float(HEADER_HEIGHT)
    worlds = (("without", without), ("with", with_operator))
    for happening, end_s in chapters(scenario):
        if end_s > happening.at_seconds:
            parts += _chapter(scenario, happening, end_s, worlds, y)
            y += CHAPTER_HEIGHT
        else:
            parts.append(_text(LEFT, y + 14, f"{_headline(happening)}, and at the same moment:", "head"))
            y += ROW_HEIGHT
    total = scenario.length_s
    parts += _table(without.cost(0.0, total), with_operator.cost(0.0, total), y)
    height = y + 7 * ROW_HEIGHT
    title = f"{scenario.name}: {scenario.pods} pods, {scenario.partitions} partitions, {scenario.protocol} protocol"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" '
        f'aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height:g}" fill="#ffffff"/>',
        _text(LEFT, 28, title, "title"),
        _text(LEFT, 50, "Time runs from left to right; a bar is the share of partitions that nobody works on.", "dim"),
        *parts,
        "</svg>",
    ]) + "\n"  # fmt: skip


def _chapter(
    scenario: Scenario, happening: Happening, end_s: float, worlds: tuple[tuple[str, History], ...], y: float
) -> Iterator[str]:
    yield _text(LEFT, y + 14, _headline(happening), "head")
    for number, (label, history) in enumerate(worlds):
        top = y + 24 + number * (STRIP_HEIGHT + 20)
        yield _text(LEFT - 12, top + STRIP_HEIGHT - 6, label, "number dim")
        yield from _strip(scenario, history, happening.at_seconds, end_s, top, COLOURS[label])
        cost = history.cost(happening.at_seconds, end_s)
        yield _text(LEFT, top + STRIP_HEIGHT + 14, words(cost), "dim")


def _strip(
    scenario: Scenario, history: History, from_s: float, until_s: float, top: float, colour: str
) -> Iterator[str]:
    """Yield the frame of a strip and a bar for each part of the time in which something is idle."""
    width = WIDTH - LEFT - RIGHT
    yield f'<rect x="{LEFT}" y="{top:g}" width="{width}" height="{STRIP_HEIGHT}" fill="#f3f4f6"/>'
    bar_width = width / BARS
    for place, idle in enumerate(history.idle(from_s, until_s, BARS)):
        height = STRIP_HEIGHT * min(1.0, idle / scenario.partitions)
        if height > 0:
            x, bar_top = LEFT + place * bar_width, top + STRIP_HEIGHT - height
            yield (
                f'<rect x="{x:.2f}" y="{bar_top:.2f}" width="{bar_width:.2f}" height="{height:.2f}" fill="{colour}"/>'
            )


def _table(without: Cost, with_operator: Cost, y: float) -> Iterator[str]:
    rows = (
        ("in all", "without", "with"),
        ("rebalances", without.rebalances, with_operator.rebalances),
        ("partitions moved", without.moved, with_operator.moved),
        ("idle partition-seconds", round(without.idle_s), round(with_operator.idle_s)),
        ("double partition-seconds", round(without.double_s), round(with_operator.double_s)),
    )
    for number, (name, before, after) in enumerate(rows):
        line, kind = y + 24 + number * ROW_HEIGHT, "head" if number == 0 else ""
        yield _text(LEFT, line, name, kind)
        yield _text(LEFT + 290, line, str(before), f"{kind} number")
        yield _text(LEFT + 380, line, str(after), f"{kind} number")


def _headline(happening: Happening) -> str:
    return f"{clock(happening.at_seconds).strip()}  {sentence(happening)}"


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind.strip()}">{escape(text)}</text>'
