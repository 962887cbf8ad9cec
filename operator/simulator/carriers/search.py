"""Breadth-first search through every reachable state, with the shortest trace to a live removal."""

from __future__ import annotations

import re
import time
from array import array
from collections.abc import Callable, Iterator

from .found import Found
from .operators import is_by_assumption, leave, of_operators, of_rounds
from .pods import RUNS
from .product import Product
from .reduction import without_history
from .scenario import Scenario
from .state import Backup, Pod, Position, Process, State, canonical
from .world import of_brokers, of_pods, of_processes

PROGRESS_EVERY = 100_000


class Model:
    """All moves of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.product = Product(is_consumer=scenario.is_consumer, are_reused=scenario.are_reused)

    @property
    def start(self) -> State:
        """The watch is whole, and the pod that runs, if any does, holds the seat."""
        c = self.scenario
        number = 0 if c.starts_empty else 1
        memory = self.product.remembered(carriers=(number,) if number else (), watch=1)
        seen = ((number, RUNS),) if number else ()
        status, pod, position = self.product.written(memory), Pod(number) if number else None, Position(1, seen)
        backup = Backup(pod, 1, status, number, position) if c.has_backup else None
        return State(
            wanted=1, scaled=0, pod=pod, born=number,
            processes=(Process(number, 1, 1 if c.is_consumer else 0),) if number else (), holder=number, before=number,
            stored=number, away=False,
            host=number if c.shows_hosts else 0, events=(), gap=False, seen=seen, memory=memory, known=number, former=0,
            ended_since=False, watch=1, watches=1,
            status=status, status_known=number, position=position, backup=backup, standby=None, step=0, asked=0,
            is_stale=False, deposed=0, removed=0, off=0, is_broken=False, left=c.left,
        )  # fmt: skip

    def moves(self, s: State) -> Iterator[tuple[str, State, int]]:
        """Yield every move, with the member whose removal is sent; 0: none."""
        c = self.scenario
        for moves in (of_pods(s, c), of_processes(s, c), of_brokers(s, c), of_operators(s, c, self.product)):
            for says, after in moves:
                yield says, after, 0
        yield from of_rounds(s, c, self.product)

    def canonical(self, s: State) -> State:
        """Return the state that stands for all from which the same can follow."""
        return canonical(without_history(s, self.scenario, self.product))


def search(scenario: Scenario, *, progress: Callable[[int, float], None] | None = None) -> Found:
    """Visit every reachable state, or stop at the first live removal outside of the assumptions."""
    began_s = time.process_time()
    model = Model(scenario)
    start = model.canonical(model.start)
    numbers: dict[State, int] = {start: 0}
    order, parents = [start], array("l", [-1])
    removals = inside = at = 0
    trace: tuple[str, ...] = ()
    inside_trace: tuple[str, ...] = ()
    while at < len(order) and len(order) <= scenario.states_max and not trace:
        s = order[at]
        for says, sent, member in model.moves(s):
            after = sent
            if member:
                after, lives = leave(sent, member)
                removals += lives is False
                if lives and is_by_assumption(s, member) and s.removed != member:
                    inside, inside_trace = inside + 1, inside_trace or _way(model, order, parents, at, says)
                elif lives:
                    trace = _way(model, order, parents, at, says)
                    break
            after = model.canonical(after)
            if after not in numbers:
                numbers[after] = len(order)
                order.append(after)
                parents.append(at)
        at += 1
        if progress is not None and at % PROGRESS_EVERY == 0:
            progress(at, time.process_time() - began_s)
    return Found(
        scenario=scenario.name, states=len(order), removals=removals, inside=inside,
        seconds=time.process_time() - began_s,
        questions=model.product.questions, trace=trace, inside_trace=inside_trace,
        is_exhausted=not trace and at == len(order),
    )  # fmt: skip


def _way(model: Model, order: list[State], parents: array[int], at: int, last: str) -> tuple[str, ...]:
    """Say which moves led to a state, and to the removal that follows; members keep their names throughout.

    Parameters
    ----------
    last: what removes, with the names of the canonical state.
    """
    chain = [at]
    while parents[chain[-1]] >= 0:
        chain.append(parents[chain[-1]])
    s, steps = model.start, []
    for to in reversed(chain[:-1]):
        says, s = next(
            (says, after)
            for says, sent, member in model.moves(s)
            if model.canonical(after := leave(sent, member)[0]) == order[to]
        )
        steps.append(says)
    says = next(says for says, _, member in model.moves(s) if member and _shape(says) == _shape(last))
    return (*steps, f"{says}  <-- LIVE")


def _shape(says: str) -> str:
    """Return a sentence without the numbers of its members."""
    return re.sub(r"m\d+", "m", says)
