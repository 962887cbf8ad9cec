"""One drill: consumers on the node that fails, what is done to their pods, and what became of their members.

The one idea: each drill has a group of its own, so that many of them go through one failure of a node side by side.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.devcluster.node import Node
from support.drills.api import Api
from support.drills.lives import PodLives
from support.scene.play import Play
from support.scene.witnesses import instance_ids
from support.waiting import until

SESSION_S = 280
"""No member leaves meanwhile except by a removal; consumers refuse more than their max.poll.interval.ms, 300 s."""
STAYS = [
    {"key": f"node.kubernetes.io/{why}", "operator": "Exists"} for why in ("not-ready", "unreachable", "out-of-service")
]
"""Pods stay on a node that fails, so that only a drill's own deletions count."""
POD_INDEX = "apps.kubernetes.io/pod-index"


class Act(StrEnum):
    """How the object of a living process goes, or leaves the operator's selection."""

    SCALED = "scaled away, then deleted by force"
    REPLACED = "deleted by force, replaced, then scaled away"
    ORPHANED = "orphaned by its StatefulSet, then deleted by force"
    OVERDUE = "scaled away, then deleted by force when its end was overdue"
    RELEASED = "stripped of the label by which its StatefulSet knows it, then scaled away"
    """Nobody tells that pod to end."""
    ENDED = "scaled away"


@dataclass(slots=True, kw_only=True, eq=False)
class Case:
    """One drill.

    Parameters
    ----------
    leaving: how many of the replicas go, the highest ordinals.
    joined: member id of each ordinal at the start. uids: of its pod then. joined_at_ms: when that was.
    gone_at_ms: when the last of the leaving pods' objects was gone.
    """

    game: Play
    act: Act
    replicas: int = 2
    leaving: int = 1
    grace_s: int = 10
    joined: dict[int, str] = field(default_factory=dict)
    uids: dict[int, str] = field(default_factory=dict)
    joined_at_ms: int = 0
    gone_at_ms: int = 0

    @property
    def api(self) -> Api:
        """The API server."""
        return Api(cluster=self.game.stage.cluster)

    @property
    def name(self) -> str:
        """Name of everything in it."""
        return self.game.name

    @property
    def ordinals(self) -> range:
        """The ordinals that go."""
        return range(self.replicas - self.leaving, self.replicas)

    @property
    def gone_uids(self) -> set[str]:
        """UIDs of the pods that go."""
        return {self.uids[o] for o in self.ordinals}

    def pod(self, ordinal: int) -> str:
        """Return the name of a pod."""
        return f"{self.name}-{ordinal}"

    # set-up -------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Make namespace, topic, connection and StaticGroup."""
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}})
        self.game.admin.create_topic(self.name, partitions=self.game.partitions)
        session = {"seconds": SESSION_S}
        self.api.create(self.game.connection(), self.game.static_group(sessionTimeout=session))

    def close(self) -> None:
        """Take the namespace away; the pods' processes end with it."""
        self.api.delete("Namespace", self.name)

    def stateful_set(self, node: Node) -> dict[str, Any]:
        """Return consumers that stay on a node; no probe is made, because many of them run at once."""
        pod = {"nodeSelector": {"kubernetes.io/hostname": node.name}, "tolerations": STAYS}
        made = self.game.stateful_set(self.replicas, grace_s=self.grace_s, pod=pod, podManagementPolicy="Parallel")
        for container in made["spec"]["template"]["spec"]["containers"]:
            del container["readinessProbe"]
        return made

    def is_injecting(self, node: Node) -> bool:
        """Say whether a pod that the StatefulSet made now would get its id."""
        workload = self.stateful_set(node)
        template, name = workload["spec"]["template"], workload["metadata"]["name"]
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": "0" * 8, "controller": True}
        labels = {**template["metadata"]["labels"], POD_INDEX: "0", "statefulset.kubernetes.io/pod-name": self.pod(0)}
        metadata = {"name": self.pod(0), "namespace": self.name, "labels": labels, "ownerReferences": [owner]}
        pod = self.api.admitted({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
        return "staticgroup.io/instance-id" in pod.get("metadata", {}).get("annotations", {})

    def await_joined(self) -> None:
        """Wait until all members have joined, and remember their pods."""
        self.game.await_joined(self.replicas, deadline_s=240)
        self.joined = {_ordinal(i): m for i, m in self.game.member_ids().items()}
        self.uids = {_ordinal(m["name"]): uid for uid, m in self.shown().items()}
        self.joined_at_ms = now_ms()

    # acts ---------------------------------------------------------------------------------------------------------

    def perform(self) -> None:
        """Let the objects go while the processes live."""
        match self.act:
            case Act.SCALED | Act.OVERDUE:
                self._scale_and_force()
            case Act.REPLACED:
                self._replace_and_force()
            case Act.ORPHANED:
                self.api.delete("StatefulSet", self.name, self.name, propagationPolicy="Orphan")
                self.await_shown(lambda shown: not any("ownerReferences" in m for m in shown.values()), "orphans")
                self.force_delete()
            case Act.RELEASED:
                self._release()
            case Act.ENDED:
                self.scale(self.ordinals.start)
        self.gone_at_ms = now_ms()

    def scale(self, replicas: int) -> None:
        """Set spec.replicas."""
        self.api.patch("StatefulSet", self.name, self.name, {"spec": {"replicas": replicas}})

    def force_delete(self, ordinals: Collection[int] | None = None) -> None:
        """Delete the objects of pods, of those that go if none are named, and wait until these are gone."""
        names = {self.pod(o) for o in (self.ordinals if ordinals is None else ordinals)}
        going = {uid for uid, m in self.shown().items() if m["name"] in names}
        for name in names:
            self.api.delete("Pod", name, self.name, gracePeriodSeconds=0)
        self.await_shown(lambda shown: not shown.keys() & going, "the objects of the pods gone")

    def shown(self) -> dict[str, dict[str, Any]]:
        """Return the pods of consumers that exist, whatever their labels are: uid to metadata."""
        found = [p["metadata"] for p in self.api.items("Pod", self.name)]
        return {m["uid"]: m for m in found if m["name"].startswith(f"{self.name}-")}

    def await_shown(self, condition: Callable[[dict[str, dict[str, Any]]], bool], what: str) -> None:
        """Wait for a condition of the pods that exist."""
        until(lambda: condition(self.shown()), deadline_s=90, what=f"{what}, of {self.name}", poll_s=0.2)

    def _scale_and_force(self) -> None:
        self.scale(self.ordinals.start)
        self.await_shown(lambda shown: all("deletionTimestamp" in shown[u] for u in self.gone_uids), "pods terminating")
        if self.act is Act.OVERDUE:
            due_ms = now_ms() + self.grace_s * 1000 + 1500
            until(lambda: now_ms() > due_ms, deadline_s=self.grace_s + 30, what="an end overdue")
        self.force_delete()

    def _replace_and_force(self) -> None:
        self.force_delete()
        names = {self.pod(o) for o in self.ordinals}
        self.await_shown(lambda shown: names <= {m["name"] for m in shown.values()}, "successors")
        self.scale(self.ordinals.start)
        self.await_shown(
            lambda shown: all("deletionTimestamp" in m for m in shown.values() if m["name"] in names),
            "successors terminating",
        )
        self.force_delete()

    def _release(self) -> None:
        for o in self.ordinals:
            self.api.patch("Pod", self.pod(o), self.name, {"metadata": {"labels": {"app": None}}})
        self.scale(self.ordinals.start)

    # readings -----------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return the StaticGroup's status; only what it says is judged by it."""
        found: dict[str, Any] = self.api.get("StaticGroup", self.name, self.name).get("status") or {}
        return found

    def removals(self) -> dict[int, int]:
        """Return when the operator removed the member of each ordinal since the start, by the brokers' log.

        A process that was booted again with its machine has joined under the same instance id as another member.
        """
        ids = instance_ids(self.game.events())
        removals = self.game.removals(since_ms=self.joined_at_ms)
        return {_ordinal(ids[e.member_id]): e.at_ms for e in removals if e.member_id in ids}

    def removed_at_ms(self) -> dict[int, int]:
        """Return when the operator removed each departed member."""
        return {o: at_ms for o, at_ms in self.removals().items() if o in self.ordinals}

    def held(self) -> dict[str, str]:
        """Return what the status says of the departed members that are held back: pod name to reason."""
        rows = self.status().get("issues", [])
        return {r["podName"]: r["reason"] for r in rows if r["kind"] == "Held" and r.get("podName")}

    def is_reported(self) -> bool:
        """Return whether the status shows every departed member that is not removed as waiting."""
        return {self.pod(o) for o in self.ordinals if o not in self.removed_at_ms()} <= self.held().keys()

    def expired(self) -> list[str]:
        """Return the members whose session ran out, by the brokers' log."""
        return [e.member_id or "" for e in self.game.events(GroupEventKind.SESSION_EXPIRED)]

    def explained(self) -> str:
        """Return what `staticgroup plan` says, as a person on the command line would ask."""
        command = [sys.executable, "-m", "staticgroup", "plan", self.name, "-n", self.name]
        environment = {**os.environ, "KUBECONFIG": self.game.stage.cluster.state.kubeconfig}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout


def start(node: Node, cases: Sequence[Case], lives: PodLives) -> None:
    """Start the consumers of all drills at once; wait until members have joined and processes are followed."""
    for case in cases:
        case.open()
    until(lambda: all(c.status().get("injected") for c in cases), deadline_s=90, what="ids are issued", poll_s=0.5)
    # An API server that was started a moment ago admits pods before it knows the kind that the policy asks; it looks
    # every 30 s.
    until(lambda: all(c.is_injecting(node) for c in cases), deadline_s=90, what="pods are injected", poll_s=0.5)
    for case in cases:
        case.api.create(case.stateful_set(node))
    for case in cases:
        case.await_joined()
    until(
        lambda: all(lives.is_alive(u) for c in cases for u in c.uids.values()), deadline_s=60, what="processes followed"
    )


def _ordinal(name: str) -> int:
    return int(name.partition(".")[0].rpartition("-")[2])
