"""Rounds of a StaticGroup on a Deployment: slots pass on in rolls, and what stands in the way of that."""

from __future__ import annotations

import pytest

from staticgroup.kube.problem import problem_of
from support.narrowing import some
from unit.core.builders import workload
from unit.kube.raw_deployments import OTHER_SCOPE
from unit.runtime.deployment_world import DeploymentWorld
from unit.runtime.operator_world import UNREACHABLE, departing, static_group


async def replace_next(world: DeploymentWorld, old: str, new: str) -> str:
    """Let one pod end while another waits; returns the slot that the new one has then."""
    world.delete(old)
    await world.settled(2)
    assert new in world.waiting()
    world.finish(old)
    await world.settled(2)
    return world.slot_of(new)


async def test_the_first_pods_get_slots_of_their_own_and_join_with_their_ids() -> None:
    world = DeploymentWorld()
    slots = await world.up()
    assert len(set(slots.values())) == 5
    assert all(slot.startswith("web-") for slot in slots.values())
    assert sorted(world.kafka.members) == sorted(world.id_in(slot) for slot in slots.values())
    assert [entry.key for entry in world.injected.env if entry.value] == ["ID_0"]
    assert world.injected.env[0].value == f"%s.{world.scope}"
    assert (world.left, world.status.issues) == ([], [])
    assert some(world.status.slots).pods == sorted(f"{slot}: pod {pod}" for pod, slot in slots.items())


async def test_a_roll_passes_each_slot_on_to_a_waiting_pod_and_removes_nobody() -> None:
    world = DeploymentWorld()
    slots = await world.up()
    members = dict(world.kafka.members)
    world.declare_deployment(5, 2)
    world.make("new-1", "new-2")  # 25% of 5 above what is wanted
    await world.settled(2)
    assert {world.note_of(name).partition(" ")[0] for name in ("new-1", "new-2")} == {"waits"}
    for n in range(1, 6):
        passed_on = await replace_next(world, f"old-{n}", f"new-{n}")
        assert passed_on == slots[f"old-{n}"]
        world.begin(f"new-{n}")
        if n <= 3:
            world.declare_deployment(5, n + 2)
            world.make(f"new-{n + 2}")
        await world.settled(2)
    assert {world.slot_of(f"new-{n}") for n in range(1, 6)} == set(slots.values())
    assert world.kafka.members.keys() == members.keys()
    assert world.left == []
    await world.minutes(15)
    assert (world.left, world.status.issues) == ([], [])


async def test_a_recreation_passes_all_slots_on_though_others_were_left_before() -> None:
    world = DeploymentWorld(replicas=7)
    slots = await world.up(7)
    world.declare_deployment(5, is_recreate=True)
    world.delete("old-6", "old-7")
    world.finish("old-6", "old-7")
    await world.settled(6)
    assert len(world.left) == 2
    names = [f"old-{n}" for n in range(1, 6)]
    world.declare_deployment(5, 0, is_recreate=True)
    world.delete(*names)
    await world.settled(2)
    world.finish(*names)
    await world.settled(4)
    assert len(world.left) == 2
    world.declare_deployment(5, 5, is_recreate=True)
    world.make(*(f"new-{n}" for n in range(1, 6)))
    await world.settled(4)
    assert {world.slot_of(f"new-{n}") for n in range(1, 6)} == {slots[name] for name in names}


async def test_scaled_down_the_members_of_the_pods_that_ended_are_removed() -> None:
    world = DeploymentWorld()
    slots = await world.up()
    world.declare_deployment(3)
    world.delete("old-4", "old-5")
    await world.settled(2)
    assert world.left == []
    world.finish("old-4", "old-5")
    await world.settled(6)
    assert {instance_id for _, instance_id in world.left} == {world.id_in(slots[f"old-{n}"]) for n in (4, 5)}
    assert [reason for e, _ in world.kafka.leaves for reason in [e.reason] if "no pod takes over slot" not in reason] == []
    await world.minutes(15)
    assert len(world.left) == 2


async def test_scaled_up_again_while_the_round_reads_the_slot_is_kept_for_the_pod_to_come() -> None:
    world = DeploymentWorld()
    slots = await world.up()
    world.declare_deployment(4)
    world.delete("old-5")
    await world.settled(2)
    world.finish("old-5")

    def read_again() -> None:
        world.kube.before["read_workload"] = lambda: world.declare_deployment(5, 4)

    world.kube.before["read_workload"] = read_again
    await world.round()
    assert "read_pod" in world.done
    await world.settled(3)
    assert world.left == []
    world.make("new-1")
    await world.settled(3)
    assert world.slot_of("new-1") == slots["old-5"]


async def test_the_replacement_of_a_lost_pod_gets_a_slot_of_its_own_and_the_lost_member_stays() -> None:
    world = DeploymentWorld()
    slots = await world.up()
    world.lose("old-1")
    world.make("new-1")
    await world.settled(3)
    assert world.slot_of("new-1") not in ("", *slots.values())
    world.begin("new-1")
    await world.minutes(15)
    assert world.left == []
    assert world.id_in(slots["old-1"]) in world.kafka.members
    assert [(issue.kind.value, issue.reason) for issue in world.status.issues] == [("Held", "Suspect"), ("Suspect", "EndNotSeen")]


async def test_while_no_broker_answers_slots_are_handed_out_all_the_same() -> None:
    world = DeploymentWorld()
    slots = await world.up()
    world.kafka.problems["describe"] = UNREACHABLE
    world.make("new-1")
    assert await replace_next(world, "old-1", "new-1") == slots["old-1"]
    world.make("new-2")
    world.lose("old-2")
    await world.settled(2)
    assert world.slot_of("new-2") not in ("", *slots.values())


async def test_a_note_for_an_older_version_of_the_pod_is_tried_again_soon() -> None:
    world = DeploymentWorld()
    await world.up()
    world.lose("old-1")
    world.make("new-1")
    world.clear_notes()
    world.kube.before["write_note"] = lambda: world.touch("new-1")
    result = await world.round()
    assert (world.kube.notes, world.slot_of("new-1"), result.failed) == ([], "", False)
    assert result.requeue_after_s is not None
    assert result.requeue_after_s <= 1.0
    world.now_s += result.requeue_after_s
    await world.look()
    assert world.slot_of("new-1")


async def test_a_note_for_a_pod_that_is_gone_is_refused_and_harms_nothing() -> None:
    world = DeploymentWorld()
    await world.up()
    world.lose("old-1")
    world.make("new-1", "new-2")
    world.kube.before["write_note"] = lambda: world.lose("new-1")
    await world.settled(2)
    assert world.slot_of("new-2")


async def test_a_lasting_refusal_of_notes_is_logged_and_not_tried_every_second(caplog: pytest.LogCaptureFixture) -> None:
    world = DeploymentWorld()
    await world.up()
    world.lose("old-1")
    world.make("new-1")
    world.kube.problems["write_note"] = problem_of(403, verb="patch", resource="pods", namespace="shop")
    result = await world.round()
    assert result.requeue_after_s is not None
    assert result.requeue_after_s > 1.0
    assert [record.message for record in caplog.records] == ["slot note refused"]
    world.kube.problems["write_note"] = problem_of(503, verb="patch", resource="pods", namespace="shop")
    assert (await world.round()).requeue_after_s == 1.0
    del world.kube.problems["write_note"]
    await world.round()
    assert world.slot_of("new-1")


async def test_notes_of_a_pod_that_lags_behind_are_bound_to_the_version_that_was_seen() -> None:
    """A pod may be given one slot only, whatever else was written meanwhile."""
    world = DeploymentWorld()
    await world.up()
    world.lose("old-1")
    world.make("new-1")
    world.pods.is_lagging = True
    await world.settled(4)
    assert len([text for text in world.slots_said() if text.split()[1] == world.slot_of("new-1")]) <= 2
    given = {text.split()[1] for pod, _, text in ((p, a, t.partition(" ")[2]) for p, a, t in world.kube.notes) if pod == "new-1"}
    assert len(given) == 1


async def test_without_the_lease_nothing_is_written() -> None:
    world = DeploymentWorld()
    await world.up()
    world.lose("old-1")
    world.make("new-1")
    world.clear_notes()
    world.kafka.before["describe"] = world.lose_lease
    await world.round()
    assert (world.kube.notes, world.note_of("new-1")) == ([], "")


@pytest.mark.parametrize("mode", ["Observe", "Suspended"])
async def test_where_it_may_not_manage_the_operator_writes_no_note(mode: str) -> None:
    world = DeploymentWorld()
    await world.up()
    world.clear_notes()
    ref = {"name": "web", "kind": "Deployment"}
    world.declare(static_group(generation=2, workloadRef=ref, mode=mode))
    world.make("new-1")
    world.delete("old-1")
    await world.settled(2)
    world.finish("old-1")
    await world.settled(4)
    assert (world.kube.notes, world.left) == ([], [])


@pytest.mark.parametrize("what", ["is_fence_served", "is_slots_policy_served"])
async def test_where_notes_are_not_fenced_or_pods_not_injected_none_is_written(what: str) -> None:
    world = DeploymentWorld()
    setattr(world, what, False)
    await world.settled(3)
    assert world.status.injected is None or world.status.injected.method.value != "Policy"
    setattr(world, what, True)
    await world.up()
    setattr(world, what, False)
    world.clear_notes()
    world.make("new-1")
    await world.settled(2)
    assert world.kube.notes == []


async def test_after_a_restart_that_saw_it_all_a_claim_is_fulfilled() -> None:
    """The next process resumes behind the life of the pod that ends, and sees that end."""
    world = DeploymentWorld()
    slots = await world.up()
    world.make("new-1")
    world.delete("old-1")
    await world.settled(2)
    assert world.note_of("new-1").split()[2] == slots["old-1"]
    world.restart()
    await world.settled(2)
    world.finish("old-1")
    await world.settled(2)
    assert world.slot_of("new-1") == slots["old-1"]
    world.begin("new-1")
    await world.minutes(3)
    assert world.left == []


async def test_after_a_restart_that_missed_the_end_the_pod_gets_a_slot_of_its_own() -> None:
    world = DeploymentWorld()
    slots = await world.up()
    world.make("new-1")
    world.delete("old-1")
    await world.settled(2)
    world.pods.is_lagging = True
    world.finish("old-1")
    world.restart(watch_name="2-00000002")
    await world.settled(3)
    assert world.slot_of("new-1") not in ("", *slots.values())


async def test_a_gap_between_the_claim_and_the_end_gives_no_slot_away() -> None:
    world = DeploymentWorld()
    slots = await world.up()
    world.make("new-1")
    world.delete("old-1")
    await world.settled(2)
    world.finish("old-1")
    world.pods.lose(tuple(world.kube.pods.values()), world.kube.resource_version, "2-00000002")
    await world.settled(3)
    assert world.slot_of("new-1") not in ("", *slots.values())


async def test_a_pod_that_does_not_begin_hears_of_its_slot_again() -> None:
    world = DeploymentWorld()
    await world.up()
    world.lose("old-1")
    world.make("new-1")
    await world.settled(1)
    slot, said = world.slot_of("new-1"), []
    world.clear_notes()
    for _ in range(30):
        world.now_s += 2.1
        await world.look()
        said = world.slots_said()
    assert said == [f"has {slot} {n}" for n in range(2, 9)]
    world.begin("new-1")
    world.clear_notes()
    await world.minutes(2)
    assert world.kube.notes == []


async def test_a_round_comes_back_for_the_next_beat_of_a_pod_that_waits() -> None:
    world = DeploymentWorld()
    await world.up()
    world.make("new-1")
    await world.round()
    assert world.note_of("new-1") == "waits 1 -"
    told_at_s = world.now_s
    for _ in range(40):
        result = await world.look()
        assert result.requeue_after_s is not None
        world.now_s += result.requeue_after_s
        if world.now_s - told_at_s > 35:
            break
    assert world.slots_said()[-3:] == ["waits 2 -", "waits 3 -", "waits 4 -"]


async def test_two_static_groups_on_one_deployment_give_each_pod_two_slots() -> None:
    world = DeploymentWorld()
    slots = await world.up()
    world.make("new-1", scopes=(world.scope, OTHER_SCOPE), notes={OTHER_SCOPE: "uid-new-1 has web-77 1"})
    assert await replace_next(world, "old-1", "new-1") == slots["old-1"]
    assert world.slots_said(OTHER_SCOPE) == []
    assert world.note_of("new-1", OTHER_SCOPE) == "has web-77 1"
    world.begin("new-1")
    await world.minutes(3)
    assert (world.left, world.status.issues) == ([], [])


async def test_a_copy_of_a_pod_gets_no_note_and_takes_nothing_away() -> None:
    world = DeploymentWorld()
    slots = await world.up()
    note = {world.scope: f"uid-old-1 has {slots['old-1']} 1"}
    world.make("copy", owner=None, notes=note)
    world.make("new-1")
    assert await replace_next(world, "old-1", "new-1") == slots["old-1"]
    assert [pod for pod, _, _ in world.kube.notes if pod == "copy"] == []
    assert world.left == []


async def test_a_stateful_set_of_the_same_name_is_another_workload() -> None:
    world = DeploymentWorld()
    slots = await world.up()
    world.stores.put_workload(workload(2))
    for n in range(2):
        world.start(n, instance_ids=frozenset({f"web-{n}.other"}), joins=False)
    await world.settled(3)
    world.make("new-1")
    assert await replace_next(world, "old-1", "new-1") == slots["old-1"]
    assert (world.left, world.status.issues) == ([], [])


async def test_pods_of_a_deployment_are_none_of_a_stateful_set_of_the_same_name() -> None:
    world = await departing()
    await world.settled(6)
    left = list(world.left)
    helper = DeploymentWorld()
    await helper.up()
    for version in helper.kube.pods.values():
        world._happens(version)
    await world.settled(4)
    assert world.left == left
    assert world.status.issues == []
    assert world.condition("WorkloadFound")[0] == "True"
