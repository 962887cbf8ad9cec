"""How members leave a KIP-848 group: by themselves, by an administrator, or by running out of time.

Source: GroupMetadataManager.consumerGroupLeave, classicGroupLeaveToConsumerGroup, consumerGroupFenceMembers.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ..base.epoch_group import LEAVE_STATIC_EPOCH, group_of_timer, write
from ..base.errors import ErrorCode, GroupError
from ..base.image import metadata_hash
from ..base.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ..base.records import Record
from ..base.result import Step
from ..base.shard import Shard
from ..base.timers import TimerKey
from ..classic.leave import BATCH_VERSION, leave_response
from .conversion import convert_to_classic, may_downgrade
from .group import ConsumerGroup
from .member import Member
from .records import (
    current_record,
    group_record,
    member_tombstones,
    regex_record,
    target_epoch_record,
)

MEMBER_TIMERS = ("consumer-session", "consumer-rebalance", "consumer-join", "consumer-sync")


def leave_by_heartbeat(
    shard: Shard, step: Step, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Carry out a heartbeat with epoch -1 (gone) or -2 (static, back soon); the member's own epoch is not asked for.

    -2 keeps the member with its partitions, one record, group epoch unchanged; its session timer runs on from the last
    regular heartbeat. Anybody with the right to the group may send either.
    """
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup):
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
    if request.group_instance_id is None:
        member = group.member(request.member_id)
    else:
        member = group.known_static_member(request.group_instance_id, request.member_id)
    if request.group_instance_id is not None and request.member_epoch == LEAVE_STATIC_EPOCH:
        away = replace(
            member.current,
            member_epoch=LEAVE_STATIC_EPOCH,
            assigned=dict.fromkeys(member.current.assigned, 0),
            pending_revocation={},
        )
        write(shard, step, [current_record(group.group_id, replace(member, current=away))])
    else:
        fence(shard, step, group, [member])
    return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)


def leave(shard: Shard, step: Step, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Carry out LeaveGroup on members of either protocol (KAFKA-18188): each entry by itself, one epoch for all.

    A member named twice is gone once and answered twice; without one valid entry nothing is written.
    """
    group: ConsumerGroup = shard.groups[request.group_id]
    answers: list[MemberResponse] = []
    leaving: dict[str, Member] = {}
    for identity in request.members:
        error = ErrorCode.NONE
        try:
            member = _identified(group, identity, request.api_version)
            leaving[member.member_id] = member
        except GroupError as refused:
            error = refused.code
        answers.append(
            MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error)
        )
    fence(shard, step, group, list(leaving.values()))
    return leave_response(request, tuple(answers))


def _identified(group: ConsumerGroup, identity: MemberIdentity, api_version: int) -> Member:
    instance_id = identity.group_instance_id
    if instance_id is None or api_version < BATCH_VERSION:
        return group.member(identity.member_id)
    if identity.member_id:
        return group.known_static_member(instance_id, identity.member_id)
    holder = group.static_member(instance_id)
    if holder is None:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    return holder


def fence(shard: Shard, step: Step, group: ConsumerGroup, members: Collection[Member]) -> None:
    """Remove members: three tombstones each, unused expressions, and one group epoch for all of them.

    A group that becomes empty has its assignment epoch moved along with timestamp 0, so that the interval does not
    delay the next joiner (KAFKA-20442). If only members of the classic protocol remain, the group becomes classic.
    """
    if not members:
        return
    if may_downgrade(shard, group, members):
        convert_to_classic(shard, step, group, leaving=members, rebalance=True)
        return
    group_id, epoch = group.group_id, group.group_epoch + 1
    records: list[Record] = []
    for member in members:
        records += member_tombstones(group_id, member.member_id)
    unused = _unused_regexes(group, members)
    records += [regex_record(group_id, regex, None) for regex in unused]
    names = group.subscribed_names(members, None, unused)
    records.append(group_record(group_id, epoch, metadata_hash(names, shard.image)))
    if len(members) == len(group.members):
        records.append(target_epoch_record(group_id, epoch, 0))
    write(shard, step, records)
    for member in members:
        cancel_timers(step, group_id, member.member_id)


def _unused_regexes(group: ConsumerGroup, leaving: Collection[Member]) -> list[str]:
    counts: dict[str, int] = {}
    for member in leaving:
        regex = member.metadata.subscribed_topic_regex
        if regex:
            counts[regex] = counts.get(regex, 0) + 1
    return sorted(regex for regex, count in counts.items() if group.regex_counts[regex] == count)


def cancel_timers(step: Step, group_id: str, member_id: str) -> None:
    """Drop all timers of a member."""
    for kind in MEMBER_TIMERS:
        step.cancel((kind, group_id, member_id))


def expire_member(shard: Shard, step: Step, key: TimerKey) -> None:
    """Remove the member whose session, join or sync timer ran out; a timer of a former member does nothing."""
    group = group_of_timer(shard, key, ConsumerGroup)
    if group is not None:
        fence(shard, step, group, [group.members[key[2]]])


def expire_rebalance(shard: Shard, step: Step, key: TimerKey) -> None:
    """Remove the member that has not revoked in time, unless it has come to another epoch meanwhile."""
    group = group_of_timer(shard, key, ConsumerGroup)
    if group is not None:
        member = group.members[key[2]]
        if member.member_epoch == group.rebalance_timer_epochs.get(member.member_id):
            fence(shard, step, group, [member])
