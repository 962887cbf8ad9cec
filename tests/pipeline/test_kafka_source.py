"""The Kafka source in Python: exact ranges, and what happens when records are gone.

The broker here is librdkafka's simulation: four partitions, about 5 MB kept of each. Holes, transactions and compaction
need a real one: see test_offsets_topic.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fleet_learner import jobs, schemas
from fleet_learner.bill.log import OffsetsLog
from fleet_learner.configuration import Configuration, KafkaJournal
from fleet_learner.errors import JobError
from fleet_learner.sources import kafka
from fleet_learner.sources.journal_topic import JournalTopic
from fleet_learner.sources.topic import DataLossError, Range, TopicReader
from pipeline.conftest import Topics


def options(topics: Topics, topic: str, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic, **more}


def loaded(spark: Any, topics: Topics, topic: str, **more: str) -> Any:
    kafka.register(spark)
    return spark.read.format(kafka.FORMAT).options(**options(topics, topic, **more)).load()


def fill(topics: Topics, topic: str, count: int) -> None:
    """Put numbered records into the topic, one partition after the other."""
    topics.produce(topic, [(n % 4, b"k%d" % n, b"v%d" % n) for n in range(count)])


def values(rows: list[Any]) -> list[int]:
    return sorted(int(bytes(row["value"])[1:]) for row in rows)


def test_a_batch_has_the_columns_and_the_content_of_the_jvm_source(spark: Any, topics: Topics) -> None:
    fill(topics, "columns", 8)
    topics.produce("columns", [(0, None, None)])
    frame = loaded(spark, topics, "columns")
    assert frame.schema == schemas.KAFKA.spark
    rows = sorted(frame.collect(), key=lambda row: (row["partition"], row["offset"]))
    assert [(r["partition"], r["offset"]) for r in rows] == [
        (0, 0),
        (0, 1),
        (0, 2),
        *((p, o) for p in (1, 2, 3) for o in (0, 1)),
    ]
    first, tombstone = rows[0], rows[2]
    assert (bytes(first["key"]), bytes(first["value"]), first["topic"]) == (b"k0", b"v0", "columns")
    assert (first["timestamp"].timestamp(), first["timestampType"]) == (1_700_000_000.0, 0)
    assert (tombstone["key"], tombstone["value"]) == (None, None)


def test_only_the_named_offsets_are_read(spark: Any, topics: Topics) -> None:
    fill(topics, "ranges", 40)
    wanted = {
        "startingOffsets": json.dumps({"ranges": {"0": 3, "1": -2, "2": 9, "3": 10}}),
        "endingOffsets": json.dumps({"ranges": {"0": 5, "1": 2, "2": -1, "3": 10}}),
    }
    assert values(loaded(spark, topics, "ranges", **wanted).collect()) == sorted([12, 16, 1, 5, 38])


def test_a_range_without_offsets_has_no_records(spark: Any, topics: Topics) -> None:
    """Spark invents a partition for a source without any; it must not be read."""
    fill(topics, "idle", 4)
    ends = json.dumps({"idle": {"0": 1, "1": 1, "2": 1, "3": 1}})
    assert loaded(spark, topics, "idle", startingOffsets=ends, endingOffsets=ends).collect() == []


def test_nothing_that_looks_for_a_topic_makes_it(topics: Topics) -> None:
    """Brokers create a topic that a producer's or an admin client's handle requests, whatever the configuration."""
    settings = options(topics, "mistyped", **{"kafka.allow.auto.create.topics": "true"})
    for look in (lambda: OffsetsLog(settings, "mistyped"), lambda: JournalTopic(settings).plan({})):
        with pytest.raises(JobError, match="shows no topic mistyped"):
            look()
    reader = TopicReader({"bootstrap.servers": topics.bootstrap})
    assert reader.watermarks(("mistyped",)) == {"mistyped": {}}
    reader.close()


def test_an_audit_of_a_log_that_is_not_there_says_so_before_it_begins(topics: Topics, tmp_path: Path) -> None:
    """Without its records every group of the journal would seem to differ."""
    configuration = Configuration(root=str(tmp_path), kafka=KafkaJournal(bootstrap_servers=topics.bootstrap))
    with pytest.raises(JobError, match="shows no topic mistyped"):
        jobs.audit(
            configuration, kafka_cluster_id="k", offsets_topic="mistyped", groups=[], from_ms=0, tolerance_ms=0,
            json_file=None,
        )  # fmt: skip


def test_records_that_retention_took_are_an_error_unless_that_is_allowed(topics: Topics) -> None:
    """Spark's `failOnDataLoss`; the simulated broker keeps 5 MB."""
    topics.produce("loss", [(0, None, b"v" * 1000) for _ in range(8_000)])
    settings = {"bootstrap.servers": topics.bootstrap}
    strict = TopicReader(settings)
    log = strict.watermarks(("loss",))["loss"][0]
    assert 0 < log.low < log.high == 8_000
    with pytest.raises(DataLossError, match=f"the log begins at {log.low}"):
        list(strict.read(Range("loss", 0, 0, 8_000)))
    with pytest.raises(DataLossError, match="the log ends at 8000"):
        list(strict.read(Range("loss", 0, 7_999, 8_001)))
    with pytest.raises(DataLossError, match="no partition any more"):
        list(strict.read(Range("loss", 99, 0, 1)))
    lax = TopicReader(settings, fail_on_data_loss=False)
    offsets = [message.offset() for batch in lax.read(Range("loss", 0, 0, 9_000)) for message in batch]
    assert offsets == list(range(log.low, 8_000))
    strict.close()
    lax.close()


def test_one_reader_reads_one_range_after_the_other_exactly(topics: Topics) -> None:
    fill(topics, "again", 400)
    reader = TopicReader({"bootstrap.servers": topics.bootstrap})
    for start, end in ((90, 100), (0, 7), (7, 8), (50, 50), (8, 90)):
        offsets = [m.offset() for batch in reader.read(Range("again", 1, start, end)) for m in batch]
        assert offsets == list(range(start, end))
    reader.close()


class Session:
    """A session that notes the options of what is read, and reads nothing."""

    def __init__(self) -> None:
        self.read_options: dict[str, str] = {}
        self.read, self.dataSource = self, SimpleNamespace(register=lambda _: None)

    def format(self, _: str) -> Session:
        return self

    def options(self, **read_options: str) -> Session:
        self.read_options = read_options
        return self

    def load(self) -> None:
        return None


def test_an_option_that_a_command_sets_itself_may_stand_in_the_configuration_in_any_case(topics: Topics) -> None:
    """Names of Spark's options are case-insensitive, and the command's option wins."""
    fill(topics, "log", 4)
    session = Session()
    kafka.load(cast("Any", session), options(topics, "log", STARTINGOFFSETS="latest"), {"startingOffsets": "earliest"})
    assert session.read_options == {**options(topics, "log"), "startingoffsets": "earliest"}
    for name in ("failOnDataLoss", "FAILONDATALOSS", "Subscribe", "endingOffsets", "Kafka.Bootstrap.Servers"):
        log = OffsetsLog({name: "true", **options(topics, "other")}, "log")
        log.records(cast("Any", session))
        assert (session.read_options["failondataloss"], session.read_options["subscribe"]) == ("false", "log")
        assert json.loads(session.read_options["endingoffsets"]) == {"log": {"0": 1, "1": 1, "2": 1, "3": 1}}


def test_options_are_checked_before_anything_starts() -> None:
    with pytest.raises(ValueError, match=r"kafka\.bootstrap\.servers and subscribe"):
        kafka.Connection.of({"subscribe": "t"})
    with pytest.raises(ValueError, match=r"kafka\.bootstrap\.servers and subscribe"):
        kafka.Connection.of({"kafka.bootstrap.servers": "b:1", "subscribe": " , "})
