"""What many runs come to is what one run comes to: days that are made one after the other, and days that are made at once."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Final

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

FLEET: Final = FleetSettings(seed=5, groups=5, days=8, k8s_clusters=1, outages_per_operator=2)
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


def cut(rng: random.Random) -> tuple[list[int], list[list[str]]]:
    """Return where the windows of three runs end, and their records: a tenth comes a run late, and of the first days' a tenth last."""
    first_ms = FLEET.start_ms + rng.randrange(5 * DAY_MS, 6 * DAY_MS)
    ends = [first_ms, first_ms + rng.randrange(DAY_MS // 2, DAY_MS), FLEET.end_ms]
    parts: list[list[str]] = [[] for _ in ends]
    for at_ms, line in told():
        number = next(index for index, end_ms in enumerate(ends) if at_ms < end_ms)
        is_forgotten = at_ms < FLEET.start_ms + DAY_MS and rng.random() < 0.1
        is_late = at_ms > first_ms - DAY_MS and rng.random() < 0.1
        parts[2 if is_forgotten else min(number + is_late, 2)].append(line)
    return ends, parts


def test_runs_with_cuts_anywhere_and_late_records_come_to_what_one_run_comes_to(spark: Any, tmp_path: Path) -> None:
    """The second run leaves the days alone that nothing new is said of; the third one is a backfill."""
    ends, parts = cut(random.Random(8))
    learner = Learner(spark, tmp_path / "many")
    learner.run("0", parts[0], ends[0])
    second = learner.run("1", parts[1], ends[1])
    for table in increment.DAILY:
        days = learner.learned.published(table, second, with_run=True).groupBy("run").agg({str(table.day_of): "min"})
        first_ms = dict(days.collect())
        assert set(first_ms) == {0, 1}
        assert FLEET.start_ms <= first_ms[0] < FLEET.start_ms + DAY_MS
        assert first_ms[1] >= ends[0] - 5 * DAY_MS
    third = learner.run("2", parts[2], ends[2], Horizon(backfill_from_ms=FLEET.start_ms))
    whole = Learner(spark, tmp_path / "one")
    at_once = whole.run("all", [line for _, line in told()], FLEET.end_ms)
    assert learner.rows(third) == whole.rows(at_once)


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
