"""Each change of members bites: what it says is seen at the coordinator and in the process table, and it is taken
back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from coordinator_model.consumer.group import ConsumerGroup
from simulator.engine.log_capture import captured_logs
from simulator.engine.loop import run as run_simulation
from simulator.kubernetes.objects import Json
from simulator.schedules.changes import COPY, ELSEWHERE, Changes, protocol_spec
from simulator.schedules.drawing import Change, ChangeKind
from simulator.world.settings import plain_team
from simulator.world.teams import GROUP, WORKLOAD, Team
from simulator.world.world import World, WorldSettings

PEOPLE = Random("people")
LASTS_S = 100.0


def in_world(
    test: Callable[[World], Awaitable[None]], *, team: Callable[[Team], Team] = lambda t: t, **settings: Any
) -> World:
    """Run a test in a world that is up, and return the world."""
    worlds: list[World] = []

    async def main() -> None:
        made = WorldSettings(session_timeout_s=30, parallel=True, replicas=2, **settings)
        world = World(replace(made, team=team(plain_team(made))), seed=1)
        worlds.append(world)
        await world.populate()
        await test(world)

    with captured_logs():
        run_simulation(main, seed=1, until_s=20_000)
    return worlds[0]


def on_delete(team: Team) -> Team:
    return replace(team, set_spec=team.set_spec | {"updateStrategy": {"type": "OnDelete"}})


def by_hand(team: Team) -> Team:
    return replace(
        team, is_by_hand=True,
        spec=team.spec | {"identity": {"template": "{podName}", "exclusive": True, "method": "None"}},
    )


def without_exclusive(team: Team) -> Team:
    return replace(team, spec=team.spec | {"identity": {"template": "{podName}"}})


def begun(world: World, kind: ChangeKind, **fields: Any) -> asyncio.Task[None]:
    change = Change(kind=kind, after_s=1.0, lasts_s=LASTS_S, **fields)
    return world.loop.spawn(Changes(world, PEOPLE).carry_out(change), name=kind.name)


def is_of_kip848(world: World) -> bool:
    return isinstance(world.kafka.coordinator(GROUP).groups.get(GROUP), ConsumerGroup)


@pytest.mark.parametrize("is_in_spec", [True, False])
@pytest.mark.parametrize("team", [lambda t: t, on_delete, by_hand], ids=["injected", "on delete", "by hand"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_of_the_other_protocol_for_a_while_and_keeps_its_seats(
    protocol: str, team: Callable[[Team], Team], is_in_spec: bool
) -> None:
    async def test(world: World) -> None:
        seats, before = set(world.members()), world.team
        people = begun(world, ChangeKind.PROTOCOL, is_in_spec=is_in_spec)
        await world.until(lambda: is_of_kip848(world) is (protocol == "classic"), 80, "the other type of group")
        await asyncio.sleep(30)
        assert set(world.members()) == seats
        assert (world.team.spec == before.spec) is not is_in_spec
        await people
        await world.until(lambda: is_of_kip848(world) is (protocol == "consumer"), 80, "the first type of group")
        await asyncio.sleep(30)
        assert set(world.members()) == seats
        assert world.team == before

    world = in_world(test, team=team, protocol=protocol)
    assert world.violations == []
    assert world.safety.removals == 0


@pytest.mark.parametrize("team", [lambda t: t, by_hand], ids=["injected", "by hand"])
def test_members_are_dynamic_for_a_while_and_static_again(team: Callable[[Team], Team]) -> None:
    async def test(world: World) -> None:
        seats = set(world.members())
        people = begun(world, ChangeKind.DYNAMIC)
        await world.until(lambda: not world.members() and world.member_count() == 2, 100, "dynamic members only")
        await people
        await world.until(
            lambda: set(world.members()) == seats == set(world.truth.desired_ids(GROUP)), 120, "static again"
        )

    world = in_world(test, team=team)
    assert world.violations == []
    assert world.safety.removals == 0


@pytest.mark.parametrize("kind", [ChangeKind.COPY, ChangeKind.OUTSIDER])
def test_a_copy_takes_the_seat_and_is_gone_in_the_end(kind: ChangeKind) -> None:
    """In a classic group a copy fences the original, which comes back, and so on; a process that ends is started
    again."""

    async def test(world: World) -> None:
        people = begun(world, kind)
        await asyncio.sleep(LASTS_S * 0.9)
        runs = [p for p in world.processes.history if p.node == ELSEWHERE or p.pod_name == f"{COPY}-0"]
        creators = {
            c for m in world.trace.select(what="joined") if (c := world.processes.creator(str(dict(m.facts)["member"])))
        }
        assert len(runs) > 1
        assert creators & set(runs), "the copy was a member"
        people.cancel()
        await asyncio.sleep(30)
        assert not [p for p in runs if p.is_alive], "it ends with the day"
        assert {p.pod_name.rpartition("-")[0] for p in world.processes.running()} == {WORKLOAD}

    world = in_world(test, team=without_exclusive)
    assert world.violations == []


class Unwanting(Random):
    """Draws that the original is no longer wanted, and as the original the last pod of all."""

    def random(self) -> float:
        return 0.0

    def choice(self, seq: Any) -> Any:
        return max(seq, key=lambda process: process.pod_name)


@pytest.mark.parametrize(("protocol", "removals"), [("classic", 1), ("consumer", 2)])
def test_a_copy_that_outlives_its_original_keeps_the_seat_and_is_named(protocol: str, removals: int) -> None:
    """Its pod carries the id, so it may hold the seat of the original, but for where that has shown its address; both
    leave once they have ended."""

    async def test(world: World) -> None:
        seat = world.id_of(1)
        change = Change(kind=ChangeKind.COPY, after_s=1.0, lasts_s=3 * LASTS_S)
        people = world.loop.spawn(Changes(world, Unwanting()).carry_out(change), name="copy")
        await asyncio.sleep(2.9 * LASTS_S)
        assert list(world.truth.desired(WORKLOAD)) == [0]
        process = world.processes.creator(world.members()[seat])
        assert process is not None
        assert process.pod_name == f"{COPY}-0"
        (held,) = [e for e in world.status["exceptions"] if e.get("instanceId") == seat]
        assert held["reason"] == "PodStillRunning"
        assert f"{COPY}-0 " in held["message"]
        assert world.safety.removals == removals - 1
        await people
        await world.until(lambda: seat not in world.members(), 20, "the seat is given up")

    world = in_world(test, protocol=protocol)
    assert world.violations == []
    assert world.safety.removals == removals


@pytest.mark.parametrize(
    ("spec", "protocol", "changed"),
    [
        ({}, "consumer", {}),
        ({"protocol": "Auto", "crashRelease": "Release"}, "classic", {}),
        (
            {"protocol": "Classic", "sessionTimeout": {"seconds": 30}},
            "consumer",
            {"protocol": "Consumer", "sessionTimeout": None},
        ),
        (
            {"protocol": "Consumer", "crashRelease": "Release"},
            "classic",
            {"protocol": "Classic", "crashRelease": "Report"},
        ),
        ({"protocol": "Consumer"}, "classic", {"protocol": "Classic"}),
    ],
)
def test_what_a_user_says_of_the_other_protocol_is_what_the_resource_allows(
    spec: Json, protocol: str, changed: Json
) -> None:
    assert protocol_spec(spec, protocol) == changed
