"""Nodes that end, fall silent, come back or are taken away, and what becomes of their pods."""

from __future__ import annotations

import asyncio

import pytest

from simulator.kubernetes.objects import LEASES, NODES, PODS, Json, condition, is_terminating, is_true, name_of, uid_of
from staticgroup.api import names
from staticgroup.core.evidence.certificate import Certificate, RefusalReason, Unproven
from support.narrowing import of_type, some

from .plain_world import PlainWorld
from .pod_versions import is_up, judged, up, versions_of


def of_one_program(raw: Json) -> Json:
    """Return the object as it is where kubelet and controllers are one program with one name."""
    entries = raw["metadata"]["managedFields"]
    owned = {field: {} for entry in entries for field in entry["fieldsV1"]["f:status"]}
    entry = {**entries[0], "manager": "k3s", "fieldsV1": {"f:status": owned}}
    return {**raw, "metadata": {**raw["metadata"], "managedFields": [entry]}}


# -- nodes


@up()
async def test_restarted_kubelet_takes_over_what_runs(world: PlainWorld) -> None:
    before = dict(world.processes.running)
    for node in world.cluster.nodes.values():
        node.restart_kubelet()
    await asyncio.sleep(20)
    assert world.processes.running == before
    assert is_up(world, 3)
    world.users.scale("shop", "web", 2)
    await world.until(lambda: len(world.pods) == 2)


@up(replicas=1)
async def test_heartbeats_of_an_ended_kubelet_process_stop(world: PlainWorld) -> None:
    """nodelease: one renewal in ten seconds, however often the kubelet was restarted."""
    for _ in range(5):
        world.cluster.nodes["n1"].restart_kubelet()
        await asyncio.sleep(3)
    renewed: list[str] = []
    world.server.observers.append(
        lambda resource, event: (
            renewed.append(name_of(event.current)) if resource == LEASES and event.current is not None else None
        )
    )
    await asyncio.sleep(100)
    assert 9 <= renewed.count("n1") <= 11


@up(replicas=1)
async def test_tainted_and_cordoned_nodes_receive_no_pods(world: PlainWorld) -> None:
    world.users.taint_out_of_service("n1")
    world.users.cordon("n2")
    world.users.scale("shop", "web", 4)
    await world.until(lambda: is_up(world, 4))
    assert {p["spec"]["nodeName"] for p in world.pods[1:]} == {"n3"}
    world.users.cordon("n3")
    world.users.scale("shop", "web", 5)
    await asyncio.sleep(5)
    assert condition(world.pods[4], "PodScheduled")["reason"] == "Unschedulable"  # type: ignore[index]
    world.users.untaint_out_of_service("n1")
    await world.until(lambda: is_up(world, 5))
    assert world.pods[4]["spec"]["nodeName"] == "n1"


@up()
async def test_rebooted_node_starts_its_pods_again_with_another_boot_id(world: PlainWorld) -> None:
    """Processes end without a status; after the boot the runtime reports exit 255, reason Unknown."""
    pod = world.pods[0]
    name = pod["spec"]["nodeName"]
    boot_id = world.server.get(NODES, "", name)["status"]["nodeInfo"]["bootID"]  # type: ignore[index]
    found = versions_of(world)
    world.cluster.nodes[name].reboot(20)
    assert not world.processes.is_running(uid_of(pod), "app")
    await asyncio.sleep(15)
    assert found == [], "nobody writes that the process has ended"
    await world.until(lambda: world.processes.is_running(uid_of(pod), "app"))
    await world.until(lambda: is_up(world, 3))
    assert world.server.get(NODES, "", name)["status"]["nodeInfo"]["bootID"] != boot_id  # type: ignore[index]
    last = world.pods[0]["status"]["containerStatuses"][0]
    assert last["lastState"]["terminated"]["exitCode"] == 255
    assert last["restartCount"] == 1


@up()
async def test_pod_deleted_while_its_node_was_down_is_lost_to_its_runtime(world: PlainWorld) -> None:
    """containerd says Unknown of what it finds ended when it starts, and of a task that it can only no longer ask."""
    pod = world.pods[2]
    world.cluster.nodes[pod["spec"]["nodeName"]].reboot(20)
    found = versions_of(world)
    world.users.scale("shop", "web", 2)
    await world.until(lambda: len(world.pods) == 2)
    terminal = found[-1][1]
    assert terminal["status"]["phase"] == "Failed"
    verdict = of_type(Unproven, judged(world, terminal))
    assert verdict.reason is RefusalReason.CONTAINER_LOST


@up()
async def test_pod_that_was_called_not_ready_while_its_kubelet_ran_is_put_right(world: PlainWorld) -> None:
    """pkg/kubelet/status/status_manager.go, needsReconcile: the node controller may be one look behind the kubelet."""
    pod = world.pods[0]
    others = [c for c in pod["status"]["conditions"] if c["type"] != "Ready"]
    world.server.patch_status(PODS, pod, {"conditions": [*others, {"type": "Ready", "status": "False"}]})
    assert not is_true(world.pods[0], "Ready")
    await world.until(lambda: is_true(world.pods[0], "Ready"))


@pytest.mark.parametrize("kind", ["cut", "freeze"])
@up()
async def test_silent_node_is_tainted_and_its_pods_are_asked_to_go_without_dying(world: PlainWorld, kind: str) -> None:
    """Node lifecycle: unreachable after 50 s, deletionTimestamp 300 s later, and no certificate until it is back."""
    pod = world.pods[2]
    name = pod["spec"]["nodeName"]
    node = world.cluster.nodes[name]
    found = versions_of(world)
    if kind == "cut":
        node.cut()
    else:
        node.freeze()
    await asyncio.sleep(100)
    tainted = some(world.server.get(NODES, "", name))
    assert condition(tainted, "Ready")["status"] == "Unknown"  # type: ignore[index]
    assert {t["effect"] for t in tainted["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
    assert not is_true(world.pods[2], "Ready")
    await asyncio.sleep(300)
    leaving = world.pods[2]
    assert is_terminating(leaving)
    assert condition(leaving, "DisruptionTarget")["reason"] == "DeletionByTaintManager"  # type: ignore[index]
    assert world.processes.is_running(uid_of(pod), "app")
    assert all(isinstance(judged(world, o), Unproven) for _, o in found)
    if kind == "cut":
        node.heal()
    else:
        node.thaw()
    await world.until(lambda: is_up(world, 3) and uid_of(world.pods[2]) != uid_of(pod))
    ended = next(o for kind, o in found if uid_of(o) == uid_of(pod) and o["status"]["phase"] == "Succeeded")
    assert isinstance(judged(world, ended), Certificate)
    await asyncio.sleep(30)
    assert not world.server.get(NODES, "", name)["spec"].get("taints")  # type: ignore[index]


@up()
async def test_pods_of_a_deleted_node_are_failed_by_the_collector_while_their_processes_live(world: PlainWorld) -> None:
    """PodGC: 40 s quarantine, phase Failed with DeletionByPodGC, object deleted; no kubelet wrote that."""
    pod = world.pods[2]
    name = pod["spec"]["nodeName"]
    old_node = world.server.get(NODES, "", name)
    world.cluster.nodes[name].cut()
    found = versions_of(world)
    world.users.delete_node(name)
    await world.until(lambda: any(kind == "DELETED" for kind, _ in found))
    failed = next(o for _, o in found if o["status"]["phase"] == "Failed")
    assert condition(failed, "DisruptionTarget")["reason"] == "DeletionByPodGC"  # type: ignore[index]
    assert isinstance(judged(world, failed, node=old_node), Unproven)
    assert world.processes.is_running(uid_of(pod), "app")
    await world.until(lambda: is_up(world, 3))
    assert world.pods[2]["spec"]["nodeName"] != name
    world.cluster.nodes[name].heal()
    world.cluster.nodes[name].restart_kubelet()
    await world.until(lambda: not world.processes.is_running(uid_of(pod), "app"))
    node = some(world.server.get(NODES, "", name))
    assert uid_of(node) != uid_of(old_node or {})


@up()
async def test_out_of_service_frees_terminating_pods_of_a_lost_node(world: PlainWorld) -> None:
    """GA in 1.28: the taint on a node that is not ready makes PodGC delete its terminating pods by force."""
    pod = world.pods[2]
    name = pod["spec"]["nodeName"]
    world.cluster.nodes[name].power_off()
    await asyncio.sleep(70)
    world.users.delete_pod("shop", "web-2")
    await asyncio.sleep(60)
    assert uid_of(world.pods[2]) == uid_of(pod)
    world.users.taint_out_of_service(name)
    await world.until(lambda: is_up(world, 3) and uid_of(world.pods[2]) != uid_of(pod))


@up()
async def test_false_taint_fails_a_running_pod_without_a_reason_and_only_its_writer_tells(world: PlainWorld) -> None:
    """gcTerminating: no DisruptionTarget of its own; metadata.managedFields names the writer of the phase."""
    pod = world.pods[2]
    name = pod["spec"]["nodeName"]
    untainted = world.server.get(NODES, "", name)
    world.cluster.nodes[name].cut()
    await asyncio.sleep(70)
    world.users.delete_pod("shop", "web-2")
    found = versions_of(world)
    world.users.taint_out_of_service(name)
    await world.until(lambda: any(kind == "DELETED" for kind, _ in found))
    failed = next(o for _, o in found if o["status"]["phase"] == "Failed")
    assert world.processes.is_running(uid_of(pod), "app")
    assert condition(failed, "DisruptionTarget") is None
    by_writer, by_taint = judged(world, failed, node=untainted), judged(world, of_one_program(failed))
    assert isinstance(by_writer, Unproven)
    assert "written by kube-controller-manager" in by_writer.clause
    assert isinstance(by_taint, Unproven)
    assert "out of service" in by_taint.clause


@up()
async def test_set_of_an_old_controller_labels_no_ordinal_and_a_newer_one_leaves_its_pods_as_they_are(
    world: PlainWorld
) -> None:
    """identityMatches compares only the label with the pod's name."""
    world.cluster.stateful_sets.has_index_label = False
    world.users.delete_pod("shop", "web-2")
    await world.until(lambda: names.POD_INDEX_LABEL not in (world.pods[-1]["metadata"]["labels"]))
    await world.until(lambda: is_up(world, 3))
    world.cluster.stateful_sets.has_index_label = True
    world.cluster.stateful_sets.poke_all()
    await asyncio.sleep(5)
    assert [names.POD_INDEX_LABEL in p["metadata"]["labels"] for p in world.pods] == [True, True, False]


@up()
async def test_phase_that_somebody_else_writes_leaves_the_containers_to_the_kubelet(world: PlainWorld) -> None:
    """One entry for each manager; a field that changes is taken from its owner."""
    world.server.patch(PODS, "shop", "web-2", {"status": {"phase": "Failed"}}, subresource="status", manager="kueue")
    owned = {e["manager"]: set(e["fieldsV1"]["f:status"]) for e in world.pods[2]["metadata"]["managedFields"]}
    assert owned == {"kubelet": {"f:containerStatuses"}, "kueue": {"f:phase"}}


@up()
async def test_phase_belongs_to_its_last_writer(world: PlainWorld) -> None:
    """An Update takes the fields whose values it changes; the node controller's conditions leave the phase alone."""

    def managers() -> list[str]:
        return [entry["manager"] for entry in world.pods[2]["metadata"]["managedFields"]]

    assert managers() == ["kubelet"]
    world.cluster.nodes[world.pods[2]["spec"]["nodeName"]].cut()
    await asyncio.sleep(100)
    assert not is_true(world.pods[2], "Ready"), "written by the node controller"
    assert managers() == ["kubelet"]


@up()
async def test_label_edit_hides_a_running_pod_and_the_set_keeps_it(world: PlainWorld) -> None:
    """The pod index label is not repaired (identityMatches compares only the pod-name label)."""
    before = uid_of(world.pods[2])
    world.users.label_pod("shop", "web-2", {names.POD_INDEX_LABEL: None})
    await asyncio.sleep(10)
    assert uid_of(world.pods[2]) == before
    assert names.POD_INDEX_LABEL not in world.pods[2]["metadata"]["labels"]
    world.users.label_pod("shop", "web-2", {"app": "other"})
    await asyncio.sleep(10)
    assert not world.pods[2]["metadata"].get("ownerReferences"), "released"


@up()
async def test_restored_etcd_brings_a_deleted_pod_back_to_run_again(world: PlainWorld) -> None:
    """A kubelet starts a pod object that exists, whatever was once proven about its uid."""
    backup = world.server.backup()
    pod = world.pods[2]
    world.users.scale("shop", "web", 2)
    await world.until(lambda: len(world.pods) == 2)
    assert not world.processes.is_running(uid_of(pod), "app")
    world.cluster.restore_etcd(backup)
    await world.until(lambda: world.processes.is_running(uid_of(pod), "app"))
    await asyncio.sleep(10)
    assert uid_of(world.pods[2]) == uid_of(pod)
