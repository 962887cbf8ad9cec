"""Whole operator processes over HTTP: before the pod watch is whole, after a restore, after a take-over of a Node."""

from __future__ import annotations

import asyncio
import json

import pytest

from unit.kube.raw_objects import eventually, finished, pod, running

from .process_world import LEASE, Cluster, left


@pytest.mark.parametrize("is_refused", [False, True])
async def test_a_loss_that_the_replay_shows_counts_although_rounds_ran_on_the_list_alone(cluster: Cluster, is_refused: bool) -> None:
    """A process resumes. Its watch of pods is refused for some seconds (429), so it has the LIST only, which shows the end of web-2. The
    replay then shows that a run of web-2 was lost before that end."""
    server = cluster.server
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        await cluster.carriers_are_known()
        watch = await cluster.stored_watch(operator)
    # While no operator runs, for seconds: the kubelet loses the run that holds the seat, starts another one, and that ends.
    lost = running() | {"containerID": "containerd://b", "restartCount": 1, "lastState": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}}
    server.put(cluster.injected(pod("web-2", uid="u2", instance_id=cluster.id_of(2), statuses=[lost])))
    cluster.scale(2)
    server.put(cluster.injected(finished("web-2", uid="u2", instance_id=cluster.id_of(2), finalizers=["example.com/log"])))
    if is_refused:
        server.failing["watch", "pods"] = [429] * 10_000
    async with cluster.operating("two") as (operator, _):
        if is_refused:
            await eventually(lambda: operator.is_active)
            await asyncio.sleep(3)
            server.failing.clear()
        await eventually(lambda: operator.pods.watch("shop"))
        assert operator.pods.watch("shop") == watch
        server.remove("shop", "web-2")
        await asyncio.sleep(4)
    assert left(cluster) == []


async def test_a_position_that_was_read_before_a_restore_is_not_adopted_after_it(cluster: Cluster) -> None:
    """A single replica takes over. Between its reading of the Lease and its LISTs the API server goes away, and etcd is set back."""
    server = cluster.server
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        await cluster.carriers_are_known()
        watch = await cluster.stored_watch(operator)
    backup = server.snapshot()
    for _ in range(50):
        server.tick()
    # The Lease says where a watch of now goes on.
    lease = server.objects[LEASE]
    lease["metadata"]["annotations"]["staticgroup.io/watch-position"] = json.dumps({"": [server.resource_version, watch]})
    server.put(lease, LEASE[0])
    readings = 0
    from staticgroup.kube.lease import ActiveLease

    read = ActiveLease.read_position

    async def read_position(self: ActiveLease) -> object:
        nonlocal readings
        found = await read(self)
        readings += 1
        if readings == 2:  # the reading of the take-over was answered; now the API server goes away
            server.failing_status = 503
            server.break_watches()
            # Another API server still answers the kubelets: web-2 is made anew, on a node that is then cut off.
            server.put(cluster.injected(finished("web-2", uid="u2", instance_id=cluster.id_of(2))))
            server.remove("shop", "web-2")
            server.put(cluster.injected(pod("web-2", uid="u2b", instance_id=cluster.id_of(2))))
            cluster.kafka.join(cluster.id_of(2))
            server.restore(backup)
            server.failing_paths.add("/apis/staticgroup.io/v1alpha1/staticgroups")  # one LIST takes a little longer
            server.failing_status = 0
        return found

    ActiveLease.read_position = read_position  # type: ignore[method-assign]
    try:
        async with cluster.operating("two", leader_election=False) as (operator, _):
            await eventually(lambda: readings >= 2)
            await eventually(lambda: operator.pods.watch("shop") not in ("", watch))
            server.failing_paths.clear()
            await eventually(lambda: operator.is_active)
            adopted = operator.pods.watch("shop")
            await asyncio.sleep(2)
            # u2 is there again by the restored etcd; its kubelet reports its end, and u2b's runs on, cut off.
            cluster.scale(2)
            cluster.end(2)
            await asyncio.sleep(4)
    finally:
        ActiveLease.read_position = read  # type: ignore[method-assign]
    assert adopted != watch
    assert left(cluster) == []


def node_a(machine: str, **metadata: object) -> dict[str, object]:
    return {
        "metadata": {"name": "node-a", "uid": "node-uid", **metadata},
        "status": {"nodeInfo": {"kubeletVersion": "v1.36.3", "machineID": machine}},
    }


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_that_a_machine_took_a_node_over_is_known_to_the_next_process_too(cluster: Cluster, is_replaced: bool) -> None:
    """m1 is cut off and runs web-2 on; m2 takes its Node over while an operator watches, as the premise asks. Then another process begins."""
    server = cluster.server
    server.put(node_a("m1"), "nodes")
    async with cluster.operating() as (operator, _):
        await cluster.populated()
        await cluster.carriers_are_known()
        server.put(node_a("m2"), "nodes")
        await eventually(lambda: operator.nodes.node_of("node-a").other_until_s > 0)
        # m2 starts web-2 again: first its kubelet shows the run of m1 as lost, and after one more restart nothing of that.
        lost = running() | {"containerID": "containerd://b", "restartCount": 1, "lastState": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}}
        server.put(cluster.injected(pod("web-2", uid="u2", instance_id=cluster.id_of(2), statuses=[lost])))
        await asyncio.sleep(1)
        server.put(cluster.injected(pod("web-2", uid="u2", instance_id=cluster.id_of(2), statuses=[running() | {"containerID": "containerd://c", "restartCount": 2}])))
        await asyncio.sleep(2)
        watch = operator.pods.names()
        # 20 s later, as the Lease keeps it: the position is behind all of this.
        lease = server.objects[LEASE]
        lease["metadata"]["annotations"]["staticgroup.io/watch-position"] = json.dumps({"": [server.resource_version, watch]})
        if not is_replaced:
            cluster.scale(2)
            cluster.end(2)
            await asyncio.sleep(4)
    if is_replaced:
        server.objects[LEASE]["metadata"]["annotations"]["staticgroup.io/watch-position"] = lease["metadata"]["annotations"]["staticgroup.io/watch-position"]
        server.put(server.objects[LEASE], LEASE[0])
        async with cluster.operating("two") as (operator, _):
            await eventually(lambda: operator.is_active)
            cluster.scale(2)
            cluster.end(2)
            await asyncio.sleep(4)
    assert left(cluster) == []
