"""Rebalances: the earliest and the latest start of each, and its trigger.

The one idea: a read of the group shows that a rebalance happened since the previous read, so its start has bounds, and
the last possible cause before its upper bound is taken for its trigger. A coordinator rebalances for a member whose
session ended, a removed member, a member that joined under a new or a lost id, or a subscription that changed with the
number of replicas. A cause older than the lower bound by more than `slack_ms` belongs to another rebalance. Sources:
KIP-345; KIP-848; `ClassicGroup`, `ConsumerGroup` of Kafka's coordinator.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SLACK_MS: Final = 10_000
"""Two read intervals of a rollout and a heartbeat: so much older than the read before a rebalance may its cause be."""


REACH_MS: Final = 86_400_000
"""Causes, rollouts and copies older than a day are unrelated to a rebalance, so the rebalances of a day depend on
that day and the day before only."""
CONTEXT_MS: Final = 2 * REACH_MS
"""So far before a midnight facts are needed to find the rebalances from that midnight on."""


class Trigger(StrEnum):
    """Name the trigger of a rebalance."""

    EXPELLED = "Expelled"
    REMOVED = "Removed"
    JOINED = "Joined"
    SCALED = "Scaled"
    UNKNOWN = "Unknown"


def rebalances(
    group_events: DataFrame, member_events: DataFrame, outages: DataFrame, *, slack_ms: int = SLACK_MS
) -> DataFrame:
    """Turn recorded reads of groups into rebalances with bounds, trigger and rollout.

    Parameters
    ----------
    group_events: silver/group_events, one row per fact about a group.
    member_events: silver/member_events, one row per fact about a member.
    outages: silver/outages, one row per stop of a member.
    slack_ms: see `SLACK_MS`.

    Returns
    -------
    silver/rebalances, one row per rebalance, without copies of several operators; `end_ms` is null, no read shows the
    end.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    from ..schemas import REBALANCES

    is_bounded = F.col("time_hi_ms").isNotNull()
    seen = (
        group_events.where(F.col("kind") == "group.rebalanced")
        .withColumn(
            "start_hi_ms", F.when(is_bounded, F.least("time_hi_ms", "observed_at_ms")).otherwise(F.col("event_ms"))
        )
        .withColumn("start_hi_ms", F.greatest("event_ms", "start_hi_ms"))
        .withColumn("start_lo_ms", F.least(F.coalesce("time_lo_ms", "event_ms"), F.col("start_hi_ms")))
        .withColumn("at_ms", F.col("start_hi_ms"))
    )
    rows = _without_copies(seen).unionByName(_causes(group_events, member_events, outages), allowMissingColumns=True)
    # At one instant a cause comes before the rebalance, a rollout's start before its causes.
    order = (
        W.partitionBy("group_key")
        .orderBy("at_ms", F.col("start_hi_ms").isNotNull(), "event_id")
        .rowsBetween(W.unboundedPreceding, W.currentRow)
    )
    cause = F.last("cause", ignorenulls=True).over(order)
    cause_ms = F.last(F.when(F.col("cause").isNotNull(), F.col("at_ms")), ignorenulls=True).over(order)
    is_near = (cause_ms >= F.col("start_lo_ms") - slack_ms) & (cause_ms >= F.col("start_hi_ms") - REACH_MS)
    rollout = F.struct("at_ms", F.col("rollout_now").alias("id"))
    rolled = F.last(F.when(F.col("rollout_now").isNotNull(), rollout), ignorenulls=True).over(order)
    return (
        rows.withColumn("trigger", F.when(is_near, cause).otherwise(F.lit(Trigger.UNKNOWN.value)))
        .withColumn("rolled", rolled)
        .withColumn("rollout_id", F.when(F.col("rolled.at_ms") >= F.col("start_hi_ms") - REACH_MS, F.col("rolled.id")))
        .withColumn("rollout_id", F.nullif(F.col("rollout_id"), F.lit("")))
        .where(F.col("start_hi_ms").isNotNull())
        .withColumn("end_ms", F.lit(None).cast("bigint"))
        .select(*REBALANCES.names)
    )


def _without_copies(seen: DataFrame) -> DataFrame:
    """Drop rebalances of a group that another Kubernetes cluster's operator recorded as well.

    A group with epochs has one rebalance for each epoch, until it is deleted and its epochs begin again: then one
    operator records the same epoch with disjoint bounds. Classic groups show no number (DescribeGroups): rebalances
    recorded in two clusters are the same if their bounds overlap.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    of_group = W.partitionBy("group_key")
    of_teller = W.partitionBy("group_key", "group_epoch", "k8s_cluster_uid")
    meets = F.lag("start_hi_ms").over(of_teller.orderBy("at_ms", "event_id")) >= F.col("start_lo_ms")
    # Count recent recreations of the group within reach only, so that the count does not depend on a run's first day.
    made = F.count_if(~F.col("meets")).over(of_teller.orderBy("at_ms").rangeBetween(-REACH_MS, W.currentRow))
    previous_ms = F.lag("at_ms").over(
        W.partitionBy("group_key", "group_epoch", "made").orderBy("at_ms", "event_id", "k8s_cluster_uid")
    )
    order = of_group.orderBy(F.col("group_epoch").isNotNull(), "at_ms", "event_id", "k8s_cluster_uid")
    before = F.lag(F.struct("k8s_cluster_uid", "start_hi_ms", "group_epoch")).over(order)
    is_same = (
        F.col("before.group_epoch").isNull()
        & (F.col("before.k8s_cluster_uid") != F.col("k8s_cluster_uid"))
        & (F.col("before.start_hi_ms") >= F.col("start_lo_ms"))
        & (F.col("before.start_hi_ms") >= F.col("at_ms") - REACH_MS)
    )
    is_again = F.col("previous_ms") >= F.col("at_ms") - REACH_MS
    is_copy = F.coalesce(F.when(F.col("group_epoch").isNotNull(), is_again).otherwise(is_same), F.lit(False))
    return (
        seen.repartition(F.col("group_key"))  # one exchange for all windows
        .withColumn("meets", F.coalesce(meets, F.lit(False)))
        .withColumn("made", made)
        .withColumn("previous_ms", previous_ms)
        .withColumn("before", before)
        .where(~is_copy)
        .drop("meets", "made", "previous_ms", "before")
    )


def _causes(group_events: DataFrame, member_events: DataFrame, outages: DataFrame) -> DataFrame:
    """Return (group_key, at_ms, event_id, cause, rollout_now): possible causes of rebalances, and rollouts."""
    from pyspark.sql import functions as F

    def points(rows: DataFrame, at_ms: str, cause: str | None, rollout: str | None = None) -> DataFrame:
        rollout_now = F.lit(None) if rollout is None else F.expr(rollout)
        return rows.select(
            "group_key",
            F.expr(at_ms).alias("at_ms"),
            "event_id",
            F.lit(cause).cast("string").alias("cause"),
            rollout_now.cast("string").alias("rollout_now"),
        )

    kind = F.col("kind")
    removed = member_events.where((kind == "member.removed") & (F.col("outcome") == "Removed"))
    joined = member_events.where((kind == "member.rejoined") & ~F.col("absorbed"))
    # Not if its return was absorbed: then the group kept the member, whatever timeout was recorded.
    is_expelled = (F.col("gap_ms") > F.col("session_timeout_ms")) & ~F.coalesce("absorbed", F.lit(False))
    expelled = outages.where(is_expelled)
    return (
        points(removed, "event_ms", Trigger.REMOVED)
        .unionByName(points(joined, "event_ms", Trigger.JOINED))
        .unionByName(points(expelled, "down_ms + session_timeout_ms", Trigger.EXPELLED))
        .unionByName(points(group_events.where(kind == "workload.scaled"), "event_ms", Trigger.SCALED))
        .unionByName(points(group_events.where(kind == "rollout.started"), "event_ms", None, "rollout_id"))
        .unionByName(points(group_events.where(kind == "rollout.finished"), "event_ms", None, "''"))
    )
