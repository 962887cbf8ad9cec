"""A Kafka Streams application as the coordinator sees it: one member per thread, all of one process."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.base.records import Record, RecordType
from coordinator_model.base.result import Result
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.coordinator import GroupCoordinator
from coordinator_model.streams.messages import (
    StreamsGroupDescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    Topology,
)

GROUP = "app"
TOPOLOGY = Topology(0, (Subtopology("subtopology1", ("foo",)),))
ALL_FOUR = (("subtopology1", (0, 1, 2, 3)),)


def coordinator(partitions: int = 4, **settings: object) -> GroupCoordinator:
    """A coordinator with topic foo and, by default, no initial delay and no assignment interval."""
    at_once = {"streams_initial_rebalance_delay_ms": 0, "streams_assignment_interval_ms": 0}
    chosen: dict[str, object] = {**at_once, **settings}
    return GroupCoordinator(BrokerSettings(**chosen), image=TopicImage({"foo": partitions}))  # type: ignore[arg-type]


def join(member_id: str, instance_id: str | None = None, **fields: object) -> StreamsGroupHeartbeatRequest:
    values: dict[str, object] = {
        "group_id": GROUP, "member_id": member_id, "group_instance_id": instance_id, "process_id": "process",
        "rebalance_timeout_ms": 1_500, "topology": TOPOLOGY, "active_tasks": (), "standby_tasks": (),
        "warmup_tasks": (), **fields,
    }
    return StreamsGroupHeartbeatRequest(**values)  # type: ignore[arg-type]


def beat(
    member_id: str, epoch: int, instance_id: str | None = None, active: TaskIds | None = None
) -> StreamsGroupHeartbeatRequest:
    others: TaskIds | None = None if active is None else ()
    return StreamsGroupHeartbeatRequest(
        group_id=GROUP, member_id=member_id, member_epoch=epoch, group_instance_id=instance_id, active_tasks=active,
        standby_tasks=others, warmup_tasks=others,
    )


def answer(result: Result) -> StreamsGroupHeartbeatResponse:
    assert isinstance(result.response, StreamsGroupHeartbeatResponse)
    return result.response


def accepted(result: Result) -> StreamsGroupHeartbeatResponse:
    response = answer(result)
    assert response.error_code is ErrorCode.NONE, response.error_message
    return response


def describe(coordinator: GroupCoordinator, now_ms: int = 0) -> StreamsGroupDescribedGroup:
    response = coordinator.handle(StreamsGroupDescribeRequest(group_ids=(GROUP,)), now_ms).response
    assert isinstance(response, StreamsGroupDescribeResponse)
    return response.groups[0]


def types(records: tuple[Record, ...]) -> list[RecordType]:
    return [record.record_type for record in records]


def epochs(broker: GroupCoordinator) -> tuple[int, dict[str, int]]:
    group = describe(broker)
    return group.group_epoch, {member.member_id: member.member_epoch for member in group.members}


@dataclass
class Thread:
    """One stream thread: it joins, acknowledges its tasks, and reacts to errors as StreamThread does."""

    member_id: str
    instance_id: str | None
    epoch: int = 0
    tasks: TaskIds = ()
    state: str = "CREATED"
    assignments: int = 0


@dataclass
class App:
    """A KafkaStreams instance.

    Parameters
    ----------
    instance_id: group.instance.id; thread n is known as `<instance id>-<n>`, n from 1 (StreamsConfig).
    process_id: the same after a restart only if the state directory was kept.
    """

    coordinator: GroupCoordinator
    name: str
    instance_id: str | None
    process_id: str
    count: int = 2
    starts: int = 0
    threads: list[Thread] = field(default_factory=list)

    @property
    def state(self) -> str:
        """ERROR once all threads died, RUNNING while one runs."""
        states = {thread.state for thread in self.threads}
        return "RUNNING" if "RUNNING" in states else "ERROR" if states == {"DEAD"} else "REBALANCING"

    def start(self, now_ms: int) -> None:
        self.starts += 1
        self.threads = []
        for n in range(1, self.count + 1):
            instance_id = None if self.instance_id is None else f"{self.instance_id}-{n}"
            thread = Thread(f"{self.name}-{self.starts}-{n}", instance_id)
            self.threads.append(thread)
            self._send(thread, join(thread.member_id, instance_id, process_id=self.process_id), now_ms)

    def beat(self, now_ms: int) -> None:
        for thread in self.threads:
            if thread.state == "RUNNING":
                self._send(thread, beat(thread.member_id, thread.epoch, thread.instance_id, thread.tasks), now_ms)

    def close(self, now_ms: int, *, leave: bool) -> None:
        """Close with LEAVE_GROUP, or with the default, which for a static member means: back soon."""
        for thread in self.threads:
            self._leave(thread, now_ms, leave=leave)
        self.threads = []

    def remove_thread(self, now_ms: int) -> None:
        """KafkaStreams.removeStreamThread: that member leaves for good."""
        self._leave(self.threads.pop(), now_ms, leave=True)

    def _leave(self, thread: Thread, now_ms: int, *, leave: bool) -> None:
        epoch = -1 if leave or thread.instance_id is None else -2
        self.coordinator.handle(beat(thread.member_id, epoch, thread.instance_id), now_ms)

    def _send(self, thread: Thread, request: StreamsGroupHeartbeatRequest, now_ms: int) -> None:
        response = answer(self.coordinator.handle(request, now_ms))
        if response.error_code in (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID):
            thread.state = "DEAD"
            return
        if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            thread.tasks = ()
            fresh = join(thread.member_id, thread.instance_id, process_id=self.process_id)
            response = accepted(self.coordinator.handle(fresh, now_ms))
        thread.state = "RUNNING"
        thread.epoch = response.member_epoch
        if response.active_tasks is not None:
            thread.tasks = response.active_tasks
            thread.assignments += 1


def settle(*apps: App, now_ms: int, rounds: int = 4) -> None:
    """Let all members heartbeat until nothing is left to revoke or to take."""
    for _ in range(rounds):
        for app in apps:
            app.beat(now_ms)
