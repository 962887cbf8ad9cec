"""Connect workers in pods, as they come and with agent and operator, with one connector of six tasks.

The one idea: each task writes when it ticks, starts and stops, to a file of its process; in the form of consumers'
lines of records, that is all there is to measure.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from support.connect_pods.deployment import STATIC, surroundings, workload
from support.connect_pods.image import load_connect_image
from support.connect_pods.pods import ConnectPods
from support.demo.groups import DemoGroup
from support.demo.measure import JOIN_MS
from support.demo.role import FILES, MANAGED, PARTITIONS, REPLICAS, STOCK, Faults, Role, Tell, Voices, process_ends
from support.demo.wording import CONNECT
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.devcluster.progress import step
from support.scene.pod_lines import PodVoice
from support.scene.stage import Stage
from support.workload.process import Line
from support.workload.ranges import appended, prolonged

CONNECTOR = "clock"
STOCK_DELAY_MS = 60_000


@dataclass(slots=True)
class Teller:
    """Turn rows `<at, ms> START|TICK|STOP <connector>/<number>` of one process into lines of a consumer's form.

    A task is a partition, its ticks are records, their numbers offsets.
    """

    ticked: dict[int, int] = field(default_factory=dict)

    def lines(self, rows: Iterable[str]) -> list[Line]:
        """Return the lines for the next rows; a connector's own rows are left out."""
        found: list[Line] = []
        open_line: Line | None = None
        for row in rows:
            at, what, work = row.split(" ", 2)
            number = work.rpartition("/")[2]
            if "/" not in work:
                continue
            at_ms, task = int(at), int(number)
            if what != "TICK":
                kind = "assigned" if what == "START" else "revoked"
                found.append({"kind": kind, "at_ms": at_ms, "partitions": [task]})
                open_line = None
                continue
            if open_line is None:
                open_line = {"kind": "consumed", "at_ms": at_ms, "partitions": {}}
                found.append(open_line)
            open_line["at_ms"] = at_ms
            content = open_line["partitions"].setdefault(str(task), {"offsets": [], "received": []})
            self.ticked[task] = self.ticked.get(task, -1) + 1
            appended(content["offsets"], self.ticked[task])
            prolonged(content["received"], at_ms, JOIN_MS)
        return found


@dataclass(slots=True)
class _File:
    voice: PodVoice
    teller: Teller = field(default_factory=Teller)
    read_to: int = 0


class TickVoices:
    """What the tasks of a group wrote, by the pod in which they ran."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Path, _File] = {}
        self._voices: dict[str, PodVoice] = {}
        self._lock = threading.Lock()

    def voices(self) -> list[PodVoice]:
        """Return the lines up to now, one entry for each pod UID, in the order of appearance."""
        with self._lock:
            # The time in a file's name is that of its process' start.
            for path in sorted(self._folder.glob("*.ticks"), key=lambda path: path.stem.rpartition("_")[2]):
                self._read(path)
            return list(self._voices.values())

    def _read(self, path: Path) -> None:
        if path not in self._files:
            pod_name, uid, _ = path.stem.split("_")
            voice = self._voices.setdefault(uid, PodVoice(pod_name=pod_name, uid=uid))
            self._files[path] = _File(voice)
        file = self._files[path]
        with path.open("rb") as opened:
            opened.seek(file.read_to)
            complete = opened.read().rpartition(b"\n")[0]
        if complete:
            file.read_to += len(complete) + 1
            file.voice.lines += file.teller.lines(complete.decode().splitlines())

    def stop(self) -> None:
        """Read the rest."""
        self.voices()


class ConnectWorkers(Role):
    """Connect workers, one member a pod."""

    wording = CONNECT
    titles: ClassVar[Mapping[str, str]] = {STOCK: "stock Connect, delay 60 s", MANAGED: "agent, StaticGroup, delay 0"}
    timeout_variable = "STATICGROUP_CONNECT_SESSION_TIMEOUT_MS"
    own_session_ms = 10_000
    """Connect's default."""
    # The delay runs again from each worker that leaves.
    steady_deadline_s = 300.0
    roll_deadline_s = 300.0
    leaves_by_itself = True

    def prepare(self, stage: Stage) -> None:
        """Build the workers' image and load it."""
        with step("the image of the Connect workers"):
            load_connect_image(stage.cluster)

    def open(self, stage: Stage, tell: Tell) -> None:
        """Say what will be shown; the connectors are made when the workers are there."""
        delay = f"scheduled.rebalance.max.delay.ms is {STOCK_DELAY_MS // 1000} s without, 0 with StaticGroup"
        tell(f"{PARTITIONS} tasks, each ticks 5 times a second; two Connect clusters of {REPLICAS} workers; {delay}.")

    def static_group(self) -> dict[str, Any]:
        """Return the type of the client."""
        return {**STATIC}

    def workload(self, group: DemoGroup) -> dict[str, Any]:
        """Make configuration and Service; return the StatefulSet, with the agent where the operator gives ids."""
        is_managed = group.name == MANAGED
        stock = {} if is_managed else {"scheduled_rebalance_max_delay_ms": str(STOCK_DELAY_MS)}
        group.play.stage.apply(*surroundings(group.play, **stock))
        return workload(group.play, REPLICAS, FILES / group.name, has_agent=is_managed)

    def is_settled(self, group: DemoGroup, members: int) -> bool:
        """Return whether the broker's log shows that the last round ended with so many members."""
        rounds = group.play.events(GroupEventKind.STABILIZED, GroupEventKind.REBALANCE_PREPARED)
        return bool(rounds) and rounds[-1].member_count == members

    def follow(self, group: DemoGroup) -> None:
        """Create the connector."""
        self._pods(group).configure(CONNECTOR, PARTITIONS)

    def voices(self, stage: Stage, name: str) -> Voices:
        """Read what the tasks write."""
        return TickVoices(FILES / name / "ticks")

    def interruptions(self, group: DemoGroup, since_ms: int) -> tuple[int, float | None]:
        """Return how many tasks were stopped in workers whose pod was not being ended."""
        return group.given_up(since_ms), None

    def before_departure(self, group: DemoGroup, pod_name: str, tell: Tell) -> None:
        """Make another stock worker than the departing one lead, because a leader takes the rebalance delay along."""
        if group.name == STOCK and self._pods(group).leader() == pod_name:
            since_ms = now_ms()
            tell(
                f"{pod_name} leads, and a leader takes the delay along: it is restarted first, so that another one "
                "leads."
            )
            group.play.stage.kubectl("delete", "pod", pod_name, "-n", group.name)
            group.await_steady(REPLICAS, since_ms=since_ms)

    def ending(self, group: DemoGroup, pod_name: str) -> Callable[[], int | None]:
        """Return what tells when the processes of a pod are gone; its tasks end before."""
        (uid,) = [p["metadata"]["uid"] for p in group.play.pods() if p["metadata"]["name"] == pod_name]
        return process_ends(group.play.stage.cluster.pod_processes(uid))

    def count(self, groups: Mapping[str, DemoGroup], tell: Tell) -> Faults:
        """Count the pairs of lives of one task that overlap."""
        tell("Counting tasks that ran twice at a time.")
        return Faults(twice={name: len(self._pods(group).twice()) for name, group in groups.items()})

    def _pods(self, group: DemoGroup) -> ConnectPods:
        return ConnectPods(game=group.play, shared=FILES / group.name, watch=group.watch)
