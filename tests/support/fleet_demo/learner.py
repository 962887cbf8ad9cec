"""Run the fleet learner as its users do, by its command in a process of its own, and read what it published.

The one idea: figures come from the log of runs and from files, never from the output; the output is passed on, and the
clock is read when a stage's line appears.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from fleet_learner.lake import Published, RunLog
from fleet_learner.lake.objects import LocalObjects
from fleet_learner.lake.runs import FOLDER
from fleet_learner.schemas import OUTAGES
from journal import recommendations as api
from support.scene.stage import REPOSITORY

_STAGES = ("ingested:", "recommended:", "report:")
"""Prefixes of the lines that end a stage."""
_NOISE = re.compile(
    r"\d\d/\d\d/\d\d |WARNING: |Using Spark|Setting default|To adjust|/.*Warning: |  require_min|\s+at |\s*$"
)
"""Lines of Spark and its libraries, which only go to the log."""


class LearnerError(RuntimeError):
    """The learner's command ended with an error."""


def _command(*words: str) -> dict[str, Any]:
    """Return the arguments of a process that runs a command of the learner."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "operator"), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "fleet_learner", *words]
    return {"args": command, "cwd": REPOSITORY, "env": environment, "text": True}


def run(
    root: Path, *, bootstrap: str, topic: str, as_of_ms: int, days: int, log: Path, tell: Callable[[str], None]
) -> dict[str, float]:
    """Run `fleet-learner run` over a topic; return the seconds of its stages, the first with the start of Spark.

    Parameters
    ----------
    as_of_ms: the end of the window, Unix milliseconds.
    days: length of the window; whole UTC days.
    log: gets everything that the command prints.
    tell: receives each line that is not Spark's own.

    Raises
    ------
    LearnerError
        When it fails; what it said is in the log.
    """
    as_of = datetime.fromtimestamp(as_of_ms / 1000, UTC).isoformat(timespec="milliseconds")
    options = (f"--bootstrap={bootstrap}", f"--topic={topic}", f"--as-of={as_of}", f"--window-days={days}")
    log.parent.mkdir(parents=True, exist_ok=True)
    marks = [time.monotonic()]
    command = _command("run", f"--root={root}", *options)
    process = subprocess.Popen(**command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    try:
        with log.open("w") as file:
            for line in process.stdout:
                file.write(line)
                if not _NOISE.match(line):
                    tell(line.rstrip())
                if line.startswith(_STAGES[len(marks) - 1 : len(marks)]):
                    marks.append(time.monotonic())
        status = process.wait()
    finally:
        process.terminate()
        process.wait()
    if status != 0 or len(marks) <= len(_STAGES):
        raise LearnerError(f"the fleet learner ended with status {status} after {len(marks) - 1} of 3 stages: {log}")
    taken_s = (round(after - before, 1) for before, after in pairwise(marks))
    return dict(zip(("ingest", "learn", "report"), taken_s, strict=True))


def bill(*, bootstrap: str, page: Path, log: Path, tell: Callable[[str], None]) -> dict[str, dict[str, Any]]:
    """Run `fleet-learner bill` over a cluster's `__consumer_offsets`; return the bill of each group.

    Parameters
    ----------
    page: gets the JSON.
    log: gets everything that the command prints.
    tell: receives each line that is not Spark's own.

    Raises
    ------
    LearnerError
        When it fails; what it said is in the log.
    """
    command = _command("bill", f"--bootstrap={bootstrap}", f"--json={page}")
    done = subprocess.run(**command, capture_output=True, check=False)
    log.write_text(done.stdout + done.stderr)
    if done.returncode != 0:
        raise LearnerError(f"fleet-learner bill ended with status {done.returncode}: {log}")
    for line in done.stdout.splitlines():
        if not _NOISE.match(line):
            tell(line)
    return {row["group_id"]: row for row in json.loads(page.read_text())["groups"]}


def parts_ms(root: Path, published: Published) -> tuple[int, int]:
    """Return the parts of ended absences: medians until the container started, and until the member was back.

    They are read from the published table with an engine that is not Spark.
    """
    import polars as pl

    found = pl.read_delta(str(root / OUTAGES.name), version=published.version(OUTAGES.name))
    ended = found.filter((pl.col("end_kind") == "returned") & pl.col("started_ms").is_not_null())
    start_ms, join_ms = ended.select(
        (pl.col("started_ms") - pl.col("down_ms")).median().alias("start"),
        (pl.col("back_ms") - pl.col("started_ms")).median().alias("join"),
    ).row(0)
    return round(start_ms), round(join_ms)


def ingested(root: Path) -> Published:
    """Return what ingest published."""
    published = RunLog(LocalObjects(root / FOLDER)).latest()
    assert published is not None, f"nothing was published in {root}"
    return published


def reported(root: Path) -> dict[str, Any]:
    """Return the report as JSON."""
    found: dict[str, Any] = json.loads((root / "output" / "report" / "report.json").read_text())
    return found


def recommended(folder: Path, *, now_ms: int) -> dict[tuple[str, str], api.Recommendation]:
    """Return the published recommendations by (Kafka cluster id, group id), checked as an operator checks them."""
    manifest = api.read_manifest((folder / api.MANIFEST_NAME).read_bytes(), now_ms=now_ms)
    found: dict[tuple[str, str], api.Recommendation] = {}
    for shard in manifest.shards:
        found |= api.read_shard(manifest, shard, (folder / shard.path).read_bytes())
    return found
