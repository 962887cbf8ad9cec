"""A round that skips planning would have decided nothing: each of them is planned on a copy of what is remembered."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from simulation.fault_world import in_world
from simulator.faults import FAULTS
from simulator.world.world import World
from staticgroup.api.resources.staticgroup import StaticGroup
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import plan
from staticgroup.core.status.projection import project
from staticgroup.runtime.memory.memory import Memory
from staticgroup.runtime.memory.pace import REPLAN_AWAY_S
from staticgroup.runtime.reconciler import Reconciler
from staticgroup.runtime.work_queue import Key, Result

# None that leaves a suspect: as long as there is one, every round is planned.
KINDS = (
    "container_crashes", "group_is_suspended", "injection_policy_is_missing", "mode_is_observe", "pod_is_evicted",
    "rights_are_lost", "unknown_member_joins", "watch_position_is_too_old",
)  # fmt: skip


async def differences(rounds: Reconciler, key: Key, group: StaticGroup, memory: Memory) -> list[str]:
    """Plan and project on a copy of the memory, and return what differs from memory and status."""
    spec, copy = rounds._effective(group), replace(memory, cached=None)
    snapshot, _ = await rounds.gatherer.gather(group, spec, copy, await rounds.gatherer.describe(group, spec))
    decided = plan(spec, snapshot, copy.history, rounds.now_s())
    now = datetime.fromtimestamp(rounds.now_s(), tz=UTC)
    status = project(spec, snapshot, decided, Executed(), memory.status, now)
    acts = ["acts"] if decided.actions or decided.releases or decided.group_config else []
    other = [
        f.name for f in fields(decided.history) if getattr(decided.history, f.name) != getattr(memory.history, f.name)
    ]
    assert memory.status is not None
    return [*acts, *other, *(n for n in type(status).model_fields if getattr(status, n) != getattr(memory.status, n))]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, list[str]]]:
    """Return what each round that skipped planning would have found, and when."""
    seen: list[tuple[float, list[str]]] = []
    rested: list[Any] = []
    round_of, rest_of = Reconciler._round, Reconciler._skip_plan

    def rests(self: Reconciler, *of: Any) -> Result:
        rested.append(of)
        return rest_of(self, *of)

    async def goes(self: Reconciler, key: Key, group: StaticGroup, memory: Memory, started_s: float) -> Result:
        rested.clear()
        result = await round_of(self, key, group, memory, started_s)
        if rested:
            changes = memory.change_count
            other = await differences(self, key, group, memory)
            if memory.change_count == changes and self.memories._by_key.get(key) is memory:
                seen.append((self.monotonic_s(), other))
        return result

    monkeypatch.setattr(Reconciler, "_skip_plan", rests)
    monkeypatch.setattr(Reconciler, "_round", goes)
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_that_skips_planning_would_have_found_nothing(found: list[tuple[float, list[str]]], kind: str) -> None:
    """Except how long a member has been absent, which is reported within half a minute."""

    async def test(world: World) -> None:
        await asyncio.sleep(150)
        heal = FAULTS[kind].begin(world, Random(1))
        await asyncio.sleep(100)
        if heal is not None:
            heal()
        await asyncio.sleep(400)

    in_world(test)
    late = {"conditions", "members", "issues"}
    other = [(at_s, names) for at_s, names in found if not set(names) <= late]
    aged = [at_s for at_s, names in found if names]
    assert len(found) > 5
    assert other == []
    assert not aged or max(aged) - min(aged) <= REPLAN_AWAY_S
