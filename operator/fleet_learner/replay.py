"""What dynamic members would have cost: each group's stops, day by day, through a model of Kafka's coordinator.

The one idea: between stops a group is at rest, so a day can be replayed for itself, and days for all groups at once. A
stop belongs to the day on which it began. What the journal does not tell is taken as follows: a stop whose end was not
seen does not come back on that day, and a member that is away stops only once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from .counterfactual import GroupSetup, Rebalancing, Stop
from .facts import DAY_MS, StopDurations
from .rebalance_count import count_rebalances

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from .gold import Silver

_COLUMNS: Final = "group_key bigint, day_ms bigint, rebalances_dynamic bigint"
_CLOSED: Final = frozenset({"Deleted", "Evicted", "Completed"})
"""Reasons of a stop in which the client was closed: it leaves the group. A killed one (OOMKilled, Error) does not."""
DYNAMIC_SESSION_TIMEOUT_MS: Final = 45_000
"""`ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG` by default; a dynamic member has no reason for a longer one."""


def dynamic_rebalances(tables: Silver, durations: StopDurations) -> DataFrame:
    """Replay every group's stops with dynamic members.

    Returns
    -------
    One row per group and day with stops: (group_key, day_ms, rebalances_dynamic).
    """
    from pyspark.sql import functions as F

    names = ("group_key", "members", "partitions_total")
    sizes = tables.group_events.select(*names).unionAll(tables.member_events.select(*names))
    known = sizes.groupBy("group_key").agg(
        F.max("members").alias("members"), F.max("partitions_total").alias("partitions")
    )
    stops = F.struct("down_ms", "event_id", "member_key", "back_ms", "reason")
    days = (
        tables.outages.withColumn("day_ms", (F.floor(F.col("down_ms") / DAY_MS) * DAY_MS).cast("bigint"))
        .groupBy("group_key", "day_ms")
        .agg(F.array_sort(F.collect_list(stops)).alias("stops"), F.first("protocol").alias("protocol"))
        .join(known, on="group_key", how="left")
    )

    def of_days(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            rows = batch.to_pylist()
            counted = [rebalances_of_day(row, durations) for row in rows]
            keys, dates = batch.column("group_key"), batch.column("day_ms")
            yield pa.RecordBatch.from_arrays(
                [keys, dates, pa.array(counted, pa.int64())], names=["group_key", "day_ms", "rebalances_dynamic"]
            )

    # More tasks than cores: groups differ a hundredfold in their number of members.
    return days.repartition(64, "group_key", "day_ms").mapInArrow(of_days, _COLUMNS)


def rebalances_of_day(row: Mapping[str, Any], durations: StopDurations) -> int:
    """Count the rebalances of one group and day with dynamic members.

    Parameters
    ----------
    row: `stops` in order, `protocol`, `members` and `partitions` (null: not known).
    """
    stops = _stops(row["stops"])
    members = max(row["members"] or 0, max(stop.member for stop in stops) + 1)
    has_epochs = row["protocol"] in {"Consumer", "Streams"}
    classic = Rebalancing.COOPERATIVE if durations.classic_is_cooperative else Rebalancing.EAGER
    setup = GroupSetup(
        members=members,
        partitions=row["partitions"] or members,
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
