"""The group coordinator: one entrance for requests, time and the log.

Every group type is a module that registers its functions in tables; this module merges them, checks access and
chooses by the class of the group what answers a request that several types share.
Source: GroupCoordinatorService, GroupCoordinatorShard and GroupMetadataManager of Kafka 4.4 (dispatch by Group.type()).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from . import describe, offsets
from .base import group_config
from .base.errors import ErrorCode, GroupError
from .base.image import TopicImage
from .base.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    Request,
    Response,
    SyncGroupRequest,
)
from .base.offset_messages import OffsetCommitRequest, OffsetFetchRequest, TxnOffsetCommitRequest
from .base.records import Record, RecordType
from .base.result import Completed, Result, Step
from .base.settings import BrokerSettings
from .base.shard import ErrorResponse, Expire, Handler, OnLoaded, Replay, Shard, response_error
from .base.timers import TimerChange, TimerKey
from .classic import future
from .classic import join as classic_join
from .classic import leave as classic_leave
from .classic import requests as classic
from .consumer import migration
from .consumer import requests as consumer
from .share import requests as share
from .streams import requests as streams

TIMER_RETRY_MS = 500
"""A timer whose records the log refused is tried again after this time (CoordinatorTimerImpl)."""


TYPE_MODULES = (classic, future, offsets, describe, group_config, consumer, migration, streams, share)
HANDLERS: dict[type[Request], Handler] = {}
REPLAY: dict[RecordType, Replay] = {}
EXPIRE: dict[str, Expire] = {}
ON_LOADED: list[OnLoaded] = []
ERROR_RESPONSE: dict[type[Request], ErrorResponse] = {}
ACCESS: dict[type[Request], str] = {
    JoinGroupRequest: "READ",
    SyncGroupRequest: "READ",
    HeartbeatRequest: "READ",
    LeaveGroupRequest: "READ",
    OffsetCommitRequest: "READ",
    TxnOffsetCommitRequest: "READ",
    OffsetFetchRequest: "DESCRIBE",
}
"""The access to the group that a request of one group needs (KafkaApis)."""


def _register() -> None:
    for module in TYPE_MODULES:
        HANDLERS.update(getattr(module, "HANDLERS", {}))
        REPLAY.update(getattr(module, "REPLAY", {}))
        EXPIRE.update(getattr(module, "EXPIRE", {}))
        ERROR_RESPONSE.update(getattr(module, "ERROR_RESPONSE", {}))
        ACCESS.update(getattr(module, "ACCESS", {}))
        if hasattr(module, "ON_LOADED"):
            ON_LOADED.append(module.ON_LOADED)
    HANDLERS[JoinGroupRequest] = _join_group
    HANDLERS[SyncGroupRequest] = _sync_group
    HANDLERS[HeartbeatRequest] = _heartbeat
    HANDLERS[LeaveGroupRequest] = _leave_group


class GroupCoordinator(Shard):
    """The coordinator of the groups of one `__consumer_offsets` partition: a shard with an entrance.

    Parameters
    ----------
    settings: what `server.properties` says.
    image: the topics; assign a new image when metadata changes.
    new_uuid: returns the random part of each new member id; default: a counter, so that runs repeat exactly.
    """

    def __init__(
        self,
        settings: BrokerSettings | None = None,
        *,
        image: TopicImage = TopicImage(),  # noqa: B008  # immutable
        new_uuid: Callable[[], str] | None = None,
    ) -> None:
        super().__init__(settings or BrokerSettings(), image, REPLAY)
        self._new_uuid = new_uuid or self._count_uuid
        self._uuids = 0
        self._tickets = 0

    def handle(self, request: Request, now_ms: int) -> Result:
        """Carry out one request.

        Parameters
        ----------
        now_ms: the coordinator's time; never before that of an earlier step.

        Returns
        -------
        Its answer, or None when it waits (JoinGroup, SyncGroup), with the records and timers that it brought about.
        """
        step = self._step(now_ms)
        if self.write_error is not None:
            return self._handle_unwritable(request, step)
        return step.result(self._answer(request, step))

    def expire(self, now_ms: int) -> Result:
        """Fire every timer that is due by `now_ms`, in the order of their deadlines, each at its own deadline."""
        records: list[Record] = []
        changes: list[TimerChange] = []
        completed: list[Completed] = []
        while (due := self.timers.pop_due(now_ms)) is not None:
            key, deadline_ms = due
            step = self._step(deadline_ms)
            changes.append(TimerChange(key, None))
            self._fire(key, step)
            records += step.records
            changes += step.timer_changes
            completed += step.completed
        return Result(None, tuple(records), tuple(changes), tuple(completed))

    def replay(self, records: Iterable[Record], now_ms: int = 0) -> Result:
        """Load a fresh coordinator from a log, as after a fail-over; all timers then start in full."""
        for record in records:
            self.apply(record)
        step = self._step(now_ms)
        for on_loaded in ON_LOADED:
            on_loaded(self, step)
        return step.result(None)

    def unload(self, now_ms: int) -> Result:
        """Give the groups up because another broker takes over: waiting requests get NOT_COORDINATOR, timers end."""
        step = self._step(now_ms)
        classic.unload(self, step)
        for key in tuple(self.timers.keys()):
            step.cancel(key)
        return step.result(None)

    def end_transaction(self, producer_id: int, now_ms: int, *, committed: bool) -> Result:
        """End a producer's transaction; its pending offsets count from now on if it was committed."""
        step = self._step(now_ms)
        offsets.end_transaction(self, step, producer_id, committed=committed)
        return step.result(None)

    def _answer(self, request: Any, step: Step) -> Response | None:
        kind = type(request)
        try:
            operation = ACCESS.get(kind)
            if operation is not None:
                self.authorize(request.principal, operation, request.group_id)
            return HANDLERS[kind](self, step, request)
        except GroupError as error:
            if step.records:
                raise RuntimeError(f"{kind.__name__} wrote records before it was refused") from error
            step.ticket = None
            if error.code is self.write_error:
                error = GroupError(response_error(error.code), error.message)
            return ERROR_RESPONSE[kind](request, error)

    def _handle_unwritable(self, request: Request, step: Step) -> Result:
        """Carry out a request while the log refuses appends: what would have been written is undone and refused."""
        before = copy.deepcopy((self.groups, self.offsets, self.pending_offsets))
        response = self._answer(request, step)
        if step.records and self.write_error is not None:
            self.groups, self.offsets, self.pending_offsets = before
            step.records.clear()
            step.completed.clear()
            step.ticket = None
            response = ERROR_RESPONSE[type(request)](request, GroupError(response_error(self.write_error)))
        return step.result(response)

    def _fire(self, key: TimerKey, step: Step) -> None:
        if self.write_error is None:
            EXPIRE[key[0]](self, step, key)
            return
        before = copy.deepcopy((self.groups, self.offsets, self.pending_offsets))
        refused = False
        try:
            EXPIRE[key[0]](self, step, key)
        except GroupError:
            refused = True
        if refused or step.records:
            self.groups, self.offsets, self.pending_offsets = before
            step.records.clear()
            step.completed.clear()
            step.arm(key, TIMER_RETRY_MS)

    def _step(self, now_ms: int) -> Step:
        return Step(now_ms, self.settings, self.image, self.timers, self._new_uuid, self._next_ticket)

    def _count_uuid(self) -> str:
        self._uuids += 1
        return f"{self._uuids:08d}"

    def _next_ticket(self) -> int:
        self._tickets += 1
        return self._tickets


def _join_group(shard: Shard, step: Step, request: JoinGroupRequest) -> Response | None:
    settings = step.settings
    refusal = None
    if not request.group_id:
        refusal = ErrorCode.INVALID_GROUP_ID
    elif not (
        settings.group_min_session_timeout_ms <= request.session_timeout_ms <= settings.group_max_session_timeout_ms
    ):
        refusal = ErrorCode.INVALID_SESSION_TIMEOUT
    if refusal is not None:
        return JoinGroupResponse(error_code=refusal, member_id=request.member_id)
    group = shard.groups.get(request.group_id)
    if group is None or group.group_type == "classic":
        return classic_join.join(shard, step, request)
    if group.is_empty and group.group_type in ("consumer", "streams"):
        return classic_join.join(shard, step, request)
    if group.group_type == "consumer":
        return migration.join_classic(shard, step, request)
    return JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _sync_group(shard: Shard, step: Step, request: SyncGroupRequest) -> Response | None:
    group = _member_group(shard, request.group_id)
    if group.is_empty:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    if group.group_type == "classic":
        return classic.sync(shard, step, request, group)
    return migration.sync_classic(shard, step, request)


def _heartbeat(shard: Shard, step: Step, request: HeartbeatRequest) -> Response | None:
    group = _member_group(shard, request.group_id)
    if group.group_type == "classic":
        return classic.heartbeat(shard, step, request, group)
    return migration.heartbeat_classic(shard, step, request)


def _leave_group(shard: Shard, step: Step, request: LeaveGroupRequest) -> Response | None:
    if not request.group_id:
        raise GroupError(ErrorCode.INVALID_GROUP_ID)
    if request.api_version < classic_leave.BATCH_VERSION and len(request.members) != 1:
        # No such request can be put on the wire: LeaveGroupRequest.Builder refuses it.
        raise GroupError(ErrorCode.UNSUPPORTED_VERSION)
    group = shard.groups.get(request.group_id)
    if group is None or group.group_type not in ("classic", "consumer"):
        return classic_leave.unknown_group(request)
    if group.group_type == "classic":
        return classic_leave.leave(shard, step, request, group)
    return migration.leave(shard, step, request)


def _member_group(shard: Shard, group_id: str) -> Any:
    if not group_id:
        raise GroupError(ErrorCode.INVALID_GROUP_ID)
    group = shard.groups.get(group_id)
    if group is None or group.group_type not in ("classic", "consumer"):
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    return group


_register()
