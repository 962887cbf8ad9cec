"""One move of the world or of the operator, and the two ways in which a move may change the state."""

from __future__ import annotations

from typing import Any, NamedTuple

from .objects import Pod
from .policy import Policy
from .questions import Event
from .state import BROKEN, NO_ROUND, RESTART, REWOUND, Process, Replica, State
from .variant import Variant


class Move(NamedTuple):
    """A step that one actor may take.

    Parameters
    ----------
    is_fair: happens by itself sooner or later; False for faults and for users' wishes.
    violation: which promise the step breaks; "" when none.
    removes: the coordinator removes a member at the operator's word.
    """

    says: str
    after: State
    is_fair: bool = False
    violation: str = ""
    removes: bool = False


class Actors:
    """What every group of moves needs.

    Parameters
    ----------
    policy: the product's decisions; also tells whether an event changes anything that the operator knows.
    """

    def __init__(self, variant: Variant, policy: Policy) -> None:
        self.variant = variant
        self.policy = policy

    def spend(self, state: State, fault: int) -> tuple[int, ...]:
        """Return `spent` after one more of this fault."""
        return (*state.spent[:fault], state.spent[fault] + 1, *state.spent[fault + 1 :])

    def with_process(self, state: State, uid: int, **changes: Any) -> State:
        """Return the state after a change of one incarnation's process or node."""
        changed = state.processes[uid - 1]._replace(**changes)
        return state._replace(processes=(*state.processes[: uid - 1], changed, *state.processes[uid:]))

    def write(self, state: State, **changes: Any) -> State:
        """Return the state after a write to the pod object; every watch gets an event."""
        if state.pod is None:
            raise ValueError("there is no pod object to write to")
        seq = state.pod.seq + (self.variant.restarts > 0)
        pod = state.pod._replace(seq=seq, **changes)
        return self._published(state._replace(pod=pod), Event(pod, is_deleted=False))

    def create(self, state: State, pod: Pod, process: Process) -> State:
        """Return the state after a new pod object appeared."""
        born = state._replace(pod=pod, processes=(*state.processes, process))
        return self._published(born, Event(pod, is_deleted=False))

    def delete(self, state: State) -> State:
        """Return the state after the pod object was removed, for whatever reason."""
        if state.pod is None:
            raise ValueError("there is no pod object to delete")
        pod = state.pod._replace(seq=state.pod.seq + (self.variant.restarts > 0))
        return self._published(state._replace(pod=None), Event(pod, is_deleted=True))

    def _published(self, state: State, event: Event) -> State:
        replicas = tuple(self._hears(r, event) for r in state.replicas)
        durable = state.durable
        if state.spent[RESTART] < self.variant.restarts:
            durable = durable._replace(history=(*durable.history, event))
        return state._replace(replicas=replicas, durable=durable)

    def _hears(self, replica: Replica, event: Event) -> Replica:
        if replica.watch in (REWOUND, BROKEN):
            return replica
        if self.policy.events_ineffective_may_go:
            latest = replica.book
            for earlier in replica.log:
                latest = self.policy.take(latest, earlier)
            if self.policy.take(latest, event) == latest:
                return replica
        heard = replica._replace(log=(*replica.log, event))
        return heard if self.may_lag(replica) else self.delivered(heard, len(heard.log))

    def may_lag(self, replica: Replica) -> bool:
        """Tell whether it matters when this replica is shown what happens now."""
        return self.variant.lags or self.variant.steps[replica.step] == "barrier and chains"

    def delivered(self, replica: Replica, count: int) -> Replica:
        """Return the replica after its watch has shown it the next `count` events."""
        if not count:
            return replica
        book = replica.book
        for event in replica.log[:count]:
            book = self.policy.take(book, event)
        return replica._replace(book=book, log=replica.log[count:])

    def idle(self, replica: Replica) -> Replica:
        """Return the replica without a round, shown what it need not lag behind any more."""
        over = replica._replace(step=0, round=NO_ROUND)
        return over if self.variant.lags else self.delivered(over, len(over.log))

    def set_replica(self, state: State, n: int, replica: Replica) -> State:
        """Return the state after one replica moved."""
        return state._replace(replicas=(*state.replicas[:n], replica, *state.replicas[n + 1 :]))
