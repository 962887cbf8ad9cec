"""Rounds of a StaticGroup on a Rollout of Argo: slots in its canaries and colours, by the sources of its controller."""

from __future__ import annotations

from typing import Any

from staticgroup.core.workload import WorkloadView
from staticgroup.kube.translate import rollout_view
from support.narrowing import of_type
from unit.kube.raw_objects import Json
from unit.kube.raw_rollouts import argo_rollout
from unit.runtime.deployment_world import DeploymentWorld

STEPS = [{"setWeight": 40}, {"pause": {}}, {"setWeight": 100}]
PAUSED = [{"reason": "CanaryPauseStep"}]


class RolloutWorld(DeploymentWorld):
    """A Rollout `web`, read as the API server gives it."""

    def __init__(self, strategy: Json, *, replicas: int = 5) -> None:
        self.strategy = strategy
        ref = {"name": "web", "kind": "Rollout", "apiVersion": "argoproj.io/v1alpha1"}
        super().__init__(replicas=replicas, ref=ref)

    def declare_deployment(self, replicas: int, updated: int | None = None, **changes: Any) -> None:
        """Show the Rollout as it is now; `changes` are of its status."""
        status = {"observedGeneration": "4", "updatedReplicas": replicas if updated is None else updated, **changes}
        raw = argo_rollout(replicas=replicas, strategy=self.strategy, status=status)
        self.kube.workloads["shop", "web"] = of_type(WorkloadView, rollout_view(raw))

    async def replace(self, pairs: dict[str, str]) -> None:
        """Let old pods end while new ones wait, which then begin."""
        self.delete(*pairs)
        self.make(*pairs.values())
        await self.settled(3)
        self.finish(*pairs)
        await self.settled(3)
        self.begin(*pairs.values())
        await self.settled(2)


async def test_a_canary_without_surge_passes_every_slot_on_over_all_its_steps() -> None:
    world = RolloutWorld({"canary": {"maxSurge": 0, "steps": STEPS}})
    slots = await world.up()
    members = dict(world.kafka.members)
    world.declare_deployment(5, 0)
    await world.replace({"old-1": "new-1"})
    world.declare_deployment(5, 1)
    await world.replace({"old-2": "new-2"})
    world.declare_deployment(5, 2, pauseConditions=PAUSED)
    await world.minutes(60)
    assert (world.left, world.waiting(), world.status.issues) == ([], [], [])
    for n in range(3, 6):
        await world.replace({f"old-{n}": f"new-{n}"})
        world.declare_deployment(5, n)
    assert {world.slot_of(f"new-{n}"): f"old-{n}" for n in range(1, 6)} == {slot: pod for pod, slot in slots.items()}
    assert (world.kafka.members.keys(), world.left) == (members.keys(), [])


async def test_a_canary_beside_all_old_pods_waits_for_nobody_and_who_left_is_removed_during_the_pause() -> None:
    world = RolloutWorld({"canary": {"maxSurge": 2, "maxUnavailable": 0, "steps": STEPS}})
    slots = await world.up()
    world.declare_deployment(5, 0)
    world.make("new-1", "new-2")
    await world.settled(3)
    assert world.waiting() == [], "no old pod ends before these are Ready"
    world.begin("new-1", "new-2")
    world.declare_deployment(5, 2)
    world.delete("old-1", "old-2")
    world.declare_deployment(5, 2, pauseConditions=PAUSED)
    await world.settled(2)
    world.finish("old-1", "old-2")
    await world.settled(6)
    assert {instance_id for _, instance_id in world.left} == {world.id_in(slots[f"old-{n}"]) for n in (1, 2)}
    await world.minutes(60)
    assert (len(world.left), world.waiting(), world.status.issues) == (2, [], [])


async def test_a_second_colour_gets_slots_of_its_own_at_once_and_the_first_one_leaves() -> None:
    world = RolloutWorld({"blueGreen": {"activeService": "web", "maxUnavailable": 2}})
    slots = await world.up()
    world.declare_deployment(5, 0)
    green = [f"new-{n}" for n in range(1, 6)]
    world.make(*green)
    await world.settled(3)
    assert world.waiting() == [], "the first colour goes only after the second one is Ready"
    world.begin(*green)
    world.declare_deployment(5, 5, pauseConditions=[{"reason": "BlueGreenPause"}])
    await world.minutes(30)
    assert (world.left, len(world.kafka.members)) == ([], 10)
    world.declare_deployment(5, 5)
    world.delete(*slots)
    await world.settled(2)
    world.finish(*slots)
    await world.settled(8)
    assert {instance_id for _, instance_id in world.left} == {world.id_in(slot) for slot in slots.values()}
    await world.minutes(15)
    assert sorted(world.kafka.members) == sorted(world.id_in(world.slot_of(name)) for name in green)


async def test_a_pod_that_is_evicted_while_both_colours_run_costs_nothing_if_the_next_one_comes_before_it_ends() -> None:
    world = RolloutWorld({"blueGreen": {}})
    slots = await world.up()
    await world.replace({"old-1": "old-6"})
    assert (world.slot_of("old-6"), world.left) == (slots["old-1"], [])


async def test_what_a_roll_costs_is_said_with_the_field_that_decides_it() -> None:
    world = RolloutWorld({"blueGreen": {}})
    await world.up()
    (said,) = [each for each in world.status.conditions if each.type == "RollsQuietly"]
    assert (said.status, said.reason) == ("False", "SurgeNeedsSlot")
    assert "Each step of a roll costs up to 3 rebalances, because by the strategy of Rollout web a pod starts" in said.message
    assert "set spec.strategy.canary of the Rollout to maxUnavailable 1 and maxSurge 0" in said.message
