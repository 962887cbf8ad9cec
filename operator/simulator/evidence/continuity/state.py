"""The state of one pod name: what is true of it, what each operator process knows, and what outlives the processes.

Sets of pods are bit masks, for a search holds some hundred thousand states: bit u stands for the pod with uid u.
"""

from __future__ import annotations

from typing import NamedTuple

STARTING, RUNS, ENDED, ERASED, CLAIMED = range(5)
"""What the pod object says: no container id yet; a container runs; the kubelet's word that all have ended; Failed with the
container statuses gone (a kubelet that restarted and rejects what runs); Failed in another writer's hand."""

WATCHES, BROKEN, LISTED, DOWN = range(4)
"""Of a process: its history since the checkpoint is judged and its watch complete; the watch is lost; the LIST showed no
object and the StatefulSet is still to be read; the process is not there."""

LOST = -1
"""Stands for the uid at the beginning of a gap when nothing is remembered."""

REVIVED = 16
"""Added to the uid of a holder whose process runs for the second time, after a restore: it has another member id."""


class Pod(NamedTuple):
    """The one object of the name; `labelled`: a watch by selector would show it."""

    uid: int
    phase: int = STARTING
    labelled: bool = True


class StatefulSet(NamedTuple):
    """`wanted`: the name lies in [start, start + replicas). `observed`: status.observedGeneration."""

    uid: int = 1
    generation: int = 1
    observed: int = 1
    wanted: bool = True


class Facts(NamedTuple):
    """What a checkpoint keeps of the StatefulSet; `wanted` stands for start and replicas, of which one name is all we ask."""

    uid: int
    generation: int
    wanted: bool


class Span(NamedTuple):
    """A time in which something may have come and gone unseen.

    Parameters
    ----------
    number: which span a word is about. hides: what did come, go, and still runs; nobody but the world knows.
    """

    number: int
    hides: int


class Status(NamedTuple):
    """What a StaticGroup's status holds: the checkpoint (epoch, uid, facts), the ledger (known, dead), the open spans.

    Parameters
    ----------
    uid: of the object that the name had; 0 for none.
    """

    epoch: int
    uid: int
    facts: Facts | None
    known: int
    dead: int
    spans: tuple[Span, ...] = ()


class Lease(NamedTuple):
    """The stored position of a watch: its epoch, and the pods whose objects were gone by then, so that no replay shows them.

    Parameters
    ----------
    is_older: the status is older than the one that the position was stored with.
    """

    epoch: int
    gone: int
    is_older: bool = False


class Replica(NamedTuple):
    """One operator process.

    Parameters
    ----------
    pod: the object that its watch shows. log: versions (None: deleted) that were not shown yet; only where watches lag.
    known, dead: incarnations seen, and those of them that are proven dead; known, not dead and gone is a suspect.
    is_born: the watch showed this object from birth without a gap, and never a container id.
    base: uid at the beginning of the gap that is not judged yet; LOST when unknown.
    facts: of the checkpoint. pending, owed: facts that were read, and how many events their barrier still waits for.
    early, has_read_lease: facts, and the Lease, were read before the LIST; only mutants do so.
    is_current: it knows the newest version of the status. has_led: it held the Lease, and may believe that it still does.
    asked: holder that the describe showed, 0 for none. behind: events that the round's barrier still waits for, -1 before.
    is_decided: a LeaveGroup is on its way.
    is_rewound: etcd was restored and it has not read anything since.
    """

    mode: int = WATCHES
    epoch: int = 0
    pod: Pod | None = None
    log: tuple[Pod | None, ...] = ()
    known: int = 0
    dead: int = 0
    is_born: bool = False
    spans: tuple[Span, ...] = ()
    base: int = 0
    facts: Facts | None = None
    pending: Facts | None = None
    owed: int = 0
    early: Facts | None = None
    has_read_lease: bool = False
    is_current: bool = True
    has_led: bool = True
    asked: int = 0
    behind: int = -1
    is_decided: bool = False
    is_rewound: bool = False


class Backup(NamedTuple):
    """What a restore of etcd brings back."""

    stateful_set: StatefulSet
    pod: Pod | None
    status: Status | None
    said: tuple[int, ...]
    confirmed: int
    lease: Lease | None = None


class State(NamedTuple):
    """Everything.

    Parameters
    ----------
    born: uids given so far. alive: pods whose process runs. revived: those that a restore has started a second time.
    holder: pod whose process holds the id. stored: the holder that a fail-over would bring back.
    flight: a status write on its way, and whether the version it is bound to is still the newest.
    said, confirmed: spans and pods of which a person has said that what they hide has ended.
    leader: replica that holds the Lease. has_twin: another StaticGroup issues the same ids.
    copy: an old status that somebody keeps. is_restored_said: `staticgroup restored` was said and is not written down yet.
    left: how often each of `scenario.FAULTS` may still happen.
    """

    stateful_set: StatefulSet
    pod: Pod | None
    born: int
    alive: int
    holder: int
    replicas: tuple[Replica, ...]
    left: tuple[int, ...]
    status: Status | None = None
    lease: Lease | None = None
    flight: tuple[Status, bool] | None = None
    backup: Backup | None = None
    copy: Status | None = None
    revived: int = 0
    stored: int = 0
    said: tuple[int, ...] = ()
    confirmed: int = 0
    leader: int = 0
    has_twin: bool = False
    is_restored_said: bool = False


def everyone(state: State) -> int:
    """Return the mask of all pods so far."""
    return (1 << (state.born + 1)) - 2


def bit(pod: Pod | None) -> int:
    """Return the mask of one object; 0 for none."""
    return 1 << pod.uid if pod is not None else 0


def unused_number(state: State) -> int:
    """Return a number that no span anywhere has, nor any word."""
    used = set(state.said)
    statuses = (state.status, state.copy, state.flight and state.flight[0], state.backup and state.backup.status)
    for holder in (*statuses, *state.replicas):
        if holder is not None:
            used.update(span.number for span in holder.spans)
    return next(number for number in range(1, len(used) + 2) if number not in used)


def canonical(state: State) -> State:
    """Number the epochs by first appearance, and forget of spans what they no longer hide: the dead stay dead."""
    epochs: dict[int, int] = {}
    alive = state.alive

    def spans(kept: tuple[Span, ...]) -> tuple[Span, ...]:
        return tuple(s if s.hides & ~alive == 0 else Span(s.number, s.hides & alive) for s in kept)

    def epoch(old: int) -> int:
        return epochs.setdefault(old, len(epochs))

    def status(old: Status | None) -> Status | None:
        return old and old._replace(epoch=epoch(old.epoch), spans=spans(old.spans))

    if not (state.status or state.lease or any(r.spans or r.epoch for r in state.replicas)):
        return state
    kept = status(state.status)
    lease = state.lease and state.lease._replace(epoch=epoch(state.lease.epoch))
    replicas = tuple(r._replace(epoch=epoch(r.epoch), spans=spans(r.spans)) for r in state.replicas)
    flight = state.flight
    if flight is not None:
        flying = status(flight[0])
        flight = (flying, flight[1]) if flying else None
    backup = state.backup and state.backup._replace(status=status(state.backup.status))
    if backup is not None and backup.lease is not None:
        backup = backup._replace(lease=backup.lease._replace(epoch=epoch(backup.lease.epoch)))
    return state._replace(
        status=kept, lease=lease, replicas=replicas, flight=flight, backup=backup, copy=status(state.copy)
    )
