"""A Pod as the decisions use it: its owner, what its containers show, and which ids it carries.

Sources: Pod of the core/v1 API; for peer pods, RuntimeClasses of kata-deploy and OpenShift sandboxed containers, and
the resource that the webhook of cloud-api-adaptor asks for in place of a pod's own, whatever its class is called.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from sys import intern
from typing import Final

from ...api.names import INSTANCE_ID_ANNOTATION, MIRROR_ANNOTATION, REVISION_LABEL
from ...core.evidence.certificate import LOST_RUN_REASONS
from ...core.evidence.pod import ContainerPhase, ContainerView, EndView, PodVersion, RunView
from .carried_ids import KINDS, carried_ids, names_an_id, session_timeouts_ms
from .shape import (
    Json,
    MalformedObject,
    WrongShapeError,
    object_of,
    objects_of,
    required_text_of,
    text_of,
    time_s_of,
    translated,
    whole_of,
)  # fmt: skip
from .slots import slots_of, waits_for_slot

_STATUS_LISTS = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_DIGEST_MARK = "sha256:"
_PEER_POD_CLASS = "kata-remote"
_PEER_POD_RESOURCE = "kata.peerpods.io/vm"
_SEAT_NAME: Final = re.compile(r".+-(?:0|[1-9][0-9]*)")


def pod_version(raw: object) -> PodVersion | MalformedObject:
    """Translate a Pod object as the API server sent it, or say which field has the wrong shape."""
    return translated("Pod", raw, _pod_version)


def _pod_version(raw: Json) -> PodVersion:
    metadata, spec, status = (object_of(raw, key, "") for key in ("metadata", "spec", "status"))
    conditions = objects_of(status, "conditions", "status")
    statuses = {kind: objects_of(status, kind, "status") for kind in _STATUS_LISTS}
    entries = [entry for kind in statuses for entry in statuses[kind]]
    phase_manager, phase_has_statuses, phase_written_at_s = _phase_writer(metadata, statuses)
    carried = carried_ids(metadata, spec)
    holders = carried.holders
    owner = next((o for o in objects_of(metadata, "ownerReferences", "metadata") if o.get("controller") is True), {})
    deleted_at_s = _time_s(metadata.get("deletionTimestamp"))
    grace_s = metadata.get("deletionGracePeriodSeconds")
    grace_s = None if grace_s is None else whole_of(metadata, "deletionGracePeriodSeconds", "metadata")
    addresses = () if spec.get("hostNetwork") else objects_of(status, "podIPs", "status")
    return PodVersion(
        namespace=intern(required_text_of(metadata, "namespace", "metadata")),
        name=required_text_of(metadata, "name", "metadata"),
        uid=required_text_of(metadata, "uid", "metadata"),
        resource_version=_resource_version(metadata),
        owner_name=intern(text_of(owner, "name", "metadata.ownerReferences[]")),
        revision=intern(text_of(object_of(metadata, "labels", "metadata"), REVISION_LABEL, "metadata.labels")),
        node_name=intern(text_of(spec, "nodeName", "spec")),
        phase=intern(text_of(status, "phase", "status")),
        phase_manager=phase_manager,
        phase_has_statuses=phase_has_statuses,
        phase_written_at_s=phase_written_at_s,
        created_at_s=time_s_of(metadata, "creationTimestamp", "metadata") or 0.0,
        is_deleting=bool(text_of(metadata, "deletionTimestamp", "metadata")),
        deletion_grace_s=grace_s,
        deletion_asked_at_s=None if deleted_at_s is None else deleted_at_s - (grace_s or 0),
        grace_s=_grace_s(spec),
        scheduled_at_s=_true_since_s(conditions, "PodScheduled"),
        is_mirror=MIRROR_ANNOTATION in object_of(metadata, "annotations", "metadata"),
        host_pid=bool(spec.get("hostPID")),
        is_peer_pod=_is_peer_pod(spec),
        shares_processes=bool(spec.get("shareProcessNamespace")),
        disruption_reason=intern(text_of(_true(conditions, "DisruptionTarget") or {}, "reason", "status.conditions[]")),
        reason=intern(text_of(status, "reason", "status")),
        # Every container that may hold a client: containers, sidecars, ephemeral containers.
        required=(
            *_views(objects_of(spec, "containers", "spec"), statuses["containerStatuses"], holders),
            *_views(_init_containers(spec, is_sidecar=True), statuses["initContainerStatuses"], holders),
            *_views(objects_of(spec, "ephemeralContainers", "spec"), statuses["ephemeralContainerStatuses"], holders),
        ),
        inits=_views(_init_containers(spec, is_sidecar=False), statuses["initContainerStatuses"], holders),
        started_containers=frozenset(
            intern(text_of(entry, "name", "status")) for entry in entries if _shows_a_run(entry)
        ),
        ready_since_s=_true_since_s(conditions, "Ready"),
        restart_count=sum(whole_of(entry, "restartCount", "status") for entry in entries),
        instance_ids=carried.instance_ids,
        ids_are_fixed=carried.are_fixed,
        session_timeouts_ms=session_timeouts_ms(metadata, spec),
        addresses=tuple(text_of(entry, "ip", "status.podIPs[]") for entry in addresses),
        slots=slots_of(metadata, spec, status) if spec.get("initContainers") else (),
    )


def _is_peer_pod(spec: Json) -> bool:
    resources = [object_of(c, "resources", "spec.containers[]") for c in objects_of(spec, "containers", "spec")]
    return text_of(spec, "runtimeClassName", "spec").startswith(_PEER_POD_CLASS) or any(
        _PEER_POD_RESOURCE in object_of(asked, kind, "spec.containers[].resources")
        for asked in resources
        for kind in ("limits", "requests")
    )


def _grace_s(spec: Json) -> int | None:
    """Return spec.terminationGracePeriodSeconds, which the API server fills in; below 0 it means 1 (k/k PR 98866)."""
    if spec.get("terminationGracePeriodSeconds") is None:
        return None
    return max(1, whole_of(spec, "terminationGracePeriodSeconds", "spec"))


def _resource_version(metadata: Json) -> int:
    found = text_of(metadata, "resourceVersion", "metadata")
    if not (found.isascii() and found.isdigit()):
        raise WrongShapeError("metadata.resourceVersion", metadata.get("resourceVersion"))
    return int(found)


def _phase_writer(metadata: Json, statuses: dict[str, list[Json]]) -> tuple[str, bool, float | None]:
    """Return the owner of status.phase, whether every owner of it owns all existing container statuses, and since when.

    An Update takes a changed field from all other owners, so the newest owner wrote it. An Apply of the same value
    shares it, and then the oldest may have written it, so every owner has to be a writer of statuses.
    """
    manager, written_at, owners = "", "", 0
    needed = {"f:containerStatuses"} | {f"f:{kind}" for kind, entries in statuses.items() if entries}
    has_statuses = True
    path = "metadata.managedFields[]"
    for entry in objects_of(metadata, "managedFields", "metadata"):
        owned = object_of(object_of(entry, "fieldsV1", path), "f:status", f"{path}.fieldsV1")
        if "f:phase" not in owned or entry.get("subresource") != "status":
            continue
        owners += 1
        has_statuses = has_statuses and needed <= owned.keys()
        at = text_of(entry, "time", path)  # whole seconds in UTC, which sort as text
        if at >= written_at:
            manager, written_at = intern(text_of(entry, "manager", path)), at
    return manager, has_statuses and owners > 0, _time_s(written_at)


def _true(conditions: Iterable[Json], kind: str) -> Json | None:
    """Return the condition of a kind if it is True."""
    return next((c for c in conditions if c.get("type") == kind and c.get("status") == "True"), None)


def _true_since_s(conditions: Iterable[Json], kind: str) -> float | None:
    """Return since when a condition is True; None when it is not."""
    found = _true(conditions, kind)
    return None if found is None else time_s_of(found, "lastTransitionTime", "status.conditions[]") or 0.0


def _shows_a_run(entry: Json) -> bool:
    """True when a status entry shows the id of a container, or that there was one.

    For a running container that it cannot find any more a kubelet writes a `lastState` without an id, and counts a
    restart unless the pod is being deleted (convertToAPIContainerStatuses).
    """
    if text_of(entry, "containerID", "status") or whole_of(entry, "restartCount", "status"):
        return True
    state = object_of(entry, "state", "status")
    ended = object_of(state, "terminated", "status.state")
    if state.get("running") is not None or text_of(ended, "containerID", "status.state.terminated"):
        return True
    return object_of(entry, "lastState", "status").get("terminated") is not None


def _init_containers(spec: Json, *, is_sidecar: bool) -> list[Json]:
    """List the init containers that go on beside the others (sidecars), or those that end before them."""
    return [c for c in objects_of(spec, "initContainers", "spec") if (c.get("restartPolicy") == "Always") == is_sidecar]


def _views(
    containers: Iterable[Json], entries: Iterable[Json], holders: Mapping[str, frozenset[str]]
) -> tuple[ContainerView, ...]:
    """View containers of the spec by the status entries of the list that belongs to them."""
    by_name = {text_of(entry, "name", "status"): entry for entry in entries}
    names = (intern(required_text_of(container, "name", "spec.containers[]")) for container in containers)
    return tuple(_container_view(name, by_name.get(name), holders.get(name)) for name in names)


def _container_view(name: str, entry: Json | None, ids: frozenset[str] | None) -> ContainerView:
    """Read one status entry. `ids` that it may hold; empty: any; None: none."""
    if entry is None:
        is_holder, only = ids is not None, ids or frozenset()
        return ContainerView(name=name, phase=ContainerPhase.ABSENT, may_hold_id=is_holder, only_ids=only)
    path = f"status[{name}]"
    state = object_of(entry, "state", path)
    # A running state wins over every other; the API says that an empty one means waiting.
    phases = (ContainerPhase.RUNNING, ContainerPhase.TERMINATED)
    phase = next((p for p in phases if state.get(p.value) is not None), ContainerPhase.WAITING)
    is_running, has_ended = phase is ContainerPhase.RUNNING, phase is ContainerPhase.TERMINATED
    shown, where = object_of(state, phase.value, f"{path}.state"), f"{path}.state.{phase.value}"
    earlier = object_of(object_of(entry, "lastState", path), "terminated", f"{path}.lastState")
    last = shown if has_ended else earlier
    restart_count, image = whole_of(entry, "restartCount", path), text_of(entry, "imageID", path)
    return ContainerView(
        name=name,
        phase=phase,
        container_id=text_of(shown, "containerID", where) if has_ended else text_of(entry, "containerID", path),
        finished_at=text_of(shown, "finishedAt", where) if has_ended else "",
        reason="" if is_running else text_of(shown, "reason", where),
        may_hold_id=ids is not None,
        only_ids=ids or frozenset(),
        restart_count=restart_count,
        last_end=_ended(last) if last else None,
        was_lost=text_of(earlier, "reason", f"{path}.lastState.terminated") in LOST_RUN_REASONS,
        runs=_runs(shown, earlier, restart_count, phase),
        image_digest=intern(image[max(0, image.find(_DIGEST_MARK)) :]),
    )


def _runs(shown: Json, earlier: Json, restart_count: int, phase: ContainerPhase) -> tuple[RunView, ...]:
    """Return the runs of an entry: `lastState` is the run before a running one, and the newest of a waiting one."""
    runs = []
    if phase is not ContainerPhase.WAITING:
        end = _ended(shown) if phase is ContainerPhase.TERMINATED else None
        runs.append(RunView(restart_count=restart_count, started_at_s=_time_s(shown.get("startedAt")), end=end))
    number = restart_count - len(runs)
    if earlier and number >= 0:
        first = RunView(restart_count=number, started_at_s=_time_s(earlier.get("startedAt")), end=_ended(earlier))
        runs.insert(0, first)
    return tuple(runs)


def _ended(terminated: Json) -> EndView:
    return EndView(
        container_id=text_of(terminated, "containerID", "status.terminated"),
        finished_at_s=_time_s(terminated.get("finishedAt")),
        reason=intern(text_of(terminated, "reason", "status.terminated")),
    )


def _time_s(found: object) -> float | None:
    """Read a time in Unix seconds; None where there is none, as in the year 1 of a kubelet that lost a container."""
    try:
        at_s = datetime.fromisoformat(found).timestamp() if isinstance(found, str) else 0.0
    except (ValueError, OverflowError):
        return None
    return at_s if at_s > 0 else None


def may_hold_a_seat(raw: Json) -> bool:
    """True for a pod with a name as StatefulSets give them, or with an id or a slot; and for what has no name.

    All pods are watched, without a label selector: it would miss a pod that never had the label (made by hand, or by a
    controller before 1.28) or lost it, and would show a label edit as a deletion.
    """
    name, annotations = raw["metadata"].get("name"), raw["metadata"].get("annotations") or {}
    if name is None or _SEAT_NAME.fullmatch(name) or any(key.startswith(INSTANCE_ID_ANNOTATION) for key in annotations):
        return True
    if waits_for_slot(raw):
        return True
    return any(names_an_id(name) for name in _variables(raw))


def uid_of(raw: Json) -> str:
    """Return the uid of a raw pod; "" when it has none."""
    return raw["metadata"].get("uid") or ""


def _variables(raw: Json) -> Iterator[str]:
    """Yield the names of the environment variables of a pod's containers."""
    spec = raw.get("spec") or {}
    for kind in KINDS:
        for container in spec.get(kind) or ():
            for variable in (container.get("env") or ()) if isinstance(container, dict) else ():
                if isinstance(variable, dict) and isinstance(variable.get("name"), str):
                    yield variable["name"]
