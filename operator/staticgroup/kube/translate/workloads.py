"""A StatefulSet as the decisions use it, and what the pod template of any workload shows.

Source: StatefulSet of the apps/v1 API.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from ...api.names import AGENT_JAR, AGENT_MOUNT_PATH, AGENT_NAME, JAVA_OPTIONS_VARIABLE
from ...core.workload import ContainerBudget, JavaOptions, WorkloadView
from .shape import Json, MalformedObject, object_of, objects_of, required_text_of, text_of, translated, whole_of

# Literal values of other variables may be secrets and are not kept.
_KEPT_ENV: Final = (
    "INSTANCE_ID", "SESSION_TIMEOUT", "HEARTBEAT", "GROUP_PROTOCOL", "GROUP_ID", "POLL_INTERVAL", "REBALANCE",
    "REQUEST_TIMEOUT",
)  # fmt: skip


def workload_view(raw: object) -> WorkloadView | MalformedObject:
    """Translate a StatefulSet object as the API server sent it, or say which field has the wrong shape."""
    return translated("StatefulSet", raw, _workload_view)


def _workload_view(raw: Json) -> WorkloadView:
    metadata, spec, status = (object_of(raw, key, "") for key in ("metadata", "spec", "status"))
    pod_spec = object_of(object_of(spec, "template", "spec"), "spec", "spec.template")
    strategy = object_of(spec, "updateStrategy", "spec")
    rolling = object_of(strategy, "rollingUpdate", "spec.updateStrategy")
    view = WorkloadView(
        **common_fields(metadata, status),
        replicas=whole_of(spec, "replicas", "spec", default=1),
        start=whole_of(object_of(spec, "ordinals", "spec"), "start", "spec.ordinals"),
        update_strategy=text_of(strategy, "type", "spec.updateStrategy") or "RollingUpdate",
        partition=whole_of(rolling, "partition", "spec.updateStrategy.rollingUpdate"),
        current_revision=text_of(status, "currentRevision", "status"),
        update_revision=text_of(status, "updateRevision", "status"),
        status_replicas=whole_of(status, "replicas", "status"),
        ready_replicas=whole_of(status, "readyReplicas", "status"),
        updated_replicas=whole_of(status, "updatedReplicas", "status"),
    )
    return with_pod_spec(view, pod_spec, "spec.template.spec")


def common_fields(metadata: Json, status: Json) -> dict[str, Any]:
    """Return the fields of a WorkloadView that every kind of workload shows in the same place."""
    finalizers = metadata.get("finalizers")
    is_deleting = bool(text_of(metadata, "deletionTimestamp", "metadata"))
    return {
        **{key: required_text_of(metadata, key, "metadata") for key in ("namespace", "name", "uid")},
        "metadata_generation": whole_of(metadata, "generation", "metadata"),
        "observed_generation": whole_of(status, "observedGeneration", "status"),
        "is_deleting": is_deleting,
        "is_orphaning": is_deleting and isinstance(finalizers, list) and "orphan" in finalizers,
    }


def with_pod_spec(view: WorkloadView, pod_spec: Json, path: str) -> WorkloadView:
    """Add what the spec of its pods shows.

    Parameters
    ----------
    pod_spec: empty where no pod shows it. path: where that stands in the object.
    """
    return replace(
        view,
        termination_grace_s=whole_of(pod_spec, "terminationGracePeriodSeconds", path, default=30),
        containers=tuple(_budget(c, f"{path}.containers[]") for c in objects_of(pod_spec, "containers", path)),
        init_container_count=len(objects_of(pod_spec, "initContainers", path)),
        agent_names=tuple(_agent_names(pod_spec, path)),
    )


def _budget(container: Json, path: str) -> ContainerBudget:
    entries = objects_of(container, "env", path)
    named = [(text_of(e, "name", f"{path}.env[]"), e) for e in entries]
    return ContainerBudget(
        name=required_text_of(container, "name", path),
        env_names=tuple(name for name, _ in named),
        env_values=tuple(
            (name, text_of(e, "value", f"{path}.env[]")) for name, e in named
            if e.get("value") is not None and any(part in name.upper() for part in _KEPT_ENV)
        ),
        startup_budget_s=_startup_budget_s(container, path),
        java_options=_java_options(container, entries, path),
        has_agent_mount=any(
            _is_agents_place(text_of(m, "mountPath", f"{path}.volumeMounts[]"))
            for m in objects_of(container, "volumeMounts", path)
        ),
    )


def _is_agents_place(mount_path: str) -> bool:
    """True for the place of the agent, one below it and one above it, where perhaps nobody can make a directory."""
    is_above = f"{AGENT_MOUNT_PATH}/".startswith(f"{mount_path.rstrip('/')}/")
    return is_above or mount_path.startswith(AGENT_MOUNT_PATH)


def _java_options(container: Json, entries: list[Json], path: str) -> JavaOptions:
    """Say of KAFKA_OPTS what the admission policy asks of it (`api.policy`)."""
    mine = [e for e in entries if e.get("name") == JAVA_OPTIONS_VARIABLE]
    if not mine:
        return JavaOptions.PERHAPS_FROM_ELSEWHERE if objects_of(container, "envFrom", path) else JavaOptions.ABSENT
    if len(mine) > 1:
        return JavaOptions.TWICE
    if mine[0].get("valueFrom") is not None:
        return JavaOptions.REFERENCE
    return JavaOptions.WITH_AGENT if AGENT_JAR in text_of(mine[0], "value", f"{path}.env[]") else JavaOptions.TEXT


def _agent_names(pod_spec: Json, path: str) -> Iterator[str]:
    for kind in ("volumes", "initContainers", "containers"):
        if any(each.get("name") == AGENT_NAME for each in objects_of(pod_spec, kind, path)):
            yield f"{path}.{kind}"


def _startup_budget_s(container: Json, path: str) -> int | None:
    for key in ("startupProbe", "readinessProbe"):
        probe = object_of(container, key, path)
        if probe:
            period_s = whole_of(probe, "periodSeconds", f"{path}.{key}", default=10)
            failures = whole_of(probe, "failureThreshold", f"{path}.{key}", default=3)
            return whole_of(probe, "initialDelaySeconds", f"{path}.{key}") + failures * period_s
    return None
