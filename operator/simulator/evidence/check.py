"""Breadth-first search through every reachable state, with the shortest trace to each broken promise."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from staticgroup.core.evidence.chain import IncarnationState

from .continuity.model import ContinuityModel
from .continuity.scenario import Scenario
from .kafka import Kafka
from .kubernetes import Kubernetes
from .move import Move
from .nodes.model import NodeModel
from .nodes.scenario import NodeScenario
from .objects import FAILED, uid_of
from .policy import Policy
from .rounds import Operator
from .state import CONTINUOUS, State, canonical, initial, is_alive
from .variant import Variant

STATES_MAX = 1_000_000
STUCK = "a departure that can be proven never ends in a removal"
GAVE_UP = "the search gave up"
"""Stands where a broken promise would, and breaks none."""

_State = TypeVar("_State")
_State_co = TypeVar("_State_co", covariant=True)


class Step(Protocol[_State_co]):
    """What a search reads of one move; see `move.Move`."""

    @property
    def says(self) -> str:
        """One sentence of a trace."""

    @property
    def after(self) -> _State_co:
        """The state that it leads to."""

    @property
    def violation(self) -> str:
        """The promise that it breaks; "" when none."""

    @property
    def removes(self) -> bool:
        """Whether a member is removed at the operator's word."""

    @property
    def is_fair(self) -> bool:
        """Whether it happens by itself sooner or later."""


class Searchable(Protocol[_State]):
    """What a search needs of a model.

    Parameters
    ----------
    name: of the variant. progress: ask too that every state in which `must_end` is true reaches a removal by fair moves.
    start: where it begins.
    """

    name: str
    progress: bool
    start: _State

    def moves(self, state: _State) -> Iterator[Step[_State]]:
        """Yield every move of every actor."""

    def canonical(self, state: _State) -> _State:
        """Return the state that stands for all that differ by names only."""

    def must_end(self, state: _State) -> bool:
        """Tell whether a removal must follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
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
        self.name = variant.name
        self.progress = variant.progress
        self.start = initial(variant)
        self.policy = Policy(variant)
        self._actors = (Kubernetes(variant, self.policy), Kafka(variant, self.policy), Operator(variant, self.policy))

    def moves(self, state: State) -> Iterator[Move]:
        """Yield every move of every actor."""
        for actor in self._actors:
            yield from actor.moves(state)

    def canonical(self, state: State) -> State:
        """Return the state that stands for all that differ by names only."""
        return canonical(state)

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


class _Search:
    """One search under way.

    Parameters
    ----------
    states_max: gives up after so many states.
    """

    def __init__(self, model: Searchable[Any], states_max: int) -> None:
        self._model = model
        self._states_max = states_max
        self._began_s = time.process_time()
        self._order: list[Any] = [model.start]
        self._found: dict[Any, int] = {model.start: 0}
        self._graph = _Graph()
        self._transitions = self._removals = self._depth = 0

    def outcome(self, violation: str = "", trace: tuple[str, ...] = (), departures: int = 0) -> SearchResult:
        """Return what was found so far; complete unless something was violated."""
        return SearchResult(
            variant=self._model.name,
            states=len(self._order),
            transitions=self._transitions,
            depth=self._depth,
            seconds=time.process_time() - self._began_s,
            violation=violation,
            trace=trace,
            removals=self._removals,
            departures=departures,
            is_complete=not violation,
        )

    def run(self) -> SearchResult:
        """Visit every reachable state, or stop at the first broken promise."""
        at, level_end = 0, 1
        while at < len(self._order):
            if at == level_end:
                self._depth, level_end = self._depth + 1, len(self._order)
            for move in self._model.moves(self._order[at]):
                self._transitions += 1
                if move.violation or len(self._order) > self._states_max:
                    why = move.violation or f"{GAVE_UP} after {self._states_max} states"
                    return self.outcome(why, (*self._graph.trace(at), move.says))
                self._follow(at, move)
            at += 1
        return self._with_departures() if self._model.progress else self.outcome()

    def _follow(self, at: int, move: Step[Any]) -> None:
        after = self._model.canonical(move.after)
        to = self._found.get(after)
        if to is None:
            to = self._found[after] = len(self._order)
            self._order.append(after)
            self._graph.parents.append((at, move.says))
        if move.removes:
            self._removals += 1
            self._graph.ends.append(at)
        elif self._model.progress and move.is_fair and to != at:
            self._graph.causes.setdefault(to, []).append(at)

    def _with_departures(self) -> SearchResult:
        ending = self._graph.ending()
        departures = 0
        for number, state in enumerate(self._order):
            if self._model.must_end(state):
                departures += 1
                if number not in ending:
                    return self.outcome(STUCK, self._graph.trace(number), departures)
        return self.outcome(departures=departures)


def search(variant: Variant | Scenario | NodeScenario, *, states_max: int = STATES_MAX) -> SearchResult:
    """Visit every reachable state of a variant or scenario, or stop at the first broken promise.

    Parameters
    ----------
    states_max: gives up after so many states; a complete search stays below.
    """
    model: Searchable[Any]
    if isinstance(variant, NodeScenario):
        model = NodeModel(variant)
    else:
        model = ContinuityModel(variant) if isinstance(variant, Scenario) else Model(variant)
    return _Search(model, states_max).run()
