"""The control plane itself: restarts, outages, restores and versions."""

from __future__ import annotations

from random import Random

from staticgroup.api.names import SLOTS_NAME

from ..kubernetes.objects import (
    MUTATING_POLICIES,
    MUTATING_WEBHOOKS,
    PODS,
    RESOURCES_OF_US,
    STATEFULSETS,
)
from ..world.world import RunningOperator, World
from .registry import Heal, attempt, fault, restore_etcd

BUMP = 1_000_000_000
"""What the etcd documentation recommends to go ahead after a restore."""


@fault(weight=1.0, lasts_s=(0, 0))
def api_server_restarts(world: World, rng: Random) -> None:
    """Every watch ends, old positions answer 410 from then on, caches start again."""
    world.kubernetes.restart_api_server()


@fault(weight=0.7, lasts_s=(60, 240))
def api_server_is_away(world: World, rng: Random) -> Heal:
    """The API server cannot be reached for minutes; processes and brokers go on."""
    nodes = [node for node in world.kubernetes.nodes.values() if not node.is_cut]
    controllers = (world.kubernetes.stateful_sets, world.kubernetes.deployments)
    for controller in controllers:
        controller.due.is_paused = True
    world.kubernetes.node_controller.is_paused = True

    def refuse(operator: RunningOperator) -> None:
        operator.transport.link.faults.is_refusing = True
        operator.transport.link.break_watches()

    for operator in world.living:
        refuse(operator)
    world.on_start.append(refuse)
    for node in nodes:
        node.cut()

    def heal() -> None:
        for controller in controllers:
            controller.due.is_paused = False
        world.kubernetes.restart_api_server()
        for node in nodes:
            node.heal()
        world.on_start.remove(refuse)
        for operator in world.living:
            operator.transport.link.heal()
        # Node controllers wait for the first heartbeats after an outage of their own.
        world.loop.world_call_later(20.0, lambda: setattr(world.kubernetes.node_controller, "is_paused", False))

    return heal


@fault(weight=1.0, lasts_s=(20, 150))
def operators_are_away(world: World, rng: Random) -> Heal:
    """No operator runs for so long that the history of every watch is gone."""
    names = [operator.name for operator in world.living]
    for operator in world.living:
        world.crash_operator(operator)

    def heal() -> None:
        for resource in (PODS, STATEFULSETS, *RESOURCES_OF_US):
            world.server.compact(resource)
        for name in names:
            world.restart_operator(name)

    return heal


@fault(weight=0.4, lasts_s=(1, 20))
def etcd_is_restored_ahead(world: World, rng: Random) -> Heal:
    """An etcd is set back to a snapshot, and its revisions are bumped ahead of all that was ever seen."""
    backup = world.server.backup()

    return lambda: restore_etcd(world, backup, bump=BUMP)


@fault(weight=0.4, lasts_s=(20, 150))
def injection_policy_is_missing(world: World, rng: Random) -> Heal | None:
    """A user deletes the injection policy, or where there is none the webhook, and installs it again later."""
    name = world.server.policy_name
    for resource in (MUTATING_POLICIES, MUTATING_WEBHOOKS):
        known = world.server.get(resource, "", name)
        if known is not None:
            break
    else:
        return None
    body = {part: known[part] for part in known if part != "metadata"} | {"metadata": {"name": name}}
    attempt(lambda: world.server.delete(resource, "", name))
    slots = world.server.get(MUTATING_POLICIES, "", SLOTS_NAME)
    if slots is not None:
        attempt(lambda: world.server.delete(MUTATING_POLICIES, "", SLOTS_NAME))

    def heal() -> None:
        attempt(lambda: world.server.create(resource, body))
        if slots is not None:
            attempt(lambda: world.server.create(MUTATING_POLICIES, {"metadata": {"name": SLOTS_NAME}}))

    return heal


@fault(weight=0.7, lasts_s=(60, 200))
def somebody_fails_pods_of_lost_nodes(world: World, rng: Random) -> Heal:
    """A third-party controller writes phase Failed where a kubelet is silent."""
    before = world.failure_recovery.is_on
    world.failure_recovery.switch(True)
    return lambda: world.failure_recovery.switch(before)
