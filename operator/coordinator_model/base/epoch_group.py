"""A group whose members have epochs, and the five kinds of records that all such groups have.

One idea: consumer, streams and share groups differ in what a member says and holds, not in how that is written down or
read again. Source: ModernGroup, StreamsGroup, GroupCoordinatorRecordHelpers, GroupMetadataManager.replay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from .errors import ErrorCode, GroupError
from .messages import EpochDescribedGroup, TopicPartitions
from .records import Record, RecordType
from .result import Step
from .settings import require
from .shard import Replay, Shard
from .timers import TimerKey

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
"""Member epochs of a heartbeat that joins, leaves, or leaves for a while (KIP-848)."""


class EpochMember(Protocol):
    """What such a group needs of a member: a frozen dataclass with the values of two records."""

    @property
    def member_id(self) -> str:
        """Return the member id."""

    @property
    def instance_id(self) -> str | None:
        """Return the group.instance.id; None for a dynamic member."""

    @property
    def metadata(self) -> Any:
        """Return what the member said of itself."""

    @property
    def current(self) -> Any:
        """Return what the member holds."""


M = TypeVar("M", bound=EpochMember)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RecordKinds:
    """The record types of one type of group, and how a record of each is written; values are the group type's own."""

    group: RecordType
    member: RecordType
    target_epoch: RecordType
    target: RecordType
    current: RecordType

    def group_record(self, group_id: str, value: object) -> Record:
        """Return the record of a group epoch."""
        return Record(self.group, (group_id,), value)

    def member_record(self, group_id: str, member: EpochMember) -> Record:
        """Return the record of what a member said of itself."""
        return Record(self.member, (group_id, member.member_id), member.metadata)

    def current_record(self, group_id: str, member: EpochMember) -> Record:
        """Return the record of what a member holds."""
        return Record(self.current, (group_id, member.member_id), member.current)

    def target_record(self, group_id: str, member_id: str, value: object) -> Record:
        """Return the record of what a member shall hold."""
        return Record(self.target, (group_id, member_id), value)

    def target_epoch_record(self, group_id: str, epoch: int, timestamp_ms: int) -> Record:
        """Return the record of the target assignment's epoch; see `TargetMetadata`."""
        return Record(self.target_epoch, (group_id,), TargetMetadata(epoch, timestamp_ms))

    def member_tombstones(self, group_id: str, member_id: str) -> list[Record]:
        """Return the three tombstones of one member, in the order that a replay demands (removeMember)."""
        return [Record(kind, (group_id, member_id), None) for kind in (self.current, self.target, self.member)]

    def group_tombstones(self, group_id: str, member_ids: Iterable[str]) -> list[Record]:
        """Return all tombstones but that of the group itself (createGroupTombstoneRecords)."""
        ids = list(member_ids)
        return [
            *(Record(kind, (group_id, m), None) for kind in (self.current, self.target) for m in ids),
            Record(self.target_epoch, (group_id,), None),
            *(Record(self.member, (group_id, m), None) for m in ids),
        ]


@dataclass(frozen=True, slots=True)
class TargetMetadata:
    """Value of a target assignment's epoch; timestamp 0 lets the next assignment be computed at once."""

    assignment_epoch: int
    timestamp_ms: int


class EpochGroup(ABC, Generic[M, T]):
    """A group of members with epochs, each with a target; only records and the soft fields' owners change it.

    Parameters
    ----------
    metadata: value of its group epoch before the first record; None where the type has fields of its own for it.
    """

    group_type: ClassVar[str]
    protocol_type: ClassVar[str]
    kinds: ClassVar[RecordKinds]
    further_kinds: ClassVar[tuple[RecordType, ...]] = ()
    """Records of the whole group that only its type has."""

    def __init__(self, group_id: str, metadata: Any = None) -> None:
        self.group_id = group_id
        self.metadata = metadata
        self.target_metadata = TargetMetadata(1, 0)
        self.members: dict[str, M] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, T] = {}

    # reading

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no member."""
        return not self.members

    @property
    @abstractmethod
    def state(self) -> str:
        """Return Kafka's name of the state."""

    def member(self, member_id: str) -> M:
        """Return a member by its id, or raise UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str | None) -> M | None:
        """Return the member that holds an instance id; None when there is none."""
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    def known_static_member(self, instance_id: str, member_id: str) -> M:
        """Return the holder of an instance id; raise UNKNOWN_MEMBER_ID (no holder) or FENCED_INSTANCE_ID (another)."""
        holder = self.static_member(instance_id)
        if holder is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if holder.member_id != member_id:
            raise GroupError(
                ErrorCode.FENCED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} was fenced by member {holder.member_id}.",
            )
        return holder

    def tombstones(self) -> list[Record]:
        """Return the tombstones that delete the group (createGroupTombstoneRecords)."""
        own = (Record(kind, (self.group_id,), None) for kind in (self.kinds.group, *self.further_kinds))
        return [*self.kinds.group_tombstones(self.group_id, self.members), *own]

    # changing, by records only

    def put_member(self, member: M) -> None:
        """Add or replace a member; the instance ids follow."""
        old = self.members.get(member.member_id)
        if old is not None:
            self._forget_instance(old)
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """Remove a member; unknown ones are ignored."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._forget_instance(member)

    def _forget_instance(self, member: M) -> None:
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def put_metadata(self, value: Any) -> None:
        """Take the value of a group epoch's record."""
        self.metadata = value

    def put_target_epoch(self, value: Any | None) -> None:
        """Take the value of a target epoch's record; None: the target is gone."""
        self.target_metadata = value or TargetMetadata(-1, 0)

    def put_target(self, member_id: str, value: Any) -> None:
        """Take the value of a target's record."""
        self.targets[member_id] = value


G = TypeVar("G", bound=EpochGroup[Any, Any])


def existing(shard: Shard, group_id: str, kind: type[G]) -> G:
    """Return a group of one type or raise GROUP_ID_NOT_FOUND (get…GroupOrThrow)."""
    group = shard.groups.get(group_id)
    if isinstance(group, kind):
        return group
    reason = "not found" if group is None else f"is not a {kind.group_type} group"
    raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")


def group_of_timer(shard: Shard, key: TimerKey, kind: type[G]) -> G | None:
    """Return the group of a member's timer; None when the group or the member is gone by now."""
    group = shard.groups.get(key[1])
    return group if isinstance(group, kind) and key[2] in group.members else None


def require_room(group: EpochGroup[Any, Any], size: int, member_id: str, instance_id: str | None = None) -> None:
    """Raise GROUP_MAX_SIZE_REACHED unless there is room, or the member, or its instance id, is in the group already.

    Source: throwIfConsumerGroupIsFull, throwIfStreamsGroupIsFull and throwIfShareGroupIsFull with KAFKA-20601.
    """
    require(
        len(group.members) < size or member_id in group.members or instance_id in group.static_members,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"The {group.group_type} group has reached its maximum capacity of {size} members.",
    )


def refuse_unreleased(holder: EpochMember, joiner_id: str) -> None:
    """Raise UNRELEASED_INSTANCE_ID unless the holder of the instance id said that it is away (epoch -2)."""
    require(
        holder.current.member_epoch == LEAVE_STATIC_EPOCH,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Static member {joiner_id} with instance id {holder.instance_id} cannot join the group because the instance "
        f"id is owned by {holder.member_id} member.",
    )


D = TypeVar("D", bound=EpochDescribedGroup)


def described(
    shard: Shard,
    principal: str,
    group_id: str,
    kind: type[G],
    answer: type[D],
    own_fields: Callable[[G], dict[str, Any]],
) -> D:
    """Return a streams or share group as a describe shows it; one of another type, or none, is Dead.

    Parameters
    ----------
    answer: the type's description; `own_fields` returns its fields beyond those that every type has.
    """
    try:
        shard.authorize(principal, "DESCRIBE", group_id)
        group = existing(shard, group_id, kind)
    except GroupError as error:
        state = "Dead" if error.code is ErrorCode.GROUP_ID_NOT_FOUND else ""
        return answer(
            group_id=group_id, error_code=error.code, error_message=error.message or None, group_state=state
        )
    return answer(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.metadata.epoch,
        assignment_epoch=group.target_metadata.assignment_epoch,
        **own_fields(group),
    )


def is_assigned(owned: TopicPartitions, assigned: Collection[tuple[str, int]]) -> bool:
    """Return whether only what is assigned is owned; a topic, or subtopology, of which nothing is owned counts too.

    Source: GroupMetadataManager.isSubset, areOwnedTasksContainedInAssignedTasks.
    """
    topics = {topic for topic, _ in assigned}
    return all(topic in topics and all((topic, p) in assigned for p in numbers) for topic, numbers in owned)


def write(shard: Shard, step: Step, records: list[Record]) -> None:
    """Write records to the log and carry them out; the coordinator undoes all of it when the log refuses."""
    for record in records:
        shard.apply(record)
    step.records += records


@dataclass(frozen=True, slots=True)
class Replays:
    """What each kind of record does to a group of one type, live and on load alike.

    Parameters
    ----------
    kind: the class of the groups; new_group, new_member: make one that has no record yet.
    no_assignment: what a member holds once the record of it is gone, which compaction may do before the member is.
    """

    kind: type[EpochGroup[Any, Any]]
    new_group: Callable[[Shard, str], Any]
    new_member: Callable[[str], Any]
    no_assignment: object

    def table(self) -> dict[RecordType, Replay]:
        """Return the function for each record type."""
        kinds = self.kind.kinds
        return {
            kinds.group: self._group,
            kinds.member: self._member,
            kinds.target_epoch: self._target_epoch,
            kinds.target: self._target,
            kinds.current: self._current,
        }

    def group_of(self, shard: Shard, record: Record) -> Any | None:
        """Return the record's group, made if the record is no tombstone; None: a tombstone of nothing.

        A simple classic group, which only holds offsets and has no record, makes way (getOrMaybeCreatePersisted…Group).
        """
        group = shard.groups.get(record.group_id)
        if isinstance(group, self.kind):
            return group
        if record.value is None:
            return None
        if group is not None and not getattr(group, "is_simple", False):
            raise AssertionError(f"Group {record.group_id} is not a {self.kind.group_type} group")
        made = shard.groups[record.group_id] = self.new_group(shard, record.group_id)
        return made

    def _group(self, shard: Shard, record: Record) -> None:
        group = self.group_of(shard, record)
        if group is not None and record.value is not None:
            group.put_metadata(record.value)
        elif group is not None:
            assert not group.members, "a group's tombstone comes after those of its members"
            del shard.groups[record.group_id]

    def _member(self, shard: Shard, record: Record) -> None:
        group, member_id = self.group_of(shard, record), str(record.key[1])
        if group is not None and record.value is not None:
            known = group.members.get(member_id) or self.new_member(member_id)
            group.put_member(replace(known, metadata=record.value))
        elif group is not None:
            group.remove_member(member_id)

    def _current(self, shard: Shard, record: Record) -> None:
        group, member_id = self.group_of(shard, record), str(record.key[1])
        if group is not None and record.value is not None:
            known = group.members.get(member_id) or self.new_member(member_id)
            group.put_member(replace(known, current=record.value))
        elif group is not None and member_id in group.members:
            group.put_member(replace(group.members[member_id], current=self.no_assignment))

    def _target_epoch(self, shard: Shard, record: Record) -> None:
        group = self.group_of(shard, record)
        if group is not None:
            group.put_target_epoch(record.value)

    def _target(self, shard: Shard, record: Record) -> None:
        group, member_id = self.group_of(shard, record), str(record.key[1])
        if group is not None and record.value is not None:
            group.put_target(member_id, record.value)
        elif group is not None:
            group.targets.pop(member_id, None)
