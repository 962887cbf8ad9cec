"""The objects of a fleet, written as their owners write them: the StatefulSet controller, kubelets, and users.

One idea: there are no nodes and no controllers, so what they would write is written here, by the same names and in the
same order, because the operator's evidence is the writer of each field: the kubelet writes a pod's end, then its object
goes. Source: the kubelet's status manager; the StatefulSet controller of Kubernetes 1.36.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from staticgroup.api import names
from staticgroup.api.identifiers import identity_scope
from staticgroup.api.rendering import AgentImage, rendered

from .api import MERGE, ApiServer, Json, Key

CONNECTION = "kafka"
NAMESPACES_MAX = 20
GROUPS_PER_NAMESPACE = 50
PODS_PER_NODE = 100
GRACE_S = 30
AT = "2026-01-01T00:00:00Z"
_ENV_COUNT = 20
_PHASE_AT = {"startedAt": AT}

T = TypeVar("T")


def namespace_count(group_count: int) -> int:
    """Return how many namespaces so many StaticGroups are in; each has one KafkaConnection."""
    return min(NAMESPACES_MAX, -(-group_count // GROUPS_PER_NAMESPACE))


async def at_once(many: Iterable[T], work: Callable[[T], Awaitable[object]], *, lanes: int = 24) -> None:
    """Do the same for many, so many at once."""
    waiting = iter(list(many))

    async def lane() -> None:
        for each in waiting:
            await work(each)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(lanes):
            tasks.create_task(lane())


@dataclass(slots=True)
class Group:
    """One StaticGroup, its StatefulSet and its pods.

    Attributes
    ----------
    namespaces: in which all groups are. replicas: of the StatefulSet. pods: uid of each pod that is there, by ordinal.
        revision: of the template. edits: of the spec.
    injected: what the next pod receives.
    """

    number: int
    namespaces: int
    replicas: int = 0
    uid: str = ""
    workload: Json = field(default_factory=dict)
    pods: dict[int, str] = field(default_factory=dict)
    revision: int = 1
    edits: int = 0
    injected: Json | None = None

    @property
    def name(self) -> str:
        """Of the StaticGroup, the StatefulSet and the group."""
        return f"orders-{self.number:05d}"

    @property
    def namespace(self) -> str:
        return f"team-{self.number % self.namespaces:02d}"

    @property
    def key(self) -> Key:
        """Of the StaticGroup."""
        return self.namespace, self.name

    @property
    def path(self) -> str:
        """Of the StaticGroup at the API server."""
        return f"/apis/{names.API_VERSION}/namespaces/{self.namespace}/staticgroups/{self.name}"

    @property
    def workload_path(self) -> str:
        """Of the StatefulSet at the API server."""
        return f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets/{self.name}"

    def pod_path(self, ordinal: int) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}-{ordinal}"

    def instance_id(self, ordinal: int) -> str:
        """Return the id that a pod carries."""
        assert self.injected is not None
        made: str = self.injected["idTemplate"].replace("{podName}", f"{self.name}-{ordinal}")
        return made


def node(number: int) -> Json:
    """Return a node, as its kubelet registers it."""
    name = f"node-{number:04d}"
    unique = hashlib.sha256(name.encode()).hexdigest()
    system = {
        "machineID": unique[:32], "systemUUID": unique[32:], "bootID": unique[8:40], "kubeletVersion": "v1.36.3",
        "kernelVersion": "6.1.0", "osImage": "Debian", "containerRuntimeVersion": "containerd://2.0",
                "operatingSystem": "linux",
        "architecture": "amd64", "kubeProxyVersion": "",
    }  # fmt: skip
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": AT}]
    return {"metadata": {"name": name}, "spec": {}, "status": {"nodeInfo": system, "conditions": conditions}}


def _container() -> Json:
    env = [{"name": f"SETTING_{n:02d}", "value": "x" * 20} for n in range(_ENV_COUNT)]
    return {
        "name": "app", "image": "registry.example/shop/orders:1.4.2", "env": env,
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
    }  # fmt: skip


def stateful_set(group: Group) -> Json:
    """Return the StatefulSet of a group."""
    labels = {"app": group.name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"terminationGracePeriodSeconds": GRACE_S, "containers": [_container()]},
    }
    spec = {
        "replicas": group.replicas, "serviceName": group.name, "selector": {"matchLabels": labels},
        "template": template,
    }  # fmt: skip
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": group.name}, "spec": spec}


def static_group(group: Group) -> Json:
    """Return the StaticGroup of a group."""
    spec = {"workloadRef": {"name": group.name}, "connectionRef": {"name": CONNECTION}, "groupId": group.name}
    return {
        "apiVersion": names.API_VERSION, "kind": names.STATIC_GROUP_KIND, "metadata": {"name": group.name},
        "spec": spec,
    }  # fmt: skip


def connection(port: int) -> Json:
    """Return the connection of a namespace."""
    spec = {"bootstrapServers": [f"127.0.0.1:{port}"], "allowLoopback": True}
    metadata = {"name": CONNECTION}
    return {"apiVersion": names.API_VERSION, "kind": names.KAFKA_CONNECTION_KIND, "metadata": metadata, "spec": spec}


def pod(group: Group, ordinal: int, node_count: int) -> Json:
    """Return a pod as the controller makes it and the admission policy completes it."""
    name = f"{group.name}-{ordinal}"
    labels = {
        "app": group.name, names.POD_INDEX_LABEL: str(ordinal), names.POD_NAME_LABEL: name,
        names.REVISION_LABEL: f"{group.name}-{group.revision}",
    }  # fmt: skip
    owner = {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "name": group.name, "uid": group.workload["metadata"]["uid"],
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    body = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
        "spec": {
            "nodeName": f"node-{(group.number * 7 + ordinal) % node_count:04d}",
                "terminationGracePeriodSeconds": GRACE_S,
            "containers": [_container()], "hostname": name, "subdomain": group.name,
        },
    }  # fmt: skip
    assert group.injected is not None
    return rendered(body, group.injected, AgentImage())


def injected_without_operator(group: Group, cluster_uid: str) -> Json:
    """Return what pods receive where no operator tells it: for one that does not serve the admission policy."""
    scope = identity_scope(cluster_uid=cluster_uid, namespace=group.namespace, name=group.name, uid=group.uid)
    annotation = names.INSTANCE_ID_ANNOTATION
    env = [{"container": "", "name": "KAFKA_GROUP_INSTANCE_ID", "annotation": annotation}]
    return {"idTemplate": f"{{podName}}.{scope}", "ids": [{"annotation": annotation, "suffix": ""}], "env": env}


def _status(phase: str, state: Json, *, is_ready: bool) -> Json:
    ready = "True" if is_ready else "False"
    conditions = [{"type": kind, "status": ready, "lastTransitionTime": AT} for kind in ("Ready", "ContainersReady")]
    entry = {
        "name": "app", "image": "registry.example/shop/orders:1.4.2", "imageID": "sha256:1",
                "ready": is_ready, "restartCount": 0,
        "started": is_ready, "containerID": "containerd://1", "state": state,
    }  # fmt: skip
    return {"status": {"phase": phase, "conditions": conditions, "containerStatuses": [entry], "startTime": AT}}


RUNNING = _status("Running", {"running": _PHASE_AT}, is_ready=True)
ENDED = _status(
    "Succeeded",
    {
        "running": None,
        "terminated": {
            **_PHASE_AT, "finishedAt": AT, "exitCode": 0, "reason": "Completed", "containerID": "containerd://1",
        },
    },
    is_ready=False,
)  # fmt: skip


@dataclass(slots=True)
class Fleet:
    """All groups at one API server."""

    api: ApiServer
    groups: Sequence[Group]
    node_count: int

    async def make(self, kafka_port: int, *, pods_per_group: int) -> None:
        """Write everything but the pods."""
        namespaces = range(namespace_count(len(self.groups)))
        await at_once(namespaces, self._make_namespace)
        await at_once(
            namespaces,
            lambda n: self.api.call(
                "POST", f"/apis/{names.API_VERSION}/namespaces/team-{n:02d}/kafkaconnections", connection(kafka_port)
            ),
        )
        await at_once(range(self.node_count), lambda n: self.api.call("POST", "/api/v1/nodes", node(n)))
        for group in self.groups:
            group.replicas = pods_per_group
        await at_once(self.groups, self._make_group)

    async def _make_namespace(self, number: int) -> None:
        await self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": f"team-{number:02d}"}})

    async def _make_group(self, group: Group) -> None:
        path = f"/apis/apps/v1/namespaces/{group.namespace}/statefulsets"
        group.workload = await self.api.call("POST", path, stateful_set(group))
        made = await self.api.call("POST", group.path.rpartition("/")[0], static_group(group))
        group.uid = made["metadata"]["uid"]
        await self.tell_workload(group)

    async def tell_workload(self, group: Group) -> None:
        """Write the status of a StatefulSet, as its controller does."""
        count, revision = len(group.pods), f"{group.name}-{group.revision}"
        status = {
            "observedGeneration": group.workload["metadata"]["generation"], "replicas": count, "readyReplicas": count,
            "currentReplicas": count, "updatedReplicas": count, "availableReplicas": count, "currentRevision": revision,
            "updateRevision": revision, "collisionCount": 0,
        }  # fmt: skip
        await self.api.call(
            "PATCH",
            f"{group.workload_path}/status",
            {"status": status},
            content=MERGE,
            manager="kube-controller-manager",
        )

    async def scale(self, group: Group, replicas: int) -> None:
        """Change how many pods a user wants."""
        group.replicas = replicas
        change = {"spec": {"replicas": replicas}}
        group.workload = await self.api.call("PATCH", group.workload_path, change, content=MERGE, manager="kubectl")

    async def begin_pod(self, group: Group, ordinal: int) -> None:
        """Make a pod, and let its kubelet say that it runs."""
        path = f"/api/v1/namespaces/{group.namespace}/pods"
        made = await self.api.call(
            "POST", path, pod(group, ordinal, self.node_count), manager="kube-controller-manager"
        )
        group.pods[ordinal] = made["metadata"]["uid"]
        await self._kubelet_says(group, ordinal, RUNNING)

    async def delete_pod(self, group: Group, ordinal: int) -> None:
        """Ask for the end of a pod, as the controller does."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": GRACE_S}
        await self.api.call("DELETE", group.pod_path(ordinal), body)

    async def end_pod(self, group: Group, ordinal: int) -> None:
        """Let the kubelet say that a pod has ended."""
        await self._kubelet_says(group, ordinal, ENDED)

    async def remove_pod(self, group: Group, ordinal: int) -> None:
        """Let the kubelet remove the object of a pod that has ended."""
        uid = group.pods.pop(ordinal)
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        await self.api.call("DELETE", group.pod_path(ordinal), body)

    async def _kubelet_says(self, group: Group, ordinal: int, status: Json) -> None:
        await self.api.call("PATCH", f"{group.pod_path(ordinal)}/status", status, content=MERGE, manager="kubelet")


def pods_of(groups: Iterable[Group]) -> list[tuple[Group, int]]:
    """Return every wanted pod, the groups in turn."""
    return [(group, ordinal) for group in groups for ordinal in range(group.replicas)]


def edit(group: Group) -> dict[str, Any]:
    """Return another change of a spec each time, on which nothing but the observed generation depends."""
    group.edits += 1
    return {"spec": {"assumeExclusive": group.edits % 2 == 1}}  # means nothing to ids with a scope
