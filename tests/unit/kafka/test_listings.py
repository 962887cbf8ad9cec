"""ListGroups names all groups of a broker at once, so readings share it, and an old answer makes no group absent.

Each reading has a deadline of its own, and one that runs out of time costs the others nothing.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import pytest
import pytest_asyncio

from staticgroup.core.group import GroupType, GroupView, KafkaProblem, KafkaProblemKind, LeaveOutcome, LeaveResult
from staticgroup.kafka import listings
from staticgroup.kafka.calls.reading import BrokerNode, list_groups
from staticgroup.kafka.connection import BrokerConnection
from staticgroup.kafka.errors import Refusal
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.listings import HINT_S, ListAnswer, Listings
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.pool import ClusterPool
from staticgroup.kafka.wire import Api
from support.narrowing import of_type
from support.sockets import socket_count
from unit.kafka.answers import respond
from unit.kafka.fake_broker import CLOSE, FakeBroker, Group
from unit.simulator.virtual_time import simulated

from .gateway_script import Kafka, entry, first_then, kind

NODE = BrokerNode(node_id=1, host="b", port=9092)


def type_of(reading: GroupView | KafkaProblem) -> GroupType:
    assert isinstance(reading, GroupView), reading
    return reading.group_type


async def test_groups_in_the_answer_to_another_reading_are_not_listed_again(kafka: Kafka, broker: FakeBroker) -> None:
    kafka.groups |= {"a": Group(members=[("m", "i")]), "b": Group(type="consumer", members=[("m", "i")])}
    kafka.groups |= {"c": Group(type="streams", members=[("m", "i")])}
    assert type_of(await kafka.describe("a")) is GroupType.CLASSIC
    assert type_of(await kafka.describe("b")) is GroupType.CONSUMER
    assert type_of(await kafka.describe("c")) is GroupType.STREAMS
    assert broker.count(Api.LIST_GROUPS) == 1


@pytest.mark.parametrize(("was", "is_now"), [("consumer", "classic"), ("classic", "consumer"), ("streams", "classic")])
async def test_group_that_has_another_type_than_in_the_answer_to_another_reading_is_listed_anew(
    kafka: Kafka, broker: FakeBroker, was: str, is_now: str
) -> None:
    kafka.groups |= {"a": Group(members=[("m", "i")]), "b": Group(type=was, members=[("m", "i")])}
    await kafka.describe("a")
    kafka.groups["b"].type = is_now
    assert type_of(await kafka.describe("b")) is GroupType(is_now.title())
    assert broker.count(Api.LIST_GROUPS) == 2


async def test_group_that_has_gone_since_the_answer_to_another_reading_is_absent(kafka: Kafka) -> None:
    kafka.groups |= {"a": Group(members=[("m", "i")]), "b": Group(members=[("m", "i")])}
    await kafka.describe("a")
    del kafka.groups["b"]
    assert type_of(await kafka.describe("b")) is GroupType.ABSENT


async def test_group_that_came_after_a_listing_is_seen_though_that_did_not_show_it(kafka: Kafka) -> None:
    kafka.groups["a"] = Group(members=[("m", "i")])
    await kafka.describe("a")
    kafka.groups["b"] = Group(type="consumer", members=[("m", "i")])
    assert type_of(await kafka.describe("b")) is GroupType.CONSUMER
    assert kafka.broker.count(Api.LIST_GROUPS) == 2


async def test_share_group_that_has_become_a_consumer_group_is_read_as_one(kafka: Kafka) -> None:
    """No describe of ours would belie the hint."""
    kafka.groups |= {"a": Group(members=[("m", "i")]), "b": Group(type="share")}
    await kafka.describe("a")
    kafka.groups["b"] = Group(members=[("m", "i")])
    assert type_of(await kafka.describe("b")) is GroupType.CLASSIC


async def test_readings_that_come_while_a_listing_is_on_its_way_share_the_next_one(kafka: Kafka) -> None:
    """A group is made after the first was answered: readings that begin from then on see it."""
    kafka.broker.held = asyncio.Event()
    kafka.broker.held.set()
    await kafka.describe("warm")
    listing, is_asked = kafka.broker._list_groups, asyncio.Event()

    def hold(request: Any, version: int) -> Any:
        if not is_asked.is_set():
            is_asked.set()
            kafka.broker.held = asyncio.Event()
        return listing(request, version)

    kafka.broker.handlers[Api.LIST_GROUPS] = hold
    early = asyncio.ensure_future(kafka.describe("early"))
    await is_asked.wait()
    kafka.groups["late-0"] = Group(type="consumer", members=[("m", "i")])
    late = []
    for n in range(5):
        late.append(asyncio.ensure_future(kafka.describe(f"late-{n}")))
        await asyncio.sleep(0.02)
    kafka.broker.held.set()
    assert type_of(await early) is GroupType.ABSENT
    assert [type_of(reading) for reading in await asyncio.gather(*late)] == [GroupType.CONSUMER, *[GroupType.ABSENT] * 4]
    assert kafka.broker.count(Api.LIST_GROUPS) == 3


async def test_listing_that_breaks_off_is_asked_for_again_by_each_that_shared_it(kafka: Kafka) -> None:
    kafka.broker.handlers[Api.LIST_GROUPS] = first_then(lambda _request, _version: CLOSE, kafka.broker._list_groups)
    readings = await asyncio.gather(*(kafka.describe(f"g-{n}") for n in range(3)))
    assert {type_of(reading) for reading in readings} == {GroupType.ABSENT}


async def test_listing_that_is_refused_once_is_asked_for_again_by_each_that_shared_it(kafka: Kafka) -> None:
    """COORDINATOR_LOAD_IN_PROGRESS, as after a fail-over; what it lists is no hint then, and no absence."""
    kafka.groups["a"] = Group(type="consumer", members=[("m", "i")])
    loading = first_then(
        lambda _request, version: respond(Api.LIST_GROUPS, version, error_code=14, groups=()), kafka.broker._list_groups
    )
    kafka.broker.handlers[Api.LIST_GROUPS] = loading
    a, b = await asyncio.gather(kafka.describe("a"), kafka.describe("b"))
    assert (type_of(a), type_of(b)) == (GroupType.CONSUMER, GroupType.ABSENT)


async def test_readings_that_are_cut_off_while_a_listing_is_on_its_way_leave_the_next_ones_alone(kafka: Kafka) -> None:
    kafka.groups["a"] = Group(members=[("m", "i")])
    kafka.broker.held = asyncio.Event()
    kafka.broker.held.set()
    await kafka.describe("warm")
    kafka.broker.held.clear()
    cut = [asyncio.ensure_future(kafka.describe(f"g-{n}")) for n in range(3)]
    await asyncio.sleep(0.05)
    for reading in cut:
        reading.cancel()
    await asyncio.gather(*cut, return_exceptions=True)
    kafka.broker.held.set()
    assert type_of(await kafka.describe("a")) is GroupType.CLASSIC


async def test_broker_that_is_silent_about_its_groups_keeps_each_reading_for_its_own_time_only(kafka: Kafka) -> None:
    kafka.settings = replace(kafka.settings, request_timeout_s=1.0)
    await kafka.describe("warm")
    kafka.broker.held = asyncio.Event()
    began_s, readings = asyncio.get_running_loop().time(), []
    for n in range(4):
        readings.append(asyncio.ensure_future(kafka.describe(f"g-{n}")))
        await asyncio.sleep(0.05)
    assert {kind(reading) for reading in await asyncio.gather(*readings)} == {KafkaProblemKind.UNREACHABLE}
    assert asyncio.get_running_loop().time() - began_s < 3 * kafka.settings.request_timeout_s
    kafka.broker.held.set()
    async with asyncio.timeout(10):  # who was silent is left alone for as long as it was
        while isinstance(reading := await kafka.describe("g-0"), KafkaProblem):  # noqa: ASYNC110 - only asking tells
            await asyncio.sleep(0.05)
    assert type_of(reading) is GroupType.ABSENT


async def test_hint_of_one_broker_is_none_at_another(kafka: Kafka, broker: FakeBroker) -> None:
    other = await FakeBroker(kafka.cluster, node_id=2).start()
    kafka.groups |= {name: Group(members=[("m", "i")]) for name in ("a", "b", "c")}
    await kafka.describe("a")
    kafka.cluster.coordinator = 2
    assert type_of(await kafka.describe("b")) is GroupType.CLASSIC
    kafka.cluster.coordinator = 1
    assert type_of(await kafka.describe("c")) is GroupType.CLASSIC
    assert (broker.count(Api.LIST_GROUPS), other.count(Api.LIST_GROUPS)) == (1, 1)


async def test_hints_are_kept_for_a_while_only(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would weigh as much as all groups of the cluster."""
    monkeypatch.setattr(listings, "HINT_S", 0.0)
    kafka.groups |= {"a": Group(members=[("m", "i")]), "b": Group(members=[("m", "i")])}
    await kafka.describe("a")
    await asyncio.sleep(0.01)
    await kafka.describe("b")
    assert kafka.broker.count(Api.LIST_GROUPS) == 2


class Types(dict[str, str]):
    """The types of one answer, of which can be seen when they are let go."""


class Answering:
    """A broker that answers each ListGroups with types of its own."""

    def __init__(self) -> None:
        self.answers: list[weakref.ref[Types]] = []

    async def connection_to(self, _node: BrokerNode, _deadline_s: float) -> Answering:
        return self

    async def call(self, _call: Any, _deadline_s: float) -> listings.ListAnswer:
        types = Types(a="classic")
        self.answers.append(weakref.ref(types))
        return 0, types

    @property
    def kept(self) -> int:
        """How many of its answers are held."""
        return sum(types() is not None for types in self.answers)


async def test_only_the_newest_answer_of_a_broker_is_kept_for_hints_and_none_once_they_are_dropped() -> None:
    """Each takes 1.3 MiB for 10,000 groups, and one may come with every poll of a group that does not exist."""
    broker = Answering()
    shared = listings.Listings(cast(ClusterPool, broker))
    for _ in range(10):
        await shared.ask(NODE, asyncio.get_running_loop().time() + 10)
    assert (broker.kept, shared.hint(NODE, "a")) == (1, "classic")
    shared.forget()
    await asyncio.sleep(0)  # what woke this test holds the last one, too
    assert (broker.kept, shared.hint(NODE, "a")) == (0, "")


@simulated
async def test_hints_are_kept_as_long_as_any_though_they_replace_older_ones() -> None:
    shared = listings.Listings(cast(ClusterPool, Answering()))
    for _ in range(3):
        await shared.ask(NODE, asyncio.get_running_loop().time() + 10)
        await asyncio.sleep(0.6 * HINT_S)
        assert shared.hint(NODE, "a")
    await asyncio.sleep(0.6 * HINT_S)
    assert not shared.hint(NODE, "a")


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
    assert (socket_count(shared.pool), broker.count(Api.LIST_GROUPS)) == (1, 2)


async def test_listing_is_waited_for_as_long_as_the_last_who_shares_it_may(shared: Shared, broker: FakeBroker) -> None:
    hasty, patient = shared.ask(0.1), shared.ask(10)
    with pytest.raises(Refusal):
        await hasty
    shared.held.set()
    assert isinstance(await patient, tuple)
    assert (socket_count(shared.pool), broker.count(Api.LIST_GROUPS)) == (1, 1)


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


async def test_removal_from_another_group_is_answered_though_a_reading_runs_out_of_time(kafka: Kafka) -> None:
    """A coordinator thinks for longer than one of two who share a listing may wait; a removal has the same connection."""
    kafka.settings = replace(kafka.settings, request_timeout_s=10.0)
    kafka.groups["scaled"] = Group(members=[("m", "i")])
    await kafka.describe("scaled")
    shared = Shared(kafka.gateway, kafka.settings, kafka.broker)
    shared.held.clear()
    hasty, patient = shared.ask(0.1), shared.ask(10)
    await kafka.broker.has_seen(Api.LIST_GROUPS)
    removal = asyncio.ensure_future(kafka.gateway.leave(kafka.settings, "scaled", [entry("m", "i")]))
    with pytest.raises(Refusal):
        await hasty
    shared.held.set()
    outcome = of_type(LeaveResult, await removal)
    assert outcome.outcomes == (LeaveOutcome.REMOVED,)
    assert isinstance(await patient, tuple)
    assert socket_count(shared.pool) == 1
