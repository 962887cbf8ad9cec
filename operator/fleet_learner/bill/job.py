"""Read a log once and compute the bill of all its groups.

The one idea: frames that are used several times are persisted until the run ends. A daily run does the same with new
records: the few group records are kept; commits are read again from an hour before the earliest open silence, and a
standstill replaces the row of its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fleet_learner.estimates.price import Price

from .account import CONTEXT_MS, bills
from .cause_rows import causes
from .commit import decode_commit
from .commits import BAD, COMMIT, offset_commits
from .page import dearest_first
from .prices import measured_prices
from .standstills import standstills

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from .log import OffsetsLog


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """The bills of a cluster's groups, the most expensive first.

    Parameters
    ----------
    bad_records: offset commits that break their layout. bad_record: what is wrong with the first of them.
    """

    rows: Sequence[Mapping[str, Any]]
    prices: Mapping[tuple[str, str], Price]
    bad_records: int
    bad_record: str | None


def draw_up(
    spark: SparkSession,
    log: OffsetsLog,
    *,
    groups: Sequence[str] = (),
    from_ms: int = 0,
    sampled_at_ms: int | None = None,
) -> Bill:
    """Compute the bills.

    Parameters
    ----------
    groups: ids of interest; empty means all.
    from_ms: start of the window.
    sampled_at_ms: the present, to sample the ends of topics; None: no sample.
    """
    from pyspark.sql import functions as F

    with keeping() as keep:
        records = keep(log.records(spark))
        every = keep(offset_commits(records))
        is_wanted = F.col("group_id").isin(list(groups)) if groups else F.lit(True)
        commits = every.where(is_wanted & (F.col("kind") == COMMIT) & (F.col("timestamp_ms") >= from_ms - CONTEXT_MS))
        caused = keep(causes(records).where(is_wanted))
        recent = caused.where(F.col("at_ms") >= from_ms)
        stood = keep(standstills(commits, recent, log.kafka_cluster_id, keep=keep))
        ends = None
        if sampled_at_ms is not None:
            topics = [row["topic"] for row in commits.select("topic").distinct().toLocalIterator()]
            ends = log.end_offsets(spark, topics, sampled_at_ms)
        found = bills(commits, caused, stood, log.kafka_cluster_id, end_offsets=ends, from_ms=from_ms).collect()
        bad = every.where(F.col("kind") == BAD)
        number = bad.count()
        return Bill(
            rows=dearest_first([row.asDict() for row in found]),
            prices=measured_prices(stood),
            bad_records=number,
            bad_record=_why(records, bad) if number else None,
        )


@contextmanager
def keeping() -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Persist frames, and unpersist them at the end."""
    kept: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame.persist())
        return kept[-1]

    try:
        yield keep
    finally:
        # In reverse: unpersisting a frame makes Spark plan all frames that depend on it again, which takes minutes.
        for frame in reversed(kept):
            frame.unpersist()


def _why(records: DataFrame, bad: DataFrame) -> str:
    """Return what is wrong with the first bad record, from the plain decoder."""
    from pyspark.sql import functions as F

    place = bad.orderBy("log_partition", "log_offset").first()
    assert place is not None
    at = (F.col("partition") == place["log_partition"]) & (F.col("offset") == place["log_offset"])
    row = records.where(at).first()
    assert row is not None
    name = f"partition {place['log_partition']}, offset {place['log_offset']}"
    try:
        decode_commit(bytes(row["key"]), None if row["value"] is None else bytes(row["value"]))
    except ValueError as error:
        return f"{name}: {error}"
    return name
