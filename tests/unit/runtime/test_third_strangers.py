"""What a pod of somebody else's namespace costs a StaticGroup whose ids nobody else has: annotations are free to write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from staticgroup.api.resources.durable import INCARNATIONS_MAX, INSTANCE_IDS_MAX
from unit.core.builders import pod_version

from .operator_world import OperatorWorld, guards
from .stories import blind, departs, group_body, left, managed

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


@pytest.mark.parametrize("count", [1, INSTANCE_IDS_MAX + 1])
async def test_one_pod_with_many_annotations_makes_no_seat_blind(count: int) -> None:
    """None of its ids is one that the StaticGroup makes: each only begins like one (web-1-x0, web-1-x1, …)."""
    world = await of_pod_names()
    lurker(world, 0, frozenset(f"web-1-x{n}" for n in range(count)))
    await world.settled(4)
    assert blind(world) == ""
    await departs(world, 4)
    assert (left(world), guards(world)) == (["web-2"], [])


async def test_status_stays_below_what_etcd_takes() -> None:
    world = await of_pod_names()
    for n in range(INCARNATIONS_MAX):
        lurker(world, n, frozenset(f"web-1-{n}-{k}-".ljust(240, "a") for k in range(INSTANCE_IDS_MAX)))
    await world.settled(3)
    assert len(json.dumps(group_body(world)["status"])) < ETCD_MAX


def same_app(world: OperatorWorld, namespace: str, replicas: int) -> None:
    """Run the same app in a namespace of another tenant: StatefulSet web, ids by hand as $(POD_NAME), a Kafka cluster of its own."""
    for n in range(replicas):
        values = {"namespace": namespace, "name": f"web-{n}", "instance_ids": frozenset({f"web-{n}"}), "ids_are_fixed": True}
        world._happens(pod_version(n, f"{namespace}-{n}", **values))


async def test_same_app_in_the_namespaces_of_other_tenants_makes_no_seat_blind() -> None:
    """Eleven tenants with twenty pods each; the first of them has a StaticGroup, whose user swears `exclusive`."""
    world = await of_pod_names()
    for tenant in range(11):
        same_app(world, f"tenant-{tenant}", 20)
    await world.settled(4)
    assert blind(world) == ""
