"""The records of streams groups: how each is written, and what it does to a group, live and on load alike.

Source: StreamsCoordinatorRecordHelpers and GroupMetadataManager.replay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from ..base.records import Record, RecordType
from ..base.shard import Shard
from .group import GroupMetadata, StreamsGroup, TargetMetadata
from .member import CurrentAssignment, Member, MemberMetadata, Tasks
from .messages import Topology


def group_record(group_id: str, metadata: GroupMetadata) -> Record:
    """Return the record of a group epoch."""
    return Record(RecordType.STREAMS_GROUP_METADATA, (group_id,), metadata)


def topology_record(group_id: str, topology: Topology) -> Record:
    """Return the record of the group's topology."""
    return Record(RecordType.STREAMS_GROUP_TOPOLOGY, (group_id,), topology)


def member_record(group_id: str, member: Member) -> Record:
    """Return the record of what a member said of itself."""
    return Record(RecordType.STREAMS_GROUP_MEMBER_METADATA, (group_id, member.member_id), member.metadata)


def current_record(group_id: str, member: Member) -> Record:
    """Return the record of what a member holds."""
    return Record(RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT, (group_id, member.member_id), member.current)


def target_record(group_id: str, member_id: str, target: Tasks) -> Record:
    """Return the record of what a member shall hold."""
    return Record(RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER, (group_id, member_id), target)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Return the record of the target assignment's epoch."""
    value = TargetMetadata(epoch, timestamp_ms)
    return Record(RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA, (group_id,), value)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Return the three tombstones of one member (removeStreamsMember)."""
    key = (group_id, member_id)
    return [
        Record(RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, None),
        Record(RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER, key, None),
        Record(RecordType.STREAMS_GROUP_MEMBER_METADATA, key, None),
    ]


# replay --------------------------------------------------------------------------------------------------------------


def _group(shard: Shard, record: Record) -> StreamsGroup | None:
    """Return the record's group, made unless the record is a tombstone; None: a tombstone of nothing.

    A simple classic group, which only holds offsets and has no record, makes way.
    """
    group = shard.groups.get(record.group_id)
    if isinstance(group, StreamsGroup):
        return group
    if record.value is None:
        return None
    if group is not None and not getattr(group, "is_simple", False):
        raise AssertionError(f"Group {record.group_id} is not a streams group")
    made = shard.groups[record.group_id] = StreamsGroup(record.group_id)
    return made


def _replay_group(shard: Shard, record: Record) -> None:
    group = _group(shard, record)
    if group is None:
        return
    if record.value is None:
        del shard.groups[record.group_id]
    else:
        group.metadata = cast(GroupMetadata, record.value)


def _replay_topology(shard: Shard, record: Record) -> None:
    group = _group(shard, record)
    if group is not None:
        group.topology = cast("Topology | None", record.value)
        group.configured_from = None


def _replay_member(shard: Shard, record: Record) -> None:
    group = _group(shard, record)
    if group is None:
        return
    member_id = str(record.key[1])
    if record.value is None:
        group.remove_member(member_id)
    else:
        member = group.members.get(member_id) or Member(member_id)
        group.put_member(replace(member, metadata=cast(MemberMetadata, record.value)))


def _replay_current(shard: Shard, record: Record) -> None:
    """A tombstone takes the assignment away; on a member that is gone it means nothing (compaction may reorder)."""
    group = _group(shard, record)
    if group is None:
        return
    member_id = str(record.key[1])
    if record.value is not None:
        member = group.members.get(member_id) or Member(member_id)
        group.put_member(replace(member, current=cast(CurrentAssignment, record.value)))
    elif member_id in group.members:
        group.put_member(replace(group.members[member_id], current=CurrentAssignment(-1, -1)))


def _replay_target_epoch(shard: Shard, record: Record) -> None:
    group = _group(shard, record)
    if group is not None:
        value = cast("TargetMetadata | None", record.value)
        group.target_metadata = TargetMetadata(-1, 0) if value is None else value


def _replay_target(shard: Shard, record: Record) -> None:
    group = _group(shard, record)
    if group is None:
        return
    if record.value is None:
        group.targets.pop(str(record.key[1]), None)
    else:
        group.targets[str(record.key[1])] = cast(Tasks, record.value)


REPLAY = {
    RecordType.STREAMS_GROUP_METADATA: _replay_group,
    RecordType.STREAMS_GROUP_TOPOLOGY: _replay_topology,
    RecordType.STREAMS_GROUP_MEMBER_METADATA: _replay_member,
    RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT: _replay_current,
    RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA: _replay_target_epoch,
    RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER: _replay_target,
}
