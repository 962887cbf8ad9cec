"""Compute the bill of each group (gold/bill): rebalances in the covered time, their cost, and what would help.

The covered time begins where no record can be missing any more. Compaction keeps the last record of each key and always
works from the beginning of a partition, so from the second record of any key on the log is complete. Earlier records
are not counted: the times of generations before it are lost.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from fleet_learner.offsets.codec import GroupType

from .causes import CauseKind
from .schemas import BILL
from .silences import GROUP, PARTITION
from .standstills import Role

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

CONTEXT_MS: Final = 3_600_000
"""Commits this long before the window show the usual intervals, and where the log is complete."""
LEAST_COVERED_MS: Final = 3_600_000
"""With less covered time, the absence of rebalances means nothing."""
LEAST_RESTARTS: Final = 2
"""Minimum of restarts of dynamic members, or of returned static members: a single one may be chance."""
NAMED_MAX: Final = 20
"""At most so many client ids and hosts are listed."""
_COUNTED: Final = {
    "restarts": CauseKind.RESTART,
    "departures": CauseKind.DEPARTURE,
    "joins": CauseKind.JOIN,
    "started": CauseKind.STARTED,
    "emptied": CauseKind.EMPTIED,
    "unchanged": CauseKind.UNCHANGED,
    "static_gone": CauseKind.STATIC_GONE,
    "static_back": CauseKind.STATIC_BACK,
    "static_replaced": CauseKind.STATIC_REPLACED,
    "absorbed": CauseKind.ABSORBED,
}
OF_REBALANCES: Final = ("rebalances", "restart_rebalances", *_COUNTED)
"""Counts that need generations or group epochs; the records of share groups are not read."""


class Help(StrEnum):
    """Name what would help a group.

    LONGER_TIMEOUT: static members were gone and came back; a scale-down and up looks the same. STATIC_MEMBERSHIP:
    restarts of dynamic members cause rebalances. STATIC_MEMBERSHIP_OF_STREAMS: the same in a group of KIP-1071, which
    can have static members from Kafka 4.4 on. NOTHING: neither. NOT_ENOUGH_KNOWN: the log covers too little.
    NO_MEMBERS: the group has commits, but no member ever joins it, so it never rebalances.
    SHARE_GROUP: it has no static members, and its rebalances are not counted.
    """

    LONGER_TIMEOUT = "LongerTimeout"
    STATIC_MEMBERSHIP = "StaticMembership"
    NOTHING = "Nothing"
    NOT_ENOUGH_KNOWN = "NotEnoughKnown"
    NO_MEMBERS = "NoMembers"
    STATIC_MEMBERSHIP_OF_STREAMS = "StaticMembershipOfStreams"
    SHARE_GROUP = "ShareGroup"


def bills(
    commits: DataFrame,
    causes: DataFrame,
    standstills: DataFrame,
    kafka_cluster_id: str,
    *,
    end_offsets: DataFrame | None = None,
    from_ms: int = 0,
    known_from: DataFrame | None = None,
) -> DataFrame:
    """Compute the bill of every group of a cluster.

    Parameters
    ----------
    commits: of the window and of `CONTEXT_MS` before it, which show whether the log is complete from the window's
        start.
    causes: of the window and all time before it: the last record of an idle group may be old.
    standstills: of the window.
    from_ms: start of the window.
    known_from: `log_partition`, `covered_from_ms`, for a log whose group records were kept: from then on none is
        missing; in a partition without a row, none since `from_ms`. None: nothing was kept, the log itself decides.
    end_offsets: `topic`, `partition`, `end_offset`, `sampled_ms`: where each topic ended at one moment; None leaves
        `records_delayed` null.

    Returns
    -------
    gold/bill.
    """
    from pyspark.sql import functions as F

    covered = _covered(commits, causes.where(F.col("at_ms") >= from_ms - CONTEXT_MS)).withColumn(
        "covered_from_ms", F.greatest("covered_from_ms", F.lit(from_ms))
    )
    commits, counted_ms = commits.where(F.col("timestamp_ms") >= from_ms), F.lit(from_ms).cast("bigint")
    if known_from is not None:
        ends = commits.groupBy("log_partition").agg(F.max("timestamp_ms").alias("covered_to_ms"))
        counted_ms = F.coalesce("covered_from_ms", counted_ms)
        covered = ends.join(known_from, ["log_partition"], "left").withColumns(
            {"covered_offset": F.lit(0).cast("bigint"), "covered_from_ms": counted_ms}
        )
    delayed = None if end_offsets is None else _delayed(commits, standstills, end_offsets)
    groups = _of_commits(commits).join(_of_causes(causes, covered, counted_ms), [*GROUP], "full")
    cost = _of_standstills(standstills, covered)
    interrupted = _interrupted(causes, standstills)
    joined = groups.join(covered, ["log_partition"], "left")
    for frame in (cost, interrupted, *([] if delayed is None else [delayed])):
        joined = joined.join(frame, [*GROUP], "left")
    if delayed is None:
        joined = joined.withColumn("records_delayed", F.lit(None).cast("bigint"))
    return (
        _filled(joined.withColumn("kafka_cluster_id", F.lit(kafka_cluster_id)))
        .withColumn("help", help_of())
        .select(*BILL.names)
    )


def _filled(groups: DataFrame) -> DataFrame:
    """Replace nulls by 0 and by empty lists."""
    from pyspark.sql import functions as F

    counts = [c.name for c in BILL.columns if c.type == "bigint" and not c.nullable and c.name != "covered_ms"]
    covered_ms = F.coalesce(F.greatest(F.col("covered_to_ms") - F.col("covered_from_ms"), F.lit(0)), F.lit(0))
    return groups.withColumns(
        {name: F.coalesce(F.col(name).cast("bigint"), F.lit(0)) for name in counts}
        | {name: F.coalesce(name, F.array().cast("array<string>")) for name in _NAMES}
        | {"covered_ms": covered_ms}
    )


_NAMES: Final = ("interrupted_clients", "interrupted_hosts")


def _covered(commits: DataFrame, causes: DataFrame) -> DataFrame:
    """Return the range in which each partition of the log is complete: `covered_offset` and its times."""
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    of_commits = commits.where(F.col("group_id").isNotNull()).select(
        "log_partition", F.xxhash64(*PARTITION[1:]).alias("key"), "log_offset", F.col("timestamp_ms").alias("at_ms")
    )
    # Every record of a classic group has the same key; the other groups have a key for each member.
    of_groups = causes.where(F.col("group_type") == "Classic").select(
        "log_partition", F.xxhash64("group_id", F.lit("")).alias("key"), "log_offset", "at_ms"
    )
    in_order = W.partitionBy("log_partition", "key").orderBy("log_offset")
    records = of_commits.unionByName(of_groups.distinct())
    second = records.withColumn("place", F.row_number().over(in_order)).where("place = 2")
    begin = second.groupBy("log_partition").agg(
        F.min("log_offset").alias("covered_offset"), F.min_by("at_ms", "log_offset").alias("covered_from_ms")
    )
    end = records.groupBy("log_partition").agg(F.max("at_ms").alias("covered_to_ms"))
    return begin.join(end, ["log_partition"], "inner")


def _of_commits(commits: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    named = commits.where(F.col("group_id").isNotNull() & ~F.col("tombstone"))
    each = named.groupBy(*PARTITION).agg(F.count("*").alias("commits"))
    return each.groupBy(*GROUP).agg(F.count("*").alias("partitions"), F.sum("commits").alias("commits"))


def _of_causes(causes: DataFrame, covered: DataFrame, counted_ms: Column) -> DataFrame:
    """Count events in the covered time, and describe each group by its last record."""
    from pyspark.sql import functions as F

    last = ("group_type", "protocol_type", "protocol_name", "members", "static_members")
    in_time = (F.col("log_offset") >= F.col("covered_offset")) & (F.col("at_ms") >= counted_ms)
    of_kind = {name: F.count_if(in_time & (F.col("kind") == kind.value)).alias(name) for name, kind in _COUNTED.items()}
    is_back = (F.col("kind") == CauseKind.STARTED.value) & (F.col("returned") > 0)
    # A group of static members only: it became empty when the last of them was given up.
    is_static_back = is_back & (F.col("static_members") == F.col("members"))
    of_kind["static_back"] = F.count_if(
        in_time & ((F.col("kind") == CauseKind.STATIC_BACK.value) | is_static_back)
    ).alias("static_back")
    is_restart = ((F.col("kind") == CauseKind.RESTART.value) & (F.col("returned") > 0)) | (is_back & ~is_static_back)
    halves = F.when(is_restart, F.col("rebalances") + F.col("halves_before"))
    return (
        causes.join(covered, ["log_partition"], "left")
        .groupBy(*GROUP)
        .agg(
            *(F.max_by(name, F.struct("log_offset", "index")).alias(name) for name in last),
            F.sum(F.when(in_time, F.col("rebalances"))).alias("rebalances"),
            F.least(
                F.coalesce(F.sum(F.when(in_time, halves)), F.lit(0)), F.sum(F.when(in_time, F.col("rebalances")))
            ).alias("restart_rebalances"),
            *of_kind.values(),
        )
    )  # fmt: skip


def _of_standstills(standstills: DataFrame, covered: DataFrame) -> DataFrame:
    """Sum up the known standstills; the margin of an interrupted partition counts as an upper bound."""
    from pyspark.sql import functions as F

    is_known = F.col("standstill_ms").isNotNull()
    is_others = F.col("role") != Role.CAUSE.value
    in_time = standstills.join(covered, ["log_partition"], "inner").where(
        F.col("from_offset") >= F.col("covered_offset")
    )
    return in_time.groupBy(*GROUP).agg(
        F.sum("standstill_ms").alias("silent_partition_ms"),
        F.sum(F.when(F.col("is_interrupted"), F.col("margin_ms"))).alias("margin_partition_ms"),
        F.sum(F.when(~is_others, F.col("standstill_ms"))).alias("away_partition_ms"),
        F.count_if(is_known).alias("measured"),
        F.count_if(~is_known).alias("not_known"),
        (F.count_if(F.col("is_interrupted") & is_others) / F.nullif(F.count_if(is_known & is_others), F.lit(0))).alias(
            "interrupted_share"
        ),
    )


def _interrupted(causes: DataFrame, standstills: DataFrame) -> DataFrame:
    """Count interrupted bystanders: members that kept running while a cause stopped one of their partitions."""
    from pyspark.sql import functions as F

    hit = (
        standstills.where(F.col("is_interrupted") & (F.col("role") != Role.CAUSE.value))
        .select(*GROUP, F.col("cause_offset").alias("log_offset"))
        .distinct()
    )
    named = {
        alias: F.slice(F.array_sort(F.array_distinct(F.flatten(F.collect_list(name)))), 1, NAMED_MAX).alias(alias)
        for alias, name in zip(_NAMES, ("clients", "hosts"), strict=True)
    }
    return (
        causes.where("index = 0")
        .join(hit, [*GROUP, "log_offset"], "inner")
        .groupBy(*GROUP)
        .agg(F.sum("bystanders").alias("interrupted_members"), *named.values())
    )


def _delayed(commits: DataFrame, standstills: DataFrame, end_offsets: DataFrame) -> DataFrame:
    """Estimate the delayed records: standstill multiplied by the records per second since the first commit."""
    from pyspark.sql import functions as F

    first = commits.where(F.col("committed_offset").isNotNull()).groupBy(*PARTITION).agg(
        F.min_by("committed_offset", "log_offset").alias("first_offset"), F.min("timestamp_ms").alias("first_ms")
    )  # fmt: skip
    rate = (F.col("end_offset") - F.col("first_offset")) / F.greatest(F.col("sampled_ms") - F.col("first_ms"), F.lit(1))
    paced = first.join(end_offsets, ["topic", "partition"], "inner").withColumn("rate", F.greatest(rate, F.lit(0.0)))
    stopped = standstills.groupBy(*PARTITION).agg(F.sum("standstill_ms").alias("standstill_ms"))
    records = F.round(F.col("standstill_ms") * F.col("rate")).cast("bigint")
    return stopped.join(paced, [*PARTITION], "inner").groupBy(*GROUP).agg(F.sum(records).alias("records_delayed"))


def help_of() -> Column:
    """Return what would help a group, by its counts."""
    from pyspark.sql import functions as F

    can_be_static = F.coalesce(F.col("protocol_type"), F.lit("consumer")) == "consumer"
    by_restarts = F.when(can_be_static, F.col("restart_rebalances")).otherwise(0)
    by_static = 2 * F.col("static_back")  # one when it was given up and one when it came back
    is_static = (F.col("static_back") >= LEAST_RESTARTS) & (by_static >= by_restarts)
    return (
        F.when(F.col("group_type").isNull(), Help.NO_MEMBERS.value)
        .when(F.col("group_type") == GroupType.SHARE.value, Help.SHARE_GROUP.value)
        .when(is_static, Help.LONGER_TIMEOUT.value)
        .when(
            (by_restarts >= LEAST_RESTARTS) & (F.col("group_type") == GroupType.STREAMS.value),
            Help.STATIC_MEMBERSHIP_OF_STREAMS.value,
        )
        .when(by_restarts >= LEAST_RESTARTS, Help.STATIC_MEMBERSHIP.value)
        .when(F.col("covered_ms") < LEAST_COVERED_MS, Help.NOT_ENOUGH_KNOWN.value)
        .otherwise(Help.NOTHING.value)
    )
