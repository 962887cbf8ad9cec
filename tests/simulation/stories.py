"""Fifteen short histories that show what StaticGroup does and what it leaves alone; their traces are documentation.

Each is one world from its own seed. The text shows the StaticGroup's status beside every action.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

from simulator.engine.log_capture import captured_logs
from simulator.engine.loop import run as run_simulation
from simulator.kafka.requests import AppliedLeave
from simulator.kubernetes.objects import PODS, STATIC_GROUPS, is_true, uid_of
from simulator.kubernetes.watch_log import Event
from simulator.schedules.changes import Changes, protocol_spec, spec_without_ids, taken_back
from simulator.schedules.drawn_changes import Change, ChangeKind
from simulator.world.settings import plain_team
from simulator.world.world import GROUP, NAMESPACE, WORKLOAD, World, WorldSettings
from support.narrowing import some

SESSION_S = 30
WITHIN_S = 240.0
AFTER_S = 5.0
"""How long a story goes on after what it waited for."""
UNTIL_S = 3000.0

Tell = Callable[[World], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One history.

    Parameters
    ----------
    removals: members that the operator removed. releases: those that it let go for a while.
    removal: as in the spec of the StaticGroup.
    rebalances: rounds of the group after everything was up.
    """

    name: str
    title: str
    tell: Tell
    removals: int
    rebalances: int
    protocol: str = "classic"
    replicas: int = 2
    releases: int = 0
    removal: str = "Departed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A story that was played.

    Parameters
    ----------
    text: its title and its trace.
    violations: what the oracles found.
    """

    text: str
    removals: int
    releases: int
    rebalances: int
    violations: tuple[str, ...]


async def _first_install(world: World) -> None:
    """Everything that `bring_up` has done is the story."""
    await asyncio.sleep(0)


async def _roll(world: World) -> None:
    before = {uid_of(pod) for pod in world.server.list(PODS, NAMESPACE)}
    world.users.roll(NAMESPACE, WORKLOAD)
    await world.until(lambda: _all_new(world, before), WITHIN_S, "every pod is replaced and ready")
    await world.until(world.is_settled, WITHIN_S, "all pods are members")


def _all_new(world: World, before: set[str]) -> bool:
    pods = world.server.list(PODS, NAMESPACE)
    return (
        len(pods) == world.settings.replicas
        and all(is_true(p, "Ready") for p in pods)
        and not before & {uid_of(p) for p in pods}
    )


async def _scale_down(world: World) -> None:
    last = world.settings.replicas - 1
    world.users.scale(NAMESPACE, WORKLOAD, last)
    await _gone(world, last)


async def _gone(world: World, ordinal: int) -> None:
    departed = world.id_of(ordinal)
    await world.until(lambda: departed not in world.members(), WITHIN_S, f"{departed} is no member any more")


async def _flap(world: World) -> None:
    world.users.scale(NAMESPACE, WORKLOAD, 2)
    await asyncio.sleep(0.5)
    world.users.scale(NAMESPACE, WORKLOAD, 3)
    await asyncio.sleep(20.0)
    await world.until(world.is_settled, WITHIN_S, "all pods are members")


async def _crash_in_place(world: World) -> None:
    pod = some(world.kubernetes.pod(NAMESPACE, f"{WORKLOAD}-1"))
    world.processes.signal(uid_of(pod), "app", "KILL")
    await asyncio.sleep(12.0)
    await world.until(world.is_settled, WITHIN_S, "all pods are members")


async def _crash_with_release(world: World) -> None:
    """The pod has run for a minute before, as pods mostly have when they crash."""
    await asyncio.sleep(60.0)
    ghost = world.members()[world.id_of(1)]
    await _crash_in_place(world)
    await world.until(lambda: world.members().get(world.id_of(1), ghost) != ghost, WITHIN_S, "the restart has joined")


async def _force_delete(world: World) -> None:
    node = some(world.kubernetes.node_of(NAMESPACE, f"{WORKLOAD}-1"))
    node.freeze_kubelet()
    world.users.scale(NAMESPACE, WORKLOAD, 1)
    world.users.delete_pod(NAMESPACE, f"{WORKLOAD}-1", grace_s=0)
    await asyncio.sleep(40.0)
    assert world.id_of(1) in world.members()
    node.thaw_kubelet()
    await _gone(world, 1)


async def _partition(world: World) -> None:
    node = some(world.kubernetes.node_of(NAMESPACE, f"{WORKLOAD}-1"))
    node.cut()
    world.users.scale(NAMESPACE, WORKLOAD, 1)
    await asyncio.sleep(60.0)
    assert world.id_of(1) in world.members()
    node.heal()
    await _gone(world, 1)


async def _fail_over(world: World) -> None:
    def lose(applied: AppliedLeave) -> None:
        if not world.coordinator_epoch:
            world.coordinator_epoch += 1
            world.loop.world_call_later(0.003, lambda: world.kafka.fail_over(GROUP, is_clean=False, outage_s=0.5))

    world.kafka.on_applied.append(lose)
    world.users.scale(NAMESPACE, WORKLOAD, 1)
    await world.until(lambda: world.coordinator_epoch, WITHIN_S, "the member is removed")
    await asyncio.sleep(1.0)
    await _gone(world, 1)


async def _watch_gap(world: World) -> None:
    world.crash_operator(world.living[0])
    world.users.scale(NAMESPACE, WORKLOAD, 1)
    await asyncio.sleep(10.0)
    world.server.compact(PODS)
    world.start_operator()
    await _gone(world, 1)


async def _protocol_and_back(world: World) -> None:
    """As in the guide: first the StaticGroup names the new protocol, then the pods are rolled to it."""
    people, before = Changes(world, Random("story")), world.team.spec
    there = protocol_spec(before, "consumer")
    back = {key: before.get(key) for key in there}
    for spec, spoken in ((there, "consumer"), (back, "")):
        pods = {uid_of(pod) for pod in world.server.list(PODS, NAMESPACE)}
        await people.roll_out(ChangeKind.PROTOCOL, spec, client_protocol=spoken)
        are_new = partial(_all_new, world, pods)
        await world.until(are_new, WITHIN_S, "every pod is replaced and ready")
        await world.until(world.is_settled, WITHIN_S, "all pods are members")
        await asyncio.sleep(20.0)


async def _dynamic_and_static_again(world: World) -> None:
    people, before = Changes(world, Random("story")), world.team
    without = spec_without_ids(before)
    await people.roll_out(ChangeKind.DYNAMIC, without)
    await world.until(lambda: not world.members(), WITHIN_S, "the seats that were left behind have expired")
    assert world.member_count() == world.settings.replicas
    await people.roll_out(ChangeKind.DYNAMIC, taken_back(before.spec, without))
    await world.until(world.is_settled, WITHIN_S, "all pods are members")


async def _copied_id(world: World) -> None:
    people = Changes(world, Random("story"))
    await people.carry_out(Change(kind=ChangeKind.COPY, after_s=1.0, lasts_s=40.0))
    await asyncio.sleep(60.0)
    await world.until(world.is_settled, WITHIN_S, "all pods are members")


STORIES: tuple[Story, ...] = (
    Story(
        name="01-first-install", title="A StaticGroup is created, ids are issued, and the first pods join with them.",
        tell=_first_install, removals=0, rebalances=0,
    ),
    Story(
        name="02-quiet-roll-classic",
        title="Every pod of a classic group is replaced; each comes back under its id and nobody else notices.",
        tell=_roll, removals=0, rebalances=0,
    ),
    Story(
        name="03-quiet-roll-kip848",
        title="The same in a KIP-848 group: members leave for a while (epoch -2) and come back.", tell=_roll,
        removals=0, rebalances=0, protocol="consumer",
    ),
    Story(
        name="04-scale-down",
        title="The last pod goes, its kubelet writes down that it ended, and its member is removed at once.",
        tell=_scale_down, removals=1, rebalances=1,
    ),
    Story(
        name="05-flap",
        title="3 to 2 and back to 3 within half a second: the id is wanted again, and nobody is removed.", tell=_flap,
        removals=0, rebalances=0, replicas=3,
    ),
    Story(
        name="06-crash-in-place",
        title="A process crashes and is restarted in its pod; the pod is wanted, so its member is left alone.",
        tell=_crash_in_place, removals=0, rebalances=0,
    ),
    Story(
        name="07-force-delete",
        title="A pod is force-deleted while its process lives: its end is unseen, so its member is held.",
        tell=_force_delete, removals=0, rebalances=1,
    ),
    Story(
        name="08-node-partition",
        title="A node is cut off during a scale-down: the member is held, and removed when the kubelet is back.",
        tell=_partition, removals=1, rebalances=1,
    ),
    Story(
        name="09-fail-over",
        title="The coordinator loses an acknowledged removal: the member is back, and is removed again.",
        tell=_fail_over, removals=2, rebalances=1,
    ),
    Story(
        name="10-watch-gap",
        title="A pod ends while the operator is away and the watch is compacted: the session runs out.",
        tell=_watch_gap, removals=0, rebalances=1,
    ),
    Story(
        name="11-crash-release-kip848",
        title="A process of a KIP-848 group crashes: its ghost is released before the restart asks for the seat.",
        tell=_crash_with_release, removals=0, rebalances=0, protocol="consumer", releases=1,
        removal="DepartedAndCrashed",
    ),
    Story(
        name="12-crash-report-kip848",
        title="The same where it is only reported: the restart is refused until the session of the ghost has expired.",
        tell=_crash_with_release, removals=0, rebalances=2, protocol="consumer",
    ),
    Story(
        name="13-protocol-and-back",
        title="Classic clients are rolled to KIP-848 ones and back: each takes over a seat of the other protocol.",
        tell=_protocol_and_back, removals=0, rebalances=0,
    ),
    Story(
        name="14-dynamic-and-static-again",
        title="Pods are rolled without ids, then with them: the seats are wanted, so they expire and are not removed.",
        tell=_dynamic_and_static_again, removals=0, rebalances=4,
    ),
    Story(
        name="15-copied-id",
        title="A second workload has a copy of an id: the two refuse each other, the status says so, none is removed.",
        tell=_copied_id, removals=0, rebalances=0, protocol="consumer",
    ),
)


@dataclass(slots=True)
class _Chronicle:
    """Traces what a StaticGroup's status says, whenever that changes."""

    world: World
    before: str = ""

    def observe(self, resource: str, event: Event) -> None:
        """Note one write at the API server."""
        if resource != STATIC_GROUPS or event.current is None:
            return
        status = event.current.get("status") or {}
        ready = next((c["reason"] for c in status.get("conditions") or [] if c["type"] == "Ready"), "")
        members = status.get("members") or {}
        held = [f"{e.get('instanceId') or e.get('podName')}:{e['reason']}" for e in status.get("issues") or []]
        facts = {
            "ready": ready,
            "joined": members.get("joined"),
            "scope": (status.get("injected") or {}).get("scope"),
            "issues": held or None,
        }
        if repr(facts) != self.before:
            self.before = repr(facts)
            self.world.trace.add(event.at_s, f"status/{GROUP}", "says", **facts)


@dataclass(slots=True)
class _Run:
    """One story while it lasts."""

    story: Story
    world: World | None = None
    rounds: int = 0

    async def main(self) -> None:
        settings = WorldSettings(
            protocol=self.story.protocol, replicas=self.story.replicas, partitions=6, session_timeout_s=SESSION_S,
            heartbeat_s=3.0, nodes=("n1", "n2", "n3"),
        )
        team = plain_team(settings)
        settings = replace(settings, team=replace(team, spec=team.spec | {"removal": self.story.removal}))
        world = self.world = World(settings, seed=self.story.name)
        world.server.observers.append(_Chronicle(world).observe)
        await world.populate()
        await asyncio.sleep(AFTER_S)
        self.rounds = len(world.meter.rounds)
        await self.story.tell(world)
        await asyncio.sleep(AFTER_S)


def play(story: Story) -> Played:
    """Play one story.

    Raises
    ------
    AssertionError: it did not come to its end.
    """
    run = _Run(story)
    with captured_logs():
        run_simulation(run.main, seed=story.name, until_s=UNTIL_S)
    world = some(run.world)
    return Played(
        text=f"{story.title}\n\n{world.trace.text()}", removals=world.safety.removals, releases=world.safety.releases,
        rebalances=len(world.meter.rounds) - run.rounds, violations=tuple(str(v) for v in world.violations),
    )
