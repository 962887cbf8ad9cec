"""The records of KIP-848 groups: how they are written, and what each does to a group, live and on load alike.

Source: GroupCoordinatorRecordHelpers and GroupMetadataManager.replay.
"""

from __future__ import annotations

from typing import cast

from ..base.epoch_group import LEAVE_EPOCH, Replays
from ..base.messages import TopicPartitions
from ..base.records import Record, RecordType
from ..base.shard import Replay, Shard
from .group import KINDS, ConsumerGroup, GroupMetadataValue, ResolvedRegex, TargetMemberValue, TargetMetadataValue
from .member import CurrentAssignment, Member

member_record, current_record, member_tombstones = KINDS.member_record, KINDS.current_record, KINDS.member_tombstones


def group_record(group_id: str, epoch: int, metadata_hash: int) -> Record:
    """Return the record of a group epoch."""
    return KINDS.group_record(group_id, GroupMetadataValue(epoch, metadata_hash))


def target_record(group_id: str, member_id: str, target: TopicPartitions) -> Record:
    """Return the record of what a member shall hold."""
    return KINDS.target_record(group_id, member_id, TargetMemberValue(target))


def target_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> Record:
    """Return the record of the target assignment's epoch."""
    return Record(KINDS.target_epoch, (group_id,), TargetMetadataValue(epoch, timestamp_ms))


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex | None) -> Record:
    """Return the record of a resolved expression; None is its tombstone."""
    return Record(RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION, (group_id, regex), resolved)


def new_group(shard: Shard, group_id: str) -> ConsumerGroup:
    """Return a group without members, not yet registered."""
    return ConsumerGroup(group_id, shard.settings.first_consumer_epoch - 1)


REPLAYS = Replays(ConsumerGroup, new_group, Member, CurrentAssignment(LEAVE_EPOCH, LEAVE_EPOCH))


def _replay_partition_metadata(shard: Shard, record: Record) -> None:
    """Do nothing: since 4.1 this record is only deleted; the hash in the group's record took its place."""


def _replay_regex(shard: Shard, record: Record) -> None:
    group = REPLAYS.group_of(shard, record)
    if group is None:
        return
    regex = cast(str, record.key[1])
    if record.value is None:
        group.regexes.pop(regex, None)
    else:
        group.regexes[regex] = record.value


REPLAY: dict[RecordType, Replay] = {
    **REPLAYS.table(),
    RecordType.CONSUMER_GROUP_PARTITION_METADATA: _replay_partition_metadata,
    RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION: _replay_regex,
}
