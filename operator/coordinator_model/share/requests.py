"""Membership of share groups (KIP-932): join, heartbeat, leave, session timer, size; no member is static.

Left out: delivery state, its initialization, and everything the share coordinator does.
Source: GroupCoordinatorService.shareGroupHeartbeat and GroupMetadataManager (shareGroup… methods), 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..base.epoch_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    described,
    existing,
    group_of_timer,
    require_room,
    write,
)
from ..base.errors import ErrorCode
from ..base.group_config import effective_ms, may_assign
from ..base.image import metadata_hash
from ..base.messages import TopicPartitions
from ..base.records import Record
from ..base.result import Step
from ..base.settings import require, require_text
from ..base.shard import Shard, refusal
from ..base.timers import TimerKey
from .group import (
    REPLAY,
    CurrentAssignment,
    GroupMetadata,
    Member,
    MemberMetadata,
    ShareGroup,
    current_record,
    group_record,
    member_record,
    member_tombstones,
    share_out,
    target_epoch_record,
    target_record,
)
from .messages import (
    ShareGroupDescribedGroup,
    ShareGroupDescribedMember,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


def heartbeat(shard: Shard, step: Step, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    """Join (epoch 0), heartbeat or leave (-1).

    Source: GroupMetadataManager.shareGroupHeartbeat and shareGroupLeave.
    """
    shard.authorize(request.principal, "READ", request.group_id)
    _validate(request)
    if request.member_epoch == LEAVE_EPOCH:
        group = existing(shard, request.group_id, ShareGroup)
        member_id = group.member(request.member_id).member_id
        _fence(shard, step, group, member_id)
        return ShareGroupHeartbeatResponse(member_id=member_id, member_epoch=LEAVE_EPOCH)
    joins = request.member_epoch == JOIN_EPOCH
    fresh = joins and request.group_id not in shard.groups
    group = ShareGroup(request.group_id) if fresh else existing(shard, request.group_id, ShareGroup)
    require_room(group, shard.settings.share_max_size, request.member_id)
    known = group.members.get(request.member_id)
    member = known or (Member(request.member_id) if joins else group.member(request.member_id))
    _require_epoch(member, request.member_epoch)
    updated, records = _advance(shard, step, group, member, request)
    session_ms = effective_ms(shard, group.group_id, "share.session.timeout.ms")
    step.arm(("share-session", group.group_id, member.member_id), session_ms)
    write(shard, step, records)
    shard.groups[group.group_id].hashed_from = shard.image
    assigned = updated.current.assigned
    tells = joins or request.subscribed_topic_names is not None or assigned != member.current.assigned
    return ShareGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=updated.current.member_epoch,
        heartbeat_interval_ms=effective_ms(shard, group.group_id, "share.heartbeat.interval.ms"),
        assignment=assigned if tells else None,
    )


def describe(shard: Shard, step: Step, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    """Show share groups; a group of another type or none answers GROUP_ID_NOT_FOUND (shareGroupDescribe)."""
    return ShareGroupDescribeResponse(
        groups=tuple(
            described(shard, request.principal, group_id, ShareGroup, ShareGroupDescribedGroup, _described_fields)
            for group_id in request.group_ids
        )
    )


def _validate(request: ShareGroupHeartbeatRequest) -> None:
    """Refuse requests that no member sends (throwIfShareGroupHeartbeatRequestIsInvalid)."""

    def valid(condition: bool, message: str) -> None:
        require(condition, ErrorCode.INVALID_REQUEST, message)

    require_text(request.member_id, "MemberId")
    require_text(request.group_id, "GroupId")
    require_text(request.rack_id, "RackId")
    subscribes = bool(request.subscribed_topic_names) or request.member_epoch != JOIN_EPOCH
    valid(subscribes, "SubscribedTopicNames must be set in first request.")
    valid(request.member_epoch >= LEAVE_EPOCH, "MemberEpoch is invalid.")


def _require_epoch(member: Member, received: int) -> None:
    """Accept the current and the previous epoch, and 0 to rejoin (throwIfShareGroupMemberEpochIsInvalid)."""
    current = member.current
    previous = received == current.previous_member_epoch and received < current.member_epoch
    require(
        received in (JOIN_EPOCH, current.member_epoch) or previous,
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has epoch {received}, but the group coordinator knows {current.member_epoch}. "
        "The member must abandon all its partitions and rejoin.",
    )


def _subscribed(members: Iterable[Member]) -> set[str]:
    return {topic for member in members for topic in member.metadata.subscribed_topic_names}


def _advance(
    shard: Shard, step: Step, group: ShareGroup, member: Member, request: ShareGroupHeartbeatRequest
) -> tuple[Member, list[Record]]:
    """Return the member after this heartbeat and the records that bring it there; nothing is applied yet."""
    group_id, old = group.group_id, member.metadata
    names = request.subscribed_topic_names
    metadata = MemberMetadata(
        old.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        old.subscribed_topic_names if names is None else tuple(sorted(set(names))),
    )
    updated, records = replace(member, metadata=metadata), []
    if metadata != old:
        records.append(member_record(group_id, updated))
    subscription_changed = metadata.subscribed_topic_names != old.subscribed_topic_names
    epoch, bumped = group.metadata.epoch, subscription_changed
    if subscription_changed or group.hashed_from is not shard.image:
        members = {**group.members, member.member_id: updated}
        topics_hash = metadata_hash(_subscribed(members.values()), shard.image)
        bumped = subscription_changed or topics_hash != group.metadata.metadata_hash
        if bumped:
            epoch += 1
            records.append(group_record(group_id, GroupMetadata(epoch, topics_hash)))
    assigned_epoch, targets = group.target_metadata.assignment_epoch, group.targets
    assigned_ms = group.target_metadata.timestamp_ms
    if assigned_epoch < epoch and may_assign(shard, step, "share", group_id, assigned_ms):
        targets = share_out({**group.members, member.member_id: updated}, shard.image)
        records += [
            target_record(group_id, m, target) for m, target in targets.items() if group.targets.get(m) != target
        ]
        records.append(target_epoch_record(group_id, epoch, step.now_ms))
        assigned_epoch = epoch
    current = _reconciled(updated, assigned_epoch, targets.get(member.member_id, ()), bumped)
    if current != updated.current:
        updated = replace(updated, current=current)
        records.append(current_record(group_id, updated))
    return updated, records


def _reconciled(member: Member, epoch: int, target: TopicPartitions, bumped: bool) -> CurrentAssignment:
    """Return the target at once: shared partitions need no revocation first (ShareGroupAssignmentBuilder)."""
    assigned = tuple((t, p) for t, p in target if t in member.metadata.subscribed_topic_names)
    if epoch != member.current.member_epoch:
        return CurrentAssignment(epoch, member.current.member_epoch, assigned)
    return replace(member.current, assigned=assigned) if bumped else member.current


def _fence(shard: Shard, step: Step, group: ShareGroup, member_id: str) -> None:
    """Remove a member: three tombstones and a new group epoch (shareGroupFenceMember)."""
    remaining = [member for m, member in group.members.items() if m != member_id]
    metadata = GroupMetadata(group.metadata.epoch + 1, metadata_hash(_subscribed(remaining), shard.image))
    records = [*member_tombstones(group.group_id, member_id), group_record(group.group_id, metadata)]
    if not remaining:
        # As in a new group, the next assignment need not wait for the interval (KAFKA-20442).
        records.append(target_epoch_record(group.group_id, metadata.epoch, 0))
    write(shard, step, records)
    step.cancel(("share-session", group.group_id, member_id))


def _session_expired(shard: Shard, step: Step, key: TimerKey) -> None:
    """Remove the member; a group or member that is gone by now needs nothing (shareGroupFenceMemberOperation)."""
    group = group_of_timer(shard, key, ShareGroup)
    if group is not None:
        _fence(shard, step, group, key[2])


def _on_loaded(shard: Shard, step: Step) -> None:
    """Give every member a full session again (onLoaded)."""
    for group in shard.groups_of(ShareGroup):
        session_ms = effective_ms(shard, group.group_id, "share.session.timeout.ms")
        for member_id in group.members:
            step.arm(("share-session", group.group_id, member_id), session_ms)


def _described_fields(group: ShareGroup) -> dict[str, object]:
    members = tuple(
        ShareGroupDescribedMember(
            member_id=member.member_id,
            rack_id=member.metadata.rack_id,
            member_epoch=member.current.member_epoch,
            client_id=member.metadata.client_id,
            client_host=member.metadata.client_host,
            subscribed_topic_names=member.metadata.subscribed_topic_names,
            assignment=member.current.assigned,
        )
        for member in group.members.values()
    )
    return {"assignor_name": "simple", "members": members}


HANDLERS = {ShareGroupHeartbeatRequest: heartbeat, ShareGroupDescribeRequest: describe}
EXPIRE = {"share-session": _session_expired}
ON_LOADED = _on_loaded
ERROR_RESPONSE = {ShareGroupHeartbeatRequest: refusal(ShareGroupHeartbeatResponse)}

__all__ = ["ERROR_RESPONSE", "EXPIRE", "HANDLERS", "ON_LOADED", "REPLAY"]
