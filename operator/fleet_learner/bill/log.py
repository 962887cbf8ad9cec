"""Open the log of a cluster for a bill, or report in one line what is missing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from fleet_learner.errors import JobError, UnreachableError
from fleet_learner.sources import kafka
from fleet_learner.sources.topic import (
    EARLIEST,
    LATEST,
    NO_CREATION,
    Range,
    TopicReader,
    Watermarks,
    ranges,
    read_right,
    resolve,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TIMEOUT_S: Final = 30.0
END_OFFSETS: Final = "topic string, partition int, end_offset bigint, sampled_ms bigint"


class EmptyLogError(JobError):
    """The topic holds no record yet."""


class OffsetsLog:
    """The `__consumer_offsets` of one Kafka cluster.

    Parameters
    ----------
    options: of the Kafka source, with `kafka.bootstrap.servers`.
    topic: its name.

    Raises
    ------
    UnreachableError: no broker answers.
    JobError: the topic cannot be read, or is empty.
    """

    def __init__(self, options: Mapping[str, str], topic: str) -> None:
        self._topic = topic
        self._options = kafka.joined(options, {"subscribe": topic})
        self._settings: dict[str, Any] = dict(kafka.Connection.of(self._options).settings)
        self.kafka_cluster_id = self._looked_up()
        self.topic_id: str | None = None
        self._logs = self._readable()

    def _looked_up(self) -> str:
        """Return the cluster's id, after checking that the topic exists and may be described."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AdminClient

        servers = self._settings["bootstrap.servers"]
        try:
            found = AdminClient({**self._settings, **NO_CREATION}).list_topics(self._topic, timeout=_TIMEOUT_S)
        except KafkaException as error:
            raise UnreachableError(f"{servers} does not answer: {error.args[0].str()}") from error
        trouble = found.topics[self._topic].error
        if trouble is not None and trouble.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise self._refused()
        if trouble is not None:
            raise JobError(
                f"{servers} shows no topic {self._topic}: some managed services hide it, and a cluster in which "
                "nothing was committed yet has none"
            )
        return str(found.cluster_id)

    def _refused(self) -> JobError:
        return JobError(f"no right to read {self._topic}: {read_right(self._topic)}")

    def _readable(self) -> dict[int, Watermarks]:
        """Return the offsets as of now, after reading the first records to check the right to read."""
        from confluent_kafka import KafkaError, KafkaException

        reader = TopicReader(self._settings)
        try:
            logs = reader.watermarks((self._topic,))
            self.topic_id = reader.identity((self._topic,)).topic_ids.get(self._topic)
            found = ranges(resolve(EARLIEST, logs), resolve(LATEST, logs))
            if not found:
                raise EmptyLogError(f"nothing is in {self._topic}")
            first = found[0]
            for _ in reader.read(Range(first.topic, first.partition, first.start, first.start + 1)):
                break
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise self._refused() from error
            raise UnreachableError(f"{self._topic} cannot be read: {error.args[0].str()}") from error
        finally:
            reader.close()
        return logs[self._topic]

    @property
    def records_max(self) -> int:
        """A bound on the number of records, holes included."""
        return sum(each.high - each.low for each in self._logs.values())

    @property
    def topic(self) -> str:
        """Its name."""
        return self._topic

    @property
    def starts(self) -> dict[int, int]:
        """Where each partition began when the log was opened."""
        return {partition: each.low for partition, each in self._logs.items()}

    @property
    def ends(self) -> dict[int, int]:
        """Where each partition ended when the log was opened."""
        return {partition: each.high for partition, each in self._logs.items()}

    def offsets_at(self, at_ms: int) -> dict[int, int]:
        """Return by partition the first offset that is not older than an instant; the end if all are older."""
        from confluent_kafka import KafkaException

        reader = TopicReader(self._settings)
        try:
            return {p: min(o, self.ends[p]) for p, o in reader.offsets_at(self._topic, self.ends, at_ms).items()}
        except KafkaException as error:
            raise UnreachableError(f"{self._topic} cannot be read: {error.args[0].str()}") from error
        finally:
            reader.close()

    def records(
        self, spark: SparkSession, start: Mapping[int, int] | None = None, end: Mapping[int, int] | None = None
    ) -> DataFrame:
        """Return records, by default all that existed when the log was opened.

        Parameters
        ----------
        start, end: offsets by partition; the partitions of `end` are read.
        """
        offsets = {
            "startingOffsets": json.dumps(kafka.to_json({self._topic: self.starts if start is None else start})),
            "endingOffsets": json.dumps(kafka.to_json({self._topic: self.ends if end is None else end})),
            # Only the beginning of the log can disappear meanwhile, and the bill finds out where the log is complete.
            "failOnDataLoss": "false",
        }
        return kafka.load(spark, self._options, offsets)

    def end_offsets(self, spark: SparkSession, topics: Iterable[str], now_ms: int) -> DataFrame:
        """Sample the ends of topics; a topic that may not be described, or is gone, is left out."""
        reader = TopicReader(self._settings)
        try:
            logs = reader.watermarks(tuple(topics))
        finally:
            reader.close()
        rows: list[Any] = [(t, p, log.high, now_ms) for t, parts in logs.items() for p, log in parts.items()]
        return spark.createDataFrame(rows, END_OFFSETS)
