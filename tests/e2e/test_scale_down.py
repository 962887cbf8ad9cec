"""Scale down, steadily and in a frenzy: departed members leave at once, live ones never.

The one idea: with a session of two minutes nothing but the operator can free partitions within seconds, so every short
figure here is its work; and the only member it may name is one whose process has ended.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.long_drills import are_drills_long, by_length
from support.scene.departures import Departure, dead_before_ms, departures
from support.scene.figures import prompt_s, record, spread
from support.scene.play import Play
from support.scene.pod_lines import PodLines, collected_lines
from support.scene.remembered import await_ready
from support.scene.witnesses import PodSighting, PodWatch, ProcessTable
from support.waiting import until
from support.workload.process import Program

pytestmark = pytest.mark.e2e

NewPlay = Callable[..., Play]
SESSION_S = {"classic": 120, "consumer": 60}
"""The longest that a stock broker allows KIP-848 groups is group.consumer.max.session.timeout.ms, 60 s."""
LONG_SESSION = {"sessionTimeout": {"seconds": SESSION_S["classic"]}}
PATIENCE_S = 60.0
FLAPS = 20


def leave_in_round(game: Play, watch: PodWatch, consumers: PodLines, start: int, end: int) -> list[Departure]:
    """Scale from `start` to `end` pods and return the departures, once all of their partitions are consumed again."""
    pods = game.pods()
    index = "apps.kubernetes.io/pod-index"
    leaving = {p["metadata"]["uid"] for p in pods if int(p["metadata"]["labels"][index]) >= end}
    staying = {p["metadata"]["uid"] for p in pods} - leaving
    assert (len(leaving), len(staying)) == (start - end, end)
    game.scale(end)

    def complete() -> list[Departure]:
        voices = {voice.uid: voice for voice in consumers.voices()}
        sightings: list[PodSighting] = [watch.pods[uid] for uid in leaving]
        found = departures(sightings, game.removals(), voices, staying)
        return found if len(found) == len(leaving) and all(d.consumed_at_ms for d in found) else []

    # Half a session: what takes longer was not the operator's work.
    patience_s = SESSION_S[game.protocol] / 2
    return until(complete, deadline_s=patience_s, what=f"{start - end} members removed and replaced", poll_s=0.2)


def judge(title: str, session_s: int, found: list[Departure], table: ProcessTable) -> None:
    """Record the figures of departures and hold them against the targets."""
    acknowledged_s = [d.acknowledged_s for d in found]
    assigned_s = [d.assigned_s for d in found if d.assigned_s is not None]
    consumed_s = [d.consumed_s for d in found if d.consumed_s is not None]
    dead_before = [dead_before_ms(d, table.lives()) for d in found]
    record(
        title, session_s=session_s, acknowledged_s=spread(acknowledged_s), assigned_again_s=spread(assigned_s),
        consumed_again_s=spread(consumed_s), process_gone_before_ms=spread(dead_before),
    )  # fmt: skip
    assert len(consumed_s) == len(found)
    assert min(dead_before) > 0
    # This member's end was the operator's reason. On a busy machine our own watch may be the slower one.
    assert min(acknowledged_s) > -2.0
    assert spread(acknowledged_s)["median"] <= prompt_s(1.5, otherwise_s=session_s / 10)
    assert max(acknowledged_s) <= prompt_s(3.0, otherwise_s=session_s / 4)


@pytest.mark.parametrize(
    ("policy", "protocol", "start", "end", "rounds"),
    [
        ("Parallel", "classic", 12, 2, by_length(short=2, long=4)),
        pytest.param("OrderedReady", "classic", 7, 2, 2, marks=pytest.mark.long),
        ("Parallel", "consumer", 12, 2, 1),
    ],
    ids=["parallel", "ordered", "kip-848"],
)
def test_departed_members_leave_long_before_their_session_ends(
    new_play: NewPlay, process_table: ProcessTable, policy: str, protocol: str, start: int, end: int, rounds: int
) -> None:
    game = new_play(protocol=protocol, partitions=24)
    if protocol == "consumer":
        game.stage.admin.alter_group(game.name, {"consumer.session.timeout.ms": str(SESSION_S["consumer"] * 1000)})
    load = {"BOOTSTRAP": game.stage.brokers.bootstrap, "TOPIC": game.name, "RATE_PER_S": "500"}
    found: list[Departure] = []
    with game.watched() as watch, collected_lines(game.stage.cluster, game.name) as consumers:
        producer = Program("producer", load)
        try:
            static = LONG_SESSION if protocol == "classic" else {}
            game.start(start, static=static, podManagementPolicy=policy)
            for number in range(rounds):
                if number:
                    game.scale(start)
                game.await_joined(start)
                await_ready(game, start)
                found += leave_in_round(game, watch, consumers, start, end)
        finally:
            producer.terminate()
    assert game.events(GroupEventKind.SESSION_EXPIRED) == []
    assert len({d.member_id for d in found}) == (start - end) * rounds == len(game.removals())
    judge(f"scale-down, {policy} {protocol}", SESSION_S[protocol], found, process_table)


def flap(game: Play, watch: PodWatch) -> list[tuple[str, str]]:
    """Scale from four pods to two and back, reversed at named moments; returns those moments."""

    def objects() -> list[PodSighting]:
        return [p for p in list(watch.pods.values()) if p.deleted_at_ms is None]

    def held(count: int) -> bool:
        return len(game.member_ids()) == count

    departing: dict[str, Callable[[], bool]] = {
        "at once": lambda: True,
        "deletion asked": lambda: sum(p.deletion_asked_at_ms is None for p in objects()) == 2,
        "ended": lambda: sum(p.terminal_at_ms is None for p in objects()) == 2,
        "object gone": lambda: len(objects()) == 2,
        "member removed": lambda: held(2),
    }
    returning: dict[str, Callable[[], bool]] = {
        "at once": lambda: True,
        "object there": lambda: sum(p.deletion_asked_at_ms is None for p in objects()) == 4,
        "running": lambda: sum(p.versions[-1].endswith("Running") for p in objects()) == 4,
        "member joined": lambda: held(4),
    }
    every = list(itertools.product(departing, returning))
    assert len(every) == FLAPS
    # The short form has each departure once, and each return at least once.
    combinations = every if are_drills_long() else list(zip(departing, itertools.cycle(returning), strict=False))
    assert {down for down, _ in combinations} == set(departing)
    assert {up for _, up in combinations} == set(returning)
    for down, up in combinations:
        game.scale(2)
        until(departing[down], deadline_s=PATIENCE_S, what=f"down, then {down}", poll_s=0.05)
        game.scale(4)
        until(returning[up], deadline_s=PATIENCE_S, what=f"up, then {up}", poll_s=0.05)
    return combinations


@pytest.mark.long
def test_flapping_scale_removes_the_dead_and_only_them(new_play: NewPlay) -> None:
    """4 → 2 → 4, turned round at every moment of a departure and of a return; in the long form at every combination."""
    game = new_play()
    with game.watched() as watch, collected_lines(game.stage.cluster, game.name) as consumers:
        game.start(4, static=LONG_SESSION, podManagementPolicy="Parallel")
        stayed = {i: m for i, m in game.member_ids().items() if ordinal(i) < 2}
        began_ms = now_ms()
        combinations = flap(game, watch)
        flapped_s = (now_ms() - began_ms) / 1000
        game.await_joined(4)
        await_ready(game, 4)
        members = game.member_ids()
        down_at_ms = now_ms()
        game.scale(2)
        game.await_joined(2, deadline_s=PATIENCE_S)

        removals = game.removals()
        record(
            "flapping scale", rounds=len(combinations), flapped_s=round(flapped_s, 1),
            processes=sum(bool(v.of_kind("started")) for v in consumers.voices()), removals=len(removals),
            fenced_removals=len(game.events(GroupEventKind.FENCED)),
            sessions_expired=len(game.events(GroupEventKind.SESSION_EXPIRED)),
            fatal_errors=len([line for line in consumers.lines("error") if line["fatal"]]),
        )  # fmt: skip
        # Each round that waited for `member removed` had two, and so has the last scale-down.
        assert len(removals) >= 2 * [down for down, _ in combinations].count("member removed") + 2
        assert {e.member_id for e in game.removals(down_at_ms)} == {m for i, m in members.items() if ordinal(i) >= 2}
        assert game.member_ids() == stayed
        assert game.events(GroupEventKind.SESSION_EXPIRED) == []
        assert [line for line in consumers.lines("error") if line["fatal"]] == []


def ordinal(instance_id: str) -> int:
    """Return the ordinal in an id of the default template."""
    return int(instance_id.partition(".")[0].rpartition("-")[2])
