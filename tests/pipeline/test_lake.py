"""Tables for other readers: read by another implementation of Delta's protocol, compacted and vacuumed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars
import pytest
from deltalake import DeltaTable

from fleet_learner import schemas
from fleet_learner.errors import ConflictError
from fleet_learner.intake.ingest import TABLES, ingest
from fleet_learner.lake import Lake, Published, local_path
from fleet_learner.lake.lake import day_of
from fleet_learner.lake.upkeep import compact, tidy, vacuum
from fleet_learner.sources.files import JournalFiles
from pipeline import timelines
from pipeline.test_ingest import AS_OF_MS, content, history
from pipeline.timelines import T0_MS
from support.waiting import until

DAY_MS = 86_400_000


of_many_runs = pytest.mark.long
"""A table of three runs; `make test` has one of a run that is done again, in test_cli."""


@pytest.fixture(scope="module")
def grown(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, list[Published]]:
    """Return a lake after three runs, with their published states."""
    folder = tmp_path_factory.mktemp("grown")
    lake, lines = Lake(spark, folder / "lake"), history(groups=2)
    states = []
    for n in range(3):
        timelines.write_file(folder / "journal" / f"journal-a-{n:08d}.jsonl", lines[n::3])
        states.append(ingest(lake, [JournalFiles(folder / "journal")], as_of_ms=AS_OF_MS))
    return lake, states


def folder_of(lake: Lake, table: schemas.Table) -> Path:
    path = local_path(lake.uri(table))
    assert path is not None
    return path


def parquet_files(lake: Lake, table: schemas.Table) -> set[str]:
    return {path.name for path in folder_of(lake, table).rglob("*.parquet") if "_delta_log" not in path.parts}


@of_many_runs
def test_another_engine_reads_the_same_rows(grown: tuple[Lake, list[Published]]) -> None:
    """Read the tables with delta-rs and polars, which are independent of Spark."""
    lake, states = grown
    for state in (states[0], states[-1]):
        for name, kept in state.tables.items():
            table = next(each for each in TABLES if each.name == name)
            frame = polars.read_delta(str(folder_of(lake, table)), version=kept.version)
            assert frame.height == kept.rows, name
            ours = sorted(tuple(row) for row in lake.published(table, state).select(*table.key).collect())
            assert sorted(frame.select(table.key).rows()) == ours, name
            assert set(frame.columns) == {*table.names, "run", *(["day"] if table.day_of else [])}
    ends = polars.read_delta(str(folder_of(lake, schemas.OUTAGES))).group_by("end_kind").len().rows()
    assert dict(ends) == {"returned": 12, "removed": 2, "open": 2}


@of_many_runs
def test_the_protocol_is_the_first_one(grown: tuple[Lake, list[Published]]) -> None:
    """The tables use no reader feature, such as deletion vectors or column mapping."""
    lake, states = grown
    for table in TABLES:
        if table.name in states[-1].tables:
            assert DeltaTable(folder_of(lake, table)).protocol().min_reader_version == 1, table.name


@of_many_runs
def test_a_log_names_no_group(grown: tuple[Lake, list[Published]]) -> None:
    """Statistics of names would outlive the rows, because the log is kept longer."""
    lake, _ = grown
    for path in Path(str(local_path(lake.root))).rglob("_delta_log/*"):
        if path.is_file():
            assert b"g0" not in path.read_bytes().replace(b'"logg0', b""), path


@of_many_runs
def test_a_run_and_its_days_can_be_distinguished(grown: tuple[Lake, list[Published]]) -> None:
    lake, states = grown
    events = schemas.MEMBER_EVENTS
    per_run = [lake.published(events, states[-1], run=n).count() for n in range(3)]
    assert per_run == [state.counts["silver/member_events_rows"] for state in states]
    assert lake.published(events, states[-1], after_run=0).count() == sum(per_run[1:])
    assert lake.changed_days(events, states[-1], after_run=1) == [day_of(T0_MS), day_of(T0_MS + DAY_MS)]
    assert lake.changed_days(events, states[-1], after_run=2) == []
    whole, late = (lake.published(events, states[-1], since_ms=T0_MS + n * DAY_MS).count() for n in (0, 1))
    assert whole == states[-1].rows(events.name) > late > 0
    assert lake.published(events, states[-1], since_ms=T0_MS + 2 * DAY_MS).count() == 0
    scan = lake.published(events, states[-1], since_ms=T0_MS)._jdf.queryExecution().executedPlan().toString()
    assert re.search(r"PartitionFilters: \[[^]]*day#\d+ >= 2023-11-14", scan), scan


def test_rows_older_than_the_days_that_are_replaced_are_refused(spark: Any, tmp_path: Path) -> None:
    """A mistake of a caller must not put rows where later runs do not look for them."""
    lake, table = Lake(spark, tmp_path), schemas.BEATS
    beats = spark.createDataFrame([("e", "s", "c", "o", 1, T0_MS, 30_000, None, 1, [], 0)], table.spark_nullable)
    lake.append(table, beats, run=0)
    with pytest.raises(Exception, match="DELTA_REPLACE_WHERE_MISMATCH"):
        lake.replace_since(table, beats, since_ms=T0_MS + DAY_MS, run=1)
    assert lake.read(table, lake.log(table).latest()).count() == 1


def test_a_column_that_an_older_table_lacks_is_null_and_is_there_from_the_next_run_on(
    spark: Any, tmp_path: Path
) -> None:
    new = schemas.BLIND_WINDOWS
    old = schemas.Table(new.name, new.version, new.columns[:2], new.key)
    lake = Lake(spark, tmp_path)
    first = lake.append(old, spark.createDataFrame([("c", 1)], old.spark_nullable), run=0)
    assert [tuple(row) for row in lake.read(new, first.version).collect()] == [("c", 1, None)]
    second = lake.append(new, spark.createDataFrame([("c", 5, 9)], new.spark_nullable), run=1)
    rows = sorted(tuple(row) for row in lake.read(new, second.version).collect())
    assert rows == [("c", 1, None), ("c", 5, 9)]


def test_a_write_at_the_same_moment_is_a_conflict(spark: Any, tmp_path: Path) -> None:
    """Another run replaces the days while this one reads its rows."""
    lake, table = Lake(spark, tmp_path), schemas.BLIND_WINDOWS
    lake.overwrite(table, spark.createDataFrame([("c", 1, 2)], table.spark_nullable), run=0)

    def slow(batches: Iterator[Any]) -> Iterator[Any]:
        (tmp_path / "this one reads").touch()
        until((tmp_path / "other is through").exists, deadline_s=120, what="the other writer is through")
        yield from batches

    # One task: the other writer has the second core.
    rows = spark.createDataFrame([("c", 1, 3)], table.spark_nullable).coalesce(1).mapInArrow(slow, table.spark_nullable)
    with ThreadPoolExecutor(1) as pool:
        mine = pool.submit(lake.overwrite, table, rows, run=1)
        until((tmp_path / "this one reads").exists, deadline_s=120, what="this writer reads")
        other = Lake(spark, tmp_path).overwrite(
            table, spark.createDataFrame([("c", 1, 4)], table.spark_nullable), run=1
        )
        (tmp_path / "other is through").touch()
        with pytest.raises(ConflictError, match="silver/blind_windows"):
            mine.result(timeout=120)
    assert [row["end_ms"] for row in lake.read(table, other.version).collect()] == [4]


@of_many_runs
def test_upkeep_changes_files_and_no_rows_and_keeps_what_kept_runs_need(grown: tuple[Lake, list[Published]]) -> None:
    lake, states = grown
    before = {table.name: content(lake, states[-1], table) for table in TABLES}
    events = schemas.MEMBER_EVENTS
    scattered = parquet_files(lake, events)
    forgotten = tidy(lake, TABLES, keep=2, now_ms=int(time.time() * 1000), is_thorough=True)
    assert forgotten == [0]
    assert parquet_files(lake, events) > scattered, "compacted, and what kept runs need is there"
    for state in states[1:]:
        assert lake.published(events, state).count() == state.rows(events.name)
    newest = Published(plan=states[-1].plan, tables={
        name: type(kept)(lake.log(next(t for t in TABLES if t.name == name)).latest() or 0, kept.rows)
        for name, kept in states[-1].tables.items()
    })  # fmt: skip
    assert {table.name: content(lake, newest, table) for table in TABLES} == before
    compact(lake, events)
    vacuum(lake, events, hours=0)
    live = {Path(uri).name for uri in DeltaTable(folder_of(lake, events)).file_uris()}
    assert parquet_files(lake, events) == live
    assert len(live) == 2, "a file for each day"
    assert content(lake, newest, events) == before[events.name]
