"""Node facts: followed, or known to be unreadable."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from simulator.operators.entrance import follow
from staticgroup.kube.informer import Informer
from staticgroup.kube.nodes import store as node_store
from staticgroup.kube.nodes.store import NodeStore
from staticgroup.kube.transport import NODES, connect
from support.fake_apiserver import FakeApiServer
from support.narrowing import some
from unit.kube.raw_objects import eventually

OUT_OF_SERVICE = [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]


def node(
    name: str = "node-a", *, version: str = "v1.36.3", machine_id: str = "m1", taints: list[dict[str, str]] | None = None
) -> dict[str, Any]:
    return {
        "metadata": {"name": name}, "spec": {"taints": taints or []},
        "status": {"nodeInfo": {"kubeletVersion": version, "machineID": machine_id}},
    }


@asynccontextmanager
async def following(
    server: FakeApiServer, now_s: Callable[[], float] = lambda: 50.0
) -> AsyncIterator[tuple[NodeStore, list[str]]]:
    transport = connect(server.configuration())
    changed: list[str] = []
    clock_s = asyncio.get_running_loop().time
    store = NodeStore(on_change=changed.append, now_s=now_s)
    informer = Informer(
        transport, NODES, store.changed, scope="", outage=transport.outage, rng=Random(1), clock_s=clock_s, on_refused=store.readable,
        retry_delay_s=0.002,
    )
    task = asyncio.create_task(follow(informer))
    try:
        async with asyncio.timeout(60):
            await informer.wait_complete()
        await eventually(lambda: server.watches)
        yield store, changed
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await transport.close()


async def test_nodes_are_listed_followed_and_remembered_after_they_are_gone(server: FakeApiServer) -> None:
    server.put(node(), "nodes")
    async with following(server) as (store, changed):
        assert store.node_of("node-a") is not None
        await eventually(lambda: server.watches)
        server.put(node("node-b", version="v1.26.0"), "nodes")
        server.remove("", "node-a", "nodes")
        await eventually(lambda: there(store, "node-a", "node-b") == ["node-b"])
        gone, present = store.node_of("node-a"), store.node_of("node-b")
        assert gone is not None
        assert present is not None
        assert (gone.kubelet_minor, present.kubelet_minor) == (36, 26)
        assert changed == ["node-a", "node-b", "node-a"], "its end is news, too"
        assert store.node_of("node-c") is None
        assert store.node_of("") is None


async def test_expired_watch_lists_again(server: FakeApiServer) -> None:
    server.put(node(), "nodes")
    async with following(server) as (store, _):
        server.break_watches()
        server.remove("", "node-a", "nodes")
        server.put(node("node-b"), "nodes")
        server.compact()
        await eventually(lambda: there(store, "node-a", "node-b") == ["node-b"])
        assert store.node_of("node-a") is not None


def there(store: NodeStore, *names: str) -> list[str]:
    """Return those of some Nodes that exist, as far as the watch has shown."""
    return [name for name in names if store.is_present(name)]


async def test_taint_is_followed_and_remembered_when_the_node_is_deleted(server: FakeApiServer) -> None:
    """A node under the taint may be deleted before its pods' last versions are judged."""
    server.put(node(), "nodes")
    async with following(server) as (store, changed):
        server.put(node(taints=OUT_OF_SERVICE), "nodes")
        await eventually(lambda: changed == ["node-a", "node-a"])
        server.remove("", "node-a", "nodes")
        await eventually(lambda: not there(store, "node-a"))
        gone = some(store.node_of("node-a"))
        assert gone.is_out_of_service


async def test_nodes_that_may_not_be_listed_are_unreadable_until_they_may(server: FakeApiServer) -> None:
    """What is known of them may be old: a taint may have come, or another machine."""
    server.put(node(), "nodes")
    async with following(server) as (store, changed):
        server.denied.add(("list", "nodes"))
        server.break_watches()
        await eventually(lambda: store.node_of("node-a") is None)
        server.denied.clear()
        await eventually(lambda: store.node_of("node-a"))
        assert changed == ["node-a"]


async def test_vanished_nodes_are_bounded(server: FakeApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_store, "VANISHED_MAX", 2)
    for number in range(4):
        server.put(node(f"n{number}"), "nodes")
    async with following(server) as (store, _):
        for number in range(4):
            server.remove("", f"n{number}", "nodes")
        await eventually(lambda: not there(store, *(f"n{n}" for n in range(4))))
        assert [store.node_of(f"n{n}") is not None for n in range(4)] == [False, False, True, True]


async def test_node_that_cannot_be_read_any_more_is_there_all_the_same(server: FakeApiServer) -> None:
    server.put(node(), "nodes")
    async with following(server) as (store, changed):
        server.break_watches()
        server.put({"metadata": {"name": "node-a"}, "status": {"nodeInfo": 7}}, "nodes")
        server.put(node("node-b"), "nodes")
        server.compact()
        await eventually(lambda: store.is_present("node-b"))
        assert store.is_present("node-a")
        assert changed == ["node-a", "node-b"]


async def test_node_object_that_stands_for_another_machine_says_until_when_it_stood_for_the_first(server: FakeApiServer) -> None:
    """The object itself does not show it, and a suspect of the first one is not ended with it."""
    now = [900.0]
    server.put(node(machine_id=""), "nodes")
    async with following(server, now_s=lambda: now[0]) as (store, changed):
        server.put(node(), "nodes")
        await eventually(lambda: len(changed) == 2)
        found = some(store.node_of("node-a"))
        assert found.other_until_s == 0.0, "it only says now which machine it stands for"
        now[0] += 100
        server.put(node(machine_id="m2"), "nodes")
        await eventually(lambda: len(changed) == 3)
        now[0] += 500
        server.put(node(version="v1.36.4", machine_id="m2"), "nodes")
        await eventually(lambda: len(changed) == 4)
        found = some(store.node_of("node-a"))
        assert found.other_until_s == 1_010.0
        server.remove("", "node-a", "nodes")
        await eventually(lambda: not store.is_present("node-a"))
        server.put(node(machine_id="m3") | {"metadata": {"name": "node-a", "uid": "made anew"}}, "nodes")
        await eventually(lambda: store.is_present("node-a"))
        found = some(store.node_of("node-a"))
        assert found.other_until_s == 1_510.0, "an object that was made anew may stand for another machine, too"
