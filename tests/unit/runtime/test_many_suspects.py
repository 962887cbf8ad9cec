"""Pods that vanish by the hundred, because a kubelet rejects them or a tenant deletes them, hold only members that they
may be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.core.evidence.pod import ContainerPhase, ContainerView
from staticgroup.core.group import GroupType
from staticgroup.core.members.memory import SETTLE_MIN_S
from unit.core.builders import ended, pod_version

from .operator_world import OperatorWorld, guards
from .stories import left
from .test_members import passes

NEVER_RAN = (ContainerView(name="app", phase=ContainerPhase.ABSENT, may_hold_id=True),)


def is_rejected(world: OperatorWorld, uid: str) -> None:
    """Let a kubelet reject web-2, and the StatefulSet controller delete it: nothing of it ran, and no end says so."""
    values: dict[str, Any] = {
        "instance_ids": frozenset({world.id_of(2)}), "ids_are_fixed": True, "required": NEVER_RAN,
        "ready_since_s": None, "started_containers": frozenset(),
    }  # fmt: skip
    world._happens(pod_version(2, uid, phase="Failed", phase_manager="kubelet", phase_has_statuses=False, **values))
    world.remove_object(2)


@pytest.mark.parametrize("count", [3, 250])
async def test_a_pod_that_is_rejected_again_and_again_holds_its_own_seat_alone_and_not_for_good(count: int) -> None:
    world = await OperatorWorld().started()
    world.end(2)
    for n in range(count):
        is_rejected(world, f"rejected-{n}")
    world.start(2, "u2b")
    await world.settled(2)
    world.scale(1)
    world.end(2, "u2b")
    world.end(1)
    await world.settled(4)
    assert left(world) == [world.id_of(1)]
    assert guards(world) == ["Suspect"]
    del world.kafka.members[world.id_of(2)]  # its session ends
    await world.round()
    await passes(world, SETTLE_MIN_S)
    assert world.status.memory.suspects == []
    world.scale(3)
    world.start(1, "u1c")
    world.start(2, "u2c")
    await world.settled(2)
    world.scale(1)
    world.end(2, "u2c")
    world.end(1, "u1c")
    await world.settled(4)
    assert left(world) == [world.id_of(1), world.id_of(1), world.id_of(2)]
    assert world.status.memory.watch is not None


def stray(world: OperatorWorld, number: int, ids: set[str], *, is_ended: bool = False) -> None:
    """Let a tenant of another namespace make a pod with ids of his choice, and delete it by force, or let it end."""
    name, uid = f"p{number}", f"evil-{number}"
    values: dict[str, Any] = {"instance_ids": frozenset(ids), "ids_are_fixed": True}
    world._happens(replace(pod_version(0, uid, **values, owner_name=""), namespace="evil", name=name))
    if is_ended:
        world._happens(replace(ended(0, uid, **values), namespace="evil", name=name, owner_name=""))
    world._happens(world.kube.pods["evil", name], is_deleted=True)


@pytest.mark.parametrize("is_ended", [False, True])
@pytest.mark.parametrize(
    ("pods", "ids"), [(1, 0), (250, 1), (1, 600)], ids=["the id of a seat", "a scope in each of many", "many in one"]
)
async def test_pods_of_a_tenant_hold_no_member_that_was_there_before(pods: int, ids: int, is_ended: bool) -> None:
    world = await OperatorWorld().started()
    for n in range(pods):
        made = {f"x{n}-{k}.{world.scope}" for k in range(ids)} or {world.id_of(2)}
        stray(world, n, made, is_ended=is_ended)
    await world.settled(2)
    world.scale(1)
    world.end(2)
    world.end(1)
    await world.settled(6)
    assert left(world) == [world.id_of(1), world.id_of(2)]


@pytest.mark.parametrize("more_ids", [0, 600])
async def test_a_pod_of_a_tenant_holds_only_members_that_join_with_its_id(more_ids: int) -> None:
    """Also where the operator is restarted meanwhile, and the pod carried more ids than a status has room for."""
    world = await OperatorWorld().started()
    stray(world, 0, {world.id_of(2), *(f"{n}.{world.scope}" for n in range(more_ids))})
    await world.settled(2)
    world.restart()
    await world.settled(2)
    for ordinal in (1, 2):
        world.end(ordinal)
        world.start(ordinal, f"n{ordinal}")
    await world.settled(2)
    world.scale(1)
    world.end(2, "n2")
    world.end(1, "n1")
    await world.settled(6)
    assert left(world) == [world.id_of(1)]
    assert guards(world) == ["Suspect"]


@pytest.mark.parametrize("looks_between", [0, 1])
async def test_a_member_that_was_removed_while_it_lived_is_not_removed_again(looks_between: int) -> None:
    """Its process belongs to no known pod. In such a group it joins again under the member id that it has."""
    world = OperatorWorld(groupProtocol="Auto")
    world.kafka.group_type = GroupType.CONSUMER
    await world.started()
    world.kafka.join(world.id_of(2), "lives-elsewhere")
    await world.settled(2)
    world.scale(2)
    world.end(2)
    for _ in range(60):
        await world.round()
        world.now_s += 5
        for _ in range(looks_between):
            await world.round()
        if world.id_of(2) not in world.kafka.members:
            world.kafka.join(world.id_of(2), "lives-elsewhere")
    assert world.left == [("lives-elsewhere", world.id_of(2))]
    assert guards(world) == ["RemovedAndReturned"]
