"""The removal: describe, read StatefulSet and pod by name, barrier, chain, leave as a compare-and-set.

Where watches do not lag, everything between describe and leave is one step: the model beside this one takes it apart
(`simulator.evidence.rounds`), and the order is its business. Where they lag, the barrier is a step of its own here too.
"""

from __future__ import annotations

from collections.abc import Iterator

from .actor import Actor, Step
from .state import DOWN, ENDED, REVIVED, WATCHES, Replica, State

LIVING = "a living member is removed"


class Rounds(Actor):
    """Steps of every process towards a removal."""

    def steps(self, state: State) -> Iterator[Step]:
        """Yield every step of every round."""
        for n, replica in enumerate(state.replicas):
            who = self.who(n)
            if replica.is_decided:
                yield self._leave(state, n, replica, who)
            if replica.mode == DOWN or not replica.has_led:
                continue
            if state.holder and replica.asked != state.holder:
                asked = replica._replace(asked=state.holder, behind=-1, is_decided=False)
                says = f"{who} describes the group: pod {state.holder % REVIVED} holds the id"
                yield Step(says, self.set_replica(state, n, asked))
            if replica.asked and not replica.is_decided and replica.mode == WATCHES:
                yield from self._evidence(state, n, replica, who)

    def _evidence(self, state: State, n: int, replica: Replica, who: str) -> Iterator[Step]:
        if replica.is_rewound and self.rules.notices_old_reads:
            return
        if replica.behind < 0:
            pod = self.visible(state.pod)
            if state.has_twin or state.stateful_set.wanted or (pod is not None and pod.phase != ENDED):
                return
            replica = replica._replace(behind=len(replica.log))
            if self.scenario.lags:
                yield Step(f"{who} reads: the name is not wanted, no living object", self.set_replica(state, n, replica))
                return
        if replica.behind == 0 and self._is_proven(replica):
            decided = replica._replace(behind=-1, is_decided=True)
            says = "brings its watch up to the read" if self.scenario.lags else "reads StatefulSet and pod, sets the barrier"
            yield Step(f"{who} {says}; the chain is proven dead", self.set_replica(state, n, decided))

    def _is_proven(self, replica: Replica) -> bool:
        """At least one incarnation, all of them dead, and no span open."""
        return bool(replica.known) and not replica.known & ~replica.dead and not replica.spans

    def _leave(self, state: State, n: int, replica: Replica, who: str) -> Step:
        over = self.set_replica(state, n, replica._replace(asked=0, behind=-1, is_decided=False))
        if state.holder != replica.asked:
            return Step(f"LeaveGroup of {who} arrives: FENCED_INSTANCE_ID or UNKNOWN_MEMBER_ID", over)
        own = 1 << state.holder % REVIVED
        is_alive = bool(state.alive & own) and (state.holder > REVIVED or not state.revived & own)
        # A classic removal may be lost by a fail-over, too.
        after = over._replace(holder=0)
        return Step(f"LeaveGroup of {who} arrives: removed", after, LIVING if is_alive else "", removes=True)
