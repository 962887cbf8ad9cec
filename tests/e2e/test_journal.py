"""The journal's topic on a real broker: complete, in order, exactly once, with the least rights, and through an
outage."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from journal.records import MemberFenced, group_record, read, write
from journal.sinks.kafka import KafkaSink, librdkafka
from staticgroup.api.resources.sasl import SaslMechanism
from staticgroup.kafka.login.credentials import ConnectionSettings, SaslSettings, SecretText, TlsSettings
from support.devcluster import kafka_broker
from support.devcluster.kafka_admin import BrokerAdmin
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_config import BrokerSettings

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

NAME = f"pytest-{hashlib.sha256(str(Path(__file__).resolve()).encode()).hexdigest()[:6]}-journal"
PASSWORDS = {"admin": "admin-canary-2817", "writer": "writer-canary-2817", "nobody": "nobody-canary-2817"}
PARTITIONS = 4


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    kafka_broker.down(NAME)
    running = Brokers.up(BrokerSettings(name=NAME, profile="fast", security=True, users=PASSWORDS))
    yield running
    running.down()
    assert kafka_broker.leftovers(NAME) == []


@pytest.fixture
def topic(brokers: Brokers, request: pytest.FixtureRequest) -> str:
    name = f"journal-{hashlib.sha256(request.node.name.encode()).hexdigest()[:8]}"
    BrokerAdmin(brokers.bootstrap).create_topic(name, PARTITIONS)
    return name


def line(group: int, seq: int) -> tuple[str, str]:
    """Return the key and the line of one record."""
    data = MemberFenced(
        operator_id="op", seq=seq, observed_at_ms=seq, kafka_cluster_id="kc", group_id=f"g{group}", namespace="n",
        static_group="s", workload="w", protocol="Classic", instance_id="i", member_id=f"m{seq}",
    )  # fmt: skip
    record = group_record("k8s", f"kc/g{group}/m{seq}/fenced", data)
    return record.partitionkey, write(record)


def sink_to(settings: ConnectionSettings, topic: str, dropped: list[tuple[str, int]]) -> KafkaSink:
    async def settings_of(key: tuple[str, str]) -> ConnectionSettings:
        return settings

    return KafkaSink(
        connection=("ops", "kafka"), topic=topic, settings_of=settings_of, queue_max=10_000,
        on_drop=lambda reason, count: dropped.append((reason, count)), make_producer=librdkafka(),
    )  # fmt: skip


def plain(brokers: Brokers) -> ConnectionSettings:
    return ConnectionSettings(bootstrap_servers=tuple(brokers.bootstrap.split(",")), allow_loopback=True)


def login(brokers: Brokers, user: str) -> ConnectionSettings:
    return ConnectionSettings(
        bootstrap_servers=tuple(brokers.sasl_bootstrap.split(",")), tls=TlsSettings(ca_pem=brokers.ca_path.read_text()),
        sasl=SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_512, username=user, password=SecretText(PASSWORDS[user])),
        allow_loopback=True,
    )  # fmt: skip


def consumed(brokers: Brokers, topic: str) -> list[tuple[int, str, str]]:
    """Return (partition, key, value) of everything in a topic, by partition and offset."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": brokers.bootstrap, "group.id": "reader", "enable.partition.eof": True}
    )
    assigned = [confluent_kafka.TopicPartition(topic, p, confluent_kafka.OFFSET_BEGINNING) for p in range(PARTITIONS)]
    consumer.assign(assigned)
    found: list[tuple[int, int, str, str]] = []
    at_end: set[int] = set()
    while len(at_end) < PARTITIONS:
        message = consumer.poll(30)
        assert message is not None, "the broker is silent"
        if message.error() is not None:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
            at_end.add(message.partition())
            continue
        found.append((message.partition(), message.offset(), message.key().decode(), message.value().decode()))
    consumer.close()
    return [(partition, key, value) for partition, _, key, value in sorted(found)]


def seqs_by_key(found: list[tuple[int, str, str]]) -> dict[str, list[int]]:
    by_key: dict[str, list[int]] = {}
    for _, key, value in found:
        record = read(value)
        assert record.partitionkey == key
        by_key.setdefault(key, []).append(record.data.seq)
    return by_key


async def test_records_of_a_group_are_in_one_partition_complete_and_in_order(brokers: Brokers, topic: str) -> None:
    dropped: list[tuple[str, int]] = []
    sink = sink_to(plain(brokers), topic, dropped)
    await sink.turn()
    assert all(sink.offer(*line(seq % 7, seq)) for seq in range(2_000))
    await sink.close()
    found = consumed(brokers, topic)
    assert seqs_by_key(found) == {f"kc/g{n}": list(range(n, 2_000, 7)) for n in range(7)}
    assert len({(partition, key) for partition, key, _ in found}) == 7
    assert dropped == []


async def test_outage_delays_records_and_neither_loses_nor_repeats_any(brokers: Brokers, topic: str) -> None:
    """KIP-98: records in flight when the broker died are sent again and kept once."""
    dropped: list[tuple[str, int]] = []
    sink = sink_to(plain(brokers), topic, dropped)
    await sink.turn()
    for seq in range(500):
        assert sink.offer(*line(0, seq))
    await asyncio.to_thread(brokers.kill, 1)
    for seq in range(500, 1_000):
        assert sink.offer(*line(0, seq))
    await sink.turn()
    await asyncio.to_thread(brokers.restart, 1)
    producer = sink._producer
    assert producer is not None
    assert await asyncio.to_thread(producer.flush, 120) == 0
    await sink.close()
    assert seqs_by_key(consumed(brokers, topic)) == {"kc/g0": list(range(1_000))}
    assert dropped == []


async def test_writer_needs_write_on_the_topic_and_nothing_else(brokers: Brokers, topic: str) -> None:
    """KIP-679: no IDEMPOTENT_WRITE on the cluster since 2.8; WRITE implies DESCRIBE."""
    admin = BrokerAdmin(brokers.bootstrap)
    admin.allow("writer", "WRITE", "topic", topic)
    dropped: list[tuple[str, int]] = []
    sink = sink_to(login(brokers, "writer"), topic, dropped)
    await sink.turn()
    assert sink.offer(*line(0, 0))
    await sink.close()
    assert seqs_by_key(consumed(brokers, topic)) == {"kc/g0": [0]}
    assert dropped == []


async def test_writer_without_the_right_loses_records_and_says_so(
    brokers: Brokers, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    dropped: list[tuple[str, int]] = []
    sink = sink_to(login(brokers, "nobody"), topic, dropped)
    await sink.turn()
    assert sink.offer(*line(0, 0))
    await sink.close()
    assert sum(count for _, count in dropped) == 1
    assert consumed(brokers, topic) == []
    logged = json.dumps([str(record.__dict__) for record in caplog.records])
    assert not any(secret in logged for secret in PASSWORDS.values())
