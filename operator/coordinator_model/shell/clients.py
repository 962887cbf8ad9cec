"""The clients of the shell: what an application sends when it starts, heartbeats, stops or gets an answer.

They react as Java clients do, so that a reader types what happens to processes and sees what the protocol makes of it.
Source: AbstractCoordinator, ConsumerCoordinator (classic); AbstractMembershipManager,
AbstractHeartbeatRequestManager (KIP-848, KIP-932); StreamsGroupHeartbeatRequestManager (KIP-1071).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from ..assignors import CLIENT_ASSIGNORS, MemberSubscription
from ..assignors.subscription import (
    HIGHEST_VERSION,
    DecodedAssignment,
    DecodedSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ..base import messages as m
from ..base.errors import ErrorCode
from ..base.image import TopicImage
from ..share.messages import ShareGroupHeartbeatRequest
from ..streams.messages import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    Topology,
)

FATAL = frozenset(
    {
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
"""Errors after which a client gives up; its process must be started again."""


class Network(Protocol):
    """How clients reach the coordinator."""

    def send(self, client: Client, request: m.Request) -> m.Response | None:
        """Return the answer; None when it comes later, to the client's `receive`."""

    @property
    def image(self) -> TopicImage:
        """Return the topics."""

    def new_member_id(self, client: Client) -> str:
        """Return a new id made by the client (KIP-1082)."""


@dataclass(kw_only=True)
class Client(ABC):
    """One process that is a member of one group, or wants to be.

    Parameters
    ----------
    state: starting, running, away (stopped, expected back), stopped, or the error that ended it.
    epoch: generation or member epoch; -1 or 0 while it has none.
    """

    protocol: ClassVar[str]

    network: Network
    name: str
    group_id: str
    instance_id: str | None
    topics: tuple[str, ...]
    session_ms: int = 45_000
    rebalance_ms: int = 300_000
    member_id: str = ""
    epoch: int = -1
    owned: m.TopicPartitions = ()
    state: str = "starting"

    @abstractmethod
    def start(self) -> None:
        """Begin as a new process, without memory of a former member id."""

    @abstractmethod
    def beat(self) -> None:
        """Send one heartbeat and do what the answer asks for."""

    @abstractmethod
    def stop(self, *, for_good: bool) -> None:
        """Close: leave for good, or as the protocol's static members do between two lives."""

    def receive(self, response: m.Response) -> None:  # noqa: B027  # only the classic protocol answers late
        """Take an answer that came late."""

    def again(self) -> None:  # noqa: B027  # see receive
        """Send once more what was waiting for an answer when the coordinator moved."""

    def failed(self, error: ErrorCode) -> bool:
        """Give up if the error is fatal; returns whether it was."""
        if error in FATAL:
            self.state = error.name
            self.owned = ()
        return error in FATAL

    def leave_request(self) -> m.Request:
        """Return a LeaveGroup with both ids, the compare-and-set form."""
        identity = m.MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id, reason="shell")
        return m.LeaveGroupRequest(group_id=self.group_id, members=(identity,))


@dataclass(kw_only=True)
class ClassicClient(Client):
    """A consumer of the classic protocol."""

    protocol = "classic"
    assignors: tuple[str, ...] = ("range", "cooperative-sticky")

    def start(self) -> None:
        """Join as a new member."""
        self.member_id, self.epoch, self.owned = "", -1, ()
        self._join()

    def beat(self) -> None:
        """Send one heartbeat and act on the answer."""
        request = m.HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        answer = self.network.send(self, request)
        error = ErrorCode.NONE if answer is None else answer.error_code
        if error is ErrorCode.NONE or self.failed(error):
            return
        if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self.owned = ()
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self._join()

    def stop(self, *, for_good: bool) -> None:
        """Leave, or go away for a while where the member keeps its seat."""
        if for_good or self.instance_id is None:
            self.network.send(self, self.leave_request())
            self.state = "stopped"
        else:
            self.state = "away"

    def receive(self, response: m.Response) -> None:
        """Act on an answer that came late."""
        if isinstance(response, m.JoinGroupResponse):
            self._joined(response)
        elif isinstance(response, m.SyncGroupResponse):
            self._synced(response)

    def again(self) -> None:
        """Try once more what did not go through."""
        if self.state == "starting":
            self._join()

    def _join(self) -> None:
        self.state = "starting"
        metadata = encode_subscription(
            DecodedSubscription(HIGHEST_VERSION, self.topics, None, self.owned, self.epoch if self.owned else -1)
        )
        request = m.JoinGroupRequest(
            group_id=self.group_id,
            client_id=self.name,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            protocols=tuple(m.Protocol(name, metadata) for name in self.assignors),
        )
        answer = self.network.send(self, request)
        if isinstance(answer, m.JoinGroupResponse):
            self._joined(answer)

    def _joined(self, answer: m.JoinGroupResponse) -> None:
        error = answer.error_code
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self._join()
        elif error is ErrorCode.UNKNOWN_MEMBER_ID:
            self.start()
        elif error is ErrorCode.NONE:
            self.member_id, self.epoch = answer.member_id, answer.generation_id
            leads = answer.leader == answer.member_id and not answer.skip_assignment
            self._sync(self._assign(answer) if leads else (), answer.protocol_name)
        else:
            self.failed(error)

    def _assign(self, answer: m.JoinGroupResponse) -> tuple[tuple[str, bytes], ...]:
        members: dict[str, MemberSubscription] = {}
        for member in answer.members:
            said = decode_subscription(member.metadata)
            members[member.member_id] = MemberSubscription(
                member.group_instance_id, said.rack_id, said.topics, said.owned, said.generation
            )
        assigned = CLIENT_ASSIGNORS[answer.protocol_name or "range"](members, self.network.image)
        return tuple((member, encode_assignment(DecodedAssignment(1, owned))) for member, owned in assigned.items())

    def _sync(self, assignments: tuple[tuple[str, bytes], ...], protocol_name: str | None) -> None:
        request = m.SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name=protocol_name,
            assignments=assignments,
        )
        answer = self.network.send(self, request)
        if isinstance(answer, m.SyncGroupResponse):
            self._synced(answer)

    def _synced(self, answer: m.SyncGroupResponse) -> None:
        if answer.error_code is ErrorCode.NONE:
            self.owned = decode_assignment(answer.assignment).partitions
            self.state = "running"
        elif answer.error_code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._join()
        elif answer.error_code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.start()
        else:
            self.failed(answer.error_code)


@dataclass(kw_only=True)
class HeartbeatClient(Client):
    """What the protocols have in common in which one heartbeat joins, tells, acknowledges and leaves."""

    keeps_its_seat: ClassVar[bool] = True

    def start(self) -> None:
        """Join as a new member."""
        self.member_id = self.network.new_member_id(self)
        self._join()

    def beat(self) -> None:
        """Send one heartbeat and act on the answer."""
        self._follow(self.network.send(self, self._request(self.epoch, full=False)))

    def stop(self, *, for_good: bool) -> None:
        """Leave, or go away for a while where the member keeps its seat."""
        stays = not for_good and self.instance_id is not None and self.keeps_its_seat
        self.network.send(self, self._request(-2 if stays else -1, full=False))
        self.state = "away" if stays else "stopped"

    def _join(self) -> None:
        self.state, self.owned = "starting", ()
        self._follow(self.network.send(self, self._request(0, full=True)))

    def _follow(self, answer: m.Response | None) -> None:
        if answer is None or self.failed(answer.error_code):
            return
        if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self._join()
        elif answer.error_code is ErrorCode.NONE:
            assert isinstance(answer, m.EpochHeartbeatResponse)
            self.epoch, assignment = answer.member_epoch, self._read(answer)
            self.state = "running"
            if assignment is not None and assignment != self.owned:
                self.owned = assignment
                self.beat()

    @abstractmethod
    def _request(self, epoch: int, *, full: bool) -> m.Request:
        """Return a heartbeat; `full` with everything that the coordinator must know at a join."""

    def _read(self, answer: Any) -> m.TopicPartitions | None:
        """Return the assignment; None when it is unchanged."""
        assignment: m.TopicPartitions | None = answer.assignment
        return assignment


@dataclass(kw_only=True)
class ConsumerClient(HeartbeatClient):
    """A consumer of KIP-848."""

    protocol = "consumer"

    def _request(self, epoch: int, *, full: bool) -> m.Request:
        return m.ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            client_id=self.name,
            member_id=self.member_id,
            member_epoch=epoch,
            group_instance_id=self.instance_id,
            rebalance_timeout_ms=self.rebalance_ms if full else -1,
            subscribed_topic_names=self.topics if full else None,
            topic_partitions=self.owned if epoch >= 0 else None,
        )


@dataclass(kw_only=True)
class StreamsClient(HeartbeatClient):
    """A stream thread of KIP-1071; its topology reads every topic in a subtopology of its own.

    Parameters
    ----------
    process_id: names the state directory, so it is the same after a bounce.
    """

    protocol = "streams"
    process_id: str = ""

    def _request(self, epoch: int, *, full: bool) -> m.Request:
        others: TaskIds | None = () if epoch >= 0 else None
        subtopologies = tuple(Subtopology(topic, (topic,)) for topic in self.topics)
        return StreamsGroupHeartbeatRequest(
            group_id=self.group_id,
            client_id=self.name,
            member_id=self.member_id,
            member_epoch=epoch,
            group_instance_id=self.instance_id,
            rebalance_timeout_ms=self.rebalance_ms if full else -1,
            topology=Topology(0, subtopologies) if full else None,
            process_id=(self.process_id or self.name) if full else None,
            active_tasks=self.owned if epoch >= 0 else None,
            standby_tasks=others,
            warmup_tasks=others,
        )

    def _read(self, answer: Any) -> m.TopicPartitions | None:
        tasks: TaskIds | None = answer.active_tasks
        return tasks


@dataclass(kw_only=True)
class ShareClient(HeartbeatClient):
    """A share consumer of KIP-932; an instance id means nothing to it."""

    protocol = "share"
    keeps_its_seat = False

    def _request(self, epoch: int, *, full: bool) -> m.Request:
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            client_id=self.name,
            member_id=self.member_id,
            member_epoch=epoch,
            subscribed_topic_names=self.topics if full else None,
        )


CLIENTS: dict[str, type[Client]] = {
    kind.protocol: kind for kind in (ClassicClient, ConsumerClient, StreamsClient, ShareClient)
}
