"""ConsumerGroupHeartbeat: joining, beating and leaving in one request.

Source: GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid and
GroupMetadataManager.consumerGroupHeartbeat of Kafka 4.4; KIP-848, KIP-1082 (member ids made by clients).
"""

from __future__ import annotations

from dataclasses import replace

from ..base.epoch_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    refuse_unreleased,
    require_room,
    write,
)
from ..base.errors import ErrorCode, GroupError
from ..base.group_config import effective_ms
from ..base.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, Response
from ..base.records import Record
from ..base.result import Step
from ..base.settings import BrokerSettings, require, require_text
from ..base.shard import Shard
from ..classic.group import ClassicGroup
from .conversion import convert_to_consumer, require_upgrade
from .fencing import leave_by_heartbeat
from .group import ConsumerGroup, validate_epoch
from .member import CurrentAssignment, Member, MemberMetadata, topic_names
from .records import current_record, member_record, member_tombstones, new_group, target_record
from .regex import RegexChange, change_regex
from .target import (
    arm_rebalance_timer,
    assignment_of,
    current_target,
    reconciled,
    record_member,
    updated_epoch,
)

CLIENT_MEMBER_ID_VERSION = 1
"""From here on the client makes its member id (KIP-1082)."""


def heartbeat(shard: Shard, step: Step, request: ConsumerGroupHeartbeatRequest) -> Response:
    """Carry out ConsumerGroupHeartbeat: epoch 0 joins, -1 leaves, -2 leaves for a while, any other keeps the member."""
    steady = _steady(shard, step, request)
    if steady is not None:
        return steady
    _validate(step.settings, request)
    if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
        return leave_by_heartbeat(shard, step, request)
    return _join_or_beat(shard, step, request)


def _steady(shard: Shard, step: Step, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse | None:
    """Answer the heartbeat of a member that has its whole target and sends nothing new; None: not that simple."""
    group = shard.groups.get(request.group_id)
    if type(group) is not ConsumerGroup or group.hashed_image is not shard.image or group.regex_counts:
        return None
    member = group.members.get(request.member_id)
    if member is None or request.member_epoch <= 0:
        return None
    current, metadata = member.current, member.metadata
    if (
        request.member_epoch != current.member_epoch
        or current.member_epoch != group.assignment_epoch
        or current.state
        or group.assignment_epoch < group.group_epoch
        or request.rebalance_timeout_ms != -1
        or request.subscribed_topic_names is not None
        or request.subscribed_topic_regex is not None
        or (request.group_instance_id != metadata.instance_id and request.group_instance_id is not None)
        or request.rack_id is not None
        or request.server_assignor is not None
        or request.client_id != metadata.client_id
        or request.client_host != metadata.client_host
        or metadata.classic is not None
    ):
        return None
    arm_session(shard, step, request.group_id, request.member_id)
    interval_ms = effective_ms(shard, request.group_id, "consumer.heartbeat.interval.ms")
    known = group.steady_answers.get(request.member_id)
    if known is None or known.member_epoch != current.member_epoch or known.heartbeat_interval_ms != interval_ms:
        known = group.steady_answers[request.member_id] = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=current.member_epoch, heartbeat_interval_ms=interval_ms
        )
    return known


def _validate(settings: BrokerSettings, request: ConsumerGroupHeartbeatRequest) -> None:
    epoch = request.member_epoch
    if request.api_version >= CLIENT_MEMBER_ID_VERSION or epoch > 0 or epoch == LEAVE_EPOCH:
        require_text(request.member_id, "MemberId")
    require_text(request.group_id, "GroupId")
    require_text(request.group_instance_id, "InstanceId")
    require_text(request.rack_id, "RackId")
    if epoch == JOIN_EPOCH:
        is_set = request.rebalance_timeout_ms != -1
        require(is_set, ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
        empty = request.topic_partitions is not None and not request.topic_partitions
        require(empty, ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
        subscribed = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        reason = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        require(subscribed, ErrorCode.INVALID_REQUEST, reason)
    elif epoch == LEAVE_STATIC_EPOCH:
        require(request.group_instance_id is not None, ErrorCode.INVALID_REQUEST, "InstanceId can't be null.")
    elif epoch < LEAVE_STATIC_EPOCH:
        raise GroupError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in settings.consumer_assignors:
        supported = ", ".join(settings.consumer_assignors)
        message = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {supported}."
        raise GroupError(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def _join_or_beat(shard: Shard, step: Step, request: ConsumerGroupHeartbeatRequest) -> Response:
    records: list[Record] = []
    group = _group(shard, step, request, records)
    require_room(group, step.settings.consumer_max_size, request.member_id, request.group_instance_id)
    member_id = request.member_id or step.new_uuid()
    old = _member(step.settings, group, request, member_id, records)
    new = Member(member_id, _updated(old.metadata, request), old.current)
    names_changed = record_member(group, old, new, records)
    regex_change = change_regex(shard, step, group, old, new, records)
    default = step.settings.consumer_assignors[0]
    preferred, asked = group.preferred_assignor() or default, group.preferred_assignor(old, new) or default
    bump = names_changed or regex_change is RegexChange.UPDATED_AND_RESOLVED or preferred != asked
    epoch = group.group_epoch
    if bump or group.hashed_image is not shard.image:
        epoch = updated_epoch(shard, group, old, new, bump, records)
    target = current_target(shard, step, group, epoch, old, new, records)
    subscription_changed = names_changed or regex_change is not RegexChange.NONE
    owned = request.topic_partitions
    after = reconciled(shard, group, new, target, subscription_changed, owned, records)
    write(shard, step, records)
    registered = shard.groups[request.group_id]
    registered.hashed_image = shard.image
    arm_rebalance_timer(step, registered, new, after)
    arm_session(shard, step, request.group_id, member_id)
    return _answer(shard, request, old, after)


def _answer(
    shard: Shard, request: ConsumerGroupHeartbeatRequest, before: Member, after: Member
) -> ConsumerGroupHeartbeatResponse:
    """Return the answer; it has the assignment if it changed, at a join, and after a request that repeats all."""
    full = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    shown = request.member_epoch == JOIN_EPOCH or full or before.current.assigned != after.current.assigned
    return ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval_ms=effective_ms(shard, request.group_id, "consumer.heartbeat.interval.ms"),
        assignment=assignment_of(after) if shown else None,
    )


def _group(shard: Shard, step: Step, request: ConsumerGroupHeartbeatRequest, records: list[Record]) -> ConsumerGroup:
    """Return the request's group; a joiner creates it, or converts a classic one (getOrMaybeCreateConsumerGroup)."""
    group_id = request.group_id
    group = shard.groups.get(group_id)
    joins = request.member_epoch == JOIN_EPOCH
    if isinstance(group, ConsumerGroup):
        return group
    if group is None:
        require(joins, ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        return new_group(shard, group_id)
    if not joins or not isinstance(group, ClassicGroup):
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    if group.is_empty:
        records += group.tombstones()
        shard.cancel_timers(step, group_id)
        return new_group(shard, group_id)
    require_upgrade(step.settings, group)
    return convert_to_consumer(shard, step, group, records)


def _member(
    settings: BrokerSettings,
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    records: list[Record],
) -> Member:
    """Return the member as it is before the request's changes: known, new, or copied from its predecessor."""
    joins, instance_id = request.member_epoch == JOIN_EPOCH, request.group_instance_id
    if instance_id is None:
        member = group.members.get(member_id) or Member(member_id) if joins else group.member(member_id)
        validate_epoch(member, request.member_epoch, request.topic_partitions)
        return member
    if not joins:
        member = group.known_static_member(instance_id, member_id)
        validate_epoch(member, request.member_epoch, request.topic_partitions)
        return member
    holder = group.static_member(instance_id)
    if settings.static_self_rejoin == "in_place" and member_id in group.members:
        return _rejoined_in_place(group.members[member_id], instance_id)
    if holder is None:
        return group.members.get(member_id) or Member(member_id)
    if not holder.uses_classic_protocol:
        refuse_unreleased(holder, member_id)
    return replaced_static(group, holder, member_id, records)


def _rejoined_in_place(member: Member, instance_id: str) -> Member:
    """Return the member that rejoins with its own id, as the proposal of apache/kafka#23542 treats it.

    Like a dynamic member's rejoin; after -2 the epochs start again, without the tombstones and copies.
    """
    if member.instance_id != instance_id:
        raise GroupError(ErrorCode.INVALID_REQUEST, f"The instance id of member {member.member_id} can't be changed.")
    if member.member_epoch != LEAVE_STATIC_EPOCH:
        return member
    return replace(member, current=replace(member.current, member_epoch=0, previous_member_epoch=0))


def replaced_static(group: ConsumerGroup, holder: Member, member_id: str, records: list[Record]) -> Member:
    """Return the holder's copy under a new member id with epoch 0: three tombstones, three copies (replaceMember).

    The holder's timers are left alone; they will find no member.
    """
    held = holder.current
    current = CurrentAssignment(JOIN_EPOCH, 0, held.state, held.assigned, held.pending_revocation)
    copy = Member(member_id, holder.metadata, current)
    records += member_tombstones(group.group_id, holder.member_id)
    records.append(member_record(group.group_id, copy))
    records.append(target_record(group.group_id, member_id, group.targets.get(holder.member_id, ())))
    records.append(current_record(group.group_id, copy))
    return copy


def _updated(metadata: MemberMetadata, request: ConsumerGroupHeartbeatRequest) -> MemberMetadata:
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return MemberMetadata(
        instance_id=metadata.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=metadata.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names if names is None else topic_names(names),
        subscribed_topic_regex=metadata.subscribed_topic_regex if regex is None else regex,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=metadata.server_assignor if request.server_assignor is None else request.server_assignor,
    )


def arm_session(shard: Shard, step: Step, group_id: str, member_id: str) -> None:
    """Give a consumer-protocol member its session in full, as long as the group's settings say now."""
    timeout_ms = effective_ms(shard, group_id, "consumer.session.timeout.ms")
    step.arm(("consumer-session", group_id, member_id), timeout_ms)
