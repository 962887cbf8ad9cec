"""What the status says of real clients that do not use the id they are given, or keep the others waiting.

The one idea: the reconciler is the real one over a real broker with real consumers; only Kubernetes is a fake, and its
time is moved by hand. Cases: an application with ids of its own (most public manifests), an id in arguments of a pod
that was admitted without injection, and a member whose poll loop hangs.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.broker_groups import started
from e2e.gateway_bench import described_when, member_starter, settings_of, stable_with
from staticgroup.api.reasons import ConditionStatus, ConditionType, Reason
from staticgroup.api.schema import Condition
from staticgroup.core.consuming import STUCK_AFTER_S
from staticgroup.kafka.gateway import KioGateway
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_config import BrokerSettings
from support.devcluster.kafka_member import Member
from unit.runtime.operator_world import OperatorWorld, kafka_connection, static_group

pytestmark = [pytest.mark.broker, pytest.mark.timeout(200)]

HERE = hashlib.sha256(str(Path(__file__).resolve()).encode()).hexdigest()[:6]
UNEXPANDED = "$(KAFKA_GROUP_INSTANCE_ID)"
StartMember = Callable[..., Member]


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    yield from started(BrokerSettings(name=f"pytest-{HERE}-words", profile="fast"))


@pytest.fixture
def start() -> Iterator[StartMember]:
    yield from member_starter()


async def world_of(brokers: Brokers, gateway: KioGateway, group_id: str) -> OperatorWorld:
    """Two pods that run with the ids that were issued to them, in a group of real consumers."""
    world = OperatorWorld(groupId=group_id)
    connection = kafka_connection(bootstrapServers=brokers.bootstrap.split(","), sasl=None, allowLoopback=True)
    world.stores.put_connection(("shop", "kafka"), connection)
    world.connections.allow_loopback = True
    world.ask_kafka(gateway)
    await world.round()
    for ordinal in range(2):
        world.start(ordinal, joins=False)
    world.now_s += 300
    return world


def condition(world: OperatorWorld, kind: str) -> Condition:
    return next(c for c in world.status.conditions if c.type == kind)


@pytest.mark.asyncio
async def test_application_with_ids_of_its_own_gets_both_ways_out(brokers: Brokers, start: StartMember) -> None:
    gateway = KioGateway()
    world = await world_of(brokers, gateway, "own-ids")
    for ordinal in range(2):
        start(brokers, "own-ids", f"web-{ordinal}")
    await described_when(gateway, settings_of(brokers), "own-ids", stable_with(2))
    await world.settled(2)
    said = condition(world, ConditionType.MEMBERSHIP_COMPLETE)
    assert (said.status, said.reason) == (ConditionStatus.FALSE, Reason.OWN_IDS)
    assert "KAFKA_GROUP_INSTANCE_ID" in said.message
    assert "spec.client.type to Own" in said.message

    world.declare(static_group(generation=2, groupId="own-ids", client={"type": "Own"}, assumeExclusive=True))
    await world.settled(2)
    assert condition(world, ConditionType.MEMBERSHIP_COMPLETE).status is ConditionStatus.TRUE
    await gateway.close()


@pytest.mark.asyncio
async def test_reference_that_nobody_expanded_is_named_before_a_second_pod_has_it(
    brokers: Brokers, start: StartMember
) -> None:
    gateway = KioGateway()
    world = await world_of(brokers, gateway, "unexpanded")
    first = start(brokers, "unexpanded", UNEXPANDED)
    await described_when(gateway, settings_of(brokers), "unexpanded", stable_with(1))
    await world.settled(2)
    said = condition(world, ConditionType.MEMBERSHIP_COMPLETE)
    assert (said.reason, UNEXPANDED in said.message) == (Reason.OWN_IDS, True)
    assert "Restart the pod that lacks the variable" in said.message

    start(brokers, "unexpanded", UNEXPANDED)
    fenced = await asyncio.to_thread(first.wait_for, lambda event: event.error == "_FATAL")
    assert "fenced" in fenced.text.lower()
    await gateway.close()


@pytest.mark.asyncio
async def test_rebalance_that_waits_for_a_hanging_member_is_said(brokers: Brokers, start: StartMember) -> None:
    gateway, settings = KioGateway(), settings_of(brokers)
    world = await world_of(brokers, gateway, "stuck")
    hanging, _ = (start(brokers, "stuck", world.id_of(ordinal)) for ordinal in range(2))
    await described_when(gateway, settings, "stuck", stable_with(2))
    await world.settled(2)
    assert condition(world, ConditionType.CONSUMING).status is ConditionStatus.TRUE
    hanging.hang()
    start(brokers, "stuck", None)
    await described_when(gateway, settings, "stuck", lambda view: view.state == "PreparingRebalance")
    await world.settled(2)
    world.now_s += STUCK_AFTER_S
    await world.settled(1)
    said = condition(world, ConditionType.CONSUMING)
    assert (said.status, said.reason) == (ConditionStatus.FALSE, Reason.REBALANCE_STUCK)
    assert "does not call poll()" in said.message
    await gateway.close()
