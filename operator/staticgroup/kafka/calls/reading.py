"""Ask where groups are and what they are.

Source: KIP-699 (FindCoordinator v4), KIP-848 (ConsumerGroupDescribe), KIP-1043 (DescribeGroups v6, ListGroups v5), KIP-1071
(StreamsGroupDescribe).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from kio.schema.consumer_protocol_assignment.v0 import ConsumerProtocolAssignment
from kio.serial import entity_reader

from kafka_frames import check_frame

from ...core.group import MemberView
from ..answers import BrokerNode, ClusterAnswer, CoordinatorAnswer, DescribedGroup, ListGroupsAnswer
from ..connect_protocol import PROTOCOL_TYPE as CONNECT
from ..connect_protocol import worker_of
from ..wire import Api, Call, fill

GROUP_KEY_TYPE = 0


def metadata() -> Call[ClusterAnswer]:
    """Ask who the cluster and its brokers are; no topic is named, so no right is needed."""

    def read(response: Any, _version: int) -> ClusterAnswer:
        nodes = tuple(BrokerNode(node_id=b.node_id, host=b.host, port=b.port) for b in response.brokers)
        return ClusterAnswer(cluster_id=response.cluster_id, brokers=nodes)

    def build(cls: Any, _version: int) -> Any:
        return fill(
            cls,
            topics=(),
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )

    return Call(api=Api.METADATA, build=build, read=read)


def find_coordinators(group_ids: Sequence[str]) -> Call[tuple[CoordinatorAnswer, ...]]:
    """Ask for the coordinators of groups; before v4 (Kafka 3.0) exactly one group may be asked."""

    def build(cls: Any, version: int) -> Any:
        if version >= 4:
            return cls(key_type=GROUP_KEY_TYPE, coordinator_keys=tuple(group_ids))
        if len(group_ids) != 1:
            raise ValueError("FindCoordinator before v4 takes one group")
        return cls(key=group_ids[0], key_type=GROUP_KEY_TYPE)

    def read(response: Any, version: int) -> tuple[CoordinatorAnswer, ...]:
        answers = response.coordinators if version >= 4 else (response,)
        return tuple(
            CoordinatorAnswer(
                group_id=a.key if version >= 4 else group_ids[0],
                error_code=int(a.error_code),
                node=BrokerNode(node_id=a.node_id, host=a.host, port=a.port) if a.error_code == 0 else None,
            )
            for a in answers
        )

    return Call(api=Api.FIND_COORDINATOR, build=build, read=read)


def list_groups() -> Call[ListGroupsAnswer]:
    """Ask one broker for the groups that it coordinates."""

    def read(response: Any, version: int) -> ListGroupsAnswer:
        types = {g.group_id: g.group_type if version >= 5 else "" for g in response.groups}
        return ListGroupsAnswer(error_code=int(response.error_code), version=version, types=types)

    return Call(api=Api.LIST_GROUPS, build=lambda cls, _version: cls(), read=read)


def describe_groups(group_ids: Sequence[str]) -> Call[tuple[DescribedGroup, ...]]:
    """Describe classic groups."""

    def read(response: Any, _version: int) -> tuple[DescribedGroup, ...]:
        return tuple(
            _described(g, (_classic_member(m, g.protocol_type) for m in g.members), protocol_type=g.protocol_type)
            for g in response.groups
        )

    return Call(
        api=Api.DESCRIBE_GROUPS,
        build=lambda cls, _version: cls(groups=tuple(group_ids), include_authorized_operations=False),
        read=read,
    )


def consumer_group_describe(group_ids: Sequence[str]) -> Call[tuple[DescribedGroup, ...]]:
    """Describe KIP-848 groups."""
    return _epoch_group_describe(Api.CONSUMER_GROUP_DESCRIBE, group_ids, _consumer_member, protocol_type="consumer")


def streams_group_describe(group_ids: Sequence[str]) -> Call[tuple[DescribedGroup, ...]]:
    """Describe streams groups; what their topologies are made of is not read."""
    return _epoch_group_describe(Api.STREAMS_GROUP_DESCRIBE, group_ids, _streams_member, protocol_type="streams")


def _epoch_group_describe(
    api: Api, group_ids: Sequence[str], member_of: Callable[[Any], MemberView], *, protocol_type: str
) -> Call[tuple[DescribedGroup, ...]]:
    """Describe groups that have epochs; the answers of both APIs have the same fields but for their members'."""

    def read(response: Any, _version: int) -> tuple[DescribedGroup, ...]:
        return tuple(
            replace(
                _described(g, map(member_of, g.members), protocol_type=protocol_type),
                group_epoch=g.group_epoch,
                assignment_epoch=g.assignment_epoch,
            )
            for g in response.groups
        )

    return Call(
        api=api,
        build=lambda cls, _version: cls(group_ids=tuple(group_ids), include_authorized_operations=False),
        read=read,
    )


def _described(group: Any, members: Iterable[MemberView], *, protocol_type: str) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        error_code=int(group.error_code),
        state=group.group_state,
        protocol_type=protocol_type,
        members=tuple(members),
    )


def _classic_member(member: Any, protocol_type: str) -> MemberView:
    return MemberView(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        assigned_partitions=_count_assignment(member.member_assignment) if protocol_type == "consumer" else None,
        worker=worker_of(member.member_metadata, member.member_assignment) if protocol_type == CONNECT else None,
    )


def _consumer_member(member: Any) -> MemberView:
    is_native = getattr(member, "member_type", -1) == 1  # v0 does not tell
    return _epoch_member(member, member.assignment.topic_partitions, is_host_current=is_native)


def _streams_member(member: Any) -> MemberView:
    return _epoch_member(member, member.assignment.active_tasks, is_host_current=True)


def _epoch_member(member: Any, shares: Iterable[Any], *, is_host_current: bool) -> MemberView:
    """Return a member that has an epoch. shares: what it is assigned of each topic or subtopology."""
    return MemberView(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_epoch=member.member_epoch,
        is_host_current=is_host_current,
        assigned_partitions=sum(len(share.partitions) for share in shares),
    )


def _count_assignment(content: bytes) -> int | None:
    """Count partitions of a ConsumerProtocolAssignment; None during a rebalance (0 bytes) or when it is not one."""
    body = content[2:]  # int16 version; later versions only append
    if not body:
        return None
    try:
        check_frame(ConsumerProtocolAssignment, body)
        assignment, _ = entity_reader(ConsumerProtocolAssignment)(body, 0)
    except Exception:  # members write these bytes themselves: anything may be in there, and only a number is lost
        return None
    return sum(len(t.partitions) for t in assignment.assigned_partitions)
