"""The real group: three consumers whose session timeouts are read from the broker.

The one idea: the coordinator's timeout for a member counts, and the coordinator logs it: the group's record in
`__consumer_offsets` has every member's session timeout (`GroupMetadataValue`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fleet_learner.offsets.codec import GROUP_KEY_TYPES, RecordKind, decode
from fleet_learner.recommendations.canary import wave_order
from fleet_learner.recommendations.recommend import MODEL_VERSION
from fleet_learner.sources.topic import EARLIEST, LATEST, TopicReader, ranges, resolve
from support.demo.role import environment_of
from support.devcluster.kafka_log import now_ms
from support.fleet_demo.ground import PREFIX
from support.scene.play import Play
from support.scene.stage import Stage
from support.waiting import until

REPLICAS = 3
PARTITIONS = 6
OFFSETS = "__consumer_offsets"
VARIABLE = "KAFKA_SESSION_TIMEOUT_MS"


def first_wave_name(kafka_cluster_id: str, others: Iterable[tuple[str, str]]) -> str:
    """Return the first of orders-1, orders-2, … that goes before all other groups of the fleet.

    Parameters
    ----------
    others: (Kafka cluster id, group id) of the other groups.
    """
    first = min((wave_order(*each, salt=MODEL_VERSION) for each in others), default=2**32)
    names = (f"{PREFIX}{number}" for number in itertools.count(1))
    return next(name for name in names if wave_order(kafka_cluster_id, name, salt=MODEL_VERSION) < first)


@dataclass(slots=True, kw_only=True)
class OrdersGroup:
    """The group with its namespace, topic, StaticGroup and StatefulSet, all of one name."""

    play: Play

    @classmethod
    def started(cls, stage: Stage, name: str) -> OrdersGroup:
        """Start the consumers and wait until all of them are members."""
        play = Play(stage=stage, name=name, partitions=PARTITIONS).open()
        # Empty at first: the operator must see the pod template before the first pods start.
        stage.apply(play.stateful_set(0), play.static_group())
        group = cls(play=play)
        until(group._is_prepared, deadline_s=60, what="ids and a session timeout are issued", poll_s=0.3)
        stage.apply(play.stateful_set(REPLICAS))
        play.await_joined(REPLICAS)
        return group

    def _is_prepared(self) -> bool:
        return self.injected_ms() > 0 and self.play.condition("WorkloadFound").get("status") == "True"

    @property
    def pods(self) -> tuple[str, ...]:
        """Names of the pods, by ordinal."""
        return tuple(f"{self.play.name}-{ordinal}" for ordinal in range(REPLICAS))

    # from the operator ----------------------------------------------------------------------------------------

    def timeout(self) -> dict[str, Any]:
        """Return `status.timeout`."""
        found: dict[str, Any] = (self.play.status() or {}).get("sessionTimeout") or {}
        return found

    def injected_ms(self) -> int:
        """Return the session timeout that the next pod gets; 0 when none is injected."""
        return ((self.play.status() or {}).get("injected") or {}).get("sessionTimeoutMs") or 0

    def condition(self) -> dict[str, Any]:
        """Return the condition RecommendationCurrent."""
        return self.play.condition("RecommendationCurrent")

    def await_fleet(self) -> None:
        """Wait until the operator shows the fleet learner's recommendation.

        Raises
        ------
        AssertionError
            When it does not; the text has the condition.
        """

        def is_shown() -> bool:
            return (self.timeout().get("recommended") or {}).get("source") == "Fleet"

        try:
            until(is_shown, deadline_s=120, what="the StaticGroup shows a recommendation of the fleet", poll_s=0.5)
        except AssertionError as late:
            raise AssertionError(f"{late}; {self.condition()}") from None

    # from the broker ------------------------------------------------------------------------------------------

    def timeouts_ms(self) -> dict[str, int]:
        """Return, by pod name, the session timeout that the coordinator logged last for its member."""
        reader = TopicReader({"bootstrap.servers": self.play.brokers.bootstrap})
        held: dict[str, int] = {}
        try:
            logs = reader.watermarks((OFFSETS,))
            for each in ranges(resolve(EARLIEST, logs), resolve(LATEST, logs)):
                for messages in reader.read(each):
                    for message in messages:
                        held = self._held(message) or held
        finally:
            reader.close()
        return held

    def _held(self, message: Any) -> dict[str, int]:
        key = message.key()
        if key is None or int.from_bytes(key[:2], "big") not in GROUP_KEY_TYPES:
            return {}
        record = decode(key, message.value())
        if record.kind is not RecordKind.GROUP_METADATA or record.group_id != self.play.name:
            return {}
        # An instance id is the pod's name with a suffix of the StaticGroup's own.
        return {
            pod: member.session_timeout_ms
            for pod in self.pods
            for member in record.members
            if (member.instance_id or "").startswith(f"{pod}.") and member.session_timeout_ms is not None
        }

    # from the process -----------------------------------------------------------------------------------------

    def started_with_ms(self, pod_name: str) -> int:
        """Return the session timeout in the environment of a pod's running process; 0 when it has none."""
        values = (environment_of(pid).get(VARIABLE) for pid in self.play.stage.cluster.pod_processes(self._uid(pod_name)))
        return next((int(value) for value in values if value), 0)

    # acts -----------------------------------------------------------------------------------------------------

    def replace(self, pod_name: str) -> int:
        """Delete one pod, wait until its successor is a member, and return the rebalances that this caused."""
        since_ms, before, uid = now_ms(), self.play.member_ids(), self._uid(pod_name)
        self.play.stage.kubectl("delete", "pod", pod_name, "-n", self.play.name)
        until(lambda: self._is_back(pod_name, uid), deadline_s=90, what=f"{pod_name} is Ready again", poll_s=0.3)
        self._await_new_members(before, 1)
        return self.play.rebalances(since_ms)

    def roll(self) -> int:
        """Restart all pods, wait until all are members again, and return the rebalances that this caused."""
        since_ms, before = now_ms(), self.play.member_ids()
        self.play.roll()
        self._await_new_members(before, REPLICAS)
        return self.play.rebalances(since_ms)

    def _uid(self, pod_name: str) -> str:
        (uid,) = [p["metadata"]["uid"] for p in self.play.pods() if p["metadata"]["name"] == pod_name]
        return str(uid)

    def _is_back(self, pod_name: str, uid: str) -> bool:
        return any(
            pod["metadata"]["name"] == pod_name
            and pod["metadata"]["uid"] != uid
            and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))
            for pod in self.play.pods()
        )

    def _await_new_members(self, before: dict[str, str], count: int) -> None:
        """Wait until so many instances have another member id, and the group is whole and stable."""

        def are_new() -> bool:
            return sum(before.get(instance) != member for instance, member in self.play.member_ids().items()) >= count

        until(are_new, deadline_s=90, what=f"{count} members of {self.play.name} are new processes", poll_s=0.3)
        self.play.await_joined(REPLICAS)
