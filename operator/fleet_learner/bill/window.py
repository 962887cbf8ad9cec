"""Combine the daily bills of a window: one bill per group, and the price of its rebalances.

The one idea: slices never overlap, so counts add up; the newest slice describes the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Final

from fleet_learner.errors import CorruptError
from fleet_learner.estimates.price import Price
from fleet_learner.lake import Lake

from .account import NAMED_MAX, help_of
from .daily import bill_lake
from .prices import measured_prices
from .schemas import BILL, BILL_SLICES, STANDSTILLS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from fleet_learner.schemas import Table

_LATEST: Final = ("group_type", "protocol_type", "protocol_name", "members", "static_members")
_NAMED: Final = ("interrupted_clients", "interrupted_hosts")


def published(journal: Lake, names: Iterable[str], table: Table, *, since_ms: int | None = None) -> DataFrame | None:
    """Return the rows of several logs since a time, as their last runs left them.

    Parameters
    ----------
    names: of the logs in the configuration.

    Returns
    -------
    None when no log was ever read.
    """
    found: dict[str, DataFrame] = {}
    for name in names:
        lake = bill_lake(journal, name)
        try:
            state = lake.runs.latest()
        except CorruptError:
            continue  # the stage that reads the logs has reported this one as unreadable
        # Two configured names of one Kafka cluster hold the same rows.
        if state is not None and state.plan.settings["kafka_cluster_id"] not in found:
            found[state.plan.settings["kafka_cluster_id"]] = lake.published(table, state, since_ms=since_ms)
    return reduce(lambda one, other: one.unionByName(other), found.values()) if found else None


def prices(journal: Lake, names: Iterable[str], *, since_ms: int, until_ms: int) -> Mapping[tuple[str, str], Price]:
    """Return the measured prices of a window, half-open, by (Kafka cluster id, group id)."""
    from pyspark.sql import functions as F

    rows = published(journal, names, STANDSTILLS, since_ms=since_ms)
    return {} if rows is None else measured_prices(rows.where(F.col("from_ms") < until_ms))


def bill(journal: Lake, names: Iterable[str], *, since_ms: int, until_ms: int) -> DataFrame | None:
    """Return gold/bill of a window, half-open, to whole days; None when no log was ever read."""
    from pyspark.sql import functions as F

    # Select by the end of a slice: the first may begin long before, at the oldest commit of the log.
    slices = published(journal, names, BILL_SLICES)
    is_inside = (F.col("slice_to_ms") > since_ms) & (F.col("slice_from_ms") < until_ms)
    return None if slices is None else summed(slices.where(is_inside))


def summed(slices: DataFrame) -> DataFrame:
    """Add up slices.

    Parameters
    ----------
    slices: gold/bill_slices; those of one group do not overlap.

    Returns
    -------
    gold/bill. The share of interrupted partitions is weighted by the number of measured silences.
    """
    from pyspark.sql import functions as F

    known = F.col("interrupted_share").isNotNull()
    weight = F.when(known, F.col("measured"))
    special = {
        "covered_from_ms": F.min("covered_from_ms"),
        "covered_to_ms": F.max("covered_to_ms"),
        "interrupted_share": F.sum(F.col("interrupted_share") * weight) / F.nullif(F.sum(weight), F.lit(0)),
        "records_delayed": F.sum("records_delayed"),
        "partitions": F.max("partitions"),
        **{name: F.max_by(name, "slice_from_ms") for name in _LATEST},
        **{
            name: F.slice(F.array_sort(F.array_distinct(F.flatten(F.collect_list(name)))), 1, NAMED_MAX)
            for name in _NAMED
        },
    }
    counts = [c.name for c in BILL.columns if c.type == "bigint" and c.name not in special]
    summed_up = {name: F.sum(name) for name in counts} | special
    groups = slices.groupBy("kafka_cluster_id", "group_id").agg(
        *(column.alias(name) for name, column in summed_up.items())
    )
    return groups.withColumn("help", help_of()).select(*BILL.names)
