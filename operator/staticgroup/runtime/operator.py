"""The composition root: every part of one operator process, made once and wired here.

Standbys run everything but the rounds: their stores and the pod watch stay warm, so that a change of the lease holder
leaves no gap. Losing the Lease stops all writes at once and makes this replica a standby; when it holds the Lease again
it does all that a new holder does. So the process outlasts an API server that is away, however long.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ..api.journal import watch_scope_of
from ..api.resources.status import Writer
from ..core.status.memory import ledger_from
from ..kafka.gateway import KafkaGateway, KioGateway
from ..kafka.login.lent import Lent
from ..kube.gateway import AioKubeGateway
from ..kube.lease import ActiveLease, LeaseSettings
from ..kube.nodes.ledger import NodeLedger
from ..kube.nodes.looks import NodeLooks
from ..kube.nodes.records import NodeRecords
from ..kube.nodes.store import NodeStore
from ..kube.pods.continuity import Continuity
from ..kube.pods.hooks import PodStoreSettings
from ..kube.pods.store import PodStore
from ..kube.problem import KubeProblem
from ..kube.transport import Transport
from .connections import Connections
from .connections.reporter import ConnectionReporter
from .injection import Injection
from .journal import Journal, Sink
from .journal.sinks import sinks_of
from .listener import Listener
from .memory.histories import Histories
from .memory.memories import Memories
from .metrics import Metrics
from .narrator import Narrator
from .nodes.evidence import NodeEvidence
from .process.settings import Settings, node_rules
from .process.streams import Streams
from .recommendations import recommendations_of
from .reconciler import Reconciler
from .stores import Stores
from .words import Words
from .work_queue import WorkQueue

log = logging.getLogger(__name__)

STARTUP_RETRY_S = 2.0
CONNECTION_CONCURRENCY = 16
"""KafkaConnections that are probed at once."""


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
        self, settings: Settings, transport: Transport, *, sources: Sources | None = None,
        kafka: KafkaGateway | None = None, journal_sinks: Sequence[Sink] | None = None,
    ) -> None:
        self.settings = settings
        self.sources = sources = sources or Sources()
        self.metrics = Metrics()
        self.stores = Stores()
        self.listener = Listener(self)
        self.kube = AioKubeGateway(
            transport, instance=settings.identity, now_s=sources.now_s, secret_label=settings.secret_label
        )
        self.kafka = kafka or KioGateway(rng=sources.rng, clock=sources.monotonic_s, now_s=sources.now_s)
        self._resumed_timeline = ""
        self.node_ledger = self._node_ledger(transport)
        self.nodes = NodeStore(
            transport, on_change=self.listener.node_changed, rng=sources.rng, clock_s=sources.monotonic_s, ledger=self.node_ledger
        )
        self.connections = self._connections()
        self.journal = self._journal(journal_sinks)
        self.recommendations = recommendations_of(settings, metrics=self.metrics, now_s=sources.now_s)
        self.pods = self._pod_store(transport)
        self.words = self._words()
        self.outage = transport.outage
        self.outage.on_end = self._outage_ended
        self.injection = self._injection()
        self.streams = Streams.of(transport, self.listener, self.stores, settings, rng=sources.rng, clock_s=sources.monotonic_s)
        self.lease = self._active_lease(transport)
        self.reached = asyncio.Event()
        """Set once the API server has answered."""
        self.is_active = False
        self._has_merged = False
        self._term: asyncio.Task[None] | None = None
        self._one_term = asyncio.Lock()
        self.reconciler = self._reconciler()
        self.node_evidence = self._node_evidence(transport)
        self.connection_reporter = self._connection_reporter()
        self.queue, self.connection_queue = self._queues()

    def _connections(self) -> Connections:
        return Connections(
            kube=self.kube,
            stores=self.stores,
            monotonic_s=self.sources.monotonic_s,
            max_age_s=self.settings.secret_max_age_s,
            allow_loopback=self.settings.allow_loopback,
            lent=Lent(tokens_path=self.settings.tokens_path, aws_msk_iam=self.settings.aws_msk_iam),
            own_namespace=self.settings.namespace,
        )

    def _connection_reporter(self) -> ConnectionReporter:
        return ConnectionReporter(
            kube=self.kube,
            kafka=self.kafka,
            stores=self.stores,
            connections=self.connections,
            may_write=self._may_write,
            now_s=self.sources.now_s,
        )

    def _words(self) -> Words:
        return Words(
            kube=self.kube,
            pods=self.pods,
            scopes=self.settings.watch_namespaces or ("",),
            on_gap_words=self.listener.look_at_all_groups,
        )

    def _injection(self) -> Injection:
        return Injection(
            self.kube,
            policy_name=self.settings.policy_name,
            webhook_name=self.settings.webhook_name,
            is_outage=lambda: self.outage.is_on,
            on_change=self.listener.look_at_all_groups,
        )

    def _active_lease(self, transport: Transport) -> ActiveLease:
        return ActiveLease(
            transport,
            self._lease_settings(),
            identity=self.settings.identity,
            continuity=self._storable_continuity,
            clock_s=self.sources.monotonic_s,
            now_s=self.sources.now_s,
            on_restored=self.pods.restored,
            on_went_back=self.pods.went_back,
        )

    def _journal(self, sinks: Sequence[Sink] | None) -> Journal | None:
        """Make the journal; None when it has no sink, neither given nor named by the settings."""
        operator_id = f"{self.settings.identity}.{int(self.sources.now_s() * 1000)}"
        if sinks is None:
            settings_of = self.connections.settings
            sinks = sinks_of(self.settings, operator_id, settings_of=settings_of, metrics=self.metrics)
        if not sinks:
            return None
        return Journal(
            operator_id=operator_id,
            sinks=sinks,
            stores=self.stores,
            metrics=self.metrics,
            may_write=self._may_write,
            now_s=self.sources.now_s,
            watch_scope=watch_scope_of(self.settings.watch_namespaces),
        )

    def _queues(self) -> tuple[WorkQueue, WorkQueue]:
        """Make the queues of one term: what an earlier term wanted is not done in a later one."""
        return (
            WorkQueue(
                self.reconciler.reconcile,
                concurrency=self.settings.concurrency,
                lane_of=self.stores.lane_of,
                deadline_s=self.settings.round_deadline_s,
                on_given_up=lambda _: self.metrics.rounds.labels("given_up").inc(),
            ),
            WorkQueue(
                self.connection_reporter.reconcile,
                concurrency=CONNECTION_CONCURRENCY,
                deadline_s=self.settings.round_deadline_s,
            ),
        )

    def _pod_store(self, transport: Transport) -> PodStore:
        return PodStore(
            transport,
            self.listener.pod_hooks(),
            rng=self.sources.rng,
            now_s=self.sources.now_s,
            clock_s=self.sources.monotonic_s,
            scopes=self.settings.watch_namespaces or ("",),
            settings=PodStoreSettings(
                barrier_patience_s=self.settings.barrier_patience_s, relist_interval_s=self.settings.relist_s
            ),
        )

    def _lease_settings(self) -> LeaseSettings:
        return LeaseSettings(
            namespace=self.settings.namespace,
            name=self.settings.lease_name,
            lease_duration_s=self.settings.lease_duration_s,
            renew_deadline_s=self.settings.lease_renew_deadline_s,
            retry_period_s=self.settings.lease_retry_s,
            is_election_enabled=self.settings.leader_election,
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
                still_holds=self.lease.confirm,
                monotonic_s=self.sources.monotonic_s,
            ),
            histories=Histories(
                kube=self.kube,
                pods=self.pods,
                policy_served=lambda: self.injection.policy_served,
                webhook_served=lambda: self.injection.webhook_served,
                words=lambda: self.words.gap_words,
                now_s=self.sources.now_s,
                monotonic_s=self.sources.monotonic_s,
                swept=lambda key: self.node_evidence.swept(key),  # noqa: PLW0108 - it is made later
            ),
            narrator=Narrator(kube=self.kube, metrics=self.metrics),
            metrics=self.metrics,
            may_write=self._may_write,
            cluster_uid="",
            policy_served=lambda: self.injection.policy_served,
            webhook_served=lambda: self.injection.webhook_served,
            now_s=self.sources.now_s,
            monotonic_s=self.sources.monotonic_s,
            force_observe=self.settings.force_observe,
            group_poll_s=self.settings.group_poll_s,
            journal=self.journal,
            recommendations=self.recommendations,
        )

    def _node_ledger(self, transport: Transport) -> NodeLedger:
        """Make what remembers nodes, dated by the API server's clock; what it asks of others it asks later."""
        return NodeLedger(
            now_s=lambda: self.sources.now_s() + transport.clock_ahead_s,
            cluster_uid=lambda: self.reconciler.cluster_uid,
            timeline=lambda: self.pods.timeline or self._resumed_timeline,
            trusts_deletion=node_rules(self.settings).trusts_deletion,
            clock_apart_s=lambda: transport.clock_ahead_s,
        )

    def _node_evidence(self, transport: Transport) -> NodeEvidence:
        settings, clock_s = self.settings, self.sources.monotonic_s
        return NodeEvidence(
            pods=self.pods,
            stores=self.stores,
            memories=self.reconciler.memories,
            ledger=self.node_ledger,
            records=NodeRecords(transport, self.node_ledger, namespace=settings.namespace, prefix=settings.lease_name),
            looks=NodeLooks(transport, scopes=settings.watch_namespaces or ("",), clock_s=clock_s),
            rules=node_rules(settings),
            is_needed=self.listener.is_needed,
            look_again=self.listener.look_at,
            now_s=self.sources.now_s,
            monotonic_s=clock_s,
        )

    # life -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until cancelled; nothing that the API server does or fails to do ends it."""
        self.reconciler.cluster_uid = await self.read_cluster_uid()
        self.reached.set()
        if self.journal is not None:
            self.journal.k8s_cluster_uid = self.reconciler.cluster_uid
        try:
            async with asyncio.TaskGroup() as tasks:
                if self.journal is not None:
                    tasks.create_task(self.journal.run_sinks(), name="journal sinks")
                if self.recommendations is not None:
                    tasks.create_task(self.recommendations.run(), name="recommendations")
                resume = await self.lease.read_continuity()
                self._resumed_timeline = resume.timeline if resume is not None else ""
                for stream in self.streams.all:
                    tasks.create_task(stream.run(), name=stream.name)
                await self._merge_ledgers()
                tasks.create_task(self.nodes.run(), name="nodes")
                await self.nodes.wait_listed()
                if self._resumed_timeline:  # ends are believed as they are seen, and what a kubelet's word is worth is written down
                    await self.node_evidence.records.read()
                tasks.create_task(self.pods.run(resume, restored=self.lease.restored), name="pods")
                tasks.create_task(self.injection.follow(), name="injection")
                await self.injection.wait_known()
                await self.pods.wait_anchored()
                tasks.create_task(self.words.follow(), name="confirmations")
                tasks.create_task(
                    self.lease.run(on_acquired=lambda: self._lease_acquired(tasks), on_lost=self._lease_lost),
                    name="lease",
                )
        finally:
            await self.kafka.close()

    def _may_write(self) -> bool:
        """True while rounds make sense: none can end well, and each would complain, while the API server is away."""
        return self.is_active and not self.outage.is_on and self.lease.holds()

    def _writer(self) -> Writer | None:
        held = self.lease.holding if self.settings.leader_election else None
        return Writer(lease_uid=held.lease_uid, lease_transitions=held.transitions) if held is not None else None

    def _storable_continuity(self) -> Continuity | None:
        """Return what the Lease may say of the watch; None, which keeps what it says, until all ledgers are merged.

        Notes
        -----
        When the process ends, rounds are cut off first, and then the Lease is released with the last position.
        """
        return self.pods.continuity() if self._has_merged else None

    def _lease_acquired(self, tasks: asyncio.TaskGroup) -> None:
        log.info("lease acquired", extra={"identity": self.settings.identity})
        self._term = tasks.create_task(self._lead(), name="term")

    def _lease_lost(self) -> None:
        """Stand by: from here on nothing is written, and what is under way is cut off."""
        log.warning("lease lost, standing by", extra={"identity": self.settings.identity})
        self.is_active = self._has_merged = False
        if self._term is not None:
            self._term.cancel()

    async def _lead(self) -> None:
        """Do what a new holder does, then let rounds run until the Lease is lost.

        Notes
        -----
        A term begins only when nothing of the one before is at work any more. A round that goes on under a Lease that
        was lost and won again would write what it remembers over what another holder wrote in between.
        """
        async with self._one_term:
            try:
                await self._take_over()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self.node_evidence.follow(), name="node evidence")
                    if self.journal is not None:
                        tasks.create_task(self.journal.beat_forever(lambda: self.pods.epoch), name="journal beat")
                    await asyncio.Event().wait()
            finally:
                self.is_active = False
                await self.queue.stop()
                await self.connection_queue.stop()
                self.metrics.forget_all()

    async def _take_over(self) -> None:
        """Read again what the last holder wrote, then begin to work.

        Notes
        -----
        The list shows StaticGroups that a lagging watch has not delivered: the end of a pod of an unknown StaticGroup
        would otherwise not hold back the stored position. Its continuity is read before its ledgers, so that every
        end up to the stored position is in one of them.
        """
        await self.pods.wait_anchored()
        stored = await self.lease.read_continuity()
        await asyncio.gather(*(s.refresh() for s in self.streams.of_our_kinds))
        await self._merge_ledgers()
        if stored is not None and not self.pods.adopt(stored):
            log.warning("the watch of the last holder cannot be continued", extra={"epoch": stored.epoch})
        self.reconciler.forget_all()
        self.node_evidence.forget_all()
        self.connection_reporter.forget_all()
        self.queue, self.connection_queue = self._queues()
        self.queue.start()
        self.connection_queue.start()
        self.is_active = self._has_merged = True
        self.listener.look_at_everything()

    def _outage_ended(self) -> None:
        """Look at everything at once when the API server is back: what waits for its next try need not."""
        for stream in self.streams.all:
            stream.hurry()
        if self.is_active:
            self.listener.look_at_everything()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Have the pod watch anchored meanwhile, without rounds and without the Lease, for an inquiry."""
        self.reconciler.cluster_uid = await self.read_cluster_uid()
        await self.injection.read()
        resume = await self.lease.read_continuity()
        parts = [asyncio.create_task(s.run(), name=s.name) for s in self.streams.of_our_kinds]
        parts.append(asyncio.create_task(self.nodes.run(), name="nodes"))
        try:
            await self._merge_ledgers()
            await self.nodes.wait_listed()
            parts.append(asyncio.create_task(self.pods.run(resume, restored=self.lease.restored), name="pods"))
            await self.pods.wait_anchored()
            await self.node_evidence.records.read()  # which are of one cluster and timeline, that are known by now
            yield
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def read_cluster_uid(self) -> str:
        """Read the identity of the cluster, waiting for the API server if need be."""
        told = ""
        while isinstance(uid := await self.kube.cluster_uid(), KubeProblem):
            if uid.message != told:
                log.warning("waiting for the API server", extra={"problem": uid.message})
                told = uid.message
            await asyncio.sleep(STARTUP_RETRY_S)
        return uid

    async def _merge_ledgers(self) -> None:
        """Merge the ledger of every StaticGroup, once all of them and all connections are known; then hear the words."""
        await asyncio.gather(*(s.wait_complete() for s in self.streams.of_our_kinds))
        for key, group in self.stores.groups.items():
            self.pods.merge(ledger_from(key[0], group.status, group.metadata.uid, timeline=self.pods.timeline))
        await self.words.read()

    # probes ---------------------------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        """True once the pod watch is anchored and all stores are complete."""
        return bool(self.pods.epoch) and all(stream.is_complete for stream in self.streams.all)

    def watch_age_s(self) -> float | None:
        """Return for how long the pod watch has been silent although the API server answered; None before it was anchored.

        Notes
        -----
        A restart helps a watch that is blind. It does not help when there is nobody to be heard: it would only end the
        process because the API server is away, and the watch has a moment to come back after that.
        """
        return min(self.pods.age_s(), self.outage.answering_s()) if self.pods.epoch else None

    def refresh_gauges(self) -> None:
        """Set the gauges that are read at scrape time."""
        self.metrics.watch_age.set(self.pods.age_s() if self.pods.epoch else 0)
        self.metrics.leader.set(1 if self._may_write() else 0)
        self.metrics.queue_length.set(len(self.queue))
        self.metrics.rounds_late.set(self.queue.late)
