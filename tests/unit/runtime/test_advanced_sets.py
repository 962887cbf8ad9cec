"""Rounds of a StaticGroup whose pods a StatefulSet of OpenKruise makes: a reserved ordinal has departed, whatever its name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from staticgroup.api.workloads import ADVANCED_STATEFUL_SET
from staticgroup.runtime.rivals import rivals_of
from unit.core.builders import workload

from .operator_world import KEY, OperatorWorld, static_group
from .stories import left

REF = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"}


class AdvancedWorld(OperatorWorld):
    """The world of an OperatorWorld, where the pods are those of a StatefulSet of OpenKruise, which no watch shows."""

    def __init__(self, **spec: Any) -> None:
        super().__init__(workloadRef=REF, **spec)

    def scale(self, replicas: int, *, in_store: bool = True) -> None:
        self.want(*range(replicas))

    def want(self, *ordinals: int, **changes: Any) -> None:
        """Reserve all ordinals but these."""
        holes = ordinals != tuple(range(len(ordinals)))
        view = replace(workload(len(ordinals)), kind=ADVANCED_STATEFUL_SET, listed=ordinals if holes else None, **changes)
        self.kube.workloads["shop", "web"] = view


async def test_the_member_of_a_reserved_ordinal_leaves_and_the_last_pod_stays() -> None:
    world = await AdvancedWorld().started(4)
    world.want(0, 2, 3)
    world.end(1)
    await world.settled(4)
    assert left(world) == [world.id_of(1)]
    (reason,) = {entry.reason for entry, _ in world.kafka.leaves}
    assert reason.endswith("pod web-1 is not wanted any more, ordinal 1 ended")


async def test_a_pod_of_a_reserved_ordinal_that_lives_is_never_removed() -> None:
    world = await AdvancedWorld().started(3)
    world.want(0, 2, 3)
    await world.settled(4)
    assert left(world) == []


async def test_a_statefulset_of_kubernetes_of_the_same_name_says_nothing_about_it() -> None:
    """Both kinds are called StatefulSet, and only that of Kubernetes is watched."""
    world = await AdvancedWorld().started(3)
    plain = workload(0, name="web")
    world.stores.put_workload(plain)
    await world.settled(3)
    assert left(world) == []
    assert world.stores.workloads["shop", "web"] is plain, "nor it of that one"
    assert "wants 3 pods" in world.condition("WorkloadFound")[2]
    other = static_group("sg-2", workloadRef={"name": "web"}, groupId="audit")
    other["metadata"]["name"] = "audit"
    world.stores.put_group(("shop", "audit"), other)
    assert rivals_of(world.stores, None, KEY).collisions == ()
    other["spec"]["workloadRef"] = REF
    world.stores.put_group(("shop", "audit"), other)
    assert rivals_of(world.stores, None, KEY).collisions


async def test_pods_without_an_id_are_deleted_because_kubectl_does_not_roll_this_kind() -> None:
    world = AdvancedWorld()
    world.scale(1)
    await world.round()
    world.start(0, instance_ids=frozenset())
    await world.settled(2)
    message = world.condition("Injected")[2]
    assert "kubectl -n shop delete pod web-<ordinal>, one after the other" in message
    assert "rollout restart" not in message


async def test_a_static_group_of_a_later_release_stops_no_other_of_the_same_name() -> None:
    world = await AdvancedWorld().started(3)
    other = static_group("sg-2", workloadRef={"apiVersion": "later/v1", "kind": "Later", "name": "web"}, groupId="audit")
    other["metadata"]["name"] = "audit"
    world.stores.put_group(("shop", "audit"), other)
    world.want(0, 2)
    world.end(1)
    await world.settled(4)
    assert left(world) == [world.id_of(1)]
