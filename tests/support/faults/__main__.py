"""`python -m support.faults`: every fault in every phase on a cluster and broker of its own; writes the outcomes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.fault_proxy.kafka_relay import KafkaFault
from support.fault_proxy.kube_front import FRONT_FAULTS
from support.faults.phases import Phase
from support.faults.run import RESULTS, play_all, without_operator
from support.faults.table import ALL_FAULTS, complaints, said, summary, table
from support.scene.__main__ import down
from support.scene.stage import Stage

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "faults.md"
BEGIN, END = "<!-- figures: faults -->", "<!-- /figures -->"


def write_page(results: Sequence[dict[str, Any]]) -> None:
    """Put the figures into the reference page.

    Parameters
    ----------
    results: cells, of which a later one replaces an earlier one, and what each run said of live members.
    """
    removed = sum(each.get("live_members_removed", 0) for each in results)
    rows = [*{(each["fault"], each["phase"]): each for each in results if "fault" in each}.values()]
    lines = [
        "", *summary(rows, removed), "", *table(rows, FRONT_FAULTS), "", *table(rows, tuple(KafkaFault)), "",
        *said(rows, ALL_FAULTS), "",
    ]  # fmt: skip
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + "\n".join(lines) + END + rest.partition(END)[2])


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m support.faults", description=__doc__)
    parser.add_argument("--cluster", default="sg-faults", help="name of cluster and broker (default: %(default)s)")
    parser.add_argument(
        "--faults", nargs="+", metavar="FAULT", default=[str(f) for f in ALL_FAULTS],
        choices=[str(f) for f in ALL_FAULTS],
    )  # fmt: skip
    parser.add_argument(
        "--phases", nargs="+", metavar="PHASE", default=[str(p) for p in Phase], choices=[str(p) for p in Phase]
    )
    parser.add_argument("--lanes", type=int, default=4, help="faults at a time (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave cluster and broker running")
    parser.add_argument(
        "--write", action="store_true", help="write docs/reference/faults.md from all cells of build/faults"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Play, print, and return 0 when nothing was wrong."""
    options = options_of(arguments)
    faults = [f for f in ALL_FAULTS if str(f) in options.faults]
    phases = [p for p in Phase if str(p) in options.phases]
    if (len(faults), len(phases)) == (len(ALL_FAULTS), len(Phase)):
        RESULTS.unlink(missing_ok=True)  # some faults or phases are added to what is there
    try:
        stage = Stage.up(options.cluster)
        without_operator(stage)
        cells, accusations = play_all(stage, dict.fromkeys(faults, phases), lanes=options.lanes)
    finally:
        if not options.keep:
            down(options.cluster)
    print("\n".join([*table(cells.rows, faults), "", *said(cells.rows, faults)]))
    if options.write:
        write_page([json.loads(line) for line in RESULTS.read_text().splitlines()])
    wrong = complaints(cells.rows, accusations) + cells.failures
    print(*(f"wrong: {each}" for each in wrong), sep="\n")
    print(f"{len(cells.rows)} cells, {len(wrong)} complaints, live members removed: {len(accusations)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
