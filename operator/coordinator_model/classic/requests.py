"""SyncGroup and Heartbeat on classic groups, reloading them, and the tables of the classic protocol.

Source: GroupMetadataManager of Kafka 4.4 (classicGroupSyncToClassicGroup, classicGroupHeartbeatToClassicGroup,
replay(GroupMetadataKey, …), onLoaded).
"""

from __future__ import annotations

from ..base.errors import ErrorCode, GroupError
from ..base.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    Request,
    Response,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ..base.records import Record, RecordType
from ..base.result import Step
from ..base.shard import ErrorResponse, Expire, Replay, Shard, refusal
from .group import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, STABLE, ClassicGroup, illegal_state
from .member import GroupMetadata
from .rebalance import (
    answer_sync,
    arm_session,
    expire_join,
    expire_session,
    expire_sync,
    prepare_rebalance,
    rebalance_or_complete_join,
    reset_assignments,
)

INSTANCE_ID_VERSION = 3
"""From here on SyncGroup and Heartbeat carry the group instance id (KIP-345)."""
ALIVE = HeartbeatResponse()
REBALANCING = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def heartbeat(shard: Shard, step: Step, request: HeartbeatRequest, group: ClassicGroup) -> Response:
    """Carry out Heartbeat: a valid one gives the member its session in full."""
    state = group.state
    if state == DEAD:
        raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    instance_id = request.group_instance_id if request.api_version >= INSTANCE_ID_VERSION else None
    member = group.validate_member(request.member_id, instance_id)
    if request.generation_id != group.generation_id:
        raise GroupError(ErrorCode.ILLEGAL_GENERATION)
    if state == EMPTY:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    arm_session(step, group, member)
    if group.swapped and member.member_id in group.swapped:
        group.swapped.discard(member.member_id)
        return REBALANCING
    return REBALANCING if state == PREPARING_REBALANCE else ALIVE


def sync(shard: Shard, step: Step, request: SyncGroupRequest, group: ClassicGroup) -> Response | None:
    """Carry out SyncGroup: followers wait for the leader's, which is recorded and makes the group stable.

    Returns None when the request waits.
    """
    if group.state == DEAD:
        raise GroupError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    instance_id = request.group_instance_id if request.api_version >= INSTANCE_ID_VERSION else None
    member = group.validate_member(request.member_id, instance_id)
    if request.generation_id != group.generation_id:
        raise GroupError(ErrorCode.ILLEGAL_GENERATION)
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state == PREPARING_REBALANCE:
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync_members.discard(member.member_id)
    if not group.pending_sync_members:
        step.cancel(("classic-sync", group.group_id))
    if group.state == STABLE:
        return assigned(group, member.assignment)
    member.sync_ticket = step.park()
    if group.leader == member.member_id:
        _store_assignment(shard, step, group, dict(request.assignments))
    return None


def assigned(group: ClassicGroup, assignment: bytes) -> SyncGroupResponse:
    """Return the SyncGroup answer that carries an assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=assignment
    )


def _store_assignment(shard: Shard, step: Step, group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    complete = {member_id: assignments.get(member_id, b"") for member_id in group.members}
    error = shard.append(step, group.metadata_record(complete))
    if error is not ErrorCode.NONE:
        reset_assignments(step, group, error)
        rebalance_or_complete_join(shard, step, group)
        return
    for member in group.members.values():
        member.assignment = complete[member.member_id]
        if answer_sync(step, member, assigned(group, member.assignment)):
            arm_session(step, group, member)
    group.transition_to(STABLE, step.now_ms)


def _differs(requested: str | None, current: str | None) -> bool:
    return requested is not None and current is not None and requested != current


def replay_group(shard: Shard, record: Record) -> None:
    """Take a GroupMetadata record from the log; a tombstone removes the group."""
    if record.value is None:
        shard.groups.pop(record.group_id, None)
        return
    if not isinstance(record.value, GroupMetadata):
        raise illegal_state(f"Not a GroupMetadata: {record.value!r}")
    shard.groups[record.group_id] = ClassicGroup.from_metadata(record.group_id, record.value)


def on_loaded(shard: Shard, step: Step) -> None:
    """Give every loaded member its session in full; a group that is now over its size rebalances."""
    for group in shard.groups_of(ClassicGroup):
        for member in group.members.values():
            arm_session(step, group, member)
        if len(group.members) > step.settings.group_max_size:
            prepare_rebalance(shard, step, group)


def unload(shard: Shard, step: Step) -> None:
    """Give up all classic groups, as when the partition moves: parked requests get NOT_COORDINATOR (onUnloaded)."""
    for group in shard.groups_of(ClassicGroup):
        waited = group.state
        group.transition_to(DEAD, step.now_ms)
        for member in group.members.values():
            if waited == PREPARING_REBALANCE and member.join_ticket is not None:
                refused = JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR, member_id=member.member_id)
                step.complete(member.join_ticket, refused)
                group.set_join_ticket(member, None)
            elif waited in (COMPLETING_REBALANCE, STABLE):
                answer_sync(step, member, SyncGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))


REPLAY: dict[RecordType, Replay] = {RecordType.CLASSIC_GROUP_METADATA: replay_group}
EXPIRE: dict[str, Expire] = {
    "classic-session": expire_session,
    "classic-join": expire_join,
    "classic-sync": expire_sync,
}
ON_LOADED = on_loaded
ERROR_RESPONSE: dict[type[Request], ErrorResponse] = {
    JoinGroupRequest: refusal(JoinGroupResponse, with_message=False),
    SyncGroupRequest: refusal(SyncGroupResponse, with_message=False),
    HeartbeatRequest: refusal(HeartbeatResponse, with_message=False),
    LeaveGroupRequest: refusal(LeaveGroupResponse, with_message=False),
}
