"""For how long a member was away: from the end of its process until the group had it back.

A group waits for the member, not for the container. An absence begins when the process of a member ends and ends with
its next return to the group, however often the process started in between: a crash loop that never joins is one
absence, and a container that runs without joining is still away. Whether the group let it pass is what the
coordinator's own members showed, not what a timeout suggests. A member that becomes unwanted while away is not away for
a restart: whether it comes back depends on who scales up.

Two clocks: the end of a process has the kubelet's time, the return lies between two readings of the group. An end was
never later than when the operator saw it, and nothing lies further back than `SKEW_MS`. Where either end is only known
to more than `UNSEEN_MS`, nobody knows how long the member was away, and the absence is *blind*.

The operator measures so (`core.absences.measure`), and the fleet learner reads journals so; example facts and their
meaning are in docs/reference/journal/absences.json, the definition as plain code in
tests/support/absence_definition.py.
Sources: KIP-345 (a static member is away until another member.id holds its id); Kafka's session timer, which runs
from the last heartbeat; Turnbull 1976 for durations that are known between bounds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

SKEW_MS: Final = 900_000
"""Nothing happened longer than this before it was seen: an older time is a clock that is wrong."""
UNSEEN_MS: Final = 60_000
"""An end or a return that is known only to more than this does not make a duration: twelve readings of the group."""


class EndKind(StrEnum):
    """Say how an absence ended, as far as anybody knows.

    RETURNED: the group had the member back; `gap_ms` is known. The other four are censored, `gap_ms` is a lower bound:
    REMOVED (the operator removed the member), DEPARTED (nobody wanted it any more, and it was not removed until it came
    back or the window ended), OPEN (still away at the end of the window), BLIND (nobody watched for part of it, or its
    begin or its end is not known well enough).
    """

    RETURNED = "returned"
    REMOVED = "removed"
    DEPARTED = "departed"
    OPEN = "open"
    BLIND = "blind"
