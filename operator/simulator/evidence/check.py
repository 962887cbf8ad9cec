"""Breadth-first search through every reachable state, with the shortest trace to each broken promise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from staticgroup.core.chain import IncarnationState

from .kafka import Kafka
from .move import Move
from .objects import FAILED, uid_of
from .policy import Policy
from .rounds import Operator
from .state import CONTINUOUS, State, canonical, initial, is_alive
from .variant import Variant
from .world import World

STATES_MAX = 1_000_000
STUCK = "a departure that can be proven never ends in a removal"
GAVE_UP = "the search gave up"
"""Stands where a broken promise would, and breaks none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a search found.

    Parameters
    ----------
    violation: the broken promise; "" when every reachable state keeps them all.
    trace: the shortest way there, one sentence a step.
    removals: transitions that remove a dead member; none would make the search hollow, unless nothing may be removed.
    departures: states from which a removal was shown to follow without a session expiring; 0 where not asked.
    is_complete: False when the search stopped at a violation or at its limit.
    """

    variant: str
    states: int
    transitions: int
    depth: int
    seconds: float
    violation: str = ""
    trace: tuple[str, ...] = ()
    removals: int = 0
    departures: int = 0
    is_complete: bool = True

    @property
    def breaks_promise(self) -> bool:
        """True when a promise is broken; a search that gave up has shown nothing."""
        return bool(self.violation) and not self.violation.startswith(GAVE_UP)


class Model:
    """All moves of all actors of one variant."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.policy = Policy(variant)
        self._actors = (World(variant, self.policy), Kafka(variant, self.policy), Operator(variant, self.policy))

    def moves(self, state: State) -> Iterator[Move]:
        """Yield every move of every actor."""
        for actor in self._actors:
            yield from actor.moves(state)

    def must_end(self, state: State) -> bool:
        """Tell whether a dead member is departed, and all evidence for it is there or on its way.

        That is: each incarnation is proven dead, or its object still exists and its kubelet is connected
        and has yet to post the end. Everything else may rightly wait for the session.
        """
        if state.wanted or state.suspended or any(r.watch != CONTINUOUS for r in state.replicas):
            return False
        if not any(s.holder and not is_alive(state, s.holder) for s in state.seats):
            return False
        pod = state.pod
        is_due = pod is not None and pod.phase != FAILED and state.processes[pod.uid - 1].linked
        live = uid_of(pod.uid) if pod is not None and is_due else ""
        return all(
            i.state is IncarnationState.DEAD or (i.state is IncarnationState.LIVE and i.uid == live)
            for r in state.replicas
            for i in self.policy.incarnations(r.book, r.log)
        )


@dataclass(slots=True)
class _Graph:
    """What the search has found so far; `causes` are the fair moves backwards, kept only where progress is asked for."""

    parents: list[tuple[int, str]] = field(default_factory=lambda: [(-1, "")])
    causes: dict[int, list[int]] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)

    def trace(self, at: int) -> tuple[str, ...]:
        steps: list[str] = []
        while at > 0:
            at, says = self.parents[at]
            steps.append(says)
        return tuple(reversed(steps))

    def ending(self) -> set[int]:
        """Return every state from which fair moves alone can lead to a removal."""
        reached = set(self.ends)
        due = list(self.ends)
        while due:
            for cause in self.causes.get(due.pop(), ()):
                if cause not in reached:
                    reached.add(cause)
                    due.append(cause)
        return reached


def search(variant: Variant, *, states_max: int = STATES_MAX) -> Outcome:
    """Visit every reachable state of a variant, or stop at the first broken promise.

    Parameters
    ----------
    states_max: gives up after so many states; a complete search stays below.
    """
    began_s = time.process_time()
    model = Model(variant)
    start = initial(variant)
    found: dict[State, int] = {start: 0}
    order = [start]
    graph = _Graph()
    transitions = removals = depth = departures = at = 0
    level_end = 1

    def outcome(violation: str, trace: tuple[str, ...], *, is_complete: bool) -> Outcome:
        return Outcome(
            variant=variant.name,
            states=len(order),
            transitions=transitions,
            depth=depth,
            seconds=time.process_time() - began_s,
            violation=violation,
            trace=trace,
            removals=removals,
            departures=departures,
            is_complete=is_complete,
        )

    while at < len(order):
        if at == level_end:
            depth, level_end = depth + 1, len(order)
        for move in model.moves(order[at]):
            transitions += 1
            if move.violation or len(order) > states_max:
                why = move.violation or f"{GAVE_UP} after {states_max} states"
                return outcome(why, (*graph.trace(at), move.says), is_complete=False)
            after = canonical(move.after)
            to = found.get(after)
            if to is None:
                to = found[after] = len(order)
                order.append(after)
                graph.parents.append((at, move.says))
            if move.removes:
                removals += 1
                graph.ends.append(at)
            elif variant.progress and move.is_fair and to != at:
                graph.causes.setdefault(to, []).append(at)
        at += 1
    if variant.progress:
        ending = graph.ending()
        for number, state in enumerate(order):
            if model.must_end(state):
                departures += 1
                if number not in ending:
                    return outcome(STUCK, graph.trace(number), is_complete=False)
    return outcome("", (), is_complete=True)
