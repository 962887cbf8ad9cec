"""The arithmetic of standstills: Spark's columns against a plain loop on random timelines, and invariances."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from fleet_learner.bill.causes import CauseKind
from fleet_learner.bill.schemas import CAUSES, OFFSET_COMMITS
from fleet_learner.bill.standstills import Evidence, standstills

T0 = 1_700_000_000_000


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One record of the log: a commit (`offset`), a deleted offset (None), or a cause (`kind`)."""

    group: str
    at_ms: int
    partition: int = 0
    offset: int | None = None
    kind: CauseKind | None = None


@dataclass(frozen=True)
class Found:
    """The compared fields of a row."""

    group: str
    partition: int
    from_offset: int
    to_offset: int | None
    evidence: str
    standstill_ms: int | None
    usual_ms: int | None


Log = list[Entry]


def weighted(gaps: Sequence[int]) -> tuple[int, int, int] | None:
    """The median, the 95 % quantile and the maximum of gaps by their time, as `percentile` interpolates them; None of
    fewer than 8."""
    if len(gaps) < 8:
        return None
    spread = [gap for gap in sorted(gaps) for _ in range(max(gap, 1))]

    def quantile(share: float) -> int:
        at = share * (len(spread) - 1)
        low, high = spread[int(at)], spread[min(int(at) + 1, len(spread) - 1)]
        return int(low + (high - low) * (at - int(at)) + 0.5)

    return quantile(0.5), quantile(0.95), spread[-1]


def plain(log: Log) -> set[Found]:
    """Measure one partition after the other by a loop; all within one hour, so that all gaps are nearby."""
    found: set[Found] = set()
    for group, partition in {(e.group, e.partition) for e in log if e.kind is None}:
        mine = [
            (n, e) for n, e in enumerate(log) if e.group == group and (e.kind is not None or e.partition == partition)
        ]
        found |= set(_partition(mine, group, partition))
    return found


def _partition(entries: list[tuple[int, Entry]], group: str, partition: int) -> Iterator[Found]:
    """Yield the standstills of one partition; `entries` are its commits and its group's causes by position."""
    runs: list[list[tuple[tuple[int, Entry], tuple[int, Entry] | None, int, int]]] = [[]]
    last: tuple[int, Entry] | None = None
    before_last: int | None = None
    causes, number = 0, 0
    for place, entry in entries:
        if entry.kind is not None:
            causes += 1
            continue
        number += 1
        if last is not None and last[1].offset is not None:
            runs[-1].append((last, (place, entry), causes, number))
        is_progress = entry.offset is not None and last is not None and last[1].offset is not None and (
            entry.offset > last[1].offset
            and not (before_last is not None and last[1].offset < before_last and entry.offset == before_last)
        )  # fmt: skip
        if is_progress or entry.offset is None or last is None or last[1].offset is None:
            runs.append([])
        before_last = last[1].offset if last is not None else None
        last, causes = (place, entry), 0
    if causes and last is not None and last[1].offset is not None:
        runs[-1].append((last, None, causes, number + 1))
    yield from _judged([run for run in runs if run], group, partition)


def _judged(runs: list[Any], group: str, partition: int) -> Iterator[Found]:
    def pause(step: Any) -> int:
        return max(0, step[1][1].at_ms - step[0][1].at_ms)

    def is_closed(run: Any) -> bool:
        end = run[-1][1]
        return (
            end is not None
            and end[1].offset is not None
            and end[1].offset > run[-1][0][1].offset
            and not _restored(run)
        )

    def _restored(run: Any) -> bool:
        return (
            len(run) > 1
            and run[-1][0][1].offset < run[-2][0][1].offset
            and run[-1][1][1].offset == run[-2][0][1].offset
        )

    steps = [
        s for run in runs for s in run if s[1] is not None and s[1][1].offset is not None and s[3] > 2 and not s[2]
    ]
    live = weighted([pause(s) for s in steps])
    gaps = [
        max(0, run[-1][1][1].at_ms - run[0][0][1].at_ms)
        for run in runs
        if is_closed(run) and run[0][3] > 2 and not any(s[2] for s in run)
    ]
    usual = weighted(gaps)
    for run in runs:
        caused = [step for step in run if step[2]]
        if not caused:
            continue
        start, heard = caused[0][0], caused[-1][1]
        end = run[-1][1] if is_closed(run) else None
        evidence, standstill_ms, usual_ms = "IdleOrStopped", None, usual[0] if usual else None
        if run[0][3] <= 2:
            evidence = "Compacted"
        elif run[-1][1] is not None and run[-1][1][1].offset is None:
            evidence = "OffsetDeleted"
        elif heard is None:
            evidence = "Open"
        elif usual and usual[1] <= 2 * usual[0] and end is not None and end[1].at_ms - heard[1].at_ms <= usual[1]:
            silence_ms = max(0, end[1].at_ms - start[1].at_ms)
            evidence, standstill_ms = "Progress", silence_ms - usual[0] if silence_ms > usual[1] else 0
        elif live and live[1] <= 2 * live[0]:
            evidence = "LiveCommits"
            standstill_ms = sum(pause(s) - live[0] for s in caused if pause(s) > live[1])
        elif end is None:
            evidence = "Open"
        elif (
            len(gaps) >= 20
            and (silence_ms := max(0, end[1].at_ms - start[1].at_ms)) > 2 * max(gaps)
            and end[1].at_ms - heard[1].at_ms <= max(gaps)
        ):
            evidence, standstill_ms = "LongSilence", silence_ms - max(gaps)
        elif not usual and not live:
            evidence = "TooFew"
        yield Found(group, partition, start[0], end and end[0], evidence, standstill_ms, usual_ms)


def measured(spark: Any, log: Log) -> set[Found]:
    commits, causes = [], []
    for n, e in enumerate(log):
        if e.kind is None:
            value = (None, None, None) if e.offset is None else (4, e.offset, -1)
            commits.append((7, n, e.at_ms, "OFFSET_COMMIT", e.offset is None, e.group, "t", e.partition, *value, "",
                            e.at_ms,
                            None, None))  # fmt: skip
        else:
            causes.append((7, n, 0, e.at_ms, e.kind.value, e.group, "Classic", 1, n, "consumer", "range", 2, 0, 0, 0, 0,
                           0,
                           1, [], [], [], [], False))  # fmt: skip
    frames = [
        spark.createDataFrame(rows, table.spark_nullable)
        for rows, table in ((commits, OFFSET_COMMITS), (causes, CAUSES))
    ]
    kept: list[Any] = []

    def keep(frame: Any) -> Any:
        kept.append(frame.persist())
        return kept[-1]

    try:
        rows = standstills(*frames, "k", keep=keep).collect()
    finally:
        for frame in kept:
            frame.unpersist()
    assert all(row["is_interrupted"] == bool(row["standstill_ms"]) for row in rows)
    return {Found(r["group_id"], r["partition"], r["from_offset"], r["to_offset"], r["evidence"], r["standstill_ms"],
                  r["usual_ms"]) for r in rows}  # fmt: skip


USUALLY = ("commit",) * 24
SELDOM = ("same", "same", "zombie", "reset", "deleted", "cause", "cause", "stop", "stop")


def life(random: Random, group: str) -> Log:
    """A group's life within one hour: commits with and without progress, resets, zombies, deletions, causes; any
    clocks."""
    entries: Log = []
    at_ms = T0
    offsets = [100, 100]
    usual_ms = random.choice([50, 200])
    for _ in range(random.randint(20, 120)):
        what = random.choice(USUALLY + SELDOM)
        at_ms += random.choice([usual_ms, usual_ms, usual_ms, 0, 7, -40])
        partition = random.randint(0, 1)
        if what == "cause":
            entries.append(Entry(group=group, at_ms=at_ms, kind=CauseKind.JOIN))
            continue
        if what == "stop":
            at_ms += random.randint(0, 5_000)
        elif what == "zombie":
            entries.append(Entry(group=group, at_ms=at_ms, partition=partition, offset=offsets[partition] - 5))
        elif what == "reset":
            offsets[partition] = 10
        elif what == "commit":
            offsets[partition] += random.randint(1, 9)
        offset = None if what == "deleted" else offsets[partition]
        entries.append(Entry(group=group, at_ms=at_ms, partition=partition, offset=offset))
    return entries


def interleaved(logs: Sequence[Log]) -> Log:
    """Merge the logs of groups by time, each in its order."""
    places = [
        (max(e.at_ms for e in log[: n + 1]), index, n, e) for index, log in enumerate(logs) for n, e in enumerate(log)
    ]
    return [entry for *_, entry in sorted(places, key=lambda each: each[:3])]


def lives(seed: int) -> Log:
    """Forty groups in one log."""
    random = Random(seed)
    return interleaved([life(random, f"g{number}") for number in range(40)])


seeds = st.integers(0, 2**32)
quick = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate])


EVERYTHING = 3
"""A seed whose lives contain all cases, even an offset that is deleted twice with a cause in between."""


def test_one_life_in_forty_has_everything() -> None:
    log = lives(EVERYTHING)
    kinds = {each.evidence for each in plain(log)}
    assert kinds == {e.value for e in Evidence} - {Evidence.GROUP_EMPTY}
    assert any(_is_deleted_twice(log, group, partition) for group in {e.group for e in log} for partition in (0, 1))


def _is_deleted_twice(log: Log, group: str, partition: int) -> bool:
    mine = [e for e in log if e.group == group and (e.kind is not None or e.partition == partition)]
    words = ["cause" if e.kind else "deleted" if e.offset is None else "commit" for e in mine]
    return any(words[n : n + 3] == ["deleted", "cause", "deleted"] for n in range(len(words)))


@settings(quick, max_examples=1)
@example(EVERYTHING, 50_000)
@given(seeds, st.integers(-2_000, 2_000))
def test_spark_measures_what_a_plain_loop_measures(spark: Any, seed: int, hours: int) -> None:
    """The same holds for a group whose clocks are off by hours, in between the others."""
    log = lives(seed)
    shifted = [replace(e, group="shifted", at_ms=e.at_ms + hours * 3_600_000) for e in log if e.group == "g0"]
    both = interleaved([log, shifted])
    found = measured(spark, both)
    assert found == plain(both)

    def lengths(group: str) -> list[tuple[Any, ...]]:
        return sorted(
            (f.partition, f.evidence, f.standstill_ms or 0, f.usual_ms or 0) for f in found if f.group == group
        )

    assert lengths("shifted") == lengths("g0")


def steady(group: str, *, stop_ms: int, is_eager: bool = True, idle: str = "no") -> Log:
    """Two partitions, a commit each second; a rebalance in the middle stops all of them, or partition 1 only."""
    entries: Log = []
    offset = 0
    for second in range(60):
        at_ms = T0 + second * 1_000 + (stop_ms if second >= 30 else 0)
        if second == 30:
            entries.append(Entry(group=group, at_ms=at_ms - stop_ms // 2 - 500, kind=CauseKind.JOIN))
        offset += 10
        for partition in (0, 1):
            kept = not is_eager and partition == 0
            is_idle = idle != "no" and second % 10 and partition == 1
            if is_idle and idle == "silent":
                continue
            at_own_ms = at_ms - (stop_ms if kept and second >= 30 else 0)
            value = offset - 10 * (second % 10) if is_idle else offset
            entries.append(Entry(group=group, at_ms=at_own_ms, partition=partition, offset=value))
    return sorted(entries, key=lambda e: e.at_ms)


def test_what_stops_is_billed_once_and_what_is_idle_is_not(spark: Any) -> None:
    several = steady("several", stop_ms=8_000)
    at = next(n for n, e in enumerate(several) if e.kind is not None)
    several[at + 1 : at + 1] = [replace(several[at], kind=CauseKind.RESTART), several[at]]
    log = interleaved(
        [
            steady("eager", stop_ms=8_000),
            steady("cooperative", stop_ms=8_000, is_eager=False),
            steady("idle", stop_ms=8_000, idle="live"),
            steady("mute", stop_ms=8_000, idle="silent"),
            steady("quick", stop_ms=0),
            several,
        ]
    )
    found = measured(spark, log)
    assert len(found) == 12
    assert {(f.group, f.partition): (f.evidence, f.standstill_ms) for f in found} == {
        ("eager", 0): ("Progress", 8_000),
        ("eager", 1): ("Progress", 8_000),
        ("cooperative", 0): ("Progress", 0),
        ("cooperative", 1): ("Progress", 8_000),
        ("idle", 0): ("Progress", 8_000),
        ("idle", 1): ("LiveCommits", 8_000),
        ("mute", 0): ("Progress", 8_000),
        ("mute", 1): ("TooFew", None),
        ("quick", 0): ("Progress", 0),
        ("quick", 1): ("Progress", 0),
        ("several", 0): ("Progress", 8_000),
        ("several", 1): ("Progress", 8_000),
    }
