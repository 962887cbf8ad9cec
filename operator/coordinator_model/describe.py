"""DescribeGroups, ListGroups, DeleteGroups and FindCoordinator.

Source: GroupMetadataManager.describeGroups, listGroups, validateDeleteGroup; KafkaApis for the access checks.
"""

from __future__ import annotations

from .base.errors import ErrorCode, GroupError
from .base.messages import (
    CoordinatorKey,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    Request,
    Response,
)
from .base.result import Step
from .base.shard import ErrorResponse, Handler, Shard, refusal
from .classic.group import DEAD, STABLE, ClassicGroup
from .classic.member import ClassicMember
from .offsets import offset_tombstones

NOT_FOUND_VERSION = 6
"""From here on DescribeGroups answers GROUP_ID_NOT_FOUND for an absent group (KIP-1043)."""
INSTANCE_ID_VERSION = 4
"""From here on DescribeGroups carries the group instance id (KIP-345)."""
STATES_FILTER_VERSION = 4
TYPES_FILTER_VERSION = 5


def describe_groups(shard: Shard, step: Step, request: DescribeGroupsRequest) -> Response:
    """Carry out DescribeGroups: what an administrator sees of classic groups."""
    return DescribeGroupsResponse(groups=tuple(_describe(shard, step, request, g) for g in request.groups))


def _describe(shard: Shard, step: Step, request: DescribeGroupsRequest, group_id: str) -> DescribedGroup:
    if step.settings.is_denied(request.principal, "DESCRIBE", group_id):
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    group = shard.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        if request.api_version < NOT_FOUND_VERSION:
            return DescribedGroup(group_id=group_id, group_state=DEAD)
        message = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a classic group."
        return DescribedGroup(
            group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message, group_state=DEAD
        )
    stable = group.state == STABLE
    with_instance_id = request.api_version >= INSTANCE_ID_VERSION
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if stable else "",
        members=tuple(
            _described_member(m, group.protocol_name if stable else None, with_instance_id)
            for m in group.members.values()
        ),
    )


def _described_member(member: ClassicMember, protocol_name: str | None, with_instance_id: bool) -> DescribedMember:
    """Return one member; its metadata is shown in a stable group only, its last assignment in every state."""
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id if with_instance_id else None,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=b"" if protocol_name is None else member.metadata(protocol_name),
        member_assignment=member.assignment,
    )


def list_groups(shard: Shard, step: Step, request: ListGroupsRequest) -> Response:
    """Carry out ListGroups: every group the asker may describe; states and types are compared without case."""
    states = {s.strip().lower() for s in request.states_filter} if request.api_version >= STATES_FILTER_VERSION else ()
    types = {t.lower() for t in request.types_filter} if request.api_version >= TYPES_FILTER_VERSION else ()
    listed = tuple(
        ListedGroup(group_id, group.protocol_type or "", group.state, group.group_type.capitalize())
        for group_id, group in shard.groups.items()
        if (not states or group.state.lower() in states)
        and (not types or group.group_type in types)
        and not step.settings.is_denied(request.principal, "DESCRIBE", group_id)
    )
    return ListGroupsResponse(groups=listed)


def delete_groups(shard: Shard, step: Step, request: DeleteGroupsRequest) -> Response:
    """Carry out DeleteGroups: empty groups go with their offsets and timers, the others are refused one by one."""
    return DeleteGroupsResponse(results=tuple((g, _delete(shard, step, request, g)) for g in request.group_ids))


def _delete(shard: Shard, step: Step, request: DeleteGroupsRequest, group_id: str) -> ErrorCode:
    if step.settings.is_denied(request.principal, "DELETE", group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    group = shard.groups.get(group_id)
    if group is None or group.state == DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if not group.is_empty:
        return ErrorCode.NON_EMPTY_GROUP
    records = offset_tombstones(shard, group_id) + group.tombstones()
    for record in records:
        shard.apply(record)
    step.records += records
    shard.cancel_timers(step, group_id)
    return ErrorCode.NONE


def find_coordinator(shard: Shard, step: Step, request: FindCoordinatorRequest) -> Response:
    """Carry out FindCoordinator: this model is the coordinator of every group."""
    return FindCoordinatorResponse(coordinators=tuple(_find(step, request, key) for key in request.keys))


def _find(step: Step, request: FindCoordinatorRequest, key: str) -> CoordinatorKey:
    if request.key_type == 0 and step.settings.is_denied(request.principal, "DESCRIBE", key):
        return CoordinatorKey(key, -1, "", -1, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return CoordinatorKey(key, step.settings.node_id, step.settings.host, step.settings.port)


def _all_groups_refused(request: DescribeGroupsRequest, error: GroupError) -> Response:
    groups = tuple(DescribedGroup(group_id=g, error_code=error.code) for g in request.groups)
    return DescribeGroupsResponse(groups=groups)


HANDLERS: dict[type[Request], Handler] = {
    DescribeGroupsRequest: describe_groups,
    ListGroupsRequest: list_groups,
    DeleteGroupsRequest: delete_groups,
    FindCoordinatorRequest: find_coordinator,
}
ERROR_RESPONSE: dict[type[Request], ErrorResponse] = {
    DescribeGroupsRequest: _all_groups_refused,
    ListGroupsRequest: refusal(ListGroupsResponse, with_message=False),
    DeleteGroupsRequest: lambda request, error: DeleteGroupsResponse(
        results=tuple((g, error.code) for g in request.group_ids)
    ),
    FindCoordinatorRequest: lambda request, error: FindCoordinatorResponse(
        coordinators=tuple(CoordinatorKey(k, -1, "", -1, error.code) for k in request.keys)
    ),
}
