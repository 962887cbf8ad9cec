"""What Kafka says about one group, in one shape for all membership protocols.

Three calls read classic groups (DescribeGroups), KIP-848 groups (ConsumerGroupDescribe) and streams groups
(StreamsGroupDescribe); decisions need the same few facts of each. A `GroupView` exists only for a group that was read
completely: an answer that hides members (such as error 29 of ConsumerGroupDescribe) is a problem value, never an empty
group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

LEAVE_EPOCH = -1
STATIC_MEMBER_AWAY_EPOCH = -2
"""LEAVE_GROUP_MEMBER_EPOCH and LEAVE_GROUP_STATIC_MEMBER_EPOCH of the requests of KIP-848 and KIP-1071."""


class GroupType(StrEnum):
    """Type of the group as ListGroups v5 names it; ABSENT when no such group is listed."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    STREAMS = "Streams"
    SHARE = "Share"
    ABSENT = "Absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """What a Kafka Connect worker has published of itself and was assigned, as far as that can be read.

    Parameters
    ----------
    host: of its advertised REST URL; "" when unknown.
    connectors, tasks: that it holds; None when unknown, as during a rebalance.
    delay_ms: how long the leader kept a lost worker's work for its return at the last rebalance; 0: not at all.
    is_whole: all of its work is stored with the group, so that a new process with the same id is given all of it back.
    """

    host: str = ""
    connectors: int | None = None
    tasks: int | None = None
    delay_ms: int = 0
    is_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """One member as the coordinator described it.

    Parameters
    ----------
    instance_id: group.instance.id; None for a dynamic member.
    member_epoch: KIP-848 and KIP-1071 only; -2 while a static member is away on purpose; None for classic groups.
    client_id, client_host: in a classic group those of the first process that joined with the id, not of this member.
    is_host_current: client_host is where the member itself joined from: it speaks the protocol of KIP-848 or KIP-1071.
    assigned_partitions: what it works on, in a streams group its active tasks; None when that cannot be read.
    worker: of a member of a Connect cluster; None of others.
    """

    member_id: str
    instance_id: str | None
    client_id: str = ""
    client_host: str = ""
    member_epoch: int | None = None
    assigned_partitions: int | None = None
    worker: WorkerView | None = None
    is_host_current: bool = False

    @property
    def is_away(self) -> bool:
        """True for a static member that is away on purpose (LEAVE_GROUP_STATIC_MEMBER_EPOCH)."""
        return self.member_epoch == STATIC_MEMBER_AWAY_EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """One group, read completely from its coordinator.

    Parameters
    ----------
    state: in Kafka's spelling (Stable, PreparingRebalance, CompletingRebalance, Empty, Dead, Assigning, ...).
    protocol_type: "consumer", "connect", ... of a classic group, else "consumer" or "streams"; "" while there is none.
    coordinator: "<node id>@<host>:<port>" of the broker that answered.
    kafka_cluster_id: of its cluster; "" where the brokers report none.
    group_epoch, assignment_epoch: KIP-848 and KIP-1071 only; None for classic groups.
    assignor: which a classic group has chosen, such as range; "" of others, and while it has chosen none.
    topics: of a Stable classic group of consumers, each topic that a member subscribes, and how many of its partitions
        are assigned; None of others, with more than 1,000 of them, and where what a member wrote cannot be read.
    """

    group_id: str
    group_type: GroupType
    state: str
    coordinator: str
    kafka_cluster_id: str = ""
    protocol_type: str = ""
    members: tuple[MemberView, ...] = ()
    group_epoch: int | None = None
    assignment_epoch: int | None = None
    assignor: str = ""
    topics: tuple[tuple[str, int], ...] | None = None

    @property
    def is_settled(self) -> bool:
        """True when no rebalance or reconciliation is in flight.

        Without epochs: Stable or Empty. With epochs: group epoch = assignment epoch = all member epochs, where a static
        member that is away on purpose (-2) does not count (GroupMetadataManager.consumerGroupLeave, streamsGroupLeave).
        """
        if self.group_epoch is None:
            return self.state in ("Stable", "Empty")
        if self.state == "Empty":
            return True
        epochs = {m.member_epoch for m in self.members if not m.is_away}
        return self.group_epoch == self.assignment_epoch and epochs <= {self.group_epoch}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionBounds:
    """What the broker says of the session timeouts of one protocol; None where it could not be read.

    Parameters
    ----------
    min_ms, max_ms: what it allows.
    group_ms: what all members hold (GROUP config), clamped as the coordinator does (4.4); None: each brings its own.
    heartbeat_ms: how often all of them beat, likewise.
    """

    min_ms: int | None = None
    max_ms: int | None = None
    group_ms: int | None = None
    heartbeat_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerBounds:
    """Bounds and group settings as the broker reports them now.

    Parameters
    ----------
    sessions: by protocol; of one that is not there nothing could be read.
    stored: what is set on the group itself, as stored, of the settings whose bounds are known at all.
    limits: least and most that the brokers allow now, by setting of a group.
    """

    sessions: Mapping[GroupType, SessionBounds] = field(default_factory=dict)
    stored: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def misfits(self) -> Mapping[str, int]:
        """The stored settings that the bounds exclude, with the nearest value that they do not.

        The broker clamps them when it reads them (4.4), and refuses a change of settings that does not repair them all.
        """
        limits = self.limits
        fitted = {k: max(limits[k][0], min(v, limits[k][1])) for k, v in self.stored.items() if k in limits}
        return {key: value for key, value in fitted.items() if value != self.stored[key]}

    def of(self, group_type: GroupType) -> SessionBounds:
        """Return what is known of a protocol."""
        return self.sessions.get(group_type, SessionBounds())


class KafkaProblemKind(StrEnum):
    """Why Kafka could not be read or written, in the words of the conditions' reasons where they have one for it."""

    UNREACHABLE = "BrokersUnreachable"
    TLS_FAILED = "TlsFailed"
    AUTHENTICATION_FAILED = "AuthenticationFailed"
    NOT_AUTHORIZED = "MissingAcl"
    WRONG_CLUSTER = "ClusterIdMismatch"
    BROKER_TOO_OLD = "BrokerTooOld"
    COORDINATOR_UNAVAILABLE = "CoordinatorUnavailable"
    UNEXPECTED_ANSWER = "UnexpectedAnswer"
    ANSWER_TOO_LARGE = "AnswerTooLarge"
    ADDRESS_REFUSED = "AddressRefused"
    SECRET_MISSING = "SecretNotFound"
    SECRET_INVALID = "SecretKeyMissing"
    CONNECTION_MISSING = "ConnectionNotFound"
    CONNECTION_INVALID = "ConnectionInvalid"
    NAMESPACE_NOT_ALLOWED = "NamespaceNotAllowed"
    GROUP_NOT_ALLOWED = "GroupNotAllowed"
    UNSUPPORTED_GROUP = "ProtocolMismatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaProblem:
    """A refusal or failure as a value; `message` says what happened and what to do, never a secret."""

    kind: KafkaProblemKind
    message: str
    missing_acl: str = ""


class LeaveCall(StrEnum):
    """By which call a static member leaves on behalf of its dead process; each compares both of its ids first.

    Sources: GroupMetadataManager.classicGroupLeave, consumerGroupLeave and, for the last, streamsGroupLeave (4.4).
    """

    LEAVE_GROUP = "LeaveGroup"
    CONSUMER_HEARTBEAT = "ConsumerGroupHeartbeat"
    STREAMS_HEARTBEAT = "StreamsGroupHeartbeat"


class LeaveOutcome(StrEnum):
    """What the coordinator answered for one member that was to be removed."""

    REMOVED = "Removed"
    FENCED = "Fenced"
    UNKNOWN = "UnknownMember"
    NOT_AUTHORIZED = "NotAuthorized"
    RETRY = "Retry"


class RebalanceOutcome(StrEnum):
    """What came of a rebalance that was asked for by joining for a moment."""

    BEGUN = "Begun"
    REFUSED = "Refused"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveEntry:
    """A compare-and-set leave of one static member, for good or for a while (KIP-345, KIP-848, KIP-1071).

    Both ids are mandatory: with one of them alone the broker removes any member that holds it.
    """

    member_id: str
    instance_id: str
    reason: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.member_id or not self.instance_id:
            raise ValueError("a leave needs both member.id and group.instance.id")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveResult:
    """What one batch of removals brought.

    Parameters
    ----------
    coordinator: "<node id>@<host>:<port>" of the broker that was asked; a removal is settled only under this one.
    outcomes: one per entry, in the order of the request. RETRY means that the broker may or may not have acted:
        describe the group again before anything else.
    """

    coordinator: str
    outcomes: tuple[LeaveOutcome, ...]


class ReleaseOutcome(StrEnum):
    """What the coordinator answered to a temporary leave."""

    RELEASED = "Released"
    FENCED = "Fenced"
    UNKNOWN = "UnknownMember"
    NOT_AUTHORIZED = "NotAuthorized"
    RETRY = "Retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectLoad:
    """What the workers of one Connect cluster hold.

    Parameters
    ----------
    connectors, tasks: of all whose allocation is known, together. unknown: how many others there are.
    delay_ms: see `WorkerView`; the longest of them.
    waiting: how many connectors and tasks are kept back; None: not known.
    is_whole: all workers are static, and the group stores all work of each.
    """

    connectors: int
    tasks: int
    unknown: int
    delay_ms: int
    waiting: int | None
    is_whole: bool


def load_of(group: GroupView, work_before: int | None) -> ConnectLoad | None:
    """Return what the workers of a group hold.

    The group shows it even when a worker's REST interface does not answer. It does not show how much of a lost worker's
    work the leader keeps back (scheduled.rebalance.max.delay.ms, KIP-415), so the earlier total is remembered.

    Parameters
    ----------
    work_before: `History.connect_work`.

    Returns
    -------
    None where no worker's allocation is known, as during a rebalance or of another group.
    """
    workers = [member.worker for member in group.members if member.worker is not None]
    known = [(w.connectors, w.tasks) for w in workers if w.connectors is not None and w.tasks is not None]
    if not known or len(workers) < len(group.members):
        return None
    connectors, tasks = sum(c for c, _ in known), sum(t for _, t in known)
    unknown, delay_ms = len(workers) - len(known), max(w.delay_ms for w in workers)
    waiting: int | None = None
    if not unknown:
        waiting = 0 if not delay_ms else None if work_before is None else max(0, work_before - connectors - tasks)
    return ConnectLoad(
        connectors=connectors,
        tasks=tasks,
        unknown=unknown,
        delay_ms=delay_ms,
        waiting=waiting,
        is_whole=all(m.instance_id is not None and m.worker is not None and m.worker.is_whole for m in group.members),
    )


def work_after(load: ConnectLoad | None, work_before: int | None) -> int | None:
    """Return `History.connect_work` after a reading: what is held counts while none of it is kept back."""
    if load is None or load.unknown or load.delay_ms:
        return work_before
    return load.connectors + load.tasks
