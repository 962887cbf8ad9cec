"""Roles that read a topic: the load on it, and consumers as pods, with ids from nobody, from their author, and from the operator.

The one idea: all groups read the same topic and differ in nothing but their static membership.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from support.demo.groups import DemoGroup
from support.demo.measure import unconsumed
from support.demo.role import MANAGED, PARTITIONS, RECORDS_PER_S, REPLICAS, TOPIC, Faults, Role, Tell
from support.demo.wording import CONSUMER
from support.scene.stage import Stage
from support.workload.process import Program, ranges_of

DYNAMIC, BY_HAND = "dynamic", "by-hand"
BY_HAND_SESSION_MS = 45_000
"""The default of librdkafka and of the Java client since 3.0 (KIP-735)."""
LAST_RECORDS_S = 15.0
_NUMBERS = {2: "two", 3: "three"}


class Reading(Role):
    """A role whose groups read one topic under a steady load."""

    def __init__(self) -> None:
        self._producer: Program | None = None

    def open(self, stage: Stage, tell: Tell) -> None:
        """Make the topic and begin to write to it."""
        stage.admin.create_topic(TOPIC, partitions=PARTITIONS)
        self._producer = Program(
            "producer",
            {"BOOTSTRAP": stage.brokers.bootstrap, "TOPIC": TOPIC, "RATE_PER_S": str(RECORDS_PER_S * PARTITIONS)},
        )
        groups = f"{_NUMBERS[len(self.names)]} groups of {REPLICAS} pods read them"
        tell(f"{PARTITIONS} partitions, {RECORDS_PER_S} records/s each; {groups}.")

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

    def close(self) -> None:
        """End the load."""
        if self._producer is not None and self._producer.is_running:
            self._producer.terminate()


class Consumers(Reading):
    """Consumers, one member a pod."""

    wording = CONSUMER
    names = (DYNAMIC, BY_HAND, MANAGED)
    titles: ClassVar[Mapping[str, str]] = {
        DYNAMIC: "dynamic members",
        BY_HAND: "static ids alone, 45 s session",
        MANAGED: "with StaticGroup",
    }
    roll_pair = (DYNAMIC, MANAGED)
    scale_pair = (BY_HAND, MANAGED)
    timeout_variable = "KAFKA_SESSION_TIMEOUT_MS"
    own_session_ms = BY_HAND_SESSION_MS

    def workload(self, group: DemoGroup) -> dict[str, Any]:
        """Return the StatefulSet; by hand, each pod's name is its id."""
        made = group.play.stateful_set(REPLICAS, env={"TOPIC": TOPIC, "REPORT_TIMES": "true"})
        if group.name == BY_HAND:
            (container,) = made["spec"]["template"]["spec"]["containers"]
            container["env"] += [
                {"name": "KAFKA_GROUP_INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "KAFKA_SESSION_TIMEOUT_MS", "value": str(BY_HAND_SESSION_MS)},
            ]
        return made

    def interruptions(self, group: DemoGroup, since_ms: int) -> tuple[int, float | None]:
        """Return how often running consumers were without any partitions, and for how long in sum."""
        found = group.interruptions(since_ms)
        return len(found), round(sum(found), 3)
