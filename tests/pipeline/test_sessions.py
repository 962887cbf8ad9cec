"""Outages against a plain sessioniser of thirty lines, over many random timelines; shuffled, copied, cut into batches."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame

from fleet_learner import schemas, sessions

RANK = {"down": 0, "removed": 1, "up": 2}
AS_OF_MS = 200
MEMBERS = 40


@dataclass(frozen=True)
class Event:
    """A fact about a member; `at` is the source's time, `seen` the operator's, `run` tells processes apart."""

    member: int
    kind: str
    at: int
    run: int
    seen: int
    sourced: bool = True

    @property
    def event_id(self) -> str:
        """Return an id from the fact."""
        return f"{self.member}/{self.run}/{self.kind}"


Outage = tuple[str, int, int | None, int, str, str]


def expected(events: Iterable[Event], windows: Sequence[tuple[int, int]], as_of: int) -> list[Outage]:
    """Return (event id, down, up, gap, clock, end) of every outage: the rule in plain words, one member at a time."""
    members: dict[int, list[Event]] = defaultdict(list)
    for event in set(events):
        if event_time(event) <= as_of:
            members[event.member].append(event)
    outages: list[Outage] = []
    for mine in members.values():
        order = sorted(mine, key=lambda e: (event_time(e), RANK[e.kind], e.event_id))
        for i, down in enumerate(order):
            if down.kind != "down":
                continue
            rest = order[i + 1 : i + 3]
            if rest and rest[0].kind == "up" and same_run(rest[0], down):
                rest = rest[1:]  # its own start: the run had no length
            elif len(rest) == 2 and rest[0].kind == "down" and rest[1].kind == "up" and same_run(*rest):
                rest = rest[1:]  # the return began a run of no length
            start, up, clock = event_time(down), None, "source" if down.sourced else "operator"
            if not rest:
                end, gap = "open", as_of - start
            elif rest[0].kind == "down":
                end, gap, clock = "blind", 0, "source" if down.sourced and rest[0].sourced else "operator"
            else:
                both = down.sourced and rest[0].sourced
                clock = "source" if both else "operator"
                gap = max(0, rest[0].at - down.at if both else rest[0].seen - down.seen)
                end, up = ("returned", event_time(rest[0])) if rest[0].kind == "up" else ("removed", None)
            last = as_of if end == "open" else start + gap
            met = [begin for begin, until in sorted(windows) if begin < last and until > start]
            if met:
                end, gap, up = "blind", max(0, met[0] - start), None
            outages.append((down.event_id, start, up, gap, clock, end))
    return sorted(outages)


def event_time(event: Event) -> int:
    return event.at if event.sourced else event.seen


def same_run(one: Event, other: Event) -> bool:
    return one.run == other.run and event_time(one) == event_time(other)


@st.composite
def fleets(draw: st.DrawFn) -> list[Event]:
    """Draw timelines of many members as different groups of one frame: starting Spark costs more than a member.

    Times are small numbers, so that equal times, runs of no length and lost events are common.
    """
    rng = random.Random(draw(st.integers(0, 2**32)))
    events = []
    for member in range(MEMBERS):
        now = rng.randrange(40)
        for run in range(rng.randrange(7)):
            lag = rng.choice([0, 0, 3])
            sourced = rng.random() < 0.8
            events.append(Event(member, "down", now, run, now + lag, sourced))
            now += rng.choice([0, 0, 1, 5, 30])
            if rng.random() < 0.15:
                events.append(Event(member, "removed", now, run, now, sourced=False))
                now += rng.randrange(20)
            if rng.random() < 0.85:
                events.append(Event(member, "up", now, run + 1, now + lag, rng.random() < 0.8))
            now += rng.choice([0, 0, 2, 40])
    return [event for event in events if rng.random() < 0.95]


def frame(spark: Any, events: Iterable[Event], partitions: int = 2) -> DataFrame:
    """Return silver/member_events of these events; three members share a group."""
    rows = []
    for e in events:
        row: dict[str, Any] = dict.fromkeys(schemas.MEMBER_EVENTS.names)
        row |= {"event_id": e.event_id, "source": "s", "kind": f"member.{e.kind}", "event_ms": event_time(e)}
        row |= {"observed_at_ms": e.seen, "source_time_ms": e.at if e.sourced else None, "k8s_cluster_uid": "c"}
        row |= {"operator_id": "o", "seq": 0, "kafka_cluster_id": "k", "group_id": f"g{e.member // 3}"}
        row |= {"group_key": e.member // 3, "instance_id": f"i{e.member}", "member_key": e.member}
        row |= {
            "pod_uid": f"p{e.member}",
            "restart_count": e.run,
            "outcome": "Removed" if e.kind == "removed" else None,
        }
        rows.append(row)
    return spark.createDataFrame(rows, schemas.MEMBER_EVENTS.spark_nullable).repartition(partitions)


def windows_frame(spark: Any, windows: Sequence[tuple[int, int]]) -> DataFrame:
    return spark.createDataFrame([("c", *window) for window in windows], schemas.BLIND_WINDOWS.spark_nullable)


def found(rows: DataFrame) -> list[Outage]:
    columns = ("event_id", "down_ms", "up_ms", "gap_ms", "clock", "end_kind")
    return sorted(tuple(row) for row in rows.select(*columns).collect())


blind = st.lists(st.tuples(st.integers(0, 190), st.integers(1, 40)), max_size=2).map(
    lambda some: [(begin, begin + length) for begin, length in some]
)
slow = settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],
)


@given(fleets(), blind)
@slow
def test_outages_are_those_of_the_plain_sessioniser(
    spark: Any, events: list[Event], windows: list[tuple[int, int]]
) -> None:
    rows = sessions.outages(frame(spark, events), windows_frame(spark, windows), AS_OF_MS)
    assert found(rows) == expected(events, windows, AS_OF_MS)


@given(fleets(), st.randoms(use_true_random=False))
@settings(slow, max_examples=3)
def test_neither_the_order_nor_the_number_of_partitions_matters(
    spark: Any, events: list[Event], rng: random.Random
) -> None:
    shuffled = rng.sample(events, len(events))
    nothing = windows_frame(spark, [])
    assert found(sessions.outages(frame(spark, shuffled, 5), nothing, AS_OF_MS)) == expected(events, [], AS_OF_MS)


def test_each_end_has_its_kind_and_its_gap(spark: Any) -> None:
    """Returned; removed; open to the end of the window; a lost return; and one whose run had no length."""
    events = [
        Event(0, "down", 10, 0, 10),
        Event(0, "up", 15, 1, 15),
        Event(1, "down", 10, 0, 10),
        Event(1, "removed", 40, 0, 40, sourced=False),
        Event(2, "down", 10, 0, 10),
        Event(3, "down", 10, 0, 10),
        Event(3, "down", 90, 1, 90),
        Event(3, "up", 91, 2, 91),
        Event(4, "down", 10, 0, 10),
        Event(4, "up", 12, 1, 12),
        Event(4, "down", 12, 1, 12),
        Event(4, "up", 20, 2, 20),
    ]
    rows = found(sessions.outages(frame(spark, events), windows_frame(spark, []), AS_OF_MS))
    assert rows == [
        ("0/0/down", 10, 15, 5, "source", "returned"),
        ("1/0/down", 10, None, 30, "operator", "removed"),
        ("2/0/down", 10, None, 190, "source", "open"),
        ("3/0/down", 10, None, 0, "source", "blind"),
        ("3/1/down", 90, 91, 1, "source", "returned"),
        ("4/0/down", 10, 12, 2, "source", "returned"),
        ("4/1/down", 12, 20, 8, "source", "returned"),
    ]
    assert rows == expected(events, [], AS_OF_MS)


def test_a_gap_never_mixes_two_clocks(spark: Any) -> None:
    """The source's clock is 1000 ms ahead; with one source time missing both ends are the operator's."""
    events = [Event(0, "down", 1010, 0, 10), Event(0, "up", 1030, 1, 35, sourced=False)]
    rows = sessions.outages(frame(spark, events), windows_frame(spark, []), 2000)
    assert [(r[4], r[5]) for r in found(rows)] == [("source", "open")]  # by its time the start came before
    events = [Event(0, "down", 10, 0, 12), Event(0, "up", 30, 1, 35, sourced=False)]
    assert found(sessions.outages(frame(spark, events), windows_frame(spark, []), AS_OF_MS)) == [
        ("0/0/down", 10, 35, 23, "operator", "returned")
    ]


def test_the_events_are_shuffled_once(spark: Any) -> None:
    """One exchange by group serves the windows and what is grouped by group afterwards."""
    events = frame(spark, [Event(0, "down", 1, 0, 1)], 1)
    source = events.sparkSession.createDataFrame(events.collect(), events.schema)
    rows = sessions.paired(source, AS_OF_MS).groupBy("group_key").agg({"gap_ms": "sum"})
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Exchange hashpartitioning") == 1, plan
    assert plan.count("Exchange") == 1, plan
    assert plan.count("Sort [") == 2, plan  # by member alone, which is a radix sort, and then in order within each
    assert re.search(r"Sort \[member_key#\w+ ASC NULLS FIRST\], false", plan), plan


def test_windows_are_joined_in_compiled_code(spark: Any) -> None:
    """An outage that meets several windows stays one row; a function of an array would be interpreted for every row."""
    rows = sessions.outages(
        frame(spark, [Event(0, "down", 10, 0, 10)], 1), windows_frame(spark, [(5, 9), (30, 40), (60, 70)]), 100
    )
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert "BroadcastHashJoin" in plan, plan
    assert "lambda" not in plan, plan
    assert [(r[0], r[3], r[5]) for r in found(rows)] == [("0/0/down", 20, "blind")]


def test_outages_that_nobody_closes_are_closed_as_blind(spark: Any) -> None:
    events = [Event(0, "down", 10, 0, 10), Event(1, "down", 150, 0, 150)]
    rows = sessions.closed_after(sessions.outages(frame(spark, events), windows_frame(spark, []), 200), 100, 200)
    assert [(r[0], r[3], r[5]) for r in found(rows)] == [("0/0/down", 190, "blind"), ("1/0/down", 50, "open")]


def beats_frame(spark: Any, beats: Sequence[tuple[str, str, int]]) -> DataFrame:
    """Return silver/beats of (operator, epoch, time), with an interval of 10 ms."""
    rows = [
        {
            "event_id": f"{operator}/{at}",
            "source": "s",
            "k8s_cluster_uid": "c",
            "operator_id": operator,
            "seq": n,
            "observed_at_ms": at,
            "interval_ms": 10,
            "watch_epoch": epoch,
            "static_groups": 1,
            "unreachable_groups": [],
            "unreachable_total": 0,
        }
        for n, (operator, epoch, at) in enumerate(beats)
    ]
    return spark.createDataFrame(rows, schemas.BEATS.spark_nullable)


def plain_windows(beats: Sequence[tuple[str, str, int]], as_of: int) -> list[tuple[int, int]]:
    """Return the blind windows by asking of every millisecond whether somebody looked."""
    inside = sorted({beat for beat in beats if beat[2] <= as_of}, key=lambda b: b[2])
    if not inside:
        return []
    covered = set()
    for n, (operator, epoch, at) in enumerate(inside):
        following = [b[2] for b in inside[n + 1 :] if b[:2] == (operator, epoch)]
        until = following[0] if following else as_of
        if until - at <= 25:
            covered |= set(range(at, until))
    dark = [t for t in range(inside[0][2], as_of) if t not in covered]
    starts = [t for t in dark if t - 1 not in dark]
    return [(t, next(u for u in range(t, as_of + 1) if u not in dark)) for t in starts]


beats = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["e", "f"]), st.integers(0, 220)), max_size=25, unique=True
)


@given(beats)
@settings(slow, max_examples=12)
def test_blind_is_where_no_operator_beat(spark: Any, some: list[tuple[str, str, int]]) -> None:
    rows = sessions.blind_windows(beats_frame(spark, some), AS_OF_MS) if some else None
    windows = [] if rows is None else sorted((r["start_ms"], r["end_ms"]) for r in rows.collect())
    assert windows == plain_windows(some, AS_OF_MS)


@pytest.mark.parametrize(
    ("beats", "windows"),
    [
        ([("a", "e", 0), ("a", "e", 25), ("a", "e", 190)], [(25, 190)]),
        ([("a", "e", 0), ("a", "f", 10), ("a", "f", 180), ("b", "e", 185)], [(0, 180)]),
        ([("a", "e", 170), ("a", "e", 180)], []),
    ],
)
def test_a_new_watch_epoch_is_a_gap_and_the_end_of_the_window_is_watched(
    spark: Any, beats: list[tuple[str, str, int]], windows: list[tuple[int, int]]
) -> None:
    assert plain_windows(beats, AS_OF_MS) == windows
    rows = sessions.blind_windows(beats_frame(spark, beats), AS_OF_MS).collect()
    assert sorted((r["start_ms"], r["end_ms"]) for r in rows) == windows
