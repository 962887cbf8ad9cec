"""Replicas that share a Lease, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from staticgroup.kube.lease import ActiveLease, LeaseSettings
from staticgroup.kube.pods.position import WatchPosition
from staticgroup.kube.transport import Transport
from support.clock import Clock
from support.fake_apiserver import FakeApiServer
from unit.kube.raw_objects import eventually

LEASE = ("leases.coordination.k8s.io", "ops", "staticgroup-operator")


def transitions(lease: ActiveLease) -> int | None:
    """Return the number of a replica's holding; None while it has none."""
    return lease.holding.transitions if lease.holding is not None else None


def noting(paused_s: list[float]) -> Callable[[float], Any]:
    """Return a sleep that takes no time and notes how long it should have been."""

    async def sleep(seconds: float) -> None:
        paused_s.append(seconds)

    return sleep


@dataclass
class Turning:
    """A replica whose loop turns when a test says so.

    Attributes
    ----------
    calls: "acquired" and "lost", in order, each with what `holds()` returned then.
    """

    lease: ActiveLease
    wakes: asyncio.Queue[None]
    calls: list[tuple[str, bool]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Return which changes were reported, in order."""
        return [name for name, _ in self.calls]

    def turn(self, times: int = 1) -> None:
        """Let the loop turn once more, or so often."""
        for _ in range(times):
            self.wakes.put_nowait(None)


@dataclass
class Leases:
    """An API server, and replicas that share one connection to it."""

    server: FakeApiServer
    transport: Transport
    clock: Clock

    def make(
        self, identity: str, position: WatchPosition | None = None, sleep: Callable[[float], Any] = asyncio.sleep,
        went_back: list[str] | None = None, **rest: Any,
    ) -> ActiveLease:
        given: dict[str, Any] = {"namespace": "ops", "lease_duration_s": 15, "renew_deadline_s": 10, "retry_period_s": 2}
        return ActiveLease(
            self.transport, LeaseSettings(**(given | rest)), identity=identity,
            position=lambda: position, clock_s=self.clock, now_s=lambda: 1_800_000_000.0 + self.clock.now_s, sleep=sleep,
            on_went_back=([] if went_back is None else went_back).append,
        )

    @asynccontextmanager
    async def turning(self, identity: str) -> AsyncIterator[Turning]:
        """Run a replica that has acquired a free Lease and waits for its next turn."""
        wakes: asyncio.Queue[None] = asyncio.Queue()

        async def until_woken(seconds: float) -> None:
            await wakes.get()

        it = Turning(self.make(identity, sleep=until_woken), wakes)
        task = asyncio.create_task(it.lease.run(
            on_acquired=lambda: it.calls.append(("acquired", it.lease.holds())),
            on_lost=lambda: it.calls.append(("lost", it.lease.holds())),
        ))
        try:
            await eventually(lambda: it.calls == [("acquired", True)])
            yield it
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
