"""Kafka Streams in whole rounds: threads of a pod leave together, by the call that their group's protocol has for it."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.core.group import GroupType, LeaveCall, ReleaseOutcome
from unit.core.crashes import crashed, over, runs

from .operator_world import OperatorWorld, guards

PODS, THREADS = 3, 3
STREAMS = {"type": "KafkaStreams", "concurrency": THREADS}
BOTH = pytest.mark.parametrize("group_type", [GroupType.CLASSIC, GroupType.STREAMS])
CALLS = {GroupType.CLASSIC: LeaveCall.LEAVE_GROUP, GroupType.STREAMS: LeaveCall.STREAMS_HEARTBEAT}


async def running(group_type: GroupType = GroupType.STREAMS, *, pods: int = PODS, **spec: Any) -> OperatorWorld:
    """Three pods of an application with three threads each, which the operator has seen run for minutes."""
    wanted = {"groupProtocol": "Auto", "client": STREAMS} | spec
    world = OperatorWorld(**wanted)
    world.kafka.group_type = group_type
    world.kafka.protocol_type = "streams" if group_type is GroupType.STREAMS else "consumer"
    await world.started(pods, "-1", "-2", "-3", required=(runs(),), phase_written_at_s=world.now_s)
    world.now_s += 20
    return world


def thread_ids(world: OperatorWorld, ordinal: int, threads: int = THREADS) -> list[str]:
    return [f"{world.id_of(ordinal)}-{n}" for n in range(1, threads + 1)]


def members(world: OperatorWorld) -> tuple[int, int, int, int]:
    """(expected, joined, departed, foreign)"""
    found = world.status.members
    assert found is not None
    return found.expected, found.joined, found.departed, found.foreign


@BOTH
async def test_every_thread_is_expected_and_joined(group_type: GroupType) -> None:
    world = await running(group_type)
    assert members(world) == (9, 9, 0, 0)
    assert world.condition("Ready")[0] == "True", world.condition("Ready")
    assert world.status.protocol is not None
    assert world.status.protocol.value == group_type.value


@BOTH
async def test_all_threads_of_a_scaled_down_pod_leave_in_one_round_after_the_reads(group_type: GroupType) -> None:
    world = await running(group_type)
    holders = dict(world.kafka.members)
    world.scale(2)
    world.end(2)
    await world.round()
    gone = thread_ids(world, 2)
    assert world.left == [(holders[i], i) for i in gone]
    assert world.did("leave") == [("orders", *(f"{holders[i]}/{i}" for i in gone))]
    assert world.kafka.called == [CALLS[group_type]]
    steps = [step for step, *_ in world.journal]
    safe = ["describe", "read_workload", "read_pod", "barrier", "chain", "leave"]
    last = {step: len(steps) - 1 - steps[::-1].index(step) for step in safe}
    assert sorted(safe, key=last.__getitem__) == safe
    await world.settled(3)
    assert members(world) == (6, 6, 0, 0)
    assert world.condition("RemovalSettled")[0] == "True"
    assert len(world.left) == 3


async def test_roll_to_fewer_threads_leaves_the_third_to_its_session_because_its_pod_lives_again() -> None:
    world = await running()
    world.declare(edited(world, client=STREAMS | {"concurrency": 2}))
    for ordinal in range(PODS):
        world.end(ordinal)
        world.start(ordinal, f"new-{ordinal}", joins=False)
        for instance_id in thread_ids(world, ordinal, 2):
            world.kafka.join(instance_id)
    await world.settled(6)
    assert world.left == []
    for ordinal in range(PODS):
        del world.kafka.members[f"{world.id_of(ordinal)}-3"]
    await world.settled(2)
    assert members(world) == (6, 6, 0, 0)
    assert world.condition("Ready")[0] == "True"


async def test_application_of_the_streams_protocol_under_another_type_is_reported_and_keeps_every_member() -> None:
    world = await running(client={"suffixes": ["-1", "-2", "-3"]})
    await world.departs(4)
    assert world.left == []
    assert guards(world) == ["UnsupportedGroupType"] * 3
    world.tells("MembershipComplete", "False", "ProtocolMismatch", "Set spec.client.type to KafkaStreams")
    world.declare(edited(world, client=STREAMS))
    await world.settled(4)
    assert [i for _, i in world.left] == thread_ids(world, 2)


async def test_every_thread_of_a_crashed_process_is_released_by_the_call_of_its_group() -> None:
    world = await running(removal="DepartedAndCrashed")
    ghosts = [world.kafka.members[i] for i in thread_ids(world, 0)]
    ended = crashed(last_end=over(finished_at_s=world.now_s - 0.5))
    world.start(0, joins=False, required=(ended,), ready_since_s=None, phase_written_at_s=world.now_s)
    await world.round()
    assert [(e.member_id, e.instance_id, o) for e, o in world.kafka.releases] == [
        (ghost, instance_id, ReleaseOutcome.RELEASED)
        for ghost, instance_id in zip(ghosts, thread_ids(world, 0), strict=True)
    ]
    assert world.kafka.called == [LeaveCall.STREAMS_HEARTBEAT] * 3
    assert world.left == []


async def test_release_of_a_thread_that_is_not_allowed_names_the_right_and_the_call() -> None:
    world = await running(removal="DepartedAndCrashed")
    world.kafka.release_outcome = ReleaseOutcome.NOT_AUTHORIZED
    ended = crashed(last_end=over(finished_at_s=world.now_s - 0.5))
    world.start(0, joins=False, required=(ended,), ready_since_s=None, phase_written_at_s=world.now_s)
    await world.round()
    message = world.tells("Authorized", "False", "ReadGroupDenied")
    assert message.startswith("StreamsGroupHeartbeat was refused")
    texts = [text for _, kind, text in world.kube.events if kind == "ReleaseRefused"]
    assert [text.partition(" ")[0] for text in texts] == ["StreamsGroupHeartbeat"] * 3


def edited(world: OperatorWorld, **spec: Any) -> dict[str, Any]:
    body = world.kube.objects["staticgroups", "shop", "orders"]
    metadata = body["metadata"] | {"generation": body["metadata"]["generation"] + 1}
    changed: dict[str, Any] = body | {"metadata": metadata, "spec": body["spec"] | spec}
    return changed
