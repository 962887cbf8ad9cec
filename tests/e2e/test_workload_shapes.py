"""The shapes that a StatefulSet may have and the ways to change it: none of them may cost a live member its seat.

The one idea: whatever is done to the workload object, the brokers' log shows removals of exactly the ordinals that
are not wanted any more and whose processes have ended, and no rebalance where none left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import pytest

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.long_drills import are_drills_long
from support.scene.figures import record
from support.scene.play import REMOVED_WITHIN_S, Play
from support.scene.remembered import members, removed
from support.waiting import holds, until

pytestmark = pytest.mark.e2e

NewPlay = Callable[..., Play]
SESSION_S = 240
LONG_SESSION = {"sessionTimeout": {"seconds": SESSION_S}}
WORKLOAD_MISSING_HOLD_S = 60
"""So long the ids of a deleted StatefulSet wait for one that is created again."""
DEPARTURES = (GroupEventKind.REMOVED, GroupEventKind.SESSION_EXPIRED)
INDEX = "apps.kubernetes.io/pod-index"


def uids(game: Play) -> dict[int, str]:
    """Return pod UID by ordinal, of the pods that are not being deleted."""
    live = [p["metadata"] for p in game.pods() if "deletionTimestamp" not in p["metadata"]]
    return {int(m["labels"][INDEX]): m["uid"] for m in live}


def await_ready(game: Play, wanted: Collection[int]) -> None:
    """Wait until exactly these ordinals have pods, all Ready."""

    def ready() -> bool:
        pods = game.pods()
        shown = [c for p in pods for c in p.get("status", {}).get("conditions", []) if c["type"] == "Ready"]
        found = sorted(int(p["metadata"]["labels"][INDEX]) for p in pods)
        return found == sorted(wanted) and len(shown) == len(pods) and all(c["status"] == "True" for c in shown)

    until(ready, deadline_s=90, what=f"pods {sorted(wanted)} Ready", poll_s=0.5)


def await_members(game: Play, wanted: Collection[int], deadline_s: float = 60) -> None:
    """Wait until exactly these ordinals are in the group."""
    game.await_joined(len(wanted), deadline_s=deadline_s)
    until(lambda: sorted(members(game)) == sorted(wanted), deadline_s=deadline_s, what=f"members {wanted}")


def assert_quiet(game: Play, since_ms: int, *, replaced: int) -> None:
    """Hold that members came back under their id, and nothing else happened."""
    assert len(game.events(GroupEventKind.STATIC_MEMBER_REPLACED, since_ms=since_ms)) == replaced
    assert game.events(*DEPARTURES, since_ms=since_ms) == []
    assert game.rebalances(since_ms) == 0


def patch(game: Play, spec: dict[str, Any]) -> None:
    """Change fields of the StatefulSet, as `kubectl edit` does."""
    game.stage.apply_patch("statefulset", game.name, game.name, {"spec": spec})


def template(note: str) -> dict[str, Any]:
    """Return a change of the pod template that makes a new revision."""
    return {"template": {"metadata": {"annotations": {"test/note": note}}}}


@pytest.mark.long
def test_ids_follow_a_range_of_ordinals_that_moves(new_play: NewPlay) -> None:
    """KEP-3335: `ordinals.start` 5, Parallel; the range shrinks at its end, then moves up by one."""
    game = new_play()
    game.start(3, static=LONG_SESSION, podManagementPolicy="Parallel", ordinals={"start": 5})
    await_members(game, (5, 6, 7))
    since_ms, last = now_ms(), members(game)[7]
    game.scale(2)
    until(lambda: removed(game, since_ms), deadline_s=REMOVED_WITHIN_S, what="removal of ordinal 7")
    await_members(game, (5, 6))
    assert removed(game, since_ms).keys() == {last}

    since_ms, first, kept = now_ms(), members(game)[5], members(game)[6]
    patch(game, {"ordinals": {"start": 6}})
    until(lambda: removed(game, since_ms), deadline_s=REMOVED_WITHIN_S, what="removal of ordinal 5")
    await_members(game, (6, 7))
    assert removed(game, since_ms).keys() == {first}
    assert members(game)[6] == kept
    assert game.events(GroupEventKind.SESSION_EXPIRED) == []


def test_updates_that_restart_some_pods_or_none_keep_every_seat(new_play: NewPlay) -> None:
    """`partition` restarts the upper ordinals only, `OnDelete` none until a pod is deleted."""
    game = new_play()
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    game.start(3, static=LONG_SESSION, podManagementPolicy="Parallel", updateStrategy=rolling)
    await_ready(game, range(3))
    before, since_ms = uids(game), now_ms()

    patch(game, template("partition"))
    until(lambda: uids(game).get(2) not in (None, before[2]), deadline_s=60, what="restart of ordinal 2")
    await_ready(game, range(3))
    await_members(game, range(3))
    after = uids(game)
    assert (after[0], after[1]) == (before[0], before[1])
    assert_quiet(game, since_ms, replaced=1)

    patch(game, {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}, **template("on-delete")})

    def noticed() -> bool:
        status = (game.stage.get("statefulset", game.name, game.name) or {})["status"]
        return bool(status["updateRevision"] != status["currentRevision"]) and status.get("updatedReplicas", 0) == 0

    until(noticed, deadline_s=30, what="the new revision")
    assert uids(game) == after
    game.stage.kubectl("delete", "pod", f"{game.name}-1", "-n", game.name)
    await_ready(game, range(3))
    await_members(game, range(3))
    assert {o for o, uid in uids(game).items() if uid != after[o]} == {1}
    assert_quiet(game, since_ms, replaced=2)


def test_statefulset_created_again_finds_its_seats(new_play: NewPlay) -> None:
    """Deleted with its pods and created again, as a re-install or the change of an immutable field does."""
    game = new_play()
    game.start(3, static=LONG_SESSION, podManagementPolicy="Parallel")
    await_ready(game, range(3))
    before, since_ms = uids(game), now_ms()
    game.stage.kubectl("delete", "statefulset", game.name, "-n", game.name, "--cascade=foreground", "--wait=true")
    until(lambda: not game.pods(), deadline_s=30, what="no pods")
    game.stage.apply(game.stateful_set(3, podManagementPolicy="Parallel"))
    await_ready(game, range(3))
    await_members(game, range(3))
    assert not set(uids(game).values()) & set(before.values())
    assert_quiet(game, since_ms, replaced=3)
    assert (now_ms() - since_ms) / 1000 < WORKLOAD_MISSING_HOLD_S


@pytest.mark.long
def test_orphaned_pods_keep_their_seats_and_a_deleted_one_is_let_go(new_play: NewPlay) -> None:
    """Orphan delete; one orphan is deleted by hand and not created again; a new StatefulSet adopts the others.

    Its member waits in case the workload comes back. The long form sees the end of that wait; in the short one the new
    StatefulSet comes before, and asks at once for no pods.
    """
    game = new_play()
    game.start(3, static=LONG_SESSION, podManagementPolicy="Parallel")
    await_ready(game, range(3))
    before, since_ms, gone = uids(game), now_ms(), members(game)[2]
    game.stage.kubectl("delete", "statefulset", game.name, "-n", game.name, "--cascade=orphan")
    orphaned_at_ms = now_ms()
    game.stage.kubectl("delete", "pod", f"{game.name}-2", "-n", game.name)
    deleted_at_ms = now_ms()
    assert len(game.member_ids()) == 3  # its session goes on
    if are_drills_long():
        until(lambda: removed(game, since_ms), deadline_s=2 * WORKLOAD_MISSING_HOLD_S, what="removal of ordinal 2")
        await_members(game, (0, 1))
        (event,) = game.removals(since_ms)
        record("orphan deleted by hand", removed_after_s=round((event.at_ms - deleted_at_ms) / 1000, 1))
        assert event.member_id == gone
        assert event.at_ms - orphaned_at_ms >= WORKLOAD_MISSING_HOLD_S * 1000 * 0.95
    else:
        until(lambda: len(game.pods()) == 2, deadline_s=30, what="pod 2 gone")
        holds(lambda: not removed(game, since_ms), for_s=8, what="the member waits for a workload that comes back")
    assert uids(game) == {0: before[0], 1: before[1]}

    adopted_at_ms = now_ms()
    game.stage.apply(game.stateful_set(2, podManagementPolicy="Parallel"))

    def adopted() -> bool:
        status = (game.stage.get("statefulset", game.name, game.name) or {}).get("status", {})
        return bool(status.get("readyReplicas") == 2)

    until(adopted, deadline_s=30, what="adoption of both pods")
    assert uids(game) == {0: before[0], 1: before[1]}
    if are_drills_long():
        assert_quiet(game, adopted_at_ms, replaced=0)
    else:
        until(lambda: removed(game, since_ms), deadline_s=REMOVED_WITHIN_S, what="removal of ordinal 2")
        await_members(game, (0, 1))
        assert [e.member_id for e in game.events(*DEPARTURES, since_ms=since_ms)] == [gone]
        assert game.events(GroupEventKind.STATIC_MEMBER_REPLACED, since_ms=adopted_at_ms) == []

    # The new StatefulSet counts like the old one: what leaves it is let go at once.
    since_ms, second = now_ms(), members(game)[1]
    game.scale(1)
    until(lambda: removed(game, since_ms), deadline_s=30, what="removal of ordinal 1")
    await_members(game, (0,))
    assert removed(game, since_ms).keys() == {second}
