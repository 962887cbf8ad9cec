"""Requests and responses of streams groups (KIP-1071), reduced to what membership needs.

Left out: user endpoints and task offsets (interactive queries and telemetry), internal topics and co-partitioning.
Source: StreamsGroupHeartbeatRequest.json, StreamsGroupHeartbeatResponse.json, StreamsGroupDescribeResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ..base.messages import (
    EpochDescribedGroup,
    EpochDescribedMember,
    EpochDescribeRequest,
    EpochHeartbeatRequest,
    EpochHeartbeatResponse,
    Response,
)

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
class StreamsGroupHeartbeatRequest(EpochHeartbeatRequest):
    """StreamsGroupHeartbeat v0-1 (api 88).

    Parameters
    ----------
    rebalance_timeout_ms: -1: unchanged.
    topology: only with member epoch 0.
    active_tasks, standby_tasks, warmup_tasks: what the member owns; all three or none.
    process_id: names the state directory; kept across restarts where that directory is.
    """

    group_instance_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    active_tasks: TaskIds | None = None
    standby_tasks: TaskIds | None = None
    warmup_tasks: TaskIds | None = None
    process_id: str | None = None
    client_tags: tuple[tuple[str, str], ...] | None = None
    shutdown_application: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupHeartbeatResponse(EpochHeartbeatResponse):
    """Answer to StreamsGroupHeartbeat; tasks None: unchanged."""

    member_id: str = ""
    active_tasks: TaskIds | None = None
    standby_tasks: TaskIds | None = None
    warmup_tasks: TaskIds | None = None
    status: tuple[tuple[Status, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribeRequest(EpochDescribeRequest):
    """StreamsGroupDescribe v0-1 (api 89)."""


@dataclass(frozen=True, slots=True)
class DescribedTasks:
    """The tasks of a member by role."""

    active_tasks: TaskIds = ()
    standby_tasks: TaskIds = ()
    warmup_tasks: TaskIds = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribedMember(EpochDescribedMember):
    """One member of a streams group."""

    instance_id: str | None
    topology_epoch: int
    process_id: str
    assignment: DescribedTasks
    target_assignment: DescribedTasks


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribedGroup(EpochDescribedGroup):
    """One streams group."""

    topology: Topology | None = None
    members: tuple[StreamsGroupDescribedMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribeResponse(Response):
    """Answer to StreamsGroupDescribe."""

    groups: tuple[StreamsGroupDescribedGroup, ...] = ()
