"""Read a report's data from the tables: sums over all groups by Spark, single facts of a few groups only.

The one idea: no data that grows with the number of events leaves Spark. The driver gets one row per group (100,000
groups are 100 MB), and the single outages, rollouts and rebalances of groups with a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from fleet_learner.days.facts import DAY_MS
from fleet_learner.offsets.codec import GroupType
from staticgroup.api.absences import EndKind

from .build import GroupHistory, sum_counts
from .curves import Span, Timeline, Window
from .model import Before, BillRow, Counts, DayCost, GroupKey

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

GROUPS_MAX: Final = 200_000
FACTS_MAX: Final = 200_000
_SUMMED: Final = {
    "restarts": "downs",
    "absorbed_restarts": "absorbed",
    "removals": "removed",
    "rebalances": "rebalances",
    "rebalance_cost_partition_ms": "stopped_partition_ms",
}
_GHOSTS: Final = {"wanted": "ghost_wanted_ms", "late": "ghost_late_ms", "fault": "ghost_operator_ms"}


def _partition_ms(member_ms: str) -> Column:
    """Multiply members' time by the partitions of one member, as integers, at least one if unknown."""
    from pyspark.sql import functions as F

    return F.expr(f"{member_ms} * coalesce(partitions, members) div greatest(members, 1)")


def _lost() -> Column:
    from pyspark.sql import functions as F

    total = F.col("stopped_partition_ms")
    for name in _GHOSTS.values():
        total = total + _partition_ms(name)
    return total


def group_histories(group_day: DataFrame, window: Window) -> list[GroupHistory]:
    """Sum up every group over the window.

    Parameters
    ----------
    group_day: gold/group_day; days outside the window are left out.

    Returns
    -------
    list[GroupHistory]
        In the order of cluster and group.

    Raises
    ------
    ValueError
        With more than `GROUPS_MAX` groups; such a fleet needs a report per Kafka cluster.
    """
    from pyspark.sql import functions as F

    names = ("kafka_cluster_id", "group_id", "namespace", "static_group", "workload", "protocol")
    latest = {name: F.max_by(name, "day_ms").alias(name) for name in (*names, "members", "partitions")}
    rows = (
        _of_window(group_day, window)
        .groupBy("group_key")
        .agg(
            *latest.values(),
            *(F.sum(column).alias(name) for name, column in _SUMMED.items()),
            *(F.sum(_partition_ms(column)).alias(f"ghost_{name}") for name, column in _GHOSTS.items()),
            F.sum("rebalances_dynamic").alias("dynamic"),
            F.sum("covered_ms").alias("covered_ms"),
            F.min("day_ms").alias("first_ms"),
            F.collect_list(F.struct("day_ms", _lost().alias("lost"))).alias("days"),
        )
        .orderBy("kafka_cluster_id", "group_id")
        .limit(GROUPS_MAX + 1)
        .collect()
    )
    if len(rows) > GROUPS_MAX:
        raise ValueError(f"a report is for {GROUPS_MAX} groups at most")
    return [_history(row.asDict(), window) for row in rows]


def _history(row: dict[str, Any], window: Window) -> GroupHistory:
    lost = {each["day_ms"]: each["lost"] for each in row["days"]}
    first_day = window.start_ms // DAY_MS * DAY_MS
    return GroupHistory(
        key=GroupKey(
            kafka_cluster_id=row["kafka_cluster_id"],
            group_id=row["group_id"],
            namespace=row["namespace"] or "",
            static_group=row["static_group"] or "",
            workload=row["workload"] or "",
        ),
        protocol=row["protocol"] or "Unknown",
        members=row["members"],
        partitions=row["partitions"],
        counts=Counts(
            **{name: row[name] for name in _SUMMED},
            rebalances_if_dynamic=row["dynamic"],
            ghost_wanted_partition_ms=row["ghost_wanted"],
            ghost_late_partition_ms=row["ghost_late"],
            ghost_fault_partition_ms=row["ghost_fault"],
        ),
        covered_ms=row["covered_ms"],
        span_ms=max(0, window.end_ms - max(row["first_ms"], window.start_ms)),
        lost_partition_ms_by_day=tuple(lost.get(day, 0) for day in range(first_day, window.end_ms, DAY_MS)),
    )


def before(group_day: DataFrame, window: Window) -> Before | None:
    """Sum up the previous window, of as many whole days; None if the table has no row of it."""
    days = -(-(window.end_ms - window.start_ms) // DAY_MS)
    earlier = Window(start_ms=window.start_ms - days * DAY_MS, end_ms=window.start_ms)
    found = group_histories(group_day, earlier)
    if not found:
        return None
    covered_ms, span_ms = sum(h.covered_ms for h in found), sum(h.span_ms for h in found)
    return Before(
        window=earlier,
        counts=sum_counts([h.counts for h in found]),
        coverage=covered_ms / span_ms if span_ms else 0.0,
        covered_ms=covered_ms,
    )


def _of_window(group_day: DataFrame, window: Window) -> DataFrame:
    return group_day.where(f"day_ms >= {window.start_ms // DAY_MS * DAY_MS} AND day_ms < {window.end_ms}")


def bill_row(row: Mapping[str, Any], key: GroupKey | None, help_words: str) -> BillRow:
    """Turn a row of gold/bill into one of the report.

    Parameters
    ----------
    key: of the group, if an operator manages it; else None.
    help_words: what would help.
    """
    by_restarts, silent, margin = row["restart_rebalances"], row["silent_partition_ms"], row["margin_partition_ms"]
    is_counted = row["group_type"] != GroupType.SHARE.value
    return BillRow(
        key=key or GroupKey(kafka_cluster_id=row["kafka_cluster_id"], group_id=row["group_id"]),
        covered_days=row["covered_ms"] / DAY_MS,
        rebalances={"by restarts": by_restarts, "otherwise": row["rebalances"] - by_restarts} if is_counted else {},
        low_silent_partition_ms=max(0, silent - margin),
        silent_partition_ms=silent,
        high_silent_partition_ms=silent + margin,
        is_measured=row["measured"] > 0,
        interrupted_members=row["interrupted_members"],
        delayed_records=row["records_delayed"],
        help=help_words,
    )


def day_costs(group_day: DataFrame, window: Window) -> list[DayCost]:
    """Sum up every day of the window over the fleet; one row per day, in order."""
    from pyspark.sql import functions as F

    waiting = _lost() - F.col("stopped_partition_ms")
    rows = (
        _of_window(group_day, window)
        .groupBy("day_ms")
        .agg(F.sum("stopped_partition_ms").alias("rebalances"), F.sum(waiting).alias("waiting"))
        .orderBy("day_ms")
        .collect()
    )
    return [
        DayCost(day_ms=r["day_ms"], rebalance_partition_ms=r["rebalances"], waiting_partition_ms=r["waiting"])
        for r in rows
    ]


def of_groups(frame: DataFrame, keys: Sequence[GroupKey], kinds: Sequence[str] = ()) -> DataFrame:
    """Keep a few groups, and of events a few kinds."""
    from pyspark.sql import functions as F

    wanted = [F.struct(F.lit(k.kafka_cluster_id).alias("c"), F.lit(k.group_id).alias("g")) for k in keys]
    chosen = frame.where(F.struct(F.col("kafka_cluster_id").alias("c"), F.col("group_id").alias("g")).isin(*wanted))
    return chosen.where(F.col("kind").isin(*kinds)) if kinds else chosen


def _by_group(frame: DataFrame) -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = {}
    for row in frame.limit(FACTS_MAX).collect():
        found.setdefault((row["kafka_cluster_id"], row["group_id"]), []).append(row)
    return found


def timelines(
    keys: Sequence[GroupKey],
    window: Window,
    *,
    member_events: DataFrame,
    group_events: DataFrame,
    outages: DataFrame,
    rebalances: DataFrame,
) -> dict[GroupKey, Timeline]:
    """Return the dated facts of a few groups; at most `FACTS_MAX` facts of a kind in all."""
    if not keys:
        return {}
    pair = ("kafka_cluster_id", "group_id")
    groups = _by_group(
        of_groups(group_events, keys, ("rollout.started", "rollout.finished", "timeout.changed"))
        .select(*pair, "kind", "event_ms", "rollout_id", "session_timeout_ms_after")
        .orderBy("event_ms", "kind")
    )
    steps = _by_group(
        of_groups(rebalances, keys).select(*pair, "start_hi_ms", "group_epoch").orderBy("start_hi_ms", "event_id")
    )
    removals = _by_group(
        of_groups(member_events, keys, ("member.removed",)).select(*pair, "event_ms").orderBy("event_ms")
    )
    returns = _by_group(
        of_groups(outages, keys)
        .where(f"end_kind = '{EndKind.RETURNED.value}' AND absorbed IS NOT NULL")
        # The return shows that a member was evicted; the eviction was at its timeout, if that came first.
        .selectExpr(*pair, "absorbed", "if(absorbed, back_ms, least(back_ms, down_ms + session_timeout_ms)) AS at_ms")
        .orderBy("at_ms")
    )
    made = {}
    for key in keys:
        name = (key.kafka_cluster_id, key.group_id)
        made[key] = Timeline(
            window=window,
            rollouts=_spans(groups.get(name, []), window),
            generations=_generations(steps.get(name, [])),
            absorbed_ms=tuple(r["at_ms"] for r in returns.get(name, []) if r["absorbed"]),
            evicted_ms=tuple(r["at_ms"] for r in returns.get(name, []) if not r["absorbed"]),
            removed_ms=tuple(r["event_ms"] for r in removals.get(name, [])),
            timeout_changes=tuple(
                (r["event_ms"], r["session_timeout_ms_after"])
                for r in groups.get(name, [])
                if r["kind"] == "timeout.changed"
            ),
        )
    return made


def _generations(rows: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    """Return (instant, epoch); a classic group has no generation in the journal, so its rebalances count from 1."""
    return tuple(
        (row["start_hi_ms"], row["group_epoch"] if row["group_epoch"] is not None else number)
        for number, row in enumerate(rows, start=1)
    )


def _spans(rows: Sequence[Any], window: Window) -> tuple[Span, ...]:
    """Pair starts and ends of rollouts by their id; one that never ended lasts to the end of the window."""
    ends = {}
    for row in reversed(rows):
        if row["kind"] == "rollout.finished":
            ends[row["rollout_id"]] = row["event_ms"]
    return tuple(
        Span(start_ms=row["event_ms"], end_ms=ends.get(row["rollout_id"], window.end_ms), label=row["rollout_id"])
        for row in rows
        if row["kind"] == "rollout.started"
    )
