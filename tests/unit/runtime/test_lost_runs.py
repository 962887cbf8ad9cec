"""A run that its kubelet or runtime has lost may live on: so its pod is a suspect, whatever its object says and for
every reader."""

from __future__ import annotations

import pytest

from staticgroup.core.group import GroupType
from unit.core.builders import ended
from unit.core.crashes import over, runs

from .operator_world import OperatorWorld, guards
from .stories import left


def run_is_lost(world: OperatorWorld, ordinal: int = 2) -> None:
    """Let the kubelet lose the first run, whose process holds the seat, and start another one."""
    lost = over(run="a", finished_at_s=world.now_s - 1, reason="ContainerStatusUnknown")
    second = runs(run="b", restarts=1, after=lost, was_lost=True)
    world.start(
        ordinal, joins=False, required=(second,), restart_count=1, phase_written_at_s=world.now_s, ready_since_s=None
    )


def next_run(world: OperatorWorld) -> None:
    """Let the second run crash; the status that shows the third one says nothing of the loss any more."""
    third = runs(run="c", restarts=2, after=over(run="b", finished_at_s=world.now_s - 1))
    world.start(2, joins=False, required=(third,), restart_count=2, phase_written_at_s=world.now_s, ready_since_s=None)


async def loses_a_run_and_goes_on(world: OperatorWorld, restart_after: int) -> None:
    """Lose the first run and crash the second one; the operator is restarted after the first or second of these steps,
    or not at all (0)."""
    for n, step in enumerate((run_is_lost, next_run), start=1):
        world.now_s += 60
        step(world)
        await world.settled(2)
        if restart_after == n:
            world.restart()
            await world.settled(4)


async def departs(world: OperatorWorld) -> None:
    """Scale to two; the last run of web-2 ends, and its kubelet certifies that."""
    world.scale(2)
    world._happens(ended(2, "u2", instance_ids=frozenset({world.id_of(2)}), ids_are_fixed=True, restart_count=2))
    world.remove_object(2)
    await world.settled(6)


@pytest.mark.parametrize("restart_after", [0, 1, 2])
async def test_a_pod_of_which_a_run_was_lost_ends_by_no_version_of_its_object(restart_after: int) -> None:
    """Also where the operator is restarted when nothing shows the loss any more."""
    world = await OperatorWorld().started()
    await loses_a_run_and_goes_on(world, restart_after)
    assert [(s.uid, s.lost_run) for s in world.status.memory.suspects] == [("u2", True)]
    await departs(world)
    assert left(world) == []
    assert guards(world) == ["Suspect"]


async def test_a_pod_of_which_a_run_was_lost_stays_a_suspect_as_long_as_its_object_is_there() -> None:
    """Its seat is empty for long, and then the process that was lost joins."""
    world = await OperatorWorld().started()
    run_is_lost(world)
    del world.kafka.members[world.id_of(2)]
    for _ in range(40):
        world.now_s += 60
        await world.round()
    assert [s.uid for s in world.status.memory.suspects] == ["u2"]


@pytest.mark.parametrize("restart_after", [0, 1, 2])
async def test_no_member_is_released_for_an_end_in_a_pod_of_which_a_run_was_lost(restart_after: int) -> None:
    """Also where the operator is restarted when nothing shows the loss any more."""
    world = OperatorWorld(groupProtocol="Auto", removal="DepartedAndCrashed")
    world.kafka.group_type = GroupType.CONSUMER
    await world.started(3, required=(runs(),), phase_written_at_s=world.now_s)
    await loses_a_run_and_goes_on(world, restart_after)
    assert world.kafka.releases == []
    assert "OtherProcessPossible" in [e.reason for e in world.status.issues]
