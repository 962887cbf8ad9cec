"""The API calls of drills in this process, because a program for each would use up the cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from support.devcluster.cluster import Cluster

Json = dict[str, Any]
_CALL_TIMEOUT_S = 30.0
_PLACES = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/{}/pods",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "StaticGroup": "/apis/staticgroup.io/v1alpha1/namespaces/{}/staticgroups",
    "KafkaConnection": "/apis/staticgroup.io/v1alpha1/namespaces/{}/kafkaconnections",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The API server of a cluster, as an administrator."""

    cluster: Cluster

    def get(self, kind: str, name: str, namespace: str = "") -> Json:
        """Return one object; {} when there is none."""
        return self._call("GET", kind, name, namespace) or {}

    def items(self, kind: str, namespace: str = "", selector: str = "") -> list[Json]:
        """Return the objects of a kind, all or those with some labels."""
        place = _PLACES[kind].format(namespace) + (f"?labelSelector={quote(selector)}" if selector else "")
        return list((self.cluster.client.request("GET", place, timeout_s=_CALL_TIMEOUT_S) or {}).get("items", []))

    def create(self, *objects: Mapping[str, Any]) -> None:
        """Create objects that are not there."""
        for each in objects:
            self._call("POST", each["kind"], "", each["metadata"].get("namespace", ""), each)

    def admitted(self, made: Mapping[str, Any]) -> Json:
        """Return what an object would be after admission, without making it; {} while the API server refuses it."""
        place = _PLACES[made["kind"]].format(made["metadata"].get("namespace", ""))
        try:
            return self.cluster.client.request("POST", f"{place}?dryRun=All", made, timeout_s=_CALL_TIMEOUT_S) or {}
        except OSError:  # for a moment a new namespace has no service account
            return {}

    def patch(self, kind: str, name: str, namespace: str, change: Mapping[str, Any]) -> None:
        """Change some fields by a merge patch; None takes a field away."""
        self._call("PATCH", kind, name, namespace, change)

    def delete(self, kind: str, name: str, namespace: str = "", **options: Any) -> None:
        """Delete an object, if it is there; options as DeleteOptions has them."""
        self._call("DELETE", kind, name, namespace, {"apiVersion": "v1", "kind": "DeleteOptions", **options})

    def _call(self, method: str, kind: str, name: str, namespace: str, body: object = None) -> Any:
        path = _PLACES[kind].format(namespace) + (f"/{name}" if name else "")
        return self.cluster.client.request(method, path, body, timeout_s=_CALL_TIMEOUT_S)
