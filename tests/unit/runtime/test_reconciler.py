"""Rounds: the order that makes a removal safe, and that nothing is written when it should not be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api.ordinals import Ordinals
from staticgroup.core.group import LeaveOutcome
from staticgroup.core.guards import Guard
from staticgroup.kube.problem import problem_of

from .operator_world import UNREACHABLE, OperatorWorld, departing, guards, static_group

# limits ---------------------------------------------------------------------------------------------------------


async def test_ordinals_that_move_again_and_again_are_remembered_in_a_status_that_can_be_written() -> None:
    world = await OperatorWorld().started()
    moved = world.stores.workloads["shop", "web"]
    for n in range(400):
        view = replace(moved, replicas=1, start=3 * n, metadata_generation=n + 5, observed_generation=n + 5)
        world.kube.workloads["shop", "web"] = world.stores.workloads["shop", "web"] = view
        assert not (await world.round()).failed
    assert all(3 * n in Ordinals.parse(world.issued.ordinals) for n in range(400))


# the order ------------------------------------------------------------------------------------------------------


async def test_removal_follows_describe_then_reads_then_barrier_then_chains_then_leave() -> None:
    """Design of the evidence chain; every other order has a counter-example."""
    world = await departing()
    described = world.kafka.members[world.id_of(2)]
    await world.round()
    assert world.left == [(described, world.id_of(2))]
    steps = [step for step, *_ in world.journal]
    safe = ["describe", "read_workload", "read_pod", "barrier", "chain", "leave"]
    last = {step: len(steps) - 1 - steps[::-1].index(step) for step in safe}
    assert sorted(safe, key=last.__getitem__) == safe
    assert steps.index("describe") < min(steps.index(s) for s in safe[1:])
    assert (steps.count("describe"), steps.count("leave")) == (1, 1)


async def test_member_that_joins_between_describe_and_leave_is_never_removed() -> None:
    """The compare-and-set answers FENCED_INSTANCE_ID (KIP-345); the group is described again before anything else."""
    world = await departing()
    world.kafka.before["leave"] = lambda: world.kafka.join(world.id_of(2), "newcomer") and None
    outcome = await world.round()
    assert [o for _, o in world.kafka.leaves] == [LeaveOutcome.FENCED]
    assert world.kafka.members[world.id_of(2)] == "newcomer"
    assert outcome.requeue_after_s is not None
    assert outcome.requeue_after_s <= 1
    assert all(member and instance for member, instance in world.left)


async def test_pod_that_the_watch_has_not_shown_yet_is_found_by_the_barrier_and_holds() -> None:
    """Carriers are determined behind the barrier; before it the new pod is unknown and the old one has ended."""
    world = await departing()
    await world.round()
    world.kafka.leaves.clear()
    world.scale(3)
    world.pods.is_lagging = True
    world.start(2, "u2b")
    world.remove_object(2)
    world.scale(2)
    await world.round()
    assert world.left == []
    assert world.pods.state("u2b") == "Suspect"
    assert guards(world) == [Guard.SUSPECT]


async def test_barrier_that_is_not_passed_means_no_leave() -> None:
    world = await departing()
    world.pods.barrier_works = False
    await world.round()
    assert world.did("barrier")
    assert not world.did("leave")
    assert guards(world) == [Guard.NO_BARRIER]
    world.pods.barrier_works = True
    await world.round()
    assert world.did("leave")


async def test_consistent_read_below_the_watch_is_a_gap_and_no_leave_follows() -> None:
    """An etcd restore takes resourceVersions back; nothing that was seen may be concluded from any more."""
    world = await departing()
    world.kube.resource_version = 50
    await world.round()
    assert not world.did("leave")
    assert world.pods.watch_name == ""
    assert guards(world) == [Guard.NO_BARRIER]


@pytest.mark.parametrize("problem", ["read_workload", "read_pod"])
async def test_unreadable_api_server_means_no_leave(problem: str) -> None:
    """S7: unknown is not absent."""
    world = await departing()
    world.kube.problems[problem] = problem_of(500, verb="get", resource="pods", namespace="shop")
    await world.round()
    assert not world.did("leave")
    assert guards(world) == [Guard.NOT_READ_AFRESH]


async def test_ordinal_wanted_again_at_the_consistent_read_is_kept_though_the_watch_lags() -> None:
    """S4: intent is read after the describe; the workload watch may be behind."""
    world = await departing()
    world.scale(3, in_store=False)
    await world.round()
    assert world.did("read_workload")
    assert not world.did("leave")


async def test_pod_object_of_that_name_that_has_not_ended_is_kept() -> None:
    """A pod without the pod index label is not in the watch; the read by name sees it."""
    world = await departing()
    hidden = replace(world.kube.pods["shop", "web-1"], name="web-2", uid="hidden", resource_version=90)
    world.kube.pods["shop", "web-2"] = hidden
    await world.round()
    assert not world.did("leave")
    assert guards(world) == [Guard.POD_ENDING]


async def test_group_that_cannot_be_described_costs_no_reads_and_no_leave() -> None:
    world = await departing()
    world.kafka.problems["describe"] = UNREACHABLE
    outcome = await world.round()
    assert outcome.failed
    assert not {"read_pod", "barrier", "leave"} & world.done
    assert world.condition("Connected")[:2] == ("False", "BrokersUnreachable")


RENAMED = "{podName}.x.{scope}"


async def renamed(world: OperatorWorld, *, removal: str = "Departed", **pod: Any) -> None:
    """Change the template and roll the pods, each as the watch shows it: born, then bound and running."""
    world.declare(static_group(generation=2, idTemplate=RENAMED, removal=removal))
    await world.round()
    for n in range(3):
        world.end(n)
        new_id = f"web-{n}.x.{world.scope}"
        values = {"joins": False, "instance_ids": frozenset({new_id}), "ids_are_fixed": True} | pod
        unbound = {"node_name": "", "phase": "Pending", "required": (), "started_containers": frozenset()}
        world.start(n, f"n{n}", **(values | unbound | {"ready_since_s": None}))
        world.start(n, f"n{n}", **values)
        world.kafka.join(new_id)


async def test_old_ids_leave_at_once_after_a_change_of_template_when_the_new_pods_can_never_hold_them() -> None:
    world = await OperatorWorld().started()
    old_ids = {world.id_of(n) for n in range(3)}
    await renamed(world)
    await world.settled(8)
    assert {instance_id for _, instance_id in world.left} == old_ids
    assert set(world.kafka.members) == {f"web-{n}.x.{world.scope}" for n in range(3)}


async def test_old_ids_leave_after_a_restart_that_did_not_see_the_new_pods_begin() -> None:
    world = await OperatorWorld().started()
    await renamed(world, removal="Never")
    await world.settled(4)
    assert guards(world) == ["RemovalPolicyNever"] * 3
    world.restart()
    world.now_s += 900
    world.declare(static_group(generation=3, idTemplate=RENAMED))
    await world.settled(8)
    assert len(world.left) == 3


async def test_old_id_that_a_debug_container_of_the_new_pod_takes_waits() -> None:
    """Ephemeral containers are added to a running pod, with variables of their own."""
    world = await OperatorWorld().started()
    old_id = world.id_of(2)
    await renamed(world, removal="Never")
    ids = frozenset({f"web-2.x.{world.scope}", old_id})
    world.start(2, "n2", joins=False, instance_ids=ids, ids_are_fixed=True)
    world.kafka.join(old_id, "the-debug-container")
    await world.settled(8)
    world.now_s += 900
    world.declare(static_group(generation=3, idTemplate=RENAMED))
    await world.settled(8)
    assert {i for _, i in world.left} == {world.id_of(0), world.id_of(1)}
    assert guards(world) == ["PodStillRunning"]


def in_deletion(world: OperatorWorld, **changes: Any) -> OperatorWorld:
    """Delete the StatefulSet in the foreground: it stays until its pods are gone."""
    view = replace(world.stores.workloads["shop", "web"], is_deleting=True, **changes)
    world.stores.workloads["shop", "web"] = world.kube.workloads["shop", "web"] = view
    world.kube.events.clear()
    return world


async def test_statefulset_that_is_deleted_in_the_foreground_leaves_with_the_hold_of_one_that_vanished() -> None:
    """It is often created again at once, as by a replacement of an immutable field."""
    world = in_deletion(await OperatorWorld().started())
    await world.round()
    for ordinal in range(3):
        world.end(ordinal)
    in_deletion(world, status_replicas=0)
    world.now_s += 59
    await world.round()
    assert guards(world) == ["HoldWindow"] * 3
    world.now_s += 2
    await world.round()
    assert len(world.left) == 3
    assert "gone or scaled to zero" in world.kafka.leaves[0][0].reason
    assert not [reason for kind, reason, _ in world.kube.events if kind == "Warning"]


async def test_statefulset_created_again_before_the_hold_ended_keeps_all_members() -> None:
    world = in_deletion(await OperatorWorld().started())
    await world.round()
    for ordinal in range(3):
        world.end(ordinal)
    in_deletion(world, status_replicas=0)
    await world.round()
    world.delete_workload()
    world.now_s += 30
    await world.round()
    world.scale(3)
    world.now_s += 60
    await world.settled(3)
    assert world.left == []
