"""The first ids of a StaticGroup: none that members hold elsewhere, and none that consumers of one pod would share."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from staticgroup.api import names

from .operator_world import KEY, UNREACHABLE, OperatorWorld, static_group

SCOPE = "5ca1ab1e"
WRITTEN: dict[str, Any] = {"scope": SCOPE}
UNSCOPED: dict[str, Any] = {"template": "{podName}", "exclusive": True}
TEMPLATES = {SCOPE: f"web-{{ordinal}}.{SCOPE}", "": "web-{ordinal}"}


def world_of(identity: dict[str, Any], **spec: Any) -> OperatorWorld:
    """Return a world whose ids are known before they are issued."""
    world = OperatorWorld(identity=identity, **spec)
    world.template = TEMPLATES[identity.get("scope", "")]
    world.scale(3)
    return world


def join_elsewhere(world: OperatorWorld) -> None:
    """Let three members of another cluster join from addresses that no pod here has."""
    for n in range(3):
        world.kafka.hosts[world.kafka.join(world.id_of(n), f"elsewhere-{n}")] = f"/10.9.0.{n}"


def restored_in_another_cluster(there: OperatorWorld, uid: str = "sg-there", **spec: Any) -> OperatorWorld:
    """Return the second cluster, to which the StaticGroup of the first was restored with its status, as by a backup of
    both."""
    here = OperatorWorld()
    here.reconciler.gatherer.cluster_uid = "cluster-2"
    status = copy.deepcopy(there.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]["status"])
    del here.kube.objects[names.STATIC_GROUP_PLURAL, *KEY]
    here.stores.drop_group(KEY, "sg-1")
    here.declare(static_group(uid, **spec) | {"status": status})
    here.scale(3)
    return here


def injects(world: OperatorWorld) -> bool:
    return world.status.injected is not None and world.injected.method.value != "None"


@pytest.mark.parametrize("identity", [WRITTEN, UNSCOPED], ids=["a written scope", "exclusive ids without a scope"])
async def test_ids_that_members_hold_elsewhere_are_not_issued_until_their_sessions_end(
    identity: dict[str, Any],
) -> None:
    world = world_of(identity)
    join_elsewhere(world)
    await world.settled(3)
    assert not injects(world)
    message = world.tells("Injected", "False", "IdsHeldElsewhere")
    assert (
        f"3 members hold ids that pods would get, and no pod of this cluster has given them: "
        f"{world.id_of(0)} from 10.9.0.0, "
        in message
    )
    assert "pods that start before ids are issued need a restart afterwards" in message
    assert world.condition("Ready")[0] == "False"
    world.kafka.members.clear()
    await world.settled(1)
    assert injects(world)


async def test_client_that_appends_to_the_id_of_a_pod_here_is_explained_and_one_elsewhere_is_not() -> None:
    world = world_of(WRITTEN)
    for n in range(2):
        world.start(n, joins=False)
        world.kafka.join(f"{world.id_of(n)}-0")
    await world.settled(2)
    assert injects(world)
    world = world_of(WRITTEN)
    world.kafka.join(f"{world.id_of(0)}-0")
    await world.settled(2)
    assert world.condition("Injected")[1] == "IdsHeldElsewhere"


async def test_ids_of_another_workload_are_nothing_to_those_without_a_scope() -> None:
    world = world_of(UNSCOPED)
    world.kafka.join("web-1-0")
    await world.settled(2)
    assert injects(world)


async def test_ids_that_were_only_observed_are_not_issued_while_they_are_held_elsewhere() -> None:
    world = world_of(WRITTEN, mode="Observe")
    join_elsewhere(world)
    await world.settled(2)
    for n in range(2):
        world.start(n, joins=False, instance_ids=frozenset())
    world.declare(static_group(generation=2, identity=WRITTEN))
    await world.settled(2)
    assert not injects(world)
    assert world.condition("Injected")[1] == "IdsHeldElsewhere"
    (message,) = {e.message for e in world.status.exceptions if e.kind.value == "WithoutId"}
    assert "the condition Injected says why new pods get none" in message


async def test_injection_that_was_not_served_for_a_while_goes_on() -> None:
    """Members of unknown pods hold the ids of ordinals that this StaticGroup has issued."""
    world = world_of(WRITTEN)
    await world.round()
    world.is_policy_served = False
    await world.settled(1)
    assert not injects(world)
    join_elsewhere(world)
    world.is_policy_served = True
    await world.settled(1)
    assert injects(world)


@pytest.mark.parametrize(
    ("identity", "expected"), [({}, True), (WRITTEN, False), (UNSCOPED, False)], ids=["drawn", "written", "unscoped"]
)
async def test_while_the_brokers_are_away_only_ids_that_were_drawn_are_issued(
    identity: dict[str, Any], expected: bool
) -> None:
    world = world_of(identity)
    world.kafka.problems["describe"] = UNREACHABLE
    await world.settled(2)
    assert injects(world) is expected
    if not expected:
        assert world.condition("Injected")[:2] == ("Unknown", "MembershipUnknown")
        del world.kafka.problems["describe"]
        await world.settled(1)
        assert injects(world)


async def test_status_of_another_cluster_is_not_gone_on_from() -> None:
    there = await OperatorWorld().started()
    here = restored_in_another_cluster(there)
    await here.settled(2)
    assert injects(here)
    assert here.scope != there.scope
    assert here.status.static_group_uid == "sg-there"


async def test_written_scope_in_a_status_of_another_cluster_is_held_there() -> None:
    there = await world_of(WRITTEN).started()
    here = restored_in_another_cluster(there, identity=WRITTEN)
    here.kafka.members = there.kafka.members
    await here.settled(2)
    assert not injects(here)
    assert here.condition("Injected")[1] == "IdsHeldElsewhere"


async def test_status_of_another_cluster_injects_nothing_while_suspended() -> None:
    there = await OperatorWorld().started()
    here = restored_in_another_cluster(there, suspend=True)
    await here.settled(2)
    assert here.status.injected is None


# several consumers in a pod -------------------------------------------------------------------------------------------


def consume(world: OperatorWorld, each: int, *, pods: int = 3) -> None:
    """Let each pod have some consumers without an id."""
    for n in range(pods):
        world.start(n, joins=False, instance_ids=frozenset())
        for k in range(each):
            world.kafka.dynamic.append(f"consumer-{n}-{k}")
            world.kafka.hosts[f"consumer-{n}-{k}"] = f"/10.0.0.{n}"


async def test_pods_with_more_consumers_than_ids_get_none_until_the_spec_counts_them() -> None:
    world = OperatorWorld()
    world.template = "web-{ordinal}"
    world.scale(3)
    consume(world, 2)
    await world.settled(2)
    assert not injects(world)
    message = world.tells("Injected", "False", "TooManyMembers")
    assert (
        "6 members without an id are in the group, 2 of them from 10.0.0.0, and 3 pods would get 1 id each" in message
    )
    assert "set spec.identity.membersPerPod" in message
    assert world.condition("Ready")[0] == "False"
    world.declare(static_group(generation=2, identity={"preset": "SpringBoot", "membersPerPod": 2}))
    await world.settled(1)
    assert injects(world)


async def test_ids_that_are_issued_stay_whatever_joins() -> None:
    world = await OperatorWorld().started()
    consume(world, 2)
    await world.settled(2)
    assert injects(world)


async def test_two_members_that_take_the_place_from_each_other_are_reported_and_one_that_does_so_once_is_not() -> None:
    world = await OperatorWorld().started()
    world.kafka.join(world.id_of(1), "second")
    await world.settled(1)
    assert world.condition("MembershipComplete")[0] == "True"
    world.kafka.join(world.id_of(1), "first")
    await world.settled(1)
    world.tells("MembershipComplete", "False", "MembersFenceEachOther", "such as that of pod web-1")
    assert world.left == []
