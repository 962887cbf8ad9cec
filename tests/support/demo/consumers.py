"""Roles that read a topic: the load on it, and consumer pods without ids, with their own, and with the operator's.

The one idea: all groups read the same topic, and the groups of a pair differ in nothing but their static membership.
Those of the second pair have what makes rebalances dear: a state for each partition, on a volume of the pod, and
batches that take their time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from support.demo.groups import DemoGroup
from support.demo.measure import unconsumed
from support.demo.role import (
    FILES,
    MANAGED,
    MANAGED_STATE,
    PARTITIONS,
    RECORDS_PER_S,
    REPLICAS,
    TOPIC,
    Faults,
    Role,
    Tell,
)
from support.demo.wording import CONSUMER, DEPLOYMENT
from support.devcluster.images import SLOT_WAITER_IMAGE, slot_waiter_image
from support.devcluster.progress import step
from support.scene.stage import Stage
from support.slots import DeploymentPlay
from support.workload.process import Program, ranges_of

DYNAMIC, BY_HAND, DYNAMIC_STATE = "dynamic", "by-hand", "dynamic-state"
WORK_MS = 1500
"""Of a batch of the groups with state."""
HISTORY = 15_000
"""Records of each partition that are there before any group reads."""
RESTORE_PER_S = 5000
"""Records that a store takes in."""
_STATE = "/state"
BY_HAND_SESSION_MS = 45_000
"""The default of librdkafka and of the Java client since 3.0 (KIP-735)."""
LAST_RECORDS_S = 15.0
_NUMBERS = {2: "two", 3: "three", 5: "five"}


class Reading(Role):
    """A role whose groups read one topic under a steady load."""

    def __init__(self) -> None:
        self._producer: Program | None = None

    def open(self, stage: Stage, tell: Tell) -> None:
        """Make the topic and begin to write to it."""
        stage.admin.create_topic(TOPIC, partitions=PARTITIONS)
        self.before_load(stage, tell)
        self._producer = Program(
            "producer",
            {"BOOTSTRAP": stage.brokers.bootstrap, "TOPIC": TOPIC, "RATE_PER_S": str(RECORDS_PER_S * PARTITIONS)},
        )
        groups = f"{_NUMBERS[len(self.names)]} groups of {self.replicas} pods read them"
        tell(f"{PARTITIONS} partitions, {RECORDS_PER_S} records/s each; {groups}.")

    def before_load(self, stage: Stage, tell: Tell) -> None:
        """Do what is to be done with the topic before records are written to it all the while."""
        return

    def count(self, groups: Mapping[str, DemoGroup], tell: Tell) -> Faults:
        """End the load, give the groups time to finish, and count what was acknowledged and not consumed."""
        assert self._producer is not None
        tell("Ending the load and counting records.")
        self._producer.terminate()
        acked = ranges_of(self._producer.lines, "acked")

        def counts() -> dict[str, int]:
            return {name: unconsumed(acked, group.consumed()) for name, group in groups.items()}

        ends_s = time.monotonic() + LAST_RECORDS_S
        while any(counts().values()) and time.monotonic() < ends_s:
            time.sleep(0.2)
        return Faults(unconsumed_records=counts())

    def interruptions(self, group: DemoGroup, since_ms: int) -> tuple[int, float | None]:
        """Return how often running consumers were without any partitions, and for how long in sum."""
        found = group.interruptions(since_ms)
        return len(found), round(sum(found), 3)

    def close(self) -> None:
        """End the load."""
        if self._producer is not None and self._producer.is_running:
            self._producer.terminate()


class Consumers(Reading):
    """Consumers, one member a pod."""

    wording = CONSUMER
    names = (DYNAMIC, BY_HAND, DYNAMIC_STATE, MANAGED_STATE, MANAGED)
    titles: ClassVar[Mapping[str, str]] = {
        DYNAMIC: "dynamic members", BY_HAND: "static ids alone, 45 s session", MANAGED: "with StaticGroup",
        DYNAMIC_STATE: "dynamic members with state", MANAGED_STATE: "with state and StaticGroup",
    }  # fmt: skip
    state_pair = (DYNAMIC_STATE, MANAGED_STATE)
    roll_pair = (DYNAMIC, MANAGED)
    scale_pair = (BY_HAND, MANAGED)
    timeout_variable = "KAFKA_SESSION_TIMEOUT_MS"
    own_session_ms = BY_HAND_SESSION_MS

    def before_load(self, stage: Stage, tell: Tell) -> None:
        """Write the history of which states are made, and let every group go on behind it."""
        tell(f"{HISTORY} records a partition as the history of which states are made.")
        history = Program(
            "producer",
            {
                "BOOTSTRAP": stage.brokers.bootstrap, "TOPIC": TOPIC, "RATE_PER_S": "50000",
                "COUNT": str(HISTORY * PARTITIONS),
            },
        )  # fmt: skip
        assert history.exit_code(120) == 0, "the history was not written"
        for name in self.names:
            stage.admin.commit_offsets(name, TOPIC, dict.fromkeys(range(PARTITIONS), HISTORY))

    def workload(self, group: DemoGroup) -> dict[str, Any]:
        """Return the StatefulSet; by hand, each pod's name is its id."""
        env = {"TOPIC": TOPIC, "REPORT_TIMES": "true"}
        if group.name in self.state_pair:
            return self._workload_with_state(group, env)
        made = group.play.stateful_set(REPLICAS, env=env)
        if group.name == BY_HAND:
            (container,) = made["spec"]["template"]["spec"]["containers"]
            container["env"] += [
                {"name": "KAFKA_GROUP_INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "KAFKA_SESSION_TIMEOUT_MS", "value": str(BY_HAND_SESSION_MS)},
            ]
        return made

    def _workload_with_state(self, group: DemoGroup, env: dict[str, str]) -> dict[str, Any]:
        FILES.chmod(0o777)  # the kubelet makes a pod's folder in it with the same mode
        env = {**env, "WORK_MS": str(WORK_MS), "STATE_DIR": _STATE, "RESTORE_PER_S": str(RESTORE_PER_S)}
        volume = {"name": "state", "hostPath": {"path": str(FILES), "type": "Directory"}}
        made = group.play.stateful_set(REPLICAS, env=env, grace_s=30, pod={"volumes": [volume]})
        (container,) = made["spec"]["template"]["spec"]["containers"]
        container["env"].append({"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
        container["volumeMounts"] = [{"name": "state", "mountPath": _STATE, "subPathExpr": "$(POD_NAME)"}]
        return made

    def restored(self, group: DemoGroup, since_ms: int) -> int | None:
        """Return how many records were read again for the states of a group that has some."""
        if group.name not in self.state_pair:
            return None
        return sum(int(x["records"]) for x in group.lines() if x["kind"] == "restored" and x["at_ms"] >= since_ms)


class ConsumersInDeployment(Reading):
    """Consumers in Deployments with Kubernetes' default strategy, which replaces a quarter of the pods at a time."""

    wording = DEPLOYMENT
    names = (DYNAMIC, MANAGED)
    titles: ClassVar[Mapping[str, str]] = {DYNAMIC: "dynamic members", MANAGED: "with StaticGroup"}
    roll_pair = scale_pair = (DYNAMIC, MANAGED)
    workload_kind = "Deployment"
    replicas = 4
    game = DeploymentPlay
    chart_values: ClassVar[Mapping[str, Any]] = {
        "workloads": {"deployments": True},
        "slots": {"image": dict(zip(("repository", "tag"), SLOT_WAITER_IMAGE.rsplit(":", 1), strict=True))},
    }
    timeout_variable = Consumers.timeout_variable
    own_session_ms = BY_HAND_SESSION_MS
    leaves_by_itself = True

    def prepare(self, stage: Stage) -> None:
        """Build the image of the init container that waits for a slot, and load it."""
        with step("the image of the init container"):
            stage.cluster.load_image(slot_waiter_image()[0])

    def workload(self, group: DemoGroup) -> dict[str, Any]:
        """Return the Deployment."""
        assert isinstance(group.play, DeploymentPlay)
        return group.play.deployment(self.replicas, env={"TOPIC": TOPIC, "REPORT_TIMES": "true"})

    def departing(self, group: DemoGroup) -> str:
        """Choose a pod by its deletion cost, of which Kubernetes takes the lowest first."""
        name: str = group.play.pods()[-1]["metadata"]["name"]
        cost = "controller.kubernetes.io/pod-deletion-cost=-1"
        group.play.stage.kubectl("annotate", "pod", name, "-n", group.name, cost)
        return name
