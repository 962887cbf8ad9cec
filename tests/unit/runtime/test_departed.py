"""The reconciler has read the carriers of every member that the plan finds departed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from staticgroup.api import names
from staticgroup.api.resources.staticgroup import StaticGroup
from staticgroup.core.group import GroupType
from staticgroup.core.plan import plan
from staticgroup.kube.problem import problem_of
from unit.runtime.operator_world import KEY, OperatorWorld, guards, static_group


def meant(world: OperatorWorld, **changes: object) -> None:
    """Change the StatefulSet; the watch of workloads has not delivered it, so only a consistent read shows it."""
    workloads = world.kube.workloads
    workloads["shop", "web"] = replace(workloads["shop", "web"], **changes)  # type: ignore[arg-type]


async def scaled_down() -> OperatorWorld:
    """Return three pods that run, of which the last is not wanted any more and has ended."""
    world = await OperatorWorld().started()
    await world.settled(2)
    world.scale(2)
    world.end(2)
    world.kube.events.clear()
    return world


def deleted_in_the_foreground(world: OperatorWorld) -> None:
    meant(world, is_deleting=True)


def deleted(world: OperatorWorld) -> None:
    del world.kube.workloads["shop", "web"]


def scaled_further(world: OperatorWorld) -> None:
    meant(world, replicas=1)


def moved(world: OperatorWorld) -> None:
    meant(world, start=7)


def scaled_beyond_all_bounds(world: OperatorWorld) -> None:
    meant(world, replicas=10**6)


async def test_no_member_is_removed_while_the_consistent_read_asks_for_more_ids_than_are_served() -> None:
    """Any of them may be wanted again."""
    world = await scaled_down()
    scaled_beyond_all_bounds(world)
    await world.settled(3)
    assert (world.left, guards(world)) == ([], ["ExpectedAgain"])


async def test_a_consistent_read_that_fails_once_costs_one_round() -> None:
    world = await scaled_down()
    world.kube.problems["read_workload"] = problem_of(503, verb="get", resource="statefulsets")
    await world.round()
    assert (world.left, guards(world)) == ([], ["NotReadAfresh"])
    del world.kube.problems["read_workload"]
    await world.round()
    assert [i for _, i in world.left] == [world.id_of(2)]


@pytest.mark.parametrize("change", [deleted_in_the_foreground, deleted, scaled_further, moved])
async def test_what_only_the_consistent_read_shows_departs_with_its_pods(
    change: Callable[[OperatorWorld], None],
) -> None:
    world = await scaled_down()
    change(world)
    await world.settled(3)
    assert set(guards(world)) <= {"PodStillRunning", "HoldWindow", "NotReadAfresh"}
    assert [event for event in world.kube.events if event[1] == "RemovalHeld"] == []
    assert {i for _, i in world.left} <= {world.id_of(2)}


async def test_ids_of_an_earlier_template_depart_with_their_pods_from_the_first_round_on() -> None:
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2, idTemplate="{workloadName}-{ordinal}.x.{scope}"))
    await world.round()
    assert guards(world) == ["PodStillRunning"] * 3


async def test_first_round_after_a_lost_status_says_what_the_next_one_says_and_removes_no_member() -> None:
    world = await OperatorWorld().started()
    world.scale(2)
    world.end(2)
    body = world.kube.objects[(names.STATIC_GROUP_PLURAL, *KEY)]
    del body["status"]
    world.stores.put_group(KEY, body)
    world.reconciler = world._new_reconciler()
    await world.round()
    assert guards(world) == ["JoinedBeforeWatch"]
    first = [e.message for e in world.status.issues]
    await world.settled(3)
    assert [e.message for e in world.status.issues] == first
    assert world.left == []


async def test_departed_members_that_cannot_be_removed_have_their_pods_but_cost_no_read() -> None:
    world = await scaled_down()
    world.kafka.group_type = GroupType.SHARE
    await world.round()
    assert guards(world) == ["UnsupportedGroupType"]
    group = StaticGroup.model_validate(world.kube.objects[(names.STATIC_GROUP_PLURAL, *KEY)])
    _, snapshot = await world.reconciler.snapshot_of(group)
    assert [[p.uid for p in found.chain] for found in snapshot.evidence.values()] == [["u2"]]
    assert [found.fresh for found in snapshot.evidence.values()] == [None]


async def test_every_member_that_a_plan_finds_departed_has_a_chain() -> None:
    world = await scaled_down()
    group = StaticGroup.model_validate(world.kube.objects[(names.STATIC_GROUP_PLURAL, *KEY)])
    spec, snapshot = await world.reconciler.snapshot_of(group)
    memory = world.reconciler.memories._by_key.get(KEY)
    assert memory is not None
    table = plan(spec, snapshot, memory.history, world.now_s).table
    assert table is not None
    assert [seat.key for seat in table.departed] == sorted(snapshot.evidence)
    assert all(seat.chain for seat in table.departed)
