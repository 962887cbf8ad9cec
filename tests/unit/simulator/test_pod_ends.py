"""How pods end: kubelets write what the real ones write, and certificates come from nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from simulator.kubernetes.objects import NODES, Json, condition, is_terminating, is_true, uid_of
from staticgroup.core.evidence.certificate import Certificate, CertificateKind, Unproven
from staticgroup.core.evidence.chain import KnownPod
from staticgroup.core.evidence.pod import NodeView, PodVersion
from staticgroup.kube.pods.book import PodBook
from staticgroup.kube.translate import node_view, pod_version
from support.narrowing import of_type, some

from .plain_world import PlainWorld
from .pod_versions import is_up, judged, up, versions_of


def known_from_birth(world: PlainWorld, found: list[tuple[str, Json]], pod_name: str) -> KnownPod:
    """Fold every version of a pod as the product does that has watched it from the beginning."""

    def node_of(name: str) -> NodeView | None:
        view = node_view(world.server.get(NODES, "", name)) if name else None
        return view if isinstance(view, NodeView) else None

    book = PodBook(node_of=node_of, now_s=lambda: 0.0, is_managed=lambda namespace, name: True)
    for kind, raw in found:
        version = of_type(PodVersion, pod_version(raw))
        book.take(version, is_deleted=kind == "DELETED", in_order=True)
    (found,) = book.index.chain("shop", [pod_name], [])
    return found


def ends(raw: Json) -> list[str]:
    """Name the state of each container, "unknown" when the kubelet cannot find it."""
    statuses = [e for kind in ("initContainerStatuses", "containerStatuses") for e in raw["status"].get(kind) or ()]
    reasons = [(e["state"].get("terminated") or {}).get("reason") for e in statuses]
    named = zip(states(raw), reasons, strict=True)
    return ["unknown" if reason == "ContainerStatusUnknown" else state for state, reason in named]


def states(raw: Json) -> list[str]:
    """Name the state of each container."""
    status = raw["status"]
    entries = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return [next(iter(entry["state"]), "none") for entry in entries]


# -- the end of a pod


@up()
async def test_graceful_end_is_a_patch_with_every_container_terminated_and_then_a_delete(world: PlainWorld) -> None:
    """Seen on 1.36.3: deletionTimestamp, then phase Succeeded with all containers terminated, then DELETED."""
    found = versions_of(world)
    world.users.scale("shop", "web", 2)
    await world.until(lambda: len(world.pods) == 2)
    versions = [(kind, o["status"]["phase"], is_terminating(o), *states(o)) for kind, o in found]
    assert versions == [
        ("WRITTEN", "Running", True, "running"),
        ("WRITTEN", "Succeeded", True, "terminated"),
        ("DELETED", "Succeeded", True, "terminated"),
    ]
    verdicts = [judged(world, o) for _, o in found]
    assert isinstance(verdicts[0], Unproven)
    assert isinstance(verdicts[1], Certificate)
    assert verdicts[1].kind is CertificateKind.ENDED


@up(grace_s=5)
async def test_container_that_ignores_sigterm_is_killed_when_its_grace_is_over(world: PlainWorld) -> None:
    """Seen on 1.36.3: Running until the grace was over, then Failed with every container in one version."""
    world.processes.ignores_term.add("app")
    found = versions_of(world)
    begun_s = world.loop.time()
    world.users.scale("shop", "web", 2)
    await world.until(lambda: len(world.pods) == 2)
    assert 5 < world.loop.time() - begun_s < 8
    terminal = next(o for _, o in found if o["status"]["phase"] != "Running")
    assert terminal["status"]["phase"] == "Failed"
    assert terminal["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


@up(replicas=1, pod_spec={"initContainers": [{"name": "migrate"}, {"name": "proxy", "restartPolicy": "Always"}]})
async def test_sidecar_is_stopped_last_and_all_ends_appear_in_one_version(world: PlainWorld) -> None:
    """KEP-753: restartable init containers end after the main ones; the phase is withheld until then."""
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


@up()
async def test_crash_looping_pod_shows_a_stale_end_before_its_true_one(world: PlainWorld) -> None:
    """Seen on 1.36.3, the trap that the phase rule closes: deletionTimestamp, Running, and `terminated` of a past
    run."""
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
    assert all(isinstance(judged(world, o), Unproven) for o in stale)
    assert found[-1][1]["status"]["phase"] == "Failed"
    assert isinstance(judged(world, found[-1][1]), Certificate)


@up()
async def test_crashed_container_restarts_in_place_at_once_and_then_ever_later(world: PlainWorld) -> None:
    """Kubelet back-off: 0, 10, 20, 40 s; the pod keeps its uid."""
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


@up()
async def test_force_delete_takes_the_object_while_the_process_lives_until_its_kubelet_receives_it(
    world: PlainWorld
) -> None:
    """Seen on 1.36.3: DELETED with containers running; the replacement comes at once; the kubelet ends the orphan."""
    pod = world.pods[2]
    node = world.cluster.nodes[pod["spec"]["nodeName"]]
    node.freeze_kubelet()
    found = versions_of(world)
    world.users.delete_pod("shop", "web-2", grace_s=0)
    assert found[0][0] == "DELETED"
    assert states(found[0][1]) == ["running"]
    await asyncio.sleep(30)
    assert world.pods[2]["metadata"]["uid"] != uid_of(pod)
    assert world.processes.is_running(uid_of(pod), "app"), "no signal was sent to the process"
    node.thaw_kubelet()
    await world.until(lambda: not world.processes.is_running(uid_of(pod), "app"), 5)
    await world.until(lambda: not node.owns(uid_of(pod)), 5)
    assert not [o for _, o in found[1:] if uid_of(o) == uid_of(pod)], "nothing is written about it any more"


@up()
async def test_pod_deleted_before_its_container_started_is_lost_not_ended(world: PlainWorld) -> None:
    """Seen on 1.36.3: Failed with ContainerStatusUnknown and no containerID (certificate E1' only)."""
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
    assert isinstance(judged(world, last), Unproven)
    version = of_type(PodVersion, pod_version(last))
    assert not version.started_containers


APP, SIDE = {"name": "app", "image": "shop/orders:1"}, {"name": "side", "image": "shop/side:1"}
MIGRATE = {"name": "migrate", "image": "shop/migrate:1"}
PROXY = {"name": "proxy", "image": "shop/side:1", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("pod_spec", "missing", "waiting", "final", "kind"),
    [
        ({}, APP, ["waiting"], ["unknown"], CertificateKind.NEVER_RAN),
        (
            {"initContainers": [MIGRATE]},
            APP,
            ["terminated", "waiting"],
            ["terminated", "unknown"],
            CertificateKind.ENDED,
        ),
        ({"containers": [APP, SIDE]}, SIDE, ["running", "waiting"], ["terminated", "unknown"], CertificateKind.ENDED),
        ({"initContainers": [PROXY]}, PROXY, ["waiting", "waiting"], ["unknown", "waiting"], CertificateKind.NEVER_RAN),
    ],
    ids=["app", "app behind an init container", "second container", "sidecar before the app"],
)
@up("pod_spec", replicas=1)
async def test_image_that_is_never_pulled_leaves_its_container_waiting_and_then_unknown(
    world: PlainWorld, pod_spec: Json, missing: Json, waiting: list[str], final: list[str], kind: CertificateKind
) -> None:
    """As seen on 1.36.3; known from its birth, the end of such a pod is certified."""
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
    certificate = some(known_from_birth(world, found, "web-1").certificate)
    assert certificate.kind is kind


@up(replicas=1, pod_spec={"initContainers": [MIGRATE]})
async def test_pod_deleted_during_its_init_container_is_certified_ended(world: PlainWorld) -> None:
    """Seen on 1.36.3: the init container with its id, the app waiting."""
    for node in world.cluster.nodes.values():
        node.timings = replace(node.timings, init_s=(20.0, 30.0))
    found = versions_of(world)
    world.users.scale("shop", "web", 2)
    await world.until(lambda: len(world.pods) == 2 and "running" in states(world.pods[-1]))
    world.users.scale("shop", "web", 1)
    await world.until(lambda: len(world.pods) == 1)
    assert states(found[-1][1]) == ["terminated", "waiting"]
    certificate = some(known_from_birth(world, found, "web-1").certificate)
    assert certificate.kind is CertificateKind.ENDED


@up()
async def test_rejected_pod_has_failed_without_any_container_status(world: PlainWorld) -> None:
    """rejectPod in kubelet.go: a bare status; the set deletes the pod and makes another."""
    found = versions_of(world)
    for node in world.cluster.nodes.values():
        node.rejections = 1
    world.users.delete_pod("shop", "web-2")
    await world.until(lambda: is_up(world, 3))
    rejected = [o for _, o in found if o["status"].get("reason") == "OutOfcpu"]
    assert rejected
    assert all("containerStatuses" not in o["status"] for o in rejected)
    assert all(isinstance(judged(world, o), Unproven) for o in rejected)


@up()
async def test_restarted_kubelet_that_rejects_a_running_pod_writes_failed_before_the_process_ends(
    world: PlainWorld
) -> None:
    """A terminal phase alone is no proof: the kubelet's restart re-admits pods, and rejects before it reaps."""
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
    assert isinstance(judged(world, failed), Unproven)
    await world.until(lambda: not world.processes.is_running(uid_of(pod), "app"), 60)


@up()
async def test_evicted_pod_fails_with_its_reason_and_is_replaced(world: PlainWorld) -> None:
    """Node-pressure eviction: phase Failed, reason Evicted, DisruptionTarget; the set re-creates the pod."""
    pod = world.pods[1]
    found = versions_of(world)
    world.cluster.nodes[pod["spec"]["nodeName"]].evict(uid_of(pod))
    await world.until(lambda: is_up(world, 3) and uid_of(world.pods[1]) != uid_of(pod))
    failed = next(o for _, o in found if o["status"].get("reason") == "Evicted")
    assert condition(failed, "DisruptionTarget")["reason"] == "TerminationByKubelet"  # type: ignore[index]
    assert not is_terminating(failed)
    assert isinstance(judged(world, failed), Certificate)


@up()
async def test_what_a_rejected_pod_runs_is_ended_also_after_its_object_is_gone_and_is_not_started_twice(
    world: PlainWorld
) -> None:
    """The runtime knows what it runs: not even a restored object makes the kubelet start a second one beside it."""
    pod = world.pods[2]
    world.processes.ignores_term.add("app")
    node = world.cluster.nodes[pod["spec"]["nodeName"]]
    backup = world.server.backup()
    node.rejections = 1
    node.restart_kubelet()
    await world.until(lambda: uid_of(pod) not in map(uid_of, world.pods), 5)
    assert world.processes.is_running(uid_of(pod), "app")
    world.cluster.restore_etcd(backup)
    await asyncio.sleep(1)
    assert uid_of(pod) in map(uid_of, world.pods)
    await world.until(lambda: is_up(world, 3), 60)


@up()
async def test_what_a_rejected_pod_runs_is_ended_though_its_object_went_first(world: PlainWorld) -> None:
    """Housekeeping finds it: HandlePodCleanups goes by the runtime, not by what the kubelet has admitted."""
    pod = world.pods[2]
    world.processes.ignores_term.add("app")
    node = world.cluster.nodes[pod["spec"]["nodeName"]]
    node.rejections = 1
    node.restart_kubelet()
    world.users.scale("shop", "web", 2)
    await world.until(lambda: uid_of(pod) not in map(uid_of, world.pods), 5)
    assert world.processes.is_running(uid_of(pod), "app")
    await world.until(lambda: not world.processes.is_running(uid_of(pod), "app"), 30)
