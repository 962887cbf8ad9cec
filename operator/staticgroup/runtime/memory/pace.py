"""When a status is written: at once what somebody waits for, in turns what changes with every pod, a moment later the next of many edits.

Under a roll of thousands of pods each join changes a status. The one idea: writes that tell only how far things are share a
rate, so that the API server has at most two writes a second from this operator, the renewals of its Lease included; the
StaticGroups take turns, and each writes what is true when its turn has come. A few are never held up. While one waits, the
position of the pod watch that the Lease keeps waits too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ...api.resources.status import StaticGroupStatus, TimeoutSource
from ..work_queue import Key

WRITES_PER_S: Final = 1.3
"""With a renewal of the Lease every 2 s fewer than two writes a second."""
BURST: Final = 20
"""Statuses that are written at once before any waits."""
WAIT_MAX_S: Final = 20.0
"""Longest wait, however many there are: 26 StaticGroups are written at the rate, more of them faster than it."""
EDITS_PACE_S: Final = 0.3
"""Between two writes of one status that tell of nothing but edits of its spec. Each write costs an API server ten times what the
round cost that led to it, and one that an edit overtakes is for nothing, so edits that come faster are told of together."""

_PROGRESS: Final = frozenset({"absences", "columns", "conditions", "exceptions", "group_state", "members", "seal", "seats", "suspects"})
"""Fields of a status that tell how far things are. All others are acted upon by the admission policy, by the next process or
by whoever waits for an edit to be seen."""


def can_wait(before: StaticGroupStatus | None, after: StaticGroupStatus) -> bool:
    """Tell whether the news of a status is of the kind that changes with every pod.

    Parameters
    ----------
    before: as it was written last; None when it never was.
    """
    if before is None or _ready(before) != _ready(after):
        return False
    if _next_timeout(before) != _next_timeout(after):
        return False
    fields = StaticGroupStatus.model_fields.keys() - _PROGRESS - {"timeout"}
    return all(getattr(before, name) == getattr(after, name) for name in fields)


def tells_of_edits(before: StaticGroupStatus | None, after: StaticGroupStatus) -> bool:
    """Tell whether the news of a status is that an edit of the spec was seen, which changed nothing that cannot wait."""
    if before is None or before.observed_generation == after.observed_generation:
        return False
    return can_wait(before.model_copy(update={"observed_generation": after.observed_generation}), after)


def _next_timeout(status: StaticGroupStatus) -> object:
    """Return what is told of the session timeout but for what the pods that live hold, which changes with every pod."""
    told = {"effective_ms": None, "effective_max_ms": None, "unknown_pods": 0, "why": None}
    if status.timeout is None:
        return None
    if status.timeout.source is not TimeoutSource.FLEET:  # each absence that is measured moves these a little
        target_ms = status.timeout.recommended.target_ms if status.timeout.recommended is not None else None
        return status.timeout.model_copy(update=told | {"samples": 0, "recommended": None}), target_ms
    return status.timeout.model_copy(update=told)


def _ready(status: StaticGroupStatus) -> str:
    return next((c.status.value for c in status.conditions if c.type == "Ready"), "")


@dataclass(slots=True)
class Pace:
    """Give turns to write, at WRITES_PER_S after a BURST; all times are monotonic seconds."""

    _next_s: float = float("-inf")
    _turns: dict[Key, float] = field(default_factory=dict)

    def turn(self, key: Key, now_s: float) -> float:
        """Return when a StaticGroup may write.

        Returns
        -------
        A time that has come, and then the turn is over; or a later one, which it has from now on.
        """
        due_s = self._turns.pop(key, None)
        if due_s is None:
            due_s = self._count(now_s)
        if due_s > now_s:
            self._turns[key] = due_s
        return due_s

    def take(self, key: Key, now_s: float) -> None:
        """Count a write that cannot wait; it stands for the turn that the StaticGroup may have."""
        if self._turns.pop(key, None) is None:
            self._count(now_s)

    def forget(self, key: Key) -> None:
        """Drop the turn of a StaticGroup that is gone."""
        self._turns.pop(key, None)

    def _count(self, now_s: float) -> float:
        """Count one write and return when the rate allows it, at most WAIT_MAX_S from now."""
        earliest_s = now_s - (BURST + 0.5) / WRITES_PER_S  # half a write more than are counted, for the rounding
        self._next_s = min(max(self._next_s, earliest_s) + 1 / WRITES_PER_S, now_s + WAIT_MAX_S)
        return max(now_s, self._next_s)
