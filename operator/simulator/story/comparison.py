"""One scenario in two worlds, with and without the operator, and what each happening cost in them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from coordinator_model.base.errors import ErrorCode

from ..clients.partition_meter import Partition
from ..engine.log_capture import captured_logs
from ..engine.loop import run as run_simulation
from ..engine.trace import Entry
from ..faults.registry import attempt
from ..kafka.requests import AppliedLeave
from ..kubernetes.objects import uid_of
from ..world.world import NAMESPACE, WORKLOAD, World, WorldSettings
from .scenario import Happening, Scenario

SAMPLE_S = 0.5
LOST_FOR_S = 90.0
"""A lost node comes back so much later."""
NODES_MAX = 50
START_SLACK_S = 300.0
UNTIL_S = 1_000_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a group went through in some time.

    Parameters
    ----------
    rebalances: generations, or in a KIP-848 group epochs, that began.
    moved: partitions that another pod took over.
    idle_s: partition-seconds in which no pod worked on a partition.
    double_s: partition-seconds in which more than one pod did, such as a zombie that does not know yet that it was
        fenced.
    """

    rebalances: int = 0
    moved: int = 0
    idle_s: float = 0.0
    double_s: float = 0.0

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            rebalances=self.rebalances - other.rebalances,
            moved=self.moved - other.moved,
            idle_s=self.idle_s - other.idle_s,
            double_s=self.double_s - other.double_s,
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a world: seconds since everything was up, and all costs up to then."""

    at_s: float
    cost: Cost


@dataclass(slots=True)
class History:
    """What one world went through, in seconds since everything was up.

    Attributes
    ----------
    samples: `SAMPLE_S` apart.
    entries: of the trace, at the same seconds.
    held: (seconds, instance id, reason) of each member or pod that the operator reports as out of order.
    expired: (seconds, instance id) of each static member that was gone without a LeaveGroup.
    """

    samples: list[Sample] = field(default_factory=list)
    entries: list[tuple[float, Entry]] = field(default_factory=list)
    held: list[tuple[float, str, str]] = field(default_factory=list)
    expired: list[tuple[float, str]] = field(default_factory=list)

    def cost(self, from_s: float, until_s: float) -> Cost:
        """Return what a time cost."""
        return self._at(until_s) - self._at(from_s)

    def idle(self, from_s: float, until_s: float, columns: int) -> Iterator[float]:
        """Iterate over the mean number of partitions without work in equal parts of a time."""
        width_s = (until_s - from_s) / columns
        for n in range(columns):
            begin_s = from_s + n * width_s
            yield self.cost(begin_s, begin_s + width_s).idle_s / width_s

    def _at(self, at_s: float) -> Cost:
        index = round(at_s / SAMPLE_S)
        return self.samples[min(max(index, 0), len(self.samples) - 1)].cost


@dataclass(slots=True)
class _Telling:
    """One world while it runs."""

    scenario: Scenario
    is_static: bool
    history: History = field(default_factory=History)
    moved: int = 0
    workers: dict[Partition, str] = field(default_factory=dict)
    _seen: dict[str, frozenset[Partition]] = field(default_factory=dict)
    _held: set[tuple[str, str]] = field(default_factory=set)
    _members: set[str] = field(default_factory=set)
    _removed: set[str] = field(default_factory=set)

    async def main(self) -> None:
        scenario = self.scenario
        world = World(_settings(scenario, is_static=self.is_static), seed=scenario.name)
        start_s = START_SLACK_S + scenario.pods * (scenario.restart_seconds[1] + 10.0)
        world.kafka.on_applied.append(self._note_removal)
        await world.populate(deadline_s=start_s)
        begin_s = world.loop.time()
        self._look(world)
        first = self._cost(world)
        happenings = sorted(scenario.happenings, key=lambda h: h.at_seconds)
        for n in range(math.ceil(scenario.length_s / SAMPLE_S) + 1):
            at_s = n * SAMPLE_S
            await asyncio.sleep(max(0.0, begin_s + at_s - world.loop.time()))
            self._look(world)
            self._note_holds(world, at_s)
            self._note_expiries(world, at_s)
            self.history.samples.append(Sample(at_s, self._cost(world) - first))
            while happenings and happenings[0].at_seconds <= at_s:
                happen(world, happenings.pop(0))
        self.history.entries = [(e.at_s - begin_s, e) for e in world.trace.entries if e.at_s >= begin_s]

    def _cost(self, world: World) -> Cost:
        meter = world.meter
        return Cost(rebalances=meter.rebalances, moved=self.moved, idle_s=meter.idle_s, double_s=meter.double_s)

    def _look(self, world: World) -> None:
        """Count the partitions that are now worked on by another pod than before."""
        owned = world.meter.owned
        if owned == self._seen:
            return
        for consumer, partitions in owned.items():
            if self._seen.get(consumer) == partitions:
                continue
            pod = consumer.partition("/")[0]
            for partition in partitions:
                self.moved += self.workers.get(partition, pod) != pod
                self.workers[partition] = pod
        self._seen = dict(owned)

    def _note_holds(self, world: World, at_s: float) -> None:
        for held in world.status.get("issues") or []:
            key = (str(held.get("instanceId")), str(held.get("reason")))
            if held.get("instanceId") and key not in self._held:
                self._held.add(key)
                self.history.held.append((at_s, *key))

    def _note_removal(self, leave: AppliedLeave) -> None:
        if leave.error_code is ErrorCode.NONE:
            self._removed.add(leave.instance_id or "")

    def _note_expiries(self, world: World, at_s: float) -> None:
        members = set(world.members())
        self.history.expired += [(at_s, i) for i in sorted(self._members - members - self._removed)]
        self._removed -= members
        self._members = members


def happen(world: World, happening: Happening) -> None:
    """Let one happening of a scenario begin; one about a pod that is not there changes nothing."""
    name = f"{WORKLOAD}-{happening.pod}"
    if happening.what == "roll":
        world.users.roll(NAMESPACE, WORKLOAD)
    elif happening.what == "scale":
        assert happening.replicas is not None
        world.users.scale(NAMESPACE, WORKLOAD, happening.replicas)
    elif happening.what == "crash":
        pod = world.kubernetes.pod(NAMESPACE, name)
        if pod is not None:
            world.processes.signal(uid_of(pod), "app", "KILL")
    elif happening.what == "delete":
        attempt(lambda: world.users.delete_pod(NAMESPACE, name))
    else:
        node = world.kubernetes.node_of(NAMESPACE, name)
        if node is not None:
            node.cut()
            world.loop.world_call_later(LOST_FOR_S, node.heal)
        attempt(lambda: world.users.delete_pod(NAMESPACE, name, grace_s=0))


def _settings(scenario: Scenario, *, is_static: bool) -> WorldSettings:
    seconds = scenario.session_timeout_seconds if is_static else scenario.dynamic_session_timeout_seconds
    return WorldSettings(
        protocol="classic" if scenario.protocol == "Classic" else "consumer",
        library=scenario.library,
        is_static=is_static,
        replicas=scenario.pods,
        partitions=scenario.partitions,
        parallel=scenario.pod_management_policy == "Parallel",
        session_timeout_s=round(seconds),
        heartbeat_s=scenario.heartbeat_seconds,
        startup_s=scenario.restart_seconds,
        close_s=scenario.stop_seconds,
        nodes=tuple(f"n{n}" for n in range(1, min(max(3, scenario.pods), NODES_MAX) + 1)),
    )


def experience(scenario: Scenario, *, is_static: bool) -> History:
    """Run a scenario in one world.

    Parameters
    ----------
    is_static: with the operator; else there is none, and the clients are dynamic.

    Raises
    ------
    AssertionError: the workload never came up, such as with a restart longer than its session.
    """
    telling = _Telling(scenario, is_static)
    with captured_logs():
        run_simulation(telling.main, seed=scenario.name, until_s=UNTIL_S)
    return telling.history
