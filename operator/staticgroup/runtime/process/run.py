"""One operator process: log in, let kopf run, end cleanly.

kopf takes the signals, calls the handlers (runtime/handlers.py), and ends when any part ends: an operator that sees
half is worse than a restarted one. No part ends because the API server is away.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from typing import Any

import kopf

from ...kube.transport import Transport
from ..handlers import register
from ..operator import Operator
from . import heap, kube_client, logs, namespaces
from .health import HealthServer
from .metrics import export_process
from .settings import Settings

log = logging.getLogger(__name__)


async def run(settings: Settings) -> int:
    """Run the operator until a signal ends it.

    Returns
    -------
    Exit status: 0 after SIGTERM or SIGINT, or when there are other namespaces to serve; 1 when a part failed.
    """
    transport = await kube_client.connected()
    wanted, settings = settings.watch_namespaces, await namespaces.serving(transport, settings)
    operator = Operator(settings, transport)
    logs.configure(settings.log_level, settings.log_format, operator.connections.secret_texts)
    export_process(operator.metrics.registry)
    health = HealthServer(
        port=settings.health_port,
        registry=operator.metrics.registry,
        watch_age_s=operator.watch_age_s,
        is_ready=operator.is_ready,
        refresh=operator.refresh_gauges,
    )
    await health.start()
    is_over = asyncio.Event()
    working = asyncio.create_task(_work(operator, transport, wanted), name="operator")
    working.add_done_callback(lambda _: is_over.set())

    async def end() -> None:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await health.stop()
        await transport.close()

    registry = kopf.OperatorRegistry()
    register(registry, operator, end=end)
    try:
        tasks = await kopf.spawn_tasks(
            registry=registry,
            clusterwide=not settings.watch_namespaces,
            namespaces=settings.watch_namespaces,
            stop_flag=is_over,
            # Given, because the default asks for a user name, which the image's user does not have.
            identity=settings.identity,  # type: ignore[arg-type]
        )
        await kopf.run_tasks(tasks, ignored=_Everything())
    finally:
        await end()
    if working.cancelled() or working.exception() is None:
        return 0
    log.error("a part failed, ending", exc_info=working.exception())
    return 1


class _Everything(frozenset[Any]):
    """Tasks that kopf is not to wait for and cancel at its end: by default all that were made after its start."""

    def __contains__(self, _: object) -> bool:
        return True


async def _work(operator: Operator, transport: Transport, wanted: Sequence[str]) -> None:
    """Do everything that kopf does not, until there are other namespaces to serve."""
    parts = [
        asyncio.create_task(operator.run(), name="rounds"),
        asyncio.create_task(heap.follow_growth(), name="heap"),
    ]
    if wanted:
        others = namespaces.until_others(transport, wanted, operator.settings.watch_namespaces)
        parts.append(asyncio.create_task(others, name="namespaces"))
    try:
        done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for part in done:
            part.result()
    finally:
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)


def default_identity() -> str:
    """Return the name of this replica: the pod's name, or the host's."""
    return os.environ.get("POD_NAME") or os.uname().nodename
