"""Facts per group and day, and sums of restart gaps that can be merged: transforms from silver to gold.

The one idea: every figure is a sum of integers over rows that belong to one group, so each table costs one shuffle by
group and comes out the same with any number of partitions. An outage belongs to the day on which it began.

Time that a place was kept for an absent member (ghost time) has three kinds. *Wanted*: within the session timeout, for
a member that may come back. *Late*: beyond the timeout, which the coordinator allows only if the timeout is not what we
think; seen when a return was absorbed after a longer gap, or a removal found the member still there. *Operator*: up to
the timeout, for a member that was removed in the end because nobody wanted it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from staticgroup.api.journal import EndKind

from .schemas import GAP_STATS, GROUP_DAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DAY_MS: Final = 86_400_000
WEEK_MS: Final = 7 * DAY_MS
_MONDAY_MS: Final = 4 * DAY_MS  # 1970-01-05, the first Monday
_GROUP: Final = ("kafka_cluster_id", "group_id", "group_key", "namespace", "static_group", "workload", "protocol")

GAP_GRID_MS: Final = (
    6_000, 10_000, 15_000, 20_000, 30_000, 45_000, 60_000, 90_000, 120_000, 180_000, 240_000, 300_000, 450_000,
    600_000, 900_000, 1_200_000, 1_800_000,
)  # fmt: skip
"""Timeouts at which gap_stats counts longer gaps, from the coordinator's default minimum to its default maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopDurations:
    """How long a partition that a rebalance stops is without a consumer; no record says it, so it is an assumption.

    Parameters
    ----------
    eager_ms: all partitions of a classic group stop.
    cooperative_ms: only the partitions that move stop (KIP-429, KIP-848).
    classic_is_cooperative: take classic groups for cooperative ones; the protocol's metadata is not in the journal.
    is_stated: somebody wrote the durations into the configuration; else they are assumed.
    """

    eager_ms: int = 3_000
    cooperative_ms: int = 300
    classic_is_cooperative: bool = False
    is_stated: bool = False


def rebalance_costs(rebalances: DataFrame, durations: StopDurations) -> DataFrame:
    """Add `stopped_partition_ms` to silver/rebalances.

    Returns
    -------
    The same rows. Cooperative groups lose the moved partitions, or all when nobody knows which moved (an upper bound);
    null where the number of partitions is unknown.
    """
    from pyspark.sql import functions as F

    is_eager = (F.col("protocol") == "Classic") & F.lit(not durations.classic_is_cooperative)
    moved = F.coalesce("partitions_moved", "partitions_total")
    cost = F.when(is_eager, F.col("partitions_total") * durations.eager_ms).otherwise(moved * durations.cooperative_ms)
    return rebalances.withColumn("stopped_partition_ms", cost.cast("bigint"))


def ghost_times(outages: DataFrame) -> DataFrame:
    """Add how long each absent member's place was kept: `ghost_wanted_ms`, `ghost_late_ms`, `ghost_operator_ms`.

    Parameters
    ----------
    outages: silver/outages, one row per absence.

    Returns
    -------
    The columns of silver/outages and the three, ≥ 0 and never null; a blind outage has no ghost time, its end is unknown.
    """
    from pyspark.sql import functions as F

    gap, end = F.col("gap_ms"), F.col("end_kind")
    within = F.least(gap, F.coalesce("session_timeout_ms", "gap_ms"))
    is_removed, is_blind = end == EndKind.REMOVED.value, end == EndKind.BLIND.value
    is_late = is_removed | F.coalesce("absorbed", F.lit(False))

    def kept(condition: Column, amount: Column) -> Column:
        return F.when(condition, amount).otherwise(F.lit(0)).cast("bigint")

    return outages.withColumns(
        {
            "ghost_wanted_ms": kept(~is_removed & ~is_blind, within),
            "ghost_late_ms": kept(is_late, gap - within),
            "ghost_operator_ms": kept(is_removed, within),
        }
    )


def covered_days(beats: DataFrame, blind_windows: DataFrame, days: DataFrame) -> DataFrame:
    """Return (k8s_cluster_uid, day_ms, covered_ms): how long an operator was looking on each day.

    Parameters
    ----------
    beats: silver/beats; before the first of a Kubernetes cluster nobody was looking there.
    blind_windows: silver/blind_windows, not overlapping, after the first beat.
    days: distinct (k8s_cluster_uid, day_ms, day_end_ms).
    """
    from pyspark.sql import functions as F

    first = beats.groupBy("k8s_cluster_uid").agg(F.min("observed_at_ms").alias("first_ms"))
    watched = (
        days.join(F.broadcast(first), on="k8s_cluster_uid", how="left")
        .withColumn("from_ms", F.least(F.greatest("day_ms", F.coalesce("first_ms", "day_end_ms")), "day_end_ms"))
        .alias("d")
    )
    # Without a blind window the row is null: least and greatest would pass over that.
    overlap = F.least("end_ms", "day_end_ms") - F.greatest("start_ms", "from_ms")
    blind = F.when(F.col("start_ms").isNotNull(), overlap)
    meets = (
        (F.col("b.k8s_cluster_uid") == F.col("d.k8s_cluster_uid"))
        & (F.col("start_ms") < F.col("day_end_ms"))
        & (F.col("end_ms") > F.col("from_ms"))
    )
    return (
        watched.join(F.broadcast(blind_windows.alias("b")), meets, how="left")
        .groupBy("d.k8s_cluster_uid", "day_ms", "day_end_ms", "from_ms")
        .agg(F.coalesce(F.sum(blind), F.lit(0)).alias("blind_ms"))
        .withColumn("covered_ms", F.col("day_end_ms") - F.col("from_ms") - F.col("blind_ms"))
        .select("k8s_cluster_uid", "day_ms", "covered_ms")
    )


def day_of(column: str) -> Column:
    """Return the midnight (UTC) before a time."""
    from pyspark.sql import functions as F

    return (F.floor(F.col(column) / DAY_MS) * DAY_MS).cast("bigint")


_ZERO: Final = (
    "downs", "returned", "removed", "open", "blind", "absorbed", "fenced", "held", "rollouts", "rebalances",
    "stopped_partition_ms", "ghost_wanted_ms", "ghost_late_ms", "ghost_operator_ms",
)  # fmt: skip


def _facts_with_a_day(
    ghosts: DataFrame, member_events: DataFrame, group_events: DataFrame, costs: DataFrame
) -> DataFrame:
    """Bring all silver tables to one shape: a group, an instant, and what the row counts for."""
    from pyspark.sql import functions as F

    def one(condition: Column) -> Column:
        return F.when(condition, F.lit(1)).otherwise(F.lit(0)).cast("bigint")

    def shaped(rows: DataFrame, at_ms: str, **counted: Column) -> DataFrame:
        uid = F.col("k8s_cluster_uid") if "k8s_cluster_uid" in rows.columns else F.lit(None).cast("string")
        return rows.select(
            *_GROUP,
            uid.alias("k8s_cluster_uid"),
            F.col(at_ms).alias("at_ms"),
            "event_id",
            *(value.alias(name) for name, value in counted.items()),
        )

    end, kind = F.col("end_kind"), F.col("kind")
    stops = shaped(
        ghosts,
        "down_ms",
        downs=F.lit(1).cast("bigint"),
        **{each.value: one(end == each.value) for each in EndKind},
        **{name: F.col(name) for name in _ZERO if name.startswith("ghost_")},
    )
    members = shaped(
        member_events,
        "event_ms",
        absorbed=one((kind == "member.rejoined") & F.col("absorbed")),
        fenced=one(kind == "member.fenced"),
        instance_id=F.col("instance_id"),
        members=F.col("members"),
        partitions=F.col("partitions_total"),
    )
    groups = shaped(
        group_events,
        "event_ms",
        held=one(kind == "removal.held"),
        rollouts=one(kind == "rollout.started"),
        members=F.coalesce("members", "replicas", "replicas_after"),
        partitions=F.col("partitions_total"),
    )
    priced = shaped(
        costs,
        "start_hi_ms",
        rebalances=F.lit(1).cast("bigint"),
        stopped_partition_ms=F.col("stopped_partition_ms"),
    )
    rows = stops
    for other in (members, groups, priced):
        rows = rows.unionByName(other, allowMissingColumns=True)
    return rows


def group_day(
    ghosts: DataFrame,
    member_events: DataFrame,
    group_events: DataFrame,
    costs: DataFrame,
    beats: DataFrame,
    blind_windows: DataFrame,
    *,
    start_ms: int,
    as_of_ms: int,
    dynamic: DataFrame | None = None,
) -> DataFrame:
    """Count what happened to each group on each day.

    Parameters
    ----------
    ghosts: from `ghost_times`, one row per stop.
    costs: from `rebalance_costs`, one row per rebalance.
    beats, blind_windows: silver/beats and silver/blind_windows.
    start_ms, as_of_ms: the half-open window, Unix milliseconds; days on its edges are counted in part.
    dynamic: (group_key, day_ms, rebalances_dynamic), rebalances of the same timeline with dynamic members; None when it
        was not replayed.

    Returns
    -------
    gold/group_day: one row per group and UTC day from the day the group was first heard of, quiet days included.
    `members` and `partitions` are the last known ones of the day, carried over quiet days; without a rebalance they are
    those that returning members were seen with, and null partitions were never told.
    """
    from pyspark.sql import functions as F

    facts = _facts_with_a_day(ghosts, member_events, group_events, costs)
    days = _with_quiet_days(_busy_days(facts.where(F.col("at_ms").between(start_ms, as_of_ms - 1))), as_of_ms)
    clusters = days.select(F.col("uid").alias("k8s_cluster_uid"), "day_ms", "day_end_ms").distinct()
    covered = covered_days(beats, blind_windows, clusters).withColumnRenamed("k8s_cluster_uid", "uid")
    return (
        _with_dynamic(days, dynamic)
        .join(covered, on=["uid", "day_ms"], how="left")
        .withColumn("covered_ms", F.coalesce("covered_ms", F.lit(0)).cast("bigint"))
        .select("*", "known_name.*")
        .select(*GROUP_DAY.names)
    )


def _busy_days(facts: DataFrame) -> DataFrame:
    """Sum up facts per group and UTC day; what a group is called, and how large it is, is the last of the day."""
    from pyspark.sql import functions as F

    latest = F.struct("at_ms", "event_id")
    sizes = ("members", "partitions")
    return (
        facts.withColumn("day_ms", day_of("at_ms"))
        .groupBy("group_key", "day_ms")
        .agg(
            *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _ZERO),
            *(F.max_by(F.col(name), F.when(F.col(name).isNotNull(), latest)).alias(name) for name in sizes),
            F.max_by(F.struct(*_GROUP[:2], *_GROUP[3:]), latest).alias("name"),
            F.max("k8s_cluster_uid").alias("k8s_cluster_uid"),
            F.collect_set("instance_id").alias("instances"),
        )
    )


def _with_quiet_days(days: DataFrame, as_of_ms: int) -> DataFrame:
    """Add the days on which nothing happened, up to the end of the window, and carry over how large the group was."""
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    spine = (
        days.groupBy("group_key")
        .agg(
            F.sequence(F.min("day_ms"), F.lit((as_of_ms - 1) // DAY_MS * DAY_MS), F.lit(DAY_MS)).alias("days"),
            F.max_by("name", "day_ms").alias("known_name"),
            F.max("k8s_cluster_uid").alias("uid"),
            F.size(F.array_distinct(F.flatten(F.collect_list("instances")))).alias("seen_members"),
        )
        .withColumn("day_ms", F.explode("days"))
    )
    before = W.partitionBy("group_key").orderBy("day_ms").rowsBetween(W.unboundedPreceding, W.currentRow)
    ever = W.partitionBy("group_key").orderBy("day_ms").rowsBetween(W.unboundedPreceding, W.unboundedFollowing)

    def carried(name: str) -> Column:
        return F.coalesce(F.last(name, ignorenulls=True).over(before), F.first(name, ignorenulls=True).over(ever))

    return (
        spine.join(days.drop("k8s_cluster_uid", "name"), on=["group_key", "day_ms"], how="left")
        .withColumn("members", F.coalesce(carried("members"), F.col("seen_members")).cast("bigint"))
        .withColumn("partitions", carried("partitions").cast("bigint"))
        .withColumns({name: F.coalesce(name, F.lit(0)).cast("bigint") for name in _ZERO})
        .withColumn("day_end_ms", F.least(F.col("day_ms") + DAY_MS, F.lit(as_of_ms)))
    )


def _with_dynamic(days: DataFrame, dynamic: DataFrame | None) -> DataFrame:
    from pyspark.sql import functions as F

    if dynamic is None:
        return days.withColumn("rebalances_dynamic", F.lit(None).cast("bigint"))
    known = F.coalesce("rebalances_dynamic", F.lit(0)).cast("bigint")
    return days.join(dynamic, on=["group_key", "day_ms"], how="left").withColumn("rebalances_dynamic", known)


def gap_stats(outages: DataFrame) -> DataFrame:
    """Sum up restart gaps so that weeks, images and clusters can be added without the outages themselves.

    Parameters
    ----------
    outages: silver/outages.

    Returns
    -------
    gold/gap_stats, one row per workload, reason, image and week (from Monday, UTC). With y = ln(gap in milliseconds),
    the two sums are Σ y and Σ y² of the returned ones, each term rounded to millionths; `exceeded[i]` counts outages
    that are known to have lasted longer than `GAP_GRID_MS[i]`, censored ones included, blind ones not.
    """
    from pyspark.sql import functions as F

    is_returned = F.col("end_kind") == EndKind.RETURNED.value
    is_blind = F.col("end_kind") == EndKind.BLIND.value
    log_gap = F.log(F.greatest(F.col("gap_ms"), F.lit(1)).cast("double"))

    def micro(value: Column) -> Column:
        return F.coalesce(F.sum(F.when(is_returned, F.round(value * 1_000_000).cast("bigint"))), F.lit(0))

    def count(condition: Column) -> Column:
        return F.count_if(condition)

    return (
        outages.withColumn(
            "week_ms",
            (F.floor((F.col("down_ms") - _MONDAY_MS) / WEEK_MS) * WEEK_MS + _MONDAY_MS).cast("bigint"),
        )
        .withColumns(
            {name: F.coalesce(name, F.lit("")) for name in ("namespace", "workload", "reason", "image_digest")}
        )
        .groupBy(*GAP_STATS.key[:3], "protocol", *GAP_STATS.key[3:])
        .agg(
            count(is_returned).alias("returned"),
            count(~is_returned & ~is_blind).alias("censored"),
            count(is_blind).alias("blind"),
            micro(log_gap).alias("sum_log_gap_micro"),
            micro(log_gap * log_gap).alias("sum_log_gap_squared_micro"),
            F.array(*(count(~is_blind & (F.col("gap_ms") > limit)) for limit in GAP_GRID_MS)).alias("exceeded"),
        )
        .select(*GAP_STATS.names)
    )
