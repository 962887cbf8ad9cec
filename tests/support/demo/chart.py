"""Draws what a run of the demo measured, as an SVG: a row for each partition, a bar while nobody consumes it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, ROW, GAP = 900, 120, 20, 7, 34
COLOURS: Final = {"without": "#c2410c", "with": "#15803d"}
STYLE: Final = (
    "text{font-family:system-ui,sans-serif;font-size:13px;fill:#1f2937}.title{font-size:16px;font-weight:600}"
    ".dim{fill:#6b7280}.number{text-anchor:end}"
)
Json = Mapping[str, Any]


def drawn(figures: Json, partitions: int, pods: int = 3) -> str:
    """Return the picture of a run.

    Parameters
    ----------
    figures: `Figures` as build/demo.json has them. partitions, pods: of each group.
    """
    has_state = figures.get("state_without") is not None
    roll = ("state_without", "state_with") if has_state else ("roll_without", "roll_with")
    scenes = (
        (f"Rolling deploy of {pods} pods" + (" with state" if has_state else ""), roll, _of_roll),
        (f"Scale-down from {pods} pods to {pods - 1}", ("scale_down_without", "scale_down_with"), _of_scale_down),
    )
    parts, y = [_text(LEFT, 24, "A row is a partition; a bar: nobody consumes it. Measured in one run.", "dim")], 44.0
    for title, names, said in scenes:
        pair = [figures[name] for name in names]
        length_s = max(each["course"]["length_s"] for each in pair)
        parts.append(_text(LEFT, y + 14, title, "title"))
        y += 26
        for label, each in zip(("without", "with"), pair, strict=True):
            parts += _panel(label, each["course"], length_s, partitions, said(each), y)
            y += partitions * ROW + GAP
        parts.append(_text(WIDTH - RIGHT, y - 16, f"{length_s:.0f} s", "dim number"))
        y += 12
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:g}" role="img"'
    label = escape("; ".join(title for title, _, _ in scenes))
    rest = [f"<style>{STYLE}</style>", f'<rect width="{WIDTH}" height="{y:g}" fill="#ffffff"/>', *parts, "</svg>"]
    return "\n".join([f'{head} aria-label="{label}">', *rest]) + "\n"


def _panel(label: str, course: Json, length_s: float, partitions: int, said: str, y: float) -> Iterator[str]:
    width, height = WIDTH - LEFT - RIGHT, partitions * ROW
    yield _text(LEFT - 12, y + height / 2 + 4, label, "number")
    yield f'<rect x="{LEFT}" y="{y:g}" width="{width}" height="{height}" fill="#f3f4f6"/>'
    for partition, from_s, until_s in course["stops"]:
        x, length = LEFT + width * from_s / length_s, max(1.0, width * (until_s - from_s) / length_s)
        top = y + partition * ROW + 1
        yield f'<rect x="{x:.1f}" y="{top:g}" width="{length:.1f}" height="{ROW - 2}" fill="{COLOURS[label]}"/>'
    yield _text(LEFT, y + height + 16, said, "dim")


def _of_roll(roll: Json) -> str:
    rebuilt = f", {roll['rebuilds']} states read again" if roll.get("rebuilds") is not None else ""
    still = f"{roll['stillness']['sum_s']:.0f} partition-seconds at a standstill"
    return f"{roll['rebalances']} rebalances{rebuilt}, {still}"


def _of_scale_down(down: Json) -> str:
    return f"its partitions stood still for {down['takeover_s']:.1f} s; member ended by {down['member_ended_by']}"


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'


def main(arguments: list[str]) -> int:
    """Draw build/demo.json into the file that is named."""
    from support.demo.report import REPORT
    from support.demo.role import PARTITIONS

    run = json.loads(REPORT.read_text())
    Path(arguments[0]).write_text(drawn(run["figures"], PARTITIONS, run["replicas"]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
