"""API objects as the kubelet, the controllers and users write them, made from the abstract state.

The product's own translation reads them, so what the model checks begins where the API server's JSON begins.
Sources: kubelet generateAPIPodStatus, rejectPod and the ContainerStatusUnknown rules of convertToAPIContainerStatuses (of a
running container that it cannot find it keeps a lastState without an id, or the restart that it counts) and TerminatePod;
PodGCController.markFailedAndDeletePodWithCondition; the last object versions of an ended pod, and the field managers in
metadata.managedFields, as seen on a 1.36 cluster.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from staticgroup.api.names import INSTANCE_ID_ANNOTATION, OUT_OF_SERVICE_TAINT, POD_INDEX_LABEL

NAMESPACE = "shop"
WORKLOAD = "web"
ORDINAL = 1
POD_NAME = f"{WORKLOAD}-{ORDINAL}"

ABSENT, WAITING, RUNNING, TERMINATED = "absent", "waiting", "running", "terminated"
NEVER_RAN, LOST, LOST_END, LOST_COUNT = "never ran", "lost", "lost, its end kept", "lost, its restart counted"
"""Ends as ContainerStatusUnknown: without any trace of a run, with the id, with a lastState, with a restart."""
PENDING, RUNS, FAILED = "Pending", "Running", "Failed"
KUBELET, CONTROLLER_MANAGER, ONE_PROGRAM = "kubelet", "kube-controller-manager", "k3s"
"""Field managers; the last is that of a distribution whose kubelet and controllers are one program."""


class Pod(NamedTuple):
    """The one pod object of the ordinal.

    Parameters
    ----------
    uid: 1, 2, ... in order of creation. statuses: one entry for each container of the spec.
    reason: reason of the DisruptionTarget condition.
    by_gc: the pod garbage collector wrote the phase. tainted: its node is seen with the taint out-of-service.
    seq: versions of this uid so far; only counted where the operator restarts.
    """

    uid: int
    bound: bool = False
    phase: str = PENDING
    deleting: bool = False
    statuses: tuple[str, ...] = (ABSENT,)
    reason: str = ""
    by_gc: bool = False
    tainted: bool = False
    seq: int = 0


def uid_of(number: int) -> str:
    """Return the metadata.uid of an incarnation."""
    return f"uid-{number}"


def container_names(count: int) -> tuple[str, ...]:
    """Return the names of a pod's containers; the client runs in the last one."""
    return ("sidecar", "app")[-count:]


def raw_pod(
    pod: Pod,
    resource_version: int,
    instance_id: str,
    *,
    host_pid: bool,
    one_manager: bool = False,
    first_is_init: bool = False,
) -> dict[str, Any]:
    """Return the Pod as the API server sends it.

    Parameters
    ----------
    resource_version: of this version. instance_id: what the admission policy wrote at creation.
    one_manager: kubelet and controllers write under one name. first_is_init: the first container is an init container.
    """
    names = container_names(len(pod.statuses))
    metadata: dict[str, Any] = {
        "namespace": NAMESPACE,
        "name": POD_NAME,
        "uid": uid_of(pod.uid),
        "resourceVersion": str(resource_version),
        "creationTimestamp": "2026-11-21T10:00:00Z",
        "annotations": {INSTANCE_ID_ANNOTATION: instance_id},
        "labels": {POD_INDEX_LABEL: str(ORDINAL)},
        "ownerReferences": [{"kind": "StatefulSet", "name": WORKLOAD, "uid": "set-1", "controller": True}],
    }
    lists = ["initContainerStatuses" if first_is_init and n == 0 else "containerStatuses" for n in range(len(names))]
    shown = dict.fromkeys(k for k, status in zip(lists, pod.statuses, strict=True) if status != ABSENT)
    metadata["managedFields"] = _written(pod, tuple(shown), one_manager=one_manager)
    if pod.deleting:
        metadata |= {"deletionTimestamp": "2026-11-21T11:00:30Z", "deletionGracePeriodSeconds": 30}
    inits = int(first_is_init)
    spec: dict[str, Any] = {"containers": [{"name": name} for name in names[inits:]], "hostPID": host_pid}
    if first_is_init:
        spec["initContainers"] = [{"name": names[0]}]
    if pod.bound:
        spec["nodeName"] = node_name(pod.uid)
    status: dict[str, Any] = {"phase": pod.phase, "containerStatuses": []}
    for kind, name, one in zip(lists, names, pod.statuses, strict=True):
        if one != ABSENT:
            status.setdefault(kind, []).append(_status(name, one, pod.uid))
    if pod.reason:
        status["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": pod.reason}]
    return {"metadata": metadata, "spec": spec, "status": status}


def _written(pod: Pod, lists: tuple[str, ...], *, one_manager: bool) -> list[dict[str, Any]]:
    """Return who wrote which part of the status: the kubelet the containers, and the phase unless a controller did."""
    owned: dict[str, set[str]] = {}
    kubelet = ONE_PROGRAM if one_manager else KUBELET
    if lists:
        owned[kubelet] = {f"f:{kind}" for kind in lists}
    if pod.phase != PENDING:
        writer = CONTROLLER_MANAGER if pod.by_gc and not one_manager else kubelet
        owned.setdefault(writer, set()).add("f:phase")
    return [_wrote(manager, fields) for manager, fields in owned.items()]


def _wrote(manager: str, fields: set[str]) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-11-21T10:00:05Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {field: {} for field in sorted(fields)}},
        "subresource": "status",
    }


def _status(name: str, shown: str, uid: int) -> dict[str, Any]:
    """Return one status entry; a container that the kubelet lost has no end, and not always its id."""
    container_id = f"containerd://{name}-{uid}"
    if shown == RUNNING:
        return {
            "name": name,
            "containerID": container_id,
            "state": {"running": {"startedAt": "2026-11-21T10:00:05Z"}},
        }
    if shown == TERMINATED:
        ended = {
            "containerID": container_id,
            "finishedAt": "2026-11-21T10:59:00Z",
            "reason": "Error",
            "exitCode": 1,
        }
        return {"name": name, "containerID": container_id, "state": {"terminated": ended}}
    if shown == WAITING:
        return {"name": name, "state": {"waiting": {"reason": "ContainerCreating"}}}
    unknown = {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}}
    traces: dict[str, dict[str, Any]] = {
        LOST: {"containerID": container_id},
        LOST_END: {"lastState": unknown},
        LOST_COUNT: {"restartCount": 1},
    }
    return {"name": name, "state": unknown, **traces.get(shown, {})}


def node_name(uid: int) -> str:
    """Return the node of an incarnation; each has its own, because no rule reads two pods of one node together."""
    return f"node-{uid}"


def raw_node(name: str, kubelet: str, *, is_tainted: bool) -> dict[str, Any]:
    """Return the Node object with the kubelet version that it reports, and with the taint out-of-service if tainted."""
    taints = [{"key": OUT_OF_SERVICE_TAINT, "value": "nodeshutdown", "effect": "NoExecute"}] if is_tainted else []
    return {
        "metadata": {"name": name, "uid": f"{name}-uid"},
        "spec": {"taints": taints},
        "status": {
            "nodeInfo": {"kubeletVersion": kubelet, "bootID": "boot-1", "machineID": name},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
