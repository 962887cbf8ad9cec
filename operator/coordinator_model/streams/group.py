"""A streams group: its members, its topology and what they shall run.

Source: org.apache.kafka.coordinator.group.streams.StreamsGroup.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base.epoch_group import EpochGroup, RecordKinds
from ..base.errors import ErrorCode, GroupError
from ..base.image import TopicImage
from ..base.records import RecordType
from .member import Member, Tasks
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


KINDS = RecordKinds(
    group=RecordType.STREAMS_GROUP_METADATA,
    member=RecordType.STREAMS_GROUP_MEMBER_METADATA,
    target_epoch=RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA,
    target=RecordType.STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER,
    current=RecordType.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT,
)


class StreamsGroup(EpochGroup[Member, Tasks]):
    """One streams group (KIP-1071)."""

    group_type = "streams"
    protocol_type = "streams"
    kinds = KINDS
    metadata: GroupMetadata
    further_kinds = (RecordType.STREAMS_GROUP_TOPOLOGY,)

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id, GroupMetadata(1, 0, -1, None))
        self.topology: Topology | None = None
        # Not persisted: what the tasks were last counted from, open revocations, and a call to shut down.
        self.configured_from: TopicImage | None = None
        self.task_counts: dict[str, int] | None = None
        self.revoking_since_epoch: dict[str, int] = {}
        self.shutdown_requested_by: str | None = None

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

    def remove_member(self, member_id: str) -> None:
        """Drop a member if it is there; the call to shut down ends with the last one."""
        super().remove_member(member_id)
        if not self.members:
            self.shutdown_requested_by = None


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
