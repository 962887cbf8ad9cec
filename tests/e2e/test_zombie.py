"""A pod object that is gone while its process lives: the process is never removed from its group.

The one idea: a frozen kubelet makes real zombies. The pods' objects are force-deleted, their processes go on
heartbeating, and the operator, which sees only objects, must not touch them; meanwhile it removes others as usual.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from support.devcluster.kafka_log import now_ms
from support.devcluster.node import Node, now_rfc3339
from support.long_drills import by_length
from support.scene.figures import record
from support.scene.play import REMOVED_WITHIN_S, Play
from support.scene.stage import Stage
from support.scene.witnesses import ProcessTable
from support.waiting import holds, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

ZOMBIE_S = by_length(short=25.0, long=65.0)
STAYS = [{"key": f"node.kubernetes.io/{why}", "operator": "Exists"} for why in ("not-ready", "unreachable")]
"""The pods tolerate a silent node for ever, so that only the test's own deletions count."""


@pytest.fixture
def worker(installed: Stage) -> Iterator[Node]:
    """The worker node; it runs again afterwards."""
    node = installed.cluster.node("worker")
    yield node
    since = now_rfc3339()
    node.thaw()
    node.await_ready(since)


def on(node: str) -> dict[str, object]:
    return {"nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": STAYS}


def force_delete(play: Play, pod: str) -> None:
    play.stage.kubectl("delete", "pod", pod, "-n", play.name, "--force", "--grace-period=0", "--wait=false")


@pytest.mark.long  # the short drills of nodes hold the same, many at a time
def test_live_process_of_a_force_deleted_pod_is_never_removed(
    new_play: Callable[..., Play], worker: Node, process_table: ProcessTable
) -> None:
    """Ordinals 3 and 2 are scaled away and force-deleted, 2 after its successor could not start; both still run."""
    play, healthy = new_play("frozen"), new_play("healthy")
    play.stage.apply(play.static_group(), healthy.static_group())
    until(lambda: all((p.status() or {}).get("injected") for p in (play, healthy)), deadline_s=30, what="ids issued")
    healthy.stage.apply(healthy.stateful_set(2, pod=on(f"{worker.state.name}-control-plane")))
    play.stage.apply(play.stateful_set(4, pod=on(worker.name), podManagementPolicy="Parallel"))
    play.await_joined(4)
    healthy.await_joined(2)
    joined = play.member_ids()
    ids = {ordinal: next(i for i in joined if i.startswith(f"{play.name}-{ordinal}.")) for ordinal in range(4)}
    before = {p["metadata"]["name"]: p["metadata"]["uid"] for p in play.pods()}

    worker.freeze()
    force_delete(play, f"{play.name}-2")
    until(lambda: {p["metadata"]["name"]: p["metadata"]["uid"] for p in play.pods()}.get(f"{play.name}-2")
          not in (None, before[f"{play.name}-2"]), deadline_s=30, what="a successor of pod 2")  # fmt: skip
    play.scale(2)
    third = f"{play.name}-3"
    until(lambda: any("deletionTimestamp" in p["metadata"] for p in play.pods() if p["metadata"]["name"] == third),
          deadline_s=30, what="pod 3 to be terminating")  # fmt: skip
    force_delete(play, f"{play.name}-3")
    until(
        lambda: f"{play.name}-3" not in {p["metadata"]["name"] for p in play.pods()}, deadline_s=10, what="pod 3 gone"
    )
    force_delete(play, f"{play.name}-2")
    until(lambda: len(play.pods()) == 2, deadline_s=30, what="the objects of pods 2 and 3 gone")
    gone_at_ms, gone_s = now_ms(), time.monotonic()
    assert all(process_table.is_alive(ids[ordinal]) for ordinal in (2, 3)), "the zombies must live for this test"

    healthy.scale(1)
    until(
        lambda: healthy.removals(gone_at_ms), deadline_s=REMOVED_WITHIN_S, what="a removal on a healthy node meanwhile"
    )
    held = until(lambda: play.condition("RemovalSettled").get("reason") == "EndNotSeen"
                 and play.condition("RemovalSettled"),
                 deadline_s=30, what="the status says why nothing is removed")  # fmt: skip
    assert any(f"{play.name}-{ordinal}" in held["message"] for ordinal in (2, 3))

    def untouched() -> bool:
        return play.removals() == [] and all(process_table.is_alive(ids[ordinal]) for ordinal in (2, 3))

    watch_s = max(10.0, ZOMBIE_S - (time.monotonic() - gone_s))
    checks = holds(untouched, for_s=watch_s, what="zombies live and are members")
    members = play.member_ids()
    assert {ordinal: members.get(ids[ordinal]) for ordinal in (2, 3)} == {o: joined[ids[o]] for o in (2, 3)}
    record("zombies not removed", zombies=2, watched_s=round(time.monotonic() - gone_s, 1), checks=checks, removed=0)
