"""A run is published atomically and once, and a table's log shows its writes."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import pytest

from fleet_learner.errors import ConflictError, CorruptError
from fleet_learner.lake import Plan, Published, RunLog, TableState, local_path, uri_of
from fleet_learner.lake.commits import APP_ID, CommitLog
from fleet_learner.lake.lake import days_around
from fleet_learner.lake.lock import only_writer
from fleet_learner.lake.objects import LocalObjects, draft_of
from fleet_learner.lake.upkeep import HOURS_MIN, retention_hours

PLAN = Plan(number=0, as_of_ms=5, sources={"kafka:t": {"start": {"t": {"0": 0}}, "end": {"t": {"0": 9}}}})


def log_in(folder: Path) -> RunLog:
    return RunLog(LocalObjects(folder))


def published(number: int, version: int = 3) -> Published:
    tables = {"silver/beats": TableState(version, 7)}
    return Published(plan=Plan(number=number, as_of_ms=5), tables=tables, counts={"rows": 3})


def test_an_empty_log_has_nothing(tmp_path: Path) -> None:
    runs = log_in(tmp_path / "missing")
    assert (runs.latest(), runs.unfinished(), runs.numbers()) == (None, None, [])


def test_what_is_published_is_read_back_and_the_highest_number_counts(tmp_path: Path) -> None:
    runs = log_in(tmp_path)
    for number in range(12):
        runs.publish(published(number, version=number))
    latest = runs.latest()
    assert latest == published(11, version=11)
    assert runs.read(3) == published(3, version=3)
    assert (latest.version("silver/beats"), latest.rows("silver/beats")) == (11, 7)
    assert (latest.version("silver/outages"), latest.rows("silver/outages")) == (None, 0)
    with pytest.raises(FileNotFoundError):
        runs.read(12)


def test_a_plan_is_fixed_once_and_found_until_its_run_is_published(tmp_path: Path) -> None:
    runs = log_in(tmp_path)
    runs.begin(PLAN)
    assert log_in(tmp_path).unfinished() == PLAN
    with pytest.raises(ConflictError):
        runs.begin(Plan(number=0, as_of_ms=6))
    runs.publish(Published(plan=PLAN, tables={}))
    assert runs.unfinished() is None


def test_a_plan_may_be_amended_until_its_run_is_published(tmp_path: Path) -> None:
    runs, less = log_in(tmp_path), Plan(number=0, as_of_ms=5)
    runs.begin(PLAN)
    runs.amend(less)
    assert log_in(tmp_path).unfinished() == less


def test_of_two_writers_one_fails(tmp_path: Path) -> None:
    log_in(tmp_path).publish(published(0, version=1))
    with pytest.raises(ConflictError):
        log_in(tmp_path).publish(published(0, version=2))
    assert log_in(tmp_path).latest() == published(0, version=1)


def test_a_hole_in_the_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the next one is 0"):
        log_in(tmp_path).publish(published(1))


def test_of_many_writers_at_once_exactly_one_creates_and_no_draft_stays(tmp_path: Path) -> None:
    def attempt(text: str) -> str | None:
        try:
            LocalObjects(tmp_path).create("000000000000.json", text.encode())
        except ConflictError:
            return None
        return text

    with ThreadPoolExecutor(8) as pool:
        winners = [text for text in pool.map(attempt, [f"writer {n}" for n in range(40)]) if text]
    assert winners == [(tmp_path / "000000000000.json").read_text()]
    assert [p.name for p in tmp_path.iterdir()] == ["000000000000.json"]


def test_no_two_writers_share_a_draft_not_even_with_the_same_process_and_thread(tmp_path: Path) -> None:
    """Two drivers on a shared volume are both process 7 of their pods; opening the other's draft would empty it."""
    path = tmp_path / "000000000000.json"
    drafts = {draft_of(path) for _ in range(100)}
    assert len(drafts) == 100
    assert {(draft.parent, draft.name[:1]) for draft in drafts} == {(tmp_path, ".")}


def test_old_runs_are_forgotten_and_what_is_unfinished_stays(tmp_path: Path) -> None:
    runs = log_in(tmp_path)
    for number in range(4):
        runs.begin(Plan(number=number, as_of_ms=5))
        runs.publish(published(number))
    runs.begin(Plan(number=4, as_of_ms=5))
    assert runs.forget(0) == []
    assert runs.forget(2) == [0, 1]
    assert (runs.numbers(), runs.forget(2)) == ([2, 3], [])
    plan = runs.unfinished()
    assert plan.number == 4


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"plan": {"number": 0}, "tables": {"a": 1}, "counts": {}}'])
def test_a_run_or_a_plan_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "000000000001.plan.json").write_text(text)
    log_in(tmp_path).publish(published(0))
    with pytest.raises(CorruptError, match=r"000000000001\.plan\.json is no plan"):
        log_in(tmp_path).unfinished()
    (tmp_path / "000000000001.json").write_text(text)
    with pytest.raises(CorruptError, match=r"000000000001\.json is no run"):
        log_in(tmp_path).latest()


# a table's own log ---------------------------------------------------------------------------------------------------


def commit(
    folder: Path, version: int, operation: str, *, run: int | None = None, app: str = APP_ID, **metrics: str
) -> None:
    """Write a commit as Delta does."""
    lines = [{"commitInfo": {"operation": operation, "operationMetrics": metrics}}]
    if run is not None:
        lines.append({"txn": {"appId": app, "version": run}})  # type: ignore[dict-item]
    lines.append({"add": {"path": "part-0.parquet"}})  # type: ignore[dict-item]
    text = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)
    (folder / f"{version:020d}.json").write_text(text)


def test_the_commit_of_a_run_is_found_behind_upkeep_and_later_runs(tmp_path: Path) -> None:
    log = CommitLog(LocalObjects(tmp_path))
    assert (log.latest(), log.of_run(0)) == (None, None)
    commit(tmp_path, 0, "CREATE TABLE")
    commit(tmp_path, 1, "WRITE", run=3, numOutputRows="5")
    commit(tmp_path, 2, "WRITE", run=9, app="another", numOutputRows="50")
    commit(tmp_path, 3, "OPTIMIZE")
    commit(tmp_path, 4, "MERGE", run=5, numTargetRowsInserted="2", numOutputRows="4")
    commit(tmp_path, 5, "VACUUM END")
    (tmp_path / f"{4:020d}.checkpoint.parquet").write_bytes(b"x")
    (tmp_path / "_last_checkpoint").write_text("{}")
    found = {run: log.of_run(run) for run in (2, 3, 4, 5, 9)}
    assert {run: each and (each.version, each.rows) for run, each in found.items()} == {
        2: None, 3: (1, 5), 4: None, 5: (4, 2), 9: None,
    }  # fmt: skip
    assert log.latest() == 5


def test_a_commit_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    commit(tmp_path, 7, "WRITE", run=1)
    path = tmp_path / f"{7:020d}.json"
    path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(CorruptError, match=rf"{path} is no commit"):
        CommitLog(LocalObjects(tmp_path)).of_run(1)


# places, time, one writer --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "uri", "path"),
    [
        ("/data/fleet", "file:/data/fleet", "/data/fleet"),
        (Path("/data/fleet"), "file:/data/fleet", "/data/fleet"),
        ("file:///data/fleet/", "file:/data/fleet", "/data/fleet"),
        ("file:/data/fleet", "file:/data/fleet", "/data/fleet"),
        ("s3a://bucket/fleet/", "s3a://bucket/fleet", None),
        ("hdfs://name:8020/fleet", "hdfs://name:8020/fleet", None),
    ],
)
def test_a_place_is_a_uri_in_one_form(place: str | Path, uri: str, path: str | None) -> None:
    assert uri_of(place) == uri
    assert local_path(uri) == (None if path is None else Path(path))


def test_files_are_kept_for_as_long_as_the_oldest_run_that_is_kept_and_a_day_at_least() -> None:
    hour_ms = 3_600_000
    assert retention_hours(0, hour_ms) == HOURS_MIN == 24
    assert retention_hours(0, 30 * 24 * hour_ms) == 30 * 24 + 1
    assert retention_hours(0, 30 * 24 * hour_ms + 1) == 30 * 24 + 2


def test_a_root_has_one_writer_at_a_time(tmp_path: Path) -> None:
    root = uri_of(tmp_path / "new")
    with only_writer(root), pytest.raises(ConflictError, match="at this moment"), only_writer(root):
        pass
    with only_writer(root), only_writer(uri_of(tmp_path / "other")), only_writer("s3a://bucket/fleet"):
        pass


def test_the_days_around_a_day_are_those_before_and_after_and_end_with_the_calendar() -> None:
    """Copies are searched on them; the last millisecond of the calendar is a valid time of a journal."""
    assert days_around([date(2026, 3, 1)], 1) == {date(2026, 2, 28), date(2026, 3, 1), date(2026, 3, 2)}
    assert days_around([date.max], 1) == {date(9999, 12, 30), date.max}
    assert days_around([date.min], 1) == {date.min, date(1, 1, 2)}
