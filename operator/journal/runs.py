"""Runs of containers: when a pod's process ended and when the next one started, by the kubelet's status.

A container's status shows its present run and the one before, each with its times, so a restart that nobody saw
happening still has the kubelet's times. Runs are counted by restartCount: the first has 0. A change of a run is
returned once, however often or out of order versions of the pod arrive.
Source: ContainerStatus of core/v1 (state, lastState, restartCount); the kubelet writes times in whole seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from staticgroup.core.evidence.pod import ContainerView, PodVersion

RECENT_MS = 3_600_000
"""Of a pod seen for the first time only the changes of the last hour count: a restarted operator fills the hole
that its absence left, and does not repeat the life of every pod."""


class DownReason(StrEnum):
    """Name the ends that no container state explains; other reasons are the container's own, such as OOMKilled."""

    DELETED = "Deleted"
    EVICTED = "Evicted"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange:
    """A process that started or ended.

    Parameters
    ----------
    source_time_ms: by the kubelet's clock; None when only the versions of the pod bound it.
    lo_ms, hi_ms: by the operator's clock; None when `source_time_ms` says it, or nothing does.
    observed_at_ms: when the operator saw it.
    """

    pod: PodVersion
    container: ContainerView
    is_up: bool
    restart_count: int
    reason: str
    source_time_ms: int | None
    lo_ms: int | None
    hi_ms: int | None
    observed_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodProgress:
    """Which runs of one pod UID are known.

    Parameters
    ----------
    starts, ends: per container the highest restartCount whose start or end is known; absent: none.
    seen_ms, earlier_ms: when its last version and the one before were seen, the operator's clock; the last one may be
        that of its DELETED event. None: there was none before.
    """

    pod: PodVersion
    seen_ms: int
    earlier_ms: int | None = None
    starts: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)


def run_changes(before: PodProgress | None, pod: PodVersion, now_ms: int) -> tuple[PodProgress, tuple[RunChange, ...]]:
    """Compare one version of a pod with what is known of it.

    Parameters
    ----------
    before: None when this UID is new.
    now_ms: the operator's clock, Unix milliseconds.

    Returns
    -------
    What is known now, and the new changes in the order in which they happened.
    """
    known = {True: dict(before.starts) if before else {}, False: dict(before.ends) if before else {}}
    seen_ms = before.seen_ms if before is not None else None
    changes: list[RunChange] = []
    for container in (*pod.required, *pod.inits):
        for run in container.runs:
            end = run.end
            is_started = run.started_at_s is not None or end is None
            times = ((True, run.started_at_s, is_started), (False, end.finished_at_s if end else None, end is not None))
            for is_up, at_s, has_happened in times:
                if not has_happened or run.restart_count <= known[is_up].get(container.name, -1):
                    continue
                known[is_up][container.name] = run.restart_count
                at_ms = round(at_s * 1000) if at_s is not None else None
                if before is None and (at_ms is None or now_ms - at_ms > RECENT_MS):
                    continue
                change = RunChange(
                    pod=pod,
                    container=container,
                    is_up=is_up,
                    restart_count=run.restart_count,
                    reason="" if is_up or not end else _end_of_pod(pod, at_s) or end.reason or DownReason.UNKNOWN.value,
                    source_time_ms=at_ms,
                    lo_ms=seen_ms if at_ms is None else None,
                    hi_ms=now_ms if at_ms is None else None,
                    observed_at_ms=now_ms,
                )
                changes.append(change)
    after = PodProgress(pod=pod, seen_ms=now_ms, earlier_ms=seen_ms, starts=known[True], ends=known[False])
    return after, tuple(changes)


def ended_with_pod(last: PodProgress, now_ms: int) -> tuple[RunChange, ...]:
    """Return the ends of what still ran when its pod was last seen, whose object is gone.

    Notes
    -----
    That an object is gone does not prove that its process is: see `certificate` for what does.
    """
    return tuple(
        RunChange(
            pod=last.pod,
            container=container,
            is_up=False,
            restart_count=n,
            reason=_end_of_pod(last.pod, None) or DownReason.DELETED.value,
            source_time_ms=None,
            lo_ms=last.earlier_ms,
            hi_ms=now_ms,
            observed_at_ms=now_ms,
        )
        for container in (*last.pod.required, *last.pod.inits)
        for n in [last.starts.get(container.name, -1)]
        if n > last.ends.get(container.name, -1)
    )


def _end_of_pod(pod: PodVersion, ended_at_s: float | None) -> str:
    """Say why the pod as a whole ends; "" when this run ended before, so that the container's own reason counts."""
    asked_at_s = pod.deletion_asked_at_s
    if asked_at_s is not None and ended_at_s is not None and ended_at_s < asked_at_s:
        return ""
    if pod.disruption_reason or pod.reason == DownReason.EVICTED.value:
        return DownReason.EVICTED.value
    return "" if asked_at_s is None else DownReason.DELETED.value
