"""A Deployment rolls, scales and is changed by people: ids pass from pod to pod, and its group notices what it must.

The one idea: what a roll cost is counted by the brokers, and no id may be in two living processes, by what the kernel
says of each; the operator's own status is never asked.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.jvm_workload.image import JVM_WORKLOAD_IMAGE, load_jvm_workload_image
from support.long_drills import by_length
from support.scene.departures import Departure, dead_before_ms
from support.scene.figures import prompt_s, record, spread
from support.scene.load import load, lost
from support.scene.witnesses import ProcessTable, is_operators
from support.slots import (
    DEPARTURES,
    PODS,
    REFUSALS,
    SESSION_S,
    DeploymentPlay,
    NewPlay,
    Witnesses,
    assert_quiet,
    leave,
    members_min,
    opened,
    shared_ids,
    witnessed,
)
from support.waiting import holds, until

pytestmark = [
    pytest.mark.e2e, pytest.mark.alone, pytest.mark.timeout(600), pytest.mark.usefixtures("serves_deployments"),
]  # fmt: skip

ROLLS = by_length(short=1, long=3)
MANY = 24
JAVA = "org.apache.kafka.clients.consumer."
CLIENTS = [
    pytest.param("librdkafka", "classic", "range", id="librdkafka-range"),
    pytest.param("librdkafka", "classic", "cooperative-sticky", id="librdkafka-cooperative", marks=pytest.mark.long),
    pytest.param("librdkafka", "consumer", "", id="librdkafka-kip-848", marks=pytest.mark.long),
    pytest.param("java", "classic", f"{JAVA}RangeAssignor", id="java-range", marks=pytest.mark.long),
    pytest.param("java", "classic", f"{JAVA}CooperativeStickyAssignor", id="java-cooperative", marks=pytest.mark.long),
    pytest.param("java", "consumer", "", id="java-kip-848", marks=pytest.mark.long),
]


def client_of(game: DeploymentPlay, client: str, assignor: str = "") -> dict[str, Any]:
    """Return what a Deployment's consumers are made of."""
    if client == "java":
        load_jvm_workload_image(game.stage.cluster)
    env = {"PARTITION_ASSIGNMENT_STRATEGY": assignor} if assignor else {}
    return {"env": env, "image": JVM_WORKLOAD_IMAGE if client == "java" else ""}


# rolls ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("client", "protocol", "assignor"), CLIENTS)
def test_rolls_of_a_deployment_are_not_noticed(new_play: NewPlay, client: str, protocol: str, assignor: str) -> None:
    game, session = opened(new_play, protocol)
    with witnessed(game) as seen, load(game) as producer:
        game.start(PODS, static=session, **client_of(game, client, assignor))
        assert game.rebalances(game.since_ms) > 0  # so the brokers' log does tell of rebalances
        ids, quiet_since_ms, took_s = game.member_ids().keys(), now_ms(), []
        for _ in range(ROLLS):
            began_ms = now_ms()
            game.roll()
            game.await_joined(PODS)
            took_s.append((now_ms() - began_ms) / 1000)
        assert producer.terminate() == 0
        if client == "librdkafka":
            until(lambda: not lost(producer, seen.consumers), deadline_s=30, what="all acknowledged records consumed")
        replaced = game.events(GroupEventKind.STATIC_MEMBER_REPLACED, since_ms=quiet_since_ms)
        to_process, to_note = spread(seen.start_s(quiet_since_ms)), spread(seen.passed_on_s(quiet_since_ms))
        record(
            f"rolls of a Deployment, {client} {protocol} {assignor.removeprefix(JAVA)}", rolls=ROLLS, pods=PODS,
            rebalances=game.rebalances(quiet_since_ms), roll_s=spread(took_s),
            note_to_process_s=to_process, end_to_note_s=to_note,
        )  # fmt: skip
        assert len(replaced) == to_note["count"] == PODS * ROLLS
        assert to_note["max"] <= prompt_s(0.5, otherwise_s=10)
        assert to_process["max"] <= prompt_s(4.0, otherwise_s=15)
        assert game.member_ids().keys() == ids
        assert_quiet(game, quiet_since_ms)
        seen.hold_the_promise()


@pytest.mark.long
def test_many_pods_that_come_at_once_all_get_their_slot(new_play: NewPlay) -> None:
    """First slots that nobody had, then by Recreate those of as many pods that end at one time."""
    game, session = opened(new_play)
    with witnessed(game) as seen:
        game.start(MANY, static=session, strategy={"type": "Recreate"})
        first, rolled_ms = spread(seen.start_s(game.since_ms)), now_ms()
        game.roll()
        game.await_joined(MANY)
        passed = spread(seen.start_s(rolled_ms))
        record(
            f"{MANY} pods at once", first_note_to_process_s=first, note_to_process_s=passed,
            end_to_note_s=spread(seen.passed_on_s(rolled_ms)),
        )  # fmt: skip
        assert first["count"] == passed["count"] == MANY
        assert max(first["max"], passed["max"]) <= prompt_s(6.0, otherwise_s=30)
        assert_quiet(game, rolled_ms)
        seen.hold_the_promise()


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.long)])
def test_small_deployment_pays_for_one_pod_more_and_says_so(new_play: NewPlay, protocol: str) -> None:
    """25 % of three pods, rounded down, is none: a fourth comes before one may go, and is one too many at the end."""
    pods = 3
    game, session = opened(new_play, protocol)
    with witnessed(game) as seen:
        game.start(pods, static=session)
        took_s = []
        for _ in range(ROLLS):
            began_ms = now_ms()
            game.roll()
            until(lambda at_ms=began_ms: game.removals(at_ms), deadline_s=SESSION_S / 2, what="one member removed")
            game.await_joined(pods)
            took_s.append((now_ms() - began_ms) / 1000)
            assert game.rebalances(began_ms) == 2
            assert [is_operators(e) for e in game.events(*DEPARTURES, *REFUSALS, since_ms=began_ms)] == [True]
            assert members_min(seen.consumers.voices(), began_ms) >= pods
        record(f"rolls of a small Deployment, {protocol}", rolls=ROLLS, pods=pods, rebalances=2, roll_s=spread(took_s))
        seen.hold_the_promise()
    said = until(
        lambda: c if (c := game.condition("RollsQuietly")).get("status") == "False" else None,
        deadline_s=30, what="the status says what a roll costs",
    )  # fmt: skip
    assert "maxUnavailable" in said["message"]


# scale ---------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_departed_members_leave_at_once_and_nobody_is_given_their_ids(
    new_play: NewPlay, process_table: ProcessTable
) -> None:
    game, session = opened(new_play)
    with witnessed(game) as seen, load(game):
        game.start(5, static=session)
        found: list[Departure] = []
        for _ in range(3):
            down_ms = now_ms()
            found += leave(game, seen, 3, game.autoscale)
            assert game.rebalances(down_ms) == 1, "both in one request"
            game.autoscale(6)
            game.await_joined(6)
            assert not {d.instance_id for d in found} & game.member_ids().keys()
            game.autoscale(5)
            game.await_joined(5)
        seen.hold_the_promise()
    acknowledged_s = [d.acknowledged_s for d in found]
    record("scale-downs of a Deployment", acknowledged_s=spread(acknowledged_s))
    assert min(dead_before_ms(d, process_table.lives()) for d in found) > 0
    assert max(acknowledged_s) <= prompt_s(1.0, otherwise_s=10)


# what people do ------------------------------------------------------------------------------------------------------


def await_given(seen: Witnesses, since_ms: int, count: int) -> None:
    """Wait until so many pods that came since then have a slot."""
    until(
        lambda: sum(bool(s.slot) for s in seen.since(since_ms)) >= count,
        deadline_s=60, what=f"{count} new pods with a slot", poll_s=0.05,
    )  # fmt: skip


@pytest.mark.long
def test_recreate_is_quiet_while_the_session_outlasts_it(new_play: NewPlay) -> None:
    game, session = opened(new_play)
    with witnessed(game) as seen:
        game.start(PODS, static=session, strategy={"type": "Recreate"})
        rolled_ms = now_ms()
        game.roll()
        game.await_joined(PODS)
        assert_quiet(game, rolled_ms)
        seen.hold_the_promise()


@pytest.mark.long
def test_roll_that_is_taken_back_in_the_middle_is_quiet(new_play: NewPlay) -> None:
    game, session = opened(new_play)
    with witnessed(game) as seen:
        game.start(PODS, static=session)
        rolled_ms = now_ms()
        game.rollout("restart")
        await_given(seen, rolled_ms, 3)
        game.rollout("undo")
        game.await_rolled()
        game.await_joined(PODS)
        assert_quiet(game, rolled_ms)
        seen.hold_the_promise()


@pytest.mark.long
def test_pause_in_a_roll_keeps_nobody_waiting(new_play: NewPlay) -> None:
    """Nobody says for how long it is paused, so what waits without a claim gets slots of its own."""
    game, session = opened(new_play)
    with witnessed(game) as seen:
        game.start(PODS, static=session)
        rolled_ms = now_ms()
        game.rollout("restart")
        await_given(seen, rolled_ms, 1)
        game.rollout("pause")
        until(lambda: not seen.watch.waiting(), deadline_s=60, what="nobody waits")
        game.rollout("resume")
        game.await_rolled()
        game.await_joined(PODS)
        assert all(is_operators(e) for e in game.events(*DEPARTURES, *REFUSALS, since_ms=rolled_ms))
        record("paused roll of a Deployment", rebalances=game.rebalances(rolled_ms))
        seen.hold_the_promise()


@pytest.mark.long
def test_waiting_pod_that_is_deleted_is_not_missed(new_play: NewPlay) -> None:
    game, session = opened(new_play)
    with witnessed(game) as seen:
        game.start(PODS, static=session)
        rolled_ms = now_ms()
        game.rollout("restart")
        (first, *_) = until(seen.watch.waiting, deadline_s=30, what="a pod that waits", poll_s=0.02)
        game.stage.kubectl("delete", "pod", first.name, "-n", game.name, "--wait=false")
        game.await_rolled()
        game.await_joined(PODS)
        assert_quiet(game, rolled_ms)
        seen.hold_the_promise()


@pytest.mark.long
def test_image_that_does_not_start_is_taken_back_without_a_rebalance(new_play: NewPlay) -> None:
    """The pods with the slots of those that ended never join; those that come back do, within their sessions."""
    game, session = opened(new_play)
    with witnessed(game) as seen:
        game.start(PODS, static=session)
        broken_ms = now_ms()
        name = game.name
        game.stage.kubectl("set", "env", f"deployment/{name}", "-n", name, "SECURITY_PROTOCOL=none-such")
        await_given(seen, broken_ms, 1)
        game.rollout("undo")
        game.await_rolled()
        game.await_joined(PODS)
        assert_quiet(game, broken_ms)
        assert shared_ids(seen.lives, list(seen.watch.waits)) == []


@pytest.mark.long
def test_two_groups_of_one_deployment_roll_quietly_side_by_side(new_play: NewPlay) -> None:
    """Two containers of a pod, each with a group and a StaticGroup of its own: two waiters, two notes."""
    game, session = opened(new_play)
    other = f"{game.name}-b"
    second = game.static_group(groupId=other, client={"container": "other"}, **session)
    second["metadata"]["name"] = other
    first = game.static_group(client={"container": "app"}, **session)
    game.stage.apply(first, second)
    until(
        lambda: all((game.stage.get("ksg", name, game.name) or {}).get("status", {}).get("injected")
                    for name in (game.name, other)),
        deadline_s=30, what="ids of both are issued",
    )  # fmt: skip
    made = game.deployment(PODS)
    containers = made["spec"]["template"]["spec"]["containers"]
    env = [e for e in containers[0]["env"] if e["name"] != "GROUP"]
    containers.append({**containers[0], "name": "other", "env": [*env, {"name": "GROUP", "value": other}]})

    def joined() -> bool:
        groups = [game.admin.describe_group(name) for name in (game.name, other)]
        return all(sum(bool(m.instance_id) for m in g.members) == PODS and g.state == "Stable" for g in groups)

    with witnessed(game) as seen:
        game.stage.apply(made)
        until(joined, deadline_s=90, what="both groups stable with static members", poll_s=0.3)
        rolled_ms = now_ms()
        game.roll()
        until(joined, deadline_s=60, what="both groups stable with static members", poll_s=0.3)
        assert_quiet(game, rolled_ms)
        assert game.brokers.group_log.count_rebalances(other, rolled_ms) == 0
        seen.hold_the_promise()
    holds(joined, for_s=2, what="both groups stay")
