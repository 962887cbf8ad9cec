"""What must hold of the slots of Deployments: nobody else has a pod's id while it lives, and no pod waits for ever."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from .promises import Violation

WAITS_MAX_S: Final = 480.0
"""A pod waits for 300 s since a slot was last given, and for what a pod of its Deployment takes to start and to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One pod whose waiter runs on a machine that works.

    Parameters
    ----------
    deployment: namespace and name. since_s: virtual seconds.
    """

    deployment: tuple[str, str]
    since_s: float


@dataclass(slots=True)
class SlotPromises:
    """S15 and L6, asked when a process starts and at every sample."""

    on_violation: Callable[[Violation], None]
    _before: Mapping[str, Waiting] = field(default_factory=dict)
    _went_on_s: dict[tuple[str, str], float] = field(default_factory=dict)
    _late: set[str] = field(default_factory=set)

    def started(self, at_s: float, given: str, uid: str, others: Collection[str]) -> None:
        """Judge a process that was given an id of a slot: S15.

        Parameters
        ----------
        others: uids of the pods, but its own, of which a process with the same id runs, frozen or not.
        """
        if others:
            message = f"pod {uid[:8]} starts as {given}, which lives in {', '.join(o[:8] for o in sorted(others))}"
            self.on_violation(Violation("S15", at_s, message))

    def sampled(self, at_s: float, waits: Mapping[str, Waiting]) -> None:
        """Judge how long pods wait, since the last one of their Deployment went on: L6.

        Parameters
        ----------
        waits: by the uid of the pod.
        """
        for uid, wait in self._before.items():
            if uid not in waits:
                self._went_on_s[wait.deployment] = at_s
        self._before = dict(waits)
        for uid, wait in waits.items():
            since_s = max(wait.since_s, self._went_on_s.get(wait.deployment, wait.since_s))
            if at_s - since_s > WAITS_MAX_S and uid not in self._late:
                self._late.add(uid)
                message = f"pod {uid[:8]} has waited for a slot for {at_s - since_s:.0f} s"
                self.on_violation(Violation("L6", at_s, message))
