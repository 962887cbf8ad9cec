"""Secrets that rounds read: once for many, anew when they may be others, and asked for until they are there."""

from __future__ import annotations

from staticgroup.core.group import KafkaProblem, KafkaProblemKind

from .operator_world import CANARY, KEY, OperatorWorld


def passwords(world: OperatorWorld) -> list[str]:
    return [s.sasl.password.reveal() for s in world.kafka.settings_seen if s.sasl is not None]


async def test_rotated_secret_is_used_within_its_max_age_without_a_restart() -> None:
    world = OperatorWorld()
    await world.round()
    world.kube.secrets["shop", "kafka-user"]["password"] = b"rotated"
    world.now_s += 19
    await world.round()
    world.now_s += 2
    await world.round()
    assert passwords(world) == [CANARY, CANARY, "rotated"]


async def test_refused_login_reads_the_secret_again_at_once() -> None:
    world = OperatorWorld()
    await world.round()
    world.kube.secrets["shop", "kafka-user"]["password"] = b"rotated"
    world.kafka.problems["describe"] = KafkaProblem(
        kind=KafkaProblemKind.AUTHENTICATION_FAILED, message="the broker refused the credentials"
    )
    await world.round()
    await world.round()
    assert passwords(world) == [CANARY, CANARY, "rotated"]


async def test_secret_is_read_once_for_many_rounds_within_its_max_age() -> None:
    world = OperatorWorld()
    for _ in range(5):
        await world.round()
    await world.reconciler.reconcile(KEY)
    assert not world.did("read_secret")


async def test_missing_secret_is_asked_for_again_every_round() -> None:
    world = OperatorWorld()
    secret = world.kube.secrets.pop(("shop", "kafka-user"))
    await world.round()
    assert world.condition("Connected")[1] == "SecretNotFound"
    world.kube.secrets["shop", "kafka-user"] = secret
    await world.round()
    assert world.condition("Connected")[0] == "True"
