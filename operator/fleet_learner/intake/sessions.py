"""Outages: each absence of a member with its end, or with the reason why the end is unknown.

The one idea: `staticgroup.api.absences` is the definition; this file expresses it as windows over all members of a
fleet, and both agree on the published stories. In the ordered facts of a member, an absence begins with the first
`member.down` since the member was last back or removed, and ends with the next return or removal; a departure in
between means that it is no restart. One shuffle, by the 64-bit `group_key`, serves every window here; `xxhash64` keys
and packed (time, rank) numbers make it fast.

An absence that overlaps an unwatched time is *blind*, too, from the start of that time.
Source: Kaplan and Meier 1958 for censoring; KIP-345 for what an absence means to the group.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from journal.records import RemovalOutcome
from staticgroup.api.absences import UNSEEN_MS, EndKind

from ..lake.lake import DAY_MS
from ..schemas import BLIND_WINDOWS, OUTAGES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BEATS_MISSED_MAX: Final = 2.5
"""Between beats more than so many intervals apart no operator was watching."""
INTERVAL_MS_MAX: Final = 10**15
EVERY_GROUP: Final = "*"
"""Stands for all StaticGroups of a cluster; no name of Kubernetes holds it."""
_RETURN, _END, _REMOVAL, _START, _DEPARTURE = range(5)
_RANK_BITS: Final = 3
_RANKS: Final = 1 << _RANK_BITS


def blind_windows(beats: DataFrame, as_of_ms: int, *, until_ms: int | None = None) -> DataFrame:
    """Return unwatched times, from the first beat of each Kubernetes cluster on.

    Two beats of one operator and one watch epoch, not further apart than `BEATS_MISSED_MAX` intervals, cover the time
    between them; what no operator covers is blind. Times before the first beat are not included.

    Parameters
    ----------
    beats: silver/beats, one row per beat.
    as_of_ms: where the records end, Unix milliseconds; later beats are left out.
    until_ms: end of the last window, by default `as_of_ms`; the time after `as_of_ms` has no records, so only a last
        beat that reaches its end covers it.

    Returns
    -------
    silver/blind_windows.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    until_ms = as_of_ms if until_ms is None else until_ms
    inside = beats.where(F.col("observed_at_ms") <= as_of_ms)
    of_one = W.partitionBy("k8s_cluster_uid", "operator_id", "watch_epoch").orderBy("observed_at_ms", "event_id")
    following = F.lead("observed_at_ms").over(of_one)
    patience_ms = _patience_ms()
    reached = F.when(following - F.col("observed_at_ms") <= patience_ms, following).otherwise(F.col("observed_at_ms"))
    ends = (F.when(F.lit(end) - F.col("observed_at_ms") <= patience_ms, F.lit(end)) for end in (until_ms, as_of_ms))
    last = F.when(following.isNull(), F.coalesce(*ends))
    covered = inside.select(
        "k8s_cluster_uid",
        F.col("observed_at_ms").alias("from_ms"),
        F.coalesce(last, reached).alias("to_ms"),
        "event_id",
    )
    order = W.partitionBy("k8s_cluster_uid").orderBy("from_ms", "to_ms", "event_id")
    so_far = F.max("to_ms").over(order.rowsBetween(W.unboundedPreceding, W.currentRow))
    return (
        # Skip beats that cover nothing, which would split a window, except the first one, which begins it.
        covered.withColumn("number", F.row_number().over(order))
        .where((F.col("number") == 1) | (F.col("to_ms") > F.col("from_ms")))
        .withColumn("start_ms", so_far)
        .withColumn("end_ms", F.lead("from_ms", 1, until_ms).over(order))
        .where(F.col("start_ms") < F.col("end_ms"))
        .select(*BLIND_WINDOWS.names)
    )


def _patience_ms() -> Column:
    """Return the longest allowed time to the next beat."""
    from pyspark.sql import functions as F

    # Cap the interval: longer ones exceed all times and overflow 64 bits.
    return (F.least("interval_ms", F.lit(INTERVAL_MS_MAX)) * BEATS_MISSED_MAX).cast("bigint")


def unread_spans(beats: DataFrame, *, start_ms: int, as_of_ms: int) -> DataFrame:
    """Return times in which a watched group was unreadable: between two beats of which one names it.

    Parameters
    ----------
    beats: silver/beats.
    start_ms, as_of_ms: from and to, Unix milliseconds; the last beat before the end counts up to the end.

    Returns
    -------
    (k8s_cluster_uid, static_group, start_ms, end_ms), in no blind window; `static_group` is `<namespace>/<name>`, or
    `EVERY_GROUP` for a beat that does not name all. Spans of one name do not overlap, unless two operators were
    watching at once.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    inside = beats.where(F.col("observed_at_ms").between(start_ms - DAY_MS, as_of_ms))
    # Most clusters never had unreadable groups: their beats need no order.
    troubled = inside.where(F.col("unreachable_total") > 0).select("k8s_cluster_uid").distinct()
    of_one = W.partitionBy("k8s_cluster_uid", "operator_id", "watch_epoch").orderBy("observed_at_ms", "event_id")
    named = F.coalesce("unreachable_groups", F.array().cast("array<string>"))
    names = F.when(F.col("unreachable_total") > F.size(named), F.array(F.lit(EVERY_GROUP))).otherwise(named)
    spans = inside.join(F.broadcast(troubled), on="k8s_cluster_uid", how="leftsemi").select(
        "k8s_cluster_uid",
        F.col("observed_at_ms").alias("start_ms"),
        F.lead("observed_at_ms", 1, as_of_ms).over(of_one).alias("end_ms"),
        _patience_ms().alias("patience_ms"),
        F.array_union(names, F.coalesce(F.lead(names).over(of_one), named)).alias("either"),
    )
    is_cut = F.array_contains("either", EVERY_GROUP)
    return (
        spans.where(
            (F.col("end_ms") > F.col("start_ms")) & (F.col("end_ms") - F.col("start_ms") <= F.col("patience_ms"))
        )
        .withColumn("static_group", F.explode(F.when(is_cut, F.array(F.lit(EVERY_GROUP))).otherwise(F.col("either"))))
        .select("k8s_cluster_uid", "static_group", "start_ms", "end_ms")
    )


def outages(
    member_events: DataFrame, windows: DataFrame, as_of_ms: int, *, away_ms_max: int | None = None
) -> DataFrame:
    """Return the absences of all members.

    Parameters
    ----------
    member_events: silver/member_events, one row per fact.
    windows: silver/blind_windows; few, they are sent to every task.
    as_of_ms: end of the window; later events are left out.
    away_ms_max: a longer absence is blind from then on, and an end belongs to no absence that had no fact for longer;
        so a row depends on facts within this time only. None: no limit.

    Returns
    -------
    silver/outages. The plan has one exchange of the events.
    """
    return seen_through(paired(member_events, as_of_ms, away_ms_max), windows, as_of_ms)


def paired(member_events: DataFrame, as_of_ms: int, away_ms_max: int | None = None) -> DataFrame:
    """Return silver/outages as if all time had been watched."""
    return paired_in_groups(in_groups(member_events, as_of_ms), as_of_ms, away_ms_max)


def in_groups(member_events: DataFrame, as_of_ms: int) -> DataFrame:
    """Return the events that begin, end or belong to an absence, with numbers that order and identify them.

    Returns
    -------
    The same columns and `packed` (time and rank), `run` (the process) and `fact` (source and id); all rows of a group
    are in one Spark partition, and all of a member are together. This is the exchange.

    Notes
    -----
    Spark sorts by radix when there is one column of 64 bits, and otherwise compares rows wherever in memory they lie.
    Once the rows of a member lie together, further comparisons of a window stay within the cache. Spark removes a sort
    below another sort, but not below a condition that it considers random.
    """
    from pyspark.sql import functions as F

    kind = F.col("kind")
    is_removal = (kind == "member.removed") & (F.col("outcome") == RemovalOutcome.REMOVED.value)
    rank = (
        F.when(kind == "member.rejoined", _RETURN)
        .when(kind == "member.down", _END)
        .when(kind == "member.up", _START)
        .when(is_removal, _REMOVAL)
        .when(kind == "member.departed", _DEPARTURE)
    )
    # A departure counts from its record on, not from the time of its proof.
    at_ms = F.when(kind == "member.departed", F.col("observed_at_ms")).otherwise(F.col("event_ms"))
    return (
        member_events.withColumns({"rank": rank, "event_ms": at_ms})
        .where(F.col("rank").isNotNull() & (F.col("event_ms") <= as_of_ms))
        .withColumn("packed", F.col("event_ms") * _RANKS + F.col("rank"))
        .withColumn("run", F.xxhash64("pod_uid", "restart_count"))
        .withColumn("fact", F.xxhash64("source", "event_id"))
        .withColumn("restart_count", F.coalesce("restart_count", F.lit(-1)))
        .repartition(F.col("group_key"))
        .sortWithinPartitions("member_key")
        .where(F.spark_partition_id() >= 0)
    )


def paired_in_groups(rows: DataFrame, as_of_ms: int, away_ms_max: int | None = None) -> DataFrame:
    """Return silver/outages as if all time had been watched.

    Parameters
    ----------
    rows: of `in_groups`, still so partitioned.

    Notes
    -----
    Earlier rows are found in the order of time, later rows in reverse order: a window that extends to the end of its
    partition is recomputed for every row. `member_key` leads the order because Spark's sort compares the first eight
    bytes without reading the row, and members differ more often than groups.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    newest_first = W.partitionBy("member_key", "group_key").orderBy(
        F.desc("packed"), F.desc("restart_count"), F.desc("fact")
    )
    later = newest_first.rowsBetween(W.unboundedPreceding, -1)
    is_ending = F.col("rank").isin(_RETURN, _REMOVAL)
    ending = F.struct("event_ms", "rank", "time_lo_ms", "absorbed", "ups", "up_ms")
    newest = F.first(F.struct("ups", "up_ms")).over(newest_first.rowsBetween(W.unboundedPreceding, W.currentRow))
    following = F.last(F.when(is_ending, ending), ignorenulls=True).over(later)
    departed = F.last(F.when(F.col("rank") == _DEPARTURE, F.col("event_ms")), ignorenulls=True).over(later)
    begun = (
        _with_begins(rows, away_ms_max)
        .withColumns({"following": following, "departed_ms": departed, "newest": newest})
        .where("begins")
    )
    return _with_end(begun, as_of_ms, away_ms_max)


def _with_begins(rows: DataFrame, away_ms_max: int | None) -> DataFrame:
    """Add `ups` and `up_ms`, the number and the time of starts so far, and `begins`: an absence begins here.

    An end begins no absence while the member is away, nor when it was recorded late: its successor has started and is
    back already. A member without facts for longer than `away_ms_max` is not known to be still away.
    """
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    order = W.partitionBy("member_key", "group_key").orderBy("packed", "restart_count", "fact")
    before = order.rowsBetween(W.unboundedPreceding, -1)
    so_far = order.rowsBetween(W.unboundedPreceding, W.currentRow)
    rank, is_start = F.col("rank"), F.col("rank") == _START
    is_mark = rank.isin(_RETURN, _END, _REMOVAL)

    def latest(value: Column, condition: Column) -> Column:
        return F.last(F.when(condition, value), ignorenulls=True)

    is_late = (
        (rank == _END)
        & (F.col("mark") == _RETURN)
        & (F.col("run") == F.col("run_before"))
        & (F.col("run_before") != F.col("run_last"))
    )
    in_time = is_mark & ~F.col("is_late")
    is_away = latest(rank, in_time).over(before) == _END
    if away_ms_max is not None:
        is_away &= latest(F.col("event_ms"), in_time).over(before) >= F.col("event_ms") - away_ms_max
    return (
        rows.withColumns(
            {
                "mark": latest(rank, is_mark).over(before),
                "run_last": latest(F.col("run"), is_start).over(before),
                "ups": F.count(F.when(is_start, 1)).over(so_far),
                "up_ms": latest(F.col("event_ms"), is_start).over(so_far),
            }
        )
        .withColumn("run_before", latest(F.col("run_last"), is_start).over(before))
        .withColumn("is_late", F.coalesce(is_late, F.lit(False)))
        .withColumn("begins", (rank == _END) & ~F.col("is_late") & ~F.coalesce(is_away, F.lit(False)))
    )


def _with_end(rows: DataFrame, as_of_ms: int, away_ms_max: int | None) -> DataFrame:
    from pyspark.sql import functions as F

    down = F.col("event_ms")
    moment = F.coalesce("following.event_ms", F.lit(as_of_ms))
    is_given_up = F.lit(False) if away_ms_max is None else moment - down > away_ms_max
    moment = moment if away_ms_max is None else F.least(moment, down + away_ms_max)
    is_open = F.col("following").isNull()
    has_departed = F.coalesce(is_open | (F.col("departed_ms") < F.col("following.event_ms")), F.lit(False))
    has_departed &= F.col("departed_ms").isNotNull()
    is_return = F.coalesce(F.col("following.rank") == _RETURN, F.lit(False)) & ~is_given_up & ~has_departed
    seen_lo = F.greatest(down, F.least(F.coalesce("following.time_lo_ms", down), moment))
    lo = F.when(is_return, seen_lo).otherwise(moment)
    is_unseen = (F.col("observed_at_ms") - down > UNSEEN_MS) | (moment - lo > UNSEEN_MS)
    kind = (
        F.when(is_unseen | is_given_up, EndKind.BLIND.value)
        .when(is_return, EndKind.RETURNED.value)
        .when(F.col("following.rank") == _REMOVAL, EndKind.REMOVED.value)
        .when(has_departed, EndKind.DEPARTED.value)
        .otherwise(EndKind.OPEN.value)
    )
    gap = F.when(is_unseen, F.greatest(lo - F.col("observed_at_ms"), F.lit(0))).otherwise(moment - down)
    starts = F.when(is_open, F.col("newest.ups")).otherwise(F.col("following.ups")) - F.col("ups")
    starts = F.when(is_given_up, 0).otherwise(starts)
    started = F.when(is_open, F.col("newest.up_ms")).otherwise(F.col("following.up_ms"))
    is_known = is_return & ~is_unseen
    return rows.select(
        *(F.col(name) for name in OUTAGES.names if name in rows.columns and name != "absorbed"),
        down.alias("down_ms"),
        F.when(starts > 0, started).alias("started_ms"),
        F.when(is_known, lo).alias("back_lo_ms"),
        F.when(is_known, moment).alias("back_ms"),
        gap.cast("bigint").alias("gap_ms"),
        kind.alias("end_kind"),
        F.when(is_known, F.col("following.absorbed")).alias("absorbed"),
        starts.cast("bigint").alias("starts"),
    ).select(*OUTAGES.names)


def seen_through(pairs: DataFrame, windows: DataFrame, as_of_ms: int) -> DataFrame:
    """Mark the outages that overlap a blind window; their gap ends at the start of the first such window.

    Parameters
    ----------
    pairs: of `paired`.
    windows: silver/blind_windows.

    Returns
    -------
    silver/outages.

    Notes
    -----
    The first window that ends after the start of an outage is the only candidate. So an outage is joined with at most
    one window, by comparing numbers in compiled code; searching an array of windows would cost more than all other
    steps.
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
        **{name: F.when(~is_blind, F.col(name)) for name in ("back_lo_ms", "back_ms", "absorbed")},
    }
    return joined.select("outage.*", "blind_ms").withColumns(changes).select(*OUTAGES.names)


def union(frames: list[DataFrame]) -> DataFrame:
    """Return the union of frames with the same columns."""
    return reduce(lambda one, other: one.unionByName(other), frames)
