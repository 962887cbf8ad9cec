"""The state of one ordinal and everything that can hold, kill or remove its member.

States are tuples of small values, so that equal situations are equal objects. Member ids are numbers that only
compare; `canonical` renumbers them by first appearance, so that a client may rejoin for ever in finitely many states.
"""

from __future__ import annotations

from typing import NamedTuple

from staticgroup.core.evidence.chain import Incarnation

from .objects import ABSENT, Pod
from .questions import Event
from .variant import Variant

NEW, ALIVE, CRASHED, ENDED, NEVER = range(5)
"""Life of a process: not started, running, dead and to be restarted in place, dead for good, never to be started."""

(
    TOGGLE,
    FORCE,
    CRASH,
    PARTITION,
    NODE_DELETION,
    REJECTION,
    REBOOT,
    FAILOVER,
    GAP,
    RESTORE,
    SUSPENSION,
    RESTART,
    TEMPORARY_LEAVE,
    OUTAGE,
    LOSS,
) = range(15)
"""Positions in `State.spent`: how often each fault has happened."""

CONTINUOUS, GAPPED, REWOUND, BROKEN = range(4)
"""Of a watch: complete since the ids were first issued; anchored again since; the server went back in time unnoticed;
interrupted for so long that the server will not have the events any more (410), not anchored again yet."""


class Process(NamedTuple):
    """The process of one incarnation on its node.

    Parameters
    ----------
    linked: its kubelet reaches the API server. has_node: the Node object exists.
    crash_seen: the kubelet has seen it end in place and not said so yet.
    sidecar: the first of two containers runs. first_ran: it has run. members: one member id for each thread, 0 for none.
    """

    life: int = NEW
    linked: bool = True
    has_node: bool = True
    crash_seen: bool = False
    sidecar: bool = False
    first_ran: bool = False
    members: tuple[int, ...] = (0,)


class Seat(NamedTuple):
    """One group.instance.id at the coordinator.

    Parameters
    ----------
    holder: member id that holds it, 0 for none. away: it left temporarily (epoch -2, KIP-848).
    stored: the holder as a fail-over or a stale describe would show it.
    """

    holder: int = 0
    away: bool = False
    stored: int = 0


class RoundSoFar(NamedTuple):
    """What one round has read so far; see `Policy.Reading`.

    Parameters
    ----------
    book: the chains as taken; -1 before. slots: what the LeaveGroup will carry.
    outdated: the spec has changed since the round began. unwanted: the ordinal was unwanted since the describe.
    rewound: the read of the pod was below the watch's position.
    behind: events up to the read of the pod that were not shown yet.
    """

    members: tuple[int, ...] = ()
    away: tuple[bool, ...] = ()
    wanted: bool = False
    object_uid: int = 0
    barrier_passed: bool = True
    book: int = -1
    slots: tuple[int, ...] = ()
    outdated: bool = False
    unwanted: bool = True
    rewound: bool = False
    behind: int = 0


NO_ROUND = RoundSoFar()


class Replica(NamedTuple):
    """One operator process.

    Parameters
    ----------
    book: what it has folded. log: events that it has not seen yet.
    step: position in the variant's steps.
    """

    book: int = 0
    log: tuple[Event, ...] = ()
    watch: int = CONTINUOUS
    step: int = 0
    round: RoundSoFar = NO_ROUND


class Durable(NamedTuple):
    """What outlives an operator process: the ledger, and the events after the stored position of its watch."""

    ledger: tuple[Incarnation, ...] = ()
    history: tuple[Event, ...] = ()


class State(NamedTuple):
    """Everything.

    Parameters
    ----------
    backup: a backup of etcd as (wanted, pod); None before it was taken. stranger: member id of the outsider.
    """

    wanted: bool
    spent: tuple[int, ...]
    pod: Pod | None
    processes: tuple[Process, ...]
    seats: tuple[Seat, ...]
    replicas: tuple[Replica, ...]
    backup: tuple[bool, Pod | None] | None = None
    suspended: bool = False
    stranger: int = 0
    durable: Durable = Durable()


def initial(variant: Variant) -> State:
    """Return the beginning: the ordinal is wanted, its first pod was just created, nobody has seen it yet."""
    pod = Pod(uid=1, statuses=(ABSENT,) * variant.containers)
    event = Event(pod, is_deleted=False)
    return State(
        wanted=True,
        spent=(0,) * 15,
        pod=pod,
        processes=(Process(members=(0,) * variant.members),),
        seats=(Seat(),) * variant.members,
        replicas=(Replica(log=(event,)),) * variant.operators,
        durable=Durable(history=(event,)) if variant.restarts else Durable(),
    )


def is_alive(state: State, member: int) -> bool:
    """True when the process that goes by this member id runs."""
    if member and member == state.stranger:
        return True
    return any(p.life == ALIVE and member in p.members for p in state.processes)


_OVER = Process(life=ENDED)


def canonical(state: State) -> State:
    """Renumber the member ids by first appearance, and forget the nodes of processes that are over."""
    present = state.pod.uid if state.pod is not None else 0
    for uid, process in enumerate(state.processes, start=1):
        if process.life >= ENDED and uid != present and not process.sidecar:
            over = _OVER if len(state.seats) == 1 else Process(life=ENDED, members=(0,) * len(state.seats))
            if process != over:
                kept = (*state.processes[: uid - 1], over, *state.processes[uid:])
                return canonical(state._replace(processes=kept))
    if len(state.replicas) == 2 and state.replicas[0] > state.replicas[1]:
        # Replicas differ in nothing but their number.
        return canonical(state._replace(replicas=state.replicas[::-1]))
    order: list[int] = []
    for seat in state.seats:
        order += (seat.holder, seat.stored)
    for process in state.processes:
        order += process.members
    for replica in state.replicas:
        order += replica.round.members
    order.append(state.stranger)
    names: dict[int, int] = {0: 0}
    for member in order:
        if member not in names:
            names[member] = len(names)
    if all(old == new for old, new in names.items()):
        return state
    return state._replace(
        seats=tuple(s._replace(holder=names[s.holder], stored=names[s.stored]) for s in state.seats),
        processes=tuple(p._replace(members=tuple(names[m] for m in p.members)) for p in state.processes),
        replicas=tuple(
            r._replace(round=r.round._replace(members=tuple(names[m] for m in r.round.members))) for r in state.replicas
        ),
        stranger=names[state.stranger],
    )


def next_member(state: State) -> int:
    """Return a member id that nobody has."""
    used = [s.holder for s in state.seats] + [s.stored for s in state.seats] + [state.stranger]
    used += [m for p in state.processes for m in p.members]
    used += [m for r in state.replicas for m in r.round.members]
    return max(used) + 1
