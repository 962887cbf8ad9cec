"""A coordinator under test with KIP-848 groups: its clock, its log, and groups brought to a given state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from conformance.answers import answered, expect
from coordinator_model.assignors.subscription import (
    DecodedSubscription,
    encode_subscription,
    to_pairs,
    to_topic_partitions,
)
from coordinator_model.base.config_messages import AlterGroupConfigRequest
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage, metadata_hash
from coordinator_model.base.messages import (
    ConsumerGroupDescribedGroup,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    Protocol,
    Request,
    Response,
    SyncGroupRequest,
    SyncGroupResponse,
    TopicPartitions,
)
from coordinator_model.base.records import Record, RecordType
from coordinator_model.base.result import Result
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.consumer.group import ConsumerGroup
from coordinator_model.consumer.member import (
    ClassicMemberMetadata,
    CurrentAssignment,
    Member,
    MemberMetadata,
    MemberState,
    topic_names,
    with_epoch,
)
from coordinator_model.consumer.records import (
    current_record,
    group_record,
    member_record,
    target_epoch_record,
    target_record,
)
from coordinator_model.coordinator import GroupCoordinator

GROUP = "orders"
UNIFORM = ("uniform", "range")
"""The assignors as a broker has them by default."""
TOPICS = TopicImage({"foo": 6, "bar": 3})
CURRENT = RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT
TARGET = RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER
TARGET_EPOCH = RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA
MEMBER = RecordType.CONSUMER_GROUP_MEMBER_METADATA
EPOCH = RecordType.CONSUMER_GROUP_METADATA
REGEX = RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION
TOMBSTONES = [CURRENT, TARGET, MEMBER]
"""What is written for a member that goes."""
REPLACEMENT = [*TOMBSTONES, MEMBER, TARGET, CURRENT]
"""What is written when a static member comes back under another member id."""
FIRST: TopicPartitions = (("bar", (0, 1)), ("foo", (0, 1, 2)))
SECOND: TopicPartitions = (("bar", (2,)), ("foo", (3, 4, 5)))
ALL: TopicPartitions = (("bar", (0, 1, 2)), ("foo", (0, 1, 2, 3, 4, 5)))
"""All partitions of foo and bar, in two parts and as a whole."""


def broker_settings(**changes: object) -> BrokerSettings:
    """Return broker settings with the range assignor first, as most groups of Kafka's own tests have it.

    Assignments are computed at once, as before the assignment interval (KIP-1263).
    """
    chosen = {"consumer_assignors": ("range", "uniform"), "consumer_assignment_interval_ms": 0, **changes}
    return BrokerSettings(**chosen)  # type: ignore[arg-type]


def subscription(*topics: str, owned: TopicPartitions = (), version: int = 3) -> bytes:
    """Return the metadata bytes of a classic consumer."""
    return encode_subscription(DecodedSubscription(version, topics, None, owned))


def protocols(*topics: str, owned: TopicPartitions = (), name: str = "range") -> tuple[Protocol, ...]:
    """Return what a classic consumer offers in JoinGroup."""
    return (Protocol(name, subscription(*topics, owned=owned)),)


def member(
    member_id: str,
    instance_id: str | None = None,
    holds: TopicPartitions = (),
    *,
    epoch: int = 10,
    topics: Iterable[str] = ("foo", "bar"),
    state: MemberState = MemberState.STABLE,
    pending: TopicPartitions = (),
    classic: bool = False,
    rebalance_timeout_ms: int = 5_000,
    session_timeout_ms: int = 5_000,
    assignor: str | None = "range",
    regex: str = "",
) -> Member:
    """Return a member that a group is given with; a classic one offers the range protocol."""
    said = ClassicMemberMetadata(session_timeout_ms, protocols(*topics)) if classic else None
    metadata = MemberMetadata(
        instance_id, None, "client", "/127.0.0.1", topic_names(topics), regex, rebalance_timeout_ms,
        None if classic else assignor, said,
    )
    assigned, revoked = with_epoch(to_pairs(holds), epoch), with_epoch(to_pairs(pending), epoch)
    return Member(member_id, metadata, CurrentAssignment(epoch, epoch - 1, state, assigned, revoked))


@dataclass
class ConsumerBench:
    """One coordinator and its clients."""

    settings: BrokerSettings = field(default_factory=broker_settings)
    image: TopicImage = TOPICS
    now_ms: int = 1_000
    log: list[Record] = field(default_factory=list)
    last: Result = field(default_factory=lambda: Result(None))

    def __post_init__(self) -> None:
        self._ids = count(1)
        self.coordinator = GroupCoordinator(self.settings, image=self.image, new_uuid=self._new_uuid)
        self.completed: dict[int, Response] = {}

    @property
    def group(self) -> ConsumerGroup:
        return expect(ConsumerGroup, self.coordinator.groups[GROUP])

    @property
    def epochs(self) -> dict[str, int]:
        return {m.member_id: m.member_epoch for m in self.group.members.values()}

    def given(self, *members: Member, epoch: int = 10, targets: dict[str, TopicPartitions] | None = None) -> None:
        """Load a group; each member's target is what it holds unless `targets` says otherwise."""
        names = {name for m in members for name in m.metadata.subscribed_topic_names}
        records = [member_record(GROUP, m) for m in members]
        records.append(group_record(GROUP, epoch, metadata_hash(names, self.image)))
        held = {m.member_id: to_topic_partitions(m.current.assigned) for m in members}
        records += [target_record(GROUP, m, target) for m, target in (held | (targets or {})).items()]
        records.append(target_epoch_record(GROUP, epoch, 1))
        records += [current_record(GROUP, m) for m in members]
        self.log += records
        self.coordinator.replay(records, self.now_ms)

    def send(self, request: Request) -> Response | None:
        self.last = self.coordinator.handle(request, self.now_ms)
        self._take(self.last)
        return self.last.response

    def advance(self, milliseconds: int) -> Result:
        """Let time pass; every timer fires at its own deadline."""
        self.now_ms += milliseconds
        self.last = self.coordinator.expire(self.now_ms)
        self._take(self.last)
        return self.last

    def fail_over(self) -> None:
        """Start again from the log, as the next coordinator does; no member id is given out twice."""
        image = self.coordinator.image
        self.coordinator = GroupCoordinator(self.settings, image=image, new_uuid=self._new_uuid)
        self.coordinator.replay(self.log, self.now_ms)

    def types(self) -> list[RecordType]:
        """Return the types of the records that the last step wrote, tombstones included."""
        return [record.record_type for record in self.last.records]

    def beat(
        self,
        member_id: str,
        epoch: int,
        instance_id: str | None = None,
        owned: TopicPartitions | None = None,
        *,
        topics: tuple[str, ...] | None = None,
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = -1,
        api_version: int = 1,
        client_id: str = "client",
    ) -> ConsumerGroupHeartbeatResponse:
        answer = self.send(
            ConsumerGroupHeartbeatRequest(
                api_version=api_version, group_id=GROUP, member_id=member_id, member_epoch=epoch,
                group_instance_id=instance_id, rebalance_timeout_ms=rebalance_timeout_ms, subscribed_topic_names=topics,
                subscribed_topic_regex=regex, server_assignor=assignor, topic_partitions=owned, client_id=client_id,
            )
        )
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        return answer

    def join(
        self,
        member_id: str,
        instance_id: str | None = None,
        *,
        topics: tuple[str, ...] | None = ("foo", "bar"),
        regex: str | None = None,
        assignor: str | None = None,
        rebalance_timeout_ms: int = 5_000,
        api_version: int = 1,
    ) -> ConsumerGroupHeartbeatResponse:
        return self.beat(
            member_id,
            0,
            instance_id,
            (),
            topics=topics,
            regex=regex,
            assignor=assignor,
            rebalance_timeout_ms=rebalance_timeout_ms,
            api_version=api_version,
        )

    def settle(self, *members: tuple[str, str | None]) -> dict[str, TopicPartitions]:
        """Let consumer-protocol members beat until all are stable; returns all assignments."""
        for _ in range(10):
            for member_id, instance_id in members:
                held = self.group.members[member_id].current
                self.beat(member_id, held.member_epoch, instance_id, to_topic_partitions(held.assigned))
            if self.group.state == "Stable":
                break
        assert self.group.state == "Stable"
        return {m: to_topic_partitions(self.group.members[m].current.assigned) for m, _ in members}

    def leave(self, *members: tuple[str, str | None], api_version: int = 5) -> list[ErrorCode]:
        """Send one LeaveGroup for (member id, instance id) pairs; returns the error of each, in order."""
        identities = tuple(MemberIdentity(member_id=m, group_instance_id=i) for m, i in members)
        answer = self.send(LeaveGroupRequest(group_id=GROUP, members=identities, api_version=api_version))
        assert isinstance(answer, LeaveGroupResponse)
        assert answer.error_code is ErrorCode.NONE
        assert [(m.member_id, m.group_instance_id) for m in answer.members] == list(members)
        return [m.error_code for m in answer.members]

    def describe(self) -> ConsumerGroupDescribedGroup:
        answer = expect(ConsumerGroupDescribeResponse, self.send(ConsumerGroupDescribeRequest(group_ids=(GROUP,))))
        return answer.groups[0]

    def alter(self, **configs: str | None) -> ErrorCode:
        """Set group settings, Kafka's names with underscores for dots; None deletes one."""
        pairs = tuple((name.replace("_", "."), value) for name, value in configs.items())
        return answered(self.send(AlterGroupConfigRequest(group_id=GROUP, configs=pairs))).error_code

    def join_classic(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        *,
        offers: tuple[Protocol, ...] | None = None,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 5_000,
        api_version: int = 9,
    ) -> JoinGroupResponse | None:
        answer = self.send(
            JoinGroupRequest(
                api_version=api_version,
                group_id=GROUP,
                member_id=member_id,
                group_instance_id=instance_id,
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=rebalance_timeout_ms,
                protocols=protocols("foo", "bar") if offers is None else offers,
            )
        )
        assert answer is None or isinstance(answer, JoinGroupResponse)
        return answer

    def sync_classic(
        self,
        member_id: str,
        generation_id: int,
        instance_id: str | None = None,
        *,
        assignments: tuple[tuple[str, bytes], ...] = (),
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
    ) -> SyncGroupResponse | None:
        answer = self.send(
            SyncGroupRequest(
                group_id=GROUP, generation_id=generation_id, member_id=member_id, group_instance_id=instance_id,
                protocol_type=protocol_type, protocol_name=protocol_name, assignments=assignments,
            )
        )
        assert answer is None or isinstance(answer, SyncGroupResponse)
        return answer

    def beat_classic(self, member_id: str, generation_id: int, instance_id: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation_id, member_id=member_id, group_instance_id=instance_id
        )
        return answered(self.send(request)).error_code

    def _new_uuid(self) -> str:
        return f"{next(self._ids):08d}"

    def _take(self, result: Result) -> None:
        self.log += result.records
        for done in result.completed:
            self.completed[done.ticket] = done.response
