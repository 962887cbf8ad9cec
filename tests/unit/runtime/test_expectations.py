"""A status that was sent and not yet seen: an answer, the watch or a read shows what became of it, and only a status of
another writer is written over."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.api.resources.status import StaticGroupStatus
from staticgroup.kube.problem import KubeProblem, problem_of

from .operator_world import KEY, OperatorWorld
from .stories import group_body, put

LOST = problem_of(504, verb="patch", resource="staticgroups", namespace="shop")


async def with_lost_answer() -> OperatorWorld:
    """Return a world whose last status reached the API server, but whose watch did not deliver it."""
    world = await OperatorWorld().started()
    landing = world.kube.apply_status

    async def lands_without_answer(*arguments: Any, **named: Any) -> KubeProblem:
        await landing(*arguments, **named)
        return LOST

    world.kube.apply_status = lands_without_answer  # type: ignore[method-assign, assignment]
    del world.kafka.members[world.id_of(2)]
    assert (await world.round()).failed
    assert world.reconciler.memories.unstored_since_s(0.0) is not None, "the stored position waits"
    world.kube.apply_status = landing  # type: ignore[method-assign]
    return world


@pytest.mark.parametrize("is_shown", [True, False])
async def test_status_whose_answer_was_lost_is_found_and_not_written_again(is_shown: bool) -> None:
    world = await with_lost_answer()
    if is_shown:
        put(world)
    await world.round()
    assert not world.did("apply_status")
    assert world.reconciler.memories.unstored_since_s(0.0) is None


async def test_status_that_was_lost_on_its_way_is_written_again() -> None:
    world = await OperatorWorld().started()
    world.kube.problems["apply_status"] = LOST
    del world.kafka.members[world.id_of(2)]
    assert (await world.round()).failed
    world.kube.problems.clear()
    await world.round()
    assert world.members.joined == 2


async def test_status_that_somebody_wrote_over_is_repaired_though_the_first_try_gets_no_answer() -> None:
    world = await OperatorWorld().started()
    await world.settled(2)
    before = world.status
    put(world, status=group_body(world)["status"] | {"groupState": "Empty"})
    world.kube.problems["apply_status"] = LOST
    for _ in range(2):
        assert (await world.round()).failed
    world.kube.problems.clear()
    await world.round()
    assert world.status == before


async def test_status_of_somebody_else_is_read_once_and_repaired_with_one_write() -> None:
    world = await OperatorWorld().started()
    await world.settled(2)
    writes = len(world.kube.status_writes)
    put(world, status=group_body(world)["status"] | {"groupState": "Empty"})
    await world.round()
    assert len(world.did("read_object")) == 1
    await world.settled(3)
    assert len(world.kube.status_writes) == writes + 1
    assert world.stores.groups[KEY].status != world.status == StaticGroupStatus.from_wire(group_body(world)["status"])
