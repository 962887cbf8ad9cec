"""A status that etcd was set back to while an operator runs is repaired once the restore is seen."""

from __future__ import annotations

from copy import deepcopy

import pytest

from staticgroup.api import names

from .operator_world import KEY, OperatorWorld, guards
from .stories import by_hand, force_delete, group_body, left, stray


def restored(world: OperatorWorld, body: dict[str, object], version: int) -> None:
    """Set etcd back, and let that be seen: the pod watch begins anew, and the informer of StaticGroups lists."""
    world.kube.resource_version = version
    world.kube.objects[names.STATIC_GROUP_PLURAL, *KEY] = deepcopy(body)
    world.stores.put_group(KEY, deepcopy(body))
    world.pods.book.forget_versions()
    for each in world.kube.pods.values():
        world.pods.book.take(each, is_deleted=False, in_order=False, listed_at=version)
    world.pods.history.clear()  # nothing of before the restore is replayed
    world.pods.at = world.position = version
    world.pods.watch_name = f"{int(world.now_s) + 1}-00000002"


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("is_set_back", [False, True])
async def test_a_suspect_that_an_operator_knows_is_in_the_status_again_after_a_restore_that_it_saw(
    is_set_back: bool, restarts: bool
) -> None:
    """canary-0 takes the seat of web-2 and is deleted by force after the backup; it lives on and holds the seat. etcd is
    set back; minutes later the operator is replaced, and later still the canary's process crashes and joins again."""
    world = await by_hand()
    await world.started()
    await world.settled(4)
    backup, version = deepcopy(group_body(world)), world.kube.resource_version
    world.now_s += 60
    stray(world)
    await world.settled(3)
    force_delete(world, "canary-0")
    await world.settled(3)
    assert [s.uid for s in world.status.memory.suspects] == ["stray"]
    if is_set_back:
        restored(world, backup, version)
    for _ in range(10):
        await world.round()
        world.now_s += 30
    in_status = [s.uid for s in world.status.memory.suspects]
    if restarts:
        world.restart()
    for _ in range(30):
        world.pods.watch_name = world.pods.watch_name or f"{int(world.now_s) + 1}-00000003"  # a LIST ends each gap
        await world.round()
        world.now_s += 30
    world.kafka.join(world.id_of(2), "of-the-canary-again")
    await world.settled(3)
    world.scale(2)
    world.end(2)
    await world.settled(4)
    assert (left(world), in_status, guards(world)) == ([], ["stray"], ["Suspect"])
