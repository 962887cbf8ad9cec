"""Runs of ingest: nothing lost, nothing twice, late facts and rewritten days, whatever the size of the runs."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from fleet_learner import files, quality, schemas
from fleet_learner.ingest import DAY_MS, Horizon, ingest
from fleet_learner.manifest import Manifest, Warehouse
from fleet_learner.sources.files import JournalFiles
from fleet_learner.sources.journal_topic import JournalTopic
from pipeline import timelines
from pipeline.conftest import Topics
from pipeline.timelines import T0_MS

MINUTE_MS = 60_000
AS_OF_MS = T0_MS + 2 * DAY_MS


def history(groups: int = 3, stops: int = 6) -> list[str]:
    """Return the journal of some groups over a day: stops, one removal, one member still away, rebalances, beats."""
    lines = []
    for g in range(groups):
        name = f"g{g}"
        for stop in range(stops):
            at = T0_MS + stop * 3_600_000 + g * 7_000
            lines.append(timelines.change("down", name, 0, stop, at, rollout_id="r1"))
            lines.append(timelines.change("up", name, 0, stop + 1, at + 5_000 + g, rollout_id="r1"))
            lines.append(timelines.back(name, 0, stop + 1, at + 8_000))
            lines.append(timelines.rebalanced(name, stop, at + 9_000))
        lines.append(timelines.change("down", name, 1, 0, T0_MS + 1_000))
        lines.append(timelines.removed(name, 1, T0_MS + 61_000))
        lines.append(timelines.change("down", name, 2, 0, T0_MS + 40_000_000))
    lines += [timelines.beat(T0_MS - 60_000 + n * 600_000, interval_ms=600_000, seq=n) for n in range(100)]
    return lines


def outages(spark: Any, warehouse: Warehouse, manifest: Manifest) -> list[tuple[Any, ...]]:
    """Return all outages, sorted."""
    frame = files.read(spark, schemas.OUTAGES, warehouse.paths(manifest, schemas.OUTAGES.name))
    return sorted(tuple(str(v) for v in row) for row in frame.collect())


def rows(manifest: Manifest, table: schemas.Table) -> int:
    return manifest.tables[table.name].rows


def kinds(spark: Any, warehouse: Warehouse, manifest: Manifest) -> dict[str, int]:
    frame = files.read(spark, schemas.OUTAGES, warehouse.paths(manifest, schemas.OUTAGES.name))
    found = quality.outage_findings(frame)
    return {name: count for name, count in found.items() if count}


def test_files_become_tables_and_every_record_has_a_fate(spark: Any, tmp_path: Path) -> None:
    lines = history()
    journal = tmp_path / "journal"
    timelines.write_file(journal / "journal-a-00000000.jsonl", [*lines, *lines[:10], "nonsense", "{}"])
    timelines.write_file(journal / "journal-b-00000000.jsonl", lines[5:25])
    warehouse = Warehouse(tmp_path / "lake")
    manifest = ingest(spark, warehouse, [JournalFiles(journal)], as_of_ms=AS_OF_MS)
    assert manifest.counts["duplicates"] == 10 + 20
    assert rows(manifest, schemas.EVENTS) == len(lines) + 10 + 2 + 20
    assert rows(manifest, schemas.QUARANTINE) == 2
    assert rows(manifest, schemas.MEMBER_EVENTS) == 3 * (6 * 3 + 3)
    assert rows(manifest, schemas.GROUP_EVENTS) == 3 * 6
    assert rows(manifest, schemas.BEATS) == 100
    assert kinds(spark, warehouse, manifest) == {"returned": 18, "removed": 3, "open": 3}
    warehouse.verify(manifest)
    members = files.read(spark, schemas.MEMBER_EVENTS, warehouse.paths(manifest, schemas.MEMBER_EVENTS.name))
    quality.assert_keys_unique(members)
    assert manifest.counts["window_end_ms"] == T0_MS - 60_000 + 99 * 600_000, "the data end before the as-of time"


def test_a_run_takes_only_what_is_new_and_an_idle_one_changes_nothing(spark: Any, tmp_path: Path) -> None:
    lines = history(groups=1)
    journal, warehouse = tmp_path / "journal", Warehouse(tmp_path / "lake")
    source = JournalFiles(journal)
    timelines.write_file(journal / "journal-a-00000000.jsonl", lines[:30])
    first = ingest(spark, warehouse, [source], as_of_ms=AS_OF_MS)
    assert ingest(spark, warehouse, [source], as_of_ms=AS_OF_MS) == first
    timelines.write_file(journal / "journal-a-00000000.jsonl", [*lines[30:], *lines[:5]])
    second = ingest(spark, warehouse, [source], as_of_ms=AS_OF_MS)
    assert (second.number, second.counts["duplicates"]) == (1, 5)
    assert second.counts["bronze/events_rows"] == len(lines) - 30 + 5
    assert rows(second, schemas.EVENTS) == len(lines) + 5
    assert rows(second, schemas.MEMBER_EVENTS) == 6 * 3 + 3
    warehouse.verify(second)


def test_the_size_of_the_runs_does_not_matter(spark: Any, tmp_path: Path) -> None:
    """The same records at once, and shuffled in three runs, give the same outages and blind windows."""
    lines = history(groups=2)
    rng = random.Random(2)
    journal = tmp_path / "once"
    timelines.write_file(journal / "journal-a-00000000.jsonl", lines)
    once = Warehouse(tmp_path / "lake-once")
    whole = ingest(spark, once, [JournalFiles(journal)], as_of_ms=AS_OF_MS)

    shuffled = rng.sample(lines, len(lines))
    cuts = sorted(rng.sample(range(1, len(lines)), 2))
    pieces, manifest = Warehouse(tmp_path / "lake-pieces"), whole
    for n, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(lines)], strict=True)):
        timelines.write_file(tmp_path / "pieces" / f"journal-a-{n:08d}.jsonl", shuffled[begin:end])
        manifest = ingest(spark, pieces, [JournalFiles(tmp_path / "pieces")], as_of_ms=AS_OF_MS)
    assert manifest.number == 2
    assert outages(spark, pieces, manifest) == outages(spark, once, whole)
    assert [f.sha256 for f in manifest.tables["silver/blind_windows"].files] == [
        f.sha256 for f in whole.tables["silver/blind_windows"].files
    ]


def test_a_later_run_closes_outages_of_days_that_are_past(spark: Any, tmp_path: Path) -> None:
    """An outage belongs to the day on which it began; its row is made again for as long as it is open."""
    journal, warehouse = tmp_path / "journal", Warehouse(tmp_path / "lake")
    source, path = JournalFiles(journal), journal / "journal-a-00000000.jsonl"
    days = [T0_MS + n * DAY_MS for n in range(12)]
    timelines.write_file(path, [timelines.change("down", "g", 0, 0, days[0])])
    assert kinds(spark, warehouse, ingest(spark, warehouse, [source], as_of_ms=days[0])) == {"open": 1}
    timelines.write_file(
        path, [timelines.change("down", "g", 1, 0, days[5]), timelines.back("g", 1, 1, days[5] + 9)]
    )
    second = ingest(spark, warehouse, [source], as_of_ms=days[5] + 100)
    assert kinds(spark, warehouse, second) == {"returned": 1, "open": 1, "longer_than_a_day": 1}
    timelines.write_file(path, [timelines.back("g", 0, 1, days[5] + 500)])
    third = ingest(spark, warehouse, [source], as_of_ms=days[5] + 600)
    assert third.counts["rewrite_from_ms"] == days[0] // DAY_MS * DAY_MS
    assert kinds(spark, warehouse, third) == {"returned": 2, "longer_than_a_day": 1}


def test_a_fact_that_is_too_late_is_counted_and_a_backfill_applies_it(spark: Any, tmp_path: Path) -> None:
    journal, warehouse = tmp_path / "journal", Warehouse(tmp_path / "lake")
    source, path = JournalFiles(journal), journal / "journal-a-00000000.jsonl"

    def stop(ordinal: int, at: int) -> list[str]:
        return [
            timelines.change("down", "g", ordinal, 0, at),
            timelines.back("g", ordinal, 1, at + 9_000),
        ]

    timelines.write_file(path, [*stop(0, T0_MS), *stop(1, T0_MS + 10 * DAY_MS)])
    first = ingest(spark, warehouse, [source], as_of_ms=T0_MS + 11 * DAY_MS)
    assert first.counts["late_rows"] == 0, "the first run takes all of history"
    timelines.write_file(path, [*stop(2, T0_MS + 1), *stop(3, T0_MS + 10 * DAY_MS + 1)])
    second = ingest(spark, warehouse, [source], as_of_ms=T0_MS + 11 * DAY_MS)
    assert (second.counts["late_rows"], rows(second, schemas.MEMBER_EVENTS)) == (2, 8)
    assert kinds(spark, warehouse, second) == {"returned": 3}
    backfill = Horizon(backfill_from_ms=T0_MS)
    third = ingest(spark, warehouse, [source], as_of_ms=T0_MS + 11 * DAY_MS, horizon=backfill)
    assert kinds(spark, warehouse, third) == {"returned": 4}
    warehouse.verify(third)


def test_a_topic_and_files_are_one_journal(spark: Any, topics: Topics, tmp_path: Path) -> None:
    """A record that came by both ways counts once; a record without a value has a fate, too."""
    lines = history(groups=2)
    topics.produce("journal", [(n % 4, None, line.encode()) for n, line in enumerate(lines[:60])])
    topics.produce("journal", [(0, b"key", None)])
    timelines.write_file(tmp_path / "journal" / "journal-a-00000000.jsonl", lines[50:])
    topic = JournalTopic({"kafka.bootstrap.servers": topics.bootstrap, "subscribe": "journal"})
    sources = [topic, JournalFiles(tmp_path / "journal")]
    warehouse = Warehouse(tmp_path / "lake")
    manifest = ingest(spark, warehouse, sources, as_of_ms=AS_OF_MS)
    assert manifest.counts["duplicates"] == 10
    assert rows(manifest, schemas.EVENTS) == len(lines) + 11
    assert rows(manifest, schemas.QUARANTINE) == 1
    assert manifest.plan.sources["kafka:journal"]["end"] == {"journal": {"0": 16, "1": 15, "2": 15, "3": 15}}
    topics.produce("journal", [(1, None, timelines.beat(AS_OF_MS).encode())])
    again = ingest(spark, warehouse, sources, as_of_ms=AS_OF_MS)
    assert again.counts["bronze/events_rows"] == 1
    assert again.plan.sources["kafka:journal"]["start"] == manifest.plan.sources["kafka:journal"]["end"]


def test_the_bytes_depend_on_the_records_alone(spark: Any, tmp_path: Path) -> None:
    """Two warehouses, two numbers of shuffle partitions, two sizes of Arrow batches: the same manifest."""
    timelines.write_file(tmp_path / "journal" / "journal-a-00000000.jsonl", history())
    found = []
    for name, partitions, batch in (("one", "2", "10000"), ("two", "7", "3")):
        before = {key: spark.conf.get(key) for key in SETTINGS}
        try:
            for key, value in zip(SETTINGS, (partitions, batch), strict=True):
                spark.conf.set(key, value)
            ingest(spark, Warehouse(tmp_path / name), [JournalFiles(tmp_path / "journal")], as_of_ms=AS_OF_MS)
        finally:
            for key, value in before.items():
                spark.conf.set(key, value)
        found.append(json.loads((tmp_path / name / "_manifest" / "000000000000.json").read_text()))
    assert found[0] == found[1]
    assert len(found[0]["tables"]["silver/member_events"]["files"]) == 1


SETTINGS = ("spark.sql.shuffle.partitions", "spark.sql.execution.arrow.maxRecordsPerBatch")


def test_a_column_that_an_older_file_lacks_is_null(spark: Any, tmp_path: Path) -> None:
    """Schema evolution: a table gains a column, and its old files stay."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    old = pa.table({"start_ms": pa.array([1], pa.int64()), "k8s_cluster_uid": ["c"]})
    pq.write_table(old, tmp_path / "old.parquet")
    frame = files.read(spark, schemas.BLIND_WINDOWS, [str(tmp_path / "old.parquet")])
    assert [tuple(row) for row in frame.collect()] == [("c", 1, None)]
