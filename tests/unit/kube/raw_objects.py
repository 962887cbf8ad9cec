"""Raw API objects as a real API server sends them, for the tests of the Kubernetes edge."""

import asyncio
import contextlib
import copy
from collections.abc import Callable
from typing import Any

from staticgroup.core.evidence.pod import NodeView

Json = dict[str, Any]

NODE = NodeView(name="node-a", uid="node-uid", kubelet_version="v1.36.3", kubelet_minor=36)


STATUS_FIELDS = ("f:phase", "f:containerStatuses", "f:initContainerStatuses", "f:ephemeralContainerStatuses")


def wrote(manager: str, *fields: str, at: str = "2026-01-01T00:00:05Z", subresource: str = "status") -> Json:
    """An entry of metadata.managedFields; the shape is what a 1.36.3 API server sends."""
    entry: Json = {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": at, "fieldsType": "FieldsV1",
                   "fieldsV1": {"f:status": {field: {} for field in fields}}}
    return entry | ({"subresource": subresource} if subresource else {})


def running(name: str = "app") -> Json:
    return {"name": name, "containerID": f"containerd://{name}", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}


def ended(name: str = "app", *, reason: str = "Completed", container_id: bool = True) -> Json:
    terminated: Json = {"exitCode": 0, "reason": reason}
    if container_id:
        terminated |= {"containerID": f"containerd://{name}", "finishedAt": "2026-01-01T00:01:00Z"}
        return {"name": name, "containerID": f"containerd://{name}", "state": {"terminated": terminated}}
    return {"name": name, "state": {"terminated": terminated}}


def waiting(name: str = "app", reason: str = "PodInitializing") -> Json:
    """A container that was not started; the shape of an image that is not pulled, too (ImagePullBackOff)."""
    return {"name": name, "restartCount": 0, "lastState": {}, "state": {"waiting": {"reason": reason}}}


def unknown(name: str = "app", **rest: Any) -> Json:
    """What a 1.36.3 kubelet writes at the end of a pod of a container that it cannot find, as one that never started."""
    terminated = {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None,
                  "message": "The container could not be located when the pod was terminated"}
    return {"name": name, "restartCount": 0, "lastState": {}, "state": {"terminated": terminated}, **rest}


def pod(
    name: str = "web-0", *, namespace: str = "shop", uid: str = "uid-0", node: str = "node-a", phase: str = "Running",
    statuses: list[Json] | None = None, instance_id: str | None = "web-0.1a2b3c4d", **metadata: Any,
) -> Json:
    """A pod of StatefulSet web, running on node-a, with its id annotation."""
    made: Json = {
        "metadata": {
            "name": name, "namespace": namespace, "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"apps.kubernetes.io/pod-index": name.rpartition("-")[2]},
            "annotations": {"staticgroup.io/instance-id": instance_id} if instance_id else {},
            "managedFields": [wrote("kubelet", *STATUS_FIELDS)],
            "ownerReferences": [{"kind": "StatefulSet", "name": "web", "uid": "sts-uid", "controller": True}],
            **metadata,
        },
        "spec": {"containers": [{"name": "app"}], **({"nodeName": node} if node else {})},
        "status": {"phase": phase, "containerStatuses": [running()] if statuses is None else statuses},
    }
    return made


def composed(raw: Json, *, reads: str = "metadata.name") -> Json:
    """The pod with an id in its environment."""
    env = [{"name": "INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": reads}}}]
    raw["spec"]["containers"][0]["env"] = env
    return raw


def born(name: str = "web-0", *, uid: str = "uid-0", **rest: Any) -> Json:
    """A pod just created: not bound, no status entries."""
    return pod(name, uid=uid, node="", phase="Pending", statuses=[], **rest)


def finished(name: str = "web-0", *, uid: str = "uid-0", **rest: Any) -> Json:
    """A pod whose kubelet has written its end."""
    return pod(name, uid=uid, phase="Succeeded", statuses=[ended()], deletionTimestamp="2026-01-01T00:00:30Z",
               deletionGracePeriodSeconds=30, **rest)


def at(raw: Json, resource_version: int) -> Json:
    """The same object at another version."""
    raw = copy.deepcopy(raw)
    raw["metadata"]["resourceVersion"] = str(resource_version)
    return raw


async def eventually(condition: Callable[[], object], deadline_s: float = 60.0) -> None:
    """Wait for a condition on a real loopback server; what it does not find is not there *yet*.

    Raises
    ------
    TimeoutError: the condition did not hold by the deadline, which is long because it costs a test that passes nothing.
    """

    def holds() -> bool:
        with contextlib.suppress(LookupError):
            return bool(condition())
        return False

    async with asyncio.timeout(deadline_s):
        while not holds():  # noqa: ASYNC110 - the condition is on a real connection
            await asyncio.sleep(0.002)
