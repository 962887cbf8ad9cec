"""One member of a KIP-848 group: what two records say of it, and nothing else.

Source: ConsumerGroupMember, MemberState, ConsumerGroupMemberMetadataValue, ConsumerGroupCurrentMemberAssignmentValue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from ..base.messages import Protocol

Partition = tuple[str, int]
"""(topic name, partition)."""


class MemberState(IntEnum):
    """How far a member has come towards its target (MemberState); values are those of the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicMemberMetadata:
    """The JoinGroup fields of a member of the classic protocol."""

    session_timeout_ms: int
    supported_protocols: tuple[Protocol, ...]


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """Value of CONSUMER_GROUP_MEMBER_METADATA.

    Parameters
    ----------
    subscribed_topic_names: without repetition, sorted.
    subscribed_topic_regex: "" for none.
    rebalance_timeout_ms: -1 until the member sent one.
    classic: None for a member of the consumer protocol.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """Value of CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.

    Parameters
    ----------
    assigned, pending_revocation: partition → epoch in which it was assigned (KIP-1251); never changed once here.
    """

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Mapping[Partition, int] = field(default_factory=dict)
    pending_revocation: Mapping[Partition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Member:
    """One member; a change makes another object."""

    member_id: str
    metadata: MemberMetadata = MemberMetadata()
    current: CurrentAssignment = CurrentAssignment()

    @property
    def instance_id(self) -> str | None:
        """Return the group.instance.id; None for a dynamic member."""
        return self.metadata.instance_id

    @property
    def member_epoch(self) -> int:
        """Return the epoch of the member's last answer."""
        return self.current.member_epoch

    @property
    def uses_classic_protocol(self) -> bool:
        """Return whether it joined with JoinGroup."""
        return self.metadata.classic is not None

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has all of the target of this epoch (ModernGroupMember.isReconciledTo)."""
        return self.current.state is MemberState.STABLE and self.current.member_epoch == epoch


def topic_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names without repetition in a fixed order."""
    return tuple(sorted(set(names)))


def with_epoch(partitions: Iterable[Partition], epoch: int) -> dict[Partition, int]:
    """Return the partitions as assigned in an epoch."""
    return dict.fromkeys(sorted(partitions), epoch)
