"""The journal of the real operator in a simulated world records exactly what happened there.

The models know the truth: every epoch and generation of the group, every removal, every run of a process.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from journal.records import CoverageBeat, Data, Record, fact_of, read
from journal.sinks import MemorySink
from simulator.engine.loop import run
from simulator.kubernetes.objects import uid_of
from simulator.world.world import NAMESPACE, WORKLOAD, World, WorldSettings
from support.narrowing import some

PROTOCOLS = ("classic", "consumer")
POORER_WHEN_REPEATED = {"certificates", "reason"}
"""Fields of a removal that a later process does not know and leaves empty."""


@dataclass
class Seen:
    """The result of one simulation."""

    records: list[Record[Data]]
    rebalances: int
    removed: list[str]
    violations: list[Any] = field(default_factory=list)

    def of(self, noun: str) -> list[Record[Data]]:
        """Return the facts of one kind, each once."""
        return list({(r.source, r.id): r for r in self.records if r.data.noun == noun}.values())


async def _live(settings: WorldSettings, seed: int, what: Callable[[World], Any]) -> Seen:
    world = World(settings, seed=seed)
    world.journal = MemorySink()
    removed: list[str] = []
    world.kafka.on_applied.append(lambda a: removed.append(a.instance_id or "") if not a.error_code.value else None)
    await world.populate()
    await what(world)
    records = [read(line) for line in world.journal.lines]
    return Seen(records, world.meter.rebalances, removed, list(world.violations))


def lived(protocol: str, what: Callable[[World], Any], *, seed: int = 1, **settings: Any) -> Seen:
    """Bring up three pods, let something happen, and read the journal."""
    return run(lambda: _live(WorldSettings(protocol=protocol, **settings), seed, what), seed=seed)


def kill(world: World, ordinal: int) -> None:
    pod = some(world.kubernetes.pod(NAMESPACE, f"{WORKLOAD}-{ordinal}"))
    world.processes.signal(uid_of(pod), "app", "KILL")


async def roll(world: World) -> None:
    await asyncio.sleep(60)
    world.users.roll(NAMESPACE, WORKLOAD)
    await asyncio.sleep(120)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_quiet_roll_is_a_rollout_with_absorbed_restarts_and_no_rebalance(protocol: str) -> None:
    """KIP-345 and KIP-848: a static member that returns within its session causes no rebalance."""
    quiet = lived(protocol, lambda world: asyncio.sleep(180))
    rolled = lived(protocol, roll)
    assert rolled.violations == []
    assert rolled.rebalances == quiet.rebalances
    assert len(rolled.of("group.rebalanced")) == len(quiet.of("group.rebalanced"))
    back = [r.data.model_dump() for r in rolled.of("member.rejoined")]
    assert [b["absorbed"] for b in back if b["previous_member_id"] is not None] == [True] * 3
    assert [len(rolled.of(n)) for n in ("rollout.started", "rollout.finished", "member.removed")] == [1, 1, 0]
    assert rolled.of("rollout.finished")[0].data.model_dump()["rebalances"] == 0
    downs = [r.data.model_dump() for r in rolled.of("member.down")]
    assert [(d["reason"], d["restart_count"]) for d in downs] == [("Deleted", 0)] * 3
    assert len({d["pod_uid"] for d in downs}) == 3


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_scale_down_is_recorded_with_its_removals_and_rebalances(protocol: str) -> None:
    async def scale_down(world: World) -> None:
        await asyncio.sleep(60)
        world.users.scale(NAMESPACE, WORKLOAD, 1)
        await asyncio.sleep(120)

    seen = lived(protocol, scale_down)
    assert Counter(r.data.model_dump()["instance_id"] for r in seen.of("member.removed")) == Counter(seen.removed)
    assert len(seen.removed) == 2
    assert {r.data.model_dump()["certificate"] for r in seen.of("member.departed")} == {"E1"}
    (scaled,) = (r.data.model_dump() for r in seen.of("workload.scaled"))
    assert (scaled["replicas_before"], scaled["replicas_after"]) == (3, 1)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_crash_in_place_is_recorded_by_the_kubelets_clock(protocol: str) -> None:
    async def crash(world: World) -> None:
        await asyncio.sleep(60)
        kill(world, 1)
        await asyncio.sleep(90)

    seen = lived(protocol, crash)
    downs = [r.data.model_dump() for r in seen.of("member.down")]
    ups = {(u["pod_uid"], u["restart_count"]): u for r in seen.of("member.up") for u in [r.data.model_dump()]}
    assert downs
    for down in downs:
        up = ups[down["pod_uid"], down["restart_count"] + 1]
        assert down["source_time_ms"] <= up["source_time_ms"] <= up["observed_at_ms"]
        assert down["reason"] == "Error"


def test_every_epoch_of_a_kip848_group_is_recorded_once() -> None:
    """Crashes that outlast the session, departures and joins: whatever moves the epoch, none is missed."""

    async def trouble(world: World) -> None:
        await asyncio.sleep(30)
        kill(world, 0)
        await asyncio.sleep(30)
        world.users.scale(NAMESPACE, WORKLOAD, 5)
        await asyncio.sleep(100)
        world.users.scale(NAMESPACE, WORKLOAD, 2)
        await asyncio.sleep(200)

    seen = lived("consumer", trouble)
    epochs = sorted(r.data.model_dump()["group_epoch"] for r in seen.of("group.rebalanced"))
    assert epochs == list(range(2, len(epochs) + 2))
    assert len(epochs) > 6


async def _troubled(world: World) -> None:
    """Restart the operator in the middle of everything."""
    for n in range(4):
        await asyncio.sleep(23)
        (world.users.roll(NAMESPACE, WORKLOAD) if n % 2 else world.users.scale(NAMESPACE, WORKLOAD, 4 - n))
        await asyncio.sleep(7 + n)
        for operator in list(world.living):
            world.crash_operator(operator)
            world.start_operator(operator.name)
        await asyncio.sleep(40)
    await asyncio.sleep(120)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("seed", range(4))
def test_restarted_operators_repeat_facts_under_the_same_ids(protocol: str, seed: int) -> None:
    """An id never stands for two facts; removals and process ends survive the death of the process that caused them."""
    seen = lived(protocol, _troubled, seed=seed)
    assert seen.violations == []
    facts: dict[tuple[str, str], dict[str, Any]] = {}
    operators: dict[tuple[str, str], set[str]] = {}
    for record in seen.records:
        if isinstance(record.data, CoverageBeat):
            continue
        key = (record.source, record.id)
        said = {
            k: v
            for k, v in fact_of(record).items()
            if record.data.noun != "member.removed" or k not in POORER_WHEN_REPEATED
        }
        assert facts.setdefault(key, said) == said
        operators.setdefault(key, set()).add(record.data.operator_id)
    assert any(len(reporters) > 1 for reporters in operators.values())
    removed = [r.data.model_dump() for r in seen.of("member.removed")]
    assert Counter(r["instance_id"] for r in removed if r["outcome"] == "Removed") == Counter(seen.removed)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_numbers_and_beats_leave_no_hole(protocol: str) -> None:
    seen = lived(protocol, _troubled)
    by_operator: dict[str, list[Record[Data]]] = {}
    for record in seen.records:
        by_operator.setdefault(record.data.operator_id, []).append(record)
    assert len(by_operator) == 5
    for records in by_operator.values():
        assert [r.data.seq for r in records] == list(range(len(records)))
        beats = [r.data.observed_at_ms for r in records if isinstance(r.data, CoverageBeat)]
        assert all(abs(later - sooner - 30_000) < 100 for sooner, later in pairwise(beats))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_standby_is_silent(protocol: str) -> None:
    async def beside(world: World) -> None:
        world.start_operator("operator-b")
        await roll(world)

    seen = lived(protocol, beside)
    assert len({r.data.operator_id for r in seen.records}) == 1


def test_journal_is_the_same_for_the_same_seed() -> None:
    """No wall clock and no randomness of its own."""
    one, other = (lived("consumer", _troubled, seed=7) for _ in range(2))
    assert [r.model_dump() for r in one.records] == [r.model_dump() for r in other.records]
