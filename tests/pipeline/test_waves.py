"""A run continues its predecessor's waves and group states, and yields the same rows when repeated."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet_learner import gold, schemas
from fleet_learner.days.facts import DAY_MS, StopDurations
from fleet_learner.lake import Lake, Plan, Published, TableState, local_path
from fleet_learner.recommendations.advised import advise_class, recommendations
from fleet_learner.recommendations.canary import CanaryState, waves_of
from fleet_learner.recommendations.features import group_features, names_of
from fleet_learner.recommendations.histories import Advised, Terms
from fleet_learner.recommendations.recommend import MODEL_VERSION
from fleet_learner.recommendations.waves import with_waves
from pipeline.test_facts import frame

pytest.importorskip("pyspark")

Row = dict[str, Any]
TERMS = Terms(durations=StopDurations(is_eager_stated=True, is_cooperative_stated=True), bounds={}, valid_ms=7 * DAY_MS)
START_DAY = 20_000
RUN_DAYS = (START_DAY + 20, START_DAY + 26)
CLUSTER = "kafka"


def two_names() -> list[str]:
    """Return the names of two groups, the first in the first wave and the second in the last."""
    waves = waves_of(((CLUSTER, name) for name in ("group-1", "group-2")), salt=MODEL_VERSION)
    assert sorted(waves.values()) == [1, 100]
    return [name for (_, name), _ in sorted(waves.items(), key=lambda each: each[1])]


FIRST, SECOND = two_names()
KEYS = {FIRST: 1, SECOND: 2}


def stops(group_id: str, days: range, timeout_ms: int) -> Iterator[Row]:
    """Roll twenty-five members once a day, with gaps from 10 to 58 s."""
    for day in days:
        for member in range(25):
            down_ms, gap_ms = day * DAY_MS + 60_000 * (member + 1), 10_000 + 2_000 * member
            yield {
                "kafka_cluster_id": CLUSTER, "group_id": group_id, "group_key": KEYS[group_id], "member_key": member,
                "instance_id": f"i-{member}", "event_id": f"{day}-{member}", "down_ms": down_ms, "gap_ms": gap_ms,
                "back_lo_ms": down_ms + gap_ms, "back_ms": down_ms + gap_ms, "absorbed": gap_ms <= timeout_ms,
                "starts": 1, "end_kind": "returned", "reason": "Deleted", "rollout_id": f"rev-{day}",
                "image_digest": "sha256:one", "session_timeout_ms": timeout_ms,
            }  # fmt: skip


def change(group_id: str, at_ms: int, timeout_ms: int, source: str, before_ms: int | None = None) -> Row:
    return {
        "kafka_cluster_id": CLUSTER, "group_id": group_id, "group_key": KEYS[group_id], "kind": "timeout.changed",
        "event_id": f"change-{at_ms}", "event_ms": at_ms, "timeout_source": source,
        "session_timeout_ms_before": before_ms, "session_timeout_ms_after": timeout_ms,
    }  # fmt: skip


def size(group_id: str) -> Row:
    """Return a rebalance that shows the size of a group."""
    return change(group_id, START_DAY * DAY_MS + 1, 0, "") | {
        "kind": "group.rebalanced", "event_id": "size", "members": 25, "partitions_total": 100,
    }  # fmt: skip


def beats(last_day: int) -> list[Row]:
    return [
        {"k8s_cluster_uid": "k8s", "observed_at_ms": day * DAY_MS, "event_id": str(day)}
        for day in range(START_DAY, last_day)
    ]


def publish(journal: Lake, number: int, day: int, tables: dict[schemas.Table, list[Row]]) -> None:
    """Publish silver as ingest would, all rows again."""
    written = {}
    for table in (schemas.GROUP_EVENTS, schemas.MEMBER_EVENTS, schemas.OUTAGES, schemas.BEATS, schemas.BLIND_WINDOWS):
        made = journal.overwrite(table, frame(journal.spark, table, tables.get(table, [])), run=number)
        assert made.version is not None
        written[table.name] = TableState(made.version, made.rows)
    journal.runs.publish(Published(plan=Plan(number=number, as_of_ms=day * DAY_MS), tables=written))


def learned(journal: Lake) -> list[Advised]:
    facts = gold.learned_lake(journal)
    _, advised = gold.learn(journal, facts, window_days=22, terms=TERMS, is_replayed=False)
    assert advised is not None
    return advised


def content(lake: Lake, number: int) -> dict[str, list[tuple[str, ...]]]:
    """Return the rows of every table as a run left it."""
    state = lake.runs.read(number)
    tables = {table.name: gold.read_learned(lake, state, table).collect() for table in gold.TABLES}
    return {name: sorted(tuple(str(v) for v in row) for row in rows) for name, rows in tables.items()}


def lose_commits(table: Path, *, after: int) -> None:
    """Remove the last commits of a table's log, as if their writer had died before them; their data files stay."""
    for path in (table / "_delta_log").iterdir():
        number = path.name.lstrip(".").split(".")[0]
        if number.isdigit() and int(number) > after:
            path.unlink()


def run_of(journal: Lake, number: int) -> tuple[Any, Any, Any]:
    """Return the tables of a run, its days, and what it stood on."""
    facts = gold.learned_lake(journal)
    state = facts.runs.read(number)
    days = gold.read_learned(facts, state, schemas.GROUP_DAY)
    return gold.silver(journal, journal.runs.read(number), window_days=22), days, gold.standing(facts, state)


def by_group(advised: list[Advised]) -> dict[str, Advised]:
    return {each.record.group_id: each for each in advised}


after_runs = pytest.mark.long
"""Two runs with their results; `make test` compares Spark with the plain function."""


@pytest.fixture(scope="module")
def ran(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, list[Advised], list[Advised]]:
    """Return a lake after two runs: the group of the first wave took what the first run recommended."""
    journal = Lake(spark, tmp_path_factory.mktemp("journal"))
    begin, later = RUN_DAYS
    set_first = [change(name, START_DAY * DAY_MS, 30_000, "Structural") for name in KEYS]
    set_first += [size(name) for name in KEYS]
    old = [row for name in KEYS for row in stops(name, range(START_DAY, begin), 30_000)]
    publish(
        journal, 0, begin,
        {schemas.GROUP_EVENTS: set_first, schemas.OUTAGES: old, schemas.BEATS: beats(begin)},
    )  # fmt: skip
    first = learned(journal)
    taken_ms = by_group(first)[FIRST].record.recommended_ms
    assert taken_ms == 60_000
    new = [*stops(FIRST, range(begin, later), taken_ms), *stops(SECOND, range(begin, later), 30_000)]
    taken = change(FIRST, begin * DAY_MS + 1_000, taken_ms, "Fleet", 30_000)
    publish(
        journal, 1, later,
        {schemas.GROUP_EVENTS: [*set_first, taken], schemas.OUTAGES: [*old, *new], schemas.BEATS: beats(later)},
    )  # fmt: skip
    second = learned(journal)
    return journal, first, second


def test_waves_in_spark_are_those_of_the_plain_function(spark: Any) -> None:
    """By CRC-32 of names in UTF-8, in whatever order they come."""
    groups = [("k", f"grüppe-{index}") for index in range(137)] + [("", "g"), ("k/1", "g")]
    rows = spark.createDataFrame(groups, "kafka_cluster_id string, group_id string").repartition(5)
    made = {(r.kafka_cluster_id, r.group_id): r.wave for r in with_waves(rows, "s").collect()}
    assert made == waves_of(groups, salt="s")


def canary(journal: Lake, number: int) -> Row:
    facts = gold.learned_lake(journal)
    (row,) = gold.read_learned(facts, facts.runs.read(number), schemas.CANARY).collect()
    return dict(row.asDict())


@after_runs
def test_the_first_run_releases_the_first_wave_and_the_second_the_next(spark: Any, ran: Any) -> None:
    journal, first, second = ran
    assert {name: each.record.released for name, each in by_group(first).items()} == {FIRST: True, SECOND: False}
    assert {name: each.record.released for name, each in by_group(second).items()} == {FIRST: True, SECOND: True}
    begin, later = (day * DAY_MS for day in RUN_DAYS)
    one, two = canary(journal, 0), canary(journal, 1)
    assert (one["verdict"], one["wave"], one["began_ms"], one["campaign_ms"]) == ("Begin", 1, begin, begin)
    assert (two["verdict"], two["wave"], two["began_ms"], two["campaign_ms"]) == ("Advance", 100, later, begin)
    assert (two["treated_stops"], two["control_stops"], two["wave_stops"]) == (150, 150, 150)
    # Gaps are the same every day, so the outcome equals the expectation exactly.
    assert two["treated_evictions"] == two["treated_evictions_promised"]
    assert two["treated_ghost_ms"] == two["treated_ghost_promised_ms"]
    assert two["control_evictions"] == two["control_evictions_promised"] > two["treated_evictions"]


@after_runs
def test_the_second_run_knows_the_group_from_the_journal_and_from_the_first(ran: Any) -> None:
    """22 days before the second run the first timeout is outside the window: only the first run still has it."""
    _, first, second = ran
    taken_ms = by_group(first)[FIRST].record.recommended_ms
    state = by_group(second)[FIRST].state
    assert (state.current_ms, state.source, state.recommended_ms) == (taken_ms, "Fleet", taken_ms)
    assert state.changed_ms == RUN_DAYS[0] * DAY_MS + 1_000
    other = by_group(second)[SECOND].state
    assert (other.current_ms, other.source) == (30_000, "Structural")
    assert other.recommended_ms == by_group(first)[SECOND].record.recommended_ms


@pytest.mark.long  # a run that died, in test_cli, is done again too
def test_a_run_that_is_done_again_from_its_plan_comes_to_the_same_rows(spark: Any, ran: Any, tmp_path: Path) -> None:
    """Repeat all tables, or only those that were not written yet."""
    journal, _, second = ran
    whole = local_path(journal.root)
    assert whole is not None
    expected = content(gold.learned_lake(journal), 1)
    for lost in (gold.TABLES, gold.TABLES[2:]):
        copy = tmp_path / str(len(lost))
        shutil.copytree(whole, copy)
        facts = gold.learned_lake(Lake(spark, copy))
        assert facts.runs.read(1).plan.sources[gold.EARLIER] == {"end": 0}
        (copy / "learned" / "_runs" / "000000000001.json").unlink()
        states = facts.runs.read(0).tables
        for table in (each for each in lost if each.name in states):
            lose_commits(copy / "learned" / table.name, after=states[table.name].version)
        assert learned(Lake(spark, copy)) == second
        assert content(facts, 1) == expected


@after_runs
def test_published_facts_lead_to_the_same_recommendations_again(spark: Any, ran: Any) -> None:
    """Their report uses the published state, regardless of the canary's present state."""
    journal, first, second = ran
    for number, advised in enumerate((first, second)):
        tables, days, standing = run_of(journal, number)
        assert isinstance(standing.canary, CanaryState)
        assert recommendations(tables, days, TERMS, standing) == advised
    for protocol in sorted({each.record.protocol for each in advised})[:1]:
        keys = names_of(days).where(f"protocol = '{protocol}'").select("group_key")
        expected = [each for each in advised if each.record.protocol == protocol]
        found = recommendations(tables, days.join(keys, "group_key", "left_semi"), TERMS, standing, fleet=days)
        assert found == expected, "its waves are those of the whole fleet"


@after_runs
def test_groups_that_are_recommended_for_in_many_tasks_get_what_one_process_gives_them(spark: Any, ran: Any) -> None:
    """Results are equal to the last digit: classes are sums of their groups, and no draw depends on a partition."""
    journal, _, advised = ran
    tables, days, standing = run_of(journal, 1)
    rows = [row.asDict(recursive=True) for row in group_features(tables, days, standing.earlier).collect()]
    window = {"start_ms": tables.start_ms, "as_of_ms": tables.as_of_ms}
    alone: list[Advised] = []
    for name in sorted({row["workload_class"] for row in rows}):
        own = [row for row in rows if row["workload_class"] == name]
        alone += advise_class(own, TERMS, standing.canary, **window)
    assert sorted(alone, key=lambda each: each.record.key) == advised
