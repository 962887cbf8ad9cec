"""One operator process: log in, start the parts in order, end cleanly.

Long-lived tasks are made before kopf starts: kopf treats every task made later as its own and cancels it. When any
part ends, all end: a half-blind operator is worse than a restarted one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import Any

import kopf

from . import kube_client, logs
from .handlers import register
from .health import HealthServer
from .operator import LeaseLost, Operator
from .settings import Settings

log = logging.getLogger(__name__)


async def run(settings: Settings) -> int:
    """Run the operator until it is told to stop.

    Returns
    -------
    Exit status: 0 after SIGTERM or SIGINT, 1 when the Lease was lost or a part failed.
    """
    transport = await kube_client.connected()
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
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    registry = kopf.OperatorRegistry()
    register(registry, operator)
    parts: list[asyncio.Task[Any]] = [
        asyncio.create_task(operator.run(), name="operator"),
        asyncio.create_task(stop.wait(), name="stop"),
    ]
    parts.append(
        asyncio.create_task(
            kopf.operator(
                registry=registry,
                clusterwide=not settings.watch_namespaces,
                namespaces=list(settings.watch_namespaces),
                stop_flag=stop,
                ready_flag=operator.handlers_ready,
                # Given, because the default asks for a user name, which the image's user does not have.
                identity=settings.identity,  # type: ignore[arg-type]
            ),
            name="kopf",
        )
    )
    try:
        done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        return _status_of(done, stop)
    finally:
        stop.set()
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        await health.stop()
        await transport.close()


def _status_of(done: set[asyncio.Task[Any]], stop: asyncio.Event) -> int:
    """Say why the process ends."""
    for part in done:
        error = part.exception() if not part.cancelled() else None
        if error is not None:
            if _is_lease_loss(error):
                log.error("lease lost, ending", extra={"part": part.get_name()})
            else:
                log.error("a part failed, ending", extra={"part": part.get_name()}, exc_info=error)
            return 1
    return 0 if stop.is_set() else 1


def _is_lease_loss(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_is_lease_loss(inner) for inner in error.exceptions)
    return isinstance(error, LeaseLost)


def default_identity() -> str:
    """Return the name of this replica: the pod's name, or the host's."""
    return os.environ.get("POD_NAME") or os.uname().nodename
