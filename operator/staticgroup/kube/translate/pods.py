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

from ...api.identifiers import INSTANCE_ID_LENGTH_MAX, InvalidInstanceIdError, validate_instance_id
from ...api.names import INSTANCE_ID_ANNOTATION, OUT_OF_SERVICE_TAINT, POD_INDEX_LABEL
from ...core.pod import ContainerPhase, ContainerView, NodeView, OwnerView, PodVersion
from ...core.workload import ContainerBudget, WorkloadView

Json = dict[str, Any]

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
_KEYED_FIELD = re.compile(r"metadata\.(annotations|labels)\['([^']*)'\]")
_FIXED_FIELDS: Final = ("metadata.name", "metadata.namespace", "metadata.uid")
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
    instance_ids, ids_are_fixed = _instance_ids(metadata, spec, env_names)
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
        inits=_views(_init_containers(spec, is_sidecar=False), statuses["initContainerStatuses"]),
        started_containers=_started_containers(statuses),
        ready_since_s=_ready_since_s(conditions),
        restart_count=sum(_whole(entry, "restartCount", "status") for kind in statuses for entry in statuses[kind]),
        instance_ids=instance_ids,
        ids_are_fixed=ids_are_fixed,
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


def _started_containers(statuses: dict[str, list[Json]]) -> frozenset[str]:
    """Name the containers that ran at some time, as far as this version tells."""
    entries = (entry for kind in statuses for entry in statuses[kind])
    return frozenset(intern(_text(entry, "name", "status")) for entry in entries if _shows_a_run(entry))


def _shows_a_run(entry: Json) -> bool:
    """True when a status entry shows the id of a container, or that there was one.

    Notes
    -----
    For a running container that it cannot find any more a kubelet writes a `lastState` without an id, and counts a
    restart unless the pod is being deleted (convertToAPIContainerStatuses).
    """
    if _text(entry, "containerID", "status") or _whole(entry, "restartCount", "status"):
        return True
    state = _object(entry, "state", "status")
    ended = _object(state, "terminated", "status.state")
    if state.get("running") is not None or _text(ended, "containerID", "status.state.terminated"):
        return True
    return _object(entry, "lastState", "status").get("terminated") is not None


def _required_containers(spec: Json, statuses: dict[str, list[Json]]) -> tuple[ContainerView, ...]:
    """List every container that may hold a client: containers, sidecars, ephemeral containers."""
    return (
        *_views(_objects(spec, "containers", "spec"), statuses["containerStatuses"]),
        *_views(_init_containers(spec, is_sidecar=True), statuses["initContainerStatuses"]),
        *_views(_objects(spec, "ephemeralContainers", "spec"), statuses["ephemeralContainerStatuses"]),
    )


def _init_containers(spec: Json, *, is_sidecar: bool) -> list[Json]:
    """List the init containers that go on beside the others (sidecars), or those that end before them."""
    return [c for c in _objects(spec, "initContainers", "spec") if (c.get("restartPolicy") == "Always") == is_sidecar]


def _views(containers: Iterable[Json], entries: Iterable[Json]) -> tuple[ContainerView, ...]:
    """View containers of the spec by the status entries of the list that belongs to them."""
    by_name = {_text(entry, "name", "status"): entry for entry in entries}
    names = (intern(_required_text(container, "name", "spec.containers[]")) for container in containers)
    return tuple(_container_view(name, by_name.get(name)) for name in names)


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


def _instance_ids(metadata: Json, spec: Json, env_names: frozenset[str]) -> tuple[frozenset[str], bool]:
    """Collect the legal ids the pod carries in its annotations or its environment, the first CARRIED_IDS_MAX of them.

    Returns
    -------
    The ids, and whether those of the environment are fixed, see `PodVersion`; never when not all were looked at.
    """
    annotations = _object(metadata, "annotations", "metadata")
    legal: set[str] = set()
    for key, value in annotations.items():
        if len(legal) < CARRIED_IDS_MAX and key.startswith(INSTANCE_ID_ANNOTATION) and _is_legal_id(value):
            legal.add(value)
    annotated = frozenset(legal)
    shows_id, are_fixed = False, True
    for candidate, is_fixed in _environment_ids(metadata, spec, env_names, annotated):
        if len(legal) == CARRIED_IDS_MAX:
            return frozenset(legal), False
        are_fixed = are_fixed and is_fixed
        if _is_legal_id(candidate):
            legal.add(candidate)
            shows_id = True
    return frozenset(legal), shows_id and are_fixed


def _environment_ids(
    metadata: Json, spec: Json, env_names: frozenset[str], annotated: frozenset[str]
) -> Iterator[tuple[str, bool]]:
    """Yield whatever stands where an id may stand in the environment, and whether it is fixed; "" where it is not known.

    A variable carries an id when its name says so or when it says what an annotation says of an id. Whatever envFrom
    brings may have any name, so a container with it may carry any id.
    """
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in _objects(spec, kind, "spec"):
            for name, value, is_fixed in _resolved_env(container, metadata):
                if name in env_names or "INSTANCE_ID" in name.upper() or value in annotated:
                    yield value or "", is_fixed
            if _objects(container, "envFrom", f"spec.{kind}[]"):
                yield "", False


def _is_legal_id(candidate: object) -> bool:
    try:
        validate_instance_id(candidate if isinstance(candidate, str) else "")
    except InvalidInstanceIdError:
        return False
    return True


def _resolved_env(container: Json, metadata: Json) -> Iterator[tuple[str, str | None, bool]]:
    """Yield the variables in order, each with its value and whether it is fixed; later ones may refer to earlier ones.

    A value longer than an id may be counts as unknown, None: whatever refers to it is too long as well, or is not what
    the kubelet makes of it and holds characters that no id has. So a pod costs no more than its own size. Fixed is what
    a container that starts again cannot find changed; a reference to none of these variables may be one to a Service's.
    """
    known: dict[str, str] = {}
    fixed: set[str] = set()
    for entry in _objects(container, "env", "spec.containers[]"):
        name = _text(entry, "name", "spec.containers[].env[]")
        source = _object(entry, "valueFrom", "spec.containers[].env[]")
        value: str | None
        if source:
            reference = _object(source, "fieldRef", "valueFrom")
            value = _field_value(reference, metadata)
            is_fixed = reference.get("fieldPath") in _FIXED_FIELDS
        else:
            text = _text(entry, "value", "spec.containers[].env[]")
            value = _expanded(text, known)
            is_fixed = "$(" not in text or all(reference in fixed for reference in _references(text))
        fixed.discard(name)
        known.pop(name, None)
        if is_fixed:
            fixed.add(name)
        if value is not None and len(value) <= INSTANCE_ID_LENGTH_MAX:
            known[name] = value
        yield name, known.get(name), is_fixed


def _references(text: str) -> Iterator[str]:
    """Yield the names that a text refers to; `$$` begins no reference."""
    closed = text.rfind(")") + 1
    return (found[1] for found in _REFERENCE.finditer(text, 0, closed) if found[1] is not None)


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
    if path in _FIXED_FIELDS:
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
