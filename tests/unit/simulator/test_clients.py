"""The simulated clients react as the real libraries were seen to react."""

from __future__ import annotations

import asyncio

import pytest

from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import Request
from simulator.clients.partition_meter import PartitionMeter
from simulator.clients.settings import JAVA, LIBRARIES, LIBRDKAFKA, SARAMA
from simulator.kafka.network import Exchange
from staticgroup.core.group import LeaveEntry, LeaveResult

from .kafka_world import CONNECTION, GROUP, PARTITIONS, KafkaWorld, until
from .virtual_time import simulate, simulated

PROTOCOLS = ("classic", "consumer")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@simulated
async def test_a_group_starts_and_all_partitions_are_worked_on_once(protocol: str) -> None:
    world = await KafkaWorld.running(protocol=protocol)
    view = await world.view()
    assert {m.instance_id for m in view.members} == {"web-0", "web-1", "web-2"}
    assert view.state == "Stable"
    assert sorted(world.owner(f"uid-{n}") for n in range(3)) == [4, 4, 4]
    idle_s = world.meter.idle_s
    assert idle_s > 0
    await asyncio.sleep(60)
    assert world.meter.idle_s == idle_s
    assert world.meter.double_s == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("library", LIBRARIES)
@simulated
async def test_a_static_member_that_bounces_within_its_session_costs_no_rebalance(protocol: str, library: str) -> None:
    """KIP-345 case 6.1 (GroupMetadataManagerTest, static member rejoins while Stable); KIP-848: epoch -2 and back."""
    world = await KafkaWorld.running(protocol=protocol, library=LIBRARIES[library])
    rounds, revoked = set(world.meter.rounds), world.meter.revoked
    before = await world.member_of("web-1")
    world.terminate("uid-1")
    await asyncio.sleep(5)
    assert len((await world.view()).members) == 3, "a static member stays listed"
    world.start(1, "uid-1b")
    await asyncio.sleep(10)
    assert world.meter.rounds == rounds
    assert world.meter.revoked == revoked + 4, "only the bounced one gave partitions up"
    assert world.owner("uid-1b") == 4
    assert await world.member_of("web-1") != before
    assert world.exits == [("uid-1", 0)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@simulated
async def test_a_killed_member_is_gone_after_its_session_and_the_others_take_over(protocol: str) -> None:
    world = KafkaWorld(protocol=protocol)
    for number in range(3):
        world.start(number, session_ms=45_000)
    await asyncio.sleep(60)
    idle_s = world.meter.idle_s
    world.kill("uid-2")
    assert world.process("uid-2").system.is_dead
    assert all(link.is_dead for link in world.process("uid-2").links)
    await asyncio.sleep(25)
    assert world.meter.idle_s == pytest.approx(idle_s + 4 * 25)
    assert await world.member_of("web-2")
    assert world.owner("uid-2") == 0
    await asyncio.sleep(60)
    assert not await world.member_of("web-2")
    assert world.owner("uid-0") + world.owner("uid-1") == PARTITIONS
    assert world.exits == [("uid-2", 137)]


@simulated
async def test_an_eager_rebalance_takes_every_partition_from_everybody() -> None:
    world = await KafkaWorld.running()
    revoked, rebalances, idle_s = world.meter.revoked, world.meter.rebalances, world.meter.idle_s
    world.start(3)
    await asyncio.sleep(60)
    assert world.meter.revoked == revoked + PARTITIONS
    assert world.meter.rebalances == rebalances + 1
    assert world.meter.idle_s > idle_s
    assert [world.owner(f"uid-{n}") for n in range(4)] == [3, 3, 3, 3]


@simulated
async def test_a_returned_librdkafka_leader_believes_that_it_follows() -> None:
    """The gap that KIP-814 closed: below JoinGroup v9 no client watches the topics until the next rebalance."""
    world = await KafkaWorld.running(1, after_s=30.0, library=LIBRDKAFKA)
    world.terminate("uid-0")
    await asyncio.sleep(5)
    world.start(0, "uid-0b")
    await asyncio.sleep(10)
    world.cluster.image = TopicImage({"orders": PARTITIONS + 1})
    await asyncio.sleep(60)
    assert world.owner("uid-0b") == PARTITIONS


@simulated
async def test_classic_librdkafka_that_is_fenced_goes_on_with_its_partitions() -> None:
    """Seen with librdkafka 2.16: one fatal message, no exit, out of the group for good."""
    world = await KafkaWorld.running(1, after_s=30.0, library=LIBRDKAFKA)
    first = await world.member_of("web-0")
    world.start(0, "uid-0-twin")
    await asyncio.sleep(200)
    assert world.exits == []
    assert world.table.is_running("uid-0", "app")
    assert world.owner("uid-0") == world.owner("uid-0-twin") == PARTITIONS
    assert await world.member_of("web-0") not in ("", first)
    assert len((await world.view()).members) == 1


@simulated
async def test_two_sarama_processes_with_one_id_fence_each_other_for_ever() -> None:
    world = KafkaWorld(library=SARAMA)
    world.start(0)
    world.start(0, "uid-0-twin")
    await asyncio.sleep(60)
    holders = set()
    for _ in range(20):
        await asyncio.sleep(8)
        holders.add(world.table.creator(await world.member_of("web-0")))
    assert {p.pod_uid for p in holders if p is not None} == {"uid-0", "uid-0-twin"}
    assert world.exits == []


@simulated
async def test_kip848_java_that_meets_an_unreleased_id_exits_until_the_session_has_expired() -> None:
    """Seen with Java 4.4: UnreleasedInstanceIdException from poll; restarted again and again until 45 s are over."""
    world = await KafkaWorld.running(1, after_s=30.0, protocol="consumer", library=JAVA)
    world.kill("uid-0")
    killed_s = world.loop.time()
    await asyncio.sleep(0.1)
    world.exits.clear()

    def restart(node: str, uid: str, container: str, exit_code: int) -> None:
        world.exits.append((uid, exit_code))
        world.loop.world_call_later(2.0, world.start, 0, "uid-0")

    world.table.on_exit = restart
    world.start(0, "uid-0")
    await until(lambda: world.owner("uid-0") > 0)
    assert 40 < world.loop.time() - killed_s < 50
    assert len(world.exits) >= 5
    assert {code for _, code in world.exits} == {1}


@simulated
async def test_kip848_librdkafka_that_meets_an_unreleased_id_stays_silent_for_ever() -> None:
    """Seen with librdkafka 2.16: alive and not in the group, long after the expiry."""
    world = await KafkaWorld.running(1, after_s=30.0, protocol="consumer", library=LIBRDKAFKA)
    world.kill("uid-0")
    world.start(0, "uid-0b")
    await asyncio.sleep(300)
    assert world.table.is_running("uid-0b", "app")
    assert not await world.member_of("web-0")
    assert world.owner("uid-0b") == 0


@simulated
async def test_kip848_member_whose_join_answer_was_lost_blocks_itself() -> None:
    """PR apache/kafka#23542: epoch 0 of the holder's own member id is UNRELEASED_INSTANCE_ID in every release."""
    world = KafkaWorld(protocol="consumer", library=JAVA)
    world.start(0)
    process = world.process("uid-0")
    await until(lambda: bool(process.links and process.links[0].coordinators), step_s=0.0005)
    process.links[0].answers_to_lose = 1
    await asyncio.sleep(process.links[0].timeout_s + 5)
    assert world.exits == [("uid-0", 1)]
    assert any("UNRELEASED_INSTANCE_ID" in entry.line() for entry in world.trace.entries)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@simulated
async def test_a_live_member_that_is_removed_notices_and_joins_again(protocol: str) -> None:
    """A removal of a live member does nothing lasting: UNKNOWN_MEMBER_ID, then a new join."""
    world = await KafkaWorld.running(2, protocol=protocol)
    victim = await world.member_of("web-1")
    entry = LeaveEntry(member_id=victim, instance_id="web-1")
    assert isinstance(await world.gateway.leave(CONNECTION, GROUP, [entry]), LeaveResult)
    assert world.table.alive(victim), "the ground truth calls it what it is"
    await asyncio.sleep(60)
    assert await world.member_of("web-1")
    assert world.owner("uid-0") + world.owner("uid-1") == PARTITIONS


@pytest.mark.parametrize("protocol", PROTOCOLS)
@simulated
async def test_several_threads_take_numbered_ids(protocol: str) -> None:
    """StreamsConfig counts its threads from 1."""
    world = await KafkaWorld.running(1, after_s=60.0, protocol=protocol, threads=3)
    assert {m.instance_id for m in (await world.view()).members} == {"web-0-1", "web-0-2", "web-0-3"}
    assert world.owner("uid-0") == PARTITIONS


@pytest.mark.parametrize("protocol", PROTOCOLS)
@simulated
async def test_new_partitions_are_noticed(protocol: str) -> None:
    """Classic: the leader watches its topics (ConsumerCoordinator.rejoinNeededOrPending); KIP-848: the coordinator."""
    world = await KafkaWorld.running(2, protocol=protocol)
    world.cluster.image = TopicImage({"orders": PARTITIONS + 2})
    await asyncio.sleep(60)
    assert world.owner("uid-0") + world.owner("uid-1") == PARTITIONS + 2


@simulated
async def test_a_session_timeout_outside_the_bounds_ends_a_java_client() -> None:
    world = KafkaWorld(library=JAVA)
    world.start(0, session_ms=1_000)
    await asyncio.sleep(10)
    assert world.exits == [("uid-0", 1)]
    assert any(ErrorCode.INVALID_SESSION_TIMEOUT.name in e.line() for e in world.trace.entries)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_same_seed_gives_the_same_history(protocol: str) -> None:
    def history() -> str:
        text: list[str] = []

        async def story() -> None:
            world = KafkaWorld(protocol=protocol, container={"crash_mean_s": 60.0})

            def restart(_node: str, uid: str, _container: str, _exit_code: int) -> None:
                world.start(int(uid[-1]), uid)

            world.table.on_exit = restart
            for number in range(4):
                world.start(number)
            await asyncio.sleep(100)
            world.cluster.fail_over(GROUP, is_clean=False, outage_s=6.0)
            await asyncio.sleep(100)
            text.append(world.trace.text())

        simulate(story, seed="same")
        return text[0]

    assert history() == history()


def test_idle_and_double_work_are_counted_by_partition_and_second() -> None:
    now_s, counts = 0.0, {"t": 3, "u": 1}
    meters = PartitionMeter(lambda: now_s, lambda: counts)
    meter = meters.group("g", ("t",))
    meter.own("a", [("t", 0), ("t", 1)])
    now_s = 10.0
    meter.own("b", [("t", 1), ("t", 2)])
    now_s = 15.0
    meter.own("a", ())
    now_s = 17.0
    meter.settle()
    assert meter.idle_s == 10 * 1 + 5 * 0 + 2 * 1
    assert meter.double_s == 5 * 1
    counts = {"t": 4, "u": 1}
    meter.settle()
    now_s = 20.0
    assert meter.settle().idle_s == 12 + 3 * 2
    assert meters.group("g", ("u",)) is meter
    now_s = 21.0
    assert meter.settle().idle_s == 18 + 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
@simulated
async def test_ten_minutes_of_six_members_are_cheap(protocol: str) -> None:
    """A heartbeat is four wake-ups of the loop (sent, arrived, answered, the next one due) and nothing else happens."""
    world = KafkaWorld(protocol=protocol)
    for number in range(6):
        world.start(number, session_ms=15_000)
    await asyncio.sleep(60)
    wake_ups = requests = 0

    def count_wake_ups() -> None:
        nonlocal wake_ups
        wake_ups += 1

    def count_requests(asking: Exchange | None, _request: Request) -> None:
        nonlocal requests
        requests += asking is not None

    world.loop.step_hooks.append(count_wake_ups)
    world.cluster.shard(GROUP).on_request = count_requests
    await asyncio.sleep(600)
    assert requests == pytest.approx(6 * 600 / 5, abs=12)
    assert wake_ups < 4 * requests + 50
