"""Brokers, coordinators and what they answer."""

from __future__ import annotations

from random import Random
from typing import Final

from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import JoinGroupRequest, Protocol

from ..clients.classic import encoded_topics
from ..kafka.network import KafkaLink
from ..world.world import GROUP, TOPIC, RunningOperator, World
from .registry import USUAL_LATENCY_S, Heal, fault, operator_fault, setting

OPERATOR_PRINCIPAL: Final = "User:operator"


@fault(weight=2.0, lasts_s=(0, 0))
def coordinator_fails_over(world: World, rng: Random) -> None:
    """Another broker coordinates the group, knowing what was persisted."""
    world.coordinator_epoch += 1
    world.kafka.fail_over(
        GROUP, is_clean=rng.random() < 0.5, outage_s=rng.uniform(0.2, 8), loading_s=rng.choice((0.0, 0.0, 3.0))
    )


@fault(weight=0.7, lasts_s=(5, 60))
def all_brokers_are_down(world: World, rng: Random) -> Heal:
    """Kafka is gone for a while."""
    world.coordinator_epoch += 1
    for node_id in world.kafka.brokers:
        world.kafka.kill_broker(node_id)

    def heal() -> None:
        world.coordinator_epoch += 1
        for node_id in world.kafka.brokers:
            world.kafka.start_broker(node_id)

    return heal


@operator_fault(weight=1.5, lasts_s=(5, 40))
def answers_of_kafka_get_lost(world: World, rng: Random, operator: RunningOperator) -> Heal:
    """The coordinator acts, and its answer is lost."""
    link = operator.gateway.link
    link.answers_to_lose = rng.randint(1, 4)

    return setting(link, answers_to_lose=0)


@operator_fault(lasts_s=(5, 60))
def kafka_is_slow(world: World, rng: Random, operator: RunningOperator) -> Heal:
    """Every request of the operator takes up to seconds."""
    link = operator.gateway.link
    link.latency_s = rng.uniform(0.2, 4)

    return setting(link, latency_s=USUAL_LATENCY_S)


@fault(lasts_s=(0, 0))
def describe_is_stale(world: World, rng: Random) -> None:
    """The group is shown as it was, as by a former coordinator."""
    world.kafka.read_stale(GROUP, behind_s=rng.uniform(1, 30), for_s=rng.uniform(1, 20))


@fault(lasts_s=(0, 0))
def coordinator_is_loading(world: World, rng: Random) -> None:
    """The coordinator answers an error for a while."""
    code = rng.choice((ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    world.kafka.refuse(GROUP, code, for_s=rng.uniform(2, 30))


@fault(weight=0.7, lasts_s=(5, 40))
def log_refuses_appends(world: World, rng: Random) -> Heal:
    """`__consumer_offsets` has too few replicas in sync."""
    world.kafka.refuse_writes(GROUP, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return lambda: world.kafka.refuse_writes(GROUP, None)


@fault(lasts_s=(5, 60))
def access_is_lost(world: World, rng: Random) -> Heal:
    """An ACL of the operator's principal is gone."""
    operation = rng.choice(("READ", "DESCRIBE"))
    world.kafka.deny(OPERATOR_PRINCIPAL, operation)
    return lambda: world.kafka.grant(OPERATOR_PRINCIPAL, operation)


@fault(lasts_s=(0, 0))
def unknown_member_joins(world: World, rng: Random) -> None:
    """A process from outside of every StaticGroup joins the group under an id of its own."""
    link = KafkaLink(name=f"unknown-{world.loop.time():.3f}")
    join = JoinGroupRequest(
        group_id=GROUP,
        group_instance_id=f"{TOPIC}-unknown-{rng.randint(0, 9)}",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=10_000,
        protocols=(Protocol("range", encoded_topics((TOPIC,))),),
    )
    world.loop.spawn(world.ask_once(link, join), name="unknown member")
