"""The ground truth knows carriers in every namespace and without labels, and believes no operator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from coordinator_model.base.errors import ErrorCode
from simulator.engine.log_capture import captured_logs
from simulator.engine.loop import run as run_simulation
from simulator.kubernetes.objects import PODS, STATIC_GROUPS, uid_of
from simulator.operators.process import says_report, says_stop
from simulator.oracles.promises import ROUND_MAX_S, Effect
from simulator.world.teams import GROUP, NAMESPACE, WORKLOAD, Team, containers
from simulator.world.world import World, WorldSettings
from support.narrowing import some

from .virtual_time import told_by

HOME = Team(
    spec={
        "groupProtocol": "Classic", "client": {"type": "Own"}, "idTemplate": "app-{ordinal}", "assumeExclusive": True,
    },
    is_by_hand=True,
)
RIVAL = Team(
    namespace="bill", workload="pay", name="payments", container="pay", replicas=1, spec=HOME.spec,
    set_spec={"ordinals": {"start": 7}}, is_by_hand=True,
)


def in_world(test: Callable[[World], Awaitable[None]], *, team: Team = HOME) -> None:
    """Run a test in a world of two teams whose StatefulSets run without any operator."""

    async def main() -> None:
        world = World(WorldSettings(team=team, others=(RIVAL,)), seed=1)
        for team_ in world.teams:
            world.create_group(team_)
            world.create_workload(team_)
        await world.until(lambda: len(world.members()) == 4, 120, "everybody is a member")
        await test(world)

    with captured_logs():
        run_simulation(main, seed=1, until_s=5_000)


up = told_by(in_world)


def effect_on(world: World, instance_id: str) -> Effect:
    return Effect(
        at_s=world.loop.time(), operator="operator-a", group_id=GROUP, member_id=world.members()[instance_id],
        instance_id=instance_id, error_code=ErrorCode.NONE,
    )


@up()
async def test_a_living_member_of_another_namespace_must_not_be_removed(world: World) -> None:
    """It does not matter for which StaticGroup the removal was decided."""
    await asyncio.sleep(ROUND_MAX_S)
    world.safety.leave_applied(effect_on(world, "app-7"))
    assert [v.oracle for v in world.violations] == ["S1", "S2"]
    assert "of pod bill/pay-7 (" in world.violations[0].message


@up()
async def test_an_id_that_another_namespace_wants_is_wanted(world: World) -> None:
    await asyncio.sleep(ROUND_MAX_S + 1)
    assert world.truth.undesired_since_s("app-7") is None
    assert world.truth.undesired_since_s("app-2") is None
    world.users.scale("bill", "pay", 0)
    assert world.truth.undesired_since_s("app-7") is not None
    assert world.truth.desired_ids(GROUP) == {"app-0", "app-1", "app-2"}


@up()
async def test_a_carrier_without_labels_is_a_carrier(world: World) -> None:
    some(world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-2"))
    copy = {"metadata": {"namespace": NAMESPACE, "name": "debug-2"}, "spec": {"containers": containers(HOME)}}
    copy["spec"]["containers"][0]["env"] = [{"name": "KAFKA_GROUP_INSTANCE_ID", "value": "app-2"}]
    before = world.members()["app-2"]
    uid = world.server.create(PODS, copy | {"status": {}})["metadata"]["uid"]
    await asyncio.sleep(5)
    assert uid not in world.truth.uncertified("app-2", before), "it came after that one had joined"
    world.users.delete_pod(NAMESPACE, f"{WORKLOAD}-2")
    await world.until(lambda: world.members()["app-2"] != before, 120, "another one has joined")
    await asyncio.sleep(5)
    own = uid_of(world.server.get(PODS, NAMESPACE, f"{WORKLOAD}-2") or {})
    world.truth.pods[own].has_proof = True
    assert uid in world.truth.uncertified("app-2", world.members()["app-2"])
    assert uid not in world.truth.uncertified("app-1", world.members()["app-1"])


@up()
async def test_the_truth_does_not_ask_the_status(world: World) -> None:
    """Ids follow the spec, not what an operator writes into the status."""
    before = world.truth.desired_ids(GROUP)
    group = some(world.server.get(STATIC_GROUPS, NAMESPACE, GROUP))
    lie = {"injected": {"scope": "00000000", "idTemplate": "x-{ordinal}"}, "observedGeneration": 1}
    world.server.update(STATIC_GROUPS, {**group, "status": lie}, subresource="status")
    assert world.truth.desired_ids(GROUP) == before
    assert world.truth.owner_of(GROUP, "x-1") is None
    assert world.truth.owner_of(GROUP, "app-1") == "orders"


@up()
async def test_an_id_is_no_longer_wanted_when_its_template_is_gone(world: World) -> None:
    await asyncio.sleep(ROUND_MAX_S + 1)
    world.users.edit_group(NAMESPACE, GROUP, {"idTemplate": "{podName}"})
    assert world.truth.undesired_since_s("app-2") is not None
    assert world.truth.owner_of(GROUP, "app-2") == "orders", "it was issued all the same"
    assert "web-2" in world.truth.desired_ids(GROUP)


@up()
async def test_a_staticgroup_that_is_made_again_replaces_the_one_before(world: World) -> None:
    """Found by seed 140227: deleted, made again, and given another template half a minute later."""
    group = some(world.server.get(STATIC_GROUPS, NAMESPACE, GROUP))
    await asyncio.sleep(ROUND_MAX_S + 1)
    world.server.delete(STATIC_GROUPS, NAMESPACE, GROUP)
    assert world.truth.undesired_since_s("app-2") is None, "nobody has said that its pods need the ids no longer"
    world.server.create(
        STATIC_GROUPS, {"metadata": {"namespace": NAMESPACE, "name": GROUP}, "spec": group["spec"], "status": {}}
    )
    await asyncio.sleep(ROUND_MAX_S + 1)
    assert world.truth.undesired_since_s("app-2") is None
    world.users.edit_group(NAMESPACE, GROUP, {"idTemplate": "{podName}"})
    assert world.truth.undesired_since_s("app-2") is not None


@pytest.mark.parametrize(
    ("spec", "stops"),
    [
        ({}, False),
        ({"mode": "Observe"}, True),
        ({"mode": "Suspended"}, True),
        ({"mode": "Manage", "removal": "Departed"}, False),
        ({"removal": "DepartedAndCrashed"}, False),
        ({"removal": "Never"}, True),
        ({"idTemplate": "{podName}"}, True),
        ({"idTemplate": "{podName}", "assumeExclusive": True}, False),
        ({"idTemplate": "{podName}.{scope}"}, False),
        ({"client": {"type": "Own"}}, True),
        ({"client": {"type": "Own"}, "assumeExclusive": True}, False),
        ({"client": {"type": "Own"}, "idTemplate": "{podName}.{scope}"}, False),
    ],
)
def test_whatever_forbids_every_removal_means_stop(spec: dict[str, object], stops: bool) -> None:
    assert says_stop(spec) is stops


@pytest.mark.parametrize(
    ("spec", "reports"),
    [
        ({}, True),
        ({"removal": "Departed"}, True),
        ({"removal": "Never"}, True),
        ({"removal": "DepartedAndCrashed"}, False),
        ({"removal": "DepartedAndCrashed", "mode": "Observe"}, True),
        ({"removal": "DepartedAndCrashed", "mode": "Suspended"}, True),
        ({"removal": "DepartedAndCrashed", "idTemplate": "{podName}"}, True),
        ({"removal": "DepartedAndCrashed", "idTemplate": "{podName}", "assumeExclusive": True}, False),
    ],
)
def test_whatever_does_not_ask_for_it_forbids_to_release_crashed_members(
    spec: dict[str, object], reports: bool
) -> None:
    assert says_report(spec) is reports


Entry = dict[str, object]
WAITING: Entry = {"state": {"waiting": {"reason": "ContainerCreating"}}}
RUNNING: Entry = {"state": {"running": {}}, "containerID": "containerd://1"}
ENDED: Entry = {
    "state": {"terminated": {"exitCode": 143, "containerID": "containerd://1"}},
    "containerID": "containerd://1",
}
LOST: Entry = {"state": {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}}


@pytest.mark.parametrize(
    ("before", "last", "is_certified"),
    [
        ({"init": RUNNING, "app": WAITING}, {"init": ENDED, "app": WAITING}, True),
        ({"init": ENDED, "app": RUNNING}, {"init": ENDED, "app": LOST}, False),
        ({"init": RUNNING, "app": WAITING}, {"init": LOST, "app": WAITING}, False),
        ({"init": RUNNING, "app": WAITING}, {"init": ENDED}, False),
    ],
    ids=["deleted during init", "app lost", "init lost", "no entry"],
)
@up()
async def test_container_that_is_shown_and_never_showed_an_id_needs_no_end(
    world: World, before: dict[str, Entry], last: dict[str, Entry], is_certified: bool
) -> None:
    spec = {"containers": [{"name": "app"}], "initContainers": [{"name": "init"}], "nodeName": "n1"}
    body = {"metadata": {"namespace": NAMESPACE, "name": "x-0"}, "spec": spec, "status": {}}
    uid = world.server.create(PODS, body)["metadata"]["uid"]
    for phase, entries in (("Pending", before), ("Failed", last)):
        shown = {name: {"name": name, **entry} for name, entry in entries.items()}
        status = {"phase": phase, "containerStatuses": [shown[n] for n in shown if n == "app"]}
        status["initContainerStatuses"] = [shown["init"]]
        current = some(world.server.get(PODS, NAMESPACE, "x-0"))
        world.server.update(PODS, current | {"status": status}, subresource="status")
    assert world.truth.pods[uid].is_certified == is_certified


@pytest.mark.parametrize("entry", [WAITING, RUNNING], ids=["never ran", "ran"])
@up()
async def test_pod_that_a_restored_etcd_forgot_needs_no_proof_when_it_never_ran(world: World, entry: Entry) -> None:
    snapshot = world.server.backup()
    spec = {"containers": [{"name": "app"}], "nodeName": "n1"}
    body = {"metadata": {"namespace": NAMESPACE, "name": "x-0"}, "spec": spec}
    body["status"] = {"phase": "Pending", "containerStatuses": [{"name": "app", **entry}]}
    uid = world.server.create(PODS, body)["metadata"]["uid"]
    assert not world.truth.pods[uid].is_certified
    world.kubernetes.restore_etcd(snapshot, bump=1_000_000)
    world.truth.resync(world.server)
    assert world.truth.pods[uid].is_certified == (entry is WAITING)
