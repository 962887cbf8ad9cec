"""Replicas that share a Lease, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from staticgroup.kube.lease import ActiveLease, LeaseSettings
from staticgroup.kube.pods.continuity import Continuity
from staticgroup.kube.transport import Transport
from support.clock import Clock

LEASE = ("leases.coordination.k8s.io", "ops", "staticgroup-operator")


def transitions(lease: ActiveLease) -> int | None:
    """Return the number of a replica's holding; None while it has none."""
    return lease.holding.transitions if lease.holding is not None else None


def noting(paused_s: list[float]) -> Callable[[float], Any]:
    """Return a sleep that takes no time and notes how long it should have been."""

    async def sleep(seconds: float) -> None:
        paused_s.append(seconds)

    return sleep


def make(
    transport: Transport, clock: Clock, identity: str, continuity: Continuity | None = None,
    sleep: Callable[[float], Any] = asyncio.sleep, told: list[str] | None = None, **rest: Any,
) -> ActiveLease:
    heard: list[str] = [] if told is None else told
    settings = LeaseSettings(**{"namespace": "ops", "lease_duration_s": 15, "renew_deadline_s": 10, "retry_period_s": 2} | rest)
    return ActiveLease(
        transport, settings, identity=identity, continuity=lambda: continuity,
        clock_s=clock, now_s=lambda: 1_800_000_000.0 + clock.now_s, sleep=sleep, on_restored=lambda mark: heard.append(mark) if mark else None,
        on_went_back=heard.append,
    )
