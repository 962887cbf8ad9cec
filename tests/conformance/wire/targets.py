"""Targets of the harness: the model's listener, or a real broker with the same settings."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from conformance.wire.client import WireClient
from coordinator_model.base import messages as m
from coordinator_model.base.broker_config import properties, with_properties
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.wire.codec import Api
from coordinator_model.wire.listener import Listener
from support.devcluster import kafka_broker
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_config import BrokerSettings as RealSettings
from support.devcluster.kafka_jars import Report, version_key

MODEL = "model"
TOPICS: Mapping[str, int] = {"orders": 6, "payments": 4, "single": 1}
MAX_SIZE = 6
"""Members of a group; small, so that full groups can be tried."""
WIRE_PROPERTIES: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "300", "group.min.session.timeout.ms": "500",
    "group.max.session.timeout.ms": "1800000", "group.max.size": str(MAX_SIZE),
    "group.consumer.max.size": str(MAX_SIZE), "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.max.session.timeout.ms": "600000", "group.consumer.session.timeout.ms": "20000",
    "group.consumer.min.heartbeat.interval.ms": "200", "group.consumer.heartbeat.interval.ms": "500",
}
"""Of the model and of every real broker."""
AT_ONCE: Mapping[str, str] = {
    "group.consumer.assignment.interval.ms": "0", "group.consumer.assignor.offload.enable": "false",
    "group.streams.assignment.interval.ms": "0", "group.streams.assignor.offload.enable": "false",
}
"""Kafka 4.3 computes assignments later and off-thread by default; the rows want them at once, in the same thread."""
OFFSETS_PARTITIONS = 4
"""Of a test broker; each is a shard of the coordinator."""
HERE = hashlib.sha256(str(Path(__file__).resolve()).encode()).hexdigest()[:6]


@dataclass(frozen=True, slots=True)
class Target:
    """One server of Kafka's protocol.

    Parameters
    ----------
    name: `model` or the broker's version.
    version: for rules that differ by version; the model follows 4.4.
    fail_over: lets the coordinator lose everything that is not in its log.
    """

    name: str
    version: tuple[int, ...]
    client: WireClient
    fail_over: Callable[[], Awaitable[None]]


def model_settings(overrides: Mapping[str, str] | None = None) -> BrokerSettings:
    """Return the model's settings for the wire."""
    wanted = {**WIRE_PROPERTIES, **AT_ONCE, **STREAMS_PROPERTIES, **(overrides or {})}
    known = properties(BrokerSettings())
    return with_properties(BrokerSettings(), {name: value for name, value in wanted.items() if name in known})


STREAMS_PROPERTIES: Mapping[str, str] = {
    "group.streams.min.session.timeout.ms": "1000", "group.streams.max.session.timeout.ms": "600000",
    "group.streams.session.timeout.ms": "20000", "group.streams.min.heartbeat.interval.ms": "200",
    "group.streams.heartbeat.interval.ms": "500", "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.max.size": str(MAX_SIZE),
}


def real_settings(name: str, version: str, overrides: Mapping[str, str] | None = None) -> RealSettings:
    """Return the settings of a real broker that agree with the model's."""
    extra = {**AT_ONCE, **STREAMS_PROPERTIES} if version_key(version) >= (4, 4) else {}
    chosen = {**WIRE_PROPERTIES, **extra, **(overrides or {})}
    return RealSettings(name=name, version=version, overrides=chosen)


@asynccontextmanager
async def model_target(overrides: Mapping[str, str] | None = None) -> AsyncIterator[Target]:
    """Serve the model on a free port of the loopback interface."""
    listener = Listener(model_settings(overrides), topics=TOPICS, complain=print)
    host, port = await listener.start("127.0.0.1", 0)
    client = await WireClient.connect(host, port)

    async def fail_over() -> None:
        listener.fail_over()

    try:
        yield Target(MODEL, (4, 4), client, fail_over)
    finally:
        await client.close()
        await listener.stop()


@contextmanager
def real_broker(
    version: str, suffix: str = "", overrides: Mapping[str, str] | None = None, report: Report = print, nodes: int = 1
) -> Iterator[Brokers]:
    """Run one real broker of this version, or three, for as long as the block lasts."""
    name = f"wire-{HERE}-{version.replace('.', '-')}{suffix}"
    settings = dataclasses.replace(real_settings(name, version, overrides), nodes=nodes)
    kafka_broker.down(settings.name, report)
    brokers = Brokers.up(settings, report)
    try:
        yield brokers
    finally:
        brokers.down()


@asynccontextmanager
async def real_target(brokers: Brokers) -> AsyncIterator[Target]:
    """Speak to a running broker, with the topics made."""
    client = await WireClient.connect(*brokers.address(1))
    await create_topics(client, TOPICS)
    await warm_up(client)

    async def fail_over() -> None:
        brokers.kill(1)
        await asyncio.to_thread(brokers.restart, 1)
        await client.close()

    try:
        version = brokers.state.settings.version
        yield Target(version, version_key(version), client, fail_over)
    finally:
        await client.close()


async def create_topics(client: WireClient, topics: Mapping[str, int]) -> None:
    """Make topics that do not exist yet, and wait until the broker shows them with a leader."""
    rows = [{"name": name, "num_partitions": count, "replication_factor": 1} for name, count in topics.items()]
    await client.call(Api.CREATE_TOPICS, 5, topics=rows, timeout_ms=10_000)
    async with asyncio.timeout(300.0):
        while True:
            await client.learn_topics()
            if set(topics) <= set(client.topic_ids.values()):
                break
            await asyncio.sleep(0.05)


async def warm_up(client: WireClient) -> None:
    """Wait until every shard of the coordinator knows the topics: each one learns them by itself, a moment later."""
    if client.versions.get(Api.CONSUMER_GROUP_HEARTBEAT, (0, 0))[1] < 1:
        return  # before 4.0 the protocol is off unless asked for
    async with asyncio.timeout(300.0):
        for number in range(4 * OFFSETS_PARTITIONS):
            attempt = 0
            while not await has_assignment(client, f"warm-up-{number}-{attempt}"):
                attempt += 1
                await asyncio.sleep(0.1)


async def has_assignment(client: WireClient, group: str) -> bool:
    """Say whether a member that joins this KIP-848 group is assigned anything; it leaves again."""
    join = m.ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="warm-up", rebalance_timeout_ms=1000, subscribed_topic_names=tuple(TOPICS),
        topic_partitions=(),
    )
    answer = await client.ask(join)
    await client.ask(m.ConsumerGroupHeartbeatRequest(group_id=group, member_id="warm-up", member_epoch=-1))
    return bool(getattr(answer, "assignment", None))
