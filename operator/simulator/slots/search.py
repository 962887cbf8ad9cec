"""Breadth-first search through every state, with the shortest trace to two living processes with one slot."""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass

from staticgroup.core.slots.hand_out import passes_on

from .moves import Rule, has_two_of_one, moves
from .state import Known, Pod, Scenario, State, canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search found.

    Parameters
    ----------
    given: moves by which a pod was given a slot that another one had before.
    trace: the shortest way to two processes with one slot, a sentence a step; () where there is none.
    is_exhausted: every state was visited.
    """

    scenario: str
    states: int
    given: int
    seconds: float
    trace: tuple[str, ...] = ()
    is_exhausted: bool = True


def start(c: Scenario) -> State:
    """Return the state before the first pod."""
    return State(
        pods=(Pod(),) * c.pods,
        known=((Known(),) * c.pods,) * c.operators,
        is_blind=(False,) * c.operators,
        patches=(),
        left=c.left,
    )


def search(c: Scenario, rule: Rule = passes_on) -> Found:
    """Visit every reachable state, or stop at the first in which two living processes have one slot."""
    began_s = time.process_time()
    first = canonical(start(c))
    seen, order, parents = {first}, [first], array("l", [-1])
    at = given = 0
    trace: tuple[str, ...] = ()
    while at < len(order) and len(order) <= c.states_max and not trace:
        s = order[at]
        for _, then in moves(s, c, rule):
            given += _passes_on(s, then)
            after = canonical(then)
            if after in seen:
                continue
            seen.add(after)
            order.append(after)
            parents.append(at)
            if has_two_of_one(after):
                trace = _way(c, rule, order, parents)
                break
        at += 1
    return Found(
        scenario=c.name, states=len(order), given=given, seconds=time.process_time() - began_s, trace=trace,
        is_exhausted=not trace and at == len(order),
    )  # fmt: skip


def _passes_on(s: State, then: State) -> bool:
    """Return True where a pod starts with a slot that another one had."""
    started = (new.slot for old, new in zip(s.pods, then.pods, strict=True) if new.slot != old.slot)
    return any(slot and sum(pod.note == slot for pod in s.pods) > 1 for slot in started)


def _way(c: Scenario, rule: Rule, order: list[State], parents: array[int]) -> tuple[str, ...]:
    """Say which moves led to the last state; pods and slots keep their names throughout."""
    chain = [len(order) - 1]
    while parents[chain[-1]] >= 0:
        chain.append(parents[chain[-1]])
    s, steps = start(c), []
    for to in reversed(chain[:-1]):
        says, s = next((says, then) for says, then in moves(s, c, rule) if canonical(then) == order[to])
        steps.append(says)
    return tuple(steps)
