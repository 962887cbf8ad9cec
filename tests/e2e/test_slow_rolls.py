"""Pods that take 20 to 50 seconds to come back: after two rolls the operator knows, and the next ones are not noticed.

The one idea: how long each member was away is read from its own lines (it closed; its successor was assigned), what a
roll cost from the brokers' log, which session timeout was in force from what the pods were made with or the group's
settings. All three are held against the one that the operator chose from what it measured itself. It has to be in
force, too: in a classic group the pods of the third roll are the first that have it, so a fourth one follows; a KIP-848
group is fixed to a shorter one until it is chosen, because a longer one stands for a day.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from e2e.test_rolling import away_ms
from staticgroup.api.names import SESSION_TIMEOUT_ANNOTATION
from support.devcluster.kafka_broker import Brokers, BrokerSettings
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.devcluster.progress import say
from support.drills.api import Api
from support.scene.figures import record
from support.scene.play import Play
from support.scene.pod_lines import PodLines, collected_lines
from support.scene.stage import WORKLOAD_IMAGE, Stage
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.long, pytest.mark.timeout(2400)]

NewPlay = Callable[..., Play]
PODS, TAUGHT, ROLLS = 3, 2, 4
FIXED_S = 60
"""Outlasts these restarts, and is shorter than what is chosen from them."""
WAIT_S_MIN, WAIT_S_MAX = 20, 50
ROLL_S_MAX = PODS * (WAIT_S_MAX + 60.0)
QUANTUM_MS = 5_000
"""What is chosen is a multiple of this, and never less than what is needed."""
MAXIMUM = "group.consumer.max.session.timeout.ms"
SETTING = "consumer.session.timeout.ms"
WAITING = 'set -- $WAITS_S; shift "${HOSTNAME##*-}"; exec sleep "$1"'
"""Each pod waits for as long as was drawn for its ordinal in this roll."""


@pytest.fixture(scope="module")
def roomy_brokers(stage: Stage) -> Iterator[Brokers]:
    """A broker that allows KIP-848 groups as long a session as classic ones may have."""
    settings = BrokerSettings(
        name=f"{stage.cluster.name}-roomy", bind=stage.cluster.state.host_address, overrides={MAXIMUM: "600000"}
    )
    brokers = Brokers.up(settings, report=say)
    yield brokers
    brokers.down()


def waits(rng: Random) -> str:
    """Draw how long each pod takes to come back, in seconds."""
    return " ".join(str(rng.randint(WAIT_S_MIN, WAIT_S_MAX)) for _ in range(PODS))


def slow(waits_s: str) -> dict[str, Any]:
    """Return the part of a pod's spec by which it comes back late."""
    init = {"name": "late", "image": WORKLOAD_IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", WAITING],
            "env": [{"name": "WAITS_S", "value": waits_s}]}  # fmt: skip
    return {"initContainers": [init]}


def start(game: Play, waits_s: str, **session: Any) -> None:
    """Start slow consumers; how long a session is is left to the operator, unless `session` says otherwise."""
    game.stage.apply(
        game.static_group(sessionTimeout={"writeGroupConfig": game.protocol == "consumer", **session})
    )
    until(lambda: status(game).get("injected"), deadline_s=60, what="ids are issued", poll_s=0.5)
    game.stage.apply(game.stateful_set(PODS, pod=slow(waits_s), podManagementPolicy="Parallel"))


def status(game: Play) -> dict[str, Any]:
    """Return the StaticGroup's status."""
    api = Api(cluster=game.stage.cluster)
    found: dict[str, Any] = api.get("StaticGroup", game.name, game.name).get("status") or {}
    return found


def measured(game: Play) -> int:
    """Return how many restarts the operator says that it has measured, whether it rests anything on them yet or not."""
    return sum(cause["seen"] for cause in (status(game)["memory"].get("absences") or {}).get("causes", []))


def roll(games: Sequence[Play], waits_s: Sequence[str]) -> None:
    """Roll all groups at once, with new waits, until every pod is there again and every member back."""
    for game, each in zip(games, waits_s, strict=True):
        game.stage.apply(game.stateful_set(PODS, pod=slow(each), podManagementPolicy="Parallel"))
    api = Api(cluster=games[0].stage.cluster)

    def is_rolled(game: Play) -> bool:
        found = api.get("StatefulSet", game.name, game.name)
        now = found.get("status", {})
        is_seen = now.get("observedGeneration") == found["metadata"]["generation"]
        return is_seen and now.get("updatedReplicas") == now.get("readyReplicas") == PODS

    until(lambda: all(is_rolled(g) for g in games), deadline_s=ROLL_S_MAX, what="the roll to be complete", poll_s=1.0)
    for game in games:
        game.await_joined(PODS)


@dataclass(frozen=True, kw_only=True)
class Lesson:
    """What is known after two rolls.

    Parameters
    ----------
    away_ms: the longest absence by the clients' record. seen_ms: by the operator's.
    chosen_ms: the session timeout that it chose from them.
    """

    away_ms: int
    seen_ms: int
    chosen_ms: int


def test_rolls_of_slow_pods_are_not_noticed_after_two(new_play: NewPlay, roomy_brokers: Brokers) -> None:
    """Classic and KIP-848 side by side; the first two rolls only teach the operator how long a restart takes."""
    seed = int(os.environ.get("SLOW_ROLLS_SEED") or secrets.randbelow(1 << 32))
    say(f"SLOW_ROLLS_SEED={seed}")
    rng = Random(seed)
    classic, consumer = games = [
        new_play("classic"),
        new_play("consumer", protocol="consumer", other_brokers=roomy_brokers),
    ]
    with ExitStack() as stack:
        voices = [stack.enter_context(collected_lines(g.stage.cluster, g.name)) for g in games]
        start(classic, waits(rng))
        start(consumer, waits(rng), seconds=FIXED_S)
        for game in games:
            game.await_joined(PODS, deadline_s=WAIT_S_MAX + 120)
        for _ in range(TAUGHT):
            roll(games, [waits(rng) for _ in games])
        assert in_force(consumer) == {FIXED_S * 1000}
        lessons = [learn(g, v) for g, v in zip(games, voices, strict=True)]
        held_ms, since_ms = [], now_ms()
        for _ in range(TAUGHT, ROLLS):
            held_ms.append([in_force(game) for game in games])
            roll(games, [waits(rng) for _ in games])
        for number, (game, voice, lesson) in enumerate(zip(games, voices, lessons, strict=True)):
            judge(game, voice, since_ms, lesson, [each[number] for each in held_ms])


def in_force(game: Play) -> set[int]:
    """Return the members' session timeouts in milliseconds, from their pods or from Kafka's own admin client."""
    if game.protocol == "consumer":
        return {int(game.admin.group_settings(game.name)[SETTING])}
    return {int(pod["metadata"]["annotations"][SESSION_TIMEOUT_ANNOTATION]) for pod in game.pods()}


def learn(game: Play, voice: PodLines) -> Lesson:
    """Wait until every restart is measured, and have a fixed timeout give way to what was chosen."""
    away = away_ms(voice)
    assert len(away) == PODS * TAUGHT
    if game.protocol == "consumer":
        game.stage.apply(game.static_group(sessionTimeout={"writeGroupConfig": True}))

    def chosen() -> int | None:
        shown, exact = status(game)["sessionTimeout"], status(game)["memory"]["timeout"]
        rests_on = re.search(r"the longest of (\d+) measured absences", shown.get("why", ""))
        is_measured = rests_on is not None and int(rests_on[1]) >= len(away)
        found: set[int | None] = {exact.get("nextMs")}
        if game.protocol == "consumer":
            # Members take a raised setting over with a later heartbeat; an absent one keeps the former setting.
            in_force_s = shown.get("seconds")
            found |= {exact.get("ownMs"), None if in_force_s is None else in_force_s * 1000}
        return found.pop() if is_measured and len(found) == 1 else None

    chosen_ms: int = until(chosen, deadline_s=60, what="every restart measured and the timeout chosen", poll_s=1.0)
    seen_ms = max(cause["longestMs"] or 0 for cause in status(game)["memory"]["absences"]["causes"])
    return Lesson(away_ms=max(away), seen_ms=seen_ms, chosen_ms=chosen_ms)


def judge(game: Play, voice: PodLines, since_ms: int, lesson: Lesson, held_ms: Sequence[set[int]]) -> None:
    """Assert that later rolls caused no rebalance, and that the chosen timeout was long enough and not too long.

    Parameters
    ----------
    held_ms: what was in force when each of these rolls began.
    """
    rebalances, expired = [game.rebalances(since_ms)], game.events(GroupEventKind.SESSION_EXPIRED, since_ms=since_ms)
    away = away_ms(voice)
    record(
        f"slow rolls, {game.protocol}", chosen_ms=lesson.chosen_ms, longest_of_two_rolls_ms=lesson.away_ms,
        seen_ms=lesson.seen_ms,
        in_force_ms=[sorted(each) for each in held_ms], longest_ms=max(away), restarts=len(away),
        rebalances=rebalances[0],
        sessions_expired=len(expired), removals=len(game.removals()), next_ms=status(game)["memory"]["timeout"]["nextMs"],
    )  # fmt: skip
    assert len(away) == PODS * ROLLS
    assert rebalances == [0]
    assert expired == []
    assert game.removals() == []
    assert max(away) <= lesson.chosen_ms
    assert lesson.away_ms <= lesson.seen_ms
    assert lesson.chosen_ms <= 2 * lesson.seen_ms
    assert lesson.chosen_ms <= 2 * lesson.away_ms + QUANTUM_MS
    # More is taken at once when a longer absence is seen, also between two pods of one roll.
    assert lesson.chosen_ms in held_ms[-1]
    assert all(lesson.chosen_ms <= each <= status(game)["memory"]["timeout"]["nextMs"] for each in held_ms[-1])
    if game.protocol == "consumer":
        assert held_ms[0] == {lesson.chosen_ms}


def test_bound_of_the_brokers_that_is_too_low_is_named_with_the_number_to_raise_it_to(new_play: NewPlay) -> None:
    """Stock brokers allow a KIP-848 group 60 s: too little for pods that take 50 s; the condition says how much."""
    game = new_play("stock", protocol="consumer")
    shortest, longest = (" ".join([str(each)] * PODS) for each in (WAIT_S_MIN, WAIT_S_MAX))
    with collected_lines(game.stage.cluster, game.name) as voice:
        start(game, shortest)
        game.await_joined(PODS, deadline_s=WAIT_S_MAX + 120)
        roll([game], [longest])
        longest_ms = max(away_ms(voice))
        until(lambda: measured(game) >= PODS, deadline_s=60, what="every restart measured", poll_s=1.0)
        found = until(lambda: game.condition("TimeoutSufficient"), deadline_s=30, what="the condition")
    named = [int(n) for n in re.findall(rf"{re.escape(MAXIMUM)}\D*(\d+)", found["message"])]
    record(
        "slow rolls, stock bound", longest_ms=longest_ms, reason=found["reason"], named_ms=named,
        message=found["message"],
    )  # fmt: skip
    assert (found["status"], found["reason"]) == ("False", "BrokerBoundTooLow")
    assert named
    assert all(longest_ms <= n <= 3 * longest_ms for n in named)
    assert "60000" in found["message"]
