"""What the API server does to objects on their way in: schema defaults and the injection policy.

The policy is the product's MutatingAdmissionPolicy (`staticgroup.api.policy`), whose CEL is restated here in Python
clause by clause: pods on CREATE, with the pod index label, owned by the workload, StaticGroup in mode Manage and not
suspended, `status.injected.method` Policy; annotations from `injected.ids`, variables first in the container's list from
`injected.env`: the pod's name and the values composed of it, the others by fieldRef. Sources: KEP-3962; CRD structural
defaulting.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from staticgroup.api import names
from staticgroup.api.resources.kafkaconnection import KafkaConnection
from staticgroup.api.resources.staticgroup import StaticGroup

from .objects import KAFKA_CONNECTIONS, STATIC_GROUPS, Json


class Invalid(Exception):
    """The object does not fit its schema (HTTP 422)."""


def defaulted(resource: str, body: Json) -> Json:
    """Fill in the defaults of our own resources, as their structural schemas do.

    Raises
    ------
    Invalid: the object does not fit its schema.
    """
    if resource not in (STATIC_GROUPS, KAFKA_CONNECTIONS):
        return body
    try:
        if resource == STATIC_GROUPS:
            return body | {"spec": StaticGroup.from_wire(_bare(body)).spec.to_wire()}
        return body | {"spec": KafkaConnection.from_wire(_bare(body)).spec.to_wire()}
    except ValidationError as error:
        raise Invalid(str(error)) from error


def _bare(body: Json) -> Json:
    return {key: value for key, value in body.items() if key != "status"}


def inject(pod: Json, groups: Iterable[Json]) -> Json:
    """Apply the injection policy to a pod that is being created.

    Parameters
    ----------
    groups: the StaticGroups of the pod's namespace as the policy's parameter informer knows them, by name.
    """
    labels = pod["metadata"].get("labels") or {}
    if names.POD_INDEX_LABEL not in labels:
        return pod
    for group in groups:
        if _matches(pod, group):
            pod = _injected(pod, group["status"]["injected"])
    return pod


def _matches(pod: Json, group: Json) -> bool:
    spec, status = group["spec"], group.get("status") or {}
    owned = any(
        o.get("apiVersion") == "apps/v1"
        and o.get("kind") == "StatefulSet"
        and o.get("name") == spec["workloadRef"]["name"]
        and o.get("controller")
        for o in pod["metadata"].get("ownerReferences") or ()
    )
    managed = spec.get("mode", "Manage") == "Manage" and not spec.get("suspend")
    return owned and managed and (status.get("injected") or {}).get("method") == "Policy"


def _injected(pod: Json, injected: Json) -> Json:
    metadata, spec = pod["metadata"], pod["spec"]
    index = metadata["labels"][names.POD_INDEX_LABEL]
    pod_id = injected["idTemplate"].replace("{podName}", metadata["name"]).replace("{ordinal}", index)
    timeout_ms = injected.get("sessionTimeoutMs")
    annotations = {**(metadata.get("annotations") or {})}
    annotations |= {entry["annotation"]: pod_id + entry["suffix"] for entry in injected["ids"]}
    if timeout_ms is not None:
        annotations[names.SESSION_TIMEOUT_ANNOTATION] = str(int(timeout_ms))
    env = [e for e in injected["env"] if timeout_ms is not None or e["annotation"] != names.SESSION_TIMEOUT_ANNOTATION]
    containers = [_with_env(c, i, env) for i, c in enumerate(spec["containers"])]
    return pod | {"metadata": metadata | {"annotations": annotations}, "spec": spec | {"containers": containers}}


def _with_env(container: Json, index: int, env: list[Json]) -> Json:
    ours = [e for e in env if e["container"] == container["name"] or (not e["container"] and index == 0)]
    if not ours:
        return container
    added = [_variable(e) for e in ours]
    if any("value" in e for e in ours):
        added.insert(0, _field_ref(names.POD_NAME_VARIABLE, "metadata.name"))
    replaced = {e["name"] for e in added}
    return container | {"env": added + [e for e in container.get("env") or () if e["name"] not in replaced]}


def _variable(entry: Json) -> Json:
    if "value" in entry:
        return {"name": entry["name"], "value": entry["value"]}
    return _field_ref(entry["name"], _field_path(entry["annotation"]))


@lru_cache(maxsize=256)
def _field_path(annotation: str) -> str:
    return f"metadata.annotations['{annotation}']"


def _field_ref(name: str, field_path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": field_path}}}
