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
from simulator.kubernetes.objects import Json, merged
from simulator.schedules.changes import COPY, ELSEWHERE, Changes, protocol_spec, spec_without_ids, taken_back
from simulator.schedules.drawn_changes import Change, ChangeKind
from simulator.world.settings import plain_team
from simulator.world.teams import GROUP, WORKLOAD, Team
from simulator.world.world import World, WorldSettings
from support.narrowing import some
from unit.simulator.virtual_time import told_by

PEOPLE = Random("people")
LASTS_S = 100.0


def keep_promises(
    test: Callable[[World], Awaitable[None]], *, team: Callable[[Team], Team] = lambda t: t, **settings: Any
) -> None:
    """Run a test in a world that is up, and see that the operator breaks no promise in it."""

    async def main() -> None:
        made = WorldSettings(session_timeout_s=30, parallel=True, replicas=2, **settings)
        world = World(replace(made, team=team(plain_team(made))), seed=1)
        await world.populate()
        await test(world)
        assert world.violations == []

    with captured_logs():
        run_simulation(main, seed=1, until_s=20_000)


kept = told_by(keep_promises)


def on_delete(team: Team) -> Team:
    return replace(team, set_spec=team.set_spec | {"updateStrategy": {"type": "OnDelete"}})


def by_hand(team: Team) -> Team:
    return replace(
        team, is_by_hand=True,
        spec=team.spec | {"client": {"type": "Own"}, "idTemplate": "{podName}", "assumeExclusive": True},
    )


def without_exclusive(team: Team) -> Team:
    return replace(team, spec=team.spec | {"idTemplate": "{podName}"})


def begun(world: World, kind: ChangeKind, **fields: Any) -> asyncio.Task[None]:
    change = Change(kind=kind, after_s=1.0, lasts_s=LASTS_S, **fields)
    return world.loop.spawn(Changes(world, PEOPLE).carry_out(change), name=kind.name)


def is_of_kip848(world: World) -> bool:
    return isinstance(world.kafka.coordinator(GROUP).groups.get(GROUP), ConsumerGroup)


@pytest.mark.parametrize("is_in_spec", [True, False])
@pytest.mark.parametrize("team", [lambda t: t, on_delete, by_hand], ids=["injected", "on delete", "by hand"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@kept("team", "protocol")
async def test_a_group_is_of_the_other_protocol_for_a_while_and_keeps_its_seats(
    world: World, protocol: str, team: Callable[[Team], Team], is_in_spec: bool
) -> None:
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
    assert world.safety.removals == 0


@pytest.mark.parametrize("team", [lambda t: t, by_hand], ids=["injected", "by hand"])
@kept("team")
async def test_members_are_dynamic_for_a_while_and_static_again(world: World, team: Callable[[Team], Team]) -> None:
    seats = set(world.members())
    people = begun(world, ChangeKind.DYNAMIC)
    await world.until(lambda: not world.members() and world.member_count() == 2, 100, "dynamic members only")
    await people
    await world.until(lambda: set(world.members()) == seats == set(world.truth.desired_ids(GROUP)), 120, "static again")
    assert world.safety.removals == 0


@pytest.mark.parametrize("kind", [ChangeKind.COPY, ChangeKind.OUTSIDER])
@kept(team=without_exclusive)
async def test_a_copy_takes_the_seat_and_is_gone_in_the_end(world: World, kind: ChangeKind) -> None:
    """In a classic group a copy fences the original, which comes back, and so on; a process that ends is started
    again."""
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


class Unwanting(Random):
    """Draws that the original is no longer wanted, and as the original the last pod of all."""

    def random(self) -> float:
        return 0.0

    def choice(self, seq: Any) -> Any:
        return max(seq, key=lambda process: process.pod_name)


@pytest.mark.parametrize(("protocol", "removals"), [("classic", 1), ("consumer", 2)])
@kept("protocol")
async def test_a_copy_that_outlives_its_original_keeps_the_seat_and_is_named(
    world: World, protocol: str, removals: int
) -> None:
    """Its pod carries the id, so it may hold the seat of the original, but for where that has shown its address; both
    leave once they have ended."""
    seat = world.id_of(1)
    change = Change(kind=ChangeKind.COPY, after_s=1.0, lasts_s=3 * LASTS_S)
    people = world.loop.spawn(Changes(world, Unwanting()).carry_out(change), name="copy")
    await asyncio.sleep(2.9 * LASTS_S)
    assert list(world.truth.desired(WORKLOAD)) == [0]
    process = some(world.processes.creator(world.members()[seat]))
    assert process.pod_name == f"{COPY}-0"
    (held,) = [e for e in world.status["issues"] if e.get("instanceId") == seat]
    assert held["reason"] == "PodStillRunning"
    assert f"{COPY}-0 " in held["message"]
    assert world.safety.removals == removals - 1
    await people
    await world.until(lambda: seat not in world.members(), 20, "the seat is given up")
    assert world.safety.removals == removals


@pytest.mark.parametrize(
    ("spec", "protocol", "changed"),
    [
        ({}, "consumer", {}),
        ({"groupProtocol": "Auto", "removal": "DepartedAndCrashed"}, "classic", {}),
        (
            {"groupProtocol": "Classic", "sessionTimeout": {"seconds": 30}},
            "consumer",
            {"groupProtocol": "Consumer", "sessionTimeout": None},
        ),
        (
            {"groupProtocol": "Consumer", "removal": "DepartedAndCrashed"},
            "classic",
            {"groupProtocol": "Classic", "removal": "Departed"},
        ),
        ({"groupProtocol": "Consumer", "removal": "Never"}, "classic", {"groupProtocol": "Classic"}),
        ({"groupProtocol": "Consumer"}, "classic", {"groupProtocol": "Classic"}),
    ],
)
def test_what_a_user_says_of_the_other_protocol_is_what_the_resource_allows(
    spec: Json, protocol: str, changed: Json
) -> None:
    assert protocol_spec(spec, protocol) == changed


@pytest.mark.parametrize(
    ("team", "changed"),
    [
        (
            Team(),
            {
                "client": {
                    "type": "Own",
                    "suffixes": [""],
                    "env": [
                        {
                            "instanceIdName": "KAFKA_GROUP_INSTANCE_ID", "sessionTimeoutName": "KAFKA_SESSION_TIMEOUT_MS",
                            "suffix": "",
                        }
                    ],
                },
                "idTemplate": "{podName}.{scope}",
            },
        ),
        (
            Team(spec={"client": {"type": "KafkaStreams", "concurrency": 2, "container": "app"}, "idTemplate": "a-{ordinal}"}),
            {
                "client": {
                    "type": "Own",
                    "container": None,
                    "concurrency": None,
                    "suffixes": ["-1", "-2"],
                    "env": [
                        {
                            "container": "app",
                            "instanceIdName": "KAFKA_STREAMS_GROUP_INSTANCE_ID",
                            "sessionTimeoutName": "KAFKA_STREAMS_SESSION_TIMEOUT_MS",
                            "suffix": "",
                        }
                    ],
                },
                "idTemplate": "a-{ordinal}",
            },
        ),
        (Team(spec={"client": {"type": "Debezium", "injectAgent": True}}), {"mode": "Observe"}),
        (Team(spec={"client": {"type": "Own"}}), {}),
    ],
    ids=["generic", "streams", "workers", "own"],
)
def test_a_user_who_takes_ids_away_for_a_while_says_which_ids_these_were(team: Team, changed: Json) -> None:
    """The ids stay those of the StaticGroup, and the spec is afterwards what it was."""
    assert spec_without_ids(team) == changed
    without = replace(team, spec=merged(team.spec, changed))
    assert (without.template, without.suffixes, without.variables) == (team.template, team.suffixes, team.variables)
    again = merged(without.spec, taken_back(team.spec, changed))
    plain = {"client": {}} if "client" in again and not again["client"] else {}
    assert again == plain | team.spec
