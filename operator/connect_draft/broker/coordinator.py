"""The coordinator of the Connect draft: requests, timers, replay."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    Request,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coordinator_model.base.timers import Timers

from ..errors import DraftError, require
from ..messages import (
    AlterConnectGroupConfigRequest,
    AlterConnectGroupConfigResponse,
    AnyResponse,
    ClassicConnectGroup,
    ConnectGroupDescribeRequest,
    ConnectGroupDescribeResponse,
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupInstallAssignmentResponse,
    ConnectGroupPrepareAssignmentRequest,
    ConnectGroupPrepareAssignmentResponse,
    DescribedWorker,
    DraftResponse,
    DraftResult,
)
from ..metadata import worker_url
from ..records import DraftRecord, DraftRecordType, GroupConfiguration
from . import migration
from .assignment import choose, decline, install, prepare
from .conversion import upgrade
from .effects import ASSIGNMENT, REBALANCE, Effects
from .group import ConnectGroup
from .heartbeat import heartbeat
from .membership import offered_by, remove_member
from .selection import select_assignor
from .settings import GROUP_CONFIGS, DraftSettings

Handler = Callable[[Effects, Any], AnyResponse]


def _numbered_ids() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"{next(numbers):08d}"


@dataclass(slots=True)
class ConnectDraftCoordinator:
    """All groups of the draft on one coordinator; all state but each group's memory comes from records.

    Parameters
    ----------
    new_uuid: returns the next random part of a member id for workers of the old protocol.
    """

    settings: DraftSettings = field(default_factory=DraftSettings)
    new_uuid: Callable[[], str] = field(default_factory=_numbered_ids)
    groups: dict[str, ConnectGroup] = field(default_factory=dict)
    timers: Timers = field(default_factory=Timers)

    def handle(self, request: Request, now_ms: int) -> DraftResult:
        """Answer one request; returns its response with the records and timers it brought about."""
        fx = self._step(now_ms)
        handler, answer = _HANDLERS[type(request)]
        try:
            group_id = str(getattr(request, "group_id", ""))
            require(self.settings.enabled, ErrorCode.UNSUPPORTED_VERSION, "the connect group protocol is off")
            denied = self.settings.is_denied(request.principal, "READ", group_id)
            require(not denied, ErrorCode.GROUP_AUTHORIZATION_FAILED, "READ on the group is needed")
            response = handler(fx, request)
        except DraftError as error:
            response = _refusal(answer, error)
        return fx.result(response)

    def expire(self, now_ms: int) -> DraftResult:
        """Fire every timer that is due: sessions, revocations, assignments and the old protocol's rounds.

        A worker that does not stop within its rebalance timeout is removed (item 67, phase 1).
        """
        fx = self._step(now_ms)
        while (due := self.timers.pop_due(now_ms)) is not None:
            kind, group_id, member_id = due[0]
            group = self.groups.get(group_id)
            if group is None:
                continue
            if kind == ASSIGNMENT:
                decline(fx, group)
            elif member_id in group.members:
                remove_member(fx, group, member_id)
                choose(fx, group)
        return fx.result(None)

    def upgrade(self, classic: ClassicConnectGroup, now_ms: int) -> DraftResult:
        """Take over a stable classic group because a worker of the new protocol wants to join it (item 75)."""
        fx = self._step(now_ms)
        upgrade(fx, classic)
        return fx.result(None)

    def replay(self, records: Iterable[DraftRecord], now_ms: int = 0) -> DraftResult:
        """Load the log, which may be compacted, as after a fail-over, and begin to serve what it makes.

        Sessions and the time limits of revocations start in full; what workers were computing is forgotten.
        """
        for record in records:
            group_id = record.key[0]
            group = self.groups.setdefault(group_id, ConnectGroup(group_id))
            group.apply(record)
            if group.is_blank():
                del self.groups[group_id]
        fx = self._step(now_ms)
        for group in self.groups.values():
            for member_id, member in group.members.items():
                fx.arm_session(group, member_id)
                if group.current_of(member_id).revoking:
                    fx.arm(REBALANCE, group, member_id, member.rebalance_timeout_ms)
            choose(fx, group)
        return fx.result(None)

    def _step(self, now_ms: int) -> Effects:
        return Effects(now_ms, self.settings, self.groups, self.timers, self.new_uuid)


def _refusal(answer: type[AnyResponse], error: DraftError) -> AnyResponse:
    """Return an error response; those of the old protocol have no room for a message."""
    if issubclass(answer, DraftResponse):
        return answer(error_code=error.code, error_message=error.message)
    return answer(error_code=ErrorCode(error.code))


def describe(fx: Effects, request: ConnectGroupDescribeRequest) -> ConnectGroupDescribeResponse:
    """Tell a group's state, epochs and workers."""
    group = fx.groups.get(request.group_id)
    require(group is not None, ErrorCode.GROUP_ID_NOT_FOUND, "no such group")
    assert group is not None
    offered = offered_by(group)
    return ConnectGroupDescribeResponse(
        group_state=_state(group),
        group_epoch=group.epoch,
        assignment_epoch=group.target.assignment_epoch,
        assignment_error=group.target.error,
        assignor_name=select_assignor(offered) if offered else None,
        chosen=group.memory.chosen,
        held_back=group.held_back_work(),
        members=tuple(
            DescribedWorker(
                member_id=member_id,
                instance_id=member.instance_id,
                url=worker_url(member.assignors[0].metadata),
                member_epoch=group.current_of(member_id).member_epoch,
                assigned=group.current_of(member_id).assigned,
                revoking=group.current_of(member_id).revoking,
                target=group.target_of(member_id),
                worker_state=migration.worker_state(group, member_id),
            )
            for member_id, member in sorted(group.members.items())
        ),
    )


def _state(group: ConnectGroup) -> str:
    if not group.members:
        return "Empty"
    if group.epoch > group.target.assignment_epoch:
        return "Assigning"
    reached = all(group.current_of(m).member_epoch == group.target.assignment_epoch for m in group.members)
    return "Stable" if reached else "Reconciling"


def alter_config(fx: Effects, request: AlterConnectGroupConfigRequest) -> AlterConnectGroupConfigResponse:
    """Change a group's own settings; sessions that run keep the timeout they started with."""
    group = fx.group(request.group_id)
    settings = dict(group.configuration.configurations)
    for name, value in request.configs:
        require(name in GROUP_CONFIGS, ErrorCode.INVALID_CONFIG, f"unknown config {name}")
        valid = value is None or (value.isdecimal() and int(value) > 0)
        require(valid, ErrorCode.INVALID_CONFIG, f"{name} must be a positive number of ms")
        if value is None:
            settings.pop(name, None)
        else:
            settings[name] = value
    configuration = GroupConfiguration(tuple(sorted(settings.items()))) if settings else None
    fx.append(group, DraftRecordType.GROUP_CONFIGURATION, configuration)
    return AlterConnectGroupConfigResponse()


_HANDLERS: dict[type[Request], tuple[Handler, type[AnyResponse]]] = {
    ConnectGroupHeartbeatRequest: (heartbeat, ConnectGroupHeartbeatResponse),
    ConnectGroupPrepareAssignmentRequest: (prepare, ConnectGroupPrepareAssignmentResponse),
    ConnectGroupInstallAssignmentRequest: (install, ConnectGroupInstallAssignmentResponse),
    ConnectGroupDescribeRequest: (describe, ConnectGroupDescribeResponse),
    AlterConnectGroupConfigRequest: (alter_config, AlterConnectGroupConfigResponse),
    JoinGroupRequest: (migration.join, JoinGroupResponse),
    SyncGroupRequest: (migration.sync, SyncGroupResponse),
    HeartbeatRequest: (migration.classic_heartbeat, HeartbeatResponse),
    LeaveGroupRequest: (migration.leave, LeaveGroupResponse),
}
