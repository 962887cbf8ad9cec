"""What people and their tools do to workloads, pods and nodes; each verb is one request at the API server."""

from __future__ import annotations

from typing import Any

from staticgroup.api.names import OUT_OF_SERVICE_TAINT

from ..engine.loop import SimulationLoop
from ..engine.trace import Trace
from .api_server import ApiServer
from .objects import NAMESPACES, NODES, PODS, STATEFULSETS, STATIC_GROUPS, Json, time_text, with_condition


def stateful_set(
    namespace: str,
    name: str,
    replicas: int,
    *,
    pod_spec: Json | None = None,
    labels: dict[str, str] | None = None,
    grace_s: int = 30,
    **spec: Any,
) -> Json:
    """Write a StatefulSet with one container `app`.

    Parameters
    ----------
    pod_spec: replaces or adds fields of the pod template's spec.
    spec: further fields of the StatefulSet's spec, such as podManagementPolicy.
    """
    labels = labels or {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "app", "image": "shop/orders:1"}], "terminationGracePeriodSeconds": grace_s}
        | (pod_spec or {}),
    }
    body: Json = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "serviceName": name,
        "template": template,
        "podManagementPolicy": "OrderedReady",
        "updateStrategy": {"type": "RollingUpdate"},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"namespace": namespace, "name": name},
        "spec": body | spec,
    }


def deployment(
    namespace: str, name: str, replicas: int, *, pod_spec: Json, labels: dict[str, str] | None = None, **spec: Any
) -> Json:
    """Write a Deployment.

    Parameters
    ----------
    pod_spec: of the pod template. spec: further fields of the Deployment's spec, such as strategy.
    """
    labels = labels or {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec}
    body: Json = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": namespace, "name": name},
        "spec": body | {"strategy": {"type": "RollingUpdate"}} | spec,
    }


class Users:
    """Verbs of users; those for a workload take its resource, that of StatefulSets unless another is named.

    Raises
    ------
    ApiError: as the API server answers, for an object that does not exist.
    """

    def __init__(self, server: ApiServer, loop: SimulationLoop, *, trace: Trace) -> None:
        self._server = server
        self._loop = loop
        self._trace = trace
        self._roll_count = 0

    def _note(self, what: str, **facts: object) -> None:
        self._trace.add(self._loop.time(), "user", what, **facts)

    # -- workloads

    def create(self, resource: str, body: Json) -> Json:
        """Create any object."""
        self._note("creates", resource=resource, object=body["metadata"]["name"])
        return self._server.create(resource, body)

    def scale(self, namespace: str, name: str, replicas: int, *, resource: str = STATEFULSETS) -> None:
        """Set spec.replicas."""
        self._note("scales", workload=name, replicas=replicas)
        self._server.patch(resource, namespace, name, {"spec": {"replicas": replicas}})

    def edit_workload(self, namespace: str, name: str, spec: Json, *, resource: str = STATEFULSETS) -> None:
        """Merge a patch into a workload's spec."""
        self._note("edits workload", workload=name, fields=sorted(spec))
        self._server.patch(resource, namespace, name, {"spec": spec})

    def roll(self, namespace: str, name: str, *, resource: str = STATEFULSETS) -> None:
        """Restart every pod, as `kubectl rollout restart` does."""
        self._roll_count += 1
        self._note("rolls", workload=name)
        restarted = {"kubectl.kubernetes.io/restartedAt": f"{time_text(self._loop.time())} #{self._roll_count}"}
        patch = {"spec": {"template": {"metadata": {"annotations": restarted}}}}
        self._server.patch(resource, namespace, name, patch)

    def delete_workload(
        self, namespace: str, name: str, *, propagation: str = "Background", resource: str = STATEFULSETS
    ) -> None:
        """Delete a workload: Background, Foreground or Orphan."""
        self._note("deletes workload", workload=name, propagation=propagation)
        self._server.delete(resource, namespace, name, propagation=propagation)

    def delete_namespace(self, name: str) -> None:
        """Delete a namespace with everything in it."""
        self._note("deletes namespace", namespace=name)
        self._server.delete(NAMESPACES, "", name)

    # -- StaticGroups

    def edit_group(self, namespace: str, name: str, spec: Json) -> None:
        """Merge a patch into a StaticGroup's spec, such as {"mode": "Suspended"}."""
        self._note("edits StaticGroup", group=name, **{k: v for k, v in spec.items() if not isinstance(v, dict)})
        self._server.patch(STATIC_GROUPS, namespace, name, {"spec": spec})

    def edit_without_effect(self, namespace: str, name: str) -> None:
        """Change a field of a StaticGroup that says nothing of who is removed: it gets a new generation."""
        found = self._server.get(STATIC_GROUPS, namespace, name) or {"spec": {}}
        other = "Rebalance" if found["spec"].get("onTopicChange") == "Report" else "Report"
        self.edit_group(namespace, name, {"onTopicChange": other})

    def delete_group(self, namespace: str, name: str) -> None:
        """Delete a StaticGroup."""
        self._note("deletes StaticGroup", group=name)
        self._server.delete(STATIC_GROUPS, namespace, name)

    # -- pods

    def delete_pod(self, namespace: str, name: str, *, grace_s: int | None = None) -> None:
        """Delete a pod; `grace_s=0` is the forced delete, whose object is gone while the process may live."""
        self._note("force-deletes pod" if grace_s == 0 else "deletes pod", pod=name)
        self._server.delete(PODS, namespace, name, grace_s=grace_s)

    def drain_pod(self, namespace: str, name: str) -> None:
        """Evict a pod by the eviction API, as `kubectl drain` does."""
        self._note("evicts pod", pod=name)
        pod = self._server.get(PODS, namespace, name) or {}
        conditions = with_condition(
            (pod.get("status") or {}).get("conditions") or [],
            "DisruptionTarget",
            "True",
            self._loop.time(),
            reason="EvictionByEvictionAPI",
        )
        self._server.patch(PODS, namespace, name, {"status": {"conditions": conditions}}, subresource="status")
        self._server.delete(PODS, namespace, name)

    def label_pod(self, namespace: str, name: str, labels: dict[str, str | None]) -> None:
        """Edit a pod's labels; None removes one."""
        self._note("edits labels", pod=name, labels=sorted(labels))
        self._server.patch(PODS, namespace, name, {"metadata": {"labels": labels}})

    # -- nodes

    def delete_node(self, name: str) -> None:
        """Delete a Node object; the machine may well go on."""
        self._note("deletes node", node=name)
        self._server.delete(NODES, "", name)

    def cordon(self, name: str, *, unschedulable: bool = True) -> None:
        """Keep new pods off a node, or let them on again."""
        self._note("cordons" if unschedulable else "uncordons", node=name)
        self._server.patch(NODES, "", name, {"spec": {"unschedulable": unschedulable or None}})

    def taint_out_of_service(self, name: str) -> None:
        """Declare that a node is shut down, which frees its terminating pods."""
        self._note("taints out of service", node=name)
        node = self._server.get(NODES, "", name) or {"spec": {}}
        taints = [*(node["spec"].get("taints") or ()), {"key": OUT_OF_SERVICE_TAINT, "effect": "NoExecute"}]
        self._server.patch(NODES, "", name, {"spec": {"taints": taints}})

    def untaint_out_of_service(self, name: str) -> None:
        """Take that back."""
        node = self._server.get(NODES, "", name) or {"spec": {}}
        taints = [t for t in node["spec"].get("taints") or () if t["key"] != OUT_OF_SERVICE_TAINT]
        self._server.patch(NODES, "", name, {"spec": {"taints": taints or None}})
