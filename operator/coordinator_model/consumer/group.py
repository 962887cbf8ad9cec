"""A KIP-848 group: its members, its target assignment and the holder of each partition.

Source: ConsumerGroup, ModernGroup, TargetAssignmentMetadata.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ..base.epoch_group import JOIN_EPOCH, EpochGroup, RecordKinds, is_assigned
from ..base.errors import ErrorCode, GroupError
from ..base.image import TopicImage
from ..base.messages import ConsumerGroupHeartbeatResponse, TopicPartitions
from ..base.records import Record, RecordType
from .member import Member, Partition
from .reconciliation import NOT_OWNED

CONSUMER_PROTOCOL_TYPE = "consumer"


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """Value of CONSUMER_GROUP_REGULAR_EXPRESSION: the topics that a subscribed expression matched at `timestamp_ms`."""

    topics: tuple[str, ...]
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class GroupMetadataValue:
    """Value of CONSUMER_GROUP_METADATA."""

    epoch: int
    metadata_hash: int


@dataclass(frozen=True, slots=True)
class TargetMetadataValue:
    """Value of CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA; timestamp 0: no assignment interval starts here."""

    assignment_epoch: int
    assignment_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class TargetMemberValue:
    """Value of CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER."""

    topic_partitions: TopicPartitions


KINDS = RecordKinds(
    group=RecordType.CONSUMER_GROUP_METADATA,
    member=RecordType.CONSUMER_GROUP_MEMBER_METADATA,
    target_epoch=RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    target=RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    current=RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
)


class ConsumerGroup(EpochGroup[Member, TopicPartitions]):
    """One KIP-848 group; only the records' `apply` functions and the soft fields' owners change it.

    Parameters
    ----------
    initial_epoch: group and assignment epoch before the first member (settings.first_consumer_epoch - 1).
    """

    group_type = "consumer"
    protocol_type = CONSUMER_PROTOCOL_TYPE
    kinds = KINDS

    def __init__(self, group_id: str, initial_epoch: int) -> None:
        super().__init__(group_id)
        self.group_epoch = initial_epoch
        self.metadata_hash = 0
        self.assignment_epoch = initial_epoch
        self.assignment_timestamp_ms = 0
        self.regexes: dict[str, ResolvedRegex] = {}
        self.owner_epochs: dict[Partition, int] = {}
        self.name_counts: Counter[str] = Counter()
        self.regex_counts: Counter[str] = Counter()
        self.assignor_counts: Counter[str] = Counter()
        self.classic_protocol_counts: Counter[str] = Counter()
        self.classic_members = 0
        # Not in the log: what a fail-over forgets.
        self.hashed_image: TopicImage | None = None
        self.regex_image: TopicImage | None = None
        self.rebalance_timer_epochs: dict[str, int] = {}
        self.steady_answers: dict[str, ConsumerGroupHeartbeatResponse] = {}

    # reading --------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """Return Empty, Assigning, Reconciling or Stable; a member at epoch -2 keeps the group Reconciling."""
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        epoch = self.assignment_epoch
        return "Stable" if all(m.is_reconciled_to(epoch) for m in self.members.values()) else "Reconciling"

    def target_of(self, member: Member) -> TopicPartitions:
        """Return a member's target; a static one that is just returning has its predecessor's."""
        holder = self.static_members.get(member.instance_id) if member.instance_id is not None else member.member_id
        return () if holder is None else self.targets.get(holder, ())

    def owner_epoch(self, partition: Partition) -> int:
        """Return the epoch of the member that holds a partition, or NOT_OWNED."""
        return self.owner_epochs.get(partition, NOT_OWNED)

    def preferred_assignor(self, old: Member | None = None, new: Member | None = None) -> str | None:
        """Return the assignor most members ask for, once `old` is replaced by `new`; None when no member asks.

        On a tie the broker answers in the hash order of the names: uniform before range, their reverse order.
        """
        counts = self.assignor_counts
        if old is not None and new is not None and old.metadata.server_assignor != new.metadata.server_assignor:
            counts = counts.copy()
            _count_assignor(counts, old, -1)
            _count_assignor(counts, new, +1)
        return max(((n, name) for name, n in counts.items() if n > 0), default=(0, None))[1]

    def subscribed_names(
        self, without: Iterable[Member] = (), new: Member | None = None, dropped_regexes: Iterable[str] = ()
    ) -> set[str]:
        """Return every topic with a subscriber, by name or resolved expression, after a change of members."""
        counts = self.name_counts.copy()
        for member in without:
            counts.subtract(member.metadata.subscribed_topic_names)
        if new is not None:
            counts.update(new.metadata.subscribed_topic_names)
        names = {name for name, n in counts.items() if n > 0}
        for regex, resolved in self.regexes.items():
            if regex not in dropped_regexes:
                names.update(resolved.topics)
        return names

    def topics_of(self, member: Member) -> set[str]:
        """Return the topics a member wants; an expression that is not resolved yet matches none."""
        wanted = set(member.metadata.subscribed_topic_names)
        if member.metadata.subscribed_topic_regex in self.regexes:
            wanted.update(self.regexes[member.metadata.subscribed_topic_regex].topics)
        return wanted

    def supports_classic_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a classic joiner shares a protocol with every classic member (supportsClassicProtocols)."""
        if protocol_type != CONSUMER_PROTOCOL_TYPE:
            return False
        return any(self.classic_protocol_counts[name] == self.classic_members for name in names)

    def all_classic_except(self, leaving: Iterable[Member]) -> bool:
        """Return whether only classic-protocol members are left without these (allMembersUseClassicProtocolExcept)."""
        going = list(leaving)
        classic_going = sum(m.uses_classic_protocol for m in going)
        return self.classic_members - classic_going == len(self.members) - len(going)

    def waits_for_unreleased(self, member: Member) -> bool:
        """Return whether another member holds a partition of its target (waitingOnUnreleasedPartition)."""
        return any(
            (topic, p) not in member.current.assigned and self.owner_epoch((topic, p)) != NOT_OWNED
            for topic, partitions in self.targets.get(member.member_id, ())
            for p in partitions
        )

    def tombstones(self, replaced: tuple[str, str] | None = None) -> list[Record]:
        """Return the tombstones that delete the group (createGroupTombstoneRecords).

        Parameters
        ----------
        replaced: (old member id, new member id) of a static replacement whose records were made in the same step.
        """
        ids = [replaced[1] if replaced and m == replaced[0] else m for m in self.members]
        keys: list[tuple[RecordType, tuple[str, ...]]] = [
            *((RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION, (self.group_id, regex)) for regex in self.regexes),
            (RecordType.CONSUMER_GROUP_PARTITION_METADATA, (self.group_id,)),
            (RecordType.CONSUMER_GROUP_METADATA, (self.group_id,)),
        ]
        return [*KINDS.group_tombstones(self.group_id, ids), *(Record(kind, key, None) for kind, key in keys)]

    # changing (by records only) -------------------------------------------------------------------------------------

    def put_member(self, member: Member) -> None:
        """Add or replace a member."""
        old = self.members.get(member.member_id)
        if old is not None:
            self._release(old)
        if old is None or old.metadata is not member.metadata:
            if old is not None:
                self._count(old, -1)
            self._count(member, +1)
        self.members[member.member_id] = member
        for partition in (*member.current.assigned, *member.current.pending_revocation):
            epoch = self.owner_epochs.get(partition)
            if epoch is not None and epoch >= member.member_epoch:
                raise AssertionError(f"{partition} of {member.member_id} is still owned at epoch {epoch}")
            self.owner_epochs[partition] = member.member_epoch

    def remove_member(self, member_id: str) -> None:
        """Remove a member; unknown ones are ignored."""
        old = self.members.pop(member_id, None)
        if old is not None:
            self._release(old)
            self._count(old, -1)
            self.rebalance_timer_epochs.pop(member_id, None)
            self.steady_answers.pop(member_id, None)

    def put_metadata(self, value: GroupMetadataValue) -> None:
        """Take the value of a group epoch's record."""
        self.group_epoch, self.metadata_hash = value.epoch, value.metadata_hash

    def put_target_epoch(self, value: TargetMetadataValue | None) -> None:
        """Take the value of a target epoch's record."""
        value = value or TargetMetadataValue(-1, 0)
        self.assignment_epoch, self.assignment_timestamp_ms = value.assignment_epoch, value.assignment_timestamp_ms

    def put_target(self, member_id: str, value: TargetMemberValue) -> None:
        """Take the value of a target's record."""
        self.targets[member_id] = value.topic_partitions

    def _release(self, old: Member) -> None:
        for partition in (*old.current.assigned, *old.current.pending_revocation):
            if self.owner_epochs.get(partition) == old.member_epoch:
                del self.owner_epochs[partition]

    def _count(self, member: Member, sign: int) -> None:
        metadata = member.metadata
        if metadata.instance_id is not None:
            if sign > 0:
                self.static_members[metadata.instance_id] = member.member_id
            else:
                self.static_members.pop(metadata.instance_id, None)
        for name in metadata.subscribed_topic_names:
            _add(self.name_counts, name, sign)
        if metadata.subscribed_topic_regex:
            _add(self.regex_counts, metadata.subscribed_topic_regex, sign)
        _count_assignor(self.assignor_counts, member, sign)
        if metadata.classic is not None:
            self.classic_members += sign
            for protocol in metadata.classic.supported_protocols:
                _add(self.classic_protocol_counts, protocol.name, sign)


def _add(counts: Counter[str], name: str, sign: int) -> None:
    counts[name] += sign
    if counts[name] <= 0:
        del counts[name]


def _count_assignor(counts: Counter[str], member: Member | None, sign: int) -> None:
    if member is not None and member.metadata.server_assignor is not None:
        _add(counts, member.metadata.server_assignor, sign)


def validate_epoch(member: Member, received: int, owned: TopicPartitions | None) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the epoch is the member's, or its last one with nothing foreign owned.

    The exception is for a lost answer. Epoch 0 always rejoins (KAFKA-19233). Source:
    GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid.
    """
    known = member.current
    if received in (JOIN_EPOCH, known.member_epoch):
        return
    if received > known.member_epoch:
        size = "greater"
    else:
        if received == known.previous_member_epoch and owned is not None and is_assigned(owned, known.assigned):
            return
        size = "smaller"
    raise GroupError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {size} member epoch ({received}) than the one known by the group "
        f"coordinator ({known.member_epoch}). The member must abandon all its partitions and rejoin.",
    )

