"""A namespace of a real API server in which an admission policy of ours is in force, and pods as they come out of
it."""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from live_cluster import Kubectl

from staticgroup.api import names, policy
from staticgroup.api.identifiers import resolve_template
from staticgroup.api.injection import resolve_injected
from staticgroup.api.resources.injected import InjectedMethod
from staticgroup.api.resources.staticgroup import StaticGroupSpec
from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.api.workloads import STATEFUL_SET, WorkloadKind
from support.waiting import until

SCOPE = "3fa9c1d2"
ID_KEY = names.INSTANCE_ID_ANNOTATION
TIMEOUT_KEY = names.SESSION_TIMEOUT_ANNOTATION


def reads(name: str, annotation: str) -> dict[str, Any]:
    """A variable that reads an annotation, as the API server stores it."""
    field_ref = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{annotation}']"}
    return {"name": name, "valueFrom": {"fieldRef": field_ref}}


POD_NAME = {
    "name": "STATICGROUP_POD_NAME",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
}


def composed(name: str, suffix: str = "") -> dict[str, Any]:
    """A variable of which the kubelet makes the id of the default template."""
    return {"name": name, "value": f"$(STATICGROUP_POD_NAME).{SCOPE}{suffix}"}


GENERIC = [POD_NAME, composed("KAFKA_GROUP_INSTANCE_ID"), reads("KAFKA_SESSION_TIMEOUT_MS", TIMEOUT_KEY)]
BY_ANNOTATION = [reads("KAFKA_GROUP_INSTANCE_ID", ID_KEY), reads("KAFKA_SESSION_TIMEOUT_MS", TIMEOUT_KEY)]


API_VERSION_OF = {
    "StatefulSet": "apps/v1", "Deployment": "apps/v1", "StrimziPodSet": "core.strimzi.io/v1",
    "Rollout": "argoproj.io/v1alpha1",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A namespace where the policy is in force."""

    kubectl: Kubectl
    namespace: str

    def group(
        self, workload: str, *, spec: dict[str, Any] | None = None, client: dict[str, Any] | None = None,
        session_timeout_ms: int | None = 45_000, method: InjectedMethod | None = InjectedMethod.POLICY,
        template: str = "{podName}.{scope}",
    ) -> None:  # fmt: skip
        """Create or change the StaticGroup `workload` and, unless method is None, issue its ids."""
        metadata = {"name": workload, "namespace": self.namespace}
        body = {"apiVersion": names.API_VERSION, "kind": "StaticGroup", "metadata": metadata}
        base = {"workloadRef": {"name": workload}, "connectionRef": {"name": "kafka"}, "groupId": "g"}
        wish = base | {"client": client or {}} | (spec or {})
        self.kubectl.apply(body | {"spec": wish})
        if method is None:
            return
        resolved = resolve_template(
            template, namespace=self.namespace, workload_name=workload, group_name=workload, scope=SCOPE
        )
        issued = resolve_injected(
            StaticGroupSpec.model_validate(wish).client, method=method, scope=SCOPE, id_template=resolved,
            session_timeout_ms=session_timeout_ms,
        )  # fmt: skip
        status = StaticGroupStatus(injected=issued).to_wire()
        self.kubectl.apply(body | {"status": status}, "--subresource=status")

    def pod(
        self, workload: str, ordinal: int = 0, *, containers: list[dict[str, Any]] | None = None,
        kind: WorkloadKind = STATEFUL_SET, **metadata: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """A pod as the controller of its workload writes it."""
        owner = {
            "apiVersion": API_VERSION_OF[kind.kind], "kind": kind.kind, "name": workload, "uid": str(uuid.uuid4()),
            "controller": True,
        }  # fmt: skip
        template = containers or [{"name": "app", "image": "app"}]
        return {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": f"{workload}-{ordinal}", "namespace": self.namespace,
                "labels": {names.POD_INDEX_LABEL: str(ordinal)}
                if kind.indexes_pods
                else {"strimzi.io/controller": "strimzipodset"},
                "ownerReferences": [owner],
            }
            | metadata,
            "spec": {"serviceAccountName": "app", "automountServiceAccountToken": False, "containers": template},
        }  # fmt: skip

    def admit(self, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod as the API server would store it."""
        arguments = ("create", "--dry-run=server", "-o", "json", "-f", "-")
        admitted: dict[str, Any] = json.loads(self.kubectl.must(*arguments, stdin=json.dumps(pod)))
        return admitted

    def admit_with_id(self, pod: dict[str, Any], instance_id: str, timeout: str | None = "45000") -> dict[str, Any]:
        """The pod, once the policy's cache of StaticGroups has caught up."""

        def look() -> dict[str, Any] | None:
            admitted = self.admit(pod)
            found = admitted["metadata"].get("annotations", {})
            return admitted if (found.get(ID_KEY), found.get(TIMEOUT_KEY)) == (instance_id, timeout) else None

        return until(look, deadline_s=30, what=f"{pod['metadata']['name']} with id {instance_id}")

    def admit_untouched(self, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod, once the policy's cache knows that it is not to be touched."""

        def look() -> dict[str, Any] | None:
            admitted = self.admit(pod)
            return admitted if "annotations" not in admitted["metadata"] else None

        return until(look, deadline_s=30, what=f"{pod['metadata']['name']} untouched")


def env_of(pod: dict[str, Any], container: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = next(c for c in pod["spec"]["containers"] if c["name"] == container).get("env", [])
    return found


@contextmanager
def a_lab(kubectl: Kubectl, make: Callable[..., dict[str, Any]], failure_policy: policy.FailurePolicy) -> Iterator[Lab]:
    run = uuid.uuid4().hex[:8]
    namespace = f"staticgroup-policy-{run}"
    kubectl.must("create", "namespace", namespace)
    kubectl.must("create", "serviceaccount", "app", "-n", namespace)
    binding = policy.policy_binding(name=namespace)
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    binding["spec"]["matchResources"] = selector
    kubectl.apply(make(namespace, failure_policy))
    kubectl.apply(binding)
    yield Lab(kubectl=kubectl, namespace=namespace)
    kubectl.run("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", namespace)
    kubectl.run("delete", "ksg", "--all", "-n", namespace)
    kubectl.run("delete", "namespace", namespace, "--wait=false")
