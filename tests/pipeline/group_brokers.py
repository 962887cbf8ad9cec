"""A real broker with group timeouts so short that members come and go within a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from support.devcluster.kafka_broker import Brokers, down
from support.devcluster.kafka_config import BrokerSettings


@contextmanager
def running_brokers(name: str, *, session_ms: int, **more: str) -> Iterator[Brokers]:
    """Run a 4.4 broker.

    Parameters
    ----------
    session_ms: session timeout of KIP-848 groups.
    more: further properties of the broker, with "_" for ".".
    """
    overrides = {
        "group.min.session.timeout.ms": "1000", "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": str(session_ms), "group.consumer.min.heartbeat.interval.ms": "200",
        "group.consumer.heartbeat.interval.ms": "500", "group.initial.rebalance.delay.ms": "300",
        **{key.replace("_", "."): value for key, value in more.items()},
    }  # fmt: skip
    down(name)
    running = Brokers.up(BrokerSettings(name=name, overrides=overrides))
    try:
        yield running
    finally:
        running.down()
