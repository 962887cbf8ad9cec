"""One look at a node: what is read of it, and what makes no look at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from staticgroup.kube.nodes import looks as node_looks
from staticgroup.kube.nodes.looks import NodeLooks
from staticgroup.kube.transport import PODS, Resource, Transport
from support.clock import Clock
from support.fake_apiserver import FakeApiServer
from unit.kube.nodes.test_node_records import raw
from unit.kube.raw_objects import pod, waiting

RUNNING_PODS = "/api/v1/nodes/n1/proxy/runningpods/"


@pytest.fixture
def looks(server: FakeApiServer, transport: Transport) -> NodeLooks:
    server.put(raw(), "nodes")
    lease = {"metadata": {"namespace": "kube-node-lease", "name": "n1"}, "spec": {"renewTime": "2026-01-01T00:00:00.5Z"}}
    server.put(lease, "leases.coordination.k8s.io")
    server.put(pod("web-0", uid="u0", node="n1"))
    server.put(pod("web-1", uid="u1", node="n1", statuses=[waiting()]))
    server.put(pod("web-2", uid="u2", node="n2"))
    server.put(pod("web-3", uid="u3", node="n1", namespace="bill"))
    server.put(pod("static", uid="u4", node="n1", annotations={"kubernetes.io/config.mirror": "1"}))
    return NodeLooks(transport, scopes=("",), clock_s=Clock(7.0))


async def test_a_look_shows_the_node_its_lease_and_its_pods(looks: NodeLooks) -> None:
    """A mirror pod is made by the kubelet itself, so that it runs says nothing of what the kubelet has heard."""
    look = await looks.look("n1")
    assert look is not None
    assert look.view is not None
    assert (look.at_s, look.lease, look.view.machine_id) == (7.0, "2026-01-01T00:00:00.5Z", "m1")
    assert (look.bound, look.running) == ({"u0", "u1", "u3", "u4"}, {"u0", "u3"})
    assert look.listed is None


async def test_only_the_pods_of_served_namespaces_are_looked_at(server: FakeApiServer, transport: Transport, looks: NodeLooks) -> None:
    look = await NodeLooks(transport, scopes=("shop",), clock_s=Clock()).look("n1")
    assert look is not None
    assert look.bound == {"u0", "u1", "u4"}


async def test_a_node_that_is_not_there_is_a_look_and_one_that_cannot_be_read_is_none(
    server: FakeApiServer, looks: NodeLooks
) -> None:
    absent = await looks.look("n9")
    assert absent is not None
    assert absent.view is None
    for asked in (("get", "nodes"), ("get", "leases.coordination.k8s.io"), ("list", "pods")):
        for status in (403, 500):
            server.failing[asked] = [status]
            assert await looks.look("n1") is None, asked
    server.put({"metadata": {"name": "n1"}, "status": {"nodeInfo": 7}}, "nodes")
    assert await looks.look("n1") is None


async def test_a_node_without_a_lease_shows_none(server: FakeApiServer, looks: NodeLooks) -> None:
    server.remove("kube-node-lease", "n1", "leases.coordination.k8s.io")
    look = await looks.look("n1")
    assert look is not None
    assert look.lease == ""


def listed(*pods: dict[str, Any], kind: str = "PodList") -> dict[str, Any]:
    return {"kind": kind, "items": [{"metadata": metadata} for metadata in pods] or None}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (listed({"namespace": "shop", "name": "web-0", "uid": "u0"}), {("shop", "web-0", "u0")}),
        (listed({"namespace": "shop", "name": "web-0", "uid": "u0"}, {"namespace": "x", "name": "y", "uid": "z"}), {("shop", "web-0", "u0"), ("x", "y", "z")}),
        (listed(), None),
        (listed({"namespace": "shop", "name": "web-1", "uid": "u1"}, {"namespace": "x", "name": "y", "uid": "z"}), None),
        (listed({"namespace": "shop", "name": "web-0"}), None),
        (listed(kind="Status"), None),
        ({"kind": "PodList", "items": [7]}, None),
        ({}, None),
    ],
)
async def test_a_runtime_lists_what_it_runs_or_was_not_asked(
    server: FakeApiServer, looks: NodeLooks, body: Any, found: Any
) -> None:
    """An answer that cannot be read is never an empty one, and one that lacks all that runs on the node is another kubelet's."""
    server.served[RUNNING_PODS] = body
    look = await looks.look("n1", asks_runtime=True)
    assert look is not None
    assert look.listed == found


async def test_a_runtime_that_does_not_answer_was_not_asked(server: FakeApiServer, looks: NodeLooks) -> None:
    server.failing_paths.add(RUNNING_PODS)
    look = await looks.look("n1", asks_runtime=True)
    assert look is not None
    assert look.listed is None


async def test_what_does_not_answer_makes_no_look_and_a_runtime_alone_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server passes a question on to a dead kubelet for longer than a look may take."""
    transport = Hanging()
    looks = NodeLooks(transport, scopes=("",), clock_s=Clock())  # type: ignore[arg-type]  # the same calls
    monkeypatch.setattr(node_looks, "RUNTIME_LIMIT_S", 0.01)
    look = await looks.look("n1", asks_runtime=True)
    assert look is not None
    assert look.listed is None
    assert look.running == {"u0"}
    monkeypatch.setattr(node_looks, "LOOK_LIMIT_S", 0.01)
    transport.hangs = True
    assert await looks.look("n1") is None


class Hanging:
    """An API server that never gets an answer of the kubelet, and on request never gives one itself."""

    hangs = False

    async def call(self, verb: str, resource: Resource, **_: Any) -> dict[str, Any]:
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        return {"items": [pod("web-0", uid="u0", node="n1")]} if resource is PODS else raw()

    async def call_path(self, *_: Any) -> dict[str, Any]:
        never: dict[str, Any] = await asyncio.get_running_loop().create_future()
        return never
