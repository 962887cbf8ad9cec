"""What the assumptions cost where they are broken: one member that lives is removed, counted apart from violations, and
joins again."""

from __future__ import annotations

import asyncio

import pytest

from simulation.fault_world import in_world, pod
from simulation.scenes import HELD_FOR_S, LAST, WITHIN_S, heir_joins, takes_its_seat_back
from simulator.faults.heirs import lose_pod
from simulator.kubernetes.node.kubelet import Kubelet
from simulator.kubernetes.objects import PODS, uid_of
from simulator.oracles.assumptions import Assumption
from simulator.world.teams import NAMESPACE, WORKLOAD
from simulator.world.world import World

SETTLE_S = 60.0
OVER_S = 2 * SETTLE_S


async def falls_silent(world: World) -> tuple[str, Kubelet]:
    """Lose the last pod with a machine that stands still, until its session has ended; return its uid and its node."""
    lost, node = uid_of(pod(world, 2)), world.kubernetes.node_of(NAMESPACE, LAST)
    assert node is not None
    lose_pod(world, node, LAST)
    node.freeze()
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await world.until(lambda: len(world.members()) == 2, WITHIN_S, "its session has ended")
    return lost, node


async def comes_back_beside_an_heir(world: World, lost: str, node: Kubelet) -> None:
    """Let another pod have the seat, the machine go on and start the lost one anew, and the seat be wanted no more."""
    world.users.scale(NAMESPACE, WORKLOAD, 3)
    await heir_joins(world, lost)
    await asyncio.sleep(HELD_FOR_S)
    node.thaw()
    await takes_its_seat_back(world, lost)
    await asyncio.sleep(HELD_FOR_S)
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(HELD_FOR_S)


async def silent(world: World) -> None:
    await asyncio.sleep(20)
    lost, node = await falls_silent(world)
    await asyncio.sleep(OVER_S)
    await comes_back_beside_an_heir(world, lost, node)


async def silent_for_too_short(world: World) -> None:
    await asyncio.sleep(20)
    lost, node = await falls_silent(world)
    await comes_back_beside_an_heir(world, lost, node)


async def unseen(world: World) -> None:
    (running,) = world.living
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await world.until(world.is_settled, WITHIN_S, "seat 2 is empty")
    await asyncio.sleep(HELD_FOR_S)
    world.crash_operator(running)
    world.users.scale(NAMESPACE, WORKLOAD, 3)
    await heir_joins(world, "")
    lost, node = await falls_silent(world)
    world.server.compact(PODS)
    world.restart_operator(running.name)
    await asyncio.sleep(OVER_S)
    await comes_back_beside_an_heir(world, lost, node)


@pytest.mark.parametrize(
    ("play", "broken"),
    [(silent, {Assumption.A2}), (unseen, {Assumption.A1, Assumption.A2}), (silent_for_too_short, set())],
)
def test_a_live_removal_where_an_assumption_is_broken_is_counted_apart(play: object, broken: set[Assumption]) -> None:
    world = in_world(play, library="librdkafka", settle_s=SETTLE_S)  # type: ignore[arg-type]
    assert [str(v) for v in world.violations] == []
    assert bool(world.breaches) == bool(broken)
    assert {b.assumption for b in world.breaches} <= broken
