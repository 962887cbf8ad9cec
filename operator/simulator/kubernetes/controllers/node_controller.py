"""The controllers that write about nodes that went silent: node lifecycle, taint eviction, pod garbage collection.

None of them knows whether a process still runs: what they write does not come from a kubelet.

Sources: pkg/controller/nodelifecycle (grace period 50 s, taints, pods NotReady), pkg/controller/tainteviction
(tolerationSeconds, DisruptionTarget DeletionByTaintManager before the delete), pkg/controller/podgc gc_controller.go
(every 20 s; a node must be missing for 40 s; phase Failed and DeletionByPodGC before the forced delete;
out-of-service).
"""

from __future__ import annotations

from typing import Final

from staticgroup.api.names import OUT_OF_SERVICE_TAINT

from ...engine.loop import SimulationLoop
from ...engine.trace import Trace
from ..api_server import ApiServer
from ..node.machine import LEASE_NAMESPACE
from ..objects import (
    LEASES,
    NODES,
    PODS,
    Json,
    at_s_of,
    is_terminating,
    is_true,
    name_of,
    namespace_of,
    uid_of,
    with_condition,
)
from ..storage import ApiError
from ..watch_log import Selector

MONITOR_EVERY_S: Final = 5.0
MONITOR_GRACE_S: Final = 50.0
"""Silence after which a node counts as unreachable."""
POD_GC_EVERY_S: Final = 20.0
QUARANTINE_S: Final = 40.0
UNREACHABLE: Final = "node.kubernetes.io/unreachable"


class NodeController:
    """Watch the Leases of nodes and act on silence."""

    def __init__(self, server: ApiServer, loop: SimulationLoop, *, trace: Trace) -> None:
        self._server = server
        self._loop = loop
        self._trace = trace
        self._silent_since: dict[str, float] = {}
        self.is_paused = False
        loop.world_call_later(MONITOR_EVERY_S, self._monitor)

    def _monitor(self) -> None:
        self._loop.world_call_later(MONITOR_EVERY_S, self._monitor)
        if self.is_paused:
            return
        for node in self._server.list(NODES):
            if self._is_silent(node):
                self._lose(node)
            elif _taint(node, UNREACHABLE) is not None and is_true(node, "Ready"):
                self._regain(node)

    def _is_silent(self, node: Json) -> bool:
        lease = self._server.get(LEASES, LEASE_NAMESPACE, name_of(node))
        heard_s = (
            at_s_of(lease["spec"]["renewTime"]) if lease is not None else at_s_of(node["metadata"]["creationTimestamp"])
        )
        return self._loop.time() - heard_s > MONITOR_GRACE_S

    def _lose(self, node: Json) -> None:
        name, now_s = name_of(node), self._loop.time()
        if _taint(node, UNREACHABLE) is None:
            self._trace.add(now_s, "node controller", "node unreachable", node=name)
            status = node.get("status") or {}
            conditions = with_condition(
                status.get("conditions") or [],
                "Ready",
                "Unknown",
                now_s,
                reason="NodeStatusUnknown",
                message="Kubelet stopped posting node status.",
            )
            self._server.patch_status(NODES, node, {"conditions": conditions})
            taints = [*(node["spec"].get("taints") or ())]
            taints += [{"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
            self._server.patch(NODES, "", name, {"spec": {"taints": taints}})
            self._silent_since[name] = now_s
        lost_s = self._silent_since.setdefault(name, now_s)
        # NoExecute, and no pod tolerates it by default
        is_out_of_service = _taint(node, OUT_OF_SERVICE_TAINT) is not None
        for pod in self._server.list(PODS, selector=Selector(fields=f"spec.nodeName={name}")):
            self._mark_not_ready(pod)
            if not is_terminating(pod) and (is_out_of_service or now_s - lost_s >= _toleration_s(pod)):
                self._evict(pod)

    def _mark_not_ready(self, pod: Json) -> None:
        if is_true(pod, "Ready"):
            conditions = with_condition(pod["status"]["conditions"], "Ready", "False", self._loop.time())
            self._server.patch_status(PODS, pod, {"conditions": conditions})

    def _evict(self, pod: Json) -> None:
        """Ask for a deletion that only the silent kubelet could carry out."""
        place = namespace_of(pod), name_of(pod)
        conditions = with_condition(
            (pod.get("status") or {}).get("conditions") or [],
            "DisruptionTarget",
            "True",
            self._loop.time(),
            reason="DeletionByTaintManager",
            message="Taint manager: deleting due to NoExecute taint",
        )
        self._trace.add(
            self._loop.time(), "taint eviction", "pod deletion requested", pod=place[1], uid=uid_of(pod)[:8]
        )
        self._server.patch_status(PODS, pod, {"conditions": conditions})
        self._server.delete(PODS, *place, uid=uid_of(pod))

    def _regain(self, node: Json) -> None:
        self._silent_since.pop(name_of(node), None)
        taints = [t for t in node["spec"].get("taints") or () if t["key"] != UNREACHABLE]
        self._server.patch(NODES, "", name_of(node), {"spec": {"taints": taints or None}})
        self._trace.add(self._loop.time(), "node controller", "node reachable", node=name_of(node))


class PodGarbageCollector:
    """Delete pods whose node is gone or declared out of service, and terminating pods that never got a node."""

    def __init__(self, server: ApiServer, loop: SimulationLoop, *, trace: Trace) -> None:
        self._server = server
        self._loop = loop
        self._trace = trace
        self._missing_since: dict[str, float] = {}
        loop.world_call_later(POD_GC_EVERY_S, self._collect)

    def _collect(self) -> None:
        self._loop.world_call_later(POD_GC_EVERY_S, self._collect)
        now_s = self._loop.time()
        nodes = {name_of(node): node for node in self._server.list(NODES)}
        for name in [n for n in self._missing_since if n in nodes]:
            del self._missing_since[name]
        for pod in self._server.list(PODS):
            node_name = pod["spec"].get("nodeName")
            if not node_name:
                if is_terminating(pod):
                    self._delete(pod, "never bound")
            elif node_name not in nodes:
                if now_s - self._missing_since.setdefault(node_name, now_s) >= QUARANTINE_S:
                    self._delete(pod, "node no longer exists", reason="DeletionByPodGC")
            elif is_terminating(pod) and _is_out_of_service(nodes[node_name]):
                self._delete(pod, "node is out of service")

    def _delete(self, pod: Json, why: str, *, reason: str = "") -> None:
        """Mark an unfinished pod as failed, in a write that is not a kubelet's, and remove its object at once.

        Only the pods of vanished nodes are given a reason (markFailedAndDeletePodWithCondition).
        """
        namespace, name = namespace_of(pod), name_of(pod)
        if pod["status"].get("phase") not in ("Succeeded", "Failed"):
            status: Json = {"phase": "Failed"}
            if reason:
                status["conditions"] = with_condition(
                    pod["status"].get("conditions") or [],
                    "DisruptionTarget",
                    "True",
                    self._loop.time(),
                    reason=reason,
                    message=f"PodGC: {why}",
                )
            self._server.patch_status(PODS, pod, status, manager="kube-controller-manager")
        self._trace.add(self._loop.time(), "pod gc", "pod object deleted", pod=name, uid=uid_of(pod)[:8], why=why)
        try:
            self._server.delete(PODS, namespace, name, grace_s=0, uid=uid_of(pod))
        except ApiError:
            pass  # another client deleted it, or another pod has its name by now


def _taint(node: Json, key: str) -> Json | None:
    for taint in node["spec"].get("taints") or ():
        if taint["key"] == key:
            found: Json = taint
            return found
    return None


def _is_out_of_service(node: Json) -> bool:
    return _taint(node, OUT_OF_SERVICE_TAINT) is not None and not is_true(node, "Ready")


def _toleration_s(pod: Json) -> float:
    """Return how long the pod stays bound to an unreachable node; for ever when it tolerates without a limit."""
    for toleration in pod["spec"].get("tolerations") or ():
        if toleration.get("key") in (UNREACHABLE, None) and toleration.get("effect") in ("NoExecute", None):
            return float(toleration.get("tolerationSeconds", float("inf")))
    return 0.0
