"""Sentences that are false, each in a story of its own."""

from __future__ import annotations

import pytest

from .operator_world import OperatorWorld
from .test_same_ids import IDENTITY, TEMPLATE, group


@pytest.mark.parametrize(
    "spec",
    [{"suspend": True}, {"mode": "Observe"}, {"identity": {"template": TEMPLATE, "method": "None"}, "suspend": True}],
    ids=["suspended since it was made", "only watching", "by hand and suspended"],
)
async def test_staticgroup_that_never_issued_an_id_did_not_issue_it_first(spec: dict[str, object]) -> None:
    world = OperatorWorld(**IDENTITY)
    world.template = TEMPLATE
    world.stores.put_group(("shop", "twin"), group("twin", "2001-01-01T00:00:00Z", method=None, **({"workloadRef": {"name": "nowhere"}} | spec)))
    world.scale(3)
    await world.settled(3)
    assert "issued the same ids first" not in world.condition("Injected")[2]
    assert "because shop/twin issued it first" not in world.condition("Ready")[2]


async def test_restart_gives_no_id_to_a_container_that_is_not_there() -> None:
    """spec.identity.container names no container of the pod template, so the policy writes the annotation and no variable."""
    world = OperatorWorld(identity={"container": "worker"})
    world.scale(3)
    await world.round()
    for ordinal in range(3):
        world.start(ordinal, joins=False)
    world.now_s += 300
    await world.settled(3)
    told = [c.message for c in world.status.conditions] + [e.message for e in world.status.exceptions]
    assert not any("restart its pod" in text for text in told)
    assert any("worker" in text for text in told)


async def test_pods_that_carry_the_id_are_counted_although_their_statefulset_is_gone() -> None:
    """`kubectl delete sts web --cascade=orphan`."""
    world = await OperatorWorld().started()
    world.delete_workload()
    await world.settled(2)
    assert "All 0 pods carry the id" not in world.condition("Injected")[2]
