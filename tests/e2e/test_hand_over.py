"""The active replica ends, is asked to end, freezes or is cut off: the other one takes over within seconds.

The one idea: the API server shows for how long no replica acted. A StaticGroup is changed at the moment of the fault,
and the time until a status has that generation is the whole hand-over: a Lease, a take-over, a round and a write. The
brokers' log and the members themselves show what happened to members meanwhile.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from support.devcluster.kafka_log_lines import GroupEventKind
from support.long_drills import are_drills_long, by_length
from support.scene.cuts import Way, api_server_of, cut
from support.scene.figures import record, spread
from support.scene.operators import await_active, kill, standing_still
from support.scene.play import Play
from support.scene.stage import RELEASE, SYSTEM, Stage
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.timeout(1200)]

SEED = 20_261_126
LONG_SESSION = {"sessionTimeout": {"seconds": 120}}
DEPLOYMENT = f"deployment/{RELEASE}-operator"
KILLED_MEDIAN_S, KILLED_MAX_S, TERMINATED_MAX_S = 8.0, 15.0, 3.0
"""Budgets, held where the machine has nothing else to do: in the long runs."""


def change(play: Play) -> int:
    """Change the StaticGroup in a way that needs nothing but another round; returns its generation."""
    group = play.stage.get("staticgroup", play.name, play.name) or {}
    other = {"assumeExclusive": not group["spec"].get("assumeExclusive")}  # means nothing to ids with a scope
    play.stage.apply_patch("staticgroup", play.name, play.name, {"spec": other})
    return int((play.stage.get("staticgroup", play.name, play.name) or {})["metadata"]["generation"])


def await_reported(play: Play, generation: int, since_s: float) -> float:
    """Wait until the status has a generation; returns the seconds since then."""

    def is_reported() -> bool:
        conditions = (play.status() or {}).get("conditions", [])
        return any(c["type"] == "Ready" and c.get("observedGeneration", 0) >= generation for c in conditions)

    until(is_reported, deadline_s=120, what=f"a status of generation {generation}", poll_s=0.05)
    return time.monotonic() - since_s


def await_two(stage: Stage) -> None:
    """Wait until both replicas are Ready, so that there is one to take over."""
    stage.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=120s")
    until(lambda: len(stage.operator_pods()) == 2, deadline_s=60, what="two replicas")


@pytest.fixture
def running(new_play: Callable[..., Play], installed: Stage) -> Iterator[Play]:
    """A group of two consumers under two replicas, and fresh replicas afterwards."""
    play = new_play()
    play.start(2, static=LONG_SESSION, podManagementPolicy="Parallel")
    await_two(installed)
    yield play
    installed.install()
    await_two(installed)


def staying_of(play: Play) -> dict[str, str]:
    """Return the members, by instance id, that a scale-down from three to two leaves."""
    return {i: member_id for i, member_id in play.member_ids().items() if not i.startswith(f"{play.name}-2.")}


def unharmed(play: Play, members: dict[str, str]) -> None:
    """Assert that no member was removed, fenced or lost its session, and that the same members are there."""
    assert play.removals() == []
    assert play.events(GroupEventKind.SESSION_EXPIRED, GroupEventKind.FENCED) == []
    assert play.member_ids() == members


def test_killed_replica_is_replaced_and_a_terminating_one_hands_over(running: Play, installed: Stage) -> None:
    play, stage = running, installed
    members = play.member_ids()
    killed_s, terminated_s = [], []
    for _ in range(by_length(short=2, long=20)):
        holder = until(stage.lease_holder, deadline_s=60, what="a holder")
        pids = await_active(stage, 0)
        began_s = time.monotonic()
        kill(pids)
        killed_s.append(await_reported(play, change(play), began_s))
        # The kubelet backs off from a container that was killed often: the next one to be killed shall have a fresh
        # companion.
        stage.kubectl("delete", "pod", holder, "-n", SYSTEM, "--ignore-not-found", "--wait=true", "--timeout=60s")
        await_two(stage)
    for _ in range(by_length(short=1, long=10)):
        holder = until(stage.lease_holder, deadline_s=60, what="a holder")
        await_active(stage, 0)
        began_s = time.monotonic()
        stage.kubectl("delete", "pod", holder, "-n", SYSTEM, "--wait=false")
        terminated_s.append(await_reported(play, change(play), began_s))
        await_two(stage)
    unharmed(play, members)
    record(
        "hand-over", kills=len(killed_s), killed_to_acting_s=spread(killed_s), ends=len(terminated_s),
        terminated_to_acting_s=spread(terminated_s),
    )  # fmt: skip
    if are_drills_long():
        assert sorted(killed_s)[len(killed_s) // 2] <= KILLED_MEDIAN_S
        assert max(killed_s) <= KILLED_MAX_S
        assert max(terminated_s) <= TERMINATED_MAX_S


def test_a_rolling_upgrade_leaves_no_change_unanswered(running: Play, installed: Stage) -> None:
    """Both replicas are replaced while one StaticGroup changes again and again; the longest wait is the hand-over."""
    play, stage = running, installed
    members = play.member_ids()
    old = {pod["metadata"]["uid"] for pod in stage.operator_pods()}
    stage.kubectl("rollout", "restart", DEPLOYMENT, "-n", SYSTEM)
    waits_s: list[float] = []
    deadline_s = time.monotonic() + 180
    while old & {pod["metadata"]["uid"] for pod in stage.items("pods", SYSTEM, "app.kubernetes.io/name=staticgroup")}:
        assert time.monotonic() < deadline_s, "the rollout does not end"
        began_s = time.monotonic()
        waits_s.append(await_reported(play, change(play), began_s))
    await_two(stage)
    unharmed(play, members)
    record("rolling upgrade of the operator", changes=len(waits_s), change_to_status_s=spread(waits_s))
    if are_drills_long():
        assert max(waits_s) <= TERMINATED_MAX_S


def disturb(
    play: Play, stage: Stage, rounds: int, trouble: Callable[[list[int]], AbstractContextManager[None]], seed: str
) -> list[float]:
    """Scale up and down by one while the active replica is in trouble; assert that no live member is harmed.

    The trouble begins at a moment of the scale-down and lasts until the member is gone, in long runs for 60 s more.

    Returns
    -------
    Seconds from the trouble to the removal by the brokers' log, of the removals that came after it.
    """
    rng = random.Random(f"{SEED} {seed}")
    waits_s = []
    for _ in range(rounds):
        play.scale(3)
        play.await_joined(3)
        await_two(stage)
        pids = await_active(stage, 0)
        staying = staying_of(play)
        before = len(play.removals())
        moment_s = time.monotonic() + rng.random() * 1.8
        play.scale(2)
        until(lambda at_s=moment_s: time.monotonic() >= at_s, deadline_s=5, what="the moment", poll_s=0.01)
        began_ms = time.time() * 1000
        with trouble(pids):
            until(lambda n=before: len(play.removals()) > n, deadline_s=100, what="the member removed", poll_s=0.3)
            waits_s += [(e.at_ms - began_ms) / 1000 for e in play.removals()[before:] if e.at_ms > began_ms]
            if are_drills_long():  # The other one has been at work for long when this one goes on where it was.
                began_s = time.monotonic()
                until(lambda at_s=began_s: time.monotonic() - at_s > 60, deadline_s=75, what="a long time")
        await_reported(play, change(play), time.monotonic())
        assert play.member_ids() == staying, "the other members stay"
        assert len(play.removals()) == before + 1, "one is removed, once"
    return waits_s


def assert_no_member_was_harmed(play: Play) -> None:
    """Nobody was fenced, and no session ran out, by the brokers' log."""
    assert play.events(GroupEventKind.SESSION_EXPIRED, GroupEventKind.FENCED) == []


def test_a_frozen_replica_does_no_harm_when_it_goes_on(running: Play, installed: Stage) -> None:
    waits_s = disturb(running, installed, by_length(short=1, long=8), standing_still, "frozen")
    assert_no_member_was_harmed(running)
    record(
        "frozen while it removes", rounds=by_length(short=1, long=8),
        frozen_to_removed_s=spread(waits_s) if waits_s else {},
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("way", list(Way))
def test_a_replica_cut_off_from_the_api_server_hands_over(running: Play, installed: Stage, way: Way) -> None:
    waits_s = disturb(running, installed, 3, lambda pids: cut(pids[0], api_server_of(pids[0]), way), way.value)
    assert_no_member_was_harmed(running)
    record("cut off from the API server", way=way.value, rounds=3, cut_to_removed_s=spread(waits_s) if waits_s else {})


@pytest.mark.long
@pytest.mark.parametrize("way", list(Way))
def test_a_replica_cut_off_from_kafka_says_so_and_removes_afterwards(running: Play, installed: Stage, way: Way) -> None:
    """It keeps the Lease: the other one need not reach Kafka any better. Nothing is removed until an answer comes."""
    play, stage = running, installed
    play.scale(3)
    play.await_joined(3)
    pids = await_active(stage, 0)
    staying = staying_of(play)
    with cut(pids[0], play.brokers.bootstrap.partition(":")[0], way):
        play.scale(2)
        until(
            lambda: play.condition("Connected").get("status") != "True", deadline_s=90, what="the status says so",
            poll_s=0.3,
        )  # fmt: skip
    healed_s = time.monotonic()
    until(play.removals, deadline_s=90, what="the member removed", poll_s=0.3)
    record("cut off from Kafka", way=way.value, healed_to_removed_s=round(time.monotonic() - healed_s, 1))
    await_reported(play, change(play), time.monotonic())
    assert play.member_ids() == staying
    assert len(play.removals()) == 1
    assert_no_member_was_harmed(play)
