"""Learn the usual silence of a partition: between two commits with progress, and between any two commits.

The one idea: gaps are weighted by their length. An extra commit, as a client makes when partitions are revoked, then
hardly counts, and a rebalance is as likely to fall into a long gap as into any other minutes. Only the hours around a
silence count, because nights are not like days.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .silences import PARTITION

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

LEAST_GAPS: Final = 8
"""With fewer gaps nearby there is no usual gap."""
LEAST_GAPS_OF_MANY: Final = 20
"""So many gaps are needed to call a silence longer than all."""
REGULAR: Final = 2
"""A partition is regular when 95 % of the time lies in gaps of at most so many times the usual gap."""
HOUR_MS: Final = 3_600_000
_SHARES: Final = (0.5, 0.95, 1.0)


def usual_silences(steps: DataFrame, silences: DataFrame) -> DataFrame:
    """Learn the usual silences around each hour in which a silence with a cause begins.

    Parameters
    ----------
    steps, silences: of silences.py.

    Returns
    -------
    One row per partition and `hour`: `usual_ms` and `longest_usual_ms` between commits with progress, `live_usual_ms`
    and `live_longest_ms` between any commits, null with too few gaps; `record_ms` is the longest gap ever seen there
    between commits with progress, null with too few gaps.
    """
    from pyspark.sql import functions as F

    wanted = (
        silences.where("has_cause")
        .select(*PARTITION, F.floor(F.col("from_ms") / HOUR_MS).cast("bigint").alias("hour"))
        .distinct()
        .withColumn("near", F.explode(F.array(*(F.col("hour") + n for n in (-1, 0, 1)))))
    )
    gaps = _usual_gaps(steps, silences).withColumn("near", F.floor(F.col("since_ms") / HOUR_MS).cast("bigint"))
    found = (
        gaps.join(wanted, [*PARTITION, "near"], "inner")
        .groupBy(*PARTITION, "hour")
        .agg(
            _quantiles(F.col("progress")).alias("progress"),
            _quantiles(~F.col("progress")).alias("live"),
            (F.count_if("progress") >= LEAST_GAPS_OF_MANY).alias("are_many"),
        )
    )
    return found.select(
        *PARTITION,
        "hour",
        F.col("progress")[0].alias("usual_ms"),
        F.col("progress")[1].alias("longest_usual_ms"),
        F.when(F.col("are_many"), F.col("progress")[2]).alias("record_ms"),
        F.col("live")[0].alias("live_usual_ms"),
        F.col("live")[1].alias("live_longest_ms"),
    )


def _usual_gaps(steps: DataFrame, silences: DataFrame) -> DataFrame:
    """Return undisturbed times between commits: between those with progress, and between any (`progress` false)."""
    from pyspark.sql import functions as F

    of_progress = silences.where("is_whole AND NOT has_cause AND NOT is_deleted AND to_ms IS NOT NULL").select(
        *PARTITION,
        F.col("begin_ms").alias("since_ms"),
        F.col("whole_ms").alias("gap_ms"),
        F.lit(True).alias("progress"),
    )
    is_usual = (F.col("commit_number") > 2) & (F.col("number") == F.col("number_before")) & ~F.col("tombstone")
    of_any = steps.where(is_usual & F.col("at_ms").isNotNull()).select(
        *PARTITION,
        F.col("at_ms_before").alias("since_ms"),
        F.greatest(F.col("at_ms") - F.col("at_ms_before"), F.lit(0)).alias("gap_ms"),
        F.lit(False).alias("progress"),
    )
    return of_progress.unionByName(of_any)


def _quantiles(which: Column) -> Column:
    """Return the time-weighted median, 95 % quantile and maximum of gaps; null with too few gaps."""
    from pyspark.sql import functions as F

    gap_ms, weight = F.when(which, F.col("gap_ms")), F.when(which, F.greatest(F.col("gap_ms"), F.lit(1)))
    shares = F.array(*(F.lit(share) for share in _SHARES))
    quantiles = F.percentile(gap_ms, shares, F.coalesce(weight, F.lit(1)))
    return F.when(F.count(gap_ms) >= LEAST_GAPS, F.transform(quantiles, lambda q: F.round(q).cast("bigint")))
