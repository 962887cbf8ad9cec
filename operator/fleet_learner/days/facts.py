"""The cost of stops, rebalances and unwatched time: transforms from silver to gold.

The one idea: every figure is a sum of integers over rows that belong to one group, so each table costs one shuffle by
group and comes out the same with any number of partitions.

The time in which the group kept an absent member (ghost time) has three kinds. *Wanted*: within the session timeout,
for a member that may return. *Late*: beyond the timeout, which happens only if the timeout is not the assumed one;
shown by an absorbed return after a longer gap, or by a removal that found the member still there. *Operator*: up to the
timeout, for a member that was removed in the end because it was not expected back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from staticgroup.api.absences import EndKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StopDurations:
    """How long a partition that a rebalance stops has no consumer; no record shows it, so it is an assumption.

    Parameters
    ----------
    eager_ms: all partitions of a classic group stop.
    cooperative_ms: only the partitions that move stop (KIP-429, KIP-848).
    classic_is_cooperative: treat classic groups as cooperative; the journal does not hold the protocol's metadata.
    is_eager_stated, is_cooperative_stated: the configuration states that duration; else it is assumed.
    """

    eager_ms: int = 3_000
    cooperative_ms: int = 300
    classic_is_cooperative: bool = False
    is_eager_stated: bool = False
    is_cooperative_stated: bool = False


def rebalance_costs(rebalances: DataFrame, durations: StopDurations) -> DataFrame:
    """Add `stopped_partition_ms` to silver/rebalances.

    Returns
    -------
    The same rows. Cooperative groups lose the moved partitions, or all if it is unknown which moved (an upper bound);
    null if the number of partitions is unknown.
    """
    from pyspark.sql import functions as F

    is_eager = (F.col("protocol") == "Classic") & F.lit(not durations.classic_is_cooperative)
    moved = F.coalesce("partitions_moved", "partitions_total")
    cost = F.when(is_eager, F.col("partitions_total") * durations.eager_ms).otherwise(moved * durations.cooperative_ms)
    return rebalances.withColumn("stopped_partition_ms", cost.cast("bigint"))


def ghost_times(outages: DataFrame) -> DataFrame:
    """Add how long the group kept each absent member: `ghost_wanted_ms`, `ghost_late_ms`, `ghost_operator_ms`.

    Parameters
    ----------
    outages: silver/outages, one row per absence.

    Returns
    -------
    The columns of silver/outages and these three, ≥ 0 and never null; a blind outage has no ghost time, because its end
    is unknown.
    """
    from pyspark.sql import functions as F

    gap, end = F.col("gap_ms"), F.col("end_kind")
    within = F.least(gap, F.coalesce("session_timeout_ms", "gap_ms"))
    is_removed, is_blind = end == EndKind.REMOVED.value, end == EndKind.BLIND.value
    # The return of a departed member is not expected, whether it was removed or not.
    is_unwanted = is_removed | (end == EndKind.DEPARTED.value)
    is_late = is_removed | F.coalesce("absorbed", F.lit(False))

    def kept(condition: Column, amount: Column) -> Column:
        return F.when(condition, amount).otherwise(F.lit(0)).cast("bigint")

    return outages.withColumns(
        {
            "ghost_wanted_ms": kept(~is_unwanted & ~is_blind, within),
            "ghost_late_ms": kept(is_late, gap - within),
            "ghost_operator_ms": kept(is_unwanted, within),
        }
    )


def covered_days(beats: DataFrame, blind_windows: DataFrame, days: DataFrame) -> DataFrame:
    """Return (k8s_cluster_uid, day_ms, covered_ms): how long an operator was watching on each day.

    Parameters
    ----------
    beats: silver/beats; before its first beat a Kubernetes cluster was not watched.
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
    # Without a blind window the row is null, which least and greatest would ignore.
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


def unread_days(spans: DataFrame) -> DataFrame:
    """Return (k8s_cluster_uid, static_group, day_ms, unread_ms): how long a group was unreadable on each day.

    Parameters
    ----------
    spans: of `sessions.unread_spans`.
    """
    from pyspark.sql import functions as F

    last = (F.floor((F.col("end_ms") - 1) / DAY_MS) * DAY_MS).cast("bigint")
    inside = F.least("end_ms", F.col("day_ms") + DAY_MS) - F.greatest("start_ms", "day_ms")
    return (
        spans.withColumn("day_ms", F.explode(F.sequence(day_of("start_ms"), last, F.lit(DAY_MS))))
        .groupBy("k8s_cluster_uid", "static_group", "day_ms")
        .agg(F.sum(inside).alias("unread_ms"))
    )


def day_of(column: str) -> Column:
    """Return the midnight (UTC) before a time."""
    from pyspark.sql import functions as F

    return (F.floor(F.col(column) / DAY_MS) * DAY_MS).cast("bigint")
