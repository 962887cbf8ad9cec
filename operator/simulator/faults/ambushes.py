"""Faults that wait for the worst moment: the next LeaveGroup, the next read, a gap of the watch.

Drawn at random they would hardly ever hit, and the rule that covers them would never be needed in a schedule.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from ..kubernetes.node.kubelet import Kubelet
from ..kubernetes.objects import PODS, STATEFULSETS
from ..world.world import GROUP, NAMESPACE, WORKLOAD, RunningOperator, World
from .registry import USUAL_LATENCY_S, Heal, attempt, draw_operator, each, fault

READS_INTENT = ("get", STATEFULSETS)
"""The operator reads a single workload only after it has found a member that it may remove."""


def _at_next_leave(world: World, act: Callable[[RunningOperator], None]) -> Heal:
    """Do something in the moment in which an operator puts its next LeaveGroup on the wire; once."""
    hooks: list[tuple[RunningOperator, Callable[[object], None]]] = []

    def heal() -> None:
        for operator, hook in hooks:
            operator.gateway.on_leave.remove(hook)
        hooks.clear()

    def arm(operator: RunningOperator) -> None:
        def hook(_: object) -> None:
            world.loop.world_call_later(0.0, heal)
            act(operator)

        operator.gateway.on_leave.append(hook)
        hooks.append((operator, hook))

    for operator in world.living:
        arm(operator)
    return heal


@fault(weight=1.5, lasts_s=(60, 180))
def answer_of_the_next_leave_gets_lost(world: World, rng: Random) -> Heal:
    """The coordinator removes the member, and its answer is lost."""

    def act(operator: RunningOperator) -> None:
        operator.gateway.link.answers_to_lose = 1

    return _at_next_leave(world, act)


@fault(weight=1.5, lasts_s=(60, 180))
def coordinator_fails_over_after_the_next_leave(world: World, rng: Random) -> Heal:
    """The leave is acknowledged and lost with the coordinator, unless it was persisted just in time."""
    after_s = rng.choice((0.003, 0.01, 0.5))

    def fail_over() -> None:
        world.coordinator_epoch += 1
        world.kafka.fail_over(GROUP, is_clean=False, outage_s=0.5, loading_s=0.0)

    def act(operator: RunningOperator) -> None:
        world.loop.world_call_later(after_s, fail_over)

    return _at_next_leave(world, act)


@fault(weight=1.5, lasts_s=(60, 180))
def next_leave_is_overtaken(world: World, rng: Random) -> Heal:
    """A LeaveGroup is long on its way; meanwhile its ordinal is wanted again and a new pod joins."""
    slow_s = rng.uniform(3, 9)

    def act(operator: RunningOperator) -> None:
        link = operator.gateway.link
        link.latency_s = slow_s
        replicas = len(world.truth.desired(WORKLOAD)) + 2
        attempt(lambda: world.users.scale(NAMESPACE, WORKLOAD, replicas))
        world.loop.world_call_later(0.1, lambda: setattr(link, "latency_s", USUAL_LATENCY_S))

    return _at_next_leave(world, act)


@fault(weight=1.5, lasts_s=(90, 200))
def operator_freezes_while_it_reads(world: World, rng: Random) -> Heal | None:
    """An operator stands still, longer than its Lease, between finding a departed member and removing it."""
    operator, frozen_s = draw_operator(world, rng), rng.uniform(40, 80)
    if operator is None:
        return None
    link, process = operator.transport.link, operator.process

    def hook(verb: str, label: str) -> None:
        if (verb, label) == READS_INTENT:
            heal()
            process.freeze()
            world.loop.world_call_later(frozen_s, process.thaw)

    def heal() -> None:
        if hook in link.on_request:
            link.on_request.remove(hook)

    link.on_request.append(hook)
    return heal


def _zombie_is_born(
    world: World, rng: Random, *, hide: Callable[[], None], show: Callable[[], None]
) -> tuple[Coroutine[Any, Any, None], list[Kubelet]]:
    """Let an id end properly and be carried again by an unseen pod, whose process outlives its object.

    Parameters
    ----------
    hide: called before the pod comes; show: called when its object is gone and its id is unwanted again.
    """
    lost: list[Kubelet] = []

    async def act() -> None:
        ordinals = world.truth.desired(WORKLOAD)
        if len(ordinals) < 2:
            return
        count, last = len(ordinals), f"{WORKLOAD}-{ordinals[-1]}"
        attempt(lambda: world.users.scale(NAMESPACE, WORKLOAD, count - 1))
        await asyncio.sleep(rng.uniform(12, 20))
        hide()
        attempt(lambda: world.users.scale(NAMESPACE, WORKLOAD, count))
        await asyncio.sleep(rng.uniform(12, 20))
        node = world.kubernetes.node_of(NAMESPACE, last)
        if node is not None:
            node.cut()
            lost.append(node)
        attempt(lambda: world.users.scale(NAMESPACE, WORKLOAD, count - 1))
        attempt(lambda: world.users.delete_pod(NAMESPACE, last, grace_s=0))
        await asyncio.sleep(1.0)
        show()

    return act(), lost


@fault(weight=1.0, lasts_s=(120, 200))
def zombie_is_born_in_a_gap(world: World, rng: Random) -> Heal:
    """It comes and goes while no operator lives, and the API server no longer has the events."""

    def hide() -> None:
        for operator in world.living:
            world.crash_operator(operator)

    def show() -> None:
        world.server.compact(PODS)
        world.restart_operator("operator-a")

    script, lost = _zombie_is_born(world, rng, hide=hide, show=show)
    world.loop.spawn(script, name="zombie in a gap")

    return each(Kubelet.heal, lost)


@fault(weight=1.0, lasts_s=(120, 200))
def zombie_is_born_behind_a_slow_watch(world: World, rng: Random) -> Heal:
    """It comes and goes while the events of pods are late, and reads are fresh."""
    slow: list[RunningOperator] = []

    def hide() -> None:
        for operator in world.living:
            operator.transport.link.faults.watch_delay_s = rng.uniform(50, 70)
            slow.append(operator)

    def show() -> None:
        pass

    script, lost = _zombie_is_born(world, rng, hide=hide, show=show)
    world.loop.spawn(script, name="zombie behind a watch")

    def heal() -> None:
        for operator in slow:
            operator.transport.link.faults.watch_delay_s = 0.0
        for node in lost:
            node.heal()

    return heal
