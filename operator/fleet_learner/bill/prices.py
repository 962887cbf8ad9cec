"""Learn from standstills what a rebalance costs each group: seconds of standstill per stopped partition.

The one idea: rebalances are the independent samples. Partitions of one rebalance stop together, so the interval is
bootstrapped over rebalances, and a group has a measured price only after `LEAST_REBALANCES` measurements. Partitions of
the absent member do not count: they wait for their member, which is a cost of the timeout, not of the rebalance.

The stopped partitions are counted as in `fleet_learner.days.facts`: all partitions of a classic group, the moved ones
of other groups; if it is unknown which moved, the ones that stood still.
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
"""Only the last so many rebalances count: older ones do not describe the present."""
_DRAWS: Final = 1_000
_INTERVAL: Final = (0.05, 0.95)
_LEAST_SECONDS: Final = 0.001
"""A price is above 0 by contract."""


def rebalance_standstills(standstills: DataFrame) -> DataFrame:
    """Sum up the standstills of each rebalance.

    Parameters
    ----------
    standstills: silver/standstills; rows of several runs may be combined.

    Returns
    -------
    One row per group and `cause_offset`: `partitions` that it stopped, how long they stood still in all
    (`standstill_ms`; several rebalances in one silence share it), and the median `usual_ms`.
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
    """Return the price of each group with enough measured rebalances, by (Kafka cluster id, group id).

    Parameters
    ----------
    standstills: silver/standstills of the window.
    """
    from pyspark.sql import functions as F

    each = F.struct("cause_offset", "standstill_ms", "partitions", "usual_ms")
    rows = (
        rebalance_standstills(standstills)
        .groupBy("kafka_cluster_id", "group_id")
        .agg(F.slice(F.sort_array(F.collect_list(each), asc=False), 1, LAST_REBALANCES).alias("rebalances"))
        .where(F.size("rebalances") >= LEAST_REBALANCES)
    )
    # A few hundred numbers per group; the mapping is built on the driver.
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
    name: of the group; the random draws depend on nothing else.

    Returns
    -------
    The mean per partition. Its interval covers the sampling of rebalances, and half a usual silence on either side,
    because no record shows when work stopped and began between two commits.
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
