"""A pod of another namespace has two consumers; a StaticGroup there is about the other one's group."""

from __future__ import annotations

import pytest

from unit.core.builders import pod_version

from .operator_world import OperatorWorld, guards, static_group
from .stories import LIVING, departs, left, managed
from .test_premises import a_departure_of_unscoped_ids, rival


@pytest.mark.parametrize("has_a_staticgroup", [False, True])
async def test_carrier_elsewhere_whose_staticgroup_is_about_another_group(has_a_staticgroup: bool) -> None:
    """pay-0 of namespace bill shows the scoped id of web-2, literally copied; its process holds it in group `orders`, beside one in `audit`."""
    world = await OperatorWorld().started()
    world.pods.is_managed = managed
    if has_a_staticgroup:
        body = static_group("sg-bill", workloadRef={"name": "pay"}, groupId="audit")
        body["metadata"] |= {"namespace": "bill", "name": "audit"}
        world.stores.put_group(("bill", "audit"), body)
    values = {"namespace": "bill", "name": "pay-0", "instance_ids": frozenset({world.id_of(2), "pay-0.audit"}), "ids_are_fixed": True}
    world._happens(pod_version(0, "living", **values))
    world.kafka.join(world.id_of(2), LIVING)
    await world.settled(3)
    await departs(world, 4)
    assert (left(world), guards(world)) == ([], ["PodStillRunning"])


async def test_leftover_of_a_deleted_staticgroup_whose_statefulset_has_another_one() -> None:
    """As in test_premises (`Its StaticGroup may have been deleted; the pods live on`), but pay-2 has a second consumer with a StaticGroup."""
    world = await a_departure_of_unscoped_ids()
    world.stores.put_group(("bill", "audit"), rival(groupId="audit"))
    world._happens(pod_version(2, "pay-2", namespace="bill", name="pay-2", instance_ids=frozenset({"app-2", "pay-2.audit"})))
    world.kafka.join("app-2", LIVING)
    await world.settled(3)
    assert LIVING not in dict(world.left)
