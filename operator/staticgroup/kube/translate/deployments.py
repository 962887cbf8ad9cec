"""A Deployment as the decisions use it; which of its pods have slots, and so what it wants, their notes say.

Sources: Deployment of the apps/v1 API; ResolveFenceposts of the Deployment controller (pkg/controller/deployment/util).
"""

import math
from collections.abc import Callable
from dataclasses import replace

from ...api.workloads import DEPLOYMENT, WorkloadKind
from ...core.workload import Rollout, WorkloadView
from .shape import Json, MalformedObject, WrongShapeError, object_of, text_of, translated, whole_of
from .workloads import common_fields, with_pod_spec

_DEFAULT = "25%"


def deployment_view(raw: object) -> WorkloadView | MalformedObject:
    """Translate a Deployment as the API server sent it, or say which field has the wrong shape."""
    return translated(DEPLOYMENT.kind, raw, _deployment_view)


def _deployment_view(raw: Json) -> WorkloadView:
    spec = object_of(raw, "spec", "")
    strategy = object_of(spec, "strategy", "spec")
    type_ = text_of(strategy, "type", "spec.strategy") or "RollingUpdate"
    rolling = object_of(strategy, "rollingUpdate", "spec.strategy")
    rollout = rollout_of(spec, rolling, "spec.strategy.rollingUpdate", is_recreate=type_ == "Recreate")
    return replace(slotted_view(raw, object_of(raw, "status", ""), DEPLOYMENT, rollout), update_strategy=type_)


def slotted_view(raw: Json, status: Json, kind: WorkloadKind, rollout: Rollout) -> WorkloadView:
    """Return what the fields say that a Rollout of Argo has too."""
    metadata, spec = (object_of(raw, key, "") for key in ("metadata", "spec"))
    pod_spec = object_of(object_of(spec, "template", "spec"), "spec", "spec.template")
    view = WorkloadView(
        **common_fields(metadata, status),
        kind=kind,
        replicas=whole_of(spec, "replicas", "spec", default=1),
        listed=(),
        ready_replicas=whole_of(status, "readyReplicas", "status"),
        updated_replicas=whole_of(status, "updatedReplicas", "status"),
        rollout=rollout,
    )
    return with_pod_spec(view, pod_spec, "spec.template.spec")


def rollout_of(spec: Json, rolling: Json, path: str, *, is_paused: bool = False, **others: bool) -> Rollout:
    """Return how pods are replaced; `rolling`, found at `path`, has maxSurge and maxUnavailable."""
    replicas = whole_of(spec, "replicas", "spec", default=1)
    surge = _resolved(rolling, "maxSurge", path, replicas, math.ceil)
    unavailable = _resolved(rolling, "maxUnavailable", path, replicas, math.floor)
    if not surge and not unavailable:  # as the controllers do, or nothing would ever be replaced
        unavailable = 1
    return Rollout(
        max_unavailable=unavailable,
        max_unavailable_text=str(_amount(rolling, "maxUnavailable")),
        is_paused=is_paused or spec.get("paused") is True,
        min_ready_s=whole_of(spec, "minReadySeconds", "spec"),
        path=path,
        **others,
    )


def _resolved(rolling: Json, key: str, path: str, replicas: int, rounded: Callable[[float], int]) -> int:
    """Return a number of pods that is a number or a percentage of the replicas."""
    found = _amount(rolling, key)
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    percent = found.removesuffix("%") if isinstance(found, str) else ""
    if not (percent.isascii() and percent.isdigit()) or len(percent) > 9:
        raise WrongShapeError(f"{path}.{key}", found)
    return rounded(int(percent) * replicas / 100)


def _amount(rolling: Json, key: str) -> object:
    """Return what is written; the default where nothing is."""
    found: object = rolling.get(key)
    return _DEFAULT if found is None else found
