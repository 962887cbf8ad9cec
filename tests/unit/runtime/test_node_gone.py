"""A machine that is gone ends its pods: read consistently, and only where the deletion of a Node says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.members.node_gone import NodeLifecycle
from staticgroup.kube.problem import problem_of
from support.fake_pods import FakeNodes
from unit.core.builders import NODE, NOW_S

from .operator_world import OperatorWorld, guards
from .stories import left

CLOUD = replace(NODE, provider="aws")
Node = Callable[[OperatorWorld], None]


async def lost_with_its_node(
    *, provider: str = "aws", lifecycle: NodeLifecycle = NodeLifecycle.AUTO, placed_s: float | None = -500.0
) -> OperatorWorld:
    """Return a world scaled to two, whose web-2 was on a node of its own and is gone without an end."""
    world = await on_its_own_node(provider, lifecycle, scheduled_at_s=None if placed_s is None else NOW_S + placed_s)
    await world.loses(2)
    assert guards(world) == ["Suspect"]
    return world


async def on_its_own_node(
    provider: str = "aws", lifecycle: NodeLifecycle = NodeLifecycle.AUTO, node: dict[str, Any] | None = None, **pod: Any
) -> OperatorWorld:
    """Return a world of three pods, of which web-2 is on n2."""
    world = OperatorWorld(node_lifecycle=lifecycle)
    world.kube.nodes["n2"] = replace(NODE, name="n2", uid="node-2", provider=provider, **(node or {}))
    await world.begin(3, last={"node_name": "n2"} | pod)
    await world.settled(2)
    return world


def gone(world: OperatorWorld) -> None:
    """The watch shows the deletion of n2."""
    node = world.kube.nodes.pop("n2")
    nodes = world.reconciler.gatherer.nodes
    assert isinstance(nodes, FakeNodes)
    left = {name: view for name, view in nodes.nodes.items() if name != "n2"}
    vanished = {"n2": nodes.nodes.get("n2", node), **nodes.vanished}
    world.reconciler.gatherer.nodes = FakeNodes(left, vanished)  # type: ignore[assignment]


def made_again(world: OperatorWorld) -> None:
    world.kube.nodes["n2"] = replace(CLOUD, name="n2", uid="node-3", created_at_s=world.now_s)


def there(world: OperatorWorld) -> None:
    """Nothing happens to it."""


@pytest.mark.parametrize(
    ("node", "lifecycle", "provider", "removed"),
    [
        (gone, NodeLifecycle.AUTO, "aws", True),
        (made_again, NodeLifecycle.AUTO, "aws", False),
        (there, NodeLifecycle.AUTO, "aws", False),
        (gone, NodeLifecycle.AUTO, "", False),
        (gone, NodeLifecycle.AUTO, "kind", False),
        (gone, NodeLifecycle.FIXED, "", True),
        (gone, NodeLifecycle.CLOUD, "kind", True),
        (gone, NodeLifecycle.UNTRUSTED, "aws", False),
        (made_again, NodeLifecycle.UNTRUSTED, "aws", False),
    ],
)
async def test_a_node_that_is_gone_ends_its_pods_where_its_deletion_says_so(
    node: Node, lifecycle: NodeLifecycle, provider: str, removed: bool
) -> None:
    world = await lost_with_its_node(provider=provider, lifecycle=lifecycle)
    node(world)
    await world.settled(3)
    assert left(world) == ([world.id_of(2)] if removed else [])
    assert [s.uid for s in world.status.memory.suspects] == ([] if removed else ["u2"])


async def test_the_event_of_a_removal_names_the_node_that_ended_a_pod_beside_the_certificates() -> None:
    """A successor's certificate alone would say nothing of the pod that was waited for."""
    world = await lost_with_its_node()
    world.scale(3)
    world.start(2, "u2b")
    await world.settled(2)
    await world.departs(2, "u2b")
    assert guards(world) == ["Suspect"]
    gone(world)
    await world.settled(2)
    (message,) = (m for _, reason, m in world.kube.events if reason == "MemberRemoved")
    assert "uid u2b has ended: " in message
    assert "uid u2 ended with its node n2" in message


async def test_a_process_that_finds_the_pod_gone_anew_believes_the_one_that_saw_its_node_taken_over() -> None:
    """Seed 900533 of the simulation: a hand-over between the change of the machine and the deletion of the Node."""
    world = await lost_with_its_node(provider="", lifecycle=NodeLifecycle.FIXED)
    taken_over = replace(world.kube.nodes["n2"], machine="other", other_until_s=world.now_s)
    world.kube.nodes["n2"] = taken_over
    await world.settled(2)
    world.now_s += 30
    world.position = 0
    world.restart()
    assert world.pods.state("u2") == "Suspect"
    gone(world)
    await world.settled(3)
    assert (left(world), guards(world)) == ([], ["Suspect"])


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_node_that_another_machine_took_over_proves_nothing_about_the_first(restarts: bool) -> None:
    """Its name is all that the machines share: the first one may run on, cut off, while the second is switched off and
    its Node goes."""
    world = await lost_with_its_node(provider="", lifecycle=NodeLifecycle.FIXED)
    taken_over = replace(world.kube.nodes["n2"], machine="other", other_until_s=world.now_s)
    world.kube.nodes["n2"] = taken_over
    await world.settled(2)
    if restarts:
        world.restart()
    else:
        world.reconciler.gatherer.nodes = FakeNodes({}, {"n2": taken_over})  # type: ignore[assignment]
    gone(world)
    await world.settled(3)
    assert (left(world), guards(world)) == ([], ["Suspect"])


@pytest.mark.parametrize("notices", [True, False])
async def test_a_node_that_an_etcd_of_before_has_forgotten_is_not_gone(notices: bool) -> None:
    """The restore is noticed by the pod watch already, or only by the read that the watch is brought up to."""
    world = await lost_with_its_node()
    node = world.kube.nodes["n2"]
    gone(world)
    if notices:
        world.pods.watch_name = ""
    else:
        world.pods.barrier_works = False
    await world.settled(1)
    world.kube.nodes["n2"] = node
    world.pods.watch_name, world.pods.barrier_works = "2-00000002", True
    await world.settled(3)
    assert left(world) == []
    assert [s.uid for s in world.status.memory.suspects] == ["u2"]


async def test_a_node_that_is_taken_over_and_deleted_while_others_are_read_proves_nothing() -> None:
    """The watch of Nodes goes on while the API server is asked, and what it brings counts."""
    world = await lost_with_its_node(provider="", lifecycle=NodeLifecycle.FIXED)
    node, read_node = world.kube.nodes["n2"], world.kube.read_node
    gone(world)

    async def read_meanwhile(name: str) -> object:
        answer = await read_node(name)
        vanished["n2"] = replace(node, machine="other", other_until_s=world.now_s)
        return answer

    vanished = {"n2": node}
    world.reconciler.gatherer.nodes = FakeNodes({}, vanished)  # type: ignore[assignment]
    world.kube.read_node = read_meanwhile  # type: ignore[method-assign]
    await world.settled(3)
    assert (left(world), guards(world)) == ([], ["Suspect"])


async def test_a_node_of_that_name_that_may_be_older_than_the_pod_proves_nothing() -> None:
    world = await lost_with_its_node(placed_s=None)
    made_again(world)
    await world.settled(3)
    assert left(world) == []


async def test_a_node_that_the_watch_has_lost_and_a_read_still_shows_is_there() -> None:
    world = await lost_with_its_node()
    vanished = {"n2": world.kube.nodes["n2"]}
    world.reconciler.gatherer.nodes = FakeNodes({}, vanished)  # type: ignore[assignment]
    await world.settled(3)
    assert world.did("read_node") == [("n2",)]
    assert left(world) == []


async def test_a_node_that_is_gone_is_not_asked_for_again() -> None:
    world = await lost_with_its_node()
    gone(world)
    await world.settled(3)
    assert left(world) == [world.id_of(2)]
    await world.round()
    assert "read_node" not in world.done


async def test_a_node_that_the_watch_still_shows_is_not_read() -> None:
    world = await lost_with_its_node()
    await world.round()
    assert "read_node" not in world.done


async def test_a_node_that_cannot_be_read_proves_nothing() -> None:
    world = await lost_with_its_node()
    gone(world)
    world.kube.problems["read_node"] = problem_of(503, verb="get", resource="nodes")
    await world.settled(3)
    assert left(world) == []
    world.kube.problems.clear()
    await world.settled(2)
    assert left(world) == [world.id_of(2)]


async def test_a_node_that_was_never_seen_says_nothing_by_its_absence() -> None:
    world = OperatorWorld(node_lifecycle=NodeLifecycle.FIXED)
    await world.begin(3, last={"node_name": "n2"})
    await world.settled(2)
    await world.loses(3)
    assert left(world) == []
    assert guards(world) == ["Suspect"]
