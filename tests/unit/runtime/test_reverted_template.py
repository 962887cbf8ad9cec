"""A template that was tried and taken back, beside a client that appends something."""

from __future__ import annotations

from .operator_world import OperatorWorld, static_group
from .stories import LIVING, managed, start_as


async def test_live_pod_whose_client_makes_an_earlier_templates_id_of_its_own_is_not_ruled_out() -> None:
    """A live member is removed: its pod counts as unable to hold the id, because its client is not expected to append
    -0.

    The spec expects that nothing is appended. Its user tried the template {podName}.{scope}-0, with which web-2 carried
    web-2.<scope>-0 and ended; then he took it back. The next web-2 carries web-2.<scope>, its client appends -0, and so
    its living member holds an id of the earlier template. The chain rules the live pod out, as its ids are fixed.
    """
    world = OperatorWorld(identity={"template": "{podName}.{scope}-0", "suffix": "None"})
    world.scale(3)
    await world.round()
    world.template = "web-{ordinal}." + world.scope + "-0"
    for ordinal in range(3):
        world.start(ordinal, joins=False)
    world.now_s += 300
    await world.settled(2)
    world.declare(static_group(generation=2, identity={"template": "{podName}.{scope}", "suffix": "None"}))
    await world.settled(2)
    for ordinal in range(3):
        world.end(ordinal)
        carried = f"web-{ordinal}.{world.scope}"
        unbound = {
            "node_name": "",
            "phase": "Pending",
            "started_containers": frozenset(),
            "required": (),
            "ready_since_s": None,
        }
        for changes in (unbound, {}):
            world.start(ordinal, f"u{ordinal}b", joins=False, **({"instance_ids": frozenset({carried})} | changes))
        world.kafka.join(f"{carried}-0")
    world.now_s += 300
    await world.settled(6)
    assert world.left == []


async def test_live_pod_of_another_name_whose_client_makes_an_earlier_templates_id_is_in_the_chain() -> None:
    """A live member is removed: the chain looks for carriers of the very id, and this carrier's client appends -0 to
    its own.

    As above, but it is canary-0 that carries web-2.<scope> and lives; web-2 itself has ended under both templates.
    """
    world = OperatorWorld(identity={"method": "None", "template": "{podName}.{scope}-0", "suffix": "None"})
    world.pods.is_managed = managed
    world.scale(3)
    await world.round()
    world.template = "web-{ordinal}." + world.scope + "-0"
    for ordinal in range(3):
        world.start(ordinal, joins=False)
    world.now_s += 300
    await world.settled(2)
    world.declare(
        static_group(generation=2, identity={"method": "None", "template": "{podName}.{scope}", "suffix": "None"})
    )
    await world.settled(2)
    world.end(2)
    start_as(world, "canary-0", "stray", {f"web-2.{world.scope}"})
    world.kafka.join(f"web-2.{world.scope}-0", LIVING)
    world.scale(2)
    await world.settled(6)
    assert world.left == []
