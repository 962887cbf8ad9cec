"""An older status is put back together with its owners while no operator looks, and a process of that id lives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from simulation.fault_world import Test, in_world
from simulator.faults.memory import MANY, WRITES_A_STATUS, write_status
from simulator.kubernetes.objects import STATIC_GROUPS, Json
from simulator.world.teams import GROUP, NAMESPACE, WORKLOAD
from simulator.world.world import RunningOperator, World
from staticgroup.kube.translate.owners import is_put_back

Break = Callable[[World], None]


def present(world: World) -> Json:
    found = world.server.get(STATIC_GROUPS, NAMESPACE, GROUP)
    assert found is not None
    return found


def put_whole(world: World, older: Json) -> None:
    """Replace the object by an older one, as a restore in place does, which makes the operator the owner of its history again."""
    version = {"resourceVersion": present(world)["metadata"]["resourceVersion"]}
    world.server.update(STATIC_GROUPS, older | {"metadata": older["metadata"] | version})
    assert not is_put_back(present(world))


def put_back(world: World, older: Json) -> None:
    """Write the status of a backup first, and then the whole object."""
    write_status(world, older["status"])
    assert is_put_back(present(world))
    put_whole(world, older)


async def empty_seat(world: World) -> Json:
    """Scale seat 2 away so that nothing of it is remembered, and return the StaticGroup as it is then."""
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await world.until(world.is_settled, 60, "seat 2 is empty")
    for name in world.kubernetes.nodes:
        world.users.cordon(name)
    # A pod that runs nowhere: nothing that was removed is remembered of a seat that is wanted again.
    world.users.scale(NAMESPACE, WORKLOAD, 3)
    await asyncio.sleep(30)
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(30)
    for name in world.kubernetes.nodes:
        world.users.cordon(name, unschedulable=False)
    assert world.status["settling"] == []
    return present(world)


async def lose_pod(world: World) -> None:
    """Cut the node of seat 2 off and delete its pod by force, so that the process lives and nobody can prove that it has ended."""
    node = world.kubernetes.node_of(NAMESPACE, f"{WORKLOAD}-2")
    assert node is not None
    node.cut()
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(5)
    world.users.delete_pod(NAMESPACE, f"{WORKLOAD}-2", grace_s=0)


async def zombie(world: World) -> Json:
    """Leave a process of seat 2 whose death nobody has proven; return the StaticGroup as it was when that seat was empty."""
    older = await empty_seat(world)
    world.users.scale(NAMESPACE, WORKLOAD, 3)
    await world.until(world.is_settled, 60, "seat 2 has another pod")
    await asyncio.sleep(30)
    await lose_pod(world)
    await world.until(lambda: "DeathNotProven" in str(world.status), 60, "a suspect is remembered")
    await asyncio.sleep(70)
    return older


def end_all(world: World) -> list[str]:
    names = [running.name for running in world.living]
    for running in world.living:
        world.crash_operator(running)
    return names


async def active_before_a_round(world: World) -> RunningOperator:
    """Start the operator anew, active, while it may not read a StaticGroup, so that no round begins."""
    (name,) = end_all(world)
    world.server.deny("operator", ("get",), STATIC_GROUPS)
    world.restart_operator(name)
    (running,) = world.living
    await world.until(lambda: running.operator.is_active, 60, "it is active")
    await asyncio.sleep(2)
    return running


async def nobody_is_removed(world: World) -> None:
    await asyncio.sleep(240)
    assert [str(v) for v in world.violations] == []
    assert world.leader() is not None
    assert len(world.members()) == 3
    assert "MemoryLost" in str(world.status["continuity"].get("blind"))


def has_history(world: World) -> None:
    """Leave the API server as it is."""


def is_compacted(world: World) -> None:
    world.server.compact(STATIC_GROUPS)


def broken_promises(test: Test, **settings: object) -> list[str]:
    """Play a test in a world of its own, and return which of the operator's promises were broken in it."""
    return [str(v) for v in in_world(test, **settings).violations]


@pytest.mark.parametrize("history", [has_history, is_compacted])
@pytest.mark.parametrize("watched", [0, 2], ids=["all namespaces", "some"])
def test_an_older_object_that_is_put_back_while_no_operator_runs_is_no_memory(history: Break, watched: int) -> None:
    async def test(world: World) -> None:
        older = await zombie(world)
        names = end_all(world)
        await asyncio.sleep(10)
        put_back(world, older)
        await asyncio.sleep(10)
        history(world)
        for name in names:
            world.restart_operator(name)
        await nobody_is_removed(world)

    assert broken_promises(test, watched=watched) == []


@pytest.mark.parametrize("history", [has_history, is_compacted])
def test_a_standby_whose_stores_are_warm_takes_over_and_believes_nothing_that_was_put_back_meanwhile(history: Break) -> None:
    async def test(world: World) -> None:
        world.restart_operator("operator-b")
        older = await zombie(world)
        holder = world.leader()
        assert holder is not None
        world.crash_operator(holder)
        put_back(world, older)
        history(world)
        await nobody_is_removed(world)

    assert broken_promises(test) == []


def test_a_holder_that_cannot_write_over_it_before_it_is_killed_tells_its_successor() -> None:
    """The position of the pod watch has passed what was put back by then, and the whole object comes when nobody runs."""

    async def test(world: World) -> None:
        older = await zombie(world)
        (holder,) = world.living
        holder.transport.link.faults.refusals[WRITES_A_STATUS[0]] = [503] * MANY
        write_status(world, older["status"])
        await asyncio.sleep(8)
        world.crash_operator(holder)
        put_whole(world, older)
        world.restart_operator(holder.name)
        await nobody_is_removed(world)

    assert broken_promises(test) == []


def test_what_is_put_back_while_a_holder_that_was_told_to_end_waits_for_its_last_writes_is_no_memory() -> None:
    """No round runs any more, and the position that it leaves in the Lease has passed what was put back."""

    async def test(world: World) -> None:
        older = await zombie(world)
        (holder,) = world.living
        holder.transport.link.faults.refusals[WRITES_A_STATUS[0]] = [503] * MANY
        world.users.edit_group(NAMESPACE, GROUP, {"removal": {"maxPercentOfGroup": 71}})
        await asyncio.sleep(2)
        world.end_operator(holder)
        await asyncio.sleep(0.1)
        assert holder.is_alive
        put_back(world, older)
        await world.until(lambda: not holder.is_alive, 2, "it has ended")
        await nobody_is_removed(world)

    assert broken_promises(test) == []


def test_what_is_put_back_when_rounds_have_ended_is_doubted_as_long_as_the_lease_is_held() -> None:
    async def test(world: World) -> None:
        older = await zombie(world)
        (holder,) = world.living
        holder.operator.is_active = False
        put_back(world, older)
        await asyncio.sleep(1)
        assert holder.operator.look_back.stored().doubted == {(NAMESPACE, GROUP)}

    assert broken_promises(test) == []


@pytest.mark.parametrize("history", [has_history, is_compacted])
def test_what_is_doubted_stays_so_when_its_finder_is_killed_before_it_has_written(history: Break) -> None:
    def refuse(running: RunningOperator) -> None:
        running.transport.link.faults.refusals[WRITES_A_STATUS[0]] = [503] * MANY

    async def test(world: World) -> None:
        older = await zombie(world)
        names = end_all(world)
        put_back(world, older)
        history(world)
        world.on_start.append(refuse)
        world.restart_operator(names[0])
        await asyncio.sleep(60)
        end_all(world)
        world.on_start.remove(refuse)
        world.restart_operator(names[0])
        await nobody_is_removed(world)

    assert broken_promises(test) == []


@pytest.mark.parametrize("history", [has_history, is_compacted])
def test_what_is_put_back_while_its_holder_is_cut_off_is_no_memory(history: Break) -> None:
    async def test(world: World) -> None:
        older = await zombie(world)
        (holder,) = world.living
        before = holder.operator.lease.holding
        holder.transport.link.faults.is_cut = True
        await asyncio.sleep(2)
        put_back(world, older)
        await asyncio.sleep(10)
        history(world)
        holder.transport.link.heal()
        await nobody_is_removed(world)
        assert holder.operator.lease.holding == before

    assert broken_promises(test) == []


def told(running: RunningOperator) -> None:
    """Let each event come."""


def listed(running: RunningOperator) -> None:
    """Let the watch end before, so that only a LIST shows what there is then."""
    running.transport.link.break_watches()


def read(running: RunningOperator) -> None:
    """Let events come later than answers."""
    running.transport.link.faults.watch_delay_s = 20.0


@pytest.mark.parametrize("way", [told, listed, read])
def test_what_is_put_back_between_the_take_over_and_the_first_round_is_no_memory(way: Callable[[RunningOperator], None]) -> None:
    async def test(world: World) -> None:
        older = await zombie(world)
        running = await active_before_a_round(world)
        way(running)
        put_back(world, older)
        if way is not read:
            await asyncio.sleep(10)
        world.server.allow("operator", ("get",), STATIC_GROUPS)
        await nobody_is_removed(world)

    assert broken_promises(test) == []


@pytest.mark.parametrize("standbys", [0, 1])
@pytest.mark.parametrize("is_writing", [False, True], ids=["at rest", "in a status write"])
def test_an_ordinary_edit_while_no_operator_looks_makes_nobody_doubt(standbys: int, is_writing: bool) -> None:
    async def test(world: World) -> None:
        for _ in range(standbys):
            world.restart_operator("operator-b")
        await asyncio.sleep(30)
        holder = world.leader()
        assert holder is not None
        killed: list[str] = []

        def kill(verb: str, label: str) -> None:
            if (verb, label) == WRITES_A_STATUS[0] and not killed:
                killed.append(holder.name)
                # The request is on its way by then, and is carried out.
                world.loop.world_call_later(0.0, world.crash_operator, holder)

        if is_writing:
            holder.transport.link.on_request.append(kill)
            world.users.scale(NAMESPACE, WORKLOAD, 4)
            await world.until(lambda: killed and not holder.is_alive, 60, "it is killed while it writes")
        else:
            world.crash_operator(holder)
        world.users.edit_group(NAMESPACE, GROUP, {"removal": {"holdSeconds": 1}})
        body = present(world)
        world.server.update(STATIC_GROUPS, body | {"metadata": body["metadata"] | {"labels": {"seen-by": "argo"}}})
        await asyncio.sleep(60)
        world.restart_operator(holder.name)
        await world.until(lambda: world.status.get("observedGeneration") == 2, 60, "it works")
        assert world.status["continuity"].get("blind", []) == []
        world.users.scale(NAMESPACE, WORKLOAD, 2)
        await world.until(world.is_settled, 120, "the departed members are gone")

    assert broken_promises(test) == []


def test_a_history_that_cannot_be_looked_at_is_waited_for() -> None:
    """Nothing is removed until the rights are back, and everything is then."""

    async def test(world: World) -> None:
        older = await zombie(world)
        (name,) = end_all(world)
        put_back(world, older)
        world.server.deny("operator", ("watch",), STATIC_GROUPS)
        world.restart_operator(name)
        await asyncio.sleep(60)
        assert not world.living[0].operator.is_active
        world.server.allow("operator", ("watch",), STATIC_GROUPS)
        await nobody_is_removed(world)

    assert broken_promises(test) == []
