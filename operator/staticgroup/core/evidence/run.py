"""What a container's runs show: which run was seen running, and that this very run has ended, by its kubelet's word.

A pod object outlives its containers, so the end of one run is no certificate of the incarnation. It says less: whoever was
started by this container before that moment is dead, because a kubelet starts a run only after the one before it has ended. An
end is believed only of a run that was seen running, by its container id, so that nothing that ran unseen can hide between.
What is known of runs lives in memory only: after a restart of the operator nothing is concluded until it is seen again.

Source: kubelet convertToAPIContainerStatuses (state, lastState and restartCount from version to version), SyncPod
(computePodActions: a container is started again when its last run is in the state exited).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from ...api.identifiers import may_become
from .certificate import LOST_RUN_REASONS, PHASE_MANAGERS_REFUSED, kubelet_refusal
from .pod import ContainerPhase, ContainerView, EndView, NodeView, PodVersion

CLOCK_AHEAD_MAX_S: Final = 1.0
"""A time of a node may lie so far after the same moment by another clock; all of them are told in whole seconds."""
STALE_AFTER_S: Final = 30.0
"""What is heard so late may have been overtaken, and says little about the clocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of a run that was seen running.

    Parameters
    ----------
    finished_at_s: by the node's clock, whole seconds since the Unix epoch.
    received_at_s: when the operator heard of it first, its own clock, seconds since the Unix epoch.
    doubt: why nothing is concluded from it; "" when nothing stands against that.
    """

    container_id: str
    finished_at_s: float
    received_at_s: float
    doubt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRun:
    """The newest run of one container that was seen running, and the newest end of one.

    Parameters
    ----------
    container_id, restart_count: of the run that was seen running last; "" when none was, or another run may have followed.
    doubt: what the beginning of that run has shown of its node's clock; "" when nothing.
    end: None while no end of a run that was seen running is known.
    only_ids: see `ContainerView`, of all versions.
    first_began_at_s: when the first run that was seen running began by the node's clock; None when that is not told.
    has_lost: its kubelet has lost a run, which may live on beside every later one.
    """

    container: str
    container_id: str = ""
    restart_count: int = 0
    doubt: str = ""
    end: RunEnd | None = None
    only_ids: frozenset[str] = frozenset()
    first_began_at_s: float | None = None
    has_lost: bool = False


def followed(
    known: tuple[ContainerRun, ...], version: PodVersion, node: NodeView | None, *, now_s: float
) -> tuple[ContainerRun, ...]:
    """Add what one version shows to what is known of the runs of a pod.

    Parameters
    ----------
    known: of this UID so far. version: newer than all that were added before. node: None when it cannot be read.
    now_s: operator's clock, seconds since the Unix epoch.

    Returns
    -------
    One for each container that may hold an instance id, or might in an earlier version.
    """
    before = {run.container: run for run in known}
    shown = {container.name: container for container in version.required}
    holders = (name for name, container in shown.items() if container.may_hold_id)
    runs = tuple(
        _followed(_allowed(before.get(name), name, shown.get(name)), shown.get(name), version, node, now_s)
        for name in dict.fromkeys((*before, *holders))
    )
    return known if runs == known else runs


def holders(runs: Iterable[ContainerRun], instance_id: str) -> tuple[ContainerRun, ...]:
    """Return the runs of the containers that may hold one id; a client may have appended anything to what its container carries."""
    return tuple(run for run in runs if not run.only_ids or any(may_become(i, instance_id) for i in run.only_ids))


def every_end(runs: Iterable[ContainerRun]) -> tuple[RunEnd, ...]:
    """Return the newest end of each container that may hold an instance id; () unless each has one."""
    ends = [run.end for run in runs]
    known = tuple(end for end in ends if end is not None)
    return known if len(known) == len(ends) else ()


def _allowed(known: ContainerRun | None, name: str, shown: ContainerView | None) -> ContainerRun:
    """Return what is known of a container, with the ids that it may hold now; what one version allows, none takes back."""
    if known is None:
        return ContainerRun(container=name, only_ids=shown.only_ids if shown is not None else frozenset())
    if shown is None or not shown.may_hold_id:
        return known
    are_few = bool(known.only_ids and shown.only_ids)
    return replace(known, only_ids=known.only_ids | shown.only_ids if are_few else frozenset())


def _followed(
    run: ContainerRun, shown: ContainerView | None, version: PodVersion, node: NodeView | None, now_s: float
) -> ContainerRun:
    """Add what a version shows of one container."""
    if shown is None:
        return run
    run = replace(run, has_lost=run.has_lost or shown.was_lost)
    end = _end(run, shown, version, node, now_s)
    if shown.phase is ContainerPhase.RUNNING:
        before = run.doubt if shown.container_id == run.container_id else ""
        doubt = before or _clock_doubt((shown.started_at_s,), version, now_s)
        first_s = shown.started_at_s if run.first_began_at_s is None else run.first_began_at_s
        return replace(
            run, container_id=shown.container_id, restart_count=shown.restart_count, doubt=doubt, end=end, first_began_at_s=first_s
        )
    is_followed = end is not None and end.container_id == run.container_id
    return replace(run, end=end, container_id=run.container_id if is_followed else "")


def _end(
    run: ContainerRun, shown: ContainerView, version: PodVersion, node: NodeView | None, now_s: float
) -> RunEnd | None:
    """Return the newest end that is known after a version; None when there is none, or it turned out to be none."""
    known, told = run.end, shown.last_end
    if known is not None and shown.phase is ContainerPhase.RUNNING and shown.container_id == known.container_id:
        return None
    if told is None or told.finished_at_s is None or not _is_end_of(run, shown, told):
        return known
    if known is not None and known.container_id == told.container_id:
        doubt = known.doubt or _clock_doubt((shown.started_at_s,), version, now_s)
        return replace(known, doubt=doubt)
    times = (told.finished_at_s, shown.started_at_s)
    clock = run.doubt or _clock_doubt(times, version, now_s)
    lost = "an earlier run is lost to its kubelet or runtime" if run.has_lost else ""
    doubt = _doubt(version, node) or lost or clock or _stale(told.finished_at_s, now_s)
    return RunEnd(container_id=told.container_id, finished_at_s=told.finished_at_s, received_at_s=now_s, doubt=doubt)


def _is_end_of(run: ContainerRun, shown: ContainerView, told: EndView) -> bool:
    """True for the end of the run that was seen running, with no other run since but the one that is shown."""
    if not run.container_id or told.container_id != run.container_id or told.reason in LOST_RUN_REASONS:
        return False
    restarts = shown.restart_count - run.restart_count
    if shown.phase is ContainerPhase.RUNNING:
        return restarts == 1
    # A kubelet counts a restart when it makes the next container, which waits until it is started.
    return restarts == 0 or (restarts == 1 and shown.phase is ContainerPhase.WAITING)


def _doubt(version: PodVersion, node: NodeView | None) -> str:
    """Say why the end of a container is not that of its processes, or not its kubelet's word; "" when it is both."""
    refusal = kubelet_refusal(version, node)
    if refusal is not None:
        return refusal.clause
    if version.shares_processes:
        return "the pod shares one process namespace, so its processes may outlive their containers"
    if not version.phase_has_statuses or version.phase_manager in PHASE_MANAGERS_REFUSED:
        return f"the status was written by {version.phase_manager or 'nobody known'}, not by the kubelet alone"
    return ""


def _clock_doubt(times_s: Iterable[float | None], version: PodVersion, now_s: float) -> str:
    """Say that the node's clock is ahead: what it dates later than those who heard of it did; "" when nothing shows it."""
    if version.phase_written_at_s is None:
        return "the object does not tell when its status was written, so the node's clock cannot be judged"
    latest_s = min(now_s, version.phase_written_at_s) + CLOCK_AHEAD_MAX_S
    if any(at_s is not None and at_s > latest_s for at_s in times_s):
        return f"the clock of node {version.node_name} is ahead"
    return ""


def _stale(finished_at_s: float, now_s: float) -> str:
    return f"it was heard of more than {STALE_AFTER_S:g} s late" if now_s - finished_at_s > STALE_AFTER_S else ""
