"""What Nodes say of pods: nothing where they are older or newer than the pods, or stand for another machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unit.core.builders import NODE, NOW_S
from unit.core.crashes import over, runs

from .operator_world import OperatorWorld, guards
from .stories import left
from .test_node_gone import gone, lost_with_its_node, on_its_own_node


async def test_a_pod_that_was_lost_before_the_watch_began_is_not_gone_with_its_node_although_the_clock_was_set_back() -> None:
    """The clock was 8 s ahead, which the premise allows (10 s); etcd is set back, which forgets n2, cut off with web-2."""
    world = await lost_with_its_node()
    world.set_clock(-8)
    gone(world)  # a restored etcd has no such Node; its machine is cut off and runs on
    present = tuple(world.kube.pods.values())
    began_s = int(world.now_s) + 1
    world.pods.lose(present, world.kube.resource_version, f"{began_s}-00000002")
    await world.settled(12)
    assert left(world) == []


@pytest.mark.parametrize("apart_s", [0.0, 6.0])
async def test_a_node_is_not_made_after_its_pod_because_two_api_servers_date_them(apart_s: float) -> None:
    """n2 is 4 s old when web-2 is bound to it. One API server dates the Node, another one, whose clock is 6 s behind, the binding."""
    node, placed = {"created_at_s": NOW_S - 4}, {"created_at_s": NOW_S - 60, "scheduled_at_s": NOW_S - apart_s}
    world = await on_its_own_node(node=node, **placed)
    await world.loses(4)  # by force; n2 is there and web-2 runs on
    assert (left(world), guards(world)) == ([], ["Suspect"])


@pytest.mark.parametrize("shows_loss", [False, True])
async def test_a_pod_that_the_machine_of_a_node_that_was_made_again_runs_has_not_ended_with_the_first_machine(shows_loss: bool) -> None:
    """n2's machine is off and its Node goes; a new machine registers as n2 before web-2 is collected, and starts web-2 again, which joins.
    web-2 is then deleted by force. Every premise holds: the first machine was off when its Node was deleted."""
    world = await on_its_own_node(node={"machine": "m1"}, scheduled_at_s=NOW_S - 500, required=(runs(),))
    await world.settled(2)
    world.kube.nodes["n2"] = replace(NODE, name="n2", uid="node-3", provider="aws", machine="m2", created_at_s=world.now_s)
    world.now_s += 20
    lost = over(run="a", finished_at_s=None, reason="ContainerStatusUnknown")
    again = runs(run="b", restarts=1, after=lost, was_lost=True) if shows_loss else runs(run="b", restarts=1)
    world.start(2, node_name="n2", scheduled_at_s=world.now_s - 526, required=(again,), restart_count=1)  # the new member, on m2
    await world.settled(4)
    await world.loses(6)  # by force: m2 is cut off, and runs it on
    assert (left(world), guards(world)) == ([], ["Suspect"])


@pytest.mark.parametrize("binds_anew", [False, True])
async def test_a_pod_that_a_restored_etcd_bound_anew_has_not_ended_with_its_second_node(binds_anew: bool) -> None:
    """etcd forgets that web-2 was bound to n1, which is cut off and runs it on. It is bound to n2; then n2 goes with its machine."""
    world = OperatorWorld()
    world.kube.nodes["n2"] = replace(NODE, name="n2", uid="node-2", provider="aws")
    world = await world.started()
    unbound = replace(
        world.kube.pods["shop", "web-2"], node_name="", phase="Pending", required=(), started_containers=frozenset(), ready_since_s=None
    )
    world.now_s += 100
    # etcd is set back, and that is seen: a LIST, and a new watch.
    world.pods.book.forget_versions()
    world.kube.resource_version += 1
    world.kube.pods["shop", "web-2"] = replace(unbound, resource_version=world.kube.resource_version)
    for version in world.kube.pods.values():
        world.pods.book.take(version, is_deleted=False, in_order=False, listed_at=world.kube.resource_version)
    world.pods.at = world.kube.resource_version
    world.now_s += 1
    world.pods.watch_name = f"{int(world.now_s)}-00000002"
    await world.settled(2)
    if binds_anew:
        world._happens(replace(unbound, node_name="n2", scheduled_at_s=world.now_s, phase="Running", required=(runs(run="z"),)))
    await world.settled(2)
    world.now_s += 60
    world.scale(2)
    gone(world)
    world.remove_object(2)
    await world.settled(12)
    assert left(world) == []
