"""Short histories in which a process lives on although its id is not wanted: each needs one clause of the rule, or a
member is removed alive.

Clients are those of librdkafka, which stay silent once they are fenced, so the last holder of a seat keeps it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from simulation.fault_world import begin, in_world, pod
from simulator.faults.ambushes import READS_INTENT
from simulator.faults.control_plane import BUMP
from simulator.faults.heirs import lose_pod, wait_for_heir
from simulator.faults.memory import write_status
from simulator.faults.registry import restore_etcd
from simulator.kubernetes.objects import PODS, uid_of
from simulator.kubernetes.watch_log import Event
from simulator.schedules.changes import Changes
from simulator.schedules.drawn_changes import Change, ChangeKind
from simulator.world.settings import WorldSettings, plain_team
from simulator.world.teams import GROUP, NAMESPACE, WORKLOAD
from simulator.world.world import World
from staticgroup.core.members.node_gone import WATCHED_S
from support.narrowing import some

LAST = f"{WORKLOAD}-2"
WITHIN_S = 90.0
HELD_FOR_S = 40.0
"""Longer than a poll interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One history of a world of three pods.

    Parameters
    ----------
    settings: of the world.
    """

    name: str
    play: Callable[[World], Awaitable[None]]
    settings: dict[str, Any] = field(default_factory=dict)

    def run(self) -> World:
        """Play it in a world that is up, and return the world."""
        return in_world(self.play, **{"library": "librdkafka", **self.settings})


async def lose(world: World) -> str:
    """Cut off the node of the last pod and delete that by force; return its uid."""
    found = pod(world, 2)
    node = some(world.kubernetes.node_of(NAMESPACE, LAST))
    lose_pod(world, node, LAST)
    return uid_of(found)


async def heir_joins(world: World, before: str) -> None:
    """Wait until another pod has the name and the seat of a lost one."""
    await wait_for_heir(world, LAST)

    def has_joined() -> bool:
        member = next((m for i, m in world.members().items() if i.startswith(LAST)), "")
        process = world.processes.creator(member) if member else None
        return process is not None and process.pod_uid != before

    await world.until(has_joined, WITHIN_S, "the heir has joined")


async def takes_its_seat_back(world: World, uid: str) -> None:
    """Let the process of a lost pod start anew where it is, and so fence its heir."""
    world.processes.signal(uid, world.team.container, "KILL")

    def holds() -> bool:
        creators = (world.processes.creator(m) for m in world.members().values())
        return any(c is not None and c.pod_uid == uid for c in creators)

    await world.until(holds, WITHIN_S, "it holds its seat again")


async def lost_and_unwanted(world: World) -> None:
    node = some(world.kubernetes.node_of(NAMESPACE, LAST))
    node.cut()
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    world.users.delete_pod(NAMESPACE, LAST, grace_s=0)
    await asyncio.sleep(HELD_FOR_S)


async def lost_beside_its_heir(world: World) -> None:
    """The lost process is a suspect when its next member joins, and the heir is the one that ends."""
    await asyncio.sleep(20)
    lost = await lose(world)
    await heir_joins(world, lost)
    await takes_its_seat_back(world, lost)
    await asyncio.sleep(HELD_FOR_S)
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(HELD_FOR_S)


async def _come_and_lost_unseen(world: World) -> None:
    """Let a pod of the last seat come while no operator runs, and be lost beside an heir whose seat it has taken; the
    history is gone."""
    world.users.scale(NAMESPACE, WORKLOAD, 3)
    await heir_joins(world, "")
    lost = await lose(world)
    await heir_joins(world, lost)
    await takes_its_seat_back(world, lost)
    world.server.compact(PODS)


async def lost_while_nobody_looked(world: World) -> None:
    (running,) = world.living
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await world.until(world.is_settled, WITHIN_S, "seat 2 is empty")
    await asyncio.sleep(HELD_FOR_S)
    world.crash_operator(running)
    await _come_and_lost_unseen(world)
    world.restart_operator(running.name)
    await asyncio.sleep(HELD_FOR_S)
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(HELD_FOR_S)


async def lost_before_the_status_was_emptied(world: World) -> None:
    """The scope follows from the StaticGroup, so its ids outlive the memory that they were issued."""
    (running,) = world.living
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await world.until(world.is_settled, WITHIN_S, "seat 2 is empty")
    world.crash_operator(running)
    await _come_and_lost_unseen(world)
    write_status(world, {})
    world.restart_operator(running.name)
    await asyncio.sleep(HELD_FOR_S)
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(HELD_FOR_S)


async def lost_behind_a_slow_watch(world: World) -> None:
    """The original has ended and a second pod was lost before their events arrive; the group is read at once."""
    await asyncio.sleep(20)
    (running,) = world.living
    faults = running.transport.link.faults
    faults.watch_delay_s = 60.0
    before = uid_of(pod(world, 2))
    world.users.delete_pod(NAMESPACE, LAST)
    await heir_joins(world, before)
    lost = uid_of(pod(world, 2))
    await asyncio.sleep(31)
    node = some(world.kubernetes.node_of(NAMESPACE, LAST))
    node.cut()
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    world.users.delete_pod(NAMESPACE, LAST, grace_s=0)
    faults.watch_delay_s = 0.0
    await asyncio.sleep(2 * HELD_FOR_S)
    assert any(p.pod_uid == lost for p in world.processes.running())


async def copied_out_of_the_cluster(world: World) -> None:
    """Another process uses the id of the last pod, which then is no longer wanted; the watch is whole for long."""
    await asyncio.sleep(world.settings.settle_s + 10)

    class Last(Random):
        def random(self) -> float:
            return 0.0

        def choice(self, seq: Any) -> Any:
            return max(seq, key=lambda process: process.pod_name)

    await Changes(world, Last()).carry_out(Change(kind=ChangeKind.OUTSIDER, after_s=5.0, lasts_s=150.0))


async def failed_by_a_kubelet_that_runs_it(world: World) -> None:
    begin(world, "kubelet_rejects_running_pods")
    await asyncio.sleep(HELD_FOR_S)


async def node_deleted_by_anybody(world: World) -> None:
    await asyncio.sleep(WATCHED_S + 10)
    node = some(world.kubernetes.node_of(NAMESPACE, LAST))
    await lost_and_unwanted(world)
    world.users.delete_node(node.name)
    await asyncio.sleep(HELD_FOR_S)


async def node_forgotten_by_a_restored_etcd(world: World) -> None:
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await world.until(world.is_settled, WITHIN_S, "seat 2 is empty")
    backup = world.server.backup()
    node = world.kubernetes.add_node("n9")
    for name in world.settings.nodes:
        world.users.cordon(name)
    world.users.scale(NAMESPACE, WORKLOAD, 3)
    await world.until(world.is_settled, WITHIN_S, "seat 2 has a pod")
    await asyncio.sleep(WATCHED_S + 10)
    node.cut()
    world.users.delete_pod(NAMESPACE, LAST, grace_s=0)
    await asyncio.sleep(1)
    restore_etcd(world, backup, bump=BUMP)
    await asyncio.sleep(2 * HELD_FOR_S)


async def bound_twice_by_a_restored_etcd(world: World) -> None:
    taken: list[Any] = []

    def take(resource: str, event: Event) -> None:
        if resource == PODS and event.previous is None and event.current is not None:
            taken.append(world.server.backup())

    world.server.observers.append(take)
    world.users.delete_pod(NAMESPACE, LAST)
    await world.until(lambda: taken, WITHIN_S, "it is made again")
    await world.until(world.is_settled, WITHIN_S, "it has joined")
    await asyncio.sleep(HELD_FOR_S)
    uid, first = uid_of(pod(world, 2)), world.kubernetes.node_of(NAMESPACE, LAST)
    assert first is not None
    first.cut()
    restore_etcd(world, taken[0])
    world.users.cordon(first.name)
    elsewhere = [m.host for m in world.kubernetes.machines if m is not first]
    await world.until(
        lambda: any(world.processes.is_running(uid, "app", node=n) for n in elsewhere), WITHIN_S, "another node runs it"
    )
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(3 * HELD_FOR_S)


async def removed_and_wanted_no_more(world: World) -> None:
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(HELD_FOR_S)


async def _scaled_down_after(world: World, spec: dict[str, Any]) -> None:
    world.users.edit_group(NAMESPACE, GROUP, spec)
    await asyncio.sleep(HELD_FOR_S)
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(HELD_FOR_S)


async def holder_that_stood_still(world: World) -> None:
    world.restart_operator("operator-b")
    await asyncio.sleep(HELD_FOR_S)
    holder = some(world.leader())

    def freeze(verb: str, label: str) -> None:
        if (verb, label) == READS_INTENT:
            holder.transport.link.on_request.remove(freeze)
            holder.process.freeze()
            world.loop.world_call_later(60.0, holder.process.thaw)

    holder.transport.link.on_request.append(freeze)
    for other in world.living:
        if other is not holder:
            other.gateway.link.is_cut = True  # it takes over, and the member is still there
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(3 * HELD_FOR_S)


def _by_hand(**ids: Any) -> dict[str, Any]:
    plain = plain_team(WorldSettings(session_timeout_s=600, parallel=True))
    return {"team": replace(plain, spec=plain.spec | {"client": {"type": "Own"}, **ids}, is_by_hand=True)}


LONG = {"session_timeout_s": 600}
"""So that no session ends before the scene does."""
SCENES = {
    scene.name: scene
    for scene in (
        Scene(name="lost and unwanted", play=lost_and_unwanted, settings=LONG),
        Scene(name="lost beside its heir", play=lost_beside_its_heir, settings=LONG),
        Scene(name="lost while nobody looked", play=lost_while_nobody_looked, settings=LONG),
        Scene(
            name="lost before the status was emptied", play=lost_before_the_status_was_emptied,
            settings=_by_hand(idTemplate="{podName}.{scope}") | {"settle_s": 600.0},
        ),
        Scene(name="lost behind a slow watch", play=lost_behind_a_slow_watch, settings=LONG),
        Scene(
            name="copied out of the cluster", play=copied_out_of_the_cluster,
            settings=_by_hand(idTemplate="{podName}") | {"settle_s": 600.0},
        ),
        Scene(name="failed by a kubelet that runs it", play=failed_by_a_kubelet_that_runs_it, settings=LONG),
        Scene(name="node deleted by anybody", play=node_deleted_by_anybody, settings=LONG),
        Scene(
            name="node forgotten by a restored etcd", play=node_forgotten_by_a_restored_etcd,
            settings=LONG | {"provider": "aws", "node_lifecycle": "Auto"},
        ),
        Scene(name="bound twice by a restored etcd", play=bound_twice_by_a_restored_etcd, settings=LONG),
        Scene(name="removed", play=removed_and_wanted_no_more, settings=LONG),
        Scene(name="suspended", play=partial(_scaled_down_after, spec={"mode": "Suspended"}), settings=LONG),
        Scene(name="observed", play=partial(_scaled_down_after, spec={"mode": "Observe"}), settings=LONG),
        Scene(name="holder that stood still", play=holder_that_stood_still, settings=LONG),
    )
}
