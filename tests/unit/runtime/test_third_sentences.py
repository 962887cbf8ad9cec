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
    status, reason, message = world.condition("Injected")
    assert "issued the same ids first" not in message
    assert "because shop/twin issued it first" not in world.condition("Ready")[2]
