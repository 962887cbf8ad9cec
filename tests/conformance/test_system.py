"""Rows Y of the catalogue and the rows I of clients: Kafka's system tests, on simulated clients in virtual time.

The simulated consumers use the classic protocol with an eager assignor, and KIP-848; cooperative assignors of clients
are not modelled. Records are not modelled either; see `system_bench` for what is counted instead.
"""

from __future__ import annotations

import asyncio

import pytest

from conformance.answers import expect
from conformance.system_bench import Fleet, Requests, eventually, simulate
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import (
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from coordinator_model.base.offset_messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from coordinator_model.base.settings import BrokerSettings
from simulator.clients.settings import JAVA, Library
from simulator.kafka.network import KafkaLink
from unit.simulator.kafka_world import GROUP, until

PROTOCOLS = ("classic", "consumer")
MODES = ("all", "rolling")


async def commit_as(fleet: Fleet, number: int, offset: int) -> ErrorCode:
    """Commit an offset in the name of a pod's member, with the generation that the group is in."""
    (uid,) = (uid for n, uid in fleet.uids.items() if n == number)
    members = (await fleet.world.view()).members
    member = next(m for m in members if (c := fleet.world.table.creator(m.member_id)) is not None and c.pod_uid == uid)
    request = OffsetCommitRequest(
        group_id=GROUP, generation_id_or_member_epoch=max(fleet.world.meter.rounds), member_id=member.member_id,
        group_instance_id=member.instance_id, offsets=(("orders", 0, offset),),
    )
    response = expect(OffsetCommitResponse, await fleet.world.cluster.request(KafkaLink(name="committer"), request))
    return response.results[0][2]


async def committed(fleet: Fleet) -> int:
    """Return the offset that the next owner of partition 0 starts from."""
    request = OffsetFetchRequest(group_id=GROUP, partitions=(("orders", 0),))
    response = expect(OffsetFetchResponse, await fleet.world.cluster.request(KafkaLink(name="fetcher"), request))
    return response.offsets[0][2]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("is_static", [True, False], ids=["static", "dynamic"])
def test_Y01_bounces_of_others_take_nothing_from_the_member_that_stays(mode: str, is_static: bool) -> None:
    """consumer_test.test_static_consumer_bounce_with_eager_assignment: 3 classic consumers, range, 5 bounces of two.

    The topic has 3 partitions instead of 1, so that the member that stays owns one, whichever member leads. Instead of
    consumed = position: no partition is worked on twice, and the one that stays can commit throughout.
    """

    async def story() -> None:
        fleet = Fleet(3, partitions=3, is_static=is_static, session_timeout_ms=60_000, heartbeat_s=3.0)
        await fleet.start_all()
        fleet.losses.clear()
        for offset in range(1, 6):
            await fleet.bounce(mode, (1, 2))
            assert await commit_as(fleet, 0, offset) is ErrorCode.NONE
            assert await committed(fleet) == offset
        losses = fleet.losses.get(fleet.uids[0], 0)
        assert losses == 0 if is_static else losses >= 5
        assert fleet.world.meter.double_s == 0

    simulate(story)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_Y02_new_member_ids_survive_restarts_of_all_brokers(mode: str, protocol: str) -> None:
    """consumer_test.test_static_consumer_persisted_after_rejoin: else the next coordinator would fence the members."""

    async def story() -> None:
        fleet = Fleet(3, partitions=6, protocol=protocol, session_timeout_ms=60_000, heartbeat_s=3.0)
        await fleet.start_all()
        first = {m.member_id for m in (await fleet.world.view()).members}
        await fleet.bounce(mode, range(3))
        bounced = {m.member_id for m in (await fleet.world.view()).members}
        assert len(bounced) == 3
        assert not bounced & first
        fleet.losses.clear()
        for node_id in fleet.world.cluster.brokers:
            await fleet.restart_broker(node_id)
        assert {m.member_id for m in (await fleet.world.view()).members} == bounced
        assert fleet.losses == {}
        assert [exit_code for _, exit_code in fleet.world.exits] == [0, 0, 0], "no member was fenced"

    simulate(story)


@pytest.mark.parametrize("conflicts", [1, 2])
def test_Y03_conflicting_consumers_replace_running_ones(conflicts: int) -> None:
    """consumer_test.test_fencing_static_consumer, stage stable, classic: as many of the first die, within 10 s."""

    async def story() -> None:
        fleet = Fleet(3, partitions=6, session_timeout_ms=60_000, heartbeat_s=3.0)
        await fleet.start_all()
        first = dict(fleet.uids)
        rounds = set(fleet.world.meter.rounds)
        fleet.launch(*range(conflicts))
        started_s = fleet.world.loop.time()
        await until(lambda: len(fleet.world.exits) == conflicts)
        assert fleet.world.loop.time() - started_s <= 10
        await fleet.all_in()
        assert sorted(fleet.world.exits) == [(first[n], 1) for n in range(conflicts)]
        assert fleet.world.meter.rounds == rounds, "a replacement costs no rebalance"
        await asyncio.sleep(120)
        assert len(fleet.world.exits) == conflicts

    simulate(story)


@pytest.mark.parametrize("conflicts", [1, 2])
def test_Y04_conflicting_consumers_do_not_get_in_while_the_first_are_active(conflicts: int) -> None:
    """consumer_test.test_fencing_static_consumer, stage stable, KIP-848: no rebalance;
    they join once the first left.
    """

    async def story() -> None:
        fleet = Fleet(3, partitions=6, protocol="consumer")
        await fleet.start_all()
        first, rounds = dict(fleet.uids), set(fleet.world.meter.rounds)
        fleet.losses.clear()
        fleet.launch(*range(conflicts))
        twins = [fleet.uids[n] for n in range(conflicts)]
        fleet.uids = dict(first)
        await until(lambda: len(fleet.world.exits) == conflicts)
        await fleet.all_in()
        assert sorted(fleet.world.exits) == sorted((uid, 1) for uid in twins)
        assert (fleet.world.meter.rounds, fleet.losses) == (rounds, {})
        await fleet.stop(*range(3))
        fleet.launch(*range(conflicts))
        await until(lambda: all(fleet.world.owner(fleet.uids[n]) for n in range(conflicts)))

    simulate(story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("conflicts", [1, 2])
def test_Y05_of_all_started_together_one_for_each_id_remains(conflicts: int, protocol: str) -> None:
    """consumer_test.test_fencing_static_consumer, stage all: exactly 3 joined, exactly as many died, within 60 s."""

    async def story() -> None:
        fleet = Fleet(3, partitions=6, protocol=protocol, session_timeout_ms=60_000, heartbeat_s=3.0)
        fleet.launch(*range(3))
        first = dict(fleet.uids)
        fleet.launch(*range(conflicts))
        twins = {n: uid for n, uid in fleet.uids.items() if n < conflicts}
        await until(lambda: len(fleet.world.exits) == conflicts)
        assert fleet.world.loop.time() <= 60
        dead = {uid for uid, _ in fleet.world.exits}
        for number in range(conflicts):
            assert len(dead & {first[number], twins[number]}) == 1, "one of the two with this id"
            fleet.uids[number] = first[number] if twins[number] in dead else twins[number]
        await fleet.all_in()
        await asyncio.sleep(60)
        await fleet.all_in()
        assert len(fleet.world.exits) == conflicts

    simulate(story)


@pytest.mark.parametrize("is_static", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_Y06_rolling_restarts_of_the_brokers_cause_no_rebalance(protocol: str, is_static: bool) -> None:
    """consumer_test.test_broker_rolling_bounce: 5 rounds over the brokers, clean, session 30 s."""

    async def story() -> None:
        fleet = Fleet(3, partitions=6, protocol=protocol, is_static=is_static, session_timeout_ms=30_000)
        await fleet.start_all()
        rounds, coordinators = set(fleet.world.meter.rounds), set()
        fleet.losses.clear()
        for _ in range(5):
            for node_id in fleet.world.cluster.brokers:
                await fleet.restart_broker(node_id)
                coordinators.add(fleet.world.cluster.locate(GROUP))
        assert len(coordinators) > 1, "the group changed its coordinator"
        assert (fleet.world.meter.rounds, fleet.losses) == (rounds, {})

    simulate(story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_Y07_a_broker_that_dies_causes_no_rebalance(protocol: str) -> None:
    """consumer_test.test_broker_failure: here always the coordinator of the group, found again 7 s later."""

    async def story() -> None:
        fleet = Fleet(3, partitions=6, protocol=protocol, session_timeout_ms=30_000)
        await fleet.start_all()
        rounds, before = set(fleet.world.meter.rounds), fleet.world.cluster.locate(GROUP)
        assert before is not None
        fleet.losses.clear()
        fleet.world.cluster.kill_broker(before, outage_s=7.0)
        await asyncio.sleep(120)
        await fleet.all_in()
        assert fleet.world.cluster.locate(GROUP) not in (None, before)
        assert (fleet.world.meter.rounds, fleet.losses) == (rounds, {})

    simulate(story)


OLD_JAVA = {
    version: Library(
        name=f"java {version}", join_version=join_version, when_fenced=JAVA.when_fenced, when_refused=JAVA.when_refused,
        when_rejected=JAVA.when_rejected,
    )
    for version, join_version in (("2.1", 3), ("2.3", 5), ("2.5", 7), ("3.2", 9))
}
"""JoinGroup versions of clients: 5 brought the instance id, 7 the protocol type, 9 skipAssignment."""
VERSIONS = [(v, s) for v in OLD_JAVA for s in (True, False) if v != "2.1" or not s]


async def expect_type(fleet: Fleet, group_type: str) -> None:
    """See that the group is of this type; the system test waits up to 10 s for it, here it is so at once."""
    assert (await fleet.world.view()).group_type.value.lower() == group_type


@pytest.mark.parametrize(("version", "is_static"), VERSIONS)
def test_Y11_offline_migration_and_back(version: str, is_static: bool) -> None:
    """consumer_protocol_migration_test.test_consumer_offline_migration, policy disabled; range, not cooperative."""

    async def story() -> None:
        brokers = BrokerSettings(migration_policy="disabled")
        fleet = Fleet(5, partitions=6, is_static=is_static, brokers=brokers, library=OLD_JAVA[version])
        await fleet.start_all()
        await expect_type(fleet, "classic")
        for protocol, library in (("consumer", JAVA), ("classic", OLD_JAVA[version])):
            await fleet.stop(*range(5))
            await eventually(fleet.is_empty, 50)
            fleet.configure(protocol=protocol, library=library)
            await fleet.start_all()
            await expect_type(fleet, protocol)
        assert fleet.world.meter.double_s == 0

    simulate(story)


@pytest.mark.parametrize("policy", ["bidirectional", "upgrade"])
@pytest.mark.parametrize(("version", "is_static"), VERSIONS)
def test_Y11_rolling_upgrade(version: str, is_static: bool, policy: str) -> None:
    """consumer_protocol_migration_test.test_consumer_rolling_upgrade."""

    async def story() -> None:
        brokers = BrokerSettings(migration_policy=policy)
        fleet = Fleet(5, partitions=6, is_static=is_static, brokers=brokers, library=OLD_JAVA[version])
        await fleet.start_all()
        await expect_type(fleet, "classic")
        fleet.configure(protocol="consumer")
        await fleet.bounce("rolling", range(5))
        await expect_type(fleet, "consumer")
        assert fleet.world.meter.double_s == 0

    simulate(story)


@pytest.mark.parametrize("policy", ["bidirectional", "downgrade"])
@pytest.mark.parametrize(("version", "is_static"), VERSIONS)
def test_Y11_rolling_downgrade(version: str, is_static: bool, policy: str) -> None:
    """consumer_protocol_migration_test.test_consumer_rolling_downgrade: the last new-protocol member converts it."""

    async def story() -> None:
        brokers = BrokerSettings(migration_policy=policy)
        fleet = Fleet(5, partitions=6, is_static=is_static, brokers=brokers, protocol="consumer")
        await fleet.start_all()
        await expect_type(fleet, "consumer")
        fleet.configure(protocol="classic", library=OLD_JAVA[version])
        await fleet.bounce("rolling", range(5))
        await expect_type(fleet, "classic")
        assert fleet.world.meter.double_s == 0

    simulate(story)


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_Y11_policy_without_upgrade_refuses_the_other_protocol(policy: str) -> None:
    """What the rolling upgrade costs under the wrong policy: the first upgraded pod does not get in."""

    async def story() -> None:
        fleet = Fleet(3, partitions=6, brokers=BrokerSettings(migration_policy=policy))
        await fleet.start_all()
        fleet.configure(protocol="consumer")
        await fleet.stop(0)
        fleet.launch(0)
        await until(lambda: (fleet.uids[0], 1) in fleet.world.exits)
        await expect_type(fleet, "classic")
        (refused,) = fleet.world.trace.select(who="client/web-0", what="fatal error")
        assert dict(refused.facts)["code"] == "GROUP_ID_NOT_FOUND"

    simulate(story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_I09_leave_group_close_hands_the_partitions_over_at_once(protocol: str) -> None:
    """PlaintextConsumerTest 1816: the other one gets a further assignment, not after the session but now."""

    async def story() -> None:
        fleet = Fleet(2, partitions=4, protocol=protocol, close="leave", session_timeout_ms=60_000, heartbeat_s=3.0)
        await fleet.start_all()
        assert fleet.world.owner(fleet.uids[1]) == 2
        await fleet.stop(0)
        closed_s = fleet.world.loop.time()
        await fleet.all_in()
        assert fleet.world.owner(fleet.uids[1]) == 4
        assert fleet.world.loop.time() - closed_s <= 10, "not after the session"

    simulate(story)


@pytest.mark.parametrize(
    ("is_static", "close", "sent"),
    [
        (False, "default", -1),
        (False, "leave", -1),
        (False, "remain", None),
        (True, "default", -2),
        (True, "leave", -1),
        (True, "remain", -2),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_I10_leaves_on_close(protocol: str, is_static: bool, close: str, sent: int | None) -> None:
    """AbstractCoordinatorTest 1130 and ConsumerMembershipManagerTest 525, 546;
    -2 of a classic member: no LeaveGroup.
    """

    async def story() -> None:
        fleet = Fleet(1, partitions=1, is_static=is_static, protocol=protocol, close=close)
        await fleet.start_all()
        requests = Requests(fleet)
        await fleet.stop(0)
        leaves, beats = requests.of(LeaveGroupRequest), requests.of(ConsumerGroupHeartbeatRequest)
        if protocol == "classic":
            assert len(leaves) == (sent == -1)
        else:
            assert not leaves
            assert [b.member_epoch for b in beats if b.member_epoch <= 0] == ([] if sent is None else [sent])
        assert len((await fleet.world.view()).members) == (sent != -1)

    simulate(story)


def test_I11_leader_that_skips_the_assignment_still_watches_all_topics() -> None:
    """ConsumerCoordinatorTest 2082, 2111: it assigns nothing, but asks for a rebalance when partitions are added.

    The modelled leader watches all topics of the cluster, those of the other members among them.
    """

    async def story() -> None:
        fleet = Fleet(2, partitions=2, session_timeout_ms=60_000, heartbeat_s=3.0)
        cluster = fleet.world.cluster
        cluster.image = TopicImage({"orders": 2, "refunds": 2})
        fleet.partitions = 4
        fleet.launch(0)
        await until(lambda: fleet.world.owner(fleet.uids[0]) == 2)
        fleet.configure(topics=("refunds",), session_timeout_ms=60_000, heartbeat_s=3.0)
        await fleet.start(1)
        fleet.configure(session_timeout_ms=60_000, heartbeat_s=3.0)
        rounds, requests = set(fleet.world.meter.rounds), Requests(fleet)
        await fleet.bounce("all", [0])
        assert [s.assignments for s in requests.of(SyncGroupRequest)] == [()]
        assert fleet.world.meter.rounds == rounds
        requests.sent.clear()
        cluster.image = TopicImage({"orders": 2, "refunds": 3})
        fleet.partitions = 5
        await fleet.all_in()
        first_join = next(pod for pod, request in requests.sent if isinstance(request, JoinGroupRequest))
        assert first_join == "web-0"
        assert fleet.world.owner(fleet.uids[1]) == 3

    simulate(story)
