"""Each fault of kubelets, nodes and machines has its effect: writers of a pod's status, running processes, and beliefs
about them."""

from __future__ import annotations

import asyncio

import pytest

from simulation.fault_world import begin, kept, pod, trace_count, up
from simulator.faults import heirs
from simulator.kubernetes.node.kubelet import Kubelet
from simulator.kubernetes.objects import (
    NODES,
    PODS,
    STATIC_GROUPS,
    Json,
    is_terminating,
    is_true,
    uid_of,
)
from simulator.kubernetes.storage import Backup
from simulator.kubernetes.watch_log import Event
from simulator.world.teams import NAMESPACE, WORKLOAD
from simulator.world.world import World
from staticgroup.core.members.node_gone import WATCHED_S
from support.narrowing import some


def lost(world: World, ordinal: int) -> tuple[Json, Kubelet]:
    """Return the pod of an ordinal and its node, before something happens to them."""
    found = pod(world, ordinal)
    return found, world.kubernetes.nodes[found["spec"]["nodeName"]]


def runs(world: World, found: Json, host: str = "") -> bool:
    return world.processes.is_running(uid_of(found), world.team.container, node=host)


def held_by(world: World) -> set[str]:
    """Return the reasons for which members are held or doubted."""
    return {e["reason"] for team in world.teams for e in world.status_of(team).get("issues") or []}


def removed(world: World) -> int:
    return world.safety.removals


@up()
async def test_a_controller_that_fails_pods_of_lost_nodes_owns_only_the_phase(world: World) -> None:
    """The entry of managedFields that the kubelet had keeps the statuses of containers."""
    begin(world, "somebody_fails_pods_of_lost_nodes")
    node = some(world.kubernetes.node_of(NAMESPACE, f"{WORKLOAD}-2"))
    node.cut()
    world.users.delete_pod(NAMESPACE, f"{WORKLOAD}-2")
    await world.until(lambda: pod(world, 2)["status"]["phase"] == "Failed", 200, "it is failed")
    found = pod(world, 2)
    owned = {e["manager"]: set(e["fieldsV1"]["f:status"]) for e in found["metadata"]["managedFields"]}
    assert owned["kueue"] == {"f:phase"}
    assert "f:containerStatuses" in owned["kubelet"]
    assert is_terminating(found)
    assert any(p.pod_uid == uid_of(found) for p in world.processes.running()), "and it runs"


@up()
async def test_a_kubelet_that_ends_a_pod_owns_phase_and_containers(world: World) -> None:
    last: list[Json] = []
    world.server.observers.append(
        lambda resource, event: last.append(event.current) if resource == PODS and event.current else None
    )
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await world.until(lambda: last and last[-1]["status"]["phase"] == "Succeeded", 60, "it ended")
    (entry,) = last[-1]["metadata"]["managedFields"]
    assert entry["manager"] == "kubelet"
    assert {"f:phase", "f:containerStatuses"} <= set(entry["fieldsV1"]["f:status"])


@pytest.mark.parametrize("seed", range(4))
@up("seed")
async def test_a_node_that_is_lost_between_two_runs_has_reported_no_running_container(world: World, seed: int) -> None:
    begin(world, "node_is_lost_between_two_runs", seed)
    await world.until(lambda: any(n.is_cut for n in world.kubernetes.nodes.values()), 60, "a node is lost")
    shown = pod(world, 2)["status"]["containerStatuses"]
    assert all("running" not in entry["state"] for entry in shown)
    uid = uid_of(pod(world, 2))
    await world.until(lambda: any(p.pod_uid == uid for p in world.processes.running()), 30, "one runs unseen")


@up()
async def test_a_zombie_with_an_heir_lives_while_its_heir_has_ended_properly(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heirs, "TROUBLES", ("watch_position_is_too_old",))
    zombie = uid_of(pod(world, 2))
    heal = begin(world, "zombie_has_an_heir")
    await world.until(lambda: uid_of(pod(world, 2)) != zombie and is_true(pod(world, 2), "Ready"), 90, "an heir")
    heir = uid_of(pod(world, 2))
    await world.until(lambda: world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-2") is None, 150, "the heir ends")
    assert world.truth.pods[heir].is_certified
    assert not world.truth.pods[zombie].is_certified
    assert world.faults["watch_position_is_too_old"] == 1
    await world.until(lambda: any(p.pod_uid == zombie for p in world.processes.running()), 60, "the zombie lives")
    heal()


@kept()
async def test_a_replaced_machine_has_the_name_and_another_identity_and_what_the_first_runs_is_proven_by_nothing(
    world: World
) -> None:
    await asyncio.sleep(70)
    found, node = lost(world, 2)
    heal = begin(world, "machine_is_replaced")
    await world.until(lambda: node.is_replaced, 100, "another machine has the name")
    present = world.kubernetes.nodes[node.name]
    info = (world.server.get(NODES, "", node.name) or {})["status"]["nodeInfo"]
    assert ((info["machineID"], present.name) == (f"machine-{present.host}", node.name) != (f"machine-{node.host}", ""))
    await asyncio.sleep(300)
    assert runs(world, found), "nobody reaches it"
    assert removed(world) == 0
    heal()
    await world.until(lambda: not runs(world, found), 60, "it is off, or has its answer")


@pytest.mark.parametrize("node_lifecycle", ["Untrusted", "Cloud", "Fixed"])
@kept("node_lifecycle")
async def test_a_node_is_deleted_as_its_lifecycle_says(world: World, node_lifecycle: str) -> None:
    """With such a node_lifecycle the machine is off by then and the member is removed; without it the machine runs on and
    the member is held."""
    await asyncio.sleep(WATCHED_S + 10)
    found, node = lost(world, 2)
    heal = begin(world, "node_is_deleted_after_its_pod", seed=3)
    await world.until(lambda: world.server.get(NODES, "", node.name) is None, 60, "the Node is gone")
    assert runs(world, found) == (node_lifecycle == "Untrusted")
    if node_lifecycle == "Untrusted":
        await asyncio.sleep(120)
    else:
        await world.until(lambda: removed(world), 120, "its member is removed")
    assert removed(world) == (node_lifecycle != "Untrusted")
    heal()
    await world.until(lambda: world.server.get(NODES, "", node.name) is not None, 60, "it has registered again")


@kept()
async def test_a_kubelet_that_slept_receives_deletions_late_and_then_ends_the_pods(world: World) -> None:
    await asyncio.sleep(70)
    found, _ = lost(world, 2)
    heal = begin(world, "kubelet_sleeps_through_a_deletion")
    await asyncio.sleep(60)
    assert runs(world, found)
    heal()
    await world.until(lambda: not runs(world, found), 60, "it is reaped")
    await world.until(lambda: trace_count(world, "rolls") == 2, 120, "newer pods come")


@kept()
async def test_a_kill_that_hangs_leaves_a_member_that_is_held(world: World) -> None:
    await asyncio.sleep(70)
    found, _ = lost(world, 2)
    heal = begin(world, "kill_hangs", seed=2)
    await world.until(lambda: world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-2") is None, 100, "the object is gone")
    await asyncio.sleep(250)
    assert runs(world, found)
    assert trace_count(world, "kill hangs") > 0
    assert removed(world) == 0
    assert held_by(world) >= {"Suspect"}
    heal()
    await world.until(lambda: not runs(world, found), 60, "it has ended")


@kept()
async def test_a_node_that_joined_after_the_backup_runs_on_unknown_to_the_api_server(world: World) -> None:
    heal = begin(world, "node_joined_after_the_backup", seed=2)
    node = world.kubernetes.nodes["n5"]
    await world.until(lambda: trace_count(world, "restored"), 150, "etcd is set back")
    assert world.server.get(NODES, "", "n5") is None
    assert [p.node for p in world.processes.running() if p.node == "n5"] == ["n5"]
    await asyncio.sleep(100)
    assert [p.node for p in world.processes.running() if p.node == "n5"] == ["n5"]
    heal()
    await world.until(lambda: not [p for p in world.processes.running() if p.node == "n5"], 60, "it has heard")
    assert not node.is_cut


@pytest.mark.parametrize("bump", [0, 1_000_000], ids=["set back", "set ahead"])
@pytest.mark.parametrize("seed", range(1, 4))
@up("seed")
async def test_a_pod_that_a_restored_etcd_binds_anew_is_not_dead_when_only_the_second_node_has_ended_it(
    world: World, seed: int, bump: int
) -> None:
    """etcd forgets a binding while the first node is cut off: one uid runs on two nodes, and the second kubelet reports
    its end."""
    taken: list[tuple[Json, Backup]] = []

    def take(resource: str, event: Event) -> None:
        if resource == PODS and event.previous is None and event.current is not None:
            taken.append((event.current, world.server.backup()))

    world.server.observers.append(take)
    world.users.delete_pod(NAMESPACE, f"{WORKLOAD}-2")
    await world.until(lambda: taken, 60, "it is made again")
    found, backup = taken[0]
    assert "nodeName" not in found["spec"]
    await world.until(lambda: runs(world, found), 60, "it runs")
    await asyncio.sleep(30)
    _, first = lost(world, 2)
    first.cut()
    world.kubernetes.restore_etcd(backup, bump=bump)
    world.truth.resync(world.server)
    world.statuses.restored(world.server.list(STATIC_GROUPS))
    world.users.cordon(first.name)
    elsewhere = [m.name for m in world.kubernetes.machines if m is not first]
    await world.until(lambda: any(runs(world, found, name) for name in elsewhere), 60, "another node runs it")
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await world.until(lambda: world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-2") is None, 120, "its object is gone")
    await asyncio.sleep(300)
    assert [p.node for p in world.processes.running() if p.pod_uid == uid_of(found)] == [first.host]
    assert world.safety.removals == 0
    assert held_by(world) & {"Suspect", "JoinedBeforeWatch"}
    assert world.violations == []


@pytest.mark.parametrize("node_lifecycle", ["Cloud", "Fixed"])
@kept("node_lifecycle")
async def test_a_pod_that_ran_again_on_a_machine_of_the_same_name_has_not_ended_with_the_first(
    world: World, node_lifecycle: str
) -> None:
    await asyncio.sleep(30)
    found = pod(world, 2)
    node = world.kubernetes.nodes[found["spec"]["nodeName"]]
    node.power_off()
    await asyncio.sleep(5)
    world.users.delete_node(node.name)
    await asyncio.sleep(3)
    second = world.kubernetes.add_node(node.name, host=f"{node.name}-b")  # before the pods of n are collected
    await world.until(
        lambda: world.processes.is_running(uid_of(found), world.team.container, node=second.host), 120, "it runs on the second machine"
    )
    await asyncio.sleep(90)
    second.cut()
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    world.users.delete_pod(NAMESPACE, f"{WORKLOAD}-2", grace_s=0)
    await asyncio.sleep(20)
