"""The figures that tests measure on the real system: printed where they arise, and kept for one table at the end.

The one idea: a figure is a line of JSON in build/figures.jsonl, so that a table is made from a file and not from logs.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.long_drills import are_drills_long

FIGURES = Path(__file__).parents[3] / "build" / "figures.jsonl"


def record(name: str, **values: Any) -> None:
    """Print the figures of one measurement and append them as one JSON line.

    Parameters
    ----------
    name: of what was measured, in words.
    values: JSON types, with the unit in each name.
    """
    line = json.dumps({"name": name, "at_ms": time.time_ns() // 1_000_000, **values})
    print(f"figures: {line}")
    FIGURES.parent.mkdir(exist_ok=True)
    with FIGURES.open("a") as file:
        file.write(line + "\n")


def prompt_s(quiet_s: float, *, otherwise_s: float) -> float:
    """Return how long something may take: its budget where nothing runs beside it, which is so in the long forms.

    Parameters
    ----------
    quiet_s: the budget, seconds.
    otherwise_s: seconds on a machine that does something else as well, where only an order of magnitude proves
        anything: what the thing would take without the operator's work, a session's end say, must be well beyond.
    """
    return quiet_s if are_drills_long() else otherwise_s


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return count, minimum, median, 95th percentile (nearest rank) and maximum of measurements."""
    if not values:
        raise ValueError("nothing was measured")
    ordered = sorted(values)
    return {
        "count": len(ordered), "min": round(ordered[0], 3), "median": round(statistics.median(ordered), 3),
        "p95": round(ordered[-(-len(ordered) * 95 // 100) - 1], 3), "max": round(ordered[-1], 3),
    }  # fmt: skip
