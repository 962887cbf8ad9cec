"""Many runs yield the same as one run: days that are computed one by one, or at once."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Final

import pytest

from fleet_learner import gold, schemas
from fleet_learner.days import increment
from fleet_learner.days.facts import DAY_MS, StopDurations
from fleet_learner.days.replay import replayed_days
from fleet_learner.intake.ingest import ingest
from fleet_learner.intake.planning import Horizon
from fleet_learner.lake import Lake, Plan, Published
from fleet_learner.recommendations.histories import Terms
from fleet_learner.simulated.fleet import journal_lines
from fleet_learner.simulated.truth import FleetSettings
from fleet_learner.sources.files import JournalFiles
from pipeline import timelines
from pipeline.test_facts import frame, outage

FLEET: Final = FleetSettings(seed=5, groups=4, days=8, k8s_clusters=1, outages_per_operator=2)
SETTINGS: Final = {
    "window_days": 8, "is_replayed": True, "model_version": "1",
    **Terms(durations=StopDurations(), bounds={}, valid_ms=DAY_MS).to_settings(),
}  # fmt: skip


def observed_lines() -> list[tuple[int, str]]:
    """Return (observed_at_ms, line) of the fleet, with a beat every half an hour instead of half a minute."""
    kept = []
    for _, text in journal_lines(FLEET):
        record = json.loads(text)
        at_ms, is_beat = record["data"]["observed_at_ms"], record["type"].endswith("coverage.beat.v1")
        if not is_beat or (at_ms - FLEET.start_ms) % 1_800_000 < 30_000:
            kept.append((at_ms, text.replace('"interval_ms":30000', '"interval_ms":1800000')))
    return kept


class Learner:
    """One root with its journal and the days of its runs."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.folder = folder
        self.journal = Lake(spark, folder / "lake")
        self.learned = gold.learned_lake(self.journal)

    def run(self, name: str, lines: list[str], as_of_ms: int, horizon: Horizon | None = None) -> Published:
        """Ingest lines, and recompute the days with news."""
        timelines.write_file(self.folder / "journal" / f"journal-{name}-00000000.jsonl", lines)
        source = ingest(self.journal, [JournalFiles(self.folder / "journal")], as_of_ms=as_of_ms, horizon=horizon)
        before = self.learned.runs.latest()
        number = 0 if before is None else before.number + 1
        plan = Plan(number, as_of_ms, {increment.SOURCE: {"end": source.number}}, SETTINGS)
        writing = increment.Writing(self.learned, plan, FLEET.start_ms, as_of_ms, lambda _: None)
        since_ms = increment.since_ms(self.journal, source, plan, before) or FLEET.start_ms
        increment.learned_days(self.journal, source, writing, before, since_ms, StopDurations())
        state = writing.published()
        self.learned.runs.publish(state)
        return state

    def rows(self, state: Published) -> dict[str, list[tuple[str, ...]]]:
        found = {table.name: gold.read_learned(self.learned, state, table).collect() for table in increment.DAILY}
        return {name: sorted(tuple(str(value) for value in row) for row in rows) for name, rows in found.items()}

    def first_days(self, state: Published, table: schemas.Table) -> dict[int, int]:
        """Return by run the first day whose present rows it wrote."""
        rows = self.learned.published(table, state, with_run=True).groupBy("run").agg({str(table.day_of): "min"})
        return {run: (first_ms - FLEET.start_ms) // DAY_MS for run, first_ms in rows.collect()}


def cut(rng: random.Random, *, forgotten: float = 0.0) -> tuple[list[int], list[list[str]]]:
    """Return where the windows of three runs end, and their records; a tenth comes a run late.

    Parameters
    ----------
    forgotten: share of the first day's records that come with the last run.
    """
    first_ms = FLEET.start_ms + rng.randrange(5 * DAY_MS, 6 * DAY_MS)
    ends = [first_ms, first_ms + rng.randrange(DAY_MS // 2, DAY_MS), FLEET.end_ms]
    parts: list[list[str]] = [[] for _ in ends]
    for at_ms, line in observed_lines():
        number = next(index for index, end_ms in enumerate(ends) if at_ms < end_ms)
        is_forgotten = at_ms < FLEET.start_ms + DAY_MS and rng.random() < forgotten
        is_late = at_ms > first_ms - DAY_MS and rng.random() < 0.1
        parts[2 if is_forgotten else min(number + is_late, 2)].append(line)
    return ends, parts


@pytest.fixture(scope="module")
def at_once(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, ...]]]:
    """Return the rows of one run over all days."""
    learner = Learner(spark, tmp_path_factory.mktemp("at-once"))
    return learner.rows(learner.run("all", [line for _, line in observed_lines()], FLEET.end_ms))


@pytest.mark.long
def test_runs_with_cuts_anywhere_and_late_records_come_to_what_one_run_comes_to(
    spark: Any, tmp_path: Path, at_once: dict[str, list[tuple[str, ...]]]
) -> None:
    """The first days are still those of the first run, because they have no news."""
    ends, parts = cut(random.Random(8))
    learner = Learner(spark, tmp_path)
    for number, (end_ms, lines) in enumerate(zip(ends, parts, strict=True)):
        state = learner.run(str(number), lines, end_ms)
    for table in increment.DAILY:
        first_days = learner.first_days(state, table)
        assert set(first_days) == {0, 1, 2}
        assert first_days[0] == 0 < first_days[1] < first_days[2]
    assert learner.rows(state) == at_once


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_a_backfill_comes_to_what_one_run_comes_to(
    spark: Any, tmp_path: Path, at_once: dict[str, list[tuple[str, ...]]], seed: int
) -> None:
    """A backfill applies records of the first day that come long after its outages were computed."""
    ends, parts = cut(random.Random(seed), forgotten=0.1)
    learner = Learner(spark, tmp_path)
    for number, (end_ms, lines) in enumerate(zip(ends, parts, strict=True)):
        is_last = number == len(ends) - 1
        state = learner.run(str(number), lines, end_ms, Horizon(backfill_from_ms=FLEET.start_ms) if is_last else None)
    assert learner.rows(state) == at_once


def test_a_day_is_replayed_again_when_its_facts_changed_and_only_then(spark: Any) -> None:
    """Results for the same facts are reused: a mark in them survives the next run."""
    sizes = spark.createDataFrame([], "group_key bigint, at_ms bigint, members bigint, partitions_total bigint")
    rows = [outage(day * DAY_MS, 20_000, reason="Deleted") for day in (1, 2, 3)]
    first = replayed_days(frame(spark, schemas.OUTAGES, rows), sizes, StopDurations())
    marked = first.withColumn("rebalances_dynamic", first["rebalances_dynamic"] + 100)
    rows[1] = outage(2 * DAY_MS, 30_000, reason="Deleted")
    again = replayed_days(frame(spark, schemas.OUTAGES, rows), sizes, StopDurations(), marked)
    assert sorted(row["rebalances_dynamic"] for row in first.collect()) == [2, 2, 2]
    assert {row["day_ms"]: row["rebalances_dynamic"] for row in again.collect()} == {
        DAY_MS: 102, 2 * DAY_MS: 2, 3 * DAY_MS: 102,
    }  # fmt: skip
    eager = replayed_days(
        frame(spark, schemas.OUTAGES, rows), sizes, StopDurations(classic_is_cooperative=True), marked
    )
    assert max(row["rebalances_dynamic"] for row in eager.collect()) < 100
