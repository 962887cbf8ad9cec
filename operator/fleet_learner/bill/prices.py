"""Learn from standstills what a rebalance costs each group: the seconds that a partition which it stops rests.

The one idea: the rebalance is the unit that chance draws. Partitions of one rebalance stop together, so the interval is
bootstrapped over rebalances, and a group has a measured price only once `LEAST_REBALANCES` were measured. A partition
of the member that was away is no part of it: it waits for its member, which is the timeout's price and not the
rebalance's.

Which partitions a rebalance stops is counted as costs count it (`fleet_learner.days.facts`): all of a classic group,
those that moved of the others; where nobody knows which moved, those that stood still.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from fleet_learner.estimates.price import Price
from journal.recommendations import PriceSource

from .standstills import Role

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LEAST_REBALANCES: Final = 10
LAST_REBALANCES: Final = 500
"""Older ones than the last so many say nothing of today."""
_DRAWS: Final = 1_000
_INTERVAL: Final = (0.05, 0.95)
_LEAST_SECONDS: Final = 0.001
"""A price is above 0 by contract."""


def rebalance_standstills(standstills: DataFrame) -> DataFrame:
    """Sum up what is known of each rebalance.

    Parameters
    ----------
    standstills: silver/standstills; rows of several runs may be put together.

    Returns
    -------
    One row per group and `cause_offset`: `partitions` that it stopped, how long they stood still in all
    (`standstill_ms`; where a silence has several rebalances in it, each has its share), and the median `usual_ms`.
    """
    from pyspark.sql import functions as F

    is_stopped = (F.col("group_type") == "Classic") | (F.col("role") == Role.MOVED.value) | F.col("is_interrupted")
    counted = standstills.where(F.col("standstill_ms").isNotNull() & (F.col("rebalances") > 0)).where(
        (F.col("role") != Role.CAUSE.value) & is_stopped
    )
    share_ms = (F.col("standstill_ms") / F.col("rebalances")).cast("bigint")
    return counted.groupBy("kafka_cluster_id", "group_id", "log_partition", "cause_offset").agg(
        F.count("*").alias("partitions"),
        F.sum(share_ms).alias("standstill_ms"),
        F.percentile("margin_ms", F.lit(0.5)).cast("bigint").alias("usual_ms"),
    )


def measured_prices(standstills: DataFrame) -> Mapping[tuple[str, str], Price]:
    """Return the price of each group of which enough rebalances were measured, by (Kafka cluster id, group id).

    Parameters
    ----------
    standstills: silver/standstills of the window that counts.
    """
    from pyspark.sql import functions as F

    each = F.struct("cause_offset", "standstill_ms", "partitions", "usual_ms")
    rows = (
        rebalance_standstills(standstills)
        .groupBy("kafka_cluster_id", "group_id")
        .agg(F.slice(F.sort_array(F.collect_list(each), asc=False), 1, LAST_REBALANCES).alias("rebalances"))
        .where(F.size("rebalances") >= LEAST_REBALANCES)
    )
    # A few hundred numbers a group, and the mapping is for the driver.
    return {
        (row["kafka_cluster_id"], row["group_id"]): price(
            ((e["standstill_ms"], e["partitions"], e["usual_ms"]) for e in row["rebalances"]),
            name=f"{row['kafka_cluster_id']}/{row['group_id']}",
        )
        for row in rows.toLocalIterator()
    }


def price(rebalances: Iterable[tuple[int, int, int]], *, name: str) -> Price:
    """Estimate a price.

    Parameters
    ----------
    rebalances: of each, the sum of standstills, the partitions, and the usual silence, in ms.
    name: of the group; the draws depend on it and on nothing else.

    Returns
    -------
    The mean per partition. Its interval holds the chance of which rebalances were seen, and half a usual silence on
    either side, because where between two commits work stopped and began nobody wrote down.
    """
    import numpy as np

    measured = np.array(list(rebalances), dtype=float)
    total_ms, partitions, usual_ms = measured.T
    seed = int.from_bytes(blake2b(name.encode(), digest_size=8).digest())
    random = np.random.Generator(np.random.Philox(key=seed))
    chosen = random.integers(0, len(measured), (_DRAWS, len(measured)))
    drawn = total_ms[chosen].sum(axis=1) / partitions[chosen].sum(axis=1)
    lower_ms, upper_ms = np.quantile(drawn, _INTERVAL)
    phase_ms = float(np.median(usual_ms)) / 2
    values: dict[str, Any] = {
        "seconds": float(total_ms.sum() / partitions.sum()) / 1000,
        "lower_seconds": (float(lower_ms) - phase_ms) / 1000,
        "upper_seconds": (float(upper_ms) + phase_ms) / 1000,
    }
    at_least = {part: max(_LEAST_SECONDS, value) for part, value in values.items()}
    return Price(**at_least, source=PriceSource.MEASURED, rebalances=len(measured))
