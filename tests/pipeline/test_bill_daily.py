"""The bill from day to day: many runs yield the same as one, and a broken log affects only itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fleet_learner import schemas
from fleet_learner.bill import daily, window
from fleet_learner.bill.schemas import BILL_SLICES, GROUP_RECORDS, STANDSTILLS
from fleet_learner.configuration import OffsetsLogSettings
from fleet_learner.erasure import Subject, erase_bill
from fleet_learner.errors import SourceError
from fleet_learner.lake import Lake, Plan, Published
from fleet_learner.offsets.codec import Member
from unit.fleet_learner.offsets_encoder import classic_group, commit_key, commit_value, key_of, value_of

MINUTE_MS, DAY_MS = 60_000, 86_400_000
T0_MS = 1_760_054_400_000  # a midnight
DAYS = 3
END_MS = T0_MS + DAYS * DAY_MS
REBALANCES = 4 * DAYS - 1
STOOD_MS = 600_000
EVERY_MS = 60_000


@dataclass
class Log:
    """A log of one partition that a test fills; compacted records are no longer read."""

    records_: list[tuple[int, int, bytes, bytes | None]] = field(default_factory=list)
    kafka_cluster_id: str = "kafka-1"
    topic_id: str | None = None
    topic: str = "__consumer_offsets"
    until_ms: int = T0_MS + 30 * DAY_MS

    def add(self, at_ms: int, key: bytes, value: bytes | None) -> None:
        self.records_.append((len(self.records_), at_ms, key, value))

    @property
    def seen(self) -> list[tuple[int, int, bytes, bytes | None]]:
        return [each for each in self.records_ if each[1] < self.until_ms]

    @property
    def starts(self) -> dict[int, int]:
        return {0: self.seen[0][0]}

    @property
    def ends(self) -> dict[int, int]:
        return {0: self.seen[-1][0] + 1}

    def offsets_at(self, at_ms: int) -> dict[int, int]:
        return {0: next((offset for offset, t, _, _ in self.seen if t >= at_ms), self.ends[0])}

    def records(self, spark: Any, start: Mapping[int, int], end: Mapping[int, int]) -> Any:
        read = [each for each in self.records_ if start[0] <= each[0] < end[0]]
        rows = [
            (bytearray(k), v and bytearray(v), self.topic, 0, n, datetime.fromtimestamp(t / 1000, UTC), 0)
            for n, t, k, v in read
        ]
        return spark.createDataFrame(rows, schemas.KAFKA.spark_nullable)

    def compact(self, before_ms: int) -> None:
        """Keep only the last older record of each key, like Kafka's cleaner."""
        last = {key: n for n, _, key, _ in self.records_}
        self.records_ = [each for each in self.records_ if each[1] >= before_ms or last[each[2]] == each[0]]


def generation(group: str, epoch: int, *members: str) -> tuple[bytes, bytes | None]:
    of = [
        Member(member_id=m, client_id="c", client_host="/10.0.0.1", session_timeout_ms=45_000,
               assignment=(f"orders-{n}",))
        for n, m in enumerate(members)
    ]  # fmt: skip
    record = classic_group(epoch, *of, group_id=group, value_version=3, leader_id=members[0])
    return key_of(record), value_of(record, {})


Entries = list[tuple[int, bytes, bytes | None]]


def committed(entries: Entries, group: str, partition: int, times: Iterable[int]) -> None:
    """Commit one partition of a group at these times."""
    key = commit_key(1, group, "orders", partition)
    entries += [(at_ms, key, commit_value(3, (at_ms - T0_MS) // 100 + 10, at_ms)) for at_ms in times]


def log_of(entries: Entries) -> Log:
    log = Log()
    for each in sorted(entries, key=lambda entry: entry[0]):
        log.add(*each)
    return log


def lived() -> Log:
    """Groups that commit every minute: `busy` rebalances every six hours and then stands still, `calm` never, both for
    three days.

    `gone` has no members, like consumers with manual assignment, commits for half a day, and is deleted on the next.
    """
    entries: Entries = [(T0_MS, *generation("busy", 1, "a", "b")), (T0_MS, *generation("calm", 1, "a", "b"))]
    rebalances = range(T0_MS + 6 * 60 * MINUTE_MS + 5_000, T0_MS + DAYS * DAY_MS, 6 * 60 * MINUTE_MS)
    for number, at_ms in enumerate(rebalances):
        entries.append((at_ms, *generation("busy", 2 + number, "a", f"b{number}")))
    for group, stops in (("busy", [*rebalances]), ("calm", [])):
        for partition in range(2):
            every = range(T0_MS + 1_000 + partition, T0_MS + DAYS * DAY_MS, EVERY_MS)
            working = [at_ms for at_ms in every if not any(0 < at_ms - stop + 5_000 <= STOOD_MS for stop in stops)]
            committed(entries, group, partition, working)
    for partition in range(2):
        committed(entries, "gone", partition, range(T0_MS + 2_000 + partition, T0_MS + DAY_MS // 2, EVERY_MS))
        gone_ms = T0_MS + DAY_MS + 60 * MINUTE_MS + 500 + partition
        entries.append((gone_ms, commit_key(1, "gone", "orders", partition), None))
    return log_of(entries)


def lake(spark: Any, folder: Path) -> Lake:
    return daily.bill_lake(Lake(spark, folder), "kafka-1")


def run(into: Lake, log: Log, now_ms: int, **more: Any) -> Any:
    log.until_ms = now_ms
    return daily.take_in(into, log, now_ms=now_ms, keep_days=30, **more)  # type: ignore[arg-type]


def rows(into: Lake, table: schemas.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(map(str, row)) for row in into.published(table, into.runs.latest()).collect())


class Killed(BaseException):
    """Stands for a kill between two tables."""


def killed_after(table: schemas.Table) -> Callable[[str], None]:
    def die(text: str) -> None:
        if text.startswith(table.name):
            raise Killed

    return die


@dataclass
class Kept:
    """A log that is read from day to day, and its lake."""

    journal: Lake
    lake: Lake
    log: Log


in_spark = pytest.mark.long
"""Days of a bill in Spark; `make test` compares standstills with a plain loop."""


@pytest.fixture(scope="module")
def kept(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Read three days in one run."""
    root, log = tmp_path_factory.mktemp("bills"), lived()
    into = lake(spark, root)
    assert run(into, log, END_MS).number == 0
    return Kept(journal=Lake(spark, root), lake=into, log=log)


def summed(into: Lake) -> dict[str, dict[str, Any]]:
    slices = into.published(BILL_SLICES, into.runs.latest())
    return {row["group_id"]: row.asDict() for row in window.summed(slices).collect()}


@in_spark
def test_every_standstill_is_known(kept: Kept) -> None:
    stood = kept.lake.published(STANDSTILLS, kept.lake.runs.latest()).where("is_interrupted").collect()
    assert {row["group_id"] for row in stood} == {"busy"}
    assert len(stood) == 2 * REBALANCES
    assert all(abs(row["standstill_ms"] - STOOD_MS) <= EVERY_MS for row in stood)


@in_spark
def test_slices_add_up(kept: Kept) -> None:
    bills = summed(kept.lake)
    assert bills["busy"]["rebalances"] == REBALANCES
    assert bills["calm"]["members"] == 2  # nothing happened for days: its last record describes it
    assert bills["calm"]["covered_ms"] > (DAYS - 0.1) * DAY_MS


@pytest.mark.long
def test_days_come_to_what_all_at_once_comes_to(spark: Any, tmp_path: Path) -> None:
    """The log is compacted after each day, and the second day's run is killed after each table."""
    once, by_day, log = lake(spark, tmp_path / "once"), lake(spark, tmp_path / "days"), lived()
    run(once, lived(), END_MS)
    run(by_day, log, T0_MS + DAY_MS + 7 * MINUTE_MS)
    many = len(log.records_)
    log.compact(T0_MS + DAY_MS - 2 * 60 * MINUTE_MS)
    assert len(log.records_) < many - 3_000
    for table in daily.TABLES:
        with pytest.raises(Killed):
            run(by_day, log, T0_MS + 2 * DAY_MS - 1, on_step=killed_after(table))
    assert run(by_day, log, END_MS).number == 1  # continues its own plan, although the log has grown
    log.compact(T0_MS + DAY_MS)
    assert run(by_day, log, END_MS).number == 2
    assert rows(by_day, STANDSTILLS) == rows(once, STANDSTILLS)
    assert summed(by_day) == summed(once)
    assert summed(by_day)["gone"]["commits"] == DAY_MS // EVERY_MS


@in_spark
def test_a_price_is_measured_once_ten_rebalances_were(kept: Kept) -> None:
    assert window.prices(kept.journal, ["kafka-1"], since_ms=T0_MS + 2 * DAY_MS, until_ms=END_MS) == {}
    (price,) = window.prices(kept.journal, ["kafka-1", "never-read"], since_ms=T0_MS, until_ms=END_MS).values()
    assert price.rebalances == REBALANCES
    assert price.lower_seconds <= STOOD_MS / 1000 <= price.upper_seconds


@in_spark
def test_what_lies_behind_the_end_of_a_window_is_not_known_yet(kept: Kept) -> None:
    """A run with an end in the past sees only what was known then."""
    end_ms = T0_MS + DAY_MS
    assert window.prices(kept.journal, ["kafka-1"], since_ms=T0_MS, until_ms=end_ms) == {}
    made = window.bill(kept.journal, ["kafka-1"], since_ms=T0_MS - DAY_MS, until_ms=end_ms)
    by_group = {row["group_id"]: row for row in made.collect()}
    assert by_group["busy"]["rebalances"] == 3
    assert by_group["busy"]["covered_to_ms"] <= end_ms


@in_spark
def test_nothing_new_is_no_run(kept: Kept) -> None:
    assert run(kept.lake, kept.log, END_MS) == kept.lake.runs.latest()


@in_spark
def test_another_log_under_the_same_name_is_refused_and_keeps_what_is_known(kept: Kept) -> None:
    before = kept.lake.runs.latest()
    other, shorter = lived(), lived()
    other.kafka_cluster_id = "kafka-2"
    shorter.records_ = shorter.records_[:100]
    for log, word in ((other, "was of kafka-1"), (shorter, "made again")):
        with pytest.raises(SourceError, match=word):
            run(kept.lake, log, END_MS + DAY_MS)
    assert kept.lake.runs.latest() == before
    assert kept.lake.runs.unfinished() is None


@in_spark
def test_an_erased_group_is_gone_from_the_bill_and_the_others_stay(kept: Kept) -> None:
    subject = Subject(group=("kafka-1", "busy"))
    gone = erase_bill(kept.lake, [("kafka-1", "busy"), ("kafka-2", "calm")], subject)
    assert gone[STANDSTILLS.name] >= 2 * REBALANCES
    assert gone[GROUP_RECORDS.name] == REBALANCES + 1
    assert {row[1] for row in rows(kept.lake, BILL_SLICES)} == {"calm", "gone"}
    assert {row[3] for row in rows(kept.lake, GROUP_RECORDS)} == {"calm"}
    assert erase_bill(kept.lake, [("kafka-1", "busy")], subject) == dict.fromkeys(gone, 0)
    assert kept.lake.runs.latest().number == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("silent_days", [0, 2, 60])
@pytest.mark.parametrize("since_days", [-3, -2, -1, 0, 1])
def test_slices_of_any_later_run_begin_where_slices_of_the_one_before_did(since_days: int, silent_days: int) -> None:
    """A silence that stays open for days moves the start of the next run: no two slices may overlap.

    The next run begins at most three days before the newest record, and finds the slices of earlier runs unchanged.
    """
    heard_ms = T0_MS + 5 * DAY_MS + 3 * MINUTE_MS
    since_ms = T0_MS + (5 + since_days) * DAY_MS
    begun = [T0_MS + day * DAY_MS for day in (1, 2, 9)]
    cuts = list(daily.bounds(since_ms, heard_ms + silent_days * DAY_MS, heard_ms, begun))
    assert cuts[0][0] == since_ms
    assert all(before[1] == after[0] for before, after in pairwise(cuts))
    assert all(start < end for start, end in cuts)
    assert cuts[-1][1] >= heard_ms + silent_days * DAY_MS
    starts = {start for start, _ in cuts}
    assert starts >= {T0_MS + (5 + day) * DAY_MS for day in range(max(since_days, -daily.OPEN_DAYS_MAX), 1)}
    assert starts >= {at_ms for at_ms in begun if since_ms <= at_ms < cuts[-1][1]}


@pytest.mark.long
def test_the_first_rebalance_after_a_quiet_time_longer_than_the_window_is_counted(spark: Any, tmp_path: Path) -> None:
    """The previous record, however old, shows what a record changed."""
    stop_ms = T0_MS + 2 * DAY_MS + 12 * 60 * MINUTE_MS
    entries = [(T0_MS + 500, *generation("calm", 1, "a", "b")), (stop_ms, *generation("calm", 2, "a", "c"))]
    every = range(T0_MS + 1_000, T0_MS + 3 * DAY_MS, 5 * MINUTE_MS)
    committed(entries, "calm", 0, [at_ms for at_ms in every if not 0 < at_ms - stop_ms + 5_000 <= STOOD_MS])
    into, log = lake(spark, tmp_path), log_of(entries)
    daily.take_in(into, log, now_ms=T0_MS + 3 * DAY_MS, keep_days=1)  # type: ignore[arg-type]
    assert summed(into)["calm"]["rebalances"] == 1


def test_a_plan_that_goes_on_speaks_of_the_log_that_it_was_made_for() -> None:
    """A name may lead to other brokers when a killed run continues."""
    log = Log()
    log.add(T0_MS, b"k", b"v")
    plan = Plan(number=1, as_of_ms=T0_MS, sources={"log": {"start": {}, "end": {"0": 1}}},
                settings={"kafka_cluster_id": "kafka-1"})  # fmt: skip
    daily._assert_same_log(plan, log)  # type: ignore[arg-type]
    longer = replace(plan, sources={"log": {"start": {}, "end": {"0": 2}}})
    with pytest.raises(SourceError, match="made again"):
        daily._assert_same_log(longer, log)  # type: ignore[arg-type]
    other = replace(plan, sources={"log": {"start": {}, "end": {"0": 1, "1": 4}}})
    with pytest.raises(SourceError, match="another number of partitions"):
        daily._assert_same_log(other, log)  # type: ignore[arg-type]
    log.kafka_cluster_id = "kafka-2"
    with pytest.raises(SourceError, match="was of kafka-1"):
        daily._assert_same_log(plan, log)  # type: ignore[arg-type]


def test_a_topic_that_was_made_again_is_another_log_however_long_it_is() -> None:
    """Runs of earlier versions noted no id; brokers that report none once change nothing."""
    log = Log(topic_id="first")
    log.add(T0_MS, b"k", b"v")
    earlier = Plan(number=0, as_of_ms=T0_MS, sources={"log": {"start": {}, "end": {"0": 1}}},
                   settings={"kafka_cluster_id": "kafka-1"})  # fmt: skip
    before = Published(plan=earlier, tables={}, counts={"next_from_ms": T0_MS})
    plan = daily._new_plan(before, log, T0_MS)  # type: ignore[arg-type]
    assert plan.settings["topic_id"] == "first"
    before, log.topic_id = replace(before, plan=plan), None
    plan = daily._new_plan(before, log, T0_MS)  # type: ignore[arg-type]
    assert plan.settings["topic_id"] == "first"
    before, log.topic_id = replace(before, plan=plan), "second"
    log.add(T0_MS + 1, b"k", b"v")
    with pytest.raises(
        SourceError, match="__consumer_offsets was made again since it was read: give its entry below offsets_logs"
    ):
        daily._new_plan(before, log, T0_MS)  # type: ignore[arg-type]


def test_names_of_logs_are_folders() -> None:
    with pytest.raises(ValueError, match="pattern"):
        OffsetsLogSettings(name="../x", bootstrap_servers="one.example:9092")
