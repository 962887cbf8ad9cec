"""Outages: for every end of a member's process, when it was back, or what hid that from us.

The one idea: with the events of a member in order, an outage is a `member.down` and the row after it. One shuffle, by
the 64-bit `group_key`, serves every window here; `xxhash64` keys and packed (time, kind) numbers are what makes it fast.

How an outage ends (`EndKind`): the next row is a start: *returned*. It is a removal: *removed*. There is none: *open*,
at the end of the window. It is another end: the return was never seen, *blind*, and all that is certain is gap 0. An
outage that meets a time in which no operator looked is *blind*, too, from where that time begins.

Two clocks: a gap is taken from the sources' times when both ends have one, and otherwise from the operator's for both:
the early bound of the end and the late bound of the start, the longer absence. Kubelets report whole seconds, so an end
and a start may share their millisecond; an end comes first, except for a run shorter than that.
Source: Kaplan and Meier 1958 for censoring; KIP-345 for what an absence means to the group.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from .schemas import BLIND_WINDOWS, OUTAGES, Clock, EndKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BEATS_MISSED_MAX: Final = 2.5
"""Beats further apart than so many intervals: nobody looked in between."""
_DOWN, _REMOVED, _UP = 0, 1, 2
_RANK_BITS: Final = 2
_RANKS: Final = 1 << _RANK_BITS


def blind_windows(beats: DataFrame, as_of_ms: int) -> DataFrame:
    """Return when nobody looked, from the first beat of each Kubernetes cluster to the end of the window.

    Two beats of one operator and one watch epoch, not further apart than `BEATS_MISSED_MAX` intervals, cover the time
    between them; what no operator covers is blind. Before the first beat nothing is said.

    Parameters
    ----------
    beats: silver/beats, one row per beat.
    as_of_ms: end of the window; later beats are left out.

    Returns
    -------
    silver/blind_windows.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    inside = beats.where(F.col("observed_at_ms") <= as_of_ms)
    of_one = W.partitionBy("k8s_cluster_uid", "operator_id", "watch_epoch").orderBy("observed_at_ms", "event_id")
    following = F.lead("observed_at_ms").over(of_one)
    patience_ms = (F.col("interval_ms") * BEATS_MISSED_MAX).cast("bigint")
    reached = F.when(following - F.col("observed_at_ms") <= patience_ms, following).otherwise(F.col("observed_at_ms"))
    last = F.when(following.isNull() & (F.lit(as_of_ms) - F.col("observed_at_ms") <= patience_ms), F.lit(as_of_ms))
    covered = inside.select(
        "k8s_cluster_uid",
        F.col("observed_at_ms").alias("from_ms"),
        F.coalesce(last, reached).alias("to_ms"),
        "event_id",
    )
    order = W.partitionBy("k8s_cluster_uid").orderBy("from_ms", "to_ms", "event_id")
    so_far = F.max("to_ms").over(order.rowsBetween(W.unboundedPreceding, W.currentRow))
    return (
        # A beat that covers nothing would cut a window in two; the first one begins it.
        covered.withColumn("number", F.row_number().over(order))
        .where((F.col("number") == 1) | (F.col("to_ms") > F.col("from_ms")))
        .withColumn("start_ms", so_far)
        .withColumn("end_ms", F.lead("from_ms", 1, as_of_ms).over(order))
        .where(F.col("start_ms") < F.col("end_ms"))
        .select(*BLIND_WINDOWS.names)
    )


def outages(member_events: DataFrame, windows: DataFrame, as_of_ms: int) -> DataFrame:
    """Return one outage for each `member.down`.

    Parameters
    ----------
    member_events: silver/member_events, one row per fact.
    windows: silver/blind_windows; few, they are sent to every task.
    as_of_ms: end of the window; later events are left out.

    Returns
    -------
    silver/outages. The plan has one exchange of the events.
    """
    return seen_through(paired(member_events, as_of_ms), windows, as_of_ms)


def paired(member_events: DataFrame, as_of_ms: int) -> DataFrame:
    """Return silver/outages as if somebody had looked all the time."""
    return paired_in_groups(in_groups(member_events, as_of_ms), as_of_ms)


def in_groups(member_events: DataFrame, as_of_ms: int) -> DataFrame:
    """Return the events that begin or end an outage, with the numbers that order and tell them apart.

    Returns
    -------
    The same columns and `rank`, `packed` (time and rank), `run` (the process), `fact` (source and id) and
    `operator_ms`; all rows of a group are in one Spark partition, and all of a member are together. This is the exchange.

    Notes
    -----
    Spark sorts by radix when there is one column of 64 bits, and otherwise compares rows wherever in memory they lie. Once
    the rows of a member lie together, what a window needs beyond that is compared within the cache. Spark takes out a
    sort below another one; it does not look past a condition that it takes for random.
    """
    from pyspark.sql import functions as F

    kind = F.col("kind")
    is_removal = (kind == "member.removed") & (F.col("outcome") == "Removed")
    rank = F.when(kind == "member.down", _DOWN).when(kind == "member.up", _UP).when(is_removal, _REMOVED)
    return (
        member_events.withColumn("rank", rank)
        .where(F.col("rank").isNotNull() & (F.col("event_ms") <= as_of_ms))
        .withColumn("packed", F.col("event_ms") * _RANKS + F.col("rank"))
        .withColumn("run", F.xxhash64("pod_uid", "restart_count"))
        .withColumn("fact", F.xxhash64("source", "event_id"))
        .withColumn("operator_ms", _operator_ms())
        .repartition(F.col("group_key"))
        .sortWithinPartitions("member_key")
        .where(F.spark_partition_id() >= 0)
    )


def paired_in_groups(rows: DataFrame, as_of_ms: int) -> DataFrame:
    """Return silver/outages as if somebody had looked all the time.

    Parameters
    ----------
    rows: of `in_groups`, still so partitioned.

    Notes
    -----
    Of one process at one time the earlier restart comes first. Texts would settle the rest as well, but a 64-bit number
    is carried and compared at a fraction of the price. `member_key` leads the order because Spark's sort compares the
    first eight bytes of a row without looking at the row, and members differ more often than groups.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    order = W.partitionBy("member_key", "group_key").orderBy("packed", "restart_count", "fact")
    after = {
        f"{name}_{steps}": F.lead(name, steps).over(order)
        for name in ("packed", "run", "source_time_ms", "operator_ms")
        for steps in (1, 2)
    }
    ends = rows.select("*", *(column.alias(name) for name, column in after.items())).where(
        F.col("packed") % _RANKS == _DOWN
    )
    second = _second_counts()
    following = {name: F.when(second, F.col(f"{name}_2")).otherwise(F.col(f"{name}_1")) for name in _FOLLOWING}
    return _with_end(ends.select("*", *(column.alias(f"next_{name}") for name, column in following.items())), as_of_ms)


_FOLLOWING: Final = ("packed", "source_time_ms", "operator_ms")


def _operator_ms() -> Column:
    from pyspark.sql import functions as F

    bound = F.when(F.col("rank") == _DOWN, F.col("time_lo_ms")).otherwise(F.col("time_hi_ms"))
    return F.coalesce(bound, F.col("observed_at_ms"))


def _second_counts() -> Column:
    """Say whether the row after the next one is the answer, because a run of no length stands in between.

    Its start and its end have the same time, and ends come first. Either this is its end, and its own start follows; or
    the next row is its end, and its start, the return from this outage, comes after that.
    """
    from pyspark.sql import functions as F

    own_start = (F.col("packed_1") == F.col("packed") + _UP) & (F.col("run_1") == F.col("run"))
    follows_start = (F.col("packed_2") == F.col("packed_1") + _UP) & (F.col("run_2") == F.col("run_1"))
    return F.coalesce(own_start, F.lit(False)) | F.coalesce(
        (F.col("packed_1") % _RANKS == _DOWN) & follows_start, F.lit(False)
    )


def _with_end(rows: DataFrame, as_of_ms: int) -> DataFrame:
    from pyspark.sql import functions as F

    next_rank = F.col("next_packed") % _RANKS
    end_kind = (
        F.when(F.col("next_packed").isNull(), EndKind.OPEN.value)
        .when(next_rank == _UP, EndKind.RETURNED.value)
        .when(next_rank == _REMOVED, EndKind.REMOVED.value)
        .otherwise(EndKind.BLIND.value)
    )
    both_sources = F.col("source_time_ms").isNotNull() & F.col("next_source_time_ms").isNotNull()
    by_source = both_sources | (F.col("next_packed").isNull() & F.col("source_time_ms").isNotNull())
    gap = (
        F.when(F.col("end_kind") == EndKind.BLIND.value, F.lit(0))
        .when(F.col("end_kind") == EndKind.OPEN.value, F.lit(as_of_ms) - F.col("down_ms"))
        .when(both_sources, F.col("next_source_time_ms") - F.col("source_time_ms"))
        .otherwise(F.col("next_operator_ms") - F.col("operator_ms"))
    )
    up = F.when(F.col("end_kind") == EndKind.RETURNED.value, F.shiftright("next_packed", _RANK_BITS))
    return (
        rows.withColumn("end_kind", end_kind)
        .withColumn("clock", F.when(by_source, Clock.SOURCE.value).otherwise(Clock.OPERATOR.value))
        .withColumn("down_ms", F.shiftright("packed", _RANK_BITS))
        .withColumn("gap_ms", F.greatest(gap, F.lit(0)).cast("bigint"))
        .withColumn("up_ms", up)
        .select(*OUTAGES.names)
    )


def seen_through(pairs: DataFrame, windows: DataFrame, as_of_ms: int) -> DataFrame:
    """Mark the outages that meet a blind window; their gap ends where the first such window begins.

    Parameters
    ----------
    pairs: of `paired`.
    windows: silver/blind_windows.

    Returns
    -------
    silver/outages.

    Notes
    -----
    Of all windows that end after an outage began, only the first can be the first that it meets; every window is that
    one for the outages that begin after all earlier windows have ended. So an outage is joined with at most one window,
    by comparing numbers in compiled code; looking through an array of windows costs more than all the rest.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    order = W.partitionBy("k8s_cluster_uid").orderBy("start_ms", "end_ms")
    until_then = F.max("end_ms").over(order.rowsBetween(W.unboundedPreceding, -1))
    firsts = windows.select(
        "k8s_cluster_uid",
        until_then.alias("first_from_ms"),
        F.col("end_ms").alias("first_to_ms"),
        F.col("start_ms").alias("blind_ms"),
    )
    end = F.when(F.col("end_kind") == EndKind.OPEN.value, F.lit(as_of_ms)).otherwise(F.col("down_ms") + F.col("gap_ms"))
    outage, first = pairs.withColumn("end", end).alias("outage"), F.broadcast(firsts).alias("first")
    is_same = F.col("outage.k8s_cluster_uid") == F.col("first.k8s_cluster_uid")
    is_first = F.coalesce(F.col("first_from_ms") <= F.col("down_ms"), F.lit(True))
    is_met = (F.col("down_ms") < F.col("first_to_ms")) & (F.col("blind_ms") < F.col("end"))
    joined = outage.join(first, on=is_same & is_first & is_met, how="left")
    is_blind = F.col("blind_ms").isNotNull()
    changes = {
        "gap_ms": F.when(is_blind, F.greatest(F.col("blind_ms") - F.col("down_ms"), F.lit(0))).otherwise(
            F.col("gap_ms")
        ),
        "end_kind": F.when(is_blind, F.lit(EndKind.BLIND.value)).otherwise(F.col("end_kind")),
        "up_ms": F.when(~is_blind, F.col("up_ms")),
    }
    return joined.select("outage.*", "blind_ms").withColumns(changes).select(*OUTAGES.names)


def closed_after(rows: DataFrame, age_ms_max: int, as_of_ms: int) -> DataFrame:
    """Close open outages that began longer ago than this: whatever became of them, nobody will tell.

    Returns
    -------
    The same rows; the old open ones are *blind*, with the gap they had reached.
    """
    from pyspark.sql import functions as F

    is_old = (F.col("end_kind") == EndKind.OPEN.value) & (F.col("down_ms") < as_of_ms - age_ms_max)
    kind = F.when(is_old, F.lit(EndKind.BLIND.value)).otherwise(F.col("end_kind"))
    return rows.withColumn("end_kind", kind).select(*OUTAGES.names)


def union(frames: list[DataFrame]) -> DataFrame:
    """Return the rows of frames with the same columns."""
    return reduce(lambda one, other: one.unionByName(other), frames)
