"""The figures of restarts as rows of a table: medians over all that were measured, and how many those were.

`python -m support.connect.table [FIGURES]` prints the rows of docs/reference/connect-workers.md.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from support.scene.figures import FIGURES

HEAD = (
    "| restart | runs | rebalances | process down | own tasks down, median (longest) | others stopped | moved |",
    "|---|---|---|---|---|---|---|",
)


def rows(figures: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return one row for each name of restarts, in the order of their first figures; counts are the highest seen."""
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for figure in figures:
        if "own_tasks_down_s" in figure:
            by_name.setdefault(figure["name"], []).append(figure)
    return [_row(name, restarts) for name, restarts in by_name.items()]


def _row(name: str, restarts: Sequence[Mapping[str, Any]]) -> str:
    down = [each["own_tasks_down_s"] for each in restarts]
    restart_s = statistics.median(each["restart_s"] for each in restarts)
    counts = [str(max(each[count] for each in restarts)) for count in ("generations", "others_stopped", "moved")]
    return (
        f"| {name} | {len(restarts)} | {counts[0]} | {restart_s:.1f} s "
        f"| {statistics.median(down):.1f} s ({max(down):.1f} s) | {counts[1]} | {counts[2]} |"
    )


if __name__ == "__main__":
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else FIGURES
    print(*HEAD, *rows(json.loads(line) for line in source.read_text().splitlines()), sep="\n")
