"""A report's data from gold/group_day: its own window, the one before, and groups of unknown size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fleet_learner import schemas
from fleet_learner.report import gather
from fleet_learner.report.curves import Window
from fleet_learner.report.model import GroupKey
from pipeline.test_facts import event, frame, outage

pytest.importorskip("pyspark")

DAY_MS = 86_400_000
WINDOW = Window(start_ms=100 * DAY_MS, end_ms=103 * DAY_MS + 7)
"""Four days, the last one unfinished: the window before has four, too."""


def row(day: int, *, group: int = 1, partitions: int | None = 12, **changes: Any) -> dict[str, Any]:
    counted = dict.fromkeys(
        ("downs", "returned", "removed", "open", "blind", "absorbed", "fenced", "held", "rollouts", "rebalances",
         "stopped_partition_ms", "ghost_wanted_ms", "ghost_late_ms", "ghost_operator_ms"), 0,
    )  # fmt: skip
    return {
        "kafka_cluster_id": "k", "group_id": f"g{group}", "group_key": group, "namespace": "shop", "static_group": "s",
        "workload": "w", "protocol": "Classic", "day_ms": day * DAY_MS, "members": 3, "partitions": partitions,
        "rebalances_dynamic": None, "covered_ms": DAY_MS, **counted, **changes,
    }  # fmt: skip


def table(spark: Any, rows: Sequence[dict[str, Any]]) -> Any:
    values = [tuple(each[name] for name in schemas.GROUP_DAY.names) for each in rows]
    return spark.createDataFrame(values, schemas.GROUP_DAY.spark)


def test_days_outside_the_window_are_of_the_one_before_or_of_nobody(spark: Any) -> None:
    days = table(
        spark,
        [
            row(95, rebalances=1_000), row(96, rebalances=7, downs=5, absorbed=2, stopped_partition_ms=70,
                                           covered_ms=DAY_MS // 2),
            row(99, rebalances=8), row(99, group=2, rebalances=1, covered_ms=0),
            row(100, rebalances=3, stopped_partition_ms=11), row(103, rebalances=2), row(104, rebalances=500),
        ],
    )  # fmt: skip
    (now,) = gather.group_histories(days, WINDOW)
    assert now.counts.rebalances == 5
    assert now.lost_partition_ms_by_day == (11, 0, 0, 0)
    assert [d.day_ms // DAY_MS for d in gather.day_costs(days, WINDOW)] == [100, 103]
    before = gather.before(days, WINDOW)
    assert before.window == Window(start_ms=96 * DAY_MS, end_ms=100 * DAY_MS)
    assert (before.counts.rebalances, before.counts.restarts, before.counts.absorbed_restarts) == (16, 5, 2)
    assert before.counts.rebalance_cost_partition_ms == 70
    assert before.covered_ms == DAY_MS // 2 + DAY_MS
    # The first group is known for four days, the second for one.
    assert before.coverage == pytest.approx(1.5 / 5)


def test_a_table_that_begins_with_the_window_has_no_history(spark: Any) -> None:
    assert gather.before(table(spark, [row(100), row(101)]), WINDOW) is None


def test_a_group_of_unknown_size_still_waits_for_its_members(spark: Any) -> None:
    """Each member has at least one partition; a sum with a null would be null, and no page could be made."""
    days = table(
        spark, [row(100, partitions=None, ghost_wanted_ms=6_000), row(101, partitions=None, ghost_operator_ms=900)]
    )
    (found,) = gather.group_histories(days, WINDOW)
    assert found.partitions is None
    assert found.counts.ghost_wanted_partition_ms == 6_000
    assert found.counts.lost_partition_ms == 6_900


def test_a_restart_is_drawn_as_the_coordinator_reported_it(spark: Any) -> None:
    """Absorbed after a gap above the timeout, evicted after a gap below it; an absent member is neither yet."""
    at = WINDOW.start_ms
    stops = [
        outage(at, 70_000, absorbed=True), outage(at + 1_000_000, 20_000, absorbed=False),
        outage(at + 2_000_000, 90_000, absorbed=False),
        outage(at + 3_000_000, 80_000, "open"), outage(at + 4_000_000, 80_000, "removed"),
    ]  # fmt: skip
    rejoins = [event("member.rejoined", at + 5_000_000, absorbed=True)]  # a new client in a running process
    key = GroupKey(kafka_cluster_id="kafka", group_id="group")
    drawn = gather.timelines(
        [key],
        WINDOW,
        member_events=frame(spark, schemas.MEMBER_EVENTS, [*rejoins, event("member.removed", at + 4_080_000)]),
        group_events=frame(spark, schemas.GROUP_EVENTS, []),
        outages=frame(spark, schemas.OUTAGES, stops),
        rebalances=frame(spark, schemas.REBALANCES, []),
    )[key]
    assert drawn.absorbed_ms == (at + 70_000,)
    assert drawn.evicted_ms == (at + 1_020_000, at + 2_045_000)
    assert drawn.removed_ms == (at + 4_080_000,)
