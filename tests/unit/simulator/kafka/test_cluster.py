"""Fail-over, faults and ground truth of the model cluster."""

from __future__ import annotations

import asyncio

import pytest

from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
)
from simulator.engine.loop import simulation
from simulator.kafka.cluster import ModelKafkaCluster
from simulator.kafka.network import ConnectionLost, KafkaLink, RequestTimeout
from support.narrowing import of_type, some

from ..kafka_world import GROUP, PARTITIONS, KafkaWorld
from ..virtual_time import simulated


def _leave(member_id: str, instance_id: str) -> LeaveGroupRequest:
    return LeaveGroupRequest(
        group_id=GROUP, members=(MemberIdentity(member_id=member_id, group_instance_id=instance_id),)
    )


def _foreign_link() -> KafkaLink:
    return KafkaLink(name="foreign", timeout_s=10.0)


@simulated
async def test_a_fail_over_between_the_acknowledged_leave_and_the_next_generation_resurrects_the_member() -> None:
    """Seen on 4.4.0: LeaveGroup answers 0, the coordinator changes before the leader's sync, the member is back."""
    world = await KafkaWorld.running()
    member = await world.member_of("web-2")
    world.kill("uid-2")
    response = of_type(LeaveGroupResponse, await world.cluster.request(_foreign_link(), _leave(member, "web-2")))
    assert response.members[0].error_code is ErrorCode.NONE
    assert not await world.member_of("web-2")
    world.cluster.fail_over(GROUP, outage_s=0.2)
    await asyncio.sleep(1)
    assert await world.member_of("web-2") == member
    repeated = of_type(LeaveGroupResponse, await world.cluster.request(_foreign_link(), _leave(member, "web-2")))
    assert repeated.members[0].error_code is ErrorCode.NONE, "the same pair is safe to send again"


@simulated
async def test_a_fail_over_after_the_next_generation_keeps_the_removal() -> None:
    world = await KafkaWorld.running()
    member = await world.member_of("web-2")
    world.kill("uid-2")
    await world.cluster.request(_foreign_link(), _leave(member, "web-2"))
    await asyncio.sleep(30)
    rounds = set(world.meter.rounds)
    world.cluster.fail_over(GROUP, is_clean=False, outage_s=6.0)
    await asyncio.sleep(60)
    assert not await world.member_of("web-2")
    assert world.meter.rounds == rounds, "the survivors notice nothing"
    assert world.owner("uid-0") + world.owner("uid-1") == PARTITIONS


@simulated
async def test_a_kip848_removal_survives_a_fail_over_at_once() -> None:
    """Seen on 4.4.0: records first, then the answer."""
    world = await KafkaWorld.running(protocol="consumer")
    member = await world.member_of("web-2")
    world.kill("uid-2")
    await world.cluster.request(_foreign_link(), _leave(member, "web-2"))
    world.cluster.fail_over(GROUP, outage_s=0.2)
    await asyncio.sleep(1)
    assert not await world.member_of("web-2")


@simulated
async def test_session_timers_start_in_full_after_a_fail_over() -> None:
    """GroupMetadataManager.onLoaded; seen on 4.4.0 for both protocols."""
    world = await KafkaWorld.running()
    world.kill("uid-2")
    await asyncio.sleep(25)
    world.cluster.fail_over(GROUP, outage_s=0.2)
    loaded_s = world.loop.time() + 0.2
    await asyncio.sleep(44)
    assert await world.member_of("web-2")
    await asyncio.sleep(loaded_s + 46 - world.loop.time())
    assert not await world.member_of("web-2")


@simulated
async def test_a_leave_whose_answer_is_lost_was_applied_once() -> None:
    world = await KafkaWorld.running()
    member = await world.member_of("web-2")
    link = _foreign_link()
    link.coordinators[GROUP] = world.cluster.locate(GROUP) or 0
    link.answers_to_lose = 1
    with pytest.raises(RequestTimeout):
        await world.cluster.request(link, _leave(member, "web-2"))
    again = of_type(LeaveGroupResponse, await world.cluster.request(link, _leave(member, "web-2")))
    assert again.members[0].error_code is not ErrorCode.NONE
    removed = [a for a in world.cluster.applied if a.error_code is ErrorCode.NONE]
    assert [(a.member_id, a.instance_id, a.client) for a in removed] == [(member, "web-2", "foreign")]


@simulated
async def test_a_lost_request_was_not_applied() -> None:
    world = await KafkaWorld.running()
    member = await world.member_of("web-2")
    link = _foreign_link()
    link.coordinators[GROUP] = world.cluster.locate(GROUP) or 0
    link.requests_to_lose = 1
    asked_s = world.loop.time()
    with pytest.raises(RequestTimeout):
        await world.cluster.request(link, _leave(member, "web-2"))
    assert world.loop.time() - asked_s == pytest.approx(link.timeout_s)
    assert world.cluster.applied == []


@pytest.mark.parametrize(("cut_after_s", "is_applied"), [(0.0, False), (0.03, False), (0.07, True)])
@simulated
async def test_a_cut_link_passes_nothing_in_either_direction(cut_after_s: float, is_applied: bool) -> None:
    world = await KafkaWorld.running()
    member = await world.member_of("web-2")
    link = KafkaLink(name="foreign", latency_s=0.05, coordinators={GROUP: world.cluster.locate(GROUP) or 0})
    asked = asyncio.ensure_future(world.cluster.request(link, _leave(member, "web-2")))
    await asyncio.sleep(cut_after_s)
    link.is_cut = True
    with pytest.raises(RequestTimeout):
        await asked
    assert [a.member_id for a in world.cluster.applied] == [member] * is_applied


@simulated
async def test_what_was_sent_arrives_though_its_sender_is_dead() -> None:
    world = await KafkaWorld.running()
    member = await world.member_of("web-2")
    link = KafkaLink(name="foreign", latency_s=0.05, coordinators={GROUP: world.cluster.locate(GROUP) or 0})
    sender = world.loop.process("sender")
    task = sender.start(world.cluster.request(link, _leave(member, "web-2")))
    await asyncio.sleep(0.01)
    sender.kill()
    link.is_dead = True
    await asyncio.sleep(1)
    assert [a.member_id for a in world.cluster.applied] == [member]
    assert not task.done()
    with pytest.raises(ConnectionLost):
        await world.cluster.request(link, _leave(member, "web-2"))


@simulated
async def test_a_killed_broker_breaks_connections_and_another_takes_over() -> None:
    world = await KafkaWorld.running()
    before = some(world.cluster.locate(GROUP))
    rounds = set(world.meter.rounds)
    world.cluster.kill_broker(before, outage_s=6.0)
    with pytest.raises(ConnectionLost):
        await world.cluster.request(_foreign_link(), DescribeGroupsRequest(groups=(GROUP,)), node_id=before)
    assert world.cluster.locate(GROUP) is None
    await asyncio.sleep(60)
    assert world.cluster.locate(GROUP) not in (None, before)
    assert len((await world.view()).members) == 3
    assert world.meter.rounds == rounds
    world.cluster.start_broker(before)
    assert world.cluster.is_up(before)


@simulated
async def test_with_every_broker_down_nothing_answers_until_one_is_back() -> None:
    world = await KafkaWorld.running()
    for node_id in world.cluster.brokers:
        world.cluster.kill_broker(node_id)
    await asyncio.sleep(20)
    with pytest.raises(ConnectionLost):
        await world.cluster.request(_foreign_link(), DescribeGroupsRequest(groups=(GROUP,)))
    world.cluster.start_broker(2)
    await asyncio.sleep(30)
    assert world.cluster.locate(GROUP) == 2
    assert len((await world.view()).members) == 3


@pytest.mark.parametrize("is_clean", [True, False])
@simulated
async def test_a_join_that_waits_ends_with_the_resigning_coordinator(is_clean: bool) -> None:
    """GroupMetadataManager.onUnloaded: waiting joins are answered NOT_COORDINATOR; a killed broker answers nothing."""
    cluster = ModelKafkaCluster(simulation())
    link = _foreign_link()
    waiting = asyncio.ensure_future(
        cluster.request(link, JoinGroupRequest(group_id=GROUP, group_instance_id="a"), timeout_s=60)
    )
    await asyncio.sleep(1)
    assert not waiting.done(), "the initial rebalance delay is 3 s"
    cluster.fail_over(GROUP, is_clean=is_clean)
    if is_clean:
        assert (await waiting).error_code is ErrorCode.NOT_COORDINATOR
    else:
        with pytest.raises(ConnectionLost):
            await waiting
    assert GROUP not in link.coordinators, "the client looks its coordinator up again"


@simulated
async def test_a_broker_that_does_not_coordinate_says_so() -> None:
    world = await KafkaWorld.running()
    wrong = next(n for n in world.cluster.brokers if n != world.cluster.locate(GROUP))
    answer = await world.cluster.request(_foreign_link(), _leave("m", "i"), node_id=wrong)
    assert answer.error_code is ErrorCode.NOT_COORDINATOR
    described = await world.cluster.request(_foreign_link(), DescribeGroupsRequest(groups=(GROUP,)), node_id=wrong)
    assert isinstance(described, DescribeGroupsResponse)
    assert described.groups[0].error_code is ErrorCode.NOT_COORDINATOR
    assert world.cluster.applied == []


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR]
)
@simulated
async def test_a_coordinator_that_refuses_for_a_while_costs_no_rebalance(code: ErrorCode) -> None:
    world = await KafkaWorld.running()
    rounds = set(world.meter.rounds)
    world.cluster.refuse(GROUP, code, for_s=20.0)
    refused = await world.cluster.request(_foreign_link(), _leave("m", "i"))
    assert refused.error_code is code
    await asyncio.sleep(100)
    assert world.meter.rounds == rounds
    assert len((await world.view()).members) == 3


@simulated
async def test_a_stale_describe_shows_what_was_before_and_writes_see_what_is() -> None:
    """Seen on 4.4.0: right after a fail-over a describe showed the state before the removal."""
    world = await KafkaWorld.running()
    member = await world.member_of("web-2")
    world.kill("uid-2")
    await world.cluster.request(_foreign_link(), _leave(member, "web-2"))
    await asyncio.sleep(30)
    world.cluster.read_stale(GROUP, behind_s=31.0, for_s=5.0)
    assert await world.member_of("web-2") == member
    again = of_type(LeaveGroupResponse, await world.cluster.request(_foreign_link(), _leave(member, "web-2")))
    assert again.members[0].error_code is ErrorCode.UNKNOWN_MEMBER_ID
    await asyncio.sleep(5)
    assert not await world.member_of("web-2")


@simulated
async def test_a_log_that_refuses_appends_lets_no_new_generation_through() -> None:
    cluster = ModelKafkaCluster(simulation())
    link = _foreign_link()
    joined = await cluster.request(link, JoinGroupRequest(group_id=GROUP, group_instance_id="a"))
    assert isinstance(joined, JoinGroupResponse)
    before = list(cluster.shard(GROUP).log)
    cluster.refuse_writes(GROUP, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    sync = SyncGroupRequest(group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id)
    assert (await cluster.request(link, sync)).error_code is not ErrorCode.NONE
    assert cluster.shard(GROUP).log == before
    cluster.fail_over(GROUP, outage_s=0.1)
    await asyncio.sleep(1)
    assert cluster.coordinator(GROUP).write_error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    cluster.refuse_writes(GROUP, None)
    assert cluster.coordinator(GROUP).write_error is None


@simulated
async def test_a_lost_right_is_an_error_and_changes_nothing() -> None:
    world = await KafkaWorld.running()
    member = await world.member_of("web-2")
    link = _foreign_link()
    world.cluster.deny(link.principal, "READ")
    refused = await world.cluster.request(link, _leave(member, "web-2"))
    assert refused.error_code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert world.cluster.applied == []
    world.cluster.grant(link.principal, "READ")
    assert (await world.cluster.request(link, _leave(member, "web-2"))).error_code is ErrorCode.NONE
    assert len(world.cluster.applied) == 1


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@simulated
async def test_the_creator_of_every_member_id_is_known_also_when_its_join_was_never_answered(protocol: str) -> None:
    world = KafkaWorld(protocol=protocol)
    world.start(0)
    process = world.process("uid-0")
    await asyncio.sleep(1.0075)
    assert process.links
    process.links[0].is_cut = True
    await asyncio.sleep(10)
    member = await world.member_of("web-0")
    assert member, "the coordinator took the join"
    assert world.table.creator(member) is process
    assert world.table.alive(member)
    world.kill("uid-0")
    assert not world.table.alive(member)
    assert world.table.alive(member, at_s=5.0)
    assert not world.table.alive(member, at_s=world.loop.time())
    with pytest.raises(KeyError):
        world.table.alive("nobody")


@simulated
async def test_a_pod_is_alive_while_any_of_its_containers_is() -> None:
    world = KafkaWorld()
    world.start(0)
    world.table.start(
        node="node-0", namespace="shop", pod_name="web-0", pod_uid="uid-0", container="sidecar", environment={}
    )
    await asyncio.sleep(30)
    member = await world.member_of("web-0")
    world.kill("uid-0")
    assert not world.table.alive(member)
    assert world.table.pod_alive(member)
    world.table.signal("uid-0", "sidecar", "TERM")
    await asyncio.sleep(0.1)
    assert not world.table.pod_alive(member)


@simulated
async def test_signals_reach_frozen_processes_as_in_linux() -> None:
    """SIGKILL ends a stopped process; SIGTERM waits until it goes on."""
    world = await KafkaWorld.running()
    world.table.freeze("node-0")
    world.table.freeze("node-1")
    world.terminate("uid-0")
    world.kill("uid-1")
    await asyncio.sleep(5)
    assert world.table.is_running("uid-0", "app")
    assert world.exits == [("uid-1", 137)]
    world.table.thaw("node-0")
    await asyncio.sleep(5)
    assert world.exits == [("uid-1", 137), ("uid-0", 0)]


@simulated
async def test_a_killed_node_reports_no_exit() -> None:
    world = await KafkaWorld.running()
    world.table.kill_node("node-1")
    await asyncio.sleep(1)
    assert world.exits == []
    assert not world.table.is_running("uid-1", "app")
    assert world.process("uid-1").ended_s == 60.0


@simulated
async def test_a_group_first_asked_for_while_its_broker_is_down_is_coordinated_elsewhere() -> None:
    usual = ModelKafkaCluster(simulation()).locate(GROUP)
    cluster = ModelKafkaCluster(simulation())
    assert usual is not None
    cluster.kill_broker(usual)
    assert cluster.locate(GROUP) not in (None, usual)


@simulated
async def test_a_group_follows_the_java_hash_to_its_partition() -> None:
    """Utils.abs("orders".hashCode()) % 50: the hash is -1008770331, whose lowest 31 bits are 1138713317."""
    cluster = ModelKafkaCluster(simulation())
    assert cluster.shard("orders").index == 1138713317 % 50
