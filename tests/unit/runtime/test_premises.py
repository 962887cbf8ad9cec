"""What the evidence chain builds on: seen carriers, owners of ids, and writers of what is read.

Each story ends with a living process that holds the id of a departed seat; nothing may be removed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from staticgroup.api import names
from staticgroup.api.resources.memory import Writer
from staticgroup.kube.pods.book import PodIndex
from unit.core.builders import pod_version, workload

from .operator_world import KEY, OperatorWorld, guards, static_group

LIVING = "the-living-process"


def zombie_of(world: OperatorWorld, ordinal: int = 2, uid: str = "u2b") -> None:
    """Let the process of the vanished pod join again, and end the pod that took its place."""
    world.kafka.join(world.id_of(ordinal), LIVING)
    world.scale(ordinal)
    world.end(ordinal, uid)


def removed_living(world: OperatorWorld) -> bool:
    return LIVING in {member_id for member_id, _ in world.left}


# ids that were carried though no round had issued them ------------------------------------------------------------


async def test_gap_counts_from_the_acknowledgement_though_no_pod_existed_then() -> None:
    """The policy injects from the acknowledgement on; the StatefulSet may be created at any time."""
    world = OperatorWorld()
    world.delete_workload()
    await world.round()
    world.kube.workloads["shop", "web"] = world.stores.workloads["shop", "web"] = workload(3)
    world.pods.is_lagging = True
    for ordinal in range(3):
        world.start(ordinal)
    world.remove_object(2)
    world.start(2, "u2b")
    world.restart(watch_name="2-00000002")
    await world.settled(3)
    zombie_of(world)
    await world.settled(4)
    assert not removed_living(world)
    assert guards(world) == ["JoinedBeforeWatch"]


# a lost status ----------------------------------------------------------------------------------------------------


async def a_suspect_of_a_forgotten_status(**spec: object) -> OperatorWorld:
    world = await OperatorWorld(**spec).started()
    world.template = f"web-{{ordinal}}.{world.scope}"
    world.remove_object(2)
    world.start(2, "u2b")
    await world.settled(2)
    world.kube.objects[("staticgroups", *KEY)]["status"] = {}
    world.declare(world.kube.objects[("staticgroups", *KEY)])
    return world


async def test_lost_status_of_a_group_without_pods_is_recognized_by_its_members() -> None:
    world = await a_suspect_of_a_forgotten_status()
    for ordinal, uid in enumerate(("u0", "u1", "u2b")):
        world.end(ordinal, uid)
    world.restart(watch_name="2-00000002")
    world.pods.book.index = PodIndex()  # a new process lists no pod
    await world.round()
    for ordinal in range(3):
        world.start(ordinal, f"n{ordinal}")
    world.scale(3)
    await world.settled(2)
    zombie_of(world, uid="n2")
    await world.settled(4)
    assert not removed_living(world)


async def a_departure_of_ids_that_the_application_has(*, was_watched: bool) -> OperatorWorld:
    """A StaticGroup takes in running pods; web-2 departs, after a restart of its pod or as it was."""
    world = OperatorWorld(idTemplate="{podName}", assumeExclusive=True, client={"type": "Own"})
    world.template = "web-{ordinal}"
    world.scale(3)
    for ordinal in range(3):
        world.start(ordinal)
    if was_watched:
        await world.watched_for_long()
        world.end(2)
        world.start(2, "u2b")
    world.now_s += 300
    await world.settled(2)
    await world.departs(3, "u2b" if was_watched else "u2")
    return world


async def test_member_that_is_older_than_the_staticgroup_may_be_of_a_pod_that_was_deleted_by_force() -> None:
    """Its process joined again while no StaticGroup was there, and another pod took its place; an id without a scope is
    nobody's from the beginning."""
    world = await a_departure_of_ids_that_the_application_has(was_watched=False)
    assert world.left == []
    assert guards(world) == ["JoinedBeforeWatch"]


async def test_one_restart_of_a_pod_makes_its_next_member_removable() -> None:
    world = await a_departure_of_ids_that_the_application_has(was_watched=True)
    assert [i for _, i in world.left] == ["web-2"]


async def test_application_that_takes_its_host_name_needs_no_variable() -> None:
    world = OperatorWorld(idTemplate="{podName}", assumeExclusive=True, client={"type": "Own"})
    world.template = "web-{ordinal}"
    world.scale(3)
    await world.watched_for_long()
    for ordinal in range(3):
        world.start(ordinal, instance_ids=frozenset())
    world.now_s += 300
    await world.settled(2)
    assert [world.condition(kind)[0] for kind in ("Ready", "Injected", "MembershipComplete")] == ["True"] * 3
    assert world.status.issues == []
    await world.departs(3)
    assert [i for _, i in world.left] == ["web-2"]


async def test_first_acknowledgement_beside_pods_without_ids_is_innocent() -> None:
    world = OperatorWorld()
    world.scale(3)
    for ordinal in range(3):
        world._happens(pod_version(ordinal, f"old{ordinal}", instance_ids=frozenset()))
    await world.settled(2)
    assert world.status.injected is not None
    assert (world.status.memory.watch or "").startswith(world.pods.watch_name)


async def test_new_staticgroup_of_a_known_name_has_lost_no_status_beside_carriers_of_the_old_one() -> None:
    world = await OperatorWorld().started()
    world.delete_group()
    world.declare(static_group("sg-2"))
    await world.settled(2)
    assert world.status.injected is not None
    assert (world.status.memory.watch or "").startswith(world.pods.watch_name)


# owners of ids -----------------------------------------------------------------------------------------------

EXCLUSIVE = {"idTemplate": "app-{ordinal}", "assumeExclusive": True, "client": {"type": "Own"}}


def rival(namespace: str = "bill", workload_name: str = "pay", **spec: object) -> dict[str, object]:
    body = static_group("sg-rival", **({"workloadRef": {"name": workload_name}} | EXCLUSIVE | spec))
    body["metadata"] |= {"namespace": namespace, "name": "rival"}
    return body


async def a_departure_of_unscoped_ids() -> OperatorWorld:
    world = OperatorWorld(**EXCLUSIVE)
    world.template = "app-{ordinal}"
    await world.started()
    world.scale(2)
    world.end(2)
    return world


async def test_pod_of_another_group_that_carries_the_same_text_is_no_carrier() -> None:
    world = await a_departure_of_unscoped_ids()
    world.stores.put_group(("bill", "rival"), rival(groupId="payments"))
    world._happens(pod_version(2, "pay-2", namespace="bill", name="pay-2", instance_ids=frozenset({"app-2"})))
    await world.settled(3)
    assert [i for _, i in world.left] == ["app-2"]


# writers of the memory --------------------------------------------------------------------------------------------


def suspects(world: OperatorWorld) -> set[str]:
    return {s.uid for s in world.status.memory.suspects}


async def a_replica_that_pauses_in_its_write(world: OperatorWorld) -> None:
    """Stop the first replica right before its status reaches the API server, and let a successor work meanwhile.

    The paused one does not notice: a machine that was suspended has a clock that stood still.
    """
    paused = world.reconciler

    async def meanwhile() -> None:
        world.kafka.state = "Stable"
        world.now_s += 20
        world.restart()
        world.holding = Writer(lease_uid="lease", lease_transitions=2)
        world.remove_object(2)
        world.start(2, "u2b")
        await world.settled(2)
        assert suspects(world) == {"u2"}
        world.holding, world.is_lease_ours = Writer(lease_uid="lease", lease_transitions=1), False

    world.holding = Writer(lease_uid="lease", lease_transitions=1)
    world.kube.before["apply_status"] = meanwhile
    world.kafka.state = "PreparingRebalance"
    await paused.reconcile(KEY)
    for _ in range(3):
        await paused.reconcile(KEY)
    world.kafka.state = "Stable"
    assert not world.is_holder, "the Lease said that it is outdated"
    world.is_holder, world.is_lease_ours, world.holding = True, True, Writer(lease_uid="lease", lease_transitions=2)


async def test_paused_replica_never_overwrites_what_its_successor_wrote() -> None:
    world = await OperatorWorld().started()
    await a_replica_that_pauses_in_its_write(world)
    assert suspects(world) == {"u2"}
    world.restart()
    await world.settled(2)
    zombie_of(world)
    await world.settled(4)
    assert not removed_living(world)


async def test_status_that_names_a_later_holding_than_there_is_stops_nobody() -> None:
    """Anybody with the right to write a status can put any number there; the Lease itself says whose turn it is."""
    world = await OperatorWorld().started()
    world.holding = Writer(lease_uid="lease", lease_transitions=1)
    await world.settled(2)
    forged = world.status.model_copy(update={"writer": Writer(lease_uid="lease", lease_transitions=9)})
    body = world.kube.objects[(names.STATIC_GROUP_PLURAL, *KEY)]
    world.kube.put_object(names.STATIC_GROUP_PLURAL, body | {"status": forged.to_wire()})
    world.restart()  # what this process knows by itself names no other
    await world.departs(4)
    assert world.left, "it goes on removing"
    assert world.status.memory.writer == world.holding


async def test_edit_of_the_spec_between_two_rounds_costs_no_write_of_the_status() -> None:
    world = await OperatorWorld().started()
    await world.settled(2)
    writes = len(world.kube.status_writes)
    world.declare(static_group(generation=2, sessionTimeout={"minSeconds": 30}))
    await world.round()
    assert len(world.kube.status_writes) == writes + 1
    await world.settled(3)
    assert len(world.kube.status_writes) == writes + 1


async def test_edit_of_metadata_during_a_write_does_not_cost_the_write() -> None:
    world = await OperatorWorld().started()

    async def labelled() -> None:
        world.kube.put_object("staticgroups", world.kube.objects["staticgroups", *KEY])

    world.kube.before["apply_status"] = labelled
    world.remove_object(2)
    assert not (await world.round()).failed
    assert suspects(world) == {"u2"}


async def reborn(after_s: float, **spec: Any) -> OperatorWorld:
    """A pod is lost, and the StaticGroup is deleted and made again some time later; then the seat is used and left."""
    world = OperatorWorld(**spec)
    world.template = "web-{ordinal}" if spec else ""
    await world.started()
    world.remove_object(2)
    await world.round()
    world.delete_group()
    world.now_s += after_s
    body = static_group("sg-2", **spec)
    created_at = datetime.fromtimestamp(world.now_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    world.declare(body | {"metadata": body["metadata"] | {"creationTimestamp": created_at}})
    await world.settled(2)
    world.start(2, "u2b")
    world.now_s += 300
    await world.settled(2)
    await world.departs(4, "u2b")
    return world


async def test_new_staticgroup_does_not_inherit_the_suspects_of_another_scope() -> None:
    """A pod that was gone before the scope existed cannot carry it, whatever became of its process."""
    world = await reborn(600)
    assert [i for _, i in world.left] == [world.id_of(2)]


@pytest.mark.parametrize(
    ("after_s", "spec"), [(5, {}), (600, {"idTemplate": "{podName}", "assumeExclusive": True})],
    ids=["young", "unscoped"],
)  # fmt: skip
async def test_suspect_that_may_carry_an_id_of_the_new_one_stays_one(after_s: float, spec: dict[str, Any]) -> None:
    """Clocks differ, and an id without a scope may be as old as it likes."""
    world = await reborn(after_s, **spec)
    assert world.left == []
    assert guards(world) == ["Suspect"]
