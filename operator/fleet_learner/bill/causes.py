"""Say from a group's own records what can have made its partitions stand still, and whose doing that was.

The one idea: the records of a group lie in one partition in the order in which the coordinator wrote them, so a fold over
them knows the members before and after each generation (classic) or group epoch (KIP-848, KIP-1071).

What the records prove: that a generation passed, who was a member before and after, whose partitions were whose, that a
static member was replaced with or without a rebalance. What they never tell: when a rebalance began, whether a member left
or its session expired, why the members stayed the same. A dynamic member that comes back has a new name; that it is the
same one is a conclusion from client id, host, number of members and minutes (`RETURN_MAX_MS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from fleet_learner.offsets_codec import LEFT_FOR_A_WHILE_EPOCH, GroupRecord, Member, RecordKind

RETURN_MAX_MS: Final = 5 * 60_000
"""A dynamic member that joins so soon after one departed, and looks like it, is taken for the same one."""
STATIC_BACK_MAX_MS: Final = 30 * 60_000
"""So long after it was gone an instance id counts as back: no session timeout that a broker allows by default is longer."""


class CauseKind(StrEnum):
    """Name what a record proves.

    FOUND: the first record of a group; of what was before nothing is known, and it is no cause.
    With a rebalance: STARTED (the group had no members), EMPTIED (it has none any more), STATIC_GONE (a static member is no
    longer there), STATIC_BACK (one that was gone is there again), STATIC_REPLACED (a static member restarted, and the group
    rebalanced all the same), RESTART and RETURN (a dynamic member came back, in the same rebalance or in one after its
    departure), DEPARTURE, JOIN, UNCHANGED (the same members: another subscription, more partitions, the second step of a
    cooperative rebalance).
    Without one: ABSORBED (a static member restarted), LEFT_FOR_A_WHILE (a static member of KIP-848 closed, its place is kept),
    RECONCILED (a member of KIP-848 or KIP-1071 was given or gave up partitions), DELETED (the group).
    """

    FOUND = "Found"
    STARTED = "Started"
    EMPTIED = "Emptied"
    STATIC_GONE = "StaticGone"
    STATIC_BACK = "StaticBack"
    STATIC_REPLACED = "StaticReplaced"
    RESTART = "Restart"
    RETURN = "Return"
    DEPARTURE = "Departure"
    JOIN = "Join"
    UNCHANGED = "Unchanged"
    ABSORBED = "Absorbed"
    LEFT_FOR_A_WHILE = "LeftForAWhile"
    RECONCILED = "Reconciled"
    DELETED = "Deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One record that proves something.

    Parameters
    ----------
    rebalances: generations or group epochs since the record before; more than one when some were never written down.
    group_epoch: after it.
    members, static_members: after it.
    joined, departed, returned: members; `returned` are those of `joined` that are taken for one that departed.
    departed_before: earlier departures that `returned` belong to, each a rebalance of its own.
    bystanders: members that were there before and are there still, and did nothing.
    clients, hosts: of the bystanders, sorted, each once.
    caused: partitions of members that departed or were replaced, as the assignment names them.
    moved: partitions that a bystander had to give to another member.
    knows_owners: whether the assignment before is known.
    session_timeout_ms: the shortest of those that departed; None when nobody did or the protocol keeps it elsewhere.
    """

    kind: CauseKind
    group_id: str
    group_type: str
    rebalances: int = 0
    group_epoch: int | None = None
    protocol_name: str | None = None
    members: int = 0
    static_members: int = 0
    joined: int = 0
    departed: int = 0
    returned: int = 0
    departed_before: int = 0
    bystanders: int = 0
    clients: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    caused: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    knows_owners: bool = False
    session_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _Departure:
    """A member that is gone and may come back; `members` were there with it."""

    member: Member
    at_ms: int
    members: int

    @property
    def kept_ms(self) -> int:
        return RETURN_MAX_MS if self.member.instance_id is None else STATIC_BACK_MAX_MS


@dataclass(slots=True)
class _Group:
    epoch: int | None = None
    protocol_name: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    joined: dict[str, Member] = field(default_factory=dict)
    """Members with a record and no epoch yet."""
    departed: dict[str, Member] = field(default_factory=dict)
    """Members with a tombstone, and neither a successor nor an epoch yet."""
    memory: list[_Departure] = field(default_factory=list)


class Memberships:
    """Take the records of one partition of the log in order."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}

    def take(self, record: GroupRecord, at_ms: int) -> Iterator[Cause]:
        """Yield what a record proves, given those before it.

        Parameters
        ----------
        at_ms: the record's time.
        """
        if record.group_id is None or record.group_type is None:
            return
        name = (record.group_type.value, record.group_id)
        group = self._groups.setdefault(name, _Group())
        is_epoch = record.kind in {RecordKind.GROUP_METADATA, RecordKind.EPOCH}
        if is_epoch and record.tombstone:
            self._groups.pop(name)
            yield _cause(CauseKind.DELETED, group, record)
        elif record.kind is RecordKind.GROUP_METADATA:
            yield from _classic(group, record, at_ms)
        elif record.kind is RecordKind.EPOCH:
            yield from _epoch(group, record, at_ms)
        elif record.kind is RecordKind.MEMBER:
            yield from _member(group, record)
        elif record.kind is RecordKind.CURRENT_MEMBER and not record.tombstone:
            yield from _current(group, record)


# classic -------------------------------------------------------------------------------------------------------------


def _classic(group: _Group, record: GroupRecord, at_ms: int) -> Iterator[Cause]:
    """A record holds all members; it is written when a rebalance ends, and when a static member rejoins a stable group."""
    before, after = group.members, {member.member_id: member for member in record.members}
    epoch_before = group.epoch
    group.epoch, group.members = record.epoch, after
    group.protocol_name = record.protocol_name or group.protocol_name
    if epoch_before is None:
        yield _cause(CauseKind.FOUND, group, record)
    elif record.epoch != epoch_before:
        yield _rebalanced(group, record, epoch_before, before, at_ms, _moved(before, after))
    else:
        for old in (member for key, member in before.items() if key not in after):
            new = next((m for m in after.values() if _is_instance(old, m)), None)
            if new is not None:
                yield _cause(CauseKind.ABSORBED, group, record, departed=(old,), joined=(new,))


def _moved(before: Mapping[str, Member], after: Mapping[str, Member]) -> tuple[str, ...]:
    kept = ((set(_owned(m)), set(_owned(after[key]))) for key, m in before.items() if key in after)
    return tuple(sorted(partition for old, new in kept for partition in old - new))


# KIP-848, KIP-1071 ---------------------------------------------------------------------------------------------------


def _epoch(group: _Group, record: GroupRecord, at_ms: int) -> Iterator[Cause]:
    epoch_before, group.epoch = group.epoch, record.epoch
    if epoch_before is None:
        yield _cause(CauseKind.FOUND, group, record)
    elif record.epoch != epoch_before:
        before = {k: m for k, m in group.members.items() if k not in group.joined} | group.departed
        yield _rebalanced(group, record, epoch_before, before, at_ms, ())
    group.joined.clear()
    group.departed.clear()


def _member(group: _Group, record: GroupRecord) -> Iterator[Cause]:
    (member,) = record.members
    known = group.members.pop(member.member_id, None)
    if record.tombstone:
        group.joined.pop(member.member_id, None)
        if known is not None:
            group.departed[known.member_id] = known
        return
    group.members[member.member_id] = _merged(known, member)
    if known is not None:
        return
    former = next((m for m in group.departed.values() if _is_instance(m, member)), None)
    if former is None:
        group.joined[member.member_id] = member
    else:
        del group.departed[former.member_id]
        yield _cause(CauseKind.ABSORBED, group, record, departed=(former,), joined=(member,))


def _is_instance(one: Member, other: Member) -> bool:
    return one.instance_id is not None and one.instance_id == other.instance_id


def _current(group: _Group, record: GroupRecord) -> Iterator[Cause]:
    (member,) = record.members
    known = group.members.get(member.member_id)
    if known is None:
        return  # its own record was compacted away, or comes later
    group.members[member.member_id] = _merged(known, member)
    if member.member_epoch == LEFT_FOR_A_WHILE_EPOCH:
        if known.member_epoch != LEFT_FOR_A_WHILE_EPOCH:
            yield _cause(CauseKind.LEFT_FOR_A_WHILE, group, record, departed=(known,))
        return
    gave_up = set(_owned(known)) - set(member.assignment or ())
    taken = set(member.assignment or ()) - set(_owned(known))
    if gave_up or taken:
        yield _cause(CauseKind.RECONCILED, group, record, moved=tuple(sorted(gave_up)))


def _merged(known: Member | None, told: Member) -> Member:
    """Lay what a record says of a member over what others said."""
    if known is None:
        return told
    values = {
        name: getattr(told, name) if getattr(told, name) is not None else getattr(known, name)
        for name in Member.__dataclass_fields__
    }
    return Member(**values)


# both ----------------------------------------------------------------------------------------------------------------


def _owned(member: Member) -> tuple[str, ...]:
    return (*(member.assignment or ()), *(member.pending_revocation or ()))


def _rebalanced(
    group: _Group,
    record: GroupRecord,
    epoch_before: int,
    before: Mapping[str, Member],
    at_ms: int,
    moved: Sequence[str],
) -> Cause:
    after = group.members
    joined = [member for key, member in after.items() if key not in before]
    departed = [member for key, member in before.items() if key not in after]
    gone = [m for m in departed if m.instance_id is None or not any(_is_instance(m, j) for j in joined)]
    came = [m for m in joined if m.instance_id is None or not any(_is_instance(m, d) for d in departed)]
    group.memory = [d for d in group.memory if at_ms - d.at_ms <= d.kept_ms]
    of_now = [_Departure(member, at_ms, len(before)) for member in gone]
    earlier = _returned(group.memory, came, len(after))
    now = _returned(of_now, [m for m in came if m.member_id not in earlier], len(after))
    taken = {id(d) for d in (*earlier.values(), *now.values())}
    group.memory = [d for d in (*group.memory, *of_now) if id(d) not in taken]
    kind = _kind(before, after, departed=departed, gone=gone, came=came, earlier=earlier, now=now)
    assert record.epoch is not None
    return _cause(
        kind,
        group,
        record,
        departed=departed,
        joined=joined,
        moved=moved,
        before=before,
        rebalances=max(1, record.epoch - epoch_before),
        returned=len(earlier) + len(now),
        departed_before=len({d.at_ms for d in earlier.values()}),
    )


def _returned(memory: Iterable[_Departure], came: Iterable[Member], members: int) -> dict[str, _Departure]:
    """Match members that joined with those that departed, the likest first; by member.id."""
    left, found = list(memory), {}
    for is_like in (_is_same_place, _is_same_client, _is_other):
        for member in came:
            if member.member_id in found:
                continue
            match = next((d for d in left if is_like(d, member, members)), None)
            if match is not None:
                left.remove(match)
                found[member.member_id] = match
    return found


def _is_same_place(departure: _Departure, member: Member, members: int) -> bool:
    if departure.member.instance_id is not None or member.instance_id is not None:
        return _is_instance(departure.member, member)
    return _is_same_client(departure, member, members) and departure.member.client_host == member.client_host


def _is_same_client(departure: _Departure, member: Member, members: int) -> bool:
    return _is_other(departure, member, members) and departure.member.client_id == member.client_id


def _is_other(departure: _Departure, member: Member, members: int) -> bool:
    """A pod has another address after a restart, and some clients have another id: then the number must fit."""
    is_static = departure.member.instance_id is not None or member.instance_id is not None
    return not is_static and members <= departure.members


def _kind(
    before: Mapping[str, Member],
    after: Mapping[str, Member],
    *,
    departed: Sequence[Member],
    gone: Sequence[Member],
    came: Sequence[Member],
    earlier: Mapping[str, _Departure],
    now: Mapping[str, _Departure],
) -> CauseKind:
    """Name a rebalance by the first that fits; one may be several things at once."""
    is_back = any(m.instance_id is not None for m in came if m.member_id in earlier)
    rules = (
        (not after, CauseKind.EMPTIED),
        (not before, CauseKind.STARTED),
        (any(m.instance_id is not None for m in gone), CauseKind.STATIC_GONE),
        (is_back, CauseKind.STATIC_BACK),
        (len(gone) < len(departed), CauseKind.STATIC_REPLACED),
        (bool(now), CauseKind.RESTART),
        (bool(earlier), CauseKind.RETURN),
        (bool(gone), CauseKind.DEPARTURE),
        (bool(came), CauseKind.JOIN),
    )
    return next((kind for holds, kind in rules if holds), CauseKind.UNCHANGED)


def _cause(
    kind: CauseKind,
    group: _Group,
    record: GroupRecord,
    *,
    departed: Sequence[Member] = (),
    joined: Sequence[Member] = (),
    moved: Sequence[str] = (),
    before: Mapping[str, Member] | None = None,
    rebalances: int = 0,
    returned: int = 0,
    departed_before: int = 0,
) -> Cause:
    assert record.group_id is not None
    assert record.group_type is not None
    new = {m.member_id for m in joined}
    bystanders = [m for key, m in group.members.items() if key not in new and (before is None or key in before)]
    timeouts = [m.session_timeout_ms for m in departed if m.session_timeout_ms is not None]
    owners = before.values() if before is not None else departed
    return Cause(
        kind=kind,
        group_id=record.group_id,
        group_type=record.group_type.value,
        rebalances=rebalances,
        group_epoch=group.epoch,
        protocol_name=group.protocol_name,
        members=len(group.members),
        static_members=sum(m.instance_id is not None for m in group.members.values()),
        joined=len(joined),
        departed=len(departed),
        returned=returned,
        departed_before=departed_before,
        bystanders=len(bystanders),
        clients=tuple(sorted({m.client_id for m in bystanders if m.client_id is not None})),
        hosts=tuple(sorted({m.client_host for m in bystanders if m.client_host is not None})),
        caused=tuple(sorted({partition for m in departed for partition in _owned(m)})),
        moved=tuple(moved),
        knows_owners=any(_owned(m) for m in owners),
        session_timeout_ms=min(timeouts, default=None),
    )
