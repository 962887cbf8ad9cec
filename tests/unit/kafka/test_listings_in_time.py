"""Readings that share a ListGroups have deadlines of their own, and one that runs out of time costs the others nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from staticgroup.core.group import LeaveOutcome, LeaveResult
from staticgroup.kafka.calls.reading import BrokerNode, list_groups
from staticgroup.kafka.connection import BrokerConnection
from staticgroup.kafka.errors import Refusal
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.listings import ListAnswer, Listings
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.wire import Api
from support.narrowing import of_type
from unit.kafka.fake_broker import FakeBroker, Group

from .gateway_script import Kafka, entry


def now_s() -> float:
    return asyncio.get_running_loop().time()


class Shared:
    """Listings over one open connection to one broker, which answers while it is not held."""

    def __init__(self, gateway: KioGateway, settings: ConnectionSettings, broker: FakeBroker) -> None:
        self.pool = gateway._reader(settings).pool
        self.listings = Listings(self.pool)
        self.node = BrokerNode(node_id=1, host="127.0.0.1", port=broker.port)
        broker.held = self.held = asyncio.Event()
        self.held.set()

    def ask(self, for_s: float) -> asyncio.Task[ListAnswer]:
        return asyncio.ensure_future(self.listings.ask(self.node, now_s() + for_s))

    async def connection(self) -> BrokerConnection:
        return await self.pool.connection_to(self.node, now_s() + 10)


@pytest_asyncio.fixture
async def shared(gateway: KioGateway, settings: ConnectionSettings, broker: FakeBroker) -> AsyncIterator[Shared]:
    shared = Shared(gateway, settings, broker)
    await shared.connection()
    shared.held.clear()
    yield shared
    shared.held.set()


async def test_reading_that_waits_for_the_next_listing_waits_no_longer_than_it_may_and_costs_nobody_the_connection(
    shared: Shared, broker: FakeBroker
) -> None:
    on_its_way = shared.ask(10)
    await broker.has_seen(Api.LIST_GROUPS)
    hasty, patient = shared.ask(0.1), shared.ask(10)
    with pytest.raises(Refusal):
        await hasty
    shared.held.set()
    assert all(isinstance(answer, tuple) for answer in await asyncio.gather(on_its_way, patient))
    assert (shared.pool.socket_count(), broker.count(Api.LIST_GROUPS)) == (1, 2)


async def test_listing_is_waited_for_as_long_as_the_last_who_shares_it_may(shared: Shared, broker: FakeBroker) -> None:
    hasty, patient = shared.ask(0.1), shared.ask(10)
    with pytest.raises(Refusal):
        await hasty
    shared.held.set()
    assert isinstance(await patient, tuple)
    assert (shared.pool.socket_count(), broker.count(Api.LIST_GROUPS)) == (1, 1)


async def test_listing_that_nobody_waits_for_any_more_is_not_asked_for(shared: Shared, broker: FakeBroker) -> None:
    on_its_way = shared.ask(10)
    await broker.has_seen(Api.LIST_GROUPS)
    hasty = shared.ask(0.1)
    with pytest.raises(Refusal):
        await hasty
    shared.held.set()
    await on_its_way
    assert isinstance(await shared.ask(10), tuple)
    assert broker.count(Api.LIST_GROUPS) == 2


async def test_request_whose_time_has_passed_is_not_sent_and_leaves_the_connection_open(shared: Shared, broker: FakeBroker) -> None:
    connection = await shared.connection()
    with pytest.raises(Refusal) as refused:
        await connection.call(list_groups(), now_s())
    assert (refused.value.sent, connection.is_open, broker.count(Api.LIST_GROUPS)) == (False, True, 0)


async def test_removal_from_another_group_is_answered_though_a_reading_runs_out_of_time(
    kafka: Kafka, broker: FakeBroker
) -> None:
    """A coordinator thinks for longer than one of two who share a listing may wait; a removal has the same connection."""
    kafka.settings = replace(kafka.settings, request_timeout_s=10.0)
    kafka.groups["scaled"] = Group(members=[("m", "i")])
    await kafka.describe("scaled")
    shared = Shared(kafka.gateway, kafka.settings, broker)
    shared.held.clear()
    hasty, patient = shared.ask(0.1), shared.ask(10)
    await broker.has_seen(Api.LIST_GROUPS)
    removal = asyncio.ensure_future(kafka.gateway.leave(kafka.settings, "scaled", [entry("m", "i")]))
    with pytest.raises(Refusal):
        await hasty
    shared.held.set()
    outcome = of_type(LeaveResult, await removal)
    assert outcome.outcomes == (LeaveOutcome.REMOVED,)
    assert isinstance(await patient, tuple)
    assert shared.pool.socket_count() == 1
