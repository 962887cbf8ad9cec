"""The life of one operator process: it stands by, takes the Lease, lets rounds run, and stands by again.

Standbys run everything but the rounds: their stores and the pod watch stay warm, so that a change of the lease holder
leaves no gap. Losing the Lease stops all writes at once and makes this replica a standby; when it holds the Lease again
it does all that a new holder does. So the process outlasts an API server that is away, however long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from ..kube.pods.position import WatchPosition
from ..kube.problem import KubeProblem
from .assembly import Assembly
from .process.informers import list_once

log = logging.getLogger(__name__)

STARTUP_RETRY_S = 2.0
WIND_DOWN_S = 0.5
"""News of an own write takes milliseconds, and a Deployment that rolls waits for as long."""


class Operator(Assembly):
    """One operator process, of the parts that `Assembly` makes."""

    async def run(self) -> None:
        """Work until cancelled; nothing that the API server does or fails to do ends it."""
        self.reconciler.gatherer.cluster_uid = await self.read_cluster_uid()
        try:
            async with asyncio.TaskGroup() as tasks:
                if self.journal is not None:
                    tasks.create_task(self.journal.run(self.reconciler.gatherer.cluster_uid), name="journal")
                if self.recommendations is not None:
                    tasks.create_task(self.recommendations.run(), name="recommendations")
                resume = self._resumed = await self.lease.read_position()
                self.reached.set()
                await asyncio.gather(*(i.wait_complete() for i in (*self.informers.of_our_kinds, self.informers.nodes)))
                tasks.create_task(self.pods.run(resume), name="pods")
                tasks.create_task(self.injection.follow(), name="injection")
                await self.injection.wait_known()
                await self.pods.wait_anchored()
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
        """Cut rounds off before the Lease is released."""
        if self._term is not None:
            self._term.cancel()
            with suppress(TimeoutError):
                async with asyncio.timeout(WIND_DOWN_S):
                    await asyncio.wait([self._term])

    def _lease_acquired(self, tasks: asyncio.TaskGroup) -> None:
        log.info("lease acquired", extra={"identity": self.settings.identity})
        self._term = tasks.create_task(self._lead(), name="term")

    def _lease_lost(self) -> None:
        """Stand by: from here on nothing is written, and what is under way is cut off."""
        log.warning("lease lost, standing by", extra={"identity": self.settings.identity})
        self.is_active = False
        if self._term is not None:
            self._term.cancel()

    async def _lead(self) -> None:
        """Do what a new holder does, then let rounds run until the Lease is lost.

        A term begins only when nothing of the one before is at work any more. A round that goes on under a Lease that
        was lost and won again would write what it remembers over what another holder wrote in between.
        """
        async with self._one_term:
            try:
                await self._take_over()
                async with asyncio.TaskGroup() as tasks:
                    if self.journal is not None:
                        tasks.create_task(self.journal.beat_forever(self.pods.names), name="journal beat")
                    await asyncio.Event().wait()
            finally:
                self.is_active = False
                await self.queue.stop()
                await self.slot_queue.stop()
                await self.connection_queue.stop()
                self.metrics.forget_all()

    async def _take_over(self) -> None:
        """Read again what the last holder wrote, then begin to work.

        The list shows StaticGroups that a lagging watch has not delivered. A deleted Lease means that the watches of
        before cannot be trusted: then new ones begin.
        """
        await self.pods.wait_anchored()
        await asyncio.gather(*(i.refresh() for i in self.informers.of_our_kinds))
        stored = await self.lease.read_position()  # after the LISTs: one from before a restore is not to be adopted
        if stored is not None:
            self.pods.adopt(stored)
        elif self._resumed is not None:
            self.pods.begin_anew("the Lease says nothing of the pod watch any more", is_restore=False)
        self._resumed = stored or WatchPosition({})  # from now on there is one to be deleted
        self.reconciler.forget_all()
        self.connection_reporter.forget_all()
        self.queue, self.slot_queue, self.connection_queue = self._queues()
        self.queue.start()
        self.slot_queue.start()
        self.connection_queue.start()
        self._term_began_s = self.sources.monotonic_s()
        self.is_active = True
        self.listener.request_everything()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Have the pod watch anchored meanwhile, without rounds and without the Lease, for an inquiry."""
        self.reconciler.gatherer.cluster_uid = await self.read_cluster_uid()
        await self.injection.read()
        resume = self._resumed = await self.lease.read_position()
        await list_once((*self.informers.of_our_kinds, self.informers.nodes))
        following = asyncio.create_task(self.pods.run(resume), name="pods")
        try:
            await self.pods.wait_anchored()
            yield
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def read_cluster_uid(self) -> str:
        """Read the identity of the cluster, waiting for the API server if need be."""
        logged = ""
        while isinstance(uid := await self.kube.cluster_uid(), KubeProblem):
            if uid.message != logged:
                log.warning("waiting for the API server", extra={"problem": uid.message})
                logged = uid.message
            await asyncio.sleep(STARTUP_RETRY_S)
        return uid

    # probes ---------------------------------------------------------------------------------------------------

    def is_ready(self) -> bool:
        """True once the pod watch is anchored and all stores are complete."""
        return self.pods.is_whole and all(i.is_complete for i in self.informers.all)

    def watch_age_s(self) -> float | None:
        """Return how long the pod watch has been silent although the API server answered; None before it was anchored.

        A restart helps a watch that hears nothing, but not while the API server is away: it would only end the process.
        After that the watch has a moment to come back.
        """
        return min(self.pods.age_s(), self.outage.answering_s()) if self.pods.is_whole else None

    def refresh_gauges(self) -> None:
        """Set the gauges that are read at scrape time."""
        self.metrics.watch_age.set(self.pods.age_s() if self.pods.is_whole else 0)
        self.metrics.leader.set(1 if self._may_write() else 0)
        self.metrics.queue_length.set(len(self.queue))
        self.metrics.rounds_late.set(self.queue.late)
