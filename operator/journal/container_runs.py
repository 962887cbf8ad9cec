"""Read from a raw Pod object which runs of its containers the kubelet reports.

Nothing is decided on this. So a field of the wrong shape is left out here, where the evidence chain refuses the whole object.
Source: Pod of core/v1; DisruptionTarget (KEP-3329); controller-revision-hash of the StatefulSet controller.
"""

from __future__ import annotations

from datetime import datetime
from sys import intern
from typing import Any

from staticgroup.api.names import REVISION_LABEL
from staticgroup.core.evidence.pod import PodVersion

from .runs import ContainerRuns, PodRuns, Run

_DIGEST_MARK = "sha256:"


def pod_runs(raw: object, version: PodVersion) -> PodRuns:
    """Read the runs of one version of a pod.

    Parameters
    ----------
    raw: the object as the API server sent it.
    version: what `translate.pod_version` made of the same object.
    """
    metadata, status, spec = (_part(raw, key) for key in ("metadata", "status", "spec"))
    first = next((c.get("name") for c in _parts(spec, "containers")), None)
    return PodRuns(
        namespace=version.namespace,
        pod_name=version.name,
        uid=version.uid,
        node_name=version.node_name,
        rollout_id=intern(_text(_part(metadata, "labels"), REVISION_LABEL)),
        instance_ids=tuple(sorted(version.instance_ids)),
        session_timeout_ms=min(version.session_timeouts_ms, default=None),
        deletion_asked_ms=_deletion_asked_ms(metadata, version),
        is_evicted=bool(version.disruption_reason) or status.get("reason") == "Evicted",
        containers=tuple(
            _container(entry, is_first=entry.get("name") == first)
            for kind in ("containerStatuses", "initContainerStatuses")
            for entry in _parts(status, kind)
        ),
    )


def _deletion_asked_ms(metadata: dict[str, Any], version: PodVersion) -> int | None:
    """Return when the deletion was asked for: deletionTimestamp is that plus the grace period."""
    until_ms = _time_ms(metadata, "deletionTimestamp")
    return None if until_ms is None else max(0, until_ms - 1000 * (version.deletion_grace_s or 0))


def _container(entry: dict[str, Any], *, is_first: bool) -> ContainerRuns:
    """Read one status entry: `lastState` is the run before a running one, and the newest of a waiting one."""
    count = entry.get("restartCount")
    count = count if isinstance(count, int) and count >= 0 else 0
    state, last = _part(entry, "state"), _part(_part(entry, "lastState"), "terminated")
    present: tuple[Run, ...] = ()
    if isinstance(state.get("running"), dict):
        present = (Run(restart_count=count, started_ms=_time_ms(state["running"], "startedAt")),)
    elif isinstance(state.get("terminated"), dict):
        present = (_ended(state["terminated"], count),)
    before = count - 1 if present else count
    earlier = (_ended(last, before),) if last and before >= 0 else ()
    image = _text(entry, "imageID")
    return ContainerRuns(
        name=intern(_text(entry, "name")),
        is_first=is_first,
        image_digest=intern(image[image.find(_DIGEST_MARK) :] if _DIGEST_MARK in image else image),
        runs=earlier + present,
    )


def _ended(terminated: dict[str, Any], restart_count: int) -> Run:
    return Run(
        restart_count=restart_count,
        started_ms=_time_ms(terminated, "startedAt"),
        ended_ms=_time_ms(terminated, "finishedAt"),
        is_over=True,
        reason=intern(_text(terminated, "reason")),
    )


def _part(parent: object, key: str) -> dict[str, Any]:
    found = parent.get(key) if isinstance(parent, dict) else None
    return found if isinstance(found, dict) else {}


def _parts(parent: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = parent.get(key)
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _text(parent: dict[str, Any], key: str) -> str:
    found = parent.get(key)
    return found if isinstance(found, str) else ""


def _time_ms(parent: dict[str, Any], key: str) -> int | None:
    """Read a time; None when there is none. A kubelet that lost a container writes the year 1 or 1970."""
    try:
        at_ms = round(datetime.fromisoformat(_text(parent, key)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return at_ms if at_ms > 0 else None
