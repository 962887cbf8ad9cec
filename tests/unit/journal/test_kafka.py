"""The journal's topic: settings of the producer, and records while brokers, room or secrets are missing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from journal.sinks import kafka, sinks_of
from journal.sinks.kafka import KafkaSink, MissingLibraryError, configuration_of, librdkafka
from staticgroup.api.resources.sasl import SaslMechanism
from staticgroup.core.group import KafkaProblem, KafkaProblemKind
from staticgroup.kafka.login.credentials import ConnectionSettings, OAuthSettings, SaslSettings, SecretText, TlsSettings
from staticgroup.runtime.process.metrics import Metrics
from unit.runtime.operator_world import CANARY

PLAIN = ConnectionSettings(bootstrap_servers=("b1:9092", "b2:9092"))
MISSING = KafkaProblem(kind=KafkaProblemKind.CONNECTION_MISSING, message="KafkaConnection ops/kafka does not exist")


class Failure:
    """A delivery error of librdkafka."""

    def __init__(self, *, is_fatal: bool) -> None:
        self._is_fatal = is_fatal

    def fatal(self) -> bool:
        return self._is_fatal

    def str(self) -> str:
        return "Local: Message timed out"


class FakeProducer:
    """A producer with a bounded queue and brokers that answer on the test's command."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self.configuration = dict(configuration)
        self.queue: list[tuple[str, bytes, bytes, Callable[[Any, Any], None]]] = []
        self.sent: list[tuple[str, bytes, bytes]] = []
        self.due: list[Callable[[], None]] = []
        self.is_up = True
        self.raises: Exception | None = None

    def produce(self, topic: str, value: bytes, key: bytes, *, on_delivery: Callable[[Any, Any], None]) -> None:
        if self.raises is not None:
            raise self.raises
        if len(self.queue) >= self.configuration["queue.buffering.max.messages"]:
            raise BufferError("Local: Queue full")
        self.queue.append((topic, value, key, on_delivery))

    def poll(self, timeout: float) -> int:
        assert timeout == 0, "a round must not wait"
        due, self.due = self.due, []
        for call in due:
            call()
        return len(due)

    def flush(self, timeout: float) -> int:
        if self.is_up:
            self.sent += [(topic, value, key) for topic, value, key, _ in self.queue]
            self.queue.clear()
        return len(self.queue)

    def give_up(self, *, is_fatal: bool = False) -> None:
        """Let every waiting record time out."""
        waiting, self.queue = self.queue, []
        self.due += [lambda cb=cb: cb(Failure(is_fatal=is_fatal), None) for *_, cb in waiting]  # type: ignore[misc]


class SinkBench:
    """A sink over fake producers; the test controls time and settings."""

    def __init__(self, settings: ConnectionSettings | KafkaProblem = PLAIN, queue_max: int = 3) -> None:
        self.settings = settings
        self.producers: list[FakeProducer] = []
        self.dropped: list[tuple[str, int]] = []
        self.sink = KafkaSink(
            connection=("ops", "kafka"),
            topic="journal",
            settings_of=self.settings_of,
            queue_max=queue_max,
            on_drop=lambda reason, count: self.dropped.append((reason, count)),
            make_producer=self.make,
        )

    async def settings_of(self, key: tuple[str, str]) -> ConnectionSettings | KafkaProblem:
        assert key == ("ops", "kafka")
        return self.settings

    def make(self, configuration: Mapping[str, Any]) -> FakeProducer:
        self.producers.append(FakeProducer(configuration))
        return self.producers[-1]

    def offer(self, *lines: str) -> list[bool]:
        return [self.sink.offer("kc/orders", line) for line in lines]


async def test_records_carry_key_and_topic_and_keep_their_order() -> None:
    bench = SinkBench()
    await bench.sink.turn()
    assert bench.offer("1", "2") == [True, True]
    await bench.sink.close()
    assert bench.producers[0].sent == [("journal", b"1", b"kc/orders"), ("journal", b"2", b"kc/orders")]
    assert bench.dropped == []


async def test_records_wait_until_there_is_a_producer_and_then_keep_their_order() -> None:
    """At the start of the process the Secret is not read yet; or the connection is created later."""
    bench = SinkBench(MISSING)
    await bench.sink.turn()
    assert bench.offer("1", "2", "3", "4") == [True, True, True, False]
    bench.settings = PLAIN
    await bench.sink.look_at_settings()
    assert bench.offer("5") == [False]
    await bench.sink.turn()
    assert [value for _, value, *_ in bench.producers[0].queue] == [b"1", b"2", b"3"]


async def test_full_producer_refuses_and_never_waits() -> None:
    bench = SinkBench(queue_max=2)
    await bench.sink.turn()
    assert bench.offer("1", "2", "3") == [True, True, False]
    assert bench.dropped == []


async def test_what_the_brokers_did_not_take_in_time_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    bench = SinkBench()
    await bench.sink.turn()
    bench.offer("1", "2")
    bench.producers[0].give_up()
    await bench.sink.turn()
    assert bench.dropped == [("undelivered", 1), ("undelivered", 1)]
    assert caplog.text.count("do not reach Kafka") == 1
    assert len(bench.producers) == 1


@pytest.mark.parametrize("is_in_callback", [True, False])
async def test_producer_beyond_repair_is_replaced(is_in_callback: bool) -> None:
    """KIP-98: an idempotent producer that lost its sequence is fatal; librdkafka then refuses everything."""
    bench = SinkBench()
    await bench.sink.turn()
    bench.offer("1")
    if is_in_callback:
        bench.producers[0].give_up(is_fatal=True)
        await bench.sink.turn()
    else:
        bench.producers[0].raises = RuntimeError("Local: Fatal error")
        assert bench.offer("2") == [False]
    await bench.sink.turn()
    assert len(bench.producers) == 2
    assert bench.offer("3") == [True]
    assert [value for _, value, *_ in bench.producers[1].queue] == [b"3"]


async def test_rotated_secret_makes_a_new_producer_after_the_old_one_delivered() -> None:
    def login(password: str) -> ConnectionSettings:
        sasl = SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_512, username="u", password=SecretText(password))
        return ConnectionSettings(bootstrap_servers=("b1:9092",), sasl=sasl)

    bench = SinkBench(login("one"))
    await bench.sink.turn()
    bench.offer("1")
    await bench.sink.look_at_settings()
    assert len(bench.producers) == 1
    bench.settings = login("two")
    await bench.sink.look_at_settings()
    assert [p.configuration["sasl.password"] for p in bench.producers] == ["one", "two"]
    assert [value for _, value, _ in bench.producers[0].sent] == [b"1"]


async def test_what_is_out_at_the_end_is_counted() -> None:
    bench = SinkBench(queue_max=5)
    await bench.sink.turn()
    bench.offer("1", "2")
    bench.producers[0].is_up = False
    await bench.sink.close()
    assert bench.dropped == [("undelivered", 2)]
    never = SinkBench(MISSING)
    never.offer("1")
    await never.sink.close()
    assert never.dropped == [("undelivered", 1)]


async def test_background_task_survives_whatever_the_library_raises(caplog: pytest.LogCaptureFixture) -> None:
    """An invalid setting is refused by librdkafka's constructor; the operator goes on without a journal."""
    bench = SinkBench()

    def refuse(configuration: Mapping[str, Any]) -> FakeProducer:
        raise ValueError("invalid configuration")

    bench.sink._make_producer = refuse
    await bench.sink.turn()
    await bench.sink.turn()
    assert [r.__dict__["problem"] for r in caplog.records] == ["invalid configuration"]
    assert bench.offer("1") == [True]


def test_settings_of_a_plain_connection() -> None:
    configuration = configuration_of(PLAIN, queue_max=100)
    assert configuration["bootstrap.servers"] == "b1:9092,b2:9092"
    assert configuration["security.protocol"] == "PLAINTEXT"
    assert configuration["enable.idempotence"] is True
    assert configuration["queue.buffering.max.messages"] == 100
    assert not [name for name in configuration if name.startswith(("ssl.", "sasl."))]


OAUTH = OAuthSettings(
    token_endpoint="https://idp.example/token", client_id="c", client_secret=SecretText(CANARY), scope="kafka"
)


@pytest.mark.parametrize(
    "settings",
    [
        PLAIN,
        ConnectionSettings(bootstrap_servers=("b:1",), tls=TlsSettings()),
        ConnectionSettings(
            bootstrap_servers=("b:1",),
            tls=TlsSettings(),
            sasl=SaslSettings(mechanism=SaslMechanism.PLAIN, username="u", password=SecretText(CANARY)),
        ),
        ConnectionSettings(
            bootstrap_servers=("b:1",),
            sasl=SaslSettings(mechanism=SaslMechanism.SCRAM_SHA_256, username="u", password=SecretText(CANARY)),
        ),
        ConnectionSettings(
            bootstrap_servers=("b:1",),
            tls=TlsSettings(),
            sasl=SaslSettings(mechanism=SaslMechanism.OAUTHBEARER, oauth=OAUTH),
        ),
    ],
    ids=["plain", "tls", "sasl plain", "scram", "oauth"],
)
def test_real_library_accepts_every_kind_of_connection(settings: ConnectionSettings) -> None:
    """librdkafka checks names, values and combinations in its constructor; it connects to nothing before a record."""
    producer = librdkafka()(configuration_of(settings, queue_max=100))
    assert isinstance(producer, confluent_kafka.Producer)


def test_missing_library_stops_the_process_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(MissingLibraryError, match=r"staticgroup\[journal\]"):
        librdkafka()


def test_sinks_are_those_that_are_named(tmp_path: Path) -> None:
    bench = SinkBench()
    named = {"operator_id": "op", "kafka_topic": "journal", "files_max_mib": 1, "files_count": 2, "queue_max": 100,
             "settings_of": bench.settings_of, "counters": Metrics(), "make_producer": bench.make}  # fmt: skip
    assert sinks_of(kafka_connection="", files_path="", **named) == ()
    assert [s.name for s in sinks_of(kafka_connection="ops/kafka", files_path=str(tmp_path), **named)] == [
        "kafka",
        "files",
    ]


async def test_background_task_looks_again_and_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka, "POLL_S", 0)
    bench = SinkBench()
    task = asyncio.create_task(bench.sink.run())
    while not bench.producers:  # noqa: ASYNC110 - one turn of the loop at a time
        await asyncio.sleep(0)
    bench.offer("1")
    bench.producers[0].give_up()
    while not bench.dropped:  # noqa: ASYNC110 - one turn of the loop at a time
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [count for _, count in bench.dropped] == [1]
