"""Over which gaps an id may have been under any pod name: whatever injected the ids of the pods that live, and whoever looked.

Each story ends with a living process that holds the id of a departed seat; nothing may be removed of it.
"""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.kube.problem import problem_of

from .operator_world import OperatorWorld, guards, static_group
from .stories import (
    LIVING,
    away,
    blind,
    by_annotations,
    departs,
    empty_seat,
    force_delete,
    gap,
    group_body,
    left,
    lost_stray,
    start_as,
)

FOLLOWS = {"template": "{ordinal}.{scope}"}
NONE = {"method": "None"}
EVERY_SEAT = "0-2147483647"


def roll(world: OperatorWorld, ordinal: int) -> None:
    """Replace a pod by one of the present template."""
    pod = world.kube.pods["shop", f"web-{ordinal}"]
    world.end(ordinal, pod.uid)
    world.start(ordinal, f"{pod.uid}-rolled")


async def with_a_new_template() -> OperatorWorld:
    """Let the ids follow annotations, and the template be changed to the default while no pod is replaced (OnDelete, partition)."""
    world = await by_annotations()
    world.declare(static_group(generation=2))
    await world.settled(3)
    return world


async def out_of_sight(world: OperatorWorld) -> str:
    """Let the pod watch be without an epoch for minutes while the operator goes on; returns the one of before."""
    away(world)
    world.pods.epoch, epoch = "", world.pods.epoch
    await world.settled(1)
    return epoch


async def in_sight_again(world: OperatorWorld, epoch: str) -> None:
    world.pods.epoch = epoch
    gap(world)
    await world.settled(3)


# whatever injected the ids of the pods that live ---------------------------------------------------------------------------


async def test_copy_of_a_pod_whose_id_an_earlier_template_put_into_an_annotation() -> None:
    """`kubectl debug web-2 --copy-to=canary-0 --keep-annotations` in a gap; the node of the copy is lost."""
    world = await with_a_new_template()
    away(world)
    lost_stray(world, ids_are_fixed=False)
    gap(world)
    await world.settled(3)
    assert blind(world) == EVERY_SEAT
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert (left(world), set(guards(world))) == ([], {"WatchGap"})


async def test_earlier_template_costs_nothing_once_every_pod_was_replaced() -> None:
    world = await with_a_new_template()
    assert "3 pods, such as web-0, follow an annotation by an earlier id template: until" in world.condition("Injected")[2]
    world.template = ""
    for ordinal in range(3):
        roll(world, ordinal)
    await world.settled(3)
    assert "an earlier id template" not in world.condition("Injected")[2]
    gap(world)
    await world.settled(3)
    assert blind(world) == ""


async def test_one_pod_of_an_earlier_template_is_enough() -> None:
    world = await with_a_new_template()
    world.template = ""
    for ordinal in (1, 2):
        roll(world, ordinal)
    await world.settled(3)
    gap(world)
    await world.settled(3)
    assert blind(world) == EVERY_SEAT


@pytest.mark.parametrize("spec", [{"mode": "Observe"}, {"suspend": True}], ids=["Observe", "suspended"])
async def test_nobody_keeps_an_id_under_its_name_while_nothing_is_injected(spec: dict[str, Any]) -> None:
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2, **spec))
    await world.settled(2)
    away(world)
    lost_stray(world)
    gap(world)
    await world.settled(2)
    world.declare(static_group(generation=3))
    await world.settled(2)
    assert blind(world) == EVERY_SEAT
    await departs(world, 4)
    assert (left(world), guards(world)) == ([], ["WatchGap"])


# at any moment since the watch was last heard ------------------------------------------------------------------------------


@pytest.mark.parametrize("during", [FOLLOWS, NONE], ids=["template", "method"])
@pytest.mark.parametrize("restarts", [False, True], ids=["", "and the operator restarts"])
async def test_identity_that_changed_and_changed_back_within_one_gap(during: dict[str, Any], restarts: bool) -> None:
    world = await OperatorWorld().started()
    await world.settled(2)
    epoch = await out_of_sight(world)
    world.declare(static_group(generation=2, identity=during))
    await world.settled(3)
    if during is FOLLOWS:  # web-3 is made by that template, and its annotation is edited to the id of web-2
        start_as(world, "web-3", "u3", {"3." + world.scope, world.id_of(2)}, ids_are_fixed=False)
        world.kafka.join(world.id_of(2), LIVING)
        force_delete(world, "web-3")
    else:
        lost_stray(world)
    world.declare(static_group(generation=3))
    await world.settled(2)
    if restarts:
        world.kube.resource_version += 1
        world.restart(epoch="epoch-2")
        await world.settled(3)
    else:
        await in_sight_again(world, epoch)
    assert blind(world) == EVERY_SEAT
    await departs(world, 4)
    assert left(world) == []


async def test_identity_that_changed_and_changed_back_while_nobody_looked() -> None:
    """Two edits raise metadata.generation by two, and what the spec said in between nobody knows."""
    world = await OperatorWorld().started()
    await world.settled(2)
    away(world)
    lost_stray(world)
    world.declare(static_group(generation=3))
    world.kube.resource_version += 1
    world.restart(epoch="epoch-2")
    await world.settled(3)
    assert blind(world) == EVERY_SEAT
    await departs(world, 4)
    assert left(world) == []


@pytest.mark.parametrize("restarts", [False, True], ids=["", "and the operator restarts"])
async def test_one_edit_of_another_field_over_a_gap_costs_nothing(restarts: bool) -> None:
    world = await OperatorWorld().started()
    await world.settled(2)
    world.declare(static_group(generation=2, sessionTimeout={"seconds": 60}))
    if restarts:
        world.kube.resource_version += 1
        world.restart(epoch="epoch-2")
    else:
        gap(world)
    await world.settled(3)
    assert blind(world) == ""


async def test_edits_in_sight_cost_nothing_at_a_later_gap() -> None:
    world = await OperatorWorld().started()
    world.declare(static_group(generation=4))
    await world.settled(3)
    gap(world)
    await world.settled(3)
    assert blind(world) == ""


async def test_exclusive_ids_are_nobody_elses_whatever_was_edited() -> None:
    spec: dict[str, Any] = {"identity": {"template": "app-{ordinal}", "exclusive": True}}
    world = OperatorWorld(**spec)
    world.template = "app-{ordinal}"
    await world.started()
    world.declare(static_group(generation=5, **spec))
    gap(world)
    await world.settled(3)
    assert blind(world) == ""


@pytest.mark.parametrize("restarts", [False, True], ids=["", "and the operator restarts"])
async def test_method_that_changed_while_the_watch_was_silent_counts_until_it_is_heard(restarts: bool) -> None:
    """A dead connection says nothing for up to 75 s; rounds run meanwhile, and only then the gap is known."""
    world = await OperatorWorld(identity=NONE).started()
    await world.settled(2)
    away(world)
    world.pods.age_s = lambda: 70.0  # type: ignore[method-assign]
    lost_stray(world)
    world.declare(static_group(generation=2, identity={"method": "Policy"}))
    await world.settled(4)
    if restarts:
        world.kube.resource_version += 1
        world.restart(epoch="epoch-2")
    else:
        gap(world)
    await world.settled(3)
    assert blind(world) == EVERY_SEAT
    await departs(world, 4)
    assert left(world) == []


@pytest.mark.parametrize("step_s", [100.0, -100.0])
async def test_method_that_changed_while_the_watch_was_silent_and_the_clock_was_set(step_s: float) -> None:
    """By the clock that nobody sets, the watch was heard before the edit; by the other one it seems to have been heard since."""
    world = await OperatorWorld(identity=NONE).started()
    await world.settled(2)
    away(world)
    world.pods.age_s = lambda: 70.0  # type: ignore[method-assign]
    lost_stray(world)
    world.declare(static_group(generation=2, identity={"method": "Policy"}))
    await world.settled(2)
    world.set_clock(step_s)
    await world.settled(3)
    gap(world)
    await world.settled(3)
    await departs(world, 4)
    assert LIVING not in dict(world.left)
    assert blind(world) == EVERY_SEAT


@pytest.mark.parametrize("is_anchored", [True, False], ids=["", "and some rounds run before its watch is complete"])
async def test_id_of_that_time_may_have_been_carried_by_a_pod_of_any_workload(is_anchored: bool) -> None:
    """The operator restarts while the watch is silent, and the history of another workload is gone (`Continuity.behind`)."""
    world = await OperatorWorld(identity=NONE).started()
    world.pods.age_s = lambda: 70.0  # type: ignore[method-assign]
    world.declare(static_group(generation=2, identity={"method": "Policy"}))
    await world.settled(4)
    world.restart(epoch="epoch-2")
    world.pods.lineage.since = {"epoch-1": frozenset({("shop", "other")})}
    if not is_anchored:
        world.pods.epoch = ""
        await world.settled(3)
        world.pods.epoch = "epoch-2"
    await world.settled(5)
    assert blind(world) == EVERY_SEAT


async def test_method_that_was_changed_before_the_watch_was_heard_last_costs_nothing() -> None:
    world = await OperatorWorld(identity=NONE).started()
    world.declare(static_group(generation=2, identity={"method": "Policy"}))
    await world.settled(4)
    gap(world)
    await world.settled(3)
    assert blind(world) == ""


async def test_edit_that_the_watch_of_staticgroups_has_not_told_when_a_gap_ends() -> None:
    """The spec as the watch shows it is not the one of the gap; nothing is carried over it until the edit is heard."""
    world = await OperatorWorld().started()
    await world.settled(2)
    away(world)
    body = static_group(generation=2, identity=NONE)
    world.kube.put_object("staticgroups", body | {"status": group_body(world)["status"]})
    lost_stray(world)
    gap(world)
    await world.settled(3)
    world.declare(static_group(generation=3))
    await world.settled(3)
    assert blind(world) == EVERY_SEAT
    await departs(world, 4)
    assert left(world) == []


async def test_policy_that_was_not_served_in_the_middle_of_a_gap() -> None:
    """It is uninstalled for a while and ids are put in by hand, as the status says; it is back when the gap ends."""
    world = await OperatorWorld().started()
    await world.settled(2)
    epoch = await out_of_sight(world)
    world.is_policy_served = False
    await world.settled(2)
    lost_stray(world)
    world.is_policy_served = True
    await world.settled(2)
    await in_sight_again(world, epoch)
    assert blind(world) == EVERY_SEAT
    await departs(world, 4)
    assert left(world) == []


async def test_template_that_was_decided_is_in_force_only_once_its_status_is_written() -> None:
    """The template was {ordinal} for a while; the status that takes it back is refused, so the policy goes on with it."""
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2, identity=FOLLOWS))
    await world.settled(3)
    world.kube.problems["apply_status"] = problem_of(403, verb="patch", resource="staticgroups")
    world.declare(static_group(generation=3))
    await world.settled(3)
    away(world)
    start_as(world, "web-3", "u3", {"3." + world.scope, world.id_of(2)}, ids_are_fixed=False)
    world.kafka.join(world.id_of(2), LIVING)
    force_delete(world, "web-3")
    gap(world)
    await world.settled(2)
    world.kube.problems.clear()
    world.now_s += 600
    await world.settled(3)
    assert blind(world) == EVERY_SEAT
    await departs(world, 4)
    assert left(world) == []


@pytest.mark.parametrize("status", [403, 500])
async def test_staticgroup_that_cannot_be_read_once_after_a_gap_decides_nothing_yet_and_costs_nothing(status: int) -> None:
    """Which generation it has is not known then; a right or an answer that is missing once is no edit of the spec."""
    world = await OperatorWorld().started()
    await empty_seat(world)
    gap(world)
    world.kafka.problems.clear()
    world.kube.problems["read_object"] = problem_of(status, verb="get", resource="staticgroups", namespace="shop")
    await world.settled(2)
    assert left(world) == []
    assert "the StaticGroup could not be read" in world.condition("RemovalSettled")[2]
    world.kube.problems.clear()
    await world.settled(4)
    assert (blind(world), left(world)) == ("", [world.id_of(2)])
