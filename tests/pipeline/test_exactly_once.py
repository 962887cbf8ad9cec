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
from pathlib import Path
from typing import Any

import pytest

from fleet_learner.ingest import ingest
from fleet_learner.manifest import ConflictError, Warehouse
from fleet_learner.sources.files import JournalFiles
from pipeline import crash_ingest, timelines
from pipeline.test_ingest import AS_OF_MS, history

KILLS = int(os.environ.get("PIPELINE_KILLS", "3"))
"""Each costs the start of a JVM; 10 for the proof."""
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


def run_and_kill(journal: Path, lake: Path, after_steps: int | None, delay_s: float) -> int | None:
    """Run once; kill everything so many steps in and so long after that. Return the manifest's number, if it came."""
    command = [sys.executable, crash_ingest.__file__, str(journal), str(lake), str(AS_OF_MS)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert process.stdout is not None
    try:
        for number, line in enumerate(process.stdout):
            if line.startswith("done"):
                return int(line.split()[1])
            if after_steps is not None and number == after_steps:
                try:
                    process.wait(timeout=delay_s)
                except subprocess.TimeoutExpired:
                    pass
                return None
        return None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        process.stdout.close()


@pytest.mark.spark
def test_killed_at_random_moments(tmp_path: Path) -> None:
    """SIGKILL leaves no time to clean up; what was half written is not in any manifest, and what is done again is equal."""
    rng = random.Random(SEED)
    lines = history(groups=2, stops=4)
    pieces = [lines[n::3] for n in range(3)]
    whole = tmp_path / "whole"
    for n, piece in enumerate(pieces):
        timelines.write_file(tmp_path / "journal" / f"journal-a-{n:08d}.jsonl", piece)
        assert run_and_kill(tmp_path / "journal", whole, None, 0.0) == n
    expected = {name: digest for name, digest in content(whole).items() if "_manifest" not in name}

    journal, lake = tmp_path / "journal-again", tmp_path / "lake"
    kills = 0
    for n, piece in enumerate(pieces):
        timelines.write_file(journal / f"journal-a-{n:08d}.jsonl", piece)
        for _ in range((KILLS - kills + 2 - n) // (3 - n)):
            # A step between the session and the manifest, and up to two seconds into the one after it.
            published = run_and_kill(journal, lake, rng.randrange(0, 10), rng.random() * 2)
            assert published is None
            kills += 1
        assert run_and_kill(journal, lake, None, 0.0) == n
    assert kills == KILLS
    assert {name: digest for name, digest in content(lake).items() if "_manifest" not in name} == expected
    for n in range(3):
        one, other = Warehouse(whole).read(n), Warehouse(lake).read(n)
        assert (one.tables, one.counts) == (other.tables, other.counts)
