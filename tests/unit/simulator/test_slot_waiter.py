"""A pod of a Deployment waits for its slot, and starts with it or without.

Restates: operator/slot_waiter/main_test.go (what a note says, the silence, a sandbox that is made anew).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from simulator.engine.loop import run
from simulator.kubernetes.node import slot_waiter
from simulator.kubernetes.node.slot_waiter import SILENCE_S, given_in
from simulator.kubernetes.objects import PODS, is_true, uid_of

from .plain_world import INSTANCE_ID
from .slot_world import SCOPE, SlotWorld

ID = f"orders-7.{SCOPE}"


def waiting(test: Callable[[SlotWorld], Awaitable[None]]) -> Callable[[], None]:
    """Run a test in a world whose only pod waits."""

    async def main() -> None:
        world = SlotWorld()
        world.deploy()
        await world.waits()
        await test(world)

    def played() -> None:
        run(main, seed=1, until_s=10_000.0)

    played.__name__, played.__doc__ = test.__name__, test.__doc__
    return played


@pytest.fixture
def _every_note_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_waiter, "MISSED_SHARE", 0.0)


pytestmark = pytest.mark.usefixtures("_every_note_is_seen")


@waiting
async def test_container_starts_with_the_id_once_the_note_gives_a_slot(world: SlotWorld) -> None:
    pod = world.only
    world.write(pod, "waits 1 orders-7")
    await asyncio.sleep(10)
    assert world.environment(pod) is None
    world.write(pod, "has orders-7")
    await world.until(lambda: world.environment(pod) is not None, 3.0)
    assert world.environment(pod) == {INSTANCE_ID: ID}
    assert world.waiter_state(world.only)["terminated"]["exitCode"] == 0
    await world.until(lambda: is_true(world.only, "Ready"))


@waiting
async def test_container_starts_without_an_id_after_a_silence(world: SlotWorld) -> None:
    """The key is not in the file, and the variable is optional: it is not set at all."""
    pod, began_s = world.only, world.loop.time()
    await world.until(lambda: world.environment(pod) is not None, SILENCE_S + 3.0)
    assert world.loop.time() - began_s > SILENCE_S - 2
    assert world.environment(pod) == {}


@waiting
async def test_each_new_note_begins_the_silence_anew(world: SlotWorld) -> None:
    pod = world.only
    for count in range(5):
        await asyncio.sleep(SILENCE_S - 5)
        assert world.environment(pod) is None
        world.write(pod, f"waits {count} -")
    await asyncio.sleep(SILENCE_S + 5)
    assert world.environment(pod) == {}


@waiting
async def test_note_of_another_pod_counts_for_nothing(world: SlotWorld) -> None:
    pod = world.only
    world.write(pod, "has orders-7", uid="00000000-another")
    await asyncio.sleep(SILENCE_S + 5)
    assert world.environment(pod) == {}


@waiting
async def test_note_that_comes_too_late_changes_nothing_until_the_sandbox_is_made_anew(world: SlotWorld) -> None:
    pod = world.only
    await asyncio.sleep(SILENCE_S + 5)
    world.write(pod, "has orders-7")
    world.processes.exit(uid_of(pod), "app", 1)
    await world.until(lambda: world.environment(pod) is not None, 60)
    assert world.environment(pod) == {}


@waiting
async def test_container_that_is_restarted_reads_the_file_again(world: SlotWorld) -> None:
    pod = world.only
    world.write(pod, "has orders-7 3")
    await world.until(lambda: world.environment(pod) is not None, 3.0)
    world.processes.exit(uid_of(pod), "app", 1)
    await world.until(lambda: world.environment(pod) is not None, 60)
    assert world.environment(pod) == {INSTANCE_ID: ID}


@waiting
async def test_booted_machine_runs_the_waiter_again_for_the_same_slot(world: SlotWorld) -> None:
    """Volume and file are in memory; the note is an annotation, so the pod gets its slot again."""
    pod = world.only
    world.write(pod, "has orders-7")
    await world.until(lambda: world.environment(pod) is not None, 3.0)
    world.cluster.nodes[pod["spec"]["nodeName"]].reboot(5)
    await world.until(lambda: world.environment(pod) is None, 1.0)
    await world.until(lambda: world.environment(pod) is not None, 20)
    assert world.environment(pod) == {INSTANCE_ID: ID}
    (shown,) = world.only["status"]["initContainerStatuses"]
    assert shown["restartCount"] == 1
    assert uid_of(world.only) == uid_of(pod)


@waiting
async def test_restarted_kubelet_goes_on_with_the_waiter_that_runs(world: SlotWorld) -> None:
    pod, began_s = world.only, world.loop.time()
    node = world.cluster.nodes[pod["spec"]["nodeName"]]
    await asyncio.sleep(SILENCE_S - 10)
    node.restart_kubelet(1.0)
    await world.until(lambda: world.environment(pod) is not None, 20)
    assert world.loop.time() - began_s < SILENCE_S + 5, "the silence goes on"
    (shown,) = world.only["status"]["initContainerStatuses"]
    assert shown["restartCount"] == 0


@waiting
async def test_waiter_of_a_pod_that_a_restarted_kubelet_rejects_is_ended(world: SlotWorld) -> None:
    node = world.cluster.nodes[world.only["spec"]["nodeName"]]
    rejected = uid_of(world.only)
    node.rejections = 1
    node.restart_kubelet(1.0)
    await world.until(lambda: all(uid != rejected for uid, _ in node.waiters.running), 20)
    assert {uid_of(pod): pod["status"].get("phase") for pod in world.pods}[rejected] == "Failed"


@waiting
async def test_node_that_is_cut_off_sees_no_note(world: SlotWorld) -> None:
    pod = world.only
    node = world.cluster.nodes[pod["spec"]["nodeName"]]
    node.cut()
    world.write(pod, "has orders-7")
    await asyncio.sleep(10)
    assert world.environment(pod) is None
    node.heal()
    await world.until(lambda: world.environment(pod) is not None, 3.0)
    assert world.environment(pod) == {INSTANCE_ID: ID}


@waiting
async def test_kubelet_that_stands_still_for_a_silence_starts_the_container_without_an_id(world: SlotWorld) -> None:
    pod = world.only
    node = world.cluster.nodes[pod["spec"]["nodeName"]]
    node.freeze_kubelet()
    world.write(pod, "has orders-7")
    await asyncio.sleep(SILENCE_S + 5)
    assert world.environment(pod) is None
    node.thaw_kubelet()
    await world.until(lambda: world.environment(pod) is not None, 3.0)
    assert world.environment(pod) == {}


@waiting
async def test_waiting_pod_that_is_deleted_ends_at_once_and_never_ran(world: SlotWorld) -> None:
    """The waiter ends by itself on SIGTERM, with code 0; what is behind it shows no run."""
    pod = world.only
    versions: list[dict[str, Any]] = []
    world.server.observers.append(
        lambda resource, event: versions.append(event.current or {}) if resource == PODS else None
    )
    world.users.delete_pod("shop", pod["metadata"]["name"])
    await world.until(lambda: uid_of(pod) not in {uid_of(each) for each in world.pods}, 5.0)
    last = [each for each in versions if each and uid_of(each) == uid_of(pod)][-1]
    assert last["status"]["phase"] in ("Failed", "Succeeded")
    assert last["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    (shown,) = last["status"]["containerStatuses"]
    assert "containerID" not in shown
    assert (uid_of(pod), "app") not in world.processes.running


@waiting
async def test_change_that_the_kubelet_misses_is_seen_with_the_next_one(world: SlotWorld) -> None:
    pod = world.only
    await asyncio.sleep(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slot_waiter, "MISSED_SHARE", 1.0)
        world.write(pod, "has orders-7")
    await asyncio.sleep(10)
    assert world.environment(pod) is None
    world.write(pod, "has orders-7 2")
    await world.until(lambda: world.environment(pod) is not None, 3.0)
    assert world.environment(pod) == {INSTANCE_ID: ID}


@waiting
async def test_pod_that_goes_by_force_takes_its_waiter_with_it(world: SlotWorld) -> None:
    pod = world.only
    node = world.cluster.nodes[pod["spec"]["nodeName"]]
    world.users.delete_pod("shop", pod["metadata"]["name"], grace_s=0)
    await asyncio.sleep(SILENCE_S + 5)
    assert not any(uid == uid_of(pod) for uid, _ in node.waiters.running)
    assert (uid_of(pod), "app") not in world.processes.running


@pytest.mark.parametrize(
    ("note", "slot"),
    [
        ("has orders-7", "orders-7"), ("has orders-7 3", "orders-7"), ("waits 1 orders-7", ""), ("waits 1 -", ""),
        ("has", ""), ("has orders-7 3 4", ""), ("", ""),
    ],
)  # fmt: skip
def test_note_gives_a_slot_in_two_words_or_three(note: str, slot: str) -> None:
    assert given_in(note) == slot
