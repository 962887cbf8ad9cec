"""Everyday ends of which not every container ever ran: their members go at once all the same.

The one idea: a wrong image, of the client, a sidecar or a debug container, and a pod deleted during init are daily
bread, and each leaves a container without an id for good. All of them happen to one group at once, each to an ordinal
of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.scene.figures import record, spread
from support.scene.operators import await_active, kill
from support.scene.play import Play
from support.scene.stage import WORKLOAD_IMAGE, Stage
from support.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

LONG_SESSION = {"sessionTimeout": {"seconds": 240}}
REMOVED_WITHIN_S = 60.0
MISSING = {"image": "localhost/never-built:1", "imagePullPolicy": "Never"}
STAY, DEBUGGED, SIDECAR, CLIENT, INIT, NEVER = 2, 2, 3, 4, 5, 6
"""Ordinals from `STAY` on depart; each has its own kind of end."""


def helper(name: str, *command: str, **fields: Any) -> dict[str, Any]:
    """Return a container that is no client."""
    return {"name": name, "image": WORKLOAD_IMAGE, "imagePullPolicy": "Never", "command": [*command], **fields}


def replaced(game: Play, ordinal: int, *, inits: list[Any], others: list[Any], **client: Any) -> None:
    """Make one pod again from a changed template; `OnDelete` leaves the others alone."""
    pod = game.stateful_set(1, grace_s=5)["spec"]["template"]["spec"]
    containers = [{**pod["containers"][0], **client}, *others]
    spec = {"initContainers": inits or None, "containers": containers}
    game.stage.apply_patch("statefulset", game.name, game.name, {"spec": {"template": {"spec": spec}}})

    def is_observed() -> bool:
        found = game.stage.get("statefulset", game.name, game.name) or {}
        return bool(found["status"].get("observedGeneration") == found["metadata"]["generation"])

    until(is_observed, deadline_s=20, what="the new template")
    game.stage.kubectl("delete", "pod", f"{game.name}-{ordinal}", "-n", game.name)


def states(game: Play, ordinal: int) -> dict[str, str]:
    """Return the state, or what it waits for, of every container of a pod that is not being deleted; {} without one."""
    pod = game.stage.get("pod", f"{game.name}-{ordinal}", game.name)
    if pod is None or "deletionTimestamp" in pod["metadata"]:
        return {}
    found = {}
    for kind in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for entry in pod["status"].get(kind, []):
            (state, said), *_ = entry["state"].items()
            found[entry["name"]] = said["reason"] if state == "waiting" else state
    return found


def await_states(game: Play, ordinal: int, **wanted: str) -> None:
    until(lambda: states(game, ordinal) == wanted, deadline_s=60, what=f"pod {ordinal} to be {wanted}", poll_s=0.3)


def evidence(game: Play) -> dict[int, str]:
    """Return what each removal of the group rested on, by ordinal, from the operator's audit lines."""
    lines = (line for line in game.stage.operator_logs().splitlines() if '"staticgroup.audit"' in line)
    removals = [entry for line in lines if (entry := json.loads(line))["group_id"] == game.name]
    return {entry["ordinal"]: entry["evidence"] for entry in removals if entry["outcome"] == "Removed"}


def restart_operator(stage: Stage) -> None:
    """Kill every replica and wait until one of them goes on with the same pod watch."""
    watch = stage.watch_name()
    await_active(stage, kill(pid for pids in stage.operator_processes().values() for pid in pids))
    assert stage.watch_name() == watch


@pytest.mark.long
@pytest.mark.parametrize("restarts", [False, True], ids=["operator-stays", "operator-restarts"])
def test_members_of_pods_of_which_a_container_never_started_leave_at_once(
    new_play: Callable[..., Play], restarts: bool
) -> None:
    game = new_play(f"{restarts:d}")
    game.start(
        NEVER + 1, static=LONG_SESSION, grace_s=5, podManagementPolicy="Parallel", updateStrategy={"type": "OnDelete"}
    )
    ids = {int(i.partition(".")[0].rpartition("-")[2]): i for i in game.member_ids()}

    debugged = f"{game.name}-{DEBUGGED}"
    game.stage.kubectl("debug", debugged, "-n", game.name, "-c", "dbg", "--image", str(MISSING["image"]),
                       "--image-pull-policy=Never", "--", "true")  # fmt: skip
    replaced(game, SIDECAR, inits=[], others=[helper("side", "sleep", "600", **MISSING)])
    replaced(game, CLIENT, inits=[helper("init", "test", "-e", "/")], others=[], **MISSING)
    replaced(game, INIT, inits=[helper("init", "sleep", "600")], others=[])
    replaced(game, NEVER, inits=[], others=[], **MISSING)
    await_states(game, DEBUGGED, app="running", dbg="ErrImageNeverPull")
    await_states(game, SIDECAR, app="running", side="ErrImageNeverPull")
    await_states(game, CLIENT, init="terminated", app="ErrImageNeverPull")
    await_states(game, INIT, init="running", app="PodInitializing")
    await_states(game, NEVER, app="ErrImageNeverPull")
    game.await_joined(len(ids))

    if restarts:
        restart_operator(game.stage)
    since_ms = now_ms()
    game.scale(STAY)
    departed = {ids[o] for o in range(STAY, NEVER + 1)}
    until(lambda: set(game.removed_ids(since_ms)) == departed, deadline_s=REMOVED_WITHIN_S,
          what=f"removal of {sorted(departed)}", poll_s=0.3)  # fmt: skip
    took_s = [(e.at_ms - since_ms) / 1000 for e in game.removals(since_ms)]
    assert game.events(GroupEventKind.SESSION_EXPIRED) == []
    assert set(game.member_ids()) == {ids[o] for o in range(STAY)}

    found = until(lambda: e if len(e := evidence(game)) == len(departed) else None, deadline_s=10, what="audit lines")
    assert all(" has ended: " in found[o] for o in range(STAY, INIT + 1))
    assert "1 of 2 containers terminated, dbg never started" in found[DEBUGGED]
    assert "1 of 2 containers terminated, side never started" in found[SIDECAR]
    assert "0 of 1 containers terminated, app never started" in found[CLIENT]
    assert "0 of 1 containers terminated, app never started" in found[INIT]
    assert "no container of this pod ever had a containerID" in found[NEVER]
    record("everyday ends", restarts=restarts, departures=len(departed), scale_down_to_removed_s=spread(took_s))
