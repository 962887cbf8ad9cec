"""Two versions of the operator take turns, one after the other and side by side: no living member is removed by either.

The one idea: an earlier version proves less, so what one of the two has written must never count as the other's own sight.
What such a belief would cost is made here: zombies, whose objects went while the other version or nobody looked and whose
processes hold their seats, most behind a successor that never ran and whose end is proven, as if it were theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import pytest

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.devcluster.node import Node, now_rfc3339
from support.scene.earlier import (
    BEFORE_CONTINUITY,
    DEPLOYMENT,
    POSITION,
    POSITION_BEFORE,
    Earlier,
    is_known,
    positions,
    restart_standbys,
    take_away,
)
from support.scene.figures import record, spread
from support.scene.gaps import (
    ACKNOWLEDGED_S_MAX,
    GAP_WORDS,
    await_injecting,
    await_named,
    await_settled,
    blind,
    confirm_gaps,
    continuity,
    leave,
    members,
    removed,
    seats,
    start_after_a_change,
    suspects,
)
from support.scene.play import Play
from support.scene.stage import RELEASE, SYSTEM, Stage
from support.scene.witnesses import ProcessTable
from support.waiting import holds, until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not is_known(BEFORE_CONTINUITY), reason=f"the git history does not hold {BEFORE_CONTINUITY[:12]}, the earlier version"
    ),
]

NewPlay = Callable[..., Play]
SESSION = {"sessionTimeout": {"mode": "Fixed", "seconds": 280}}
"""Nobody leaves meanwhile but by a removal; a consumer refuses to start with more than its max.poll.interval.ms, 300 s."""
STAYS = [{"key": f"node.kubernetes.io/{why}", "operator": "Exists"} for why in ("not-ready", "unreachable")]
LOOKED_S = 6.0
"""How long it is looked whether a member that must stay does; a removal comes within 3 s of the end that permits it."""


@pytest.fixture
def worker(installed: Stage) -> Iterator[Node]:
    """The node of the consumers; its kubelet runs again afterwards."""
    node = installed.cluster.node("worker")
    yield node
    thaw(node, installed)


@pytest.fixture
def earlier(installed: Stage) -> Iterator[Earlier]:
    """The earlier version, not yet in place; operators are kept off the worker, and the default is restored afterwards."""
    selector = {"kubernetes.io/hostname": f"{installed.cluster.name}-control-plane"}
    found = Earlier.bring(installed, BEFORE_CONTINUITY, nodeSelector=selector)
    installed.install(nodeSelector=selector)
    yield found
    installed.kubectl("delete", GAP_WORDS, "--all")  # they belong to no namespace that goes with a play
    installed.apply_patch("deployment", f"{RELEASE}-operator", SYSTEM, {"spec": {"paused": None}})
    installed.values = {}
    installed.install()
    installed.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=120s")


def freeze(node: Node, stage: Stage) -> None:
    """Let the node's kubelet hear nothing; successors find no node, so that they end as pods that certainly never ran."""
    node.freeze()
    stage.kubectl("cordon", node.name)


def thaw(node: Node, stage: Stage) -> None:
    stage.kubectl("uncordon", node.name)
    since = now_rfc3339()
    node.thaw()
    node.await_ready(since)


def on(node: str) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": STAYS}


# zombies: the kubelet of the worker is frozen meanwhile ---------------------------------------------------------------


def force_delete(game: Play, which: int) -> None:
    game.stage.kubectl("delete", "pod", f"{game.name}-{which}", "-n", game.name, "--force", "--grace-period=0",
                       "--wait=false", "--ignore-not-found")  # fmt: skip


def replace(game: Play, which: int) -> None:
    """Force-delete a pod that is wanted: the successor of that name never runs, and the process lives on."""
    uid = seats(game)[which]
    force_delete(game, which)
    until(lambda: seats(game).get(which) not in (None, uid), deadline_s=30, what=f"a successor of {which}")


def scale_away(game: Play, which: int) -> None:
    """Scale down to a pod and force-delete it once it is told to end, as its kubelet will not hear of that."""
    game.scale(which)

    def told() -> bool:
        found = [p["metadata"] for p in game.pods() if p["metadata"]["name"] == f"{game.name}-{which}"]
        return all("deletionTimestamp" in metadata for metadata in found)

    until(told, deadline_s=30, what=f"{which} to be told to end")
    force_delete(game, which)
    until(lambda: seats(game).keys() == set(range(which)), deadline_s=30, what=f"the object of {which} gone")


class Zombies:
    """The members whose objects went; whoever asks is told whether each still lives and is where it was."""

    def __init__(self, game: Play, table: ProcessTable) -> None:
        self.game, self.table, self.since_ms = game, table, now_ms()
        self.joined = members(game)
        self.ids = {m: i for i, m in game.member_ids().items()}

    def are_untouched(self, ordinals: Collection[int]) -> None:
        """Look for a while whether these live and nobody was removed; the brokers' log and the process table tell."""
        named = [self.ids[self.joined[o]] for o in ordinals]

        def untouched() -> bool:
            return self.game.removals() == [] and all(self.table.is_alive(i) for i in named)

        holds(untouched, for_s=LOOKED_S, what=f"zombies {sorted(ordinals)} live and are members")
        assert members(self.game) == self.joined
        assert self.game.rebalances(self.since_ms) == 0

    def end(self, worker: Node, ordinals: Collection[int]) -> float:
        """Let the kubelet end what has no object, and say then that whatever was unseen has ended.

        Returns
        -------
        Seconds from the words to the last removal; there is none before them, because no proof came late.
        """
        thaw(worker, self.game.stage)
        named = [self.ids[self.joined[o]] for o in ordinals]
        until(lambda: not any(self.table.is_alive(i) for i in named), deadline_s=90, what="zombies to end")
        assert self.game.removals() == []
        said_at_ms, freed = now_ms(), {self.joined[o] for o in ordinals}
        self.game.stage.apply(*(word(self.game, uid, name) for uid, name in suspects(self.game).items()))
        confirm_gaps(self.game)
        until(lambda: freed <= removed(self.game, self.since_ms).keys(), deadline_s=60, what="departed members removed")
        gone = removed(self.game, self.since_ms)
        assert gone.keys() == freed
        return round((max(gone.values()) - said_at_ms) / 1000, 1)


def word(game: Play, uid: str, pod: str) -> dict[str, Any]:
    """Return what `staticgroup confirm` says of a suspect."""
    said = {"podName": pod, "podUid": uid, "statement": "the process table of the machine does not have it", "by": "admin"}
    name = {"name": f"{pod}-{uid[:8]}", "namespace": game.name}
    return {"apiVersion": "staticgroup.io/v1alpha1", "kind": "PodEndConfirmation", "metadata": name, "spec": said}


def leave_as_ever(game: Play, start: int) -> list[float]:
    """Scale away the upper half of the pods that stayed: with a proof of death it is removed at once, as on any other day."""
    with game.watched() as watch:
        until(lambda: len(watch.pods) >= start, deadline_s=30, what="the witness to see the pods")
        return leave(game, watch, start // 2)


def births(game: Play, among: Collection[int]) -> dict[int, tuple[str, int]]:
    """Return uid and restarts of some pods."""
    restarts = {p["metadata"]["uid"]: sum(s["restartCount"] for s in p["status"].get("containerStatuses", [])) for p in game.pods()}
    return {o: (uid, restarts[uid]) for o, uid in seats(game).items() if o in among}


# drills ---------------------------------------------------------------------------------------------------------------


def test_rollback_and_return_over_zombies_remove_nobody_who_lives(
    new_play: NewPlay, earlier: Earlier, worker: Node, process_table: ProcessTable
) -> None:
    """Seats 7 and 6 become zombies before the earlier version comes, 5 before its eyes, and 4 after it is gone again.

    Nobody alive has seen 7, 6 and 4 go when this version comes back, and the API server cannot tell it any more.
    """
    stage, game = earlier.stage, new_play()
    game.start(8, static=SESSION, podManagementPolicy="Parallel", pod=on(worker.name))
    await_settled(game, 8)
    zombies, stayed = Zombies(game, process_table), births(game, range(4))
    first = positions(stage)
    assert first.keys() == {POSITION}

    freeze(worker, stage)
    take_away(stage)
    replace(game, 7)
    replace(game, 6)
    earlier.install()
    until(lambda: positions(stage).keys() == {POSITION, POSITION_BEFORE}, deadline_s=60, what="the earlier version at work")
    assert positions(stage)[POSITION_BEFORE] != first[POSITION]
    for which in (7, 6, 5):
        scale_away(game, which)
    until(lambda: game.condition("RemovalSettled").get("status") == "False", deadline_s=60, what="the earlier one to hold")
    by_earlier = {"reason": game.condition("RemovalSettled")["reason"], "continuity": continuity(game)}
    zombies.are_untouched({5, 6, 7})

    take_away(stage)
    replace(game, 4)
    stage.cluster.restart_apiserver(lose_history=True)  # or a replay would show what nobody saw
    earlier.roll_back()
    until(lambda: positions(stage).keys() == {POSITION}, deadline_s=60, what="this version at work")
    scale_away(game, 4)
    await_named(game, {4, 5, 6, 7})
    assert blind(game, range(8)) == set(range(8)), "the history of neither counts"
    zombies.are_untouched({4, 5, 6, 7})

    word_to_removed_s = zombies.end(worker, {4, 5, 6, 7})
    assert births(game, range(4)) == stayed, "no pod was replaced or restarted by it"
    await_injecting(game)  # for the tests that follow
    took_s = leave_as_ever(game, 4)
    assert members(game) == {o: zombies.joined[o] for o in (0, 1)}
    assert game.events(GroupEventKind.SESSION_EXPIRED) == []
    record("rollback to an earlier version and back", zombies=4, live_removals=0, rebalances_before_words=0, earlier=by_earlier,
           word_to_removed_s=word_to_removed_s, removed_afterwards_s=spread(took_s))  # fmt: skip
    assert max(took_s) <= ACKNOWLEDGED_S_MAX


def test_versions_side_by_side_remove_nobody_who_lives(
    new_play: NewPlay, earlier: Earlier, worker: Node, process_table: ProcessTable
) -> None:
    """The Lease changes between them five times, and each holder sees a pod become a zombie behind a successor.

    The earlier version's first heir has watched since before the upgrade, so its own history is whole, and it removes whom it
    saw end; this version's second holding is of the process that had the first, and was paused when it lost it. The other
    group's pods end as usual, and are removed by whom a proof and a history are known.
    """
    stage, game, other = earlier.stage, new_play("zombies"), new_play("others")
    stage.install(replicas=3, **earlier.values)
    earlier.install(replicas=3)
    start_after_a_change(game, 7, SESSION, pod=on(worker.name))
    start_after_a_change(other, 7, SESSION, pod=on(f"{stage.cluster.name}-control-plane"))
    zombies, gone, since_ms = Zombies(game, process_table), members(other), now_ms()
    stayed = births(game, {0, 1}), births(other, {0, 1})

    removed_by = take_turns(earlier, worker, zombies, other, gone, since_ms)
    await_named(game, range(2, 7))
    zombies.are_untouched(range(2, 7))
    stage.kubectl("rollout", "resume", DEPLOYMENT, "-n", SYSTEM)
    stage.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=120s")

    word_to_removed_s = zombies.end(worker, range(2, 7))
    until(lambda: members(other).keys() == {0, 1}, deadline_s=60, what="the others' departed members removed")
    assert (births(game, {0, 1}), births(other, {0, 1})) == stayed, "no pod was replaced or restarted by it"
    took_s = leave_as_ever(game, 2)
    assert game.events(GroupEventKind.SESSION_EXPIRED) == other.events(GroupEventKind.SESSION_EXPIRED) == []
    record("two versions side by side", hand_overs=5, zombies=5, live_removals=0, rebalances_before_words=0,
           departed_of_others=5, removed_by_each_holder=removed_by, word_to_removed_s=word_to_removed_s,
           removed_afterwards_s=spread(took_s))  # fmt: skip
    assert max(took_s) <= ACKNOWLEDGED_S_MAX


def take_turns(
    earlier: Earlier, worker: Node, zombies: Zombies, other: Play, gone: Mapping[int, str], since_ms: int
) -> list[int]:
    """Hand the Lease over five times, and let a pod of each group go under each holder.

    Returns
    -------
    How many members of the other group had been removed when each of its pods was gone.
    """
    stage, game = earlier.stage, zombies.game
    epoch = positions(stage)[POSITION_BEFORE]
    restart_standbys(stage)
    earlier.roll_back_halfway()
    removed_by: list[int] = []

    def depart(which: int) -> None:
        """Let the present holder see a successor that never ran go, and an ordinary end."""
        scale_away(game, which)
        other.scale(which)
        until(lambda: seats(other).keys() == set(range(which)), deadline_s=60, what=f"pod {which} of {other.name} gone")
        zombies.are_untouched(range(which, 7))
        removed_by.append(len(other.removals(since_ms)))

    def is_blind() -> bool:
        return blind(game, range(7)) == blind(other, range(7)) == set(range(7))

    freeze(worker, stage)
    depart(6)
    replace(game, 5)
    holder = earlier.hand_over(to_earlier=False)
    until(is_blind, deadline_s=30, what="this version to count on nothing of the earlier one's")
    depart(5)
    replace(game, 4)
    earlier.hand_over(to_earlier=True, by_silence=True)
    assert positions(stage)[POSITION_BEFORE] == epoch, "the history of its own, which it saw without a gap"
    depart(4)
    until(lambda: {gone[o] for o in (4, 5, 6)} <= removed(other, since_ms).keys(), deadline_s=30, what="whom it saw end removed")
    replace(game, 3)
    earlier.hand_over(to_earlier=False, to=holder)
    until(is_blind, deadline_s=30, what="this version not to count on what it had known itself")
    depart(3)
    replace(game, 2)
    earlier.hand_over(to_earlier=True)
    depart(2)
    earlier.hand_over(to_earlier=False)
    return removed_by
