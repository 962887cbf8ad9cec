"""The first ids of a StaticGroup: none that members hold elsewhere, and none that consumers of one pod would share."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from staticgroup.api import names

from .operator_world import KEY, UNREACHABLE, OperatorWorld, static_group

SCOPE = "5ca1ab1e"
LITERAL: dict[str, Any] = {"idTemplate": f"{{podName}}.{SCOPE}", "assumeExclusive": True}
POD_NAMES: dict[str, Any] = {"idTemplate": "{podName}", "assumeExclusive": True}


def world_of(ids: dict[str, Any], **spec: Any) -> OperatorWorld:
    """Return a world whose ids are known before they are issued."""
    world = OperatorWorld(**ids, **spec)
    world.template = ids.get("idTemplate", "").replace("{podName}", "web-{ordinal}")
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


@pytest.mark.parametrize("ids", [LITERAL, POD_NAMES], ids=["a literal", "names of pods"])
async def test_ids_that_members_hold_elsewhere_are_not_issued_until_their_sessions_end(ids: dict[str, Any]) -> None:
    world = world_of(ids)
    join_elsewhere(world)
    await world.settled(3)
    assert not injects(world)
    message = world.tells("Injected", "False", "IdsHeldElsewhere")
    assert (
        f"3 members hold ids that these pods would get, and no pod of this cluster shows them: "
        f"{world.id_of(0)} from 10.9.0.0, "
        in message
    )
    assert "afterwards restart the pods without an id" in message
    assert world.condition("Ready")[0] == "False"
    world.kafka.members.clear()
    await world.settled(1)
    assert injects(world)


async def test_client_that_appends_to_the_id_of_a_pod_here_is_explained_and_one_elsewhere_is_not() -> None:
    world = world_of(LITERAL, client={"type": "SpringBoot"})
    for n in range(2):
        world.start(n, joins=False)
        world.kafka.join(f"{world.id_of(n)}-0")
    await world.settled(2)
    assert injects(world)
    world = world_of(LITERAL, client={"type": "SpringBoot"})
    world.kafka.join(f"{world.id_of(0)}-0")
    await world.settled(2)
    assert world.condition("Injected")[1] == "IdsHeldElsewhere"


async def test_ids_of_another_workload_are_nothing_to_those_without_a_scope() -> None:
    world = world_of(POD_NAMES)
    world.kafka.join("web-1-0")
    await world.settled(2)
    assert injects(world)


async def test_ids_that_were_only_observed_are_not_issued_while_they_are_held_elsewhere() -> None:
    world = world_of(LITERAL, mode="Observe")
    join_elsewhere(world)
    await world.settled(2)
    for n in range(2):
        world.start(n, joins=False, instance_ids=frozenset())
    world.declare(static_group(generation=2, **LITERAL))
    await world.settled(2)
    assert not injects(world)
    assert world.condition("Injected")[1] == "IdsHeldElsewhere"
    (message,) = {e.message for e in world.status.issues if e.kind.value == "WithoutId"}
    assert "the condition Injected says why new pods get none" in message


async def test_injection_that_was_not_served_for_a_while_goes_on() -> None:
    """Members of unknown pods hold the ids of ordinals that this StaticGroup has issued."""
    world = world_of(LITERAL)
    await world.round()
    world.is_policy_served = False
    await world.settled(1)
    assert not injects(world)
    join_elsewhere(world)
    world.is_policy_served = True
    await world.settled(1)
    assert injects(world)


@pytest.mark.parametrize(
    ("ids", "expected"), [({}, True), (LITERAL, False), (POD_NAMES, False)], ids=["drawn", "literal", "names of pods"]
)
async def test_while_the_brokers_are_away_only_ids_that_were_drawn_are_issued(
    ids: dict[str, Any], expected: bool
) -> None:
    world = world_of(ids)
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
    assert here.status.memory.static_group_uid == "sg-there"


@pytest.mark.parametrize("appended", ["", "-0"])
async def test_scope_of_another_cluster_in_a_status_that_was_restored_with_its_uid_is_held_there(appended: str) -> None:
    """Whatever a client appends to an id with the scope belongs to that id."""
    there = await OperatorWorld(mode="Observe").started(3, appended)
    here = restored_in_another_cluster(there, uid="sg-1")
    here.kafka.members = there.kafka.members
    await here.settled(2)
    assert here.scope == there.scope
    assert not injects(here)
    assert here.condition("Injected")[1] == "IdsHeldElsewhere"


async def test_status_of_another_cluster_injects_nothing_while_suspended() -> None:
    there = await OperatorWorld().started()
    here = restored_in_another_cluster(there, mode="Suspended")
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
    assert "set spec.client.concurrency to that of the Spring or Kafka Streams client" in message
    assert world.condition("Ready")[0] == "False"
    world.declare(static_group(generation=2, client={"type": "SpringBoot", "concurrency": 2}))
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
