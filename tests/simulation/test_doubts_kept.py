"""What was put back and is doubted stays so until the operator has written over just that."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from simulation.test_put_back import (
    active_before_a_round,
    broken_promises,
    end_all,
    nobody_is_removed,
    put_whole,
    zombie,
)
from simulator.clients.processes import ContainerProcess
from simulator.faults.memory import MANY, WRITES_A_STATUS, write_status
from simulator.kubernetes.objects import LEASES, PODS, STATIC_GROUPS
from simulator.world.teams import GROUP, NAMESPACE, WORKLOAD
from simulator.world.world import SYSTEM, RunningOperator, World


def test_answer_to_a_write_that_came_before_what_was_put_back_ends_no_doubt() -> None:
    """The write lands, a backup's status is put over it and told, and only then the write is answered; reads are refused for a while."""

    async def test(world: World) -> None:
        older = await zombie(world)
        (holder,) = world.living
        transport, came = holder.transport, []
        deliver = transport._reach_client

        def late(request: Any, answer: Any) -> None:
            if (request.verb, request.label) != WRITES_A_STATUS[0] or came:
                deliver(request, answer)
                return
            came.append(request)
            write_status(world, older["status"])
            transport.link.faults.refusals[WRITES_A_STATUS[1]] = [503] * MANY
            world.loop.world_call_later(3.0, deliver, request, answer)

        transport._reach_client = late  # type: ignore[method-assign]
        world.users.edit_group(NAMESPACE, GROUP, {"removal": {"maxPercentOfGroup": 71}})
        await world.until(lambda: came, 60, "it has written")
        await asyncio.sleep(10)
        world.crash_operator(holder)
        put_whole(world, older)
        world.restart_operator(holder.name)
        await nobody_is_removed(world)

    assert broken_promises(test) == []


def refuse_writes(running: RunningOperator) -> None:
    running.transport.link.faults.refusals[WRITES_A_STATUS[0]] = [503] * MANY


def test_doubt_of_a_first_read_is_told_to_the_successor_though_the_watch_lagged() -> None:
    async def test(world: World) -> None:
        older = await zombie(world)
        running = await active_before_a_round(world)
        running.transport.link.faults.watch_delay_s = 20.0
        refuse_writes(running)
        write_status(world, older["status"])
        world.server.allow("operator", ("get",), STATIC_GROUPS)
        await asyncio.sleep(40)
        world.crash_operator(running)
        put_whole(world, older)
        world.restart_operator(running.name)
        await nobody_is_removed(world)

    assert broken_promises(test) == []


def test_doubt_of_a_first_read_is_told_to_the_successor_after_an_upgrade() -> None:
    """The Lease of an earlier release tells no position of StaticGroups; the whole object comes when that is told."""

    async def test(world: World) -> None:
        older = await zombie(world)
        (name,) = end_all(world)
        lease = world.server.get(LEASES, SYSTEM, "staticgroup-operator")
        assert lease is not None
        annotations = dict(lease["metadata"]["annotations"])
        told = json.loads(annotations["staticgroup.io/watch-position"])
        told.pop("staticGroups")
        annotations["staticgroup.io/watch-position"] = json.dumps(told)
        world.server.update(LEASES, lease | {"metadata": lease["metadata"] | {"annotations": annotations}})
        write_status(world, older["status"])
        world.on_start.append(refuse_writes)
        world.restart_operator(name)
        await asyncio.sleep(40)
        end_all(world)
        world.on_start.remove(refuse_writes)
        put_whole(world, older)
        world.restart_operator(name)
        await nobody_is_removed(world)

    assert broken_promises(test) == []


async def emptied(world: World, *, is_older: bool = False) -> ContainerProcess:
    """Empty the status of a group of which nothing is in sight, which the operator doubts, and let it be replaced before it has written.

    Parameters
    ----------
    is_older: an older status is put there instead, as an earlier release wrote it, without a digest.

    Returns
    -------
    The process of seat 2 that the emptied status told of; it reaches no broker.
    """
    older = await zombie(world)
    process = next(p for p in reversed(world.processes.history) if p.pod_name == f"{WORKLOAD}-2" and p.links)
    for link in process.links:
        link.is_cut = True
    world.users.scale(NAMESPACE, WORKLOAD, 0)
    await world.until(lambda: not world.members(), 120, "nothing is in sight")
    await asyncio.sleep(60)
    (holder,) = world.living
    refuse_writes(holder)
    del older["status"]["continuity"]["digest"]
    write_status(world, older["status"] if is_older else {})
    await asyncio.sleep(8)
    lease = world.server.get(LEASES, SYSTEM, "staticgroup-operator")
    assert lease is not None
    assert GROUP in lease["metadata"]["annotations"]["staticgroup.io/watch-position"]
    world.crash_operator(holder)
    world.restart_operator(holder.name)
    return process


@pytest.mark.parametrize("is_older", [False, True])
def test_doubt_is_heeded_also_where_the_status_tells_nothing_or_has_no_digest(is_older: bool) -> None:
    async def test(world: World) -> None:
        process = await emptied(world, is_older=is_older)
        await asyncio.sleep(60)
        world.users.scale(NAMESPACE, WORKLOAD, 3)
        await world.until(lambda: len(world.members()) == 3, 120, "all are back")
        await asyncio.sleep(30)
        (running,) = world.living
        running.process.freeze()  # any reason why the operator is slow for once
        world.users.scale(NAMESPACE, WORKLOAD, 2)
        for link in process.links:
            link.is_cut = False
        await world.until(lambda: world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-2") is None, 60, "its pod is gone")

        def is_back() -> bool:
            held = world.members().get(world.id_of(2))
            return held is not None and world.kafka.creator_of(held).owner.pod_uid == process.pod_uid

        await world.until(is_back, 120, "the process that nobody remembers is a member again")
        running.process.thaw()
        await asyncio.sleep(60)
        assert is_back()
        assert "MemoryLost" in str(world.status["continuity"])

    assert broken_promises(test) == []


@pytest.mark.parametrize("spec", [{"suspend": True}, {"identity": {"method": "None"}}, {"mode": "Observe"}], ids=["suspended", "no injection", "observed"])
def test_doubt_of_an_emptied_status_is_remembered_while_nothing_is_done(spec: dict[str, Any]) -> None:
    """Once a status is written over what was emptied nobody but that status knows of the doubt."""

    async def test(world: World) -> None:
        await emptied(world)
        world.users.edit_group(NAMESPACE, GROUP, spec)
        await world.until(lambda: "conditions" in world.status, 120, "something is told")
        await asyncio.sleep(60)
        assert "MemoryLost" in str(world.status.get("continuity"))
        (running,) = world.living
        assert not running.operator.stores.doubted

    assert broken_promises(test) == []
