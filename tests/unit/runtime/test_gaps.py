"""What a gap of the pod watch costs: the seats whose pod changed while nobody looked, and no other."""

from __future__ import annotations

import pytest

from staticgroup.core.group import KafkaProblem, KafkaProblemKind

from .world import KEY, World, guards, static_group

LIVING = "the-living-process"


def gap(world: World, epoch: str = "epoch-2") -> None:
    """Let the API server lose the history of its watch: what was not delivered is lost, a LIST shows what is there."""
    world.kube.resource_version += 1
    world.pods.lose(world.kube.pods.values(), world.kube.resource_version, epoch)
    world.pods.is_lagging = False


def away(world: World) -> None:
    """Cut the watch off."""
    world.pods.is_lagging = True


def left(world: World) -> list[str]:
    return sorted(i for _, i in world.left)


async def test_gap_over_which_every_pod_stayed_costs_nothing() -> None:
    world = await World().started()
    gap(world)
    await world.settled(2)
    world.scale(1)
    for ordinal in (1, 2):
        world.end(ordinal)
    await world.settled(3)
    assert left(world) == [world.id_of(1), world.id_of(2)]


async def test_seat_whose_pod_was_replaced_in_the_gap_waits_and_the_others_do_not() -> None:
    world = await World().started()
    away(world)
    world.remove_object(2)
    world.start(2, "u2b")
    gap(world)
    await world.settled(2)
    world.scale(1)
    world.kafka.join(world.id_of(2), LIVING)
    world.end(2, "u2b")
    world.end(1)
    await world.settled(4)
    assert left(world) == [world.id_of(1)]
    assert guards(world) == ["WatchGap"]


async def test_seat_that_was_empty_over_the_gap_waits() -> None:
    """Inside or outside of the range: a pod may have come and gone, and its object with it."""
    world = await World().started()
    world.scale(2)
    world.end(2)
    world.kafka.problems["leave"] = KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no broker answered")
    await world.round()
    gap(world)
    world.kafka.problems.clear()
    await world.settled(4)
    assert left(world) == []
    assert guards(world) == ["WatchGap"]


async def test_what_stayed_over_a_gap_is_remembered_by_the_next_process() -> None:
    world = await World().started()
    away(world)
    world.remove_object(2)
    world.start(2, "u2b")
    gap(world)
    await world.settled(2)
    assert world.status.continuity is not None
    assert (world.status.continuity.watch_epoch, world.status.continuity.ordinals) == ("epoch-2", "0-1")
    world.restart()
    world.scale(1)
    world.end(1)
    world.end(2, "u2b")
    await world.settled(4)
    assert left(world) == [world.id_of(1)]


async def test_what_stayed_over_a_gap_does_not_outlive_a_restart_that_could_not_resume() -> None:
    world = await World().started()
    gap(world)
    await world.settled(2)
    world.restart(epoch="epoch-3")
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert left(world) == []
    assert guards(world) == ["WatchGap"]


async def test_seats_wear_out_over_two_gaps_only_where_something_changed() -> None:
    world = await World().started(4)
    gap(world)
    await world.settled(2)
    away(world)
    world.remove_object(3)
    world.start(3, "u3b")
    gap(world, "epoch-3")
    await world.settled(2)
    assert world.status.continuity is not None
    assert world.status.continuity.ordinals == "0-2"
    world.scale(2)
    world.end(2)
    world.end(3, "u3b")
    await world.settled(4)
    assert left(world) == [world.id_of(2)]


async def test_gap_before_the_first_round_after_it_is_not_forgotten_by_the_second() -> None:
    """Two gaps between two rounds: what stayed over both stayed."""
    world = await World().started()
    gap(world)
    away(world)
    world.remove_object(2)
    world.start(2, "u2b")
    gap(world, "epoch-3")
    await world.settled(2)
    assert world.status.continuity is not None
    assert world.status.continuity.ordinals == "0-1"


async def test_staticgroup_that_is_acknowledged_after_a_gap_has_had_none() -> None:
    world = World()
    gap(world)
    await world.started()
    assert world.status.continuity is None
    world.scale(2)
    world.end(2)
    await world.settled(3)
    assert left(world) == [world.id_of(2)]


@pytest.mark.parametrize(("exclusive", "expected"), [(False, []), (True, ["app-2"])], ids=["unsworn", "exclusive"])
async def test_ids_that_are_set_by_hand_may_be_carried_under_any_name(exclusive: bool, expected: list[str]) -> None:
    """Without the user's word a gap leaves no name clear."""
    template = "app-{ordinal}" if exclusive else "{podName}.{scope}"
    world = World(identity={"template": template, "exclusive": exclusive, "method": "None"})
    world.template = "app-{ordinal}" if exclusive else ""
    await world.started()
    gap(world)
    await world.settled(2)
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert left(world) == expected


async def test_unknown_beginning_stays_unknown_over_gaps() -> None:
    world = await World().started()
    world.template = f"web-{{ordinal}}.{world.scope}"
    world.kube.objects["staticgroups", *KEY]["status"] = {}
    world.declare(world.kube.objects["staticgroups", *KEY])
    world.restart()
    await world.settled(2)
    gap(world)
    await world.settled(2)
    world.declare(static_group(generation=2))
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert left(world) == []


async def test_status_is_not_written_again_and_again_after_a_gap() -> None:
    world = await World().started()
    gap(world)
    await world.settled(2)
    writes = len(world.kube.status_writes)
    await world.settled(5, step_s=30)
    assert len(world.kube.status_writes) == writes


@pytest.mark.parametrize(
    ("blind", "spec", "removed"),
    [
        ("other", {}, True),
        ("web", {}, False),
        ("other", {"identity": {"method": "None"}}, False),
        ("other", {"identity": {"method": "None", "exclusive": True}}, True),
        ("web", {"identity": {"method": "None", "exclusive": True}}, False),
    ],
)
async def test_history_that_one_workload_lacks_after_a_restart_is_missing_to_no_other(
    blind: str, spec: dict[str, object], removed: bool
) -> None:
    """Ids that are set by hand may have been carried by a pod of any workload, so without the oath any one's loss is theirs."""
    world = await World(**spec).started()
    world.restart(epoch="epoch-2")
    world.pods.lineage.since = {"epoch-1": frozenset({("shop", blind)})}
    await world.settled(2)
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert left(world) == ([world.id_of(2)] if removed else [])
    assert guards(world) == ([] if removed else ["WatchGap"])
    # and the next process, which resumes under the new epoch, reads it from the status
    world.restart()
    await world.settled(2)
    world.scale(1)
    world.end(1)
    await world.settled(4)
    assert (world.id_of(1) in left(world)) is removed
