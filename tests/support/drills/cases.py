"""One drill: consumers on the node that fails, what is done to their pods, and what became of their members.

The one idea: each drill has a group of its own, so that many of them go through one failure of a node side by side.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.devcluster.node import Node
from support.drills.lives import PodLives
from support.scene.play import Play
from support.scene.stage import WORKLOAD_IMAGE, Stage
from support.waiting import until

SESSION_S = 280
"""Nobody leaves meanwhile but by a removal; a consumer refuses to start with more than its max.poll.interval.ms, 300 s."""
STAYS = [{"key": f"node.kubernetes.io/{why}", "operator": "Exists"} for why in ("not-ready", "unreachable", "out-of-service")]
"""Pods stay on a node that fails, so that only a drill's own deletions count."""
POD_INDEX = "apps.kubernetes.io/pod-index"


class Act(StrEnum):
    """How the object of a living process goes, or is taken from who looks for it."""

    SCALED = "scaled away, then deleted by force"
    REPLACED = "deleted by force, replaced, then scaled away"
    ORPHANED = "orphaned by its StatefulSet, then deleted by force"
    OVERDUE = "scaled away, then deleted by force when its end was overdue"
    STRIPPED = "stripped of the label by which pods are watched, then scaled away"
    RELEASED = "stripped of the label by which its StatefulSet knows it, then scaled away"
    ENDED = "scaled away"


LIVES_ON = (Act.STRIPPED, Act.RELEASED)
"""The pod's object stays, and nobody has told it to end."""


@dataclass(slots=True, kw_only=True)
class Case:
    """One drill.

    Parameters
    ----------
    leaving: how many of the replicas go, the highest ordinals.
    joined: member id of each ordinal at the start. uids: of its pod then.
    gone_at_ms: when the last of the leaving pods' objects was gone.
    """

    game: Play
    act: Act
    replicas: int = 2
    leaving: int = 1
    grace_s: int = 5
    joined: dict[int, str] = field(default_factory=dict)
    uids: dict[int, str] = field(default_factory=dict)
    gone_at_ms: int = 0

    @property
    def ordinals(self) -> range:
        """The ordinals that go."""
        return range(self.replicas - self.leaving, self.replicas)

    @property
    def departed(self) -> dict[int, str]:
        """Member id of each ordinal that goes."""
        return {o: self.joined[o] for o in self.ordinals}

    def pod(self, ordinal: int) -> str:
        """Return the name of a pod."""
        return f"{self.game.name}-{ordinal}"

    def stateful_set(self, node: Node) -> dict[str, Any]:
        """Return consumers that stay on a node; no probe is made, because many of them run at once."""
        pod = {"nodeSelector": {"kubernetes.io/hostname": node.name}, "tolerations": STAYS}
        made = self.game.stateful_set(self.replicas, grace_s=self.grace_s, pod=pod, podManagementPolicy="Parallel")
        for container in made["spec"]["template"]["spec"]["containers"]:
            del container["readinessProbe"]
        return made

    def removed_at_ms(self) -> dict[int, int]:
        """Return when the operator removed each departed member, by the brokers' log."""
        at_ms = {e.member_id: e.at_ms for e in self.game.removals()}
        return {o: at_ms[m] for o, m in self.departed.items() if m in at_ms}

    def suspects(self) -> dict[str, dict[str, Any]]:
        """Return the pods of the ledger of whose end nothing is known: uid to entry."""
        entries = ((self.game.status() or {}).get("ledger") or {}).get("incarnations", [])
        return {e["uid"]: e for e in entries if e["state"] == "Suspect" and not e.get("confirmedBy") and not e.get("nodeCertificate")}

    # acts ---------------------------------------------------------------------------------------------------------

    def perform(self) -> None:
        """Let the objects go while the processes live."""
        match self.act:
            case Act.SCALED | Act.OVERDUE:
                self._scale_and_force()
            case Act.REPLACED:
                self._replace_and_force()
            case Act.ORPHANED:
                self.game.stage.kubectl("delete", "statefulset", self.game.name, "-n", self.game.name, "--cascade=orphan")
                self.force_delete()
            case Act.STRIPPED:
                self._strip(POD_INDEX)
            case Act.RELEASED:
                self._strip("app")
            case Act.ENDED:
                self.game.scale(self.ordinals.start)
        self.gone_at_ms = now_ms()

    def force_delete(self) -> None:
        """Delete the objects of the pods that go, and wait until they are gone."""
        names = [self.pod(o) for o in self.ordinals]
        self.game.stage.kubectl("delete", "pod", *names, "-n", self.game.name, "--force", "--grace-period=0", "--wait=false",
                                "--ignore-not-found")  # fmt: skip
        self.await_shown(lambda shown: not shown.keys() & self.gone_uids, "the objects of the pods gone")

    @property
    def gone_uids(self) -> set[str]:
        """UIDs of the pods that go."""
        return {self.uids[o] for o in self.ordinals}

    def shown(self) -> dict[str, dict[str, Any]]:
        """Return the pods that exist, whatever their labels are: uid to metadata."""
        return {p["metadata"]["uid"]: p["metadata"] for p in self.game.stage.items("pods", self.game.name)}

    def await_shown(self, condition: Any, what: str, deadline_s: float = 60) -> None:
        """Wait for a condition of the pods that exist."""
        until(lambda: condition(self.shown()), deadline_s=deadline_s, what=f"{what}, of {self.game.name}", poll_s=0.2)

    def _scale_and_force(self) -> None:
        self.game.scale(self.ordinals.start)
        self.await_shown(lambda shown: all("deletionTimestamp" in shown[u] for u in self.gone_uids), "pods told to end")
        if self.act is Act.OVERDUE:
            told_ms = now_ms()
            until(lambda: now_ms() > told_ms + self.grace_s * 1000 + 1500, deadline_s=self.grace_s + 30, what="an end overdue")
        self.force_delete()

    def _replace_and_force(self) -> None:
        self.force_delete()
        names = {self.pod(o) for o in self.ordinals}
        self.await_shown(
            lambda shown: names <= {m["name"] for u, m in shown.items() if u not in self.gone_uids}, "successors"
        )
        self.game.scale(self.ordinals.start)
        self.await_shown(
            lambda shown: all("deletionTimestamp" in m for m in shown.values() if m["name"] in names), "successors told to end"
        )
        self.force_delete()
        self.await_shown(lambda shown: not names & {m["name"] for m in shown.values()}, "successors gone")

    def _strip(self, label: str) -> None:
        for o in self.ordinals:
            self.game.stage.kubectl("label", "pod", self.pod(o), "-n", self.game.name, f"{label}-")
        self.game.scale(self.ordinals.start)

    # looks --------------------------------------------------------------------------------------------------------

    def is_held(self, reasons: Iterable[str] = ("DeathNotProven", "PodStillRunning", "WatchGap")) -> bool:
        """Say whether the status tells of every departed member that, and why, it waits."""
        rows = (self.game.status() or {}).get("exceptions", [])
        named = {r["podName"] for r in rows if r["kind"] == "Held" and r["reason"] in reasons}
        return {self.pod(o) for o in self.ordinals if o not in self.removed_at_ms()} <= named

    def owed(self) -> set[str]:
        """Return what the status says that the nodes of the pods which went owe."""
        return {e.get("owed", "") for uid, e in self.suspects().items() if uid in self.gone_uids}

    def expired(self) -> list[str]:
        """Return the members whose session ran out, by the brokers' log."""
        return [e.member_id or "" for e in self.game.events(GroupEventKind.SESSION_EXPIRED)]

    def explained(self) -> str:
        """Return what `staticgroup explain` says, as a person on the command line would ask."""
        command = [sys.executable, "-m", "staticgroup", "explain", f"{self.game.name}/{self.game.name}"]
        environment = {**os.environ, "KUBECONFIG": self.game.stage.cluster.state.kubeconfig}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout


def start(stage: Stage, node: Node, cases: Sequence[Case], **static: Any) -> None:
    """Start the consumers of all drills at once, and wait until their members have joined."""
    session = {"sessionTimeout": {"mode": "Fixed", "seconds": SESSION_S}, **static}
    stage.apply(*(c.game.static_group(**session) for c in cases))
    until(lambda: all((c.game.status() or {}).get("injected") for c in cases), deadline_s=60, what="ids are issued", poll_s=0.3)
    stage.apply(*(c.stateful_set(node) for c in cases))
    for case in cases:
        case.game.await_joined(case.replicas, deadline_s=150)
        case.joined = {_ordinal(i): m for i, m in case.game.member_ids().items()}
        case.uids = {_ordinal(p["metadata"]["name"]): p["metadata"]["uid"] for p in case.game.pods()}


def await_followed(cases: Sequence[Case], lives: PodLives) -> None:
    """Wait until every pod's process is followed, so that its end will be known."""
    until(lambda: all(lives.is_alive(u) for c in cases for u in c.uids.values()), deadline_s=30, what="processes followed")


def herald(namespace: str, node: Node, name: str) -> dict[str, Any]:
    """Return a pod whose start shows that the kubelet of a node has heard of what was before."""
    container = {"name": "app", "image": WORKLOAD_IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "3600"]}
    spec = {"nodeName": node.name, "tolerations": STAYS, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _ordinal(name: str) -> int:
    return int(name.partition(".")[0].rpartition("-")[2])
