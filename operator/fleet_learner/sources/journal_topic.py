"""Read the journal from its Kafka topic, in runs whose offsets the log of runs keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fleet_learner import schemas
from fleet_learner.errors import SourceError, UnreachableError

from . import kafka
from .topic import (
    EARLIEST,
    LATEST,
    DataLossError,
    Range,
    StalledError,
    TopicReader,
    Watermarks,
    limited,
    ranges,
    read_right,
    resolve,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class JournalTopic:
    """One topic, or several separated by commas.

    Parameters
    ----------
    options: of the source, without offsets: `kafka.bootstrap.servers`, `subscribe`, `failOnDataLoss`, ...
    records_per_run: an approximate upper bound; None reads all records.
    label: distinguishes topics of the same name in several Kafka clusters; "" with one cluster.
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

    def plan(self, start: Mapping[str, Any], log: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the offsets between which a run will read, the identity of their log (`log`), and what is `left_out`.

        Parameters
        ----------
        log: of the previous run; values that an earlier version did not note are taken from the present log.

        Raises
        ------
        DataLossError: the log is another one than before, or unread records are gone.
        SourceError: the topic is missing, or may not be read.
        UnreachableError: no broker answered.
        """
        known = kafka.from_json(start)
        with self._opened() as reader:
            logs = reader.watermarks(self.connection.topics)
            missing = [topic for topic, partitions in logs.items() if not partitions]
            if len(missing) == len(logs):
                raise SourceError(self._missing(missing[0]))
            now = self._identity(reader, known, log or {})
            logs = {topic: partitions for topic, partitions in logs.items() if partitions}
            begin, end = resolve(EARLIEST, logs), resolve(LATEST, logs)
            for topic, partitions in known.items():
                begin.setdefault(topic, {}).update(partitions)
                if topic not in logs:
                    end[topic] = partitions
            self._assert_there(reader, logs, begin, end)
        if self.records_per_run is not None:
            end = limited(begin, end, self.records_per_run)
        notes = {"left_out": [self._missing(topic) for topic in missing]} if missing else {}
        return {"start": kafka.to_json(begin), "end": kafka.to_json(end), "log": now, **notes}

    def recheck(self, plan: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an unfinished plan; raises like `plan` if it can no longer be carried out."""
        begin, end = kafka.from_json(plan["start"]), kafka.from_json(plan["end"])
        with self._opened() as reader:
            logs = reader.watermarks(self.connection.topics)
            for each in ranges(begin, end):
                if not logs.get(each.topic):
                    raise SourceError(self._missing(each.topic))
            self._identity(reader, begin, plan.get("log", {}))
            self._assert_there(reader, logs, begin, end)
        return plan

    @contextmanager
    def _opened(self) -> Iterator[TopicReader]:
        """Connect, and turn failures into errors with a remedy."""
        from confluent_kafka import KafkaException

        try:
            yield self.connection.open()
        except KafkaException as error:
            raise UnreachableError(f"{self.name}: {self._servers} does not answer: {error.args[0].str()}") from error
        except DataLossError as error:
            raise DataLossError(f"{self.name}: {error}") from error
        except StalledError as error:
            raise SourceError(f"{self.name}: {error}") from error
        finally:
            self.connection.drop()

    @property
    def _servers(self) -> str:
        return dict(self.connection.settings)["bootstrap.servers"]

    @property
    def _anew(self) -> str:
        """What to do about a replaced log."""
        place = (
            "another name below kafka_clusters"
            if self.label
            else "an entry with a name below kafka_clusters instead of kafka"
        )
        return (
            f"to read what is there from its beginning, give it {place}; "
            "what was read stays, and what is read twice counts once"
        )

    def _missing(self, topic: str) -> str:
        return (
            f"{self.name}: {self._servers} shows no topic {topic}: no operator has written to it yet, it has another "
            f"name (topic in the configuration), or the right to read it is missing: {read_right(topic)}"
        )

    def _identity(
        self, reader: TopicReader, known: Mapping[str, Mapping[int, int]], then: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the identity of the logs; refuses logs other than the previous run's."""
        now = reader.identity(self.connection.topics)
        cluster = then.get("kafka_cluster_id")
        if known and None not in (cluster, now.kafka_cluster_id) and cluster != now.kafka_cluster_id:
            raise DataLossError(
                f"{self._servers} is the Kafka cluster {now.kafka_cluster_id}, and {cluster} was read; {self._anew}"
            )
        ids = then.get("topic_ids", {})
        for topic in known:
            if topic in ids and now.topic_ids.get(topic, ids[topic]) != ids[topic]:
                raise DataLossError(f"the topic {topic} was made again since it was read; {self._anew}")
        return {"kafka_cluster_id": now.kafka_cluster_id or cluster, "topic_ids": {**ids, **now.topic_ids}}

    def _assert_there(
        self,
        reader: TopicReader,
        logs: Mapping[str, Mapping[int, Watermarks]],
        begin: Mapping[str, Mapping[int, int]],
        end: Mapping[str, Mapping[int, int]],
    ) -> None:
        """Refuse a log that lacks the planned records, or may not be read."""
        high = {topic: {p: each.high for p, each in partitions.items()} for topic, partitions in logs.items()}
        try:
            for offsets in (begin, end):
                ranges({topic: partitions for topic, partitions in offsets.items() if topic in logs}, high)
        except DataLossError as error:
            raise DataLossError(f"{error}: it was made again; {self._anew}") from error
        todo = ranges(begin, end)
        for each in todo:
            low = logs[each.topic][each.partition].low
            if each.start < low and self.connection.fail_on_data_loss:
                raise DataLossError(
                    f"{each.topic}-{each.partition} begins at {low} by now, and was read up to {each.start}: what lies "
                    "between is lost. "
                    'failOnDataLoss: "false" below its options reads what is left'
                )
        for first in {each.topic: each for each in reversed(todo)}.values():
            at = max(first.start, logs[first.topic][first.partition].low)
            if at < first.end:
                self._assert_handed_over(reader, replace(first, start=at, end=at + 1))

    def _assert_handed_over(self, reader: TopicReader, first: Range) -> None:
        """Read one record, because the right Describe shows a topic without the right to read it."""
        from confluent_kafka import KafkaError, KafkaException

        try:
            for _ in reader.read(first):
                break
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            raise SourceError(f"{self.name}: no right to read {first.topic}: {read_right(first.topic)}") from error

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
