"""Members of the classic protocol inside a consumer group: JoinGroup, SyncGroup and Heartbeat on it.

To such a member the group looks like one whose coordinator computes the assignment: JoinGroup reconciles and is
answered at once, SyncGroup hands out what it got, and Heartbeat says when to come again.
Source: GroupMetadataManager.classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup,
classicGroupHeartbeatToConsumerGroup of Kafka 4.4; KIP-848 "Supporting online consumer group upgrade".
"""

from __future__ import annotations

from dataclasses import replace

from ..assignors.subscription import (
    DecodedAssignment,
    DecodedSubscription,
    decode_subscription,
    encode_assignment,
)
from ..base.epoch_group import require_room, write
from ..base.errors import ErrorCode, GroupError
from ..base.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    Protocol,
    Response,
    SyncGroupRequest,
    SyncGroupResponse,
    TopicPartitions,
)
from ..base.records import Record
from ..base.result import Step
from ..base.settings import require
from ..base.shard import Shard
from .conversion import convert_to_classic, may_downgrade_replaced
from .fencing import leave
from .group import CONSUMER_PROTOCOL_TYPE, ConsumerGroup
from .heartbeat import replaced_static
from .member import ClassicMemberMetadata, Member, MemberMetadata, MemberState, topic_names
from .regex import RegexChange, change_regex
from .target import assignment_of, current_target, reconciled, record_member, updated_epoch

__all__ = ["heartbeat_classic", "join_classic", "leave", "sync_classic"]

REQUIRES_MEMBER_ID_VERSION = 4
JOIN_INSTANCE_ID_VERSION = 5
INSTANCE_ID_VERSION = 3


def join_classic(shard: Shard, step: Step, request: JoinGroupRequest) -> Response:
    """Carry out JoinGroup on a consumer group with members; it never waits.

    If the joiner is the return of the last consumer-protocol member, the group becomes classic in the same step.
    """
    group: ConsumerGroup = shard.groups[request.group_id]
    instance_id = request.group_instance_id if request.api_version >= JOIN_INSTANCE_ID_VERSION else None
    member_id = request.member_id or step.new_uuid()
    _require_admissible(shard, group, request, member_id, instance_id)
    if not request.member_id and instance_id is None and request.api_version >= REQUIRES_MEMBER_ID_VERSION:
        return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
    records: list[Record] = []
    old = _member(group, request, member_id, instance_id, records)
    downgrade = may_downgrade_replaced(shard, group, group.static_member(instance_id))
    subscription = _subscription(request.protocols)
    new = replace(old, metadata=_updated(old.metadata, request, subscription, instance_id))
    names_changed = record_member(group, old, new, records)
    bump = change_regex(shard, step, group, old, new, records) is not RegexChange.NONE or names_changed
    epoch = group.group_epoch
    if bump or group.hashed_image is not shard.image:
        epoch = updated_epoch(shard, group, old, new, bump, records)
    owned = shard.image.existing(subscription.owned)
    if downgrade:
        after = _join_and_downgrade(shard, step, group, new, epoch, bump, owned, records)
    else:
        target = current_target(shard, step, group, epoch, old, new, records)
        after = reconciled(shard, group, new, target, bump, owned, records)
        write(shard, step, records)
        group.hashed_image = shard.image
        if shard.write_error is None or not records:
            _await_sync(step, group, request, member_id)
    return JoinGroupResponse(
        generation_id=after.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
        member_id=member_id,
    )


def _await_sync(step: Step, group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> None:
    """Start the session of an admitted joiner and the time it has for SyncGroup.

    Kafka does this once the records are written; a joiner that could not be stored has no timers.
    """
    step.arm(("consumer-session", group.group_id, member_id), request.session_timeout_ms)
    step.arm(("consumer-sync", group.group_id, member_id), request.rebalance_timeout_ms)
    step.cancel(("consumer-join", group.group_id, member_id))


def _require_admissible(
    shard: Shard,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    member_id: str,
    instance_id: str | None,
) -> None:
    """Refuse by policy (KAFKA-20640), size and protocols, in this order."""
    if shard.settings.migration_policy == "disabled":
        raise GroupError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"Cannot join the consumer group {group.group_id} with the classic protocol because the group migration "
            "is disabled.",
        )
    require_room(group, shard.settings.consumer_max_size, member_id, instance_id)
    supported = group.supports_classic_protocols(request.protocol_type, [p.name for p in request.protocols])
    reason = f"Member {member_id}'s protocols are not supported."
    require(supported, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, reason)


def _member(
    group: ConsumerGroup, request: JoinGroupRequest, member_id: str, instance_id: str | None, records: list[Record]
) -> Member:
    """Return the member before the change; a static one without member id replaces its holder, away (-2) or not."""
    if instance_id is None:
        return group.members.get(member_id) or Member(member_id)
    if request.member_id:
        return group.known_static_member(instance_id, member_id)
    holder = group.static_member(instance_id)
    return Member(member_id) if holder is None else replaced_static(group, holder, member_id, records)


def _subscription(protocols: tuple[Protocol, ...]) -> DecodedSubscription:
    try:
        return decode_subscription(protocols[0].metadata)
    except ValueError as error:
        message = "Malformed embedded consumer protocol in subscription deserialization."
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message) from error


def _updated(
    metadata: MemberMetadata, request: JoinGroupRequest, subscription: DecodedSubscription, instance_id: str | None
) -> MemberMetadata:
    timeout_ms = request.rebalance_timeout_ms
    return MemberMetadata(
        instance_id=metadata.instance_id if instance_id is None else instance_id,
        rack_id=subscription.rack_id or metadata.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=topic_names(subscription.topics),
        subscribed_topic_regex="",
        rebalance_timeout_ms=metadata.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=metadata.server_assignor,
        classic=ClassicMemberMetadata(request.session_timeout_ms, request.protocols),
    )


def _join_and_downgrade(
    shard: Shard,
    step: Step,
    group: ConsumerGroup,
    new: Member,
    epoch: int,
    subscription_changed: bool,
    owned: TopicPartitions,
    records: list[Record],
) -> Member:
    """Reconcile the joiner with the existing target, unless a stale target makes a rebalance necessary anyway."""
    rebalance = group.assignment_epoch < epoch
    after = new
    if not rebalance:
        target = (group.assignment_epoch, group.target_of(new))
        after = reconciled(shard, group, new, target, subscription_changed, owned, records)
    convert_to_classic(shard, step, group, joining=after, rebalance=rebalance, records=records)
    return after


def sync_classic(shard: Shard, step: Step, request: SyncGroupRequest) -> Response:
    """Carry out SyncGroup on a consumer group: hand out what the member holds now, but for deleted topics.

    Source: GroupMetadataManager.prepareAssignment, Utils.toConsumerProtocolAssignment.
    """
    group: ConsumerGroup = shard.groups[request.group_id]
    member, classic = _classic_member(group, request)
    _require_generation(member, request.generation_id)
    _require_protocol(classic.supported_protocols[0].name, request)
    if group.assignment_epoch > member.member_epoch and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
        _arm_join(step, group, member)
        raise GroupError(ErrorCode.REBALANCE_IN_PROGRESS)
    step.cancel(("consumer-sync", group.group_id, member.member_id))
    step.arm(("consumer-session", group.group_id, member.member_id), classic.session_timeout_ms)
    version = decode_subscription(classic.supported_protocols[0].metadata).version
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encode_assignment(DecodedAssignment(version, step.image.existing(assignment_of(member)))),
    )


def heartbeat_classic(shard: Shard, step: Step, request: HeartbeatRequest) -> Response:
    """Carry out Heartbeat on a consumer group; REBALANCE_IN_PROGRESS asks the member to join again.

    It does so when there is a newer target, when it has to give something up, and when what it waited for is free.
    """
    group: ConsumerGroup = shard.groups[request.group_id]
    member, classic = _classic_member(group, request)
    _require_generation(member, request.generation_id)
    step.arm(("consumer-session", group.group_id, member.member_id), classic.session_timeout_ms)
    state = member.current.state
    if (
        member.member_epoch < group.assignment_epoch
        or state is MemberState.UNREVOKED_PARTITIONS
        or (state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_unreleased(member))
    ):
        _arm_join(step, group, member)
        return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    return HeartbeatResponse()


def _classic_member(
    group: ConsumerGroup, request: SyncGroupRequest | HeartbeatRequest
) -> tuple[Member, ClassicMemberMetadata]:
    instance_id = request.group_instance_id if request.api_version >= INSTANCE_ID_VERSION else None
    if instance_id is None:
        member = group.member(request.member_id)
    else:
        member = group.known_static_member(instance_id, request.member_id)
    classic = member.metadata.classic
    if classic is None:
        message = f"Member {member.member_id} does not use the classic protocol."
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member, classic


def _require_generation(member: Member, generation_id: int) -> None:
    require(generation_id == member.member_epoch, ErrorCode.ILLEGAL_GENERATION)


def _require_protocol(name: str, request: SyncGroupRequest) -> None:
    fits = request.protocol_type in (None, CONSUMER_PROTOCOL_TYPE) and request.protocol_name in (None, name)
    require(fits, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _arm_join(step: Step, group: ConsumerGroup, member: Member) -> None:
    key = ("consumer-join", group.group_id, member.member_id)
    if step.timers.deadline_ms(key) is None:
        step.arm(key, member.metadata.rebalance_timeout_ms)
