"""What every simulated consumer does alike: ask the cluster, own partitions, and react to fatal errors.

Like a real one, a consumer keeps its partitions until a response says otherwise.
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import Request

from ..engine.trace import Trace
from ..kafka.cluster import ModelKafkaCluster
from ..kafka.network import ConnectionLost, KafkaLink
from .partition_meter import Partition, PartitionMeter
from .processes import ContainerProcess
from .settings import ConsumerSettings, Reaction

RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
RETRY_FIRST_S = 0.1
"""retry.backoff.ms."""
RETRY_MAX_S = 1.0
"""retry.backoff.max.ms."""
CLOSE_TIMEOUT_S = 5.0
"""A leave on close is best effort: the process does not wait longer for its answer."""


class Fatal(Exception):
    """The library gives this member up."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class Consumer(ABC):
    """One consumer of one process.

    Parameters
    ----------
    number: which thread of the process; 0 when there is only one.
    rng: its own.
    """

    def __init__(
        self,
        *,
        cluster: ModelKafkaCluster,
        process: ContainerProcess,
        settings: ConsumerSettings,
        number: int,
        rng: random.Random,
        meter: PartitionMeter,
        trace: Trace | None = None,
    ) -> None:
        self.cluster = cluster
        self.process = process
        self.settings = settings
        self.rng = rng
        self.member_id = ""
        self.instance_id = _instance_id(process, settings, number)
        self.name = process.name if not number else f"{process.name}#{number}"
        self.link = KafkaLink(name=f"{self.name}/{process.pod_uid}/{process.started_s:g}", owner=process)
        if process.address:
            self.link.host = f"/{process.address}"
        self.owned: frozenset[Partition] = frozenset()
        self.lost_for_good = False
        self._meter = meter.group(settings.group_id, settings.topics)
        self._trace = trace
        self._failures = 0
        process.links.append(self.link)
        process.watchers.append(self._process_changed)
        self._process_changed()

    async def run(self) -> int:
        """Take part in the group until the library ends the application; return the exit code."""
        while True:
            try:
                await self.take_part()
            except Fatal as fatal:
                reaction = self._reaction(fatal.code)
                self.tell("fatal error", code=fatal.code.name, reaction=str(reaction))
                if reaction is Reaction.EXIT:
                    return 1
                if reaction is Reaction.JOIN_AGAIN:
                    self.own(())
                    self.forget_membership()
                    await asyncio.sleep(self.settings.library.rejoin_pause_s)
                    continue
                self.lost_for_good = True
                if reaction is Reaction.FALL_SILENT:
                    self.own(())
                await asyncio.Event().wait()

    @abstractmethod
    async def take_part(self) -> None:
        """Join and stay a member; leave only by Fatal."""

    @abstractmethod
    async def say_goodbye(self) -> None:
        """Send what the library sends on close."""

    @abstractmethod
    def forget_membership(self) -> None:
        """Become a new member with the next join."""

    async def close(self) -> None:
        """Close as the library does; the answer to a leave is not awaited for ever."""
        self.own(())
        if not self.lost_for_good:
            await self.say_goodbye()

    async def ask(self, request: Request, *, timeout_s: float | None = None) -> Any:
        """Send a request to the coordinator.

        Returns
        -------
        The response; None, after a pause, when the coordinator could not be asked and asking again may help.
        """
        code: ErrorCode | None = None
        try:
            response = await self.cluster.request(self.link, request, timeout_s=timeout_s)
            code = response.error_code
        except ConnectionLost:
            response = None
        if response is None or code in RETRIABLE:
            pause_s = min(RETRY_FIRST_S * 2.0**self._failures, RETRY_MAX_S) * (0.8 + 0.4 * self.rng.random())
            self._failures += 1
            await asyncio.sleep(pause_s)
            return None
        self._failures = 0
        return response

    async def try_once(self, request: Request) -> None:
        """Send a request and ignore a missing answer."""
        try:
            await self.cluster.request(self.link, request, timeout_s=CLOSE_TIMEOUT_S)
        except ConnectionLost:
            pass  # a client that closes does not try again

    async def wait_for_poll(self) -> None:
        """Let the application come to its next poll and hand over what is taken from it."""
        pause_s = self.settings.poll_s * self.rng.random()
        if pause_s:
            await asyncio.sleep(pause_s)

    def own(self, partitions: Iterable[Partition]) -> None:
        """Work on these partitions from now on, and on no others."""
        now = frozenset(partitions)
        if now != self.owned:
            self._meter.revoked += len(self.owned - now)
            self.owned = now
            self._process_changed()

    def saw_round(self, number: int) -> None:
        """Note a generation or member epoch that the group went into."""
        self._meter.rounds.add(number)

    def tell(self, what: str, **facts: object) -> None:
        """Write into the trace."""
        if self._trace is not None:
            self._trace.add(self.cluster.loop.time(), f"client/{self.name}", what, **facts)

    def _reaction(self, code: ErrorCode) -> Reaction:
        library = self.settings.library
        if code is ErrorCode.FENCED_INSTANCE_ID and self.settings.protocol == "classic":
            return library.when_fenced
        if code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID):
            return library.when_refused
        return library.when_rejected

    def _process_changed(self) -> None:
        self.link.is_dead = not self.process.is_alive
        self.link.is_cut = self.process.is_cut_off
        self._meter.own(self.link.name, self.owned if self.process.is_working else ())


def _instance_id(process: ContainerProcess, settings: ConsumerSettings, number: int) -> str | None:
    given = settings.instance_id or process.environment.get(settings.instance_id_variable) or None
    if given is None or (settings.threads == 1 and not settings.always_numbers):
        return given
    return f"{given}-{settings.first_thread + max(number, 1) - 1}"
