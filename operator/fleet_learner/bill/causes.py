"""Find in a group's own records what can have stopped its partitions, and which member caused it.

The one idea: the records of a group lie in one partition in the order in which the coordinator wrote them, so a fold
over them knows the members before and after each generation (classic) or group epoch (KIP-848, KIP-1071).

The records prove that a generation passed, the members before and after it, their partitions, and that a static member
was replaced with or without a rebalance. They do not show when a rebalance began, whether a member left or its session
expired, or why a rebalance had the same members before and after. A dynamic member that returns has a new member id;
that it is the same client is inferred from client id, host, number of members and time (restarts.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from fleet_learner.offsets.codec import LEFT_FOR_A_WHILE_EPOCH, GroupRecord, Member, RecordKind

from .restarts import Half, Halves


class CauseKind(StrEnum):
    """Name what a record proves.

    FOUND: the first record of a group; earlier ones are unknown, so it is no cause. With a rebalance: STARTED (the
    group had no members), EMPTIED (its last members are gone), STATIC_GONE (a static member is gone), STATIC_BACK (a
    static member that was gone has returned), STATIC_REPLACED (a static member restarted, and the group rebalanced all
    the same), RESTART (a dynamic member restarted within this rebalance, or it is the second of the two that its
    restart made), DEPARTURE, JOIN, UNCHANGED (the same members: another subscription, more partitions, the second step
    of a cooperative rebalance). Without one: ABSORBED (a static member restarted), LEFT_FOR_A_WHILE (a static member of
    KIP-848 closed, its place is kept), RECONCILED (a member of KIP-848 or KIP-1071 was given or gave up partitions),
    DELETED (the group).
    """

    FOUND = "Found"
    STARTED = "Started"
    EMPTIED = "Emptied"
    STATIC_GONE = "StaticGone"
    STATIC_BACK = "StaticBack"
    STATIC_REPLACED = "StaticReplaced"
    RESTART = "Restart"
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
    protocol_type: of a classic group, `consumer` or `connect`. protocol_name: its assignor.
    members, static_members: after it.
    joined, departed, returned: members; `returned` are those that are taken for restarted.
    halves_before: earlier rebalances of the same restarts: departures, or, after a crash, joins.
    bystanders: members before and after the rebalance that did not restart.
    clients, hosts: of the bystanders, sorted and distinct.
    caused: partitions of members that departed or were replaced, as the assignment names them.
    moved: partitions that a bystander had to give to another member.
    knows_owners: whether the previous assignment is known.
    """

    kind: CauseKind
    group_id: str
    group_type: str
    rebalances: int = 0
    group_epoch: int | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    members: int = 0
    static_members: int = 0
    joined: int = 0
    departed: int = 0
    returned: int = 0
    halves_before: int = 0
    bystanders: int = 0
    clients: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    caused: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    knows_owners: bool = False


@dataclass(slots=True)
class _Group:
    epoch: int | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    joined: dict[str, Member] = field(default_factory=dict)
    """Members with a record and no epoch yet."""
    departed: dict[str, Member] = field(default_factory=dict)
    """Members with a tombstone, and neither a successor nor an epoch yet."""
    halves: Halves = field(default_factory=Halves)


class Memberships:
    """Take the records of one partition of the log in order."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}

    def take(self, record: GroupRecord, at_ms: int) -> Iterator[Cause]:
        """Yield what a record proves, given the earlier records.

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
    """A record holds all members; it is written after a rebalance, and when a static member rejoins."""
    before, after = group.members, {member.member_id: member for member in record.members}
    epoch_before = group.epoch
    group.epoch, group.members = record.epoch, after
    group.protocol_type, group.protocol_name = record.protocol_type, record.protocol_name or group.protocol_name
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


def _merged(known: Member | None, newer: Member) -> Member:
    """Merge a record of a member into what earlier records of it said."""
    if known is None:
        return newer
    values = {
        name: getattr(newer, name) if getattr(newer, name) is not None else getattr(known, name)
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
    earlier, now = group.halves.take(before, after, gone=gone, came=came, at_ms=at_ms)
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
        halves_before=len({half.at_ms for half in earlier.values()}),
    )


def _kind(
    before: Mapping[str, Member],
    after: Mapping[str, Member],
    *,
    departed: Sequence[Member],
    gone: Sequence[Member],
    came: Sequence[Member],
    earlier: Mapping[str, Half],
    now: Mapping[str, Half],
) -> CauseKind:
    """Return the first kind that fits; several may apply to one rebalance."""
    is_back = any(m.instance_id is not None for m in came if m.member_id in earlier)
    rules = (
        (not after, CauseKind.EMPTIED),
        (not before, CauseKind.STARTED),
        (any(m.instance_id is not None for m in gone), CauseKind.STATIC_GONE),
        (is_back, CauseKind.STATIC_BACK),
        (len(gone) < len(departed), CauseKind.STATIC_REPLACED),
        (bool(now) or bool(earlier), CauseKind.RESTART),
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
    halves_before: int = 0,
) -> Cause:
    assert record.group_id is not None
    assert record.group_type is not None
    new = {m.member_id for m in joined}
    bystanders = [m for key, m in group.members.items() if key not in new and (before is None or key in before)]
    owners = before.values() if before is not None else departed
    return Cause(
        kind=kind,
        group_id=record.group_id,
        group_type=record.group_type.value,
        rebalances=rebalances,
        group_epoch=group.epoch,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        members=len(group.members),
        static_members=sum(m.instance_id is not None for m in group.members.values()),
        joined=len(joined),
        departed=len(departed),
        returned=returned,
        halves_before=halves_before,
        bystanders=len(bystanders),
        clients=tuple(sorted({m.client_id for m in bystanders if m.client_id is not None})),
        hosts=tuple(sorted({m.client_host for m in bystanders if m.client_host is not None})),
        caused=tuple(sorted({partition for m in departed for partition in _owned(m)})),
        moved=tuple(moved),
        knows_owners=any(_owned(m) for m in owners),
    )
