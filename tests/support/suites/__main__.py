"""Run groups of suites: `python -m support.suites check e2e`.

Each suite has a budget that is printed beside the time it took; a suite that overruns is reported, not failed, because a busy
machine proves nothing. The figures that the end-to-end tests measured are printed at the end.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from support.suites.running import REPOSITORY, run_in_order
from support.suites.table import SUITES, order_of

FIGURES = REPOSITORY / "build" / "figures.jsonl"


def main(names: Sequence[str]) -> int:
    """Run the named groups of suites and return the exit code."""
    unknown = [n for n in names if n not in SUITES]
    if unknown or not names:
        print(f"usage: python -m support.suites {' '.join(SUITES)}; unknown: {unknown}", file=sys.stderr)
        return 2
    FIGURES.parent.mkdir(exist_ok=True)
    FIGURES.unlink(missing_ok=True)
    began_s = time.monotonic()
    done = run_in_order(order_of(names))
    _print_figures()
    print("\nsuite                 seconds  budget")
    for ran in done:
        over = "  over budget" if ran.seconds > ran.suite.budget_s else ""
        said = f"{'FAILED' if ran.status else 'passed'}{over}"
        print(f"{ran.suite.name:20} {ran.seconds:8.1f} {ran.suite.budget_s:7d}  {said}")
    for ran in done:
        if ran.status:
            print(f"\n{ran.suite.name} failed:", *ran.complaints, sep="\n  ")
    failed = sum(1 for ran in done if ran.status)
    print(f"{len(done) - failed} passed, {failed} failed, in {time.monotonic() - began_s:.0f} s")
    return 1 if failed else 0


def _print_figures() -> None:
    """Print what the end-to-end tests measured in this run."""
    if not FIGURES.exists():
        return
    print("\nfigures of this run")
    for line in FIGURES.read_text().splitlines():
        row = json.loads(line)
        name = row.pop("name")
        row.pop("at_ms", None)
        print(f"  {name}: " + ", ".join(f"{k} {v}" for k, v in row.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
