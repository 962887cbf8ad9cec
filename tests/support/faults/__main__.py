"""`python -m support.faults`: every fault in every phase, with a cluster and a broker of its own; writes what it saw."""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from support.devcluster.progress import say, step
from support.fault_proxy.kafka_relay import KafkaFault
from support.fault_proxy.kube_front import FRONT_FAULTS
from support.faults.cell import play_cell
from support.faults.lane import Fault, lane
from support.faults.phases import Phase
from support.faults.table import ALL_FAULTS, complaints, said, table
from support.scene.__main__ import down
from support.scene.stage import RELEASE, SYSTEM, Stage
from support.scene.witnesses import ProcessTable, live_removals
from support.waiting import until

BUILD = Path(__file__).parents[3] / "build" / "faults"
RESULTS = BUILD / "cells.jsonl"
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "faults.md"
BEGIN, END = "<!-- figures: faults -->", "<!-- /figures -->"


class Cells:
    """What was seen so far, kept in a file as it comes."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.failures: list[str] = []
        self._lock = threading.Lock()
        BUILD.mkdir(parents=True, exist_ok=True)

    def add(self, row: dict[str, Any]) -> None:
        """Keep and print one cell."""
        with self._lock:
            self.rows.append(row)
            with RESULTS.open("a") as file:
                file.write(json.dumps(row) + "\n")
        say(f"   {json.dumps(row)}")


def without_operator(stage: Stage) -> None:
    """Have CRDs and the admission policy from the chart, and no operator in the cluster: the lanes have their own."""
    stage.install(replicas=1)
    stage.kubectl("scale", f"deployment/{RELEASE}-operator", "-n", SYSTEM, "--replicas=0")
    until(lambda: not stage.operator_pods(), deadline_s=60, what="no operator in the cluster")


def play_lane(stage: Stage, fault: Fault, phases: Sequence[Phase], cells: Cells) -> None:
    """Play one fault in one phase after the other; the group loses a member each time."""
    name = "faults-" + "".join(c if c.isalnum() else "-" for c in str(fault).lower())
    with step(f"{fault}: {len(phases)} phases"), lane(stage, name, BUILD / name, replicas=len(phases) + 1) as opened:
        for number, phase in enumerate(phases):
            cells.add(play_cell(opened, fault, phase, len(phases) + 1 - number).as_json())


def play_all(stage: Stage, faults: Sequence[Fault], phases: Sequence[Phase], lanes: int) -> tuple[Cells, list[str]]:
    """Play some faults, so many at a time; returns what was seen, and every live member that was removed."""
    cells, witness = Cells(), ProcessTable().start()
    with ThreadPoolExecutor(lanes) as pool:
        playing = {fault: pool.submit(play_lane, stage, fault, phases, cells) for fault in faults}
    witness.stop()
    cells.failures = [f"{fault}: {f.exception()}" for fault, f in playing.items() if f.exception()]
    return cells, live_removals(stage.brokers.group_log, witness)


def write_page(rows: Sequence[dict[str, Any]]) -> None:
    """Put the figures into the reference page."""
    lines = ["", *table(rows, FRONT_FAULTS), "", *table(rows, tuple(KafkaFault)), "", *said(rows, ALL_FAULTS), ""]
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + "\n".join(lines) + END + rest.partition(END)[2])


def options_of(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m support.faults", description=__doc__)
    parser.add_argument("--cluster", default="sg-faults", help="name of cluster and broker (default: %(default)s)")
    parser.add_argument("--faults", nargs="+", metavar="FAULT", default=[str(f) for f in ALL_FAULTS], choices=[str(f) for f in ALL_FAULTS])
    parser.add_argument("--phases", nargs="+", metavar="PHASE", default=[str(p) for p in Phase], choices=[str(p) for p in Phase])
    parser.add_argument("--lanes", type=int, default=4, help="faults at a time (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="leave cluster and broker running")
    parser.add_argument("--write", action="store_true", help="write docs/reference/faults.md from all cells of build/faults")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Play, print, and return 0 when nothing was wrong."""
    options = options_of(arguments)
    faults = [f for f in ALL_FAULTS if str(f) in options.faults]
    phases = [p for p in Phase if str(p) in options.phases]
    try:
        stage = Stage.up(options.cluster)
        without_operator(stage)
        cells, accusations = play_all(stage, faults, phases, options.lanes)
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
