"""A streams group: its members, its topology and what they shall run.

Source: org.apache.kafka.coordinator.group.streams.StreamsGroup.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..base.errors import ErrorCode, GroupError
from ..base.image import TopicImage
from ..base.records import Record, RecordType
from .member import Holders, Member, Tasks
from .messages import Topology


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Value of STREAMS_GROUP_METADATA.

    Parameters
    ----------
    validated_topology_epoch: of the topology whose source topics were all there; -1: none was.
    num_standby_replicas: the assignor's setting at the last epoch; None before the first.
    """

    epoch: int
    metadata_hash: int
    validated_topology_epoch: int
    num_standby_replicas: int | None


@dataclass(frozen=True, slots=True)
class TargetMetadata:
    """Value of STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA; timestamp 0 lets the next assignment be computed at once."""

    assignment_epoch: int
    timestamp_ms: int


class StreamsGroup:
    """One streams group (KIP-1071)."""

    group_type = "streams"
    protocol_type = "streams"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Tasks] = {}
        self.topology: Topology | None = None
        self.metadata = GroupMetadata(1, 0, -1, None)
        self.target_metadata = TargetMetadata(1, 0)
        # Not persisted: what the tasks were last counted from, open revocations, and a call to shut down.
        self.configured_from: TopicImage | None = None
        self.task_counts: dict[str, int] | None = None
        self.revoking_since_epoch: dict[str, int] = {}
        self.shutdown_requested_by: str | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no member."""
        return not self.members

    @property
    def state(self) -> str:
        """Return Kafka's name of the state (StreamsGroup.maybeUpdateGroupState)."""
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.metadata.validated_topology_epoch:
            return "NotReady"
        if self.metadata.epoch > self.target_metadata.assignment_epoch:
            return "Assigning"
        epoch = self.target_metadata.assignment_epoch
        return "Stable" if all(m.is_reconciled_to(epoch) for m in self.members.values()) else "Reconciling"

    def member(self, member_id: str) -> Member:
        """Return a member or raise UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str | None) -> Member | None:
        """Return the member that holds an instance id; None when nobody does."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def holder(self, instance_id: str, member_id: str) -> Member:
        """Return the static member both ids name, or raise UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
        member = self.static_member(instance_id)
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if member.member_id != member_id:
            raise GroupError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
            )
        return member

    def holders(self) -> Holders:
        """Return which process runs which task now."""
        return Holders.of(self.members.values())

    def put_member(self, member: Member) -> None:
        """Add or replace a member; the instance ids follow."""
        old = self.members.get(member.member_id)
        if old is not None:
            self._forget_instance(old)
        self.members[member.member_id] = member
        if member.metadata.instance_id is not None:
            self.static_members[member.metadata.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """Drop a member if it is there; the call to shut down ends with the last one."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._forget_instance(member)
        if not self.members:
            self.shutdown_requested_by = None

    def _forget_instance(self, member: Member) -> None:
        instance_id = member.metadata.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]

    def tombstones(self) -> list[Record]:
        """Return the tombstones that delete the group (StreamsGroup.createGroupTombstoneRecords)."""

        def of_members(record_type: RecordType) -> Iterable[Record]:
            return (Record(record_type, (self.group_id, member_id), None) for member_id in self.members)

        return [
            *of_members(RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT),
            *of_members(RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER),
            Record(RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA, (self.group_id,), None),
            *of_members(RecordType.STREAMS_GROUP_MEMBER_METADATA),
            Record(RecordType.STREAMS_GROUP_METADATA, (self.group_id,), None),
            Record(RecordType.STREAMS_GROUP_TOPOLOGY, (self.group_id,), None),
        ]


def check_commit(group: StreamsGroup, member_id: str, member_epoch: int, topic: str, partition: int) -> None:
    """Refuse a commit of a member that is unknown or no longer owns the partition.

    Parameters
    ----------
    member_epoch: negative from tools, which may write while the group is empty.

    Raises
    ------
    GroupError: UNKNOWN_MEMBER_ID or STALE_MEMBER_EPOCH. An older epoch passes if the task was assigned in it or before.
    Source: StreamsGroup.validateOffsetCommit and createAssignmentEpochValidator (KIP-1251).
    """
    if member_epoch < 0 and group.is_empty:
        return
    current = group.member(member_id).current
    if member_epoch == current.member_epoch:
        return
    subtopologies = group.topology.subtopologies if group.topology is not None else ()
    owner = next((s.subtopology_id for s in subtopologies if topic in s.source_topics), None)
    task = ("" if owner is None else owner, partition)
    assigned_in = current.assigned.active.get(task, current.pending_revocation.active.get(task))
    if member_epoch > current.member_epoch or assigned_in is None or member_epoch < assigned_in:
        raise GroupError(
            ErrorCode.STALE_MEMBER_EPOCH, f"Member epoch {member_epoch} is not valid for {topic}-{partition}."
        )


def check_fetch(group: StreamsGroup, member_id: str | None, member_epoch: int) -> None:
    """Refuse an offset fetch of an unknown member or with another epoch (StreamsGroup.validateOffsetFetch)."""
    if member_id is None and member_epoch < 0:
        return
    if group.member(member_id or "").current.member_epoch != member_epoch:
        raise GroupError(ErrorCode.STALE_MEMBER_EPOCH, f"Member epoch {member_epoch} is not the current one.")
