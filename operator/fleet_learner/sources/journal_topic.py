"""Read the journal from its Kafka topic, in runs whose offsets the warehouse keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fleet_learner import schemas
from fleet_learner.errors import UnreachableError

from . import kafka
from .topic import EARLIEST, LATEST, limited, ranges, resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class JournalTopic:
    """One topic, or several separated by commas.

    Parameters
    ----------
    options: of the source, without offsets: `kafka.bootstrap.servers`, `subscribe`, `failOnDataLoss`, ...
    records_per_run: an upper bound that is kept about; None reads all there is.
    label: tells topics of the same name in several Kafka clusters apart; "" where there is one.
    """

    def __init__(self, options: Mapping[str, str], records_per_run: int | None = None, label: str = "") -> None:
        self.label = label
        self.options = kafka.joined(options)
        self.connection = kafka.Connection.of(self.options)
        self.records_per_run = records_per_run

    @property
    def name(self) -> str:
        """Return the name under which runs keep this source's offsets."""
        return f"kafka{'/' if self.label else ''}{self.label}:{','.join(self.connection.topics)}"

    def plan(self, start: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the offsets between which a run will read.

        Raises
        ------
        DataLossError: what was read already is no longer the same log.
        UnreachableError: no broker answered.
        """
        from confluent_kafka import KafkaException

        try:
            logs = self.connection.open().watermarks(self.connection.topics)
        except KafkaException as error:
            servers = dict(self.connection.settings)["bootstrap.servers"]
            raise UnreachableError(f"{self.name}: {servers} does not answer: {error.args[0].str()}") from error
        finally:
            self.connection.drop()
        known = kafka.from_json(start)
        begin = resolve(EARLIEST, logs)
        for topic, partitions in known.items():
            begin.setdefault(topic, {}).update(partitions)
        end = resolve(LATEST, logs)
        ranges(begin, end)  # refuses a log that went backwards
        if self.records_per_run is not None:
            end = limited(begin, end, self.records_per_run)
        return {"start": kafka.to_json(begin), "end": kafka.to_json(end)}

    def frame(self, spark: SparkSession, plan: Mapping[str, Any]) -> DataFrame:
        """Return the records of a plan, with the columns of bronze/events."""
        if plan["start"] == plan["end"]:
            return spark.createDataFrame([], schemas.EVENTS.spark_nullable)
        offsets = {"startingOffsets": json.dumps(plan["start"]), "endingOffsets": json.dumps(plan["end"])}
        return of_kafka(kafka.load(spark, self.options, offsets))


def of_kafka(records: DataFrame) -> DataFrame:
    """Turn the columns of a Kafka source (ours or the JVM's) into those of bronze/events."""
    from pyspark.sql import functions as F

    return records.select(
        F.col("value").alias("raw"),
        "topic",
        "partition",
        "offset",
        F.unix_millis("timestamp").alias("timestamp_ms"),
        F.lit(None).cast("string").alias("file"),
    ).select(*schemas.EVENTS.names)
