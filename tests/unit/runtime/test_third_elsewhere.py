"""A pod of another name is seen to carry an id when a gap ends; another one like it came and went in that gap."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unit.core.builders import ended, pod_version

from .operator_world import OperatorWorld, guards
from .stories import LIVING, away, blind, departs, gap, managed


def start_in(world: OperatorWorld, namespace: str, name: str, uid: str, instance_id: str) -> None:
    """Start a pod with a literal id that somebody copied into its manifest."""
    values = {"namespace": namespace, "name": name, "instance_ids": frozenset({instance_id}), "ids_are_fixed": True}
    world._happens(pod_version(0, uid, **values))


def end_in(world: OperatorWorld, namespace: str, name: str, uid: str, instance_id: str) -> None:
    world._happens(replace(ended(0, uid, instance_ids=frozenset({instance_id}), ids_are_fixed=True), namespace=namespace, name=name))
    world._happens(world.kube.pods[namespace, name], is_deleted=True)


def two_copies(world: OperatorWorld, namespace: str, instance_id: str) -> None:
    """canary-0 lives; canary-1 was lost, object and all, while its process holds the id."""
    start_in(world, namespace, "canary-0", "seen", instance_id)
    start_in(world, namespace, "canary-1", "unseen", instance_id)
    world.kafka.join(instance_id, LIVING)
    world._happens(world.kube.pods[namespace, "canary-1"], is_deleted=True)


@pytest.mark.parametrize("restarts", [False, True], ids=["", "and the operator restarts"])
@pytest.mark.parametrize("namespace", ["shop", "bill"])
async def test_copy_in_a_gap_beside_a_copy_that_is_seen_when_it_ends(restarts: bool, namespace: str) -> None:
    world = await OperatorWorld().started()
    world.pods.is_managed = managed
    await world.settled(2)
    away(world)
    two_copies(world, namespace, world.id_of(2))
    if restarts:
        world.kube.resource_version += 1
        world.restart(epoch="epoch-2")
        world.pods.is_managed = managed
    else:
        gap(world)
    await world.settled(3)
    end_in(world, namespace, "canary-0", "seen", world.id_of(2))
    await world.settled(2)
    await departs(world, 4)
    assert LIVING not in dict(world.left)
    assert blind(world) == "0-2147483647"


@pytest.mark.parametrize("restarts", [False, True], ids=["", "and the operator restarts"])
async def test_the_same_of_an_id_that_nobody_wants_yet(restarts: bool) -> None:
    """web-3 is wanted after the gap."""
    world = await OperatorWorld().started()
    world.pods.is_managed = managed
    await world.settled(2)
    start_in(world, "shop", "canary-0", "seen", world.id_of(3))
    await world.settled(4)
    away(world)
    start_in(world, "shop", "canary-1", "unseen", world.id_of(3))
    world._happens(world.kube.pods["shop", "canary-1"], is_deleted=True)
    if restarts:
        world.kube.resource_version += 1
        world.restart(epoch="epoch-2")
        world.pods.is_managed = managed
    else:
        gap(world)
    await world.settled(3)
    end_in(world, "shop", "canary-0", "seen", world.id_of(3))
    world.scale(4)
    world.start(3)
    await world.settled(3)
    world.kafka.join(world.id_of(3), LIVING)
    world.scale(3)
    world.end(3)
    await world.settled(4)
    assert LIVING not in dict(world.left)
    assert blind(world) == "0-2147483647"


async def test_seat_that_is_seen_with_the_id_of_another_seat() -> None:
    """A second container of the pod template has web-2's id as a literal, so every pod of web carries it, beside its own.

    In a gap web-3 is made and lost by force, whose process holds the id. Then the template is put right and all pods are rolled.
    """
    world = await OperatorWorld().started()
    world.pods.is_managed = managed
    the_id = world.id_of(2)
    for ordinal in range(3):
        world.start(ordinal, joins=False, instance_ids=frozenset({world.id_of(ordinal), the_id}))
    await world.settled(3)
    away(world)
    world.scale(4)
    world.start(3, "lost", joins=False, instance_ids=frozenset({world.id_of(3), the_id}))
    world.kafka.join(the_id, LIVING)
    world.remove_object(3)
    gap(world)
    await world.settled(3)
    world.scale(2)
    for ordinal in range(3):
        world._happens(ended(ordinal, f"u{ordinal}", instance_ids=frozenset({world.id_of(ordinal), the_id}), ids_are_fixed=True))
        world.remove_object(ordinal)
        if ordinal < 2:
            world.start(ordinal, f"u{ordinal}b")
    world.now_s += 300
    await world.settled(5)
    assert LIVING not in dict(world.left)
    assert guards(world) == ["WatchGap"]
