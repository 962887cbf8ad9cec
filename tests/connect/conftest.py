"""A broker of its own for the workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_config import BrokerSettings


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    running = Brokers.up(BrokerSettings(name="connect", heap_mb=256))
    yield running
    running.down()
