"""What pods of another namespace cost a StaticGroup without {scope} in its ids, because every tenant may write
annotations."""

from __future__ import annotations

import json
from typing import Any

from staticgroup.api.resources.members import SUSPECT_IDS_MAX
from unit.core.builders import pod_version

from .operator_world import OperatorWorld
from .stories import group_body, managed

NAMES: dict[str, Any] = {"identity": {"template": "{podName}", "exclusive": True}}
ETCD_MAX = 1_500_000
"""Bytes of one request to etcd (--max-request-bytes), see api/resources/status.py."""


def lurker(world: OperatorWorld, n: int, ids: frozenset[str]) -> None:
    """Start a pod of namespace bill whose annotations staticgroup.io/instance-id.… say ids; it has no consumer."""
    values = {"namespace": "bill", "name": f"lurker-{n}", "instance_ids": ids, "ids_are_fixed": False}
    world._happens(pod_version(0, f"lurker-{n}", **values))


async def of_pod_names() -> OperatorWorld:
    world = OperatorWorld(**NAMES)
    world.template = "web-{ordinal}"
    await world.started()
    world.pods.is_managed = managed
    return world


async def test_status_stays_below_what_etcd_takes() -> None:
    """Of suspects that have no room nothing is remembered, so the next process begins as if it remembered nothing."""
    world = await of_pod_names()
    assert world.status.watch is not None
    for n in range(20):
        lurker(world, n, frozenset(f"web-1-{n}-{k}-".ljust(240, "a") for k in range(SUSPECT_IDS_MAX)))
        world._happens(world.kube.pods["bill", f"lurker-{n}"], is_deleted=True)
    await world.settled(3)
    assert len(world.status.suspects) > 1
    assert len(json.dumps(group_body(world)["status"])) < ETCD_MAX
    assert world.status.watch is None
