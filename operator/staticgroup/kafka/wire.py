"""Turn calls into frames and frames into answers; the only place that knows kio.

Why: version differences, kio's classes and the adapter to aiokafka's connection must not leak. One idea: a `Call`
offers exactly what `AIOKafkaConnection.send` touches, hands the raw answer back undecoded (so that a bad answer fails
its own request only, not the connection), and `decode` turns it into a value of `answers`.
Source: Kafka protocol guide; KIP-345 (LeaveGroup v3), KIP-800 (reason), KIP-848 (ConsumerGroupDescribe, ConsumerGroupHeartbeat),
KIP-1071 (StreamsGroupDescribe, StreamsGroupHeartbeat).
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Generic, TypeVar

from kio.index import load_request_schema, load_response_schema
from kio.schema.consumer_protocol_assignment.v0 import ConsumerProtocolAssignment
from kio.serial import entity_reader, entity_writer

from kafka_frames import BadFrame, check_frame

from ..core.group import LEAVE_EPOCH, STATIC_MEMBER_AWAY_EPOCH, LeaveCall, LeaveEntry, MemberView, ReleaseEntry
from .answers import (
    BrokerNode,
    ClusterAnswer,
    ConfigAnswer,
    CoordinatorAnswer,
    DescribedGroup,
    LeaveAnswer,
    LeaveMemberAnswer,
    ListGroupsAnswer,
)
from .connect_protocol import PROTOCOL_TYPE as CONNECT
from .connect_protocol import worker_of

REASON_MAX_CHARS = 255
"""The Java client cuts the reason here (KIP-800, JoinGroupRequest.maybeTruncateReason)."""

ELEMENTS_MAX = 200_000
"""Of all arrays of one answer, numbers not counted: a hundred groups of a thousand members. Each takes some microseconds of the
event loop, so that an answer of millions, which fit into what is read, would keep everybody else waiting for many seconds."""

GROUP_KEY_TYPE = 0
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32
"""ConfigResource.Type of Kafka."""
SET_OPERATION = 0
DELETE_OPERATION = 1
"""AlterConfigOp.OpType of Kafka."""
OWN_SOURCE = 8
"""DescribeConfigsResponse.ConfigSource GROUP_CONFIG: set on the group itself."""

T = TypeVar("T")
VersionRanges = Mapping[int, tuple[int, int]]
"""API key to (lowest, highest) version of one broker."""


class Api(IntEnum):
    """API keys that the operator speaks or asks about."""

    METADATA = 3
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    DESCRIBE_CONFIGS = 32
    INCREMENTAL_ALTER_CONFIGS = 44
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89


PINNED: Mapping[Api, tuple[int, int]] = {
    Api.METADATA: (8, 12),  # 8: Kafka 2.3
    Api.FIND_COORDINATOR: (1, 4),  # 4: many groups in one request (3.0)
    Api.HEARTBEAT: (3, 4),
    Api.LEAVE_GROUP: (3, 5),  # 3: both ids (2.4); 5: reason (3.2)
    Api.DESCRIBE_GROUPS: (4, 6),  # 4: instance ids (2.4); 6: GROUP_ID_NOT_FOUND (4.0)
    Api.LIST_GROUPS: (0, 5),  # 5: group type (3.8)
    Api.DESCRIBE_CONFIGS: (1, 4),
    Api.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    Api.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    Api.CONSUMER_GROUP_DESCRIBE: (0, 1),
    Api.STREAMS_GROUP_HEARTBEAT: (0, 0),  # 0: Kafka 4.1; instance ids are taken since 4.4, in 0 too
    Api.STREAMS_GROUP_DESCRIBE: (0, 0),
}
"""Lowest and highest version of each call that this module reads and writes."""


class UnsupportedApi(Exception):
    """The broker offers no version of this call that we speak."""

    def __init__(self, api: Api) -> None:
        super().__init__(f"{api.name} {PINNED[api]}")
        self.api = api


def negotiate(api: Api, offered: VersionRanges) -> int | None:
    """Choose the highest common version of a call; None when there is none."""
    if api not in offered:
        return None
    (ours_min, ours_max), (theirs_min, theirs_max) = PINNED[api], offered[api]
    version = min(ours_max, theirs_max)
    return version if version >= max(ours_min, theirs_min) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request, not yet bound to a version; satisfies aiokafka's Request protocol by `prepare`.

    Parameters
    ----------
    build: makes kio's request of the negotiated class and version.
    read: turns kio's response and the version into an answer.
    """

    api: Api
    build: Callable[[Any, int], Any]
    read: Callable[[Any, int], T]

    def prepare(self, versions: VersionRanges) -> Frame:
        """Encode for one broker.

        Raises
        ------
        UnsupportedApi: no common version.
        """
        version = negotiate(self.api, versions)
        if version is None:
            raise UnsupportedApi(self.api)
        request = self.build(load_request_schema(self.api, version), version)
        return Frame(api=self.api, version=version, body=_encode(request), header_type=request.__header_schema__)

    def decode(self, version: int, body: bytes) -> T:
        """Read an answer, all of it.

        Raises
        ------
        BadFrame: the bytes are not an answer of this call and version, or hold an unknown error code.
        TooManyElements: they have more than ELEMENTS_MAX entries.
        """
        response_type = load_response_schema(self.api, version)
        end = check_frame(response_type, body, max_elements=ELEMENTS_MAX)
        if end != len(body):
            raise BadFrame("the frame is longer than its answer")
        try:
            response, _ = entity_reader(response_type)(body, 0)
        except Exception as error:  # kio: DecodeError, KeyError (unknown tag), ValueError (unknown error code)
            raise BadFrame(f"{self.api.name} v{version}: {type(error).__name__}") from None
        return self.read(response, version)


class RawAnswer(bytes):
    """The undecoded body of an answer; aiokafka calls `decode` on the response type."""

    @classmethod
    def decode(cls, buffer: io.BytesIO) -> RawAnswer:  # type: ignore[override]  # aiokafka's Response protocol
        """Take the whole body as it is."""
        return cls(buffer.read())

    def __repr__(self) -> str:
        return f"RawAnswer({len(self)} bytes)"


@dataclass(frozen=True, slots=True)
class _Encoded:
    content: bytes
    correlation_id: int = 0

    def encode(self) -> bytes:
        return self.content


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """An encoded request in the form that aiokafka's connection sends (its RequestStruct protocol)."""

    api: Api
    version: int
    body: bytes
    header_type: Any
    RESPONSE_TYPE: type[RawAnswer] = RawAnswer

    @property
    def API_KEY(self) -> int:
        """The key of the call."""
        return int(self.api)

    @property
    def API_VERSION(self) -> int:
        """The version that it is written in."""
        return self.version

    def build_request_header(self, correlation_id: int, client_id: str) -> _Encoded:
        """Encode the header that goes before the body."""
        header = self.header_type(
            request_api_key=self.API_KEY,
            request_api_version=self.version,
            correlation_id=correlation_id,
            client_id=client_id,
        )
        return _Encoded(_encode(header))

    def encode(self) -> bytes:
        """Return the body."""
        return self.body

    def parse_response_header(self, buffer: io.BytesIO) -> _Encoded:
        """Read the correlation id and leave the buffer at the body."""
        header_type = load_response_schema(self.api, self.version).__header_schema__
        content = buffer.getvalue()
        end = check_frame(header_type, content)
        header: Any = entity_reader(header_type)(content, 0)[0]
        buffer.seek(end)
        return _Encoded(b"", header.correlation_id)

    def __repr__(self) -> str:
        return f"Frame({self.api.name} v{self.version})"


def metadata() -> Call[ClusterAnswer]:
    """Ask who the cluster and its brokers are; no topic is named, so no right is needed."""

    def read(response: Any, _version: int) -> ClusterAnswer:
        nodes = tuple(BrokerNode(node_id=b.node_id, host=b.host, port=b.port) for b in response.brokers)
        return ClusterAnswer(cluster_id=response.cluster_id, brokers=nodes)

    def build(cls: Any, _version: int) -> Any:
        return _fill(
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


def leave_group(group_id: str, entries: Sequence[LeaveEntry]) -> Call[LeaveAnswer]:
    """Remove static members, each by compare-and-set (KIP-345; GroupMetadataManager.classicGroupLeaveToClassicGroup).

    Raises
    ------
    ValueError: on an empty list or an entry without both ids; the codec has no way to write one.
    """
    _refuse_without_both_ids(entries)

    def build(cls: Any, _version: int) -> Any:
        _refuse_without_both_ids(entries)
        identity: Any = _element_type(cls, "members")
        # before v5 there is no field for the reason
        members = tuple(
            _fill(
                identity, member_id=e.member_id, group_instance_id=e.instance_id, reason=e.reason[:REASON_MAX_CHARS] or None
            )
            for e in entries
        )
        return cls(group_id=group_id, members=members)

    def read(response: Any, _version: int) -> LeaveAnswer:
        members = tuple(
            LeaveMemberAnswer(instance_id=m.group_instance_id, error_code=int(m.error_code)) for m in response.members
        )
        return LeaveAnswer(error_code=int(response.error_code), members=members)

    return Call(api=Api.LEAVE_GROUP, build=build, read=read)


def streams_leave(group_id: str, entry: LeaveEntry) -> Call[int]:
    """Remove a static member of a streams group, by compare-and-set (GroupMetadataManager.streamsGroupLeave, Kafka 4.4).

    Nothing of the member is said but who it is: with one of the ids alone the coordinator would not compare.

    Raises
    ------
    ValueError: on an entry without both ids.
    """
    return _leaving(Api.STREAMS_GROUP_HEARTBEAT, group_id, entry, LEAVE_EPOCH)


def temporary_leave(group_id: str, entry: ReleaseEntry, by: LeaveCall = LeaveCall.CONSUMER_HEARTBEAT) -> Call[int]:
    """Let a static member leave for a while, by compare-and-set (GroupMetadataManager.consumerGroupLeave, streamsGroupLeave).

    Nothing of the member is said but who it is; its seat, its partitions and its session's timer stay as they are.

    Raises
    ------
    ValueError: on an entry without both ids, or a call that lets nobody leave for a while.
    """
    if by not in _HEARTBEATS:
        raise ValueError(f"a temporary leave by {by.value} is refused")
    return _leaving(_HEARTBEATS[by], group_id, entry, STATIC_MEMBER_AWAY_EPOCH)


_HEARTBEATS: Mapping[LeaveCall, Api] = {
    LeaveCall.CONSUMER_HEARTBEAT: Api.CONSUMER_GROUP_HEARTBEAT,
    LeaveCall.STREAMS_HEARTBEAT: Api.STREAMS_GROUP_HEARTBEAT,
}
_UNTOLD = ("topic_partitions", "active_tasks", "standby_tasks", "warmup_tasks", "client_tags", "task_offsets", "task_end_offsets")
"""What a heartbeat tells of its sender and has no default; null: as it was."""


def _leaving(api: Api, group_id: str, entry: LeaveEntry | ReleaseEntry, epoch: int) -> Call[int]:
    """Say in a heartbeat that a member leaves, and nothing else; the answer is its error code."""
    _refuse_half_of_an_identity(entry)

    def build(cls: Any, _version: int) -> Any:
        _refuse_half_of_an_identity(entry)
        return _fill(
            cls,
            group_id=group_id,
            member_id=entry.member_id,
            member_epoch=epoch,
            instance_id=entry.instance_id,
            endpoint_information_epoch=-1,
            shutdown_application=False,
            **dict.fromkeys(_UNTOLD),
        )

    return Call(api=api, build=build, read=lambda response, _version: int(response.error_code))


def heartbeat(group_id: str, member_id: str) -> Call[int]:
    """Beat as a dynamic member; used only with a member id that nobody holds, to see by the error code whether READ is granted."""

    def build(cls: Any, _version: int) -> Any:
        return cls(group_id=group_id, generation_id=0, member_id=member_id, group_instance_id=None)

    return Call(api=Api.HEARTBEAT, build=build, read=lambda response, _version: int(response.error_code))


def describe_configs(resources: Mapping[tuple[int, str], Sequence[str]]) -> Call[tuple[ConfigAnswer, ...]]:
    """Read the named keys of config resources, given as {(type, name): keys}."""

    def build(cls: Any, _version: int) -> Any:
        resource: Any = _element_type(cls, "resources")
        wanted = tuple(
            resource(resource_type=kind, resource_name=name, configuration_keys=tuple(keys))
            for (kind, name), keys in resources.items()
        )
        return cls(resources=wanted)

    def read(response: Any, _version: int) -> tuple[ConfigAnswer, ...]:
        return tuple(
            ConfigAnswer(
                resource_type=r.resource_type,
                resource_name=r.resource_name,
                error_code=int(r.error_code),
                values={c.name: c.value for c in r.configs},
                own=frozenset(c.name for c in r.configs if c.config_source == OWN_SOURCE),
            )
            for r in response.results
        )

    return Call(api=Api.DESCRIBE_CONFIGS, build=build, read=read)


def alter_group_config(group_id: str, values: Mapping[str, str | None], *, is_tried_only: bool = False) -> Call[int]:
    """Set settings of one group in one request, all of them or, if one is refused, none; None takes one back.

    Parameters
    ----------
    is_tried_only: the broker says whether it would, and changes nothing.
    """

    def build(cls: Any, _version: int) -> Any:
        resource: Any = _element_type(cls, "resources")
        entry: Any = _element_type(resource, "configs")
        entries = tuple(
            entry(name=name, config_operation=DELETE_OPERATION if value is None else SET_OPERATION, value=value)
            for name, value in values.items()
        )
        asked = resource(resource_type=GROUP_RESOURCE, resource_name=group_id, configs=entries)
        return cls(resources=(asked,), validate_only=is_tried_only)

    def read(response: Any, _version: int) -> int:
        return next((int(r.error_code) for r in response.responses), -1)

    return Call(api=Api.INCREMENTAL_ALTER_CONFIGS, build=build, read=read)


def _refuse_without_both_ids(entries: Sequence[LeaveEntry]) -> None:
    if not entries:
        raise ValueError("LeaveGroup without members is refused")
    for entry in entries:
        if not entry.member_id or not entry.instance_id:
            raise ValueError("LeaveGroup without both member.id and group.instance.id is refused")


def _refuse_half_of_an_identity(entry: LeaveEntry | ReleaseEntry) -> None:
    if not (entry.member_id and entry.instance_id):
        raise ValueError("a leave by heartbeat without both member.id and group.instance.id is refused")


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
    return MemberView(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_epoch=member.member_epoch,
        assigned_partitions=sum(len(t.partitions) for t in member.assignment.topic_partitions),
    )


def _streams_member(member: Any) -> MemberView:
    return MemberView(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_epoch=member.member_epoch,
        assigned_partitions=sum(len(t.partitions) for t in member.assignment.active_tasks),
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


def _encode(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def _fill(cls: Any, **values: object) -> Any:
    """Build an entity from those values that its version has."""
    names = {field.name for field in dataclasses.fields(cls)}
    return cls(**{name: value for name, value in values.items() if name in names})


def _element_type(cls: Any, field_name: str) -> Any:
    """Return X of the field `field_name: tuple[X, ...]` of a kio class."""
    annotation = next(field.type for field in dataclasses.fields(cls) if field.name == field_name)
    return annotation.__args__[0]  # type: ignore[union-attr]
