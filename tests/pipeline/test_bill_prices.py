"""Which standstills make a group's price, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from fleet_learner.bill.prices import LEAST_REBALANCES, measured_prices
from fleet_learner.bill.schemas import STANDSTILLS
from fleet_learner.bill.standstills import Role
from staticgroup.api.recommendation import PriceSource


def row(group: str, rebalance: int, partition: int, standstill_ms: int | None, **values: Any) -> tuple[Any, ...]:
    """A row of silver/standstills."""
    blank: dict[str, Any] = {
        "kafka_cluster_id": "k", "group_id": group, "topic": "t", "partition": partition, "log_partition": 1,
        "from_offset": 10 * rebalance, "from_ms": 0, "cause_offset": 10 * rebalance, "causes": ["Join"], "rebalances": 1,
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
        *(row("moved", turn, 1, 0, group_type="Consumer") for turn in turns),  # it stayed, and costs count what moves
        *(row("seldom", turn, 0, 3_000) for turn in turns[1:]),
    ]
    found = measured_prices(spark.createDataFrame(rows, STANDSTILLS.spark_nullable))
    assert {group: each.seconds for (_, group), each in found.items()} == pytest.approx(
        {"eager": 2, "twice": 3, "moved": 3}
    )
    assert {each.source for each in found.values()} == {PriceSource.MEASURED}
    assert {each.rebalances for each in found.values()} == {LEAST_REBALANCES}
