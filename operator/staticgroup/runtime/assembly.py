"""Every part of one operator process, made once and wired here; `operator.py` runs them together."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ..api.resources.memory import Writer
from ..kafka.gateway import KioGateway
from ..kafka.login.shared_credentials import SharedCredentials
from ..kube.gateway import KubeGateway
from ..kube.lease import ActiveLease, LeaseSettings
from ..kube.nodes.store import NodeStore
from ..kube.pods.position import WatchPosition
from ..kube.pods.store import PodStore
from ..kube.transport import Transport
from .connections.connections import Connections
from .connections.reporter import ConnectionReporter
from .connections.topic_sizes import TopicSizes
from .executor import Executor
from .gather import Gatherer
from .hand_outs import HandOuts
from .listener import Listener
from .memory.memory import Memories
from .narrator import Narrator
from .process.fleet import Sinks, journal_of, recommendations_of
from .process.informers import Informers
from .process.injection import Injection
from .process.metrics import Metrics
from .process.settings import Settings
from .reconciler import Reconciler
from .stores import Stores
from .work_queue import Key, WorkQueue

CONNECTION_CONCURRENCY = 16
"""KafkaConnections that are probed at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Time, randomness and sleep, so that tests can give their own."""

    now_s: Callable[[], float] = time.time
    monotonic_s: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.SystemRandom)


class Assembly:
    """The parts.

    Parameters
    ----------
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
        self.reached = asyncio.Event()
        """Set once the API server has answered and the Lease was read: a later LIST is as new as its position."""
        self._term: asyncio.Task[None] | None = None
        self._term_began_s = 0.0
        self._resumed: WatchPosition | None = None
        self._one_term = asyncio.Lock()
        self.settings = settings
        self.sources = sources = sources or Sources()
        self.metrics = Metrics(lease=f"{settings.namespace}/{settings.lease_name}")
        self.stores = Stores()
        self.listener = Listener(self)
        self.kube = KubeGateway(
            transport, instance=settings.identity, now_s=sources.now_s, secret_label=settings.secret_label
        )
        self.kafka = kafka or KioGateway(rng=sources.rng, clock=sources.monotonic_s, now_s=sources.now_s)
        self.nodes = NodeStore(on_change=self.listener.node_changed, now_s=sources.now_s)
        self.connections = Connections(
            kube=self.kube,
            stores=self.stores,
            monotonic_s=sources.monotonic_s,
            max_age_s=settings.secret_max_age_s,
            allow_loopback=settings.allow_loopback,
            shared=SharedCredentials(tokens_path=settings.tokens_path, aws_msk_iam=settings.aws_msk_iam),
            own_namespace=settings.namespace,
        )
        self.journal = journal_of(
            settings,
            stores=self.stores,
            metrics=self.metrics,
            settings_of=self.connections.settings,
            may_write=self._may_write,
            now_s=sources.now_s,
            sinks=journal_sinks,
        )
        self.recommendations = recommendations_of(settings, metrics=self.metrics, now_s=sources.now_s)
        self.pods = PodStore(
            transport,
            self.listener.pod_hooks(),
            rng=sources.rng,
            now_s=sources.now_s,
            clock_s=sources.monotonic_s,
            scopes=settings.watch_namespaces or ("",),
            barrier_patience_s=settings.barrier_patience_s,
            relist_interval_s=settings.relist_s,
        )
        self.outage = transport.outage
        self.outage.on_end = self._outage_ended
        self.injection = Injection(
            self.kube,
            policy_name=settings.policy_name,
            webhook_name=settings.webhook_name,
            slots_name=settings.slots_name if settings.deployments else "",
            is_outage=lambda: self.outage.is_on,
            on_change=self.listener.request_all_rounds,
        )
        self.informers = Informers(
            transport, self.listener, self.stores, self.nodes, settings, rng=sources.rng, clock_s=sources.monotonic_s
        )
        self.lease = ActiveLease(
            transport,
            LeaseSettings(
                namespace=settings.namespace,
                name=settings.lease_name,
                lease_duration_s=settings.lease_duration_s,
                renew_deadline_s=settings.lease_renew_deadline_s,
                retry_period_s=settings.lease_retry_s,
                is_election_enabled=settings.leader_election,
            ),
            identity=settings.identity,
            position=self._lease_position,
            clock_s=sources.monotonic_s,
            now_s=sources.now_s,
            on_went_back=self.pods.begin_anew,
        )
        self.reconciler = self._reconciler(lambda: transport.clock_ahead_s)
        self.connection_reporter = ConnectionReporter(
            kube=self.kube,
            kafka=self.kafka,
            stores=self.stores,
            connections=self.connections,
            may_write=self._may_write,
            now_s=sources.now_s,
            docs_url=self.settings.docs_url,
        )
        self.hand_outs = HandOuts(
            gatherer=self.reconciler.gatherer,
            memories=self.reconciler.memories,
            executor=self.reconciler.executor,
            force_observe=settings.force_observe,
        )
        self.queue, self.slot_queue, self.connection_queue = self._queues()

    def _queues(self) -> tuple[WorkQueue, WorkQueue, WorkQueue]:
        """Make the queues of one term: what an earlier term wanted is not done in a later one."""
        settings = self.settings
        make = partial(WorkQueue, deadline_s=settings.round_deadline_s)
        rounds = make(
            self.reconciler.reconcile, concurrency=settings.concurrency, lane_of=self.stores.lane_of,
            on_given_up=lambda _: self.metrics.rounds.labels("given_up").inc(),
        )  # fmt: skip
        hand_outs = make(self.hand_outs.hand_out, concurrency=settings.concurrency)
        return rounds, hand_outs, make(self.connection_reporter.reconcile, concurrency=CONNECTION_CONCURRENCY)

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
            serves=self.injection.serves,
            now_s=sources.now_s,
            monotonic_s=sources.monotonic_s,
            recommendations=self.recommendations,
            lifecycle=self.settings.node_lifecycle,
            topic_sizes=TopicSizes(kafka=self.kafka, monotonic_s=sources.monotonic_s),
            settle_least_s=self.settings.settle_s,
            clock_ahead_s=clock_ahead_s,
        )
        executor = Executor(
            kube=self.kube,
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
            ask_hand_out=self._ask_hand_out,
            docs_url=self.settings.docs_url,
            group_poll_s=self.settings.group_poll_s,
            journal=self.journal,
        )

    # what the parts ask the operator ------------------------------------------------------------------------------

    def _may_write(self) -> bool:
        """True while rounds make sense: none can end well, and each would complain, while the API server is away."""
        return self.is_active and not self.outage.is_on and self.lease.holds()

    def _writer(self) -> Writer | None:
        """Return as whom a status is written; None without leader election, or while the Lease is not held."""
        held = self.lease.holding if self.settings.leader_election else None
        return Writer(lease_uid=held.lease_uid, lease_transitions=held.transitions) if held is not None else None

    def _lease_position(self) -> WatchPosition | None:
        """Return what the Lease may say of the watch; None, which keeps it, until this replica has taken over."""
        if not self.is_active:
            return None
        return self.pods.lease_position(self.reconciler.memories.unstored_since_s(self._term_began_s))

    def _ask_hand_out(self, key: Key) -> None:
        group = self.stores.groups.get(key)
        if group is not None and group.spec.workload_ref.known_kind.has_slots:
            self.slot_queue.add(key)

    def _outage_ended(self) -> None:
        """Look at everything at once when the API server is back: what waits for its next try need not."""
        for informer in self.informers.all:
            informer.hurry()
        if self.is_active:
            self.listener.request_everything()
