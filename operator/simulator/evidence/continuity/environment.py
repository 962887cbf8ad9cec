"""What happens in the world: users, the StatefulSet controller, kubelets, others who write pods, clients, etcd.

Sources: the StatefulSet controller writes status.observedGeneration when it has acted on that generation; Kubelet.rejectPod
writes a status without containers; a force delete removes an object at once; KIP-345 for joins; etcdutl snapshot restore
for what a restore brings back.
"""

from __future__ import annotations

from collections.abc import Iterator

from .actor import Actor, Step
from .scenario import (
    CLAIM,
    FAIL_OVER,
    FORCE,
    HAND,
    POD_WORD,
    RECREATION,
    REJECTION,
    ROLL,
    STALE_CONTROLLER,
    STRIP,
    TOGGLE,
    TWIN,
    WORD,
)
from .state import CLAIMED, ENDED, ERASED, REVIVED, RUNS, STARTING, Pod, State, StatefulSet, bit


class Environment(Actor):
    """Steps of everybody but the operator and etcd."""

    def steps(self, state: State) -> Iterator[Step]:
        """Yield every step that somebody may take."""
        yield from self._users(state)
        yield from self._controller(state)
        if state.pod is not None:
            yield from self._object(state, state.pod)
        yield from self._processes(state)
        if self.has("word") or self.has("pod word"):
            yield from self._words(state)

    # users ----------------------------------------------------------------------------------------------------------

    def _users(self, state: State) -> Iterator[Step]:
        now, left = state.stateful_set, state.left
        if left[TOGGLE]:
            after = now._replace(generation=now.generation + 1, wanted=not now.wanted)
            yield Step(
                f"user scales {'down' if now.wanted else 'up'}",
                state._replace(stateful_set=self._observed(after), left=self.spend(state, TOGGLE)),
            )
        if left[RECREATION]:
            after = StatefulSet(uid=now.uid + 1, generation=1, observed=0, wanted=not now.wanted)
            yield Step(
                f"user deletes the StatefulSet, its pods stay, and creates it {'larger' if after.wanted else 'smaller'}",
                state._replace(stateful_set=self._observed(after), left=self.spend(state, RECREATION)),
            )
        if left[TWIN] and not state.has_twin:
            says = "user makes another StaticGroup that issues the same ids"
            yield Step(says, state._replace(has_twin=True, left=self.spend(state, TWIN)))

    def _observed(self, after: StatefulSet) -> StatefulSet:
        return after if self.scenario.is_lagging_controller else after._replace(observed=after.generation)

    # controllers and others who create ------------------------------------------------------------------------------

    def _controller(self, state: State) -> Iterator[Step]:
        now, left = state.stateful_set, state.left
        if now.observed != now.generation:
            yield Step(
                f"controller acts on generation {now.generation}, and reports it",
                state._replace(stateful_set=now._replace(observed=now.generation)),
            )
        if state.pod is not None or state.born == self.scenario.pods:
            return
        uid = state.born + 1
        # One of two generations in a row has the name inside its range, and the controller may act on either.
        if now.wanted or now.observed != now.generation:
            yield self._created(state, f"StatefulSet creates pod {uid}", Pod(uid))
        elif left[STALE_CONTROLLER]:
            says = f"a StatefulSet controller that has gone back in time creates pod {uid}"
            yield self._created(state._replace(left=self.spend(state, STALE_CONTROLLER)), says, Pod(uid))
        if left[HAND]:
            says = f"somebody creates pod {uid} by hand, without labels"
            yield self._created(state._replace(left=self.spend(state, HAND)), says, Pod(uid, labelled=False))

    def _created(self, state: State, says: str, pod: Pod) -> Step:
        own = bit(pod)
        if self.scenario.is_slow:
            return Step(says, self.published(state, pod, born=pod.uid))
        return Step(says, self.published(state, pod._replace(phase=RUNS), born=pod.uid, alive=state.alive | own))

    # the object -----------------------------------------------------------------------------------------------------

    def _object(self, state: State, pod: Pod) -> Iterator[Step]:
        left, own, uid = state.left, bit(pod), pod.uid
        is_alive = bool(state.alive & own)
        if pod.phase == STARTING and not is_alive:
            yield Step(f"kubelet starts pod {uid}", state._replace(alive=state.alive | own))
        if pod.phase == STARTING and is_alive:
            yield Step(f"kubelet posts pod {uid} as running", self.published(state, pod._replace(phase=RUNS)))
        if pod.phase == RUNS:
            after = self.published(state, pod._replace(phase=ENDED), alive=state.alive & ~own)
            if not state.stateful_set.wanted:
                yield Step(f"pod {uid} is deleted; its kubelet ends it and posts so", after)
            elif left[ROLL]:
                says = f"pod {uid} is replaced in place: its kubelet ends it and posts so"
                yield Step(says, after._replace(left=self.spend(state, ROLL)))
            if left[REJECTION]:
                says = f"kubelet restarts and rejects running pod {uid}: Failed, no container statuses"
                after = self.published(state, pod._replace(phase=ERASED))
                yield Step(says, after._replace(left=self.spend(state, REJECTION)))
            if left[CLAIM]:
                says = f"a controller writes phase Failed on running pod {uid}"
                after = self.published(state, pod._replace(phase=CLAIMED))
                yield Step(says, after._replace(left=self.spend(state, CLAIM)))
        if pod.phase in (ENDED, ERASED, CLAIMED):
            yield Step(f"the object of pod {uid} goes", self.published(state, None))
        if left[FORCE] and pod.phase in (STARTING, RUNS):
            after = self.published(state, None)
            yield Step(f"user force-deletes pod {uid}", after._replace(left=self.spend(state, FORCE)))
        if left[STRIP] and pod.labelled:
            after = self.published(state, pod._replace(labelled=False))
            yield Step(f"somebody takes the labels of pod {uid} away", after._replace(left=self.spend(state, STRIP)))

    # processes and the coordinator ----------------------------------------------------------------------------------

    def _processes(self, state: State) -> Iterator[Step]:
        reaped = self._owed(state) if self.has("word") or self.has("pod word") else 0
        for uid in range(1, state.born + 1):
            own = 1 << uid
            if not state.alive & own:
                continue
            joined = uid + REVIVED if state.revived & own else uid
            if state.holder != joined:
                stored = state.holder if self.has("fail-over") else 0
                yield Step(f"the process of pod {uid} joins", state._replace(holder=joined, stored=stored))
            if reaped & own:
                yield Step(f"a kubelet reaps the process of pod {uid}", state._replace(alive=state.alive & ~own))
        if state.left[FAIL_OVER] and state.stored != state.holder:
            after = state._replace(holder=state.stored, left=self.spend(state, FAIL_OVER))
            yield Step("the coordinator fails over and has lost its last write", after)

    def _owed(self, state: State) -> int:
        """Return the pods about whose end a word could be said; of no others does it matter whether they still run."""
        owed = 0
        for holder in (*state.replicas, state.status):
            for span in holder.spans if holder is not None else ():
                owed |= span.hides
        for replica in state.replicas if state.left[POD_WORD] else ():
            owed |= replica.known & ~replica.dead
        return owed & ~bit(state.pod)

    # words ----------------------------------------------------------------------------------------------------------

    def _words(self, state: State) -> Iterator[Step]:
        """Let a person say what is true: of a pod, that it has ended; of a span, that what came and went in it has."""
        if state.left[POD_WORD]:
            for uid in range(1, state.born + 1):
                own = 1 << uid
                if not (state.alive | state.confirmed | bit(state.pod)) & own:
                    after = state._replace(confirmed=state.confirmed | own, left=self.spend(state, POD_WORD))
                    yield Step(f"a person says that pod {uid} has ended", self._heard(after))
        if state.left[WORD]:
            owed = {s for r in state.replicas for s in r.spans} | set(state.status.spans if state.status else ())
            for span in sorted(owed):
                if not span.hides & state.alive and span.number not in state.said:
                    said = tuple(sorted((*state.said, span.number)))
                    after = state._replace(said=said, left=self.spend(state, WORD))
                    says = f"a person says that all has ended that came and went unseen in span {span.number}"
                    yield Step(says, self._heard(after))

    def _heard(self, state: State) -> State:
        replicas = tuple(
            r._replace(
                dead=r.dead | (state.confirmed & r.known & ~bit(state.pod)),
                spans=tuple(s for s in r.spans if not self.rules.is_closed(s, state)),
            )
            for r in state.replicas
        )
        return state._replace(replicas=replicas)
