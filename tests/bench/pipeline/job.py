"""Do one engine's work in a process of its own: once cold, then warm, and print the cost.

The one idea: an engine is a function that makes the work ready and returns it. The process is bound to as many CPUs as
the engine may use, so that a single-threaded engine cannot lean on a second core for its compiler or its garbage
collector. The result is written as Parquet, as a pipeline would; its digest is taken outside the time.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow.parquet as pq

ENGINES: Final = ("spark", "duckdb")
RESULT: Final = ("group_key", "downs", "returned", "removed", "open", "blind", "gap_ms", "gap_ms_max")
"""One row per group: how many outages ended how, the sum of their gaps, and the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The input of an engine.

    Parameters
    ----------
    folder: of `events.write`.
    cores: number of cores that it may use.
    heap_mb: of the JVM.
    scratch: for files that it spills; removed at the end.
    rows: about how many events.
    """

    folder: Path
    cores: int
    heap_mb: int
    scratch: Path
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A ready engine.

    Parameters
    ----------
    work: reads the events and writes the result to this folder or file.
    cpu_s: returns the CPU seconds that the engine has used so far.
    spilled_bytes: returns the bytes spilled to disk so far; None if unknown.
    """

    work: Callable[[Path], None]
    cpu_s: Callable[[], float]
    spilled_bytes: Callable[[], int | None] = lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One time through the work."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a process reports, as one line of JSON."""

    passes: tuple[Pass, ...]
    digest: str
    groups: int
    downs: int
    spilled_bytes: int | None


def own_cpu_s() -> float:
    """Return the CPU seconds of this process."""
    return sum(os.times()[:2])


def digest(result: Path) -> tuple[str, int, int]:
    """Return an order-independent digest of a result, its number of groups, and of outages."""
    table = pq.read_table(result, columns=list(RESULT))
    columns = {name: np.asarray(table[name].to_numpy(), dtype=np.int64) for name in RESULT}
    order = np.argsort(columns["group_key"])
    sha = hashlib.sha256()
    for name in RESULT:
        sha.update(columns[name][order].tobytes())
    return sha.hexdigest()[:16], table.num_rows, int(columns["downs"].sum())


def run(name: str, task: Task, passes: int) -> Outcome:
    """Do the work so many times in this process."""
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: task.cores]))
    engine: Engine = importlib.import_module(f"bench.pipeline.{name}_engine").ready(task)
    taken = []
    result = task.scratch / "result"
    for _ in range(passes):
        shutil.rmtree(result, ignore_errors=True)
        result.unlink(missing_ok=True)
        started, cpu_before = time.perf_counter(), engine.cpu_s()
        engine.work(result)
        taken.append(Pass(wall_s=time.perf_counter() - started, cpu_s=engine.cpu_s() - cpu_before))
    text, groups, downs = digest(result)
    return Outcome(passes=tuple(taken), digest=text, groups=groups, downs=downs, spilled_bytes=engine.spilled_bytes())


def main() -> None:
    """Run one engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--cores", type=int, required=True)
    parser.add_argument("--heap-mb", type=int, required=True)
    parser.add_argument("--passes", type=int, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    o = parser.parse_args()
    task = Task(folder=o.folder, cores=o.cores, heap_mb=o.heap_mb, scratch=o.scratch, rows=o.rows)
    task.scratch.mkdir(parents=True, exist_ok=True)
    print(json.dumps(asdict(run(o.engine, task, o.passes))))


if __name__ == "__main__":
    main()
