"""What one row of the catalogue says to one group: Kafka's requests with short names, and members of both protocols."""

from __future__ import annotations

import asyncio
import struct
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from kio.schema.consumer_protocol_assignment.v3 import ConsumerProtocolAssignment
from kio.schema.consumer_protocol_subscription.v3 import ConsumerProtocolSubscription

from conformance.wire.targets import Target
from coordinator_model.base import messages as m
from coordinator_model.base.config_messages import AlterGroupConfigRequest, AlterGroupConfigResponse
from coordinator_model.base.errors import ErrorCode
from coordinator_model.wire.codec import encode

E = ErrorCode
NOT_YET_S = 0.25
"""A request that is still unanswered after this time waits."""
EVENTUALLY_S = 120.0  # these tests run on what other programs leave of the machine
_LOADING = (E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR)
T = TypeVar("T")


def subscription(*topics: str, owned: Sequence[tuple[str, Sequence[int]]] = ()) -> bytes:
    """Return a consumer's subscription as Java clients of 3.5 and later write it (ConsumerProtocol v3)."""
    rows = [{"topic": topic, "partitions": tuple(partitions)} for topic, partitions in owned]
    body = {"topics": topics, "owned_partitions": rows}
    return struct.pack(">h", 3) + encode(ConsumerProtocolSubscription, body)


def assignment(*topics: tuple[str, Sequence[int]]) -> bytes:
    """Return a consumer's assignment as Java clients of 3.5 and later write it (ConsumerProtocol v3)."""
    rows = [{"topic": topic, "partitions": tuple(partitions)} for topic, partitions in topics]
    return struct.pack(">h", 3) + encode(ConsumerProtocolAssignment, {"assigned_partitions": rows})


@dataclass(slots=True)
class Seat:
    """One member of a classic group, as its client knows it."""

    instance: str | None
    member: str
    generation: int = -1
    leader: str = ""
    assignment: bytes = b""
    protocol: str = "range"


@dataclass(slots=True)
class Conversation:
    """Everything a row needs.

    Parameters
    ----------
    group: this row's own group id.
    """

    target: Target
    group: str
    _tasks: list[asyncio.Task[Any]] = field(default_factory=list)

    @property
    def version(self) -> tuple[int, ...]:
        """Return the version of Kafka whose rules hold."""
        return self.target.version

    async def ask(self, request: m.Request) -> Any:
        """Send a message of the model and return its answer."""
        return await self.target.client.ask(request)

    async def call(self, api: int, version: int, **body: Any) -> Any:
        """Send a request in exactly this version."""
        return await self.target.client.call(api, version, **body)

    # the classic protocol

    async def join(
        self,
        instance: str | None = None,
        member: str = "",
        *,
        protocols: Sequence[str | tuple[str, bytes]] = ("range",),
        session_ms: int = 30_000,
        rebalance_ms: int = 30_000,
        version: int = 9,
        protocol_type: str = "consumer",
    ) -> m.JoinGroupResponse:
        """Send JoinGroup; a protocol without metadata brings a subscription to `orders`."""
        offered = [p if isinstance(p, tuple) else (p, subscription("orders")) for p in protocols]
        request = m.JoinGroupRequest(
            api_version=version,
            group_id=self.group,
            member_id=member,
            group_instance_id=instance,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            protocol_type=protocol_type,
            protocols=tuple(m.Protocol(name, metadata) for name, metadata in offered),
        )
        return cast(m.JoinGroupResponse, await self.ask(request))

    async def join_dynamic(self, member: str = "", **options: Any) -> m.JoinGroupResponse:
        """Join without an instance id: ask for a member id first, then join with it."""
        if not member:
            asked = await self.join(**options)
            assert asked.error_code is E.MEMBER_ID_REQUIRED
            member = asked.member_id
        return await self.join(member=member, **options)

    async def sync(
        self,
        seat: Seat,
        assignments: Sequence[tuple[str, bytes]] = (),
        *,
        instance: str | None = "own",
        member: str | None = None,
    ) -> m.SyncGroupResponse:
        """Send SyncGroup; what is given replaces what the seat holds."""
        request = m.SyncGroupRequest(
            group_id=self.group,
            generation_id=seat.generation,
            member_id=seat.member if member is None else member,
            group_instance_id=seat.instance if instance == "own" else instance,
            protocol_type="consumer",
            protocol_name=seat.protocol,
            assignments=tuple(assignments),
        )
        return cast(m.SyncGroupResponse, await self.ask(request))

    async def heartbeat(
        self, seat: Seat, *, instance: str | None = "own", member: str | None = None, generation: int | None = None
    ) -> ErrorCode:
        """Send Heartbeat and return its error."""
        request = m.HeartbeatRequest(
            group_id=self.group,
            generation_id=seat.generation if generation is None else generation,
            member_id=seat.member if member is None else member,
            group_instance_id=seat.instance if instance == "own" else instance,
        )
        return (await self.ask(request)).error_code  # type: ignore[no-any-return]

    async def form(self, *instances: str | None, **options: Any) -> list[Seat]:
        """Bring up a Stable classic group with one member per instance id (None: a dynamic one), in one generation."""
        joins = [self.join(name, **options) if name else self.join_dynamic(**options) for name in instances]
        answers = await asyncio.gather(*joins)
        seats = [
            Seat(name, a.member_id, a.generation_id, a.leader, protocol=a.protocol_name or "")
            for name, a in zip(instances, answers, strict=True)
        ]
        assert [a.error_code for a in answers] == [E.NONE] * len(answers)
        assert len({seat.generation for seat in seats}) == 1, "the members did not meet in one generation"
        await self.sync_all(seats)
        return seats

    async def sync_all(self, seats: Sequence[Seat]) -> None:
        """Let every member sync; the leader gives the first seat partition 0 of `orders`, the second 1, …."""
        plan = [(seat.member, assignment(("orders", (i,)))) for i, seat in enumerate(seats)]
        answers = await asyncio.gather(*(self.sync(s, plan if s.member == s.leader else ()) for s in seats))
        for seat, answer, (_, planned) in zip(seats, answers, plan, strict=True):
            assert (answer.error_code, answer.assignment) == (E.NONE, planned)
            seat.assignment = answer.assignment

    async def rejoin(self, seats: Sequence[Seat], **options: Any) -> None:
        """Let members join again with their ids and sync, as clients do after REBALANCE_IN_PROGRESS."""
        answers = await asyncio.gather(*(self.join(s.instance, s.member, **options) for s in seats))
        for seat, answer in zip(seats, answers, strict=True):
            assert answer.error_code is E.NONE, answer
            seat.generation, seat.leader = answer.generation_id, answer.leader
            seat.protocol = answer.protocol_name or ""
        await self.sync_all(seats)

    async def describe(self, version: int = 6) -> m.DescribedGroup:
        """Describe the classic group."""
        answer = await self.ask(m.DescribeGroupsRequest(api_version=version, groups=(self.group,)))
        return cast(m.DescribedGroup, answer.groups[0])

    async def state(self) -> str:
        """Return the classic group's state."""
        return (await self.describe()).group_state

    async def group_type(self) -> str:
        """Return classic, consumer or streams as ListGroups tells it; empty when the group does not exist."""
        listed = await self.ask(m.ListGroupsRequest())
        return next((g.group_type.lower() for g in listed.groups if g.group_id == self.group), "")

    # removal

    async def leave(self, *entries: tuple[str, str | None], version: int = 5) -> list[ErrorCode]:
        """Send LeaveGroup with (member id, instance id) entries; returns the members' errors."""
        answer = await self.leave_answer(*entries, version=version)
        assert answer.error_code is E.NONE
        return [member.error_code for member in answer.members]

    async def leave_answer(self, *entries: tuple[str, str | None], version: int = 5) -> m.LeaveGroupResponse:
        """Send LeaveGroup and return all of its answer; version 5 carries a reason."""
        members = tuple(
            m.MemberIdentity(member_id=member, group_instance_id=instance, reason="conformance")
            for member, instance in entries
        )
        request = m.LeaveGroupRequest(api_version=version, group_id=self.group, members=members)
        return cast(m.LeaveGroupResponse, await self.ask(request))

    # KIP-848

    async def beat(
        self,
        member: str,
        epoch: int,
        *,
        instance: str | None = None,
        topics: Sequence[str] | None = None,
        owned: m.TopicPartitions | None = None,
        rebalance_ms: int | None = None,
        **options: Any,
    ) -> m.ConsumerGroupHeartbeatResponse:
        """Send ConsumerGroupHeartbeat; a join (epoch 0) subscribes to `orders` and owns nothing by default."""
        if epoch == 0:
            topics = ("orders",) if topics is None else topics
            owned = () if owned is None else owned
            rebalance_ms = 30_000 if rebalance_ms is None else rebalance_ms
        request = m.ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=member,
            member_epoch=epoch,
            group_instance_id=instance,
            rebalance_timeout_ms=-1 if rebalance_ms is None else rebalance_ms,
            subscribed_topic_names=None if topics is None else tuple(topics),
            topic_partitions=owned,
            **options,
        )
        return cast(m.ConsumerGroupHeartbeatResponse, await self.ask(request))

    async def describe_consumer(self) -> m.ConsumerGroupDescribedGroup:
        """Describe the KIP-848 group."""
        answer = await self.ask(m.ConsumerGroupDescribeRequest(group_ids=(self.group,)))
        return cast(m.ConsumerGroupDescribedGroup, answer.groups[0])

    async def epoch(self) -> int:
        """Return the group epoch of a KIP-848 group."""
        return (await self.describe_consumer()).group_epoch

    async def set_config(self, **values: int | None) -> AlterGroupConfigResponse:
        """Set group properties; underscores stand for dots, None deletes."""
        pairs = tuple((name.replace("_", "."), None if v is None else str(v)) for name, v in values.items())
        request = AlterGroupConfigRequest(group_id=self.group, configs=pairs)
        return cast(AlterGroupConfigResponse, await self.ask(request))

    # time

    def later(self, waiting: Awaitable[T]) -> asyncio.Task[T]:
        """Start a request that will wait."""

        async def run() -> T:
            return await waiting

        task = asyncio.create_task(run())
        self._tasks.append(task)
        return task

    async def parked(self, waiting: Awaitable[T]) -> asyncio.Task[T]:
        """Start a request and make sure that it waits."""
        task = self.later(waiting)
        await asyncio.sleep(NOT_YET_S)
        assert not task.done(), f"answered at once: {task.result()}"
        return task

    async def until(self, condition: Callable[[], Awaitable[bool]], within_s: float = EVENTUALLY_S) -> float:
        """Wait until something holds; returns the seconds that it took."""
        began_s = time.monotonic()
        while not await condition():
            assert time.monotonic() - began_s < within_s, "did not come true in time"
            await asyncio.sleep(0.05)
        return time.monotonic() - began_s

    async def loaded(self) -> None:
        """Wait until the group's shard has a coordinator that has read its log."""

        async def serves() -> bool:
            return (await self.describe(version=5)).error_code not in _LOADING

        await self.until(serves, within_s=60.0)

    async def end(self) -> None:
        """Drop what still waits."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@dataclass(slots=True)
class Member:
    """A KIP-848 member as a well-behaved client: it owns its assignment and acknowledges it with the next heartbeat."""

    talk: Conversation
    instance: str | None = None
    topics: tuple[str, ...] = ("orders",)
    member: str = field(default_factory=lambda: str(uuid.uuid4()))
    epoch: int = 0
    owned: m.TopicPartitions = ()
    options: dict[str, Any] = field(default_factory=dict)

    async def beat(self) -> m.ConsumerGroupHeartbeatResponse:
        """Heartbeat with everything (a full request), and take over what the answer says."""
        answer = await self.talk.beat(
            self.member, self.epoch, instance=self.instance, topics=self.topics, owned=self.owned, rebalance_ms=30_000,
            **self.options,
        )
        if answer.error_code is E.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = answer.assignment
        return answer

    async def join(self) -> Member:
        """Join, which must succeed."""
        answer = await self.beat()
        assert answer.error_code is E.NONE, answer
        return self

    @property
    def partitions(self) -> frozenset[tuple[str, int]]:
        """Return what this member owns."""
        return frozenset((topic, partition) for topic, partitions in self.owned for partition in partitions)


async def settle(*members: Member) -> None:
    """Let members heartbeat in turn until all have the group's epoch and nothing changes any more."""
    async with asyncio.timeout(EVENTUALLY_S):
        while True:
            before = [(member.epoch, member.owned) for member in members]
            for member in members:
                answer = await member.beat()
                assert answer.error_code is E.NONE, answer
            described = await members[0].talk.describe_consumer()
            still = before == [(member.epoch, member.owned) for member in members]
            if still and all(member.epoch == described.group_epoch for member in members):
                return


async def consumer_group(talk: Conversation, *instances: str | None, **options: Any) -> list[Member]:
    """Bring up a KIP-848 group with one member per instance id (None: dynamic), reconciled."""
    members = [Member(talk, instance, options=dict(options)) for instance in instances]
    for member in members:
        await member.join()
    await settle(*members)
    return members
