"""The cost of dynamic members: replay each group's stops, day by day, in a model of Kafka's coordinator.

The one idea: between stops a group is stable, so each day is replayed on its own, for all groups in parallel; a day
with unchanged facts, known by their hash, is not replayed again. A stop belongs to the day on which it began. Where the
journal is silent, a member whose return was not seen does not return on that day, an absent member stops only once, and
a group has the size that was recorded on that day.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..schemas import REPLAYED_DAY
from ..session import many_tasks
from .counterfactual import GroupSetup, Rebalancing, Stop
from .facts import StopDurations, day_of
from .rebalance_count import count_rebalances

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

REPLAY_VERSION: Final = 2
"""Version of the model; a new one replays all days again."""
_CLOSED: Final = frozenset({"Deleted", "Evicted", "Completed"})
"""Reasons of a stop with a closed client, which leaves the group; a killed one (OOMKilled, Error) does not."""
MEMBERS_MAX: Final = 10_000
"""More members make a rebalance longer but cause no other, so a larger group is replayed with so many."""
DYNAMIC_SESSION_TIMEOUT_MS: Final = 45_000
"""`ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG` by default; a dynamic member has no reason for a longer one."""


def replayed_days(
    outages: DataFrame, sizes: DataFrame, durations: StopDurations, known: DataFrame | None = None
) -> DataFrame:
    """Replay every group's stops with dynamic members, day by day.

    Parameters
    ----------
    outages: silver/outages of whole days.
    sizes: (group_key, at_ms, members, partitions_total) of the same days: the recorded sizes of groups.
    known: gold/replayed_day of earlier runs; a day with the same facts is not replayed again.

    Returns
    -------
    gold/replayed_day, one row per group and day with stops.
    """
    from pyspark.sql import functions as F

    days = _inputs(outages, sizes, durations)
    by = ["group_key", "day_ms", "inputs"]
    if known is None:
        days = days.withColumn("rebalances_dynamic", F.lit(None).cast("bigint"))
    else:
        days = days.join(known.select(*by, "rebalances_dynamic"), on=by, how="left")
    is_new = F.col("rebalances_dynamic").isNull()
    days = days.select(
        *by, "rebalances_dynamic", "protocol", "members", "partitions", F.when(is_new, F.col("stops")).alias("stops")
    )

    def of_days(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            counted = [
                row["rebalances_dynamic"] if row["stops"] is None else rebalances_of_day(row, durations)
                for row in batch.to_pylist()
            ]
            kept = [batch.column(name) for name in by]
            yield pa.RecordBatch.from_arrays([*kept, pa.array(counted, pa.int64())], names=[*by, "rebalances_dynamic"])

    return days.repartition(many_tasks(days.sparkSession), "group_key", "day_ms").mapInArrow(
        of_days, REPLAYED_DAY.spark_nullable
    )


def _inputs(outages: DataFrame, sizes: DataFrame, durations: StopDurations) -> DataFrame:
    """Collect each group's stops of a day with all inputs of a replay and their hash."""
    from pyspark.sql import functions as F

    stops = F.struct("down_ms", "event_id", "member_key", "back_ms", "reason")
    by = ["group_key", "day_ms"]
    largest = (
        sizes.withColumn("day_ms", day_of("at_ms"))
        .groupBy(*by)
        .agg(F.max("members").alias("members"), F.max("partitions_total").alias("partitions"))
    )
    settings = F.lit(f"{REPLAY_VERSION} {durations.classic_is_cooperative}")
    return (
        outages.withColumn("day_ms", day_of("down_ms"))
        .groupBy(*by)
        .agg(F.array_sort(F.collect_list(stops)).alias("stops"), F.max("protocol").alias("protocol"))
        .join(largest, on=by, how="left")
        .withColumn("inputs", F.xxhash64(settings, "stops", "protocol", "members", "partitions"))
    )


def rebalances_of_day(row: Mapping[str, Any], durations: StopDurations) -> int:
    """Count the rebalances of one group and day with dynamic members.

    Parameters
    ----------
    row: `stops` in order, `protocol`, `members` and `partitions` (null: not known).
    """
    stops = _stops(row["stops"])
    reported = row["members"] or 0
    members = max(min(reported, MEMBERS_MAX), max(stop.member for stop in stops) + 1)
    has_epochs = row["protocol"] in {"Consumer", "Streams"}
    classic = Rebalancing.COOPERATIVE if durations.classic_is_cooperative else Rebalancing.EAGER
    setup = GroupSetup(
        members=members,
        partitions=(row["partitions"] or members) if reported <= MEMBERS_MAX else members,
        rebalancing=Rebalancing.CONSUMER if has_epochs else classic,
        session_timeout_ms=DYNAMIC_SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=5_000 if has_epochs else 3_000,
    )
    return count_rebalances(setup, stops)


def _stops(rows: Sequence[Mapping[str, Any]]) -> list[Stop]:
    numbers: dict[int, int] = {}
    away_until_ms: dict[int, int | None] = {}
    made = []
    for row in rows:
        member = numbers.setdefault(row["member_key"], len(numbers))
        until_ms = away_until_ms.get(member, 0)
        if until_ms is None or row["down_ms"] <= until_ms:
            continue
        back_ms = None if row["back_ms"] is None else max(row["back_ms"], row["down_ms"] + 1)
        away_until_ms[member] = back_ms
        made.append(Stop(member=member, down_ms=row["down_ms"], back_ms=back_ms, is_clean=row["reason"] in _CLOSED))
    return made
