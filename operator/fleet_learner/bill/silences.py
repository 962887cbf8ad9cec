"""Cut the commits of every partition into silences: the times from one commit with progress to the next.

The one idea: all commits and causes of a group lie in one partition of the log, so one sort by group counts the causes
before each commit, and one sort by partition finds the causes between two commits. The order is the log's, never the
clocks': a coordinator that moved to another broker may write an earlier time.

*Progress* is an offset above the previous one; an offset that only returns after a lower one was committed in between
(by a client that was overtaken) is none. A partition's first silence is never used: compaction keeps only the last
commit of each partition, so the commits are complete only from a partition's second commit on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .causes import CauseKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

GROUP: Final = ("log_partition", "group_id")
PARTITION: Final = (*GROUP, "topic", "partition")
WHOLE_FROM: Final = 2
"""Number of the commit from which on a partition's commits are complete."""


def numbered(causes: DataFrame) -> DataFrame:
    """Number the causes of each group from 1 in the order of the log: silver/causes with `number`, without FOUND."""
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    in_order = W.partitionBy(*GROUP).orderBy("log_offset", "index")
    return causes.where(F.col("kind") != CauseKind.FOUND.value).withColumn(
        "number", F.row_number().over(in_order).cast("bigint")
    )


def steps(commits: DataFrame, causes: DataFrame) -> DataFrame:
    """Return each commit with the one before it.

    Parameters
    ----------
    commits: bronze/offset_commits.
    causes: of `numbered`.

    Returns
    -------
    One row per commit and partition, and a row without a time (`at_ms` null) if causes follow the last commit. `run`
    counts the commits with progress before it; `number` and `number_before` the causes before the two commits.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    in_order = W.partitionBy(*PARTITION).orderBy("log_offset")
    before = in_order.rowsBetween(W.unboundedPreceding, -1)
    chained = (
        _counted(commits, causes)
        .withColumns({f"{name}_before": F.lag(name).over(in_order) for name in _CARRIED})
        .withColumn("committed_before_that", F.lag("committed_offset", 2).over(in_order))
        .withColumn("commit_number", F.row_number().over(in_order))
        .withColumn("is_first", F.coalesce(F.col("tombstone_before"), F.lit(True)))
        .withColumn("is_progress", _is_progress())
        .withColumn("is_boundary", F.col("is_first") | F.col("is_progress") | F.col("tombstone"))
        .withColumn("run", F.coalesce(F.count_if("is_boundary").over(before), F.lit(0)))
        .withColumn("is_last", F.lead("log_offset").over(in_order).isNull())
    )
    return chained.where(~F.col("is_first")).select(*_STEP).unionByName(_ends(chained, causes).select(*_STEP))


_CARRIED: Final = ("at_ms", "log_offset", "committed_offset", "tombstone", "number")
_STEP: Final = (
    *PARTITION, "log_offset", "at_ms", "at_ms_before", "log_offset_before", "committed_offset",
    "committed_offset_before", "number", "number_before", "commit_number", "is_progress", "tombstone", "run",
)  # fmt: skip


def _counted(commits: DataFrame, causes: DataFrame) -> DataFrame:
    """Add to each commit of a group with causes the `number` of causes before it."""
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    so_far = W.partitionBy(*GROUP).orderBy("log_offset").rowsBetween(W.unboundedPreceding, 0)
    names = (*PARTITION, "log_offset", "at_ms", "committed_offset", "tombstone")
    known = commits.where(F.col("committed_offset").isNotNull() | F.col("tombstone")).where(
        F.col("group_id").isNotNull()
    )
    of_groups = known.withColumn("at_ms", F.col("timestamp_ms")).select(*names, F.lit(0).alias("causes"))
    groups = causes.select(*GROUP).distinct()
    of_causes = causes.groupBy(*GROUP, "log_offset").agg(F.count("*").cast("int").alias("causes"))
    marks = of_causes.select(
        *GROUP,
        F.lit(None).cast("string").alias("topic"),
        F.lit(None).cast("int").alias("partition"),
        "log_offset",
        *(
            F.lit(None).cast(kind).alias(name)
            for name, kind in (("at_ms", "bigint"), ("committed_offset", "bigint"), ("tombstone", "boolean"))
        ),
        "causes",
    )
    both = of_groups.join(F.broadcast(groups), [*GROUP], "left_semi").unionByName(marks)
    return both.withColumn("number", F.sum("causes").over(so_far)).where(F.col("topic").isNotNull())


def _is_progress() -> Column:
    from pyspark.sql import functions as F

    is_above = F.col("committed_offset") > F.col("committed_offset_before")
    was_lowered = F.col("committed_offset_before") < F.col("committed_before_that")
    is_restored = was_lowered & (F.col("committed_offset") == F.col("committed_before_that"))
    return ~F.col("is_first") & ~F.col("tombstone") & is_above & ~F.coalesce(is_restored, F.lit(False))


def _ends(chained: DataFrame, causes: DataFrame) -> DataFrame:
    """Return a step without an end for each partition whose group has causes after its last commit."""
    from pyspark.sql import functions as F

    totals = causes.groupBy(*GROUP).agg(F.max("number").alias("total"))
    last = chained.where(F.col("is_last") & ~F.col("tombstone")).join(F.broadcast(totals), [*GROUP], "inner")
    return last.where(F.col("total") > F.col("number")).select(
        *PARTITION,
        (F.col("log_offset") + 1).alias("log_offset"),
        F.lit(None).cast("bigint").alias("at_ms"),
        F.col("at_ms").alias("at_ms_before"),
        F.col("log_offset").alias("log_offset_before"),
        F.lit(None).cast("bigint").alias("committed_offset"),
        F.col("committed_offset").alias("committed_offset_before"),
        F.col("total").alias("number"),
        F.col("number").alias("number_before"),
        (F.col("commit_number") + 1).alias("commit_number"),
        F.lit(False).alias("is_progress"),
        F.lit(False).alias("tombstone"),
        (F.col("run") + F.col("is_boundary").cast("int")).alias("run"),
    )


def silences(steps: DataFrame) -> DataFrame:
    """Combine the steps between two commits with progress.

    Returns
    -------
    One row per partition and `run`. `first_number` to `last_number` are its causes, `from_ms` is the last commit before
    the first of them and `heard_ms` the first commit after the last of them, of any offset; `whole_ms` is the time from
    progress to progress. `pauses` are the steps that have causes in them. `to_ms` null: no progress after it, or the
    offset was deleted.
    """
    from pyspark.sql import functions as F

    has_cause = F.col("number") > F.col("number_before")
    # The row that ends the silence is its last one.
    ended = F.when(F.col("is_progress"), F.col("at_ms"))
    return (
        steps.withColumn("has_cause", has_cause)
        .groupBy(*PARTITION, "run")
        .agg(
            F.max(ended).alias("to_ms"),
            F.max(F.when(F.col("is_progress"), F.col("log_offset"))).alias("to_offset"),
            F.min_by("at_ms_before", "log_offset").alias("begin_ms"),
            F.min_by("log_offset_before", "log_offset").alias("begin_offset"),
            F.max(F.when(F.col("is_progress"), F.col("committed_offset"))).alias("committed_offset"),
            F.min_by("committed_offset_before", "log_offset").alias("committed_offset_before"),
            F.max("tombstone").alias("is_deleted"),
            (F.min("commit_number") > WHOLE_FROM).alias("is_whole"),
            F.max("has_cause").alias("has_cause"),
            F.min_by("at_ms_before", F.when(F.col("has_cause"), F.col("log_offset"))).alias("from_ms"),
            F.min_by("log_offset_before", F.when(F.col("has_cause"), F.col("log_offset"))).alias("from_offset"),
            F.max_by("at_ms", F.when(F.col("has_cause"), F.col("log_offset"))).alias("heard_ms"),
            (F.min(F.when(F.col("has_cause"), F.col("number_before"))) + 1).alias("first_number"),
            F.max("number").alias("last_number"),
            F.collect_list(F.when(F.col("has_cause"), _pause())).alias("pauses"),
        )
        .withColumn("whole_ms", F.greatest(F.col("to_ms") - F.col("begin_ms"), F.lit(0)))
    )


def _pause() -> Column:
    """Return the length of a step: at least 0, whatever the clocks say; null without an end."""
    from pyspark.sql import functions as F

    return F.when(F.col("at_ms").isNotNull(), F.greatest(F.col("at_ms") - F.col("at_ms_before"), F.lit(0)))
