"""Requests and responses of group membership, field by field as Kafka's message schemas name them.

One dataclass per request and response. `api_version` is the version of the request on the wire; rules that differ by
version look at it. Fields that a version does not carry hold their default. Source: clients/…/common/message/*.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from .errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What every request carries.

    Parameters
    ----------
    api_version: version of this API on the wire.
    client_id, client_host: from the request header and connection; parts of member ids and of descriptions.
    principal: of the client; only the settings' `denied` reads it.
    """

    api_version: int = -1
    client_id: str = "client"
    client_host: str = "/127.0.0.1"
    principal: str = "User:ANONYMOUS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What every response carries; error_message None where the API has none."""

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


# the classic protocol ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Protocol:
    """One offered protocol (assignor) of a JoinGroup with its metadata."""

    name: str
    metadata: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest(Request):
    """JoinGroup v0-9 (api 11)."""

    api_version: int = 9
    group_id: str
    member_id: str = ""
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    protocol_type: str = "consumer"
    protocols: tuple[Protocol, ...] = (Protocol("range"),)
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class JoinGroupResponseMember:
    """One member as the leader sees it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponse(Response):
    """Answer to JoinGroup; `members` is filled for the leader only."""

    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequest(Request):
    """SyncGroup v0-5 (api 14); `assignments` (member id, bytes) come from the leader only."""

    api_version: int = 5
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResponse(Response):
    """Answer to SyncGroup."""

    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest(Request):
    """Heartbeat v0-4 (api 12)."""

    api_version: int = 4
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse(Response):
    """Answer to Heartbeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdentity:
    """One entry of a LeaveGroup."""

    member_id: str = ""
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupRequest(Request):
    """LeaveGroup v0-5 (api 13); v0-2 carry exactly one entry, without instance id."""

    api_version: int = 5
    group_id: str
    members: tuple[MemberIdentity, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberResponse:
    """What became of one entry of a LeaveGroup."""

    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResponse(Response):
    """Answer to LeaveGroup; v0-2 answer with the single member's error on top."""

    members: tuple[MemberResponse, ...] = ()


# reading groups ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorRequest(Request):
    """FindCoordinator v0-6 (api 10); key_type 0 is GROUP."""

    api_version: int = 6
    keys: tuple[str, ...] = ()
    key_type: int = 0


@dataclass(frozen=True, slots=True)
class CoordinatorKey:
    """Where one group's coordinator is; node_id -1 with an error."""

    key: str
    node_id: int
    host: str
    port: int
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class FindCoordinatorResponse(Response):
    """Answer to FindCoordinator."""

    coordinators: tuple[CoordinatorKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsRequest(Request):
    """DescribeGroups v0-6 (api 15): classic groups."""

    api_version: int = 6
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """One member of a classic group; its metadata is empty unless the group is Stable, its assignment never hidden."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """One classic group."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsResponse(Response):
    """Answer to DescribeGroups."""

    groups: tuple[DescribedGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsRequest(Request):
    """ListGroups v0-5 (api 16); empty filters mean all."""

    api_version: int = 5
    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """One group of a listing."""

    group_id: str
    protocol_type: str
    group_state: str
    group_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse(Response):
    """Answer to ListGroups."""

    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsRequest(Request):
    """DeleteGroups v0-2 (api 42)."""

    api_version: int = 2
    group_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse(Response):
    """Answer to DeleteGroups: (group id, error) pairs."""

    results: tuple[tuple[str, ErrorCode], ...] = ()


# KIP-848 -----------------------------------------------------------------------------------------------------------

TopicPartitions = tuple[tuple[str, tuple[int, ...]], ...]
"""((topic name, partitions), …), sorted by topic name, partitions ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochHeartbeatRequest(Request):
    """What the heartbeats of consumer, streams and share groups have in common.

    Parameters
    ----------
    member_epoch: 0 joins, -1 leaves, -2 leaves for a while (static), else the member's current epoch.
    The nullable fields, here and in each type's own: None: unchanged since the last heartbeat.
    """

    api_version: int = 1
    group_id: str
    member_id: str = ""
    member_epoch: int = 0
    rack_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochHeartbeatResponse(Response):
    """What the answers to these heartbeats have in common."""

    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochDescribeRequest(Request):
    """Request for the descriptions of consumer, streams or share groups."""

    api_version: int = 1
    group_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochDescribedMember:
    """Description of one member of any of these groups."""

    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochDescribedGroup:
    """Description of any of these groups."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatRequest(EpochHeartbeatRequest):
    """ConsumerGroupHeartbeat v0-1 (api 68).

    Parameters
    ----------
    rebalance_timeout_ms: -1: unchanged.
    topic_partitions: what the member owns now; names instead of the topic ids on the wire.
    """

    group_instance_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: TopicPartitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponse(EpochHeartbeatResponse):
    """Answer to ConsumerGroupHeartbeat; assignment None: unchanged."""

    assignment: TopicPartitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeRequest(EpochDescribeRequest):
    """ConsumerGroupDescribe v0-1 (api 69)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribedMember(EpochDescribedMember):
    """One member of a KIP-848 group; member_type 0 classic, 1 consumer (KIP-1099), -1 unknown."""

    instance_id: str | None
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: TopicPartitions
    target_assignment: TopicPartitions
    member_type: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribedGroup(EpochDescribedGroup):
    """One KIP-848 group."""

    assignor_name: str = ""
    members: tuple[ConsumerGroupDescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeResponse(Response):
    """Answer to ConsumerGroupDescribe."""

    groups: tuple[ConsumerGroupDescribedGroup, ...] = ()
