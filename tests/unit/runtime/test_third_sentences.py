"""Sentences that are false, each in a story of its own."""

from __future__ import annotations

from .operator_world import OperatorWorld
from .stories import start_as


async def test_member_of_a_pod_that_is_seen_with_its_whole_id_does_not_nearly_match_another_pod() -> None:
    """StatefulSets web and web-2 are in one Kafka group, ids are pod names; the client of web-2 is stuck. web-2-0 is the id of pod web-2-0."""
    world = OperatorWorld(identity={"template": "{podName}", "exclusive": True})
    world.template = "web-{ordinal}"
    await world.started()
    start_as(world, "web-2-0", "shard", {"web-2-0"})
    world.kafka.join("web-2-0")
    del world.kafka.members["web-2"]
    world.now_s += 300
    await world.settled(3)
    status, reason, message = world.condition("MembershipComplete")
    assert (status, reason) == ("False", "MembersMissing"), message
    assert not any("Spring" in e.message for e in world.status.exceptions)
