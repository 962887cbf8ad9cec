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

RECENT_MS = 3_600_000
"""Of a pod seen for the first time only the changes of the last hour count: a restarted operator fills the hole
that its absence left, and does not repeat the life of every pod."""


class DownReason(StrEnum):
    """Name the ends that no container state explains; other reasons are the container's own, such as OOMKilled."""

    DELETED = "Deleted"
    EVICTED = "Evicted"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a container; times in Unix milliseconds by the kubelet's clock, None while there is none."""

    restart_count: int
    started_ms: int | None = None
    ended_ms: int | None = None
    is_over: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRuns:
    """The runs that one status entry shows, the older first; `image_digest` is of the newest."""

    name: str
    is_first: bool
    image_digest: str
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRuns:
    """What one version of a pod says about its runs.

    Parameters
    ----------
    rollout_id: its controller-revision-hash.
    session_timeout_ms: the shortest that this version shows; None when it shows none.
    deletion_asked_ms: when its deletion was asked for, the API server's clock; None while it was not.
    """

    namespace: str
    pod_name: str
    uid: str
    node_name: str
    rollout_id: str
    instance_ids: tuple[str, ...]
    session_timeout_ms: int | None
    deletion_asked_ms: int | None
    is_evicted: bool
    containers: tuple[ContainerRuns, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange:
    """A process that started or ended.

    Parameters
    ----------
    source_time_ms: by the kubelet's clock; None when only the versions of the pod bound it.
    lo_ms, hi_ms: by the operator's clock; None when `source_time_ms` says it, or nothing does.
    observed_at_ms: when the operator saw it.
    """

    pod: PodRuns
    container: ContainerRuns
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

    pod: PodRuns
    seen_ms: int
    earlier_ms: int | None = None
    starts: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)


def run_changes(before: PodProgress | None, pod: PodRuns, now_ms: int) -> tuple[PodProgress, tuple[RunChange, ...]]:
    """Compare one version of a pod with what is known of it.

    Parameters
    ----------
    before: None when this UID is new.
    now_ms: the operator's clock, Unix milliseconds.

    Returns
    -------
    What is known now, and the new changes in the order in which they happened.
    """
    starts = dict(before.starts) if before else {}
    ends = dict(before.ends) if before else {}
    changes: list[RunChange] = []
    for container in pod.containers:
        for run in container.runs:
            n = run.restart_count
            if n > starts.get(container.name, -1) and (run.started_ms is not None or not run.is_over):
                starts[container.name] = n
                if before is not None or _is_recent(run.started_ms, now_ms):
                    changes.append(_change(pod, container, run, before, now_ms, is_up=True))
            if run.is_over and n > ends.get(container.name, -1):
                ends[container.name] = n
                if before is not None or _is_recent(run.ended_ms, now_ms):
                    changes.append(_change(pod, container, run, before, now_ms, is_up=False))
    earlier_ms = before.seen_ms if before else None
    return PodProgress(pod=pod, seen_ms=now_ms, earlier_ms=earlier_ms, starts=starts, ends=ends), tuple(changes)


def ended_with_pod(last: PodProgress, now_ms: int) -> tuple[RunChange, ...]:
    """Return the ends of what still ran when its pod was last seen, whose object is gone.

    Notes
    -----
    That an object is gone does not prove that its process is: see `certificate` for what does.
    """
    reason = _end_of_pod(last.pod, None) or DownReason.DELETED.value
    return tuple(
        RunChange(
            pod=last.pod,
            container=container,
            is_up=False,
            restart_count=n,
            reason=reason,
            source_time_ms=None,
            lo_ms=last.earlier_ms,
            hi_ms=now_ms,
            observed_at_ms=now_ms,
        )
        for container in last.pod.containers
        for n in [last.starts.get(container.name, -1)]
        if n > last.ends.get(container.name, -1)
    )


def _change(
    pod: PodRuns, container: ContainerRuns, run: Run, before: PodProgress | None, now_ms: int, *, is_up: bool
) -> RunChange:
    at_ms = run.started_ms if is_up else run.ended_ms
    is_unclear = at_ms is None
    return RunChange(
        pod=pod,
        container=container,
        is_up=is_up,
        restart_count=run.restart_count,
        reason="" if is_up else _end_of_pod(pod, run.ended_ms) or run.reason or DownReason.UNKNOWN.value,
        source_time_ms=at_ms,
        lo_ms=before.seen_ms if before is not None and is_unclear else None,
        hi_ms=now_ms if is_unclear else None,
        observed_at_ms=now_ms,
    )


def _end_of_pod(pod: PodRuns, ended_ms: int | None) -> str:
    """Say why the pod as a whole ends; "" when this run ended before, so that the container's own reason counts."""
    asked_ms = pod.deletion_asked_ms
    if asked_ms is not None and ended_ms is not None and ended_ms < asked_ms:
        return ""
    if pod.is_evicted:
        return DownReason.EVICTED.value
    return "" if asked_ms is None else DownReason.DELETED.value


def _is_recent(at_ms: int | None, now_ms: int) -> bool:
    return at_ms is not None and now_ms - at_ms <= RECENT_MS
