"""The controllers of Deployments roll pods as Kubernetes' do.

Restates: kubernetes pkg/controller/deployment rolling_test.go, recreate_test.go and util/deployment_util_test.go
(TestResolveFenceposts); pkg/controller/replicaset replica_set_test.go (a pod that is being deleted does not count).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from simulator.engine.loop import run
from simulator.kubernetes.controllers.deployment import fenceposts
from simulator.kubernetes.objects import DEPLOYMENTS, PODS, REPLICASETS, Json, is_terminating, is_true, name_of
from simulator.kubernetes.watch_log import Event
from support.narrowing import some

from .plain_world import PlainWorld

IMAGES = ("shop/orders:1", "shop/orders:2", "shop/orders:3")


@dataclass
class World(PlainWorld):
    """A cluster with a Deployment `orders`, and the least and most pods that there were."""

    def __init__(self, **spec: Any) -> None:
        super().__init__()
        self.least_ready, self.most_counted = 99, 0
        labels = {"app": "orders"}
        template: Json = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": IMAGES[0]}]}}
        body: Json = {"replicas": 5, "selector": {"matchLabels": labels}, "template": template}
        body |= {"strategy": {"type": "RollingUpdate"}} | spec
        self.server.create(DEPLOYMENTS, {"metadata": {"namespace": "shop", "name": "orders"}, "spec": body})

    @property
    def counted(self) -> list[Json]:
        return [pod for pod in self.pods if not is_terminating(pod)]

    @property
    def ready(self) -> list[Json]:
        return [pod for pod in self.counted if is_true(pod, "Ready")]

    @property
    def status(self) -> Json:
        return some(self.server.get(DEPLOYMENTS, "shop", "orders")).get("status") or {}

    def images(self) -> set[str]:
        return {pod["spec"]["containers"][0]["image"] for pod in self.pods}

    def watch(self) -> None:
        """Note from now on how many pods are Ready, and how many count."""
        self.least_ready, self.most_counted = len(self.ready), len(self.counted)

        def observe(resource: str, event: Event) -> None:
            if resource == PODS:
                self.least_ready = min(self.least_ready, len(self.ready))
                self.most_counted = max(self.most_counted, len(self.counted))

        self.server.observers.append(observe)

    def edit(self, **spec: Any) -> None:
        self.server.patch(DEPLOYMENTS, "shop", "orders", {"spec": spec})

    def deploy(self, image: str) -> None:
        self.edit(template={"spec": {"containers": [{"name": "app", "image": image}]}})

    async def up(self, replicas: int, image: str = IMAGES[0]) -> None:
        """Wait until the pods are those of one image, all Ready, and no other is left."""
        await self.until(lambda: len(self.pods) == len(self.ready) == replicas and self.images() == {image})


def played(story: Any) -> None:
    run(story, seed=1, until_s=10_000.0)


@pytest.mark.parametrize(
    ("surge", "unavailable", "replicas", "expected"),
    [
        ("25%", "25%", 5, (2, 1)), ("25%", "25%", 4, (1, 1)), ("25%", "25%", 3, (1, 0)), ("25%", "25%", 1, (1, 0)),
        ("0%", "0%", 10, (0, 1)), (0, 0, 10, (0, 1)), ("39%", "39%", 10, (4, 3)), (0, 3, 5, (0, 3)), (2, 0, 5, (2, 0)),
    ],
)  # fmt: skip
def test_percentages_of_surge_are_rounded_up_and_of_unavailable_down(
    surge: int | str, unavailable: int | str, replicas: int, expected: tuple[int, int]
) -> None:
    strategy = {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    assert fenceposts(strategy, replicas) == expected
    if surge == unavailable == "25%":
        assert fenceposts({}, replicas) == expected


def test_pods_are_named_and_owned_by_a_replica_set_of_their_template() -> None:
    async def story() -> None:
        world = World()
        await world.up(5)
        (replica_set,) = world.server.list(REPLICASETS, "shop")
        for pod in world.pods:
            assert name_of(pod).startswith(f"{name_of(replica_set)}-")
            (owner,) = pod["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"], owner["controller"]) == ("ReplicaSet", name_of(replica_set), True)
            assert name_of(replica_set) == f"orders-{pod['metadata']['labels']['pod-template-hash']}"
        assert len({name_of(pod) for pod in world.pods}) == 5
        await asyncio.sleep(1)
        expected = {"replicas": 5, "updatedReplicas": 5, "readyReplicas": 5, "availableReplicas": 5}
        assert expected.items() <= world.status.items()

    played(story)


@pytest.mark.parametrize(
    ("replicas", "least", "most"), [(5, 4, 7), (4, 3, 5), (3, 3, 4), (1, 1, 2)], ids=["5", "4", "3", "1"]
)
def test_roll_stays_within_the_default_strategy(replicas: int, least: int, most: int) -> None:
    async def story() -> None:
        world = World(replicas=replicas)
        await world.up(replicas)
        world.watch()
        world.deploy(IMAGES[1])
        await world.up(replicas, IMAGES[1])
        assert (world.least_ready, world.most_counted) == (least, most)

    played(story)


def test_one_old_pod_goes_at_once_where_one_may_be_unavailable() -> None:
    """What lets a slot pass on: an old pod ends although no new one is Ready."""

    async def story() -> None:
        world = World(minReadySeconds=60)
        await world.until(lambda: len(world.ready) == 5)
        await asyncio.sleep(70)
        world.deploy(IMAGES[1])
        await world.until(lambda: any(is_terminating(pod) for pod in world.pods), deadline_s=1.0)
        assert world.images() == {IMAGES[0], IMAGES[1]}
        assert sum(is_terminating(pod) for pod in world.pods) == 1

    played(story)


def test_recreate_starts_no_pod_before_the_last_old_one_has_ended() -> None:
    async def story() -> None:
        world = World(strategy={"type": "Recreate"})
        await world.up(5)
        mixed = Mixed()
        world.server.observers.append(mixed.observing(world))
        world.deploy(IMAGES[1])
        await world.up(5, IMAGES[1])
        assert not mixed.seen

    played(story)


@dataclass
class Mixed:
    """Whether processes of two images ran at once."""

    seen: list[str] = field(default_factory=list)

    def observing(self, world: World) -> Any:
        def observe(resource: str, event: Event) -> None:
            running = [p for p in world.pods if (p.get("status") or {}).get("phase") in ("Pending", "Running")]
            if resource == PODS and len({p["spec"]["containers"][0]["image"] for p in running}) > 1:
                self.seen.append(name_of(some(event.current or event.previous)))

        return observe


def test_paused_deployment_scales_and_does_not_roll() -> None:
    async def story() -> None:
        world = World()
        await world.up(5)
        world.edit(paused=True)
        world.deploy(IMAGES[1])
        await asyncio.sleep(60)
        assert world.images() == {IMAGES[0]}
        world.edit(paused=None)
        await world.up(5, IMAGES[1])

    played(story)


def test_rollback_in_the_middle_takes_the_former_replica_set_again() -> None:
    async def story() -> None:
        world = World()
        await world.up(5)
        (first,) = [name_of(s) for s in world.server.list(REPLICASETS, "shop")]
        world.deploy(IMAGES[1])
        await world.until(lambda: IMAGES[1] in {p["spec"]["containers"][0]["image"] for p in world.ready})
        world.deploy(IMAGES[0])
        await world.up(5)
        assert {name_of(p).rpartition("-")[0] for p in world.pods} == {first}
        assert len(world.server.list(REPLICASETS, "shop")) == 2

    played(story)


def test_scaling_takes_the_cheap_and_the_young_first() -> None:
    async def story() -> None:
        world = World()
        await world.up(5)
        dear = name_of(world.pods[0])
        for pod in world.pods:
            if name_of(pod) != dear:
                cost = {"controller.kubernetes.io/pod-deletion-cost": "-1"}
                world.server.patch(PODS, "shop", name_of(pod), {"metadata": {"annotations": cost}})
        world.edit(replicas=1)
        await world.up(1)
        assert [name_of(pod) for pod in world.pods] == [dear]
        world.edit(replicas=3)
        await world.up(3)

    played(story)


def test_successor_is_made_while_the_pod_is_still_being_deleted() -> None:
    async def story() -> None:
        world = World(template={
            "metadata": {"labels": {"app": "orders"}},
            "spec": {"containers": [{"name": "app", "image": IMAGES[0]}], "terminationGracePeriodSeconds": 60},
        })  # fmt: skip
        await world.up(5)
        world.processes.ignores_term.add("app")
        gone = name_of(world.pods[0])
        world.users.delete_pod("shop", gone)
        await world.until(lambda: len(world.counted) == 5, deadline_s=2.0)
        assert gone in {name_of(pod) for pod in world.pods}

    played(story)
