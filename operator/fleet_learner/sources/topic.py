"""Read exact ranges of offsets from Kafka topics, without a consumer group and without Spark.

The one idea: a range [start, end) is read until its end is *passed*, not until its last message is seen. Compaction and
transactions leave holes: offsets below `end` without a message. The end is passed when a message at or beyond it
arrives, or when the broker reports that the log is read up to it. Nothing is committed and no group is joined;
librdkafka requires a `group.id` nevertheless. Source: KafkaConsumer's contract for `isolation.level`; librdkafka's
`enable.partition.eof`; Spark's KafkaSourceRDD and its `failOnDataLoss` for what counts as loss.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleet_learner.errors import JobError, SourceError

Offsets = Mapping[str, Mapping[int, int]]
"""The next offset to read, by topic and partition."""
EARLIEST: Final = -2
LATEST: Final = -1
"""The values for the two ends of a log in the JSON of the JVM source."""
NO_CREATION: Final = {"allow.auto.create.topics": "false"}
"""For every client here: with the brokers' defaults a request for a topic would create it."""
_REQUEST_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.2
_BATCH_RECORDS: Final = 10_000


class DataLossError(SourceError):
    """Records that should be read are gone: retention was faster, or the topic or file was recreated."""


class StalledError(JobError):
    """A range was not read to its end in time."""


@dataclass(frozen=True, slots=True)
class Range:
    """The offsets [start, end) of one partition."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The log of one partition: [low, high)."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a log, to recognise another log at the same place.

    Parameters
    ----------
    kafka_cluster_id: None if the brokers report none.
    topic_ids: by topic, without unknown ones: brokers before 2.8 have none.
    """

    kafka_cluster_id: str | None
    topic_ids: Mapping[str, str]


class TopicReader:
    """A connection that returns offsets of topics and messages of ranges.

    Parameters
    ----------
    settings: librdkafka's settings, at least `bootstrap.servers`; `isolation.level` is `read_committed` by default.
    fail_on_data_loss: raise DataLossError if records are gone; False reads the remaining ones.
    stall_timeout_ms: longest time without progress in a range.
    """

    def __init__(
        self, settings: Mapping[str, str], *, fail_on_data_loss: bool = True, stall_timeout_ms: int = 120_000
    ) -> None:
        from confluent_kafka import Consumer

        self._fail_on_data_loss = fail_on_data_loss
        self._stall_timeout_s = stall_timeout_ms / 1000
        # A waiting fetch blocks the connection: the next range would begin half a second (its default) later.
        waits = {"fetch.wait.max.ms": "50"}
        defaults = {"group.id": "staticgroup-fleet-learner", "isolation.level": "read_committed", **waits}
        forced = {
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "auto.offset.reset": "error",
            **NO_CREATION,
        }
        self._settings: dict[str, Any] = {**settings, **NO_CREATION}
        self._consumer: Any = Consumer({**defaults, **settings, **forced})

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()

    def watermarks(self, topics: tuple[str, ...]) -> dict[str, dict[int, Watermarks]]:
        """Return the log of every partition.

        Returns
        -------
        A topic that does not exist (yet) has no partitions.

        Raises
        ------
        confluent_kafka.KafkaException: no broker answered in time.
        """
        from confluent_kafka import TopicPartition

        known = self._consumer.list_topics(timeout=_REQUEST_TIMEOUT_S).topics
        found: dict[str, dict[int, Watermarks]] = {}
        for topic in sorted(topics):
            partitions = sorted(known[topic].partitions) if topic in known and known[topic].error is None else []
            found[topic] = {}
            for partition in partitions:
                where = TopicPartition(topic, partition)
                low, high = self._consumer.get_watermark_offsets(where, timeout=_REQUEST_TIMEOUT_S)
                found[topic][partition] = Watermarks(low, high)
        return found

    def identity(self, topics: tuple[str, ...]) -> Identity:
        """Return the identity of the logs; values that brokers refuse to report are unknown.

        Raises
        ------
        confluent_kafka.KafkaException: no broker answered in time.
        """
        from confluent_kafka import KafkaException, TopicCollection
        from confluent_kafka.admin import AdminClient

        metadata = self._consumer.list_topics(timeout=_REQUEST_TIMEOUT_S)
        found: dict[str, str] = {}
        if metadata.controller_id in metadata.brokers:  # librdkafka asks the controller, and waits for one
            admin = AdminClient(self._settings)  # answers arrive only while it exists
            asked = admin.describe_topics(TopicCollection(list(topics)), request_timeout=_REQUEST_TIMEOUT_S)
            for topic, answer in asked.items():
                try:
                    uuid = answer.result().topic_id
                except KafkaException:
                    continue
                if uuid.get_most_significant_bits() or uuid.get_least_significant_bits():
                    found[topic] = str(uuid)
        return Identity(metadata.cluster_id, found)

    def offsets_at(self, topic: str, ends: Mapping[int, int], at_ms: int) -> dict[int, int]:
        """Return by partition the first offset whose record is not older than an instant, Unix milliseconds.

        Parameters
        ----------
        ends: the partitions of interest, with the result for a partition without such a record.

        Raises
        ------
        confluent_kafka.KafkaException: no broker answered in time.
        """
        from confluent_kafka import TopicPartition

        asked = [TopicPartition(topic, partition, at_ms) for partition in sorted(ends)]
        found = self._consumer.offsets_for_times(asked, timeout=_REQUEST_TIMEOUT_S)
        return {each.partition: each.offset if each.offset >= 0 else ends[each.partition] for each in found}

    def read(self, wanted: Range) -> Iterator[list[Any]]:
        """Yield the messages of a range in the order of their offsets, in lists.

        Raises
        ------
        DataLossError: part of the range is gone, and that is not allowed.
        StalledError: no progress for `stall_timeout_ms`.
        confluent_kafka.KafkaException: the broker refuses.
        """
        from confluent_kafka import TopicPartition

        start, end = self._left_of(wanted)
        if start >= end:
            return
        self._consumer.assign([TopicPartition(wanted.topic, wanted.partition, start)])
        try:
            yield from self._until(wanted, start, end)
        finally:
            self._consumer.unassign()

    def _left_of(self, wanted: Range) -> tuple[int, int]:
        log = self.watermarks((wanted.topic,))[wanted.topic].get(wanted.partition)
        if log is None:
            self._lost(f"{wanted} has no partition any more")
            return 0, 0
        if wanted.start < log.low:
            self._lost(f"{wanted}: the log begins at {log.low} by now")
        if wanted.end > log.high:
            self._lost(f"{wanted}: the log ends at {log.high}")
        return max(wanted.start, log.low), min(wanted.end, log.high)

    def _lost(self, text: str) -> None:
        if self._fail_on_data_loss:
            raise DataLossError(f"{text}; failOnDataLoss=false reads what is left")

    def _until(self, wanted: Range, start: int, end: int) -> Iterator[list[Any]]:
        position = start
        progress_s = time.monotonic()
        while position < end:
            # Never more than the range can hold: a full batch returns at once instead of after the timeout.
            events = self._consumer.consume(min(_BATCH_RECORDS, end - position), timeout=_POLL_S)
            messages = []
            for event in events:
                at = self._offset_after(event, wanted)
                if event.error() is None and event.offset() < end:
                    messages.append(event)
                position = max(position, at)
            if messages:
                yield messages
            now_s = time.monotonic()
            if events:
                progress_s = now_s
            elif now_s - progress_s > self._stall_timeout_s:
                raise StalledError(f"{wanted}: nothing beyond {position} for {self._stall_timeout_s:.0f} s")

    def _offset_after(self, event: Any, wanted: Range) -> int:
        """Return the offset up to which the log is read, by a message or by the broker's end-of-partition event."""
        from confluent_kafka import KafkaError, KafkaException

        error = event.error()
        if error is None:
            after: int = event.offset() + 1
            return after
        if error.code() == KafkaError._PARTITION_EOF:
            end: int = event.offset()
            return end
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return 0  # librdkafka looks up its group's coordinator anyway; reading needs no right on a group
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise DataLossError(f"{wanted}: retention took records away while they were read: {error}")
        raise KafkaException(error)


def read_right(topic: str) -> str:
    """Return the command that gives the right to read a topic."""
    return f"kafka-acls --add --allow-principal User:<name> --operation Read --topic {topic}"


def resolve(wanted: Offsets | int, logs: Mapping[str, Mapping[int, Watermarks]]) -> dict[str, dict[int, int]]:
    """Turn EARLIEST, LATEST and given offsets into offsets.

    Parameters
    ----------
    wanted: EARLIEST or LATEST for all, or by partition an offset or one of them; a missing partition starts at the
        beginning.
    """
    resolved: dict[str, dict[int, int]] = {}
    for topic, partitions in logs.items():
        resolved[topic] = {}
        for partition, log in partitions.items():
            offset = wanted if isinstance(wanted, int) else wanted.get(topic, {}).get(partition, EARLIEST)
            resolved[topic][partition] = {EARLIEST: log.low, LATEST: log.high}.get(offset, offset)
    return resolved


def ranges(start: Offsets, end: Offsets) -> list[Range]:
    """Return the ranges between two sets of offsets, sorted; a partition that is new in `end` is read from 0.

    Raises
    ------
    DataLossError: a partition of `start` is missing in `end`, or goes backwards.
    """
    for topic, partitions in start.items():
        for partition, offset in partitions.items():
            if end.get(topic, {}).get(partition, -1) < offset:
                raise DataLossError(f"{topic}-{partition} was read up to {offset}, and now ends before it")
    found = [
        Range(topic, partition, start.get(topic, {}).get(partition, 0), offset)
        for topic, partitions in end.items()
        for partition, offset in partitions.items()
    ]
    return sorted((r for r in found if r.start < r.end), key=lambda r: (r.topic, r.partition))


def limited(start: Offsets, end: Offsets, records_max: int) -> dict[str, dict[int, int]]:
    """Return an end not more than about `records_max` offsets after the start, shared in proportion to the lag.

    Every partition with records advances by at least one, so that a small limit starves none.
    """
    lags = {(r.topic, r.partition): r.end - r.start for r in ranges(start, end)}
    total = sum(lags.values())
    result = {topic: dict(partitions) for topic, partitions in end.items()}
    if total > records_max:
        for (topic, partition), lag in lags.items():
            share = max(1, lag * records_max // total)
            result[topic][partition] = start.get(topic, {}).get(partition, 0) + share
    return result
