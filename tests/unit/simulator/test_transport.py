"""The operator's connection: requests that outlive their sender, watches that stall, break, lag and expire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import aiohttp
import pytest

from simulator.engine.loop import Process, run, simulation
from simulator.kubernetes.api_server import ApiServer
from simulator.kubernetes.objects import NAMESPACES, Json
from simulator.operators.transport import ModelTransport
from staticgroup.kube.problem import KubeProblem, KubeProblemKind
from staticgroup.kube.transport import LEASES, NODES, PODS, WatchStream
from support.narrowing import of_type, some

from .test_api_server import pod
from .virtual_time import told_by


class Wire:
    """One client, its process, and the server."""

    def __init__(self) -> None:
        loop = simulation()
        self.loop = loop
        self.server = ApiServer(now_s=loop.time)
        self.server.create(NAMESPACES, {"metadata": {"name": "shop"}})
        self.process: Process = loop.process("operator")
        self.transport = ModelTransport(self.server, loop, user="operator", rng=Random("wire"), process=self.process)
        self.faults = self.transport.faults

    async def list_pods(self) -> Json | KubeProblem:
        return await self.transport.call("list", PODS, namespace="shop")

    @asynccontextmanager
    async def watch(self, since: int | None = None, **query: str) -> AsyncIterator[WatchStream]:
        asked = {"resourceVersion": str(self.server.resource_version if since is None else since)} | query
        async with self.transport.watch(PODS, namespace="shop", query=asked) as stream:
            assert isinstance(stream, WatchStream)
            yield stream


def on_wire(test: Callable[[Wire], Awaitable[None]]) -> None:
    async def main() -> None:
        await test(Wire())

    run(main, seed=1, until_s=5_000)


wired = told_by(on_wire)


@wired()
async def test_call_takes_two_ways_and_returns_json(wire: Wire) -> None:
    wire.faults.latency_s = (0.25, 0.25)
    page = of_type(dict, await wire.list_pods())
    assert page["metadata"]["resourceVersion"] == str(wire.server.resource_version)
    assert wire.loop.time() == 0.5


@wired()
async def test_partition_costs_the_call_its_timeout_and_healing_ends_it(wire: Wire) -> None:
    """The product's transport gives up after 15 s with a problem, never with an exception."""
    wire.faults.is_cut = True
    answer = of_type(KubeProblem, await wire.list_pods())
    assert answer.status == 0
    assert wire.loop.time() == 15
    wire.transport.link.heal()
    assert isinstance(await wire.list_pods(), dict)
    wire.faults.is_refusing = True
    begun_s = wire.loop.time()
    assert isinstance(await wire.list_pods(), KubeProblem)
    assert wire.loop.time() == begun_s


@pytest.mark.parametrize(("fault", "is_written"), [("lost_requests", False), ("lost_answers", True)])
@wired()
async def test_lost_request_and_lost_answer_are_the_same_error_for_the_client(
    wire: Wire, fault: str, is_written: bool
) -> None:
    setattr(wire.faults, fault, 1)
    answer = of_type(KubeProblem, await wire.transport.call("create", PODS, namespace="shop", body=pod()))
    assert answer.kind is KubeProblemKind.UNAVAILABLE
    assert (wire.server.get("pods", "shop", "web-0") is not None) is is_written
    assert isinstance(await wire.list_pods(), dict), "only one was lost"


@wired()
async def test_request_that_was_sent_is_carried_out_after_its_sender_died(wire: Wire) -> None:
    wire.faults.latency_s = (1.0, 1.0)
    wire.process.start(wire.transport.call("create", PODS, namespace="shop", body=pod()))
    await asyncio.sleep(0.5)
    wire.process.kill()
    await asyncio.sleep(1)
    assert wire.server.get("pods", "shop", "web-0") is not None


@wired()
async def test_dead_client_reaches_nothing(wire: Wire) -> None:
    wire.process.kill()
    of_type(KubeProblem, await wire.transport.call("create", PODS, namespace="shop", body=pod()))
    assert wire.server.get("pods", "shop", "web-0") is None
    with pytest.raises(aiohttp.ClientError):
        async with wire.watch():
            pass


@wired()
async def test_refusals_are_problems_of_their_kind(wire: Wire) -> None:
    async def kind_of(verb: str, **options: Any) -> KubeProblemKind:
        answer = of_type(KubeProblem, await wire.transport.call(verb, PODS, namespace="shop", **options))
        return answer.kind

    wire.server.create("pods", pod())
    assert await kind_of("get", name="web-9") is KubeProblemKind.NOT_FOUND
    assert await kind_of("create", body=pod()) is KubeProblemKind.CONFLICT
    wire.faults.conflicts = 1
    assert await kind_of("patch", name="web-0", body={}) is KubeProblemKind.CONFLICT
    wire.faults.failing_status = 429
    assert await kind_of("list") is KubeProblemKind.UNAVAILABLE
    wire.faults.failing_status = 0
    wire.server.deny("operator", ("list", "watch"), "pods")
    assert await kind_of("list") is KubeProblemKind.FORBIDDEN
    assert isinstance(await wire.transport.call("list", NODES), dict), "another resource is not concerned"
    wire.server.allow("operator", ("list", "watch"), "pods")
    assert isinstance(await wire.list_pods(), dict)


@wired()
async def test_watch_delivers_in_order_what_it_missed_and_what_follows(wire: Wire) -> None:
    wire.faults.latency_s = (0.0, 1.0)
    since = wire.server.resource_version
    for n in range(5):
        wire.server.create("pods", pod(f"web-{n}"))
    async with wire.watch(since) as stream:
        for n in range(5, 10):
            wire.server.create("pods", pod(f"web-{n}"))
        events = [await stream.next_event(10) for _ in range(10)]
        assert [e["object"]["metadata"]["name"] for e in events if e] == [f"web-{n}" for n in range(10)]
        with pytest.raises(TimeoutError):
            await stream.next_event(3)


@wired()
async def test_short_watch_brings_a_bookmark_about_a_second_after_it_began(wire: Wire) -> None:
    """Seen on 1.36.3: with timeoutSeconds=3 after 0.4 to 1.7 s, with 2 s none (cache_watcher.go nextBookmarkTime)."""
    since = wire.server.resource_version
    wire.server.create("pods", pod())
    wire.server.create("nodes", {"metadata": {"name": "n1"}, "spec": {}})
    await wire.list_pods()
    target = wire.server.resource_version
    for timeout_s, is_expected in ((3, True), (2, False)):
        begun_s = wire.loop.time()
        async with wire.watch(since, timeoutSeconds=str(timeout_s)) as stream:
            found = []
            while (event := await stream.next_event(10)) is not None:
                found.append((event["type"], wire.loop.time() - begun_s))
        assert found[0][0] == "ADDED"
        assert (len(found) == 2) is is_expected
        if is_expected:
            assert found[1][0] == "BOOKMARK"
            assert 0.4 < found[1][1] < 2.3
            assert target == wire.server.resource_version
        assert wire.loop.time() - begun_s == pytest.approx(timeout_s, abs=0.1)


@wired()
async def test_no_bookmark_repeats_the_version_of_the_last_event(wire: Wire) -> None:
    """Seen on 1.36.3: a short watch from the present version stays silent."""
    async with wire.watch(timeoutSeconds="4") as stream:
        assert await stream.next_event(10) is None


@wired()
async def test_long_watch_gets_a_bookmark_a_minute(wire: Wire) -> None:
    async with wire.watch(timeoutSeconds="300") as stream:
        wire.server.create("nodes", {"metadata": {"name": "n1"}, "spec": {}})
        event = some(await stream.next_event(75))
        assert event["type"] == "BOOKMARK"
        assert 59 < wire.loop.time() < 62


@wired()
async def test_partitioned_watch_is_silent_and_then_delivers_all_it_held(wire: Wire) -> None:
    async with wire.watch() as stream:
        wire.faults.is_cut = True
        wire.server.create("pods", pod("web-0"))
        with pytest.raises(TimeoutError):
            await stream.next_event(5)
        wire.transport.link.heal()
        wire.server.create("pods", pod("web-1"))
        events = [await stream.next_event(1) for _ in range(2)]
        assert [e["object"]["metadata"]["name"] for e in events if e] == ["web-0", "web-1"]


@wired()
async def test_broken_watch_raises_what_the_product_expects(wire: Wire) -> None:
    for breaking in (wire.transport.link.break_watches, wire.server.break_watches):
        async with wire.watch() as stream:
            simulation().call_later(1, breaking)
            with pytest.raises(aiohttp.ClientError):
                await stream.next_event(10)
    assert wire.transport.link.open == []
    assert not wire.server.subscriptions.get("pods")


@wired()
async def test_compacted_watch_is_gone(wire: Wire) -> None:
    since = wire.server.resource_version
    wire.server.create("pods", pod())
    wire.server.compact("pods")
    async with wire.transport.watch(PODS, query={"resourceVersion": str(since)}) as stream:
        assert isinstance(stream, KubeProblem)
        assert stream.kind is KubeProblemKind.GONE


@wired()
async def test_error_event_arrives_as_the_server_sends_it(wire: Wire) -> None:
    async with wire.watch() as stream:
        await asyncio.sleep(1)
        wire.transport.link.send_error(410)
        assert await stream.next_event(5) == {"type": "ERROR", "object": {"kind": "Status", "code": 410}}


@wired()
async def test_lagging_watch_shows_the_past_while_reads_show_the_present(wire: Wire) -> None:
    """Time travel: the cache of one API server lags, a consistent read does not (KEP-2340)."""
    wire.faults.watch_delay_s = 20.0
    async with wire.watch() as stream:
        wire.server.create("pods", pod())
        page = of_type(dict, await wire.list_pods())
        assert len(page["items"]) == 1
        wire.faults.watch_delay_s = 0.0
        wire.server.create("pods", pod("web-1"))
        with pytest.raises(TimeoutError):
            await stream.next_event(15)
        events = [await stream.next_event(10) for _ in range(2)]
        assert [e["object"]["metadata"]["name"] for e in events if e] == ["web-0", "web-1"]
        assert wire.loop.time() > 20


@wired()
async def test_dropped_event_is_lost_while_the_watch_goes_on(wire: Wire) -> None:
    async with wire.watch() as stream:
        wire.faults.dropped_events = 1
        wire.server.create("pods", pod("web-0"))
        wire.server.create("pods", pod("web-1"))
        event = some(await stream.next_event(5))
        assert event["object"]["metadata"]["name"] == "web-1"


@wired()
async def test_lease_update_of_the_slower_writer_conflicts(wire: Wire) -> None:
    """client-go leader election relies on this: every write carries the version it was read at."""
    place = {"namespace": "shop", "name": "lock"}
    lease = await wire.transport.call("create", LEASES, namespace="shop", body={"metadata": place, "spec": {}})
    assert isinstance(lease, dict)
    ours, theirs = (lease | {"spec": {"holderIdentity": who}} for who in ("a", "b"))
    answers = [await wire.transport.call("update", LEASES, **place, body=body) for body in (ours, theirs)]
    assert isinstance(answers[0], dict)
    assert isinstance(answers[1], KubeProblem)
    assert answers[1].kind is KubeProblemKind.CONFLICT
