"""A StaticGroup whose status cannot be written costs no other one its history, through a whole restart of the operator."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.kube.lease import CONTINUITY_ANNOTATION
from support.fake_apiserver import FakeApiServer
from unit.kube.raw_objects import eventually, pod

from .operator_world import static_group
from .test_operator import GROUPS, LEASE, STATEFUL_SETS, Cluster, left, stateful_set

BILLS_STATUS = f"/apis/{names.API_VERSION}/namespaces/shop/staticgroups/bills/status"
BILL = ["shop", "bill"]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with FakeApiServer().serving() as server:
        yield Cluster(server)


def declare_bills(cluster: Cluster, uid: str = "sg-bills") -> None:
    """Let there be another StaticGroup, on the workload `bill`."""
    body = static_group(uid=uid, workloadRef={"name": "bill"}, groupId="bills")
    body["metadata"]["name"] = "bills"
    cluster.server.put(body, GROUPS)
    workload = stateful_set(1)
    workload["metadata"] |= {"name": "bill", "uid": "w2"}
    cluster.server.put(workload, STATEFUL_SETS)


def status_of_bills(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.server.objects[GROUPS, "shop", "bills"].get("status") or {}
    return found


def remembered(cluster: Cluster) -> list[str]:
    ledger = status_of_bills(cluster).get("ledger") or {}
    return [entry["uid"] for entry in ledger.get("incarnations", ())]


def stored(cluster: Cluster) -> dict[str, Any]:
    annotations = cluster.server.objects[LEASE]["metadata"].get("annotations") or {}
    found: dict[str, Any] = json.loads(annotations.get(CONTINUITY_ANNOTATION, "{}"))
    return found


async def left_behind(cluster: Cluster) -> None:
    """Run an operator that cannot write that a pod of `bill` has gone, and stores a position beyond it."""
    declare_bills(cluster)
    async with cluster.operating():
        await cluster.populated()
        await eventually(lambda: "injected" in status_of_bills(cluster), 20)
        bill_id = f"bill-0.{status_of_bills(cluster)['injected']['scope']}"
        cluster.server.put(pod("bill-0", uid="b0", instance_id=bill_id))
        cluster.server.failing_paths.add(BILLS_STATUS)
        cluster.server.remove("shop", "bill-0")
        await eventually(lambda: [entry[:2] for entry in stored(cluster).get("behind", ())] == [BILL], 20)
        now = int(cluster.server.put(pod("other-0", uid="o0", instance_id=None))["metadata"]["resourceVersion"])
        await eventually(lambda: stored(cluster).get("reached", {}).get("", 0) >= now, 20)


async def test_others_go_on_although_the_history_of_the_one_is_gone(cluster: Cluster) -> None:
    await left_behind(cluster)
    cluster.scale(2)
    cluster.end(2)
    cluster.server.compacted = stored(cluster)["resourceVersions"][""] + 1
    async with cluster.operating("two") as (operator, _):
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members, 20)
        assert [list(workload) for workload in operator.pods.behind_workloads] == [BILL]
        cluster.server.failing_paths.clear()
        await eventually(lambda: (status_of_bills(cluster).get("continuity") or {}).get("blind"), 20)
        await eventually(lambda: "behind" not in stored(cluster), 20)
    assert cluster.status["continuity"]["blind"] == []
    assert left(cluster) == [cluster.id_of(2)]


async def test_nothing_is_lost_to_the_one_either_while_the_history_is_there(cluster: Cluster) -> None:
    await left_behind(cluster)
    epoch = stored(cluster)["epoch"]
    cluster.server.failing_paths.clear()
    async with cluster.operating("two") as (operator, _):
        await eventually(lambda: remembered(cluster) == ["b0"], 20)
        assert operator.pods.epoch == epoch
        await eventually(lambda: "behind" not in stored(cluster), 20)


async def test_staticgroup_that_is_deleted_is_behind_no_more(cluster: Cluster) -> None:
    await left_behind(cluster)
    async with cluster.operating("two"):
        await eventually(lambda: [entry[:2] for entry in stored(cluster).get("behind", ())] == [BILL], 20)
        cluster.server.remove("shop", "bills", GROUPS)
        await eventually(lambda: "behind" not in stored(cluster), 20)


async def test_new_staticgroup_of_a_workload_with_a_past_holds_nobody_back(cluster: Cluster) -> None:
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        cluster.server.put(pod("bill-0", uid="b0", instance_id="by-hand"))
        past = int(cluster.server.remove("shop", "bill-0")["metadata"]["resourceVersion"])
        await eventually(lambda: operator.pods.position("shop") >= past, 20)
        await eventually(lambda: stored(cluster).get("resourceVersions", {}).get("", 0) >= past, 20)
        cluster.server.failing_paths.add(BILLS_STATUS)
        declare_bills(cluster)
        await eventually(lambda: [entry[:2] for entry in stored(cluster).get("behind", ())] == [BILL], 20)
        assert stored(cluster)["reached"][""] >= past
