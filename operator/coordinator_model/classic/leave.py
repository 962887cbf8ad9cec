"""LeaveGroup, alone and in batches.

Source: GroupMetadataManager.classicGroupLeaveToClassicGroup of Kafka 4.4; KIP-345 (members by instance id).
"""

from __future__ import annotations

from ..base.errors import ErrorCode, GroupError
from ..base.messages import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse, Response
from ..base.result import Step
from ..base.shard import Shard
from .group import COMPLETING_REBALANCE, DEAD, PREPARING_REBALANCE, STABLE, ClassicGroup
from .member import NO_MEMBER
from .rebalance import cancel_session, maybe_complete_join, rebalance_after_removal, remove_waiting

BATCH_VERSION = 3
"""From here on LeaveGroup carries a list of members, with instance ids (KIP-345)."""


def leave(shard: Shard, step: Step, request: LeaveGroupRequest, group: ClassicGroup) -> Response:
    """Carry out LeaveGroup on a classic group.

    Every entry is judged on its own; whatever was removed, the group rebalances at most once. Nothing is recorded
    unless the group becomes empty: a coordinator that fails over before the next generation still has the members.
    """
    if group.state == DEAD:
        return LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    before = dict(group.members)
    answers = tuple(_leave_one(step, group, identity, request.api_version) for identity in request.members)
    if any(answer.error_code is ErrorCode.NONE for answer in answers):
        if group.state in (STABLE, COMPLETING_REBALANCE):
            removed = [member for member_id, member in before.items() if member_id not in group.members]
            rebalance_after_removal(shard, step, group, removed)
        elif group.state == PREPARING_REBALANCE:
            maybe_complete_join(shard, step, group)
    return leave_response(request, answers)


def leave_response(request: LeaveGroupRequest, answers: tuple[MemberResponse, ...]) -> LeaveGroupResponse:
    """Return the answer; before version 3 the single member's error is the answer's own."""
    if request.api_version < BATCH_VERSION:
        return LeaveGroupResponse(error_code=answers[0].error_code if answers else ErrorCode.NONE)
    return LeaveGroupResponse(members=answers)


def unknown_group(request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Return the answer for a group that does not exist or is of a type without LeaveGroup: no member is known."""
    return leave_response(request, tuple(_answer(m, ErrorCode.UNKNOWN_MEMBER_ID) for m in request.members))


def _leave_one(step: Step, group: ClassicGroup, identity: MemberIdentity, api_version: int) -> MemberResponse:
    instance_id = identity.group_instance_id if api_version >= BATCH_VERSION else None
    member_id = identity.member_id
    if member_id == NO_MEMBER:
        known = group.static_members.get(instance_id) if instance_id is not None else None
        if known is None:
            return _answer(identity, ErrorCode.UNKNOWN_MEMBER_ID)
        member_id = known
    elif member_id in group.pending_members:
        group.remove(member_id)
        cancel_session(step, group, member_id)
        return _answer(identity, ErrorCode.NONE)
    else:
        try:
            group.validate_member(member_id, instance_id)
        except GroupError as error:
            return _answer(identity, error.code)
    cancel_session(step, group, member_id)
    remove_waiting(step, group, group.members[member_id])
    return _answer(identity, ErrorCode.NONE)


def _answer(identity: MemberIdentity, code: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code)
