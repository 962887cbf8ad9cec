"""Checks of the draft's requests that need no group (items 78, 81, 82)."""

from __future__ import annotations

from coordinator_model.base.errors import ErrorCode
from coordinator_model.connect.protocol import SchemaError

from ..errors import require
from ..messages import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConnectGroupHeartbeatRequest,
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupPrepareAssignmentRequest,
)
from ..metadata import decode_worker_metadata
from ..records import Assignor
from .settings import DraftSettings


def _valid(condition: bool, message: str) -> None:
    require(condition, ErrorCode.INVALID_REQUEST, message)


def check_heartbeat(request: ConnectGroupHeartbeatRequest, settings: DraftSettings) -> None:
    """Raise INVALID_REQUEST for a heartbeat that breaks one of the draft's rules.

    Epoch -2 is against the draft's "≥ -1" although the request has an instance id; only our switch for static workers
    allows it.
    """
    _valid(bool(request.group_id), "GroupId must be non-empty")
    _valid(bool(request.member_id), "MemberId must be non-empty")
    lowest = LEAVE_STATIC_EPOCH if settings.static_workers else LEAVE_EPOCH
    _valid(request.member_epoch >= lowest, f"MemberEpoch must be >= {lowest}")
    _valid(request.instance_id != "", "InstanceId must be non-empty if provided")
    if request.member_epoch == LEAVE_STATIC_EPOCH:
        _valid(request.instance_id is not None, "only a static worker can leave for a while")
    _valid(
        request.server_assignor is None or request.client_assignors is None,
        "ServerAssignor and ClientAssignors cannot be used together",
    )
    for assignor in request.client_assignors or ():
        _check_assignor(assignor)


def check_first_heartbeat(request: ConnectGroupHeartbeatRequest) -> None:
    """Raise INVALID_REQUEST for a join that lacks what only a join must have.

    A joining worker must run nothing: otherwise it would own what the coordinator may have given to another (ours,
    after KIP-848).
    """
    _valid(request.rebalance_timeout_ms > 0, "RebalanceTimeoutMs must be larger than zero in the first heartbeat")
    _valid(not request.connectors_and_tasks, "a joining worker must not run anything")


def _check_assignor(assignor: Assignor) -> None:
    _valid(bool(assignor.name), "Assignor.Name must be non-empty")
    _valid(assignor.minimum_version >= -1, "Assignor.MinimumVersion must be >= -1")
    _valid(
        assignor.maximum_version >= max(0, assignor.minimum_version),
        "Assignor.MaximumVersion must be >= 0 and >= MinimumVersion",
    )
    _valid(
        assignor.minimum_version <= assignor.version <= assignor.maximum_version,
        "Assignor.Version must be within its range",
    )
    try:
        decode_worker_metadata(assignor.metadata)
    except (SchemaError, UnicodeDecodeError) as error:
        _valid(False, f"Assignor.Metadata: {error}")


def check_assignment_request(
    request: ConnectGroupPrepareAssignmentRequest | ConnectGroupInstallAssignmentRequest,
) -> None:
    """Raise INVALID_REQUEST for a Prepare or Install that breaks one of the draft's rules."""
    _valid(bool(request.group_id), "GroupId must be non-empty")
    _valid(bool(request.member_id), "MemberId must be non-empty")
    _valid(request.member_epoch >= 0, "MemberEpoch must be >= 0")
