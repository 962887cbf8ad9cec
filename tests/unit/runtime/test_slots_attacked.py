"""What breaks the hand-out of slots, or makes pods, operator or members wait."""

from __future__ import annotations

from typing import Any

from staticgroup.core.evidence.pod import PodVersion
from staticgroup.kube.translate import pod_version
from staticgroup.runtime.rivals import rivals_of
from support.narrowing import of_type
from unit.kube.raw_deployments import SCOPE, deployed, waiter_of
from unit.kube.raw_objects import at
from unit.runtime.deployment_world import DeploymentWorld
from unit.runtime.operator_world import UNREACHABLE, static_group

CROWD = {f"staticgroup.io/instance-id.{n}": f"other-{n}" for n in range(600)}


def crowded(world: DeploymentWorld, name: str) -> None:
    """Let somebody write many ids into a pod's annotations."""
    raw = world.raws[name]
    world._shows(raw | {"metadata": raw["metadata"] | {"annotations": CROWD | raw["metadata"]["annotations"]}})


async def test_a_pod_that_shows_too_many_ids_is_found_by_its_slot() -> None:
    world = DeploymentWorld()
    slots = await world.up()
    world.make("new-1")
    crowded(world, "new-1")
    world.delete("old-1")
    await world.settled(2)
    world.kafka.problems["describe"] = UNREACHABLE
    world.finish("old-1")
    await world.settled(2)
    assert world.slot_of("new-1") == slots["old-1"]
    world.begin("new-1")  # its member takes the place of the one before while no broker answers the operator
    world.kafka.problems.clear()
    world.declare_deployment(4)
    world.delete("new-1")  # it has its grace period left
    await world.settled(6)
    assert world.left == []


async def test_a_pod_whose_kubelet_is_gone_is_not_told_of_its_slot_for_ever() -> None:
    world = DeploymentWorld()
    await world.up()
    world.lose("old-1")
    world.make("new-1")
    await world.settled(2)
    assert world.slot_of("new-1")
    world.delete("new-1")  # its node is lost: the waiter runs for ever, as far as the object shows
    world.clear_notes()
    for _ in range(1800):
        await world.look()
        world.now_s += 2.0
    assert len(world.kube.notes) < 60


async def test_a_pod_that_its_kubelet_rejected_keeps_no_slot_for_one_to_come() -> None:
    world = DeploymentWorld()
    slots = await world.up()
    for n in range(3):  # as OutOfcpu: no entries of containers, and the object stays
        raw = deployed(f"rejected-{n}", uid=f"uid-rejected-{n}", node="n1", scopes=(world.scope,), phase="Failed")
        raw["status"] = {"phase": "Failed", "reason": "OutOfcpu"}
        world._shows(raw)
    world.declare_deployment(3)
    world.delete("old-4", "old-5")
    await world.settled(2)
    world.finish("old-4", "old-5")
    await world.settled(6)
    assert {instance_id for _, instance_id in world.left} == {world.id_in(slots[f"old-{n}"]) for n in (4, 5)}


async def test_the_pod_that_follows_one_that_its_kubelet_rejected_gets_a_slot_at_once() -> None:
    """After a reboot a kubelet may reject a pod that had run; its ReplicaSet makes another one at once."""
    world = DeploymentWorld()
    await world.up()
    raw = world.raws["old-1"]
    world._shows(raw | {"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}})
    world.make("new-1")
    await world.settled(10)
    assert world.slot_of("new-1")


async def test_the_pod_that_follows_one_that_was_taken_out_of_the_set_gets_a_slot_at_once() -> None:
    """Somebody took the label off a pod to look into it."""
    world = DeploymentWorld()
    await world.up()
    raw = world.raws["old-1"]
    world._shows(raw | {"metadata": raw["metadata"] | {"ownerReferences": [], "labels": {}}})
    world.make("new-1")
    await world.settled(10)
    assert world.slot_of("new-1")


async def test_a_restored_etcd_and_silent_brokers_give_no_slot_away_that_a_living_pod_has() -> None:
    world = DeploymentWorld()
    slots = await world.up()
    world.make("new-1")
    backup = dict(world.raws)
    world.delete("old-1")
    await world.settled(2)
    world.finish("old-1")
    await world.settled(2)
    assert world.slot_of("new-1") == slots["old-1"]
    world.begin("new-1")
    await world.settled(2)
    living = world.raws["new-1"]["status"]

    # etcd is set back to before the note; the kubelet tells of the pod as it is; another operator starts.
    world.kube.pods.clear()
    world.raws.clear()
    for raw in backup.values():
        world._shows(raw)
    world.restart(watch_name="2-00000002")
    await world.settled(2)
    world._shows(world.raws["new-1"] | {"status": living})
    await world.settled(2)
    world.kafka.problems["describe"] = UNREACHABLE
    world.make("new-2")
    world.delete("old-1")
    await world.settled(2)
    world.finish("old-1")
    await world.settled(3)
    assert world.slot_of("new-2") != slots["old-1"]


async def test_two_static_groups_of_one_template_do_not_write_one_variable_of_a_deployment() -> None:
    """Each gives a pod a slot of its own, so what both call the same is not the same id."""
    ref = {"name": "web", "kind": "Deployment"}
    world = DeploymentWorld(idTemplate="{podName}")
    body: dict[str, Any] = static_group("sg-2", workloadRef=ref, idTemplate="{podName}", groupId="audit")
    body["metadata"]["name"] = "audit"
    world.stores.put_group(("shop", "audit"), body)
    await world.settled(2)
    assert rivals_of(world.stores, None, ("shop", "orders")).collisions


async def test_two_static_groups_of_one_deployment_with_variables_of_their_own_do_not_hinder_each_other() -> None:
    """No pod of a Deployment has its ids in annotations, so both may have the same suffix, which is none by default."""
    ref = {"name": "web", "kind": "Deployment"}
    world = DeploymentWorld()
    await world.up()
    variables = {"instanceIdName": "AUDIT_ID", "sessionTimeoutName": "AUDIT_MS", "container": "app"}
    client = {"type": "Custom", "env": [variables]}
    body: dict[str, Any] = static_group("sg-2", workloadRef=ref, groupId="audit", client=client)
    body["metadata"]["name"] = "audit"
    world.stores.put_group(("shop", "audit"), body)
    world.declare_deployment(4)
    world.delete("old-1")
    world.finish("old-1")
    await world.settled(3)
    assert rivals_of(world.stores, None, ("shop", "orders")).collisions == ()
    assert len(world.left) == 1


async def test_a_pod_that_waits_hears_at_once_of_an_operator_that_begins_and_of_one_whose_clock_went_back() -> None:
    """Its waiter gives up after 30 s of silence, which began before."""
    world = DeploymentWorld()
    await world.up()
    world.make("new-1")
    world.delete("old-1")
    await world.settled(8)
    world.clear_notes()
    world.now_s += 9
    world.restart()
    await world.look()
    assert len(world.slots_said()) == 1
    world.clear_notes()
    world.set_clock(-60)
    await world.look()
    assert len(world.slots_said()) == 1


async def test_a_restored_etcd_gives_no_slot_away_while_the_operator_that_saw_it_lives() -> None:
    world = DeploymentWorld()
    slots = await world.up()
    world.make("new-1")
    backup = dict(world.raws)
    world.delete("old-1")
    await world.settled(2)
    world.finish("old-1")
    await world.settled(2)
    world.begin("new-1")
    await world.settled(2)
    living = world.raws["new-1"]["status"]
    world.kube.pods.clear()
    world.raws.clear()
    world.raws |= backup
    for raw in backup.values():
        world._shows(raw)
    world.pods.lose(tuple(world.kube.pods.values()), world.kube.resource_version, "2-00000002")
    await world.settled(2)
    world._shows(world.raws["new-1"] | {"status": living})
    world.kafka.problems["describe"] = UNREACHABLE
    world.make("new-2")
    world.delete("old-1")
    await world.settled(2)
    world.finish("old-1")
    await world.settled(3)
    assert world.slot_of("new-2") != slots["old-1"]


def test_a_container_that_mounts_the_file_of_a_slot_may_hold_its_id() -> None:
    """A crashed member is released only once every container that may hold its id has shown the end of a run."""
    raw = deployed(waits=False, notes={SCOPE: "uid-0 has web-41 1"})
    reader = {"name": "reader", "volumeMounts": [{"name": waiter_of(), "mountPath": "/slot"}]}
    raw["spec"]["containers"].append(reader)
    version = of_type(PodVersion, pod_version(at(raw, 1)))
    assert {c.name for c in version.required if c.may_hold_id} == {"app", "reader"}
