"""Any order of what processes, objects, the operator and the status can do: no LeaveGroup names a living process.

The one idea: the oracle is the process table of this test, which the operator never sees. Pods are force-deleted while
their processes live on, watches lose events, operators restart with and without a position, statuses lose parts, scales
come and go unseen, groups go back to the generation that was stored, processes join while a round reads. What the rule
assumes is kept: a process whose object is gone joins no later than `settle`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from unit.core.builders import SESSION_TIMEOUT_MS

from .operator_world import KEY, OperatorWorld

SEEDS = 120
STEPS = 45
ORDINALS_MAX = 4
SETTLE_S = 2 * SESSION_TIMEOUT_MS / 1000
"""Twice the session timeout that the pods have."""


@dataclass
class Process:
    """One container process; it has another member id whenever it joins. `gone_s`: when its object went, while it
    lived."""

    uid: str
    ordinal: int
    is_alive: bool = True
    gone_s: float | None = None
    member_ids: set[str] = field(default_factory=set)


@dataclass
class Play:
    """One world, its processes, and what may happen next."""

    rng: Random
    world: OperatorWorld
    processes: list[Process] = field(default_factory=list)
    removals: int = 0
    checked: int = 0
    done: Counter[str] = field(default_factory=Counter)

    def of_uid(self, uid: str) -> Process:
        return next(p for p in self.processes if p.uid == uid)

    def objects(self) -> list[tuple[int, str]]:
        return [(int(name.rpartition("-")[2]), v.uid) for (_, name), v in sorted(self.world.kube.pods.items())]

    def zombies(self) -> list[Process]:
        present = {uid for _, uid in self.objects()}
        return [p for p in self.processes if p.is_alive and p.uid not in present]

    # what can happen ----------------------------------------------------------------------------------------------

    def scale(self) -> None:
        self.world.scale(self.rng.randint(0, ORDINALS_MAX), in_store=self.rng.random() < 0.7)

    def control(self) -> None:
        """Let the StatefulSet controller do one thing: make a pod that is wanted, or end one that is not."""
        wanted = self.world.kube.workloads["shop", "web"].replicas
        present = dict(self.objects())
        missing = [o for o in range(wanted) if o not in present]
        surplus = [o for o in present if o >= wanted]
        if missing and (not surplus or self.rng.random() < 0.5):
            self.start(self.rng.choice(missing))
        elif surplus:
            self.end(self.rng.choice(surplus))

    def start(self, ordinal: int) -> None:
        process = Process(uid=f"u{len(self.processes)}", ordinal=ordinal)
        self.processes.append(process)
        self.world.start(ordinal, process.uid, joins=False)
        if self.rng.random() < 0.8:
            self.join(process)

    def end(self, ordinal: int) -> None:
        """End a pod as its kubelet does: the process, then its status, then the object."""
        uid = dict(self.objects())[ordinal]
        self.of_uid(uid).is_alive = False
        self.world.end(ordinal, uid)

    def end_one(self) -> None:
        if self.objects():
            self.end(self.rng.choice(self.objects())[0])

    def force_delete(self) -> None:
        """Delete an object while its process may live on, as on a node that is cut off."""
        if not self.objects():
            return
        ordinal, uid = self.rng.choice(self.objects())
        process = self.of_uid(uid)
        process.is_alive, process.gone_s = self.rng.random() < 0.8, self.world.now_s
        self.world.remove_object(ordinal)

    def join(self, process: Process | None = None) -> None:
        """Let a living process take its id from any holder."""
        living = [
            p for p in self.processes if p.is_alive and (p.gone_s is None or self.world.now_s < p.gone_s + SETTLE_S)
        ]
        process = process or (self.rng.choice(living) if living else None)
        if process is not None:
            process.member_ids.add(self.world.kafka.join(self.world.id_of(process.ordinal)))

    def zombie_ends(self) -> None:
        if self.zombies():
            self.rng.choice(self.zombies()).is_alive = False

    def die_unseen(self) -> None:
        if self.objects():
            self.of_uid(self.rng.choice(self.objects())[1]).is_alive = False

    def expire(self) -> None:
        """End the sessions of the dead, and write what is left."""
        members = self.world.kafka.members
        living = {member_id for p in self.processes if p.is_alive for member_id in p.member_ids}
        self.world.kafka.members = {i: m for i, m in members.items() if m in living}
        self.world.kafka.store()

    def store(self) -> None:
        self.world.kafka.store()

    def fail_over(self) -> None:
        number = self.rng.randint(1, 3)
        self.world.kafka.fail_over(f"{number}@10.0.0.{number}:9092")

    def join_meanwhile(self) -> None:
        """Let a process join in the middle of the next round."""
        fake, call = self.rng.choice(
            ((self.world.kafka, "leave"), (self.world.kube, "read_pod"), (self.world.pods, "barrier"))
        )
        fake.before[call] = self.join

    def replaced_unseen(self) -> None:
        """Let the last pod end and another one take its place, join and be deleted by force, all behind the watch."""
        if not self.objects():
            return
        ordinal = self.objects()[-1][0]
        self.end(ordinal)
        self.lag()
        self.start(ordinal)
        self.world.scale(ordinal)
        self.processes[-1].gone_s = self.world.now_s
        self.join(self.processes[-1])
        self.world.remove_object(ordinal)

    def lag(self) -> None:
        self.world.pods.is_lagging = True

    def deliver(self) -> None:
        self.world.pods.is_lagging = False
        self.world.pods.deliver()

    def gap(self) -> None:
        world = self.world
        world.kube.resource_version += 1
        world.pods.lose(world.kube.pods.values(), world.kube.resource_version, self.new_watch())
        world.pods.is_lagging = self.rng.random() < 0.2

    def new_watch(self) -> str:
        return f"{int(self.world.now_s)}-{self.rng.getrandbits(32):08x}"

    def restart(self) -> None:
        self.world.restart()

    def restart_without_position(self) -> None:
        self.world.kube.resource_version += 1
        self.world.restart(watch_name=self.new_watch())

    def workload_is_seen(self) -> None:
        self.world.stores.workloads["shop", "web"] = self.world.kube.workloads["shop", "web"]

    def lose_status(self) -> None:
        """Empty the status, or a part of it, as the user's backup tool or an earlier operator does."""
        body = self.world.kube.objects["staticgroups", *KEY]
        status = dict(body.get("status") or {})
        memory = dict(status.pop("memory", None) or {})
        for part in self.rng.choice((["seats"], ["suspects"], ["watch"], ["seats", "suspects"], list(memory), [])):
            memory.pop(part, None)
        body["status"] = (status if self.rng.random() < 0.8 else {}) | {"memory": memory}
        self.world.declare(body)
        self.restart_without_position()

    async def rounds(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            self.world.now_s += self.rng.choice((0.5, 2.0, 40.0))
            await self.world.round()
            for fake in (self.world.kafka, self.world.kube, self.world.pods):
                fake.before.clear()
            self.check()

    def check(self) -> None:
        leaves = self.world.kafka.leaves
        for entry, *_ in leaves[self.checked :]:
            holder = [p for p in self.processes if entry.member_id in p.member_ids]
            assert holder, "a member of nobody was removed"
            assert not holder[0].is_alive, f"{entry.instance_id} of living {holder[0].uid} after {dict(self.done)}"
            self.removals += 1
        self.checked = len(leaves)


EVENTS: tuple[tuple[Callable[[Play], None], int], ...] = (
    (Play.scale, 8), (Play.control, 30), (Play.end_one, 4), (Play.force_delete, 2), (Play.join, 5),
    (Play.zombie_ends, 4), (Play.lag, 3), (Play.deliver, 5), (Play.gap, 2), (Play.restart, 3),
    (Play.restart_without_position, 1), (Play.workload_is_seen, 5), (Play.lose_status, 1), (Play.die_unseen, 2),
    (Play.expire, 3), (Play.store, 3), (Play.fail_over, 2), (Play.join_meanwhile, 4), (Play.replaced_unseen, 2),
)  # fmt: skip


async def played(seed: int) -> Play:
    play = Play(rng=Random(seed), world=OperatorWorld(settle_s=SETTLE_S))
    await play.rounds()
    happenings, weights = [event for event, _ in EVENTS], [weight for _, weight in EVENTS]
    for _ in range(STEPS):
        (event,) = play.rng.choices(happenings, weights)
        play.done[event.__name__] += 1
        event(play)
        # Without a status nothing is injected, so no pod gets an id before the next round.
        if play.rng.random() < 0.6 or play.world.status.injected is None:
            await play.rounds()
    return play


@pytest.mark.parametrize("block", range(4))
async def test_no_order_of_events_removes_a_living_process(block: int) -> None:
    plays = [await played(seed) for seed in range(block * SEEDS // 4, (block + 1) * SEEDS // 4)]
    assert sum(p.removals for p in plays) > SEEDS // 24, "an operator that removes nobody proves nothing"
