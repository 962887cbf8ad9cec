"""Each fault of the way to a broker, seen by the operator's own gateway: a problem in time, never a reading, and no trace later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from staticgroup.core.group import GroupView, KafkaProblem, KafkaProblemKind, LeaveEntry, LeaveOutcome, LeaveResult
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.wire import Api
from support.fault_proxy.kafka_relay import KafkaFault, KafkaRelay
from support.fault_proxy.tripwire import Passing, Peer, Tripwire
from support.narrowing import of_type
from unit.kafka.fake_broker import FakeBroker, Group

TIMEOUT_S = 0.5
SAID = {
    KafkaFault.CUT: KafkaProblemKind.UNREACHABLE,
    KafkaFault.ONE_WAY_CUT: KafkaProblemKind.UNREACHABLE,
    KafkaFault.LATENCY: KafkaProblemKind.UNREACHABLE,
    KafkaFault.RESET_AFTER_REQUEST: KafkaProblemKind.UNREACHABLE,
    KafkaFault.SLOW_LORIS: KafkaProblemKind.UNREACHABLE,
    KafkaFault.GARBAGE: KafkaProblemKind.UNEXPECTED_ANSWER,
    KafkaFault.GIANT_FRAME: KafkaProblemKind.UNEXPECTED_ANSWER,
}
"""LATENCY is longer than the timeout here."""


@pytest.fixture
def wire() -> Tripwire:
    return Tripwire()


@pytest_asyncio.fixture
async def relay(broker: FakeBroker, wire: Tripwire) -> AsyncIterator[KafkaRelay]:
    broker.cluster.groups["orders"] = Group(members=[("m-0", "orders-0"), ("m-1", "orders-1")])
    relay = KafkaRelay("127.0.0.1", ("127.0.0.1", broker.port), wire)
    await relay.open()
    yield relay
    await relay.close()


@pytest_asyncio.fixture
async def through(relay: KafkaRelay) -> AsyncIterator[KioGateway]:
    """A gateway with the real clock, because pauses are part of what is tried."""
    gateway = KioGateway()
    yield gateway
    await gateway.close()


@pytest.fixture
def way(settings: ConnectionSettings, relay: KafkaRelay) -> ConnectionSettings:
    return replace(settings, bootstrap_servers=(relay.address,), request_timeout_s=TIMEOUT_S)


async def until_read(gateway: KioGateway, way: ConnectionSettings, deadline_s: float = 10.0) -> GroupView:
    ends_s = asyncio.get_running_loop().time() + deadline_s
    view: GroupView | KafkaProblem | None = None
    while not isinstance(view, GroupView):
        assert asyncio.get_running_loop().time() < ends_s, view
        view = await gateway.describe(way, "orders")
        await asyncio.sleep(0.05)
    return view


async def test_gateway_that_asks_through_the_relay_stays_with_it(
    through: KioGateway, way: ConnectionSettings, relay: KafkaRelay
) -> None:
    """Metadata and FindCoordinator name the broker's own port; none of its connections came past the relay."""
    view = of_type(GroupView, await through.describe(way, "orders"))
    assert [m.instance_id for m in view.members] == ["orders-0", "orders-1"]
    assert view.coordinator.endswith(f":{relay.port}")


@pytest.mark.parametrize("is_connected", [True, False], ids=["connected", "at the first dial"])
@pytest.mark.parametrize("fault", list(KafkaFault))
async def test_a_fault_is_a_problem_in_time_and_is_over_with_its_end(
    through: KioGateway, way: ConnectionSettings, relay: KafkaRelay, fault: KafkaFault, is_connected: bool
) -> None:
    if SAID[fault] is KafkaProblemKind.UNEXPECTED_ANSWER:  # which comes at once, however busy the machine is
        way = replace(way, request_timeout_s=20 * TIMEOUT_S)
    if is_connected:
        await until_read(through, way)
    relay.begin(fault)
    async with asyncio.timeout(20 * way.request_timeout_s):
        outcome = await through.describe(way, "orders")
    assert isinstance(outcome, KafkaProblem), outcome
    assert outcome.kind is SAID[fault]
    await relay.end()
    assert len((await until_read(through, way)).members) == 2


@pytest.mark.parametrize("fault", [f for f in KafkaFault if f is not KafkaFault.CUT])
async def test_a_leave_whose_answer_was_spoiled_may_have_been_done(
    through: KioGateway, way: ConnectionSettings, relay: KafkaRelay, wire: Tripwire, broker: FakeBroker, fault: KafkaFault
) -> None:
    await until_read(through, way)
    wire.arm(lambda p: p.call == str(int(Api.LEAVE_GROUP)), lambda: relay.begin(fault))
    entries = (LeaveEntry(member_id="m-1", instance_id="orders-1"),)
    outcome = await through.leave(way, "orders", entries)
    assert wire.touched.is_set()
    assert isinstance(outcome, LeaveResult)
    assert outcome.outcomes == (LeaveOutcome.RETRY,), "nobody knows, and it is looked at again"
    assert broker.count(Api.LEAVE_GROUP) == 1, "the broker was asked, and only once"


def test_a_wire_is_touched_once_and_only_by_what_it_waits_for() -> None:
    wire, seen = Tripwire(), []
    wire.arm(lambda p: p.call == "13", lambda: seen.append("leave"))
    wire.see(Passing(peer=Peer.BROKER, call="15"))
    assert seen == []
    assert not wire.touched.is_set()
    wire.see(Passing(peer=Peer.BROKER, call="13"))
    wire.see(Passing(peer=Peer.BROKER, call="13"))
    assert seen == ["leave"]
    assert wire.touched.is_set()
