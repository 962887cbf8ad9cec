"""The newest end of a run of each container, by its kubelet's word.

A pod object outlives its containers, so the end of one run is no certificate of the pod. It says less: whatever this
container had started before that moment is over, because a kubelet starts a run only after the one before it has ended. So a
member that was described well before the end of a run of each container that can hold its id is dead.

Source: kubelet convertToAPIContainerStatuses (state, lastState), SyncPod (computePodActions: a container is started again
when its last run is in the state exited).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from ...api.identifiers import may_become
from .certificate import LOST_RUN_REASONS, PHASE_MANAGERS_REFUSED, kubelet_refusal
from .pod import ContainerView, NodeView, PodVersion

CLOCK_AHEAD_MAX_S: Final = 1.0
"""A time of a node may lie so far after the same moment by another clock; all of them are told in whole seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """The end of one run.

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
class ContainerEnd:
    """One container that may hold an instance id, and the newest end of a run of it.

    Parameters
    ----------
    end: None while none is known.
    only_ids: see `ContainerView`, of all versions.
    """

    container: str
    end: RunEnd | None = None
    only_ids: frozenset[str] = frozenset()


def followed(
    known: tuple[ContainerEnd, ...], version: PodVersion, node: NodeView | None, *, now_s: float
) -> tuple[ContainerEnd, ...]:
    """Add what one version shows to what is known of the ends of a pod's containers.

    Parameters
    ----------
    known: of this UID so far. node: None when it cannot be read.
    now_s: operator's clock, seconds since the Unix epoch.

    Returns
    -------
    One for each container that may hold an instance id, or might in an earlier version.
    """
    before = {each.container: each for each in known}
    shown = {container.name: container for container in version.required}
    holders = (name for name, container in shown.items() if container.may_hold_id)
    ends = tuple(
        _followed(_allowed(before.get(name), name, shown.get(name)), shown.get(name), version, node, now_s)
        for name in dict.fromkeys((*before, *holders))
    )
    return known if ends == known else ends


def holders(ends: Iterable[ContainerEnd], instance_id: str) -> tuple[ContainerEnd, ...]:
    """Return the containers that may hold one id; a client may have appended anything to what its container carries."""
    return tuple(each for each in ends if not each.only_ids or any(may_become(i, instance_id) for i in each.only_ids))


def _allowed(known: ContainerEnd | None, name: str, shown: ContainerView | None) -> ContainerEnd:
    """Return what is known of a container, with the ids that it may hold now; what one version allows, none takes back."""
    if known is None:
        return ContainerEnd(container=name, only_ids=shown.only_ids if shown is not None else frozenset())
    if shown is None or not shown.may_hold_id:
        return known
    are_few = bool(known.only_ids and shown.only_ids)
    return replace(known, only_ids=known.only_ids | shown.only_ids if are_few else frozenset())


def _followed(
    known: ContainerEnd, shown: ContainerView | None, version: PodVersion, node: NodeView | None, now_s: float
) -> ContainerEnd:
    """Take the end that a version shows, unless a later one is known."""
    told = shown.last_end if shown is not None else None
    if told is None or told.finished_at_s is None or told.reason in LOST_RUN_REASONS or not told.container_id:
        return known
    if known.end is not None and told.finished_at_s <= known.end.finished_at_s:
        return known
    end = RunEnd(
        container_id=told.container_id, finished_at_s=told.finished_at_s, received_at_s=now_s,
        doubt=_doubt(version, node) or _clock_doubt(told.finished_at_s, version, now_s),
    )
    return replace(known, end=end)


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


def _clock_doubt(finished_at_s: float, version: PodVersion, now_s: float) -> str:
    """Say that the node's clock is ahead: it dates an end later than those did who heard of it; "" when nothing shows it."""
    if version.phase_written_at_s is None:
        return "the object does not tell when its status was written, so the node's clock cannot be judged"
    is_ahead = finished_at_s > min(now_s, version.phase_written_at_s) + CLOCK_AHEAD_MAX_S
    return f"the clock of node {version.node_name} is ahead" if is_ahead else ""
