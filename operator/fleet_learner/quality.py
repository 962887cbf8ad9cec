"""Check the data: what must hold is an error, what may happen is counted.

The one idea: one pass over a table counts all that is odd, with names that the report prints. What would mean that the
pipeline itself is wrong (a record lost or made up, two members with one 64-bit key) stops the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from .schemas import BEATS, EVENTS, GROUP_EVENTS, MEMBER_EVENTS, QUARANTINE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SKEW_MS_MAX: Final = 60_000
GAP_MS_MAX: Final = 86_400_000
GHOST_MS_MAX: Final = 40 * 86_400_000
"""Nobody's place is kept for longer than a window and what it lets stay open."""
SILVER: Final = (MEMBER_EVENTS.name, GROUP_EVENTS.name, BEATS.name)


class ConservationError(AssertionError):
    """Bronze is not silver + quarantine + duplicates."""


class KeyCollisionError(AssertionError):
    """Two members have the same 64-bit key."""


def assert_conserved(rows: Mapping[str, int], duplicates: int) -> None:
    """Check that every record of a run has exactly one fate.

    Parameters
    ----------
    rows: written in this run, by table.
    duplicates: counted for themselves, not by difference.

    Raises
    ------
    ConservationError: with the figures.
    """
    fates = sum(rows[name] for name in SILVER) + rows[QUARANTINE.name] + duplicates
    if fates != rows[EVENTS.name]:
        parts = ", ".join(f"{name} {rows[name]}" for name in (*SILVER, QUARANTINE.name))
        raise ConservationError(f"bronze {rows[EVENTS.name]} ≠ {parts}, duplicates {duplicates}")


def assert_keys_unique(member_events: DataFrame) -> None:
    """Check that `member_key` and `group_key` stand for one member and one group each.

    Raises
    ------
    KeyCollisionError: with the number of keys that do not.
    """
    from pyspark.sql import functions as F

    members = member_events.select("member_key", "group_key", "kafka_cluster_id", "group_id", "instance_id").distinct()
    groups = members.select("group_key", "kafka_cluster_id", "group_id").distinct()
    collisions = sum(
        names.groupBy(key).count().where(F.col("count") > 1).count()
        for key, names in (("member_key", members), ("group_key", groups))
    )
    if collisions:
        raise KeyCollisionError(f"{collisions} keys stand for more than one name")


def member_event_findings(member_events: DataFrame) -> dict[str, int]:
    """Count what is odd about facts of members, in one pass.

    Returns
    -------
    By name: `bounds_reversed` (time_hi before time_lo), `clock_skew` (the two clocks more than a minute apart, where the
    fact was observed at once), `observed_before_source` (more than a minute).
    """
    from pyspark.sql import functions as F

    lag = F.col("observed_at_ms") - F.col("source_time_ms")
    row = member_events.agg(
        F.count_if(F.col("time_hi_ms") < F.col("time_lo_ms")).alias("bounds_reversed"),
        F.count_if(F.abs(lag) > SKEW_MS_MAX).alias("clock_skew"),
        F.count_if(lag < -SKEW_MS_MAX).alias("observed_before_source"),
    ).collect()[0]
    return {name: int(row[name]) for name in row.asDict()}


def outage_findings(outages: DataFrame) -> dict[str, int]:
    """Count outages by end, and those that are longer than a day.

    Returns
    -------
    By name: `returned`, `removed`, `open`, `blind`, `longer_than_a_day`.
    """
    from pyspark.sql import functions as F

    kinds = ("returned", "removed", "open", "blind")
    counts = [F.count_if(F.col("end_kind") == kind).alias(kind) for kind in kinds]
    row = outages.agg(*counts, F.count_if(F.col("gap_ms") > GAP_MS_MAX).alias("longer_than_a_day")).collect()[0]
    return {name: int(row[name]) for name in row.asDict()}


def impossible_days(group_day: DataFrame) -> list[tuple[str, str, int]]:
    """Return (Kafka cluster id, group id, day_ms) of figures that cannot be, in order: a journal or this pipeline is wrong.

    More time without consumption than a group's partitions have in a day; absences that ended in no way or in two; more
    partitions-time watched than a day has.
    """
    from pyspark.sql import functions as F

    day_ms = 86_400_000
    partitions = F.coalesce("partitions", "members")
    ghost = F.col("ghost_wanted_ms") + F.col("ghost_late_ms") + F.col("ghost_operator_ms")
    # A session may outlast midnight, and it counts for the day on which it began.
    is_odd = (
        (F.col("stopped_partition_ms") > partitions * day_ms)
        | (ghost > F.greatest("downs", F.lit(0)) * GHOST_MS_MAX)
        | (F.col("returned") + F.col("removed") + F.col("open") + F.col("blind") != F.col("downs"))
        | ~F.col("covered_ms").between(0, day_ms)
    )
    rows = group_day.where(is_odd).select("kafka_cluster_id", "group_id", "day_ms").collect()
    return sorted((row["kafka_cluster_id"], row["group_id"], row["day_ms"]) for row in rows)


def lost_records(member_events: DataFrame, group_events: DataFrame, beats: DataFrame) -> DataFrame:
    """Return the holes in each operator's numbering, which copies told by another operator do not fill.

    Returns
    -------
    One row per operator: `operator_id`, `first_seq`, `last_seq`, `records`, `missing` (≥ 0).
    """
    from pyspark.sql import functions as F

    numbered = [frame.select("operator_id", "seq") for frame in (member_events, group_events, beats)]
    return (
        numbered[0]
        .unionByName(numbered[1])
        .unionByName(numbered[2])
        .groupBy("operator_id")
        .agg(
            F.min("seq").alias("first_seq"),
            F.max("seq").alias("last_seq"),
            F.count_distinct("seq").alias("records"),
        )
        .withColumn("missing", F.col("last_seq") - F.col("first_seq") + 1 - F.col("records"))
    )


def conflicting_copies(rows: DataFrame) -> int:
    """Count ids whose copies tell different facts: a defect of whoever wrote them.

    Parameters
    ----------
    rows: of `silver.parsed`; compared is the data without what says who observed it when.
    """
    from pyspark.sql import functions as F

    observation = ("operator_id", "seq", "observed_at_ms", "source_time_ms", "time_lo_ms", "time_hi_ms")
    fact = F.col("event.data").dropFields(*observation)
    return (
        rows.where(F.col("reason").isNull())
        .groupBy("event.source", "event.id")
        .agg(F.count_distinct(F.to_json(fact)).alias("facts"))
        .where(F.col("facts") > 1)
        .count()
    )


def bad_generations(rebalances: DataFrame) -> int:
    """Count rebalances whose group epoch is not greater than the one before it in the same group."""
    from pyspark.sql import Window as W
    from pyspark.sql import functions as F

    order = W.partitionBy("group_key").orderBy("start_hi_ms", "event_id")
    before = F.lag("group_epoch").over(order)
    return rebalances.withColumn("before", before).where(F.col("group_epoch") <= F.col("before")).count()
