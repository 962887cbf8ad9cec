"""What came and went unseen: a member that joined meanwhile waits and is named, all others leave as usual.

The one idea: a member id belongs to one process for ever, so an API server that lost its watch history, or an operator
that was away, costs only the members that joined meanwhile, and of those that were known the ones whose pods ended
unobserved. The status names each with its reason, and the next restart of its pod frees it. Truth is the brokers' log,
and a pod watch that is not the operator's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pytest

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.scene.figures import record, spread
from support.scene.play import REMOVED_WITHIN_S, Play
from support.scene.pod_lines import collected_lines
from support.scene.remembered import (
    ACKNOWLEDGED_S_MAX,
    JOINED_BEFORE_WATCH,
    SUSPECT,
    UNATTRIBUTED,
    Loss,
    await_begun_anew,
    await_deleting,
    await_held,
    await_injecting,
    await_plain,
    await_ready,
    await_whole,
    carriers,
    leave,
    let_go,
    linger,
    lingering_pod,
    lose_history,
    members,
    ordinal,
    removed,
    seats,
    suspects,
    unseen,
    without_operators,
)
from support.scene.stage import Stage
from support.scene.witnesses import PodWatch
from support.waiting import holds, until

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.long, pytest.mark.timeout(900)]

NewPlay = Callable[..., Play]
SESSION_S = 60
SESSION = {"sessionTimeout": {"seconds": SESSION_S}}
LONG_SESSION = {"sessionTimeout": {"seconds": 240}}
SETTLE_S = 30.0
"""Of the operator; a group with longer sessions waits for twice as long as one of them lasts."""
SETTLED_S = max(SETTLE_S, 2.0 * SESSION_S)


@pytest.fixture
def settling(installed: Stage) -> Iterator[Stage]:
    """The stage, whose operator trusts a new pod watch soon, and runs with its default values again afterwards."""
    installed.install(evidence={"settleSeconds": int(SETTLE_S)})
    yield installed
    installed.install()


def sessions_expired(game: Play) -> set[str]:
    """Return the members whose session ran out, by the brokers' log."""
    return {e.member_id or "" for e in game.events(GroupEventKind.SESSION_EXPIRED)}


# the API server loses its history -------------------------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [1, 2], ids=["one-replica", "two-replicas"])
def test_history_lost_during_a_roll_holds_back_only_members_that_joined_meanwhile(
    new_play: NewPlay, settling: Stage, replicas: int
) -> None:
    """Number 3 is replaced unobserved, then 2, 1 and 0; 5 and 4 had joined before. The next restart frees them."""
    settling.install(replicaCount=replicas, evidence={"settleSeconds": int(SETTLE_S)})
    until(lambda: len(settling.operator_pods()) == replicas, deadline_s=90, what=f"{replicas} replicas")
    game = new_play(str(replicas))
    with game.watched() as watch:
        game.start(6, static=SESSION, podManagementPolicy="Parallel", grace_s=60, pod=lingering_pod(game))
        await_plain(game, 6)
        first, loss = roll_over_a_loss(game, watch)
        assert suspects(game) == {first[3]: f"{game.name}-3"}
        assert unseen(game) == {0, 1, 2, 3}, "members that joined after the watch began anew"
        took_s = leave(game, watch, 4)
        left = members(game)
        leave(game, watch, 2, waiting={3: SUSPECT, 2: JOINED_BEFORE_WATCH})
        await_whole(game, loss.watch, SETTLED_S)
        # Nobody but the two that were held leaves with its session.
        until(lambda: members(game).keys() == {0, 1}, deadline_s=2 * SESSION_S, what="the members that were held gone")
        assert sessions_expired(game) == {left[2], left[3]}
        game.roll()
        await_plain(game, 2)
        took_s += leave(game, watch, 1)
    assert sessions_expired(game) == {left[2], left[3]}
    record(
        f"API server lost its history in a roll, {replicas} replica(s)", **asdict(loss), held=2,
        removed_s=spread(took_s),
    )  # fmt: skip
    assert max(took_s) <= ACKNOWLEDGED_S_MAX


def test_ids_that_the_application_has_are_removed_once_their_pods_were_restarted(
    new_play: NewPlay, settling: Stage
) -> None:
    """Before, a process that nobody saw may hold them, such as one of a pod that was deleted by force."""
    game = new_play()
    own_id = {"name": "KAFKA_GROUP_INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    workload = game.stateful_set(
        4, podManagementPolicy="Parallel", env={"KAFKA_SESSION_TIMEOUT_MS": str(1000 * SESSION_S)}
    )
    workload["spec"]["template"]["spec"]["containers"][0]["env"].append(own_id)
    game.stage.apply(workload)
    game.await_joined(4)
    game.stage.kubectl("rollout", "status", f"statefulset/{game.name}", "-n", game.name, "--timeout=60s")
    game.stage.apply(game.static_group(client={"type": "Own"}, assumeExclusive=True))
    with game.watched() as watch:
        until(lambda: unseen(game) == {0, 1, 2, 3}, deadline_s=60, what="each member held by an unseen pod, perhaps")
        leave(game, watch, 3, waiting={3: JOINED_BEFORE_WATCH})
        await_whole(game, game.stage.watch_name(), SETTLED_S)
        game.roll()
        await_plain(game, 3)
        took_s = leave(game, watch, 2)
    record("ids of the application", removed_s=spread(took_s))
    assert max(took_s) <= ACKNOWLEDGED_S_MAX


def roll_over_a_loss(game: Play, watch: PodWatch) -> tuple[dict[int, str], Loss]:
    """Roll six pods and lose the watch's history midway, with one replaced unobserved; returns the former pods."""
    started = seats(game)
    linger(game, 3)
    game.stage.kubectl("rollout", "restart", f"statefulset/{game.name}", "-n", game.name)
    await_deleting(watch, {started[3]})  # from the highest ordinal down, so that 5 and 4 are new by now
    await_ready(game, 6)
    until(lambda: {o: carriers(game).get(o) for o in (4, 5)} == {o: {seats(game)[o]} for o in (4, 5)}, deadline_s=60,
          what="4 and 5 remembered", poll_s=0.3)  # fmt: skip

    def replaced() -> None:
        await_injecting(game)  # a successor without an id would be no static member
        let_go(game, 3)
        until(lambda: seats(game).get(3) not in (None, started[3]), deadline_s=120, what="pod 3 replaced")

    loss = lose_history(game, while_stopped=replaced)
    game.stage.kubectl("rollout", "status", f"statefulset/{game.name}", "-n", game.name, "--timeout=180s")
    game.await_joined(6)
    until(lambda: len(carriers(game)) == 6, deadline_s=60, what="all remembered", poll_s=0.3)
    return started, loss


def test_history_lost_during_a_scale_down_holds_back_only_members_whose_end_was_not_seen(
    new_play: NewPlay, installed: Stage
) -> None:
    """Number 3 ends before the watch begins anew, unobserved; 2 ends after that, and 1 is scaled away later."""
    game = new_play()
    with game.watched() as watch:
        game.start(4, static=LONG_SESSION, podManagementPolicy="Parallel", grace_s=120, pod=lingering_pod(game))
        await_plain(game, 4)
        known, uids, since_ms = members(game), seats(game), now_ms()
        for each in (2, 3):
            linger(game, each)
        game.scale(2)
        await_deleting(watch, {uids[2], uids[3]})

        def ended() -> None:
            let_go(game, 3)
            until(lambda: 3 not in seats(game), deadline_s=120, what="pod 3 gone")

        loss = lose_history(game, while_stopped=ended)
        let_go(game, 2)
        until(
            lambda: known[2] in removed(game, since_ms), deadline_s=REMOVED_WITHIN_S, what="2 removed as ever",
            poll_s=0.2,
        )  # fmt: skip
        await_held(game, {3: SUSPECT})
        took_s = leave(game, watch, 1, waiting={3: SUSPECT})
        holds(lambda: known[3] in members(game).values(), for_s=6, what="member 3 waits for its session")
    await_injecting(game)  # for the tests that follow
    assert suspects(game) == {uids[3]: f"{game.name}-3"}
    assert sessions_expired(game) == set()
    record("API server lost its history in a scale-down", **asdict(loss), held=1, removed_s=spread(took_s))
    assert max(took_s) <= ACKNOWLEDGED_S_MAX


# operator away
# ---------------------------------------------------------------------------------------------------------


def test_operator_that_was_away_for_a_while_misses_only_members_that_joined_and_ended_meanwhile(
    new_play: NewPlay, installed: Stage
) -> None:
    """The API server still has its watch history, so the ends of a scale-down and the joins of a roll are seen later.

    Number 3 is scaled away, the others are rolled, and then 2 is scaled away: its member joined and its pod ended while
    no operator ran.
    """
    game = new_play()
    game.start(4, static=LONG_SESSION, podManagementPolicy="Parallel")
    await_plain(game, 4)
    watch, known, since_ms = installed.watch_name(), members(game), now_ms()
    with without_operators(installed):
        game.scale(3)
        until(lambda: seats(game).keys() == {0, 1, 2}, deadline_s=60, what="pod 3 gone", poll_s=0.3)
        game.roll()
        until(
            lambda: all(m != known[o] for o, m in members(game).items() if o < 3), deadline_s=60, what="new members",
            poll_s=0.3,
        )  # fmt: skip
        assert game.rebalances(since_ms) == 0
        rolled = members(game)
        game.scale(2)
        until(lambda: seats(game).keys() == {0, 1}, deadline_s=60, what="pod 2 gone", poll_s=0.3)
        back_ms = now_ms()
    until(
        lambda: removed(game, since_ms).keys() == {known[3]}, deadline_s=REMOVED_WITHIN_S, what="3 removed", poll_s=0.2
    )
    await_held(game, {2: UNATTRIBUTED})
    remembered = {o: uids for o, uids in carriers(game).items() if o != 2}
    assert remembered == {o: {uid} for o, uid in seats(game).items()}
    assert (installed.watch_name(), suspects(game), unseen(game)) == (watch, {}, set())
    assert members(game) == {o: rolled[o] for o in (0, 1, 2)}
    assert sessions_expired(game) == set()
    record(
        "operator away over a roll and a scale-down", held=1,
        back_to_removed_s=(removed(game, since_ms)[known[3]] - back_ms) / 1000,
    )  # fmt: skip


def test_operator_that_was_away_while_the_history_was_lost_holds_back_only_what_changed(
    new_play: NewPlay, installed: Stage
) -> None:
    """All that it knows is in the statuses.

    Of one group nothing changed. Of the other, number 2 was replaced, 4 ended, which had been scaled away before, and
    so did 3 meanwhile.
    """
    same, other = new_play("same"), new_play("other")
    with same.watched() as watch_same, other.watched() as watch_other:
        same.start(3, static=LONG_SESSION, podManagementPolicy="Parallel")
        other.start(5, static=LONG_SESSION, podManagementPolicy="Parallel", grace_s=300, pod=lingering_pod(other))
        await_plain(same, 3)
        await_plain(other, 5)
        before, known, since_ms = seats(other), members(other), now_ms()
        linger(other, 4)
        other.scale(4)
        await_deleting(watch_other, {before[4]})
        back_to_reported_s = be_away(installed, same, other, before)

        assert (carriers(same), suspects(same)) == ({o: {uid} for o, uid in seats(same).items()}, {}), (
            "nothing is in doubt"
        )
        gone = {before[o]: f"{other.name}-{o}" for o in (2, 3, 4)}
        until(lambda: suspects(other) == gone, deadline_s=30, what="those whose ends were not seen to be suspects")
        assert unseen(other) == {2}, "only 2 has joined meanwhile"
        await_held(other, {3: SUSPECT, 4: SUSPECT})
        took_s = leave(same, watch_same, 1)
        took_s += leave(other, watch_other, 1, waiting=dict.fromkeys((2, 3, 4), SUSPECT))
        assert removed(other, since_ms).keys() == {known[1]}
    record("operator away, its history lost", back_to_reported_s=back_to_reported_s, held=3, removed_s=spread(took_s))
    assert sessions_expired(same) == set()
    assert max(took_s) <= ACKNOWLEDGED_S_MAX


def be_away(stage: Stage, same: Play, other: Play, before: dict[int, str]) -> float:
    """Take the operator away, let pods of the other group change, lose the history, and bring it back.

    Returns
    -------
    Seconds until both statuses show every member.
    """
    watch = stage.watch_name()
    with without_operators(stage):
        let_go(other, 4)
        stage.kubectl("delete", "pod", f"{other.name}-2", "-n", other.name)
        until(lambda: seats(other).get(2) not in (None, before[2]), deadline_s=90, what="pod 2 replaced", poll_s=0.3)
        await_ready(other, 4)
        other.await_joined(5)
        other.scale(3)
        until(lambda: seats(other).keys() == {0, 1, 2}, deadline_s=90, what="pods 3 and 4 gone", poll_s=0.3)
        stage.cluster.restart_apiserver(lose_history=True)
        await_injecting(same)  # for the tests that follow
        back_ms = now_ms()
    await_begun_anew(stage, watch, same, other)
    return round((now_ms() - back_ms) / 1000, 1)


# an autoscaler that cannot decide -------------------------------------------------------------------------------------


def budget(game: Play) -> dict[str, Any]:
    """Return a PodDisruptionBudget that allows no eviction; a scale-down evicts nothing, so it must not matter."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": game.name, "namespace": game.name},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": game.name}}},
    }


def test_flapping_autoscaler_never_costs_a_live_member(new_play: NewPlay, installed: Stage) -> None:
    """6 → 2 → 6 → 0 → 3 within a minute, by two groups at once; `new_play` checks that no removed member was alive."""
    rolling, on_delete = new_play("rolling"), new_play("on-delete")
    games = (rolling, on_delete)
    for game in games:
        installed.apply(game.static_group(**LONG_SESSION), budget(game))
    for game in games:
        until(lambda g=game: (g.status() or {}).get("injected"), deadline_s=30, what="ids are issued")
    installed.apply(
        rolling.stateful_set(6, podManagementPolicy="Parallel"),
        on_delete.stateful_set(6, podManagementPolicy="Parallel", updateStrategy={"type": "OnDelete"}),
    )
    with (
        collected_lines(installed.cluster, rolling.name) as one,
        collected_lines(installed.cluster, on_delete.name) as other,
    ):
        for game in games:
            game.await_joined(6)
            await_ready(game, 6)
        began_ms = now_ms()
        # One group is turned round while its pods still end, the other once they are gone; both while pods still start.
        rolling.scale(2)
        on_delete.scale(2)
        rolling.scale(6)
        until(lambda: len(on_delete.pods()) == 2, deadline_s=60, what="four pods gone", poll_s=0.2)
        on_delete.scale(6)
        until(lambda: len(on_delete.pods()) == 6, deadline_s=60, what="four pods back", poll_s=0.2)
        rolling.scale(0)
        on_delete.scale(0)
        until(lambda: len(rolling.pods()) <= 3, deadline_s=60, what="pods to go", poll_s=0.2)
        rolling.scale(3)
        until(lambda: not on_delete.pods(), deadline_s=60, what="all pods gone", poll_s=0.2)
        on_delete.scale(3)
        flapped_s = (now_ms() - began_ms) / 1000
        for game in games:
            await_ready(game, 3)
            game.await_joined(3, deadline_s=REMOVED_WITHIN_S)
        took_s = (now_ms() - began_ms) / 1000
        errors = [line for lines in (one, other) for line in lines.lines("error") if line["fatal"]]
    for game, name in zip(games, ("RollingUpdate", "OnDelete"), strict=True):
        record(
            f"flapping autoscaler, {name}", flapped_s=round(flapped_s, 1), only_three_members_left_s=round(took_s, 1),
            removals=len(game.removals()), fenced_removals=len(game.events(GroupEventKind.FENCED)),
            sessions_expired=len(game.events(GroupEventKind.SESSION_EXPIRED)),
        )  # fmt: skip
        assert {ordinal(i) for i in game.member_ids()} == {0, 1, 2}
        assert sessions_expired(game) == set()
        assert (suspects(game), unseen(game)) == ({}, set())
    assert errors == []
