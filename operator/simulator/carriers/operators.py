"""What the operator does, with the product's decisions, and what is done to its status, its Lease and etcd."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from staticgroup.core.members.carriers import UNATTRIBUTED, UNSEEN

from .pods import BACK, ENDED, LISTED_ENDED, LOST, RUNS, Seen, after, is_there, listed, number_of
from .product import AGAIN, NOBODY, OTHER, SAME, Observation, Product
from .scenario import Scenario
from .state import DEAD, HOLDS_UNREMEMBERED, Backup, Pod, Position, Process, Standby, State
from .world import Moves, silenced, spent, unremembered

Acts = Iterator[tuple[str, State, int]]
"""With the member whose removal is sent; 0: none."""


def of_rounds(s: State, c: Scenario, product: Product) -> Acts:
    """Yield the steps of the leader's rounds.

    Notes
    -----
    A round that ends after its description is as if it had not begun. A leave is carried out at once, unless it is to
    be late: what it takes for dead stays dead, and one that is carried out later does what the end of the session does.
    """
    if s.gap:
        objects = tuple(_objects(s.pod))
        watch = s.watches + 1
        yield "LIST", s._replace(seen=listed(s.seen, objects), gap=False, events=(), watch=watch, watches=watch), 0
    elif s.step == 0:
        yield f"describe: {_member_name(s.holder)}", s._replace(step=1, asked=s.holder), 0
        if s.left.stale and s.before != s.holder:
            yield (
                f"describe: {_member_name(s.before)} (STALE)",
                spent(s._replace(step=1, asked=s.before, is_stale=True), "stale"),
                0,
            )
        for says, after_it in _writes(s, c, product):
            yield says, after_it, 0
    elif s.step == 1:
        yield from _attributes(s, c, product)
    else:
        yield "leave is given up", s._replace(step=0, asked=0), 0
        yield f"LeaveGroup m{s.asked}", s._replace(step=0, asked=0), s.asked
    if s.deposed:
        yield f"deposed leader: LeaveGroup m{s.deposed}", s._replace(deposed=0), s.deposed


def delivered(s: State, count: int) -> State:
    """Let the watch bring so many of the events."""
    seen, has_ended = s.seen, s.ended_since
    for number, letter in s.events[:count]:
        before = seen
        seen = after(seen, number, letter)
        has_ended = has_ended or (letter == ENDED and seen != before)
    return s._replace(seen=seen, ended_since=has_ended, events=s.events[count:])


def _attributes(s: State, c: Scenario, product: Product) -> Acts:
    """Yield what one description may add to the memory, for every lag of the watch and every silence."""
    shown = NOBODY if not s.asked else SAME if s.asked == s.known else AGAIN if s.asked == s.former else OTHER
    counts: Iterable[int] = range(len(s.events) + 1)
    if shown == OTHER and c.has_barrier:
        counts = (len(s.events),)
    for count in counts:
        now = delivered(s, count)
        for settled, is_old in _silences(now, product):
            yield from _attributed(now, c, product, shown, settled, is_old, is_late=False)
            if c.pauses:
                yield from _attributed(now, c, product, shown, settled, is_old, is_late=True)


def _silences(s: State, product: Product) -> Iterator[tuple[int, bool]]:
    """Yield which silences may have lasted for `settle`: none, each alone, all."""
    count = len(product.suspects(s.memory))
    ages = (False,) if product.is_whole_since(s.memory, s.watch) else (False, True)
    masks = {0, (1 << count) - 1, *(1 << at for at in range(count))}
    return ((mask, age) for mask in masks for age in ages)


def _attributed(
    s: State, c: Scenario, product: Product, shown: int, settled: int, is_old: bool, *, is_late: bool
) -> Acts:
    is_host_current = (
        c.shows_hosts and shown == OTHER and s.host and (c.is_consumer or (c.is_first_host_trusted and not s.known))
    )
    observation = Observation(
        s.seen,
        s.watch,
        shown,
        address_of_pod=abs(s.host) if is_host_current else 0,
        settled=settled,
        is_old=is_old,
        is_late=is_late,
        ended_since=s.ended_since,
        off=s.off,
    )
    memory = product.describe(s.memory, observation)
    carriers = product.carriers(memory)
    known = 0 if carriers is None else s.asked or s.known
    former = 0 if not product.has_former(memory) else s.known if s.known and s.known != known else s.former
    now = s._replace(memory=memory, known=known, former=former, ended_since=False, step=0, asked=0, is_stale=False)
    found = _by_assumptions(s, now, c, product, are_silent=bool(settled) and not is_late, is_old=is_old)
    if found is None:
        return
    about = (
        ""
        if not (settled or is_old or is_late)
        else f" (settled: {settled:b}{', old' if is_old else ''}{', after a pause' if is_late else ''})"
    )
    yield f"barrier{about}", found, 0
    if s.asked and carriers is not None:
        yield from _decides(s, found, c, product, f"barrier{about}")


def _decides(s: State, after_it: State, c: Scenario, product: Product, about: str) -> Acts:
    """Yield the removal of a member without carriers, where consistent reads show that its id is not wanted."""
    now = delivered(after_it, len(after_it.events))
    objects = () if s.pod is None else (s.pod.number,)
    if product.removes(now.memory, now.seen, wanted=bool(s.wanted), objects=objects, was_removed=s.removed == s.asked):
        says = f"{about}, decides to remove m{s.asked}"
        yield (
            (says, now._replace(step=3, asked=s.asked), 0)
            if c.is_late
            else (f"{says}, LeaveGroup m{s.asked}", now, s.asked)
        )


def _by_assumptions(
    s: State, now: State, c: Scenario, product: Product, *, are_silent: bool, is_old: bool
) -> State | None:
    """Silence the processes that A1 and A2 exclude from now on; None where one has joined since the description.

    Parameters
    ----------
    are_silent, is_old: silences, or the watch, have lasted for `settle`, so that the assumptions say anything.
    """
    texts = dict(s.seen)
    suspects = product.suspects(now.memory)
    dropped = {number_of(uid) for uid in product.suspects(s.memory) if uid not in suspects}
    quiet = frozenset(n for n in dropped if not (s.off >> n & 1) and not _is_known_otherwise(texts.get(n, "")))
    has_joined_since = s.asked != s.holder and not s.is_stale
    is_behind = s.asked != s.holder  # a stale description is older than its time, so its silence is shorter by that
    if quiet and are_silent:
        if has_joined_since and c.holds_a2 and _holds(s, lambda n: n in quiet):
            return None
        now = silenced(now, quiet, holds_too=is_behind)
    if is_old and not product.is_whole_since(s.memory, s.watch) and product.is_whole_since(now.memory, s.watch):
        named = {*suspects, *(uid for uid in product.carriers(now.memory) or () if uid not in (UNSEEN, UNATTRIBUTED))}
        known = frozenset((*texts, *(number_of(uid) for uid in named)))
        if has_joined_since and c.holds_a1 and _holds(s, lambda n: n not in known):
            return None
        now = unremembered(now, known, holds_too=is_behind)
    return now


def _holds(s: State, is_asked: Callable[[int], bool]) -> bool:
    return any(p.member == s.holder and is_asked(abs(p.pod)) for p in s.processes if s.holder)


def _is_known_otherwise(text: str) -> bool:
    """True for a pod that is no suspect any more because it has ended, or is there."""
    return ENDED in text or LISTED_ENDED in text or is_there(text)


def _writes(s: State, c: Scenario, product: Product) -> Moves:
    """Yield the writes of the status, and of the Lease behind it."""
    status = product.written(s.memory)
    position = _position(s)
    standby = s.standby
    if standby is not None and 0 <= len(s.events) <= standby.since:
        standby = standby._replace(since=-1)
    written = s._replace(status=status, status_known=s.known)
    both = written._replace(position=position, standby=standby)
    if s.left.hand and written != s:
        yield "status is written", written
    if both != s and (s.left.hand or s.left.restore or s.left.unseen_restore or s.left.backup):
        yield "status and Lease are written", both
    if not c.follows_status and position != s.position:
        yield "Lease is written", s._replace(position=position, standby=standby)


def _position(s: State) -> Position:
    """Return what a process would know that goes on from where the leader is."""
    seen: Seen = tuple((n, _as_found(text)) for n, text in s.seen if is_there(text))
    for number, letter in s.events:
        seen = after(seen, number, letter)
    return Position(s.watch, seen)


def _as_found(text: str) -> str:
    """Return what a LIST shows of a pod."""
    if text[-1] in (ENDED, LISTED_ENDED):
        return LISTED_ENDED if LOST not in text else LOST + LISTED_ENDED
    return LOST if LOST in text.rpartition(BACK)[2] else RUNS


def _objects(pod: Pod | None) -> Iterator[tuple[int, str]]:
    if pod is not None:
        lost = LOST if pod.has_lost_run else ""  # the state before the last one shows it (`lastState`)
        yield pod.number, lost + ENDED if pod.phase == DEAD else lost or RUNS


def of_operators(s: State, c: Scenario, product: Product) -> Moves:
    """Yield what becomes of the leader, of what it has written, and of etcd."""
    if s.left.gap and not s.gap:
        gap = s._replace(gap=True, events=(), position=Position(s.position.watch, None), step=0, asked=0)
        yield "history of the watch is LOST", spent(gap, "gap")
    if s.left.standby and s.standby is None:
        watch = s.watches + 1
        begun = s._replace(standby=Standby(listed((), _objects(s.pod)), watch, 0), watches=watch)
        yield "a standby begins: LIST", spent(begun, "standby")
    if s.left.hand:
        yield from _hands_over(spent(s, "hand"), c)
    if s.left.status:
        if s.status != product.nothing:
            yield "status is EMPTIED", spent(s._replace(status=product.nothing, status_known=0), "status")
        if s.backup is not None and (s.backup.status, s.backup.known) != (s.status, s.status_known):
            back = s._replace(status=s.backup.status, status_known=s.backup.known, is_broken=True)
            yield "older status is PUT BACK", spent(back, "status")
    if s.left.backup:
        copy = Backup(s.pod, s.wanted, s.status, s.status_known, s.position)
        yield "backup", spent(s._replace(backup=copy), "backup")
    if s.backup is not None and s.left.restore:
        yield from _restores(spent(s, "restore"), s.backup, is_seen=True)
    if s.backup is not None and s.left.unseen_restore:
        yield from _restores(spent(s, "unseen_restore"), s.backup, is_seen=False)


def _hands_over(s: State, c: Scenario) -> Moves:
    """Let another process lead, with the status as it is."""
    n = s._replace(
        memory=s.status,
        known=s.status_known,
        former=0,
        gap=False,
        events=(),
        step=0,
        asked=0,
        deposed=s.asked if s.step == 3 else s.deposed,
    )
    watch = s.watches + 1
    seen = listed((), _objects(s.pod))
    yield "NEW LEADER: LIST", n._replace(seen=seen, watch=watch, watches=watch, ended_since=False)
    if s.position.seen is not None:
        seen = s.position.seen
        yield "NEW LEADER: replay", n._replace(seen=seen, watch=s.position.watch, ended_since=_has_ended(seen))
    if s.standby is not None:
        has_overlapped = s.standby.since < 0 or c.adopts_always
        name = s.position.watch if has_overlapped else s.standby.watch
        yield (
            "STANDBY leads",
            n._replace(seen=s.standby.seen, watch=name, ended_since=_has_ended(s.standby.seen), standby=None),
        )


def _has_ended(seen: Seen) -> bool:
    return any(ENDED in text for _, text in seen)


def _restores(s: State, backup: Backup, *, is_seen: bool) -> Moves:
    """Let etcd go back: the pod of then runs again, that of now has no object."""
    pod = backup.pod
    if pod == s.pod and backup.wanted == s.wanted:
        return
    processes = s.processes
    if pod is not None:
        pod = Pod(pod.number) if pod.phase == DEAD else pod
        if not any(p.pod == pod.number for p in processes):
            processes = (*processes, Process(pod.number))
    back = s._replace(
        pod=pod,
        wanted=backup.wanted,
        processes=processes,
        status=backup.status,
        status_known=backup.known,
        step=0,
        asked=0,
        standby=None,
    )
    if is_seen:
        yield "etcd is RESTORED", back._replace(gap=True, events=(), position=Position(backup.position.watch, None))
        return
    seen = listed((), _objects(pod))
    yield "etcd is RESTORED unseen, a new leader goes on from its position", back._replace(
        memory=backup.status, known=backup.known, former=0, seen=seen, watch=backup.position.watch,
        position=Position(backup.position.watch, seen), gap=False,
        events=(), ended_since=False, is_broken=True,
    )  # fmt: skip


def leave(s: State, member: int) -> tuple[State, bool | None]:
    """Carry out a leave by both ids; returns whether the member lives, None where it does not hold the seat."""
    if not member or s.holder != member:
        return s, None
    after_it = s._replace(holder=0, before=member, away=False, host=0, removed=member)
    return after_it, s.is_alive(member)


def is_by_assumption(s: State, member: int) -> bool:
    """True when a member that lives could only join because an assumption is broken."""
    ours = [p for p in s.processes if member in (p.member, p.own)]
    return s.is_broken or all(p.silenced not in (0, HOLDS_UNREMEMBERED) for p in ours)


def _member_name(member: int) -> str:
    return f"m{member}" if member else "empty"
