"""Schedules: ten virtual minutes and more of a busy workload with many faults, all drawn from one seed.

The same seed is the same history, so a failure is replayed by one command. After the last fault everything is healed
and the world is left alone, long enough for sessions to run out: then the liveness oracles are asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from ..engine.log_capture import captured_logs
from ..engine.loop import run as run_simulation
from ..faults import FAULTS, Fault, carry_out
from ..oracles.promises import Breach, Violation
from ..world.rest import violations_at_rest
from ..world.world import World
from .drawing import draw_world
from .drawn_changes import ChangeKind
from .installation import Town
from .repository import APPLIED_AGAIN, repository_source

BUSY_S = 600.0
FAULTS_MIN, FAULTS_MAX, KINDS_MIN = 8, 14, 4
BESIDE_SHARE = 0.4
SETTLE_S = 150.0
"""After the last healing: node controllers, back-off and re-elections come to rest."""
ROLLS_WITHIN_S = 3_600.0
"""Then every roll has ended: a new pod may wait five minutes for the slot of one that the roll does not end."""
QUIET_S = 60.0
"""At the end: time in which nothing may be written to Kafka."""
UNTIL_S = 20_000.0
PASSED_ON = "slot passed from pod to pod"
HELD = ("Held", "Suspect", "Zombie")
"""Kinds of issues in the status by which the operator says that it lets a departed member be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one schedule.

    Parameters
    ----------
    breaches: live members that were removed because their pods had broken an assumption.
    faults: kind → how often it happened.
    removals: members that operators removed.
    holds_with_zombie: moments (10 s apart) in which a departed member was held while a process of its pod lived.
    met: what the operators had to cope with → how often, so that faults which never bite are seen.
    trace: the readable history; "" unless something was violated, an assumption was broken or it was asked for.
    """

    seed: int
    violations: tuple[Violation, ...]
    breaches: tuple[Breach, ...]
    faults: Counter[str]
    removals: int
    holds_with_zombie: int
    met: Counter[str]
    virtual_s: float
    trace: str = ""


@dataclass(slots=True)
class _Schedule:
    """One schedule while it runs."""

    seed: int
    rng: Random = field(init=False)
    world: World = field(init=False)
    log_lines: list[str] = field(default_factory=list)
    holds: int = 0
    held_by: set[str] = field(default_factory=set)

    async def main(self) -> None:
        self.rng = Random(f"schedule/{self.seed}")
        drawn = draw_world(self.rng)
        self.world = World(drawn.world, seed=self.seed)
        world = self.world
        world.log_lines = self.log_lines
        town = Town(world, drawn, Random(f"town/{self.seed}"))
        try:
            await town.arrive()
        except AssertionError as error:
            world.violations.append(Violation("L2", world.loop.time(), f"never came up: {error}"))
            return
        start_s = world.loop.time()
        plan = draw_faults(self.rng, start_s)
        sampler = world.loop.spawn(self._sample(), name="sampler")
        healing = [world.loop.spawn(self._carry_out(at_s, f), name=f.kind) for at_s, f in plan]
        work = world.loop.spawn(town.work(start_s + BUSY_S), name="users")
        await asyncio.gather(work, *healing)
        await self._rest(town)
        sampler.cancel()

    async def _carry_out(self, at_s: float, fault: Fault) -> None:
        await asyncio.sleep(max(0.0, at_s - self.world.loop.time()))
        await carry_out(self.world, self.rng, fault)

    async def _sample(self) -> None:
        """Count members that are held while a process of theirs lives though no workload wants them."""
        world = self.world
        while True:
            await asyncio.sleep(10)
            issues = [e for team in world.teams for e in world.status_of(team).get("issues") or []]
            held = [e for e in issues if e.get("kind") in HELD]
            held_ids = {e.get("instanceId") for e in held}
            self.held_by |= {str(e.get("reason")) for e in held}
            members = world.members()
            self.holds += any(i in members and world.processes.pod_alive(members[i]) for i in held_ids if i)

    async def _rest(self, town: Town) -> None:
        """Leave the world alone and judge what it comes to."""
        world = self.world
        town.tidy_up()
        await asyncio.sleep(SETTLE_S)
        try:
            await world.until(world.are_deployed, ROLLS_WITHIN_S, "every Deployment has the pods that it wants")
        except AssertionError as error:
            world.violations.append(Violation("L1", world.loop.time(), str(error)))
            return
        await asyncio.sleep(2 * max(world.settings.session_timeout_s, 60))
        leaves = world.leaves_sent
        await asyncio.sleep(QUIET_S)
        world.violations += violations_at_rest(world, since_leaves=leaves)


def draw_faults(rng: Random, start_s: float) -> list[tuple[float, Fault]]:
    """Draw when which fault begins: at least `FAULTS_MIN` faults of at least `KINDS_MIN` kinds.

    Parameters
    ----------
    start_s: of the busy time, in virtual seconds.
    """
    beside = _beside(Random(f"faults beside/{rng.getstate()[1][:4]}"), start_s)
    count = rng.randint(FAULTS_MIN, FAULTS_MAX)
    names = sorted(name for name in FAULTS if not FAULTS[name].is_beside)
    weights = [FAULTS[n].weight for n in names]
    drawn = rng.choices(names, weights, k=count)
    while len(set(drawn)) < KINDS_MIN:
        drawn[rng.randrange(count)] = rng.choice(names)
    return [(start_s + rng.uniform(0, BUSY_S), FAULTS[name]) for name in drawn] + beside


def _beside(rng: Random, start_s: float) -> list[tuple[float, Fault]]:
    """Draw what happens beside all that in some of the schedules, early enough for something to come of it."""
    faults = sorted((f for f in FAULTS.values() if f.is_beside), key=lambda f: f.kind)
    count = rng.choice((1, 2)) if rng.random() < BESIDE_SHARE else 0
    drawn = rng.choices(faults, [f.weight for f in faults], k=count)
    return [(start_s + rng.uniform(80, BUSY_S / 2), f) for f in drawn]


def kinds(seed: int) -> set[str]:
    """Return the kinds of faults that the schedule of a seed draws, without running it; some bring others with them."""
    rng = Random(f"schedule/{seed}")
    draw_world(rng)
    return {fault.kind for _, fault in draw_faults(rng, 0.0)}


def changes(seed: int) -> set[str]:
    """Return what members become in the schedule of a seed, and which other pods have their ids, without running it."""
    drawn = draw_world(Random(f"schedule/{seed}"))
    is_kept = repository_source(drawn.world.team, seed) is not None
    return {change.kind.value for change in drawn.changes} | ({APPLIED_AGAIN} if is_kept else set())


COUNTED = {
    "staticgroup_rounds_total": "round",
    "staticgroup_leave_outcomes_total": "leave answered",
    "staticgroup_release_outcomes_total": "release answered",
    "staticgroup_kafka_problems_total": "Kafka problem",
    "staticgroup_watch_gaps_total": "watch gap",
}
"""The operators' own counters of what they met."""


def _met(world: World) -> Counter[str]:
    """Count what the operators of a world had to cope with, living and dead ones."""
    met: Counter[str] = Counter()
    for running in world.operators:
        for metric in running.operator.metrics.registry.collect():
            for sample in metric.samples:
                if sample.name in COUNTED and sample.value:
                    label = " ".join((COUNTED[sample.name], *sample.labels.values()))
                    met[label] += int(sample.value)
        met["leave without an answer"] += sum(sent.returned_s is None for sent in running.gateway.leaves)
    removed = {key[:3] for key in world.safety.effects}
    met["member resurrected and removed again"] = len(world.safety.effects) - len(removed)
    met["operator process ended by itself"] = sum(1 for _ in world.trace.select(what="operator ends"))
    met["library gave its membership up"] = sum(1 for _ in world.trace.select(what="fatal error"))
    met[APPLIED_AGAIN] = sum(1 for _ in world.trace.select(what=APPLIED_AGAIN))
    had = Counter(given for pod in world.truth.pods.values() for given in pod.had)
    met[PASSED_ON] = had.total() - len(had)
    met["pod of a Deployment started without a slot"] = sum(1 for _ in world.trace.select(what="waiter gives up"))
    met |= {kind.value: sum(1 for _ in world.trace.select(what=kind.value)) for kind in ChangeKind}
    return +met


def run(seed: int, *, keep_trace: bool = False) -> Verdict:
    """Run one schedule to its end.

    Parameters
    ----------
    keep_trace: return the history also when nothing was violated.
    """
    schedule = _Schedule(seed)
    with captured_logs() as lines:
        schedule.log_lines = lines
        try:
            run_simulation(schedule.main, seed=seed, until_s=UNTIL_S)
        except Exception as error:
            if hasattr(schedule, "world"):
                error.add_note(f"schedule {seed}\n{schedule.world.trace.text()[-6000:]}")
            raise
    world = schedule.world
    violations = tuple(world.violations)
    return Verdict(
        seed=seed,
        violations=violations,
        breaches=tuple(world.breaches),
        faults=world.faults,
        removals=world.safety.removals,
        holds_with_zombie=schedule.holds,
        met=_met(world) + Counter(f"held by {reason}" for reason in schedule.held_by),
        virtual_s=world.loop.time(),
        trace=world.trace.text() if violations or world.breaches or keep_trace else "",
    )
