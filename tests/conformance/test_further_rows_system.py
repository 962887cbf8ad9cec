"""Kafka's system tests of consumers that the catalogue of rows does not name, on simulated clients in virtual time.

Records are not modelled; see `system_bench` for what is counted instead.
"""

from __future__ import annotations

import pytest

from conformance.system_bench import Fleet, simulate
from coordinator_model.base.settings import BrokerSettings

PROTOCOLS = ("classic", "consumer")
PARTITIONS = 6


@pytest.mark.parametrize("is_static", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize("mode", ["all", "rolling"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_restarted_consumers_all_come_back_and_share_the_partitions(protocol: str, mode: str, is_static: bool) -> None:
    """consumer_test.test_consumer_bounce, and the same with instance ids: nothing is worked on twice meanwhile.

    With static members the bounce takes no partition from a member that goes on.
    """

    async def story() -> None:
        fleet = Fleet(
            3, partitions=PARTITIONS, protocol=protocol, is_static=is_static, session_timeout_ms=60_000, heartbeat_s=3.0
        )
        await fleet.start_all()
        rounds = set(fleet.world.meter.rounds)
        fleet.losses.clear()
        await fleet.bounce(mode, range(3), times=2)
        assert [fleet.world.owner(uid) for uid in fleet.uids.values()] == [2, 2, 2]
        assert [code for _, code in fleet.world.exits] == [0] * 6
        assert fleet.world.meter.double_s == 0
        if is_static:
            assert fleet.world.meter.rounds == rounds
            assert set(fleet.losses) <= {uid for uid, _ in fleet.world.exits}
            assert set(fleet.losses.values()) <= {1}, "only what it gave up itself when it was closed"
        else:
            assert len(fleet.world.meter.rounds - rounds) >= 2

    simulate(story)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("is_static", [True, False], ids=["static", "dynamic"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_partitions_of_a_failed_consumer_go_to_the_others(protocol: str, is_static: bool, clean: bool) -> None:
    """consumer_test.test_consumer_failure; only a dynamic member's clean end is not waited for by a session."""

    async def story() -> None:
        fleet = Fleet(
            3, partitions=PARTITIONS, protocol=protocol, is_static=is_static, session_timeout_ms=45_000, heartbeat_s=3.0
        )
        await fleet.start_all()
        failed_s = fleet.world.loop.time()
        if clean:
            await fleet.stop(0)
        else:
            fleet.world.kill(fleet.uids.pop(0))
        await fleet.all_in(timeout_s=90)
        took_s = fleet.world.loop.time() - failed_s
        assert took_s <= 10 if clean and not is_static else 40 <= took_s <= 75
        assert [fleet.world.owner(uid) for uid in fleet.uids.values()] == [3, 3]

    simulate(story)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_partition_has_an_owner_after_each_start_and_each_stop(protocol: str) -> None:
    """consumer_test.test_group_consumption: up to three dynamic consumers one by one, and down again."""

    async def story() -> None:
        fleet = Fleet(3, partitions=PARTITIONS, protocol=protocol, is_static=False)
        shares = []
        for number in range(3):
            await fleet.start(number)
            shares.append(sorted(fleet.world.owner(uid) for uid in fleet.uids.values()))
        for number in range(2):
            await fleet.stop(number)
            await fleet.all_in()
            shares.append(sorted(fleet.world.owner(uid) for uid in fleet.uids.values()))
        assert shares == [[6], [3, 3], [2, 2, 2], [3, 3], [6]]

    simulate(story)


@pytest.mark.parametrize("interval_ms", [0, 1_000])
@pytest.mark.parametrize("assignor", ["range", "uniform"])
def test_assignment_is_valid_after_each_start(assignor: str, interval_ms: int) -> None:
    """consumer_test.AssignmentValidationTest.test_valid_assignment:
    both server assignors, batched or not (KIP-1263).
    """

    async def story() -> None:
        brokers = BrokerSettings(consumer_assignors=(assignor,), consumer_assignment_interval_ms=interval_ms)
        fleet = Fleet(3, partitions=PARTITIONS, protocol="consumer", brokers=brokers)
        for number in range(3):
            await fleet.start(number)
            assert fleet.worked_on() == PARTITIONS
        assert fleet.world.meter.double_s == 0
        assert [fleet.world.owner(uid) for uid in fleet.uids.values()] == [2, 2, 2]

    simulate(story)
