"""Ingest as a stream: each micro-batch of a query is one run.

The one idea: `foreachBatch` is at least once, a run is exactly once by its plan, and the two meet in the batch's number.
Spark's checkpoint fixes which records belong to a number; the manifest says which number was taken in last. A batch that
comes again after a crash finds its own unfinished plan, or finds that it was published and does nothing.

One query to a warehouse: the checkpoint and the warehouse belong together, and are started again together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from fleet_learner.ingest import UNBOUNDED_MS, Horizon, OnStep, ingest
from fleet_learner.manifest import Warehouse

from . import kafka
from .journal_topic import of_kafka

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

_BATCH_ROWS: Final = 1_000_000


class MicroBatch:
    """One micro-batch as a source.

    Parameters
    ----------
    query: name of the query.
    batch_id: its number.
    records: with the columns of a Kafka source.
    rows_max: an upper bound of its rows, for the number of files.
    """

    def __init__(self, query: str, batch_id: int, records: DataFrame, rows_max: int) -> None:
        self.name = f"stream:{query}"
        self._batch_id = batch_id
        self._records = records
        self._rows_max = rows_max

    def plan(self, start: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the number of the batch as the end of its run.

        Raises
        ------
        ValueError: a batch is missing in between: the checkpoint is not this warehouse's.
        """
        expected = start["batch"] + 1 if start else 0
        if self._batch_id != expected:
            raise ValueError(
                f"{self.name}: batch {self._batch_id} follows {expected - 1}: not the checkpoint of this lake"
            )
        return {"start": dict(start), "end": {"batch": self._batch_id}}

    def records_max(self, plan: Mapping[str, Any]) -> int:
        """Return the bound that was given."""
        return self._rows_max

    def frame(self, spark: SparkSession, plan: Mapping[str, Any]) -> DataFrame:
        """Return the batch with the columns of bronze/events."""
        if plan["end"]["batch"] != self._batch_id:
            raise ValueError(f"{self.name}: batch {plan['end']['batch']} is unfinished, and {self._batch_id} came")
        return of_kafka(self._records)


def into(
    warehouse: Warehouse,
    query: str,
    *,
    rows_max: int = _BATCH_ROWS,
    horizon: Horizon | None = None,
    on_step: OnStep = lambda _: None,
) -> Callable[[DataFrame, int], None]:
    """Return what `foreachBatch` calls.

    Parameters
    ----------
    query: name of the query; part of what the manifest keeps.
    rows_max: an upper bound of a batch's rows.
    horizon, on_step: as of `ingest`.
    """

    def take(records: DataFrame, batch_id: int) -> None:
        batch = MicroBatch(query, batch_id, records, rows_max)
        latest = warehouse.latest()
        known = latest.plan.sources.get(batch.name, {}).get("end", {}) if latest is not None else {}
        if known.get("batch", -1) >= batch_id:
            return
        ingest(records.sparkSession, warehouse, [batch], as_of_ms=UNBOUNDED_MS, horizon=horizon, on_step=on_step)

    return take


def start(
    spark: SparkSession,
    warehouse: Warehouse,
    options: Mapping[str, str],
    *,
    checkpoint: Path,
    every: str | None = None,
    on_step: OnStep = lambda _: None,
) -> StreamingQuery:
    """Start taking in the journal's topic.

    Parameters
    ----------
    options: of the Kafka source; `startingOffsets` is `earliest` unless told.
    checkpoint: folder of the query; belongs to this warehouse.
    every: interval between batches, such as `5 minutes`; None takes in what is there and ends.
    """
    kafka.register(spark)
    query = f"journal-{options['subscribe']}"
    records = spark.readStream.format(kafka.FORMAT).options(**{"startingOffsets": "earliest", **options}).load()
    rows_max = int(options.get("maxOffsetsPerTrigger", _BATCH_ROWS))
    writer = records.writeStream.foreachBatch(into(warehouse, query, rows_max=rows_max, on_step=on_step))
    writer = writer.queryName(query).option("checkpointLocation", str(checkpoint))
    writer = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
    return writer.start()
