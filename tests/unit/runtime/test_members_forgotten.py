"""A suspect that is remembered nowhere: a member that joins then may be of its process, so the watch counts as young.

In each story web-2 is force-deleted while its process lives, what shows that is lost, an operator goes on from the
stored position behind the deletion, and the process takes the seat again beside its successor, which ends.
"""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.core.group import GroupView
from staticgroup.core.members.carriers import UNSEEN
from staticgroup.core.members.memory import SETTLE_MIN_S
from staticgroup.kube.problem import problem_of

from .operator_world import KEY, OperatorWorld, guards, static_group
from .stories import LIVING, force_delete, group_body, left, put, start_as
from .test_members import lose, passes, seat

SHARED_ID = {
    "type": "Custom", "suffixes": ["-a-b", "-b"],
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
    await world.departs(3, "u2")
    assert (left(world), guards(world)) == ([], ["JoinedBeforeWatch"])


@pytest.mark.parametrize(
    "spec", [{"client": SHARED_ID}, {"client": SHARED_ID, "mode": "Suspended"}], ids=["planned", "suspended"]
)
async def test_pod_that_is_lost_while_the_ids_have_no_rule(spec: dict[str, Any]) -> None:
    world = await OperatorWorld().started()
    world.declare(static_group(generation=2, **spec))
    await world.settled(2)
    lose(world)
    await world.settled(2)
    assert world.status.memory.watch is None
    world.declare(static_group(generation=3))
    await world.settled(2)
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(1)
    assert UNSEEN in seat(world).carriers


async def test_pod_that_is_lost_in_a_round_that_is_cut_before_the_status_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = await OperatorWorld().started()
    reconciler = world.reconciler
    await world.look()
    start_as(world, "canary-0", "stray", {world.id_of(1)})  # no event of a pod of another name wakes the StaticGroup
    force_delete(world, "canary-0")

    async def cut(*_: Any) -> bool:
        raise TimeoutError

    with monkeypatch.context() as patched:
        patched.setattr(type(reconciler), "_report", cut)
        with pytest.raises(TimeoutError):
            await world.look()
    assert reconciler.memories.unstored_since_s(0.0) is not None, "the stored position waits"
    await world.look()
    assert "stray" in {s.uid for s in world.status.memory.suspects}
    assert reconciler.memories.unstored_since_s(0.0) is None


async def test_pod_of_another_name_that_is_lost_while_the_status_is_not_taken() -> None:
    world = await OperatorWorld().started()
    memories = world.reconciler.memories
    looked_s = world.now_s
    world.now_s += 30
    start_as(world, "canary-0", "stray", {world.id_of(1)})
    force_delete(world, "canary-0")
    world.kube.problems["apply_status"] = problem_of(503, verb="patch", resource="staticgroups")
    for _ in range(3):
        assert (await world.look()).failed
        assert 0 < (memories.unstored_since_s(0.0) or 0) <= looked_s, "of what came after that look, no status tells"
        world.now_s += 30
    world.kube.problems.clear()
    await world.look()
    assert "stray" in {s.uid for s in world.status.memory.suspects}
    assert memories.unstored_since_s(0.0) is None


async def test_pod_that_is_lost_while_its_static_group_cannot_be_read() -> None:
    """As by an operator that was set back, and does not know a value of the spec."""
    world = await OperatorWorld().started()
    known = group_body(world)
    world.restart()
    world.stores.put_group(KEY, known | {"spec": known["spec"] | {"removal": "OfALaterRelease"}})
    world.scale(4)
    world.start(3, "u3", joins=False)
    await world.round()
    world.remove_object(3)
    world.start(3, "u3b")
    for _ in range(4):
        world.now_s += 30
        await world.round()
    assert world.reconciler.memories.unstored_since_s(0.0) is not None, "the stored position waits"
    world.stores.put_group(KEY, known)
    world.restart()
    await world.settled(2)
    world.kafka.join(world.id_of(3), LIVING)
    await world.settled(2)
    assert "u3" in seat(world, 3).carriers
    world.scale(3)
    world.end(3, "u3b")
    await world.settled(4)
    assert (left(world), guards(world)) == ([], ["Suspect"])


async def test_status_that_cannot_be_read_is_written_over() -> None:
    """The schema of the resource cannot say all that a date must be."""
    world = await OperatorWorld().started()
    status = group_body(world)["status"]
    edited = [seat | {"firstSeen": "0000-01-01T00:00:00Z"} for seat in status["memory"]["seats"]]
    put(world, status=status | {"memory": status["memory"] | {"seats": edited}})
    await world.settled(1)
    assert world.stores.invalid_groups == {}
    assert group_body(world)["status"]["memory"] == status["memory"]


async def test_status_that_cannot_be_read_is_an_empty_one_for_the_next_process() -> None:
    world = await OperatorWorld().started()
    scope, status = world.scope, group_body(world)["status"]
    edited = [seat | {"firstSeen": "0000-01-01T00:00:00Z"} for seat in status["memory"]["seats"]]
    put(world, status=status | {"memory": status["memory"] | {"seats": edited}})
    world.restart()
    await world.settled(2)
    assert world.stores.invalid_groups == {}
    assert world.injected.scope == scope, "the pods keep their ids"
    await world.departs(3, "u2")
    assert (left(world), guards(world)) == ([], ["JoinedBeforeWatch"])


async def test_static_group_that_cannot_be_read_holds_no_position_once_it_is_deleted() -> None:
    world = await OperatorWorld().started()
    known = group_body(world)
    world.stores.put_group(KEY, known | {"spec": known["spec"] | {"removal": "OfALaterRelease"}})
    await world.round()
    assert world.reconciler.memories.unstored_since_s(0.0) is not None
    world.stores.drop_group(KEY, known["metadata"]["uid"])
    await world.round()
    assert world.reconciler.memories.unstored_since_s(0.0) is None


async def test_pod_that_is_lost_while_the_brokers_are_so_slow_that_each_round_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
    assert "stray" in {s.uid for s in world.status.memory.suspects}
    assert memories.unstored_since_s(0.0) is None
