"""ConsumerGroupDescribe.

Source: GroupMetadataManager.consumerGroupDescribe, ConsumerGroup.asDescribedGroup.
"""

from __future__ import annotations

from ..assignors.subscription import to_topic_partitions
from ..base.errors import ErrorCode
from ..base.image import TopicImage
from ..base.messages import (
    ConsumerGroupDescribedGroup,
    ConsumerGroupDescribedMember,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Response,
)
from ..base.result import Step
from ..base.shard import Shard
from .group import ConsumerGroup
from .member import Member

MEMBER_TYPE_VERSION = 1
"""From here on the answer has a member's protocol (KIP-1099)."""


def describe(shard: Shard, step: Step, request: ConsumerGroupDescribeRequest) -> Response:
    """Carry out ConsumerGroupDescribe: each group by itself, in the order asked, refused ones first."""
    denied = [g for g in request.group_ids if shard.settings.is_denied(request.principal, "DESCRIBE", g)]
    refused = [ConsumerGroupDescribedGroup(group_id=g, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED) for g in denied]
    allowed = [_described(shard, g, request.api_version) for g in request.group_ids if g not in denied]
    return ConsumerGroupDescribeResponse(groups=tuple(refused + allowed))


def _described(shard: Shard, group_id: str, api_version: int) -> ConsumerGroupDescribedGroup:
    group = shard.groups.get(group_id)
    if not group_id:
        return ConsumerGroupDescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    if not isinstance(group, ConsumerGroup):
        known = group is not None
        reason = f"Group {group_id} is not a consumer group." if known else f"Group {group_id} not found."
        return ConsumerGroupDescribedGroup(
            group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=reason
        )
    return ConsumerGroupDescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor() or shard.settings.consumer_assignors[0],
        members=tuple(_member(group, m, shard.image, api_version) for m in group.members.values()),
    )


def _member(group: ConsumerGroup, member: Member, image: TopicImage, api_version: int) -> ConsumerGroupDescribedMember:
    metadata, current = member.metadata, member.current
    held = to_topic_partitions({**current.assigned, **current.pending_revocation})
    return ConsumerGroupDescribedMember(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=current.member_epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names,
        subscribed_topic_regex=metadata.subscribed_topic_regex,
        assignment=image.existing(held),
        target_assignment=image.existing(group.targets.get(member.member_id, ())),
        member_type=-1 if api_version < MEMBER_TYPE_VERSION else int(not member.uses_classic_protocol),
    )
