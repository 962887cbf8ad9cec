"""A silent broker or name server keeps one connection waiting once, and nobody else at all."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
import pytest_asyncio

from staticgroup.core.group import GroupView, KafkaProblem, KafkaProblemKind, LeaveEntry
from staticgroup.kafka.addresses import LOOK_UPS_OF_TENANT, SystemResolver
from staticgroup.kafka.gateway import ClusterFacts, KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.pool import SILENCE_MAX_S, ClusterPool
from staticgroup.kafka.wire import Api
from support.narrowing import of_type
from unit.kafka.fake_broker import SILENT, Cluster, FakeBroker, Group
from unit.kafka.test_pool import RawServer

from .gateway_script import Kafka

TIMEOUT_S = 0.4


@pytest_asyncio.fixture
async def silent() -> AsyncIterator[RawServer]:
    server = await RawServer().start()
    yield server
    await server.stop()


def at_silent(server: RawServer, **changes: object) -> ConnectionSettings:
    made = ConnectionSettings(
        bootstrap_servers=(server.address,), name="shop/kafka", allow_loopback=True, request_timeout_s=TIMEOUT_S
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def loop_s() -> float:
    return asyncio.get_running_loop().time()


async def test_groups_of_one_connection_do_not_each_wait_for_the_same_silent_broker(
    gateway: KioGateway, silent: RawServer
) -> None:
    settings = at_silent(silent)
    first = await gateway.describe(settings, "orders")
    began_s, dialled = loop_s(), silent.connections
    others = [await gateway.describe(settings, f"group-{n}") for n in range(20)]
    assert loop_s() - began_s < TIMEOUT_S / 2
    assert silent.connections == dialled
    assert {o == first for o in others} == {True}, "the status must not flap between wordings"


async def test_silent_broker_is_asked_again_after_as_long_as_it_kept_us_waiting(
    cluster: Cluster, gateway: KioGateway, silent: RawServer
) -> None:
    settings = at_silent(silent)
    await gateway.describe(settings, "orders")
    dialled = silent.connections

    async def asked_again() -> bool:
        await gateway.describe(settings, "orders")
        return silent.connections > dialled

    began_s = loop_s()
    while not await asked_again():
        assert loop_s() - began_s < 5.0
        await asyncio.sleep(0.01)
    assert loop_s() - began_s > TIMEOUT_S / 2


async def test_changed_settings_are_tried_at_once_whatever_was_silent_before(kafka: Kafka, silent: RawServer) -> None:
    assert isinstance(await kafka.gateway.probe(at_silent(silent)), KafkaProblem)
    corrected = replace(kafka.settings, name="shop/kafka")
    assert isinstance(await kafka.gateway.probe(corrected), ClusterFacts)


async def test_broker_that_lets_in_and_then_answers_nothing_is_left_alone_too(kafka: Kafka, broker: FakeBroker) -> None:
    kafka.settings = replace(kafka.settings, request_timeout_s=TIMEOUT_S)
    broker.handlers[Api.FIND_COORDINATOR] = lambda request, version: SILENT
    assert isinstance(await kafka.describe("orders"), KafkaProblem)
    began_s, dialled = loop_s(), broker.connections
    outcomes = [await kafka.describe("orders") for _ in range(5)]
    assert loop_s() - began_s < TIMEOUT_S / 2
    assert broker.connections == dialled
    assert {o.kind for o in outcomes if isinstance(o, KafkaProblem)} == {KafkaProblemKind.UNREACHABLE}


async def test_connection_that_had_worked_and_was_cut_is_dialled_again_at_once(kafka: Kafka) -> None:
    """A packet filter that forgot a connection swallows what is sent over it; the broker itself is well."""
    kafka.groups["orders"] = Group(state="Empty")
    kafka.settings = replace(kafka.settings, request_timeout_s=TIMEOUT_S)
    await kafka.read("orders")
    kafka.broker.handlers[Api.DESCRIBE_GROUPS] = lambda request, version: SILENT
    assert isinstance(await kafka.describe("orders"), KafkaProblem)
    del kafka.broker.handlers[Api.DESCRIBE_GROUPS]
    await kafka.read("orders")


async def test_silent_bootstrap_server_does_not_keep_a_healthy_connection_waiting_twice(
    broker: FakeBroker, silent: RawServer, settings: ConnectionSettings
) -> None:
    """Whichever server the dice choose first, its silence is paid for once."""
    both = replace(settings, bootstrap_servers=(silent.address, broker.address), request_timeout_s=4.0)
    pool = ClusterPool(
        both, resolver=partial(SystemResolver().resolve, ["shop"]), rng=random.Random(3), clock=lambda: 0.0
    )
    began_s = loop_s()
    for _ in range(8):
        pool._close_connections()
        await pool.any_connection(loop_s() + TIMEOUT_S)
    assert loop_s() - began_s < TIMEOUT_S
    pool.close()


async def test_leave_that_is_cut_off_costs_no_other_call_its_answer(kafka: Kafka, broker: FakeBroker) -> None:
    """The answer that nobody waits for any more arrives later and belongs to nobody."""
    kafka.groups["orders"] = Group(members=[("m-0", "orders-0"), ("m-1", "orders-1")])
    await kafka.read("orders")
    broker.held = asyncio.Event()
    entry = LeaveEntry(member_id="m-0", instance_id="orders-0")
    leaving = asyncio.create_task(kafka.gateway.leave(kafka.settings, "orders", [entry]))
    await broker.has_seen(Api.LEAVE_GROUP)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    describing = asyncio.create_task(kafka.describe("orders"))
    await asyncio.sleep(0)
    broker.held.set()
    described = of_type(GroupView, await describing)
    assert [m.instance_id for m in described.members] == ["orders-1"]
    assert broker.connections == 1


@pytest.mark.looptime
async def test_long_silence_is_remembered_for_a_bounded_time() -> None:
    asked: list[float] = []

    async def never(_host: str, _port: int) -> list[str]:
        asked.append(loop_s())
        await asyncio.sleep(10_000)
        return []

    settings = ConnectionSettings(bootstrap_servers=("hole.example:9092",), request_timeout_s=60.0)
    gateway = KioGateway(resolver=never, rng=random.Random(1))
    while len(asked) < 3:
        assert isinstance(await gateway.describe(settings, "orders"), KafkaProblem)
        await asyncio.sleep(0.5)
    await gateway.close()
    for earlier, later in pairwise(asked):
        assert 60 + SILENCE_MAX_S - 1 <= later - earlier <= 60 + SILENCE_MAX_S + 2


async def test_names_of_one_tenant_that_do_not_resolve_do_not_delay_another_tenant() -> None:
    release = threading.Event()

    def look_up(host: str, _port: int) -> list[str]:
        if host.endswith(".evil.example"):
            release.wait(20)
        return ["10.0.0.5"]

    resolver = SystemResolver(look_up)
    evil = [asyncio.create_task(resolver.resolve(["evil"], f"b{n}.evil.example", 9092)) for n in range(200)]
    try:
        async with asyncio.timeout(5):
            assert await resolver.resolve(["good"], "kafka.good.example", 9092) == ("10.0.0.5",)
        for task in evil:
            task.cancel()  # those that waited go away, the look-ups themselves cannot be cut
        await asyncio.gather(*evil, return_exceptions=True)
        async with asyncio.timeout(5):
            assert await resolver.resolve(["good"], "kafka.good.example", 9092) == ("10.0.0.5",)
            assert await resolver.resolve(["evil", "good"], "kafka.both.example", 9092) == ("10.0.0.5",)
        late = asyncio.create_task(resolver.resolve(["evil"], "kafka.evil", 9092))
        done, _ = await asyncio.wait([late], timeout=0.05)
        assert not done, f"the tenant already has its {LOOK_UPS_OF_TENANT} look-ups"
        release.set()
        async with asyncio.timeout(5):
            assert await late == ("10.0.0.5",)
    finally:
        release.set()
        resolver.close()


async def test_gateway_looks_names_up_in_the_share_of_every_namespace_that_has_the_same_settings() -> None:
    """Two tenants with equal settings share connections; the one that asks for much must not use up the other's share."""
    release = threading.Event()
    asked: list[str] = []

    def look_up(host: str, _port: int) -> list[str]:
        asked.append(host)
        release.wait(20)
        raise OSError("no such name")

    def connection(name: str, host: str) -> ConnectionSettings:
        return ConnectionSettings(bootstrap_servers=(f"{host}:9092",), name=name, request_timeout_s=TIMEOUT_S)

    gateway = KioGateway(rng=random.Random(1))
    gateway._system_resolver = SystemResolver(look_up)
    try:
        holes = [connection(f"evil/hole{n}", f"b{n}.example") for n in range(2 * LOOK_UPS_OF_TENANT)]
        await asyncio.gather(*(gateway.probe(hole) for hole in holes), gateway.probe(connection("evil/k", "shared")))
        assert len(asked) == LOOK_UPS_OF_TENANT
        async with asyncio.timeout(5):
            while "shared" not in asked:  # it was left alone for as long as the other tenant waited
                await gateway.probe(connection("good/k", "shared"))
                await asyncio.sleep(0.01)
        assert asked[LOOK_UPS_OF_TENANT:] == ["shared"]
    finally:
        release.set()
        await gateway.close()
