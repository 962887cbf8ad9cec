"""Fixtures of the Kafka edge: a fake cluster, a gateway with a hand-turned clock, and settings that reach the fake."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings
from unit.kafka.fake_broker import Cluster, FakeBroker

from .gateway_script import Kafka


class Clock:
    """Monotonic seconds that move only by hand, or when somebody pauses."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    async def pause(self, seconds: float) -> None:
        self.now_s += seconds
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """One running broker, node 1; tests add others with `start_broker`."""
    cluster = Cluster()
    await FakeBroker(cluster).start()
    yield cluster
    for broker in cluster.brokers:
        await broker.stop()


@pytest.fixture
def broker(cluster: Cluster) -> FakeBroker:
    return cluster.brokers[0]


@pytest_asyncio.fixture
async def gateway(clock: Clock) -> AsyncIterator[KioGateway]:
    gateway = KioGateway(rng=random.Random(7), clock=clock, pause=clock.pause)
    yield gateway
    await gateway.close()


@pytest.fixture
def settings(broker: FakeBroker) -> ConnectionSettings:
    return ConnectionSettings(bootstrap_servers=(broker.address,), allow_loopback=True, request_timeout_s=2.0)


@pytest.fixture
def kafka(cluster: Cluster, gateway: KioGateway, settings: ConnectionSettings) -> Kafka:
    return Kafka(cluster, gateway, settings)
