"""ATTACK: what is concluded from Nodes that the operator knows in an older (or newer) state than the pods on them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from staticgroup.core.evidence.chain import PodState
from staticgroup.core.group import GroupType
from staticgroup.core.members.node_gone import NodeLifecycle
from staticgroup.kube.nodes.store import NodeStore
from staticgroup.kube.pods.book import PodBook
from staticgroup.kube.problem import problem_of
from support.fake_pods import FakeNodes
from unit.core.builders import NODE, NOW_S, ended, pod_version, running
from unit.core.crashes import over, runs

from .operator_world import OperatorWorld, guards
from .stories import left
from .test_lost_runs import BOOTED, REBOOTED, departs, next_run, run_is_lost, with_boots
from .test_node_gone import gone, lost_with_its_node


async def test_a_run_that_was_lost_in_the_second_boot_is_not_over_because_the_pod_was_seen_before_its_node() -> None:
    """n1 reboots; the last version of web-2 comes just before that of its Node. An hour later a run is lost."""
    world = await with_boots()
    # The reboot: the pod is Ready again and has joined, and that is folded while the Node is still known with its first boot.
    world.kafka.join(world.id_of(2))
    world._happens(replace(world.kube.pods["shop", "web-2"], required=(runs(run="a"),)))
    world.kube.nodes["n1"] = REBOOTED  # the Node watch catches up, a moment later
    await world.settled(2)
    world.now_s += 3600
    run_is_lost(world)  # in boot-2; its process, the member, lives
    await world.settled(2)
    lost = world.pods.get("u2")
    print("lost_boot", repr(lost.lost_boot), "suspects", world.status.suspects)
    await departs(world)
    assert left(world) == []


async def test_a_lost_run_is_not_over_because_a_restored_etcd_shows_the_boot_before() -> None:
    """A run is lost in boot-2. etcd is set back to when n1 was in boot-1; within 10 s its kubelet writes boot-2 again."""
    world = OperatorWorld()
    world.kube.nodes["n1"] = REBOOTED
    world = await world.started()
    backup = world.kube.pods["shop", "web-2"]
    run_is_lost(world)
    await world.settled(3)
    assert [(s.uid, s.lost_boot) for s in world.status.suspects] == [("u2", "boot-2")]
    # etcd is set back: Node and pod are as they were.
    world.kube.nodes["n1"] = BOOTED
    world.kube.pods["shop", "web-2"] = replace(backup, resource_version=world.kube.resource_version + 1)
    world.kube.resource_version += 2
    world.pods.book.forget_versions()
    for version in world.kube.pods.values():
        world.pods.book.take(version, is_deleted=False, in_order=False, listed_at=world.kube.resource_version)
    world.pods.at = world.kube.resource_version
    world.pods.watch_name = "2-00000002"
    await world.settled(2)
    print("lost_boot", repr(world.pods.get("u2").lost_boot), "suspects", world.status.suspects)
    world.kube.nodes["n1"] = REBOOTED  # the kubelet has written its status
    await world.settled(2)
    await departs(world)
    assert left(world) == []


async def test_the_end_of_a_pod_is_none_where_its_node_was_taken_over_and_the_watch_of_nodes_is_silent() -> None:
    """n1 is cut off while it runs web-2, whose containers it has not reported; another machine takes over its Node."""
    world = OperatorWorld()
    world.kube.nodes["n1"] = replace(NODE, machine="m1", boot="boot-1")
    world.scale(3)
    await world.round()
    for ordinal in range(3):
        world.start(ordinal, required=(running(),) if ordinal < 2 else (), started_containers=frozenset())
    world.now_s += 300
    await world.settled(2)
    # Machine m2 registers as n1: the API server has that, the watch of Nodes (one silent connection) has not.
    taken_over = replace(NODE, machine="m2", boot="boot-9", other_until_s=world.now_s)
    # Its kubelet starts web-2, whose client does not come to join; it is scaled down and ends properly.
    world.now_s += 20
    world.scale(2)
    world._happens(ended(2, "u2", instance_ids=frozenset({world.id_of(2)}), ids_are_fixed=True))
    world.now_s += 10
    world.kube.nodes["n1"] = taken_over  # at last
    world.remove_object(2)
    await world.settled(6)
    print(guards(world))
    assert left(world) == []


async def test_a_pod_that_was_lost_before_the_watch_began_is_not_gone_with_its_node_although_the_clock_was_set_back() -> None:
    """The clock was 8 s ahead, which the premise allows (10 s); etcd is set back, which forgets n2, cut off with web-2."""
    world = await lost_with_its_node()
    world.set_clock(-8)
    gone(world)  # a restored etcd has no such Node; its machine is cut off and runs on
    present = tuple(world.kube.pods.values())
    began_s = int(world.now_s) + 1
    world.pods.lose(present, world.kube.resource_version, f"{began_s}-00000002")
    since = world.status.suspects[0].since.timestamp()
    print("since", since, "began", began_s)
    await world.settled(12)
    print(guards(world), world.status.suspects)
    assert left(world) == []


class HalfAnswering:
    """A transport whose GETs of one Node are answered, or hang."""

    def __init__(self) -> None:
        self.answers: list[dict[str, object] | None] = []

    async def call(self, verb: str, resource: object, *, name: str = "") -> object:
        found = self.answers.pop(0) if self.answers else None
        if found is None:
            await asyncio.sleep(15)
            return problem_of(0, verb=verb, resource="nodes")
        return found


def raw_node(machine: str) -> dict[str, object]:
    return {
        "metadata": {"name": "n2", "uid": "node-2", "resourceVersion": "1"},
        "status": {"nodeInfo": {"kubeletVersion": "v1.36.3", "machineID": machine, "bootID": machine}},
    }


@pytest.mark.parametrize("is_hanging", [False, True])
async def test_a_node_that_was_taken_over_proves_nothing_while_its_facts_are_too_old_to_be_used(is_hanging: bool) -> None:
    """Without the right to list nodes they are read by name, and what is older than a minute counts as not known: so does the take-over."""
    world = OperatorWorld(node_lifecycle=NodeLifecycle.FIXED)
    world.kube.nodes["n2"] = replace(NODE, name="n2", uid="node-2", machine="m1")
    world.scale(3)
    await world.round()
    for ordinal in range(3):
        world.start(ordinal, **({"node_name": "n2", "scheduled_at_s": world.now_s - 500} if ordinal == 2 else {}))
    await world.settled(2)
    transport = HalfAnswering()
    nodes = NodeStore(transport, on_change=lambda name: None, clock_s=lambda: world.now_s, now_s=lambda: world.now_s)  # type: ignore[arg-type]
    nodes.readable(problem_of(403, verb="list", resource="nodes"))
    for machine in ("m1", "m2"):  # m1 is cut off; m2 takes its name
        transport.answers.append(raw_node(machine))
        nodes.node_of("n2")
        await asyncio.sleep(0.01)
        world.now_s += 70
    assert nodes._nodes["n2"].other_until_s > 0
    world.reconciler.gatherer.nodes = nodes
    # m2 is broken, switched off, and its Node deleted, with which web-2 goes; one GET of it hangs, another is answered 404.
    gone(world)
    if not is_hanging:
        transport.answers.append(problem_of(404, verb="get", resource="nodes"))  # type: ignore[arg-type]
        nodes.node_of("n2")
        await asyncio.sleep(0.01)
    world.scale(2)
    world.remove_object(2)
    await world.settled(4, step_s=1)
    nodes.stop()
    assert (left(world), guards(world)) == ([], ["Suspect"])


@pytest.mark.parametrize("apart_s", [0.0, 6.0])
async def test_a_node_is_not_made_after_its_pod_because_two_api_servers_date_them(apart_s: float) -> None:
    """n2 is 4 s old when web-2 is bound to it. One API server dates the Node, another one, whose clock is 6 s behind, the binding."""
    world = OperatorWorld(node_lifecycle=NodeLifecycle.AUTO)
    world.kube.nodes["n2"] = replace(NODE, name="n2", uid="node-2", provider="aws", created_at_s=world.now_s - 4)
    world.scale(3)
    await world.round()
    for ordinal in range(3):
        placed = {"node_name": "n2", "created_at_s": world.now_s - 60, "scheduled_at_s": world.now_s - apart_s} if ordinal == 2 else {}
        world.start(ordinal, **placed)
    await world.settled(2)
    world.scale(2)
    world.remove_object(2)  # by force; n2 is there and web-2 runs on
    await world.settled(4)
    assert (left(world), guards(world)) == ([], ["Suspect"])


@pytest.mark.parametrize("shows_loss", [False, True])
async def test_a_pod_that_the_machine_of_a_node_that_was_made_again_runs_has_not_ended_with_the_first_machine(shows_loss: bool) -> None:
    """n2's machine is off and its Node goes; a new machine registers as n2 before web-2 is collected, and starts web-2 again, which joins.
    web-2 is then deleted by force. Every premise holds: the first machine was off when its Node was deleted."""
    world = OperatorWorld(node_lifecycle=NodeLifecycle.AUTO)
    world.kube.nodes["n2"] = replace(NODE, name="n2", uid="node-2", provider="aws", machine="m1", boot="b1")
    world.scale(3)
    await world.round()
    for ordinal in range(3):
        world.start(ordinal, **({"node_name": "n2", "scheduled_at_s": world.now_s - 500, "required": (runs(),)} if ordinal == 2 else {}))
    await world.settled(4)
    world.kube.nodes["n2"] = replace(NODE, name="n2", uid="node-3", provider="aws", machine="m2", boot="b9", created_at_s=world.now_s)
    world.now_s += 20
    lost = over(run="a", finished_at_s=None, reason="ContainerStatusUnknown")
    again = runs(run="b", restarts=1, after=lost, was_lost=True) if shows_loss else runs(run="b", restarts=1)
    world.start(2, node_name="n2", scheduled_at_s=world.now_s - 526, required=(again,), restart_count=1)  # the new member, on m2
    await world.settled(4)
    print("\nsuspects", world.status.suspects, "seats", [s for s in world.status.seats if s.id == world.id_of(2)])
    world.scale(2)
    world.remove_object(2)  # by force: m2 is cut off, and runs it on
    await world.settled(6)
    print(left(world), guards(world))
    assert (left(world), guards(world)) == ([], ["Suspect"])


async def test_an_end_is_not_judged_by_what_its_node_was_a_minute_ago() -> None:
    """Without the right to list nodes: n1 was read 40 s ago, as m1; m2 has taken its name over 30 s ago."""
    now_s = NOW_S
    transport = HalfAnswering()
    nodes = NodeStore(transport, on_change=lambda name: None, clock_s=lambda: now_s, now_s=lambda: now_s)  # type: ignore[arg-type]
    nodes.readable(problem_of(403, verb="list", resource="nodes"))
    book = PodBook(node_of=nodes.node_of, now_s=lambda: now_s, is_managed=lambda namespace, name: True)
    m1, m2 = raw_node("m1"), raw_node("m2")
    m1["metadata"]["name"] = m2["metadata"]["name"] = "n1"  # type: ignore[index]
    transport.answers = [m1, m2]
    book.take(pod_version(2, "u2", 100, phase="Pending", required=(), started_containers=frozenset()), is_deleted=False, in_order=True)
    await asyncio.sleep(0.01)
    now_s += 40
    known = book.take(ended(2, "u2", 110), is_deleted=False, in_order=True).pod  # by the kubelet of m2
    nodes.stop()
    assert known.state is PodState.LIVE


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("reported", [False, True])
async def test_that_a_machine_took_a_node_over_is_not_forgotten_with_the_process_that_saw_it(reported: bool, restarts: bool) -> None:
    """m1 is cut off and runs web-2 on. m2 takes its Node over while the operator watches, and starts web-2 again. Then the operator is
    restarted, and web-2 ends on m2."""
    world = OperatorWorld()
    first = replace(NODE, machine="m1", boot="b1")
    world.kube.nodes["n1"] = first
    world.scale(3)
    await world.round()
    for ordinal in range(3):
        world.start(ordinal, required=(runs(),) if reported or ordinal < 2 else (), started_containers=frozenset({"app"} if reported else ()))
    world.now_s += 300
    await world.settled(4)
    world.kube.nodes["n1"] = second = replace(first, machine="m2", boot="b9", other_until_s=world.now_s)
    world.now_s += 20
    if reported:
        run_is_lost(world)
        await world.settled(2)
        next_run(world)
    else:
        world.start(2, joins=False, required=(runs(run="b"),))
    await world.settled(4)
    if restarts:
        world.now_s += 60
        world.kube.nodes["n1"] = replace(second, other_until_s=0.0)  # what a process knows that reads the Node for the first time
        world.restart()
    await world.settled(2)
    await departs(world)
    print(world.status.suspects, guards(world))
    assert left(world) == []


@pytest.mark.parametrize("counts_on", [True, False])
async def test_a_loss_after_a_boot_is_another_one_also_where_the_count_of_restarts_began_anew(counts_on: bool) -> None:
    """n1 keeps nothing over a boot (its runtime and /var/log are in memory), so its kubelet counts restarts from 0 again
    (calcRestartCountByLogDir). The boot lost run 0, which is over; much later a run of the second boot is lost."""
    world = await with_boots()
    world.now_s += 60
    world.kube.nodes["n1"] = REBOOTED
    run_is_lost(world)  # by the boot
    world.now_s += 1
    count = 1 if counts_on else 0
    world.start(2, required=(runs(run="b", restarts=count),), restart_count=count)  # the new member
    await world.settled(4)
    assert world.status.suspects == []
    world.now_s += 3600
    lost = over(run="b", finished_at_s=world.now_s - 1, reason="ContainerStatusUnknown")
    again = runs(run="c", restarts=count + 1, after=lost, was_lost=True)
    world.start(2, joins=False, required=(again,), restart_count=count + 1)
    await world.settled(4)
    print("\nlost", world.pods.get("u2").lost_boot, world.pods.get("u2").lost_runs)
    await departs(world)
    assert left(world) == []


@pytest.mark.parametrize("restarts", [False, True])
async def test_no_living_member_is_released_because_the_process_that_saw_a_machine_take_its_node_over_has_ended(restarts: bool) -> None:
    """KIP-848: m1 is cut off, its process is the member. The client of m2's run is refused (UNRELEASED_INSTANCE_ID) and ends, again and again."""
    world = OperatorWorld(protocol="Auto", crashRelease="Release")
    world.kafka.group_type = GroupType.CONSUMER
    first = replace(NODE, machine="m1", boot="b1")
    world.kube.nodes["n1"] = first
    world.scale(3)
    await world.round()
    for ordinal in range(3):
        world.start(ordinal, required=(runs(),), phase_written_at_s=world.now_s)
    world.now_s += 300
    await world.settled(2)
    world.kube.nodes["n1"] = second = replace(first, machine="m2", boot="b9", other_until_s=world.now_s)
    world.now_s += 60
    run_is_lost(world)
    await world.settled(2)
    world.now_s += 20
    next_run(world)
    await world.settled(4)
    assert world.kafka.releases == []
    print("\n", [e.reason for e in world.status.exceptions])
    if restarts:
        world.now_s += 60
        world.kube.nodes["n1"] = replace(second, other_until_s=0.0)
        world.restart()
    world.now_s += 20
    fourth = runs(run="d", restarts=3, after=over(run="c", finished_at_s=world.now_s - 1))
    world.start(2, joins=False, required=(fourth,), restart_count=3, phase_written_at_s=world.now_s, ready_since_s=None)
    await world.settled(6)
    print([e.reason for e in world.status.exceptions], world.kafka.releases)
    assert world.kafka.releases == []


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
    print("\n", repr(world.pods.get("u2").lost_boot), world.status.suspects)
    world.now_s += 60
    world.scale(2)
    gone(world)
    world.remove_object(2)
    await world.settled(12)
    print(left(world), guards(world), world.pods.state("u2"))
    assert left(world) == []


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_node_that_was_taken_over_before_a_hand_over_proves_nothing_when_it_goes(restarts: bool) -> None:
    """m1 is cut off and runs web-2 on. m2 takes over n2 while the operator watches. Another process begins. m2 is switched off, its Node
    deleted, and web-2 collected."""
    world = OperatorWorld(node_lifecycle=NodeLifecycle.FIXED)
    first = replace(NODE, name="n2", uid="node-2", machine="m1", boot="b1")
    world.kube.nodes["n2"] = first
    world.scale(3)
    await world.round()
    for ordinal in range(3):
        world.start(ordinal, **({"node_name": "n2", "scheduled_at_s": world.now_s - 500} if ordinal == 2 else {}))
    await world.settled(4)
    world.kube.nodes["n2"] = second = replace(first, machine="m2", boot="b9", other_until_s=world.now_s)
    world._happens(replace(world.kube.pods["shop", "web-2"], required=(runs(run="b"),)))
    await world.settled(4)
    world.now_s += 60
    if restarts:
        world.kube.nodes["n2"] = second = replace(second, other_until_s=0.0)
        world.restart()
        await world.settled(4)
    world.reconciler.gatherer.nodes = FakeNodes({}, {"n2": second})  # type: ignore[assignment]
    world.scale(2)
    gone(world)
    world.remove_object(2)
    await world.settled(8)
    assert (left(world), guards(world)) == ([], ["Suspect"])
