"""Builders for containers that crash and are started again, as their kubelet reports it."""

from __future__ import annotations

from typing import Any

from staticgroup.core.evidence.pod import ContainerPhase, ContainerView, EndView, PodVersion
from unit.core.builders import NOW_S, pod_version

ENDED_S = NOW_S - 1
"""When the run "a" of a container ends by its node's clock, by default; the operator receives it at NOW_S."""
WRITTEN_S = NOW_S


def runs(name: str = "app", run: str = "a", restarts: int = 0, **changes: Any) -> ContainerView:
    """A container that runs; `after` names the run before it, which ended at ENDED_S."""
    after = changes.pop("after", None)
    values: dict[str, Any] = {
        "phase": ContainerPhase.RUNNING,
        "container_id": f"containerd://{name}-{run}",
        "restart_count": restarts,
        "last_end": over(name, after) if isinstance(after, str) else after,
        "may_hold_id": True,
    }
    return ContainerView(name=name, **(values | changes))


def over(name: str = "app", run: str = "a", finished_at_s: float | None = ENDED_S, reason: str = "Error") -> EndView:
    return EndView(container_id=f"containerd://{name}-{run}", finished_at_s=finished_at_s, reason=reason)


def crashed(name: str = "app", run: str = "a", restarts: int = 0, **changes: Any) -> ContainerView:
    """A container whose last run has ended, before the next one is made."""
    values: dict[str, Any] = {
        "phase": ContainerPhase.TERMINATED, "container_id": f"containerd://{name}-{run}",
        "finished_at": "2027-01-15T07:59:59Z", "reason": "Error", "restart_count": restarts,
        "last_end": over(name, run), "may_hold_id": True,
    }
    return ContainerView(name=name, **(values | changes))


def backs_off(name: str = "app", run: str = "a", restarts: int = 0, **changes: Any) -> ContainerView:
    """A container that waits for its next run."""
    values: dict[str, Any] = {
        "phase": ContainerPhase.WAITING, "container_id": f"containerd://{name}-{run}", "reason": "CrashLoopBackOff",
        "restart_count": restarts, "last_end": over(name, run), "may_hold_id": True,
    }
    return ContainerView(name=name, **(values | changes))


def shows(*containers: ContainerView, ordinal: int = 0, uid: str = "u0", **changes: Any) -> PodVersion:
    """A version of a pod with these containers, whose status was written at WRITTEN_S."""
    return pod_version(ordinal, uid, required=containers, **({"phase_written_at_s": WRITTEN_S} | changes))
