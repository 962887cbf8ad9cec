"""What one `__consumer_offsets` partition's coordinator knows: its topics, groups, offsets and timers.

One idea: every group type's functions take a shard and nothing above it; the coordinator, which knows all of them, is a
shard with an entrance. So the group types never import what calls them.
Source: GroupCoordinatorShard of Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from .errors import ErrorCode, GroupError
from .image import TopicImage
from .messages import JoinGroupRequest, Response
from .records import Record, RecordType
from .result import Step
from .settings import BrokerSettings
from .timers import TimerKey, Timers

K = TypeVar("K")
Handler = Callable[["Shard", Step, Any], Response | None]
Replay = Callable[["Shard", Record], None]
Expire = Callable[["Shard", Step, TimerKey], None]
OnLoaded = Callable[["Shard", Step], None]
ErrorResponse = Callable[[Any, GroupError], Response]
"""What a group type registers: for a request, a record, a timer, the end of loading, a request's refusal."""


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


@dataclass(slots=True)
class GroupPlan:
    """What was announced for one group; no Kafka has it (see `future`).

    Parameters
    ----------
    held: instance id → JoinGroup that waits for the others, and its ticket.
    rebalance_due: a departure has not been followed by a rebalance yet.
    """

    expected: frozenset[str] = frozenset()
    held: dict[str, tuple[JoinGroupRequest, int]] = field(default_factory=dict)
    rebalance_due: bool = False
    target_size: int = 0


class Shard:
    """The state that group types work on.

    Parameters
    ----------
    settings: what `server.properties` says.
    image: the topics; assign a new image when metadata changes.
    replay: record type → the function that carries such a record out on the state.

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

    def __init__(self, settings: BrokerSettings, image: TopicImage, replay: Mapping[RecordType, Replay]) -> None:
        self.settings = settings
        self.image = image
        self.timers = Timers()
        self.groups: dict[str, Any] = {}
        self.offsets: dict[str, dict[tuple[str, int], int]] = {}
        self.pending_offsets: dict[int, dict[tuple[str, str, int], tuple[int, int]]] = {}
        self.pending_commits = 0
        self.group_configs: dict[str, dict[str, str]] = {}
        self.plans: dict[str, GroupPlan] = {}
        self.write_error: ErrorCode | None = None
        self._replay = replay

    def append(self, step: Step, *records: Record) -> ErrorCode:
        """Append to the log on behalf of a classic group, whose state is not made of records.

        Returns NONE, or the error for the waiting client (appendGroupMetadataErrorToResponseError).
        """
        if self.write_error is not None:
            return response_error(self.write_error)
        step.records.extend(records)
        return ErrorCode.NONE

    def authorize(self, principal: str, operation: str, group_id: str) -> None:
        """Raise GROUP_AUTHORIZATION_FAILED where the broker's ACLs say so (KafkaApis)."""
        if self.settings.is_denied(principal, operation, group_id):
            raise GroupError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def groups_of(self, kind: type[K]) -> list[K]:
        """Return the groups of one type."""
        return [group for group in self.groups.values() if isinstance(group, kind)]

    def apply(self, record: Record) -> None:
        """Carry a record out on the state, as its module does it for the log."""
        self._replay[record.record_type](self, record)

    def cancel_timers(self, step: Step, group_id: str) -> None:
        """Drop every timer of a group."""
        for key in self.timers.of_group(group_id):
            step.cancel(key)


def refusal(kind: type[Response], *, with_message: bool = True) -> ErrorResponse:
    """Return what makes an error response of one kind.

    Parameters
    ----------
    with_message: tell the reason too, where the response of this API can.
    """

    def refused(_request: Any, error: GroupError) -> Response:
        return kind(error_code=error.code, error_message=(error.message or None) if with_message else None)

    return refused


def response_error(error: ErrorCode) -> ErrorCode:
    """Return the error for a client when the log refuses an append (appendGroupMetadataErrorToResponseError)."""
    match error:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION | ErrorCode.NOT_ENOUGH_REPLICAS | ErrorCode.REQUEST_TIMED_OUT:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_COORDINATOR
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE | ErrorCode.INVALID_FETCH_SIZE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case _:
            return error
