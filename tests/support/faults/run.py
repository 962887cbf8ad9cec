"""Play faults beside each other, and keep what is seen as it comes."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from support.devcluster.progress import say, step
from support.fault_proxy.kube_proxy import KubeFault
from support.fault_proxy.relay import ByteFault
from support.faults.cell import play_cell
from support.faults.lane import Fault, lane
from support.faults.phases import Phase
from support.scene.stage import RELEASE, SYSTEM, Stage
from support.scene.witnesses import ProcessTable, live_removals
from support.waiting import until

BUILD = Path(__file__).parents[3] / "build" / "faults"
RESULTS = BUILD / "cells.jsonl"
SLOW: frozenset[Fault] = frozenset({KubeFault.STALLED_WATCH, ByteFault.HALF_OPEN, KubeFault.GONE, KubeFault.GONE_EVENT})
"""They begin first, because the operator notices silence late and lets sessions run out after gaps."""


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
    stage.install(replicaCount=1)
    stage.kubectl("scale", f"deployment/{RELEASE}-operator", "-n", SYSTEM, "--replicas=0")
    until(lambda: not stage.operator_pods(), deadline_s=60, what="no operator in the cluster")


def play_lane(stage: Stage, fault: Fault, phases: Sequence[Phase], cells: Cells) -> None:
    """Play one fault in one phase after the other; the group loses a member each time."""
    name = "faults-" + "".join(c if c.isalnum() else "-" for c in str(fault).lower())
    with step(f"{fault}: {len(phases)} phases"), lane(stage, name, BUILD / name, replicas=len(phases) + 1) as opened:
        for number, phase in enumerate(phases):
            cells.add(play_cell(opened, fault, phase, len(phases) + 1 - number).as_json())


def play_all(stage: Stage, wanted: Mapping[Fault, Sequence[Phase]], *, lanes: int) -> tuple[Cells, list[str]]:
    """Play faults in their phases, some at a time; returns the observations, and every live member that was removed."""
    in_order = dict(sorted(wanted.items(), key=lambda pair: pair[0] not in SLOW))
    cells, witness = Cells(), ProcessTable().start()
    with ThreadPoolExecutor(lanes) as pool:
        playing = {fault: pool.submit(play_lane, stage, fault, phases, cells) for fault, phases in in_order.items()}
    witness.stop()
    cells.failures = [f"{fault}: {f.exception()}" for fault, f in playing.items() if f.exception()]
    accusations = live_removals(stage.brokers.group_log, witness)
    with RESULTS.open("a") as file:
        file.write(json.dumps({"live_members_removed": len(accusations)}) + "\n")
    return cells, accusations
