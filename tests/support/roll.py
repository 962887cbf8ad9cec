"""What a roll of many pods writes to the API server, and how old the stored position of the watch gets.

The real store of pods, rounds, statuses and Lease in virtual time; the watch is fed directly, brokers answer at once
with the holder of each id, and the API server counts. A round lasts as long as one does that brings the watch up to a
read, among many others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random
from typing import Any

from simulator.engine.loop import run
from staticgroup.api import names
from staticgroup.core.evidence.chain import KnownPod
from staticgroup.core.evidence.pod import PodVersion
from staticgroup.core.group import GroupView, MemberView
from staticgroup.kube.lease import POSITION_ANNOTATION, ActiveLease, LeaseSettings
from staticgroup.kube.pods.position import WatchPosition
from staticgroup.kube.pods.store import PodStore, PodStoreHooks
from staticgroup.kube.problem import KubeProblem, problem_of
from staticgroup.runtime.connections.connections import Connections
from staticgroup.runtime.executor import Executor
from staticgroup.runtime.gather import Gatherer
from staticgroup.runtime.memory.memory import Memories
from staticgroup.runtime.narrator import Narrator
from staticgroup.runtime.process.injection import Part
from staticgroup.runtime.process.metrics import Metrics
from staticgroup.runtime.reconciler import Reconciler
from staticgroup.runtime.stores import Stores
from staticgroup.runtime.work_queue import Key, Result, WorkQueue
from support.fake_gateways import FakeKafka, FakeKube
from support.fake_pods import FakeNodes
from unit.core import builders as make

CALL_S = 0.1
"""How long the API server takes for a call, which is long."""
ROUND_S = 2.0
REFUSED = problem_of(500, verb="patch", resource="staticgroups", text="field not declared in schema")
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A roll: so many pods of so many StaticGroups in `lasts_s` seconds; the first `refused` statuses are refused."""

    groups: int = 20
    pods: int = 1_000
    lasts_s: float = 300.0
    refused: int = 0
    seed: int = 7


@dataclass(slots=True)
class CountingKube(FakeKube):
    """The API server behind the gateway, which takes its time, counts and refuses."""

    refused: frozenset[str] = frozenset()
    written_s: list[float] = field(default_factory=list)

    async def apply_status(
        self, plural: str, namespace: str, name: str, uid: str, status: Json, *, resource_version: str = ""
    ) -> Json | KubeProblem:
        """Write a status, or refuse it."""
        await asyncio.sleep(CALL_S)
        self.written_s.append(asyncio.get_running_loop().time())
        if name in self.refused:
            return REFUSED
        return await FakeKube.apply_status(
            self, plural, namespace, name, uid, status, resource_version=resource_version
        )


@dataclass
class ManyGroups(FakeKafka):
    """Coordinators of many groups: group id to instance id to member id."""

    held: dict[str, dict[str, str]] = field(default_factory=dict)

    async def describe(self, settings: object, group_id: str) -> GroupView:
        """Read a group."""
        members = tuple(MemberView(member_id=m, instance_id=i) for i, m in self.held.get(group_id, {}).items())
        return make.group(*members, group_id=group_id)


class FedPods(PodStore):
    """A store that is fed by the scene, so that its watch is never behind a read."""

    async def reach_present(self, namespace: str) -> bool:
        """Pass a consistent read."""
        await asyncio.sleep(CALL_S)
        return True


@dataclass(slots=True)
class LeaseServer:
    """The API server as the Lease sees it.

    Attributes
    ----------
    written: when, and which position, each write stored.
    """

    lease: Json | None = None
    written: list[tuple[float, WatchPosition | None]] = field(default_factory=list)

    async def call(self, verb: str, resource: object, **asked: Any) -> Json | KubeProblem:
        """Read or write the Lease."""
        await asyncio.sleep(CALL_S)
        if verb == "get":
            return self.lease or problem_of(404, verb=verb, resource="leases")
        body = asked["body"]
        body["metadata"] |= {"uid": "lease", "resourceVersion": str(len(self.written) + 1)}
        self.lease = body
        text = body["metadata"]["annotations"].get(POSITION_ANNOTATION)
        stored = WatchPosition.from_json(text) if text is not None else None
        self.written.append((asyncio.get_running_loop().time(), stored))
        return body


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What came of a roll.

    Attributes
    ----------
    lease_writes, status_writes: requests that were sent, refused ones included.
    oldest_s: greatest age that the stored position had before the next write: since when the watch was beyond it.
    busiest_s: most writes of any ten seconds, per second. remembered: members of the last statuses of which one pod
        alone may hold each.
    """

    lasts_s: float
    lease_writes: int
    status_writes: int
    oldest_s: float
    busiest_s: float
    remembered: int

    @property
    def writes_per_s(self) -> float:
        """Writes of both kinds, per second."""
        return (self.lease_writes + self.status_writes) / self.lasts_s


class Roll:
    """One operator at work in a scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.loop = asyncio.get_running_loop()
        self.rng = Random(scene.seed)
        self.version = 1000
        self.moved: list[tuple[float, int]] = []
        self.stores = Stores()
        self.server = LeaseServer()
        self.kafka = ManyGroups()
        self.kube = CountingKube(refused=frozenset(f"g{n}" for n in range(scene.refused)))
        for n in range(scene.groups):
            body = self.kube.put_object(names.STATIC_GROUP_PLURAL, _static_group(n))
            self.stores.put_group(("shop", f"g{n}"), body)
            size = len(range(n, scene.pods, scene.groups))
            view = make.workload(size, name=f"w{n}", uid=f"w-{n}")
            self.stores.put_workload(view)
            self.kube.workloads["shop", f"w{n}"] = view
        self.stores.put_connection(("shop", "kafka"), _connection())
        self.pods = self._pods()
        self.reconciler = self._reconciler()
        self.queue = WorkQueue(self._round, lane_of=lambda key: key, concurrency=64)
        self.kafka_joins = 0
        self.lease = ActiveLease(
            self.server,  # type: ignore[arg-type]  # the one call of it that a Lease makes
            LeaseSettings(namespace="ops"), identity="one",
            position=lambda: self.pods.lease_position(self.reconciler.memories.unstored_since_s(0.0)),
            clock_s=self.loop.time, now_s=self.loop.time,
        )

    def _pods(self) -> PodStore:
        hooks = PodStoreHooks(
            node_of=lambda name: make.NODE, is_managed=lambda namespace, name: bool(self._groups_of(name)),
            on_change=self._changed, on_gap=lambda reason: None,
        )
        store = FedPods(
            None, hooks, rng=self.rng, now_s=self.loop.time, clock_s=self.loop.time,  # type: ignore[arg-type]
        )
        self.stream = store._streams[""]
        self.stream.watch = "1-00000001"
        self.stream._set_anchored()
        return store

    def _reconciler(self) -> Reconciler:
        metrics, may_write = Metrics(), lambda: True
        async def still_holds() -> bool:
            return True

        memories = Memories(
            kube=self.kube, pods=self.pods, stores=self.stores, metrics=metrics, may_write=may_write,
            holding=lambda: None, still_holds=still_holds, monotonic_s=self.loop.time,
        )
        connections = Connections(kube=self.kube, stores=self.stores, monotonic_s=self.loop.time)
        narrator = Narrator(kube=self.kube, metrics=metrics)
        gatherer = Gatherer(
            kube=self.kube, kafka=self.kafka, pods=self.pods, nodes=FakeNodes({"n1": make.NODE}),
            stores=self.stores,  # type: ignore[arg-type]
            connections=connections,
            metrics=metrics, cluster_uid="cluster", serves=lambda part: part is Part.POLICY,
            now_s=self.loop.time, monotonic_s=self.loop.time,
        )  # fmt: skip
        executor = Executor(
            kube=self.kube, kafka=self.kafka, stores=self.stores, connections=connections, narrator=narrator,
            may_write=may_write, note_problem=gatherer.note_problem, now_s=self.loop.time,
        )
        return Reconciler(
            gatherer=gatherer, executor=executor, stores=self.stores, memories=memories, narrator=narrator,
            metrics=metrics, may_write=may_write, now_s=self.loop.time, monotonic_s=self.loop.time,
        )  # fmt: skip

    def _groups_of(self, workload_name: str) -> frozenset[Key]:
        return self.stores.groups_of_workload("shop", workload_name)

    def _changed(self, pod: KnownPod) -> None:
        for key in self._groups_of(pod.workload_name):
            self.queue.add(key)

    async def _round(self, key: Key) -> Result:
        await asyncio.sleep(ROUND_S * self.rng.uniform(0.8, 1.2))
        return await self.reconciler.reconcile(key)

    def _take(self, version: PodVersion, *, is_deleted: bool = False) -> None:
        self.version += self.rng.choice((1, 1, 1, 4))
        version = replace(version, resource_version=self.version)
        self.pods.take_event(version, is_deleted=is_deleted)
        self.stream._advance(self.version)
        self.moved.append((self.loop.time(), self.version))

    def _steps(self, number: int, began_s: float) -> Iterator[tuple[float, Any]]:
        """Yield the events of one pod in the roll with their times: it ends, its object goes, its successor runs."""
        name = f"w{number % self.scene.groups}-{number // self.scene.groups}"
        ids = self._ids(number)
        old = make.ended(0, f"old-{number}", name=name, instance_ids=ids)
        new = make.pod_version(0, f"new-{number}", name=name, instance_ids=ids)
        yield began_s, lambda: self._take(old)
        yield began_s + 0.3, lambda: self._take(old, is_deleted=True)
        yield began_s + 1.0, lambda: self._take(replace(new, node_name="", ready_since_s=None))
        yield began_s + 4.0, lambda: self._take(new)
        yield began_s + 5.0, lambda: self._join(number)

    def _ids(self, number: int) -> frozenset[str]:
        """Return the id that a pod gets, as the status says it."""
        group, ordinal = number % self.scene.groups, number // self.scene.groups
        return frozenset({self.templates[group].replace("{podName}", f"w{group}-{ordinal}")})

    def _join(self, number: int) -> None:
        self.kafka_joins += 1
        held = self.kafka.held.setdefault(f"orders-{number % self.scene.groups}", {})
        held.update(dict.fromkeys(self._ids(number), f"member-{self.kafka_joins}"))

    async def play(self) -> Figures:
        """Let all pods be replaced, at an even pace and in the order of their ordinals."""
        scene = self.scene
        refused, self.kube.refused = self.kube.refused, frozenset()
        self.queue.start()
        for n in range(scene.groups):
            self.queue.add(("shop", f"g{n}"))
        await asyncio.sleep(30)  # ids are issued
        self.templates = [self._status(n)["injected"]["idTemplate"] for n in range(scene.groups)]
        for number in range(scene.pods):
            name = f"w{number % scene.groups}-{number // scene.groups}"
            self._take(make.pod_version(0, f"old-{number}", name=name, instance_ids=self._ids(number)))
            self._join(number)
        self.kube.refused = refused
        leasing = asyncio.create_task(self.lease.run(on_acquired=lambda: None, on_lost=lambda: None))
        await asyncio.sleep(120)  # everybody is remembered
        self.moved.clear()
        begun_s = self.loop.time()
        for number in range(scene.pods):
            for at_s, step in self._steps(number, begun_s + number * scene.lasts_s / scene.pods):
                self.loop.call_at(at_s, step)
        await asyncio.sleep(scene.lasts_s)
        figures = self._figures(begun_s, self.loop.time())
        leasing.cancel()
        await asyncio.gather(leasing, return_exceptions=True)
        await self.queue.stop()
        return figures

    def _status(self, number: int) -> Json:
        found: Json = self.kube.objects[names.STATIC_GROUP_PLURAL, "shop", f"g{number}"]["status"]
        return found

    def _figures(self, begun_s: float, ended_s: float) -> Figures:
        lease = [(at, stored) for at, stored in self.server.written if begun_s <= at < ended_s and stored is not None]
        statuses = [at for at in self.kube.written_s if begun_s <= at < ended_s]
        ages = []
        for (_, stored), (next_s, _) in pairwise(lease):
            beyond = next((at for at, version in self.moved if version > stored.scopes[""].resource_version), next_s)
            ages.append(next_s - beyond)
        written = sorted([at for at, _ in lease] + statuses)
        return Figures(
            lasts_s=ended_s - begun_s, lease_writes=len(lease), status_writes=len(statuses), oldest_s=max(ages),
            busiest_s=max(sum(at <= other < at + 10 for other in written) for at in written) / 10,
            remembered=sum(len(s["carriers"]) == 1 for n in range(self.scene.groups) for s in self._status(n)["memory"]["seats"]),
        )  # fmt: skip


def _static_group(number: int) -> Json:
    return {
        "apiVersion": names.API_VERSION, "kind": names.STATIC_GROUP_KIND,
        "metadata": {
            "namespace": "shop", "name": f"g{number}", "uid": f"sg-{number}", "generation": 1,
            "creationTimestamp": "1970-01-01T00:00:00Z",
        },
        "spec": {
            "workloadRef": {"name": f"w{number}"}, "connectionRef": {"name": "kafka"}, "groupId": f"orders-{number}",
            "groupProtocol": "Classic",
        },
    }  # fmt: skip


def _connection() -> Json:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KAFKA_CONNECTION_KIND,
        "metadata": {"namespace": "shop", "name": "kafka", "uid": "kc", "generation": 1},
        "spec": {"bootstrapServers": ["kafka.example.com:9092"]},
    }


def play(scene: Scene) -> Figures:
    """Play a scene in virtual time; the same scene gives the same figures each time."""

    async def main() -> Figures:
        return await Roll(scene).play()

    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # that a status is refused is known here
    try:
        return run(main, seed=scene.seed, is_fifo=True)
    finally:
        logging.disable(before)
