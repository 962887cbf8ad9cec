"""A status that the API server refuses: why, what to do about it, and when to ask again.

The one idea: a refusal needs a person, so it is told once for each cause and asked again ever more seldom, and never so
seldom that the end of it stays unnoticed for a minute. No answer at all is no refusal: that is tried again like any call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ...api.remedies import APPLY_CRDS
from ...kube.problem import KubeProblem, KubeProblemKind

RETRY_FIRST_S: Final = 1.0
RETRY_MAX_S: Final = 45.0
"""Below a minute by the longest wait for a turn, so that whoever upgrades the CRDs sees the end of it within one."""

REMEDIES: Final = {
    KubeProblemKind.UNDECLARED: f"the CRD is older than this operator and lacks a field of the status; {APPLY_CRDS}",
    KubeProblemKind.INVALID: (
        "the status holds a value, such as a protocol of groups, or a length that the CRD does not allow, as when the CRD is older "
        f"than this operator; when they are of the same version, it is a fault of the operator; {APPLY_CRDS}"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A status that was refused and is still to be written.

    Parameters
    ----------
    problem: the answer; its kind is in REMEDIES.
    tries: refusals in a row, 1 or more.
    retry_at_s: when it is asked again, monotonic seconds.
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

    def is_waiting(self, now_s: float) -> bool:
        """True while it is not time to ask again; `now_s` in monotonic seconds."""
        return now_s < self.retry_at_s


def refused(problem: KubeProblem, before: Refusal | None, now_s: float) -> Refusal | None:
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
    return Refusal(
        problem=problem, tries=tries, retry_at_s=now_s + min(RETRY_MAX_S, RETRY_FIRST_S * 2 ** min(tries - 1, 16))
    )
