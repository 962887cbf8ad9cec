"""The pod store and the gateway against a real API server: what the fake one assumes is true there.

Needs KUBECONFIG. No scheduler or kubelet takes part: the tests write bindings and statuses themselves.
"""

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from kubernetes.aio import config
from kubernetes.aio.client import Configuration

from staticgroup.api.resources.staticgroup import WorkloadRef
from staticgroup.core.evidence.certificate import CertificateKind
from staticgroup.core.evidence.chain import PodState
from staticgroup.core.evidence.pod import NodeView
from staticgroup.kube.event_poster import Involved
from staticgroup.kube.gateway import KubeGateway, PodRead
from staticgroup.kube.lease import ActiveLease, LeaseSettings
from staticgroup.kube.pages import PageLimit
from staticgroup.kube.pods.position import ScopePosition, WatchPosition
from staticgroup.kube.pods.store import PodStore, PodStoreHooks
from staticgroup.kube.problem import KubeProblem, KubeProblemKind
from staticgroup.kube.transport import MERGE_PATCH, NAMESPACES, PODS, Resource, Transport, connect

pytestmark = [pytest.mark.cluster]

CRDS = Resource(group="apiextensions.k8s.io", version="v1", plural="customresourcedefinitions")
STATIC_GROUPS = Resource(group="staticgroup.io", version="v1alpha1", plural="staticgroups")
CONFIG_MAPS = Resource(group="", version="v1", plural="configmaps")
NODE = NodeView(name="node-a", uid="n", kubelet_version="v1.36.3", kubelet_minor=36)


async def eventually(condition: Callable[[], object], deadline_s: float = 60.0) -> None:
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - the condition is on a real server
            await asyncio.sleep(0.01)


def accepted(outcome: Any) -> Any:
    assert not isinstance(outcome, KubeProblem), outcome
    return outcome


@pytest.fixture
async def transport() -> AsyncIterator[Transport]:
    assert os.environ.get("KUBECONFIG"), "the cluster tests need KUBECONFIG"
    configuration = Configuration()
    await config.load_kube_config(client_configuration=configuration)
    made = connect(configuration)
    yield made
    await made.close()


@pytest.fixture
async def namespace(transport: Transport) -> str:
    name = f"store-{uuid.uuid4().hex[:8]}"
    accepted(await transport.call("create", NAMESPACES, body={"metadata": {"name": name}}))
    return name


class Cluster:
    """Pods as a StatefulSet controller, a scheduler and a kubelet would move them."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self.transport = transport
        self.namespace = namespace

    async def create(self, name: str = "web-0", *, node: str = "node-a") -> str:
        body = {
            "metadata": {
                "name": name, "labels": {"apps.kubernetes.io/pod-index": name[-1]},
                "annotations": {"staticgroup.io/instance-id": f"{name}.s"},
            },
            "spec": {
                "containers": [{"name": "app", "image": "none"}], "automountServiceAccountToken": False,
                # No scheduler of that name: on a whole cluster the pod stays where the test puts it.
                "schedulerName": "nobody",
                "terminationGracePeriodSeconds": 0, **({"nodeName": node} if node else {}),
            },
        }
        return str(
            accepted(await self.transport.call("create", PODS, namespace=self.namespace, body=body))["metadata"]["uid"]
        )

    async def patch(self, name: str, body: dict[str, Any], subresource: str = "") -> None:
        accepted(await self.transport.call(
            "patch", PODS, namespace=self.namespace, name=name, subresource=subresource, body=body,
            content_type=MERGE_PATCH))

    async def report(self, name: str, phase: str, state: dict[str, Any]) -> None:
        entry = {"name": "app", "containerID": "containerd://1", "state": state, "ready": False, "restartCount": 0,
                 "image": "none", "imageID": ""}
        await self.patch(name, {"status": {"phase": phase, "containerStatuses": [entry]}}, "status")

    async def run(self, name: str) -> None:
        await self.report(name, "Running", {"running": {"startedAt": "2026-01-01T00:00:00Z"}})

    async def finish(self, name: str) -> None:
        await self.report(name, "Succeeded", {"terminated": {
            "exitCode": 0, "reason": "Completed", "containerID": "containerd://1", "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:01:00Z"}})

    async def force_delete(self, name: str) -> None:
        path = PODS.path(namespace=self.namespace, name=name)
        response = await self.transport._send(
            self.transport._client, method="DELETE", path=path, query=(("gracePeriodSeconds", "0"),), body=None,
            content_type="application/json", limits=self.transport._call_timeout)
        async with response:
            assert response.status == 200

    async def write_something_else(self) -> None:
        name = uuid.uuid4().hex
        accepted(
            await self.transport.call(
                "create", CONFIG_MAPS, namespace=self.namespace, body={"metadata": {"name": name}}
            )
        )


@pytest.fixture
def cluster(transport: Transport, namespace: str) -> Cluster:
    return Cluster(transport, namespace)


@asynccontextmanager
async def following(
    transport: Transport, namespace: str, resume: WatchPosition | None = None
) -> AsyncIterator[tuple[PodStore, list[str]]]:
    gaps: list[str] = []
    hooks = PodStoreHooks(
        node_of={"node-a": NODE}.get, is_managed=lambda ns, name: True, on_change=lambda *key: None, on_gap=gaps.append)
    store = PodStore(
        transport, hooks, rng=Random(), now_s=time.time, clock_s=time.monotonic, scopes=(namespace,))
    store._streams[namespace]._page_limit = PageLimit(2)
    task = asyncio.create_task(store.run(resume))
    try:
        async with asyncio.timeout(20):
            await store.wait_anchored()
        yield store, gaps
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def state_of(store: PodStore, uid: str) -> PodState | None:
    found = store.get(uid)
    return found.state if found else None


async def test_kinds_of_ends_differ_on_a_real_watch(transport: Transport, namespace: str, cluster: Cluster) -> None:
    for number in range(5):
        await cluster.create(f"web-{number}")
    async with following(transport, namespace) as (store, gaps):
        assert len(store) == 5
        ended, forced = (store.chain(namespace, pod_names=[n])[0].uid for n in ("web-0", "web-1"))
        await cluster.run("web-0")
        await cluster.run("web-1")
        await cluster.finish("web-0")
        await cluster.force_delete("web-0")
        await cluster.force_delete("web-1")
        await eventually(lambda: state_of(store, forced) is PodState.SUSPECT)
        found = store.get(ended)
        assert found is not None
        assert found.certificate is not None
        assert found.certificate.kind is CertificateKind.ENDED
        assert gaps == []


async def test_unbound_deletion_is_proven_and_a_label_edit_is_none(
    transport: Transport, namespace: str, cluster: Cluster
) -> None:
    async with following(transport, namespace) as (store, _):
        deleted, edited = await cluster.create("web-0", node=""), await cluster.create("web-1", node="")
        await cluster.force_delete("web-0")
        await cluster.patch("web-1", {"metadata": {"labels": {"apps.kubernetes.io/pod-index": None}}})
        read = await KubeGateway(transport, instance="t", now_s=time.time).read_pod(namespace, "web-1")
        assert isinstance(read, PodRead)
        assert await store.barrier(namespace, read.resource_version), "the edit has been heard of"
        assert (state_of(store, deleted), state_of(store, edited)) == (PodState.DEAD, PodState.LIVE)
        await cluster.force_delete("web-1")
        await eventually(lambda: state_of(store, edited) is PodState.DEAD)


async def test_barrier_reaches_a_consistent_read_that_no_pod_event_follows(
    transport: Transport, namespace: str, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    """The read's version moves with every write of the cluster; only a bookmark can reach it."""
    gateway = KubeGateway(transport, instance="t", now_s=time.time)
    await cluster.create()
    took_s = []
    async with following(transport, namespace) as (store, gaps):
        for _ in range(5):
            await cluster.write_something_else()
            not_below = store.position(namespace)
            read = await gateway.read_pod(namespace, "web-0")
            assert isinstance(read, PodRead)
            assert read.resource_version > not_below
            begun_s = time.monotonic()
            # A bookmark that is late costs a round, in which the operator asks again; it never lets anything pass.
            while not await store.barrier(namespace, read.resource_version, not_below=not_below):
                assert time.monotonic() - begun_s < 60, "no bookmark reached the read"
            took_s.append(round(time.monotonic() - begun_s, 2))
            assert store.position(namespace) >= read.resource_version
        assert gaps == []
    with capsys.disabled():
        print(f"\nbarrier without a pod event, s: {took_s}")


async def test_barrier_passes_with_the_main_stream_when_the_read_is_a_pod_event(
    transport: Transport, namespace: str, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway = KubeGateway(transport, instance="t", now_s=time.time)
    took_ms = []
    async with following(transport, namespace) as (store, _):
        for number in range(5):
            uid = await cluster.create(f"web-{number}")
            await cluster.finish(f"web-{number}")
            await cluster.force_delete(f"web-{number}")
            read = await gateway.read_pod(namespace, f"web-{number}")
            assert isinstance(read, PodRead)
            assert read.version is None
            begun_s = time.monotonic()
            assert await store.barrier(namespace, read.resource_version)
            took_ms.append(round((time.monotonic() - begun_s) * 1000, 1))
            assert state_of(store, uid) is PodState.DEAD
    with capsys.disabled():
        print(f"\nbarrier with a pod event, ms: {took_ms}")


async def test_a_later_process_replays_what_happened_meanwhile_under_the_same_watch(
    transport: Transport, namespace: str, cluster: Cluster
) -> None:
    dies, vanishes, stays = [await cluster.create(f"web-{number}") for number in range(3)]
    async with following(transport, namespace) as (store, _):
        stored, watch = store.lease_position(None), store.watch(namespace)
    assert stored is not None
    await cluster.finish("web-0")
    await cluster.force_delete("web-0")
    await cluster.run("web-1")
    await cluster.force_delete("web-1")
    async with following(transport, namespace, resume=stored) as (store, gaps):
        assert (store.watch(namespace), gaps) == (watch, [])
        found = [state_of(store, uid) for uid in (dies, vanishes, stays)]
        assert found == [PodState.DEAD, PodState.SUSPECT, PodState.LIVE]


async def test_a_position_from_the_future_is_a_restore_and_begins_a_new_watch(
    transport: Transport, namespace: str, cluster: Cluster
) -> None:
    await cluster.create()
    async with following(transport, namespace) as (store, _):
        version, watch = store.position(namespace), store.watch(namespace)
    future = WatchPosition({namespace: ScopePosition(version + 100_000, watch)})
    async with following(transport, namespace, resume=future) as (store, gaps):
        await eventually(lambda: store.watch(namespace))
        assert store.watch(namespace) != watch
        assert "restored" in gaps[0]


async def test_relist_agrees_with_a_real_watch(transport: Transport, namespace: str, cluster: Cluster) -> None:
    async with following(transport, namespace) as (store, gaps):
        for number in range(5):
            await cluster.create(f"web-{number}")
        await cluster.force_delete("web-0")
        await store.relist()
        assert gaps == []


async def test_status_is_applied_with_the_uid_as_precondition(transport: Transport, namespace: str) -> None:
    text = (Path(__file__).parents[2] / "crds" / "staticgroups.yaml").read_text()
    crd = yaml.safe_load(text)
    await transport.call("create", CRDS, body=crd)
    body = {
        "apiVersion": "staticgroup.io/v1alpha1", "kind": "StaticGroup", "metadata": {"name": "orders"},
        "spec": {"workloadRef": {"name": "web"}, "connectionRef": {"name": "main"}, "groupId": "orders"},
    }
    created: Any = None
    async with asyncio.timeout(20):
        while not isinstance(created, dict):
            created = await transport.call("create", STATIC_GROUPS, namespace=namespace, body=body)
            await asyncio.sleep(0.1)
    gateway = KubeGateway(transport, instance="t", now_s=time.time)
    uid = created["metadata"]["uid"]
    written = accepted(await gateway.apply_status("staticgroups", namespace, "orders", uid, {"observedGeneration": 1}))
    assert written["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"]
    stored = accepted(await transport.call("get", STATIC_GROUPS, namespace=namespace, name="orders"))
    assert stored["status"]["observedGeneration"] == 1
    wrong = await gateway.apply_status(
        "staticgroups", namespace, "orders", str(uuid.uuid4()), {"observedGeneration": 2}
    )
    assert isinstance(wrong, KubeProblem)
    assert wrong.kind is KubeProblemKind.CONFLICT
    unchanged = accepted(await transport.call("get", STATIC_GROUPS, namespace=namespace, name="orders"))
    assert unchanged["status"]["observedGeneration"] == 1
    stale = created["metadata"]["resourceVersion"]
    refused = await gateway.apply_status(
        "staticgroups", namespace, "orders", uid, {"observedGeneration": 3}, resource_version=stale
    )
    assert isinstance(refused, KubeProblem)
    assert refused.kind is KubeProblemKind.CONFLICT, "a status is written over the version that the writer knows"
    absent = await gateway.apply_status("staticgroups", namespace, "absent", uid, {"observedGeneration": 2})
    assert isinstance(absent, KubeProblem)
    assert absent.kind in (KubeProblemKind.NOT_FOUND, KubeProblemKind.CONFLICT)


async def test_server_answers_what_the_gateway_asks(transport: Transport, namespace: str) -> None:
    gateway = KubeGateway(transport, instance="t", now_s=time.time)
    assert len(accepted(await gateway.cluster_uid())) == 36
    assert await gateway.read_workload(namespace, WorkloadRef(name="web")) is None
    assert await gateway.read_secret(namespace, "none") is None


async def test_events_are_created_and_counted_up(transport: Transport, namespace: str) -> None:
    gateway = KubeGateway(transport, instance="t", now_s=time.time)
    involved = Involved(api_version="v1", kind="Pod", namespace=namespace, name="web-0", uid=str(uuid.uuid4()))
    for _ in range(3):
        assert (
            await gateway.post_event(involved, type_="Normal", reason="Removed", message="m", action="Remove") is None
        )
    events = Resource(group="events.k8s.io", version="v1", plural="events")
    items = accepted(await transport.call("list", events, namespace=namespace))["items"]
    assert [(e["note"], e["series"]["count"]) for e in items] == [("m", 3)]


async def test_lease_is_held_by_one_and_carries_the_position(transport: Transport, namespace: str) -> None:
    stored = WatchPosition({"": ScopePosition(7, "1767225600-0123abcd")})

    def lease(identity: str) -> ActiveLease:
        return ActiveLease(
            transport, LeaseSettings(namespace=namespace), identity=identity, position=lambda: stored,
            clock_s=time.monotonic, now_s=time.time)

    first, second = lease("a"), lease("b")
    assert await first.attempt()
    assert await first.attempt()
    assert not await second.attempt()
    assert await second.read_position() == stored
    assert await first.release()
    assert await second.attempt()
