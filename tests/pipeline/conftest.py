"""One Spark session for all pipeline tests, and Kafka topics on a broker that librdkafka simulates.

A session costs 6 s and half a gigabyte, so all tests share it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

OPERATOR = Path(__file__).parents[2] / "operator"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.pipeline)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return the session: two cores, minimal memory, without the adaptive planner, so that plans are executed as
    shown."""
    from fleet_learner.session import new_session

    os.environ["PYTHONPATH"] = os.pathsep.join([str(OPERATOR), str(OPERATOR.parent / "tests")])
    session = new_session(
        "tests",
        master="local[2]",
        settings={
            "spark.sql.shuffle.partitions": "2", "spark.databricks.delta.snapshotPartitions": "1",
            "spark.sql.adaptive.enabled": "false", "spark.driver.memory": "1g",
            # The tables are tiny: the optimizing compiler costs both cores more than it gains.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        },
    )  # fmt: skip
    yield session
    session.stop()


class Topics:
    """A simulated broker: topics of four partitions, kept in memory."""

    def __init__(self) -> None:
        from confluent_kafka import Producer

        # The producer's handle keeps the mock cluster alive; its address is in the metadata.
        self._producer = Producer({"bootstrap.servers": "ignored", "test.mock.num.brokers": "1"})
        brokers = self._producer.list_topics(timeout=10).brokers
        self.bootstrap = ",".join(f"{b.host}:{b.port}" for b in brokers.values())

    def produce(self, topic: str, records: Sequence[tuple[int, bytes | None, bytes | None]]) -> None:
        """Append (partition, key, value) in this order, with the record's index as its time in milliseconds."""
        for index, (partition, key, value) in enumerate(records):
            self._producer.produce(
                topic, value=value, key=key, partition=partition, timestamp=1_700_000_000_000 + index
            )
            self._producer.poll(0)
        assert self._producer.flush(30) == 0


@pytest.fixture(scope="session")
def topics() -> Topics:
    return Topics()
