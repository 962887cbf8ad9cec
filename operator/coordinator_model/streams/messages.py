"""Requests and responses of streams groups (KIP-1071), reduced to what membership needs.

Left out: user endpoints and task offsets (interactive queries and telemetry), internal topics and co-partitioning.
Source: StreamsGroupHeartbeatRequest.json, StreamsGroupHeartbeatResponse.json, StreamsGroupDescribeResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ..base.errors import ErrorCode
from ..base.messages import Request, Response

TaskIds = tuple[tuple[str, tuple[int, ...]], ...]
"""((subtopology id, partitions), …), sorted by subtopology id, partitions ascending."""


class Status(IntEnum):
    """Why a member has no tasks, or what it must do (StreamsGroupHeartbeatResponse.Status)."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A connected part of a topology; it has as many tasks as its largest source topic has partitions.

    Parameters
    ----------
    is_stateful: has changelog topics, so that it gets standby tasks.
    """

    subtopology_id: str
    source_topics: tuple[str, ...]
    is_stateful: bool = False


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology of one application, as its members send it when they join."""

    epoch: int = 0
    subtopologies: tuple[Subtopology, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupHeartbeatRequest(Request):
    """StreamsGroupHeartbeat v0-1 (api 88).

    Parameters
    ----------
    member_epoch: 0 joins, -1 leaves, -2 leaves for a while (static), else the member's current epoch.
    rebalance_timeout_ms: -1: unchanged. The nullable fields: None: unchanged since the last heartbeat.
    topology: only with member epoch 0.
    active_tasks, standby_tasks, warmup_tasks: what the member owns; all three or none.
    process_id: names the state directory; kept across restarts where that directory is.
    """

    api_version: int = 1
    group_id: str
    member_id: str = ""
    member_epoch: int = 0
    group_instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    active_tasks: TaskIds | None = None
    standby_tasks: TaskIds | None = None
    warmup_tasks: TaskIds | None = None
    process_id: str | None = None
    client_tags: tuple[tuple[str, str], ...] | None = None
    shutdown_application: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupHeartbeatResponse(Response):
    """Answer to StreamsGroupHeartbeat; tasks None: unchanged."""

    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    active_tasks: TaskIds | None = None
    standby_tasks: TaskIds | None = None
    warmup_tasks: TaskIds | None = None
    status: tuple[tuple[Status, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribeRequest(Request):
    """StreamsGroupDescribe v0-1 (api 89)."""

    api_version: int = 1
    group_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribedTasks:
    """The tasks of a member by role."""

    active_tasks: TaskIds = ()
    standby_tasks: TaskIds = ()
    warmup_tasks: TaskIds = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribedMember:
    """One member of a streams group."""

    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topology_epoch: int
    process_id: str
    assignment: DescribedTasks
    target_assignment: DescribedTasks


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribedGroup:
    """One streams group."""

    group_id: str
    error_code: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    topology: Topology | None = None
    members: tuple[StreamsGroupDescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribeResponse(Response):
    """Answer to StreamsGroupDescribe."""

    groups: tuple[StreamsGroupDescribedGroup, ...] = ()
