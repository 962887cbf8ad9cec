"""Derive changes of a group from the coordinator's records: rebalances, absorbed restarts, lost members.

The one idea: the records of a group lie in one partition in the order in which the coordinator wrote them, so a fold
over that partition, with the last known members of each group, sees each change. It does not depend on the operator.

Classic groups write one record with all members when a rebalance is completed, when the group becomes empty, and when a
static member rejoins a stable group; the generation identifies the last case. Groups of KIP-848 and KIP-1071 write a
record for each change: a member that is replaced has its tombstones and its successor's records without an epoch in
between, a member that leaves or is fenced has an epoch after them. Compacted records are not seen: the fold then
reports the number of epochs between two seen ones. Source: GroupMetadataManager
(updateStaticMemberThenRebalanceOrCompleteJoin, replaceMember, consumerGroupFenceMembers).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from fleet_learner.offsets.codec import LEFT_FOR_A_WHILE_EPOCH, GroupRecord, Member, RecordKind


class ChangeKind(StrEnum):
    """Name what a record proves.

    FOUND: the group's first record with a generation or an epoch; earlier ones are unknown.
    REBALANCED: the generation or group epoch grew, by `epochs`. ABSORBED: an instance id has another member.id and the
    group did not rebalance. REPLACED: the same, with a rebalance. GONE: a static member is no longer in the group.
    LEFT_FOR_A_WHILE: a static member of KIP-848 closed and its place is kept.
    """

    FOUND = "Found"
    REBALANCED = "Rebalanced"
    ABSORBED = "Absorbed"
    REPLACED = "Replaced"
    GONE = "Gone"
    LEFT_FOR_A_WHILE = "LeftForAWhile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change; fields that do not apply to its kind are None.

    Parameters
    ----------
    epoch: the generation or group epoch after it.
    epochs: how many epochs passed since the last one that was seen.
    """

    kind: ChangeKind
    group_id: str
    group_type: str
    epoch: int | None = None
    epochs: int | None = None
    instance_id: str | None = None
    member_id: str | None = None
    previous_member_id: str | None = None


@dataclass(slots=True)
class _Group:
    epoch: int | None = None
    members: dict[str, str] = field(default_factory=dict)
    """The member.id of each instance id."""
    leaving: dict[str, str] = field(default_factory=dict)
    """Instances whose member has its tombstone, and no successor and no epoch yet."""
    away: set[str] = field(default_factory=set)


class Fold:
    """Take the records of one partition in order."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}

    def take(self, record: GroupRecord) -> Iterator[Change]:
        """Yield what a record proves, given the earlier records."""
        if record.group_id is None or record.group_type is None:
            return
        name = (record.group_type.value, record.group_id)
        group = self._groups.setdefault(name, _Group())
        if record.kind is RecordKind.GROUP_METADATA:
            if record.tombstone:
                self._groups.pop(name)
            else:
                yield from self._classic(group, record)
        elif record.kind is RecordKind.EPOCH:
            if record.tombstone:
                yield from self._departed(group, record)
                self._groups.pop(name)
            else:
                yield from self._epoch(group, record)
        elif record.kind is RecordKind.MEMBER:
            yield from self._member(group, record)
        elif record.kind is RecordKind.CURRENT_MEMBER and not record.tombstone:
            yield from self._current(group, record)

    def _classic(self, group: _Group, record: GroupRecord) -> Iterator[Change]:
        known = group.epoch is not None
        rebalanced = known and record.epoch != group.epoch
        if not known:
            yield self._found(record)
        elif rebalanced:
            yield self._rebalanced(group, record)
        members = {m.instance_id: m.member_id for m in record.members if m.instance_id is not None}
        for instance_id, before in sorted(group.members.items()) if known else ():
            now = members.get(instance_id)
            if now is None:
                yield _change(ChangeKind.GONE, record, instance_id, before)
            elif now != before:
                kind = ChangeKind.REPLACED if rebalanced else ChangeKind.ABSORBED
                yield _change(kind, record, instance_id, before, now)
        group.epoch, group.members = record.epoch, members

    def _epoch(self, group: _Group, record: GroupRecord) -> Iterator[Change]:
        yield from self._departed(group, record)
        if group.epoch is None:
            yield self._found(record)
        elif record.epoch != group.epoch:
            yield self._rebalanced(group, record)
        group.epoch = record.epoch

    def _departed(self, group: _Group, record: GroupRecord) -> Iterator[Change]:
        for instance_id, before in sorted(group.leaving.items()):
            yield _change(ChangeKind.GONE, record, instance_id, before)
        group.leaving.clear()

    def _member(self, group: _Group, record: GroupRecord) -> Iterator[Change]:
        (member,) = record.members
        if record.tombstone:
            for instance_id in [i for i, m in group.members.items() if m == member.member_id]:
                group.leaving[instance_id] = group.members.pop(instance_id)
                group.away.discard(instance_id)
            return
        if member.instance_id is None:
            return
        before = group.leaving.pop(member.instance_id, None)
        if before is not None and before != member.member_id:
            yield _change(ChangeKind.ABSORBED, record, member.instance_id, before, member.member_id, group.epoch)
        group.members[member.instance_id] = member.member_id

    def _current(self, group: _Group, record: GroupRecord) -> Iterator[Change]:
        (member,) = record.members
        instance_id = _instance_of(group, member)
        if instance_id is None:
            return
        if member.member_epoch != LEFT_FOR_A_WHILE_EPOCH:
            group.away.discard(instance_id)
        elif instance_id not in group.away:
            group.away.add(instance_id)
            yield _change(ChangeKind.LEFT_FOR_A_WHILE, record, instance_id, None, member.member_id, group.epoch)

    @staticmethod
    def _found(record: GroupRecord) -> Change:
        assert record.group_id is not None
        assert record.group_type is not None
        return Change(
            kind=ChangeKind.FOUND, group_id=record.group_id, group_type=record.group_type.value, epoch=record.epoch
        )

    @staticmethod
    def _rebalanced(group: _Group, record: GroupRecord) -> Change:
        assert group.epoch is not None
        assert record.epoch is not None
        assert record.group_id is not None
        assert record.group_type is not None
        return Change(
            kind=ChangeKind.REBALANCED,
            group_id=record.group_id,
            group_type=record.group_type.value,
            epoch=record.epoch,
            epochs=record.epoch - group.epoch,
        )


def _instance_of(group: _Group, member: Member) -> str | None:
    return next((i for i, m in group.members.items() if m == member.member_id), None)


def _change(
    kind: ChangeKind,
    record: GroupRecord,
    instance_id: str,
    before: str | None,
    now: str | None = None,
    epoch: int | None = None,
) -> Change:
    assert record.group_id is not None
    assert record.group_type is not None
    return Change(
        kind=kind,
        group_id=record.group_id,
        group_type=record.group_type.value,
        epoch=record.epoch if epoch is None else epoch,
        instance_id=instance_id,
        member_id=now,
        previous_member_id=before,
    )
