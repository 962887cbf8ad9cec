"""One look at a node: what is read of it, and what makes no look at all."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.kube.nodes.looks import NodeLooks
from staticgroup.kube.transport import Transport
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
        (listed(), set()),
        (listed({"namespace": "shop", "name": "web-0"}), None),
        (listed(kind="Status"), None),
        ({"kind": "PodList", "items": [7]}, None),
        ({}, None),
    ],
)
async def test_a_runtime_lists_what_it_runs_or_was_not_asked(
    server: FakeApiServer, looks: NodeLooks, body: Any, found: Any
) -> None:
    """An answer that cannot be read is never an empty one."""
    server.served[RUNNING_PODS] = body
    look = await looks.look("n1", asks_runtime=True)
    assert look is not None
    assert look.listed == found


async def test_a_runtime_that_does_not_answer_was_not_asked(server: FakeApiServer, looks: NodeLooks) -> None:
    server.failing_paths.add(RUNNING_PODS)
    look = await looks.look("n1", asks_runtime=True)
    assert look is not None
    assert look.listed is None
