"""Small helpers for API objects: names of resources, times as text, conditions, owners.

Objects are plain JSON dictionaries that nobody changes once the API server has stored them: a new version is a new
dictionary that shares what did not change. So nothing is ever copied, and a reader may keep what it was given.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

Json = dict[str, Any]

PODS: Final = "pods"
NODES: Final = "nodes"
NAMESPACES: Final = "namespaces"
SECRETS: Final = "secrets"
STATEFULSETS: Final = "statefulsets.apps"
REVISIONS: Final = "controllerrevisions.apps"
EVENTS: Final = "events.events.k8s.io"
LEASES: Final = "leases.coordination.k8s.io"
STATIC_GROUPS: Final = "staticgroups.staticgroup.io"
KAFKA_CONNECTIONS: Final = "kafkaconnections.staticgroup.io"
CLUSTER_KAFKA_CONNECTIONS: Final = "clusterkafkaconnections.staticgroup.io"
RESOURCES_OF_US: Final = (STATIC_GROUPS, KAFKA_CONNECTIONS, CLUSTER_KAFKA_CONNECTIONS)
MUTATING_POLICIES: Final = "mutatingadmissionpolicies.admissionregistration.k8s.io"
MUTATING_WEBHOOKS: Final = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
ACCESS_REVIEWS: Final = "selfsubjectaccessreviews.authorization.k8s.io"

EPOCH_S: Final = 1_767_225_600.0
"""Unix time at virtual second 0: 2026-01-01T00:00:00Z."""


@lru_cache(maxsize=4096)
def _whole_second(unix_s: int) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def time_text(at_s: float) -> str:
    """Write a virtual time as metav1.Time does: UTC, whole seconds."""
    return _whole_second(int(EPOCH_S + at_s))


def micro_time_text(at_s: float) -> str:
    """Write a virtual time as metav1.MicroTime does."""
    return datetime.fromtimestamp(EPOCH_S + at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def at_s_of(text: str) -> float:
    """Read a time back into virtual seconds."""
    return datetime.fromisoformat(text).timestamp() - EPOCH_S


def name_of(obj: Json) -> str:
    """Return metadata.name."""
    name: str = obj["metadata"]["name"]
    return name


def namespace_of(obj: Json) -> str:
    """Return metadata.namespace; "" for a cluster-scoped object."""
    return obj["metadata"].get("namespace") or ""


def uid_of(obj: Json) -> str:
    """Return metadata.uid."""
    uid: str = obj["metadata"]["uid"]
    return uid


def is_terminating(obj: Json) -> bool:
    """True once a deletion was requested."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def controller_of(obj: Json) -> Json | None:
    """Return the owner reference with controller=true; None for an orphan."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Json = reference
            return found
    return None


def condition(obj: Json, type_: str) -> Json | None:
    """Return one status condition."""
    for entry in (obj.get("status") or {}).get("conditions") or ():
        if entry.get("type") == type_:
            found: Json = entry
            return found
    return None


def is_true(obj: Json, type_: str) -> bool:
    """True when a condition has status True."""
    found = condition(obj, type_)
    return found is not None and found.get("status") == "True"


def with_condition(
    conditions: Iterable[Json], type_: str, status: str, at_s: float, *, reason: str = "", message: str = ""
) -> list[Json]:
    """Return the list with one condition set; lastTransitionTime moves only when the status does."""
    new: Json = {"type": type_, "status": status, "lastTransitionTime": time_text(at_s)}
    new |= ({"reason": reason} if reason else {}) | ({"message": message} if message else {})
    kept = list(conditions)
    for index, entry in enumerate(kept):
        if entry.get("type") == type_:
            if entry.get("status") == status:
                new["lastTransitionTime"] = entry.get("lastTransitionTime", new["lastTransitionTime"])
            kept[index] = new
            return kept
    return [*kept, new]


OWNED_FIELDS: Final = ("phase", "containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
"""Fields of a pod's status whose writer matters to somebody; lists of containers are owned as a whole."""


def with_owner_of_history(after: Json, before: Json, manager: str) -> Json:
    """Record in metadata.managedFields of a StaticGroup who wrote the history in its status, where it is another one now (KEP-555)."""
    digest, old = (((o.get("status") or {}).get("continuity") or {}).get("digest") for o in (after, before))
    if digest == old:
        return after
    entry = {"manager": manager, "subresource": "status", "fieldsV1": {"f:status": {"f:continuity": {"f:digest": {}}}}}
    return {**after, "metadata": {**after["metadata"], "managedFields": [entry] if digest is not None else []}}


def with_owners(after: Json, before: Json, manager: str, at_s: float) -> Json:
    """Record in metadata.managedFields who changed which of `OWNED_FIELDS`.

    Source: seen on 1.36.3: an Update that changes a field takes it from its owner; one that repeats its value does not.
    """
    new, old = after.get("status") or {}, before.get("status") or {}
    changed = [name for name in OWNED_FIELDS if new.get(name) != old.get(name)]
    if not changed:
        return after
    entries = [
        e | {"fieldsV1": {"f:status": kept}}
        for e in after["metadata"].get("managedFields") or ()
        if (kept := {k: v for k, v in e["fieldsV1"]["f:status"].items() if k.removeprefix("f:") not in changed})
    ]
    mine = [e for e in entries if e["manager"] == manager]
    owned = {k: v for e in mine for k, v in e["fieldsV1"]["f:status"].items()}
    owned |= {f"f:{name}": {} for name in changed if new.get(name) is not None}
    entry = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": time_text(at_s),
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": owned},
        "subresource": "status",
    }
    others = [e for e in entries if e["manager"] != manager]
    return {**after, "metadata": {**after["metadata"], "managedFields": [*others, entry] if owned else others}}


def merged(base: Json, patch: Json) -> Json:
    """Apply a JSON merge patch (RFC 7386) without touching either."""
    result = dict(base)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            known = result.get(key)
            result[key] = merged(known if isinstance(known, dict) else {}, value)
        else:
            result[key] = value
    return result
