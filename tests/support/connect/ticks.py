"""When tasks ran, by their own lines: gaps, stops, moves, and what ran twice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

OVERLAP_MS = 100
"""A gap below a tick's distance is not distinguished from an end and a new beginning."""


@dataclass(frozen=True, slots=True, order=True)
class Line:
    """One line of a task or connector; worker is the name of the process that wrote it."""

    at_ms: int
    what: str
    work: str
    worker: str


@dataclass(frozen=True, slots=True)
class Run:
    """One uninterrupted life of a task in one process."""

    work: str
    worker: str
    began_ms: int
    ended_ms: int


def read(files: Mapping[str, Sequence[Path]]) -> list[Line]:
    """Read the files of each worker, in the order of time; a line that is still being written is left out."""
    lines: list[Line] = []
    for worker, paths in files.items():
        for path in paths:
            text = path.read_text() if path.exists() else ""
            for row in text[: text.rfind("\n") + 1].splitlines():
                at_ms, what, work = row.split(" ", 2)
                lines.append(Line(int(at_ms), what, work, worker))
    return sorted(lines)


def tasks(lines: Iterable[Line], since_ms: int) -> dict[str, set[str]]:
    """Return which tasks ticked since a time, and in which workers."""
    ticked: dict[str, set[str]] = {}
    for line in lines:
        if line.what == "TICK" and line.at_ms >= since_ms:
            ticked.setdefault(line.work, set()).add(line.worker)
    return ticked


def gaps_ms(lines: Iterable[Line], from_ms: int, to_ms: int) -> dict[str, int]:
    """Return for each task how long it did not tick at the longest between two times."""
    ticked: dict[str, list[int]] = {}
    for line in lines:
        if line.what == "TICK":
            ticked.setdefault(line.work, []).append(line.at_ms)
    longest: dict[str, int] = {}
    for work, times in ticked.items():
        before = max((at for at in times if at < from_ms), default=from_ms)
        inside = [before, *(at for at in times if from_ms <= at <= to_ms), to_ms]
        longest[work] = max(after - at for at, after in pairwise(inside))
    return longest


def stopped(lines: Iterable[Line], from_ms: int, to_ms: int, but: str) -> list[str]:
    """Return the tasks that were stopped in other workers than one between two times."""
    return [
        line.work
        for line in lines
        if line.what == "STOP" and "/" in line.work and line.worker != but and from_ms <= line.at_ms <= to_ms
    ]


def runs(lines: Iterable[Line]) -> list[Run]:
    """Return every life of every task, from its start to its last tick or stop."""
    open_runs: dict[tuple[str, str], Run] = {}
    found: list[Run] = []
    for line in lines:
        if "/" not in line.work:
            continue
        key = (line.work, line.worker)
        if line.what == "START" and key in open_runs:
            found.append(open_runs.pop(key))
        run = open_runs.get(key, Run(line.work, line.worker, line.at_ms, line.at_ms))
        open_runs[key] = Run(run.work, run.worker, run.began_ms, line.at_ms)
        if line.what == "STOP":
            found.append(open_runs.pop(key))
    return [*found, *open_runs.values()]


def twice(lines: Iterable[Line]) -> list[tuple[Run, Run]]:
    """Return the pairs of lives of one task that overlap."""
    by_task: dict[str, list[Run]] = {}
    for run in runs(lines):
        by_task.setdefault(run.work, []).append(run)
    return [
        (one, other)
        for lives in by_task.values()
        for at, one in enumerate(sorted(lives, key=lambda run: run.began_ms))
        for other in sorted(lives, key=lambda run: run.began_ms)[at + 1 :]
        if other.began_ms < one.ended_ms - OVERLAP_MS
    ]
