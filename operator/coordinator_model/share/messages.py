"""Requests and responses of share groups (KIP-932), as far as membership goes.

Source: ShareGroupHeartbeatRequest.json, ShareGroupHeartbeatResponse.json, ShareGroupDescribeResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base.messages import (
    EpochDescribedGroup,
    EpochDescribedMember,
    EpochDescribeRequest,
    EpochHeartbeatRequest,
    EpochHeartbeatResponse,
    Response,
    TopicPartitions,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupHeartbeatRequest(EpochHeartbeatRequest):
    """ShareGroupHeartbeat v1 (api 76): without static membership, so no instance id and no epoch -2."""

    subscribed_topic_names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupHeartbeatResponse(EpochHeartbeatResponse):
    """Answer to ShareGroupHeartbeat; assignment None: unchanged."""

    assignment: TopicPartitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeRequest(EpochDescribeRequest):
    """ShareGroupDescribe v1 (api 77)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribedMember(EpochDescribedMember):
    """One member of a share group."""

    subscribed_topic_names: tuple[str, ...]
    assignment: TopicPartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribedGroup(EpochDescribedGroup):
    """One share group."""

    assignor_name: str = ""
    members: tuple[ShareGroupDescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeResponse(Response):
    """Answer to ShareGroupDescribe."""

    groups: tuple[ShareGroupDescribedGroup, ...] = ()
