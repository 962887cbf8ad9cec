"""One play on the stage: a namespace with a connection, a StaticGroup and a StatefulSet of real consumers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from support.devcluster.kafka_admin import BrokerAdmin
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEvent, GroupEventKind
from support.scene.detached_admin import DetachedAdmin
from support.scene.stage import WORKLOAD_IMAGE, Stage
from support.scene.witnesses import PodWatch, instance_ids, is_operators
from support.waiting import until

GROUP = "staticgroup.io/v1alpha1"
CONNECTION = "kafka"
REMOVED_WITHIN_S = 110.0
"""A kubelet was seen to take 30 s to report the end of a process, now and then; sessions of plays last 140 s."""


@dataclass(slots=True, kw_only=True)
class Play:
    """Consumers of one group in a namespace of their own.

    Parameters
    ----------
    name: of the namespace, the StaticGroup, the StatefulSet, the group and the topic.
    protocol: classic or consumer (KIP-848).
    other_brokers: where the group lives when not on the stage's own brokers.
    """

    stage: Stage
    name: str
    protocol: str = "classic"
    partitions: int = 12
    since_ms: int = field(default_factory=now_ms)
    other_brokers: Brokers | None = None
    _other_admin: DetachedAdmin | None = field(default=None, init=False)

    @property
    def brokers(self) -> Brokers:
        """The brokers on which the group lives."""
        return self.other_brokers or self.stage.brokers

    @property
    def admin(self) -> BrokerAdmin:
        """An administrator of those brokers."""
        if self.other_brokers is None:
            return self.stage.admin
        if self._other_admin is None:
            self._other_admin = DetachedAdmin(self.other_brokers.bootstrap)
        return self._other_admin

    # set-up ---------------------------------------------------------------------------------------------------

    def open(self) -> Play:
        """Make namespace, topic and connection."""
        self.stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}})
        self.admin.create_topic(self.name, partitions=self.partitions)
        self.stage.apply(self.connection())
        return self

    def close(self) -> None:
        """Take the namespace away; the pods' processes end with it."""
        if self._other_admin is not None:
            self._other_admin.close()
        until(self._is_deletion_asked, deadline_s=60, what=f"the API server to take the end of namespace {self.name}")

    def _is_deletion_asked(self) -> bool:
        """Return whether the namespace is being deleted; a call that fails once is made again."""
        with suppress(RuntimeError):
            self.stage.kubectl("delete", "namespace", self.name, "--wait=false", "--ignore-not-found")
            return True
        return False

    def connection(self, **spec: Any) -> dict[str, Any]:
        """Return the KafkaConnection; `spec` replaces fields."""
        fields = {"bootstrapServers": self.brokers.bootstrap.split(","), **spec}
        return {
            "apiVersion": GROUP, "kind": "KafkaConnection", "metadata": {"name": CONNECTION, "namespace": self.name},
            "spec": fields,
        }  # fmt: skip

    def static_group(self, **spec: Any) -> dict[str, Any]:
        """Return the StaticGroup; `spec` replaces fields."""
        fields = {
            "workloadRef": {"name": self.name}, "connectionRef": {"name": CONNECTION}, "groupId": self.name,
            "groupProtocol": "Classic" if self.protocol == "classic" else "Consumer", **spec,
        }  # fmt: skip
        return {
            "apiVersion": GROUP, "kind": "StaticGroup", "metadata": {"name": self.name, "namespace": self.name},
            "spec": fields,
        }  # fmt: skip

    def stateful_set(
        self, replicas: int, *, env: dict[str, str] | None = None, grace_s: int = 10, pod: dict[str, Any] | None = None,
        **spec: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the StatefulSet of consumers; `pod` and `spec` add to the pod's and the set's spec."""
        variables = {
            "BOOTSTRAP": self.brokers.bootstrap, "GROUP": self.name, "TOPIC": self.name,
            "GROUP_PROTOCOL": self.protocol, **(env or {}),
        }  # fmt: skip
        container = {
            "name": "app",
            "image": WORKLOAD_IMAGE,
            "imagePullPolicy": "Never",
            "env": [{"name": k, "value": v} for k, v in [*variables.items(), ("READY_FILE", "/tmp/ready")]],
            "readinessProbe": {
                "exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1, "failureThreshold": 60,
            },
        }  # fmt: skip
        labels = {"app": self.name}
        return {
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": self.name, "namespace": self.name},
            "spec": {
                "serviceName": self.name, "replicas": replicas, "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"terminationGracePeriodSeconds": grace_s, "containers": [container], **(pod or {})},
                },
                **spec,
            },
        }  # fmt: skip

    def outlast_restarts(self, session_s: int) -> dict[str, Any]:
        """Return a spec with sessions that outlast a restart; for KIP-848 groups set them at the brokers."""
        if self.protocol == "consumer":
            self.admin.alter_group(self.name, {"consumer.session.timeout.ms": str(session_s * 1000)})
            return {}
        return {"sessionTimeout": {"seconds": session_s}}

    def start(self, replicas: int, *, static: dict[str, Any] | None = None, **workload: Any) -> None:
        """Apply the StaticGroup, wait until ids are issued, then the StatefulSet, and wait until all have joined."""
        self.stage.apply(self.static_group(**(static or {})))
        until(lambda: (self.status() or {}).get("injected"), deadline_s=30, what="ids are issued")
        # The API server's policy learns of the StaticGroup's new status by a watch of its own.
        self.stage.apply(self.stateful_set(replicas, **workload))
        self.await_joined(replicas)

    # acts -----------------------------------------------------------------------------------------------------

    def scale(self, replicas: int) -> None:
        """Set spec.replicas."""
        self.stage.kubectl("scale", "statefulset", self.name, "-n", self.name, f"--replicas={replicas}")

    def roll(self, deadline_s: float = 180) -> None:
        """Restart all pods by a rollout and wait until it is complete."""
        self.stage.kubectl("rollout", "restart", f"statefulset/{self.name}", "-n", self.name)
        self.stage.kubectl(
            "rollout", "status", f"statefulset/{self.name}", "-n", self.name, f"--timeout={deadline_s:.0f}s"
        )

    # readings -------------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any] | None:
        """Return the StaticGroup's status; only to know when to check other sources, never as the truth."""
        found = self.stage.get("ksg", self.name, self.name)
        return (found or {}).get("status")

    def condition(self, kind: str) -> dict[str, Any]:
        """Return one condition; {} when it has not been reported."""
        conditions = (self.status() or {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), {})

    def member_ids(self) -> dict[str, str]:
        """Return instance id to member id, as the brokers describe the group to another client."""
        return {m.instance_id: m.member_id for m in self.admin.describe_group(self.name).members if m.instance_id}

    def await_joined(self, count: int, deadline_s: float = 90) -> None:
        """Wait until the group is stable with `count` static members."""

        def joined() -> bool:
            group = self.admin.describe_group(self.name)
            static = [m for m in group.members if m.instance_id]
            return len(static) == count and (group.state == "Stable" or self.protocol == "consumer")

        until(joined, deadline_s=deadline_s, what=f"{count} static members of {self.name}", poll_s=0.3)

    def events(self, *kinds: GroupEventKind, since_ms: int | None = None) -> list[GroupEvent]:
        """Return what the brokers logged about the group."""
        found = self.brokers.group_log.events(self.name, since_ms=self.since_ms if since_ms is None else since_ms)
        return [e for e in found if not kinds or e.kind in kinds]

    def removals(self, since_ms: int | None = None) -> list[GroupEvent]:
        """Return the brokers' lines about removals by the operator."""
        return [e for e in self.events(GroupEventKind.REMOVED, since_ms=since_ms) if is_operators(e)]

    def removed_ids(self, since_ms: int | None = None) -> list[str]:
        """Return the instance ids of the operator's removals, sorted."""
        removals = self.removals(since_ms)  # read before the log that is searched for them
        known = instance_ids(self.brokers.group_log.events())
        return sorted(known[e.member_id or ""] for e in removals)

    def rebalances(self, since_ms: int) -> int:
        """Count rebalances by the brokers' log: prepared rebalances, or bumps of the group epoch."""
        log = self.brokers.group_log
        count = log.count_rebalances if self.protocol == "classic" else log.count_epoch_bumps
        return count(self.name, since_ms)

    def lines(self, pod: str) -> list[dict[str, Any]]:
        """Return what a consumer has said."""
        text = self.stage.kubectl("logs", pod, "-n", self.name)
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods of the StatefulSet."""
        return self.stage.items("pods", self.name, f"app={self.name}")

    @contextmanager
    def watched(self) -> Iterator[PodWatch]:
        """Have an independent watch of the namespace's pods meanwhile."""
        watch = PodWatch(self.stage.cluster.client, self.name).start()
        try:
            yield watch
        finally:
            watch.stop()


@contextmanager
def play(stage: Stage, name: str, **options: Any) -> Iterator[Play]:
    """Open a play and close it afterwards."""
    opened = Play(stage=stage, name=name, **options).open()
    try:
        yield opened
    finally:
        opened.close()
