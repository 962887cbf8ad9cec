"""How long events wait for their rounds while some brokers are tar pits: the real queue, fake brokers, virtual time.

The same events meet the same brokers twice, once with and once without tar pits, which accept and never answer; what
differs for everybody else is what the tar pits cost them. Each failed round costs the whole timeout here, as if nothing
were remembered between rounds, and what users do at the tar pits cuts back-offs short.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

from simulator.engine.loop import run
from staticgroup.core.group import GroupType, GroupView, KafkaProblem, KafkaProblemKind
from staticgroup.runtime.work_queue import Key, Result, WorkQueue

ANSWER_S = (0.05, 0.25)
"""Shortest and longest healthy round: a describe, some writes, sometimes a removal."""
GROUP_POLL_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Who is there.

    Parameters
    ----------
    connections: of these the first `tar_pits` are tar pits from `silent_from_s` on.
    is_one_namespace: all connections belong to one tenant, otherwise each has its own.
    pits_share_a_tenant: the tar pits belong to one tenant.
    timeout_s: requestTimeoutSeconds.
    events_per_s: rounds asked for at healthy connections; a quarter as many are asked for at the tar pits' groups.
    events_from_s: when what is measured begins; all StaticGroups want their first round at 0.
    """

    connections: int = 200
    tar_pits: int = 10
    groups_of_connection: int = 5
    is_one_namespace: bool = False
    pits_share_a_tenant: bool = False
    silent_from_s: float = 0.0
    timeout_s: float = 60.0
    events_per_s: float = 20.0
    events_from_s: float = 15.0
    lasts_s: float = 300.0
    concurrency: int = 32
    seed: int = 7

    def connection(self, number: int) -> Key:
        if self.is_one_namespace:
            return "shop", f"kafka{number}"
        if self.pits_share_a_tenant and number < self.tar_pits:
            return "pits", f"kafka{number}"
        return f"tenant{number}", "kafka"

    def groups(self, number: int) -> list[Key]:
        """Return the keys of a connection's StaticGroups."""
        namespace, name = self.connection(number)
        return [(namespace, f"{name}.{n}") for n in range(self.groups_of_connection)]


@dataclass(slots=True)
class FakeBrokers:
    """The one call of the Kafka gateway that a round cannot do without; how long it takes depends on group and turn."""

    scene: Scene
    are_pits_silent: bool
    silent: frozenset[Key] = frozenset()
    asked: dict[Key, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.silent = frozenset(self.scene.connection(n) for n in range(self.scene.tar_pits))

    async def describe(self, key: Key, connection: Key) -> GroupView | KafkaProblem:
        """Read a group, or give up after the timeout."""
        turn = self.asked[key] = self.asked.get(key, 0) + 1
        now_s = asyncio.get_running_loop().time()
        if self.are_pits_silent and connection in self.silent and now_s >= self.scene.silent_from_s:
            await asyncio.sleep(self.scene.timeout_s)
            return KafkaProblem(kind=KafkaProblemKind.UNREACHABLE, message="no answer")
        await asyncio.sleep(Random(f"{self.scene.seed}/{key}/{turn}").uniform(*ANSWER_S))
        return GroupView(group_id=key[1], group_type=GroupType.CLASSIC, state="Stable", coordinator="1@kafka:9092")


@dataclass(slots=True)
class Waits:
    """Seconds from each event of a healthy connection to the begin and to the end of the round that answers it."""

    begun_s: list[float] = field(default_factory=list)
    ended_s: list[float] = field(default_factory=list)
    never: int = 0


def p99(values: list[float]) -> float:
    """Return the 99th percentile."""
    return sorted(values)[len(values) * 99 // 100]


async def _play(scene: Scene, *, are_pits_silent: bool) -> Waits:
    brokers, waits = FakeBrokers(scene, are_pits_silent), Waits()
    asked: dict[Key, list[float]] = {}
    loop = asyncio.get_running_loop()

    def connection_of(key: Key) -> Key:
        return key[0], key[1].partition(".")[0] if scene.is_one_namespace or key[0] == "pits" else "kafka"

    async def work(key: Key) -> Result:
        answered, began_s = asked.pop(key, []), loop.time()
        described = await brokers.describe(key, connection_of(key))
        waits.begun_s += [began_s - at for at in answered]
        waits.ended_s += [loop.time() - at for at in answered]
        return Result(requeue_after_s=GROUP_POLL_S, failed=isinstance(described, KafkaProblem))

    queue = WorkQueue(work, concurrency=scene.concurrency, lane_of=connection_of, deadline_s=90.0)
    queue.start()
    numbers = range(scene.connections)
    for number in numbers:
        for key in scene.groups(number):
            queue.add(key)
    events, pit_events = Random(f"{scene.seed}/events"), Random(f"{scene.seed}/pits")
    healthy = [key for n in numbers[scene.tar_pits :] for key in scene.groups(n)]
    in_pits = [key for n in numbers[: scene.tar_pits] for key in scene.groups(n)]

    async def trouble_pits() -> None:
        while in_pits:
            await asyncio.sleep(pit_events.expovariate(scene.events_per_s / 4))
            queue.add(pit_events.choice(in_pits))

    troubling = asyncio.create_task(trouble_pits())
    await asyncio.sleep(scene.events_from_s)
    while loop.time() < scene.lasts_s:
        await asyncio.sleep(events.expovariate(scene.events_per_s))
        key = events.choice(healthy)
        asked.setdefault(key, []).append(loop.time())
        queue.add(key)
    await asyncio.sleep(5.0)
    waits.never = sum(len(at) for at in asked.values())
    troubling.cancel()
    await queue.stop()
    return waits


def play(scene: Scene, *, are_pits_silent: bool) -> Waits:
    """Let a scene happen in virtual time; the same scene gives the same waits each time."""
    return run(lambda: _play(scene, are_pits_silent=are_pits_silent), seed=scene.seed, is_fifo=True)


SCENES = {
    "10 of 200, each a tenant": Scene(),
    "10 of 200, many events": Scene(events_per_s=80.0),
    "10 of 200, one tenant": Scene(is_one_namespace=True),
    "10 of 200, silent suddenly": Scene(silent_from_s=100.0),
    "200 of one tenant, 190 others": Scene(
        connections=390, tar_pits=200, pits_share_a_tenant=True, events_from_s=100.0
    ),
}
