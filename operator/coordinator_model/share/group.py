"""A share group, its records, and a simple sharing of partitions.

Source: ShareGroup, ShareGroupMember, GroupCoordinatorRecordHelpers (newShareGroup…) and GroupMetadataManager.replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..base.epoch_group import EpochGroup, RecordKinds, Replays
from ..base.image import TopicImage
from ..base.messages import TopicPartitions
from ..base.records import RecordType


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

    @property
    def instance_id(self) -> None:
        """Return None: no member is static."""


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Value of SHARE_GROUP_METADATA."""

    epoch: int
    metadata_hash: int


KINDS = RecordKinds(
    group=RecordType.SHARE_GROUP_METADATA,
    member=RecordType.SHARE_GROUP_MEMBER_METADATA,
    target_epoch=RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_METADATA,
    target=RecordType.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER,
    current=RecordType.SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT,
)


class ShareGroup(EpochGroup[Member, TopicPartitions]):
    """One share group (KIP-932)."""

    group_type = "share"
    protocol_type = "share"
    kinds = KINDS
    metadata: GroupMetadata

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id, GroupMetadata(1, 0))
        self.hashed_from: TopicImage | None = None  # not persisted

    @property
    def state(self) -> str:
        """Return Kafka's name of the state; a share group knows no other than these two (ShareGroupState)."""
        return "Stable" if self.members else "Empty"


def share_out(members: Mapping[str, Member], image: TopicImage) -> dict[str, TopicPartitions]:
    """Return partitions by member: each partition has a reader, each member one partition of each of its topics.

    Simpler than Kafka's SimpleAssignor, which also keeps what members had; the assignment matters for no rule of
    membership. Partitions count at once, without the share coordinator's initialization.
    """
    shares: dict[str, dict[str, set[int]]] = {member_id: {} for member_id in members}
    for topic, partitions in sorted(image.partitions.items()):
        readers = sorted(m for m, member in members.items() if topic in member.metadata.subscribed_topic_names)
        for slot in range(max(len(readers), partitions) if readers else 0):
            shares[readers[slot % len(readers)]].setdefault(topic, set()).add(slot % partitions)
    return {m: tuple((topic, tuple(sorted(own))) for topic, own in share.items()) for m, share in shares.items()}


group_record, member_record, current_record = KINDS.group_record, KINDS.member_record, KINDS.current_record
target_record, target_epoch_record = KINDS.target_record, KINDS.target_epoch_record
member_tombstones = KINDS.member_tombstones
REPLAYS = Replays(ShareGroup, lambda _shard, group_id: ShareGroup(group_id), Member, CurrentAssignment(-1, -1))
REPLAY = REPLAYS.table()
