"""What pods, kubelets, brokers and clients do."""

from __future__ import annotations

from collections.abc import Iterator

from .pods import DELETED, ENDED, LOST, RUNS
from .scenario import Scenario
from .state import (
    DEAD,
    GONE,
    HOLDS_UNREMEMBERED,
    RUNNING,
    SUSPECTED,
    TERMINATING,
    UNREMEMBERED,
    UNSILENCED,
    Pod,
    Process,
    State,
    emit,
    fresh_member,
)  # fmt: skip

Moves = Iterator[tuple[str, State]]


def spent(s: State, name: str) -> State:
    """Count one fault."""
    return s._replace(left=s.left._replace(**{name: getattr(s.left, name) - 1}))


def of_pods(s: State, c: Scenario) -> Moves:
    """Yield what users, controllers and kubelets do."""
    if s.scaled < c.scalings:
        yield f"scale {'down' if s.wanted else 'up'}", s._replace(wanted=1 - s.wanted, scaled=s.scaled + 1)
    pod = s.pod
    if pod is None:
        if s.wanted and s.born < c.pods:
            number = s.born + 1
            born = s._replace(pod=Pod(number), born=number, processes=(*s.processes, Process(number)))
            yield f"pod {number} is made", emit(born, number, RUNS)
        return
    number = pod.number
    if pod.phase == DEAD:
        yield f"object of pod {number} goes", emit(s._replace(pod=None), number, DELETED)
        return
    if not s.wanted and pod.phase == RUNNING:
        yield f"pod {number} is deleted", s._replace(pod=pod._replace(phase=TERMINATING))
    if pod.phase == TERMINATING:
        yield from _ended(s, c, pod)
    if s.left.force:
        yield f"pod {number} is deleted by FORCE", emit(spent(s._replace(pod=None), "force"), number, DELETED)
    if s.left.lost_run and not pod.has_lost_run:
        lost = tuple(p._replace(pod=-number) if p.pod == number else p for p in s.processes)
        after = spent(s._replace(pod=pod._replace(has_lost_run=True), processes=(*lost, Process(number))), "lost_run")
        yield f"a run of pod {number} is LOST, another one starts", emit(after, number, LOST)


def _ended(s: State, c: Scenario, pod: Pod) -> Moves:
    """Let the kubelet end what it knows of a pod, and say so."""
    ours = [p for p in s.processes if p.pod == pod.number]
    rest = tuple(p for p in s.processes if p.pod != pod.number)
    after = emit(s._replace(pod=pod._replace(phase=DEAD), processes=rest), pod.number, ENDED)
    yield f"pod {pod.number} has ended", after
    if c.is_consumer and s.holder and any(p.member == s.holder for p in ours):
        yield f"pod {pod.number} has ended and left for a while", after._replace(away=True)


def of_processes(s: State, c: Scenario) -> Moves:
    """Yield what clients do, and what becomes of those without an object."""
    for at, p in enumerate(s.processes):
        others = s.processes[:at] + s.processes[at + 1 :]
        who = f"process of pod {abs(p.pod)}"
        if s.pod is None or p.pod != s.pod.number:
            yield f"{who} is killed unseen", s._replace(processes=others)
        if s.left.node and (s.pod is None or abs(p.pod) != s.pod.number) and p.pod > 0:
            off = s._replace(processes=tuple(q for q in s.processes if abs(q.pod) != p.pod), off=s.off | 1 << p.pod)
            yield f"machine of pod {p.pod} is off, its Node goes", spent(off, "node")
        if p.silenced and c.are_silent(p.silenced):
            continue
        if p.member == 0:
            yield from _joins(s, c, p, others, who)
            continue
        if p.member > 0 and p.member != s.holder:
            yield (
                f"{who} is answered that it is no member, joins again",
                s._replace(processes=(*others, p._replace(member=0))),
            )
            if not c.is_consumer:
                yield f"{who} is fenced", s._replace(processes=(*others, p._replace(member=GONE)))
        if p.member == GONE or (p.member > 0 and s.left.crash):
            begun = s._replace(processes=(*others, Process(p.pod, 0, 0, p.silenced)))
            yield f"{who} begins anew", begun if p.member == GONE else spent(begun, "crash")


def _joins(s: State, c: Scenario, p: Process, others: tuple[Process, ...], who: str) -> Moves:
    is_own = bool(p.own) and p.own == s.holder
    if c.is_consumer and s.holder and not s.away and not is_own:
        return  # UNRELEASED_INSTANCE_ID
    member = p.own if c.is_consumer and p.own else fresh_member(s)
    is_first = not s.holder
    after = s._replace(
        processes=(*others, Process(p.pod, member, member if c.is_consumer else 0, _when_joined(p.silenced))),
        before=s.holder, holder=member, stored=member if c.is_consumer else s.stored, away=False,
        host=(p.pod if c.is_consumer or is_first else s.host) if c.shows_hosts else 0,
    )  # fmt: skip
    yield f"{who} joins as m{member}", after


def of_brokers(s: State, c: Scenario) -> Moves:
    """Yield what the coordinator does."""
    if s.holder:
        lives = any(p.member == s.holder for p in s.processes)
        gone = s._replace(holder=0, before=s.holder, stored=0, away=False, host=0)
        if not lives:
            yield f"session of m{s.holder} expires", gone
        elif s.left.blip:
            yield f"session of m{s.holder} expires although it LIVES", spent(gone, "blip")
    if s.holder != s.stored and not c.is_consumer:
        yield "broker stores", s._replace(stored=s.holder)
        if s.left.fail:
            back = s._replace(holder=s.stored, before=s.holder)
            yield f"FAIL-OVER back to {f'm{s.stored}' if s.stored else 'nobody'}", spent(back, "fail")


def silenced(s: State, numbers: frozenset[int], *, holds_too: bool) -> State:
    """Apply A2: a process of a suspect that was silent for `settle` joins no more."""
    return s._replace(
        processes=tuple(
            p._replace(silenced=SUSPECTED) if abs(p.pod) in numbers
            and p.silenced == UNSILENCED
            and (holds_too or not s.holder or p.member != s.holder)
            else p
            for p in s.processes
        )
    )  # fmt: skip


def unremembered(s: State, known: frozenset[int], *, holds_too: bool) -> State:
    """Apply A1: once the watch was whole for `settle`, processes of pods that no operator remembers join no more."""
    return s._replace(
        processes=tuple(
            p if abs(p.pod) in known or p.silenced
            else p._replace(
                silenced=HOLDS_UNREMEMBERED if s.holder and p.member == s.holder and not holds_too else UNREMEMBERED
            )
            for p in s.processes
        )
    )  # fmt: skip


def _when_joined(silenced: int) -> int:
    """Return by which assumption a process that joins should not have."""
    return UNREMEMBERED if silenced == HOLDS_UNREMEMBERED else silenced
