"""The group coordinator: one entrance for requests, time and the log.

Every group type is a module that registers its functions in tables; this module merges them, checks access and
decides by the class of the group who answers a request that several types share.
Source: GroupCoordinatorService, GroupCoordinatorShard and GroupMetadataManager of Kafka 4.4 (dispatch by Group.type()).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from . import (
    classic,
    classic_join,
    classic_leave,
    consumer,
    describe,
    future,
    group_config,
    migration,
    offsets,
    share,
    streams,
)
from .errors import ErrorCode, GroupError
from .future import GroupPlan
from .image import TopicImage
from .messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    Request,
    Response,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from .records import Record, RecordType
from .result import Completed, Result, Step
from .settings import BrokerSettings
from .timers import TimerChange, TimerKey, Timers

Handler = Callable[["GroupCoordinator", Step, Any], Response | None]
Replay = Callable[["GroupCoordinator", Record], None]
Expire = Callable[["GroupCoordinator", Step, TimerKey], None]
OnLoaded = Callable[["GroupCoordinator", Step], None]
ErrorResponse = Callable[[Any, GroupError], Response]
Check = Callable[["GroupCoordinator", Step, Any], None]

TIMER_RETRY_MS = 500
"""A timer whose records the log refused is tried again after this time (CoordinatorTimerImpl)."""


class Group(Protocol):
    """What the coordinator needs of a group of any type."""

    group_id: str

    @property
    def group_type(self) -> str:
        """Return classic, consumer, streams or share."""

    @property
    def protocol_type(self) -> str | None:
        """Return the protocol type of a listing, such as consumer or connect."""

    @property
    def state(self) -> str:
        """Return Kafka's name of the state, such as Stable."""

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no member."""

    def tombstones(self) -> list[Record]:
        """Return the tombstones that delete the group's own records (not its offsets)."""


TYPE_MODULES = (classic, future, offsets, describe, group_config, consumer, migration, streams, share)
HANDLERS: dict[type[Request], Handler] = {}
REPLAY: dict[RecordType, Replay] = {}
EXPIRE: dict[str, Expire] = {}
ON_LOADED: list[OnLoaded] = []
ERROR_RESPONSE: dict[type[Request], ErrorResponse] = {}
ON_CONSUMER_GROUP: dict[type[Request], Handler] = {
    JoinGroupRequest: migration.join_classic,
    SyncGroupRequest: migration.sync_classic,
    HeartbeatRequest: migration.heartbeat_classic,
    LeaveGroupRequest: migration.leave,
}
CHECK_COMMIT: dict[str, Check] = {"consumer": consumer.check_commit, "streams": offsets.check_streams_commit}
CHECK_FETCH: dict[str, Check] = {"consumer": consumer.check_fetch, "streams": offsets.check_streams_fetch}
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


class GroupCoordinator:
    """The coordinator of the groups of one `__consumer_offsets` partition.

    Parameters
    ----------
    settings: what `server.properties` says.
    image: the topics; assign a new image when metadata changes.
    new_uuid: returns the random part of each new member id; default: a counter, so that runs repeat exactly.

    Attributes
    ----------
    groups: group id → group, of whatever type.
    offsets: group id → (topic, partition) → committed offset.
    pending_offsets: producer id → (group id, topic, partition) → (place among all such commits, offset), while the
        transaction is open and no later commit has made it void.
    pending_commits: how many commits in transactions there have been.
    plans: group id → what was announced for it; always empty in Kafka (see `future`).
    write_error: the error with which the log refuses every append; None while it takes them.
    """

    def __init__(
        self,
        settings: BrokerSettings | None = None,
        *,
        image: TopicImage = TopicImage(),  # noqa: B008  # immutable
        new_uuid: Callable[[], str] | None = None,
    ) -> None:
        self.settings = settings or BrokerSettings()
        self.image = image
        self.timers = Timers()
        self.groups: dict[str, Any] = {}
        self.offsets: dict[str, dict[tuple[str, int], int]] = {}
        self.pending_offsets: dict[int, dict[tuple[str, str, int], tuple[int, int]]] = {}
        self.pending_commits = 0
        self.group_configs: dict[str, dict[str, str]] = {}
        self.plans: dict[str, GroupPlan] = {}
        self.write_error: ErrorCode | None = None
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
            REPLAY[record.record_type](self, record)
        step = self._step(now_ms)
        for on_loaded in ON_LOADED:
            on_loaded(self, step)
        return step.result(None)

    def unload(self, now_ms: int) -> Result:
        """Give the groups up because another broker takes over: waiting requests hear NOT_COORDINATOR, timers end."""
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

    def append(self, step: Step, *records: Record) -> ErrorCode:
        """Append to the log on behalf of a classic group, whose state is not made of records.

        Returns NONE, or the error that the waiting client hears (appendGroupMetadataErrorToResponseError).
        """
        if self.write_error is not None:
            return response_error(self.write_error)
        step.records.extend(records)
        return ErrorCode.NONE

    def apply(self, record: Record) -> None:
        """Carry a record out on the state, as its module does it for the log."""
        REPLAY[record.record_type](self, record)

    def cancel_timers(self, step: Step, group_id: str) -> None:
        """Drop every timer of a group."""
        for key in self.timers.of_group(group_id):
            step.cancel(key)

    def check_commit(self, group: Group, step: Step, request: Request) -> None:
        """Refuse a commit to a group that is not classic by who may not make one."""
        check = CHECK_COMMIT.get(group.group_type)
        if check is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")
        check(self, step, request)

    def check_fetch(self, group: Group, step: Step, request: Request) -> None:
        """Refuse a fetch of the offsets of a group that is not classic by who may not make one."""
        check = CHECK_FETCH.get(group.group_type)
        if check is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group.")
        check(self, step, request)

    def _answer(self, request: Any, step: Step) -> Response | None:
        kind = type(request)
        try:
            operation = ACCESS.get(kind)
            if operation is not None and self.settings.is_denied(request.principal, operation, request.group_id):
                raise GroupError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
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


def response_error(error: ErrorCode) -> ErrorCode:
    """Return what a client hears when the log refuses an append (appendGroupMetadataErrorToResponseError)."""
    match error:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION | ErrorCode.NOT_ENOUGH_REPLICAS | ErrorCode.REQUEST_TIMED_OUT:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_COORDINATOR
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE | ErrorCode.INVALID_FETCH_SIZE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case _:
            return error


def _join_group(coordinator: GroupCoordinator, step: Step, request: JoinGroupRequest) -> Response | None:
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
    group = coordinator.groups.get(request.group_id)
    if group is None or group.group_type == "classic":
        return classic_join.join(coordinator, step, request)
    if group.is_empty and group.group_type in ("consumer", "streams"):
        return classic_join.join(coordinator, step, request)
    if group.group_type == "consumer":
        return ON_CONSUMER_GROUP[JoinGroupRequest](coordinator, step, request)
    return JoinGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _sync_group(coordinator: GroupCoordinator, step: Step, request: SyncGroupRequest) -> Response | None:
    group = _member_group(coordinator, request.group_id)
    if group.is_empty:
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    if group.group_type == "classic":
        return classic.sync(coordinator, step, request, group)
    return ON_CONSUMER_GROUP[SyncGroupRequest](coordinator, step, request)


def _heartbeat(coordinator: GroupCoordinator, step: Step, request: HeartbeatRequest) -> Response | None:
    group = _member_group(coordinator, request.group_id)
    if group.group_type == "classic":
        return classic.heartbeat(coordinator, step, request, group)
    return ON_CONSUMER_GROUP[HeartbeatRequest](coordinator, step, request)


def _leave_group(coordinator: GroupCoordinator, step: Step, request: LeaveGroupRequest) -> Response | None:
    if not request.group_id:
        raise GroupError(ErrorCode.INVALID_GROUP_ID)
    if request.api_version < classic_leave.BATCH_VERSION and len(request.members) != 1:
        # No such request can be put on the wire: LeaveGroupRequest.Builder refuses it.
        raise GroupError(ErrorCode.UNSUPPORTED_VERSION)
    group = coordinator.groups.get(request.group_id)
    if group is None or group.group_type not in ("classic", "consumer"):
        return classic_leave.unknown_group(request)
    if group.group_type == "classic":
        return classic_leave.leave(coordinator, step, request, group)
    return ON_CONSUMER_GROUP[LeaveGroupRequest](coordinator, step, request)


def _member_group(coordinator: GroupCoordinator, group_id: str) -> Any:
    if not group_id:
        raise GroupError(ErrorCode.INVALID_GROUP_ID)
    group = coordinator.groups.get(group_id)
    if group is None or group.group_type not in ("classic", "consumer"):
        raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
    return group


_register()
