"""The program of a container: start up, run its consumers, end as a signal, an error or a crash says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from ..engine.trace import Trace
from ..kafka.cluster import ModelKafkaCluster
from .base import Consumer
from .classic import ClassicConsumer
from .kip848 import Kip848Consumer
from .partition_meter import PartitionMeter
from .processes import ContainerProcess, Idle, Program
from .settings import PROTOCOL_VARIABLE, ConsumerSettings, ContainerSettings

Decide = Callable[[int | None], None]
CLIENTS: Mapping[str, type[Consumer]] = {"classic": ClassicConsumer, "consumer": Kip848Consumer}


class ConsumerProgram:
    """One run of a container's consumers.

    Parameters
    ----------
    rng: of this process alone, so that its draws do not depend on what others do.
    """

    def __init__(
        self,
        settings: ContainerSettings,
        *,
        cluster: ModelKafkaCluster,
        meter: PartitionMeter,
        rng: random.Random,
        trace: Trace | None = None,
    ) -> None:
        self.settings = settings
        self.consumers: list[Consumer] = []
        self._cluster = cluster
        self._meter = meter
        self._rng = rng
        self._trace = trace
        self._tasks: list[asyncio.Task[None]] = []

    async def run(self, process: ContainerProcess) -> int:
        """Run until SIGTERM, a fatal error or a crash, and return the exit code."""
        verdict: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

        def decide(exit_code: int | None) -> None:
            if not verdict.done():
                verdict.set_result(exit_code)

        if not self.settings.ignores_term:
            process.spawn(self._await_term(process, decide), name=f"{process.name} signals")
        if self.settings.crash_mean_s is not None:
            after_s = self._rng.expovariate(1 / self.settings.crash_mean_s)
            asyncio.get_running_loop().call_later(after_s, decide, self.settings.crash_exit_code)
        starting = process.spawn(self._start(process, decide), name=f"{process.name} start")
        exit_code = await verdict
        if exit_code is not None:
            return exit_code
        starting.cancel()
        await self._close()
        return 0

    async def _start(self, process: ContainerProcess, decide: Decide) -> None:
        await asyncio.sleep(self._rng.uniform(*self.settings.startup_s))
        for settings in (_with_protocol_of(settings, process) for settings in self.settings.consumers):
            for number in range(1, settings.threads + 1):
                consumer = CLIENTS[settings.protocol](
                    cluster=self._cluster,
                    process=process,
                    settings=settings,
                    number=number if settings.threads > 1 else 0,
                    rng=self._rng,
                    meter=self._meter,
                    trace=self._trace,
                )
                self.consumers.append(consumer)
                self._tasks.append(process.spawn(_run(consumer, decide), name=consumer.name))
        process.become_ready()

    async def _await_term(self, process: ContainerProcess, decide: Decide) -> None:
        await process.terminating.wait()
        decide(None)

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self.settings.close_s:
            await asyncio.sleep(self.settings.close_s)
        for consumer in self.consumers:
            await consumer.close()


def _with_protocol_of(settings: ConsumerSettings, process: ContainerProcess) -> ConsumerSettings:
    """Let the pod template choose the protocol, as an upgraded client's environment does."""
    protocol = process.environment.get(PROTOCOL_VARIABLE)
    if protocol in (None, settings.protocol):
        return settings
    return replace(settings, protocol="consumer" if protocol == "consumer" else "classic")


async def _run(consumer: Consumer, decide: Decide) -> None:
    decide(await consumer.run())


class Programs:
    """Chooses what a container runs, by its name.

    Parameters
    ----------
    containers: container name → what it runs; any other container idles. May be changed at any time: a new pod
        template, seen by processes that start later.
    seed: of start-up delays, crashes and member ids.
    """

    def __init__(
        self,
        containers: Mapping[str, ContainerSettings],
        *,
        cluster: ModelKafkaCluster,
        meter: PartitionMeter,
        seed: object,
        trace: Trace | None = None,
    ) -> None:
        self.containers = dict(containers)
        self._cluster = cluster
        self._meter = meter
        self._seed = seed
        self._trace = trace
        self._starts: dict[tuple[str, str], int] = {}
        self._latest: dict[tuple[str, str], ConsumerProgram] = {}

    def has_given_up(self, process: ContainerProcess) -> bool:
        """Whether some consumer of a process has left its group for good while the process goes on."""
        program = self._latest.get((process.pod_uid, process.container))
        return program is not None and any(consumer.lost_for_good for consumer in program.consumers)

    def __call__(self, process: ContainerProcess) -> Program:
        """Return the program of a process that is being started."""
        settings = self.containers.get(process.container)
        if settings is None:
            return Idle()
        key = (process.pod_uid, process.container)
        self._starts[key] = self._starts.get(key, 0) + 1
        rng = random.Random(f"{self._seed}/{process.pod_uid}/{process.container}/{self._starts[key]}")
        made = ConsumerProgram(settings, cluster=self._cluster, meter=self._meter, rng=rng, trace=self._trace)
        self._latest[key] = made
        return made
