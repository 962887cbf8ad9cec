"""StaticGroups of Deployments, and pods of their ReplicaSets, on a real API server with the slots' policy."""

import json
import uuid
from collections.abc import Sequence
from typing import Any

from policy_lab import API_VERSION_OF, Lab

from staticgroup.api import names, slot_policy
from staticgroup.api.policy import FailurePolicy
from staticgroup.api.rendering import AgentImage
from staticgroup.api.workloads import DEPLOYMENT, WorkloadKind
from support.waiting import until

Json = dict[str, Any]
IMAGE = AgentImage(name="registry.example/waiter:v1", pull_policy="Always")
HASH = "6d4b75cb6d"


def keyed(container: str, name: str, suffix: str = "") -> Json:
    """A variable with an id, as the operator resolves it for a Deployment."""
    annotation = f"{names.INSTANCE_ID_ANNOTATION}{suffix.replace('-', '.')}"
    return {"container": container, "name": name, "annotation": annotation, "key": name, "value": f"%s.SCOPE{suffix}"}


def timeout_of(container: str) -> Json:
    return {"container": container, "name": "KAFKA_SESSION_TIMEOUT_MS", "annotation": names.SESSION_TIMEOUT_ANNOTATION}


GENERIC = (keyed("", "KAFKA_GROUP_INSTANCE_ID"), timeout_of(""))


def policy_with_an_image(name: str, failure_policy: FailurePolicy) -> Json:
    return slot_policy.slot_policy(
        name=name, failure_policy=failure_policy, image=IMAGE.name, pull_policy=IMAGE.pull_policy
    )


def issue(
    lab: Lab, workload: str, scope: str, *, env: Sequence[Json] = GENERIC, name: str = "",
    timeout_ms: int | None = 45_000, method: str = "Policy", mode: str = "Manage", kind: WorkloadKind = DEPLOYMENT,
) -> Json:  # fmt: skip
    """Create or change a StaticGroup of a Deployment, and return it as it is stored."""
    name = name or workload
    body = {"apiVersion": names.API_VERSION, "kind": "StaticGroup", "metadata": {"name": name, "namespace": lab.namespace}}
    ref = {"apiVersion": API_VERSION_OF[kind.kind], "kind": kind.kind, "name": workload}
    spec = {"workloadRef": ref, "connectionRef": {"name": "kafka"}, "groupId": name, "mode": mode}
    injected = {
        "scope": scope, "method": method, "idTemplate": f"{{podName}}.{scope}", "container": "",
        "ids": [{"annotation": names.INSTANCE_ID_ANNOTATION, "suffix": ""}],
        "env": json.loads(json.dumps(list(env)).replace("SCOPE", scope)),
    } | ({} if timeout_ms is None else {"sessionTimeoutMs": timeout_ms})  # fmt: skip
    lab.kubectl.apply(body | {"spec": spec})
    lab.kubectl.apply(body | {"status": {"injected": injected}}, "--subresource=status")
    stored: Json = json.loads(lab.kubectl.must("get", "ksg", name, "-n", lab.namespace, "-o", "json"))
    return stored


def a_replicas_pod(lab: Lab, workload: str, **spec: Any) -> Json:
    """A pod as the ReplicaSet controller writes it."""
    owner = {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{workload}-{HASH}", "uid": str(uuid.uuid4()),
        "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    metadata = {
        "generateName": f"{workload}-{HASH}-", "namespace": lab.namespace, "ownerReferences": [owner],
        "labels": {"app": workload, names.POD_TEMPLATE_HASH_LABEL: HASH},
    }  # fmt: skip
    base = {"serviceAccountName": "app", "automountServiceAccountToken": False}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": base | {"containers": [{"name": "app", "image": "app"}]} | spec,
    }  # fmt: skip


def has_waiter(pod: Json, scope: str) -> bool:
    inits = [(c["name"], c["image"]) for c in pod["spec"].get("initContainers", ())]
    return (f"{names.SLOT_NAME}-{scope}", IMAGE.name) in inits


def settle(lab: Lab, workload: str, scope: str, *, is_injected: bool = True, **spec: Any) -> Json:
    """A plain pod of a Deployment, once the policy's cache knows whether it gets the waiter."""

    def look() -> Json | None:
        admitted = lab.admit(a_replicas_pod(lab, workload, **spec))
        return admitted if has_waiter(admitted, scope) is is_injected else None

    return until(look, deadline_s=30, what=f"a pod of {workload} {'with' if is_injected else 'without'} the waiter")
