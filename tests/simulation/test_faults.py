"""Each fault bites: what it says can be seen in the objects, on the wires or in the trace, and healing undoes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest

from simulator.engine.log_capture import captured_logs
from simulator.engine.loop import run as run_simulation
from simulator.faults import FAULTS, carry_out, heirs
from simulator.faults.labels import copy_without_labels
from simulator.faults.people import create_group_again
from simulator.kubernetes.api_server import ApiError
from simulator.kubernetes.node.kubelet import Kubelet
from simulator.kubernetes.objects import (
    EVENTS,
    LEASES,
    MUTATING_POLICIES,
    NODES,
    PODS,
    STATIC_GROUPS,
    Json,
    is_terminating,
    is_true,
    uid_of,
)
from simulator.kubernetes.watch_log import Event, Selector
from simulator.world.teams import GROUP, NAMESPACE, WORKLOAD, Team
from simulator.world.world import SYSTEM, World, WorldSettings
from staticgroup.api.names import POD_INDEX_LABEL
from staticgroup.runtime.process.settings import Settings

Test = Callable[[World], Awaitable[None]]
BY_HAND = Team(
    spec={"protocol": "Classic", "identity": {"template": "{podName}", "exclusive": True, "method": "None"}},
    set_spec={"podManagementPolicy": "Parallel"},
    is_by_hand=True,
)


def in_world(test: Test, *, seed: int = 1, populate: bool = True, **settings: Any) -> World:
    """Run a test in a world that is up, and return the world."""
    worlds: list[World] = []

    async def main() -> None:
        nodes = settings.pop("nodes", ("n1", "n2", "n3", "n4"))
        world = World(WorldSettings(parallel=True, session_timeout_s=30, nodes=nodes, **settings), seed=seed)
        worlds.append(world)
        if populate:
            await world.populate()
        await test(world)

    with captured_logs():
        run_simulation(main, seed=seed, until_s=20_000)
    return worlds[0]


def begin(world: World, kind: str, seed: int = 1) -> Callable[[], None] | None:
    return FAULTS[kind].begin(world, Random(seed))


def pod(world: World, ordinal: int) -> Json:
    found = world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-{ordinal}")
    assert found is not None
    return found


def told(world: World, what: str) -> int:
    return sum(entry.what == what for entry in world.trace.entries)


def test_a_fault_that_is_carried_out_is_counted_and_told() -> None:
    async def test(world: World) -> None:
        await carry_out(world, Random(1), FAULTS["pods_come_without_the_index_label"], lasts_s=5.0)
        assert world.faults == {"pods_come_without_the_index_label": 1}
        assert told(world, "pods come without the index label") == 1
        assert told(world, "pods come without the index label: over") == 1

    in_world(test)


def test_a_restarted_api_server_has_no_history_and_answers_410() -> None:
    async def test(world: World) -> None:
        before = world.server.resource_version
        world.server.subscribe(PODS, "", Selector(), before - 5, lambda _: None, lambda: None)[0].close()
        gaps = world.operators[0].operator.pods.gap_count
        begin(world, "api_server_restarts")
        for resource in (PODS, LEASES, STATIC_GROUPS):
            with pytest.raises(ApiError, match="410"):
                world.server.subscribe(resource, "", Selector(), before - 5, lambda _: None, lambda: None)
        await world.until(lambda: world.operators[0].operator.pods.gap_count > gaps, 60, "a gap")

    in_world(test)


def test_an_api_server_that_is_away_reaches_nobody_and_comes_back() -> None:
    async def test(world: World) -> None:
        heal = begin(world, "api_server_is_away")
        assert heal is not None
        version = world.server.resource_version
        await asyncio.sleep(100)
        assert world.server.resource_version == version, "nothing was written by anybody"
        heal()
        await asyncio.sleep(90)
        assert all(not node.is_cut for node in world.kubernetes.nodes.values())
        world.users.scale(NAMESPACE, WORKLOAD, 2)
        await world.until(world.is_settled, 120, "the departed member is gone")

    in_world(test)


def test_an_emptied_status_is_empty_and_no_oracle_blames_the_operator() -> None:
    async def test(world: World) -> None:
        begin(world, "status_is_emptied")
        assert world.status == {}
        await asyncio.sleep(120)

    assert in_world(test).violations == []


def test_a_status_that_is_set_back_says_what_it_said() -> None:
    async def test(world: World) -> None:
        old = world.status
        heal = begin(world, "status_is_set_back")
        world.users.edit_group(NAMESPACE, GROUP, {"removal": {"holdSeconds": 1}})
        await world.until(lambda: world.status.get("observedGeneration") == 2, 30, "a new status")
        assert heal is not None
        heal()
        assert world.status == old
        await asyncio.sleep(120)

    assert in_world(test).violations == []


@pytest.mark.parametrize("seed", range(4))
def test_the_first_read_of_the_lease_is_refused_once(seed: int) -> None:
    """503, 429, 500 or a broken connection; the next reads are answered."""

    async def test(world: World) -> None:
        heal = begin(world, "first_read_of_the_lease_is_refused", seed)
        assert heal is not None
        assert world.living == []
        heal()
        (running,) = world.living
        refusals = running.transport.link.faults.refusals["get", LEASES]
        assert len(refusals) == 1
        await world.until(running.operator.lease.holds, 60, "the Lease is held")
        assert refusals == []
        assert world.on_start == []

    in_world(test, seed=seed)


def test_a_lease_that_cannot_be_read_is_renewed_until_somebody_else_writes_it() -> None:
    """Its holder writes over the version it wrote last; once that is refused it has to read, and cannot, and the Lease is lost."""

    async def test(world: World) -> None:
        heal = begin(world, "lease_cannot_be_read")
        assert heal is not None
        renewed_s = world.truth.lease_renewed_s("operator-a")
        await asyncio.sleep(12)
        assert world.truth.lease_renewed_s("operator-a") > renewed_s + 9
        lease = world.server.get(LEASES, SYSTEM, Settings().lease_name)
        assert lease is not None
        world.server.update(LEASES, lease | {"metadata": lease["metadata"] | {"labels": {"seen-by": "somebody"}}})
        renewed_s = world.truth.lease_renewed_s("operator-a")
        await asyncio.sleep(12)
        assert world.truth.lease_renewed_s("operator-a") < renewed_s + 3
        heal()
        await world.until(lambda: world.truth.lease_renewed_s("operator-a") > renewed_s + 12, 60, "it is renewed")

    in_world(test)


@pytest.mark.parametrize("seed", range(3))
def test_an_operator_freezes_in_a_status_write_which_arrives_after_its_successor_has_written(seed: int) -> None:
    """The write is bound to a version that is not the newest any more, so it is answered 409 and changes nothing."""

    async def test(world: World) -> None:
        asked: list[tuple[str, str]] = []
        writers: list[Json] = []
        refused: list[int] = []
        apply_status = world.server.apply_status

        def applied(resource: str, namespace: str, name: str, body: Json) -> Json:
            try:
                return apply_status(resource, namespace, name, body)
            except ApiError as error:
                if body["status"].get("writer") == before:
                    refused.append(error.status)
                raise

        def written(resource: str, event: Event) -> None:
            if resource == STATIC_GROUPS and event.current is not None:
                writers.append((event.current.get("status") or {}).get("writer"))

        world.operators[0].transport.link.on_request.append(lambda verb, label: asked.append((verb, label)))
        before = world.status["writer"]
        begin(world, "operator_freezes_in_a_status_write", seed)
        frozen = world.operators[0].process
        await world.until(lambda: frozen.is_frozen, 60, "it stands still")
        assert asked.pop() == ("patch", f"{STATIC_GROUPS}/status")
        await world.until(lambda: world.leader() is world.operators[1], 30, "its successor holds the Lease")
        await world.until(lambda: world.status["writer"] != before, 30, "its successor has written")
        assert frozen.is_frozen
        world.server.observers.append(written)
        world.server.apply_status = applied  # type: ignore[method-assign]
        await world.until(lambda: not frozen.is_frozen, 90, "it goes on")
        await world.until(lambda: refused, 5, "its write arrives")
        assert refused == [409]
        world.users.edit_group(NAMESPACE, GROUP, {"removal": {"holdSeconds": 1}})
        await world.until(lambda: world.status["observedGeneration"] == 3, 30, "a new status")
        assert before not in writers

    assert in_world(test).violations == []


def test_operators_that_are_away_find_no_history() -> None:
    async def test(world: World) -> None:
        heal = begin(world, "operators_are_away")
        assert world.living == []
        world.users.roll(NAMESPACE, WORKLOAD)
        await asyncio.sleep(60)
        before = world.server.resource_version
        assert heal is not None
        heal()
        with pytest.raises(ApiError, match="410"):
            world.server.subscribe(PODS, "", Selector(), before - 1, lambda _: None, lambda: None)
        assert [o.name for o in world.living] == ["operator-a"]
        await asyncio.sleep(10)
        assert world.living[0].operator.pods.gap_count == 1

    in_world(test)


def test_etcd_that_is_restored_ahead_forgets_objects_and_its_revisions_jump() -> None:
    async def test(world: World) -> None:
        heal = begin(world, "etcd_is_restored_ahead")
        world.users.edit_group(NAMESPACE, GROUP, {"removal": {"holdSeconds": 1}})
        version = world.server.resource_version
        assert heal is not None
        heal()
        assert world.server.resource_version >= version + 1_000_000_000
        group = world.server.get(STATIC_GROUPS, NAMESPACE, GROUP)
        assert group is not None
        assert group["spec"]["removal"]["holdSeconds"] == 0
        await asyncio.sleep(60)
        await world.until(world.is_settled, 120, "all pods are members")

    assert in_world(test).violations == []


def crash(world: World) -> None:
    world.crash_operator(world.operators[0])


def cut_off(world: World) -> None:
    world.operators[0].transport.link.faults.is_cut = True


@pytest.mark.parametrize("blind", [crash, cut_off])
def test_a_restore_that_no_operator_sees_does_not_happen(blind: Callable[[World], None]) -> None:
    """Nobody promises anything about it: revisions may pass those that an operator knew before it looks again."""

    async def test(world: World) -> None:
        heal = begin(world, "etcd_is_restored")
        world.users.edit_group(NAMESPACE, GROUP, {"removal": {"holdSeconds": 1}})
        blind(world)
        assert heal is not None
        heal()
        group = world.server.get(STATIC_GROUPS, NAMESPACE, GROUP)
        assert group is not None
        assert group["spec"]["removal"]["holdSeconds"] == 1

    in_world(test)


def test_a_policy_that_is_missing_injects_nothing() -> None:
    async def test(world: World) -> None:
        heal = begin(world, "injection_policy_is_missing")
        assert world.server.list(MUTATING_POLICIES) == []
        world.users.delete_pod(NAMESPACE, f"{WORKLOAD}-2")
        await asyncio.sleep(20)
        assert "annotations" not in pod(world, 2)["metadata"]
        assert heal is not None
        heal()
        assert len(world.server.list(MUTATING_POLICIES)) == 1

    in_world(test)


def test_pods_that_come_without_the_index_label_are_not_selected_by_it() -> None:
    async def test(world: World) -> None:
        heal = begin(world, "pods_come_without_the_index_label")
        world.users.delete_pod(NAMESPACE, f"{WORKLOAD}-2")
        await world.until(lambda: world.ids_of(world.processes.running()[-1]) == [f"{WORKLOAD}-2"], 60, "it runs")
        await asyncio.sleep(5)
        selected = world.server.list(PODS, NAMESPACE, Selector(labels=POD_INDEX_LABEL))
        assert [p["metadata"]["name"] for p in selected] == [f"{WORKLOAD}-0", f"{WORKLOAD}-1"]
        assert f"{WORKLOAD}-2" in world.members(), "it takes part in the group all the same"
        assert heal is not None
        heal()
        world.users.delete_pod(NAMESPACE, f"{WORKLOAD}-2")
        await asyncio.sleep(20)
        assert POD_INDEX_LABEL in pod(world, 2)["metadata"]["labels"]

    in_world(test, team=BY_HAND)


def test_an_index_label_that_is_taken_off_comes_back() -> None:
    async def test(world: World) -> None:
        heal = begin(world, "index_label_is_taken_off")
        assert len(world.server.list(PODS, NAMESPACE, Selector(labels=POD_INDEX_LABEL))) == 2
        assert heal is not None
        heal()
        assert len(world.server.list(PODS, NAMESPACE, Selector(labels=POD_INDEX_LABEL))) == 3

    in_world(test)


def test_a_pod_that_is_made_by_hand_carries_the_id_and_no_label() -> None:
    async def test(world: World) -> None:
        original, departed = pod(world, 2), world.id_of(2)
        copy = copy_without_labels(original)
        assert "labels" not in copy["metadata"]
        assert "ownerReferences" not in copy["metadata"]
        begin(world, "pod_is_made_by_hand", 3)
        await world.until(lambda: not world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-2"), 60, "the pod is gone")
        await world.until(lambda: world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-2"), 60, "its copy is there")
        assert uid_of(pod(world, 2)) != uid_of(original)
        await world.until(lambda: departed in world.members(), 60, "it takes part under the id")
        life = world.truth.pods[uid_of(pod(world, 2))]
        assert departed in life.ids, "the ground truth knows it as a carrier"

    in_world(test)


def test_somebody_who_fails_pods_of_lost_nodes_owns_the_phase_alone() -> None:
    """The entry of managedFields that the kubelet had keeps the statuses of containers."""

    async def test(world: World) -> None:
        begin(world, "somebody_fails_pods_of_lost_nodes")
        node = world.kubernetes.node_of(NAMESPACE, f"{WORKLOAD}-2")
        assert node is not None
        node.cut()
        world.users.delete_pod(NAMESPACE, f"{WORKLOAD}-2")
        await world.until(lambda: pod(world, 2)["status"]["phase"] == "Failed", 200, "it is failed")
        found = pod(world, 2)
        owned = {e["manager"]: set(e["fieldsV1"]["f:status"]) for e in found["metadata"]["managedFields"]}
        assert owned["kueue"] == {"f:phase"}
        assert "f:containerStatuses" in owned["kubelet"]
        assert is_terminating(found)
        assert any(p.pod_uid == uid_of(found) for p in world.processes.running()), "and it runs"

    in_world(test)


def test_a_kubelet_that_ends_a_pod_owns_phase_and_containers() -> None:
    async def test(world: World) -> None:
        last: list[Json] = []
        world.server.observers.append(
            lambda resource, event: last.append(event.current) if resource == PODS and event.current else None
        )
        world.users.scale(NAMESPACE, WORKLOAD, 2)
        await world.until(lambda: last and last[-1]["status"]["phase"] == "Succeeded", 60, "it ended")
        (entry,) = last[-1]["metadata"]["managedFields"]
        assert entry["manager"] == "kubelet"
        assert {"f:phase", "f:containerStatuses"} <= set(entry["fieldsV1"]["f:status"])

    in_world(test)


@pytest.mark.parametrize("seed", range(4))
def test_a_node_that_is_lost_between_two_runs_has_told_of_no_running_container(seed: int) -> None:
    async def test(world: World) -> None:
        begin(world, "node_is_lost_between_two_runs", seed)
        await world.until(lambda: any(n.is_cut for n in world.kubernetes.nodes.values()), 60, "a node is lost")
        shown = pod(world, 2)["status"]["containerStatuses"]
        assert all("running" not in entry["state"] for entry in shown)
        uid = uid_of(pod(world, 2))
        await world.until(lambda: any(p.pod_uid == uid for p in world.processes.running()), 30, "one runs unseen")

    in_world(test, seed=seed)


def test_a_zombie_with_an_heir_lives_while_its_heir_has_ended_properly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heirs, "TROUBLES", ("watch_position_is_too_old",))

    async def test(world: World) -> None:
        zombie = uid_of(pod(world, 2))
        heal = begin(world, "zombie_has_an_heir")
        await world.until(lambda: uid_of(pod(world, 2)) != zombie and is_true(pod(world, 2), "Ready"), 90, "an heir")
        heir = uid_of(pod(world, 2))
        await world.until(lambda: world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-2") is None, 150, "the heir ends")
        assert world.truth.pods[heir].is_certified
        assert not world.truth.pods[zombie].is_certified
        assert world.faults["watch_position_is_too_old"] == 1
        await world.until(lambda: any(p.pod_uid == zombie for p in world.processes.running()), 60, "the zombie lives")
        assert heal is not None
        heal()

    in_world(test)


def test_every_trouble_of_an_heir_is_a_fault() -> None:
    assert set(heirs.TROUBLES) <= set(FAULTS)


def test_a_workload_comes_while_no_operator_lives() -> None:
    async def test(world: World) -> None:
        old = {uid_of(p) for p in world.server.list(PODS, NAMESPACE)}
        begin(world, "workload_comes_while_no_operator_lives")
        await world.until(lambda: not world.living, 120, "no operator lives")
        assert world.status["injected"]["idTemplate"]
        await asyncio.sleep(15)
        assert world.living == []
        pods = world.server.list(PODS, NAMESPACE)
        assert pods
        assert not old & {uid_of(p) for p in pods}
        assert world.status["issued"] == {"ordinals": "0", "templates": []}, "what the acknowledgement says; no round has seen a pod"

    in_world(test)


def test_a_team_that_cannot_swear_does_not_swear_again() -> None:
    """A StaticGroup that is made again while a process of a vanished pod runs is made without `exclusive`."""

    async def test(world: World) -> None:
        world.users.delete_group(NAMESPACE, GROUP)
        create_group_again(world)
        assert world.server.list(STATIC_GROUPS)[0]["spec"]["identity"]["exclusive"]
        node = world.kubernetes.node_of(NAMESPACE, f"{WORKLOAD}-2")
        assert node is not None
        heirs.lose_pod(world, node, f"{WORKLOAD}-2")
        world.users.delete_group(NAMESPACE, GROUP)
        create_group_again(world)
        assert not world.server.list(STATIC_GROUPS)[0]["spec"]["identity"]["exclusive"]

    in_world(test, team=BY_HAND)


def test_operators_may_watch_many_namespaces_one_by_one() -> None:
    async def test(world: World) -> None:
        assert len(world.namespaces) == 25
        assert world.operators[0].operator.settings.watch_namespaces == world.namespaces
        lease = world.server.get(LEASES, SYSTEM, "staticgroup-operator")
        assert lease is not None
        world.users.scale(NAMESPACE, WORKLOAD, 2)
        await world.until(world.is_settled, 120, "the departed member is gone")
        assert world.safety.removals == 1

    in_world(test, watched=25)


# what becomes of machines ------------------------------------------------------------------------------------------------


def lost(world: World, ordinal: int) -> tuple[Json, Kubelet]:
    """Return the pod of an ordinal and its node, before something happens to them."""
    found = pod(world, ordinal)
    return found, world.kubernetes.nodes[found["spec"]["nodeName"]]


def runs(world: World, found: Json) -> bool:
    return world.processes.is_running(uid_of(found), world.team.container)


def closed(world: World) -> bool:
    return any(e.get("reason") == "SuspectClosedByNode" for e in world.server.list(EVENTS))


def test_a_replaced_machine_has_the_name_and_another_identity_and_what_the_first_runs_is_proven_by_nothing() -> None:
    async def test(world: World) -> None:
        await asyncio.sleep(70)
        found, node = lost(world, 2)
        heal = begin(world, "machine_is_replaced")
        await world.until(lambda: node.is_replaced, 100, "another machine has the name")
        present = world.kubernetes.nodes[node.name]
        info = (world.server.get(NODES, "", node.name) or {})["status"]["nodeInfo"]
        assert (info["machineID"], present.name) == (f"machine-{present.host}", node.name) != (f"machine-{node.host}", "")
        await asyncio.sleep(300)
        assert runs(world, found), "nobody reaches it"
        assert present.running_pods() == [p for p in present.running_pods() if p[2] != uid_of(found)]
        assert not closed(world)
        assert heal is not None
        heal()
        await world.until(lambda: not runs(world, found), 60, "it is off, or was told")

    assert in_world(test).violations == []


@pytest.mark.parametrize("lifecycle", ["Untrusted", "Cloud", "Fixed"])
def test_a_node_is_deleted_as_its_lifecycle_says(lifecycle: str) -> None:
    """Where that is sworn the machine is off by then, and the suspect is closed; where not, it goes on and nothing is."""

    async def test(world: World) -> None:
        await asyncio.sleep(90)  # what an owner has sworn counts for pods that are younger than what is remembered of the nodes
        world.users.roll(NAMESPACE, WORKLOAD)
        await asyncio.sleep(60)
        await world.until(world.is_settled, 180, "the roll is over")
        found, node = lost(world, 2)
        heal = begin(world, "node_is_deleted_after_its_pod", seed=3)
        await world.until(lambda: world.server.get(NODES, "", node.name) is None, 60, "the Node is gone")
        assert runs(world, found) == (lifecycle == "Untrusted")
        if lifecycle == "Untrusted":
            await asyncio.sleep(120)
        else:
            await world.until(lambda: closed(world), 120, "its suspect is closed")
        assert closed(world) == (lifecycle != "Untrusted")
        assert heal is not None
        heal()
        await world.until(lambda: world.server.get(NODES, "", node.name) is not None, 60, "it has registered again")

    assert in_world(test, node_lifecycle=lifecycle).violations == []


def test_a_kubelet_that_slept_hears_late_and_ends_what_it_then_hears_of() -> None:
    async def test(world: World) -> None:
        await asyncio.sleep(70)
        found, _ = lost(world, 2)
        heal = begin(world, "kubelet_sleeps_through_a_deletion")
        await asyncio.sleep(60)
        assert runs(world, found)
        assert heal is not None
        heal()
        await world.until(lambda: not runs(world, found), 60, "it is reaped")
        await world.until(lambda: told(world, "rolls") == 2, 120, "newer pods come")

    assert in_world(test, asks_runtime=True, reap_margin_s=10.0).violations == []


@pytest.mark.parametrize("asks_runtime", [False, True])
def test_a_kill_that_hangs_closes_nothing_until_it_is_through(asks_runtime: bool) -> None:
    """The runtime still lists the pod where it is asked; where not, its deletion was seen to be overdue."""

    async def test(world: World) -> None:
        await asyncio.sleep(70)
        found, node = lost(world, 2)
        heal = begin(world, "kill_hangs", seed=2)
        await world.until(lambda: world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-2") is None, 100, "the object is gone")
        await asyncio.sleep(250)
        assert runs(world, found)
        assert told(world, "kill hangs") > 0
        assert uid_of(found) in {uid for _, _, uid in node.running_pods()}
        assert not closed(world)
        assert heal is not None
        heal()
        await world.until(lambda: not runs(world, found), 60, "it has ended")

    assert in_world(test, asks_runtime=asks_runtime, reap_margin_s=10.0).violations == []


def test_a_node_that_joined_after_the_backup_runs_on_and_nobody_knows_of_it() -> None:
    async def test(world: World) -> None:
        heal = begin(world, "node_joined_after_the_backup", seed=2)
        node = world.kubernetes.nodes["n5"]
        await world.until(lambda: told(world, "restored"), 150, "etcd is set back")
        assert world.server.get(NODES, "", "n5") is None
        assert [p.node for p in world.processes.running() if p.node == "n5"] == ["n5"]
        await asyncio.sleep(100)
        assert [p.node for p in world.processes.running() if p.node == "n5"] == ["n5"]
        assert heal is not None
        heal()
        await world.until(lambda: not [p for p in world.processes.running() if p.node == "n5"], 60, "it has heard")
        assert not node.is_cut

    assert in_world(test).violations == []
