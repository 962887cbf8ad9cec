"""Templates that give a pod the id of another, which is in use by an earlier template that is not remembered
exactly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from staticgroup.api.resources.memory import TEMPLATES_MAX
from unit.core.builders import ended

from .operator_world import OperatorWorld, static_group
from .stories import LIVING, force_delete, start_as
from .test_earlier_templates import first_ids, of_the_earlier_template, roll, templates


def next_id(world: OperatorWorld, ordinal: int) -> str | None:
    """Return the id that the policy gives to the next pod of an ordinal; None when it gives none."""
    injected = world.status.injected
    assert injected is not None
    if injected.method.value != "Policy":
        return None
    return injected.id_template.replace("{podName}", f"web-{ordinal}").replace("{ordinal}", str(ordinal))


async def test_template_that_collides_with_one_of_nine_edits_ago() -> None:
    """OnDelete: no pod is replaced, and each edit is taken. With 22 replicas web-21 starts anew with the id that live
    web-2 holds."""
    world = await of_the_earlier_template(22)
    held_by_web_2 = world.id_of(2)
    for n in range(TEMPLATES_MAX + 1):
        world.declare(static_group(generation=2 + n, idTemplate=f"{{podName}}-b{n}.{{scope}}"))
        await world.settled(2)
    world.declare(static_group(generation=2 + TEMPLATES_MAX + 1))
    await world.settled(2)
    assert held_by_web_2 in world.kafka.members
    assert next_id(world, 21) != held_by_web_2


async def of_nine_templates() -> OperatorWorld:
    """Return a world whose pods have ids of the first of nine templates, and whose spec asks for a tenth."""
    world = await of_the_earlier_template()
    for n in range(TEMPLATES_MAX + 1):
        world.declare(static_group(generation=2 + n, idTemplate=f"{{podName}}-b{n}.{{scope}}"))
        await world.settled(2)
    return world


def in_force(world: OperatorWorld) -> str:
    """Return the template by which the next pods get ids, without the scope."""
    assert world.injected.method.value == "Policy"
    return world.injected.id_template.removesuffix("." + world.scope)


async def test_template_is_not_issued_while_one_more_earlier_one_cannot_be_remembered() -> None:
    world = await of_nine_templates()
    assert in_force(world) == "{podName}-b7"
    assert len(templates(world)) == TEMPLATES_MAX
    assert templates(world)[-1] == "{podName}1." + world.scope
    world.tells(
        "Injected", "False", "IdentityInvalid", "{podName}-b8." + world.scope + " is one too many",
        "stays in force; set spec.idTemplate back to that one, roll until no pod has an older id",
    )  # fmt: skip


async def test_template_is_issued_once_the_pods_of_the_earlier_ones_were_rolled() -> None:
    world = await of_nine_templates()
    roll(world, 0, 1, 2, before=first_ids(world), after="web-{ordinal}-b7." + world.scope)
    await world.minutes(3)
    assert in_force(world) == "{podName}-b8"
    assert templates(world) == ["{podName}-b7." + world.scope]


@pytest.mark.parametrize("n", [7, 3])
async def test_template_that_is_remembered_may_be_gone_back_to_although_no_other_has_room(n: int) -> None:
    world = await of_nine_templates()
    world.declare(static_group(generation=99, idTemplate=f"{{podName}}-b{n}.{{scope}}"))
    await world.settled(2)
    assert in_force(world) == f"{{podName}}-b{n}"
    assert len(templates(world)) == TEMPLATES_MAX
    assert "one too many" not in world.condition("Injected")[2]


@pytest.mark.parametrize("edits", [1, 2])
async def test_template_that_collides_with_what_the_client_appended_before(edits: int) -> None:
    """Kafka Streams appended -1: web-2 holds <scope>-2-1. Then type and template are edited, and web-1 is rolled to
    <scope>-2-1."""
    streams = {"idTemplate": "{scope}-{ordinal}", "client": {"type": "KafkaStreams"}}
    plain = {"idTemplate": "{scope}-2-{ordinal}"}
    world = OperatorWorld(**streams)
    await world.round()
    world.template = world.scope + "-{ordinal}"
    await world.started(3, "-1", ids_are_fixed=False)
    held_by_web_2 = f"{world.scope}-2-1"
    assert world.members.joined == 3
    if edits == 2:
        world.declare(static_group(generation=2, idTemplate="{scope}-{ordinal}"))
        await world.settled(2)
    world.declare(static_group(generation=1 + edits, **plain))
    await world.settled(2)
    assert held_by_web_2 in world.kafka.members
    assert next_id(world, 1) != held_by_web_2
    assert "of web-2, whose client may have appended -" in world.condition("Injected")[2]


async def with_a_copy() -> OperatorWorld:
    """Return a world whose pods were rolled from an earlier template, and canary-0, which carries web-2's id of
    that."""
    world = await of_the_earlier_template()
    start_as(world, "canary-0", "stray", {world.id_of(2)})
    world.declare(static_group(generation=2, idTemplate="{podName}-b.{scope}"))
    await world.settled(2)
    roll(world, 0, 1, 2, before=first_ids(world), after="web-{ordinal}-b." + world.scope)
    return world


@pytest.mark.parametrize("is_lost", [False, True])
async def test_earlier_template_stays_while_a_pod_of_another_name_has_its_id(is_lost: bool) -> None:
    """canary-0 carries web-2's id of the earlier template; its consumer is away for two minutes (paused, or cut off)
    and comes back."""
    world = await with_a_copy()
    held_by_the_copy = f"web-21.{world.scope}"
    if is_lost:
        force_delete(world, "canary-0")
    world.declare(static_group(generation=3))
    await world.minutes(3)
    world.kafka.join(held_by_the_copy, LIVING)
    world.scale(22)
    await world.settled(2)
    assert next_id(world, 21) != held_by_the_copy


async def test_earlier_template_is_forgotten_once_the_pod_of_another_name_that_had_its_id_has_ended() -> None:
    world = await with_a_copy()
    canary = world.kube.pods["shop", "canary-0"]
    await world.minutes(3)
    assert templates(world) == ["{podName}1." + world.scope]
    proof = replace(ended(0, "stray"), name="canary-0", instance_ids=canary.instance_ids, ids_are_fixed=True)
    world._happens(proof)
    world._happens(proof, is_deleted=True)
    await world.minutes(3)
    assert templates(world) == []
