"""Why a member was away, from the end of its process and the start of the next one.

Causes are kept apart because they are different lengths of time: one that is frequent and short would hide one that
is rare and long. Source: `RunChange.reason` (the container's own reason, or what ended the pod as a whole).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from ...api.absences import MemberEvent
from .runs import DownReason


class Cause(StrEnum):
    """Name the causes; the value is what appears in status."""

    ROLLOUT = "Rollout"
    DRAIN = "Drain"
    CRASH = "Crash"
    NODE_LOSS = "NodeLoss"


_UNKNOWN: Final = frozenset({DownReason.UNKNOWN.value, "ContainerStatusUnknown"})
"""Reasons of a kubelet that came back and did not find the container any more."""


def cause_of(down: MemberEvent, up: MemberEvent | None) -> Cause:
    """Return why a member was away.

    Parameters
    ----------
    up: the start of the process that came back; None when it was not seen.

    Notes
    -----
    A pod that was deleted and comes back under the same revision was taken away by somebody, as by an eviction.
    """
    if down.source_time_ms is None or down.reason in _UNKNOWN:
        return Cause.NODE_LOSS
    if down.reason == DownReason.EVICTED.value:
        return Cause.DRAIN
    if down.reason != DownReason.DELETED.value:
        return Cause.CRASH
    return Cause.DRAIN if up is not None and up.rollout_id == down.rollout_id else Cause.ROLLOUT
