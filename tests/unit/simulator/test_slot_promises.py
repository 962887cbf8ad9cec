"""What the oracles say of pods that have slots: whose they are, who wants them, and that nobody else lives with one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from coordinator_model.base.errors import ErrorCode
from simulator.engine.log_capture import captured_logs
from simulator.engine.loop import run as run_simulation
from simulator.kubernetes.objects import DEPLOYMENTS, is_true, name_of, uid_of
from simulator.oracles.promises import ROUND_MAX_S, Effect, Violation
from simulator.oracles.slots import WAITS_MAX_S, SlotPromises, Waiting
from simulator.schedules.deployments import DEEDS, Deployer
from simulator.world.rest import violations_at_rest
from simulator.world.teams import GROUP
from simulator.world.world import World, WorldSettings

from .slot_world import CART, Deployed

Test = Callable[[World, Deployed], Awaitable[None]]


def in_world(test: Test, *, is_up: bool = True, **settings: Any) -> World:
    """Run a test in a world of one Deployment of three pods and no operator, and return the world."""
    worlds: list[World] = []

    async def main() -> None:
        world = World(WorldSettings(team=CART, nodes=("n1", "n2", "n3", "n4"), **settings), seed=1)
        worlds.append(world)
        deployed = Deployed(world)
        if is_up:
            await world.until(world.is_settled, 60, "all pods are members")
        await test(world, deployed)

    with captured_logs():
        run_simulation(main, seed=1, until_s=10_000)
    return worlds[0]


def up(**settings: Any) -> Callable[[Test], Callable[[], None]]:
    """Make a test of what happens in such a world; `protocol` and others are of the world."""

    def decorate(test: Test) -> Callable[[], None]:
        def played() -> None:
            in_world(test, **settings)

        played.__name__, played.__doc__ = test.__name__, test.__doc__
        return played

    return decorate


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_pods_are_members_under_the_ids_of_their_slots(protocol: str) -> None:
    async def test(world: World, deployed: Deployed) -> None:
        ids = {deployed.id_of(number) for number in (1, 2, 3)}
        assert set(world.members()) == world.truth.desired_ids(GROUP) == ids
        assert {world.truth.owner_of(GROUP, each) for each in ids} == {CART.name}
        assert world.truth.owner_of(GROUP, deployed.id_of(77)) is None, "no pod ever had it"
        assert not violations_at_rest(world, since_leaves=0)

    in_world(test, protocol=protocol)


@up(is_up=False)
async def test_pods_that_hear_nothing_are_dynamic_members(world: World, deployed: Deployed) -> None:
    deployed.gives = False
    await world.until(lambda: world.member_count() == 3, 90, "all pods are members")
    assert world.members() == {}
    assert not world.is_settled()


@up()
async def test_id_is_wanted_while_its_pod_stays(world: World, deployed: Deployed) -> None:
    first = next(pod for pod in deployed.pods if deployed.given[uid_of(pod)] == 1)
    await asyncio.sleep(ROUND_MAX_S + 1)
    assert world.truth.undesired_since_s(deployed.id_of(1)) is None
    deployed.passes_on = False
    world.users.delete_pod("shop", name_of(first))
    assert world.truth.undesired_since_s(deployed.id_of(1)) is not None
    assert deployed.id_of(1) not in world.truth.desired_ids(GROUP)
    assert world.truth.owner_of(GROUP, deployed.id_of(1)) == CART.name


@up()
async def test_departed_slot_is_judged_as_departed(world: World, deployed: Deployed) -> None:
    """L1 at rest: its member has to go, by a removal or by its session."""
    deployed.passes_on = False
    world.users.delete_pod("shop", name_of(deployed.pods[0]))
    await world.until(world.are_deployed, 30, "there is another pod")
    found = [v for v in violations_at_rest(world, since_leaves=0) if v.oracle == "L1"]
    assert len(found) == 1


@up()
async def test_slot_that_passes_on_keeps_its_id_through_a_roll(world: World, deployed: Deployed) -> None:
    ids = set(world.members())
    world.users.edit_workload("shop", "cart", {"strategy": {"type": "Recreate"}}, resource=DEPLOYMENTS)
    before = {uid_of(pod) for pod in deployed.pods}
    world.users.roll("shop", "cart", resource=DEPLOYMENTS)
    await world.until(lambda: not before & {uid_of(p) for p in deployed.pods} and world.is_settled(), 120, "rolled")
    assert set(world.members()) == ids
    assert world.violations == []


def effect_on(world: World, instance_id: str) -> Effect:
    return Effect(
        at_s=world.loop.time(),
        operator="operator-a",
        group_id=GROUP,
        member_id=world.members()[instance_id],
        instance_id=instance_id,
        error_code=ErrorCode.NONE,
    )


@up()
async def test_living_member_of_a_slot_must_not_be_removed(world: World, deployed: Deployed) -> None:
    world.safety.leave_applied(effect_on(world, deployed.id_of(2)))
    assert [v.oracle for v in world.violations] == ["S1", "S2"]


@up()
async def test_two_living_processes_with_one_slot_are_found(world: World, deployed: Deployed) -> None:
    """Whatever the API server shows: here the first one is lost with its node."""
    lost = deployed.pods[0]
    node = world.kubernetes.node_of("shop", name_of(lost))
    assert node is not None
    node.cut()
    number = deployed.given.pop(uid_of(lost))
    deployed.gives = False
    world.users.delete_pod("shop", name_of(lost), grace_s=0)
    await asyncio.sleep(5)
    (new,) = [pod for pod in deployed.pods if not is_true(pod, "Ready")]
    deployed.write(new, f"has cart-{number}")
    await asyncio.sleep(5)
    assert [v.oracle for v in world.violations] == ["S15"]
    assert uid_of(lost)[:8] in world.violations[0].message


@up()
async def test_restart_of_a_container_is_no_second_process(world: World, deployed: Deployed) -> None:
    pod = deployed.pods[0]
    world.processes.signal(uid_of(pod), "cart", "KILL")
    await asyncio.sleep(20)
    assert world.is_settled()
    assert world.violations == []


@up()
async def test_what_a_restored_etcd_has_forgotten_is_not_judged(world: World, deployed: Deployed) -> None:
    """The rule for slots does not count with it: notes are as they were, and so are pods that had ended."""
    lost = deployed.pods[0]
    world.kubernetes.restore_etcd(world.server.backup())
    world.truth.resync(world.server)
    number = deployed.given.pop(uid_of(lost))
    deployed.gives = False
    node = world.kubernetes.node_of("shop", name_of(lost))
    assert node is not None
    node.cut()
    world.users.delete_pod("shop", name_of(lost), grace_s=0)
    await asyncio.sleep(5)
    (new,) = [pod for pod in deployed.pods if not is_true(pod, "Ready")]
    deployed.write(new, f"has cart-{number}")
    await asyncio.sleep(5)
    assert len([p for p in world.processes.running() if deployed.id_of(number) in p.environment.values()]) == 2
    assert world.violations == []


@up(is_up=False)
async def test_pod_that_waits_for_ever_is_found_once(world: World, deployed: Deployed) -> None:
    deployed.gives = False
    for count in range(int(WAITS_MAX_S) // 5):
        await asyncio.sleep(5)
        for pod in deployed.pods[:1]:
            deployed.write(pod, f"waits {count} -")
    assert world.violations == []
    await asyncio.sleep(25)
    assert [v.oracle for v in world.violations] == []
    for count in range(20):
        deployed.write(deployed.pods[0], f"waits {count} cart-1")
        await asyncio.sleep(5)
    assert [v.oracle for v in world.violations] == ["L6"]


def test_wait_begins_anew_when_another_pod_of_the_deployment_goes_on() -> None:
    found: list[Violation] = []
    promises = SlotPromises(found.append)
    a, b = (Waiting(deployment=("shop", "cart"), since_s=0.0) for _ in "ab")
    other = Waiting(deployment=("shop", "pay"), since_s=0.0)
    promises.sampled(1.0, {"a": a, "b": b, "c": other})
    promises.sampled(WAITS_MAX_S, {"b": b, "c": other})
    promises.sampled(WAITS_MAX_S + 10, {"b": b, "c": other})
    assert [v.message[:9] for v in found] == ["pod c has"]
    promises.sampled(2 * WAITS_MAX_S + 20, {"b": b})
    assert [v.message[:9] for v in found] == ["pod c has", "pod b has"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_busy_people_break_no_promise_where_slots_pass_on_only_from_the_dead(protocol: str) -> None:
    """Every deed happens; two runs of one seed are the same history."""

    async def test(world: World, deployed: Deployed) -> None:
        deployer = Deployer(world, CART, world._rng("deployer"))
        for deed in sorted(DEEDS) * 3:
            await deployer.do(deed)
            await asyncio.sleep(9)
        deployer.tidy_up()
        await asyncio.sleep(600)

    first, second = (in_world(test, protocol=protocol) for _ in range(2))
    assert first.violations == []
    assert first.trace.text() == second.trace.text()
    assert {p.pod_uid for p in first.processes.history} > {p.pod_uid for p in first.processes.running()}
    assert not violations_at_rest(first, since_leaves=0)
