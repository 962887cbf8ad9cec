"""The features of each group: its stops in the window, and the timeout in force, from rows per day.

The one idea: a day's row holds that day's sums and last values and never changes after the day, so a window is combined
from its days without reading the facts again. One exchange of narrow rows collects the stops; names and waves are
joined afterwards, so that no wide rows go through one task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..days.facts import day_of
from ..schemas import GROUP_STATE
from ..session import many_tasks
from .recommend import MODEL_VERSION, SETTINGS
from .waves import with_waves

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData

    from ..days.silver import Silver

_STOP: Final = ("down_ms", "event_id", "gap_ms", "end_kind", "reason", "rollout_id", "image_digest")


def group_state(group_events: DataFrame, member_events: DataFrame, outages: DataFrame) -> DataFrame:
    """Return the timeout changes and sums of each group and day.

    Parameters
    ----------
    group_events, member_events, outages: silver; an outage belongs to the day on which it began.

    Returns
    -------
    gold/group_state; each row depends on the facts of its day only.
    """
    from pyspark.sql import functions as F

    latest = F.struct("event_ms", "event_id")
    changed, moves = F.col("kind") == "timeout.changed", F.col("partitions_moved").isNotNull()

    def of_change(value: Column) -> Column:
        return F.max_by(value, F.when(changed, latest))

    changes = _by_day(group_events.where(changed | moves), "event_ms").agg(
        of_change(F.col("session_timeout_ms_after")).alias("set_timeout_ms"),
        of_change(F.col("timeout_source")).alias("timeout_source"),
        of_change(F.col("protocol")).alias("set_protocol"),
        F.max(F.when(changed, F.col("event_ms"))).alias("set_ms"),
        F.max(F.when(changed & F.col("session_timeout_ms_before").isNotNull(), F.col("event_ms"))).alias("changed_ms"),
        F.sum(F.when(moves, F.col("partitions_moved"))).alias("moved"),
        F.sum(F.when(moves, F.col("partitions_total"))).alias("of_partitions"),
    )
    started = _by_day(member_events.where(F.col("kind") == "member.up"), "event_ms").agg(
        F.max_by("image_digest", latest).alias("image_digest"), F.max("event_ms").alias("up_ms")
    )
    seen = _by_day(outages.where(F.col("session_timeout_ms").isNotNull()), "down_ms").agg(
        *(
            F.max_by(name, F.struct("down_ms", "event_id")).alias(seen)
            for name, seen in (("session_timeout_ms", "seen_timeout_ms"), ("protocol", "seen_protocol"))
        )
    )
    by = ["group_key", "day_ms"]
    return changes.join(started, on=by, how="full").join(seen, on=by, how="full").select(*GROUP_STATE.names)


def _by_day(rows: DataFrame, at_ms: str) -> GroupedData:
    return rows.withColumn("day_ms", day_of(at_ms)).groupBy("group_key", "day_ms")


def states_of(tables: Silver) -> DataFrame:
    """Return gold/group_state of a window."""
    return group_state(tables.group_events, tables.member_events, tables.outages)


def stops_of(outages: DataFrame) -> DataFrame:
    """Return (group_key, stops), one row per group with stops, in order, spread over many tasks."""
    from pyspark.sql import functions as F

    return (
        outages.select("group_key", *_STOP)
        .repartition(many_tasks(outages.sparkSession), "group_key")
        .groupBy("group_key")
        .agg(F.array_sort(F.collect_list(F.struct(*_STOP))).alias("stops"))
    )


def names_of(group_day: DataFrame) -> DataFrame:
    """Return each group's names of its last day, with protocol Unknown if none was recorded."""
    from pyspark.sql import functions as F

    names = ("kafka_cluster_id", "group_id", "namespace", "static_group", "workload", "protocol")
    latest = group_day.groupBy("group_key").agg(*(F.max_by(name, "day_ms").alias(name) for name in names))
    return latest.withColumn("workload_class", F.coalesce("protocol", F.lit("Unknown")))


def known_protocols(names: DataFrame) -> DataFrame:
    """Keep the groups whose protocol this version knows."""
    from pyspark.sql import functions as F

    return names.where(F.col("workload_class").isin(*SETTINGS))


def group_features(
    tables: Silver,
    group_day: DataFrame,
    earlier: DataFrame | None = None,
    states: DataFrame | None = None,
    stops: DataFrame | None = None,
    fleet: DataFrame | None = None,
) -> DataFrame:
    """Return one row per group of the window with everything that a history needs.

    Parameters
    ----------
    group_day: gold/group_day of the same window.
    earlier: gold/recommendation of the previous run.
    states: gold/group_state of the same window; None computes it from the facts.
    stops: of the window, from `stops_of`; None computes them from the facts.
    fleet: gold/group_day of all groups if `group_day` has only some: a wave is a share of the whole fleet.

    Returns
    -------
    One row per group; `stops` is sorted by (down_ms, event_id), null without any.
    """
    from pyspark.sql import functions as F

    sizes = group_day.groupBy("group_key").agg(
        F.avg("members").alias("members"),
        F.avg("partitions").alias("partitions"),
        F.min("day_ms").alias("first_ms"),
        F.sum("covered_ms").alias("covered_ms"),
    )
    names = names_of(group_day)
    if fleet is None:
        groups = with_waves(names, MODEL_VERSION)
    else:
        every = with_waves(fleet.select("group_key", "kafka_cluster_id", "group_id").distinct(), MODEL_VERSION)
        groups = names.join(every.select("group_key", "wave"), on="group_key", how="left")
    groups = groups.join(sizes, on="group_key", how="left")
    for other in (_in_force(states_of(tables) if states is None else states), _earlier(earlier)):
        groups = groups.join(other, on="group_key", how="left") if other is not None else groups
    # Join where the stops are: with the names, few tasks would hold all groups.
    known = stops_of(tables.outages) if stops is None else stops
    return known.join(groups.hint("merge"), on="group_key", how="right")


def _in_force(states: DataFrame) -> DataFrame:
    """Combine the days of each group: the last value counts, sums add up."""
    from pyspark.sql import functions as F

    def last(name: str, reported: str | None = None) -> Column:
        return F.max_by(name, F.when(F.col(reported or name).isNotNull(), F.col("day_ms"))).alias(name)

    return states.groupBy("group_key").agg(
        last("seen_timeout_ms"),
        last("seen_protocol", "seen_timeout_ms"),
        last("set_timeout_ms", "set_ms"),
        last("timeout_source", "set_ms"),
        last("set_protocol", "set_ms"),
        last("image_digest", "up_ms"),
        F.max("changed_ms").alias("changed_ms"),
        F.sum("moved").alias("moved"),
        F.sum("of_partitions").alias("of_partitions"),
    )


def _earlier(recommended: DataFrame | None) -> DataFrame | None:
    """Select the previous run's values that the journal's window may no longer hold, and its recommendations."""
    names = ("session_timeout_ms", "timeout_source", "changed_ms", "recommended_ms", "advised_ms", "protocol")
    return None if recommended is None else recommended.selectExpr("group_key", *(f"{n} AS earlier_{n}" for n in names))


def set_aside(group_day: DataFrame) -> list[tuple[str, str, str]]:
    """Return (Kafka cluster id, group id, protocol) of the groups whose protocol this version does not know, in order.

    They are counted like others, but get no recommendation, because the setting to change is not known.
    """
    from pyspark.sql import functions as F

    rows = names_of(group_day).where(~F.col("workload_class").isin(*SETTINGS)).collect()
    return sorted((row["kafka_cluster_id"], row["group_id"], row["protocol"]) for row in rows)
