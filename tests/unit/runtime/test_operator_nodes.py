"""What a whole operator process keeps and knows of nodes, from one process to the next."""

from __future__ import annotations

import asyncio
import time

import pytest

from staticgroup.kube.nodes.records import chunk_of
from staticgroup.kube.transport import connect
from staticgroup.runtime.assembly import Sources
from staticgroup.runtime.nodes import evidence as node_evidence
from staticgroup.runtime.operator import Operator
from staticgroup.runtime.process.settings import Settings
from support.fake_apiserver import BROKEN
from unit.kube.nodes.test_node_records import raw
from unit.kube.raw_objects import eventually

from .operator_world import KEY
from .test_operator import GROUPS, LEASE, Cluster, cluster, left

__all__ = ["cluster"]


@pytest.fixture(autouse=True)
def a_node(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a node, and looks that come often."""
    monkeypatch.setattr(node_evidence, "TICK_S", 0.05)
    cluster.server.put(raw("node-a"), "nodes")


async def test_the_operator_writes_down_nodes_and_says_what_one_owes(cluster: Cluster) -> None:
    server = cluster.server
    async with cluster.operating():
        await cluster.populated()
        await eventually(lambda: [k for k in server.objects if k[0] == "configmaps"])
        cluster.scale(2)
        server.remove("shop", "web-2")
        await eventually(lambda: "another machine when the pod came to it" in str(cluster.status.get("ledger")))
        await asyncio.sleep(0)
    assert left(cluster) == []
    assert server.objects[GROUPS, *KEY]["status"]["ledger"]["incarnations"][0]["owed"].startswith("node node-a may have been")


async def test_an_inquiry_knows_of_nodes_what_the_operator_has_written_down(cluster: Cluster) -> None:
    """Else it tells that nodes may have come and gone unseen where they are swept, and asks for a setting that is made."""
    async with cluster.operating(node_lifecycle="Cloud") as (operator, _):
        await eventually(lambda: [k for k in cluster.server.objects if k[0] == "configmaps"], 20)
        written = operator.node_ledger.fleet()
    transport = connect(cluster.server.configuration())
    later = Sources(now_s=lambda: time.time() + 20.0)
    asked = Operator(Settings(identity="two", namespace="ops", node_lifecycle="Cloud"), transport, sources=later, kafka=cluster.kafka)
    try:
        async with asyncio.timeout(20), asked.watching():
            known = asked.node_ledger.fleet()
    finally:
        await transport.close()
    assert known.trusted_since_s == written.trusted_since_s
    assert known.timeline_since_s == written.timeline_since_s
    assert known.records["node-a"].known_since_s == written.records["node-a"].known_since_s


@pytest.mark.parametrize("fails", [(), (BROKEN,), (403,), (429, 503)], ids=str)
async def test_a_process_that_begins_knows_of_a_machine_that_took_a_name_over_before(
    cluster: Cluster, fails: tuple[int, ...]
) -> None:
    """Before it believes the end of a pod that the later kubelet tells: certificates are given as soon as the watch begins."""
    server = cluster.server
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        server.put(raw("node-a", machineID="m2"), "nodes")
        name = ("configmaps", "ops", f"staticgroup-operator-nodes-{chunk_of('node-a')}")
        await eventually(lambda: '"machine_id":"m2"' in str(server.objects.get(name)), 20)
        assert operator.node_ledger.record_of("node-a") is not None
    cluster.scale(2)
    cluster.end(2)
    server.failing["get", "configmaps"] = list(fails)
    async with cluster.operating("two") as (operator, _):
        await eventually(lambda: operator.is_active, 20)
        await eventually(lambda: "since the pod came to it" in str(cluster.status.get("exceptions")) or left(cluster), 20)
    assert left(cluster) == []


async def test_a_process_that_may_not_read_what_is_remembered_of_nodes_works_all_the_same(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the right was never given, nothing was ever kept."""
    monkeypatch.setattr(node_evidence, "BEGIN_RETRY_S", 0.01)
    async with cluster.operating():
        await cluster.populated()
        await eventually(lambda: "annotations" in cluster.server.objects[LEASE]["metadata"], 20)
    cluster.server.denied.add(("get", "configmaps"))
    cluster.scale(2)
    cluster.end(2)
    async with cluster.operating("two"):
        await eventually(lambda: left(cluster), 20)
    assert left(cluster) == [cluster.id_of(2)]
