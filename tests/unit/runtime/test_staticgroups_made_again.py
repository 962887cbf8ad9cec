"""A StaticGroup that is gone is forgotten, and one that is made again under its name has nothing of it."""

from __future__ import annotations

from staticgroup.runtime.work_queue import Result

from .operator_world import KEY, OperatorWorld, static_group


async def test_recreated_staticgroup_starts_with_an_empty_memory() -> None:
    """T3: what was acknowledged for A must not count for B of the same name."""
    world = await OperatorWorld().started()
    old_scope = world.scope
    world.delete_group()
    world.declare(static_group(uid="sg-2"))
    await world.round()
    assert world.scope != old_scope
    assert world.status.members is not None
    assert world.status.members.foreign == 3
    assert world.left == []


async def test_recreated_staticgroup_whose_deletion_no_event_told_starts_with_an_empty_memory_too() -> None:
    """U3: only the final state was seen; the uid tells that it is another one."""
    world = await OperatorWorld().started()
    old_scope = world.scope
    world.declare(static_group(uid="sg-2"))
    await world.round()
    assert world.scope != old_scope
    assert world.left == []


async def test_status_of_a_recreated_staticgroup_never_gets_the_old_ones_words() -> None:
    world = await OperatorWorld().started()
    world.end(2)
    world.kube.objects[("staticgroups", *KEY)] = static_group(uid="sg-2")
    outcome = await world.round()
    assert outcome.failed
    assert "status" not in world.kube.objects[("staticgroups", *KEY)]


async def test_staticgroup_that_took_the_name_during_a_read_is_not_dropped_with_the_one_that_was_read_as_gone() -> None:
    world = OperatorWorld()

    async def read_object(plural: str, namespace: str, name: str) -> None:
        world.stores.put_group(KEY, static_group(uid="sg-2"))

    world.kube.read_object = read_object  # type: ignore[method-assign, assignment]
    await world.reconciler.reconcile(KEY)
    assert world.stores.groups[KEY].metadata.uid == "sg-2"


async def test_deleted_staticgroup_is_forgotten_with_its_metrics() -> None:
    world = await OperatorWorld().started()
    world.delete_group()
    assert await world.round() == Result()
    assert world.journal == []
    exported = {s.labels.get("staticgroup") for m in world.reconciler.metrics.registry.collect() for s in m.samples}
    assert "orders" not in exported


async def test_staticgroup_deleted_during_its_round_leaves_no_metrics_behind() -> None:
    """A round that waits for a dead broker ends after the deletion; nothing comes after it to clean up."""
    world = await OperatorWorld().started()
    world.kafka.before["describe"] = world.delete_group
    assert await world.round() == Result()
    exported = {s.labels.get("staticgroup") for m in world.reconciler.metrics.registry.collect() for s in m.samples}
    assert "orders" not in exported
