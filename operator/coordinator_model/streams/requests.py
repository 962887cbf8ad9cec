"""Streams groups (KIP-1071): StreamsGroupHeartbeat with static membership (4.4), describe, timers.

Warm-up tasks are reconciled when a target names them, but neither the assignor nor Kafka 4.4 names any
(AssignmentRefiner returns the target unchanged). An assignment that an assignor would compute off-thread is computed
at once.
Source: GroupCoordinatorService.streamsGroupHeartbeat and GroupMetadataManager (streamsGroup… methods), 4.4.
"""

from __future__ import annotations

from dataclasses import replace

from ..base.epoch_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    described,
    existing,
    group_of_timer,
    write,
)
from ..base.errors import ErrorCode
from ..base.group_config import effective_ms, may_assign
from ..base.result import Step
from ..base.settings import require, require_text
from ..base.shard import Shard, refusal
from ..base.timers import TimerKey
from .group import StreamsGroup
from .heartbeat import Heartbeat, assign_tasks
from .member import HeldTasks, Member, MemberState, Tasks, described_tasks
from .messages import (
    StreamsGroupDescribedGroup,
    StreamsGroupDescribedMember,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from .records import REPLAY, current_record, group_record, member_tombstones, target_epoch_record


def heartbeat(shard: Shard, step: Step, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
    """Join (epoch 0), heartbeat, leave (-1) or leave for a while (-2).

    Source: GroupCoordinatorService.streamsGroupHeartbeat, GroupMetadataManager.streamsGroupHeartbeat.
    """
    shard.authorize(request.principal, "READ", request.group_id)
    _validate(shard, request)
    if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
        return _leave(shard, step, request)
    return Heartbeat(shard, step, request).run()


def describe(shard: Shard, step: Step, request: StreamsGroupDescribeRequest) -> StreamsGroupDescribeResponse:
    """Show streams groups; a group of another type or none answers GROUP_ID_NOT_FOUND (streamsGroupDescribe)."""
    return StreamsGroupDescribeResponse(
        groups=tuple(
            described(shard, request.principal, group_id, StreamsGroup, StreamsGroupDescribedGroup, _described_fields)
            for group_id in request.group_ids
        )
    )


# checks --------------------------------------------------------------------------------------------------------------


def _validate(shard: Shard, request: StreamsGroupHeartbeatRequest) -> None:
    """Refuse requests that no member of this protocol sends (throwIfStreamsGroupHeartbeatRequestIsInvalid)."""

    def valid(condition: bool, message: str) -> None:
        require(condition, ErrorCode.INVALID_REQUEST, message)

    owned = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    static = request.group_instance_id is not None
    valid(shard.settings.streams_static_membership or not static, "Static membership is not yet supported.")
    require_text(request.member_id, "MemberId")
    require_text(request.group_id, "GroupId")
    require_text(request.group_instance_id, "InstanceId")
    require_text(request.rack_id, "RackId")
    if request.member_epoch == JOIN_EPOCH:
        valid(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided in first request.")
        valid(not any(owned), "Tasks must be empty when (re-)joining.")
        valid(request.topology is not None, "Topology must be non-null when (re-)joining.")
    else:
        valid(request.topology is None, "Topology can only be provided when (re-)joining.")
    valid(
        request.member_epoch >= LEAVE_STATIC_EPOCH, f"MemberEpoch is {request.member_epoch}, but must be at least -2."
    )
    valid(request.member_epoch != LEAVE_STATIC_EPOCH or static, "InstanceId can't be null.")
    valid(all(o is None for o in owned) or None not in owned, "If one task-type is non-null, all must be non-null.")


# leaving -------------------------------------------------------------------------------------------------------------


def _leave(shard: Shard, step: Step, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
    """Remove the member, or with epoch -2 keep its tasks for it until its session is over (streamsGroupLeave)."""
    group = existing(shard, request.group_id, StreamsGroup)
    if request.shutdown_application:
        group.shutdown_requested_by = request.member_id
    if request.group_instance_id is None:
        member = group.member(request.member_id)
    else:
        member = group.known_static_member(request.group_instance_id, request.member_id)
    if request.member_epoch == LEAVE_STATIC_EPOCH:
        current = replace(
            member.current,
            member_epoch=LEAVE_STATIC_EPOCH,
            assigned=member.current.assigned.assigned_in_epoch_zero(),
            pending_revocation=HeldTasks(),
        )
        write(shard, step, [current_record(group.group_id, replace(member, current=current))])
    else:
        _fence(shard, step, group, member.member_id)
    return StreamsGroupHeartbeatResponse(member_id=member.member_id, member_epoch=request.member_epoch)


def _fence(shard: Shard, step: Step, group: StreamsGroup, member_id: str) -> None:
    """Remove a member: three tombstones and a new group epoch (streamsGroupFenceMember)."""
    metadata = replace(group.metadata, epoch=group.metadata.epoch + 1)
    records = [*member_tombstones(group.group_id, member_id), group_record(group.group_id, metadata)]
    if len(group.members) == 1:
        # As in a new group, the next assignment need not wait for the interval (KAFKA-20442).
        records.append(target_epoch_record(group.group_id, metadata.epoch, 0))
    write(shard, step, records)
    group.revoking_since_epoch.pop(member_id, None)
    step.cancel(("streams-session", group.group_id, member_id))
    step.cancel(("streams-rebalance", group.group_id, member_id))


# timers --------------------------------------------------------------------------------------------------------------


def _session_expired(shard: Shard, step: Step, key: TimerKey) -> None:
    """Remove the member; a group or member that is gone by now needs nothing (streamsGroupFenceMemberOperation)."""
    group = group_of_timer(shard, key, StreamsGroup)
    if group is not None:
        _fence(shard, step, group, key[2])


def _rebalance_expired(shard: Shard, step: Step, key: TimerKey) -> None:
    """Remove a member that has not given up its tasks in time (scheduleStreamsGroupRebalanceTimeout)."""
    group = group_of_timer(shard, key, StreamsGroup)
    if group is not None and group.members[key[2]].current.member_epoch == group.revoking_since_epoch.get(key[2]):
        _fence(shard, step, group, key[2])


def _initial_delay_over(shard: Shard, step: Step, key: TimerKey) -> None:
    """Assign the first tasks to the members that have joined by now (computeDelayedTargetAssignment)."""
    group = shard.groups.get(key[1])
    if not isinstance(group, StreamsGroup) or group.is_empty or group.topology is None:
        return
    epoch = group.metadata.epoch
    target = group.target_metadata
    if epoch > target.assignment_epoch and may_assign(shard, step, "streams", key[1], target.timestamp_ms):
        records, _ = assign_tasks(shard, step, group, epoch, group.members, group.targets, group.topology)
        write(shard, step, records)


def _on_loaded(shard: Shard, step: Step) -> None:
    """Give every member a full session and every revocation its full time again (onLoaded)."""
    for group in shard.groups_of(StreamsGroup):
        session_ms = effective_ms(shard, group.group_id, "streams.session.timeout.ms")
        for member in group.members.values():
            step.arm(("streams-session", group.group_id, member.member_id), session_ms)
            if member.current.state is MemberState.UNREVOKED_TASKS:
                group.revoking_since_epoch[member.member_id] = member.current.member_epoch
                key = ("streams-rebalance", group.group_id, member.member_id)
                step.arm(key, member.metadata.rebalance_timeout_ms)


# describe ------------------------------------------------------------------------------------------------------------


def _described_fields(group: StreamsGroup) -> dict[str, object]:
    members = tuple(_described_member(group, member) for member in group.members.values())
    return {"topology": group.topology, "members": members}


def _described_member(group: StreamsGroup, member: Member) -> StreamsGroupDescribedMember:
    metadata, current = member.metadata, member.current
    return StreamsGroupDescribedMember(
        member_id=member.member_id,
        member_epoch=current.member_epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        assignment=described_tasks(current.assigned),
        target_assignment=described_tasks(group.targets.get(member.member_id, Tasks())),
    )


HANDLERS = {StreamsGroupHeartbeatRequest: heartbeat, StreamsGroupDescribeRequest: describe}
EXPIRE = {
    "streams-session": _session_expired,
    "streams-rebalance": _rebalance_expired,
    "streams-initial": _initial_delay_over,
}
ON_LOADED = _on_loaded
ERROR_RESPONSE = {StreamsGroupHeartbeatRequest: refusal(StreamsGroupHeartbeatResponse)}

__all__ = ["ERROR_RESPONSE", "EXPIRE", "HANDLERS", "ON_LOADED", "REPLAY"]
