"""What a status remembers of members, and how a pod watch loses its history: for tests of what came and went unseen.

The one idea: what happened to seats is read from the status by ordinal, from the brokers' log by member and from a pod
watch that is not the operator's, so that each test compares reports with facts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from staticgroup.api.names import INSTANCE_ID_ANNOTATION
from staticgroup.core.members.carriers import UNSEEN, digest_of
from support.devcluster.kafka_log import now_ms
from support.scene.figures import prompt_s
from support.scene.operators import standing_still
from support.scene.play import REMOVED_WITHIN_S, Play
from support.scene.stage import RELEASE, SYSTEM, Stage
from support.scene.witnesses import PodSighting, PodWatch
from support.waiting import until

ACKNOWLEDGED_S_MAX = prompt_s(10.0, otherwise_s=30)
"""From the visible end of a pod to its removal. On a quiet machine it is below 3 s, whatever was missed."""
DEPLOYMENT = f"deployment/{RELEASE}-operator"
SUSPECT, JOINED_BEFORE_WATCH, UNATTRIBUTED = "Suspect", "JoinedBeforeWatch", "Unattributed"
HELD_REASONS = {SUSPECT, JOINED_BEFORE_WATCH, UNATTRIBUTED}
END_NOT_SEEN = "EndNotSeen"
"""What the condition says of all of them."""
LINGER = "/tmp/linger"
PRE_STOP = {"preStop": {"exec": {"command": ["sh", "-c", f"while [ -e {LINGER} ]; do sleep 0.1; done"]}}}
"""A terminating pod goes on for as long as it has this file, so that a test decides when it ends."""


# states ---------------------------------------------------------------------------------------------------------------


def seats(game: Play) -> dict[int, str]:
    """Return the pods that exist now: ordinal to uid."""
    return {ordinal(p["metadata"]["name"]): p["metadata"]["uid"] for p in game.pods()}


def ordinal(name: str) -> int:
    """Return the ordinal in the name of a pod, or in an id of the default template."""
    return int(name.partition(".")[0].rpartition("-")[2])


def members(game: Play) -> dict[int, str]:
    """Return the group's static members: ordinal to member id."""
    return {ordinal(i): m for i, m in game.member_ids().items()}


def carriers(game: Play) -> dict[int, set[str]]:
    """Return which pods may hold each member that is in the group now, as the status says it, by ordinal."""
    held = {i: digest_of(m) for i, m in game.member_ids().items()}
    known = _memory(game).get("seats", [])
    return {ordinal(s["id"]): set(s.get("carriers", [])) for s in known if held.get(s["id"]) == s["member"]}


def suspects(game: Play) -> dict[str, str]:
    """Return the pods that may live unseen, as the status says it: uid to pod name."""
    return {s["uid"]: s["pod"] for s in _memory(game).get("suspects", [])}


def _memory(game: Play) -> dict[str, Any]:
    return (game.status() or {}).get("memory") or {}


def held(game: Play) -> dict[int, str]:
    """Return why members are held back, as the status lists them, by ordinal."""
    rows = (game.status() or {}).get("issues", [])
    return {
        ordinal(row["podName"]): row["reason"]
        for row in rows
        if row["kind"] == "Held" and row["reason"] in HELD_REASONS
    }


def removed(game: Play, since_ms: int) -> dict[str, int]:
    """Return the operator's removals: member id to when, by the brokers' log."""
    return {e.member_id or "": e.at_ms for e in game.removals(since_ms)}


def is_plain(game: Play, replicas: int) -> bool:
    """Say whether each member may be held by the pod of its ordinal alone, as the status says it."""
    return carriers(game) == {o: {uid} for o, uid in seats(game).items()} and len(seats(game)) == replicas


def await_plain(game: Play, replicas: int) -> None:
    """Wait until the status says of each member that the pod of its ordinal alone may hold it."""
    until(
        lambda: is_plain(game, replicas), deadline_s=60, what=f"{replicas} members of {game.name} to be remembered",
        poll_s=0.3,
    )  # fmt: skip


def await_begun_anew(stage: Stage, before: str, *games: Play) -> str:
    """Wait until the pod watch has begun anew and every group was described since; returns its name."""

    def begun() -> str:
        name = stage.watch_name()
        return name if name not in ("", before) else ""

    name = until(begun, deadline_s=90, what="a new pod watch", poll_s=0.2)
    for game in games:
        what = f"the members of {game.name} in the status"
        until(lambda game=game: described_all(game), deadline_s=90, what=what, poll_s=0.3)  # type: ignore[misc]
    return name


def described_all(game: Play) -> bool:
    """Return whether the status has an entry for each member that is in the group now."""
    return carriers(game).keys() == members(game).keys()


def await_whole(game: Play, watch: str, settle_s: float) -> None:
    """Wait until the status says that no member that joins from now on can be older than the pod watch."""
    until(
        lambda: str(_memory(game).get("watch", "")).startswith(f"{watch}."),
        deadline_s=settle_s + 90, what=f"the pod watch of {game.name} whole", poll_s=0.5,
    )  # fmt: skip


def await_deleting(watch: PodWatch, uids: Collection[str]) -> None:
    """Wait until pods are terminating, as an independent watch shows it."""
    until(
        lambda: all(watch.pods[u].deletion_asked_at_ms for u in uids),
        deadline_s=60, what="pods to be terminating", poll_s=0.02,
    )  # fmt: skip


def await_ready(game: Play, replicas: int) -> None:
    """Wait until so many pods exist, each of them Ready."""

    def ready() -> bool:
        shown = [c for p in game.pods() for c in p["status"].get("conditions", []) if c["type"] == "Ready"]
        return len(shown) == replicas and all(c["status"] == "True" for c in shown)

    until(ready, deadline_s=90, what=f"{replicas} pods of {game.name} Ready", poll_s=0.3)


def await_held(game: Play, reasons: Mapping[int, str]) -> None:
    """Wait until the status shows exactly these departed members as waiting, with these reasons."""
    until(
        lambda: held(game) == reasons, deadline_s=60, what=f"{dict(reasons)} of {game.name} to be reported as held",
        poll_s=0.3,
    )  # fmt: skip
    settled = game.condition("RemovalSettled")
    assert (settled["status"], settled["reason"]) == ("False", END_NOT_SEEN), settled


# acts -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What followed when the API server was killed.

    Parameters
    ----------
    watch: name of the pod watch that began then.
    ready_s: seconds until it was ready again. reported_s: until the status showed every member under the new watch.
    """

    watch: str
    ready_s: float
    reported_s: float


def lingering_pod(game: Play) -> dict[str, Any]:
    """Return the part of the pod's spec that lets `linger` delay its end."""
    container = game.stateful_set(1)["spec"]["template"]["spec"]["containers"][0]
    return {"containers": [{**container, "lifecycle": PRE_STOP}]}


def linger(game: Play, which: int) -> None:
    """Let a pod that will be deleted run on until `let_go`."""
    game.stage.kubectl("exec", f"{game.name}-{which}", "-n", game.name, "--", "touch", LINGER)


def let_go(game: Play, which: int) -> None:
    """Let a terminating pod end."""
    game.stage.kubectl("exec", f"{game.name}-{which}", "-n", game.name, "--", "rm", LINGER)


def every_process(stage: Stage) -> list[int]:
    """Return the processes of all replicas of the operator."""
    return [pid for each in stage.operator_processes().values() for pid in each]


@contextmanager
def without_operators(stage: Stage) -> Iterator[None]:
    """Let no operator run meanwhile."""
    stage.kubectl("scale", DEPLOYMENT, "-n", SYSTEM, "--replicas=0")
    until(lambda: not stage.items("pods", SYSTEM), deadline_s=60, what="no operator")
    yield
    stage.kubectl("scale", DEPLOYMENT, "-n", SYSTEM, "--replicas=2")
    stage.kubectl("rollout", "status", DEPLOYMENT, "-n", SYSTEM, "--timeout=90s")


def lose_history(game: Play, *, while_stopped: Callable[[], None] | None = None) -> Loss:
    """Restart the API server without its watch history, and wait until the status says what that meant.

    Parameters
    ----------
    while_stopped: called once the API server is back, while no process of the operator runs. None: it may be as
        quick as it is, and mostly is quicker than kubelets, so that it misses nothing.
    """
    stage = game.stage
    before, began_ms = stage.watch_name(), now_ms()
    with standing_still(every_process(stage)) if while_stopped is not None else nullcontext():
        ready_s = stage.cluster.restart_apiserver(lose_history=True)
        if while_stopped is not None:
            while_stopped()
    name = await_begun_anew(stage, before, game)
    return Loss(watch=name, ready_s=round(ready_s, 1), reported_s=round((now_ms() - began_ms) / 1000, 1))


def await_injecting(game: Play) -> None:
    """Wait until the API server would give an id to a new pod of the StatefulSet.

    A 1.36.3 server resolves the kind of the policy's parameter once, and if it does so before its own CRDs are
    served, it does so again only after 30 s: until then the policy is not in force, and `failurePolicy: Ignore` lets
    pods pass without.
    """
    owner = game.stage.get("statefulset", game.name, game.name) or {}
    spec = owner["spec"]["template"]["spec"]
    metadata = {
        "name": f"{game.name}-999", "namespace": game.name, "labels": {"apps.kubernetes.io/pod-index": "999"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": game.name, "controller": True,
                             "uid": owner["metadata"]["uid"]}],
    }  # fmt: skip
    pod = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    until(
        lambda: has_id(json.loads(game.stage.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-",
        stdin=pod))),
        deadline_s=60, what="the injection policy in force", poll_s=0.3,
    )  # fmt: skip


def has_id(pod: Mapping[str, Any]) -> bool:
    return INSTANCE_ID_ANNOTATION in pod["metadata"].get("annotations", {})


def leave(game: Play, watch: PodWatch, end: int, *, waiting: Mapping[int, str] | None = None) -> list[float]:
    """Scale to `end`; all members above must be removed, except those `waiting`, reported as held for their reasons.

    Returns
    -------
    Seconds from the visible end of each pod to the removal of its member.
    """
    # A pod that an earlier scale-down ended may still be shown after its member was removed.
    ending = {ordinal(p["metadata"]["name"]) for p in game.pods() if "deletionTimestamp" in p["metadata"]}
    leaving = {o: watch.pods[uid] for o, uid in seats(game).items() if o >= end and o not in ending}
    known, since_ms = members(game), now_ms()
    game.scale(end)
    freed = {o: known[o] for o in leaving if o not in (waiting or {})}
    until(
        lambda: set(freed.values()) <= removed(game, since_ms).keys(),
        deadline_s=REMOVED_WITHIN_S, what=f"removal of {sorted(freed)} of {game.name}", poll_s=0.2,
    )  # fmt: skip
    if waiting:
        await_held(game, waiting)
    took_s = acknowledged_s(leaving, freed, removed(game, since_ms))
    assert len(took_s) == len(freed)
    return took_s


def acknowledged_s(
    ends: Mapping[int, PodSighting], known: Mapping[int, str], removals: Mapping[str, int]
) -> list[float]:
    """Return the seconds from each visible end to the removal, of those members with both."""
    found = []
    for each, member_id in known.items():
        ended_at_ms = ends[each].terminal_at_ms if each in ends else None
        if ended_at_ms is not None and member_id in removals:
            found.append((removals[member_id] - ended_at_ms) / 1000)
    return found


def unseen(game: Play) -> set[int]:
    """Return the ordinals whose members a pod that nobody saw may hold, as the status says it."""
    return {o for o, uids in carriers(game).items() if UNSEEN in uids}
