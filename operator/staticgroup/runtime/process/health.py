"""Serve /healthz, /readyz and /metrics on one port.

An operator is healthy while its event loop answers and its pod watch has lately received something from the API server,
unless that is away. It is ready once its stores are filled. A standby is healthy and ready without the Lease.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

WATCH_AGE_MAX_S = 180.0
"""Bookmarks come every minute; after three that are missing the watch is stuck, and a restart helps."""


@dataclass(slots=True)
class HealthServer:
    """Serve probes and metrics.

    Parameters
    ----------
    port: TCP port on all interfaces of the pod.
    is_ready: True once the process can do its work; until then it waits for what `missing` names.
    watch_age_s: how long the pod watch has received nothing while the API server answered; None before it first did.
    refresh: updates gauges just before a scrape.
    """

    port: int
    registry: CollectorRegistry
    is_ready: Callable[[], bool]
    watch_age_s: Callable[[], float | None] = lambda: None
    refresh: Callable[[], None] = lambda: None
    missing: str = "the stores are not filled yet"
    host: str = "0.0.0.0"
    _runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Start listening; raises OSError when the port is taken."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.host, self.port).start()

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        age_s = self.watch_age_s()
        if age_s is not None and age_s > WATCH_AGE_MAX_S:
            return web.Response(status=500, text=f"the pod watch has been silent for {age_s:.0f} s\n")
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n") if self.is_ready() else web.Response(status=503, text=f"{self.missing}\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        self.refresh()
        return web.Response(body=generate_latest(self.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})
