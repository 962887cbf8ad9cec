"""The records of KIP-848 groups: how they are written, and what each does to a group, live and on load alike.

Source: GroupCoordinatorRecordHelpers and GroupMetadataManager.replay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from ..base.messages import TopicPartitions
from ..base.records import Record, RecordType
from ..base.result import Step
from ..base.shard import Shard
from .group import ConsumerGroup, ResolvedRegex
from .member import LEAVE_EPOCH, CurrentAssignment, Member, MemberMetadata


@dataclass(frozen=True, slots=True)
class GroupMetadataValue:
    """Value of CONSUMER_GROUP_METADATA."""

    epoch: int
    metadata_hash: int


@dataclass(frozen=True, slots=True)
class TargetMetadataValue:
    """Value of CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA; timestamp 0: the assignment interval does not count from it."""

    assignment_epoch: int
    assignment_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class TargetMemberValue:
    """Value of CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER."""

    topic_partitions: TopicPartitions


def group_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Return the record of a group epoch."""
    return Record(RecordType.CONSUMER_GROUP_METADATA, (group_id,), GroupMetadataValue(epoch, metadata_hash))


def member_record(group_id: str, member: Member) -> Record:
    """Return the record of what a member said of itself."""
    return Record(RecordType.CONSUMER_GROUP_MEMBER_METADATA, (group_id, member.member_id), member.metadata)


def current_record(group_id: str, member: Member) -> Record:
    """Return the record of what a member holds."""
    return Record(RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, (group_id, member.member_id), member.current)


def target_record(group_id: str, member_id: str, target: TopicPartitions) -> Record:
    """Return the record of what a member shall hold."""
    value = TargetMemberValue(target)
    return Record(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, (group_id, member_id), value)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Return the record of the target assignment's epoch."""
    value = TargetMetadataValue(epoch, timestamp_ms)
    return Record(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, (group_id,), value)


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex | None) -> Record:
    """Return the record of a resolved expression; None is its tombstone."""
    return Record(RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION, (group_id, regex), resolved)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Return the three tombstones of one member, in the order that a replay demands (removeMember)."""
    key = (group_id, member_id)
    return [
        Record(RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, None),
        Record(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER, key, None),
        Record(RecordType.CONSUMER_GROUP_MEMBER_METADATA, key, None),
    ]


def new_group(shard: Shard, group_id: str) -> ConsumerGroup:
    """Return a group that nobody has joined, not yet registered."""
    return ConsumerGroup(group_id, shard.settings.first_consumer_epoch - 1)


def append(shard: Shard, step: Step, records: list[Record]) -> None:
    """Write records to the log and carry them out; the coordinator undoes all of it when the log refuses."""
    for record in records:
        shard.apply(record)
    step.records += records


# replay --------------------------------------------------------------------------------------------------------------


def _persisted(shard: Shard, record: Record) -> ConsumerGroup | None:
    """Return the record's group, made if the record is no tombstone; None: a tombstone of nothing.

    A simple classic group, which only holds offsets and has no record, makes way (getOrMaybeCreatePersistedConsumerGroup).
    """
    group = shard.groups.get(record.group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if record.value is None:
        return None
    if group is not None and not getattr(group, "is_simple", False):
        raise AssertionError(f"Group {record.group_id} is not a consumer group")
    made = shard.groups[record.group_id] = new_group(shard, record.group_id)
    return made


def _replay_group(shard: Shard, record: Record) -> None:
    group = _persisted(shard, record)
    if group is None:
        return
    if record.value is None:
        assert not group.members, "a group's tombstone comes after those of its members"
        del shard.groups[record.group_id]
        return
    value = cast(GroupMetadataValue, record.value)
    group.group_epoch, group.metadata_hash = value.epoch, value.metadata_hash


def _replay_partition_metadata(shard: Shard, record: Record) -> None:
    """Do nothing: since 4.1 this record is only deleted; the hash in the group's record took its place."""


def _replay_member(shard: Shard, record: Record) -> None:
    group = _persisted(shard, record)
    if group is None:
        return
    member_id = cast(str, record.key[1])
    if record.value is None:
        group.remove_member(member_id)
        return
    member = group.members.get(member_id) or Member(member_id)
    group.put_member(Member(member_id, cast(MemberMetadata, record.value), member.current))


def _replay_current(shard: Shard, record: Record) -> None:
    group = _persisted(shard, record)
    if group is None:
        return
    member_id = cast(str, record.key[1])
    member = group.members.get(member_id)
    if record.value is None:
        if member is not None:
            group.put_member(Member(member_id, member.metadata, CurrentAssignment(LEAVE_EPOCH, LEAVE_EPOCH)))
        return
    metadata = member.metadata if member is not None else MemberMetadata()
    group.put_member(Member(member_id, metadata, cast(CurrentAssignment, record.value)))


def _replay_target_epoch(shard: Shard, record: Record) -> None:
    group = _persisted(shard, record)
    if group is None:
        return
    value = cast(TargetMetadataValue | None, record.value) or TargetMetadataValue(-1, 0)
    group.assignment_epoch, group.assignment_timestamp_ms = value.assignment_epoch, value.assignment_timestamp_ms


def _replay_target(shard: Shard, record: Record) -> None:
    group = _persisted(shard, record)
    if group is None:
        return
    member_id = cast(str, record.key[1])
    if record.value is None:
        group.target.pop(member_id, None)
    else:
        group.target[member_id] = cast(TargetMemberValue, record.value).topic_partitions


def _replay_regex(shard: Shard, record: Record) -> None:
    group = _persisted(shard, record)
    if group is None:
        return
    regex = cast(str, record.key[1])
    if record.value is None:
        group.regexes.pop(regex, None)
    else:
        group.regexes[regex] = cast(ResolvedRegex, record.value)


REPLAY: dict[RecordType, Callable[[Shard, Record], None]] = {
    RecordType.CONSUMER_GROUP_METADATA: _replay_group,
    RecordType.CONSUMER_GROUP_PARTITION_METADATA: _replay_partition_metadata,
    RecordType.CONSUMER_GROUP_MEMBER_METADATA: _replay_member,
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: _replay_target_epoch,
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: _replay_target,
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: _replay_current,
    RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: _replay_regex,
}
