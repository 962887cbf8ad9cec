"""Everything that is so at one moment, in small numbers, and the names that do not matter taken out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .pods import Seen, after

UNSILENCED, SUSPECTED, UNREMEMBERED, HOLDS_UNREMEMBERED = 0, 1, 2, 3
"""The assumption by which a process joins no more: its suspect was dropped (A2), its pod is remembered nowhere (A1), or
that and it holds the seat."""
GONE = -1
"""In place of a member: the process was fenced, and is silent."""
RUNNING, TERMINATING, DEAD = "RTD"


class Pod(NamedTuple):
    """The pod object of the seat's name; `has_lost_run`: a run of it is lost."""

    number: int
    phase: str = RUNNING
    has_lost_run: bool = False


class Process(NamedTuple):
    """One process.

    Parameters
    ----------
    pod: its number; negative for a run that its kubelet has lost.
    member: as which it believes to be in the group; 0: it is about to join; GONE.
    own: the member id that it draws but once (KIP-848); 0: none yet.
    silenced: see above.
    """

    pod: int
    member: int = 0
    own: int = 0
    silenced: int = UNSILENCED


class Left(NamedTuple):
    """How often each fault may still happen."""

    force: int = 0
    gap: int = 0
    hand: int = 0
    standby: int = 0
    blip: int = 0
    fail: int = 0
    stale: int = 0
    crash: int = 0
    lost_run: int = 0
    node: int = 0
    status: int = 0
    backup: int = 0
    restore: int = 0
    unseen_restore: int = 0


class Position(NamedTuple):
    """The watch's name in the Lease, and what a process knows after a replay from there; None: no replay."""

    watch: int
    seen: Seen | None


NOWHERE = Position(0, None)


class Standby(NamedTuple):
    """A second process that watches; since: events since it began, -1 once the stored position is later than that."""

    seen: Seen
    watch: int
    since: int


class Backup(NamedTuple):
    """A copy of what etcd holds."""

    pod: Pod | None
    wanted: int
    status: int
    known: int
    position: Position


class State(NamedTuple):
    """The world, then the operator.

    Parameters
    ----------
    holder: the member that holds the seat; before: that one before the last change; stored: that one in the log
        (classic).
    away: the holder has left for a while (KIP-848, epoch -2). host: number of the pod from whose address the seat was
        taken.
    events: not delivered yet. seen: delivered.
    memory, known, former: number of what is remembered, and the members that it is about. ended_since: see
        `Observation`.
    status, status_known: the same as the status has it.
    step: 0 idle, 1 described, 2 attributed, 3 decided; asked: the member described, is_stale: as it was before the last
        change. deposed: what a deposed leader still sends.
    removed: whose removal was acknowledged last. off: bits of the pods whose machines are off and whose Nodes are gone.
    is_broken: a premise is broken that no clause defends.
    """

    wanted: int
    scaled: int
    pod: Pod | None
    born: int
    processes: tuple[Process, ...]
    holder: int
    before: int
    stored: int
    away: bool
    host: int
    events: tuple[tuple[int, str], ...]
    gap: bool
    seen: Seen
    memory: int
    known: int
    former: int
    ended_since: bool
    watch: int
    watches: int
    status: int
    status_known: int
    position: Position
    backup: Backup | None
    standby: Standby | None
    step: int
    asked: int
    is_stale: bool
    deposed: int
    removed: int
    off: int
    is_broken: bool
    left: Left

    def is_alive(self, member: int) -> bool:
        """Whether the process of a member lives, and may know of it."""
        return any(member in (p.member, p.own) for p in self.processes)


def canonical(s: State) -> State:
    """Name members in the order in which they are met: only whether two are equal matters (KIP-345)."""
    processes = s.processes
    if len(processes) > 1:
        processes = tuple(sorted(processes, key=_rank))
    names: dict[int, int] = {0: 0, GONE: GONE}
    met = [
        s.holder,
        s.before,
        s.stored,
        s.asked,
        s.known,
        s.former,
        s.status_known,
        s.deposed,
        s.backup.known if s.backup is not None else 0,
    ]
    for p in processes:
        met += (p.member, p.own)
    met.append(s.removed)
    is_same = processes == s.processes
    for member in met:
        if member not in names:
            names[member] = len(names) - 1
            is_same = is_same and names[member] == member
    if is_same:
        return s
    backup = s.backup and s.backup._replace(known=names[s.backup.known])
    return s._replace(
        processes=tuple(Process(p.pod, names[p.member], names[p.own], p.silenced) for p in processes),
        holder=names[s.holder],
        before=names[s.before], stored=names[s.stored], known=names[s.known], former=names[s.former],
        status_known=names[s.status_known], asked=names[s.asked],
        deposed=names[s.deposed], removed=names[s.removed], backup=backup,
    )  # fmt: skip


def _rank(process: Process) -> tuple[int, int, int, int]:
    return (abs(process.pod), process.pod, process.silenced, (process.member > 0) - (process.member < 0))


def _members_of(s: State, processes: tuple[Process, ...]) -> Iterator[int]:
    yield from (s.holder, s.before, s.stored, s.asked, s.known, s.former, s.status_known, s.deposed)
    if s.backup is not None:
        yield s.backup.known
    for process in processes:
        yield process.member
        yield process.own


def fresh_member(s: State) -> int:
    """Return a member id that nothing has."""
    return max((*_members_of(s, s.processes), s.removed)) + 1


def emit(s: State, number: int, letter: str) -> State:
    """Let the API server send an event of a pod to every watch."""
    position, standby = s.position, s.standby
    if position.seen is not None:
        position = position._replace(seen=after(position.seen, number, letter))
    if standby is not None:
        standby = Standby(
            after(standby.seen, number, letter),
            standby.watch,
            standby.since if standby.since < 0 else standby.since + 1,
        )
    return s._replace(events=s.events if s.gap else (*s.events, (number, letter)), position=position, standby=standby)
