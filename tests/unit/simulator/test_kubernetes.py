"""Controllers, kubelets and users write what the real ones write, and certificates come from nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from simulator.kubernetes.objects import (
    LEASES,
    NODES,
    PODS,
    STATEFULSETS,
    Json,
    condition,
    is_terminating,
    is_true,
    name_of,
    uid_of,
)
from simulator.kubernetes.watch_log import Event
from staticgroup.api import names
from staticgroup.core.certificate import Certificate, CertificateKind, Refusal, certify
from staticgroup.core.chain import Incarnation
from staticgroup.core.pod import NodeView, PodVersion
from staticgroup.kube.pods.book import IncarnationBook
from staticgroup.kube.translate import node_view, pod_version

from .plain_world import PlainWorld, simulate

Step = Callable[[PlainWorld], Awaitable[None]]


def in_world(test: Step, *, seed: object = 1, replicas: int = 3, **options: Any) -> None:
    """Run a test in a world whose workload is up."""

    async def main() -> None:
        world = PlainWorld(seed)
        await asyncio.sleep(1)
        world.create_workload(replicas, **options)
        await world.until(lambda: is_up(world, replicas))
        await asyncio.sleep(1)
        await test(world)

    simulate(main, seed)


def is_up(world: PlainWorld, replicas: int) -> bool:
    return len(world.pods) == replicas and all(is_true(p, "Ready") and not is_terminating(p) for p in world.pods)


def versions_of(world: PlainWorld) -> list[tuple[str, Json]]:
    """Collect (kind of event, object) of every pod event from now on."""
    found: list[tuple[str, Json]] = []

    def observe(resource: str, event: Event) -> None:
        if resource == PODS:
            obj = event.current or event.previous
            assert obj is not None
            found.append(("DELETED" if event.current is None else "WRITTEN", obj))

    world.server.observers.append(observe)
    return found


def judged(world: PlainWorld, raw: Json, *, node: Json | None = None) -> Certificate | Refusal:
    """Judge one version as the product does; it is not known from birth."""
    version = pod_version(raw)
    assert isinstance(version, PodVersion)
    raw_node = node or world.server.get(NODES, "", version.node_name)
    view = node_view(raw_node)
    return certify(
        version,
        view,
        started=version.started_containers,
        runs_known=False,
    )


def known_from_birth(world: PlainWorld, found: list[tuple[str, Json]], pod_name: str) -> Incarnation:
    """Fold every version of a pod as the product does that has watched it from the beginning."""

    def node_of(name: str) -> NodeView | None:
        view = node_view(world.server.get(NODES, "", name)) if name else None
        return view if isinstance(view, NodeView) else None

    book = IncarnationBook(node_of=node_of, now_s=lambda: 0.0, is_managed=lambda namespace, name: True)
    for kind, raw in found:
        version = pod_version(raw)
        assert isinstance(version, PodVersion)
        book.take(version, is_deleted=kind == "DELETED", in_order=True)
    (record,) = book.records.named("shop", pod_name)
    return record.incarnation()


def ends(raw: Json) -> list[str]:
    """Name the state of each container, "unknown" when the kubelet cannot find it."""
    statuses = [e for kind in ("initContainerStatuses", "containerStatuses") for e in raw["status"].get(kind) or ()]
    reasons = [(e["state"].get("terminated") or {}).get("reason") for e in statuses]
    named = zip(states(raw), reasons, strict=True)
    return ["unknown" if reason == "ContainerStatusUnknown" else state for state, reason in named]


def of_one_program(raw: Json) -> Json:
    """Return the object as it is where kubelet and controllers are one program with one name."""
    entries = raw["metadata"]["managedFields"]
    owned = {field: {} for entry in entries for field in entry["fieldsV1"]["f:status"]}
    entry = {**entries[0], "manager": "k3s", "fieldsV1": {"f:status": owned}}
    return {**raw, "metadata": {**raw["metadata"], "managedFields": [entry]}}


def states(raw: Json) -> list[str]:
    """Name the state of each container."""
    status = raw["status"]
    entries = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return [next(iter(entry["state"]), "none") for entry in entries]


# -- StatefulSet


def test_ordered_set_starts_one_pod_after_the_other_with_its_labels() -> None:
    async def body(world: PlainWorld) -> None:
        starts = [entry.at_s for entry in world.trace.select(what="container started")]
        assert [dict(e.facts)["pod"] for e in world.trace.select(what="container started")] == [
            "web-0",
            "web-1",
            "web-2",
        ]
        assert all(later - earlier > 1 for earlier, later in pairwise(starts))
        labels = world.pods[2]["metadata"]["labels"]
        revision = world.server.get(STATEFULSETS, "shop", "web")["status"]["updateRevision"]  # type: ignore[index]
        assert labels == {
            "app": "web",
            names.POD_INDEX_LABEL: "2",
            names.POD_NAME_LABEL: "web-2",
            names.REVISION_LABEL: revision,
        }
        assert {p["spec"]["nodeName"] for p in world.pods} == {"n1", "n2", "n3"}

    in_world(body)


def test_parallel_set_starts_all_at_once() -> None:
    async def body(world: PlainWorld) -> None:
        starts = [entry.at_s for entry in world.trace.select(what="container started")]
        assert max(starts) - min(starts) < 2

    in_world(body, podManagementPolicy="Parallel")


def test_set_status_says_what_the_operator_reads() -> None:
    async def body(world: PlainWorld) -> None:
        found = world.server.get(STATEFULSETS, "shop", "web")
        assert found is not None
        status = found["status"]
        assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (3, 3, 3)
        assert status["observedGeneration"] == found["metadata"]["generation"]
        assert status["currentRevision"] == status["updateRevision"]

    in_world(body)


def test_roll_replaces_one_pod_at_a_time_from_the_highest() -> None:
    """stateful_set_control.go: never more than one away, the highest ordinal first, and a new revision at the end."""

    async def body(world: PlainWorld) -> None:
        before = {name_of(p): uid_of(p) for p in world.pods}
        found = versions_of(world)
        world.users.roll("shop", "web")
        await world.until(lambda: is_up(world, 3) and not {uid_of(p) for p in world.pods} & set(before.values()))
        assert [name_of(o) for kind, o in found if kind == "DELETED"] == ["web-2", "web-1", "web-0"]
        status = world.server.get(STATEFULSETS, "shop", "web")["status"]  # type: ignore[index]
        await asyncio.sleep(1)
        status = world.server.get(STATEFULSETS, "shop", "web")["status"]  # type: ignore[index]
        assert status["currentRevision"] == status["updateRevision"]
        assert all(p["metadata"]["labels"][names.REVISION_LABEL] == status["updateRevision"] for p in world.pods)

    in_world(body)


def test_partition_counts_from_the_first_ordinal_and_holds_back_the_lower_ones() -> None:
    """stateful_set_control.go loops over replicas, so the partition is an index, not an ordinal."""

    async def body(world: PlainWorld) -> None:
        before = {name_of(p): uid_of(p) for p in world.pods}
        assert sorted(before) == ["web-5", "web-6", "web-7"]
        world.users.edit_workload("shop", "web", {"updateStrategy": {"rollingUpdate": {"partition": 2}}})
        world.users.roll("shop", "web")
        await asyncio.sleep(60)
        replaced = {name_of(p) for p in world.pods if uid_of(p) != before[name_of(p)]}
        assert replaced == {"web-7"}
        world.users.delete_pod("shop", "web-5")
        await world.until(lambda: is_up(world, 3) and uid_of(world.pods[0]) != before["web-5"])
        old = world.server.get(STATEFULSETS, "shop", "web")["status"]["currentRevision"]  # type: ignore[index]
        assert world.pods[0]["metadata"]["labels"][names.REVISION_LABEL] == old

    in_world(body, ordinals={"start": 5})


def test_scale_down_takes_the_highest_and_waits_for_the_unhealthy() -> None:
    """OrderedReady: one broken replica blocks scale-down (facts: scaling and unhealthy pods)."""

    async def body(world: PlainWorld) -> None:
        world.cluster.nodes["n1"].timings = world.cluster.nodes["n1"].timings.__class__(ready_s=(60.0, 60.0))
        first = world.pods[0]
        world.processes.exit(uid_of(first), "app", 1)
        await asyncio.sleep(3)
        world.users.scale("shop", "web", 1)
        await asyncio.sleep(20)
        assert len(world.pods) == 3
        await world.until(lambda: len(world.pods) == 1)
        requested = [dict(e.facts)["pod"] for e in world.trace.select(who="statefulset", what="pod deletion")]
        assert requested == ["web-2", "web-1"]

    in_world(body)


def test_flap_keeps_the_pod_that_was_not_deleted_yet_and_replaces_the_other() -> None:
    async def body(world: PlainWorld) -> None:
        old = uid_of(world.pods[2])
        world.users.scale("shop", "web", 2)
        await world.until(lambda: is_terminating(world.pods[2]))
        world.users.scale("shop", "web", 3)
        await world.until(lambda: is_up(world, 3) and uid_of(world.pods[2]) != old)

    in_world(body)


def test_orphaned_pods_live_on_and_a_new_set_adopts_them() -> None:
    async def body(world: PlainWorld) -> None:
        before = [uid_of(p) for p in world.pods]
        world.users.delete_workload("shop", "web", propagation="Orphan")
        await world.until(lambda: world.server.get(STATEFULSETS, "shop", "web") is None)
        await asyncio.sleep(5)
        assert [uid_of(p) for p in world.pods] == before
        assert not any(p["metadata"].get("ownerReferences") for p in world.pods)
        world.create_workload(3)
        await asyncio.sleep(5)
        assert [uid_of(p) for p in world.pods] == before
        assert all(p["metadata"]["ownerReferences"][0]["controller"] for p in world.pods)

    in_world(body)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_deleted_set_takes_its_pods_along(propagation: str) -> None:
    async def body(world: PlainWorld) -> None:
        world.users.delete_workload("shop", "web", propagation=propagation)
        await asyncio.sleep(0.01)
        assert (world.server.get(STATEFULSETS, "shop", "web") is not None) is (propagation == "Foreground")
        await world.until(lambda: not world.pods)
        await world.until(lambda: world.server.get(STATEFULSETS, "shop", "web") is None)
        assert not world.processes.running

    in_world(body)


def test_deleted_namespace_empties_itself() -> None:
    async def body(world: PlainWorld) -> None:
        world.users.delete_namespace("shop")
        await world.until(lambda: world.server.get("namespaces", "", "shop") is None)
        assert not world.pods
        assert not world.processes.running

    in_world(body)


# -- the end of a pod


def test_graceful_end_is_a_patch_with_every_container_terminated_and_then_a_delete() -> None:
    """Seen on 1.36.3: deletionTimestamp, then phase Succeeded with all containers terminated, then DELETED."""

    async def body(world: PlainWorld) -> None:
        found = versions_of(world)
        world.users.scale("shop", "web", 2)
        await world.until(lambda: len(world.pods) == 2)
        told = [(kind, o["status"]["phase"], is_terminating(o), *states(o)) for kind, o in found]
        assert told == [
            ("WRITTEN", "Running", True, "running"),
            ("WRITTEN", "Succeeded", True, "terminated"),
            ("DELETED", "Succeeded", True, "terminated"),
        ]
        verdicts = [judged(world, o) for _, o in found]
        assert isinstance(verdicts[0], Refusal)
        assert isinstance(verdicts[1], Certificate)
        assert verdicts[1].kind is CertificateKind.ENDED

    in_world(body)


def test_container_that_ignores_sigterm_is_killed_when_its_grace_is_over() -> None:
    """Seen on 1.36.3: Running until the grace was over, then Failed with every container in one version."""

    async def body(world: PlainWorld) -> None:
        world.processes.ignores_term.add("app")
        found = versions_of(world)
        begun_s = world.loop.time()
        world.users.scale("shop", "web", 2)
        await world.until(lambda: len(world.pods) == 2)
        assert 5 < world.loop.time() - begun_s < 8
        terminal = next(o for _, o in found if o["status"]["phase"] != "Running")
        assert terminal["status"]["phase"] == "Failed"
        assert terminal["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137

    in_world(body, grace_s=5)


def test_sidecar_is_told_last_and_all_ends_appear_in_one_version() -> None:
    """KEP-753: restartable init containers end after the main ones; the phase is withheld until then."""

    async def body(world: PlainWorld) -> None:
        found = versions_of(world)
        pod = world.pods[0]
        assert states(pod) == ["terminated", "running", "running"], "an init container ran and ended before"
        world.users.scale("shop", "web", 0)
        await world.until(lambda: not world.pods)
        ends = [container for _, what, _, container in world.processes.history if what.startswith("exit")]
        assert ends == ["app", "proxy"]
        terminal = next(o for _, o in found if o["status"]["phase"] == "Succeeded")
        assert states(terminal) == ["terminated", "terminated", "terminated"]
        assert isinstance(judged(world, terminal), Certificate)

    inits = [{"name": "migrate"}, {"name": "proxy", "restartPolicy": "Always"}]
    in_world(body, replicas=1, pod_spec={"initContainers": inits})


def test_crash_looping_pod_shows_a_stale_end_before_its_true_one() -> None:
    """Seen on 1.36.3, the trap that the phase rule closes: deletionTimestamp, Running, and `terminated` of a past run."""

    async def body(world: PlainWorld) -> None:
        pod = world.pods[2]
        for _ in range(3):
            world.processes.exit(uid_of(pod), "app", 1)
            await world.until(lambda: not is_true(world.pods[2], "ContainersReady"))
            await asyncio.sleep(2)
            if (uid_of(pod), "app") not in world.processes.running:
                break
        backing_off = world.pods[2]["status"]["containerStatuses"][0]
        assert backing_off["state"] == {"waiting": {"reason": "CrashLoopBackOff"}}
        assert backing_off["lastState"]["terminated"]["exitCode"] == 1
        found = versions_of(world)
        world.users.delete_pod("shop", "web-2")
        await world.until(lambda: any(kind == "DELETED" for kind, _ in found))
        stale = [o for _, o in found if o["status"]["phase"] == "Running" and states(o) == ["terminated"]]
        assert stale
        assert all(isinstance(judged(world, o), Refusal) for o in stale)
        assert found[-1][1]["status"]["phase"] == "Failed"
        assert isinstance(judged(world, found[-1][1]), Certificate)

    in_world(body)


def test_crashed_container_restarts_in_place_at_once_and_then_ever_later() -> None:
    """Kubelet back-off: 0, 10, 20, 40 s; the pod keeps its uid."""

    async def body(world: PlainWorld) -> None:
        pod = world.pods[0]
        waits = []
        for _ in range(4):
            world.processes.exit(uid_of(pod), "app", 1)
            begun_s = world.loop.time()
            await world.until(lambda: (uid_of(pod), "app") in world.processes.running)
            waits.append(world.loop.time() - begun_s)
            await world.until(lambda: is_true(world.pods[0], "Ready"))
        assert [round(wait_s / 10) * 10 for wait_s in waits] == [0, 10, 20, 40]
        status = world.pods[0]["status"]["containerStatuses"][0]
        assert status["restartCount"] == 4
        assert status["lastState"]["terminated"]["containerID"] != status["containerID"]
        assert uid_of(world.pods[0]) == uid_of(pod)

    in_world(body)


def test_force_delete_takes_the_object_while_the_process_lives_until_its_kubelet_hears() -> None:
    """Seen on 1.36.3: DELETED with containers running; the replacement comes at once; the kubelet ends the orphan."""

    async def body(world: PlainWorld) -> None:
        pod = world.pods[2]
        node = world.cluster.nodes[pod["spec"]["nodeName"]]
        node.freeze_kubelet()
        found = versions_of(world)
        world.users.delete_pod("shop", "web-2", grace_s=0)
        assert found[0][0] == "DELETED"
        assert states(found[0][1]) == ["running"]
        await asyncio.sleep(30)
        assert world.pods[2]["metadata"]["uid"] != uid_of(pod)
        assert world.processes.is_running(uid_of(pod), "app"), "nobody has told the process"
        node.thaw_kubelet()
        await world.until(lambda: not world.processes.is_running(uid_of(pod), "app"), 5)
        await world.until(lambda: not node.owns(uid_of(pod)), 5)
        assert not [o for _, o in found[1:] if uid_of(o) == uid_of(pod)], "nothing is written about it any more"

    in_world(body)


def test_pod_deleted_before_its_container_started_is_lost_not_ended() -> None:
    """Seen on 1.36.3: Failed with ContainerStatusUnknown and no containerID (certificate E1' only)."""

    async def body(world: PlainWorld) -> None:
        world.users.scale("shop", "web", 2)
        await world.until(lambda: len(world.pods) == 2 and is_up(world, 2))
        found = versions_of(world)
        world.users.scale("shop", "web", 3)
        await world.until(lambda: len(world.pods) == 3 and world.pods[2]["status"].get("containerStatuses"))
        world.users.scale("shop", "web", 2)
        await world.until(lambda: len(world.pods) == 2)
        last = found[-1][1]
        assert last["status"]["phase"] == "Failed"
        terminated = last["status"]["containerStatuses"][0]["state"]["terminated"]
        assert terminated["reason"] == "ContainerStatusUnknown"
        assert "containerID" not in terminated
        assert isinstance(judged(world, last), Refusal)
        version = pod_version(last)
        assert isinstance(version, PodVersion)
        assert not version.started_containers

    in_world(body)


APP, SIDE = {"name": "app", "image": "shop/orders:1"}, {"name": "side", "image": "shop/side:1"}
MIGRATE = {"name": "migrate", "image": "shop/migrate:1"}
PROXY = {"name": "proxy", "image": "shop/side:1", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("pod_spec", "missing", "waiting", "final", "kind"),
    [
        ({}, APP, ["waiting"], ["unknown"], CertificateKind.NEVER_RAN),
        ({"initContainers": [MIGRATE]}, APP, ["terminated", "waiting"], ["terminated", "unknown"], CertificateKind.ENDED),
        ({"containers": [APP, SIDE]}, SIDE, ["running", "waiting"], ["terminated", "unknown"], CertificateKind.ENDED),
        ({"initContainers": [PROXY]}, PROXY, ["waiting", "waiting"], ["unknown", "waiting"], CertificateKind.NEVER_RAN),
    ],
    ids=["app", "app behind an init container", "second container", "sidecar before the app"],
)
def test_image_that_is_never_pulled_leaves_its_container_waiting_and_then_unknown(
    pod_spec: Json, missing: Json, waiting: list[str], final: list[str], kind: CertificateKind
) -> None:
    """As seen on 1.36.3; known from its birth, the end of such a pod is certified."""

    async def body(world: PlainWorld) -> None:
        for node in world.cluster.nodes.values():
            node.missing_images.add(missing["image"])
        found = versions_of(world)
        world.users.scale("shop", "web", 2)
        await world.until(lambda: states(world.pods[-1]) == waiting and "ImagePullBackOff" in str(world.pods[-1]["status"]))
        assert (world.pods[-1]["status"]["phase"], len(world.pods)) == ("Pending", 2)
        world.users.scale("shop", "web", 1)
        await world.until(lambda: len(world.pods) == 1)
        last = found[-1][1]
        assert (last["status"]["phase"], ends(last)) == ("Failed", final)
        certificate = known_from_birth(world, found, "web-1").certificate
        assert certificate is not None
        assert certificate.kind is kind

    in_world(body, replicas=1, pod_spec=pod_spec)


def test_pod_deleted_during_its_init_container_is_certified_ended() -> None:
    """Seen on 1.36.3: the init container with its id, the app waiting."""

    async def body(world: PlainWorld) -> None:
        for node in world.cluster.nodes.values():
            node.timings = replace(node.timings, init_s=(20.0, 30.0))
        found = versions_of(world)
        world.users.scale("shop", "web", 2)
        await world.until(lambda: len(world.pods) == 2 and "running" in states(world.pods[-1]))
        world.users.scale("shop", "web", 1)
        await world.until(lambda: len(world.pods) == 1)
        assert states(found[-1][1]) == ["terminated", "waiting"]
        certificate = known_from_birth(world, found, "web-1").certificate
        assert certificate is not None
        assert certificate.kind is CertificateKind.ENDED

    in_world(body, replicas=1, pod_spec={"initContainers": [MIGRATE]})


def test_rejected_pod_has_failed_without_any_container_status() -> None:
    """rejectPod in kubelet.go: a bare status; the set deletes the pod and makes another."""

    async def body(world: PlainWorld) -> None:
        found = versions_of(world)
        for node in world.cluster.nodes.values():
            node.rejections = 1
        world.users.delete_pod("shop", "web-2")
        await world.until(lambda: is_up(world, 3))
        rejected = [o for _, o in found if o["status"].get("reason") == "OutOfcpu"]
        assert rejected
        assert all("containerStatuses" not in o["status"] for o in rejected)
        assert all(isinstance(judged(world, o), Refusal) for o in rejected)

    in_world(body)


def test_restarted_kubelet_that_rejects_a_running_pod_writes_failed_before_the_process_ends() -> None:
    """A terminal phase alone is no proof: the kubelet's restart re-admits pods, and rejects before it reaps."""

    async def body(world: PlainWorld) -> None:
        pod = world.pods[2]
        world.processes.ignores_term.add("app")
        node = world.cluster.nodes[pod["spec"]["nodeName"]]
        found = versions_of(world)
        node.rejections = 1
        node.restart_kubelet()
        await world.until(lambda: any(o["status"]["phase"] == "Failed" for _, o in found), 5)
        failed = next(o for _, o in found if o["status"]["phase"] == "Failed")
        assert "containerStatuses" not in failed["status"]
        assert world.processes.is_running(uid_of(pod), "app")
        assert isinstance(judged(world, failed), Refusal)
        await world.until(lambda: not world.processes.is_running(uid_of(pod), "app"), 60)

    in_world(body)


def test_evicted_pod_fails_with_its_reason_and_is_replaced() -> None:
    """Node-pressure eviction: phase Failed, reason Evicted, DisruptionTarget; the set re-creates the pod."""

    async def body(world: PlainWorld) -> None:
        pod = world.pods[1]
        found = versions_of(world)
        world.cluster.nodes[pod["spec"]["nodeName"]].evict(uid_of(pod))
        await world.until(lambda: is_up(world, 3) and uid_of(world.pods[1]) != uid_of(pod))
        failed = next(o for _, o in found if o["status"].get("reason") == "Evicted")
        assert condition(failed, "DisruptionTarget")["reason"] == "TerminationByKubelet"  # type: ignore[index]
        assert not is_terminating(failed)
        assert isinstance(judged(world, failed), Certificate)

    in_world(body)


# -- nodes


def test_restarted_kubelet_takes_over_what_runs() -> None:
    async def body(world: PlainWorld) -> None:
        before = dict(world.processes.running)
        for node in world.cluster.nodes.values():
            node.restart_kubelet()
        await asyncio.sleep(20)
        assert world.processes.running == before
        assert is_up(world, 3)
        world.users.scale("shop", "web", 2)
        await world.until(lambda: len(world.pods) == 2)

    in_world(body)


def test_heartbeats_of_an_ended_kubelet_process_stop() -> None:
    """nodelease: one renewal in ten seconds, however often the kubelet was restarted."""

    async def body(world: PlainWorld) -> None:
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

    in_world(body, replicas=1)


def test_tainted_and_cordoned_nodes_receive_no_pods() -> None:
    async def body(world: PlainWorld) -> None:
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

    in_world(body, replicas=1)


def test_rebooted_node_starts_its_pods_again_with_another_boot_id() -> None:
    """Processes end without a status; after the boot the runtime reports exit 255, reason Unknown."""

    async def body(world: PlainWorld) -> None:
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

    in_world(body)


def test_pod_deleted_while_its_node_was_down_is_certified_after_the_boot() -> None:
    async def body(world: PlainWorld) -> None:
        pod = world.pods[2]
        world.cluster.nodes[pod["spec"]["nodeName"]].reboot(20)
        found = versions_of(world)
        world.users.scale("shop", "web", 2)
        await world.until(lambda: len(world.pods) == 2)
        terminal = found[-1][1]
        assert terminal["status"]["phase"] == "Failed"
        assert isinstance(judged(world, terminal), Certificate)

    in_world(body)


@pytest.mark.parametrize("kind", ["cut", "freeze"])
def test_silent_node_is_tainted_and_its_pods_are_asked_to_go_without_dying(kind: str) -> None:
    """Node lifecycle: unreachable after 50 s, deletionTimestamp 300 s later, and no certificate until it is back."""

    async def body(world: PlainWorld) -> None:
        pod = world.pods[2]
        name = pod["spec"]["nodeName"]
        node = world.cluster.nodes[name]
        found = versions_of(world)
        if kind == "cut":
            node.cut()
        else:
            node.freeze()
        await asyncio.sleep(100)
        tainted = world.server.get(NODES, "", name)
        assert tainted is not None
        assert condition(tainted, "Ready")["status"] == "Unknown"  # type: ignore[index]
        assert {t["effect"] for t in tainted["spec"]["taints"]} == {"NoSchedule", "NoExecute"}
        assert not is_true(world.pods[2], "Ready")
        await asyncio.sleep(300)
        leaving = world.pods[2]
        assert is_terminating(leaving)
        assert condition(leaving, "DisruptionTarget")["reason"] == "DeletionByTaintManager"  # type: ignore[index]
        assert world.processes.is_running(uid_of(pod), "app")
        assert all(isinstance(judged(world, o), Refusal) for _, o in found)
        if kind == "cut":
            node.heal()
        else:
            node.thaw()
        await world.until(lambda: is_up(world, 3) and uid_of(world.pods[2]) != uid_of(pod))
        ended = next(o for kind, o in found if uid_of(o) == uid_of(pod) and o["status"]["phase"] == "Succeeded")
        assert isinstance(judged(world, ended), Certificate)
        await asyncio.sleep(30)
        assert not world.server.get(NODES, "", name)["spec"].get("taints")  # type: ignore[index]

    in_world(body)


def test_pods_of_a_deleted_node_are_failed_by_the_collector_while_their_processes_live() -> None:
    """PodGC: 40 s quarantine, phase Failed with DeletionByPodGC, object deleted; that is no word of a kubelet."""

    async def body(world: PlainWorld) -> None:
        pod = world.pods[2]
        name = pod["spec"]["nodeName"]
        old_node = world.server.get(NODES, "", name)
        world.cluster.nodes[name].cut()
        found = versions_of(world)
        world.users.delete_node(name)
        await world.until(lambda: any(kind == "DELETED" for kind, _ in found))
        failed = next(o for _, o in found if o["status"]["phase"] == "Failed")
        assert condition(failed, "DisruptionTarget")["reason"] == "DeletionByPodGC"  # type: ignore[index]
        assert isinstance(judged(world, failed, node=old_node), Refusal)
        assert world.processes.is_running(uid_of(pod), "app")
        await world.until(lambda: is_up(world, 3))
        assert world.pods[2]["spec"]["nodeName"] != name
        world.cluster.nodes[name].heal()
        world.cluster.nodes[name].restart_kubelet()
        await world.until(lambda: not world.processes.is_running(uid_of(pod), "app"))
        node = world.server.get(NODES, "", name)
        assert node is not None
        assert uid_of(node) != uid_of(old_node or {})

    in_world(body)


def test_out_of_service_frees_terminating_pods_of_a_lost_node() -> None:
    """GA in 1.28: the taint on a node that is not ready makes PodGC delete its terminating pods by force."""

    async def body(world: PlainWorld) -> None:
        pod = world.pods[2]
        name = pod["spec"]["nodeName"]
        world.cluster.nodes[name].power_off()
        await asyncio.sleep(70)
        world.users.delete_pod("shop", "web-2")
        await asyncio.sleep(60)
        assert uid_of(world.pods[2]) == uid_of(pod)
        world.users.taint_out_of_service(name)
        await world.until(lambda: is_up(world, 3) and uid_of(world.pods[2]) != uid_of(pod))

    in_world(body)


def test_false_taint_fails_a_running_pod_without_a_reason_and_only_its_writer_tells() -> None:
    """gcTerminating: no DisruptionTarget of its own; metadata.managedFields names who wrote the phase."""

    async def body(world: PlainWorld) -> None:
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
        assert isinstance(by_writer, Refusal)
        assert "written by kube-controller-manager" in by_writer.clause
        assert isinstance(by_taint, Refusal)
        assert "out of service" in by_taint.clause

    in_world(body)


def test_set_of_an_old_controller_labels_no_ordinal_and_a_newer_one_leaves_its_pods_as_they_are() -> None:
    """identityMatches looks at the label with the pod's name only."""

    async def body(world: PlainWorld) -> None:
        world.cluster.stateful_sets.has_index_label = False
        world.users.delete_pod("shop", "web-2")
        await world.until(lambda: names.POD_INDEX_LABEL not in (world.pods[-1]["metadata"]["labels"]))
        await world.until(lambda: is_up(world, 3))
        world.cluster.stateful_sets.has_index_label = True
        world.cluster.stateful_sets.poke_all()
        await asyncio.sleep(5)
        assert [names.POD_INDEX_LABEL in p["metadata"]["labels"] for p in world.pods] == [True, True, False]

    in_world(body)


def test_phase_that_somebody_else_writes_leaves_the_containers_to_the_kubelet() -> None:
    """One entry for each manager; a field that changes is taken from its owner."""

    async def body(world: PlainWorld) -> None:
        world.server.patch(
            PODS, "shop", "web-2", {"status": {"phase": "Failed"}}, subresource="status", manager="kueue"
        )
        owned = {e["manager"]: set(e["fieldsV1"]["f:status"]) for e in world.pods[2]["metadata"]["managedFields"]}
        assert owned == {"kubelet": {"f:containerStatuses"}, "kueue": {"f:phase"}}

    in_world(body)


def test_phase_belongs_to_who_changed_it_last() -> None:
    """An Update takes the fields whose values it changes; the node controller's conditions leave the phase alone."""

    async def body(world: PlainWorld) -> None:
        def managers() -> list[str]:
            return [entry["manager"] for entry in world.pods[2]["metadata"]["managedFields"]]

        assert managers() == ["kubelet"]
        world.cluster.nodes[world.pods[2]["spec"]["nodeName"]].cut()
        await asyncio.sleep(100)
        assert not is_true(world.pods[2], "Ready"), "written by the node controller"
        assert managers() == ["kubelet"]

    in_world(body)


def test_label_edit_hides_a_running_pod_and_the_set_keeps_it() -> None:
    """The pod index label is not repaired (identityMatches looks at the pod-name label only)."""

    async def body(world: PlainWorld) -> None:
        before = uid_of(world.pods[2])
        world.users.label_pod("shop", "web-2", {names.POD_INDEX_LABEL: None})
        await asyncio.sleep(10)
        assert uid_of(world.pods[2]) == before
        assert names.POD_INDEX_LABEL not in world.pods[2]["metadata"]["labels"]
        world.users.label_pod("shop", "web-2", {"app": "other"})
        await asyncio.sleep(10)
        assert not world.pods[2]["metadata"].get("ownerReferences"), "released"

    in_world(body)


def test_restored_etcd_brings_a_deleted_pod_back_to_run_again() -> None:
    """A kubelet starts a pod object that exists, whatever was once proven about its uid."""

    async def body(world: PlainWorld) -> None:
        backup = world.server.backup()
        pod = world.pods[2]
        world.users.scale("shop", "web", 2)
        await world.until(lambda: len(world.pods) == 2)
        assert not world.processes.is_running(uid_of(pod), "app")
        world.cluster.restore_etcd(backup)
        await world.until(lambda: world.processes.is_running(uid_of(pod), "app"))
        await asyncio.sleep(10)
        assert uid_of(world.pods[2]) == uid_of(pod)

    in_world(body)
