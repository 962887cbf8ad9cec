"""One operator process: log in, start the parts in order, end cleanly.

kopf treats every task that is made after its start as its own and cancels it when it ends. So when any part ends, all
end: an operator that sees half is worse than a restarted one. No part ends because the API server is away.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable
from typing import Any

import kopf

from ..operator import Operator
from . import heap, kube_client, logs, namespaces
from .handlers import register
from .health import HealthServer
from .settings import Settings

log = logging.getLogger(__name__)


async def run(settings: Settings) -> int:
    """Run the operator until it is told to stop.

    Returns
    -------
    Exit status: 0 after SIGTERM or SIGINT, or when there are other namespaces to serve; 1 when a part failed.
    """
    # StaticGroups, KafkaConnections, StatefulSets and pods of each namespace, and the nodes.
    transport = await kube_client.connected()
    wanted, settings = settings.watch_namespaces, await namespaces.serving(transport, settings)
    operator = Operator(settings, transport)
    logs.configure(settings.log_level, settings.log_format, operator.connections.secret_texts)
    health = HealthServer(
        port=settings.health_port,
        registry=operator.metrics.registry,
        watch_age_s=operator.watch_age_s,
        is_ready=operator.is_ready,
        refresh=operator.refresh_gauges,
    )
    await health.start()
    stop = asyncio.Event()
    _stop_on_signals(stop)
    parts: list[asyncio.Task[Any]] = [
        asyncio.create_task(operator.run(), name="operator"),
        asyncio.create_task(stop.wait(), name="stop"),
        asyncio.create_task(_run_kopf(operator, stop), name="kopf"),
        asyncio.create_task(heap.follow_growth(), name="heap"),
    ]
    if wanted:
        others = namespaces.until_others(transport, wanted, settings.watch_namespaces)
        parts.append(asyncio.create_task(_stop_after(others, stop), name="namespaces"))
    try:
        done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        return _status_of(done, stop)
    finally:
        # One after the other: kopf cancels what is younger than itself, and so would not let the Lease be released.
        for part in parts:
            part.cancel()
            await asyncio.gather(part, return_exceptions=True)
        await health.stop()
        await transport.close()


async def _stop_after(what: Awaitable[None], stop: asyncio.Event) -> None:
    await what
    stop.set()


def _stop_on_signals(stop: asyncio.Event) -> None:
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)


async def _run_kopf(operator: Operator, stop: asyncio.Event) -> None:
    """Run kopf once the API server has answered, until cancelled, and keep it from taking the signals for itself."""
    await operator.reached.wait()
    registry = kopf.OperatorRegistry()
    register(registry)
    served = list(operator.settings.watch_namespaces)
    is_ready, is_over = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(
        kopf.operator(
            registry=registry,
            clusterwide=not served,
            namespaces=served,
            stop_flag=is_over,
            ready_flag=is_ready,
            # Given, because the default asks for a user name, which the image's user does not have.
            identity=operator.settings.identity,  # type: ignore[arg-type]
        ),
        name="kopf operator",
    )
    starting = asyncio.create_task(is_ready.wait(), name="kopf starts")
    try:
        await asyncio.wait({running, starting}, return_when=asyncio.FIRST_COMPLETED)
        # On a signal kopf would wait for all tasks that are younger than itself, then cancel them one by one: most of
        # ours, which would end late and in no order.
        _stop_on_signals(stop)
        await running
    finally:
        is_over.set()
        for task in (running, starting):
            task.cancel()
        await asyncio.gather(running, starting, return_exceptions=True)


def _status_of(done: set[asyncio.Task[Any]], stop: asyncio.Event) -> int:
    """Say why the process ends."""
    for part in done:
        error = part.exception() if not part.cancelled() else None
        if error is not None:
            log.error("a part failed, ending", extra={"part": part.get_name()}, exc_info=error)
            return 1
    return 0 if stop.is_set() else 1


def default_identity() -> str:
    """Return the name of this replica: the pod's name, or the host's."""
    return os.environ.get("POD_NAME") or os.uname().nodename
