"""The ground truth knows carriers in every namespace and without labels, and believes no operator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from coordinator_model.errors import ErrorCode
from simulator.log_capture import captured_logs
from simulator.loop import run as run_simulation
from simulator.objects import PODS, STATIC_GROUPS
from simulator.operator_process import says_stop
from simulator.oracles import ROUND_MAX_S, Effect
from simulator.teams import GROUP, NAMESPACE, WORKLOAD, Team, containers
from simulator.world import World, WorldSettings

HOME = Team(
    spec={"protocol": "Classic", "identity": {"template": "app-{ordinal}", "exclusive": True, "method": "None"}},
    is_by_hand=True,
)
RIVAL = Team(
    namespace="bill",
    workload="pay",
    name="payments",
    container="pay",
    replicas=1,
    spec=HOME.spec,
    set_spec={"ordinals": {"start": 7}},
    is_by_hand=True,
)


def in_world(test: Callable[[World], Awaitable[None]], *, team: Team = HOME) -> World:
    """Run a test in a world of two teams whose StatefulSets run without any operator."""
    worlds: list[World] = []

    async def main() -> None:
        world = World(WorldSettings(team=team, others=(RIVAL,)), seed=1)
        worlds.append(world)
        for team_ in world.teams:
            world.create_group(team_)
            world.create_workload(team_)
        await world.until(lambda: len(world.members()) == 4, 120, "everybody is a member")
        await test(world)

    with captured_logs():
        run_simulation(main, seed=1, until_s=5_000)
    return worlds[0]


def effect_on(world: World, instance_id: str) -> Effect:
    return Effect(
        at_s=world.loop.time(),
        operator="operator-a",
        group_id=GROUP,
        member_id=world.members()[instance_id],
        instance_id=instance_id,
        error_code=ErrorCode.NONE,
    )


def test_a_living_member_of_another_namespace_must_not_be_removed() -> None:
    """Whoever's StaticGroup it was that the removal was decided for."""

    async def test(world: World) -> None:
        await asyncio.sleep(ROUND_MAX_S)
        world.safety.leave_applied(effect_on(world, "app-7"))

    found = in_world(test).violations
    assert [v.oracle for v in found] == ["S1", "S2"]
    assert "of pod bill/pay-7 (" in found[0].message


def test_an_id_that_another_namespace_wants_is_wanted() -> None:
    async def test(world: World) -> None:
        await asyncio.sleep(ROUND_MAX_S + 1)
        assert world.truth.undesired_since_s("app-7") is None
        assert world.truth.undesired_since_s("app-2") is None
        world.users.scale("bill", "pay", 0)
        assert world.truth.undesired_since_s("app-7") is not None
        assert world.truth.desired_ids(GROUP) == {"app-0", "app-1", "app-2"}

    in_world(test)


def test_a_carrier_without_labels_is_a_carrier() -> None:
    async def test(world: World) -> None:
        body = world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-2")
        assert body is not None
        copy = {"metadata": {"namespace": NAMESPACE, "name": "debug-2"}, "spec": {"containers": containers(HOME)}}
        copy["spec"]["containers"][0]["env"] = [{"name": "KAFKA_GROUP_INSTANCE_ID", "value": "app-2"}]
        uid = world.server.create(PODS, copy | {"status": {}})["metadata"]["uid"]
        await asyncio.sleep(ROUND_MAX_S + 1)
        assert uid in world.truth.uncertified("app-2", world.members()["app-2"])
        assert uid not in world.truth.uncertified("app-1", world.members()["app-1"])

    in_world(test)


def test_the_truth_does_not_ask_the_status() -> None:
    """Whatever an operator writes there, the ids are those that the spec makes."""

    async def test(world: World) -> None:
        before = world.truth.desired_ids(GROUP)
        group = world.server.get(STATIC_GROUPS, NAMESPACE, GROUP)
        assert group is not None
        lie = {"injected": {"scope": "00000000", "idTemplate": "x-{ordinal}"}, "observedGeneration": 1}
        world.server.update(STATIC_GROUPS, {**group, "status": lie}, subresource="status")
        assert world.truth.desired_ids(GROUP) == before
        assert world.truth.owner_of(GROUP, "x-1") is None
        assert world.truth.owner_of(GROUP, "app-1") == "orders"

    in_world(test)


def test_an_id_is_no_longer_wanted_when_its_template_is_gone() -> None:
    async def test(world: World) -> None:
        await asyncio.sleep(ROUND_MAX_S + 1)
        world.users.edit_group(NAMESPACE, GROUP, {"identity": {"template": "{podName}"}})
        assert world.truth.undesired_since_s("app-2") is not None
        assert world.truth.owner_of(GROUP, "app-2") == "orders", "it was issued all the same"
        assert "web-2" in world.truth.desired_ids(GROUP)

    in_world(test)


@pytest.mark.parametrize(
    ("spec", "stops"),
    [
        ({}, False),
        ({"mode": "Observe"}, True),
        ({"suspend": True}, True),
        ({"removal": {"policy": "Never"}}, True),
        ({"identity": {"template": "{podName}"}}, True),
        ({"identity": {"template": "{podName}", "exclusive": True}}, False),
        ({"identity": {"template": "{podName}.{scope}"}}, False),
    ],
)
def test_whatever_forbids_every_removal_means_stop(spec: dict[str, object], stops: bool) -> None:
    assert says_stop(spec) is stops
