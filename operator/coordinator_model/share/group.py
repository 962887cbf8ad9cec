"""A share group, its records, and a simple sharing of partitions.

Source: ShareGroup, ShareGroupMember, GroupCoordinatorRecordHelpers (newShareGroup…) and GroupMetadataManager.replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from ..base.errors import ErrorCode, GroupError
from ..base.image import TopicImage
from ..base.messages import TopicPartitions
from ..base.records import Record, RecordType
from ..base.shard import Shard


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """Value of SHARE_GROUP_MEMBER_METADATA; topic names sorted, without repetition."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """Value of SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    assigned: TopicPartitions = ()


@dataclass(frozen=True, slots=True)
class Member:
    """One member."""

    member_id: str
    metadata: MemberMetadata = MemberMetadata()
    current: CurrentAssignment = CurrentAssignment()


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Value of SHARE_GROUP_METADATA."""

    epoch: int
    metadata_hash: int


@dataclass(frozen=True, slots=True)
class TargetMetadata:
    """Value of SHARE_GROUP_TARGET_ASSIGNMENT_METADATA; timestamp 0 lets the next assignment be computed at once."""

    assignment_epoch: int
    timestamp_ms: int


class ShareGroup:
    """One share group (KIP-932)."""

    group_type = "share"
    protocol_type = "share"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.members: dict[str, Member] = {}
        self.targets: dict[str, TopicPartitions] = {}
        self.metadata = GroupMetadata(1, 0)
        self.target_metadata = TargetMetadata(1, 0)
        self.hashed_from: TopicImage | None = None  # not persisted

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no member."""
        return not self.members

    @property
    def state(self) -> str:
        """Return Kafka's name of the state; a share group knows no other than these two (ShareGroupState)."""
        return "Stable" if self.members else "Empty"

    def member(self, member_id: str) -> Member:
        """Return a member or raise UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            message = f"Member {member_id} is not a member of group {self.group_id}."
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return member

    def tombstones(self) -> list[Record]:
        """Return the tombstones that delete the group (ShareGroup.createGroupTombstoneRecords)."""

        def of_members(record_type: RecordType) -> list[Record]:
            return [Record(record_type, (self.group_id, member_id), None) for member_id in self.members]

        return [
            *of_members(RecordType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT),
            *of_members(RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER),
            Record(RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA, (self.group_id,), None),
            *of_members(RecordType.SHARE_GROUP_MEMBER_METADATA),
            Record(RecordType.SHARE_GROUP_METADATA, (self.group_id,), None),
        ]


def share_out(members: Mapping[str, Member], image: TopicImage) -> dict[str, TopicPartitions]:
    """Return who reads what: every partition has a reader, and every member one partition of each of its topics.

    Simpler than Kafka's SimpleAssignor, which also keeps what members had; who reads what bears on no rule of
    membership. Partitions count at once, without the share coordinator's initialization.
    """
    shares: dict[str, dict[str, set[int]]] = {member_id: {} for member_id in members}
    for topic, partitions in sorted(image.partitions.items()):
        readers = sorted(m for m, member in members.items() if topic in member.metadata.subscribed_topic_names)
        for slot in range(max(len(readers), partitions) if readers else 0):
            shares[readers[slot % len(readers)]].setdefault(topic, set()).add(slot % partitions)
    return {m: tuple((topic, tuple(sorted(own))) for topic, own in share.items()) for m, share in shares.items()}


# records -------------------------------------------------------------------------------------------------------------


def group_record(group_id: str, metadata: GroupMetadata) -> Record:
    """Return the record of a group epoch."""
    return Record(RecordType.SHARE_GROUP_METADATA, (group_id,), metadata)


def member_record(group_id: str, member: Member) -> Record:
    """Return the record of what a member said of itself."""
    return Record(RecordType.SHARE_GROUP_MEMBER_METADATA, (group_id, member.member_id), member.metadata)


def current_record(group_id: str, member: Member) -> Record:
    """Return the record of what a member reads."""
    return Record(RecordType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT, (group_id, member.member_id), member.current)


def target_record(group_id: str, member_id: str, target: TopicPartitions) -> Record:
    """Return the record of what a member shall read."""
    return Record(RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER, (group_id, member_id), target)


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Return the record of the target assignment's epoch."""
    return Record(RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA, (group_id,), TargetMetadata(epoch, timestamp_ms))


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Return the three tombstones of one member."""
    key = (group_id, member_id)
    return [
        Record(RecordType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT, key, None),
        Record(RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER, key, None),
        Record(RecordType.SHARE_GROUP_MEMBER_METADATA, key, None),
    ]


def _group(shard: Shard, record: Record) -> ShareGroup | None:
    group = shard.groups.get(record.group_id)
    if isinstance(group, ShareGroup):
        return group
    if record.value is None:
        return None
    if group is not None and not getattr(group, "is_simple", False):
        raise AssertionError(f"Group {record.group_id} is not a share group")
    made = shard.groups[record.group_id] = ShareGroup(record.group_id)
    return made


def _replay_group(shard: Shard, record: Record) -> None:
    group = _group(shard, record)
    if group is not None and record.value is None:
        del shard.groups[record.group_id]
    elif group is not None:
        group.metadata = cast(GroupMetadata, record.value)


def _replay_member(shard: Shard, record: Record) -> None:
    group = _group(shard, record)
    if group is None:
        return
    member_id = str(record.key[1])
    if record.value is None:
        group.members.pop(member_id, None)
    else:
        member = group.members.get(member_id) or Member(member_id)
        group.members[member_id] = replace(member, metadata=cast(MemberMetadata, record.value))


def _replay_current(shard: Shard, record: Record) -> None:
    group = _group(shard, record)
    if group is None:
        return
    member_id = str(record.key[1])
    if record.value is not None:
        member = group.members.get(member_id) or Member(member_id)
        group.members[member_id] = replace(member, current=cast(CurrentAssignment, record.value))
    elif member_id in group.members:
        group.members[member_id] = replace(group.members[member_id], current=CurrentAssignment(-1, -1))


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
        group.targets[str(record.key[1])] = cast(TopicPartitions, record.value)


REPLAY = {
    RecordType.SHARE_GROUP_METADATA: _replay_group,
    RecordType.SHARE_GROUP_MEMBER_METADATA: _replay_member,
    RecordType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT: _replay_current,
    RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA: _replay_target_epoch,
    RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER: _replay_target,
}
