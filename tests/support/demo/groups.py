"""The three consumer groups of the demo: the same StatefulSet three times, with ids from nobody, from its author, and
from the operator.

The one idea: all three read the same topic and differ in nothing but their static membership.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from support.demo.measure import Line, Times, interruptions, received, steady_until
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEvent, GroupEventKind
from support.scene.play import Play
from support.scene.pod_lines import PodLines, PodVoice
from support.scene.stage import Stage
from support.scene.witnesses import is_operators
from support.waiting import until
from support.workload.process import ranges_of
from support.workload.ranges import Ranges

TOPIC = "orders"
PARTITIONS = 6
REPLICAS = 3
DYNAMIC, BY_HAND, MANAGED = NAMES = ("dynamic", "by-hand", "managed")
TITLES = {
    DYNAMIC: "dynamic members",
    BY_HAND: "static ids alone, 45 s session",
    MANAGED: "with StaticGroup",
}
BY_HAND_SESSION_MS = 45_000
"""The default of librdkafka and of the Java client since 3.0 (KIP-735)."""
STEADY_DEADLINE_S = 90.0


@dataclass(slots=True, kw_only=True)
class DemoGroup:
    """One consumer group with its namespace, StatefulSet and everything its consumers said."""

    play: Play
    voices: PodLines

    @classmethod
    def opened(cls, stage: Stage, name: str) -> DemoGroup:
        """Make the namespace, and for the managed group the connection; begin to listen."""
        play = Play(stage=stage, name=name, partitions=PARTITIONS)
        stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        if name == MANAGED:
            stage.apply(play.connection())
        return cls(play=play, voices=PodLines(stage.cluster, name).start())

    @property
    def name(self) -> str:
        """Name of the group, its namespace and its StatefulSet."""
        return self.play.name

    @property
    def title(self) -> str:
        """What distinguishes the group, for people."""
        return TITLES[self.name]

    def start(self) -> None:
        """Start the consumers and wait until they share the topic and consume all of it."""
        workload = self._stateful_set()
        if self.name == MANAGED:
            # Ids are issued before the first pod starts: the StatefulSet is there, but empty.
            self.play.stage.apply(_emptied(workload), self.play.static_group())
            until(
                lambda: (self.play.status() or {}).get("injected"), deadline_s=STEADY_DEADLINE_S, what="ids are issued"
            )
        self.play.stage.apply(workload)
        self.await_steady(REPLICAS, since_ms=self.play.since_ms)

    def _stateful_set(self) -> dict[str, Any]:
        workload = self.play.stateful_set(REPLICAS, env={"TOPIC": TOPIC, "REPORT_TIMES": "true"})
        if self.name == BY_HAND:
            (container,) = workload["spec"]["template"]["spec"]["containers"]
            container["env"] += [
                {"name": "KAFKA_GROUP_INSTANCE_ID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "KAFKA_SESSION_TIMEOUT_MS", "value": str(BY_HAND_SESSION_MS)},
            ]
        return workload

    def await_steady(self, members: int, *, since_ms: int, deadline_s: float = STEADY_DEADLINE_S) -> int:
        """Wait until the group has settled with so many members and all partitions are consumed again.

        Returns
        -------
        Until when that is known, milliseconds since 1970.

        Raises
        ------
        AssertionError
            When it does not settle in time.
        """

        def settled() -> bool:
            group = self.play.stage.admin.describe_group(self.name)
            return group.state == "Stable" and len(group.members) == members

        until(settled, deadline_s=deadline_s, what=f"group {self.name} is stable with {members} members", poll_s=0.3)
        settled_at_ms = now_ms()
        found = until(
            lambda: steady_until(self.times(since_ms), range(PARTITIONS), since_ms=settled_at_ms - 1000),
            deadline_s=deadline_s,
            what=f"all partitions of group {self.name} are consumed",
            poll_s=0.3,
        )
        return found

    # looks ----------------------------------------------------------------------------------------------------

    def incarnations(self) -> list[PodVoice]:
        """Return what each pod of this run said; the files of an earlier run's pods may linger."""
        return [v for v in self.voices.voices() if not v.lines or v.lines[0]["at_ms"] >= self.play.since_ms]

    def lines(self, pod_name: str | None = None) -> list[Line]:
        """Return the lines of one pod or of all."""
        return [
            line for voice in self.incarnations() if pod_name in (None, voice.pod_name) for line in list(voice.lines)
        ]

    def times(self, since_ms: int = 0) -> Times:
        """Return when the group received records."""
        return received(self.lines(), since_ms)

    def times_by_ordinal(self) -> dict[int, Times]:
        """Return when each pod received records, all its incarnations together."""
        return {ordinal: received(self.lines(f"{self.name}-{ordinal}")) for ordinal in range(REPLICAS)}

    def consumed(self) -> dict[int, Ranges]:
        """Return the offsets that the group received, by partition."""
        return ranges_of((dict(line) for line in self.lines()), "consumed")

    def interruptions(self, since_ms: int) -> list[float]:
        """Return how long consumers that ran on were without partitions, in seconds, each time."""
        return [s for voice in self.incarnations() for s in interruptions(list(voice.lines), since_ms)]

    def departure(self, since_ms: int) -> GroupEvent | None:
        """Return the broker's line about the departed member: removed by the operator, or its session expired."""
        kinds = (GroupEventKind.REMOVED, GroupEventKind.SESSION_EXPIRED)
        found = self.play.events(*kinds, since_ms=since_ms)
        chosen = [e for e in found if e.kind is GroupEventKind.SESSION_EXPIRED or is_operators(e)]
        return chosen[0] if chosen else None


def _emptied(workload: dict[str, Any]) -> dict[str, Any]:
    return {**workload, "spec": {**workload["spec"], "replicas": 0}}
