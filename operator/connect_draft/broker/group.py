"""A group of the draft as its records make it, and the memory a coordinator may lose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar, cast

from coordinator_model.connect.work import NOTHING, ConnectorsAndTasks

from ..records import (
    ConnectorsTasksMetadata,
    CurrentMemberAssignment,
    DraftRecord,
    DraftRecordType,
    GroupConfiguration,
    GroupMetadata,
    MemberMetadata,
    TargetAssignment,
)

Kept = TypeVar("Kept")
NO_TARGET = TargetAssignment(assignment_epoch=0, error=0, members=())
NEW_WORKER = CurrentMemberAssignment(member_epoch=0, previous_epoch=-1, error=0)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What an assignment for one group epoch was computed from, and is therefore held against (item 71)."""

    members: frozenset[str]
    configured: ConnectorsAndTasks
    held_back: tuple[tuple[str, ConnectorsAndTasks], ...]


@dataclass(slots=True)
class Memory:
    """What is not in records: a new coordinator starts without it.

    Parameters
    ----------
    chosen: the worker picked to compute the assignment that is wanted now.
    declined: workers that did not compute it within their rebalance timeout, until another one did.
    prepared: inputs handed out, by group epoch.
    rejoining, syncing: workers of the old protocol that have to join again, or that joined and have not synced.
    reported: the work that such a worker reported as running when it joined.
    """

    chosen: str | None = None
    declined: set[str] = field(default_factory=set)
    prepared: dict[int, Prepared] = field(default_factory=dict)
    rejoining: set[str] = field(default_factory=set)
    syncing: set[str] = field(default_factory=set)
    reported: dict[str, ConnectorsAndTasks] = field(default_factory=dict)


@dataclass(slots=True)
class ConnectGroup:
    """One group: every field but the memory is the last value of a record key."""

    group_id: str
    metadata: GroupMetadata = field(default_factory=lambda: GroupMetadata(0))
    connectors: ConnectorsTasksMetadata = field(default_factory=lambda: ConnectorsTasksMetadata(0, NOTHING, -1))
    members: dict[str, MemberMetadata] = field(default_factory=dict)
    current: dict[str, CurrentMemberAssignment] = field(default_factory=dict)
    target: TargetAssignment = NO_TARGET
    configuration: GroupConfiguration = field(default_factory=lambda: GroupConfiguration(()))
    memory: Memory = field(default_factory=Memory, compare=False)

    @property
    def epoch(self) -> int:
        """The version of the group's metadata."""
        return self.metadata.epoch

    def target_of(self, member_id: str) -> ConnectorsAndTasks:
        """Return what the target gives a worker; nothing for one it does not name, such as one that joined later."""
        return next((member.work for member in self.target.members if member.member_id == member_id), NOTHING)

    def current_of(self, member_id: str) -> CurrentMemberAssignment:
        """Return a worker's epoch and what it may run; a worker without a record has just joined."""
        return self.current.get(member_id, NEW_WORKER)

    def held_by_others(self, member_id: str) -> ConnectorsAndTasks:
        """Return all that other workers run or have not stopped yet."""
        return ConnectorsAndTasks.union(
            part
            for other, current in self.current.items()
            if other != member_id
            for part in (current.assigned, current.revoking)
        )

    def held_back(self) -> tuple[tuple[str, ConnectorsAndTasks], ...]:
        """Return what may stay unassigned for a while, by former owner.

        That is what the last target held back already, and what it gave to workers that have left. Item 71: the draft
        wants all assigned, yet its case study of a leaving worker installs a target without that worker's work.
        """
        return tuple(self._held_back())

    def _held_back(self) -> Iterator[tuple[str, ConnectorsAndTasks]]:
        for owner, work in self.target.held_back:
            if left := work.common(self.connectors.work):
                yield owner, left
        for member in self.target.members:
            left = member.work.common(self.connectors.work)
            if member.member_id not in self.members and left:
                yield member.member_id, left

    def held_back_work(self) -> ConnectorsAndTasks:
        """Return all work that is held back, of any owner."""
        return ConnectorsAndTasks.union(work for _, work in self.held_back())

    def is_blank(self) -> bool:
        """Whether no record of this group is left."""
        return self == ConnectGroup(self.group_id)

    def setting_ms(self, name: str, default_ms: int) -> int:
        """Return a time from the group's own configuration, or the default."""
        return int(dict(self.configuration.configurations).get(name, default_ms))

    def apply(self, record: DraftRecord) -> None:
        """Take over one record; a tombstone brings a key back to what it was before its first record."""
        value = record.value
        match record.record_type:
            case DraftRecordType.GROUP_METADATA:
                self.metadata = cast(GroupMetadata, value) if value else GroupMetadata(0)
            case DraftRecordType.CONNECTORS_TASKS_METADATA:
                fresh = ConnectorsTasksMetadata(0, NOTHING, -1)
                self.connectors = cast(ConnectorsTasksMetadata, value) if value else fresh
            case DraftRecordType.MEMBER_METADATA:
                _put(self.members, record.key[1], cast("MemberMetadata | None", value))
            case DraftRecordType.CURRENT_MEMBER_ASSIGNMENT:
                _put(self.current, record.key[1], cast("CurrentMemberAssignment | None", value))
            case DraftRecordType.TARGET_ASSIGNMENT:
                self.target = cast(TargetAssignment, value) if value else NO_TARGET
            case DraftRecordType.GROUP_CONFIGURATION:
                self.configuration = cast(GroupConfiguration, value) if value else GroupConfiguration(())


def _put(values: dict[str, Kept], key: str, value: Kept | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
