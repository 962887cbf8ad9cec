"""Raw pods of a Deployment as admission makes them, with what their waiters and the operator's notes say so far."""

from __future__ import annotations

from typing import Any

from unit.kube.raw_objects import STATUS_FIELDS, Json, ended, running, waiting, wrote

SCOPE, OTHER_SCOPE = "3fa9c1d2", "77bb00aa"
TEMPLATE_HASH = "6d4b75cb6d"


def annotation_of(scope: str = SCOPE) -> str:
    return f"staticgroup.io/slot-{scope}"


def waiter_of(scope: str = SCOPE) -> str:
    return f"staticgroup-slot-{scope}"


def file_key_ref(scope: str = SCOPE, key: str = "ID_0", **changes: Any) -> Json:
    """What a variable says that reads the file of a slot (EnvVarSource.fileKeyRef, KEP-3721)."""
    reference = {"volumeName": waiter_of(scope), "path": "env", "key": key, "optional": True}
    return {"valueFrom": {"fileKeyRef": reference | changes}}


def waiter(scope: str, workload: str, *arguments: str) -> Json:
    """The init container that waits for the slot of one StaticGroup."""
    return {
        "name": waiter_of(scope), "image": "waiter:1",
        "args": list(arguments) or [f"ID_0=%s.{scope}"],
        "env": [{"name": "STATICGROUP_WORKLOAD", "value": workload}],
        "volumeMounts": [
            {"name": waiter_of(scope), "mountPath": "/staticgroup/out"},
            {"name": f"{waiter_of(scope)}-in", "mountPath": "/staticgroup/in", "readOnly": True},
        ],
    }  # fmt: skip


def deployed(
    name: str = f"web-{TEMPLATE_HASH}-hx2kq", *, uid: str = "uid-0", namespace: str = "shop", workload: str = "web",
    scopes: tuple[str, ...] = (SCOPE,), waits: bool = True, notes: dict[str, str] | None = None, node: str = "node-a",
    phase: str = "", owner: str | None = f"web-{TEMPLATE_HASH}", **metadata: Any,
) -> Json:  # fmt: skip
    """A pod of Deployment web.

    Parameters
    ----------
    waits: the first waiter runs; else all of them have ended and the application runs.
    notes: by scope. phase: "": as it follows from `waits`.
    """
    owners = [{"kind": "ReplicaSet", "name": owner, "uid": f"rs-{owner}", "controller": True}] if owner else []
    first, *others = (waiter_of(scope) for scope in scopes)
    inits = [running(first), *map(waiting, others)] if waits else [ended(waiter_of(s)) for s in scopes]
    env = [
        {"name": "KAFKA_GROUP_INSTANCE_ID" + ("" if n == 0 else f"_{n}"), **file_key_ref(scope)}
        for n, scope in enumerate(scopes)
    ]
    volumes = [
        {"name": waiter_of(scope) + suffix, **source} for scope in scopes
        for suffix, source in (
            ("", {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}),
            ("-in", {"downwardAPI": {"items": [
                {"path": "uid", "fieldRef": {"fieldPath": "metadata.uid"}},
                {"path": "note", "fieldRef": {"fieldPath": f"metadata.annotations['{annotation_of(scope)}']"}},
            ]}}),
        )
    ]  # fmt: skip
    return {
        "metadata": {
            "name": name, "namespace": namespace, "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"pod-template-hash": TEMPLATE_HASH},
            "annotations": {annotation_of(scope): text for scope, text in (notes or {}).items()},
            "managedFields": [wrote("kubelet", *STATUS_FIELDS)], "ownerReferences": owners, **metadata,
        },
        "spec": {
            "containers": [{"name": "app", "env": env}], "volumes": volumes,
            "initContainers": [waiter(scope, workload) for scope in scopes],
            **({"nodeName": node} if node else {}),
        },
        "status": {
            "phase": phase or ("Pending" if waits else "Running"),
            "initContainerStatuses": inits if node else [],
            "containerStatuses": [] if not node else [waiting()] if waits else [running()],
        },
    }  # fmt: skip


def over(raw: Json) -> Json:
    """The same pod whose kubelet has written its end, after it was deleted."""
    metadata = {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}
    inits = [ended(container["name"]) for container in raw["spec"]["initContainers"]]
    status = {"phase": "Succeeded", "initContainerStatuses": inits, "containerStatuses": [ended()]}
    return raw | {"metadata": raw["metadata"] | metadata, "status": status}
