"""The operator's stored memory is emptied, replaced or lost while an unwanted process lives: its member is held."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from simulation.fault_world import kept
from simulation.scenes import HELD_FOR_S, heir_joins, lose, takes_its_seat_back
from simulator.faults.memory import MANY, WRITES_A_STATUS, clear_owners, put_owners_back, write_status
from simulator.kubernetes.objects import LEASES, PODS, STATIC_GROUPS, Json
from simulator.world.teams import GROUP, NAMESPACE, WORKLOAD
from simulator.world.world import SYSTEM, World
from support.narrowing import some

Tamper = Callable[[World, Json], None]
ANY_REASON = {"Suspect", "JoinedBeforeWatch"}


def _present(world: World) -> Json:
    found = some(world.server.get(STATIC_GROUPS, NAMESPACE, GROUP))
    return found


def emptied(world: World, older: Json) -> None:
    write_status(world, {})


def put_back(world: World, older: Json) -> None:
    write_status(world, older["status"])


def put_back_with_its_owners(world: World, older: Json) -> None:
    write_status(world, older["status"])
    put_owners_back(world, older)


def put_back_without_owners(world: World, older: Json) -> None:
    clear_owners(world, _present(world))
    write_status(world, older["status"])


def seats_edited(world: World, older: Json) -> None:
    """A user removes suspects and carriers, and leaves the other fields."""
    status = _present(world)["status"]
    write_status(world, {**status, "memory": {**status["memory"], "suspects": [], "seats": []}})


def lease_deleted(world: World, older: Json) -> None:
    world.server.delete(LEASES, SYSTEM, "staticgroup-operator")


def all_of_it(world: World, older: Json) -> None:
    put_back_with_its_owners(world, older)
    lease_deleted(world, older)


TAMPERINGS = (
    emptied, put_back, put_back_with_its_owners, put_back_without_owners, seats_edited, lease_deleted, all_of_it,
)


in_long_sessions = partial(kept, library="librdkafka", session_timeout_s=600)


async def goes_on(world: World, way: str, tamper: Callable[[], None]) -> None:
    """Tamper while the operator runs, while none does, or while its history is gone, too."""
    (running,) = world.living
    if way == "while it runs":
        tamper()
        await asyncio.sleep(10)
        return
    world.crash_operator(running)
    tamper()
    if way == "while none runs and the history is lost":
        world.server.compact(PODS)
    world.restart_operator(running.name)
    await asyncio.sleep(10)


WAYS = ("while it runs", "while none runs", "while none runs and the history is lost")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tamper", TAMPERINGS)
@in_long_sessions()
async def test_a_member_that_is_held_is_held_on_whatever_becomes_of_the_memory(
    world: World, tamper: Tamper, way: str
) -> None:
    """A suspect holds its seat beside an heir, which then ends: only the memory shows that the member may be the
    suspect's."""
    await asyncio.sleep(20)
    older = _present(world)
    lost = await lose(world)
    await heir_joins(world, lost)
    await takes_its_seat_back(world, lost)
    await asyncio.sleep(HELD_FOR_S)
    await goes_on(world, way, lambda: tamper(world, older))
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(2 * HELD_FOR_S)
    assert any(p.pod_uid == lost for p in world.processes.running())
    assert ANY_REASON & {e["reason"] for e in world.status["issues"]}
    assert world.safety.removals == 0


@pytest.mark.parametrize("way", WAYS[1:])
@in_long_sessions()
async def test_a_member_that_no_status_names_is_held(world: World, way: str) -> None:
    """A pod is lost while no status can be written, and the operator is killed before one is."""
    await asyncio.sleep(20)
    (running,) = world.living
    running.transport.link.faults.refusals[WRITES_A_STATUS[0]] = [503] * MANY
    lost = await lose(world)
    await heir_joins(world, lost)
    await takes_its_seat_back(world, lost)
    await asyncio.sleep(90)  # a replay of the last minute does not show it
    await goes_on(world, way, lambda: None)
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(2 * HELD_FOR_S)
    assert any(p.pod_uid == lost for p in world.processes.running())
    assert world.safety.removals == 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("tamper", [emptied, put_back_with_its_owners, lease_deleted])
@in_long_sessions()
async def test_a_member_that_joins_after_that_is_removed(world: World, tamper: Tamper, way: str) -> None:
    """Once the watch is whole again, one restart of each pod is all that is needed."""
    await asyncio.sleep(20)
    older = _present(world)
    await goes_on(world, way, lambda: tamper(world, older))
    await asyncio.sleep(world.settings.settle_s + 2 * 600 + 60)
    world.users.roll(NAMESPACE, WORKLOAD)
    await asyncio.sleep(120)
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await world.until(world.is_settled, 60, "the departed member is gone")
    assert world.safety.removals == 1


@in_long_sessions()
async def test_a_standby_that_takes_over_knows_the_members_of_before(world: World) -> None:
    """The holder is killed when its suspect stands in the status; the other one has watched all along."""
    world.restart_operator("operator-b")
    await asyncio.sleep(HELD_FOR_S)
    lost = await lose(world)
    await heir_joins(world, lost)
    await takes_its_seat_back(world, lost)
    await asyncio.sleep(HELD_FOR_S)
    holder = some(world.leader())
    world.crash_operator(holder)
    await asyncio.sleep(20)
    assert world.leader() not in (None, holder)
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(2 * HELD_FOR_S)
    assert "Suspect" in {e["reason"] for e in world.status["issues"]}
    assert world.safety.removals == 0
