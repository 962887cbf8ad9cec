"""A suspect that is remembered nowhere: whoever joins then may be its process, so the watch counts as young.

In each story web-2 is force-deleted while its process lives, what tells of it is lost, an operator goes on from the stored position behind the
deletion, and the process takes the seat again beside its successor, which ends.
"""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.core.group import GroupView
from staticgroup.core.members.carriers import UNSEEN
from staticgroup.core.members.memory import SETTLE_MIN_S

from .operator_world import KEY, OperatorWorld, guards, static_group
from .stories import LIVING, force_delete, left, start_as
from .test_members import departs, lose, passes, seat

SHARED_ID = {
    "preset": "Custom", "suffix": "Custom", "membersPerPod": 2, "customSuffixes": ["-a-b", "-b"],
    "env": [{"instanceIdName": "A_INSTANCE_ID"}, {"instanceIdName": "B_INSTANCE_ID", "suffix": "-a"}],
}


async def test_status_that_is_emptied_under_a_watch_that_is_days_old() -> None:
    world = await OperatorWorld().started()
    await passes(world, 3 * SETTLE_MIN_S)
    world.template = f"web-{{ordinal}}.{world.scope}"
    world.kube.objects[("staticgroups", *KEY)]["status"] = {}
    world.declare(world.kube.objects[("staticgroups", *KEY)])
    world.restart()
    await world.settled(2)
    world.now_s += 30
    await world.settled(2)
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(1)
    assert UNSEEN in seat(world).carriers
    await departs(world, "u2")
    assert (left(world), guards(world)) == ([], ["JoinedBeforeWatch"])


@pytest.mark.parametrize("spec", [{"identity": SHARED_ID}, {"identity": SHARED_ID, "suspend": True}], ids=["planned", "suspended"])
async def test_pod_that_is_lost_while_the_ids_have_no_rule(spec: dict[str, Any]) -> None:
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2, **spec))
    await world.settled(2)
    lose(world)
    await world.settled(2)
    assert world.status.watch is None
    world.declare(static_group(generation=3))
    await world.settled(2)
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(1)
    assert UNSEEN in seat(world).carriers


async def test_pod_that_is_lost_in_a_round_that_is_cut_before_the_status_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await OperatorWorld().started()
    reconciler = world.reconciler
    await world.look()
    start_as(world, "canary-0", "stray", {world.id_of(1)})  # no event of a pod of another name tells of the StaticGroup
    force_delete(world, "canary-0")

    async def cut(*_: Any) -> bool:
        raise TimeoutError

    with monkeypatch.context() as patched:
        patched.setattr(type(reconciler), "report", cut)
        with pytest.raises(TimeoutError):
            await world.look()
    assert reconciler.memories.unwritten_since_s(0.0) is not None, "the stored position waits"
    await world.look()
    assert "stray" in {s.uid for s in world.status.suspects}
    assert reconciler.memories.unwritten_since_s(0.0) is None


async def test_pod_that_is_lost_while_the_brokers_are_so_slow_that_each_round_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stored position of the pod watch is that of all StaticGroups, so it must not wait for the brokers of one."""
    world = await OperatorWorld().started()
    memories = world.reconciler.memories

    async def cut(*_: Any) -> GroupView:
        raise TimeoutError

    monkeypatch.setattr(world.kafka, "describe", cut)
    start_as(world, "canary-0", "stray", {world.id_of(1)})
    force_delete(world, "canary-0")
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await world.look()
    assert "stray" in {s.uid for s in world.status.suspects}
    assert memories.unwritten_since_s(0.0) is None
