"""A Kafka source for Spark in Python, with the options and columns of Spark's own.

Why: Spark's own source is a jar (`spark-sql-kafka-0-10`) that is not in the wheel; its newest release is for Spark
4.2.0, and 4.3 has none. The wheel alone must suffice. With the jar only the name of the format changes: the columns,
`subscribe`, `startingOffsets`, `endingOffsets` and `failOnDataLoss` mean the same. `kafka.*` are librdkafka's names
here.

The one idea: a batch is a set of offset ranges, fixed before anything is read; a task reads one range of one partition
(see topic.py). There is no streaming source: each run ingests new records exactly once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from fleet_learner import schemas

from .topic import EARLIEST, LATEST, Offsets, Range, TopicReader, ranges, resolve

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT: Final = "staticgroup-kafka"


class RangePartition(InputPartition):
    """One range, which one task reads."""

    def __init__(self, wanted: Range) -> None:
        super().__init__(wanted)
        self.range = wanted


@dataclass(frozen=True)
class Connection:
    """The parsed options, in a form that can be sent to tasks.

    Parameters
    ----------
    topics: of `subscribe`, separated by commas.
    settings: librdkafka's, from the options that begin with `kafka.`.
    """

    topics: tuple[str, ...]
    settings: tuple[tuple[str, str], ...]
    fail_on_data_loss: bool
    stall_timeout_ms: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Connection:
        """Read the options.

        Raises
        ------
        ValueError: the broker or the topic is missing.
        """
        settings = {name[6:]: value for name, value in options.items() if name.startswith("kafka.")}
        topics = tuple(sorted({t.strip() for t in options.get("subscribe", "").split(",")} - {""}))
        if "bootstrap.servers" not in settings or not topics:
            raise ValueError("the options kafka.bootstrap.servers and subscribe are needed")
        return cls(
            topics=topics,
            settings=tuple(sorted(settings.items())),
            fail_on_data_loss=options.get("failondataloss", "true").lower() == "true",
            stall_timeout_ms=int(options.get("kafkaconsumer.polltimeoutms", "120000")),
        )

    def open(self) -> TopicReader:
        """Connect, or reuse this process's connection: Python workers survive a task."""
        if self not in _READERS:
            _READERS[self] = TopicReader(
                dict(self.settings),
                fail_on_data_loss=self.fail_on_data_loss,
                stall_timeout_ms=self.stall_timeout_ms,
            )
        return _READERS[self]

    def drop(self) -> None:
        """Close this process's connection after a failure."""
        reader = _READERS.pop(self, None)
        if reader is not None:
            reader.close()


_READERS: dict[Connection, TopicReader] = {}


def parse_offsets(text: str) -> Offsets | int:
    """Read `earliest`, `latest` or the JSON of offsets, as the JVM source takes them."""
    if text in {"earliest", "latest"}:
        return EARLIEST if text == "earliest" else LATEST
    return {topic: {int(p): int(offset) for p, offset in parts.items()} for topic, parts in json.loads(text).items()}


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Return offsets with partitions as text, as a checkpoint or a plan stores them."""
    return {t: {str(p): parts[p] for p in sorted(parts)} for t, parts in sorted(offsets.items())}


def from_json(offsets: Mapping[str, Mapping[str, int]]) -> dict[str, dict[int, int]]:
    """Parse the output of `to_json`."""
    return {topic: {int(p): offset for p, offset in parts.items()} for topic, parts in offsets.items()}


def read_range(connection: Connection, wanted: Range) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range as Arrow batches with the columns of the JVM source."""
    try:
        for messages in connection.open().read(wanted):
            yield _batch(messages)
    except Exception:
        connection.drop()
        raise


def _batch(messages: Sequence[Any]) -> pa.RecordBatch:
    import pyarrow as pa

    stamps = [message.timestamp() for message in messages]
    columns = [
        [message.key() for message in messages],
        [message.value() for message in messages],
        [message.topic() for message in messages],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [max(ms, 0) * 1000 for _, ms in stamps],
        [kind - 1 for kind, _ in stamps],  # librdkafka counts from 1 what Kafka's TimestampType counts from 0
    ]
    fields = schemas.KAFKA.arrow
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)], schema=fields
    )


class KafkaBatchReader(DataSourceReader):
    """Read the ranges between `startingOffsets` and `endingOffsets` as of planning."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.connection = Connection.of(options)
        self.start = parse_offsets(options.get("startingoffsets", "earliest"))
        self.end = parse_offsets(options.get("endingoffsets", "latest"))

    def partitions(self) -> Sequence[InputPartition]:
        """Return one task for each partition with records."""
        reader = self.connection.open()
        logs = reader.watermarks(self.connection.topics)
        self.connection.drop()
        if not isinstance(self.end, int):  # exactly the given partitions
            logs = {t: {p: w for p, w in parts.items() if p in self.end.get(t, {})} for t, parts in logs.items()}
        return [RangePartition(r) for r in ranges(resolve(self.start, logs), resolve(self.end, logs))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range."""
        if not isinstance(partition, RangePartition):
            return iter(())  # Spark invents a partition if a source has none
        return read_range(self.connection, partition.range)


class KafkaSource(DataSource):
    """The source itself; `register` makes it known to a session."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of the JVM source."""
        return schemas.KAFKA.spark

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader."""
        return KafkaBatchReader(joined(self.options))


def joined(*options: Mapping[str, str]) -> dict[str, str]:
    """Merge sets of options, with names in lower case as in Spark; of two equal names the later one wins."""
    return {name.lower(): value for each in options for name, value in each.items()}


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("staticgroup-kafka")` work in this session."""
    spark.dataSource.register(KafkaSource)


def load(spark: SparkSession, *options: Mapping[str, str]) -> DataFrame:
    """Return the records for some options, with the columns of the JVM source; later options win."""
    register(spark)
    return spark.read.format(FORMAT).options(**joined(*options)).load()
