"""The sticky task assignor: active tasks stay where they are, then go where their state is, then to the least loaded.

Kafka iterates processes and members in hash order; here it is the order of instance ids, static members first.
Left out: ranking former standbys by reported task offsets (telemetry), rack tags.
Source: org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor and ProcessState.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..base.image import TopicImage
from .member import Member, Task, Tasks
from .messages import Subtopology, Topology


def task_counts(topology: Topology, image: TopicImage) -> dict[str, int] | None:
    """Return how many tasks each subtopology has; None while a source topic is missing.

    Source: InternalTopicManager.configureTopics, ConfiguredSubtopology.numberOfTasks.
    """
    counts: dict[str, int] = {}
    for subtopology in topology.subtopologies:
        if any(topic not in image.partitions for topic in subtopology.source_topics):
            return None
        counts[subtopology.subtopology_id] = max((image.partitions[t] for t in subtopology.source_topics), default=0)
    return counts


def assign(
    members: Mapping[str, Member],
    targets: Mapping[str, Tasks],
    topology: Topology,
    image: TopicImage,
    num_standby_replicas: int,
) -> dict[str, Tasks]:
    """Return every member's target.

    Parameters
    ----------
    members: the group's members; their process ids decide where a standby may go.
    targets: the previous targets, by member id.
    num_standby_replicas: further copies of each stateful task, each in another process.

    Returns
    -------
    Empty targets while a source topic is missing. Warm-up tasks are never among them (nor does 4.4 add any later).
    """
    counts = task_counts(topology, image)
    if counts is None:
        return {member_id: Tasks() for member_id in members}
    return _Assignment(members, targets, topology.subtopologies, counts, num_standby_replicas).run()


@dataclass(slots=True)
class _Quota:
    """How many tasks a member may get while the others can still get as many (computeTasksPerMember)."""

    tasks: int
    members: int

    @property
    def per_member(self) -> int:
        return -(-self.tasks // self.members) if self.members else 0

    def count(self, load: int) -> None:
        """Take a member that has reached the quota out of the calculation."""
        if load == self.per_member:
            self.members -= 1
            self.tasks -= load


@dataclass(slots=True)
class _Process:
    """One process and its members."""

    loads: dict[str, int] = field(default_factory=dict)
    tasks: set[Task] = field(default_factory=set)

    @property
    def load(self) -> float:
        return sum(self.loads.values()) / len(self.loads)


class _Assignment:
    def __init__(
        self,
        members: Mapping[str, Member],
        targets: Mapping[str, Tasks],
        subtopologies: tuple[Subtopology, ...],
        counts: dict[str, int],
        num_standby_replicas: int,
    ) -> None:
        order = sorted(
            members.values(), key=lambda m: (m.metadata.instance_id is None, m.metadata.instance_id or "", m.member_id)
        )
        self._process_of = {m.member_id: m.metadata.process_id for m in order}
        self._processes: dict[str, _Process] = {}
        for member_id, process_id in self._process_of.items():
            self._processes.setdefault(process_id, _Process()).loads[member_id] = 0
        self._active = [(s.subtopology_id, p) for s in subtopologies for p in range(counts[s.subtopology_id])]
        stateful = {s.subtopology_id for s in subtopologies if s.is_stateful}
        self._stateful = [task for task in self._active if task[0] in stateful]
        self._replicas = num_standby_replicas
        self._was_active = {task: m for m in self._process_of if m in targets for task in targets[m].active}
        self._was_standby: dict[Task, list[str]] = {}
        for member_id in self._process_of:
            for task in targets[member_id].standby if member_id in targets else ():
                self._was_standby.setdefault(task, []).append(member_id)
        self._active_quota = _Quota(len(self._active), len(members))
        self._quota = _Quota(len(self._active) + len(self._stateful) * num_standby_replicas, len(members))
        self._new_active: dict[str, set[Task]] = {member_id: set() for member_id in members}
        self._new_standby: dict[str, set[Task]] = {member_id: set() for member_id in members}

    def run(self) -> dict[str, Tasks]:
        self._assign_active()
        if self._replicas > 0:
            self._assign_standby()
        return {
            member_id: Tasks(frozenset(active), frozenset(self._new_standby[member_id]))
            for member_id, active in self._new_active.items()
        }

    def _load(self, member_id: str) -> int:
        return self._processes[self._process_of[member_id]].loads[member_id]

    def _add(self, member_id: str, task: Task, *, active: bool) -> None:
        (self._new_active if active else self._new_standby)[member_id].add(task)
        process = self._processes[self._process_of[member_id]]
        process.tasks.add(task)
        process.loads[member_id] += 1
        if active:
            self._active_quota.count(process.loads[member_id])
        self._quota.count(process.loads[member_id])

    def _assign_active(self) -> None:
        waiting = []
        for task in sorted(self._active, key=lambda t: (t[1], t[0])):
            holder = self._was_active.get(task)
            if holder is not None and self._load(holder) < self._active_quota.per_member:
                self._add(holder, task, active=True)
            else:
                waiting.append(task)
        remaining = []
        for task in waiting:
            standby = self._least_loaded_former_standby(task, without_task=False)
            if standby is not None and self._load(standby) < self._active_quota.per_member:
                self._add(standby, task, active=True)
            else:
                remaining.append(task)
        for task in sorted(remaining):
            self._add(self._least_loaded(list(self._processes.values())), task, active=True)

    def _assign_standby(self) -> None:
        unplaced: list[Task] = []
        for task in sorted(self._stateful, key=lambda t: (t[1], t[0]), reverse=True):
            for placed in range(self._replicas):
                member_id = self._former_holder(task)
                if member_id is None:
                    unplaced += [task] * (self._replicas - placed)
                    break
                self._add(member_id, task, active=False)
        for task in sorted(unplaced, reverse=True):
            processes = [process for process in self._processes.values() if task not in process.tasks]
            if processes:
                self._add(self._least_loaded(processes), task, active=False)

    def _former_holder(self, task: Task) -> str | None:
        """Return the member with the task's state, in a process that has it not yet, with room; None: there is none."""
        holder = self._was_active.get(task)
        if (
            holder is not None
            and self._has_room(holder)
            and task not in self._processes[self._process_of[holder]].tasks
        ):
            return holder
        standby = self._least_loaded_former_standby(task, without_task=True)
        return standby if standby is not None and self._has_room(standby) else None

    def _has_room(self, member_id: str) -> bool:
        return self._load(member_id) < self._quota.per_member

    def _least_loaded_former_standby(self, task: Task, *, without_task: bool) -> str | None:
        """Return the former standby that is less loaded as member and as process than those before it."""
        best: str | None = None
        for member_id in self._was_standby.get(task, []):
            process = self._processes[self._process_of[member_id]]
            if without_task and task in process.tasks:
                continue
            if best is None or (
                process.load < self._processes[self._process_of[best]].load and self._load(member_id) < self._load(best)
            ):
                best = member_id
        return best

    @staticmethod
    def _least_loaded(processes: list[_Process]) -> str:
        process = min(processes, key=lambda p: p.load)
        return min(process.loads, key=process.loads.__getitem__)
