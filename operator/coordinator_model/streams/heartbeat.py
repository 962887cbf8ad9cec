"""A heartbeat of a streams group with an epoch of 0 or more: joining, reconciling, static replacement.

Source: GroupMetadataManager.streamsGroupHeartbeat and what it calls, 4.4.
"""

from __future__ import annotations

from dataclasses import replace

from ..assignors.subscription import to_topic_partitions
from ..base.epoch_group import JOIN_EPOCH, existing, is_assigned, refuse_unreleased, require_room, write
from ..base.errors import ErrorCode, GroupError
from ..base.group_config import effective_ms, may_assign
from ..base.image import metadata_hash
from ..base.records import Record
from ..base.result import Step
from ..base.settings import require
from ..base.shard import Shard
from . import assignor as streams_assignor
from .group import GroupMetadata, StreamsGroup
from .member import Holders, Member, MemberMetadata, MemberState, Tasks, reconcile, tasks_of
from .messages import Status, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, Topology
from .records import (
    current_record,
    group_record,
    member_record,
    member_tombstones,
    target_epoch_record,
    target_record,
    topology_record,
)


def _require_epoch(member: Member, request: StreamsGroupHeartbeatRequest) -> None:
    """Accept the current epoch, or the previous one of a member that missed an answer.

    Source: GroupMetadataManager.throwIfStreamsGroupMemberEpochIsInvalid.
    """
    current = member.current
    received = request.member_epoch
    if received in (JOIN_EPOCH, current.member_epoch):
        return
    held = current.assigned
    owned = (
        (request.active_tasks, held.active),
        (request.standby_tasks, held.standby),
        (request.warmup_tasks, held.warmup),
    )
    lost_answer = (
        received < current.member_epoch
        and received == current.previous_member_epoch
        and all(tasks is not None and is_assigned(tasks, assigned) for tasks, assigned in owned)
    )
    require(
        lost_answer,
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has epoch {received}, but the group coordinator knows {current.member_epoch}. "
        "The member must abandon all its partitions and rejoin.",
    )


def _owned(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    owned = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    return Tasks(*map(tasks_of, owned))


class Heartbeat:
    """One heartbeat with an epoch of 0 or more. Its records are applied together at the end, or not at all."""

    def __init__(self, shard: Shard, step: Step, request: StreamsGroupHeartbeatRequest) -> None:
        self._shard = shard
        self._step = step
        self._request = request
        self._joins = request.member_epoch == JOIN_EPOCH
        self._records: list[Record] = []
        self._status: list[tuple[Status, str]] = []
        self._group = self._find_group()
        self._task_counts = self._group.task_counts
        self._replaced: Member | None = None

    def run(self) -> StreamsGroupHeartbeatResponse:
        """Carry it out; raises GroupError and changes nothing if a rule refuses it."""
        group, request = self._group, self._request
        member = self._find_member()
        updated = self._updated(member)
        recompute = self._write_changes(member, updated)
        topology = self._topology()
        if group.topology is not None and updated.metadata.topology_epoch < group.topology.epoch:
            self._status.append((Status.STALE_TOPOLOGY, "The member's topology epoch is behind the group's."))
        epoch = self._bump(recompute, topology)
        self._delay_first_assignment()
        assigned_epoch, target = self._target(epoch, updated, topology)
        updated = self._reconcile(updated, assigned_epoch, target)
        self._step.arm(("streams-session", group.group_id, member.member_id), self._config("session.timeout.ms"))
        write(self._shard, self._step, self._records)
        registered = self._shard.groups[group.group_id]
        registered.configured_from, registered.task_counts = self._shard.image, self._task_counts
        if request.shutdown_application:
            registered.shutdown_requested_by = member.member_id
        if registered.shutdown_requested_by is not None:
            self._status.append(
                (Status.SHUTDOWN_APPLICATION, f"{registered.shutdown_requested_by} requested a shutdown.")
            )
        return self._response(member, updated)

    def _config(self, key: str) -> int:
        return effective_ms(self._shard, self._group.group_id, f"streams.{key}")

    def _find_group(self) -> StreamsGroup:
        """Return the group; a join makes one, in place of an empty classic group if there is one."""
        group_id = self._request.group_id
        if not self._joins:
            return existing(self._shard, group_id, StreamsGroup)
        group = self._shard.groups.get(group_id)
        if group is not None and group.group_type == "classic" and group.is_empty:
            self._records += group.tombstones()
            group = None
        found = StreamsGroup(group_id) if group is None else existing(self._shard, group_id, StreamsGroup)
        size, instance_id = self._shard.settings.streams_max_size, self._request.group_instance_id
        require_room(found, size, self._request.member_id, instance_id)
        return found

    def _find_member(self) -> Member:
        """Return the member before this heartbeat; a returning static member is a copy under its new id.

        Source: getOrMaybeCreateDynamicStreamsGroupMember, getOrMaybeCreateStaticStreamsGroupMember.
        """
        group, request = self._group, self._request
        instance_id = request.group_instance_id
        if instance_id is None:
            known = group.members.get(request.member_id)
            member = known or (Member(request.member_id) if self._joins else group.member(request.member_id))
            _require_epoch(member, request)
            return member
        if not self._joins:
            member = group.known_static_member(instance_id, request.member_id)
            _require_epoch(member, request)
            return member
        old = group.static_member(instance_id)
        if old is None:
            return group.members.get(request.member_id) or Member(request.member_id)
        refuse_unreleased(old, request.member_id)
        return self._replace(old)

    def _replace(self, old: Member) -> Member:
        """Write the three tombstones of the old member id and the three copies under the new one.

        The old id's timers are left to fire without effect. Source: GroupMetadataManager.replaceStreamsMember.
        """
        group_id = self._group.group_id
        current = replace(old.current, member_epoch=0, previous_member_epoch=0)
        new = Member(self._request.member_id, old.metadata, current)
        target = self._group.targets.get(old.member_id, Tasks())
        self._records += member_tombstones(group_id, old.member_id)
        self._records.append(member_record(group_id, new))
        self._records.append(target_record(group_id, new.member_id, target))
        self._records.append(current_record(group_id, new))
        self._replaced = old
        return new

    def _updated(self, member: Member) -> Member:
        """Return the member with what this request tells of it; fields that are None stay as they were."""
        request, old = self._request, member.metadata
        new = MemberMetadata(
            old.instance_id if request.group_instance_id is None else request.group_instance_id,
            old.rack_id if request.rack_id is None else request.rack_id,
            request.client_id,
            request.client_host,
            old.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms,
            old.topology_epoch if request.topology is None else request.topology.epoch,
            old.process_id if request.process_id is None else request.process_id,
            old.client_tags if request.client_tags is None else tuple(sorted(request.client_tags)),
        )
        return member if new == old else replace(member, metadata=new)

    def _write_changes(self, member: Member, updated: Member) -> bool:
        """Write the member's record if it changed; returns whether tasks must be assigned again.

        Any change of a dynamic member counts, of a static one only what bears on the assignment: a new process id does,
        a new client host does not. Source: hasStreamsMemberMetadataChanged.
        """
        if updated is member:
            return False
        self._records.append(member_record(self._group.group_id, updated))
        static = self._request.group_instance_id is not None
        return not static or updated.metadata.needs_new_assignment_after(member.metadata)

    def _topology(self) -> Topology:
        """Return the group's topology; the first member sets it, no other changes it (maybeUpdateTopology)."""
        sent, known = self._request.topology, self._group.topology
        if known is None:
            if sent is None:
                raise GroupError(
                    ErrorCode.UNKNOWN_SERVER_ERROR, "The topology is null and the group topology is also null."
                )
            self._records.append(topology_record(self._group.group_id, sent))
            return sent
        stale = sent is not None and known.epoch > sent.epoch
        require(
            sent is None or stale or sent == known,
            ErrorCode.INVALID_REQUEST,
            "Topology updates are not supported yet.",
        )
        return known

    def _bump(self, recompute: bool, topology: Topology) -> int:
        """Return the group epoch, one higher if something changed that bears on the assignment."""
        group, image = self._group, self._shard.image
        old = group.metadata
        topics_hash = old.metadata_hash
        if group.configured_from is not image:
            topics_hash = metadata_hash({t for s in topology.subtopologies for t in s.source_topics}, image)
            self._task_counts = streams_assignor.task_counts(topology, image)
        self._require_valid_tasks(self._task_counts)
        ready = self._task_counts is not None
        if not ready:
            self._status.append((Status.MISSING_SOURCE_TOPICS, "One or more source topics are missing."))
        validated, standbys = topology.epoch if ready else -1, self._config("num.standby.replicas")
        known = (old.metadata_hash, old.validated_topology_epoch, old.num_standby_replicas)
        if not recompute and known == (topics_hash, validated, standbys):
            return old.epoch
        new = GroupMetadata(old.epoch + 1, topics_hash, validated, standbys)
        self._records.append(group_record(group.group_id, new))
        return new.epoch

    def _require_valid_tasks(self, counts: dict[str, int] | None) -> None:
        owned = _owned(self._request)
        if counts is None or owned is None:
            return
        for subtopology_id, partition in owned.active | owned.standby | owned.warmup:
            require(
                0 <= partition < counts.get(subtopology_id, 0),
                ErrorCode.INVALID_REQUEST,
                f"Task {partition} for subtopology {subtopology_id} is invalid.",
            )

    def _delay_first_assignment(self) -> None:
        """Let the members of a new group come together before tasks are assigned (initial rebalance delay)."""
        key = ("streams-initial", self._group.group_id)
        delay_ms = self._config("initial.rebalance.delay.ms")
        if self._group.is_empty and delay_ms > 0 and self._shard.timers.deadline_ms(key) is None:
            self._step.arm(key, delay_ms)

    def _target(self, epoch: int, updated: Member, topology: Topology) -> tuple[int, Tasks]:
        """Return the assignment epoch and the member's target, computed again if the group epoch is ahead."""
        group = self._group
        assigned_epoch = group.target_metadata.assignment_epoch
        if self._shard.timers.deadline_ms(("streams-initial", group.group_id)) is not None:
            self._delayed("Assignment delayed due to the configured initial rebalance delay.")
            return assigned_epoch, Tasks()
        known_as = updated.member_id if self._replaced is None else self._replaced.member_id
        target = group.targets.get(known_as, Tasks())
        if assigned_epoch >= epoch:
            return assigned_epoch, target
        assigned_ms = group.target_metadata.timestamp_ms
        if not may_assign(self._shard, self._step, "streams", group.group_id, assigned_ms):
            self._delayed("Assignment delayed due to the configured assignment interval.")
            return assigned_epoch, target
        members = {m: member for m, member in group.members.items() if m != known_as}
        members[updated.member_id] = updated
        targets = {m: tasks for m, tasks in group.targets.items() if m != known_as}
        if known_as in group.targets:
            targets[updated.member_id] = target
        records, targets = assign_tasks(self._shard, self._step, group, epoch, members, targets, topology)
        self._records += records
        return epoch, targets[updated.member_id]

    def _delayed(self, detail: str) -> None:
        self._status.append((Status.ASSIGNMENT_DELAYED, detail))

    def _reconcile(self, member: Member, epoch: int, target: Tasks) -> Member:
        """Move the member towards its target and watch over what it must revoke (maybeReconcile)."""
        if member.is_reconciled_to(epoch):
            return member
        group = self._group
        current = reconcile(member, epoch, target, Holders.of(group.members.values()), _owned(self._request))
        if current == member.current:
            return member
        updated = replace(member, current=current)
        self._records.append(current_record(group.group_id, updated))
        key = ("streams-rebalance", group.group_id, member.member_id)
        if current.state is MemberState.UNREVOKED_TASKS:
            group.revoking_since_epoch[member.member_id] = current.member_epoch
            self._step.arm(key, member.metadata.rebalance_timeout_ms)
        else:
            self._step.cancel(key)
        return updated

    def _response(self, member: Member, updated: Member) -> StreamsGroupHeartbeatResponse:
        assigned = updated.current.assigned
        tells = self._joins or assigned != member.current.assigned
        return StreamsGroupHeartbeatResponse(
            member_id=updated.member_id,
            member_epoch=updated.current.member_epoch,
            heartbeat_interval_ms=self._config("heartbeat.interval.ms"),
            active_tasks=to_topic_partitions(assigned.active) if tells else None,
            standby_tasks=to_topic_partitions(assigned.standby) if tells else None,
            warmup_tasks=to_topic_partitions(assigned.warmup) if tells else None,
            status=tuple(self._status),
        )


def assign_tasks(
    shard: Shard,
    step: Step,
    group: StreamsGroup,
    epoch: int,
    members: dict[str, Member],
    targets: dict[str, Tasks],
    topology: Topology,
) -> tuple[list[Record], dict[str, Tasks]]:
    """Return the records of the targets that changed, then of the epoch, and all targets (TargetAssignmentBuilder)."""
    standbys = effective_ms(shard, group.group_id, "streams.num.standby.replicas")
    new = streams_assignor.assign(members, targets, topology, shard.image, standbys)
    records = [
        target_record(group.group_id, member_id, target)
        for member_id, target in new.items()
        if targets.get(member_id) != target
    ]
    records.append(target_epoch_record(group.group_id, epoch, step.now_ms))
    return records, new
