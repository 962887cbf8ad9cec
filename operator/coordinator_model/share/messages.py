"""Requests and responses of share groups (KIP-932), as far as membership goes.

Source: ShareGroupHeartbeatRequest.json, ShareGroupHeartbeatResponse.json, ShareGroupDescribeResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base.errors import ErrorCode
from ..base.messages import Request, Response, TopicPartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupHeartbeatRequest(Request):
    """ShareGroupHeartbeat v1 (api 76). There is no instance id: share groups have no static membership.

    Parameters
    ----------
    member_epoch: 0 joins, -1 leaves, else the member's current epoch.
    rack_id, subscribed_topic_names: None: unchanged since the last heartbeat.
    """

    api_version: int = 1
    group_id: str
    member_id: str = ""
    member_epoch: int = 0
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupHeartbeatResponse(Response):
    """Answer to ShareGroupHeartbeat; assignment None: unchanged."""

    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: TopicPartitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeRequest(Request):
    """ShareGroupDescribe v1 (api 77)."""

    api_version: int = 1
    group_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribedMember:
    """One member of a share group."""

    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    assignment: TopicPartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribedGroup:
    """One share group."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[ShareGroupDescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeResponse(Response):
    """Answer to ShareGroupDescribe."""

    groups: tuple[ShareGroupDescribedGroup, ...] = ()
