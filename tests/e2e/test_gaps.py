"""Gaps of the pod watch: what came and went unseen waits and is named, everything else leaves as if nothing had been.

The one idea: a name that has the same pod uid at both ends of a gap had no other pod in between. So an API server that lost
its watch history, or an operator that was away, may cost only the seats whose pods changed meanwhile; each of those must be
told, and a person's word must be enough to free it. Truth is the brokers' log, and a pod watch that is not the operator's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import pytest

from staticgroup.kube.translate.owners import is_put_back
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.scene.figures import record, spread
from support.scene.gaps import (
    ACKNOWLEDGED_S_MAX,
    DEPLOYMENT,
    GAP_WORDS,
    HELD_REASONS,
    SESSION,
    acknowledged_s,
    await_anchored,
    await_deleting,
    await_injecting,
    await_named,
    await_ready,
    await_settled,
    blind,
    confirm,
    confirm_gaps,
    continuity,
    exceptions,
    leave,
    let_go,
    linger,
    lingering_pod,
    lose_history,
    members,
    ordinal,
    removed,
    restart_those_without_id,
    seats,
    suspects,
    takes_gap_words,
)
from support.scene.play import REMOVED_WITHIN_S, Play
from support.scene.pod_lines import heard
from support.scene.stage import SYSTEM, Stage
from support.scene.witnesses import PodWatch
from support.waiting import holds, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NewPlay = Callable[..., Play]


@pytest.fixture
def restored(installed: Stage) -> Iterator[Stage]:
    """The stage, whose operator runs with its default values again afterwards."""
    yield installed
    installed.kubectl("scale", DEPLOYMENT, "-n", SYSTEM, "--replicas=2")
    installed.install()
    installed.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=120s")


# drills ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replicas", [1, pytest.param(2, marks=pytest.mark.long)], ids=["one-replica", "two-replicas"])
def test_api_server_that_lost_its_watch_history_holds_back_only_what_ended_meanwhile(
    new_play: NewPlay, restored: Stage, replicas: int
) -> None:
    """During a roll, of which a successor comes unseen, and during a scale-down, which the operator hears of at once."""
    if replicas != 2:
        restored.install(replicas=replicas)
    until(lambda: len(restored.operator_pods()) == replicas, deadline_s=90, what=f"{replicas} replicas")
    game = new_play(str(replicas))
    took_s: list[float] = []
    with game.watched() as watch:
        game.start(6, static=SESSION, podManagementPolicy="Parallel", grace_s=60, pod=lingering_pod(game))
        await_settled(game, 6)
        unsure, in_roll = roll_over_a_gap(game, watch)
        took_s += leave(game, watch, 4, waiting=unsure)
        in_scale_down = scale_down_over_a_gap(game, watch, 4, 2, unsure)
        took_s += leave(game, watch, 1, waiting=unsure)
    await_injecting(game)  # for the tests that follow
    until(lambda: seats(game).keys() == {0}, deadline_s=60, what="only pod 0 left")
    assert game.events(GroupEventKind.SESSION_EXPIRED) == []
    record(
        f"API server lost its watch history, {replicas} replica(s)",
        in_roll=in_roll,
        in_scale_down=in_scale_down,
        removed_after_anchor_s=spread(took_s),
    )
    assert max(took_s) <= ACKNOWLEDGED_S_MAX


def roll_over_a_gap(game: Play, watch: PodWatch) -> tuple[set[int], dict[str, Any]]:
    """Roll six pods and lose the watch's history in the middle; returns the seats in doubt afterwards, and figures."""
    started = seats(game)
    linger(game, 3)
    game.stage.kubectl("rollout", "restart", f"statefulset/{game.name}", "-n", game.name)
    await_deleting(watch, {started[3]})  # from the highest ordinal down, so that 5 and 4 are new by now

    def replaced() -> None:
        await_injecting(game)  # a successor without an id could carry any, and would leave every seat in doubt
        let_go(game, 3)
        until(lambda: seats(game).get(3) not in (None, started[3]), deadline_s=120, what="pod 3 replaced")

    before, killed_ms = seats(game), now_ms()
    loss = lose_history(game, unheard=replaced)
    after = seats(game)
    stayed = {o for o, uid in before.items() if after.get(o) == uid}
    assert blind(game, stayed) == set(), f"pods of {sorted(stayed)} were there at both ends of the gap"
    assert 3 in blind(game, range(6)), "another pod has its name, and more of them may have had it in between"
    until(lambda: suspects(game).get(started[3]) == f"{game.name}-3", deadline_s=30, what="a suspect whose end was not seen")
    ended_unseen = len(suspects(game))
    await_injecting(game)
    injecting_s = round((now_ms() - killed_ms) / 1000, 1)
    without_id = restart_those_without_id(game)
    game.stage.kubectl("rollout", "status", f"statefulset/{game.name}", "-n", game.name, "--timeout=120s")
    await_ready(game, 6)
    game.await_joined(6)
    unsure = blind(game, range(6)) | {ordinal(name) for name in suspects(game).values()}
    assert unsure <= set(range(6)) - stayed
    return unsure, {
        **asdict(loss), "injecting_s": injecting_s, "pods_changed": 6 - len(stayed), "suspects": ended_unseen,
        "seats_in_doubt": len(unsure), "pods_without_id": without_id,
    }  # fmt: skip


def scale_down_over_a_gap(game: Play, watch: PodWatch, start: int, end: int, unsure: set[int]) -> dict[str, Any]:
    """Scale down and lose the watch's history while the pods end; each member is removed, or named until a word is given."""
    leaving = range(end, start)
    known, uids, since_ms = members(game), seats(game), now_ms()
    game.scale(end)
    await_deleting(watch, {uids[o] for o in leaving})
    loss = lose_history(game)
    assert blind(game, range(end)) <= unsure, "who was not asked to end stayed"

    def remaining() -> set[int]:
        gone = removed(game, since_ms)
        return {o for o in leaving if known[o] not in gone}

    def accounted() -> bool:
        named = exceptions(game)  # before who remains: a member may be removed in between
        return all(named.get(o, set()) & HELD_REASONS for o in remaining())

    until(accounted, deadline_s=REMOVED_WITHIN_S, what=f"members {list(leaving)} removed or named", poll_s=0.3)
    ended_unseen = {uid: ordinal(name) for uid, name in suspects(game).items() if uid in {uids[o] for o in leaving}}
    blinded = blind(game, leaving)
    held = remaining()  # last: a member may be removed, and its suspicion closed, in between
    assert held - unsure <= blinded | set(ended_unseen.values())
    for uid in ended_unseen:
        confirm(game, uid)
    until(lambda: remaining() <= blinded, deadline_s=60, what="a word about each suspect to be enough", poll_s=0.3)
    took_s = acknowledged_s({o: watch.pods[uids[o]] for o in leaving}, known, removed(game, since_ms))
    return {
        **asdict(loss), "pods_ended": len(leaving), "held": len(held), "suspects": len(ended_unseen), "blind": len(blinded),
        "removed_s": [round(s, 2) for s in took_s],
    }  # fmt: skip


def budget(game: Play) -> dict[str, Any]:
    """Return a PodDisruptionBudget that allows no eviction: what scales down does not evict, so it must change nothing."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": game.name, "namespace": game.name},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": game.name}}},
    }


@pytest.mark.long
def test_flapping_autoscaler_never_costs_a_live_member(new_play: NewPlay, restored: Stage) -> None:
    """6 → 2 → 6 → 0 → 3 within a minute, by two groups at once; `new_play` asks whether anybody removed was alive."""
    rolling, on_delete = new_play("rolling"), new_play("on-delete")
    games = (rolling, on_delete)
    for game in games:
        restored.apply(game.static_group(**SESSION), budget(game))
    for game in games:
        until(lambda g=game: (g.status() or {}).get("injected"), deadline_s=30, what="ids are issued")
    restored.apply(
        rolling.stateful_set(6, podManagementPolicy="Parallel"),
        on_delete.stateful_set(6, podManagementPolicy="Parallel", updateStrategy={"type": "OnDelete"}),
    )
    with heard(restored.cluster, rolling.name) as one, heard(restored.cluster, on_delete.name) as other:
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
            f"flapping autoscaler, {name}",
            flapped_s=round(flapped_s, 1),
            only_three_members_left_s=round(took_s, 1),
            removals=len(game.removals()),
            fenced_removals=len(game.events(GroupEventKind.FENCED)),
            sessions_expired=len(game.events(GroupEventKind.SESSION_EXPIRED)),
        )
        assert members(game).keys() == {0, 1, 2}
        assert game.events(GroupEventKind.SESSION_EXPIRED) == []
        assert blind(game, range(7)) == set()
    assert errors == []


def test_operator_that_was_away_holds_back_only_what_changed_meanwhile(new_play: NewPlay, restored: Stage) -> None:
    """The history of its watch is gone when it comes back, so all that it knows is in the statuses.

    Of one group nothing changed. Of the other, number 2 was replaced, and number 4, which had been scaled away before, ended.
    """
    same, other = new_play("same"), new_play("other")
    with same.watched() as watch_same, other.watched() as watch_other:
        same.start(4, static=SESSION, podManagementPolicy="Parallel")
        other.start(6, static=SESSION, podManagementPolicy="Parallel", grace_s=300, pod=lingering_pod(other))
        await_settled(same, 4)
        await_settled(other, 6)
        before, since_ms = seats(other), now_ms()
        leave_one_that_lingers(other, lingering=4, at_once=5)
        back_to_told_s = be_away(restored, same, other, ending=4, replaced=2)

        every = range(1000)
        assert (blind(same, every), suspects(same)) == (set(), {}), "nothing changed, so nothing is in doubt"
        assert blind(other, every) == {2}, "of no other name can a pod have come and gone"
        unseen = {before[2]: f"{other.name}-2", before[4]: f"{other.name}-4"}
        until(lambda: suspects(other) == unseen, deadline_s=30, what="the two whose ends were not seen to be suspects")
        await_named(other, {4})
        assert exceptions(other)[4] == {"DeathNotProven"}

        took_s = leave(same, watch_same, 1)
        took_s += leave(other, watch_other, 1, waiting={2})
        assert exceptions(other)[2] == {"WatchGap"}
        words_s = say_words(other, {2: before[2], 4: before[4]}, since_ms)
    record("operator away, its watch history lost", back_to_told_s=back_to_told_s, seats_blind_of_10=1,
           removed_after_anchor_s=spread(took_s), word_to_removed_s=words_s)  # fmt: skip
    assert same.events(GroupEventKind.SESSION_EXPIRED) == []
    assert max(took_s) <= ACKNOWLEDGED_S_MAX


@pytest.mark.long
def test_older_object_that_is_put_back_while_no_operator_runs_is_no_memory(new_play: NewPlay, restored: Stage) -> None:
    """A restore in place writes the status of a backup and then the whole object, by which the API server names the operator as its writer.

    An edit of the same object in the same way casts no doubt.
    """
    game = new_play()
    with game.watched() as watch:
        game.start(3, static=SESSION, podManagementPolicy="Parallel")
        await_settled(game, 3)
        older = whole(game)
        game.scale(4)
        await_settled(game, 4)
        with nobody(restored):
            restored.kubectl("label", "ksg", game.name, "-n", game.name, "edited=meanwhile")
        await_settled(game, 4)
        assert continuity(game).get("blind", []) == []
        with nobody(restored):
            put_back(game, older)
        until(lambda: blind(game, range(4)) == {0, 1, 2, 3}, deadline_s=90, what="everybody to be in doubt", poll_s=0.3)
        assert {s["reason"] for s in continuity(game)["blind"]} == {"MemoryLost"}
        await_injecting(game)
        known, since_ms = members(game), now_ms()
        leave(game, watch, 3, waiting={3})
        holds(lambda: known[3] in game.member_ids().values(), for_s=4, what="member 3 waits for its session")
        if takes_gap_words(restored):
            confirm_gaps(game)
            until(lambda: known[3] in removed(game, since_ms), deadline_s=60, what="3 removed after the word")
            restored.kubectl("delete", GAP_WORDS, game.name)
    assert game.events(GroupEventKind.SESSION_EXPIRED) == []


def whole(game: Play) -> dict[str, Any]:
    """Return the StaticGroup with whoever wrote which field of it."""
    text = game.stage.kubectl("get", "ksg", game.name, "-n", game.name, "-o", "json", "--show-managed-fields")
    found: dict[str, Any] = json.loads(text)
    return found


def put_back(game: Play, older: dict[str, Any]) -> None:
    """Write an older status, then the older object, each over the version that there is."""
    for subresource, is_told in (("--subresource=status",), True), ((), False):
        version = {"resourceVersion": whole(game)["metadata"]["resourceVersion"]}
        body = older | {"metadata": older["metadata"] | version}
        game.stage.kubectl("replace", *subresource, "-f", "-", stdin=json.dumps(body))
        assert is_put_back(whole(game)) == is_told
    assert whole(game)["status"] == older["status"]


@contextmanager
def nobody(stage: Stage) -> Iterator[None]:
    """Let no operator run meanwhile."""
    stage.kubectl("scale", DEPLOYMENT, "-n", SYSTEM, "--replicas=0")
    until(lambda: not stage.items("pods", SYSTEM), deadline_s=60, what="no operator")
    yield
    stage.kubectl("scale", DEPLOYMENT, "-n", SYSTEM, "--replicas=2")
    stage.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=90s")


def leave_one_that_lingers(game: Play, *, lingering: int, at_once: int) -> None:
    """Scale two pods away, of which one ends and one does not yet, and wait until the status knows what is wanted now."""
    known, since_ms = members(game), now_ms()
    linger(game, lingering)
    game.scale(lingering)
    until(lambda: known[at_once] in removed(game, since_ms), deadline_s=REMOVED_WITHIN_S, what=f"{at_once} removed")
    until(
        lambda: (continuity(game).get("workload") or {}).get("replicas") == lingering,
        deadline_s=30, what="what the StatefulSet wants to be remembered", poll_s=0.3,
    )  # fmt: skip


def be_away(stage: Stage, same: Play, other: Play, *, ending: int, replaced: int) -> float:
    """Take the operator away, let pods of the other group change, lose the history, and bring it back.

    Returns
    -------
    Seconds until both statuses said what that meant.
    """
    epoch, uid = stage.continuity_epoch(), seats(other)[replaced]
    stage.kubectl("scale", DEPLOYMENT, "-n", SYSTEM, "--replicas=0")
    until(lambda: not stage.items("pods", SYSTEM), deadline_s=60, what="no operator")
    let_go(other, ending)
    stage.kubectl("delete", "pod", f"{other.name}-{replaced}", "-n", other.name)
    until(
        lambda: seats(other).keys() == set(range(ending)) and seats(other)[replaced] != uid,
        deadline_s=90, what=f"pod {ending} gone and pod {replaced} replaced", poll_s=0.3,
    )  # fmt: skip
    await_ready(other, ending)
    stage.cluster.restart_apiserver(lose_history=True)
    stage.kubectl("scale", DEPLOYMENT, "-n", SYSTEM, "--replicas=2")
    back_ms = now_ms()
    await_anchored(stage, epoch, same, other)
    told_s = round((now_ms() - back_ms) / 1000, 1)
    stage.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=90s")
    await_injecting(same)  # for the tests that follow
    other.await_joined(ending + 1)
    return told_s


def say_words(game: Play, uids: Mapping[int, str], since_ms: int) -> dict[str, float]:
    """Confirm the ends of 4, a suspect, and of 2, whose name is blind too; returns how long it took until each was removed."""
    known, took_s = members(game), {}

    def await_removed(each: int, said_at_ms: int) -> float:
        until(lambda: known[each] in removed(game, since_ms), deadline_s=60, what=f"{each} removed after the word")
        return round((removed(game, since_ms)[known[each]] - said_at_ms) / 1000, 1)

    # A word about a suspect is enough for a seat of which nothing but that is in doubt.
    said_at_ms = now_ms()
    confirm(game, uids[4])
    took_s["suspect"] = await_removed(4, said_at_ms)
    # For number 2 it is not: others of its name may have been there while nobody looked.
    confirm(game, uids[2])
    until(lambda: suspects(game) == {}, deadline_s=60, what="the suspicion to be closed", poll_s=0.3)
    holds(lambda: known[2] in game.member_ids().values(), for_s=4, what="member 2 waits for its session")
    assert exceptions(game)[2] == {"WatchGap"}
    # Only a WatchGapConfirmation, a word about the whole time, says that of them; a cluster may not have that resource yet.
    if takes_gap_words(game.stage):
        said_at_ms = now_ms()
        confirm_gaps(game)
        took_s["gap"] = await_removed(2, said_at_ms)
        game.stage.kubectl("delete", GAP_WORDS, game.name)  # it belongs to no namespace that goes with the play
        assert members(game).keys() == {0}
        assert game.events(GroupEventKind.SESSION_EXPIRED) == []
    return took_s
