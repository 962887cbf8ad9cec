"""Ingest that is killed at any moment and done again leaves the same bytes as one that was not.

In process: an error after every single step. From outside: SIGKILL of the whole process group, driver, JVM and workers,
at moments drawn at random, while the journal grows between the runs.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from fleet_learner.ingest import ingest
from fleet_learner.manifest import ConflictError, Warehouse
from fleet_learner.sources.files import JournalFiles
from pipeline import crash_ingest, timelines
from pipeline.test_ingest import AS_OF_MS, history

KILLS = int(os.environ.get("PIPELINE_KILLS", "2"))
"""Each costs the start of a JVM."""
PIECES = 2
SEED = 20_261_121


class Killed(Exception):
    """Stands for the end of the process."""


def content(lake: Path) -> dict[str, str]:
    """Return the digest of every file that a manifest lists, and of the manifests and plans themselves."""
    warehouse = Warehouse(lake)
    names = {p.relative_to(lake).as_posix() for p in (lake / "_manifest").glob("*.json")}
    number = 0
    while (lake / "_manifest" / f"{number:012d}.json").exists():
        names |= {f.path for table in warehouse.read(number).tables.values() for f in table.files}
        number += 1
    return {name: hashlib.sha256((lake / name).read_bytes()).hexdigest() for name in sorted(names)}


def test_an_error_after_every_step_and_another_run_leave_the_same_bytes(spark: Any, tmp_path: Path) -> None:
    """One warehouse whose runs die after their first step, their second, and so on, until one is left alone.

    The journal grows after the first crash and the next runs are told a later time: they keep to the plan.
    """
    lines = history(groups=1, stops=2)
    path = tmp_path / "journal" / "journal-a-00000000.jsonl"
    sources = [JournalFiles(tmp_path / "journal")]
    timelines.write_file(path, lines[:60])
    steps: list[str] = []
    ingest(spark, Warehouse(tmp_path / "whole"), sources, as_of_ms=AS_OF_MS, on_step=steps.append)
    expected = content(tmp_path / "whole")
    assert (steps[0], steps[-2:], len(steps) >= 10) == ("plan", ["manifest", "published"], True)

    lake = Warehouse(tmp_path / "lake")
    for survived in range(1, len(steps)):
        left = iter(range(survived))

        def die(step: str, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise Killed(step)

        with pytest.raises(Killed, match=re.escape(steps[survived])):
            ingest(spark, lake, sources, as_of_ms=AS_OF_MS + survived - 1, on_step=die)
        if survived == 1:
            timelines.write_file(path, lines[60:])
    assert content(lake.root) == expected, "the last one died after it had published"
    following = ingest(spark, lake, sources, as_of_ms=AS_OF_MS)
    assert (following.number, following.counts["bronze/events_rows"]) == (1, len(lines) - 60)


def test_a_second_writer_fails_and_harms_nothing(spark: Any, tmp_path: Path) -> None:
    """Both carry out the same plan; one publishes it."""
    timelines.write_file(tmp_path / "journal" / "journal-a-00000000.jsonl", history(groups=1, stops=1))
    sources = [JournalFiles(tmp_path / "journal")]
    lake = tmp_path / "lake"

    def other_writer(step: str) -> None:
        if step == "manifest":
            ingest(spark, Warehouse(lake), sources, as_of_ms=AS_OF_MS)

    with pytest.raises(ConflictError):
        ingest(spark, Warehouse(lake), sources, as_of_ms=AS_OF_MS, on_step=other_writer)
    latest = Warehouse(lake).latest()
    assert latest is not None
    assert latest.number == 0
    Warehouse(lake).verify(latest)


def run_and_kill(journal: Path, lake: Path, after_steps: int, delay_s: float) -> None:
    """Run once in a process group of its own; kill all of it so many steps in and so long after that."""
    command = [sys.executable, crash_ingest.__file__, str(journal), str(lake), str(AS_OF_MS)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        lines = list(islice(process.stdout, after_steps))
        assert len(lines) == after_steps, f"it ended by itself after {lines}"
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=delay_s)
    finally:
        with suppress(ProcessLookupError):  # it was through in the meantime
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def test_killed_at_random_moments(spark: Any, tmp_path: Path) -> None:
    """SIGKILL leaves no time to clean up; what was half written is not in any manifest, and what is done again is equal.

    The runs that are killed are small and have a core; the one that was left alone has other settings altogether.
    """
    rng = random.Random(SEED)
    lines = history(groups=2, stops=4)
    pieces = [lines[n::PIECES] for n in range(PIECES)]
    whole, lake = Warehouse(tmp_path / "whole"), Warehouse(tmp_path / "lake")
    kills = 0
    for n, piece in enumerate(pieces):
        for name in ("journal", "journal-again"):
            timelines.write_file(tmp_path / name / f"journal-a-{n:08d}.jsonl", piece)
        ingest(spark, whole, [JournalFiles(tmp_path / "journal")], as_of_ms=AS_OF_MS)
        while kills < KILLS * (n + 1) // PIECES:
            # After a step from the session to the manifest that is not published, and up to two seconds more.
            run_and_kill(tmp_path / "journal-again", lake.root, rng.randrange(1, 11), rng.random() * 2)
            kills += 1
        ingest(spark, lake, [JournalFiles(tmp_path / "journal-again")], as_of_ms=AS_OF_MS)
    assert kills == KILLS
    for n in range(PIECES):
        one, other = whole.read(n), lake.read(n)
        assert (one.tables, one.counts) == (other.tables, other.counts)
    data = {name: digest for name, digest in content(lake.root).items() if "_manifest" not in name}
    assert data == {name: digest for name, digest in content(whole.root).items() if "_manifest" not in name}
