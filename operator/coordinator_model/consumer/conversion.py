"""Conversion of a classic group when the first consumer-protocol member joins, and back when the last leaves.

Source: GroupMetadataManager.convertToConsumerGroup, convertToClassicGroup and the validateOnline… rules;
ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup; KIP-848 "Online migration"
(group.consumer.migration.policy).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..assignors.subscription import (
    DecodedAssignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    to_pairs,
    to_topic_partitions,
)
from ..base.errors import ErrorCode, GroupError
from ..base.image import TopicImage, metadata_hash
from ..base.messages import TopicPartitions
from ..base.records import Record
from ..base.result import Step
from ..base.settings import BrokerSettings, require
from ..base.shard import Shard
from ..classic.group import STABLE, ClassicGroup
from ..classic.member import ClassicMember
from ..classic.rebalance import arm_session, fail_waiting, prepare_rebalance
from .group import CONSUMER_PROTOCOL_TYPE, ConsumerGroup
from .member import (
    ClassicMemberMetadata,
    CurrentAssignment,
    Member,
    MemberMetadata,
    topic_names,
    with_epoch,
)
from .records import current_record, group_record, member_record, target_epoch_record, target_record

UPGRADING_POLICIES = ("bidirectional", "upgrade")
DOWNGRADING_POLICIES = ("bidirectional", "downgrade")


def require_upgrade(settings: BrokerSettings, group: ClassicGroup) -> None:
    """Raise GROUP_ID_NOT_FOUND unless a classic group may become a consumer group (validateOnlineUpgrade)."""
    refused = f"Cannot upgrade classic group {group.group_id} to consumer group because"
    may = settings.migration_policy in UPGRADING_POLICIES
    require(may, ErrorCode.GROUP_ID_NOT_FOUND, f"{refused} online upgrade is disabled.")
    is_consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
    reason = f"{refused} the group does not use the consumer embedded protocol."
    require(is_consumer, ErrorCode.GROUP_ID_NOT_FOUND, reason)
    fits = len(group.members) <= settings.consumer_max_size
    reason = f"{refused} the group size exceeds the consumer group maximum size."
    require(fits, ErrorCode.GROUP_ID_NOT_FOUND, reason)


def convert_to_consumer(shard: Shard, step: Step, classic: ClassicGroup, records: list[Record]) -> ConsumerGroup:
    """Return the consumer group that a classic group with members becomes, with its records; not yet registered.

    Member epochs, group and assignment epoch are the generation; each member keeps what it was assigned. Waiting
    waiting joins and syncs get REBALANCE_IN_PROGRESS, whether the upgrade then succeeds or not.
    """
    fail_waiting(step, classic, ErrorCode.REBALANCE_IN_PROGRESS)
    records += classic.tombstones()
    epoch = classic.generation_id
    group = ConsumerGroup(classic.group_id, epoch)
    try:
        for classic_member in classic.members.values():
            member = _from_classic(classic_member, classic.protocol_name, epoch, shard.image)
            group.put_member(member)
            group.targets[member.member_id] = to_topic_partitions(member.current.assigned)
    except ValueError as error:
        raise GroupError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {classic.group_id} to consumer group because "
            "the embedded consumer protocol is malformed.",
        ) from error
    group.metadata_hash = metadata_hash(group.subscribed_names(), shard.image)
    members = group.members.values()
    records += [member_record(group.group_id, m) for m in members]
    records.append(group_record(group.group_id, epoch, group.metadata_hash))
    records += [target_record(group.group_id, m, target) for m, target in group.targets.items()]
    records.append(target_epoch_record(group.group_id, epoch, 0))
    records += [current_record(group.group_id, m) for m in members]
    for classic_member in classic.members.values():
        step.arm(("consumer-session", group.group_id, classic_member.member_id), classic_member.session_timeout_ms)
    return group


def _from_classic(member: ClassicMember, protocol_name: str | None, epoch: int, image: TopicImage) -> Member:
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        raise GroupError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            "Cannot upgrade classic group to consumer group because an unsupported custom assignor is in use. "
            "Please refer to the documentation or switch to a default assignor before re-attempting the upgrade.",
        )
    subscription = decode_subscription(member.metadata(protocol_name))
    metadata = MemberMetadata(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=topic_names(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(member.session_timeout_ms, member.protocols),
    )
    assigned = [p for p in to_pairs(assignment.partitions) if p[0] in image.partitions]
    current = CurrentAssignment(epoch, epoch, assigned=with_epoch(assigned, epoch))
    return Member(member.member_id, metadata, current)


def may_downgrade(shard: Shard, group: ConsumerGroup, leaving: Collection[Member]) -> bool:
    """Return whether the group becomes classic once these are gone: only classic-protocol members remain, at least one.

    Source: validateOnlineDowngradeWithFencedMembers.
    """
    left = len(group.members) - len(leaving)
    settings = shard.settings
    return (
        group.all_classic_except(leaving)
        and left > 0
        and settings.migration_policy in DOWNGRADING_POLICIES
        and left <= settings.group_max_size
    )


def may_downgrade_replaced(shard: Shard, group: ConsumerGroup, replaced: Member | None) -> bool:
    """Return whether the group becomes classic when this static member returns with JoinGroup.

    Source: validateOnlineDowngradeWithReplacedMember.
    """
    if replaced is None or replaced.uses_classic_protocol or group.classic_members != len(group.members) - 1:
        return False
    settings = shard.settings
    return settings.migration_policy in DOWNGRADING_POLICIES and len(group.members) <= settings.group_max_size


def convert_to_classic(
    shard: Shard,
    step: Step,
    group: ConsumerGroup,
    *,
    leaving: Collection[Member] = (),
    joining: Member | None = None,
    rebalance: bool,
    records: Sequence[Record] = (),
) -> None:
    """Replace a consumer group by the classic group of its classic members, and rebalance it if asked for.

    The generation is the group epoch; deleted topics are not handed on. Kafka changes the state directly here, not by
    its records.

    Parameters
    ----------
    leaving: the members that this removes.
    joining: the static member that returned with JoinGroup; it takes over its predecessor's place and target.
    records: what the step made before: the static replacement.
    """
    replaced = group.static_member(joining.instance_id) if joining is not None else None
    members = [m for m in group.members.values() if m not in leaving and m is not replaced]
    if joining is not None and replaced is not None:
        members.append(joining)
        tombstones = group.tombstones((replaced.member_id, joining.member_id))
    else:
        tombstones = group.tombstones()
    classic = ClassicGroup(
        group.group_id,
        STABLE,
        state_timestamp_ms=step.now_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation_id=group.group_epoch,
    )
    for member in members:
        classic.add(_to_classic(member))
    classic.protocol_name = classic.select_protocol()
    for member in members:
        held = replaced if replaced is not None and member is joining else member
        _assign(classic, member.member_id, shard.image.existing(group.targets.get(held.member_id, ())))
    step.records += [*records, *tombstones, classic.metadata_record()]
    shard.groups[group.group_id] = classic
    for classic_member in classic.members.values():
        arm_session(step, classic, classic_member)
    if rebalance:
        prepare_rebalance(shard, step, classic)


def _to_classic(member: Member) -> ClassicMember:
    metadata = member.metadata
    if metadata.classic is None:
        raise AssertionError(f"{member.member_id} does not use the classic protocol")
    return ClassicMember(
        member.member_id,
        metadata.instance_id,
        metadata.client_id,
        metadata.client_host,
        metadata.rebalance_timeout_ms,
        metadata.classic.session_timeout_ms,
        CONSUMER_PROTOCOL_TYPE,
        metadata.classic.supported_protocols,
    )


def _assign(classic: ClassicGroup, member_id: str, target: TopicPartitions) -> None:
    member = classic.members[member_id]
    try:
        version = decode_subscription(member.metadata(classic.protocol_name)).version
    except ValueError as error:
        message = f"Cannot downgrade the classic group {classic.group_id}: {error}."
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, message) from error
    member.assignment = encode_assignment(DecodedAssignment(version, target))
