"""A Deployment rolls while the operator is killed, is away, or a node stands still; and people who copy or edit notes.

The one idea: whatever is not known costs a rebalance, never an id in two living processes; and no pod waits for ever.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.devcluster.node import Node, now_rfc3339
from support.long_drills import by_length
from support.scene.figures import prompt_s, record, spread
from support.scene.operators import await_active, kill
from support.scene.remembered import without_operators
from support.scene.stage import RELEASE, SYSTEM, Stage
from support.slots import NOTE, PODS, REFUSALS, DeploymentPlay, NewPlay, Witnesses, opened, shared_ids, witnessed
from support.waiting import holds, until

pytestmark = [
    pytest.mark.e2e, pytest.mark.alone, pytest.mark.long, pytest.mark.timeout(900),
    pytest.mark.usefixtures("serves_deployments"),
]  # fmt: skip

SEED = 20_261_130
ROLLS = 3
KILLS = by_length(short=2, long=7)
ACTS_S = 3.0
"""An active replica is killed at some moment within this. One that is killed as soon as it is active answers nobody."""
SILENCE_S = 30.0
SERVED_S = 8.0
STAYS = [{"key": f"node.kubernetes.io/{why}", "operator": "Exists"} for why in ("not-ready", "unreachable")]
OPERATOR = f"system:serviceaccount:{SYSTEM}:{RELEASE}-operator"


def waited_s(seen: Witnesses, since_ms: int) -> list[float]:
    """Return for each pod that came since then how long its waiter ran, seconds."""
    return [
        (s.ended_wait_at_ms - s.waits_at_ms) / 1000
        for s in seen.since(since_ms)
        if s.ended_wait_at_ms is not None and s.waits_at_ms is not None
    ]


def served_s(seen: Witnesses, since_ms: int) -> list[float]:
    """Return how long each of those pods waited that a pod before it had ended and its slot was free, seconds."""
    ended = sorted(s.terminal_at_ms for s in seen.watch.pods.values() if s.terminal_at_ms is not None)
    found = []
    for pod in seen.since(since_ms):
        if pod.given_at_ms is not None and pod.waits_at_ms is not None:
            before = [at_ms for at_ms in ended if at_ms <= pod.given_at_ms]
            found.append((pod.given_at_ms - max([pod.waits_at_ms, *before[-1:]])) / 1000)
    return found


# the operator --------------------------------------------------------------------------------------------------------


def test_operator_that_is_killed_again_and_again_only_delays_a_roll(
    new_play: NewPlay, serves_deployments: Stage
) -> None:
    stage, rng = serves_deployments, random.Random(SEED)
    game, session = opened(new_play)
    with witnessed(game) as seen:
        game.start(PODS, static=session)
        began_ms, kills = now_ms(), 0
        for _ in range(ROLLS):
            killed_ms = now_ms() - 60_000
            game.rollout("restart")
            for _ in range(KILLS):
                pids = await_active(stage, killed_ms)
                holder, at_s = stage.lease_holder(), time.monotonic() + rng.uniform(0, ACTS_S)
                until(lambda at_s=at_s: time.monotonic() >= at_s, deadline_s=60, what="the moment", poll_s=0.01)
                killed_ms = kill(pids)
                kills += 1
                # The kubelet waits longer before each further start of a container.
                stage.kubectl("delete", "pod", holder, "-n", SYSTEM, "--ignore-not-found", "--wait=false")
            game.await_rolled()
            game.await_joined(PODS)
        seen.hold_the_promise()
        served = spread(served_s(seen, began_ms))
        record(
            "operator killed in rolls of a Deployment", kills=kills, rolls=ROLLS, served_s=served,
            rebalances=game.rebalances(began_ms),
        )  # fmt: skip
        assert served["median"] <= prompt_s(SERVED_S, otherwise_s=20)
        assert served["max"] <= prompt_s(15.0, otherwise_s=SILENCE_S)


def test_pods_start_without_ids_while_no_operator_runs_and_the_next_roll_gives_them_some(
    new_play: NewPlay, serves_deployments: Stage
) -> None:
    game, session = opened(new_play)
    with witnessed(game) as seen:
        game.start(PODS, static=session)
        with without_operators(serves_deployments):
            away_s, rolled_ms = time.monotonic(), now_ms()
            game.roll(deadline_s=175)
            waits = spread(waited_s(seen, rolled_ms))
            dynamic = [v for v in seen.consumers.voices() if v.of_kind("started") and v.instance_id() is None]
            assert {v.uid for v in dynamic} == {s.uid for s in seen.since(rolled_ms)}
            until(lambda: time.monotonic() - away_s >= 180, deadline_s=200, what="three minutes without an operator")
        record("roll of a Deployment without an operator", waited_s=waits)
        assert waits["count"] == PODS
        assert SILENCE_S - 1 <= waits["min"] <= waits["max"] <= SILENCE_S + prompt_s(3.0, otherwise_s=15)

        back_ms = now_ms()
        game.roll()
        game.await_joined(PODS)
        assert [v.pod_name for v in seen.consumers.voices() if v.uid in {s.uid for s in seen.since(back_ms)}
                and v.instance_id() is None] == []  # fmt: skip
        assert shared_ids(seen.lives, list(seen.watch.waits)) == []


# nodes ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def worker(serves_deployments: Stage) -> Iterator[Node]:
    """The worker node, which takes no new pods; it runs again, and takes some, afterwards."""
    node = serves_deployments.cluster.node("worker")
    yield node
    since = now_rfc3339()
    node.thaw()
    node.await_ready(since)
    serves_deployments.kubectl("uncordon", node.name)


def test_pod_of_a_frozen_node_is_replaced_at_once_under_a_new_id(new_play: NewPlay, worker: Node) -> None:
    game, session = opened(new_play)
    spread_out: dict[str, Any] = {
        "tolerations": STAYS,
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": game.name}},
        }],
    }  # fmt: skip
    with witnessed(game) as seen:
        game.start(4, static=session, pod=spread_out)
        ids = set(game.member_ids())
        game.stage.kubectl("cordon", worker.name)
        worker.freeze()
        lost = next(pod for pod in game.pods() if pod["spec"]["nodeName"] == worker.name)["metadata"]
        frozen_ms = now_ms()
        game.stage.kubectl(
            "delete", "pod", lost["name"], "-n", game.name, "--force", "--grace-period=0", "--wait=false"
        )
        game.await_joined(5)
        (new,) = seen.since(frozen_ms)
        (joined,) = game.events(GroupEventKind.MEMBER_JOINED, since_ms=frozen_ms)
        assert new.waits_at_ms is not None
        took_s = (joined.at_ms - new.waits_at_ms) / 1000
        assert seen.lives.is_alive(lost["uid"]), "the lost process must live for this test"
        assert game.member_ids().keys() > ids
        holds(lambda: not game.events(*REFUSALS, since_ms=frozen_ms), for_s=10, what="nobody is fenced")
        record("pod of a frozen node, Deployment", waiter_to_joined_s=took_s, rebalances=game.rebalances(frozen_ms))
        assert took_s <= prompt_s(3.0, otherwise_s=15)

        since = now_rfc3339()
        worker.thaw()
        worker.await_ready(since)
        until(lambda: not seen.lives.is_alive(lost["uid"]), deadline_s=60, what="the kubelet ends what nobody wants")
        holds(lambda: not game.events(*REFUSALS, since_ms=frozen_ms), for_s=5, what="nobody is fenced")
        assert len(game.pods()) == 4
        assert shared_ids(seen.lives, list(seen.watch.waits)) == []


# people --------------------------------------------------------------------------------------------------------------


def refused(game: DeploymentPlay, *arguments: str, stdin: str | None = None) -> str:
    """Run kubectl, which the API server must refuse; returns what it says."""
    with pytest.raises(RuntimeError) as said:
        game.stage.kubectl(*arguments, "-n", game.name, stdin=stdin)
    return str(said.value)


def test_notes_are_the_operators_and_nothing_else_of_a_pod_is(new_play: NewPlay) -> None:
    game, session = opened(new_play)
    with witnessed(game) as seen:
        game.start(2, static=session)
        one, two = sorted(seen.watch.waits.values(), key=lambda each: each.name)
        pod = next(p for p in game.pods() if p["metadata"]["uid"] == one.uid)
        (key,) = (k for k in pod["metadata"]["annotations"] if k.startswith(NOTE))

        # A copy, as of `kubectl debug --copy-to --keep-annotations`, may not bring a note; without one it gets none.
        metadata = {"name": "copy", "namespace": game.name, "annotations": pod["metadata"]["annotations"]}
        copy = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"] | {"nodeName": None}}
        assert NOTE in refused(game, "create", "-f", "-", stdin=json.dumps(copy))
        copied_ms = now_ms()
        del metadata["annotations"]
        game.stage.kubectl("create", "-f", "-", stdin=json.dumps(copy))

        for change in (f"{key}={one.uid} has {two.slot}", f"{key}=nothing", f"{key}-"):
            assert NOTE in refused(game, "annotate", "pod", one.name, "--overwrite", change)
        # What the account of the operator asks for beside its notes, and a slot that changes.
        asked = (
            ("annotate", "pod", one.name, "--overwrite", f"{key}={one.uid} has {two.slot}"),
            ("annotate", "pod", one.name, "--overwrite", f"{key}={two.uid} has {one.slot}"),
            ("annotate", "pod", one.name, "owner=me"),
            ("label", "pod", one.name, "owner=me"),
            ("set", "image", f"pod/{one.name}", "app=localhost/other:1"),
        )
        for arguments in asked:
            assert "staticgroup" in refused(game, *arguments, f"--as={OPERATOR}")

        # The copy starts once its waiter has heard nothing, as a member without an id.
        uid = game.stage.get("pod", "copy", game.name)["metadata"]["uid"]  # type: ignore[index]
        until(
            lambda: any(v.uid == uid and v.of_kind("started") for v in seen.consumers.voices()),
            deadline_s=90, what="the copy's application", poll_s=0.3,
        )  # fmt: skip
        (copied,) = (v for v in seen.consumers.voices() if v.uid == uid)
        assert copied.instance_id() is None
        assert game.events(*REFUSALS, since_ms=copied_ms) == []
        assert shared_ids(seen.lives, list(seen.watch.waits)) == []
