"""Compare the bill with the truth: the consumers of a real broker log every record themselves.

Groups of every kind go through restarts, kills and scalings; each consumer logs when it finished each record. Spark's
measurement from `__consumer_offsets` alone must be within one commit interval of the time between the last record
before and the first record after.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleet_learner.bill.account import Help
from fleet_learner.bill.cause_rows import causes
from fleet_learner.bill.commits import offset_commits
from fleet_learner.bill.job import keeping
from fleet_learner.bill.standstills import KNOWN, standstills
from fleet_learner.cli import main
from fleet_learner.errors import EXIT_LEFT_OUT
from fleet_learner.progress import Progress
from fleet_learner.simulated.journal import write_files
from fleet_learner.simulated.truth import FleetSettings
from fleet_learner.sources import kafka
from fleet_learner.sources.offsets_topic import TOPIC as OFFSETS
from pipeline.group_brokers import running_brokers
from pipeline.standstill_truth import PARTITIONS, SESSION_MS, TOPIC, Group, Kind, folder_of, stood_still_ms
from support.devcluster.kafka_admin import BrokerAdmin
from support.devcluster.kafka_broker import Brokers
from support.workload.process import Program

pytestmark = [pytest.mark.broker, pytest.mark.long]
NAME = f"bill-{os.getpid()}"
EAGER = {"partition.assignment.strategy": "range"}
COOPERATIVE = {"partition.assignment.strategy": "cooperative-sticky"}
CONSUMER = {"group.protocol": "consumer"}
SHORT = (
    Kind(name="eager", client=EAGER, batch_ms=300),
    Kind(name="static", client=EAGER, is_static=True, restore_ms=500),
    Kind(name="consumer", client=CONSUMER),
)
LONG = (
    *(replace(kind, name=f"long-{kind.name}") for kind in SHORT),
    Kind(name="cooperative", client=COOPERATIVE, restore_ms=300),
    Kind(name="slow", client=EAGER, batch_ms=1_500, restore_ms=1_000),
    Kind(name="auto", client={**EAGER, "enable.auto.commit": True, "auto.commit.interval.ms": 5_000}),
    Kind(name="consumer-static", client=CONSUMER, is_static=True, restore_ms=500),
)


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    """Run a real broker with short group timeouts."""
    with running_brokers(NAME, session_ms=SESSION_MS, offsets_topic_num_partitions="4") as running:
        yield running


def live(brokers: Brokers, kinds: Sequence[Kind], folder: Path, *, rounds: int, calm_ms: int) -> dict[str, Group]:
    """Let groups of two members live through rounds of a restart and a crash of one member."""
    if TOPIC not in BrokerAdmin(brokers.bootstrap).topics():
        BrokerAdmin(brokers.bootstrap).create_topic(TOPIC, partitions=PARTITIONS)
    load = Program("producer", {"BOOTSTRAP": brokers.bootstrap, "TOPIC": TOPIC, "RATE_PER_S": str(20 * PARTITIONS)})
    groups = {kind.name: Group(brokers.bootstrap, kind, folder_of(folder, kind)) for kind in kinds}
    try:
        for group in groups.values():
            group.start(0)
            group.start(1)
        for turn in range(rounds):
            for is_killed in (False, True):
                for group in groups.values():
                    group.lives_on(calm_ms)
                for group in groups.values():
                    group.end(turn % 2, is_killed=is_killed)
                for group in groups.values():
                    group.start(turn % 2)
        for group in groups.values():
            group.lives_on(calm_ms)
    finally:
        for group in groups.values():
            group.close()
        load.kill()
    return groups


def measured(brokers: Brokers, spark: Any) -> list[Any]:
    kafka.register(spark)
    options = {"kafka.bootstrap.servers": brokers.bootstrap, "subscribe": OFFSETS}
    with keeping() as keep:
        records = keep(spark.read.format(kafka.FORMAT).options(**options).load())
        commits, caused = keep(offset_commits(records)), keep(causes(records))
        return list(standstills(commits, caused, "kafka-1", keep=keep).collect())


def assert_held_against_the_truth(rows: Sequence[Any], groups: dict[str, Group]) -> None:
    """At least 95 % are within one usual interval, and most standstills are measured at all."""
    worked = {name: group.worked() for name, group in groups.items()}
    rows = [row for row in rows if row["group_id"] in groups]
    known = [row for row in rows if row["evidence"] in KNOWN]
    closed = [row for row in rows if row["evidence"] not in ("Open", "Compacted")]
    found = []
    for row in known:
        truth_ms = stood_still_ms(worked[row["group_id"]][row["partition"]], row["from_ms"], row["to_ms"])
        error_ms = row["standstill_ms"] - truth_ms
        found.append((row["group_id"], error_ms, row["margin_ms"], row["standstill_ms"], truth_ms, row["causes"]))
    within = sum(abs(error_ms) <= margin_ms for _, error_ms, margin_ms, *_ in found)
    assert within >= 0.95 * len(found), sorted(found, key=lambda each: -abs(each[1]))[:10]
    assert len(known) >= 0.8 * len(closed), Counter(row["evidence"] for row in rows)
    assert {name for name, _, _, standstill_ms, *_ in found if standstill_ms > 1_000} == groups.keys()


@pytest.fixture(scope="module")
def lived(brokers: Brokers, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Group]:
    """Groups after a restart and a crash."""
    return live(brokers, SHORT, tmp_path_factory.mktemp("groups"), rounds=1, calm_ms=9_000)


def test_standstills_are_what_the_consumers_say(brokers: Brokers, lived: dict[str, Group], spark: Any) -> None:
    assert_held_against_the_truth(measured(brokers, spark), lived)


def test_the_command_bills_each_group(
    brokers: Brokers, lived: dict[str, Group], spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bill distinguishes restarts of dynamic members from absorbed ones."""
    file = tmp_path / "bill.json"
    assert main(["bill", "--bootstrap", brokers.bootstrap, "--json", str(file), "--sample-end-offsets"]) == 0
    bills = {each["group_id"]: each for each in json.loads(file.read_text())["groups"]}
    assert bills.keys() == lived.keys()
    printed = capsys.readouterr().out
    for name in ("eager", "consumer"):
        log, since_ms = brokers.group_log, bills[name]["covered_from_ms"]
        counted = log.count_rebalances if name == "eager" else log.count_epoch_bumps
        # The first rebalance in the covered time may have begun before it.
        assert 0 <= bills[name]["rebalances"] - counted(name, since_ms=since_ms) <= 1
        assert bills[name]["help"] == Help.STATIC_MEMBERSHIP
        assert bills[name]["restart_rebalances"] >= 2
        assert bills[name]["records_delayed"] > 0
        assert "{restart_rebalances} of {rebalances} rebalances are restarts".format(**bills[name]) in printed
    assert bills["static"]["absorbed"] == 2
    assert bills["static"]["help"] == Help.NOT_ENOUGH_KNOWN
    assert 0 < bills["static"]["away_partition_ms"] <= bills["static"]["silent_partition_ms"]


@pytest.mark.long
def test_a_run_keeps_the_bill_and_shows_groups_that_nobody_manages(
    brokers: Brokers, lived: dict[str, Group], spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unreadable log is left out, and an old journal gets a warning; the second run reads on."""
    write_files(tmp_path / "journal", FleetSettings(seed=5, groups=2, days=1, k8s_clusters=1), Progress())
    logs = [
        {"name": "here", "bootstrap_servers": brokers.bootstrap},
        {"name": "hidden", "bootstrap_servers": brokers.bootstrap, "topic": "nowhere"},
    ]
    file = tmp_path / "fleet.yaml"
    file.write_text(
        json.dumps({"root": str(tmp_path), "journal_files": str(tmp_path / "journal"), "offsets_logs": logs})
    )
    for _ in range(2):
        assert main(["run", "--config", str(file)]) == EXIT_LEFT_OUT
        said = capsys.readouterr().out
        assert said.count("left out, and read again from where it was: offsets of hidden") == 1, (
            "once, although later stages report, too"
        )
        assert "before the window, which begins on" in said
        rows = json.loads((tmp_path / "output" / "report" / "report.json").read_text())["bill"]
        billed = {row["key"]["group_id"]: row for row in rows}
        assert billed.keys() >= lived.keys()
        assert billed["eager"]["silent_partition_ms"] > 0
        assert (billed["eager"]["key"]["static_group"], billed["eager"]["is_measured"]) == ("", True)


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        ("nowhere", "shows no topic nowhere: some managed services hide it"),
        ("empty", "nothing is in empty"),
        pytest.param(TOPIC, "holds no commit and no member of such a group", marks=pytest.mark.long),
    ],
)
def test_what_cannot_be_billed_is_said_in_one_line(
    brokers: Brokers, lived: dict[str, Group], capsys: pytest.CaptureFixture[str], topic: str, text: str
) -> None:
    if topic == "empty":
        BrokerAdmin(brokers.bootstrap).create_topic(topic, partitions=1)
    assert main(["bill", "--bootstrap", brokers.bootstrap, "--offsets-topic", topic]) == 1
    assert text in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.long
def test_groups_of_every_kind_over_many_rounds(brokers: Brokers, spark: Any, tmp_path: Path) -> None:
    groups = live(brokers, LONG, tmp_path, rounds=6, calm_ms=15_000)
    assert_held_against_the_truth(measured(brokers, spark), groups)
