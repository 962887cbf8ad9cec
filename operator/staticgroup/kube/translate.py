"""Turn raw API objects into the views that the decisions use.

The one idea: parse once, here, and totally. Absent optional fields become the cautious default (an absent status
entry is a container that may live); a field of the wrong type makes the whole object a `MalformedObject`, because
a pod that cannot be read may carry an id that nobody else knows of.

Sources: Pod, StatefulSet and Node of the core/v1 and apps/v1 API; `$(VAR)` expansion as in
k8s.io/kubernetes/third_party/forked/golang/expansion; virtual nodes as virtual-kubelet registers them.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from sys import intern
from typing import Any, Final

from ..api.identifiers import INSTANCE_ID_LENGTH_MAX, InvalidInstanceIdError, validate_instance_id
from ..api.names import INSTANCE_ID_ANNOTATION, OUT_OF_SERVICE_TAINT, POD_INDEX_LABEL
from ..core.pod import ContainerPhase, ContainerView, NodeView, OwnerView, PodVersion
from ..core.workload import ContainerBudget, WorkloadView

Json = dict[str, Any]

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
_KEYED_FIELD = re.compile(r"metadata\.(annotations|labels)\['([^']*)'\]")
_KUBELET_MINOR = re.compile(r"v?1\.(\d+)")
_VIRTUAL_VERSION = re.compile(r"(?:^|[-+._])vk(?:[-+._]|\d|$)")
CARRIED_IDS_MAX: Final = 512
"""Ids kept of one pod. A StaticGroup gives a pod at most eight; this bounds what one pod can make us remember."""
# Literal values of other variables may be secrets and are not kept.
_TELLING_ENV: Final = ("INSTANCE_ID", "SESSION_TIMEOUT", "HEARTBEAT", "GROUP_PROTOCOL", "GROUP_ID", "POLL_INTERVAL")


@dataclass(frozen=True, slots=True, kw_only=True)
class MalformedObject:
    """An object whose shape is not that of its type.

    Parameters
    ----------
    kind: Pod, StatefulSet or Node.
    field: path of the field that has the wrong shape.
    found: name of the JSON type found there; never the value, which may be a secret.
    """

    kind: str
    field: str
    found: str


class _WrongShapeError(Exception):
    """Carry the path of the offending field up to the public function of this module."""

    def __init__(self, field: str, found: object) -> None:
        super().__init__(field)
        self.field = field
        self.found = "nothing" if found is None else type(found).__name__


def _object(parent: Json, key: str, path: str) -> Json:
    found = parent.get(key)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _WrongShapeError(f"{path}.{key}", found)
    return found


def _objects(parent: Json, key: str, path: str) -> list[Json]:
    found = parent.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise _WrongShapeError(f"{path}.{key}", found)
    for entry in found:
        if not isinstance(entry, dict):
            raise _WrongShapeError(f"{path}.{key}[]", entry)
    return found


def _text(parent: Json, key: str, path: str) -> str:
    found = parent.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise _WrongShapeError(f"{path}.{key}", found)
    return found


def _required_text(parent: Json, key: str, path: str) -> str:
    found = _text(parent, key, path)
    if not found:
        raise _WrongShapeError(f"{path}.{key}", None)
    return found


def _whole(parent: Json, key: str, path: str, default: int = 0) -> int:
    found = parent.get(key)
    if found is None:
        return default
    if isinstance(found, bool) or not isinstance(found, int):
        raise _WrongShapeError(f"{path}.{key}", found)
    return found


def _time_s(parent: Json, key: str, path: str) -> float | None:
    found = _text(parent, key, path)
    if not found:
        return None
    try:
        return datetime.fromisoformat(found).timestamp()
    except ValueError as error:
        raise _WrongShapeError(f"{path}.{key}", found) from error


def _resource_version(metadata: Json) -> int:
    found = _text(metadata, "resourceVersion", "metadata")
    if not (found.isascii() and found.isdigit()):
        raise _WrongShapeError("metadata.resourceVersion", metadata.get("resourceVersion"))
    return int(found)


def pod_version(raw: object, *, env_names: frozenset[str] = frozenset()) -> PodVersion | MalformedObject:
    """Translate a Pod object as the API server sent it.

    Parameters
    ----------
    raw: decoded JSON.
    env_names: environment variables that carry instance ids in addition to those whose name contains INSTANCE_ID.

    Returns
    -------
    The version, or which field has the wrong shape.
    """
    if not isinstance(raw, dict):
        return MalformedObject(kind="Pod", field="", found=type(raw).__name__)
    try:
        return _pod_version(raw, env_names)
    except _WrongShapeError as wrong:
        return MalformedObject(kind="Pod", field=wrong.field, found=wrong.found)


def _pod_version(raw: Json, env_names: frozenset[str]) -> PodVersion:
    metadata = _object(raw, "metadata", "")
    spec = _object(raw, "spec", "")
    status = _object(raw, "status", "")
    labels = _object(metadata, "labels", "metadata")
    conditions = _objects(status, "conditions", "status")
    statuses = {kind: _objects(status, kind, "status") for kind in _STATUS_LISTS}
    phase_manager, phase_has_statuses = _phase_writer(metadata, statuses)
    index = labels.get(POD_INDEX_LABEL)
    grace_s = metadata.get("deletionGracePeriodSeconds")
    return PodVersion(
        namespace=intern(_required_text(metadata, "namespace", "metadata")),
        name=_required_text(metadata, "name", "metadata"),
        uid=_required_text(metadata, "uid", "metadata"),
        resource_version=_resource_version(metadata),
        owner=_owner(metadata),
        ordinal=int(index) if isinstance(index, str) and index.isascii() and index.isdigit() else None,
        node_name=intern(_text(spec, "nodeName", "spec")),
        phase=intern(_text(status, "phase", "status")),
        phase_manager=phase_manager,
        phase_has_statuses=phase_has_statuses,
        created_at_s=_time_s(metadata, "creationTimestamp", "metadata") or 0.0,
        is_deleting=bool(_text(metadata, "deletionTimestamp", "metadata")),
        deletion_grace_s=None if grace_s is None else _whole(metadata, "deletionGracePeriodSeconds", "metadata"),
        host_pid=bool(spec.get("hostPID")),
        disruption_reason=_disruption_reason(conditions),
        required=_required_containers(spec, statuses),
        shows_container_id=any(_shows_container_id(entry) for kind in statuses for entry in statuses[kind]),
        ready_since_s=_ready_since_s(conditions),
        restart_count=sum(_whole(entry, "restartCount", "status") for kind in statuses for entry in statuses[kind]),
        instance_ids=_instance_ids(metadata, spec, env_names),
    )


_STATUS_LISTS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def _owner(metadata: Json) -> OwnerView | None:
    for reference in _objects(metadata, "ownerReferences", "metadata"):
        if reference.get("controller") is True:
            path = "metadata.ownerReferences[]"
            return OwnerView(
                kind=intern(_text(reference, "kind", path)),
                name=intern(_text(reference, "name", path)),
                uid=intern(_text(reference, "uid", path)),
            )
    return None


def _phase_writer(metadata: Json, statuses: dict[str, list[Json]]) -> tuple[str, bool]:
    """Return who owns status.phase, and whether every owner of it owns all container statuses that there are.

    Notes
    -----
    An Update takes a changed field from everybody else, so the newest owner wrote it; an Apply of the same value owns it
    beside others, and then the oldest may have written it, so every owner has to be a writer of statuses.
    """
    manager, written_at, owners = "", "", 0
    needed = {"f:containerStatuses"} | {f"f:{kind}" for kind, entries in statuses.items() if entries}
    has_statuses = True
    path = "metadata.managedFields[]"
    for entry in _objects(metadata, "managedFields", "metadata"):
        owned = _object(_object(entry, "fieldsV1", path), "f:status", f"{path}.fieldsV1")
        if "f:phase" not in owned or entry.get("subresource") != "status":
            continue
        owners += 1
        has_statuses = has_statuses and needed <= owned.keys()
        at = _text(entry, "time", path)  # whole seconds in UTC, which sort as text
        if at >= written_at:
            manager, written_at = intern(_text(entry, "manager", path)), at
    return manager, has_statuses and owners > 0


def _disruption_reason(conditions: Iterable[Json]) -> str:
    for condition in conditions:
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return intern(_text(condition, "reason", "status.conditions[]"))
    return ""


def _ready_since_s(conditions: Iterable[Json]) -> float | None:
    for condition in conditions:
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            return _time_s(condition, "lastTransitionTime", "status.conditions[]") or 0.0
    return None


def _shows_container_id(entry: Json) -> bool:
    """True when a status entry shows the id of any container, the present or an earlier one."""
    if _text(entry, "containerID", "status"):
        return True
    for key in ("state", "lastState"):
        terminated = _object(_object(entry, key, "status"), "terminated", f"status.{key}")
        if _text(terminated, "containerID", f"status.{key}.terminated"):
            return True
    return False


def _required_containers(spec: Json, statuses: dict[str, list[Json]]) -> tuple[ContainerView, ...]:
    """List every container that may hold a client: containers, sidecars, ephemeral containers."""
    sidecars = [c for c in _objects(spec, "initContainers", "spec") if c.get("restartPolicy") == "Always"]
    named = (
        (_objects(spec, "containers", "spec"), "containerStatuses"),
        (sidecars, "initContainerStatuses"),
        (_objects(spec, "ephemeralContainers", "spec"), "ephemeralContainerStatuses"),
    )
    views = []
    for containers, kind in named:
        by_name = {_text(entry, "name", f"status.{kind}[]"): entry for entry in statuses[kind]}
        for container in containers:
            name = intern(_required_text(container, "name", "spec.containers[]"))
            views.append(_container_view(name, by_name.get(name)))
    return tuple(views)


def _container_view(name: str, entry: Json | None) -> ContainerView:
    """Read one status entry; `running` wins over everything else it may say."""
    if entry is None:
        return ContainerView(name=name, phase=ContainerPhase.ABSENT)
    state = _object(entry, "state", f"status[{name}]")
    container_id = _text(entry, "containerID", f"status[{name}]")
    if state.get("running") is not None:
        return ContainerView(name=name, phase=ContainerPhase.RUNNING, container_id=container_id)
    if state.get("terminated") is not None:
        path = f"status[{name}].state"
        terminated = _object(state, "terminated", path)
        return ContainerView(
            name=name,
            phase=ContainerPhase.TERMINATED,
            container_id=_text(terminated, "containerID", f"{path}.terminated"),
            finished_at=_text(terminated, "finishedAt", f"{path}.terminated"),
            reason=_text(terminated, "reason", f"{path}.terminated"),
        )
    # The API says that an empty state means waiting.
    waiting = _object(state, "waiting", f"status[{name}].state")
    return ContainerView(
        name=name, phase=ContainerPhase.WAITING, container_id=container_id, reason=_text(waiting, "reason", "waiting")
    )


def _instance_ids(metadata: Json, spec: Json, env_names: frozenset[str]) -> frozenset[str]:
    """Collect the legal ids the pod carries in its annotations or its environment, the first CARRIED_IDS_MAX of them."""
    legal: set[str] = set()
    for candidate in _candidates(metadata, spec, env_names):
        if _is_legal_id(candidate):
            legal.add(candidate)
        if len(legal) == CARRIED_IDS_MAX:
            break
    return frozenset(legal)


def _candidates(metadata: Json, spec: Json, env_names: frozenset[str]) -> Iterator[Any]:
    """Yield whatever stands where an id may stand, the annotations first."""
    annotations = _object(metadata, "annotations", "metadata")
    yield from (value for key, value in annotations.items() if key.startswith(INSTANCE_ID_ANNOTATION))
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in _objects(spec, kind, "spec"):
            for name, value in _resolved_env(container, metadata):
                if name in env_names or "INSTANCE_ID" in name.upper():
                    yield value


def _is_legal_id(candidate: object) -> bool:
    try:
        validate_instance_id(candidate if isinstance(candidate, str) else "")
    except InvalidInstanceIdError:
        return False
    return True


def _resolved_env(container: Json, metadata: Json) -> Iterator[tuple[str, str]]:
    """Yield the variables that are known and may be part of an id, in order; later ones may refer to earlier ones.

    A value longer than an id may be counts as unknown: whatever refers to it is too long as well, or is not what
    the kubelet makes of it and holds characters that no id has. So a pod costs no more than its own size.
    """
    known: dict[str, str] = {}
    for entry in _objects(container, "env", "spec.containers[]"):
        name = _text(entry, "name", "spec.containers[].env[]")
        source = _object(entry, "valueFrom", "spec.containers[].env[]")
        value: str | None
        if source:
            value = _field_value(_object(source, "fieldRef", "valueFrom"), metadata)
        else:
            value = _expanded(_text(entry, "value", "spec.containers[].env[]"), known)
        if value is not None and len(value) <= INSTANCE_ID_LENGTH_MAX:
            known[name] = value
            yield name, value
        else:
            known.pop(name, None)


def _expanded(text: str, known: dict[str, str]) -> str | None:
    """Expand $(VAR) as the kubelet does: `$$` is a dollar sign, an unknown reference stays as it is.

    Returns
    -------
    The value; None once it is longer than an id may be.
    """
    expanded, end = "", 0
    closed = text.rfind(")") + 1  # behind it nothing is a reference, and each "$(" would be searched to the end
    for found in _REFERENCE.finditer(text, 0, closed):
        expanded += text[end : found.start()] + ("$" if found[1] is None else known.get(found[1], found[0]))
        end = found.end()
        if len(expanded) > INSTANCE_ID_LENGTH_MAX:
            return None
    expanded += text[end:].replace("$$", "$")
    return expanded if len(expanded) <= INSTANCE_ID_LENGTH_MAX else None


def _field_value(reference: Json, metadata: Json) -> str | None:
    """Resolve a fieldRef into metadata; None for fields that only the kubelet knows."""
    path = _text(reference, "fieldPath", "fieldRef")
    if path in ("metadata.name", "metadata.namespace", "metadata.uid"):
        return _text(metadata, path.removeprefix("metadata."), "metadata")
    keyed = _KEYED_FIELD.fullmatch(path)
    return _text(_object(metadata, keyed[1], "metadata"), keyed[2], "metadata") if keyed else None


def workload_view(raw: object) -> WorkloadView | MalformedObject:
    """Translate a StatefulSet object as the API server sent it.

    Returns
    -------
    The view, or which field has the wrong shape.
    """
    if not isinstance(raw, dict):
        return MalformedObject(kind="StatefulSet", field="", found=type(raw).__name__)
    try:
        return _workload_view(raw)
    except _WrongShapeError as wrong:
        return MalformedObject(kind="StatefulSet", field=wrong.field, found=wrong.found)


def _workload_view(raw: Json) -> WorkloadView:
    metadata, spec, status = (_object(raw, key, "") for key in ("metadata", "spec", "status"))
    pod_spec = _object(_object(spec, "template", "spec"), "spec", "spec.template")
    strategy = _object(spec, "updateStrategy", "spec")
    rolling = _object(strategy, "rollingUpdate", "spec.updateStrategy")
    finalizers = metadata.get("finalizers")
    is_deleting = bool(_text(metadata, "deletionTimestamp", "metadata"))
    return WorkloadView(
        namespace=_required_text(metadata, "namespace", "metadata"),
        name=_required_text(metadata, "name", "metadata"),
        uid=_required_text(metadata, "uid", "metadata"),
        metadata_generation=_whole(metadata, "generation", "metadata"),
        observed_generation=_whole(status, "observedGeneration", "status"),
        replicas=_whole(spec, "replicas", "spec", default=1),
        start=_whole(_object(spec, "ordinals", "spec"), "start", "spec.ordinals"),
        update_strategy=_text(strategy, "type", "spec.updateStrategy") or "RollingUpdate",
        partition=_whole(rolling, "partition", "spec.updateStrategy.rollingUpdate"),
        pod_management_policy=_text(spec, "podManagementPolicy", "spec") or "OrderedReady",
        current_revision=_text(status, "currentRevision", "status"),
        update_revision=_text(status, "updateRevision", "status"),
        status_replicas=_whole(status, "replicas", "status"),
        ready_replicas=_whole(status, "readyReplicas", "status"),
        updated_replicas=_whole(status, "updatedReplicas", "status"),
        is_deleting=is_deleting,
        is_orphaning=is_deleting and isinstance(finalizers, list) and "orphan" in finalizers,
        termination_grace_s=_whole(pod_spec, "terminationGracePeriodSeconds", "spec.template.spec", default=30),
        containers=tuple(_budget(c) for c in _objects(pod_spec, "containers", "spec.template.spec")),
        init_container_count=len(_objects(pod_spec, "initContainers", "spec.template.spec")),
        host_pid=bool(pod_spec.get("hostPID")),
    )


def _budget(container: Json) -> ContainerBudget:
    path = "spec.template.spec.containers[]"
    entries = _objects(container, "env", path)
    named = [(_text(e, "name", f"{path}.env[]"), e) for e in entries]
    return ContainerBudget(
        name=_required_text(container, "name", path),
        image=_text(container, "image", path),
        env_names=tuple(name for name, _ in named),
        env_values=tuple(
            (name, _text(e, "value", f"{path}.env[]")) for name, e in named
            if e.get("value") is not None and any(word in name.upper() for word in _TELLING_ENV)
        ),
        startup_budget_s=_startup_budget_s(container, path),
    )


def _startup_budget_s(container: Json, path: str) -> int | None:
    for key in ("startupProbe", "readinessProbe"):
        probe = _object(container, key, path)
        if probe:
            period_s = _whole(probe, "periodSeconds", f"{path}.{key}", default=10)
            failures = _whole(probe, "failureThreshold", f"{path}.{key}", default=3)
            return _whole(probe, "initialDelaySeconds", f"{path}.{key}") + failures * period_s
    return None


def node_view(raw: object) -> NodeView | MalformedObject:
    """Translate a Node object as the API server sent it.

    Returns
    -------
    The view, or which field has the wrong shape.
    """
    if not isinstance(raw, dict):
        return MalformedObject(kind="Node", field="", found=type(raw).__name__)
    try:
        return _node_view(raw)
    except _WrongShapeError as wrong:
        return MalformedObject(kind="Node", field=wrong.field, found=wrong.found)


def _node_view(raw: Json) -> NodeView:
    metadata, spec, status = (_object(raw, key, "") for key in ("metadata", "spec", "status"))
    system = _object(status, "nodeInfo", "status")
    version = _text(system, "kubeletVersion", "status.nodeInfo")
    minor = _KUBELET_MINOR.match(version)
    labels = _object(metadata, "labels", "metadata")
    taints = _objects(spec, "taints", "spec")
    is_virtual = (
        labels.get("type") == "virtual-kubelet"
        or any(taint.get("key") == "virtual-kubelet.io/provider" for taint in taints)
        or bool(_VIRTUAL_VERSION.search(version))
    )
    is_out_of_service = any(taint.get("key") == OUT_OF_SERVICE_TAINT for taint in taints)
    conditions = _objects(status, "conditions", "status")
    return NodeView(
        name=_required_text(metadata, "name", "metadata"),
        uid=_required_text(metadata, "uid", "metadata"),
        boot_id=_text(system, "bootID", "status.nodeInfo"),
        machine_id=_text(system, "machineID", "status.nodeInfo"),
        kubelet_version=version,
        kubelet_minor=int(minor[1]) if minor else None,
        is_virtual=is_virtual,
        is_out_of_service=is_out_of_service,
        is_ready=any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions),
    )
