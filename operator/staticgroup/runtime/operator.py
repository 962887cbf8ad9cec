"""The composition root: every part of one operator process, made once and wired here.

Standbys run everything but the rounds: their stores and the pod watch stay warm, so that a change of the lease holder
leaves no gap. Losing the Lease stops all writes at once and ends the process; starting again is the clean way back.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ..api import names
from ..api.status import Writer
from ..core.memory import ledger_from
from ..core.pod import PodVersion
from ..core.workload import WorkloadView
from ..kafka.gateway import KafkaGateway, KioGateway
from ..kube.continuity import Continuity
from ..kube.gateway import AioKubeGateway
from ..kube.lease import ActiveLease, LeaseSettings
from ..kube.node_store import NodeStore
from ..kube.pod_store import PodStore, PodStoreHooks, PodStoreSettings
from ..kube.problem import KubeProblem, KubeProblemKind
from ..kube.transport import Transport
from .confirmations import Confirmations
from .connection_reporter import ConnectionReporter
from .connections import Connections
from .journal import Journal, Sink
from .journal_sinks import sinks_of
from .memories import Memories
from .metrics import Metrics
from .narrator import Narrator
from .recommendations import recommendations_of
from .reconciler import Reconciler
from .settings import Settings
from .stores import Stores
from .work_queue import Key, WorkQueue

log = logging.getLogger(__name__)

STARTUP_RETRY_S = 2.0
POLICY_CHECK_S = 60.0
CONNECTION_CONCURRENCY = 16
"""KafkaConnections that are probed at once."""


class LeaseLost(Exception):
    """This replica may no longer write; the process ends so that it starts afresh as a standby."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Time, randomness and sleep, so that tests can give their own."""

    now_s: Callable[[], float] = time.time
    monotonic_s: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.SystemRandom)


class Operator:
    """One operator process.

    Parameters
    ----------
    transport: connected to the API server.
    kafka: the gateway to Kafka; None makes the real one.
    journal_sinks: where the journal goes; None takes what the settings name, which is nothing by default.
    """

    def __init__(
        self,
        settings: Settings,
        transport: Transport,
        *,
        sources: Sources | None = None,
        kafka: KafkaGateway | None = None,
        journal_sinks: Sequence[Sink] | None = None,
    ) -> None:
        sources = sources or Sources()
        self.settings = settings
        self.sources = sources
        self.metrics = Metrics()
        self.stores = Stores()
        self.kube = AioKubeGateway(
            transport, instance=settings.identity, now_s=sources.now_s, secret_label=settings.secret_label
        )
        self.kafka = kafka or KioGateway(rng=sources.rng, clock=sources.monotonic_s)
        self.nodes = NodeStore(transport, on_change=self._node_changed, clock_s=sources.monotonic_s)
        self.connections = Connections(
            kube=self.kube,
            stores=self.stores,
            monotonic_s=sources.monotonic_s,
            max_age_s=settings.secret_max_age_s,
            allow_loopback=settings.allow_loopback,
        )
        operator_id = f"{settings.identity}.{int(sources.now_s() * 1000)}"
        if journal_sinks is None:
            journal_sinks = sinks_of(settings, operator_id, settings_of=self.connections.settings, metrics=self.metrics)
        self.journal = self._journal(operator_id, journal_sinks) if journal_sinks else None
        self.recommendations = recommendations_of(settings, metrics=self.metrics, now_s=sources.now_s)
        self.pods = self._pod_store(transport)
        self.confirmations = Confirmations(
            kube=self.kube, pods=self.pods, scopes=settings.watch_namespaces or ("",)
        )
        self.lease = ActiveLease(
            transport,
            self._lease_settings(),
            identity=settings.identity,
            continuity=self._storable_continuity,
            clock_s=sources.monotonic_s,
            now_s=sources.now_s,
        )
        self.policy_served = False
        self._policy_known = asyncio.Event()
        self.handlers_ready = asyncio.Event()
        self._is_active = False
        self.reconciler = self._reconciler()
        self.queue = WorkQueue(
            self.reconciler.reconcile,
            concurrency=settings.concurrency,
            lane_of=self.stores.connection_of,
            deadline_s=settings.round_deadline_s,
            on_given_up=lambda _: self.metrics.rounds.labels("given_up").inc(),
        )
        self.connection_reporter = ConnectionReporter(
            kube=self.kube,
            kafka=self.kafka,
            stores=self.stores,
            connections=self.connections,
            may_write=self.lease.holds,
            now_s=sources.now_s,
        )
        self.connection_queue = WorkQueue(
            self.connection_reporter.reconcile,
            concurrency=CONNECTION_CONCURRENCY,
            deadline_s=settings.round_deadline_s,
        )

    def _journal(self, operator_id: str, sinks: Sequence[Sink]) -> Journal:
        return Journal(
            operator_id=operator_id,
            sinks=sinks,
            stores=self.stores,
            metrics=self.metrics,
            may_write=self._may_write,
            now_s=self.sources.now_s,
        )

    def _pod_store(self, transport: Transport) -> PodStore:
        hooks = PodStoreHooks(
            node_of=self.nodes.node_of,
            is_managed=self._is_managed,
            on_change=self._pod_changed,
            on_gap=self._gap_opened,
            on_anchor=self._anchored,
            on_object=self._pod_seen,
        )
        return PodStore(
            transport,
            hooks,
            rng=self.sources.rng,
            now_s=self.sources.now_s,
            clock_s=self.sources.monotonic_s,
            scopes=self.settings.watch_namespaces or ("",),
            settings=PodStoreSettings(
                barrier_patience_s=self.settings.barrier_patience_s, relist_interval_s=self.settings.relist_s
            ),
        )

    def _lease_settings(self) -> LeaseSettings:
        s = self.settings
        return LeaseSettings(
            namespace=s.namespace,
            name=s.lease_name,
            lease_duration_s=s.lease_duration_s,
            renew_deadline_s=s.lease_renew_deadline_s,
            retry_period_s=s.lease_retry_s,
            is_election_enabled=s.leader_election,
        )

    def _reconciler(self) -> Reconciler:
        return Reconciler(
            kube=self.kube,
            kafka=self.kafka,
            pods=self.pods,
            stores=self.stores,
            connections=self.connections,
            memories=Memories(
                kube=self.kube,
                pods=self.pods,
                stores=self.stores,
                metrics=self.metrics,
                may_write=self._may_write,
                holding=self._writer,
            ),
            narrator=Narrator(kube=self.kube, metrics=self.metrics),
            metrics=self.metrics,
            may_write=self._may_write,
            cluster_uid="",
            policy_served=lambda: self.policy_served,
            now_s=self.sources.now_s,
            monotonic_s=self.sources.monotonic_s,
            force_observe=self.settings.force_observe,
            group_poll_s=self.settings.group_poll_s,
            journal=self.journal,
            recommendations=self.recommendations,
        )

    # what the watches say -------------------------------------------------------------------------------------

    def static_group_changed(self, body: dict[str, Any], *, is_deleted: bool) -> None:
        """Take one event about a StaticGroup."""
        key = _key_of(body)
        if is_deleted:
            self.stores.drop_group(key)
            self.queue.forget(key)
            self.reconciler.forget(key)
        elif self.stores.put_group(key, body) or self.reconciler.memories.is_overwritten(key):
            self._look_at(key)
        self._look_at_all(self.stores.groups_of_workload(key[0], _workload_name(body)) - {key})

    def kafka_connection_changed(self, body: dict[str, Any], *, is_deleted: bool) -> None:
        """Take one event about a KafkaConnection."""
        key = _key_of(body)
        if is_deleted:
            self.connections.forget(key)
            self.stores.drop_connection(key)
            self.connection_queue.forget(key)
        elif self.stores.put_connection(key, body):
            self.connections.distrust(key)
            if self._is_active:
                self.connection_queue.add(key)
        else:
            return
        self._look_at_all(self.stores.groups_of_connection(key))

    def workload_changed(self, view: WorkloadView, *, is_deleted: bool) -> None:
        """Take one event about a StatefulSet."""
        key = (view.namespace, view.name)
        if is_deleted:
            self.stores.workloads.pop(key, None)
        else:
            self.stores.workloads[key] = view
        self._look_at_all(self.stores.groups_of_workload(*key))

    def _pod_seen(self, raw: object, version: PodVersion) -> None:
        if self.journal is not None:
            self.journal.pod_seen(raw, version)

    def _pod_changed(self, namespace: str, owner_name: str, pod_name: str) -> None:
        if self.journal is not None:
            self.journal.pod_changed(namespace, pod_name, self.pods)
        for name in sorted({owner_name, _workload_of(pod_name)}):
            self._look_at_all(self.stores.groups_of_workload(namespace, name))

    def _node_changed(self, node_name: str) -> None:
        self.pods.node_changed(node_name)

    def _is_managed(self, namespace: str, pod_name: str) -> bool:
        return bool(self.stores.groups_of_workload(namespace, _workload_of(pod_name)))

    def _gap_opened(self, reason: str) -> None:
        self.metrics.watch_gaps.inc()

    def _anchored(self, epoch: str) -> None:
        log.info("pod watch anchored", extra={"epoch": epoch, "pods": len(self.pods)})
        self._look_at_all(frozenset(self.stores.groups))

    def _look_at(self, key: Key) -> None:
        if self._is_active:
            self.queue.add(key)

    def _look_at_all(self, keys: frozenset[Key]) -> None:
        for key in sorted(keys):
            self._look_at(key)

    # life -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until cancelled.

        Raises
        ------
        LeaseLost: another replica holds the Lease, or it could not be renewed in time.
        """
        self.reconciler.cluster_uid = await self.read_cluster_uid()
        if self.journal is not None:
            self.journal.k8s_cluster_uid = self.reconciler.cluster_uid
        resume = await self._resumable()
        self.queue.start()
        self.connection_queue.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                if self.journal is not None:
                    tasks.create_task(self.journal.run_sinks(), name="journal sinks")
                if self.recommendations is not None:
                    tasks.create_task(self.recommendations.run(), name="recommendations")
                tasks.create_task(self.nodes.run(), name="nodes")
                await self.nodes.wait_listed()
                tasks.create_task(self.pods.run(resume), name="pods")
                tasks.create_task(self._follow_policy(), name="policy")
                await self._policy_known.wait()
                await self.pods.wait_anchored()
                tasks.create_task(self.confirmations.follow(), name="confirmations")
                tasks.create_task(
                    self.lease.run(on_acquired=lambda: self._lease_acquired(tasks), on_lost=self._lease_lost),
                    name="lease",
                )
        finally:
            await self.queue.stop()
            await self.connection_queue.stop()
            await self.kafka.close()

    def _may_write(self) -> bool:
        return self._is_active and self.lease.holds()

    def _writer(self) -> Writer | None:
        held = self.lease.holding if self.settings.leader_election else None
        return Writer(lease_uid=held.lease_uid, lease_transitions=held.transitions) if held is not None else None

    def _storable_continuity(self) -> Continuity | None:
        """Return what the Lease may say of the watch; None, which keeps what it says, until all ledgers are merged."""
        return self.pods.continuity() if self._is_active else None

    def _lease_acquired(self, tasks: asyncio.TaskGroup) -> None:
        log.info("lease acquired", extra={"identity": self.settings.identity})
        tasks.create_task(self._take_over(), name="take over")

    async def _take_over(self) -> None:
        """Read again what the last holder wrote, then begin to work.

        Notes
        -----
        The list shows StaticGroups that a lagging watch has not delivered: the end of a pod of an unknown StaticGroup
        would otherwise not hold back the stored position. Its continuity is read before its ledgers, so that every
        end up to the stored position is in one of them.
        """
        stored = await self.lease.read_continuity()
        await self._load()
        if stored is not None and not self.pods.adopt(stored):
            log.warning("the watch of the last holder cannot be continued", extra={"epoch": stored.epoch})
        self.reconciler.forget_all()
        self._is_active = True
        self._look_at_all(frozenset(self.stores.groups))
        for key in self.stores.connections:
            self.connection_queue.add(key)
        if self.journal is not None:
            await self.journal.beat_forever(lambda: self.pods.epoch)

    def _lease_lost(self) -> None:
        self._is_active = False
        raise LeaseLost("the Lease was lost")

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Have the pod watch anchored meanwhile, without rounds and without the Lease, for an inquiry."""
        resume = await self._resumable()
        served = await self.kube.has_policy(self.settings.policy_name)
        self.policy_served = served is True
        nodes = asyncio.create_task(self.nodes.run(), name="nodes")
        await self.nodes.wait_listed()
        pods = asyncio.create_task(self.pods.run(resume), name="pods")
        try:
            await self.pods.wait_anchored()
            yield
        finally:
            for task in (nodes, pods):
                task.cancel()
            await asyncio.gather(nodes, pods, return_exceptions=True)

    async def read_cluster_uid(self) -> str:
        """Read the identity of the cluster, waiting for the API server if need be."""
        while isinstance(uid := await self.kube.cluster_uid(), KubeProblem):
            log.warning("waiting for the API server", extra={"problem": uid.message})
            await asyncio.sleep(STARTUP_RETRY_S)
        return uid

    async def _resumable(self) -> Continuity | None:
        """Read where the last process stopped, and then the ledger it left, before the pod watch starts."""
        resume = await self.lease.read_continuity()
        await self._load()
        return resume

    async def _load(self) -> None:
        """Fill the stores by consistent lists, merge every ledger, and hear the words about what they hold."""
        for namespace in self.settings.watch_namespaces or ("",):
            for body in await self._listed(names.KAFKA_CONNECTION_PLURAL, namespace):
                self.kafka_connection_changed(body, is_deleted=False)
            for body in await self._listed(names.STATIC_GROUP_PLURAL, namespace):
                self.static_group_changed(body, is_deleted=False)
                key = _key_of(body)
                group = self.stores.groups.get(key)
                if group is not None:
                    self.pods.merge(ledger_from(key[0], group.status))
        await self.confirmations.read()

    async def _listed(self, plural: str, namespace: str) -> list[dict[str, Any]]:
        """List our resources, waiting until that is possible."""
        while isinstance(bodies := await self.kube.list_objects(plural, namespace), KubeProblem):
            log.warning("waiting for resources to be readable", extra={"resource": plural, "problem": bodies.message})
            await asyncio.sleep(STARTUP_RETRY_S)
        return bodies

    async def _follow_policy(self) -> None:
        """Keep asking whether the injection policy is served; a cluster upgrade turns it on."""
        while True:
            served = await self.kube.has_policy(self.settings.policy_name)
            if isinstance(served, KubeProblem):
                log.warning("injection policy cannot be read", extra={"problem": served.message})
                if served.kind is KubeProblemKind.FORBIDDEN:
                    self._policy_known.set()
            elif served != self.policy_served:
                self.policy_served = served
                self._look_at_all(frozenset(self.stores.groups))
            if not isinstance(served, KubeProblem):
                self._policy_known.set()
            await asyncio.sleep(POLICY_CHECK_S if self.policy_served else STARTUP_RETRY_S)

    # probes ---------------------------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        """True once the pod watch is anchored and the handlers are at work."""
        return bool(self.pods.epoch) and self.handlers_ready.is_set()

    def watch_age_s(self) -> float | None:
        """Return how long the pod watch has been silent; None before it was anchored."""
        return self.pods.age_s() if self.pods.epoch else None

    def refresh_gauges(self) -> None:
        """Set the gauges that are read at scrape time."""
        self.metrics.watch_age.set(self.pods.age_s() if self.pods.epoch else 0)
        self.metrics.leader.set(1 if self._may_write() else 0)
        self.metrics.queue_length.set(len(self.queue))
        self.metrics.rounds_late.set(self.queue.late)


def _key_of(body: dict[str, Any]) -> Key:
    metadata = body.get("metadata") or {}
    return str(metadata.get("namespace", "")), str(metadata.get("name", ""))


def _workload_name(body: dict[str, Any]) -> str:
    return str(((body.get("spec") or {}).get("workloadRef") or {}).get("name", ""))


def _workload_of(pod_name: str) -> str:
    return pod_name.rpartition("-")[0]
