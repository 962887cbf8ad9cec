"""The session timeout of a KIP-848 group, set by rounds of the real reconciler where the spec lets them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticgroup.core.group import GroupType, KafkaProblem, KafkaProblemKind
from support.bounds import altered, broker_bounds

from .operator_world import OperatorWorld

SETTING = "consumer.session.timeout.ms"
TARGET_MS = 115_000
DENIED = KafkaProblem(
    kind=KafkaProblemKind.NOT_AUTHORIZED,
    message="User:op lacks ALTER_CONFIGS on Group 'orders', so its session timeout is not set; grant it with an ACL",
    missing_acl="ALTER_CONFIGS on Group 'orders' for User:op",
)


def consumers(**session: Any) -> OperatorWorld:
    """Three KIP-848 members whose group has the brokers' 45 s."""
    timeout = {"writeGroupConfig": True} | session
    world = OperatorWorld(groupProtocol="Consumer", sessionTimeout=timeout)
    world.kafka.group_type = GroupType.CONSUMER
    world.kafka.broker_bounds = broker_bounds(
        consumer_min_ms=45_000, consumer_max_ms=300_000, consumer_session_ms=45_000, limits={SETTING: (45_000, 300_000)}
    )
    return world


def sent(world: OperatorWorld) -> list[tuple[str, ...]]:
    return world.did("set_group_config")


async def test_first_round_sets_it_and_the_next_reads_it_back() -> None:
    world = consumers()
    await world.round()
    assert sent(world) == [("orders", f"{SETTING}={TARGET_MS}")]
    assert world.condition("TimeoutSufficient")[:2] == ("False", "TimeoutBelowNeed")
    world.now_s += 1
    await world.round()
    assert (sent(world), "bounds" in world.done) == ([], True)
    world.now_s += 30
    await world.started(session_timeouts_ms=())
    await world.round()
    status = world.status
    assert status.session_timeout is not None
    assert (status.session_timeout.seconds, world.remembered_timeout.next_ms) == (TARGET_MS // 1000, TARGET_MS)
    assert world.condition("TimeoutSufficient")[:2] == ("True", "TimeoutFits")
    assert sent(world) == []
    assert status.injected is not None
    assert status.injected.session_timeout_ms is None


def meddled(world: OperatorWorld, value_ms: int) -> None:
    world.kafka.broker_bounds = altered(world.kafka.broker_bounds, {SETTING: value_ms})


def deleted(world: OperatorWorld) -> None:
    """Delete the group's setting, so that the brokers' default holds."""
    world.kafka.broker_bounds = replace(altered(world.kafka.broker_bounds, {SETTING: 45_000}), stored={})


async def read_again(world: OperatorWorld) -> None:
    """Let a round see what is stored, and read back what it sets."""
    world.now_s += 301
    await world.round()
    world.now_s += 1
    await world.round()


def held_ms(world: OperatorWorld) -> int | None:
    return world.kafka.broker_bounds.sessions[GroupType.CONSUMER].group_ms


async def test_somebody_elses_value_stops_the_operator_until_it_is_given_back() -> None:
    world = await consumers().started(session_timeouts_ms=())
    assert world.remembered_timeout.written_ms == TARGET_MS
    for value_ms, status in ((300_000, "True"), (60_000, "False")):
        meddled(world, value_ms)
        for _ in range(3):
            await read_again(world)
            world.restart()
        assert held_ms(world) == value_ms
        condition = world.condition("TimeoutSufficient")
        assert condition[0] == status
        assert f"somebody else has set {SETTING} of the group to {value_ms} ms" in condition[2]
        assert (world.remembered_timeout.written_ms, world.timeout.source.value) == (TARGET_MS, "Broker")
    deleted(world)
    await read_again(world)
    assert held_ms(world) == TARGET_MS
    assert "somebody else" not in world.condition("TimeoutSufficient")[2]


async def test_missing_right_is_reported_once_and_the_group_is_asked_again_after_five_minutes() -> None:
    world = consumers()
    world.kafka.problems["set_group_config"] = DENIED
    await world.started(session_timeouts_ms=())
    world.tells("Authorized", "False", "AlterConfigsDenied", "ALTER_CONFIGS on Group 'orders' for User:op")
    assert world.condition("Ready")[:2] == ("False", "AlterConfigsDenied")
    assert [e for e in world.kube.events if e[1] == "GroupConfigRefused"] == [
        ("Warning", "GroupConfigRefused", DENIED.message)
    ]
    assert f"{TARGET_MS} ms could not be set: {DENIED.message}" in world.condition("TimeoutSufficient")[2]
    await world.round()
    assert sent(world) == []
    del world.kafka.problems["set_group_config"]
    world.now_s += 301
    await world.round()
    assert len(sent(world)) == 1
    world.now_s += 1
    await world.round()
    assert world.condition("Authorized")[:2] == ("True", "RightsSufficient")
