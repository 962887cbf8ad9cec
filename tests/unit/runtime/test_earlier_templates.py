"""Templates that were in force before: the ids that they made, and when they are forgotten."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from staticgroup.kube.gateway import PodRead
from staticgroup.kube.problem import KubeProblem, problem_of
from unit.core.builders import ended, pod_version

from .operator_world import KEY, UNREACHABLE, OperatorWorld, static_group
from .stories import LIVING, away, gap, left, start_as

EARLIER = "{podName}1.{scope}"


async def of_the_earlier_template(pods: int = 3) -> OperatorWorld:
    """Return a world whose pods have ids as web-21.<scope>, which is of web-2."""
    world = OperatorWorld(idTemplate=EARLIER)
    await world.round()
    world.template = first_ids(world)
    return await world.started(pods)


def roll(world: OperatorWorld, *ordinals: int, before: str = "web-{ordinal}", after: str = "") -> None:
    """Replace pods; their members join with the ids of the present template, and the old ones are gone."""
    for ordinal in ordinals:
        world.template = before
        world.end(ordinal)
        world.kafka.members.pop(world.id_of(ordinal), None)
        world.template = after
        world.start(ordinal, f"n{ordinal}")
    world.now_s += 300


def first_ids(world: OperatorWorld) -> str:
    return "web-{ordinal}1." + world.scope


def both_in_force(world: OperatorWorld) -> None:
    """Remember both templates, as an operator did that let the later one follow."""
    memory = world.reconciler.memories._by_key.get(KEY)
    assert memory is not None
    before = memory.history.injected
    assert before is not None
    now = replace(before, id_template="{podName}." + world.scope)
    memory.history = replace(memory.history, injected=now, templates=(before.id_template,))
    world.declare(static_group(generation=2))


def held(world: OperatorWorld, instance_id: str) -> str:
    """Return the guard that holds the removal of an id."""
    (reason,) = (e.reason for e in world.status.issues if e.kind.value == "Held" and e.instance_id == instance_id)
    return reason


async def test_template_that_gives_one_pod_the_id_of_another_is_not_injected() -> None:
    """With 22 replicas the roll begins at web-21, which would be given the id that live web-2 holds, and would fence
    it."""
    world = await of_the_earlier_template(22)
    held_by_web_2 = world.id_of(2)
    world.declare(static_group(generation=2))
    await world.settled(2)
    injected = world.status.injected
    assert injected is not None
    assert injected.id_template.replace("{podName}", "web-21") != held_by_web_2
    assert injected.method.value == "Policy"
    world.tells("Injected", "False", "IdentityInvalid", f"web-11.{world.scope} of web-1, which would be web-11's")
    world.declare(static_group(generation=3, idTemplate="{podName}-b.{scope}"))  # as the message says
    await world.settled(2)
    assert world.injected.id_template == "{podName}-b." + world.scope


@pytest.mark.parametrize(
    "off", [{"mode": "Observe"}, {"idTemplate": "{podName}.{scope}", "client": {"type": "Own"}}]
)
async def test_refused_template_does_not_keep_the_earlier_one_injected_where_nothing_is_to_be(
    off: dict[str, object],
) -> None:
    world = await of_the_earlier_template()
    world.declare(static_group(generation=2, **off))
    await world.settled(2)
    assert world.injected.method.value == "None"


async def test_template_in_force_that_gives_one_pod_the_id_of_another_is_injected_no_more() -> None:
    world = await of_the_earlier_template()
    both_in_force(world)
    await world.settled(2)
    assert world.injected.method.value == "None"
    assert world.condition("Injected")[1] == "IdentityInvalid"


async def test_member_that_joined_in_a_gap_with_an_id_of_an_earlier_template_is_kept() -> None:
    """In a gap web-2 is replaced twice, and the first of the two lives on as web-21.<scope>."""
    world = await of_the_earlier_template()
    world.end(2)
    await world.settled(1)
    away(world)
    world.start(2, "u2b", joins=False)
    world.kafka.join(world.id_of(2), LIVING)
    world.remove_object(2)
    world.start(2, "u2c", joins=False)
    gap(world)
    await world.settled(3)
    both_in_force(world)
    await world.settled(2)
    world.end(2, "u2c")
    await world.settled(4)
    assert left(world) == []
    assert held(world, f"web-21.{world.scope}") == "JoinedBeforeWatch"


async def test_living_pod_of_the_name_that_an_earlier_template_gave_the_id_to_holds_the_removal() -> None:
    """web-21.<scope> was carried by web-21, which has ended; but the process of web-2 took it, of an annotation that
    was edited."""
    world = await of_the_earlier_template()
    both_in_force(world)
    the_id = f"web-21.{world.scope}"
    world.end(2)
    start_as(world, "web-2", "u2b", {f"web-2.{world.scope}"}, ids_are_fixed=False)
    world.kafka.join(the_id, LIVING)
    start_as(world, "web-21", "u21", {the_id})
    world._happens(ended(21, "u21", instance_ids=frozenset({the_id}), ids_are_fixed=True))
    world._happens(world.kube.pods["shop", "web-21"], is_deleted=True)
    await world.settled(4)
    assert left(world) == []
    assert held(world, the_id) == "PodStillRunning"


async def test_pod_of_every_name_that_may_hold_the_id_is_read_before_a_removal() -> None:
    world = await of_the_earlier_template()
    both_in_force(world)
    the_id = world.id_of(2)
    world.scale(2)
    world.end(2)
    read: set[str] = set()
    for _ in range(4):
        await world.round()
        read |= {name for name, in world.did("read_pod")}
        world.now_s += 1.5
    assert read >= {"web-2", "web-21"}
    assert left(world) == [the_id]


async def test_name_that_could_not_be_read_is_not_taken_for_free() -> None:
    world = await of_the_earlier_template()
    both_in_force(world)
    world.scale(2)
    world.end(2)
    read_pod = world.kube.read_pod

    async def refuses_web_2(namespace: str, name: str) -> PodRead | KubeProblem:
        problem = problem_of(503, verb="get", resource="pods", namespace=namespace)
        return problem if name == "web-2" else await read_pod(namespace, name)

    world.kube.read_pod = refuses_web_2  # type: ignore[method-assign]
    await world.settled(4)
    assert left(world) == []
    assert held(world, f"web-21.{world.scope}") == "NotReadAfresh"


async def test_earlier_template_stays_while_a_member_holds_an_id_that_it_gave_to_another_pod() -> None:
    world = await of_the_earlier_template()
    both_in_force(world)
    for ordinal in range(3):
        world.template = "web-{ordinal}1." + world.scope
        world.end(ordinal)
        if ordinal != 2:
            del world.kafka.members[world.id_of(ordinal)]
        world.template = ""
        world.start(ordinal, f"n{ordinal}")
    world.kafka.problems["leave"] = UNREACHABLE
    await world.minutes(3)
    assert templates(world) == ["{podName}1." + world.scope]


async def unscoped() -> OperatorWorld:
    """Return a world whose ids have no scope, of which the status says that it is to be added; then it is."""
    world = OperatorWorld(idTemplate="{podName}")
    world.template = "web-{ordinal}"
    await world.started(3)
    world.declare(static_group(generation=2))
    await world.settled(2)
    return world


async def test_scoped_id_is_not_held_for_an_earlier_template_without_scope() -> None:
    world = await unscoped()
    roll(world, 0, 1, 2)
    await world.settled(2)
    await world.departs(3, "n2")
    assert left(world) == [world.id_of(2)]


async def test_id_of_a_template_without_scope_is_held_with_a_way_out_when_the_scope_was_added() -> None:
    world = await unscoped()
    roll(world, 0, 1)
    world.template = "web-{ordinal}"
    await world.departs(3)
    assert held(world, "web-2") == "UnscopedId"
    (text,) = (e.message for e in world.status.issues if e.instance_id == "web-2")
    assert "an earlier id template without {scope} made this id" in text
    assert "add {scope}" not in text


def templates(world: OperatorWorld) -> list[str]:
    """Return the earlier templates that the status names, by which other StaticGroups detect conflicts."""
    return world.issued.templates


async def test_earlier_template_is_forgotten_a_minute_after_nothing_has_its_ids() -> None:
    world = await unscoped()
    roll(world, 0, 1, 2)
    await world.settled(2)
    assert templates(world) == ["{podName}"]
    world.now_s += 60
    await world.settled(1)
    assert templates(world) == []


async def test_template_that_was_refused_is_taken_once_the_earlier_one_is_forgotten() -> None:
    world = await of_the_earlier_template()
    world.declare(static_group(generation=2, idTemplate="{podName}-b.{scope}"))
    await world.settled(2)
    roll(world, 0, 1, 2, before=first_ids(world), after="web-{ordinal}-b." + world.scope)
    world.declare(static_group(generation=3))
    await world.settled(3)
    assert world.condition("Injected")[1] == "IdentityInvalid"
    world.now_s += 60
    await world.settled(2)
    assert world.injected.id_template == "{podName}." + world.scope


@pytest.mark.parametrize("is_fixed", [False, True])
async def test_earlier_template_stays_while_pods_have_the_same_ids_from_annotations(is_fixed: bool) -> None:
    """Both templates make web-2.<scope>, but of the earlier one a copy of the pod keeps it; so it matters until pods
    are rolled."""
    world = OperatorWorld(idTemplate="{workloadName}-{ordinal}.{scope}")
    await world.begin(3, ids_are_fixed=is_fixed)
    world.now_s += 300
    world.declare(static_group(generation=2))
    await world.minutes(3)
    assert templates(world) == ([] if is_fixed else ["web-{ordinal}." + world.scope])


async def keeps_a_member(world: OperatorWorld) -> None:
    roll(world, 0, 1, 2)
    world.kafka.join("web-2", LIVING)


async def keeps_a_pod(world: OperatorWorld) -> None:
    roll(world, 0, 1)
    del world.kafka.members["web-2"]


async def keeps_a_suspect(world: OperatorWorld) -> None:
    world.remove_object(2)
    roll(world, 0, 1)
    del world.kafka.members["web-2"]
    world.start(2, "n2")


async def keeps_what_was_out_of_sight(world: OperatorWorld) -> None:
    """Between two pods of web-2 there may have been another."""
    roll(world, 0, 1)
    del world.kafka.members["web-2"]
    world.template = "web-{ordinal}"
    world.end(2)
    world.template = ""
    await world.settled(1)
    away(world)
    world.start(2, "n2")
    gap(world)


async def keeps_a_pod_of_which_nobody_sees_what_it_carries(world: OperatorWorld) -> None:
    roll(world, 0, 1, 2)
    start_as(world, "web-7", "u7", {"not-shown"}, ids_are_fixed=False)


@pytest.mark.parametrize(
    "what",
    [
        keeps_a_member, keeps_a_pod, keeps_a_suspect, keeps_what_was_out_of_sight,
        keeps_a_pod_of_which_nobody_sees_what_it_carries,
    ],
)  # fmt: skip
async def test_earlier_template_stays_while_something_may_have_its_ids(
    what: Callable[[OperatorWorld], Awaitable[None]],
) -> None:
    world = await unscoped()
    await what(world)
    await world.minutes(3)
    assert templates(world) == ["{podName}"]


async def test_copy_with_an_id_of_our_scope_counts_in_every_namespace_also_beside_an_earlier_template_without_one() -> (
    None
):
    """What StaticGroups there say of pods of the workload's name matters only for ids that do not show their
    StaticGroup."""
    world = OperatorWorld(idTemplate="{podName}", assumeExclusive=True)
    world.template = "web-{ordinal}"
    await world.started()
    theirs = static_group(uid="sg-theirs", workloadRef={"name": "web"}, groupId="invoices")
    theirs["metadata"] |= {"namespace": "bill", "name": "theirs"}
    world.stores.put_group(("bill", "theirs"), theirs)
    world.declare(static_group(generation=2, idTemplate="{podName}.{scope}", assumeExclusive=True))
    await world.settled(2)
    del world.kafka.members["web-2"]
    world.end(2)
    world.template = ""
    await world.settled(2)
    world.start(2, "u2b")
    await world.settled(2)
    copy = pod_version(2, "copy", instance_ids=frozenset({world.id_of(2)}), ids_are_fixed=True)
    world._happens(replace(copy, namespace="bill", name="web-2", owner_name=""))
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(3)
    await world.departs(8, "u2b")
    assert left(world) == []
    assert held(world, world.id_of(2)) == "PodStillRunning"
