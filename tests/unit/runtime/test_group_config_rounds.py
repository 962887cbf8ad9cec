"""The session timeout of a KIP-848 group, set by rounds of the real reconciler where the spec lets them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticgroup.core.group import GroupType, KafkaProblem, KafkaProblemKind
from staticgroup.core.next_pods.measured import LOWER_AFTER_S
from staticgroup.core.next_pods.shared_setting import CHANGES_MAX
from support.bounds import altered, broker_bounds

from .operator_world import OperatorWorld, static_group

SETTING = "consumer.session.timeout.ms"
TARGET_MS = 115_000
DENIED = KafkaProblem(
    kind=KafkaProblemKind.NOT_AUTHORIZED,
    message="User:op lacks ALTER_CONFIGS on Group 'orders', so its session timeout is not set; grant it with an ACL",
    missing_acl="ALTER_CONFIGS on Group 'orders' for User:op",
)


async def consumers(**session: Any) -> OperatorWorld:
    """Three KIP-848 members whose group has the brokers' 45 s."""
    timeout = {"writeGroupConfig": True} | session
    world = OperatorWorld(protocol="Consumer", sessionTimeout=timeout)
    world.kafka.group_type = GroupType.CONSUMER
    world.kafka.broker_bounds = broker_bounds(
        consumer_min_ms=45_000, consumer_max_ms=300_000, consumer_session_ms=45_000, limits={SETTING: (45_000, 300_000)}
    )
    return world


async def joined(world: OperatorWorld) -> OperatorWorld:
    """Let its pods start, which show no session timeout of their own."""
    world.scale(3)
    await world.round()
    for ordinal in range(3):
        world.start(ordinal, session_timeouts_ms=())
    world.now_s += 300
    await world.settled(2)
    return world


def sent(world: OperatorWorld) -> list[tuple[str, ...]]:
    return world.did("set_group_config")


async def test_first_round_sets_it_and_the_next_reads_it_back() -> None:
    world = await consumers()
    await world.round()
    assert sent(world) == [("orders", f"{SETTING}={TARGET_MS}")]
    assert world.condition("TimeoutSufficient")[:2] == ("False", "TimeoutBelowNeed")
    world.now_s += 1
    await world.round()
    assert (sent(world), "bounds" in world.done) == ([], True)
    world.now_s += 30
    await joined(world)
    await world.round()
    status = world.status
    assert status.timeout is not None
    assert (status.timeout.effective_ms, status.timeout.next_ms) == (TARGET_MS, TARGET_MS)
    assert world.condition("TimeoutSufficient")[:2] == ("True", "TimeoutFits")
    assert sent(world) == []
    assert status.injected is not None
    assert status.injected.session_timeout_ms is None


async def test_value_that_somebody_changes_is_set_again() -> None:
    world = await joined(await consumers())
    world.kafka.broker_bounds = altered(world.kafka.broker_bounds, {SETTING: 60_000})
    world.now_s += 301
    await world.round()
    assert sent(world) == [("orders", f"{SETTING}={TARGET_MS}")]


async def test_without_the_opt_in_nothing_is_ever_set() -> None:
    world = await joined(await consumers(writeGroupConfig=False))
    for _ in range(5):
        world.now_s += 301
        await world.round()
        assert sent(world) == []
    assert world.condition("TimeoutSufficient")[:2] == ("False", "BrokerBoundTooLow")
    assert f"set {SETTING}=75000 on the group" in world.condition("TimeoutSufficient")[2]


async def test_two_of_one_namespace_agree_on_the_longer_one_and_nobody_listens_to_others() -> None:
    world = await consumers()
    for namespace, own_ms in (("shop", 151_000), ("strangers", 250_000)):
        other = static_group(uid=f"sg-{namespace}", protocol="Consumer", sessionTimeout={"writeGroupConfig": True})
        other["metadata"] |= {"namespace": namespace, "name": "returns"}
        other["status"] = {"timeout": {"ownMs": own_ms, "source": "Structural"}}
        world.stores.put_group((namespace, "returns"), other)
    await world.round()
    assert sent(world) == [("orders", f"{SETTING}=151000")]
    assert world.status.timeout is not None
    assert world.status.timeout.own_ms == TARGET_MS
    assert world.status.timeout.recommended is not None
    assert world.status.timeout.recommended.target_ms == TARGET_MS


def told(world: OperatorWorld) -> list[tuple[str, str]]:
    """Return the Events about changes by somebody else."""
    return [(kind, note) for kind, reason, note in world.kube.events if reason == "GroupConfigChanged"]


async def looked_again(world: OperatorWorld, *, after_s: float = 301.0) -> None:
    """Let a round see what holds, and read back what it sets."""
    world.now_s += after_s
    await world.round()
    world.now_s += 1
    await world.round()


def meddled(world: OperatorWorld, value_ms: int) -> None:
    world.kafka.broker_bounds = altered(world.kafka.broker_bounds, {SETTING: value_ms})


def held_ms(world: OperatorWorld) -> int | None:
    return world.kafka.broker_bounds.sessions[GroupType.CONSUMER].group_ms


async def test_longer_value_of_somebody_who_insists_is_respected_and_named() -> None:
    """It was overwritten in every round, for ever, and nobody was told."""
    world = await joined(await consumers())
    for times in range(1, 4):
        meddled(world, 300_000)
        await looked_again(world)
        assert held_ms(world) == 300_000, "a longer value stands for a day whoever has set it"
        assert len(told(world)) == times
        assert told(world)[-1][0] == "Normal"
        await looked_again(world, after_s=LOWER_AFTER_S)
        assert held_ms(world) == (150_000 if times < CHANGES_MAX else 300_000)
        assert world.condition("TimeoutSufficient")[:2] == ("True", "TimeoutFits")
    for _ in range(5):
        await looked_again(world, after_s=LOWER_AFTER_S)
    assert held_ms(world) == 300_000
    said = world.condition("TimeoutSufficient")[2]
    assert "is 300000 ms, longer than the 115000 ms that are wanted, and somebody else insists on it, so it stays" in said
    assert "delete it from the group's settings" in said
    world.restart()
    for _ in range(3):
        await looked_again(world, after_s=LOWER_AFTER_S)
    assert (held_ms(world), len(told(world))) == (300_000, 3)


async def test_value_that_is_given_back_is_the_operators_again() -> None:
    world = await joined(await consumers())
    for _ in range(3):
        meddled(world, 300_000)
        await looked_again(world)
        await looked_again(world, after_s=LOWER_AFTER_S)
    meddled(world, 45_000)  # deleted: the brokers' default shows
    await looked_again(world)
    assert held_ms(world) == TARGET_MS
    assert "insists" not in world.condition("TimeoutSufficient")[2]


async def test_who_sets_what_is_wanted_is_at_peace_with_the_operator() -> None:
    world = await joined(await consumers())
    for _ in range(3):
        meddled(world, 300_000)
        await looked_again(world)
        await looked_again(world, after_s=LOWER_AFTER_S)
    meddled(world, TARGET_MS)
    await looked_again(world)
    assert world.status.timeout is not None
    assert world.status.timeout.shared_setting is not None
    assert (world.status.timeout.shared_setting.changes, held_ms(world)) == (0, TARGET_MS)


async def test_shorter_value_of_somebody_is_raised_with_a_word_and_less_often_after_the_third_time() -> None:
    world = await joined(await consumers())
    for _ in range(CHANGES_MAX - 1):
        meddled(world, 60_000)
        await looked_again(world)
        assert held_ms(world) == TARGET_MS
    assert told(world)[0][0] == "Warning"
    assert f"somebody else has set {SETTING} of the group to 60000 ms, and is overruled now" in told(world)[0][1]
    meddled(world, 60_000)
    await looked_again(world)
    assert held_ms(world) == 60_000, "it was written five minutes ago"
    status, reason, message = world.condition("TimeoutSufficient")
    assert (status, reason) == ("False", "TimeoutBelowNeed")
    assert "overruled at the latest 60 minutes later; end that, or set spec.sessionTimeout.writeGroupConfig to false" in message
    await looked_again(world)
    assert held_ms(world) == TARGET_MS


async def test_more_than_before_is_needed_is_set_at_once_whoever_meddles() -> None:
    world = await joined(await consumers())
    for _ in range(CHANGES_MAX):
        meddled(world, 60_000)
        await looked_again(world)
    assert held_ms(world) == 60_000
    other = static_group(uid="sg-2", protocol="Consumer")
    other["metadata"] |= {"name": "returns"}
    other["status"] = {"timeout": {"ownMs": 200_000, "source": "Structural"}}
    world.stores.put_group(("shop", "returns"), other)
    await world.round()
    assert sent(world) == [("orders", f"{SETTING}=200000")]


async def test_stored_setting_of_another_protocol_is_named_and_left_alone() -> None:
    """The brokers refuse every change while it is there (GroupConfig.validate), and it is nobody's to choose here."""
    world = await consumers()
    world.kafka.broker_bounds = replace(
        world.kafka.broker_bounds, stored={"share.session.timeout.ms": 300}, limits={"share.session.timeout.ms": (45_000, 60_000)}
    )
    await joined(world)
    assert sent(world) == []
    assert held_ms(world) == 45_000
    status, _, message = world.condition("TimeoutSufficient")
    assert status == "False"
    assert "share.session.timeout.ms=300 that is stored on the group lies outside the brokers' bounds" in message
    assert "set it to 45000, or delete it" in message


async def test_mode_observe_sets_nothing() -> None:
    world = await consumers()
    world.force_observe = True
    world.reconciler = world._new_reconciler()
    await world.round()
    assert sent(world) == []
    timeout = world.status.timeout
    assert timeout is not None
    assert (timeout.basis, timeout.next_ms) == ("GroupConfig", 45_000)
    assert f"set {SETTING}=75000 on the group" in world.condition("TimeoutSufficient")[2]


async def test_missing_right_is_told_once_and_the_group_is_asked_again_after_five_minutes() -> None:
    world = await consumers()
    world.kafka.problems["set_group_config"] = DENIED
    await joined(world)
    status, reason, message = world.condition("Authorized")
    assert (status, reason) == ("False", "AlterConfigsDenied")
    assert "ALTER_CONFIGS on Group 'orders' for User:op" in message
    assert world.condition("Ready")[:2] == ("False", "Degraded")
    assert [e for e in world.kube.events if e[1] == "GroupConfigRefused"] == [("Warning", "GroupConfigRefused", DENIED.message)]
    await world.round()
    assert sent(world) == []
    del world.kafka.problems["set_group_config"]
    world.now_s += 301
    await world.round()
    assert len(sent(world)) == 1
    world.now_s += 1
    await world.round()
    assert world.condition("Authorized")[:2] == ("True", "RightsSufficient")


async def test_brokers_maximum_that_is_too_low_is_named_with_the_number() -> None:
    world = await consumers()
    world.kafka.broker_bounds = broker_bounds(
        consumer_min_ms=45_000, consumer_max_ms=60_000, consumer_session_ms=45_000, limits={SETTING: (45_000, 60_000)}
    )
    await joined(world)
    status, reason, message = world.condition("TimeoutSufficient")
    assert (status, reason) == ("False", "BrokerBoundTooLow")
    assert "raise group.consumer.max.session.timeout.ms on the brokers to at least 75000" in message
    assert world.kafka.broker_bounds.sessions[GroupType.CONSUMER].group_ms == 60_000


async def test_members_hold_a_raised_one_from_their_next_heartbeat_on() -> None:
    world = await joined(await consumers())
    world.kafka.broker_bounds = altered(world.kafka.broker_bounds, {SETTING: 60_000})
    world.now_s += 301
    await world.round()
    world.now_s += 1
    await world.round()
    assert world.status.timeout is not None
    assert (world.status.timeout.effective_ms, world.status.timeout.next_ms) == (60_000, TARGET_MS)
    status, _, message = world.condition("TimeoutSufficient")
    assert status == "False"
    assert "they take over the 115000 ms of the group with their next heartbeat" in message
    world.now_s += 11
    await world.round()
    assert world.status.timeout.effective_ms == TARGET_MS
    assert world.condition("TimeoutSufficient")[0] == "True"
