"""Rights on a log, with a real broker that denies by default: one right suffices, and errors name it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from fleet_learner.bill.log import OffsetsLog
from fleet_learner.errors import JobError, SourceError
from fleet_learner.sources.journal_topic import JournalTopic
from fleet_learner.sources.offsets_topic import TOPIC
from fleet_learner.sources.topic import TopicReader, ranges, resolve
from support.devcluster.kafka_admin import BrokerAdmin
from support.devcluster.kafka_broker import Brokers, down
from support.devcluster.kafka_config import BrokerSettings
from support.waiting import until

pytestmark = [pytest.mark.broker, pytest.mark.long]
NAME = f"bill-log-{os.getpid()}"
PASSWORDS = {"admin": "admin-canary-6612", "reader": "reader-canary-6612"}


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    """Run a broker with rights; a group without members has committed."""
    down(NAME)
    running = Brokers.up(BrokerSettings(name=NAME, security=True, users=PASSWORDS))
    try:
        admin = BrokerAdmin(running.bootstrap)
        admin.create_topic("orders", partitions=2)
        for offset in range(5):
            admin.commit_offsets("plain", "orders", {0: offset, 1: offset})
        yield running
    finally:
        running.down()


def test_read_on_the_topic_is_needed_and_is_enough(brokers: Brokers) -> None:
    options = {
        "kafka.bootstrap.servers": brokers.sasl_bootstrap, "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256", "kafka.sasl.username": "reader",
        "kafka.sasl.password": PASSWORDS["reader"], "kafka.ssl.ca.location": str(brokers.ca_path),
        "kafka.log_level": "0",
    }  # fmt: skip
    admin = BrokerAdmin(brokers.bootstrap)
    with pytest.raises(
        JobError, match=r"no right to read __consumer_offsets: kafka-acls --add .* --operation Read"
    ) as none:
        OffsetsLog(options, TOPIC)
    assert PASSWORDS["reader"] not in str(none.value)
    admin.allow("reader", "DESCRIBE", "topic", TOPIC)
    with pytest.raises(JobError, match=r"no right to read __consumer_offsets: "):
        OffsetsLog(options, TOPIC)
    admin.withdraw("reader")
    admin.allow("reader", "READ", "topic", TOPIC)
    log = OffsetsLog(options, TOPIC)
    assert log.kafka_cluster_id
    reader = TopicReader({name.removeprefix("kafka."): value for name, value in options.items()})
    logs = reader.watermarks((TOPIC,))
    read = sum(len(batch) for each in ranges(resolve(-2, logs), resolve(-1, logs)) for batch in reader.read(each))
    reader.close()
    assert read == log.records_max == 10


def test_brokers_tell_a_topic_that_was_made_again_from_the_first_one(brokers: Brokers) -> None:
    admin = BrokerAdmin(brokers.bootstrap)
    topic = JournalTopic({"kafka.bootstrap.servers": brokers.bootstrap, "subscribe": "journal"})
    admin.create_topic("journal", partitions=2)
    read = topic.plan({})
    assert topic.plan(read["end"], read["log"]) == topic.recheck(read) == read
    admin.delete_topic("journal")
    until(lambda: "journal" not in admin.topics(), deadline_s=30, what="the topic is gone")
    admin.create_topic("journal", partitions=2)
    with pytest.raises(SourceError, match="made again since it was read"):
        topic.plan(read["end"], read["log"])
