"""The judge of real Connect workers can say no: gaps, stops, and tasks that run twice."""

from __future__ import annotations

from pathlib import Path

from support.connect.ticks import Line, gaps_ms, read, runs, stopped, tasks, twice


def ticking(who: str, worker: str, from_ms: int, to_ms: int) -> list[Line]:
    ticks = [Line(at_ms, "TICK", who, worker) for at_ms in range(from_ms + 1, to_ms, 200)]
    return [Line(from_ms, "START", who, worker), *ticks, Line(to_ms, "STOP", who, worker)]


def test_a_task_that_moves_runs_once_and_one_that_overlaps_twice() -> None:
    moved = sorted([*ticking("a/0", "w-0", 0, 1000), *ticking("a/0", "w-1", 1000, 2000)])
    assert twice(moved) == []
    overlapping = sorted([*ticking("a/0", "w-0", 0, 1000), *ticking("a/0", "w-1", 600, 2000)])
    assert [(one.worker, other.worker) for one, other in twice(overlapping)] == [("w-0", "w-1")]


def test_a_killed_process_of_a_worker_ends_its_run_where_the_next_begins() -> None:
    killed = [line for line in ticking("a/0", "w-0", 0, 1000) if line.what != "STOP"]
    lines = sorted([*killed, *ticking("a/0", "w-0", 6000, 7000)])
    assert [(run.began_ms, run.ended_ms) for run in runs(lines)] == [(0, 801), (6000, 7000)]
    assert twice(lines) == []


def test_a_run_without_a_stop_overlaps_its_successor() -> None:
    zombie = [line for line in ticking("a/0", "w-0", 0, 5000) if line.what != "STOP"]
    assert len(twice(sorted([*zombie, *ticking("a/0", "w-1", 1000, 2000)]))) == 1


def test_a_gap_counts_from_the_last_tick_before_to_the_first_after() -> None:
    lines = sorted(
        [*ticking("a/0", "w-0", 0, 1000), *ticking("a/0", "w-0", 6000, 7000), *ticking("a/1", "w-1", 0, 7000)]
    )
    assert gaps_ms(lines, from_ms=900, to_ms=6900) == {"a/0": 5200, "a/1": 200}


def test_a_task_that_never_comes_back_is_down_until_the_end() -> None:
    assert gaps_ms(ticking("a/0", "w-0", 0, 1000), from_ms=900, to_ms=9000) == {"a/0": 9000 - 801}


def test_stops_of_others_are_counted_and_those_of_connectors_are_not() -> None:
    lines = [*ticking("a/0", "w-0", 0, 1000), *ticking("a/1", "w-1", 0, 1000), Line(1000, "STOP", "a", "w-1")]
    assert stopped(lines, from_ms=500, to_ms=2000, but="w-0") == ["a/1"]
    assert stopped(lines, from_ms=1500, to_ms=2000, but="w-0") == []


def test_a_line_that_is_being_written_waits(tmp_path: Path) -> None:
    file = tmp_path / "w-0-1.ticks"
    file.write_text("1000 START a/0\n1200 TICK a/0\n14")
    lines = read({"w-0": [file, tmp_path / "none"]})
    assert lines == [Line(1000, "START", "a/0", "w-0"), Line(1200, "TICK", "a/0", "w-0")]
    assert tasks(lines, since_ms=1100) == {"a/0": {"w-0"}}
    assert tasks(lines, since_ms=1300) == {}
