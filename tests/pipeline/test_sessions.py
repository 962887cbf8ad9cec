"""Compare outages with the definition in plain Python, on its published stories and random timelines."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame

from fleet_learner import schemas
from fleet_learner.intake import sessions
from journal import records as journal
from support import absences as absence_facts
from support.absence_definition import absences

AS_OF_MS = 200
SECOND = 1_000
MEMBERS = 40
Fleet = Mapping[int, Sequence[journal.GroupData]]
"""Facts by member; three members share a group."""


def frame(spark: Any, fleet: Fleet, partitions: int = 2, clusters: Mapping[int, str] | None = None) -> DataFrame:
    """Return silver/member_events of these facts; clusters: of members whose Kubernetes cluster is not `c`."""
    rows = []
    for member, facts in fleet.items():
        for number, fact in enumerate(facts):
            row = dict.fromkeys(schemas.MEMBER_EVENTS.names) | {
                name: value for name, value in fact.model_dump().items() if name in schemas.MEMBER_EVENTS.names
            }
            row |= {
                "event_id": f"{member}/{number}", "source": "s", "kind": fact.noun,
                "event_ms": absence_facts.event_ms(fact),
            }  # fmt: skip
            row |= {
                "k8s_cluster_uid": (clusters or {}).get(member, "c"), "group_key": member // 3, "member_key": member,
            }  # fmt: skip
            rows.append(row)
    return spark.createDataFrame(rows, schemas.MEMBER_EVENTS.spark_nullable).repartition(partitions)


def windows_frame(spark: Any, windows: Iterable[tuple[str, int, int]]) -> DataFrame:
    return spark.createDataFrame(list(windows), schemas.BLIND_WINDOWS.spark_nullable)


def found(rows: DataFrame) -> dict[int, list[dict[str, Any]]]:
    """Return the outages of each member in the form of the stories."""
    made: dict[int, list[dict[str, Any]]] = {}
    names = ("down_ms", "gap_ms", "started_ms", "starts", "back_lo_ms", "back_ms", "absorbed")
    for row in rows.select("member_key", "pod_uid", "end_kind", "event_id", *names).collect():
        absence = {name: row[name] for name in names} | {"end": row["end_kind"], "event_id": row["event_id"]}
        made.setdefault(row["member_key"], []).append(absence)
    return {member: sorted(each, key=lambda a: a["down_ms"]) for member, each in made.items()}


def expected(fleet: Fleet, windows: Sequence[tuple[int, int]], as_of_ms: int) -> dict[int, list[dict[str, Any]]]:
    """Return the same by the definition."""
    made = {}
    for member, facts in fleet.items():
        events = {
            number: event for number, fact in enumerate(facts) if (event := absence_facts.event_of(fact)) is not None
        }
        ids = {id(event): f"{member}/{number}" for number, event in events.items()}
        rows = [
            {name: value for name, value in absence_facts.as_row(each).items() if name != "down"}
            | {"event_id": ids[id(each.down)]}
            for each in absences(events.values(), as_of_ms=as_of_ms, blind=windows)
        ]
        if rows:
            made[member] = rows
    return made


@st.composite
def fleets(draw: st.DrawFn) -> dict[int, list[journal.GroupData]]:
    """Draw timelines of many members as different groups of one frame: starting Spark costs more than a member.

    Times are few seconds, so that equal times, crash loops, lost facts and late ones are common.
    """
    rng = random.Random(draw(st.integers(0, 2**32)))
    return {member: _timeline(rng) for member in range(MEMBERS)}


def _timeline(rng: random.Random) -> list[journal.GroupData]:
    rows: list[dict[str, Any]] = []
    now, pod = rng.randrange(40), 0
    for run in range(rng.randrange(7)):
        pod += rng.random() < 0.5
        rows.append(_seen(rng, now, {"down": f"p{pod}/{run}"}))
        now += rng.choice([0, 0, 1, 5, 30])
        if rng.random() < 0.15:
            rows.append(_seen(rng, now, {rng.choice(["removed", "resurrected", "departed"]): True}))
            now += rng.randrange(20)
        pod += rng.random() < 0.3
        rows.append(_seen(rng, now, {"up": f"p{pod}/{run + 1}"}))
        now += rng.choice([0, 1, 8])
        if rng.random() < 0.7:
            rows.append(_seen(rng, now, {"back": rng.random() < 0.5}))
        now += rng.choice([0, 0, 2, 40])
    facts = [absence_facts.fact(number, row) for number, row in enumerate(rows) if rng.random() < 0.93]
    # The order of two facts of one kind and run within a millisecond is unknown.
    return list({(absence_facts.event_ms(f), f.noun, getattr(f, "restart_count", None)): f for f in facts}.values())


def _seen(rng: random.Random, now: int, row: dict[str, Any]) -> dict[str, Any]:
    """Let an operator observe it: by the source's clock, which may be off, or between two reads."""
    at, seen = now * SECOND, (now + rng.choice([0, 0, 3, 90])) * SECOND
    if "back" not in row and rng.random() < 0.7:
        return row | {"at": max(0, at + rng.choice([0, 0, 0, -SECOND, 40 * SECOND])), "seen": seen}
    return row | {"lo": max(0, at - rng.choice([0, 5, 70]) * SECOND), "hi": seen, "seen": seen}


blind = st.lists(st.tuples(st.integers(0, 190), st.integers(1, 40)), max_size=2).map(
    lambda some: [(begin * SECOND, (begin + length) * SECOND) for begin, length in some]
)
slow = settings(
    max_examples=8, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.generate],
)  # fmt: skip


def test_spark_agrees_with_the_published_stories(spark: Any) -> None:
    """Each story is a member of a Kubernetes cluster of its own, which has the story's blind times."""
    stories = dict(enumerate(absence_facts.stories()))
    for as_of_ms in {story.as_of_ms for story in stories.values()}:
        mine = {number: story for number, story in stories.items() if story.as_of_ms == as_of_ms}
        events = frame(spark, {n: s.facts for n, s in mine.items()}, clusters={n: f"c{n}" for n in mine})
        windows = windows_frame(spark, [(f"c{n}", *window) for n, s in mine.items() for window in s.blind])
        made = found(sessions.outages(events, windows, as_of_ms))
        for number, story in mine.items():
            wanted = [{k: v for k, v in each.items() if k != "down"} for each in story.absences]
            by_spark = [{k: v for k, v in each.items() if k != "event_id"} for each in made.get(number, [])]
            assert by_spark == wanted, story.name


@given(fleets(), blind)
@slow
def test_outages_are_the_absences_of_the_definition(
    spark: Any, fleet: dict[int, list[journal.GroupData]], windows: list[tuple[int, int]]
) -> None:
    made = sessions.outages(frame(spark, fleet), windows_frame(spark, [("c", *w) for w in windows]), AS_OF_MS * SECOND)
    assert found(made) == expected(fleet, windows, AS_OF_MS * SECOND)


@given(fleets(), st.randoms(use_true_random=False))
@settings(slow, max_examples=3)
def test_neither_the_order_nor_the_number_of_partitions_matters(
    spark: Any, fleet: dict[int, list[journal.GroupData]], rng: random.Random
) -> None:
    members = dict(rng.sample(sorted(fleet.items()), len(fleet)))
    made = sessions.outages(frame(spark, members, 5), windows_frame(spark, []), AS_OF_MS * SECOND)
    assert found(made) == expected(fleet, [], AS_OF_MS * SECOND)


def one_stop(at_ms: int = 10) -> Fleet:
    return {0: [absence_facts.fact(0, {"down": "a/0", "at": at_ms, "seen": at_ms})]}


def test_the_events_are_shuffled_once(spark: Any) -> None:
    """One exchange by group serves the windows and later aggregations by group."""
    events = frame(spark, one_stop(), 1)
    source = events.sparkSession.createDataFrame(events.collect(), events.schema)
    rows = sessions.paired(source, AS_OF_MS).groupBy("group_key").agg({"gap_ms": "sum"})
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Exchange hashpartitioning") == 1, plan
    assert plan.count("Exchange") == 1, plan
    # First a radix sort by member alone, then a sort within each member, and one in reverse.
    assert plan.count("Sort [") == 3, plan
    assert re.search(r"Sort \[member_key#\w+ ASC NULLS FIRST\], false", plan), plan


def test_windows_are_joined_in_compiled_code(spark: Any) -> None:
    """An outage that overlaps several windows stays one row; a function of an array would be interpreted for every
    row."""
    windows = windows_frame(spark, [("c", 5, 9), ("c", 30, 40), ("c", 60, 70)])
    rows = sessions.outages(frame(spark, one_stop(), 1), windows, 100)
    plan = rows._jdf.queryExecution().executedPlan().toString()
    assert "BroadcastHashJoin" in plan, plan
    assert "lambda" not in plan, plan
    assert [(a["gap_ms"], a["end"]) for a in found(rows)[0]] == [(20, "blind")]


def test_an_outage_that_lasts_too_long_is_blind_from_then_on_whatever_became_of_it(spark: Any) -> None:
    fleet = {
        **one_stop(10),
        1: [absence_facts.fact(0, {"down": "a/0", "at": 150, "seen": 150})],
        2: [
            absence_facts.fact(0, {"down": "a/0", "at": 10, "seen": 10}),
            absence_facts.fact(1, {"back": True, "hi": 190, "seen": 190}),
        ],
        3: [
            absence_facts.fact(0, {"down": "a/0", "at": 10, "seen": 10}),
            absence_facts.fact(1, {"back": True, "hi": 110, "seen": 110}),
        ],
    }
    rows = sessions.outages(frame(spark, fleet), windows_frame(spark, []), 200, away_ms_max=100)
    assert {m: [(a["gap_ms"], a["end"], a["back_ms"]) for a in each] for m, each in found(rows).items()} == {
        0: [(100, "blind", None)],
        1: [(50, "open", None)],
        2: [(100, "blind", None)],
        3: [(100, "returned", 110)],
    }


def test_an_end_long_after_the_last_word_of_a_member_begins_another_outage(spark: Any) -> None:
    """The limit does not apply to an end in a crash loop of any length."""
    silent = [{"down": "a/0", "at": 10, "seen": 10}, {"down": "a/1", "at": 111, "seen": 111}]
    loop = [{"down": f"a/{run}", "at": 10 + 60 * run, "seen": 10 + 60 * run} for run in range(4)]
    fleet = {m: [absence_facts.fact(n, row) for n, row in enumerate(rows)] for m, rows in enumerate((silent, loop))}
    rows = sessions.outages(frame(spark, fleet), windows_frame(spark, []), 200, away_ms_max=100)
    assert {m: [(a["down_ms"], a["gap_ms"], a["end"]) for a in each] for m, each in found(rows).items()} == {
        0: [(10, 100, "blind"), (111, 89, "open")],
        1: [(10, 100, "blind")],
    }


@given(fleets(), blind, st.integers(0, AS_OF_MS), st.integers(1, 60))
@slow
def test_a_row_depends_on_facts_that_lie_near(
    spark: Any, fleet: dict[int, list[journal.GroupData]], windows: list[tuple[int, int]], cut: int, near: int
) -> None:
    """Without starts, so that no end is late: lateness needs two starts, however old."""
    cut_ms, near_ms, end_ms = cut * SECOND, near * SECOND, AS_OF_MS * SECOND
    facts = {m: [fact for fact in each if not isinstance(fact, journal.MemberUp)] for m, each in fleet.items()}
    dark = windows_frame(spark, [("c", *w) for w in windows])
    events = frame(spark, facts).persist()
    near_by = events.where(events["event_ms"] >= cut_ms - near_ms)
    wanted, made = (sessions.outages(rows, dark, end_ms, away_ms_max=near_ms) for rows in (events, near_by))
    assert found(made.where(made["down_ms"] >= cut_ms)) == found(wanted.where(wanted["down_ms"] >= cut_ms))
    events.unpersist()


def beats_frame(spark: Any, beats: Sequence[tuple[str, str, int]]) -> DataFrame:
    """Return silver/beats of (operator, epoch, time), with an interval of 10 ms."""
    rows = [
        {
            "event_id": f"{operator}/{at}", "source": "s", "k8s_cluster_uid": "c", "operator_id": operator, "seq": n,
            "observed_at_ms": at, "interval_ms": 10, "watch_epoch": epoch, "static_groups": 1, "unreachable_groups": [],
            "unreachable_total": 0,
        }
        for n, (operator, epoch, at) in enumerate(beats)
    ]  # fmt: skip
    return spark.createDataFrame(rows, schemas.BEATS.spark_nullable)


def plain_windows(beats: Sequence[tuple[str, str, int]], as_of: int, until: int) -> list[tuple[int, int]]:
    """Return the blind windows by checking every millisecond; records end at `as_of`."""
    inside = sorted({beat for beat in beats if beat[2] <= as_of}, key=lambda b: b[2])
    if not inside:
        return []
    covered = set()
    for n, (operator, epoch, at) in enumerate(inside):
        following = [b[2] for b in inside[n + 1 :] if b[:2] == (operator, epoch)]
        for end in following[:1] or (as_of, until):
            if end - at <= 25:
                covered |= set(range(at, end))
    dark = [t for t in range(inside[0][2], until) if t not in covered]
    starts = [t for t in dark if t - 1 not in dark]
    return [(t, next(u for u in range(t, until + 1) if u not in dark)) for t in starts]


beats = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["e", "f"]), st.integers(0, 220)), max_size=25, unique=True
)


@given(beats, st.integers(0, 60))
@settings(slow, max_examples=12)
def test_blind_is_where_no_operator_beat(spark: Any, some: list[tuple[str, str, int]], later: int) -> None:
    """`later`: so much time passed since the newest record."""
    until_ms = AS_OF_MS + later
    rows = sessions.blind_windows(beats_frame(spark, some), AS_OF_MS, until_ms=until_ms) if some else None
    windows = [] if rows is None else sorted((r["start_ms"], r["end_ms"]) for r in rows.collect())
    assert windows == plain_windows(some, AS_OF_MS, until_ms)


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
    assert plain_windows(beats, AS_OF_MS, AS_OF_MS) == windows
    rows = sessions.blind_windows(beats_frame(spark, beats), AS_OF_MS).collect()
    assert sorted((r["start_ms"], r["end_ms"]) for r in rows) == windows
