"""What is remembered of pods whose Nodes may not be listed for a while."""

from __future__ import annotations

import pytest

from staticgroup.kube.nodes.store import NodeStore
from staticgroup.kube.problem import problem_of
from unit.core.builders import ended

from .operator_world import OperatorWorld, guards
from .stories import left
from .test_lost_runs import loses_a_run_and_goes_on

RAW_NODE = {
    "metadata": {"name": "n1", "uid": "node-1", "resourceVersion": "1"},
    "status": {"nodeInfo": {"kubeletVersion": "v1.36.3", "machineID": "m1"}},
}


@pytest.mark.parametrize("may_list", [True, False])
async def test_a_lost_run_is_remembered_when_its_pod_goes_while_nodes_may_not_be_listed(may_list: bool) -> None:
    """An earlier process saw the loss, which no version shows any more; its process holds the seat. The right to list
    Nodes is missing when web-2 ends and goes, and is given back later."""
    world = await OperatorWorld().started()
    await loses_a_run_and_goes_on(world, restart_after=2)
    nodes = NodeStore(on_change=lambda name: None, now_s=lambda: world.now_s)
    nodes.changed(RAW_NODE, is_deleted=False)
    world.pods.book._node_of = nodes.node_of
    world.reconciler.gatherer.nodes = nodes
    assert [(s.uid, s.lost_run) for s in world.status.memory.suspects] == [("u2", True)]
    if not may_list:
        nodes.readable(problem_of(403, verb="list", resource="nodes"))
    world.scale(2)
    world._happens(ended(2, "u2", instance_ids=frozenset({world.id_of(2)}), ids_are_fixed=True, restart_count=2))
    await world.settled(2)
    world.remove_object(2)
    await world.settled(2)
    nodes.readable(None)
    await world.settled(4)
    assert (left(world), guards(world)) == ([], ["Suspect"])


@pytest.mark.parametrize("may_list", [True, False])
async def test_an_end_that_waits_for_its_node_is_forgotten_when_etcd_is_set_back_to_before_it(may_list: bool) -> None:
    """web-2 ends while Nodes may not be listed, and goes. etcd is set back, which is seen: web-2 is there again, and its
    kubelet runs it anew. A member of that run joins once the new watch is whole. Then Nodes may be listed again."""
    world = await OperatorWorld().started()
    nodes = NodeStore(on_change=lambda name: None, now_s=lambda: world.now_s)
    nodes.changed(RAW_NODE, is_deleted=False)
    world.pods.book._node_of = nodes.node_of
    world.reconciler.gatherer.nodes = nodes
    before, version = dict(world.kube.pods), world.kube.resource_version
    if not may_list:
        nodes.readable(problem_of(403, verb="list", resource="nodes"))
    world.kube.resource_version += 100
    world.scale(2)
    world.end(2)
    await world.settled(3)
    world.kafka.members.pop(world.id_of(2), None)
    # etcd is set back, and that is seen: versions are compared anew, a LIST, a new watch.
    world.kube.resource_version = version
    world.kube.pods = dict(before)
    world.scale(3)
    world.pods.book.forget_versions()
    for each in world.kube.pods.values():
        world.pods.book.take(each, is_deleted=False, in_order=False, listed_at=version)
    world.pods.at = version
    world.pods.watch_name = f"{int(world.now_s) + 1}-00000002"
    await world.settled(2)
    world.kafka.join(world.id_of(2), "of-the-run-since-then")
    for _ in range(30):
        world.now_s += 30
        await world.round()
    world.kafka.join(world.id_of(2), "after-a-crash-of-its-process")
    await world.settled(2)
    of_the_dead = left(world)
    nodes.readable(None)
    await world.settled(2)
    world.scale(2)
    await world.settled(4)
    assert left(world) == of_the_dead
