"""Requests and responses of the Connect draft, field by field, and what the coordinator says of a step."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    Request,
    SyncGroupResponse,
)
from coordinator_model.base.timers import TimerChange
from coordinator_model.connect.work import NOTHING, ConnectorsAndTasks

from .errors import Code
from .records import Assignor, DraftRecord

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupHeartbeatRequest(Request):
    """ConnectGroupHeartbeat: join, live, acknowledge and leave in one request (item 78).

    Parameters
    ----------
    member_epoch: 0 joins, -1 leaves, -2 leaves for a while (only with static workers on), else the member's epoch.
    rebalance_timeout_ms: -1: unchanged. The nullable fields: None: unchanged since the last heartbeat.
    connectors_and_tasks: what the worker runs now.
    """

    group_id: str
    member_id: str
    member_epoch: int = JOIN_EPOCH
    instance_id: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    client_assignors: tuple[Assignor, ...] | None = None
    connectors_and_tasks: ConnectorsAndTasks | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftResponse:
    """What every response of the draft carries."""

    error_code: Code = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAssignment:
    """The assignment in a heartbeat's answer: all that the worker may run, not a difference."""

    error: int
    work: ConnectorsAndTasks
    version: int = 0
    metadata: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupHeartbeatResponse(DraftResponse):
    """Answer to ConnectGroupHeartbeat; assignment None unless the request's epoch is behind the target's."""

    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: HeartbeatAssignment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupPrepareAssignmentRequest(Request):
    """ConnectGroupPrepareAssignment: the chosen worker asks for the input of an assignment (item 81)."""

    group_id: str
    member_id: str
    member_epoch: int


@dataclass(frozen=True, slots=True)
class PreparedMember:
    """One worker as the chosen one sees it; `work` is its part of the target assignment in force."""

    member_id: str
    member_epoch: int
    instance_id: str | None
    version: int
    reason: int
    metadata: bytes
    work: ConnectorsAndTasks


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupPrepareAssignmentResponse(DraftResponse):
    """Answer to ConnectGroupPrepareAssignment.

    Parameters
    ----------
    configured: all that must be assigned. Not in the draft's schema: without it a worker could not tell what the
        coordinator will hold its assignment against (item 71).
    held_back: work that the target gave to workers that are gone, by their member ids, and to no other since. The draft
        promises "the current target assignment" but lists members only; case study 87 needs the held-back work too.
    """

    group_epoch: int = 0
    assignor_name: str = ""
    members: tuple[PreparedMember, ...] = ()
    configured: ConnectorsAndTasks = NOTHING
    held_back: tuple[tuple[str, ConnectorsAndTasks], ...] = ()


@dataclass(frozen=True, slots=True)
class InstalledMember:
    """What the chosen worker gives to one worker."""

    member_id: str
    work: ConnectorsAndTasks
    version: int = 0
    metadata: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupInstallAssignmentRequest(Request):
    """ConnectGroupInstallAssignment (item 82); group_epoch is the one that the Prepare answer named.

    The draft's rule "both Partitions and ConnectorsAndTasks are set" is a leftover: there is no Partitions field.
    """

    group_id: str
    member_id: str
    member_epoch: int
    group_epoch: int
    error: int = 0
    members: tuple[InstalledMember, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupInstallAssignmentResponse(DraftResponse):
    """Answer to ConnectGroupInstallAssignment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConnectGroupConfigRequest(Request):
    """Change a group's configuration (record key 8; the draft names the record but no request): None deletes."""

    group_id: str
    configs: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConnectGroupConfigResponse(DraftResponse):
    """Answer to AlterConnectGroupConfig."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupDescribeRequest(Request):
    """Read one group (ours; the draft has no request that reads a group)."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedWorker:
    """One worker: epoch, what it may run, what it must still stop, and what it is meant to run.

    Parameters
    ----------
    worker_state: of a worker of the old protocol: PREPARING_REBALANCE, COMPLETING_REBALANCE or STABLE (item 76); None
        for one of the new protocol.
    """

    member_id: str
    instance_id: str | None
    url: str
    member_epoch: int
    assigned: ConnectorsAndTasks
    revoking: ConnectorsAndTasks
    target: ConnectorsAndTasks
    worker_state: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectGroupDescribeResponse(DraftResponse):
    """A group: state is Empty, Assigning, Reconciling or Stable."""

    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignment_error: int = 0
    assignor_name: str | None = None
    chosen: str | None = None
    held_back: ConnectorsAndTasks = NOTHING
    members: tuple[DescribedWorker, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassicConnectMember:
    """One worker of a classic group: what it offered in JoinGroup and the bytes it got in SyncGroup."""

    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class ClassicConnectGroup:
    """A classic group of protocol type `connect`, as it goes into an upgrade and comes out of a downgrade (item 75)."""

    group_id: str
    generation_id: int
    protocol_name: str
    members: tuple[ClassicConnectMember, ...] = ()


AnyResponse = DraftResponse | JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse


@dataclass(frozen=True, slots=True)
class DraftResult:
    """What one step of the coordinator brings about.

    Parameters
    ----------
    response: None for a step that is no request.
    records: appended in this order.
    timers: what changed; the coordinator keeps them itself.
    downgraded: the group as it goes on under the classic protocol; None unless this step ended the draft's group.
    """

    response: AnyResponse | None
    records: tuple[DraftRecord, ...] = ()
    timers: tuple[TimerChange, ...] = ()
    downgraded: ClassicConnectGroup | None = None
