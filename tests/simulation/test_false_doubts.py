"""What happens every day makes nobody doubt a history that the operator has written itself."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from simulation.test_put_back import broken_promises, present, put_back
from simulation.test_put_back_in_flight import KEY, WAYS, answered_late, edit, end
from simulator.faults.control_plane import api_server_is_away
from simulator.faults.memory import MANY, WRITES_A_STATUS, write_status
from simulator.kubernetes.objects import STATIC_GROUPS
from simulator.world.teams import GROUP, NAMESPACE, WORKLOAD
from simulator.world.world import World
from staticgroup.kube.translate.owners import is_put_back
from staticgroup.kube.transport import CALL_TIMEOUT_S
from staticgroup.runtime.memory.memory import digest_in

TAKEN_AFTER_S = 2 * CALL_TIMEOUT_S
"""An API server gives a request up after a minute."""


def blind(world: World) -> list[Any]:
    return world.status["continuity"].get("blind", [])


@pytest.mark.parametrize("standbys", [0, 1])
@pytest.mark.parametrize("is_writing", [False, True])
def test_an_api_server_that_restarts_right_after_a_status_write_makes_nobody_doubt(standbys: int, is_writing: bool) -> None:
    async def test(world: World) -> None:
        for _ in range(standbys):
            world.restart_operator("operator-b")
        await asyncio.sleep(60)
        holder = world.leader()
        assert holder is not None
        written: list[str] = []
        heal: list[Any] = []
        deliver = holder.transport._reach_client

        def landed(request: Any, answer: Any) -> None:
            deliver(request, answer)
            if (request.verb, request.label) == WRITES_A_STATUS[0] and not written:
                written.append("yes")
                world.loop.world_call_later(0.05, lambda: heal.append(api_server_is_away(world, Random(1))))

        if is_writing:
            holder.transport._reach_client = landed  # type: ignore[method-assign]
            world.users.edit_group(NAMESPACE, GROUP, {"removal": {"maxPercentOfGroup": 71}})
            await world.until(lambda: heal, 60, "it has written")
        else:
            heal.append(api_server_is_away(world, Random(1)))
        await asyncio.sleep(15)
        heal[0]()
        await asyncio.sleep(60)
        world.users.scale(NAMESPACE, WORKLOAD, 2)
        await world.until(world.is_settled, 120, "the departed members are gone")
        assert "MemoryLost" not in str(blind(world))

    assert broken_promises(test) == []


@pytest.mark.parametrize("moment", ["taken", "answered"])
def test_an_operator_that_is_told_to_end_right_after_a_status_write_leaves_word_of_it(moment: str) -> None:
    """The next one comes when the API server has forgotten the events since, so that it can only believe the Lease."""

    async def test(world: World) -> None:
        await asyncio.sleep(60)
        (running,) = world.living
        deliver, ended = running.transport._reach_client, []

        def landed(request: Any, answer: Any) -> None:
            is_last = (request.verb, request.label) == WRITES_A_STATUS[0] and not ended
            if is_last:
                ended.append(running)
                world.loop.world_call_later(0.0, world.end_operator, running)
            if not is_last or moment == "answered":
                deliver(request, answer)

        def forgotten(task: Any) -> None:
            world.server.compact(STATIC_GROUPS)

        running.transport._reach_client = landed  # type: ignore[method-assign]
        assert running.main is not None
        running.main.add_done_callback(forgotten, context=world.loop.world_context)
        world.users.edit_group(NAMESPACE, GROUP, {"removal": {"maxPercentOfGroup": 71}})
        await world.until(lambda: ended and not running.is_alive, 60, "it has written and ended")
        await world.until(world.leader, 60, "the next one holds the Lease")
        world.users.scale(NAMESPACE, WORKLOAD, 2)
        await world.until(world.is_settled, 120, "the departed members are gone")
        assert "MemoryLost" not in str(blind(world))

    assert broken_promises(test) == []


def test_a_write_whose_answer_was_lost_makes_no_successor_doubt() -> None:
    """The next writes are refused for as long as its writer lives."""

    async def test(world: World) -> None:
        await asyncio.sleep(60)
        (holder,) = world.living
        link, lost = holder.transport.link, []

        def lose(verb: str, label: str) -> None:
            if (verb, label) == WRITES_A_STATUS[0] and not lost:
                lost.append(verb)
                link.faults.lost_answers = 1
                world.loop.world_call_later(1.0, lambda: link.faults.refusals.update({WRITES_A_STATUS[0]: [503] * 1000}))

        link.on_request.append(lose)
        world.users.scale(NAMESPACE, WORKLOAD, 2)
        await world.until(lambda: lost, 60, "it has written")
        await asyncio.sleep(60)
        assert blind(world) == []
        world.crash_operator(holder)
        world.restart_operator(holder.name)
        await world.until(world.is_settled, 120, "the departed members are gone")
        await asyncio.sleep(30)
        assert blind(world) == []

    assert broken_promises(test) == []


def test_a_standby_that_takes_over_when_the_api_server_restarts_makes_nobody_doubt() -> None:
    """The holder has told the Lease how far it had looked since its last write."""

    async def test(world: World) -> None:
        world.restart_operator("operator-b")
        await asyncio.sleep(60)
        holder = world.leader()
        assert holder is not None
        deliver, heal = holder.transport._reach_client, list[Any]()

        def end() -> None:
            heal.append(api_server_is_away(world, Random(1)))
            world.crash_operator(holder)

        def landed(request: Any, answer: Any) -> None:
            deliver(request, answer)
            if (request.verb, request.label) == WRITES_A_STATUS[0]:
                holder.transport._reach_client = deliver  # type: ignore[method-assign]
                world.loop.world_call_later(3.0, end)

        holder.transport._reach_client = landed  # type: ignore[method-assign]
        world.users.edit_group(NAMESPACE, GROUP, {"removal": {"maxPercentOfGroup": 71}})
        await world.until(lambda: heal, 60, "it has written")
        await asyncio.sleep(15)
        heal[0]()
        await asyncio.sleep(90)
        assert "MemoryLost" not in str(blind(world))

    assert broken_promises(test) == []


def test_own_write_that_is_first_listed_with_a_spec_that_cannot_be_read_makes_nobody_doubt() -> None:
    async def test(world: World) -> None:
        await asyncio.sleep(60)
        (holder,) = world.living
        faults = holder.transport.link.faults
        before = world.status["continuity"]["digest"]
        faults.watch_delay_s = 0.0
        written: list[str] = []

        def spoil() -> None:
            group = present(world)
            assert group["status"]["continuity"]["digest"] != before
            world.server._defaulted = lambda resource, obj: obj  # type: ignore[method-assign]  # a CRD of another version
            world.server.update(STATIC_GROUPS, group | {"spec": group["spec"] | {"protocol": "Nonsense"}})
            holder.transport.link.break_watches()

        deliver = holder.transport._reach_client

        def landed(request: Any, answer: Any) -> None:
            deliver(request, answer)
            if (request.verb, request.label) == WRITES_A_STATUS[0] and not written and world.status["continuity"]["digest"] != before:
                written.append("yes")
                world.loop.world_call_later(0.01, spoil)

        def lag(verb: str, label: str) -> None:
            if (verb, label) == WRITES_A_STATUS[0]:
                faults.watch_delay_s = 5.0

        holder.transport._reach_client = landed  # type: ignore[method-assign]
        holder.transport.link.on_request.append(lag)
        world.users.scale(NAMESPACE, WORKLOAD, 2)
        await world.until(lambda: written, 60, "it has written")
        await asyncio.sleep(5)
        faults.watch_delay_s = 0.0
        holder.transport.link.on_request.remove(lag)
        await asyncio.sleep(30)
        group = present(world)
        world.server.update(STATIC_GROUPS, group | {"spec": group["spec"] | {"protocol": "Classic"}})
        await asyncio.sleep(60)
        assert blind(world) == []

    assert broken_promises(test) == []


@pytest.mark.parametrize("prunes", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_own_write_whose_news_came_before_its_answer_makes_nobody_doubt(way: str, prunes: bool) -> None:
    """A CustomResourceDefinition of an earlier release prunes a part of each status that is no history."""

    async def test(world: World) -> None:
        apply = world.server.apply_status

        def pruned(resource: str, namespace: str, name: str, body: Any) -> Any:
            status = {k: v for k, v in body["status"].items() if k != "members"}
            return apply(resource, namespace, name, body | {"status": status})

        if prunes:
            world.server.apply_status = pruned  # type: ignore[method-assign]
        await asyncio.sleep(60)
        (running,) = world.living
        is_taken = answered_late(running, 8.0)
        edit(world)
        await world.until(is_taken, 60, "it has written")
        await asyncio.sleep(4)
        end(world, running, way)
        await asyncio.sleep(90)
        assert blind(world) == []

    assert broken_promises(test) == []


@pytest.mark.parametrize("way", WAYS)
def test_an_edit_of_a_status_that_leaves_its_history_makes_nobody_doubt(way: str) -> None:
    async def test(world: World) -> None:
        await asyncio.sleep(60)
        (running,) = world.living
        running.transport.link.faults.refusals[WRITES_A_STATUS[0]] = [503] * MANY
        write_status(world, world.status | {"conditions": []})
        assert not is_put_back(present(world))
        await asyncio.sleep(5)
        end(world, running, way)
        await asyncio.sleep(90)
        assert blind(world) == []

    assert broken_promises(test) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_write_that_is_taken_after_its_successor_was_refused_makes_nobody_doubt(way: str) -> None:
    """The API server is slow: its client gives the first write up before it is taken, and the next ones are refused."""

    async def test(world: World) -> None:
        await asyncio.sleep(60)
        (running,) = world.living
        link, slow = running.transport.link, list[str]()
        memory = running.operator.reconciler.memories.known(KEY)
        assert memory is not None
        reach = running.transport._reach_server

        def reached(request: Any) -> None:
            if (request.verb, request.label) == WRITES_A_STATUS[0] and not slow and digest_in(memory.sent) != memory.written_digest:
                slow.append(digest_in(memory.sent))
                link.faults.refusals[WRITES_A_STATUS[0]] = [503] * MANY
                running.transport._give_up(request)
                world.loop.world_call_later(TAKEN_AFTER_S, taken, request)
            else:
                reach(request)

        def taken(request: Any) -> None:
            refusals = link.faults.refusals.pop(WRITES_A_STATUS[0])
            reach(request)
            link.faults.refusals[WRITES_A_STATUS[0]] = refusals
            assert world.status["continuity"]["digest"] == slow[0]

        running.transport._reach_server = reached  # type: ignore[method-assign]
        world.users.scale(NAMESPACE, WORKLOAD, 2)
        await world.until(lambda: slow, 60, "it sends another history")
        world.users.scale(NAMESPACE, WORKLOAD, 1)
        await world.until(lambda: memory.unanswered not in ("", slow[0]), TAKEN_AFTER_S, "it sends a third one")
        await asyncio.sleep(TAKEN_AFTER_S)
        end(world, running, way)
        await asyncio.sleep(90)
        assert blind(world) == []

    assert broken_promises(test) == []


def test_a_status_that_is_put_back_and_put_right_again_makes_nobody_doubt_for_ever() -> None:
    """What is in the API server is what the operator wrote last, so nothing would be written, and no status tells of a doubt."""

    async def test(world: World) -> None:
        await asyncio.sleep(30)
        older = present(world)
        world.users.scale(NAMESPACE, WORKLOAD, 2)
        await world.until(world.is_settled, 60, "the departed member is gone")
        await asyncio.sleep(1200)
        (running,) = world.living
        newer = present(world)
        assert older["status"]["continuity"]["digest"] != newer["status"]["continuity"]["digest"]
        put_back(world, older)
        put_back(world, newer)
        await asyncio.sleep(1200)
        assert world.status["continuity"]["digest"] == newer["status"]["continuity"]["digest"]
        world.crash_operator(running)
        world.restart_operator(running.name)
        await asyncio.sleep(60)
        assert blind(world) == []

    assert broken_promises(test) == []
