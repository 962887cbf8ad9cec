"""Workers in pods, observed by their REST API, the lines of their tasks, and their logs."""

from __future__ import annotations

import re
import urllib.error
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from support.connect import ticks
from support.connect.cluster import ConnectCluster, call
from support.connect.rolls import Roll
from support.connect_pods.deployment import PORT
from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.scene.play import Play
from support.scene.witnesses import PodSighting, PodWatch
from support.waiting import until

_LEADER = re.compile(r"(?P<at>\S+)Z .*Joined group .* leaderUrl='http://(?P<pod>[^.:/]+)")
_UP = re.compile(r"(?P<at>\S+)Z .*REST resources initialized; server is started and ready to handle requests")


def await_members(game: Play, count: int) -> None:
    """Wait until so many workers are in the group, by the brokers' log."""

    def joined() -> bool:
        rounds = game.events(GroupEventKind.STABILIZED, GroupEventKind.REBALANCE_PREPARED)
        return bool(rounds) and rounds[-1].member_count == count

    until(joined, deadline_s=120, what=f"{count} workers of {game.name}", poll_s=0.3)


@dataclass(slots=True, kw_only=True)
class ConnectPods(ConnectCluster):
    """The workers of one play; a worker is called as its pod.

    Parameters
    ----------
    shared: see `deployment.workload`.
    watch: of the namespace's pods.
    """

    game: Play
    shared: Path
    watch: PodWatch

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """Call the REST API of a worker whose pod runs; OSError when none answers."""
        for pod in self.game.pods():
            if address := pod["status"].get("podIP"):
                try:
                    return call(f"http://{address}:{PORT}", method, path, body)
                except urllib.error.HTTPError:
                    raise
                except OSError:
                    continue
        raise OSError("no worker answers")

    def files(self) -> list[Path]:
        """Return what the tasks of each process wrote."""
        return sorted((self.shared / "ticks").glob("*.ticks"))

    def lines(self) -> list[ticks.Line]:
        """Return what all tasks wrote so far."""
        by_pod: dict[str, list[Path]] = {}
        for file in self.files():
            by_pod.setdefault(file.name.partition("_")[0], []).append(file)
        return ticks.read(by_pod)

    def twice(self) -> list[tuple[ticks.Run, ticks.Run]]:
        """Return the pairs of lives of one task that overlap, in whichever processes."""
        return ticks.twice(ticks.read({file.stem: [file] for file in self.files()}))

    def connectors(self) -> Counter[str]:
        """Return how many connectors run in each pod, by their own lines."""
        where: dict[str, str] = {}
        for line in self.lines():
            if "/" not in line.work and line.what == "START":
                where[line.work] = line.worker
        return Counter(where.values())

    def log(self, pod: str) -> str:
        """Return what a worker logged."""
        return self.game.stage.kubectl("logs", pod, "-n", self.game.name)

    def leader(self) -> str:
        """Return the pod whose worker leads, by what the workers logged last."""
        names = [pod["metadata"]["name"] for pod in self.game.pods()]
        found = [(match["at"], match["pod"]) for name in names for match in _LEADER.finditer(self.log(name))]
        return max(found)[1]

    def up_at_ms(self, pod: str) -> int:
        """Return when the REST API of a pod's present process began to answer, by its own log."""
        match = _UP.search(self.log(pod))
        assert match is not None, f"{pod} is not up"
        return int(datetime.fromisoformat(match["at"] + "+00:00").timestamp() * 1000)

    def sighting(self, pod: str) -> PodSighting:
        """Return what the watch saw of the newest pod of a name."""
        return [each for each in list(self.watch.pods.values()) if each.name == pod][-1]

    def kill(self, pod: PodSighting) -> None:
        """End the processes of a pod with SIGKILL."""
        for node in self.game.stage.cluster.nodes:
            node.kill_pod(pod.uid)

    def asked_to_end(self, since_ms: int) -> list[tuple[int, str]]:
        """Return when the deletion of each pod was asked for since then, and the pods' names, in that order."""
        asked = ((each.deletion_asked_at_ms or 0, each.name) for each in list(self.watch.pods.values()))
        return sorted((at_ms, name) for at_ms, name in asked if at_ms >= since_ms)

    def taken_over(self, tasks: Collection[str], gone: str, since_ms: int, deadline_s: float) -> int:
        """Wait until tasks tick in other pods than the one that is gone; returns when the last of them began to."""

        def all_ran_at_ms() -> int:
            first_ms: dict[str, int] = {}
            for line in self.lines():
                if line.what == "TICK" and line.worker != gone and line.at_ms >= since_ms and line.work in tasks:
                    first_ms.setdefault(line.work, line.at_ms)
            return max(first_ms.values()) if len(first_ms) == len(tasks) else 0

        return until(all_ran_at_ms, deadline_s=deadline_s, what=f"{sorted(tasks)} to run elsewhere than in {gone}")

    def stopped(self, since_ms: int, but: str) -> list[str]:
        """Return the tasks that were stopped since then in other pods than one."""
        return ticks.stopped(self.lines(), since_ms, now_ms(), but)

    def rolled(
        self, before: dict[str, str], after: dict[str, str], led: str, ended: Sequence[tuple[int, str]]
    ) -> list[Roll]:
        """Return what the restart of each pod did, once all of them are over.

        Parameters
        ----------
        before, after: which task ran where. led: the pod that led before.
        ended: when the end of each process began, and in which pod, in that order.

        Notes
        -----
        A task that is stopped in a pod after its end began, and before it is up again, is stopped by its own restart.
        """
        bounds_ms = [*(at_ms for at_ms, _ in ended), now_ms()]
        lines = self.lines()
        gaps_ms = ticks.gaps_ms(lines, bounds_ms[0], bounds_ms[-1])
        stops = [line for line in lines if line.what == "STOP" and "/" in line.work and line.at_ms >= bounds_ms[0]]
        rounds = self.game.events(GroupEventKind.REBALANCE_PREPARED, since_ms=bounds_ms[0])
        rolls = []
        for (from_ms, name), to_ms in zip(ended, bounds_ms[1:], strict=True):
            mine = {task for task, where in before.items() if where == name}
            up_ms = self.up_at_ms(name)
            elsewhere = [s for s in stops if from_ms <= s.at_ms < to_ms and s.worker != name]
            again = [s for s in stops if s.worker == name and s.at_ms > up_ms]
            rolls.append(
                Roll(
                    worker=name, led=name == led, generations=sum(from_ms <= e.at_ms < to_ms for e in rounds),
                    restart_s=(up_ms - from_ms) / 1000,
                    own_down_s=max((gaps_ms[task] for task in mine), default=0) / 1000,
                    others_stopped=len(elsewhere) + len(again), moved=sum(after[task] != name for task in mine),
                )
            )  # fmt: skip
        return rolls
