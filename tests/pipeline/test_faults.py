"""Faults of a fleet's journals: each affects only its own groups, is reported, and leaves all others unchanged.

The learner runs on one fleet without faults and with all of them at once; a fatal fault is an error that names the
path. kill -9 and two writers: test_exactly_once.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from fleet_learner import cli, gold, schemas
from fleet_learner.days.facts import DAY_MS, StopDurations
from fleet_learner.intake import quality
from fleet_learner.intake.ingest import ingest
from fleet_learner.lake import Lake, Published
from fleet_learner.recommendations.features import set_aside
from fleet_learner.recommendations.histories import Terms
from fleet_learner.sources.files import JournalFiles
from pipeline import timelines
from pipeline.timelines import T0_MS

BEGIN_MS: Final = T0_MS // DAY_MS * DAY_MS
DAYS: Final = 20
AS_OF_MS: Final = BEGIN_MS + DAYS * DAY_MS
TERMS: Final = Terms(durations=StopDurations(), bounds={}, valid_ms=DAY_MS)
YEAR_2099_MS: Final = 4_070_908_800_000


def living(name: str, days: range, **more: Any) -> list[str]:
    """Return the journal of a group of two that is deployed twice a day: back after 20 to 40 s, one restart in four
    rebalances."""
    lines = []
    for number, at in enumerate(BEGIN_MS + day * DAY_MS + 3_600_000 * hour for day in days for hour in (3, 15)):
        for ordinal in range(2):
            down_ms = at + 600_000 * ordinal
            back_ms = down_ms + 20_000 + 5_000 * ((number + ordinal) % 5)
            is_absorbed = number % 4 != 0
            pod = f"{name}-{ordinal}-{number}"
            lines.append(timelines.change("down", name, ordinal, 0, down_ms, pod=pod, rollout_id=f"r{number}", **more))
            lines.append(
                timelines.change("up", name, ordinal, 0, down_ms + 5_000, pod=f"{name}-{ordinal}-{number + 1}", **more)
            )
            lines.append(timelines.back(name, ordinal, number, back_ms, absorbed=is_absorbed, **more))
            if not is_absorbed:
                lines.append(timelines.rebalanced(name, 2 * number + ordinal, back_ms + 1_000, **more))
    return lines


def watched(days: range, interval_ms: int = 600_000) -> list[str]:
    """Return the beats of an operator."""
    times = range(BEGIN_MS + days.start * DAY_MS, BEGIN_MS + days.stop * DAY_MS, interval_ms)
    return [timelines.beat(at, interval_ms=interval_ms, seq=n) for n, at in enumerate(times)]


def of_cluster(uid: str, lines: list[str]) -> list[str]:
    """Return the same lines as if from another Kubernetes cluster's operator."""
    return [
        line.replace(f"/k8s/{timelines.CLUSTER}/", f"/k8s/{uid}/").replace('"op-1"', f'"op-{uid}"') for line in lines
    ]


OTHERS: Final = tuple(f"service-{number}" for number in range(8))
"""A class to learn from."""
HEALTHY: Final = [
    line for name in ("orders", "billing", *OTHERS) for line in living(name, range(DAYS))
] + watched(range(DAYS))  # fmt: skip


def of_scope(scope: str, lines: list[str], *, since_ms: int = 0) -> list[str]:
    """Return the same lines as if, from a time on, from an operator of some namespaces."""
    own = f'"watch_scope":"{scope}"'
    return [
        line.replace('"watch_scope":""', own) if json.loads(line)["data"]["observed_at_ms"] >= since_ms else line
        for line in lines
    ]


ELSEWHERE: Final = of_cluster("k8s-3", of_scope("pay", [line.replace("op-1", "op-2") for line in watched(range(DAYS))]))
"""A healthy operator of another namespace in the cluster whose journal ends."""
EARLY: Final = [
    *HEALTHY,
    # Clocks of another century: a node's and an operator's.
    timelines.change("down", "skewed", 0, 0, BEGIN_MS + DAY_MS, pod="x").replace(
        f'"source_time_ms":{BEGIN_MS + DAY_MS}', f'"source_time_ms":{YEAR_2099_MS}'
    ),
    timelines.change("down", "skewed", 1, 0, YEAR_2099_MS, pod="y"),
    timelines.beat(YEAR_2099_MS + 5, operator_id="op-future"),
    timelines.change("down", "skewed", 2, 0, 5_000, pod="z"),
    # A protocol that does not exist yet.
    *living("shares", range(3), protocol="Share"),
    # Two operators that never reached their brokers, each with a group of the same name as a healthy one.
    *of_cluster("k8s-7", living("orders", range(2), kafka_cluster_id="")),
    *of_cluster("k8s-8", living("orders", range(2), kafka_cluster_id="")),
    # A second cluster that records the rebalances of a group, too.
    *of_cluster("k8s-2", [line for line in living("orders",
                                                  range(DAYS)) if '"io.staticgroup.group.rebalanced.v1"' in line]),
    *of_cluster("k8s-2", watched(range(DAYS))),
    # A journal that ends: its operator is dead, its member away.
    *of_cluster("k8s-3", [*living("silent", range(2)), *watched(range(3))]),
    *of_cluster("k8s-3", [timelines.change("down", "silent", 1, 0, BEGIN_MS + 3 * DAY_MS - 500_000, pod="last")]),
    *ELSEWHERE,
    # An operator that serves only some namespaces from the fourth day on.
    *of_cluster("k8s-5", of_scope("shop", [*living("narrowed", range(8)), *watched(range(8))],
                                  since_ms=BEGIN_MS + 4 * DAY_MS)),
    # A group that no beats cover.
    *of_cluster("k8s-9", living("unwatched", range(2))),
]  # fmt: skip
LATE: Final = of_cluster("k8s-4", [*living("newcomer", range(10)), *watched(range(10))])
"""A new cluster, with a history from long before the range that the last run recomputed."""


class World:
    """One warehouse and what was learned from it."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.journal = Lake(spark, folder / "lake")
        self.learned = gold.learned_lake(self.journal)
        self.state: Published | None = None
        self.facts: Published | None = None

    def take_in(self, name: str, lines: list[str]) -> None:
        timelines.write_file(self.folder / "journal" / f"journal-{name}-00000000.jsonl", lines)
        sources = [JournalFiles(self.folder / "journal")]
        self.state = ingest(self.journal, sources, as_of_ms=AS_OF_MS)

    def learn(self) -> None:
        self.facts, _ = gold.learn(self.journal, self.learned, window_days=30, terms=TERMS, is_replayed=False)

    def rows(self, table: schemas.Table) -> list[dict[str, Any]]:
        return [row.asDict() for row in gold.read_learned(self.learned, self.facts, table).collect()]

    def outages(self, group_id: str) -> list[dict[str, Any]]:
        frame = self.journal.published(schemas.OUTAGES, self.state)
        return [row.asDict() for row in frame.where(f"group_id = '{group_id}'").collect()]


in_worlds = pytest.mark.long
"""A world is several runs; `make test` checks facts one by one."""


@pytest.fixture(scope="module")
def healthy(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(spark, tmp_path_factory.mktemp("healthy"))
    world.take_in("a", HEALTHY)
    world.learn()
    return world


@pytest.fixture(scope="module")
def faulty(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(spark, tmp_path_factory.mktemp("faulty"))
    world.take_in("a", EARLY)
    world.take_in("b", LATE)
    world.learn()
    return world


def named(world: World, table: schemas.Table, group_id: str, cluster: str = "kafka-1") -> list[dict[str, Any]]:
    return [row for row in world.rows(table) if (row["kafka_cluster_id"], row["group_id"]) == (cluster, group_id)]


@in_worlds
@pytest.mark.parametrize("group_id", ["orders", "billing"])
def test_healthy_groups_are_recommended_and_counted_as_without_any_fault(
    healthy: World, faulty: World, group_id: str
) -> None:
    # The estimates of a class are pooled over its groups, and the order of waves is one of all groups.
    pooled = {"wave", "released", "reason_codes", "low_ms", "high_ms", "goal_ms", "recommended_ms", "advised_ms",
              "evictions_per_day_before", "evictions_per_day_after", "ghost_s_per_day_before", "ghost_s_per_day_after",
              "outages_effective", "method"}  # fmt: skip
    one, other = (named(world, schemas.RECOMMENDATION, group_id)[0] for world in (healthy, faulty))
    assert {k: v for k, v in one.items() if k not in pooled} == {k: v for k, v in other.items() if k not in pooled}
    assert one["goal_ms"] is not None
    assert other["goal_ms"] == pytest.approx(one["goal_ms"], rel=0.4)
    days, faulty_days = (named(world, schemas.GROUP_DAY, group_id) for world in (healthy, faulty))
    assert sorted(days, key=lambda d: d["day_ms"]) == sorted(faulty_days, key=lambda d: d["day_ms"])
    assert sum(d["rebalances"] for d in days) > 0, "of one group a second cluster recorded them, too: each counts once"


@in_worlds
def test_a_clock_of_another_century_moves_its_own_record_only(faulty: World) -> None:
    assert faulty.state.counts["window_end_ms"] == AS_OF_MS
    near, far = sorted(faulty.outages("skewed"), key=lambda row: row["down_ms"])[-1:], faulty.outages("skewed")
    assert [row["down_ms"] for row in near] == [BEGIN_MS + DAY_MS + 100]
    assert {row["end_kind"] for row in far} <= {"open", "blind"}
    assert all(row["down_ms"] < AS_OF_MS for row in far)


@in_worlds
def test_an_unknown_protocol_is_set_aside_and_named(faulty: World, spark: Any) -> None:
    days = gold.read_learned(faulty.learned, faulty.facts, schemas.GROUP_DAY)
    assert set_aside(days) == [("kafka-1", "shares", "Share")]
    assert not named(faulty, schemas.RECOMMENDATION, "shares")
    assert len(named(faulty, schemas.GROUP_DAY, "shares")) == DAYS, "they are counted nevertheless"


@in_worlds
def test_groups_of_brokers_that_were_never_reached_are_nobody_elses(faulty: World) -> None:
    clusters = {row["kafka_cluster_id"] for row in faulty.rows(schemas.RECOMMENDATION) if row["group_id"] == "orders"}
    assert clusters == {"kafka-1", "?k8s-7/shop/orders", "?k8s-8/shop/orders"}


@in_worlds
def test_a_dead_journal_leaves_what_nobody_saw_blind_and_uncovered(faulty: World) -> None:
    ends = {row["end_kind"] for row in faulty.outages("silent") if row["down_ms"] > BEGIN_MS + 3 * DAY_MS - 600_000}
    assert ends == {"blind"}
    covered = {d["day_ms"]: d["covered_ms"] for d in named(faulty, schemas.GROUP_DAY, "silent")}
    assert covered[BEGIN_MS + DAY_MS] == DAY_MS
    assert covered[BEGIN_MS + 5 * DAY_MS] == 0


@in_worlds
def test_an_operator_whose_namespaces_change_goes_on_telling_of_the_same_group(faulty: World) -> None:
    covered = {d["day_ms"]: d["covered_ms"] for d in named(faulty, schemas.GROUP_DAY, "narrowed")}
    assert [covered[BEGIN_MS + day * DAY_MS] for day in (1, 2, 5, 6)] == [DAY_MS] * 4
    assert covered[BEGIN_MS + 3 * DAY_MS] >= DAY_MS - 2 * 600_000
    assert {row["end_kind"] for row in faulty.outages("narrowed")} == {"returned"}


@in_worlds
def test_silence_without_beats_is_not_watched(faulty: World) -> None:
    (row,) = named(faulty, schemas.RECOMMENDATION, "unwatched")
    assert (row["coverage"], row["goal_ms"]) == (0.0, None)
    assert "LowCoverage" in row["reason_codes"]


@in_worlds
def test_a_cluster_that_comes_late_keeps_its_history(faulty: World) -> None:
    assert faulty.state.counts["late_rows"] == 0
    found = faulty.outages("newcomer")
    assert len(found) == 10 * 2 * 2
    assert {row["end_kind"] for row in found} == {"returned"}


@in_worlds
def test_totals_that_cannot_be_are_named(spark: Any, faulty: World) -> None:
    days = gold.read_learned(faulty.learned, faulty.facts, schemas.GROUP_DAY)
    assert quality.impossible_days(days) == []
    odd = days.where("group_id = 'billing'").withColumn("stopped_partition_ms", days["partitions"] * DAY_MS + 1)
    assert {each[:2] for each in quality.impossible_days(odd)} == {("kafka-1", "billing")}


def run(root: Path, folder: Path) -> int:
    return cli.main(["run", "--root", str(root), "--journal-files", str(folder), "--as-of", "2026-01-01"])


def test_a_folder_that_vanished_is_an_error_with_its_path(spark: Any, tmp_path: Path, capsys: Any) -> None:
    assert run(tmp_path / "lake", tmp_path / "gone") == cli.EXIT_FINDING
    assert f"{tmp_path / 'gone'} is not a folder" in capsys.readouterr().err


@pytest.mark.long  # four runs; a run that cannot be read is named in make test
def test_a_truncated_file_of_a_table_is_named(spark: Any, tmp_path: Path, capsys: Any) -> None:
    """A data file and a commit that were cut off, as by a full disk."""
    journal = tmp_path / "journal"
    timelines.write_file(journal / "journal-a-00000000.jsonl", watched(range(1)))
    for table, pattern in (("silver/beats", "day=*/*.parquet"), ("silver/beats", "_delta_log/*1.json")):
        root = tmp_path / Path(pattern).suffix
        ingest(Lake(spark, root), [JournalFiles(journal)], as_of_ms=AS_OF_MS)
        path, *_ = sorted((root / table).glob(pattern))
        path.write_bytes(path.read_bytes()[:100])
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # like another process, without the cache
        assert run(root, journal) == cli.EXIT_FINDING
        said = capsys.readouterr().err.splitlines()[-1]
        assert said.startswith("fleet-learner: ")
        assert path.name in said
        assert "bring it back" in said


def test_tables_in_the_format_of_an_earlier_version_are_refused_with_a_way_out(
    spark: Any, tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "lake" / "_manifest").mkdir(parents=True)
    assert run(tmp_path / "lake", tmp_path / "journal") == cli.EXIT_FINDING
    assert f"{tmp_path / 'lake'} holds tables of an earlier version" in capsys.readouterr().err
