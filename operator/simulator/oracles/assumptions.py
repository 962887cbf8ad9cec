"""The assumptions under which no live member is fenced, and which a pod has broken: docs/adr/0018-carriers.md.

* A1: no process of a pod that no operator remembers joins later than `settle` after the pod watch is whole.
* A2: no process of a pod whose object is gone joins again after it held none of its seats for `settle`.
* A4: a restore of etcd is seen.

A live member that is removed in such a case is reported and counted apart from violations. Everything is measured at
the coordinator and the API server, except since when an operator watches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

SAMPLED_EVERY_S: Final = 1.0
SLACK_S: Final = 2 * SAMPLED_EVERY_S


class Assumption(StrEnum):
    """Which assumption a pod has broken."""

    A1 = "A1"
    A2 = "A2"
    A4 = "A4"


@dataclass(slots=True)
class Held:
    """A time in which processes of one pod held a seat, in virtual seconds."""

    from_s: float
    to_s: float


@dataclass(slots=True, kw_only=True)
class Assumptions:
    """What pods have done since they were out of sight.

    Parameters
    ----------
    settle_s: the operators' setting.

    Attributes
    ----------
    watched_since_s: since when each pod watch has been whole. unseen_s: when etcd was restored and no operator saw it.
    """

    settle_s: float
    watched_since_s: list[float] = field(default_factory=list)
    unseen_s: list[float] = field(default_factory=list)
    _held: dict[str, list[Held]] = field(default_factory=dict)

    def watch_began(self, at_s: float) -> None:
        """Note that a pod watch has been whole since a moment."""
        if all(abs(at_s - known_s) >= SAMPLED_EVERY_S for known_s in self.watched_since_s):
            self.watched_since_s.append(at_s)

    def looked(self, now_s: float, holders: Iterable[str]) -> None:
        """Note which pods hold a seat of the group now; by their uids."""
        for uid in set(holders):
            times = self._held.setdefault(uid, [])
            if times and now_s - times[-1].to_s <= SLACK_S:
                times[-1].to_s = now_s
            else:
                times.append(Held(now_s, now_s))

    def paused(self, now_s: float) -> None:
        """Note that the group has no coordinator now: its members are taken to hold their seats still."""
        for times in self._held.values():
            if now_s - times[-1].to_s <= SLACK_S:
                times[-1].to_s = now_s

    def broken_by(self, uid: str, gone_s: float, joined_s: float) -> Assumption | None:
        """Return which assumption a pod has broken by joining; None: it has kept all of them.

        Parameters
        ----------
        gone_s: since when its object has been gone, virtual seconds; infinite while it is there.
        joined_s: see `joined_s`.
        """
        if gone_s == math.inf:
            return None
        if any(gone_s <= at_s for at_s in self.unseen_s):
            return Assumption.A4
        if self.was_silent(uid, gone_s, joined_s):
            return Assumption.A2
        if self.is_forgotten(gone_s, joined_s):
            return Assumption.A1
        return None

    def joined_s(self, uid: str, born_s: float, until_s: float) -> float:
        """Return since when a pod has held a seat without a pause, and not before the member's id was made.

        Parameters
        ----------
        born_s: when that was, virtual seconds.
        until_s: now, or when the member's process ended: a coordinator that has lost the write of a leave shows the
            member again, and nobody joins by that.
        """
        times = [held for held in self._held.get(uid, ()) if held.from_s <= until_s]
        since_s = times[-1].from_s if times and until_s - times[-1].to_s <= SLACK_S else until_s
        return max(born_s, since_s)

    def was_silent(self, uid: str, gone_s: float, until_s: float) -> bool:
        """True when a pod out of sight held no seat for `settle` at a stretch before a moment."""
        silent_s = gone_s
        for held in self._held.get(uid, ()):
            if min(held.from_s, until_s) - silent_s >= self.settle_s - SLACK_S:
                return True
            silent_s = max(silent_s, held.to_s)
        return until_s - silent_s >= self.settle_s - SLACK_S

    def is_forgotten(self, gone_s: float, joined_s: float) -> bool:
        """True when a pod watch began after a pod was gone, and was whole for `settle` before it joined."""
        return any(
            gone_s < since_s and joined_s - since_s >= self.settle_s - SLACK_S for since_s in self.watched_since_s
        )
