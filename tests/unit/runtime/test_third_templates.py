"""Templates that give a pod the id of another, which a live pod holds: the earlier one is not known as it was."""

from __future__ import annotations

import pytest

from staticgroup.core.next_pods.injection import TEMPLATES_MAX

from .operator_world import OperatorWorld, static_group
from .stories import LIVING, force_delete, start_as
from .test_earlier_templates import of_the_earlier_template


def next_id(world: OperatorWorld, ordinal: int) -> str | None:
    """Return the id that the policy gives to the next pod of an ordinal; None when it gives none."""
    injected = world.status.injected
    assert injected is not None
    if injected.method.value != "Policy":
        return None
    return injected.id_template.replace("{podName}", f"web-{ordinal}").replace("{ordinal}", str(ordinal))


async def test_template_that_collides_with_one_of_nine_edits_ago() -> None:
    """OnDelete: no pod is replaced, and each edit is taken. With 22 replicas web-21 starts anew with the id that live web-2 holds."""
    world = await of_the_earlier_template(22)
    held_by_web_2 = world.id_of(2)
    for n in range(TEMPLATES_MAX + 1):
        world.declare(static_group(generation=2 + n, identity={"template": f"{{podName}}-b{n}.{{scope}}"}))
        await world.settled(2)
    world.declare(static_group(generation=2 + TEMPLATES_MAX + 1))
    await world.settled(2)
    assert held_by_web_2 in world.kafka.members
    assert next_id(world, 21) != held_by_web_2


@pytest.mark.parametrize("edits", [1, 2])
async def test_template_that_collides_with_what_the_client_appended_before(edits: int) -> None:
    """Kafka Streams appended -1: web-2 holds <scope>-2-1. Then preset and template are edited, and web-1 is rolled to <scope>-2-1."""
    streams = {"template": "{scope}-{ordinal}", "suffix": "Streams"}
    plain = {"template": "{scope}-2-{ordinal}", "suffix": "None"}
    world = OperatorWorld(identity=streams)
    world.scale(3)
    await world.round()
    world.template = world.scope + "-{ordinal}"
    for ordinal in range(3):
        world.start(ordinal, joins=False, ids_are_fixed=False)
        world.kafka.join(f"{world.scope}-{ordinal}-1")
    world.now_s += 300
    await world.settled(3)
    held_by_web_2 = f"{world.scope}-2-1"
    assert world.status.members is not None
    assert world.status.members.joined == 3
    if edits == 2:
        world.declare(static_group(generation=2, identity=streams | {"suffix": "None"}))
        await world.settled(2)
    world.declare(static_group(generation=1 + edits, identity=plain))
    await world.settled(2)
    assert held_by_web_2 in world.kafka.members
    assert next_id(world, 1) != held_by_web_2


@pytest.mark.parametrize("is_lost", [False, True])
async def test_earlier_template_stays_while_a_pod_of_another_name_has_its_id(is_lost: bool) -> None:
    """canary-0 carries web-2's id of the earlier template; its consumer is away for two minutes (paused, or cut off) and comes back."""
    world = await of_the_earlier_template()
    held_by_the_copy = world.id_of(2)
    start_as(world, "canary-0", "stray", {held_by_the_copy})
    if is_lost:
        force_delete(world, "canary-0")
    world.declare(static_group(generation=2, identity={"template": "{podName}-b.{scope}"}))
    await world.settled(2)
    for ordinal in range(3):
        world.template = "web-{ordinal}1." + world.scope
        world.end(ordinal)
        del world.kafka.members[world.id_of(ordinal)]
        world.template = "web-{ordinal}-b." + world.scope
        world.start(ordinal, f"n{ordinal}")
    world.declare(static_group(generation=3))
    for _ in range(3):
        await world.settled(2)
        world.now_s += 60
    world.kafka.join(held_by_the_copy, LIVING)
    world.scale(22)
    await world.settled(2)
    assert next_id(world, 21) != held_by_the_copy
