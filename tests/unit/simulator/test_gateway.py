"""The real gateway's own rules hold over the model cluster, and everything it sends is on record."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest

from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.streams import messages as streams
from simulator.engine.loop import Process
from simulator.kafka.network import KafkaLink
from simulator.operators.gateway import ModelKafkaGateway, WireLeave
from simulator.operators.translation import broker_address
from staticgroup.core.group import (
    BrokerBounds,
    GroupType,
    GroupView,
    KafkaProblem,
    KafkaProblemKind,
    LeaveCall,
    LeaveEntry,
    LeaveOutcome,
    LeaveResult,
    ReleaseOutcome,
)
from staticgroup.kafka.gateway import ClusterFacts
from staticgroup.kafka.login.credentials import ConnectionSettings
from staticgroup.kafka.rights import GroupRights
from support.bounds import broker_bounds
from support.narrowing import of_type
from support.sockets import socket_count

from .kafka_world import CONNECTION, GROUP, KafkaWorld
from .virtual_time import simulated

PRINCIPAL = CONNECTION.principal
TASKS = ("active_tasks", "standby_tasks", "warmup_tasks")


async def _entry(world: KafkaWorld, instance_id: str) -> LeaveEntry:
    return LeaveEntry(member_id=await world.member_of(instance_id), instance_id=instance_id, reason="scaled 3→2")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@simulated
async def test_a_group_is_read_completely(protocol: str) -> None:
    world = await KafkaWorld.running(protocol=protocol)
    view = await world.view()
    assert view.group_type is (GroupType.CLASSIC if protocol == "classic" else GroupType.CONSUMER)
    assert view.is_settled
    assert view.protocol_type == "consumer"
    assert [m.assigned_partitions for m in view.members] == [4, 4, 4]
    address = broker_address(world.cluster.locate(GROUP) or 0)
    assert view.coordinator == f"{world.cluster.locate(GROUP)}@{address.host}:{address.port}"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@simulated
async def test_a_leave_is_a_compare_and_set_and_is_recorded(protocol: str) -> None:
    world = await KafkaWorld.running(protocol=protocol)
    right = await _entry(world, "web-2")
    wrong = LeaveEntry(member_id=right.member_id, instance_id="web-1")
    unknown = LeaveEntry(member_id=right.member_id, instance_id="web-9")
    world.kill("uid-2")
    before_s = world.loop.time()
    result = of_type(LeaveResult, await world.gateway.leave(CONNECTION, GROUP, [wrong, unknown, right]))
    assert result.outcomes == (LeaveOutcome.FENCED, LeaveOutcome.UNKNOWN, LeaveOutcome.REMOVED)
    (sent,) = world.gateway.leaves
    assert (sent.operator, sent.group_id, sent.principal) == ("operator-a", GROUP, PRINCIPAL)
    assert sent.members == tuple((e.member_id, e.instance_id) for e in (wrong, unknown, right))
    assert sent.reasons[2] == "scaled 3→2"
    assert before_s <= sent.invoked_s < (sent.returned_s or 0)
    assert [ErrorCode(c).name for c in sent.codes] == ["FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID", "NONE"]
    assert {m.instance_id for m in (await world.view()).members} == {"web-0", "web-1"}


async def _application(world: KafkaWorld, pods: int = 3, threads: int = 2) -> dict[str, str]:
    """Start a streams application whose threads are members `web-<pod>-<thread>`; returns the member id of each."""
    topology = streams.Topology(1, (streams.Subtopology("0", ("orders",)),))
    link, held = KafkaLink(name="app", principal="User:app", host="/10.1.0.1"), dict.fromkeys(TASKS, ())
    members = {f"web-{pod}-{thread}": f"m-{pod}-{thread}" for pod in range(pods) for thread in range(1, threads + 1)}
    epochs = dict.fromkeys(members, 0)

    async def beat(instance_id: str) -> None:
        joins = {"topology": topology, **held, "rebalance_timeout_ms": 30_000, "process_id": instance_id[:5]}
        request = streams.StreamsGroupHeartbeatRequest(
            group_id=GROUP, member_id=members[instance_id], group_instance_id=instance_id,
            member_epoch=epochs[instance_id], **(joins if not epochs[instance_id] else {}),
        )  # fmt: skip
        answer = await world.cluster.request(link, request, node_id=world.cluster.locate(GROUP) or 0, timeout_s=5.0)
        assert answer.error_code is ErrorCode.NONE, answer
        epochs[instance_id] = answer.member_epoch

    for _ in range(8):
        for instance_id in members:
            await beat(instance_id)
        await asyncio.sleep(3)
    return members


@simulated
async def test_a_streams_group_is_read_completely_and_its_departed_threads_leave_by_compare_and_set() -> None:
    """StreamsGroupDescribe and StreamsGroupHeartbeat on the model of Kafka 4.4."""
    world = KafkaWorld()
    members = await _application(world)
    before = await world.view()
    assert (before.group_type, before.state, before.is_settled) == (GroupType.STREAMS, "Stable", True)
    assert {m.instance_id: m.member_id for m in before.members} == members
    assert [m.assigned_partitions for m in before.members] == [2] * 6
    entries = [LeaveEntry(member_id=members[i], instance_id=i) for i in ("web-2-1", "web-2-2")]
    by_the_other = of_type(LeaveResult, await world.gateway.leave(CONNECTION, GROUP, entries))
    assert by_the_other.outcomes == (LeaveOutcome.UNKNOWN,) * 2, "LeaveGroup serves no streams group"
    wrong = LeaveEntry(member_id=members["web-2-1"], instance_id="web-1-1")
    result = await world.gateway.leave(CONNECTION, GROUP, [wrong, *entries], LeaveCall.STREAMS_HEARTBEAT)
    assert isinstance(result, LeaveResult)
    assert result.outcomes == (LeaveOutcome.FENCED, LeaveOutcome.REMOVED, LeaveOutcome.REMOVED)
    after = await world.view()
    assert {m.instance_id for m in after.members} == {f"web-{pod}-{thread}" for pod in range(2) for thread in (1, 2)}
    sent = {w.members: w.codes for w in world.gateway.leaves[1:]}
    codes = {"web-1-1": 82, "web-2-1": 0, "web-2-2": 0}
    assert sent == {((e.member_id, e.instance_id),): (codes[e.instance_id],) for e in (wrong, *entries)}
    assert {a.instance_id: int(a.error_code) for a in world.cluster.applied[2:]} == codes


@simulated
async def test_a_crashed_thread_of_a_streams_group_leaves_for_a_while_and_keeps_its_tasks() -> None:
    world = KafkaWorld()
    members = await _application(world)
    before = await world.view()
    ghost = LeaveEntry(member_id=members["web-2-1"], instance_id="web-2-1")
    result = of_type(ReleaseOutcome, await world.gateway.release(CONNECTION, GROUP, ghost, LeaveCall.STREAMS_HEARTBEAT))
    assert result is ReleaseOutcome.RELEASED
    after = await world.view()
    (away,) = (m for m in after.members if m.is_away)
    assert (away.instance_id, away.assigned_partitions) == ("web-2-1", 2)
    assert (after.group_epoch, len(after.members)) == (before.group_epoch, 6)
    other = LeaveEntry(member_id="m-9", instance_id="web-2-2")
    fenced = of_type(ReleaseOutcome, await world.gateway.release(CONNECTION, GROUP, other, LeaveCall.STREAMS_HEARTBEAT))
    assert fenced is ReleaseOutcome.FENCED


@simulated
async def test_a_temporary_leave_is_a_compare_and_set_and_lets_the_successor_in() -> None:
    """GroupMetadataManager.consumerGroupLeave; the session's timer and the partitions stay."""
    world = await KafkaWorld.running(protocol="consumer")
    ghost = await world.member_of("web-2")
    world.kill("uid-2")
    before = await world.view()

    async def released(member_id: str, instance_id: str) -> ReleaseOutcome:
        entry = LeaveEntry(member_id=member_id, instance_id=instance_id)
        result = of_type(ReleaseOutcome, await world.gateway.release(CONNECTION, GROUP, entry))
        return result

    assert await released(ghost, "web-1") is ReleaseOutcome.FENCED
    assert await released(ghost, "web-9") is ReleaseOutcome.UNKNOWN
    assert await released(ghost, "web-2") is ReleaseOutcome.RELEASED
    assert [s.error_code for s in world.gateway.releases] == [82, 25, 0]
    view = await world.view()
    (away,) = (m for m in view.members if m.instance_id == "web-2")
    assert (away.member_id, away.is_away) == (ghost, True)
    assert view.group_epoch == before.group_epoch
    world.start(2, uid="uid-2b")
    await asyncio.sleep(5)
    successor = await world.member_of("web-2")
    assert successor not in ("", ghost)
    assert (await world.view()).group_epoch == before.group_epoch
    assert await released(ghost, "web-2") is ReleaseOutcome.FENCED


@simulated
async def test_a_leave_whose_answer_is_lost_is_not_repeated_and_may_have_happened() -> None:
    world = await KafkaWorld.running()
    entry = await _entry(world, "web-2")
    world.kill("uid-2")
    world.gateway.link.answers_to_lose = 1
    connections = socket_count(world.gateway)
    result = of_type(LeaveResult, await world.gateway.leave(CONNECTION, GROUP, [entry]))
    assert socket_count(world.gateway) == connections - 1, "answers match requests by order, so it is closed"
    assert result.outcomes == (LeaveOutcome.RETRY,)
    (sent,) = world.gateway.leaves
    assert sent.returned_s is None
    assert [a.member_id for a in world.cluster.applied] == [entry.member_id]
    assert not await world.member_of("web-2")


@simulated
async def test_a_leave_waits_for_a_coordinator_that_is_loading() -> None:
    world = await KafkaWorld.running()
    entry = await _entry(world, "web-2")
    world.cluster.refuse(GROUP, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, for_s=2.0)
    result = of_type(LeaveResult, await world.gateway.leave(CONNECTION, GROUP, [entry]))
    assert result.outcomes == (LeaveOutcome.REMOVED,)
    assert len(world.gateway.leaves) > 1, "each attempt is on record"
    assert len([a for a in world.cluster.applied if a.error_code is ErrorCode.NONE]) == 1


@simulated
async def test_a_cluster_that_is_down_is_a_problem_and_then_well_again() -> None:
    world = await KafkaWorld.running()
    for node_id in world.cluster.brokers:
        world.cluster.kill_broker(node_id)
    problem = of_type(KafkaProblem, await world.gateway.describe(CONNECTION, GROUP))
    assert problem.kind in (KafkaProblemKind.UNREACHABLE, KafkaProblemKind.COORDINATOR_UNAVAILABLE)
    for node_id in world.cluster.brokers:
        world.cluster.start_broker(node_id)
    await asyncio.sleep(30)
    assert len((await world.view()).members) == 3


@simulated
async def test_a_cut_link_ends_at_the_deadline() -> None:
    world = await KafkaWorld.running()
    world.gateway.link.is_cut = True
    asked_s = world.loop.time()
    problem = of_type(KafkaProblem, await world.gateway.describe(CONNECTION, GROUP))
    assert problem.kind is KafkaProblemKind.UNREACHABLE
    assert world.loop.time() - asked_s <= CONNECTION.request_timeout_s + 0.1
    world.gateway.link.is_cut = False
    await asyncio.sleep(CONNECTION.request_timeout_s)  # silent brokers are left alone for as long as they were
    assert len((await world.view()).members) == 3


@simulated
async def test_a_dead_operator_is_refused_and_leaves_no_record() -> None:
    world = await KafkaWorld.running()
    entry = await _entry(world, "web-2")
    world.gateway.kill()
    answer = await world.gateway.leave(CONNECTION, GROUP, [entry])
    assert not isinstance(answer, LeaveResult) or answer.outcomes == (LeaveOutcome.RETRY,)
    assert isinstance(await world.gateway.describe(CONNECTION, GROUP), KafkaProblem)
    assert world.gateway.leaves == []
    assert world.cluster.applied == []


@simulated
async def test_a_leave_on_the_wire_is_applied_though_its_operator_was_killed() -> None:
    world = await KafkaWorld.running()
    entry = await _entry(world, "web-2")
    world.kill("uid-2")
    operator: Process = world.loop.process("operator-a")

    def kill(_sent: WireLeave) -> None:
        world.loop.call_soon(operator.kill)

    world.gateway.on_leave.append(kill)
    operator.start(world.gateway.leave(CONNECTION, GROUP, [entry]))
    await asyncio.sleep(5)
    assert operator.is_dead
    assert [a.member_id for a in world.cluster.applied] == [entry.member_id]
    assert world.gateway.leaves[0].returned_s is None


@pytest.mark.parametrize(
    ("operation", "missing"),
    [("READ", "READ on Group 'orders'"), ("DESCRIBE_CONFIGS", "DESCRIBE_CONFIGS on Group 'orders'")],
)
@simulated
async def test_missing_rights_are_named(operation: str, missing: str) -> None:
    world = await KafkaWorld.running()
    all_granted = of_type(GroupRights, await world.gateway.describe_rights(CONNECTION, GROUP))
    assert all_granted.missing == ()
    world.cluster.deny(PRINCIPAL, operation)
    rights = of_type(GroupRights, await world.gateway.describe_rights(CONNECTION, GROUP))
    assert any(acl.startswith(missing) for acl in rights.missing)


@simulated
async def test_without_describe_nothing_is_read() -> None:
    world = await KafkaWorld.running()
    world.cluster.deny(PRINCIPAL, "DESCRIBE")
    await asyncio.sleep(1)
    problem = of_type(KafkaProblem, await world.gateway.describe(CONNECTION, GROUP))
    assert problem.kind is KafkaProblemKind.NOT_AUTHORIZED
    rights = of_type(GroupRights, await world.gateway.describe_rights(CONNECTION, GROUP))
    assert not rights.describe_group


@simulated
async def test_members_hidden_for_want_of_a_topic_right_are_no_empty_group_consumer() -> None:
    """ConsumerGroupDescribe answers 29 and no members without DESCRIBE on the topics."""
    world = await KafkaWorld.running(protocol="consumer")
    world.cluster.deny(PRINCIPAL, "DESCRIBE_TOPIC")
    problem = of_type(KafkaProblem, await world.gateway.describe(CONNECTION, GROUP))
    assert problem.kind is KafkaProblemKind.NOT_AUTHORIZED


@simulated
async def test_a_stale_read_that_knows_no_group_is_not_believed() -> None:
    """Seen on 4.4.0: for a moment after a fail-over an existing group read as GROUP_ID_NOT_FOUND."""
    world = await KafkaWorld.running()
    await world.view()
    world.cluster.read_stale(GROUP, behind_s=1000.0, for_s=1.0)
    view = await world.view()
    assert len(view.members) == 3, "the product asks again for two seconds"


@simulated
async def test_bounds_are_those_of_the_brokers_and_of_the_group() -> None:
    world = await KafkaWorld.running(brokers=BrokerSettings(group_max_session_timeout_ms=300_000))
    world.cluster.group_configs[GROUP] = {"consumer.session.timeout.ms": "500000"}
    bounds = of_type(BrokerBounds, await world.gateway.bounds(CONNECTION, GROUP))
    assert bounds.misfits == {"consumer.session.timeout.ms": 60_000}
    assert replace(bounds, limits={}) == broker_bounds(
        classic_min_ms=6_000, classic_max_ms=300_000, consumer_min_ms=45_000, consumer_max_ms=60_000,
        consumer_session_ms=60_000, consumer_heartbeat_ms=5_000, streams_min_ms=45_000, streams_max_ms=60_000,
        streams_session_ms=45_000, streams_heartbeat_ms=5_000, stored={"consumer.session.timeout.ms": 500_000},
    )


@simulated
async def test_the_probe_returns_the_cluster_id_and_another_cluster_is_refused() -> None:
    world = await KafkaWorld.running()
    facts = of_type(ClusterFacts, await world.gateway.probe(CONNECTION))
    assert facts.cluster_id == world.cluster.cluster_id
    assert len(facts.brokers) == 3
    other = ConnectionSettings(bootstrap_servers=("kafka.example.com:9092",), cluster_id="another")
    problem = of_type(KafkaProblem, await world.gateway.describe(other, GROUP))
    assert problem.kind is KafkaProblemKind.WRONG_CLUSTER


@simulated
async def test_two_operators_have_links_of_their_own() -> None:
    world = await KafkaWorld.running()
    second = ModelKafkaGateway(world.cluster, name="operator-b", rng=random.Random(2))
    world.gateway.link.is_cut = True
    of_type(GroupView, await second.describe(CONNECTION, GROUP))
    assert isinstance(second.link, KafkaLink)
    assert second.link.name == "operator-b"
