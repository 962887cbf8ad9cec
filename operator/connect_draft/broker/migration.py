"""Workers of the old protocol in a group of the draft: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (item 76).

The draft's sections about them are empty. The rules here are ours, after those of KIP-848 for classic consumers: a
worker of the old protocol is managed alone, its generation is its epoch, and it gets REBALANCE_IN_PROGRESS when
it has something to stop or to start. It is never chosen to assign.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coordinator_model.connect.protocol import (
    PROTOCOL_TYPE,
    Assignment,
    AssignmentError,
    SchemaError,
    encode_assignment,
)
from coordinator_model.connect.protocol import ConnectProtocolCompatibility as Mode
from coordinator_model.connect.work import NOTHING

from ..errors import DraftError, require
from ..metadata import classic_allocation, worker_url
from ..records import ClassicWorker, CurrentMemberAssignment, MemberMetadata
from .assignment import choose
from .conversion import classic_assignors
from .effects import CLASSIC_JOIN, CLASSIC_SYNC, Effects
from .group import ConnectGroup
from .membership import able_to_compute, offered_by, remove_member
from .reconcile import acknowledge, advance
from .selection import fits_together


def _group(fx: Effects, group_id: str) -> ConnectGroup:
    require(group_id in fx.groups, ErrorCode.GROUP_ID_NOT_FOUND, "not a group of the new protocol")
    return fx.groups[group_id]


def _classic(group: ConnectGroup, member_id: str) -> ClassicWorker:
    member = group.members.get(member_id)
    require(member is not None and member.classic is not None, ErrorCode.UNKNOWN_MEMBER_ID, "unknown worker")
    assert member is not None
    assert member.classic is not None
    return member.classic


def join(fx: Effects, request: JoinGroupRequest) -> JoinGroupResponse:
    """Take a worker in or again; what it says it runs acknowledges a revocation, and its answer comes at once.

    A worker with a new id, or one whose assignors changed, calls for a new assignment; one that just follows does not.
    """
    group = _group(fx, request.group_id)
    require(request.protocol_type == PROTOCOL_TYPE, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "not a Connect worker")
    protocols = tuple((protocol.name, protocol.metadata) for protocol in request.protocols)
    try:
        assignors = classic_assignors(protocols)
        owned = classic_allocation(protocols[0][1]) if protocols[0][0] != Mode.EAGER.protocol else NOTHING
    except (SchemaError, ValueError, IndexError) as error:
        raise DraftError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error
    member_id = request.member_id
    if member_id == "":
        member_id = f"{request.client_id}-{fx.new_uuid()}"
        if request.api_version >= 4:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
    known = group.members.get(member_id)
    require(known is None or known.classic is not None, ErrorCode.UNKNOWN_MEMBER_ID, "a worker of the new protocol")
    fits = fits_together({**offered_by(group), member_id: assignors}, able_to_compute(group))
    require(fits, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no assignor fits every worker of the group")
    changed = known is None or [a.name for a in known.assignors] != [a.name for a in assignors]
    member = MemberMetadata(
        group_epoch=group.epoch + 1 if changed or known is None else known.group_epoch,
        instance_id=None,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        assignors=assignors,
        classic=ClassicWorker(request.session_timeout_ms, protocols),
    )
    fx.put_member(group, member_id, member)
    if changed:
        fx.bump(group)
    fx.arm_session(group, member_id)
    fx.cancel(CLASSIC_JOIN, group, member_id)
    fx.arm(CLASSIC_SYNC, group, member_id, request.rebalance_timeout_ms)
    group.memory.rejoining.discard(member_id)
    group.memory.syncing.add(member_id)
    group.memory.reported[member_id] = owned
    current = acknowledge(group.current_of(member_id), owned)
    # a worker that waits in JoinGroup runs just what it reports
    kept = replace(current, assigned=current.assigned.common(owned))
    fx.put_current(group, member_id, _next(group, member_id, kept))
    choose(fx, group)
    return JoinGroupResponse(
        generation_id=group.current_of(member_id).member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocols[0][0],
        member_id=member_id,
    )


def _next(group: ConnectGroup, member_id: str, current: CurrentMemberAssignment) -> CurrentMemberAssignment:
    if current.member_epoch == group.target.assignment_epoch and not current.revoking:
        # it may have lost some of what it had: at its epoch all of the target is its own
        return replace(current, assigned=group.target_of(member_id))
    return advance(
        current,
        group.target_of(member_id),
        group.target.assignment_epoch,
        group.target.error,
        group.held_by_others(member_id),
    )


def sync(fx: Effects, request: SyncGroupRequest) -> SyncGroupResponse:
    """Give a worker what to start and what to stop, in today's bytes; having stopped something it joins again."""
    group = _group(fx, request.group_id)
    classic = _classic(group, request.member_id)
    current = group.current_of(request.member_id)
    require(request.generation_id == current.member_epoch, ErrorCode.ILLEGAL_GENERATION, "not its epoch")
    require(request.member_id not in group.memory.rejoining, ErrorCode.REBALANCE_IN_PROGRESS, "join again first")
    fx.cancel(CLASSIC_SYNC, group, request.member_id)
    fx.arm_session(group, request.member_id)
    group.memory.syncing.discard(request.member_id)
    mode = Mode.from_protocol(classic.protocols[0][0])
    reported = group.memory.reported.get(request.member_id, NOTHING)
    leader = min(group.members)
    assignment = Assignment(
        version=mode.version,
        error=AssignmentError.NO_ERROR,
        leader=leader,
        leader_url=worker_url(group.members[leader].assignors[0].metadata),
        config_offset=group.connectors.config_offset,
        assigned=current.assigned if mode is Mode.EAGER else current.assigned.minus(reported),
        revoked=reported.minus(current.assigned),
    )
    return SyncGroupResponse(
        protocol_type=PROTOCOL_TYPE, protocol_name=mode.protocol, assignment=encode_assignment(assignment)
    )


def classic_heartbeat(fx: Effects, request: HeartbeatRequest) -> HeartbeatResponse:
    """Keep a worker's session; tell it to join again when there is something for it to stop or to start."""
    group = _group(fx, request.group_id)
    _classic(group, request.member_id)
    current = group.current_of(request.member_id)
    require(request.generation_id == current.member_epoch, ErrorCode.ILLEGAL_GENERATION, "not its epoch")
    fx.arm_session(group, request.member_id)
    waiting = _next(group, request.member_id, current) != current
    if waiting and not fx.is_armed(CLASSIC_JOIN, group, request.member_id):
        fx.arm(CLASSIC_JOIN, group, request.member_id, group.members[request.member_id].rebalance_timeout_ms)
        group.memory.rejoining.add(request.member_id)
    code = ErrorCode.REBALANCE_IN_PROGRESS if waiting else ErrorCode.NONE
    return HeartbeatResponse(error_code=code)


def leave(fx: Effects, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Take workers of the old protocol out; each one is answered for itself."""
    group = _group(fx, request.group_id)
    return LeaveGroupResponse(members=tuple(_left(fx, group, (m.member_id for m in request.members))))


def _left(fx: Effects, group: ConnectGroup, member_ids: Iterable[str]) -> Iterable[MemberResponse]:
    for member_id in member_ids:
        member = group.members.get(member_id)
        code = ErrorCode.NONE if member and member.classic else ErrorCode.UNKNOWN_MEMBER_ID
        if code is ErrorCode.NONE:
            remove_member(fx, group, member_id)
        yield MemberResponse(member_id=member_id, group_instance_id=None, error_code=code)


def worker_state(group: ConnectGroup, member_id: str) -> str | None:
    """Return the draft's state of a worker of the old protocol; None for one of the new.

    UNJOINED, the fourth state, is a worker the group does not know.
    """
    member = group.members.get(member_id)
    if member is None:
        return "UNJOINED"
    if member.classic is None:
        return None
    if member_id in group.memory.rejoining:
        return "PREPARING_REBALANCE"
    return "COMPLETING_REBALANCE" if member_id in group.memory.syncing else "STABLE"
