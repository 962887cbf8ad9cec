"""One moment of the live view, from pods, consumers' lines, the broker's log and the operator's Events.

The one idea: gathering (this module) and drawing (view.py) meet in frozen values, so drawing can be tested alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from support.demo.groups import DemoGroup
from support.demo.measure import RECENT_MS, Line, Times, held_partitions
from support.demo.phases import Show
from support.demo.role import PARTITIONS
from support.demo.wording import Wording
from support.devcluster.kafka_log import GroupLog, now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.workload.ranges import size

GATHER_S = 1.0
RATE_WINDOW_MS = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPicture:
    """One pod: `state` is Kubernetes' column, `partitions` are those, or the tasks, that its process reports."""

    ordinal: int
    name: str
    state: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPicture:
    """One group.

    Parameters
    ----------
    received: ordinal to the times in which that pod received records.
    still_s: partition to how long it has had no consumer; only those that stand still.
    rebalances: since the scene began, by the broker's log.
    """

    name: str
    title: str
    pods: tuple[PodPicture, ...]
    received: Mapping[int, Times]
    still_s: Mapping[int, float]
    records_per_s: float
    rebalances: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One moment.

    Parameters
    ----------
    at_ms, started_at_ms: milliseconds since 1970.
    groups: the two that are compared.
    events: what the operator said, oldest first.
    columns: what `kubectl get ksg` shows, by column; empty before there is one.
    lines: of the narrator, with their times.
    words: of the role.
    """

    at_ms: int
    started_at_ms: int
    scene: str
    words: Wording
    groups: tuple[GroupPicture, ...]
    events: tuple[str, ...]
    columns: Mapping[str, str]
    lines: tuple[tuple[int, str], ...]


def still(times: Times, partitions: Iterable[int], at_ms: int) -> dict[int, float]:
    """Return the partitions without a consumer now, with seconds; one that was never consumed is left out."""
    lasts = {partition: times[partition][-1][1] for partition in partitions if times.get(partition)}
    return {partition: (at_ms - last) / 1000 for partition, last in lasts.items() if at_ms - last > RECENT_MS}


def records_per_s(lines: Iterable[Line], at_ms: int) -> float:
    """Return how many records were reported per second over the last three."""
    fresh = (x for x in lines if x["kind"] == "consumed" and x["at_ms"] > at_ms - RATE_WINDOW_MS)
    return sum(size(p["offsets"]) for x in fresh for p in x["partitions"].values()) * 1000 / RATE_WINDOW_MS


def pod_state(pod: Mapping[str, Any]) -> str:
    """Return what kubectl would show of a pod, in one word."""
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    status = pod.get("status", {})
    if any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", [])):
        return "Ready"
    phase: str = status.get("phase", "Pending")
    return "Starting" if phase == "Running" else phase


class Gatherer:
    """Look at everything once per second, in a thread of its own, and keep the latest picture."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._log: GroupLog = show.stage.brokers.group_log
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="gatherer")
        self.latest: Picture | None = None

    def start(self) -> Gatherer:
        """Start to gather."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop looking."""
        self._ended.set()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._ended.is_set():
            # The API server or a pod may be away for a moment: the view shows the moment before.
            with suppress(OSError, LookupError):
                self.latest = self._look()
            self._ended.wait(GATHER_S)

    def _look(self) -> Picture:
        show, at_ms = self._show, now_ms()
        groups = [show.groups[name] for name in show.pair if name in show.groups]
        return Picture(
            at_ms=at_ms, started_at_ms=show.started_at_ms, scene=show.scene, words=show.role.wording,
            groups=tuple(self._group(group, at_ms) for group in groups), events=self._events(), columns=self._columns(),
            lines=tuple(show.lines),
        )  # fmt: skip

    def _get(self, path: str) -> Any:
        return self._show.stage.cluster.client.request("GET", path) or {}

    def _group(self, group: DemoGroup, at_ms: int) -> GroupPicture:
        listed = self._get(f"/api/v1/namespaces/{group.name}/pods").get("items", [])
        states = {pod["metadata"]["name"]: pod_state(pod) for pod in listed}
        events = self._log.events(group.name, since_ms=self._show.scene_at_ms, kind=GroupEventKind.REBALANCE_PREPARED)
        pods = []
        for ordinal, voices in group.by_ordinal().items():
            name = voices[-1].pod_name if voices else f"{group.name}-{ordinal}"
            held = held_partitions(list(voices[-1].lines)) if voices and name in states else ()
            pods.append(PodPicture(ordinal=ordinal, name=name, state=states.get(name, "gone"), partitions=held))
        # Each roll of a Deployment has new pods: those that are gone make room for them.
        shown = sorted(pods, key=lambda pod: pod.state == "gone")[: group.role.replicas]
        return GroupPicture(
            name=group.name, title=group.title,
            pods=tuple(sorted(shown, key=lambda pod: pod.ordinal)),
            received=group.times_by_ordinal(), still_s=still(group.times(), range(PARTITIONS), at_ms),
            records_per_s=records_per_s(group.lines(), at_ms), rebalances=len(events),
        )  # fmt: skip

    def _events(self) -> tuple[str, ...]:
        listed = self._get(f"/apis/events.k8s.io/v1/namespaces/{self._show.pair[1]}/events").get("items", [])
        own = [event for event in listed if event.get("regarding", {}).get("kind") == "StaticGroup"]
        own.sort(key=lambda event: event.get("eventTime") or "")
        return tuple(f"{event['reason']}: {event.get('note', '')}" for event in own)

    def _columns(self) -> dict[str, str]:
        name = self._show.pair[1]
        shown = self._get(f"/apis/staticgroup.io/v1alpha1/namespaces/{name}/staticgroups/{name}")
        status = shown.get("status", {})
        members = status.get("members", {})
        ready = next((c["status"] for c in status.get("conditions", []) if c["type"] == "Ready"), "")
        if not members:
            return {}
        timeout = status.get("sessionTimeout", {}).get("seconds")
        return {
            **{name: str(members.get(name, 0)) for name in ("expected", "joined", "away", "departed")},
            "timeout": f"{timeout} s" if timeout else "",
            "ready": ready,
        }
