"""Small helpers for API objects: names of resources, times as text, conditions, owners.

Objects are plain JSON dictionaries that nothing changes once the API server has stored them: a new version is a new
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
DEPLOYMENTS: Final = "deployments.apps"
REPLICASETS: Final = "replicasets.apps"
REVISIONS: Final = "controllerrevisions.apps"
EVENTS: Final = "events.events.k8s.io"
LEASES: Final = "leases.coordination.k8s.io"
STATIC_GROUPS: Final = "staticgroups.staticgroup.io"
KAFKA_CONNECTIONS: Final = "kafkaconnections.staticgroup.io"
CLUSTER_KAFKA_CONNECTIONS: Final = "clusterkafkaconnections.staticgroup.io"
RESOURCES_OF_US: Final = (STATIC_GROUPS, KAFKA_CONNECTIONS, CLUSTER_KAFKA_CONNECTIONS)
MUTATING_POLICIES: Final = "mutatingadmissionpolicies.admissionregistration.k8s.io"
VALIDATING_POLICIES: Final = "validatingadmissionpolicies.admissionregistration.k8s.io"
MUTATING_WEBHOOKS: Final = "mutatingwebhookconfigurations.admissionregistration.k8s.io"

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


def is_over(pod: Json) -> bool:
    """True for a pod in a terminal phase, which controllers count no more and leave (FilterActivePods)."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


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


def id_template(spec: Json) -> str:
    """Return the template of the ids: as it is written, or else by who brings them."""
    is_own = (spec.get("client") or {}).get("type") == "Own"
    return str(spec.get("idTemplate") or ("{podName}" if is_own else "{podName}.{scope}"))
