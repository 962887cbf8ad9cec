"""The ground of a drill: two kubelets, one of which fails, the operator beside it, and what it remembers of nodes."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from staticgroup.core.evidence.spans import CLOCKS_APART_S

from support.devcluster.kafka_log import now_ms
from support.devcluster.node import Node
from support.drills.api import Api
from support.drills.cases import Case, herald, start
from support.drills.lives import PodLives
from support.drills.troubles import OUT_OF_SERVICE, Evidence, register_again, repair, set_taint
from support.scene.operators import kill
from support.scene.stage import RELEASE, SYSTEM, Stage
from support.waiting import holds, until

AT_ONCE = 4
HERALDS_APART_S = 8.0
LOOKED_S = 6.0
"""How long it is looked whether a member stays; a removal comes within 3 s of the proof that permits it."""


@dataclass(slots=True, kw_only=True)
class Ground:
    """What all drills of one cluster share."""

    stage: Stage
    node: Node
    lives: PodLives
    _heralded_s: float = field(default=float("-inf"), init=False)

    @property
    def api(self) -> Api:
        """The API server."""
        return Api(cluster=self.stage.cluster)

    # the operator -------------------------------------------------------------------------------------------------

    def prepare(self, evidence: Evidence, *, replicas: int = 2, is_remembered: bool = True) -> None:
        """Have the operator conclude what a drill says, and wait, where it matters, until it has known the node for long enough."""
        self.mend()
        self.stage.install(**evidence.values(self.node, replicas))
        until(lambda: len(self.operators()) == replicas, deadline_s=180, what=f"{replicas} replicas", poll_s=0.5)
        self.active(since_ms=now_ms())
        if is_remembered:
            self.await_remembered()

    def await_remembered(self) -> None:
        """Wait until what is made from now on is younger than what the operator remembers of the node."""
        uid = self.api.get("Node", self.node.name)["metadata"]["uid"]

        def is_known() -> bool:
            found = self.remembered()
            since_s = max(found.get("known_since_s", 0.0), found.get("timeline_since_s", 0.0) + CLOCKS_APART_S)
            return found.get("uid") == uid and since_s < time.time()

        until(is_known, deadline_s=150, what=f"{self.node.name} to be remembered", poll_s=0.5)

    def remembered(self) -> dict[str, Any]:
        """Return what the operator has written down of the node, and of what it is about; {} when nothing is."""
        for chunk in self.api.items("ConfigMap", SYSTEM):
            lines = [json.loads(line) for line in chunk.get("data", {}).get("nodes.json", "").splitlines()]
            for row in lines:
                if row.get("name") == self.node.name and "timeline" in lines[0]:
                    return {**row, **lines[0]}
        return {}

    def operators(self) -> dict[str, list[int]]:
        """Return the processes of each replica that has not ended and is not ending, by the name of its pod."""
        # Over a restore of etcd objects of replicas that have ended stay.
        pods = [p["metadata"] for p in self.api.items("Pod", SYSTEM) if p.get("status", {}).get("phase") not in ("Succeeded", "Failed")]
        named = {m["name"]: m["uid"] for m in pods if m.get("labels", {}).get("app.kubernetes.io/name") == "staticgroup"
                 and "deletionTimestamp" not in m}  # fmt: skip
        return {name: self.stage.cluster.pod_processes(uid) for name, uid in named.items()}

    def active(self, *, since_ms: int) -> list[int]:
        """Return the processes of the replica that has renewed the Lease since then, when one has."""

        def found() -> list[int] | None:
            spec = self.api.get("Lease", f"{RELEASE}-operator", SYSTEM).get("spec", {})
            renewed = datetime.fromisoformat(spec.get("renewTime", "1970-01-01T00:00:00.000000Z"))
            is_recent = renewed.timestamp() * 1000 > since_ms
            return self.operators().get(spec.get("holderIdentity", "")) if is_recent else None

        return until(found, deadline_s=120, what="an active replica", poll_s=0.3)

    def kill_operator(self, *, everybody: bool = False) -> float:
        """Kill the replica that acts, or all; returns the seconds until a replica acts again."""
        active = self.active(since_ms=0)
        killed_ms = kill([pid for each in self.operators().values() for pid in each] if everybody else active)
        self.active(since_ms=killed_ms)
        return round((now_ms() - killed_ms) / 1000, 1)

    # drills -------------------------------------------------------------------------------------------------------

    def start(self, cases: Sequence[Case]) -> None:
        """Start the consumers of drills, and follow their processes."""
        start(self.node, cases, self.lives)

    def perform(self, cases: Sequence[Case]) -> None:
        """Let the objects of all drills go, some drills at a time."""
        with ThreadPoolExecutor(AT_ONCE) as workers:
            for done in [workers.submit(c.perform) for c in cases]:
                done.result()

    def await_told(self, cases: Sequence[Case], text: str) -> None:
        """Wait until the status of every drill says of what its node owes a text."""
        until(
            lambda: all(c.owed() and all(text in owed for owed in c.owed()) for c in cases),
            deadline_s=90, what=f"the status to say {text!r} of {[c.name for c in cases]}", poll_s=0.5,
        )  # fmt: skip

    def hold(self, cases: Sequence[Case], *, alive: bool = True) -> None:
        """Look for a while whether every member stays, and every process with it; the status must say why."""
        until(lambda: all(c.is_told() for c in cases), deadline_s=120, what=f"{[c.act.name for c in cases]} told as held", poll_s=0.5)

        def untouched() -> bool:
            lives = [self.lives.is_alive(u) for c in cases for u in c.gone_uids]
            return all(lives) is alive and not any(c.removed_at_ms() for c in cases)

        holds(untouched, for_s=LOOKED_S, what="departed members stay")

    def await_removed(self, cases: Sequence[Case], deadline_s: float) -> None:
        """Wait until every departed member is removed, by the brokers' log, while pods start on the node as on any other day."""
        for case in cases:
            try:
                until(
                    lambda case=case: self.send_heralds(case.name) or case.removed_at_ms().keys() == set(case.ordinals),  # type: ignore[misc]
                    deadline_s=deadline_s, what=f"{case.name} removed, which was {case.act.value}", poll_s=0.3,
                )  # fmt: skip
            except AssertionError as error:
                raise AssertionError(f"{error}; the status says {[r['message'] for r in case.status().get('exceptions', [])]}") from error

    def await_settled(self, cases: Sequence[Case], deadline_s: float = 60) -> None:
        """Wait until every departed member is removed, or the status says that it waits."""
        until(lambda: all(c.is_told() for c in cases), deadline_s=deadline_s, what="members removed or told as held", poll_s=0.5)

    def send_heralds(self, namespace: str) -> None:
        """Bind a pod to the node every few seconds: the start of one shows that the kubelet has heard of all before."""
        if time.monotonic() - self._heralded_s >= HERALDS_APART_S:
            self._heralded_s = time.monotonic()
            self.api.create(herald(namespace, self.node, f"herald-{now_ms()}"))

    def first_start_ms(self, cases: Sequence[Case], since_ms: int) -> int:
        """Return when the node started the first container of a drill since a time, by what its kubelet says, in whole seconds."""
        pods = [p for c in cases for p in self.api.items("Pod", c.name) if p["spec"].get("nodeName") == self.node.name]
        states = [each for p in pods for c in p["status"].get("containerStatuses", []) for each in c["state"].values()]
        times_ms = [int(datetime.fromisoformat(s["startedAt"]).timestamp() * 1000) for s in states if s.get("startedAt")]
        return min(at_ms for at_ms in times_ms if at_ms >= since_ms - 1000)

    def judge(self, cases: Sequence[Case]) -> None:
        """Assert what holds of every drill: nobody alive was removed, and no session ran out meanwhile."""
        for case in cases:
            assert self.lives.accusations(case.game.events()) == []
            assert case.expired() == [], f"{case.name}: nobody may leave but by a removal, or the drill shows nothing"
            strangers = case.removals().keys() - set(case.ordinals)
            assert strangers == set(), f"{case.name}: only who departed may be removed"

    def mend(self) -> None:
        """Have the node there and at work again, whatever a drill has left."""
        found = self.api.get("Node", self.node.name)
        if not found:
            register_again(self.node)
            return
        repair(self.node)
        if any(t["key"] == OUT_OF_SERVICE["key"] for t in found["spec"].get("taints", [])):
            set_taint(self.node, self.api, is_set=False)
