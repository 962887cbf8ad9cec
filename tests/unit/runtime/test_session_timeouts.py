"""The session timeout from round to round: what holds follows the pods, what comes follows the spec."""

from __future__ import annotations

from typing import Any

from staticgroup.core.group import GroupType
from support.bounds import broker_bounds
from support.fake_gateways import FakeKafka
from unit.runtime.operator_world import OperatorWorld, static_group


def shown(world: OperatorWorld) -> tuple[Any, ...]:
    """Return shortest, longest, next, how many are not known, the column, and the reason."""
    t, exact = world.status.session_timeout, world.status.memory.timeout
    assert t is not None
    assert exact is not None
    reason = world.condition("TimeoutSufficient")[1]
    held_ms = [None if seconds is None else seconds * 1000 for seconds in (t.seconds, t.longest_seconds)]
    return *held_ms, exact.next_ms, t.unknown_pods, t.summary, reason


def replaced(world: OperatorWorld, ordinal: int, *timeouts_ms: int) -> None:
    world.end(ordinal)
    world.start(ordinal, f"next-{ordinal}", session_timeouts_ms=timeouts_ms)


async def test_a_changed_number_comes_pod_by_pod() -> None:
    world = await OperatorWorld().started()
    assert shown(world) == (110_000, 110_000, 110_000, 0, "110s", "TimeoutFits")
    world.declare(static_group(generation=2, sessionTimeout={"seconds": 300}))
    await world.round()
    assert shown(world) == (110_000, 110_000, 300_000, 0, "110s→300s", "TimeoutFits")
    for ordinal in (2, 1):
        replaced(world, ordinal, 300_000)
        await world.round()
        assert shown(world) == (110_000, 300_000, 300_000, 0, "110s→300s", "TimeoutFits")
    replaced(world, 0, 300_000)
    await world.round()
    assert shown(world) == (300_000, 300_000, 300_000, 0, "300s", "TimeoutFits")


async def test_migration_to_the_consumer_protocol_is_reported_pod_by_pod() -> None:
    """Auto: the first client of the new protocol converts the group; the others stay classic members until they restart."""
    world = OperatorWorld(groupProtocol="Auto")
    world.kafka = FakeKafka(journal=world.journal)
    world.ask_kafka(world.kafka)
    world.kafka.broker_bounds = broker_bounds(
        classic_min_ms=6_000, classic_max_ms=1_800_000, consumer_min_ms=45_000, consumer_max_ms=120_000,
        consumer_session_ms=90_000,
    )  # fmt: skip
    await world.started()
    assert shown(world) == (110_000, 110_000, 110_000, 0, "110s", "TimeoutFits")
    world.kafka.group_type = GroupType.CONSUMER
    for ordinal in (2, 1):
        replaced(world, ordinal)
        await world.round()
        assert shown(world) == (90_000, 110_000, 90_000, 0, "110s→90s", "TimeoutFits")
    replaced(world, 0)
    await world.round()
    assert shown(world) == (90_000, 90_000, 90_000, 0, "90s", "TimeoutFits")
    assert world.injected.session_timeout_ms is None
