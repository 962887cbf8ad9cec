"""One member of a streams group and its way from the tasks it holds to the tasks it shall hold.

Source: StreamsGroupMember, TasksTuple, TasksTupleWithEpochs, MemberState and CurrentAssignmentBuilder (package
org.apache.kafka.coordinator.group.streams).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from ..assignors.subscription import to_pairs, to_topic_partitions
from .messages import DescribedTasks, TaskIds

Task = tuple[str, int]
"""(subtopology id, partition)."""


class MemberState(IntEnum):
    """How far a member has come towards its target; the values are those of the record."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tasks by role, as a target names them and a member reports them."""

    active: frozenset[Task] = frozenset()
    standby: frozenset[Task] = frozenset()
    warmup: frozenset[Task] = frozenset()


@dataclass(frozen=True, slots=True)
class HeldTasks:
    """Tasks by role as a member holds them; active ones with the epoch in which they were assigned (KIP-1251)."""

    active: Mapping[Task, int] = field(default_factory=dict)
    standby: frozenset[Task] = frozenset()
    warmup: frozenset[Task] = frozenset()

    def __bool__(self) -> bool:
        """Return whether there is any task."""
        return bool(self.active or self.standby or self.warmup)

    def assigned_in_epoch_zero(self) -> HeldTasks:
        """Return the same tasks as if held from the beginning, which is what a temporary leave records."""
        return HeldTasks(dict.fromkeys(self.active, 0), self.standby, self.warmup)


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """What a member sent about itself; the value of STREAMS_GROUP_MEMBER_METADATA.

    Parameters
    ----------
    rebalance_timeout_ms: -1 until it sent one.
    topology_epoch: of the topology it runs; -1 until it sent one.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    client_tags: tuple[tuple[str, str], ...] = ()

    def needs_new_assignment_after(self, old: MemberMetadata) -> bool:
        """Return whether a static member changed so much that tasks are assigned again (KIP-1071).

        Source: GroupMetadataManager.hasEpochRelevantMemberConfigChanged.
        """
        return (self.topology_epoch, self.rack_id, self.client_tags, self.process_id) != (
            old.topology_epoch,
            old.rack_id,
            old.client_tags,
            old.process_id,
        )


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """What a member holds; the value of STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = HeldTasks()  # immutable
    pending_revocation: HeldTasks = HeldTasks()  # immutable


@dataclass(frozen=True, slots=True)
class Member:
    """One member."""

    member_id: str
    metadata: MemberMetadata = MemberMetadata()  # immutable
    current: CurrentAssignment = CurrentAssignment()  # immutable

    @property
    def instance_id(self) -> str | None:
        """Return the group.instance.id; None for a dynamic member."""
        return self.metadata.instance_id

    def is_reconciled_to(self, epoch: int) -> bool:
        """Return whether the member has reached the target of this epoch."""
        return self.current.state is MemberState.STABLE and self.current.member_epoch == epoch


@dataclass(slots=True)
class Holders:
    """Which processes run a task now, including tasks that they have to give up.

    Source: StreamsGroup.currentActiveTaskProcessId, currentStandbyTaskProcessIds, currentWarmupTaskProcessIds.
    """

    active: dict[Task, str] = field(default_factory=dict)
    standby: dict[Task, set[str]] = field(default_factory=dict)
    warmup: dict[Task, set[str]] = field(default_factory=dict)

    @staticmethod
    def of(members: Iterable[Member]) -> Holders:
        """Return the holders among these members."""
        holders = Holders()
        for member in members:
            process_id = member.metadata.process_id
            for held in (member.current.assigned, member.current.pending_revocation):
                holders.active.update(dict.fromkeys(held.active, process_id))
                for task in held.standby:
                    holders.standby.setdefault(task, set()).add(process_id)
                for task in held.warmup:
                    holders.warmup.setdefault(task, set()).add(process_id)
        return holders


def reconcile(
    member: Member, target_epoch: int, target: Tasks, holders: Holders, owned: Tasks | None
) -> CurrentAssignment:
    """Return the member's next assignment on its way to a target: revoke, then take what others have released.

    Parameters
    ----------
    target_epoch, target: where it shall go.
    holders: the processes that run each task now.
    owned: what it reported in this heartbeat; None: nothing reported, so nothing can be proven released.

    Source: CurrentAssignmentBuilder.build.
    """
    current = member.current
    if current.state is MemberState.STABLE and current.member_epoch == target_epoch:
        return current
    step = _Step(member.metadata.process_id, current, target_epoch, target, holders, owned)
    if current.state is MemberState.UNREVOKED_TASKS:
        if step.still_owns(current.pending_revocation):
            return current
        return step.next(current.member_epoch + 1)
    return step.next(current.member_epoch)


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of one member."""

    process_id: str
    current: CurrentAssignment
    target_epoch: int
    target: Tasks
    holders: Holders
    owned: Tasks | None

    def still_owns(self, revoked: HeldTasks) -> bool:
        """Return whether some of these tasks may still run (hasNotReleased)."""
        owned = self.owned
        return owned is None or not (
            owned.active.isdisjoint(revoked.active)
            and owned.standby.isdisjoint(revoked.standby)
            and owned.warmup.isdisjoint(revoked.warmup)
        )

    def next(self, member_epoch: int) -> CurrentAssignment:
        """Return the assignment after this step; the member's epoch stays at `member_epoch` while it must revoke."""
        held, target = self.current.assigned, self.target
        active = {task: epoch for task, epoch in held.active.items() if task in target.active}
        standby, warmup = set(held.standby & target.standby), set(held.warmup & target.warmup)
        standby_away, warmup_away = set(held.standby - standby), set(held.warmup - warmup)
        new_active, new_standby, new_warmup = (
            target.active - set(active),
            target.standby - standby,
            target.warmup - warmup,
        )
        grant_active = {task for task in new_active if not self._active_is_taken(task)}
        grant_standby = {task for task in new_standby if not self._standby_is_taken(task)}
        grant_warmup = {task for task in new_warmup if not self._warmup_is_taken(task)}
        waits = (
            len(grant_active) < len(new_active)
            or len(grant_standby) < len(new_standby)
            or len(grant_warmup) < len(new_warmup)
        )
        # A change of role within the member needs no other member: it happens now, so that the client recycles the
        # task.
        _move(held.active, grant_standby, standby)
        standby_away -= _move(held.standby, grant_warmup, warmup)
        warmup_away -= _move(held.warmup, grant_standby, standby)
        # A promotion waits for the previous owner; until then the replica stays where it is.
        revoked = HeldTasks(
            {task: epoch for task, epoch in held.active.items() if task not in active},
            frozenset(standby_away - target.active),
            frozenset(warmup_away - target.active),
        )
        must_revoke = bool(revoked) and self.still_owns(revoked)
        granted = set() if must_revoke else grant_active
        standby |= (held.standby & target.active) - granted
        warmup |= (held.warmup & target.active) - granted
        if must_revoke:
            kept = HeldTasks(active, frozenset(standby), frozenset(warmup))
            return self._moved(member_epoch, MemberState.UNREVOKED_TASKS, kept, revoked)
        active |= dict.fromkeys(sorted(grant_active), self.target_epoch)
        assigned = HeldTasks(active, frozenset(standby | grant_standby), frozenset(warmup | grant_warmup))
        state = MemberState.UNRELEASED_TASKS if waits else MemberState.STABLE
        return self._moved(self.target_epoch, state, assigned, HeldTasks())

    def _moved(self, epoch: int, state: MemberState, assigned: HeldTasks, revoked: HeldTasks) -> CurrentAssignment:
        return CurrentAssignment(epoch, self.current.member_epoch, state, assigned, revoked)

    def _active_is_taken(self, task: Task) -> bool:
        """An active task is taken while any process runs it, or a neighbour in this process holds its state."""
        return (
            task in self.holders.active
            or self._neighbour_has(task, self.holders.standby, self.current.assigned.standby)
            or self._neighbour_has(task, self.holders.warmup, self.current.assigned.warmup)
        )

    def _standby_is_taken(self, task: Task) -> bool:
        return (
            (self._runs_here(task) and task not in self.current.assigned.active)
            or self.process_id in self.holders.standby.get(task, ())
            or self._neighbour_has(task, self.holders.warmup, self.current.assigned.warmup)
        )

    def _warmup_is_taken(self, task: Task) -> bool:
        return (
            self._runs_here(task)
            or self._neighbour_has(task, self.holders.standby, self.current.assigned.standby)
            or self.process_id in self.holders.warmup.get(task, ())
        )

    def _runs_here(self, task: Task) -> bool:
        return self.holders.active.get(task) == self.process_id

    def _neighbour_has(self, task: Task, holders: Mapping[Task, set[str]], own: frozenset[Task]) -> bool:
        return self.process_id in holders.get(task, ()) and task not in own


def _move(held: Iterable[Task], granted: set[Task], into: set[Task]) -> set[Task]:
    """Turn tasks that the member holds in another role into tasks of the granted role; returns which."""
    moved = granted.intersection(held)
    granted -= moved
    into |= moved
    return moved


def tasks_of(ids: TaskIds) -> frozenset[Task]:
    """Return the tasks of what a message carries."""
    return frozenset(to_pairs(ids))


def described_tasks(tasks: Tasks | HeldTasks) -> DescribedTasks:
    """Return tasks as a describe shows them."""
    return DescribedTasks(*(to_topic_partitions(each) for each in (tasks.active, tasks.standby, tasks.warmup)))
