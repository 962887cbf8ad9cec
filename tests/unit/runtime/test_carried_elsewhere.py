"""Pods of other names that carry an id: what they say of a gap, and whose members they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from unit.core.builders import ended, pod_version

from .operator_world import OperatorWorld, guards, static_group
from .stories import LIVING, away, blind, departs, gap, left, managed
from .test_premises import a_departure_of_unscoped_ids, rival


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


def loses_history(world: OperatorWorld, restarts: bool) -> None:
    """Let the API server lose the history of its watch, while an operator runs or before the next one begins."""
    if not restarts:
        gap(world)
        return
    world.kube.resource_version += 1
    world.restart(epoch="epoch-2")
    world.pods.is_managed = managed


@pytest.mark.parametrize("restarts", [False, True], ids=["", "and the operator restarts"])
@pytest.mark.parametrize("namespace", ["shop", "bill"])
async def test_copy_in_a_gap_beside_a_copy_that_is_seen_when_it_ends(restarts: bool, namespace: str) -> None:
    world = await OperatorWorld().started()
    world.pods.is_managed = managed
    await world.settled(2)
    away(world)
    two_copies(world, namespace, world.id_of(2))
    loses_history(world, restarts)
    await world.settled(3)
    end_in(world, namespace, "canary-0", "seen", world.id_of(2))
    await world.settled(2)
    await departs(world, 4)
    assert LIVING not in dict(world.left)
    assert blind(world) == "0-2147483647"


async def test_gap_that_ends_a_moment_after_all_ids_were_looked_at() -> None:
    """They are not looked at again for each new one; a gap may have brought any."""
    world = await OperatorWorld().started()
    world.pods.is_managed = managed
    start_in(world, "bill", "pay-0", "other", "pay-0")
    await world.settled(1)
    away(world)
    two_copies(world, "bill", world.id_of(2))
    gap(world)
    await world.round()
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
    loses_history(world, restarts)
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


# a carrier whose workload has a StaticGroup about another group ----------------------------------------------------------


@pytest.mark.parametrize("has_a_staticgroup", [False, True])
async def test_carrier_elsewhere_whose_staticgroup_is_about_another_group(has_a_staticgroup: bool) -> None:
    """pay-0 of namespace bill shows the scoped id of web-2, literally copied; its process holds it in group `orders`, beside one in `audit`."""
    world = await OperatorWorld().started()
    world.pods.is_managed = managed
    if has_a_staticgroup:
        body = static_group("sg-bill", workloadRef={"name": "pay"}, groupId="audit")
        body["metadata"] |= {"namespace": "bill", "name": "audit"}
        world.stores.put_group(("bill", "audit"), body)
    values = {"namespace": "bill", "name": "pay-0", "instance_ids": frozenset({world.id_of(2), "pay-0.audit"}), "ids_are_fixed": True}
    world._happens(pod_version(0, "living", **values))
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(3)
    await departs(world, 4)
    assert (left(world), guards(world)) == ([], ["PodStillRunning"])


async def test_leftover_of_a_deleted_staticgroup_whose_statefulset_has_another_one() -> None:
    """As in test_premises (`Its StaticGroup may have been deleted; the pods live on`), but pay-2 has a second consumer with a StaticGroup."""
    world = await a_departure_of_unscoped_ids()
    world.stores.put_group(("bill", "audit"), rival(groupId="audit"))
    world._happens(pod_version(2, "pay-2", namespace="bill", name="pay-2", instance_ids=frozenset({"app-2", "pay-2.audit"})))
    world.kafka.join("app-2", LIVING)
    await world.settled(3)
    assert LIVING not in dict(world.left)


# what is told of a copy while its id is wanted ---------------------------------------------------------------------------


def copies_told(world: OperatorWorld) -> list[tuple[str | None, str | None]]:
    return [(e.instance_id, e.pod_name) for e in world.status.exceptions if e.reason == "IdCarriedTwice"]


@pytest.mark.parametrize(("namespace", "name"), [("shop", "canary-0"), ("bill", "canary-0"), ("bill", "web-0"), ("shop", "web-debug")])
async def test_second_workload_with_a_wanted_id_is_told_until_it_ends_and_nobody_is_removed(namespace: str, name: str) -> None:
    world = await OperatorWorld().started()
    assert copies_told(world) == []
    start_in(world, namespace, name, "copy", world.id_of(0))
    world.kafka.join(world.id_of(0), LIVING)
    await world.settled(2)
    assert copies_told(world) == [(world.id_of(0), "web-0")]
    (told,) = [e for e in world.status.exceptions if e.reason == "IdCarriedTwice"]
    assert f"pod {namespace}/{name} carries a copy of this id" in told.message
    assert world.left == []
    end_in(world, namespace, name, "copy", world.id_of(0))
    await world.settled(2)
    assert copies_told(world) == []


async def test_copies_keep_their_order_in_the_status_whichever_was_written_last() -> None:
    """Copies fence each other and so crash-loop; the status is not written again for that."""
    world = await OperatorWorld().started()
    for uid, name in (("second", "canary-1"), ("first", "canary-0")):
        start_in(world, "shop", name, uid, world.id_of(0))
    await world.settled(2)
    told = [e.message for e in world.status.exceptions if e.reason == "IdCarriedTwice"]
    assert ["canary-0" in told[0], "canary-1" in told[1]] == [True, True]


async def test_copy_of_what_a_client_appends_to_is_told_of_the_seat_that_it_makes() -> None:
    world = await OperatorWorld(replicas=12, identity={"suffix": "Custom", "customSuffixes": ["_a", "-b"], "membersPerPod": 2}).started()
    base = world.id_of(1).removesuffix("_a").removesuffix("-b")
    start_in(world, "shop", "canary-0", "copy", base)
    start_in(world, "shop", "canary-1", "other", f"{base}0")
    await world.settled(2)
    (told,) = copies_told(world)
    assert told in ((f"{base}_a", "web-1"), (f"{base}-b", "web-1"))


async def test_pod_of_another_namespace_with_an_id_that_others_may_issue_is_not_told() -> None:
    """Ids are of one group; whether that pod is in this one nobody knows."""
    world = await OperatorWorld(identity={"template": "{podName}", "exclusive": True}).started()
    start_in(world, "bill", "web-0", "copy", "web-0")
    await world.settled(2)
    assert copies_told(world) == []
