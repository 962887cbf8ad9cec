"""The journal in a Kafka topic, by the idempotent producer of librdkafka.

The producer has its own threads and its own bounded queue: handing over a record never waits for a broker. What finds
no room, and what the brokers did not take in time, is counted. Secrets are rotated as for every other connection: a
changed one makes a new producer.
Source: CONFIGURATION.md of librdkafka 2; KIP-98 (idempotent producer).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

from staticgroup.core.group import KafkaProblem
from staticgroup.kafka.login.credentials import ConnectionSettings, OAuthSettings

log = logging.getLogger(__name__)

DELIVERY_TIMEOUT_MS = 600_000
"""A broker may be away for ten minutes before records are given up."""
LINGER_MS = 100
POLL_S = 0.5
SETTINGS_EVERY_S = 20.0
CLOSE_TIMEOUT_S = 3.0

OnDrop = Callable[[str, int], None]
SettingsOf = Callable[[tuple[str, str]], Awaitable[ConnectionSettings | KafkaProblem]]


class MissingLibraryError(Exception):
    """A topic is named and confluent-kafka is not installed."""


class Producer(Protocol):
    """The part of `confluent_kafka.Producer` that is used."""

    def produce(self, topic: str, value: bytes, key: bytes, *, on_delivery: Callable[[Any, Any], None]) -> None:
        """Queue one record; BufferError when there is no room."""

    def poll(self, timeout: float) -> int:
        """Call the callbacks that are due."""

    def flush(self, timeout: float) -> int:
        """Wait for deliveries; returns how many are still out."""


MakeProducer = Callable[[Mapping[str, Any]], Producer]


def librdkafka() -> MakeProducer:
    """Return the real producer's class.

    Raises
    ------
    MissingLibraryError: the extra `journal` is not installed.
    """
    try:
        library = import_module("confluent_kafka")
    except ImportError as error:
        raise MissingLibraryError(
            "the journal's Kafka topic needs the package confluent-kafka: install staticgroup[journal], or unset "
            "STATICGROUP_JOURNAL_KAFKA_CONNECTION"
        ) from error
    return lambda configuration: library.Producer(dict(configuration), logger=log)


def configuration_of(settings: ConnectionSettings, *, queue_max: int) -> dict[str, Any]:
    """Translate the settings of a connection into those of librdkafka, in which `queue_max` records may wait."""
    tls, sasl = settings.tls, settings.sasl
    configuration: dict[str, Any] = {
        "bootstrap.servers": ",".join(settings.bootstrap_servers),
        "security.protocol": settings.security_protocol,
        "client.id": "staticgroup-journal",
        "enable.idempotence": True,
        "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
        "delivery.report.only.error": True,
        "queue.buffering.max.messages": queue_max,
        "linger.ms": LINGER_MS,
        "compression.type": "zstd",
    }
    if tls is not None:
        pems = {
            "ssl.ca.pem": tls.ca_pem,
            "ssl.certificate.pem": tls.certificate_pem,
            "ssl.key.pem": tls.key_pem.reveal() if tls.key_pem is not None else None,
        }
        configuration |= {name: pem for name, pem in pems.items() if pem is not None}
    if sasl is not None:
        configuration["sasl.mechanism"] = sasl.mechanism.value
        if sasl.oauth is None and sasl.aws_msk_iam is None:
            configuration |= {"sasl.username": sasl.username, "sasl.password": sasl.password.reveal()}
        else:
            configuration |= _oauth(sasl.oauth)
    return configuration


def _oauth(oauth: OAuthSettings | None) -> dict[str, Any]:
    """Translate the client credentials grant, the only one of the operator's that librdkafka does by itself."""
    if oauth is None or oauth.token_file is not None:
        raise ValueError(
            "the journal's topic cannot be written with sasl.awsMskIam or sasl.oauth.tokenFile: name another "
            "KafkaConnection, or write the journal to files"
        )
    if any("," in value for _, value in oauth.extensions):
        raise ValueError("the journal's topic cannot be written with an extension whose value holds a comma")
    extensions = ",".join(f"{name}={value}" for name, value in oauth.extensions)
    return {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": oauth.token_endpoint,
        "sasl.oauthbearer.client.id": oauth.client_id,
        "sasl.oauthbearer.client.secret": oauth.client_secret.reveal(),
        **({"sasl.oauthbearer.scope": oauth.scope} if oauth.scope is not None else {}),
        **({"sasl.oauthbearer.extensions": extensions} if extensions else {}),
    }


class KafkaSink:
    """Produce lines to a topic.

    Parameters
    ----------
    connection: (namespace, name) of the KafkaConnection.
    settings_of: resolves it with its Secrets.
    queue_max: records that may wait, before there is a producer and in it.
    on_drop: called with (reason, how many) of records that were taken and then lost.
    """

    name = "kafka"

    def __init__(
        self,
        *,
        connection: tuple[str, str],
        topic: str,
        settings_of: SettingsOf,
        queue_max: int,
        on_drop: OnDrop,
        make_producer: MakeProducer,
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._settings_of = settings_of
        self._queue_max = queue_max
        self._on_drop = on_drop
        self._make_producer = make_producer
        self._producer: Producer | None = None
        self._fingerprint = ""
        self._is_broken = False
        self._is_failing = False
        self._look_at_s = float("-inf")
        self._waiting: deque[tuple[str, str]] = deque()

    def offer(self, key: str, line: str) -> bool:
        """Hand one record over; False when there is no room."""
        if self._producer is not None and not self._waiting:
            return self._produce(self._producer, key, line)
        if len(self._waiting) >= self._queue_max:
            return False
        self._waiting.append((key, line))
        return True

    def _produce(self, producer: Producer, key: str, line: str) -> bool:
        try:
            producer.produce(self._topic, line.encode(), key.encode(), on_delivery=self._delivered)
        except BufferError:
            return False
        except Exception as error:  # KafkaException: the producer is in a fatal state
            self._note_failure(str(error))
            self._is_broken = True
            return False
        return True

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is None:
            return
        self._on_drop("undelivered", 1)
        self._is_broken = self._is_broken or bool(error.fatal())
        self._note_failure(error.str())

    async def run(self) -> None:
        """Keep a producer with the present secrets, and let it report."""
        while True:
            await self.turn()
            await asyncio.sleep(POLL_S)

    async def turn(self) -> None:
        """Do what is due: look at the settings now and then, serve the producer, hand over what waits for it."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._look_at_s or self._is_broken:
            self._look_at_s = now_s + SETTINGS_EVERY_S
            try:
                await self.look_at_settings()
            except Exception as error:  # whatever the library says of a configuration
                self._note_failure(str(error))
        if self._producer is not None:
            self._producer.poll(0)
            self._hand_over(self._producer)

    def _hand_over(self, producer: Producer) -> None:
        while self._waiting and self._produce(producer, *self._waiting[0]):
            self._waiting.popleft()

    async def look_at_settings(self) -> None:
        """Make a producer when there is none, when its secrets changed, or when it is beyond repair."""
        settings = await self._settings_of(self._connection)
        if isinstance(settings, KafkaProblem):
            self._note_failure(settings.message)
            return
        if self._producer is not None and settings.fingerprint == self._fingerprint and not self._is_broken:
            return
        old, self._producer = self._producer, None
        if old is not None:
            await self._finish(old)
        self._producer = self._make_producer(configuration_of(settings, queue_max=self._queue_max))
        self._fingerprint, self._is_broken, self._is_failing = settings.fingerprint, False, False

    async def _finish(self, producer: Producer) -> None:
        left = await asyncio.to_thread(producer.flush, CLOSE_TIMEOUT_S)
        if left:
            self._on_drop("undelivered", left)

    async def close(self) -> None:
        """Deliver what waits, for at most 3 s."""
        if self._producer is not None:
            self._hand_over(self._producer)
            await self._finish(self._producer)
        if self._waiting:
            self._on_drop("undelivered", len(self._waiting))
            self._waiting.clear()

    def _note_failure(self, problem: str) -> None:
        """Log the first failure of a row: a broker that is away fails every record."""
        if not self._is_failing:
            log.warning("journal: records do not reach Kafka", extra={"topic": self._topic, "problem": problem})
        self._is_failing = True
