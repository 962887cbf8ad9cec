"""What many runs come to is what one run comes to: days that are made one after the other, and days that are made at once."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Final

import pytest

from fleet_learner import gold, increment, schemas
from fleet_learner.facts import DAY_MS, StopDurations
from fleet_learner.fleet import journal_lines
from fleet_learner.fleet_truth import FleetSettings
from fleet_learner.histories import Terms
from fleet_learner.ingest import Horizon, ingest
from fleet_learner.lake import Lake, Published
from fleet_learner.replay import replayed_days
from fleet_learner.sources.files import JournalFiles
from pipeline import timelines
from pipeline.test_facts import frame, outage

FLEET: Final = FleetSettings(seed=5, groups=8, days=9, k8s_clusters=2, outages_per_operator=2)
TERMS: Final = Terms(durations=StopDurations(), bounds={}, valid_ms=DAY_MS)
COMPARED: Final = (*increment.DAILY, schemas.GROUP_DAY, schemas.GAP_STATS)


def told() -> list[tuple[int, str]]:
    """Return (observed_at_ms, line) of the fleet, with beats every five minutes instead of half a one."""
    kept = []
    for _, text in journal_lines(FLEET):
        record = json.loads(text)
        at_ms, is_beat = record["data"]["observed_at_ms"], record["type"].endswith("coverage.beat.v1")
        if not is_beat or (at_ms - FLEET.start_ms) % 300_000 < 30_000:
            kept.append((at_ms, text.replace('"interval_ms":30000', '"interval_ms":300000')))
    return kept


class Learner:
    """One root, what its runs took in, and what was learned last."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.folder = folder
        self.journal = Lake(spark, folder / "lake")
        self.learned = gold.learned_lake(self.journal)
        self.steps: list[str] = []

    def run(self, name: str, lines: list[str], as_of_ms: int, horizon: Horizon | None = None) -> Published:
        timelines.write_file(self.folder / "journal" / f"journal-{name}-00000000.jsonl", lines)
        ingest(self.journal, [JournalFiles(self.folder / "journal")], as_of_ms=as_of_ms, horizon=horizon)
        self.steps.clear()
        state, _ = gold.learn(self.journal, self.learned, window_days=30, terms=TERMS, on_step=self.steps.append)
        return state

    def rows(self, state: Published) -> dict[str, list[tuple[str, ...]]]:
        found = {t.name: gold.read_learned(self.learned, state, t).collect() for t in COMPARED}
        return {name: sorted(tuple(str(value) for value in row) for row in rows) for name, rows in found.items()}


@pytest.fixture(scope="module")
def whole(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[str, ...]]]:
    learner = Learner(spark, tmp_path_factory.mktemp("whole"))
    return learner.rows(learner.run("all", [line for _, line in told()], FLEET.end_ms))


def test_runs_with_cuts_anywhere_and_late_records_come_to_what_one_run_comes_to(
    spark: Any, whole: dict[str, list[tuple[str, ...]]], tmp_path: Path
) -> None:
    """A twentieth of the records come a run late, and some of the first day come at the end, with a backfill."""
    rng = random.Random(8)
    cuts = sorted(rng.sample(range(FLEET.start_ms + DAY_MS, FLEET.end_ms), 3))
    ends = [*cuts, FLEET.end_ms]
    parts: list[list[str]] = [[] for _ in ends]
    for at_ms, line in told():
        number = next(index for index, end_ms in enumerate(ends) if at_ms < end_ms)
        is_late = rng.random() < 0.05
        is_forgotten = number == 0 and rng.random() < 0.05
        parts[len(ends) - 1 if is_forgotten else min(number + is_late, len(ends) - 1)].append(line)
    learner = Learner(spark, tmp_path)
    for number, (lines, end_ms) in enumerate(zip(parts, ends, strict=True)):
        is_last = number == len(ends) - 1
        horizon = Horizon(backfill_from_ms=FLEET.start_ms) if is_last else Horizon(rewrite_days=9)
        state = learner.run(str(number), lines, end_ms, horizon)
    assert learner.rows(state) == whole


def test_the_next_day_makes_only_days_again_that_something_new_is_said_of(spark: Any, tmp_path: Path) -> None:
    """The days before stay the rows that an earlier run wrote, and days with the same facts are not replayed again."""
    lines = told()
    day_ms = FLEET.start_ms + 7 * DAY_MS
    learner = Learner(spark, tmp_path)
    learner.run("before", [line for at_ms, line in lines if at_ms < day_ms], day_ms)
    state = learner.run("after", [line for at_ms, line in lines if day_ms <= at_ms < day_ms + DAY_MS], day_ms + DAY_MS)
    for table in increment.DAILY:
        rows = learner.learned.published(table, state, with_run=True)
        by_run = {row["run"]: row["first_ms"] for row in rows.groupBy("run").agg({str(table.day_of): "min"})
                  .withColumnRenamed(f"min({table.day_of})", "first_ms").collect()}  # fmt: skip
        assert set(by_run) == {0, 1}
        assert FLEET.start_ms <= by_run[0] < FLEET.start_ms + DAY_MS
        assert by_run[1] >= day_ms - 4 * DAY_MS


def test_a_day_is_replayed_again_when_its_facts_changed_and_only_then(spark: Any) -> None:
    """What was computed of the same facts is believed: here it is marked, and the mark is there afterwards."""
    sizes = spark.createDataFrame([], "group_key bigint, at_ms bigint, members bigint, partitions_total bigint")
    rows = [outage(0, 20_000), outage(DAY_MS, 20_000), outage(2 * DAY_MS, 20_000)]
    first = replayed_days(frame(spark, schemas.OUTAGES, rows), sizes, StopDurations())
    marked = first.withColumn("rebalances_dynamic", first["rebalances_dynamic"] + 100)
    rows[1] = outage(DAY_MS, 30_000)
    again = replayed_days(frame(spark, schemas.OUTAGES, rows), sizes, StopDurations(), marked)
    assert sorted(row["rebalances_dynamic"] for row in first.collect()) == [2, 2, 2]
    assert {row["day_ms"]: row["rebalances_dynamic"] for row in again.collect()} == {0: 102, DAY_MS: 2, 2 * DAY_MS: 102}
    eager = replayed_days(
        frame(spark, schemas.OUTAGES, rows), sizes, StopDurations(classic_is_cooperative=True), marked
    )
    assert max(row["rebalances_dynamic"] for row in eager.collect()) < 100
