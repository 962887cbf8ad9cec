"""The life of one operator process: it stands by, takes the Lease, lets rounds run, and stands by again.

Standbys run everything but the rounds: their stores and the pod watch stay warm, so that a change of the lease holder
leaves no gap. Losing the Lease stops all writes at once and makes this replica a standby; when it holds the Lease again
it does all that a new holder does. So the process outlasts an API server that is away, however long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from ..api.resources.status import Writer
from ..core.status.memory import ledger_from
from ..kafka.gateway import KafkaGateway
from ..kube.lease import Holding
from ..kube.pods.continuity import Continuity
from ..kube.problem import KubeProblem
from ..kube.transport import Transport
from .assembly import Assembly, Sources
from .journal import Sink
from .memory.put_back import Looked
from .process.settings import Settings

log = logging.getLogger(__name__)

STARTUP_RETRY_S = 2.0
WIND_DOWN_S = 0.5
"""News of an own write takes milliseconds, and a Deployment that rolls waits for as long."""


class Operator(Assembly):
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
        super().__init__(settings, transport, sources=sources, kafka=kafka, journal_sinks=journal_sinks)
        self.reached = asyncio.Event()
        """Set once the API server has answered."""
        self._looked: tuple[Holding, Looked] | None = None
        """Under which holding of the Lease rounds ran last, and how far StaticGroups were looked at when it was lost."""
        self._term: asyncio.Task[None] | None = None
        self._one_term = asyncio.Lock()

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
                if self._resumed_timeline:
                    await self.node_evidence.begin()
                tasks.create_task(self.pods.run(resume, restored=self.lease.restored), name="pods")
                tasks.create_task(self.injection.follow(), name="injection")
                await self.injection.wait_known()
                await self.pods.wait_anchored()
                tasks.create_task(self.words.follow(), name="confirmations")
                tasks.create_task(
                    self.lease.run(on_acquired=lambda: self._lease_acquired(tasks), on_lost=self._lease_lost),
                    name="lease",
                )
                try:
                    await asyncio.Event().wait()
                finally:
                    await self._wind_down()
        finally:
            await self.kafka.close()

    async def _wind_down(self) -> None:
        """Cut rounds off, then see their last writes come back, so that the Lease, which is released next, tells of them.

        Notes
        -----
        Whoever comes when the API server has forgotten these events, after five minutes, could not tell whose writes they were.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(WIND_DOWN_S):
                if self._term is not None:
                    self._term.cancel()
                    await asyncio.wait([self._term])
                while self.has_taken_over and not self.reconciler.memories.are_seen():  # noqa: ASYNC110 - over in milliseconds
                    await asyncio.sleep(WIND_DOWN_S / 100)

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
        found = self.pods.continuity() if self.has_taken_over else None
        if found is None:
            return None
        return self.look_back.stored().told_in(found)

    def _lease_acquired(self, tasks: asyncio.TaskGroup) -> None:
        log.info("lease acquired", extra={"identity": self.settings.identity})
        self._term = tasks.create_task(self._lead(), name="term")

    def _lease_lost(self) -> None:
        """Stand by: from here on nothing is written, and what is under way is cut off."""
        log.warning("lease lost, standing by", extra={"identity": self.settings.identity})
        if self.has_taken_over and (held := self.lease.holding) is not None:
            self._looked = held, self.look_back.stored()
        self.is_active = self.has_taken_over = False
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
        end up to the stored position is in one of them. What was put back is looked for last, up to the moment at which
        this replica is active: whatever comes later is told by the listener.
        """
        await self.pods.wait_anchored()
        stored = await self.lease.read_continuity()
        await asyncio.gather(*(s.refresh() for s in self.streams.of_our_kinds))
        await self._merge_ledgers()
        if stored is not None and not self.pods.adopt(stored):
            log.warning("the watch of the last holder cannot be continued", extra={"epoch": stored.epoch})
        await self.look_back.begin(self._looked_since(stored))
        self.reconciler.forget_all()
        self.node_evidence.forget_all()
        self.connection_reporter.forget_all()
        self.queue, self.connection_queue = self._queues()
        self.queue.start()
        self.connection_queue.start()
        self.is_active = self.has_taken_over = True
        self.listener.look_at_everything()

    def _looked_since(self, stored: Continuity | None) -> Continuity | None:
        """Return what the Lease says, but of StaticGroups what this replica knows better where nobody held the Lease since it did.

        Notes
        -----
        An API server that was away kept the last words from the Lease, and one that has restarted tells nothing of before.
        A Lease that was deleted, or emptied, ends no watch that goes on: then it is looked back from what it said last.
        """
        stored = stored if stored is not None else self.lease.told
        if stored is None or self._looked is None or self._looked[0] != self.lease.holding:
            return stored
        return self._looked[1].told_in(stored)

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
