"""Ask where groups are and what they are.

Source: KIP-699 (FindCoordinator v4), KIP-848 (ConsumerGroupDescribe), KIP-1043 (DescribeGroups v6, ListGroups v5),
KIP-1071 (StreamsGroupDescribe).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kio.schema.consumer_protocol_assignment.v0 import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v0 import ConsumerProtocolSubscription
from kio.serial import entity_reader

from kafka_frames import check_frame

from ...core.group import GroupType, GroupView, MemberView
from ..connect_protocol import PROTOCOL_TYPE as CONNECT
from ..connect_protocol import worker_of
from ..wire import Api, Call, element_type, fill

GROUP_KEY_TYPE = 0
TOPICS_MAX = 1_000
"""Topics of one group that are looked at: a member writes its subscription itself, and each is asked for."""

DescribeAnswer = Mapping[str, GroupView | int]
"""By group id: an error code, or what the broker describes, without its own name and not yet judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNode:
    """One broker as the cluster advertises it.

    Parameters
    ----------
    node_id: broker id, >= 0.
    host, port: the advertised address of the listener that was asked.
    """

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.node_id}@{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What a cluster says of itself.

    Parameters
    ----------
    cluster_id: None on brokers that do not say.
    api_versions: API key → (lowest, highest) version of the broker that answered a probe; absent: not served.
    """

    cluster_id: str | None
    brokers: tuple[BrokerNode, ...]
    api_versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)


def metadata() -> Call[ClusterFacts]:
    """Ask who the cluster and its brokers are; no topic is named, so no right is needed."""

    def read(response: Any, _version: int) -> ClusterFacts:
        nodes = tuple(BrokerNode(node_id=b.node_id, host=b.host, port=b.port) for b in response.brokers)
        return ClusterFacts(cluster_id=response.cluster_id, brokers=nodes)

    return Call(api=Api.METADATA, build=lambda cls, _version: _metadata(cls, ()), read=read)


def topic_partitions(topics: Sequence[str]) -> Call[Mapping[str, int]]:
    """Ask how many partitions topics have; the answer is without those that are unknown, or need another right."""

    def build(cls: Any, _version: int) -> Any:
        return _metadata(cls, [fill(element_type(cls, "topics"), name=topic, topic_id=None) for topic in topics])

    def read(response: Any, _version: int) -> Mapping[str, int]:
        return {t.name: len(t.partitions) for t in response.topics if not t.error_code}

    return Call(api=Api.METADATA, build=build, read=read)


def _metadata(cls: Any, topics: Sequence[Any]) -> Any:
    flags = [f"include_{what}_authorized_operations" for what in ("cluster", "topic")]
    return fill(cls, topics=tuple(topics), **dict.fromkeys(["allow_auto_topic_creation", *flags], False))


def find_coordinators(group_ids: Sequence[str]) -> Call[Mapping[str, BrokerNode | int]]:
    """Ask for the coordinators of groups, or error codes; before v4 (Kafka 3.0) exactly one group may be asked."""

    def build(cls: Any, version: int) -> Any:
        if version >= 4:
            return cls(key_type=GROUP_KEY_TYPE, coordinator_keys=tuple(group_ids))
        if len(group_ids) != 1:
            raise ValueError("FindCoordinator before v4 takes one group")
        return cls(key=group_ids[0], key_type=GROUP_KEY_TYPE)

    def read(response: Any, version: int) -> Mapping[str, BrokerNode | int]:
        answers = {a.key: a for a in response.coordinators} if version >= 4 else {group_ids[0]: response}
        return {
            key: int(a.error_code) or BrokerNode(node_id=a.node_id, host=a.host, port=a.port)
            for key, a in answers.items()
        }

    return Call(api=Api.FIND_COORDINATOR, build=build, read=read)


def list_groups() -> Call[tuple[int, Mapping[str, str]]]:
    """Ask one broker for an error code and the groups that it coordinates, each with its type, or with "" before v5."""

    def read(response: Any, version: int) -> tuple[int, Mapping[str, str]]:
        return int(response.error_code), {g.group_id: g.group_type if version >= 5 else "" for g in response.groups}

    return Call(api=Api.LIST_GROUPS, build=lambda cls, _version: cls(), read=read)


def describe_groups(group_ids: Sequence[str]) -> Call[DescribeAnswer]:
    """Describe classic groups."""
    return _describe(Api.DESCRIBE_GROUPS, GroupType.CLASSIC, {"groups": tuple(group_ids)}, _classic_member)


def consumer_group_describe(group_ids: Sequence[str]) -> Call[DescribeAnswer]:
    """Describe KIP-848 groups."""

    def member_of(member: Any, _group: Any) -> MemberView:
        is_native = getattr(member, "member_type", -1) == 1  # v0 does not say
        return _epoch_member(member, member.assignment.topic_partitions, is_host_current=is_native)

    return _describe(Api.CONSUMER_GROUP_DESCRIBE, GroupType.CONSUMER, {"group_ids": tuple(group_ids)}, member_of)


def streams_group_describe(group_ids: Sequence[str]) -> Call[DescribeAnswer]:
    """Describe streams groups; what their topologies are made of is not read."""

    def member_of(member: Any, _group: Any) -> MemberView:
        return _epoch_member(member, member.assignment.active_tasks, is_host_current=True)

    return _describe(Api.STREAMS_GROUP_DESCRIBE, GroupType.STREAMS, {"group_ids": tuple(group_ids)}, member_of)


def _describe(
    api: Api, group_type: GroupType, wanted: Mapping[str, tuple[str, ...]], member_of: Callable[[Any, Any], MemberView]
) -> Call[DescribeAnswer]:
    """Describe groups; the answers of the calls differ in their members, and in what only groups with epochs have."""

    def view_of(group: Any) -> GroupView:
        return GroupView(
            group_id=group.group_id,
            group_type=group_type,
            state=group.group_state,
            coordinator="",
            protocol_type=getattr(group, "protocol_type", group_type.value.lower()),
            members=tuple(member_of(member, group) for member in group.members),
            group_epoch=getattr(group, "group_epoch", None),
            assignment_epoch=getattr(group, "assignment_epoch", None),
            assignor=getattr(group, "protocol_data", "") if group_type is GroupType.CLASSIC else "",
            topics=_topics(group) if group_type is GroupType.CLASSIC else None,
        )

    return Call(
        api=api,
        build=lambda cls, _version: cls(**wanted, include_authorized_operations=False),
        read=lambda response, _version: {g.group_id: int(g.error_code) or view_of(g) for g in response.groups},
    )


def _classic_member(member: Any, group: Any) -> MemberView:
    kind, assignment = group.protocol_type, member.member_assignment
    return MemberView(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        assigned_partitions=_count_assignment(assignment) if kind == "consumer" else None,
        worker=worker_of(member.member_metadata, assignment) if kind == CONNECT else None,
    )


def _epoch_member(member: Any, shares: Sequence[Any], *, is_host_current: bool) -> MemberView:
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
    assignment = _of_member(ConsumerProtocolAssignment, content)
    return None if assignment is None else sum(len(t.partitions) for t in assignment.assigned_partitions)


def _topics(group: Any) -> tuple[tuple[str, int], ...] | None:
    """Count the assigned partitions of each subscribed topic; see `GroupView.topics`."""
    if group.protocol_type != "consumer" or group.group_state != "Stable":
        return None
    counts: Counter[str] = Counter()
    for member in group.members:
        subscription = _of_member(ConsumerProtocolSubscription, member.member_metadata)
        assignment = _of_member(ConsumerProtocolAssignment, member.member_assignment)
        if subscription is None or assignment is None:
            return None
        counts.update(dict.fromkeys(subscription.topics, 0))
        for each in assignment.assigned_partitions:  # librdkafka may name a topic more than once
            counts[each.topic] += len(each.partitions)
        if len(counts) > TOPICS_MAX:
            return None
    return tuple(sorted(counts.items()))


def _of_member(kind: Any, content: bytes) -> Any:
    """Read what a member wrote: an int16 version, then fields to which later versions only append; None: it is not."""
    body = content[2:]
    if not body:
        return None
    try:
        check_frame(kind, body)
        return entity_reader(kind)(body, 0)[0]
    except Exception:  # members write these bytes themselves: anything may be in there
        return None
