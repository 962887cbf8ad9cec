"""Every part of one operator process, made once and wired here; `operator.py` runs them together."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from ..api.resources.memory import Writer
from ..kafka.gateway import KioGateway
from ..kafka.login.shared_credentials import SharedCredentials
from ..kube.gateway import KubeGateway
from ..kube.lease import ActiveLease, LeaseSettings
from ..kube.nodes.store import NodeStore
from ..kube.pods.position import WatchPosition
from ..kube.pods.store import PodStore
from ..kube.transport import Transport
from .connections import Connections
from .connections.reporter import ConnectionReporter
from .connections.topic_sizes import TopicSizes
from .executor import Executor
from .fleet import Sinks, journal_of, recommendations_of
from .gather import Gatherer
from .listener import Listener
from .memory.memory import Memories
from .narrator import Narrator
from .process.informers import Informers
from .process.injection import Injection
from .process.metrics import Metrics
from .process.settings import Settings
from .reconciler import Reconciler
from .stores import Stores
from .work_queue import WorkQueue

CONNECTION_CONCURRENCY = 16
"""KafkaConnections that are probed at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Time, randomness and sleep, so that tests can give their own."""

    now_s: Callable[[], float] = time.time
    monotonic_s: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.SystemRandom)


class Assembly(ABC):
    """The parts.

    Parameters
    ----------
    transport: connected to the API server.
    kafka: the gateway to Kafka; None makes the real one.
    journal_sinks: where the journal goes; None takes what the settings name, which is nothing by default.

    Attributes
    ----------
    is_active: True while rounds may begin here.
    """

    def __init__(
        self, settings: Settings, transport: Transport, *, sources: Sources | None = None,
        kafka: KioGateway | None = None, journal_sinks: Sinks | None = None,
    ) -> None:
        self.is_active = False
        self.settings = settings
        self.sources = sources = sources or Sources()
        self.metrics = Metrics(lease=f"{settings.namespace}/{settings.lease_name}")
        self.stores = Stores()
        self.listener = Listener(self)
        self.kube = KubeGateway(
            transport, instance=settings.identity, now_s=sources.now_s, secret_label=settings.secret_label
        )
        self.kafka = kafka or KioGateway(rng=sources.rng, clock=sources.monotonic_s, now_s=sources.now_s)
        self.nodes = NodeStore(
            on_change=self.listener.node_changed, now_s=sources.now_s
        )
        self.connections = self._connections()
        self.journal = journal_of(
            settings,
            stores=self.stores,
            metrics=self.metrics,
            settings_of=self.connections.settings,
            may_write=self._may_write,
            now_s=sources.now_s,
            sinks=journal_sinks,
        )
        self.listener.journal = self.journal
        self.recommendations = recommendations_of(settings, metrics=self.metrics, now_s=sources.now_s)
        self.pods = self._pod_store(transport)
        self.outage = transport.outage
        self.outage.on_end = self._outage_ended
        self.injection = self._injection()
        self.informers = Informers(
            transport, self.listener, self.stores, self.nodes, settings, rng=sources.rng, clock_s=sources.monotonic_s
        )
        self.lease = self._active_lease(transport)
        self.reconciler = self._reconciler(lambda: transport.clock_ahead_s)
        self.connection_reporter = self._connection_reporter()
        self.queue, self.connection_queue = self._queues()

    def _connections(self) -> Connections:
        return Connections(
            kube=self.kube,
            stores=self.stores,
            monotonic_s=self.sources.monotonic_s,
            max_age_s=self.settings.secret_max_age_s,
            allow_loopback=self.settings.allow_loopback,
            shared=SharedCredentials(tokens_path=self.settings.tokens_path, aws_msk_iam=self.settings.aws_msk_iam),
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

    def _injection(self) -> Injection:
        return Injection(
            self.kube,
            policy_name=self.settings.policy_name,
            webhook_name=self.settings.webhook_name,
            is_outage=lambda: self.outage.is_on,
            on_change=self.listener.request_all_rounds,
        )

    def _active_lease(self, transport: Transport) -> ActiveLease:
        return ActiveLease(
            transport,
            self._lease_settings(),
            identity=self.settings.identity,
            position=self._lease_position,
            clock_s=self.sources.monotonic_s,
            now_s=self.sources.now_s,
            on_went_back=self.pods.begin_anew,
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
            barrier_patience_s=self.settings.barrier_patience_s,
            relist_interval_s=self.settings.relist_s,
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

    def _reconciler(self, clock_ahead_s: Callable[[], float]) -> Reconciler:
        sources, narrator = self.sources, Narrator(kube=self.kube, metrics=self.metrics)
        gatherer = Gatherer(
            kube=self.kube,
            kafka=self.kafka,
            pods=self.pods,
            nodes=self.nodes,
            stores=self.stores,
            connections=self.connections,
            metrics=self.metrics,
            cluster_uid="",
            policy_served=lambda: self.injection.policy_served,
            webhook_served=lambda: self.injection.webhook_served,
            now_s=sources.now_s,
            monotonic_s=sources.monotonic_s,
            recommendations=self.recommendations,
            lifecycle=self.settings.node_lifecycle,
            topic_sizes=TopicSizes(kafka=self.kafka, monotonic_s=sources.monotonic_s),
            settle_least_s=self.settings.settle_s,
            clock_ahead_s=clock_ahead_s,
        )
        executor = Executor(
            kafka=self.kafka,
            stores=self.stores,
            connections=self.connections,
            narrator=narrator,
            may_write=self._may_write,
            note_problem=gatherer.note_problem,
            now_s=sources.now_s,
        )
        memories = Memories(
            kube=self.kube,
            pods=self.pods,
            stores=self.stores,
            metrics=self.metrics,
            may_write=self._may_write,
            holding=self._writer,
            still_holds=self.lease.confirm,
            monotonic_s=sources.monotonic_s,
        )
        return Reconciler(
            gatherer=gatherer,
            executor=executor,
            stores=self.stores,
            memories=memories,
            narrator=narrator,
            metrics=self.metrics,
            may_write=self._may_write,
            now_s=sources.now_s,
            monotonic_s=sources.monotonic_s,
            force_observe=self.settings.force_observe,
            group_poll_s=self.settings.group_poll_s,
            journal=self.journal,
        )

    # what the parts ask the operator ------------------------------------------------------------------------------

    @abstractmethod
    def _may_write(self) -> bool:
        """True while this process may write."""

    @abstractmethod
    def _writer(self) -> Writer | None:
        """Return as whom a status is written; None without leader election, or while the Lease is not held."""

    @abstractmethod
    def _lease_position(self) -> WatchPosition | None:
        """Return what the Lease may say of the watch; None keeps what it says."""

    @abstractmethod
    def _outage_ended(self) -> None:
        """Hear that the API server is back."""
