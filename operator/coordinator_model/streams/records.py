"""The records of streams groups: how each is written, and what it does to a group, live and on load alike.

Source: StreamsCoordinatorRecordHelpers and GroupMetadataManager.replay.
"""

from __future__ import annotations

from typing import cast

from ..base.epoch_group import Replays
from ..base.records import Record, RecordType
from ..base.shard import Replay, Shard
from .group import KINDS, StreamsGroup
from .member import CurrentAssignment, Member
from .messages import Topology

group_record, member_record, current_record = KINDS.group_record, KINDS.member_record, KINDS.current_record
target_record, target_epoch_record = KINDS.target_record, KINDS.target_epoch_record
member_tombstones = KINDS.member_tombstones


def topology_record(group_id: str, topology: Topology) -> Record:
    """Return the record of the group's topology."""
    return Record(RecordType.STREAMS_GROUP_TOPOLOGY, (group_id,), topology)


REPLAYS = Replays(StreamsGroup, lambda _shard, group_id: StreamsGroup(group_id), Member, CurrentAssignment(-1, -1))


def _replay_topology(shard: Shard, record: Record) -> None:
    group = REPLAYS.group_of(shard, record)
    if group is not None:
        group.topology = cast("Topology | None", record.value)
        group.configured_from = None


REPLAY: dict[RecordType, Replay] = {
    **REPLAYS.table(),
    RecordType.STREAMS_GROUP_TOPOLOGY: _replay_topology,
}
