"""Deployments of real consumers, and two witnesses of their ids that are not the operator's.

A watch of the pods notes when each waiter runs and which notes it is given; the kernel tells which process carried which
id until when, so that an id in two living processes is seen whatever anybody's status says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final, TypeVar

from support.devcluster.kafka_log import now_ms
from support.devcluster.kafka_log_lines import GroupEventKind
from support.drills.lives import PodLife, PodLives
from support.scene.departures import Departure, departures
from support.scene.play import Play
from support.scene.pod_lines import PodLines, PodVoice, collected_lines
from support.scene.remembered import await_ready
from support.scene.witnesses import PodSighting, PodWatch
from support.waiting import until

WAITER: Final = "staticgroup-slot-"
NOTE: Final = "staticgroup.io/slot-"
READY_S: Final = 120.0
SESSION_S: Final = 60
PODS: Final = 5
REFUSALS: Final = (GroupEventKind.FENCED, GroupEventKind.JOIN_REFUSED)
DEPARTURES: Final = (GroupEventKind.REMOVED, GroupEventKind.LEFT, GroupEventKind.SESSION_EXPIRED)


class DeploymentPlay(Play):
    """Consumers of one group in a Deployment, in a namespace of their own."""

    def static_group(self, **spec: Any) -> dict[str, Any]:
        """Return the StaticGroup of the Deployment."""
        return Play.static_group(self, **{"workloadRef": {"kind": "Deployment", "name": self.name}, **spec})

    def deployment(
        self, replicas: int, *, env: dict[str, str] | None = None, image: str = "", pod: dict[str, Any] | None = None,
        **spec: Any,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the Deployment, with Kubernetes' own default strategy; `image`: "" for the Python consumer's."""
        made = self.stateful_set(replicas, env=env, pod=pod, **spec)
        made["kind"] = "Deployment"
        del made["spec"]["serviceName"]
        if image:
            made["spec"]["template"]["spec"]["containers"][0]["image"] = image
        return made

    def start(self, replicas: int, *, static: dict[str, Any] | None = None, **workload: Any) -> None:
        """Apply the StaticGroup, wait until ids are issued, then the Deployment, and wait until all consume."""
        self.stage.apply(self.static_group(**(static or {})))
        until(lambda: (self.status() or {}).get("injected"), deadline_s=30, what="ids are issued")
        self.stage.apply(self.deployment(replicas, **workload))
        self.await_joined(replicas)
        await_ready(self, replicas)  # a member of a KIP-848 group may wait for partitions that others give up first

    def scale(self, replicas: int) -> None:
        """Set spec.replicas."""
        self.rollout("scale", f"--replicas={replicas}")

    def autoscale(self, replicas: int) -> None:
        """Have a HorizontalPodAutoscaler set spec.replicas: beyond its bounds it needs no metrics.

        Source: reconcileAutoscaler in pkg/controller/podautoscaler/horizontal.go.
        """
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": self.name}
        usage = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
        spec = {
            "scaleTargetRef": target, "minReplicas": replicas, "maxReplicas": replicas,
            "metrics": [{"type": "Resource", "resource": usage}],
        }  # fmt: skip
        metadata = {"name": self.name, "namespace": self.name}
        kind = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
        self.stage.apply(kind | {"metadata": metadata, "spec": spec})

    def rollout(self, *words: str) -> None:
        """Run `kubectl rollout …` or `kubectl scale …` of the Deployment."""
        verb = words[0] if words[0] == "scale" else f"rollout {words[0]}"
        self.stage.kubectl(*verb.split(), f"deployment/{self.name}", "-n", self.name, *words[1:])

    def roll(self, deadline_s: float = READY_S) -> None:
        """Restart all pods by a rollout and wait until it is complete."""
        self.rollout("restart")
        self.await_rolled(deadline_s)

    def await_rolled(self, deadline_s: float = READY_S) -> None:
        """Wait until a rollout is complete, and the pods of before are gone."""
        self.rollout("status", f"--timeout={deadline_s:.0f}s")
        until(
            lambda: all("deletionTimestamp" not in pod["metadata"] for pod in self.pods()),
            deadline_s=60, what=f"old pods of {self.name} gone", poll_s=0.3,
        )  # fmt: skip

    @contextmanager
    def slots_watched(self) -> Iterator[SlotWatch]:
        """Have an independent watch of the pods and their notes meanwhile."""
        watch = SlotWatch(self.stage.cluster.client, self.name)
        watch.start()
        try:
            yield watch
        finally:
            watch.stop()


@dataclass(slots=True, kw_only=True)
class SlotSighting:
    """What the watch saw of one pod's wait, milliseconds since 1970; None while it did not.

    Parameters
    ----------
    waits_at_ms: its waiter runs. notes: when which note was there, without the uid.
    ended_wait_at_ms: its waiter has ended.
    """

    name: str
    uid: str
    waits_at_ms: int | None = None
    notes: list[tuple[int, str]] = field(default_factory=list)
    ended_wait_at_ms: int | None = None

    @property
    def given_at_ms(self) -> int | None:
        """When it was given a slot."""
        return next((at_ms for at_ms, note in self.notes if note.startswith("has ")), None)

    @property
    def slot(self) -> str:
        """The slot that it was given last; "" for none."""
        return next((note.split()[1] for _, note in reversed(self.notes) if note.startswith("has ")), "")

    @property
    def is_waiting(self) -> bool:
        """Whether its waiter runs, without a slot."""
        return self.waits_at_ms is not None and self.ended_wait_at_ms is None and not self.slot


class SlotWatch(PodWatch):
    """Watch the pods of one namespace: when each of them waits, and what it is given."""

    def __init__(self, client: Any, namespace: str) -> None:
        super().__init__(client, namespace)
        self.waits: dict[str, SlotSighting] = {}

    def waiting(self) -> list[SlotSighting]:
        """Return the pods that wait now and exist."""
        return [s for s in list(self.waits.values()) if s.is_waiting and self.pods[s.uid].deletion_asked_at_ms is None]

    def of(self, sighting: PodSighting) -> SlotSighting:
        """Return what was seen of a pod's wait."""
        return self.waits[sighting.uid]

    def _note(self, event: Mapping[str, Any]) -> None:
        super()._note(event)
        pod = event["object"]
        if pod.get("kind") != "Pod":
            return
        uid, at_ms = pod["metadata"]["uid"], now_ms()
        seen = self.waits.setdefault(uid, SlotSighting(name=pod["metadata"]["name"], uid=uid))
        for key, text in pod["metadata"].get("annotations", {}).items():
            note = text.removeprefix(f"{uid} ")
            if key.startswith(NOTE) and (not seen.notes or seen.notes[-1][1] != note):
                seen.notes.append((at_ms, note))
        for status in pod.get("status", {}).get("initContainerStatuses", []):
            if status["name"].startswith(WAITER):
                if "running" in status["state"] and seen.waits_at_ms is None:
                    seen.waits_at_ms = at_ms
                if "terminated" in status["state"] and seen.ended_wait_at_ms is None:
                    seen.ended_wait_at_ms = at_ms


def shared_ids(lives: PodLives, uids: Collection[str]) -> list[str]:
    """Return a sentence for each id that processes of two pods carried at one time; empty is the promise.

    Parameters
    ----------
    uids: of the pods that count.
    """
    seen = [life for uid in uids for life in lives.of_pod(uid)]
    return [
        f"{one.instance_id}: pid {one.pid} of pod {one.pod_uid} and pid {other.pid} of pod {other.pod_uid}"
        for one, other in combinations(seen, 2)
        if one.instance_id == other.instance_id and one.pod_uid != other.pod_uid and _overlap(one, other)
    ]


def _overlap(one: PodLife, other: PodLife) -> bool:
    first, last = sorted((one, other), key=lambda life: life.seen_at_ms)
    return first.ended_at_ms is None or last.seen_at_ms < first.ended_at_ms


def members_min(voices: Collection[PodVoice], since_ms: int) -> int:
    """Return how many processes consumed at least at every moment since then, by their own lines.

    A process counts from when it is first given partitions until it has closed; that a rebalance takes partitions away
    for a moment does not count.
    """
    changes: list[tuple[int, int]] = []
    for voice in voices:
        first = next((line["at_ms"] for line in voice.of_kind("assigned")), None)
        if first is not None:
            changes.append((max(first, since_ms), 1))
            changes += [(line["at_ms"], -1) for line in voice.of_kind("closed") if line["at_ms"] >= since_ms]
    count, least = 0, []
    for at_ms, change in sorted(changes, key=lambda each: (each[0], -each[1])):
        count += change
        least += [count] if at_ms > since_ms else []
    return min(least, default=count)


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Who saw what the pods of a Deployment did."""

    lives: PodLives
    watch: SlotWatch
    consumers: PodLines

    def since(self, at_ms: int) -> list[SlotSighting]:
        """Return the pods whose waiter ran first after a moment."""
        return [s for s in list(self.watch.waits.values()) if s.waits_at_ms is not None and s.waits_at_ms >= at_ms]

    def start_s(self, at_ms: int) -> list[float]:
        """Return for each of those how long its process took to begin after it had been given its slot, seconds."""
        return [
            (min(life.born_at_ms for life in lives) - s.given_at_ms) / 1000
            for s in self.since(at_ms)
            if s.given_at_ms is not None and (lives := self.lives.of_pod(s.uid))
        ]

    def passed_on_s(self, at_ms: int) -> list[float]:
        """Return for each of those that took over a slot how long that was after the end of the pod before, seconds.

        A pod that came later than that end counts from when it waits.
        """
        found = []
        for taker in self.since(at_ms):
            had = [self.watch.pods[s.uid] for s in self.watch.waits.values() if s.slot == taker.slot and s is not taker]
            ended = [p.terminal_at_ms for p in had if p.terminal_at_ms is not None]
            free = [each for each in ended if taker.given_at_ms is not None and each <= taker.given_at_ms]
            if free and taker.given_at_ms is not None and taker.waits_at_ms is not None:
                found.append((taker.given_at_ms - max(taker.waits_at_ms, *free)) / 1000)
        return found

    def hold_the_promise(self) -> None:
        """No id was in two living processes, and no process started without one."""
        assert shared_ids(self.lives, list(self.watch.waits)) == []
        assert [v.pod_name for v in self.consumers.voices() if v.of_kind("started") and v.instance_id() is None] == []


@contextmanager
def witnessed(game: DeploymentPlay) -> Iterator[Witnesses]:
    """Have all witnesses follow the pods of a play."""
    cluster = game.stage.cluster
    with PodLives.of(cluster) as lives, game.slots_watched() as watch, collected_lines(cluster, game.name) as lines:
        yield Witnesses(lives, watch, lines)


def assert_quiet(game: DeploymentPlay, since_ms: int) -> None:
    """Hold that the brokers saw no rebalance, no departure and no refusal since then."""
    found = (game.rebalances(since_ms), game.events(*DEPARTURES, *REFUSALS, since_ms=since_ms))
    assert found == (0, []), found


def leave(
    game: DeploymentPlay, seen: Witnesses, end: int, scale: Callable[[int], None] | None = None
) -> list[Departure]:
    """Scale down to `end` pods; returns the departures once their partitions are consumed again.

    Parameters
    ----------
    scale: how; None: a user does it.
    """
    before = {pod["metadata"]["uid"] for pod in game.pods()}
    count, since_ms = len(before) - end, now_ms()
    (scale or game.scale)(end)

    def leaving() -> set[str]:
        found = {uid for uid in before if seen.watch.pods[uid].deletion_asked_at_ms is not None}
        return found if len(found) == count else set()

    gone = until(leaving, deadline_s=60, what=f"{count} pods to be terminating", poll_s=0.05)

    def complete() -> list[Departure]:
        voices = {voice.uid: voice for voice in seen.consumers.voices()}
        found = departures([seen.watch.pods[uid] for uid in gone], game.removals(since_ms), voices, before - gone)
        return found if len(found) == count and all(d.consumed_at_ms for d in found) else []

    return until(complete, deadline_s=SESSION_S / 2, what=f"{count} members removed and replaced", poll_s=0.2)


T = TypeVar("T", bound=DeploymentPlay)
NewPlay = Callable[..., Any]
"""What the fixture `new_play` gives."""


def opened(
    new_play: NewPlay, protocol: str = "classic", suffix: str = "", kind: type[T] = DeploymentPlay
) -> tuple[T, dict[str, Any]]:
    """Open a play; returns it and the spec of a StaticGroup whose sessions outlast a restart."""
    game = new_play(suffix, kind=kind, protocol=protocol)
    return game, game.outlast_restarts(SESSION_S)
