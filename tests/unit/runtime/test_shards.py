"""StatefulSets `web` and `web-1`, `web-2` … in one namespace, whose ids are the names of their pods, as most people begin."""

from __future__ import annotations

from typing import Any

import pytest

from staticgroup.api.resources.durable import INCARNATIONS_MAX

from .operator_world import OperatorWorld, guards, static_group
from .stories import blind, departs, gap, left, start_as

NAMES: dict[str, Any] = {"identity": {"template": "{podName}", "exclusive": True}}


def shard(world: OperatorWorld, name: str, group_id: str) -> None:
    """Declare the StaticGroup of another StatefulSet."""
    body = static_group(f"sg-{name}", **(NAMES | {"workloadRef": {"name": name}, "groupId": group_id}))
    body["metadata"] |= {"name": name}
    world.stores.put_group(("shop", name), body)


async def of_pod_names() -> OperatorWorld:
    world = OperatorWorld(**NAMES)
    world.template = "web-{ordinal}"
    return await world.started()


@pytest.mark.parametrize("pods", [3, INCARNATIONS_MAX + 1])
async def test_pods_of_other_statefulsets_that_live_make_no_seat_blind(pods: int) -> None:
    """Nine shards in other Kafka groups, 23 pods each; their ids are their own names, and nothing was out of sight."""
    world = await of_pod_names()
    managed = {"web", *(f"web-{n}" for n in range(1, 10))}
    world.pods.is_managed = lambda namespace, name: name.rpartition("-")[0] in managed
    for n in range(1, 10):
        shard(world, f"web-{n}", f"orders-{n}")
    for n in range(pods):
        name = f"web-{1 + n % 9}-{n // 9}"
        start_as(world, name, f"uid-{name}", {name})
    await world.settled(4)
    assert blind(world) == ""
    await departs(world, 4)
    assert (left(world), guards(world)) == (["web-2"], [])


async def test_gap_costs_exclusive_ids_nothing_beside_a_statefulset_of_a_longer_name() -> None:
    """`web-2` is in the same Kafka group; its ids are nobody else's, and neither are those of `web`, as both have sworn."""
    world = await of_pod_names()
    shard(world, "web-2", "orders")
    for n in range(3):
        start_as(world, f"web-2-{n}", f"uid-{n}", {f"web-2-{n}"})
        world.kafka.join(f"web-2-{n}")
    await world.settled(3)
    gap(world)
    await world.settled(3)
    assert blind(world) == ""
    await departs(world, 4)
    assert (left(world), guards(world)) == (["web-2"], [])
