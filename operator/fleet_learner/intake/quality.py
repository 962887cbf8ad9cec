"""Check the data: violated invariants are errors, oddities are counted.

The one idea: one pass over a table counts all oddities, under names that the report prints. A lost or invented record
would be an error of the pipeline itself and stops the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from staticgroup.api.absences import EndKind

from ..schemas import BEATS, EVENTS, GROUP_EVENTS, MEMBER_EVENTS, QUARANTINE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SKEW_MS_MAX: Final = 60_000
GAP_MS_MAX: Final = 86_400_000
GHOST_MS_MAX: Final = 40 * 86_400_000
"""The most time for which a member can be kept: a window and the longest open outage."""
LOST_MAX: Final = 10**12
"""At most so many records of one operator count as lost: numbers may be arbitrary, and are summed up."""
SILVER: Final = (MEMBER_EVENTS.name, GROUP_EVENTS.name, BEATS.name)


class ConservationError(AssertionError):
    """Bronze is not silver + quarantine + duplicates."""


def assert_conserved(rows: Mapping[str, int], duplicates: int) -> None:
    """Check that every record of a run has exactly one fate.

    Parameters
    ----------
    rows: written in this run, by table.
    duplicates: counted independently, not by difference.

    Raises
    ------
    ConservationError: with the figures.
    """
    fates = sum(rows[name] for name in SILVER) + rows[QUARANTINE.name] + duplicates
    if fates != rows[EVENTS.name]:
        parts = ", ".join(f"{name} {rows[name]}" for name in (*SILVER, QUARANTINE.name))
        raise ConservationError(f"bronze {rows[EVENTS.name]} ≠ {parts}, duplicates {duplicates}")


def member_event_findings(member_events: DataFrame) -> dict[str, int]:
    """Count oddities of member facts, in one pass.

    Returns
    -------
    By name: `bounds_reversed` (time_hi before time_lo), `clock_skew` (the two clocks more than a minute apart, where
    the fact was observed at once), `observed_before_source` (more than a minute).
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

    counts = [F.count_if(F.col("end_kind") == kind.value).alias(kind.value) for kind in EndKind]
    row = outages.agg(*counts, F.count_if(F.col("gap_ms") > GAP_MS_MAX).alias("longer_than_a_day")).collect()[0]
    return {name: int(row[name]) for name in row.asDict()}


def impossible_days(group_day: DataFrame) -> list[tuple[str, str, int]]:
    """Return (Kafka cluster id, group id, day_ms) of impossible figures, in order.

    A journal or this pipeline is wrong if a group lost more time than its partitions have in a day, if an absence ended
    in no way or in two, or if more time was watched than a day has.
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


def lost_records(
    member_events: DataFrame, group_events: DataFrame, beats: DataFrame, *, since_ms: int = 0
) -> DataFrame:
    """Return the holes in each operator's numbering; another operator's copies do not fill them.

    Parameters
    ----------
    since_ms: leave out earlier observations, Unix milliseconds; numbers increase with the time of observation.

    Returns
    -------
    One row per operator: `operator_id`, `first_seq`, `last_seq`, `records`, `missing` (0 to `LOST_MAX`).
    """
    from pyspark.sql import functions as F

    # Consecutive numbers lie in one file: as bits in words of 64, few rows remain to exchange.
    bit = F.expr("shiftleft(1L, int(pmod(seq, 64)))")
    words = [
        frame.where(F.col("observed_at_ms") >= since_ms)
        .groupBy("operator_id", F.expr("seq - pmod(seq, 64)").alias("word"))
        .agg(F.bit_or(bit).alias("bits"), F.min("seq").alias("first_seq"), F.max("seq").alias("last_seq"))
        for frame in (member_events, group_events, beats)
    ]
    whole = words[0].unionByName(words[1]).unionByName(words[2]).groupBy("operator_id", "word")
    return (
        whole.agg(F.bit_or("bits").alias("bits"), F.min("first_seq").alias("low"), F.max("last_seq").alias("high"))
        .groupBy("operator_id")
        .agg(
            F.min("low").alias("first_seq"),
            F.max("high").alias("last_seq"),
            F.sum(F.bit_count("bits")).alias("records"),
        )
        .withColumn("missing", F.col("last_seq") - F.col("first_seq") - (F.col("records") - 1))
        .withColumn("missing", F.least("missing", F.lit(LOST_MAX)))
    )
