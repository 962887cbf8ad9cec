"""One step of the model, and what all who take steps share: publishing a version, showing it, spending a fault."""

from __future__ import annotations

from typing import Any, NamedTuple

from .scenario import Scenario
from .state import BROKEN, DOWN, ENDED, RUNS, Pod, Replica, State, bit


class Step(NamedTuple):
    """A step that somebody may take.

    Parameters
    ----------
    violation: the promise that it breaks; "" when none. removes: the coordinator removes a member at the operator's word.
    """

    says: str
    after: State
    violation: str = ""
    removes: bool = False
    is_fair: bool = False


class Actor:
    """What every group of steps needs."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.rules = scenario.rules

    def has(self, fault: str) -> bool:
        """Tell whether a fault is part of this exploration at all."""
        return bool(self.scenario.faults.get(fault))

    def who(self, n: int) -> str:
        """Return what a trace calls a process."""
        return f"operator {n + 1}" if self.scenario.operators > 1 else "operator"

    def spend(self, state: State, fault: int) -> tuple[int, ...]:
        """Return `left` after one more of this fault."""
        return (*state.left[:fault], state.left[fault] - 1, *state.left[fault + 1 :])

    def set_replica(self, state: State, n: int, replica: Replica, **more: Any) -> State:
        """Return the state after one process moved."""
        return state._replace(replicas=(*state.replicas[:n], replica, *state.replicas[n + 1 :]), **more)

    def visible(self, pod: Pod | None) -> Pod | None:
        """Return the object as a read, a LIST or a watch shows it."""
        return pod if pod is not None and self.rules.is_seen(pod) else None

    def shown(self, replica: Replica, pod: Pod | None) -> Replica:
        """Return the process after its watch has shown it a version; None: no object any more."""
        pod = self.visible(pod)
        if pod is None:
            return replica._replace(pod=None, is_born=False)
        own = bit(pod)
        is_same = replica.pod is not None and replica.pod.uid == pod.uid
        is_born = (replica.is_born if is_same else not replica.known & own) and pod.phase not in (RUNS, ENDED)
        dead = replica.dead | own if self.rules.certifies(pod, is_born) else replica.dead
        return replica._replace(pod=pod, known=replica.known | own, dead=dead, is_born=is_born)

    def published(self, state: State, pod: Pod | None, **more: Any) -> State:
        """Return the state after a write to the object; what watches is shown it, or will be."""
        replicas = tuple(self._told(state, r, pod) for r in state.replicas)
        return state._replace(pod=pod, replicas=replicas, **more)

    def _told(self, state: State, replica: Replica, pod: Pod | None) -> Replica:
        is_cut_off = replica.is_rewound and self.rules.notices_old_reads
        if replica.mode == BROKEN or is_cut_off:
            return replica
        if replica.mode == DOWN:
            # Nobody watches; but what a stored position lets the next process replay is followed here.
            resumes = state.lease is not None and state.lease.epoch == replica.epoch
            return self.shown(replica, pod) if resumes else replica
        if self.scenario.lags:
            return replica._replace(log=(*replica.log, pod))
        return self.shown(replica, pod)
