"""Count the events of each group on each day, and combine the days into a window.

The one idea: a day's row depends on the facts of that day only and is kept; values that depend on other days (the size
of a group on a day without reports, its names, its quiet days) are derived from the few rows. So a day without new
facts is never counted again, and a window is the same whether its days were computed one by one or at once. An outage
belongs to the day on which it began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from staticgroup.api.absences import EndKind

from ..intake.sessions import EVERY_GROUP, unread_spans
from ..schemas import BUSY_DAY, GROUP_DAY
from .facts import DAY_MS, covered_days, day_of, unread_days

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NAMES: Final = ("kafka_cluster_id", "group_id", "namespace", "static_group", "workload", "protocol")
_GROUP: Final = ("group_key", *_NAMES)
_SIZES: Final = ("members", "partitions", "replicas")
_ZERO: Final = (
    "downs", "returned", "removed", "open", "blind", "absorbed", "fenced", "held", "rollouts", "rebalances",
    "stopped_partition_ms", "ghost_wanted_ms", "ghost_late_ms", "ghost_operator_ms",
)  # fmt: skip


def _facts_with_a_day(
    ghosts: DataFrame, member_events: DataFrame, group_events: DataFrame, costs: DataFrame
) -> DataFrame:
    """Bring all silver tables to one shape: a group, an instant, and the counts of the row."""
    from pyspark.sql import functions as F

    kind, once = F.col("kind"), F.lit(1).cast("bigint")
    parts = (
        _shaped(
            member_events,
            "event_ms",
            fenced=_one(kind == "member.fenced"),
            instance_id=F.col("instance_id"),
            **_reported_sizes(),
        ),
        _shaped(
            group_events,
            "event_ms",
            held=_one(kind == "removal.held"),
            rollouts=_one(kind == "rollout.started"),
            replicas=_positive(F.coalesce("replicas", "replicas_after")),
            **_reported_sizes(),
        ),
        _shaped(costs, "start_hi_ms", rebalances=once, stopped_partition_ms=F.col("stopped_partition_ms")),
    )
    rows = _shaped(ghosts, "down_ms", downs=once, **_ends())
    for part in parts:
        rows = rows.unionByName(part, allowMissingColumns=True)
    return rows


def _shaped(rows: DataFrame, at_ms: str, **counted: Column) -> DataFrame:
    from pyspark.sql import functions as F

    uid = F.col("k8s_cluster_uid") if "k8s_cluster_uid" in rows.columns else F.lit(None).cast("string")
    return rows.select(
        *_GROUP,
        uid.alias("k8s_cluster_uid"),
        F.col(at_ms).alias("at_ms"),
        "event_id",
        *(value.alias(name) for name, value in counted.items()),
    )


def _ends() -> dict[str, Column]:
    """Return the counts of a stop by its end, and how long the group kept the member."""
    from pyspark.sql import functions as F

    end = F.col("end_kind")
    return {
        **{each.value: _one(end == each.value) for each in EndKind if each not in (EndKind.OPEN, EndKind.DEPARTED)},
        "open": _one(end.isin(EndKind.OPEN.value, EndKind.DEPARTED.value)),
        # Count stops, not rejoins: a new client in a running process joins without a stop.
        "absorbed": _one(F.col("absorbed")),
        **{name: F.col(name) for name in _ZERO if name.startswith("ghost_")},
    }


def _reported_sizes() -> dict[str, Column]:
    """Return the group's size as a row reports it; an empty group has no size, and nobody has its partitions."""
    from pyspark.sql import functions as F

    is_empty = F.coalesce(F.col("members") == 0, F.lit(False))
    return {"members": _positive(F.col("members")), "partitions": F.when(~is_empty, F.col("partitions_total"))}


def _one(condition: Column) -> Column:
    from pyspark.sql import functions as F

    return F.when(condition, F.lit(1)).otherwise(F.lit(0)).cast("bigint")


def _positive(number: Column) -> Column:
    from pyspark.sql import functions as F

    return F.when(number > 0, number)


def busy_days(
    ghosts: DataFrame,
    member_events: DataFrame,
    group_events: DataFrame,
    costs: DataFrame,
    *,
    start_ms: int,
    as_of_ms: int,
) -> DataFrame:
    """Count the events of each group on each day with events.

    Parameters
    ----------
    ghosts: from `facts.ghost_times`, one row per stop.
    costs: from `facts.rebalance_costs`, one row per rebalance.
    start_ms, as_of_ms: the half-open time that is counted, Unix milliseconds; its first and last day may be partial.

    Returns
    -------
    gold/busy_day. Names and sizes of a group are the last ones of the day; an empty group reports no size.
    """
    from pyspark.sql import functions as F

    facts = _facts_with_a_day(ghosts, member_events, group_events, costs)
    latest = F.struct("at_ms", "event_id")
    return (
        facts.where(F.col("at_ms").between(start_ms, as_of_ms - 1))
        .withColumn("day_ms", day_of("at_ms"))
        .groupBy("group_key", "day_ms")
        .agg(
            *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _ZERO),
            *(F.max_by(F.col(name), F.when(F.col(name).isNotNull(), latest)).alias(name) for name in _SIZES),
            F.max_by(F.struct(*_NAMES), latest).alias("name"),
            F.max("k8s_cluster_uid").alias("k8s_cluster_uid"),
            F.collect_set("k8s_cluster_uid").alias("k8s_cluster_uids"),
            # Without the condition a missing instance id would count as one: xxhash64(NULL) is not NULL.
            F.collect_set(F.when(F.col("instance_id").isNotNull(), F.xxhash64("instance_id"))).alias("instances"),
        )
        .select("*", "name.*")
        .select(*BUSY_DAY.names)
    )


def group_day(
    busy: DataFrame,
    beats: DataFrame,
    blind_windows: DataFrame,
    *,
    start_ms: int,
    as_of_ms: int,
    dynamic: DataFrame | None = None,
) -> DataFrame:
    """Combine the days of a window.

    Parameters
    ----------
    busy: gold/busy_day; days before the window are left out.
    beats, blind_windows: silver/beats and silver/blind_windows.
    start_ms, as_of_ms: the half-open window, Unix milliseconds; it starts at a midnight (UTC).
    dynamic: (group_key, day_ms, rebalances_dynamic), rebalances of the same timeline with dynamic members; None without
        a replay.

    Returns
    -------
    gold/group_day: one row per group and UTC day from the group's first record on, quiet days included. `members` and
    `partitions` are the coordinator's last ones of the day, carried over quiet days and days on which the group was
    empty. If it never showed members, `members` is the number of pods of the workload, or else of known instance ids: a
    pod may hold several members. Null partitions were never reported.
    """
    from pyspark.sql import functions as F

    days = _with_quiet_days(busy.where(F.col("day_ms").between(start_ms, as_of_ms - 1)), as_of_ms)
    # Check first, by the statistics of files: most fleets have no such span, and a join with nothing is not free.
    is_all_read = beats.where(F.col("unreachable_total") > 0).isEmpty()
    unread = None if is_all_read else unread_days(unread_spans(beats, start_ms=start_ms, as_of_ms=as_of_ms))
    made = _with_covered(_with_dynamic(days, dynamic), beats, blind_windows, unread)
    return made.select("*", "known_name.*").select(*GROUP_DAY.names)


def _with_covered(days: DataFrame, beats: DataFrame, blind_windows: DataFrame, unread: DataFrame | None) -> DataFrame:
    """Add `covered_ms`: the longest coverage by one of the operators that reported the group, a lower bound.

    Parameters
    ----------
    unread: of `facts.unread_days`; None: all groups were always readable.
    """
    from pyspark.sql import functions as F

    clusters = days.select(F.explode("uids").alias("k8s_cluster_uid"), "day_ms", "day_end_ms").distinct()
    covered = _by_cluster(covered_days(beats, blind_windows, clusters), "covered_ms", "day_ms")
    made = days.join(F.broadcast(covered), on=["day_ms"], how="left")
    hidden: tuple[str, ...] = ()
    if unread is not None:
        made, hidden = _with_unread(made, unread), ("unread_ms", "unread_all_ms")

    def seen(uid: Column) -> Column:
        times = (F.coalesce(F.col(name)[uid], F.lit(0)) for name in hidden)
        return F.greatest(F.col("covered_ms")[uid] - sum(times, F.lit(0)), F.lit(0))

    longest = F.array_max(F.transform("uids", seen))
    return made.withColumn("covered_ms", F.coalesce(longest, F.lit(0)).cast("bigint"))


def _with_unread(days: DataFrame, unread: DataFrame) -> DataFrame:
    """Add how long a group, and how long all groups, were unreadable: maps by Kubernetes cluster."""
    from pyspark.sql import functions as F

    is_of_all = F.col("static_group") == EVERY_GROUP
    of_all = _by_cluster(
        unread.where(is_of_all).withColumnRenamed("unread_ms", "unread_all_ms"), "unread_all_ms", "day_ms"
    )
    own = _by_cluster(unread.where(~is_of_all), "unread_ms", "day_ms", "static_group").withColumnRenamed(
        "static_group", "reads"
    )
    return (
        days.withColumn("reads", F.concat_ws("/", "known_name.namespace", "known_name.static_group"))
        .join(F.broadcast(of_all), on=["day_ms"], how="left")
        .join(F.broadcast(own), on=["day_ms", "reads"], how="left")
    )


def _by_cluster(times: DataFrame, name: str, *by: str) -> DataFrame:
    """Collect a time of each Kubernetes cluster into a map, one row for each `by`."""
    from pyspark.sql import functions as F

    entries = F.collect_list(F.struct("k8s_cluster_uid", name))
    return times.groupBy(*by).agg(F.map_from_entries(entries).alias(name))


def _with_quiet_days(days: DataFrame, as_of_ms: int) -> DataFrame:
    """Add the quiet days up to the end of the window, and carry over the size of the group."""
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    uids = F.coalesce("k8s_cluster_uids", F.array_compact(F.array("k8s_cluster_uid")))
    spine = (
        days.groupBy("group_key")
        .agg(
            F.sequence(F.min("day_ms"), F.lit((as_of_ms - 1) // DAY_MS * DAY_MS), F.lit(DAY_MS)).alias("days"),
            F.max_by(F.struct(*_NAMES), "day_ms").alias("known_name"),
            F.array_distinct(F.flatten(F.collect_list(uids))).alias("uids"),
            F.size(F.array_distinct(F.flatten(F.collect_list("instances")))).alias("seen_members"),
        )
        .withColumn("day_ms", F.explode("days"))
    )
    before = W.partitionBy("group_key").orderBy("day_ms").rowsBetween(W.unboundedPreceding, W.currentRow)
    ever = W.partitionBy("group_key").orderBy("day_ms").rowsBetween(W.unboundedPreceding, W.unboundedFollowing)

    def carried(name: str) -> Column:
        return F.coalesce(F.last(name, ignorenulls=True).over(before), F.first(name, ignorenulls=True).over(ever))

    return (
        spine.join(days.select("group_key", "day_ms", *_SIZES, *_ZERO), on=["group_key", "day_ms"], how="left")
        .withColumn("members", F.coalesce(carried("members"), carried("replicas"), "seen_members").cast("bigint"))
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
