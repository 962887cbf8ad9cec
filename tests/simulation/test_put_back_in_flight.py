"""An older status is put back, with its owners, while the answer to a status write is on its way to an operator that ends then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from simulation.test_put_back import broken_promises, empty_seat, lose_pod, nobody_is_removed, present, put_back, zombie
from simulator.faults.memory import MANY, WRITES_A_STATUS, write_status
from simulator.kubernetes.objects import LEASES, STATIC_GROUPS, Json
from simulator.world.teams import GROUP, NAMESPACE, WORKLOAD
from simulator.world.world import RunningOperator, World
from staticgroup.runtime.memory.put_back import DOUBTED_MAX, SETTLED_WITHIN_S

KEY = (NAMESPACE, GROUP)
WAYS = ("killed", "told to end")
Taken = Callable[[], bool]


def answered_late(running: RunningOperator, late_s: float) -> Taken:
    """Hold the answer to the next status write back that is taken; returns a question whether there was one."""
    deliver, taken = running.transport._reach_client, list[str]()

    def late(request: Any, answer: Any) -> None:
        if (request.verb, request.label) == WRITES_A_STATUS[0] and not taken and isinstance(answer, dict):
            taken.append(request.label)
            running.transport.link.loop.world_call_later(late_s, deliver, request, answer)
        else:
            deliver(request, answer)

    running.transport._reach_client = late  # type: ignore[method-assign]
    return lambda: bool(taken)


def edit(world: World) -> None:
    """Change what the status tells of, and nothing of its history."""
    world.users.edit_group(NAMESPACE, GROUP, {"removal": {"maxPercentOfGroup": 71}})


async def answer(world: World, running: RunningOperator) -> None:
    memory = running.operator.reconciler.memories.known(KEY)
    assert memory is not None
    await world.until(lambda: memory.sent is None, 20, "it is answered")


def end(world: World, running: RunningOperator, way: str) -> None:
    if way == "killed":
        world.crash_operator(running)
        world.restart_operator(running.name)
    else:
        world.end_operator(running)


async def unwritten_zombie(world: World) -> Json:
    """Leave a process of seat 2 whose death nobody has proven and which no status tells of, because none was taken since; return that one."""
    (running,) = world.living
    older = await empty_seat(world)
    running.transport.link.faults.refusals[WRITES_A_STATUS[0]] = [403] * MANY  # so that it is known that none was taken
    world.users.scale(NAMESPACE, WORKLOAD, 3)
    await world.until(lambda: len(world.members()) == 3, 60, "seat 2 has another pod")
    await asyncio.sleep(20)
    await lose_pod(world)
    await asyncio.sleep(70)
    assert present(world)["status"] == older["status"]
    return older


async def taken_at_last(world: World, running: RunningOperator, late_s: float) -> None:
    is_taken = answered_late(running, late_s)
    running.transport.link.faults.refusals.pop(WRITES_A_STATUS[0])
    await world.until(is_taken, 120, "it is written at last")
    assert "DeathNotProven" in str(world.status)


async def sent_in_vain(world: World, running: RunningOperator) -> Callable[[], None]:
    """Have a status with another history sent, and each that is sent from here on lost; returns what lets them arrive again."""
    link = running.transport.link

    def lose(verb: str, label: str) -> None:
        if (verb, label) == WRITES_A_STATUS[0]:
            link.faults.lost_requests = 1

    link.on_request.append(lose)
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    memory = running.operator.reconciler.memories.known(KEY)
    assert memory is not None
    await world.until(lambda: memory.unanswered not in ("", memory.written_digest), 60, "it has sent another history")
    return lambda: link.on_request.remove(lose)


@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_the_last_status_put_back_while_an_answer_is_on_its_way_is_no_memory(way: str, is_answered: bool) -> None:
    async def test(world: World) -> None:
        older = await unwritten_zombie(world)
        (running,) = world.living
        await taken_at_last(world, running, 6.0 if is_answered else 60.0)
        await asyncio.sleep(1)
        put_back(world, older)
        if is_answered:
            await answer(world, running)
        else:
            await asyncio.sleep(4)  # the Lease is renewed twice
        await asyncio.sleep(0.1 if way == "told to end" else 1.5)
        end(world, running, way)
        await nobody_is_removed(world)

    assert broken_promises(test) == []


async def put_back_unseen(world: World) -> RunningOperator:
    """Put an older status back over one that is not answered, neither shown by a watch, as when it begins anew; who wrote that one."""
    older = await unwritten_zombie(world)
    (running,) = world.living
    link = running.transport.link

    def blind_from_here(verb: str, label: str) -> None:
        if (verb, label) == WRITES_A_STATUS[0]:
            link.faults.dropped_events = MANY

    link.on_request.append(blind_from_here)
    await taken_at_last(world, running, 60.0)
    put_back(world, older)
    await asyncio.sleep(1)
    link.on_request.remove(blind_from_here)
    link.faults.dropped_events = 0
    group = present(world)
    world.server.update(STATIC_GROUPS, group | {"metadata": group["metadata"] | {"labels": {"seen-by": "argo"}}})
    return running


def test_the_last_status_put_back_over_one_that_nobody_has_seen_is_no_memory() -> None:
    """The watch shows neither what was written nor who put the other one back, as when it begins anew; the answer never comes."""

    async def test(world: World) -> None:
        running = await put_back_unseen(world)
        await asyncio.sleep(4)  # the Lease is renewed twice
        end(world, running, "killed")
        await nobody_is_removed(world)

    assert broken_promises(test) == []


@pytest.mark.parametrize("way", WAYS)
def test_what_is_put_back_with_an_unreadable_spec_while_an_answer_is_on_its_way_is_no_memory(way: str) -> None:
    async def test(world: World) -> None:
        older = await zombie(world)
        (running,) = world.living
        is_taken = answered_late(running, 3.0)
        edit(world)
        await world.until(is_taken, 60, "it has written")
        await asyncio.sleep(0.5)
        world.server._defaulted = lambda resource, obj: obj  # type: ignore[method-assign]  # a CRD of another version
        put_back(world, older | {"spec": older["spec"] | {"protocol": "Nonsense"}})
        await asyncio.sleep(1)
        assert KEY in running.operator.stores.doubted
        await answer(world, running)
        await asyncio.sleep(0.1 if way == "told to end" else 3)
        end(world, running, way)
        await asyncio.sleep(30)
        group = present(world)
        world.server.update(STATIC_GROUPS, group | {"spec": group["spec"] | {"protocol": "Classic"}})
        await nobody_is_removed(world)

    assert broken_promises(test) == []


def test_writes_that_are_lost_for_long_make_their_staticgroup_doubted_until_one_is_taken() -> None:
    """After five minutes an API server has forgotten what was written meanwhile."""

    async def test(world: World) -> None:
        await asyncio.sleep(60)
        (running,) = world.living
        stores, looked = running.operator.stores, running.operator.look_back
        writes_arrive = await sent_in_vain(world, running)
        await asyncio.sleep(SETTLED_WITHIN_S / 3)
        assert (looked.stored().unsettled.keys(), looked.stored().doubted) == ({KEY}, set())
        await asyncio.sleep(SETTLED_WITHIN_S)
        assert looked.stored().doubted == {KEY}
        writes_arrive()
        await asyncio.sleep(60)
        assert looked.stored()[1:] == (frozenset(), {})
        assert stores.unsettled == {}

    assert broken_promises(test) == []


def test_a_status_whose_answer_never_came_is_written_again_also_when_there_is_no_news() -> None:
    """Only an answer settles what was sent, and what it told of may be over."""

    async def test(world: World) -> None:
        await asyncio.sleep(60)
        (running,) = world.living
        stores, memory = running.operator.stores, running.operator.reconciler.memories.known(KEY)
        assert memory is not None
        memory.unanswered, memory.is_unsure = "of a moment ago", True
        stores.unsettled[KEY] = stores.told_version, world.loop.time()
        await asyncio.sleep(45)
        assert (memory.unanswered, memory.is_unsure, stores.unsettled) == ("", False, {})

    assert broken_promises(test) == []


def test_a_write_that_is_lost_before_the_spec_becomes_unreadable_makes_somebody_doubt() -> None:
    """Nothing is written then that would be answered, and what was remembered of the StaticGroup is dropped."""

    async def test(world: World) -> None:
        await asyncio.sleep(60)
        (running,) = world.living
        stores = running.operator.stores
        await sent_in_vain(world, running)
        world.server._defaulted = lambda resource, obj: obj  # type: ignore[method-assign]  # a CRD of another version
        group = present(world)
        world.server.update(STATIC_GROUPS, group | {"spec": group["spec"] | {"protocol": "Nonsense"}})
        await asyncio.sleep(30)
        assert (stores.unsettled, stores.doubted) == ({}, {KEY})

    assert broken_promises(test) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_status_that_is_emptied_while_an_answer_is_on_its_way_is_no_innocence(way: str) -> None:
    async def test(world: World) -> None:
        await zombie(world)
        (running,) = world.living
        is_taken = answered_late(running, 3.0)
        edit(world)
        await world.until(is_taken, 60, "it has written")
        await asyncio.sleep(0.5)
        write_status(world, {})
        await answer(world, running)
        end(world, running, way)
        await asyncio.sleep(240)
        assert world.leader() is not None
        assert len(world.members()) == 3

    assert broken_promises(test) == []


def test_a_staticgroup_that_is_deleted_while_an_answer_is_on_its_way_is_waited_for_no_more() -> None:
    async def test(world: World) -> None:
        await asyncio.sleep(60)
        (running,) = world.living
        is_taken = answered_late(running, 3.0)
        world.users.scale(NAMESPACE, WORKLOAD, 2)
        await world.until(is_taken, 60, "it has written")
        world.users.delete_group(NAMESPACE, GROUP)
        await asyncio.sleep(30)
        assert running.operator.look_back.stored()[1:] == (frozenset(), {})

    assert broken_promises(test) == []


@pytest.mark.parametrize("others", [0, DOUBTED_MAX])
def test_a_status_that_others_crowd_out_of_the_lease_is_no_memory(others: int) -> None:
    """More statuses are on their way than the Lease lists, and one of them was sent before the position that it tells."""

    async def test(world: World) -> None:
        running = await put_back_unseen(world)
        stores = running.operator.stores
        await asyncio.sleep(4)  # the Lease is renewed twice, and its position passes what was put back
        assert KEY in running.operator.look_back.stored().unsettled
        now_s = world.loop.time()
        stores.unsettled |= {("a-namespace", f"group-{n}"): (stores.told_version, now_s) for n in range(others)}
        await asyncio.sleep(4)
        end(world, running, "killed")
        await nobody_is_removed(world)

    assert broken_promises(test) == []


def of_a_later_holding(older: Json) -> Json:
    """Whoever may write a status can put any number there; so it is, too, after an older Lease was put back."""
    writer = older["status"]["writer"]
    return older | {"status": older["status"] | {"writer": writer | {"leaseTransitions": writer["leaseTransitions"] + 10}}}


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_round_that_is_cut_while_it_takes_in_what_was_put_back_leaves_its_doubt(is_cut: bool) -> None:
    async def test(world: World) -> None:
        older = of_a_later_holding(await zombie(world))
        (running,) = world.living
        link, met = running.transport.link, list[str]()

        def hook(verb: str, label: str) -> None:
            if (verb, label) == WRITES_A_STATUS[0] and not met:
                met.append("writes")
                link.faults.watch_delay_s = 0.2  # the news come later than the answers
                put_back(world, older)
            elif (verb, label) == ("get", STATIC_GROUPS) and met == ["writes"]:
                met.append("reads")
            elif (verb, label) == ("get", LEASES) and met == ["writes", "reads"]:
                met.append("asks")
                link.faults.refusals[WRITES_A_STATUS[0]] = [503] * MANY
                if is_cut:
                    world.loop.world_call_later(0.0, world.end_operator, running)

        link.on_request.append(hook)
        edit(world)
        await world.until(lambda: "asks" in met, 60, "it asks whose holding that is")
        if not is_cut:
            await asyncio.sleep(8)
            world.crash_operator(running)
            world.restart_operator(running.name)
        await nobody_is_removed(world)

    assert broken_promises(test) == []


@pytest.mark.parametrize("is_asked", [True, False])
@pytest.mark.parametrize("is_answered", [True, False])
def test_a_lease_that_cannot_be_asked_whose_holding_a_status_tells_of_takes_no_doubt_along(is_answered: bool, is_asked: bool) -> None:
    """What this replica knew is forgotten then, and no more: the status may be an old one that names a later holding."""

    async def test(world: World) -> None:
        older = of_a_later_holding(await unwritten_zombie(world))
        (running,) = world.living
        link, met = running.transport.link, list[str]()

        def meet(verb: str, label: str) -> None:
            if (verb, label) == WRITES_A_STATUS[0] and not met:
                met.append("writes")
                link.faults.lost_answers = 0 if is_answered else 1
                link.faults.watch_delay_s = 120.0
            elif (verb, label) == WRITES_A_STATUS[1] and met == ["writes"]:
                met.append("meets another status")
                link.faults.refusals["get", LEASES] = [503] * (0 if is_asked else MANY)
                link.faults.refusals[WRITES_A_STATUS[0]] = [503] * MANY

        link.on_request.append(meet)
        link.faults.refusals.pop(WRITES_A_STATUS[0])
        await world.until(lambda: "DeathNotProven" in str(world.status), 120, "it is written at last")
        await asyncio.sleep(1)
        put_back(world, older)
        if is_answered:
            memory = running.operator.reconciler.memories.known(KEY)
            assert memory is not None
            memory.is_unsure = True  # so that there is a write, whatever it is about
            running.operator.queue.add(KEY)
        await world.until(lambda: len(met) == 2, 60, "it meets the other status")
        await asyncio.sleep(1)
        link.faults.watch_delay_s = 0.0
        link.break_watches()
        await asyncio.sleep(1)
        link.faults.refusals.pop(("get", LEASES), None)
        await asyncio.sleep(4)  # the Lease is renewed twice, and its position passes what was put back
        end(world, running, "killed")
        await nobody_is_removed(world)

    assert broken_promises(test) == []
