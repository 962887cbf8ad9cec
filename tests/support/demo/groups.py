"""One group of the demo: its namespace, its workload, and everything its pods said.

The one idea: groups differ in what their role starts and in the source of their ids; they are watched and waited for
alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from support.demo.measure import Line, Times, given_up, interruptions, received, steady_until
from support.demo.role import MANAGED, MANAGED_STATE, PARTITIONS, Role, Voices
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEvent, GroupEventKind
from support.scene.play import Play
from support.scene.pod_lines import PodVoice
from support.scene.stage import Stage
from support.scene.witnesses import PodWatch, is_operators
from support.waiting import until
from support.workload.process import ranges_of
from support.workload.ranges import Ranges


@dataclass(slots=True, kw_only=True)
class DemoGroup:
    """One group with its namespace, workload and everything its pods said."""

    role: Role
    play: Play
    voices: Voices
    watch: PodWatch

    @classmethod
    def opened(cls, stage: Stage, role: Role, name: str) -> DemoGroup:
        """Make the namespace, and for the managed group the connection; begin to listen and to watch."""
        play = role.game(stage=stage, name=name, partitions=PARTITIONS)
        stage.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        if name in (MANAGED, MANAGED_STATE):
            stage.apply(play.connection())
        watch = PodWatch(stage.cluster.client, name).start()
        return cls(role=role, play=play, voices=role.voices(stage, name), watch=watch)

    def close(self) -> None:
        """Stop listening; the pods end with their cluster or namespaces."""
        self.voices.stop()
        self.watch.stop()

    @property
    def name(self) -> str:
        """Name of the group, its namespace and its workload."""
        return self.play.name

    @property
    def title(self) -> str:
        """What distinguishes the group, for people."""
        return self.role.titles[self.name]

    @property
    def is_managed(self) -> bool:
        """Whether a StaticGroup manages it."""
        return self.name in (MANAGED, MANAGED_STATE)

    def start(self) -> None:
        """Start the pods and wait until they share the work and do all of it."""
        workload = self.role.workload(self)
        deadline_s = self.role.steady_deadline_s
        if self.is_managed:
            # Ids are issued before the first pod starts: the workload is there, but empty.
            self.play.stage.apply(_emptied(workload), self.play.static_group(**self.role.static_group()))
            until(lambda: (self.play.status() or {}).get("injected"), deadline_s=deadline_s, what="ids are issued")
        self.play.stage.apply(workload)
        self.await_stable(self.role.replicas)
        self.role.follow(self)
        self.await_steady(self.role.replicas, since_ms=self.play.since_ms)

    def await_stable(self, pods: int) -> None:
        """Wait until the group has settled with the members of so many pods."""
        members = pods * self.role.members_per_pod
        what = f"group {self.name} is stable with {members} members"
        deadline_s = self.role.steady_deadline_s
        until(lambda: self.role.is_settled(self, members), deadline_s=deadline_s, what=what, poll_s=0.3)

    def await_steady(self, pods: int, *, since_ms: int) -> int:
        """Wait until the group has settled with so many pods and all its work is done again.

        Returns
        -------
        Until when that is known, milliseconds since 1970.
        """
        self.await_stable(pods)
        settled_at_ms = now_ms()
        return until(
            lambda: steady_until(self.times(since_ms), range(PARTITIONS), since_ms=settled_at_ms - 1000),
            deadline_s=self.role.steady_deadline_s,
            what=f"all {self.role.wording.pieces} of group {self.name} are {self.role.wording.done}",
            poll_s=0.3,
        )

    # readings -------------------------------------------------------------------------------------------------

    def processes(self) -> list[PodVoice]:
        """Return what each pod of this run said; the files of an earlier run's pods may linger."""
        return [v for v in self.voices.voices() if not v.lines or v.lines[0]["at_ms"] >= self.play.since_ms]

    def lines(self, pod_name: str | None = None) -> list[Line]:
        return [line for voice in self.processes() if pod_name in (None, voice.pod_name) for line in list(voice.lines)]

    def times(self, since_ms: int = 0) -> Times:
        """Return when the group received records."""
        return received(self.lines(), since_ms)

    def by_ordinal(self) -> dict[int, list[PodVoice]]:
        """Return what each pod said, all its processes together.

        In a Deployment, pods with one id count as one, and ordinals are the order in which ids, or dynamic members,
        began.
        """
        voices = self.processes()
        if self.role.workload_kind == "StatefulSet":
            names = {voice.uid: voice.pod_name for voice in voices}
            order = [f"{self.name}-{ordinal}" for ordinal in range(self.role.replicas)]
        else:
            names = {voice.uid: voice.instance_id() or voice.uid for voice in voices if voice.of_kind("started")}
            order = list(dict.fromkeys(names.values()))
        return {n: [voice for voice in voices if names.get(voice.uid) == each] for n, each in enumerate(order)}

    def times_by_ordinal(self) -> dict[int, Times]:
        """Return when each pod received records, all its processes together."""
        return {
            ordinal: received(line for voice in voices for line in list(voice.lines))
            for ordinal, voices in self.by_ordinal().items()
        }

    def consumed(self) -> dict[int, Ranges]:
        """Return the offsets that the group received, by partition."""
        return ranges_of((dict(line) for line in self.lines()), "consumed")

    def interruptions(self, since_ms: int) -> list[float]:
        """Return how long consumers that ran on were without partitions, in seconds, each time."""
        return [s for voice in self.processes() for s in interruptions(list(voice.lines), since_ms)]

    def given_up(self, since_ms: int) -> int:
        """Return how many pieces of work were taken from pods that were not being ended."""
        ends_ms = {uid: pod.deletion_asked_at_ms for uid, pod in list(self.watch.pods.items())}
        return sum(
            given_up(list(voice.lines), since_ms=since_ms, until_ms=ends_ms.get(voice.uid))
            for voice in self.processes()
        )

    def rebuilds(self, since_ms: int) -> int:
        """Return how often records were read again for the state of a partition."""
        return sum(bool(x["records"]) for x in self.lines() if x["kind"] == "restored" and x["at_ms"] >= since_ms)

    def departure(self, since_ms: int) -> GroupEvent | None:
        """Return the broker's line about the end of the departed pod's last member: removed, expired or left."""
        kinds = (GroupEventKind.REMOVED, GroupEventKind.SESSION_EXPIRED)
        found = self.play.events(*kinds, since_ms=since_ms)
        leaves = self.role.leaves_by_itself and not self.is_managed
        chosen = [e for e in found if e.kind is GroupEventKind.SESSION_EXPIRED or is_operators(e) or leaves]
        count = self.role.members_per_pod
        return chosen[count - 1] if len(chosen) >= count else None


def _emptied(workload: dict[str, Any]) -> dict[str, Any]:
    return {**workload, "spec": {**workload["spec"], "replicas": 0}}
