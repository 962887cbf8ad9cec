"""A coordinator with a streams group, and the heartbeats of its members."""

from __future__ import annotations

from conformance.answers import expect
from coordinator_model.base.image import TopicImage
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.coordinator import GroupCoordinator
from coordinator_model.streams.group import StreamsGroup
from coordinator_model.streams.messages import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    Topology,
)

GROUP = "app"
TOPOLOGY = Topology(0, (Subtopology("s", ("foo",), is_stateful=True),))


def coordinator(partitions: int = 4, **chosen: object) -> GroupCoordinator:
    at_once = {"streams_initial_rebalance_delay_ms": 0, "streams_assignment_interval_ms": 0}
    values: dict[str, object] = {**at_once, **chosen}
    return GroupCoordinator(BrokerSettings(**values), image=TopicImage({"foo": partitions}))  # type: ignore[arg-type]


def join(member_id: str, process_id: str = "p", **fields: object) -> StreamsGroupHeartbeatRequest:
    values: dict[str, object] = {"topology": TOPOLOGY, "rebalance_timeout_ms": 1_500, **fields}
    return StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        process_id=process_id,
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
        **values,  # type: ignore[arg-type]
    )


def beat(member_id: str, epoch: int, active: TaskIds | None = None, **fields: object) -> StreamsGroupHeartbeatRequest:
    others: TaskIds | None = None if active is None else ()
    values: dict[str, object] = {"standby_tasks": others, "warmup_tasks": others, **fields}
    return StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        active_tasks=active,
        **values,  # type: ignore[arg-type]
    )


def send(broker: GroupCoordinator, request: StreamsGroupHeartbeatRequest, now_ms: int) -> StreamsGroupHeartbeatResponse:
    return expect(StreamsGroupHeartbeatResponse, broker.handle(request, now_ms).response)


def group(broker: GroupCoordinator) -> StreamsGroup:
    return expect(StreamsGroup, broker.groups[GROUP])
