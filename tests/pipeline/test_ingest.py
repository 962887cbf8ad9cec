"""Runs of ingest of any size: nothing is lost or doubled, with late facts and rewritten days."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fleet_learner import schemas
from fleet_learner.intake import quality
from fleet_learner.intake.ingest import DAY_MS, TABLES, ingest
from fleet_learner.intake.planning import Horizon
from fleet_learner.lake import Lake, Published
from fleet_learner.sources.files import JournalFiles
from fleet_learner.sources.journal_topic import JournalTopic
from pipeline import timelines
from pipeline.conftest import Topics
from pipeline.timelines import T0_MS

MINUTE_MS = 60_000
MONTH_MS = 31 * DAY_MS
MIDNIGHT_MS = T0_MS // DAY_MS * DAY_MS + 4 * DAY_MS
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


def content(lake: Lake, state: Published, table: schemas.Table) -> list[tuple[str, ...]]:
    """Return all rows of a table, sorted."""
    return sorted(tuple(str(v) for v in row) for row in lake.published(table, state).collect())


def rows(state: Published, table: schemas.Table) -> int:
    return state.rows(table.name)


def kinds(lake: Lake, state: Published) -> dict[str, int]:
    found = quality.outage_findings(lake.published(schemas.OUTAGES, state))
    return {name: count for name, count in found.items() if count}


def test_files_become_tables_and_every_record_has_a_fate(spark: Any, tmp_path: Path) -> None:
    lines = history()
    journal = tmp_path / "journal"
    timelines.write_file(journal / "journal-a-00000000.jsonl", [*lines, *lines[:10], "nonsense", "{}"])
    timelines.write_file(journal / "journal-b-00000000.jsonl", lines[5:25])
    lake = Lake(spark, tmp_path / "lake")
    state = ingest(lake, [JournalFiles(journal)], as_of_ms=AS_OF_MS)
    assert state.counts["duplicates"] == 10 + 20
    assert rows(state, schemas.EVENTS) == len(lines) + 10 + 2 + 20
    assert rows(state, schemas.QUARANTINE) == 2
    assert rows(state, schemas.MEMBER_EVENTS) == 3 * (6 * 3 + 3)
    assert rows(state, schemas.GROUP_EVENTS) == 3 * 6
    assert rows(state, schemas.BEATS) == 100
    assert kinds(lake, state) == {"returned": 18, "removed": 3, "open": 3}
    end_ms = T0_MS - 60_000 + 99 * 600_000
    assert state.counts["window_end_ms"] == end_ms, "the data end before the as-of time"
    blind = [(r["start_ms"], r["end_ms"]) for r in lake.published(schemas.BLIND_WINDOWS, state).collect()]
    assert blind == [(end_ms, AS_OF_MS)], "a journal that ends is not watched any more"


@pytest.mark.long  # a run for each of several days
def test_a_later_run_closes_outages_of_days_that_are_past(spark: Any, tmp_path: Path) -> None:
    """An outage belongs to the day on which it began; its row is recomputed while it is open."""
    journal, lake = tmp_path / "journal", Lake(spark, tmp_path / "lake")
    source, path = JournalFiles(journal), journal / "journal-a-00000000.jsonl"
    days = [T0_MS + n * DAY_MS for n in range(12)]
    timelines.write_file(path, [timelines.change("down", "g", 0, 0, days[0])])
    assert kinds(lake, ingest(lake, [source], as_of_ms=days[0])) == {"open": 1}
    timelines.write_file(path, [timelines.change("down", "g", 1, 0, days[5]), timelines.back("g", 1, 1, days[5] + 9)])
    second = ingest(lake, [source], as_of_ms=days[5] + 100)
    assert kinds(lake, second) == {"returned": 1, "open": 1, "longer_than_a_day": 1}
    timelines.write_file(path, [timelines.back("g", 0, 1, days[5] + 500)])
    third = ingest(lake, [source], as_of_ms=days[5] + 600)
    assert third.counts["rewrite_from_ms"] == days[0] // DAY_MS * DAY_MS
    assert kinds(lake, third) == {"returned": 2, "longer_than_a_day": 1}


def outages_of_runs(spark: Any, folder: Path, runs: Sequence[tuple[int, list[str]]]) -> list[tuple[str, ...]]:
    """Return silver/outages after runs, each given by the end of its window and its records."""
    lake, path = Lake(spark, folder / "lake"), folder / "journal" / "journal-a-00000000.jsonl"
    for end_ms, lines in runs:
        timelines.write_file(path, [*lines, timelines.beat(end_ms, interval_ms=MONTH_MS)])
        state = ingest(lake, [JournalFiles(path.parent)], as_of_ms=end_ms)
    return content(lake, state, schemas.OUTAGES)


def at_once(runs: Sequence[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    return [(runs[-1][0], [line for _, lines in runs for line in lines])]


def over_midnight() -> dict[str, tuple[list[str], list[str], int]]:
    """Return stories of a member: its facts before and after a midnight, and the number of outages."""
    before, after = MIDNIGHT_MS - MINUTE_MS, MIDNIGHT_MS + MINUTE_MS
    change, back = timelines.change, timelines.back
    return {
        "a crash loop": ([change("down", "g", 0, 0, before)],
                         [change("down", "g", 0, 1, after), back("g", 0, 2, after + 9)], 1),
        "a return": ([change("down", "g", 0, 0, before), back("g", 0, 1, before + 9)],
                     [change("down", "g", 0, 1, after)], 2),
        "an end that is reported late": (
            [
                change("up", "g", 0, 0, before - MINUTE_MS, pod="old"),
                change("up", "g", 0, 0, before, pod="new"),
                back("g", 0, 1, before + 9),
            ],
            [change("down", "g", 0, 0, after, pod="old")],
            0,
        ),
    }  # fmt: skip


@pytest.mark.long  # the absences of the definition are in make test, in one run
@pytest.mark.parametrize("name", over_midnight())
def test_the_midnight_from_which_days_are_made_again_cuts_no_outage_in_two(
    spark: Any, tmp_path: Path, name: str
) -> None:
    before, after, outages = over_midnight()[name]
    runs = [(MIDNIGHT_MS + 3 * DAY_MS + 1, [*before, *after]), (MIDNIGHT_MS + 3 * DAY_MS + 2, [])]
    found = outages_of_runs(spark, tmp_path / "runs", runs)
    assert len(found) == outages
    assert found == outages_of_runs(spark, tmp_path / "once", at_once(runs))


@pytest.mark.long
def test_a_window_that_ended_early_leaves_nothing_out_of_the_next_one(spark: Any, tmp_path: Path) -> None:
    """Records of the future are read once, and shown by the window that reaches them; an earlier window hides them."""
    day = [MIDNIGHT_MS + n * DAY_MS for n in range(13)]
    lines = [
        line
        for n in (1, 4, 6, 8)
        for line in (timelines.change("down", "g", n, 0, day[n]), timelines.back("g", n, 1, day[n] + MINUTE_MS))
    ]
    lake, path = Lake(spark, tmp_path / "lake"), tmp_path / "journal" / "journal-a-00000000.jsonl"
    timelines.write_file(path, [*lines, *(timelines.beat(at, interval_ms=MONTH_MS) for at in day)])
    ends = [day[2], day[12], day[4] + 1, day[12] + 1]
    found = [kinds(lake, ingest(lake, [JournalFiles(path.parent)], as_of_ms=end_ms)) for end_ms in ends]
    assert found == [{"returned": 1}, {"returned": 4}, {"returned": 1, "open": 1}, {"returned": 4}]


@pytest.mark.long  # three runs; make test has one, and one that is done again, in test_cli
def test_a_fact_that_is_too_late_is_counted_and_a_backfill_applies_it(spark: Any, tmp_path: Path) -> None:
    journal, lake = tmp_path / "journal", Lake(spark, tmp_path / "lake")
    source, path = JournalFiles(journal), journal / "journal-a-00000000.jsonl"

    def stop(ordinal: int, at: int) -> list[str]:
        return [timelines.change("down", "g", ordinal, 0, at), timelines.back("g", ordinal, 1, at + 9_000)]

    timelines.write_file(path, [*stop(0, T0_MS), *stop(1, T0_MS + 10 * DAY_MS)])
    first = ingest(lake, [source], as_of_ms=T0_MS + 11 * DAY_MS)
    assert first.counts["late_rows"] == 0, "the first run takes all of history"
    timelines.write_file(path, [*stop(2, T0_MS + 1), *stop(3, T0_MS + 10 * DAY_MS + 1)])
    second = ingest(lake, [source], as_of_ms=T0_MS + 11 * DAY_MS)
    assert (second.counts["late_rows"], rows(second, schemas.MEMBER_EVENTS)) == (2, 8)
    assert kinds(lake, second) == {"returned": 3}
    backfill = Horizon(backfill_from_ms=T0_MS)
    third = ingest(lake, [source], as_of_ms=T0_MS + 11 * DAY_MS, horizon=backfill)
    assert kinds(lake, third) == {"returned": 4}


@pytest.mark.long  # test_cli reads files, and test_kafka_source a topic
def test_a_topic_and_files_are_one_journal(spark: Any, topics: Topics, tmp_path: Path) -> None:
    """A record from both sources counts once; a record without a value has a fate, too."""
    lines = history(groups=2)
    topics.produce("journal", [(n % 4, None, line.encode()) for n, line in enumerate(lines[:60])])
    topics.produce("journal", [(0, b"key", None)])
    timelines.write_file(tmp_path / "journal" / "journal-a-00000000.jsonl", lines[50:])
    topic = JournalTopic({"kafka.bootstrap.servers": topics.bootstrap, "subscribe": "journal"})
    sources = [topic, JournalFiles(tmp_path / "journal")]
    lake = Lake(spark, tmp_path / "lake")
    state = ingest(lake, sources, as_of_ms=AS_OF_MS)
    assert state.counts["duplicates"] == 10
    assert rows(state, schemas.EVENTS) == len(lines) + 11
    assert rows(state, schemas.QUARANTINE) == 1
    assert state.plan.sources["kafka:journal"]["end"] == {"journal": {"0": 16, "1": 15, "2": 15, "3": 15}}
    topics.produce("journal", [(1, None, timelines.beat(AS_OF_MS).encode())])
    again = ingest(lake, sources, as_of_ms=AS_OF_MS)
    assert again.counts["bronze/events_rows"] == 1
    assert again.plan.sources["kafka:journal"]["start"] == state.plan.sources["kafka:journal"]["end"]


@pytest.mark.long  # the order and the partitions of outages, days and waves are tested one by one
def test_the_rows_depend_on_the_records_alone(spark: Any, tmp_path: Path) -> None:
    """Two lakes, two numbers of shuffle partitions, two sizes of Arrow batches: the same rows, counts and plan."""
    timelines.write_file(tmp_path / "journal" / "journal-a-00000000.jsonl", history())
    found = []
    for name, partitions, batch in (("one", "2", "10000"), ("two", "7", "3")):
        before = {key: spark.conf.get(key) for key in SETTINGS}
        lake = Lake(spark, tmp_path / name)
        try:
            for key, value in zip(SETTINGS, (partitions, batch), strict=True):
                spark.conf.set(key, value)
            state = ingest(lake, [JournalFiles(tmp_path / "journal")], as_of_ms=AS_OF_MS)
        finally:
            for key, value in before.items():
                spark.conf.set(key, value)
        found.append((state.plan, state.counts, {table.name: content(lake, state, table) for table in TABLES}))
    assert found[0] == found[1]


SETTINGS = ("spark.sql.shuffle.partitions", "spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.mark.long  # the tests of silver cover copies
def test_a_copy_is_known_by_its_id_within_the_days_that_are_made_again(spark: Any, tmp_path: Path) -> None:
    """The same id with another time: a copy while it is near, a fact of its own further off."""
    lake, path = Lake(spark, tmp_path / "lake"), tmp_path / "journal" / "journal-a-00000000.jsonl"
    source = JournalFiles(path.parent)

    def ended(days: int) -> str:
        return timelines.change("down", "g", 0, 0, T0_MS + days * DAY_MS)

    timelines.write_file(path, [ended(0)])
    ingest(lake, [source], as_of_ms=T0_MS + 9 * DAY_MS)
    timelines.write_file(path, [ended(3)])
    near = ingest(lake, [source], as_of_ms=T0_MS + 9 * DAY_MS)
    assert (near.counts["duplicates"], rows(near, schemas.MEMBER_EVENTS)) == (1, 1)
    timelines.write_file(path, [ended(4)])
    between = ingest(lake, [source], as_of_ms=T0_MS + 9 * DAY_MS)
    assert (between.counts["duplicates"], rows(between, schemas.MEMBER_EVENTS)) == (0, 2)
    timelines.write_file(path, [ended(0)])
    far = ingest(lake, [source], as_of_ms=T0_MS + 9 * DAY_MS)
    assert (far.counts["duplicates"], rows(far, schemas.MEMBER_EVENTS)) == (1, 2), "it is a copy of one of the two"
