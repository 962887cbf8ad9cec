"""When a status is written: at once, in turns, a moment later, or again after it was refused.

* What somebody waits for is written at once.
* Under a roll of thousands of pods each join changes a status. Writes that show only how far things are share a rate, so that the API
  server has at most two writes a second from this operator, the renewals of its Lease included. The StaticGroups take turns, and each
  writes what is true when its turn has come. A few never wait. While one waits, the position of the pod watch that the Lease keeps waits too.
* Of many edits of one spec the next are written together a moment later.
* A refusal needs a person, so it is reported once for each cause and tried again ever more seldom, and never so seldom that its end stays
  unnoticed for a minute. No answer at all is no refusal: that is tried again like any call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ...api.remedies import APPLY_CRDS
from ...api.resources.status import StaticGroupStatus, TimeoutSource
from ...kube.problem import KubeProblem, KubeProblemKind
from ..work_queue import Key

WRITES_PER_S: Final = 1.3
"""With a renewal of the Lease every 2 s fewer than two writes a second."""
BURST: Final = 20
"""Statuses that are written at once before any waits."""
WAIT_MAX_S: Final = 20.0
"""Longest wait, however many there are: 26 StaticGroups are written at the rate, more of them faster than it."""
EDITS_PACE_S: Final = 0.3
"""Between two writes of one status in which only edits of its spec are new. Each write costs an API server ten times what the round cost
that led to it, and one that an edit overtakes is for nothing."""
RETRY_FIRST_S: Final = 1.0
RETRY_MAX_S: Final = 45.0
"""Below a minute by the longest wait for a turn, so that a person who upgrades the CRDs sees the end of a refusal within one."""

_PROGRESS: Final = frozenset({"absences", "columns", "conditions", "exceptions", "group_state", "members", "seal", "seats", "suspects"})
"""Fields of a status that show how far things are. All others are acted upon by the admission policy, by the next process or
by somebody who waits for an edit to be observed."""

REMEDIES: Final = {
    KubeProblemKind.UNDECLARED: f"the CRD is older than this operator and lacks a field of the status; {APPLY_CRDS}",
    KubeProblemKind.INVALID: (
        "the status holds a value, such as a protocol of groups, or a length that the CRD does not allow, as when the CRD is older "
        f"than this operator; {APPLY_CRDS}; when they are of the same version, it is a fault "
        "of the operator"
    ),
    KubeProblemKind.FORBIDDEN: (
        "the operator's right is missing; grant patch on staticgroups/status (API group staticgroup.io) to its service "
        "account, as the chart's roles do (rbac.create)"
    ),
    KubeProblemKind.TOO_LARGE: (
        "the object with this status is larger than the API server stores; take large annotations off it, or split the "
        "workload over several StatefulSets"
    ),
}
"""What to do about each refusal; a kind that is not in here is none."""


def can_wait(before: StaticGroupStatus | None, after: StaticGroupStatus) -> bool:
    """Return True when only such fields of a status are new as change with every pod.

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


def shows_only_edits(before: StaticGroupStatus | None, after: StaticGroupStatus) -> bool:
    """Return True when a status shows that an edit of the spec was observed, and nothing else that cannot wait."""
    if before is None or before.observed_generation == after.observed_generation:
        return False
    return can_wait(before.model_copy(update={"observed_generation": after.observed_generation}), after)


def _next_timeout(status: StaticGroupStatus) -> object:
    """Return the session timeout but for what the live pods hold, which changes with every pod."""
    of_pods = {"effective_ms": None, "effective_max_ms": None, "unknown_pods": 0, "why": None}
    if status.timeout is None:
        return None
    if status.timeout.source is not TimeoutSource.FLEET:  # each absence that is measured moves these a little
        target_ms = status.timeout.recommended.target_ms if status.timeout.recommended is not None else None
        return status.timeout.model_copy(update=of_pods | {"samples": 0, "recommended": None}), target_ms
    return status.timeout.model_copy(update=of_pods)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRefusal:
    """A status that was refused and is still to be written.

    Parameters
    ----------
    problem: the answer; its kind is in REMEDIES.
    tries: refusals in a row, 1 or more.
    retry_at_s: when it is sent again, monotonic seconds.
    """

    problem: KubeProblem
    tries: int
    retry_at_s: float

    @property
    def text(self) -> str:
        """What happened and what to do, for people."""
        return (
            f"{self.problem.message}: {REMEDIES[self.problem.kind]}. Until then nothing of this StaticGroup is remembered "
            "over a restart, and its conditions are those of before."
        )


def refused(problem: KubeProblem, before: StatusRefusal | None, now_s: float) -> StatusRefusal | None:
    """Return the refusal that an answer to the write of a status is.

    Parameters
    ----------
    before: the refusal that this try followed; None for the first. now_s: monotonic seconds.

    Returns
    -------
    None when the answer needs no person: the API server is away, or somebody else wrote.
    """
    if problem.kind not in REMEDIES:
        return None
    tries = before.tries + 1 if before is not None else 1
    return StatusRefusal(
        problem=problem, tries=tries, retry_at_s=now_s + min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(tries - 1, 16))
    )
