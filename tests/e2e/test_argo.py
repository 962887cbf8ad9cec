"""A Rollout of Argo, replaced by Argo's own controller: what each strategy costs, and that its members leave at once.

The one idea: what a roll cost is counted by the brokers, and no id may be in two living processes, by what the kernel
says of each; neither the operator's status nor the controller's is asked.
"""

from __future__ import annotations

import pytest

from support.argo import ArgoPlay
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.scene.departures import dead_before_ms
from support.scene.figures import prompt_s, record, spread
from support.scene.load import load, lost
from support.scene.witnesses import ProcessTable, is_operators
from support.slots import (
    DEPARTURES,
    PODS,
    REFUSALS,
    DeploymentPlay,
    NewPlay,
    Witnesses,
    assert_quiet,
    leave,
    members_min,
    opened,
    witnessed,
)
from support.waiting import until

pytestmark = [
    pytest.mark.e2e, pytest.mark.alone, pytest.mark.long, pytest.mark.timeout(600),
    pytest.mark.usefixtures("serves_rollouts"),
]  # fmt: skip

ROLLS = 3
STEPS = [{"setWeight": 50}, {"pause": {}}]


def assert_paid(game: ArgoPlay, seen: Witnesses, since_ms: int) -> None:
    """Hold that the operator alone removed members, and nobody was refused."""
    assert all(is_operators(e) for e in game.events(*DEPARTURES, *REFUSALS, since_ms=since_ms))
    seen.hold_the_promise()


def test_rolls_of_a_canary_without_steps_are_not_noticed(new_play: NewPlay) -> None:
    game, session = opened(new_play, kind=ArgoPlay)
    with witnessed(game) as seen, load(game) as producer:
        game.start(PODS, static=session)
        assert game.rebalances(game.since_ms) > 0  # so the brokers' log does tell of rebalances
        ids, quiet_since_ms, took_s = game.member_ids().keys(), now_ms(), []
        for _ in range(ROLLS):
            began_ms = now_ms()
            game.roll()
            game.await_joined(PODS)
            took_s.append((now_ms() - began_ms) / 1000)
        assert producer.terminate() == 0
        until(lambda: not lost(producer, seen.consumers), deadline_s=30, what="all acknowledged records consumed")
        replaced = game.events(GroupEventKind.STATIC_MEMBER_REPLACED, since_ms=quiet_since_ms)
        record(
            "rolls of an Argo Rollout, canary without steps", rolls=ROLLS, pods=PODS,
            rebalances=game.rebalances(quiet_since_ms), roll_s=spread(took_s),
        )  # fmt: skip
        assert len(replaced) == PODS * ROLLS
        assert game.member_ids().keys() == ids
        assert_quiet(game, quiet_since_ms)
        seen.hold_the_promise()


def test_restart_is_not_noticed(new_play: NewPlay) -> None:
    """As by `kubectl argo rollouts restart`: the controller evicts each pod, and the revision stays."""
    game, session = opened(new_play, kind=ArgoPlay)
    with witnessed(game) as seen:
        game.start(PODS, static=session)
        before, began_ms = game.uids(), now_ms()
        game.restart()
        game.await_gone(before)
        game.await_joined(PODS)
        assert_quiet(game, began_ms)
        seen.hold_the_promise()


def test_roll_of_the_deployment_that_has_the_template_is_not_noticed(new_play: NewPlay) -> None:
    """A Rollout with spec.workloadRef, as a Deployment of somebody else's chart becomes one of Argo's."""
    game, session = opened(new_play, kind=ArgoPlay)
    with witnessed(game) as seen:
        game.stage.apply(DeploymentPlay.deployment(game, 0))
        ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": game.name}
        game.start(PODS, static=session, template=None, workloadRef=ref)
        before, began_ms = game.uids(), now_ms()
        game.change_template("deployment")
        game.await_gone(before)
        game.await_joined(PODS)
        assert_quiet(game, began_ms)
        seen.hold_the_promise()


def test_steps_without_a_surge_are_not_noticed(new_play: NewPlay) -> None:
    game, session = opened(new_play, kind=ArgoPlay)
    strategy = {"canary": {"maxSurge": 0, "maxUnavailable": 1, "steps": STEPS}}
    with witnessed(game) as seen:
        game.start(PODS, static=session, strategy=strategy)
        ids, quiet_since_ms = game.member_ids().keys(), now_ms()
        for _ in range(ROLLS):
            before = game.uids()
            game.change_template()
            game.await_phase("Paused")
            game.await_joined(PODS)
            game.promote()
            game.await_gone(before)
            game.await_phase("Healthy")
            game.await_joined(PODS)
        record(
            "rolls of an Argo Rollout, canary with steps, maxSurge 0", rolls=ROLLS, pods=PODS,
            rebalances=game.rebalances(quiet_since_ms),
        )  # fmt: skip
        assert game.member_ids().keys() == ids
        assert_quiet(game, quiet_since_ms)
        seen.hold_the_promise()


def test_steps_with_a_surge_cost_two_rebalances_each_at_most(new_play: NewPlay) -> None:
    game, session = opened(new_play, kind=ArgoPlay)
    costs = []
    with witnessed(game) as seen:
        game.start(PODS, static=session, strategy={"canary": {"steps": STEPS}})
        began_ms = now_ms()
        for _ in range(ROLLS):
            before, at_ms = game.uids(), now_ms()
            game.change_template()
            game.await_joined(game.await_phase("Paused")["replicas"])
            paused_ms = now_ms()
            costs.append(game.rebalances(at_ms))
            game.promote()
            game.await_gone(before)
            game.await_phase("Healthy")
            game.await_joined(PODS)
            costs.append(game.rebalances(paused_ms))
        record("steps of an Argo Rollout, canary, default surge", rolls=ROLLS, pods=PODS, rebalances=costs)
        assert max(costs) <= 2
        assert members_min(seen.consumers.voices(), began_ms) >= PODS - 1
        assert_paid(game, seen, began_ms)


def test_two_colours_cost_two_or_three_rebalances(new_play: NewPlay) -> None:
    game, session = opened(new_play, kind=ArgoPlay)
    costs = []
    game.stage.apply(game.service())
    with witnessed(game) as seen:
        game.start(PODS, static=session, strategy={"blueGreen": {"activeService": game.name}})
        began_ms = now_ms()
        for _ in range(ROLLS):
            at_ms = now_ms()
            game.roll()
            game.await_joined(PODS)
            costs.append(game.rebalances(at_ms))
        record("rolls of an Argo Rollout, blue-green", rolls=ROLLS, pods=PODS, rebalances=costs)
        assert {2, 3} >= set(costs), "one or two as the others join, and one as these leave"
        assert members_min(seen.consumers.voices(), began_ms) >= PODS
        assert len(game.removals(began_ms)) == PODS * ROLLS
        assert_paid(game, seen, began_ms)


def test_departed_members_leave_at_once(new_play: NewPlay, process_table: ProcessTable) -> None:
    game, session = opened(new_play, kind=ArgoPlay)
    with witnessed(game) as seen, load(game):
        game.start(PODS, static=session)
        found = []
        for _ in range(3):
            down_ms = now_ms()
            found += leave(game, seen, PODS - 2)
            assert game.rebalances(down_ms) == 1, "both in one request"
            game.scale(PODS)
            game.await_joined(PODS)
        seen.hold_the_promise()
    acknowledged_s = [d.acknowledged_s for d in found]
    record("scale-downs of an Argo Rollout", acknowledged_s=spread(acknowledged_s))
    assert min(dead_before_ms(d, process_table.lives()) for d in found) > 0
    assert max(acknowledged_s) <= prompt_s(1.0, otherwise_s=10)
