"""How soon another replica acts, and the process ends, when the holder of the Lease gets SIGTERM in an unlucky
moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simulation.fault_world import kept
from simulator.faults.memory import MANY, WRITES_A_STATUS
from simulator.kubernetes.objects import LEASES
from simulator.world.teams import GROUP, NAMESPACE
from simulator.world.world import RunningOperator, World
from support.narrowing import some

BUDGET_S = 3.0
"""docs/reference/hand-over.md"""
GRACE_S = 30.0
"""terminationGracePeriodSeconds of the chart."""


async def two(world: World) -> tuple[RunningOperator, RunningOperator]:
    """Run two replicas; return the holder of the Lease, and the other one."""
    world.restart_operator("operator-b")
    await asyncio.sleep(60)
    holder = some(world.leader())
    (other,) = [o for o in world.living if o is not holder]
    # a Deployment gives the next one another name
    world.restart_operator = lambda name: None  # type: ignore[method-assign]
    return holder, other


@pytest.mark.parametrize("held_s", [0.0, 0.013, 0.014, 0.015, 0.016, 0.017, 0.018, 0.1])
@kept()
async def test_a_holder_that_gets_sigterm_within_a_renewal_still_gives_the_lease_up(
    world: World, held_s: float
) -> None:
    """A write takes an API server longer than a read, so the renewal may land between the two of the release."""
    holder, other = await two(world)
    asked_at_s: list[float] = []

    def renews(verb: str, label: str) -> None:
        if (verb, label) == ("update", LEASES) and not asked_at_s:
            asked_at_s.append(world.loop.time())
            holder.transport.link.faults.held_s = held_s
            world.loop.world_call_later(0.012, world.end_operator, holder)

    holder.transport.link.on_request.append(renews)
    await world.until(lambda: asked_at_s, 60, "it renews")
    await world.until(lambda: other.operator.is_active, 60, "the other one acts")
    assert world.loop.time() - asked_at_s[0] <= BUDGET_S


@pytest.mark.parametrize("verb", ["get", "update"])
@pytest.mark.parametrize("status", [0, 429, 503])
@kept()
async def test_a_holder_whose_release_is_refused_once_gives_the_lease_up_all_the_same(
    world: World, verb: str, status: int
) -> None:
    holder, other = await two(world)
    await asyncio.sleep(0.5)
    holder.transport.link.faults.refusals[verb, LEASES] = [status]
    began_s = world.loop.time()
    world.end_operator(holder)
    await world.until(lambda: other.operator.is_active, 60, "the other one acts")
    assert world.loop.time() - began_s <= BUDGET_S


@kept()
async def test_an_operator_that_gets_sigterm_ends_within_its_grace_period_whatever_the_api_server_does(
    world: World
) -> None:
    await asyncio.sleep(60)
    (holder,) = world.living
    holder.transport.link.faults.refusals[WRITES_A_STATUS[0]] = [503] * MANY
    world.users.edit_without_effect(NAMESPACE, GROUP)
    await asyncio.sleep(2)
    deliver, ended = holder.transport._reach_client, list[float]()
    assert holder.main is not None
    holder.main.add_done_callback(lambda _: ended.append(world.loop.time()), context=world.loop.world_context)

    def slow(request: Any, answer: Any) -> None:
        if (request.verb, request.label) == ("get", LEASES):
            world.loop.world_call_later(14.8, deliver, request, answer)
        elif (request.verb, request.label) == ("update", LEASES):
            holder.transport._give_up(request)
        else:
            deliver(request, answer)

    holder.transport._reach_client = slow  # type: ignore[method-assign]
    began_s = world.loop.time()
    world.end_operator(holder)
    await world.until(lambda: ended, 60, "it has ended")
    assert ended[0] - began_s < GRACE_S / 2
