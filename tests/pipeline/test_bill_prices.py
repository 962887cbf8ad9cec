"""The standstills that count for a group's price, and what would help which kind of group."""

from __future__ import annotations

from typing import Any

import pytest

from fleet_learner.bill.account import Help, bills, help_of
from fleet_learner.bill.causes import CauseKind
from fleet_learner.bill.prices import LEAST_REBALANCES, measured_prices
from fleet_learner.bill.schemas import BILL, CAUSES, OFFSET_COMMITS, STANDSTILLS
from fleet_learner.bill.standstills import Role
from journal.recommendations import PriceSource


def row(group: str, rebalance: int, partition: int, standstill_ms: int | None, **values: Any) -> tuple[Any, ...]:
    """A row of silver/standstills."""
    blank: dict[str, Any] = {
        "kafka_cluster_id": "k", "group_id": group, "topic": "t", "partition": partition, "log_partition": 1,
        "from_offset": 10 * rebalance, "from_ms": 0, "cause_offset": 10 * rebalance, "causes": ["Join"],
        "rebalances": 1,
        "group_type": "Classic", "role": Role.KEPT.value, "evidence": "Progress", "margin_ms": 1_000,
        "standstill_ms": standstill_ms, "is_interrupted": bool(standstill_ms),
    }  # fmt: skip
    known = blank | values
    return tuple(known.get(name) for name in STANDSTILLS.names)


def test_prices_are_of_partitions_that_a_rebalance_stops(spark: Any) -> None:
    turns = range(LEAST_REBALANCES)
    rows = [
        *(row("eager", turn, p, (4_000, 0)[p]) for turn in turns for p in (0, 1)),
        *(row("eager", turn, 2, 90_000, role=Role.CAUSE.value) for turn in turns),  # it waits for its member
        *(row("eager", turn, 3, None, evidence="IdleOrStopped") for turn in turns),
        *(row("eager", turn, 4, 90_000, rebalances=0) for turn in turns),  # nothing rebalanced
        *(row("twice", turn, 0, 6_000, rebalances=2) for turn in turns),
        *(row("moved", turn, 0, 3_000, group_type="Consumer", role=Role.MOVED.value) for turn in turns),
        *(row("moved", turn, 1, 0, group_type="Consumer") for turn in turns),  # it stayed; only moved partitions count
        *(row("seldom", turn, 0, 3_000) for turn in turns[1:]),
    ]
    found = measured_prices(spark.createDataFrame(rows, STANDSTILLS.spark_nullable))
    assert {group: each.seconds for (_, group), each in found.items()} == pytest.approx(
        {"eager": 2, "twice": 3, "moved": 3}
    )
    assert {each.source for each in found.values()} == {PriceSource.MEASURED}
    assert {each.rebalances for each in found.values()} == {LEAST_REBALANCES}


HOURS_MS = 7_200_000
WOULD_HELP: list[tuple[dict[str, Any], Help]] = [
    ({"group_type": "Classic", "protocol_type": "consumer", "restart_rebalances": 6}, Help.STATIC_MEMBERSHIP),
    ({"group_type": "Consumer", "restart_rebalances": 6}, Help.STATIC_MEMBERSHIP),
    ({"group_type": "Classic", "protocol_type": "connect", "restart_rebalances": 6}, Help.NOTHING),
    # KIP-1071: from Kafka 4.4 on; the log does not show the version.
    ({"group_type": "Streams", "restart_rebalances": 6}, Help.STATIC_MEMBERSHIP_OF_STREAMS),
    ({"group_type": "Streams", "restart_rebalances": 1}, Help.NOTHING),
    # KIP-932 has no static members, and epochs of share groups are not read.
    ({"group_type": "Share"}, Help.SHARE_GROUP),
    ({"group_type": "Share", "covered_ms": 0}, Help.SHARE_GROUP),
    # One static member that is gone and back may be a scale-down and up, and restarts of dynamic members may weigh
    # more.
    ({"group_type": "Classic", "static_back": 1}, Help.NOTHING),
    ({"group_type": "Classic", "static_back": 2}, Help.LONGER_TIMEOUT),
    ({"group_type": "Classic", "static_back": 2, "restart_rebalances": 4}, Help.LONGER_TIMEOUT),
    ({"group_type": "Classic", "static_back": 2, "restart_rebalances": 5}, Help.STATIC_MEMBERSHIP),
    ({"group_type": "Classic", "protocol_type": "connect", "static_back": 2, "restart_rebalances": 5},
     Help.LONGER_TIMEOUT),
    ({"group_type": "Classic", "covered_ms": 60_000}, Help.NOT_ENOUGH_KNOWN),
    ({"group_type": None}, Help.NO_MEMBERS),
]  # fmt: skip


def test_what_would_help_is_what_that_kind_of_group_can_have(spark: Any) -> None:
    blank = {c.name: 0 if c.type == "bigint" else None for c in BILL.columns} | {"covered_ms": HOURS_MS}
    rows = [
        tuple((blank | counts | {"group_id": f"{number:02}"})[name] for name in BILL.names)
        for number, (counts, _) in enumerate(WOULD_HELP)
    ]
    found = (
        spark.createDataFrame(rows, BILL.spark_nullable).withColumn("found", help_of()).orderBy("group_id").collect()
    )
    assert [(counts, Help(each["found"])) for (counts, _), each in zip(WOULD_HELP, found, strict=True)] == WOULD_HELP


def cause(group: str, offset: int, kind: CauseKind, **values: Any) -> tuple[Any, ...]:
    """A row of silver/causes, ten minutes after the one before."""
    blank: dict[str, Any] = {c.name: [] if c.type.startswith("array") else 0 for c in CAUSES.columns}
    known = blank | {
        "log_partition": 1, "log_offset": offset, "at_ms": 600_000 * offset, "kind": kind.value, "group_id": group,
        "group_type": "Classic",
        "protocol_type": "consumer", "protocol_name": "range", "rebalances": 1, "knows_owners": False,
    } | values  # fmt: skip
    return tuple(known[name] for name in CAUSES.names)


def test_a_group_of_one_static_member_that_comes_back_is_not_advised_to_become_static(spark: Any) -> None:
    """The group becomes empty when the member expires, and starts when it is back."""
    turns = [
        (CauseKind.EMPTIED, {"departed": 1}),
        (CauseKind.STARTED, {"members": 1, "joined": 1, "returned": 1, "halves_before": 1}),
    ]
    rows = [
        cause(
            group,
            10 * number + turn,
            kind,
            **counts | {"static_members": counts.get("members", 0) if group == "static" else 0},
        )
        for group in ("static", "dynamic")
        for number in range(3)
        for turn, (kind, counts) in enumerate(turns)
    ]
    causes = spark.createDataFrame(rows, CAUSES.spark_nullable)
    nothing = (spark.createDataFrame([], table.spark_nullable) for table in (OFFSET_COMMITS, STANDSTILLS))
    found = {row["group_id"]: row for row in bills(next(nothing), causes, next(nothing), "k").collect()}
    assert Help(found["static"]["help"]) is Help.LONGER_TIMEOUT
    assert (found["static"]["static_back"], found["static"]["restart_rebalances"]) == (3, 0)
    assert Help(found["dynamic"]["help"]) is Help.STATIC_MEMBERSHIP
    assert found["dynamic"]["static_back"] == 0
