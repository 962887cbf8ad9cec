"""Processes crash and restart in their pods, again and again and among other faults: no living member is released.

The world knows which process created which member; the operator sees pods and the group. Clocks of nodes are off,
kubelets stop and are late, containers end in good order and come back at once, coordinators fail over, the operator is
killed.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from simulator.engine.log_capture import captured_logs
from simulator.engine.loop import run as run_simulation
from simulator.kubernetes.objects import PODS, uid_of
from simulator.world.settings import plain_team
from simulator.world.world import GROUP, NAMESPACE, World, WorldSettings
from staticgroup.core.evidence import chain as runs

BUSY_S = 900.0
TROUBLES = {
    "kill": 8.0,
    "end": 4.0,
    "freeze kubelet": 3.0,
    "cut node": 3.0,
    "clock": 3.0,
    "freeze node": 1.0,
    "delete pod": 1.0,
    "force delete": 0.7,
    "operator": 0.7,
    "fail over": 0.7,
}


class Storm:
    """Everything that happens to one world."""

    def __init__(self, world: World, rng: Random, clock_off_s: float) -> None:
        self.world, self.rng, self.clock_off_s = world, rng, clock_off_s

    async def rage(self) -> None:
        """Make trouble until it is enough."""
        world, rng = self.world, self.rng
        end_s = world.loop.time() + BUSY_S
        while world.loop.time() < end_s:
            await asyncio.sleep(rng.expovariate(1 / 18))
            world.loop.spawn(self.happens(rng.choices(list(TROUBLES), list(TROUBLES.values()))[0]), name="trouble")
        await asyncio.sleep(240.0)

    async def happens(self, what: str) -> None:
        """Cause one fault, and heal it."""
        world, rng = self.world, self.rng
        pods = sorted(world.server.list(PODS, NAMESPACE), key=lambda p: p["metadata"]["name"])
        node = world.kubernetes.nodes[rng.choice(sorted(world.kubernetes.nodes))]
        lasts_s = rng.uniform(2, 45)
        if what in ("kill", "end") and pods:
            world.processes.signal(uid_of(rng.choice(pods)), "app", "KILL" if what == "kill" else "TERM")
        elif what == "freeze kubelet":
            node.freeze_kubelet()
            await asyncio.sleep(lasts_s)
            node.thaw_kubelet()
        elif what == "cut node":
            node.cut()
            await asyncio.sleep(lasts_s)
            node.heal()
        elif what == "freeze node":
            node.freeze()
            await asyncio.sleep(lasts_s)
            node.thaw()
        elif what == "clock":
            node.clock_off_s = rng.uniform(-self.clock_off_s, self.clock_off_s)
        elif what in ("delete pod", "force delete") and pods:
            name = rng.choice(pods)["metadata"]["name"]
            world.users.delete_pod(NAMESPACE, name, grace_s=0 if what == "force delete" else None)
        elif what == "operator" and world.living:
            world.crash_operator(world.living[0])
            await asyncio.sleep(rng.uniform(1, 20))
            world.restart_operator("operator-a")
        elif what == "fail over":
            world.coordinator_epoch += 1
            world.kafka.fail_over(GROUP, is_clean=rng.random() < 0.5, outage_s=rng.uniform(0.2, 5))


def stormy(seed: int, *, library: str = "java", clock_off_s: float = 9.0) -> World:
    """Let a storm pass over a world, and return the world."""
    worlds: list[World] = []

    async def main() -> None:
        settings = WorldSettings(
            protocol="consumer", library=library, replicas=4, parallel=True, session_timeout_s=45,
            nodes=("n1", "n2", "n3"),
        )
        team = plain_team(settings)
        team = replace(team, spec=team.spec | {"removal": "DepartedAndCrashed"})
        world = World(replace(settings, team=team), seed=f"crash/{seed}")
        worlds.append(world)
        await world.populate()
        await asyncio.sleep(30.0)
        await Storm(world, Random(f"storm/{seed}"), clock_off_s).rage()

    with captured_logs():
        run_simulation(main, seed=seed, until_s=20_000)
    return worlds[0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("library", ["java", "librdkafka", "sarama"])
def test_no_living_member_is_released(seed: int, library: str) -> None:
    world = stormy(seed, library=library)
    assert [str(v) for v in world.violations] == []
    assert world.safety.releases > 0


def test_a_process_that_lives_is_seen_by_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """With clocks far ahead and unchecked, members are released that were only just described."""
    monkeypatch.setattr(runs, "_clock_doubt", lambda times_s, version, now_s: "")
    worlds = (stormy(seed, clock_off_s=60.0) for seed in range(12))
    assert any(v.oracle == "S1" for world in worlds for v in world.violations)
