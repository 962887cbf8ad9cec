"""What the versions of a pod tell of how its kubelet will end it: within which time, by when, and why that may never come.

A kubelet ends a pod within the grace period of the request that it heard first: it shortens one that runs and never gives one up
for what the object says later, least of all when it only hears that the object is gone (calculateEffectiveGracePeriod,
kubernetes/kubernetes pod_workers.go). So of every period that any version told the longest counts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from .pod import PodVersion

if TYPE_CHECKING:
    from .chain import Incarnation


class ReapDoubt(StrEnum):
    """Why a kubelet that went on working after an object vanished need not have ended its processes; the value is what a status keeps."""

    HOST_PID = "HostPID"
    MIRROR = "MirrorPod"
    STUCK = "StuckTerminating"
    END_UNSEEN = "EndUnseen"


SWITCHES: Final = (
    "set evidence.askRuntime, which has its container runtime asked, or evidence.trustKubelet, if kubelets here surely end what they were "
    "told to end"
)
"""The ways out where a kubelet has worked on and nobody may say what that means."""
LASTING_DOUBTS = frozenset({ReapDoubt.HOST_PID.value, ReapDoubt.MIRROR.value})
"""What no reboot takes away: such processes outlive their containers, or are started again without any object."""


def stronger_doubt(one: str, other: str) -> str:
    """Return which of two doubts says more; "" says nothing."""
    return other if not one or (other in LASTING_DOUBTS and one not in LASTING_DOUBTS) else one


def lasting_doubt(version: PodVersion) -> str:
    """Return what a version shows that no reboot takes away; "" when it shows nothing."""
    if version.is_mirror:
        return ReapDoubt.MIRROR.value
    return ReapDoubt.HOST_PID.value if version.host_pid else ""


def longest_grace_s(*told_s: int | None) -> int | None:
    """Return the longest of some grace periods; None when none was told."""
    return max((s for s in told_s if s is not None), default=None)


def told_grace_s(version: PodVersion) -> int | None:
    """Return the longest grace period that a version tells; a forced deletion, which has 0, tells none."""
    return longest_grace_s(version.grace_s, version.deletion_grace_s or None, version.probe_grace_s or None)


def due_s(known_s: float | None, version: PodVersion, now_s: float) -> float | None:
    """Return when a deletion should be over; of several the earliest, None while none was asked for.

    Notes
    -----
    A forced deletion writes a grace of 0 and moves the timestamp back to when the first one was asked for. That it was
    asked for is known from the API server's clock and from when it was heard, whichever is earlier.
    """
    if not version.is_deleting:
        return known_s
    deletion_grace_s = version.deletion_grace_s or 0
    asked_s = now_s if version.deletion_at_s is None else version.deletion_at_s - deletion_grace_s
    at_s = min(now_s, asked_s) + (deletion_grace_s or version.grace_s or 0)
    return at_s if known_s is None else min(known_s, at_s)


def never_reaped(suspect: Incarnation, *, is_kubelet_heard: bool) -> str:
    """Say why nothing that its kubelet does will ever prove a suspect ended; "" when it may.

    Parameters
    ----------
    is_kubelet_heard: its work counts, because its runtime is asked too, or because somebody said so.
    """
    if suspect.reap_doubt == ReapDoubt.HOST_PID:
        return "the pod used hostPID, so its processes may outlive its containers"
    if suspect.reap_doubt == ReapDoubt.MIRROR:
        return "it was a static pod, which runs whatever becomes of its object"
    if suspect.grace_s is None:
        return "the pod's grace period is not remembered"
    if not is_kubelet_heard:
        return f"nobody may say that the kubelet of node {suspect.node_name} has ended the pod: {SWITCHES}"
    return ""
