"""A run of ingest that is killed at any moment and repeated yields the rows of an uninterrupted one.

In process, an error follows every single step. From outside, SIGKILL ends the whole process group, driver, JVM and
workers, at random moments, while the journal grows between the runs.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from fleet_learner.errors import ConflictError
from fleet_learner.intake.ingest import TABLES, ingest
from fleet_learner.intake.planning import LEFT_OUT
from fleet_learner.lake import Lake
from fleet_learner.sources.files import JournalFiles
from pipeline import crash_ingest, timelines
from pipeline.test_ingest import AS_OF_MS, content, history

KILLS = int(os.environ.get("PIPELINE_KILLS", "3"))
"""Each costs the start of a JVM."""
PIECES = 2
SEED = 20_261_121


class Killed(Exception):
    """Stands for a kill of the process."""


def left(lake: Lake) -> list[tuple[Any, ...]]:
    """Return every published run, with all rows of its tables."""
    found = []
    for state in map(lake.runs.read, lake.runs.numbers()):
        rows = {table.name: content(lake, state, table) for table in TABLES}
        found.append((state.counts, {name: table.rows for name, table in state.tables.items()}, rows))
    return found


def test_an_error_after_every_step_and_another_run_come_to_the_same_rows(spark: Any, tmp_path: Path) -> None:
    """One lake whose runs die after their first step, their second, and so on, until one completes.

    The journal grows after the first crash and the next runs get a later time: they keep the plan, except for a source
    that is lost before its records are written.
    """
    lines = history(groups=1, stops=2)
    path = tmp_path / "journal" / "journal-a-00000000.jsonl"
    sources = [JournalFiles(tmp_path / "journal")]
    timelines.write_file(path, lines[:60])
    steps: list[str] = []
    whole, lake = Lake(spark, tmp_path / "whole"), Lake(spark, tmp_path / "lake")
    ingest(whole, sources, as_of_ms=AS_OF_MS, on_step=steps.append)
    assert (steps[0], steps[-2:], len(steps) >= 9) == ("plan", ["written", "published"], True)

    def die_at_once(step: str) -> None:
        raise Killed(step)

    timelines.write_file(tmp_path / "lost" / "journal-l-00000000.jsonl", lines[:3])
    with pytest.raises(Killed, match="plan"):
        ingest(lake, [*sources, JournalFiles(tmp_path / "lost")], as_of_ms=AS_OF_MS, on_step=die_at_once)
    shutil.rmtree(tmp_path / "lost")
    for survived in range(1, len(steps)):
        remaining = iter(range(survived))

        def die(step: str, remaining: Iterator[int] = remaining) -> None:
            if not step.startswith(LEFT_OUT) and next(remaining, None) is None:
                raise Killed(step)

        # Once raw records are written, their source is not needed.
        named = sources if survived == 1 else []
        with pytest.raises(Killed, match=re.escape(steps[survived])):
            ingest(lake, named, as_of_ms=AS_OF_MS + survived - 1, on_step=die)
        if survived == 1:
            timelines.write_file(path, lines[60:])
    assert left(lake) == left(whole), "the last one died after it had published"
    following = ingest(lake, sources, as_of_ms=AS_OF_MS)
    assert (following.number, following.counts["bronze/events_rows"]) == (1, len(lines) - 60)


@pytest.mark.long  # test_lake lets two write at the same moment
def test_a_second_writer_fails_and_harms_nothing(spark: Any, tmp_path: Path) -> None:
    """Both carry out the same plan; one publishes it, and tables are written once."""
    timelines.write_file(tmp_path / "journal" / "journal-a-00000000.jsonl", history(groups=1, stops=1))
    sources = [JournalFiles(tmp_path / "journal")]
    whole = Lake(spark, tmp_path / "whole")
    ingest(whole, sources, as_of_ms=AS_OF_MS)
    for moment in ("plan", "written"):
        lake, other = (Lake(spark, tmp_path / moment) for _ in range(2))

        def other_writer(step: str, moment: str = moment, other: Lake = other) -> None:
            if step == moment:
                ingest(other, sources, as_of_ms=AS_OF_MS)

        with pytest.raises(ConflictError):
            ingest(lake, sources, as_of_ms=AS_OF_MS, on_step=other_writer)
        assert left(lake) == left(whole)


def run_and_kill(journal: Path, lake: Path, after_steps: int, delay_s: float) -> None:
    """Run once in a process group of its own; kill all of it so many steps in and so long after that."""
    command = [sys.executable, crash_ingest.__file__, str(journal), str(lake), str(AS_OF_MS)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
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


@pytest.mark.long  # an error after every step, in process, says it more often
def test_killed_at_random_moments(spark: Any, tmp_path: Path) -> None:
    """SIGKILL leaves no time to clean up; half-written files are in no version, and a repeated run is equal.

    The killed runs are small and have one core; the uninterrupted one has different settings.
    """
    rng = random.Random(SEED)
    lines = history(groups=2, stops=4)
    pieces = [lines[n::PIECES] for n in range(PIECES)]
    whole, lake = Lake(spark, tmp_path / "whole"), Lake(spark, tmp_path / "lake")
    kills = 0
    for n, piece in enumerate(pieces):
        for name in ("journal", "journal-again"):
            timelines.write_file(tmp_path / name / f"journal-a-{n:08d}.jsonl", piece)
        ingest(whole, [JournalFiles(tmp_path / "journal")], as_of_ms=AS_OF_MS)
        while kills < KILLS * (n + 1) // PIECES:
            # After a step from the session to the end that is not published, and up to two seconds more.
            run_and_kill(tmp_path / "journal-again", tmp_path / "lake", rng.randrange(1, 9), rng.random() * 2)
            kills += 1
        ingest(lake, [JournalFiles(tmp_path / "journal-again")], as_of_ms=AS_OF_MS)
    assert kills == KILLS
    assert left(lake) == left(whole)
