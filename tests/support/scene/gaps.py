"""What a status says of seats, and how a pod watch loses its history: for tests of gaps, of upgrades and of the way back.

The one idea: what happened to seats is asked of the status by ordinal, of the brokers' log by member and of a pod watch that is not the
operator's, so that each test compares what was told with what was.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from staticgroup.api.names import INSTANCE_ID_ANNOTATION
from staticgroup.api.ordinals import Ordinals
from support.devcluster.kafka_log import now_ms
from support.scene.figures import prompt_s
from support.scene.operators import standing_still
from support.scene.play import REMOVED_WITHIN_S, Play
from support.scene.stage import RELEASE, Stage
from support.scene.witnesses import PodSighting, PodWatch
from support.waiting import until

SESSION = {"sessionTimeout": {"mode": "Fixed", "seconds": 240}}
ACKNOWLEDGED_S_MAX = prompt_s(10.0, otherwise_s=30)
"""From the visible end of a pod to its removal. On a quiet machine it is below 3 s, gap or not."""
DEPLOYMENT = f"deployment/{RELEASE}-operator"
GAP_WORDS = "watchgapconfirmations.staticgroup.io"
HELD_REASONS = {"WatchGap", "DeathNotProven"}
LINGER = "/tmp/linger"
PRE_STOP = {"preStop": {"exec": {"command": ["sh", "-c", f"while [ -e {LINGER} ]; do sleep 0.1; done"]}}}
"""A pod told to end goes on for as long as this file is in it, so that a test decides when it ends."""


# looks ----------------------------------------------------------------------------------------------------------------


def seats(game: Play) -> dict[int, str]:
    """Return the pods that exist now: ordinal to uid."""
    return {ordinal(p["metadata"]["name"]): p["metadata"]["uid"] for p in game.pods()}


def ordinal(name: str) -> int:
    """Return the ordinal in the name of a pod, or in an id of the default template."""
    return int(name.partition(".")[0].rpartition("-")[2])


def members(game: Play) -> dict[int, str]:
    """Return the group's static members: ordinal to member id."""
    return {ordinal(i): m for i, m in game.member_ids().items()}


def continuity(game: Play) -> dict[str, Any]:
    found: dict[str, Any] = (game.status() or {}).get("continuity") or {}
    return found


def blind(game: Play, among: Iterable[int]) -> set[int]:
    """Return which of some ordinals the status says nobody can vouch for."""
    spans = [Ordinals.parse(s["ordinals"]) for s in continuity(game).get("blind", [])]
    return {o for o in among if any(o in s for s in spans)}


def suspects(game: Play) -> dict[str, str]:
    """Return the suspects of the ledger that no word has closed: uid to pod name."""
    entries = ((game.status() or {}).get("ledger") or {}).get("incarnations", [])
    return {e["uid"]: e["podName"] for e in entries if e["state"] == "Suspect" and not e.get("confirmedBy")}


def exceptions(game: Play) -> dict[int, set[str]]:
    """Return the reasons for which members are held back, as the status lists them, by ordinal."""
    found: dict[int, set[str]] = {}
    for row in (game.status() or {}).get("exceptions", []):
        if row["kind"] == "Held":
            found.setdefault(ordinal(row["podName"]), set()).add(row["reason"])
    return found


def removed(game: Play, since_ms: int) -> dict[str, int]:
    """Return the operator's removals: member id to when, by the brokers' log."""
    return {e.member_id or "": e.at_ms for e in game.removals(since_ms)}


def await_settled(game: Play, replicas: int) -> None:
    """Wait until the status knows who sits where and what the StatefulSet wanted, as it does some seconds after a change."""

    def settled() -> bool:
        known = continuity(game)
        return len(known.get("seats", [])) == replicas and (known.get("workload") or {}).get("replicas") == replicas

    until(settled, deadline_s=60, what=f"{replicas} seats of {game.name} to be remembered", poll_s=0.3)


def await_anchored(stage: Stage, before: str, *games: Play) -> str:
    """Wait until the watch has begun a new epoch and every group's status says what that meant for it; returns the epoch."""

    def told() -> str:
        epoch = stage.continuity_epoch()
        is_told = all(continuity(g).get("watchEpoch") == epoch for g in games)
        return epoch if epoch not in ("", before) and is_told else ""

    return until(told, deadline_s=90, what="a new epoch of the pod watch, told by every status", poll_s=0.2)


def await_deleting(watch: PodWatch, uids: Collection[str]) -> None:
    until(
        lambda: all(watch.pods[u].deletion_asked_at_ms for u in uids),
        deadline_s=60, what="pods to be told to end", poll_s=0.02,
    )  # fmt: skip


def await_ready(game: Play, replicas: int) -> None:
    def ready() -> bool:
        shown = [c for p in game.pods() for c in p["status"].get("conditions", []) if c["type"] == "Ready"]
        return len(shown) == replicas and all(c["status"] == "True" for c in shown)

    until(ready, deadline_s=90, what=f"{replicas} pods of {game.name} Ready", poll_s=0.3)


# acts -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What followed when the API server was killed, in seconds since then.

    Parameters
    ----------
    ready_s: it was ready again.
    heard_s: the operator could hear of what had happened.
    told_s: its pod watch had begun again, and the status said what that meant.
    """

    ready_s: float
    heard_s: float
    told_s: float


def lingering_pod(game: Play) -> dict[str, Any]:
    """Return the part of the pod's spec that lets `linger` delay its end."""
    container = game.stateful_set(1)["spec"]["template"]["spec"]["containers"][0]
    return {"containers": [{**container, "lifecycle": PRE_STOP}]}


def linger(game: Play, which: int) -> None:
    """Let a pod that will be told to end run on until `let_go`."""
    game.stage.kubectl("exec", f"{game.name}-{which}", "-n", game.name, "--", "touch", LINGER)


def let_go(game: Play, which: int) -> None:
    game.stage.kubectl("exec", f"{game.name}-{which}", "-n", game.name, "--", "rm", LINGER)


def every_process(stage: Stage) -> list[int]:
    """Return the processes of all replicas of the operator."""
    return [pid for each in stage.operator_processes().values() for pid in each]


def lose_history(game: Play, *, unheard: Callable[[], None] | None = None) -> Loss:
    """Restart the API server without its watch history, and wait until the status says what that meant.

    Parameters
    ----------
    unheard: what is to happen once the API server is back, while no process of the operator runs. None: it may be as quick
        as it is, and mostly is quicker than kubelets, so that it misses nothing.
    """
    stage = game.stage
    before, began_ms = stage.continuity_epoch(), now_ms()
    with standing_still(every_process(stage)) if unheard is not None else nullcontext():
        ready_s = stage.cluster.restart_apiserver(lose_history=True)
        if unheard is not None:
            unheard()
    heard_ms = now_ms()
    await_anchored(stage, before, game)
    return Loss(
        ready_s=round(ready_s, 1),
        heard_s=round((heard_ms - began_ms) / 1000, 1),
        told_s=round((now_ms() - began_ms) / 1000, 1),
    )


def await_injecting(game: Play) -> None:
    """Wait until the API server would give an id to a new pod of the StatefulSet.

    A 1.36.3 server looks up once what kind the policy's parameter is, and when it does so before its own CRDs are served, it
    does so again only after 30 s: until then the policy is not in force, and `failurePolicy: Ignore` lets pods pass without.
    """
    owner = game.stage.get("statefulset", game.name, game.name) or {}
    spec = owner["spec"]["template"]["spec"]
    metadata = {
        "name": f"{game.name}-999",
        "namespace": game.name,
        "labels": {"apps.kubernetes.io/pod-index": "999"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": game.name, "controller": True,
                             "uid": owner["metadata"]["uid"]}],
    }  # fmt: skip
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    until(
        lambda: has_id(json.loads(game.stage.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=pod))),
        deadline_s=60, what="the injection policy in force", poll_s=0.3,
    )  # fmt: skip


def start_after_a_change(game: Play, replicas: int, static: Mapping[str, Any], **workload: Any) -> None:
    """Start consumers of a new StaticGroup once the API server knows of it, whose watch of them changed CRDs have ended."""
    game.stage.apply(game.static_group(**static))
    until(lambda: (game.status() or {}).get("injected"), deadline_s=30, what="ids are issued")
    game.stage.apply(game.stateful_set(0, podManagementPolicy="Parallel", **workload))
    await_injecting(game)
    game.scale(replicas)
    game.await_joined(replicas)


def has_id(pod: Mapping[str, Any]) -> bool:
    return INSTANCE_ID_ANNOTATION in pod["metadata"].get("annotations", {})


def restart_those_without_id(game: Play) -> int:
    """Delete the pods that were made while the injection policy was not in force, as their status says; returns how many."""
    bare = {p["metadata"]["name"] for p in game.pods() if not has_id(p)}

    def told() -> bool:
        rows = (game.status() or {}).get("exceptions", [])
        return bare <= {row["podName"] for row in rows if row["kind"] == "WithoutId"}

    until(told, deadline_s=30, what=f"the status names {bare} as without an id", poll_s=0.3)
    for name in bare:
        game.stage.kubectl("delete", "pod", name, "-n", game.name)
    return len(bare)


def leave(game: Play, watch: PodWatch, end: int, *, waiting: Collection[int] = ()) -> list[float]:
    """Scale to `end`; everybody above must be removed, but for those `waiting`, who must be named.

    Returns
    -------
    Seconds from the visible end of each pod to the removal of its member.
    """
    # A pod that an earlier scale-down ended may still be shown after its member was removed.
    ending = {ordinal(p["metadata"]["name"]) for p in game.pods() if "deletionTimestamp" in p["metadata"]}
    leaving = {o: watch.pods[uid] for o, uid in seats(game).items() if o >= end and o not in ending}
    known, since_ms = members(game), now_ms()
    game.scale(end)
    freed = {o: known[o] for o in leaving if o not in waiting}
    until(
        lambda: set(freed.values()) <= removed(game, since_ms).keys(),
        deadline_s=REMOVED_WITHIN_S, what=f"removal of {sorted(freed)} of {game.name}", poll_s=0.2,
    )  # fmt: skip
    await_named(game, [o for o in leaving if o in waiting])
    took_s = acknowledged_s(leaving, freed, removed(game, since_ms))
    assert len(took_s) == len(freed)
    return took_s


def acknowledged_s(ends: Mapping[int, PodSighting], known: Mapping[int, str], removals: Mapping[str, int]) -> list[float]:
    """Return the seconds from each visible end to the removal, of those members for whom both were seen."""
    found = []
    for each, member_id in known.items():
        ended_at_ms = ends[each].terminal_at_ms if each in ends else None
        if ended_at_ms is not None and member_id in removals:
            found.append((removals[member_id] - ended_at_ms) / 1000)
    return found


def await_named(game: Play, ordinals: Collection[int]) -> None:
    """Wait until the status says of each departed member that, and why, it waits."""

    def named() -> bool:
        reasons = exceptions(game)
        return all(reasons.get(o, set()) & HELD_REASONS for o in ordinals)

    until(named, deadline_s=60, what=f"{sorted(ordinals)} of {game.name} to be told as held", poll_s=0.3)
    if ordinals:
        held = game.condition("RemovalSettled")
        assert (held["status"], held["reason"] in HELD_REASONS) == ("False", True), held


def confirm(game: Play, uid: str) -> None:
    """Say, as an administrator on the command line, that the process of a suspect has ended."""
    pod = suspects(game)[uid]
    command = [sys.executable, "-m", "staticgroup", "-n", game.name, "confirm", pod, "--uid", uid,
               "--statement", "the process table of the machine does not have it"]  # fmt: skip
    environment = {**os.environ, "KUBECONFIG": game.stage.cluster.state.kubeconfig}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


def confirm_gaps(game: Play) -> None:
    """Say, as an administrator, that whatever ran unseen while nobody looked has ended."""
    spans = continuity(game)["blind"]
    game.stage.apply({
        "apiVersion": "staticgroup.io/v1alpha1",
        "kind": "WatchGapConfirmation",
        "metadata": {"name": game.name},
        "spec": {
            "since": min(s["since"] for s in spans),
            "until": max(s["until"] for s in spans),
            "statement": "no machine left the cluster, and the process table has none of them",
            "by": "admin",
        },
    })  # fmt: skip


def takes_gap_words(stage: Stage) -> bool:
    return bool(stage.kubectl("get", "crd", GAP_WORDS, "--ignore-not-found", "-o", "name").strip())
