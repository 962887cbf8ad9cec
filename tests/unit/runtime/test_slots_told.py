"""What is told of slots: Events, metrics, the audit log, and what becomes of a round that is cut between notes."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from staticgroup.core.evidence.chain import KnownPod
from staticgroup.runtime.listener import Listener
from staticgroup.runtime.work_queue import Result
from unit.core.slots.deployments import slotted, waiting
from unit.runtime.deployment_world import DeploymentWorld
from unit.runtime.operator_world import KEY
from unit.runtime.test_slots import replace_next


async def test_the_handing_out_is_told_in_one_event_and_counted() -> None:
    world = DeploymentWorld()
    await world.up()
    told = [message for _, reason, message in world.kube.events if reason == "SlotsGiven"]
    assert len(told) == 1
    assert told[0].count("which nobody had before") == 5
    world.make("new-1")
    await replace_next(world, "old-1", "new-1")
    told = [message for _, reason, message in world.kube.events if reason == "SlotsGiven"]
    assert told[1:] == [f"new-1 has slot {world.slot_of('new-1')}, of a pod that has ended"]
    metric = world.reconciler.metrics.slot_wait_seconds
    counts = {
        sample.labels["outcome"]: sample.value for family in metric.collect() for sample in family.samples
        if sample.name.endswith("_count")
    }  # fmt: skip
    assert counts == {"own": 5.0, "passed_on": 1.0}


@pytest.mark.parametrize(
    ("pod", "is_urgent"),
    [
        (waiting("new"), True),
        (waiting("new", claimed="web-1", count=1), True),
        (waiting("new", count=1), False),
        (waiting("new", given="web-1", count=2), False),
        (slotted("old", given="web-1"), False),
    ],
)
def test_a_pod_that_heard_nothing_yet_or_has_a_claim_is_looked_at_at_once(pod: KnownPod, *, is_urgent: bool) -> None:
    """Rounds, and all other notes, wait until half a second after the last, which a roll should not pay for each pod."""
    asked: list[str] = []

    def queue_of(name: str) -> SimpleNamespace:
        return SimpleNamespace(
            add=lambda key: asked.append(f"{name} now"), add_soon=lambda key: asked.append(f"{name} soon")
        )

    stores = SimpleNamespace(groups_of_workload=lambda namespace, name: {(namespace, name)} if name == "web" else ())
    reconciler = SimpleNamespace(memories=SimpleNamespace(mark_changed=lambda key: None))
    parts: Any = SimpleNamespace(
        stores=stores, queue=queue_of("round"), slot_queue=queue_of("notes"), reconciler=reconciler, is_active=True,
        journal=None, nodes=SimpleNamespace(node_of=None),
    )  # fmt: skip
    Listener(parts).pod_hooks().on_change(pod)
    assert asked == ["round soon", "notes now" if is_urgent else "notes soon"]


async def test_a_wait_is_counted_from_when_the_pod_began_to_wait() -> None:
    world = DeploymentWorld()
    await world.up()
    world.make("new-1")
    await world.settled(1, step_s=60)
    await replace_next(world, "old-1", "new-1")
    sums = [
        sample.value for family in world.reconciler.metrics.slot_wait_seconds.collect() for sample in family.samples
        if sample.name.endswith("_sum") and sample.labels["outcome"] == "passed_on"
    ]  # fmt: skip
    assert sums[0] >= 60


async def test_notes_that_were_written_before_the_lease_was_lost_are_told() -> None:
    """Many notes are written some at a time; the audit log has all that were written."""
    world = DeploymentWorld(replicas=30)
    await world.settled(2)
    world.make(*(f"new-{n:02}" for n in range(30)))
    written = world.kube.write_note

    async def write_note(*note: object) -> object:
        found = await written(*note)  # type: ignore[arg-type]
        if len(world.kube.notes) == 20:
            world.lose_lease()
        return found

    world.kube.write_note = write_note  # type: ignore[assignment, method-assign]
    await world.round()
    assert len(world.kube.notes) == 20
    told = [message for _, reason, message in world.kube.events if reason == "SlotsGiven"]
    assert len(told) == 1


async def test_a_round_that_is_cut_while_notes_are_written_begins_again() -> None:
    world = DeploymentWorld()
    await world.up()
    world.lose("old-1", "old-2")
    world.make("new-1", "new-2")

    async def cut() -> None:
        raise asyncio.CancelledError

    world.kube.before["write_note"] = cut
    with pytest.raises(asyncio.CancelledError):
        await world.round()
    await world.settled(3)
    assert world.slot_of("new-1")
    assert world.slot_of("new-2")
    assert world.slot_of("new-1") != world.slot_of("new-2")


async def test_pods_get_their_slots_while_a_round_waits_for_silent_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the members of the round before; a waiter that hears nothing for 30 s lets its pod start without an id."""
    world = DeploymentWorld()
    slots = await world.up()
    world.make("new-1")
    await world.settled(1)
    silence = asyncio.Event()
    monkeypatch.setattr(world.kafka, "describe", lambda *_: silence.wait())
    waits = asyncio.create_task(world.reconciler.reconcile(KEY))
    await asyncio.sleep(0)
    world.delete("old-1")
    await world.hand_outs.hand_out(KEY)
    assert world.note_of("new-1") == f"waits 2 {slots['old-1']}"
    world.finish("old-1")
    await world.hand_outs.hand_out(KEY)
    assert world.slot_of("new-1") == slots["old-1"]
    assert not waits.done()
    waits.cancel()


async def test_an_operator_that_begins_passes_slots_on_before_its_first_round_has_asked_the_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = DeploymentWorld()
    slots = await world.up()
    world.make("new-1")
    world.delete("old-1")
    await world.round()
    world.restart()  # a standby, whose watch was whole
    world.make("new-2")
    world.delete("old-2")
    world.finish("old-1", "old-2")
    silence = asyncio.Event()
    monkeypatch.setattr(world.kafka, "describe", lambda *_: silence.wait())
    waits = asyncio.create_task(world.reconciler.reconcile(KEY))
    for _ in range(3):
        await asyncio.sleep(0)
        await world.hand_outs.hand_out(KEY)
    assert {world.slot_of("new-1"), world.slot_of("new-2")} == {slots["old-1"], slots["old-2"]}
    waits.cancel()


async def test_nothing_is_written_twice_over_one_version_of_a_pod() -> None:
    world = DeploymentWorld()
    await world.up()
    world.lose("old-1")
    world.make("new-1")
    world.clear_notes()
    world.pods.is_lagging = True
    world.journal.clear()
    for _ in range(3):
        await world.hand_outs.hand_out(KEY)
    assert len(world.kube.notes) == [operation for operation, *_ in world.journal].count("write_note") == 1
    world.pods.deliver()
    world.now_s += 3
    await world.hand_outs.hand_out(KEY)
    assert len(world.kube.notes) == 2, "the waiter has not ended, so it hears of its slot again"


async def test_nothing_is_handed_out_before_the_first_round_nor_by_a_replica_without_the_lease() -> None:
    world = DeploymentWorld()
    await world.up()
    world.lose("old-1")
    world.make("new-1")
    world.clear_notes()
    world.lose_lease()
    assert await world.hand_outs.hand_out(KEY) == Result()
    world.is_holder = True
    world.reconciler.forget_all()
    assert await world.hand_outs.hand_out(KEY) == Result()
    assert world.kube.notes == []


async def test_a_roll_that_will_cost_more_after_a_gap_of_the_watch_is_said() -> None:
    """Who joins under a young watch may be of a pod that nobody saw, so its slot passes on to nobody."""
    world = DeploymentWorld()
    slots = await world.up()
    world.restart(watch_name="2-00000002")
    await world.settled(2)
    world.make("new-1")
    await replace_next(world, "old-1", "new-1")
    world.begin("new-1")
    await world.minutes(60)
    assert world.slot_of("new-1") == slots["old-1"]
    status, reason, message = world.condition("RollsQuietly")
    assert (status, reason) == ("False", "SlotsStay")
    assert message.startswith("1 member was first seen soon after the pod watch began anew")
    assert world.condition("Ready")[0] == "True"
