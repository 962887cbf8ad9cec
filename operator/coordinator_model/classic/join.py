"""JoinGroup on classic groups: the join cases of KIP-345 as the final Kafka decides them.

| member id | instance id | outcome |
|---|---|---|
| "" | none | MEMBER_ID_REQUIRED (v4 and later), else a new member |
| "" | not known | a new static member |
| "" | known | the same member under a new id; in a stable group without a rebalance |
| known | none, or its own | a rejoin: a rebalance only by the leader or with changed metadata |
| known | another's | FENCED_INSTANCE_ID |
| any | not known | UNKNOWN_MEMBER_ID |
| unknown | known | FENCED_INSTANCE_ID |
| unknown | none | UNKNOWN_MEMBER_ID |

Source: GroupMetadataManager.classicGroupJoinToClassicGroup and what it calls, Kafka 4.4; KIP-345, KIP-394, KIP-814.
"""

from __future__ import annotations

from dataclasses import replace

from ..base.errors import ErrorCode, GroupError
from ..base.messages import JoinGroupRequest, JoinGroupResponse, Response, SyncGroupResponse
from ..base.result import Step
from ..base.shard import Shard
from . import future
from . import plans as classic_plans
from .group import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, STABLE, ClassicGroup, illegal_state
from .member import NO_MEMBER, ClassicMember, new_member, rebalance_timeout_ms
from .rebalance import (
    answer_join,
    answer_sync,
    arm_session,
    classic_group,
    join_response,
    maybe_complete_join,
    prepare_rebalance,
    rebalance_or_complete_join,
)

REQUIRES_MEMBER_ID_VERSION = 4
"""From here on a dynamic member must come back with the id it was given (KIP-394)."""
INSTANCE_ID_VERSION = 5
"""From here on JoinGroup carries the group instance id (KIP-345)."""
SKIP_ASSIGNMENT_VERSION = 9
"""From here on the answer to a returning static leader says that it leads and skips the assignment (KIP-814)."""


def refuse(code: ErrorCode, member_id: str) -> JoinGroupResponse:
    """Return a JoinGroup answer with an error."""
    return JoinGroupResponse(error_code=code, member_id=member_id)


def join(shard: Shard, step: Step, request: JoinGroupRequest) -> Response | None:
    """Carry out JoinGroup on a group that is classic, absent, or empty of another type.

    An empty group of another type is deleted and begun again. A group that is created is recorded at once, even if the
    joiner is then refused. Returns None when the join waits for the others.
    """
    group = classic_group(shard, request.group_id)
    created = group is None
    if group is None:
        replaced = shard.groups.get(request.group_id)
        if request.member_id != NO_MEMBER and replaced is None:
            return refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
        if replaced is not None:
            return _join_converted(shard, step, request)
        group = ClassicGroup(request.group_id, state_timestamp_ms=step.now_ms)
        shard.groups[request.group_id] = group
    response = _join_group(shard, step, request, group)
    if created:
        return _record_new_group(shard, step, group, response)
    return response


def _join_converted(shard: Shard, step: Step, request: JoinGroupRequest) -> Response | None:
    replaced = shard.groups.pop(request.group_id)
    tombstones = replaced.tombstones()
    shard.cancel_timers(step, request.group_id)
    if request.member_id != NO_MEMBER:
        # Kafka deletes the empty group although no member joins; its tombstones are not written with the refusal.
        return refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
    group = ClassicGroup(request.group_id, state_timestamp_ms=step.now_ms)
    shard.groups[request.group_id] = group
    response = _join_group(shard, step, request, group)
    error = shard.append(step, *tombstones)
    if error is not ErrorCode.NONE:
        shard.groups[request.group_id] = replaced
        return _not_created(step, error, response)
    return _record_new_group(shard, step, group, response)


def _record_new_group(shard: Shard, step: Step, group: ClassicGroup, response: Response | None) -> Response | None:
    error = shard.append(step, group.empty_record())
    if error is ErrorCode.NONE:
        return response
    del shard.groups[group.group_id]
    return _not_created(step, error, response)


def _not_created(step: Step, error: ErrorCode, response: Response | None) -> Response:
    """Return the answer when a new group could not be recorded; what was answered before stays as it was."""
    step.ticket = None
    return response if response is not None else refuse(error, NO_MEMBER)


def _join_group(shard: Shard, step: Step, request: JoinGroupRequest, group: ClassicGroup) -> Response | None:
    member_id = request.member_id
    instance_id = request.group_instance_id if request.api_version >= INSTANCE_ID_VERSION else None
    if not _accepts(step, group, member_id):
        group.remove(member_id)
        return refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER)
    if group.state == DEAD:
        return refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
    if not group.supports_protocols(request.protocol_type, request.protocols):
        return refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    if member_id == NO_MEMBER:
        return _join_new(shard, step, request, group, instance_id)
    return _join_known(shard, step, request, group, instance_id)


def _accepts(step: Step, group: ClassicGroup, member_id: str) -> bool:
    """Return whether group.max.size leaves room (acceptJoiningMember).

    The test is by member id: a static member that returns without one to a full stable group is refused.
    """
    if group.state in (EMPTY, DEAD):
        return True
    member = group.members.get(member_id)
    if group.state == PREPARING_REBALANCE:
        waits = member is not None and member.join_ticket is not None
        return waits or group.awaiting_join < step.settings.group_max_size
    return member is not None or len(group.members) < step.settings.group_max_size


def _join_new(
    shard: Shard, step: Step, request: JoinGroupRequest, group: ClassicGroup, instance_id: str | None
) -> Response | None:
    if instance_id is not None:
        new_id = f"{instance_id}-{step.new_uuid()}"
        existing = group.static_members.get(instance_id)
        if existing is not None:
            return _replace_static(shard, step, request, group, instance_id, existing, new_id)
        return _add(shard, step, request, group, instance_id, new_id)
    new_id = f"{request.client_id}-{step.new_uuid()}"
    if request.api_version >= REQUIRES_MEMBER_ID_VERSION:
        group.pending_members.add(new_id)
        step.arm(("classic-session", group.group_id, new_id), request.session_timeout_ms)
        return refuse(ErrorCode.MEMBER_ID_REQUIRED, new_id)
    return _add(shard, step, request, group, None, new_id)


def _join_known(
    shard: Shard, step: Step, request: JoinGroupRequest, group: ClassicGroup, instance_id: str | None
) -> Response | None:
    member_id = request.member_id
    if member_id in group.pending_members:
        if instance_id is not None:
            raise illegal_state(f"Unexpected group instance id {instance_id} of pending member {member_id}")
        return _add(shard, step, request, group, None, member_id)
    try:
        member = group.validate_member(member_id, instance_id)
    except GroupError as error:
        return refuse(error.code, member_id)
    if group.state == EMPTY:
        return refuse(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
    unchanged = member.protocols == request.protocols
    if group.state == COMPLETING_REBALANCE and unchanged:
        # The first answer may have been lost.
        return join_response(group, member_id, with_members=group.leader == member_id)
    if group.state == STABLE and unchanged and group.leader != member_id:
        return join_response(group, member_id, with_members=False)
    # The leader's rejoin always rebalances: it sees changes, such as new partitions, that no metadata shows.
    group.update(member, request.protocols, rebalance_timeout_ms(request), request.session_timeout_ms, step.park())
    rebalance_or_complete_join(shard, step, group)
    return None


def _add(
    shard: Shard,
    step: Step,
    request: JoinGroupRequest,
    group: ClassicGroup,
    instance_id: str | None,
    member_id: str,
) -> Response | None:
    if future.holds_join(shard, step, request, group):
        return None
    member = new_member(request, instance_id, member_id)
    if group.state == PREPARING_REBALANCE and group.previous_state == EMPTY:
        group.new_member_added = True
    if classic_plans.admits_standby(shard, step, group, member):
        return join_response(group, member_id, with_members=False)
    group.add(member, step.park())
    # Nobody heartbeats before its first join is answered, and a client that gave up leaves its JoinGroup behind.
    arm_session(step, group, member, step.settings.new_member_join_timeout_ms)
    rebalance_or_complete_join(shard, step, group)
    return None


def _replace_static(
    shard: Shard,
    step: Step,
    request: JoinGroupRequest,
    group: ClassicGroup,
    instance_id: str,
    old_id: str,
    new_id: str,
) -> Response | None:
    """Give a returning static member its place under a new id (updateStaticMemberThenRebalanceOrCompleteJoin).

    Waiting requests of the old id are fenced (KAFKA-8500). The first session is the former one; the new timeouts
    count from the next heartbeat. In CompletingRebalance the assignment on its way names the old id, hence a
    rebalance (KAFKA-9801). In Stable there is none unless the group would now select another protocol; the
    subscription is not compared (KAFKA-12759).
    """
    if group.state in (EMPTY, DEAD):
        raise illegal_state(f"Unknown static member {instance_id} rejoins in state {group.state}")
    old_leader = group.leader
    fence_waiting(step, group, group.members[old_id])
    member = group.rename_static(instance_id, old_id, new_id)
    arm_session(step, group, member)
    before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    group.update(member, request.protocols, rebalance_timeout_ms(request), request.session_timeout_ms, None)
    if group.state == STABLE and group.select_protocol() == group.protocol_name:
        error = shard.append(step, group.metadata_record())
        if error is not ErrorCode.NONE:
            group.update(member, *before, None)
            arm_session(step, group, group.rename_static(instance_id, new_id, old_id))
            return _not_stored(group, error, old_leader)
        if request.api_version < SKIP_ASSIGNMENT_VERSION:
            # Such a client would assign again if the answer named it as leader.
            return _admitted_as_follower(group, new_id, old_leader)
        is_leader = group.leader == new_id
        return join_response(group, new_id, with_members=is_leader, skip=is_leader)
    group.set_join_ticket(member, step.park())
    if group.state == PREPARING_REBALANCE:
        maybe_complete_join(shard, step, group)
    else:
        prepare_rebalance(shard, step, group)
    return None


def fence_waiting(step: Step, group: ClassicGroup, member: ClassicMember) -> None:
    """Answer what waits for a replaced member with FENCED_INSTANCE_ID."""
    answer_join(step, group, member, refuse(ErrorCode.FENCED_INSTANCE_ID, member.member_id))
    answer_sync(step, member, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))


def _admitted_as_follower(group: ClassicGroup, member_id: str, leader: str | None) -> JoinGroupResponse:
    return replace(join_response(group, member_id, with_members=False), leader=leader or "")


def _not_stored(group: ClassicGroup, error: ErrorCode, leader: str | None) -> JoinGroupResponse:
    return replace(_admitted_as_follower(group, NO_MEMBER, leader), error_code=error)
