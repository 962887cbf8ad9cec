"""Answer API servers over TLS, and probes and metrics beside it.

The certificate is replaced in the context that the server listens with, so later connections are shown the new one.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web
from prometheus_client import Counter, Histogram

from ...kafka.login.tls import private_file
from ...kube.decoding import decoded
from ..process.health import HealthServer
from ..process.metrics import new_registry
from .review import Outcome, Reviewer

PATH: Final = "/mutate"
REVIEW_MAX_BYTES: Final = 8 * 1024 * 1024
"""A pod has at most 1.5 MiB in etcd; escaped characters make more of it."""
ANSWER_WITHIN_S: Final = 1.8
"""API servers wait two seconds; an answer that would come later is given up, so that the pod comes without it."""


class WebhookMetrics:
    """What one replica counts."""

    def __init__(self) -> None:
        self.registry = new_registry()
        self.reviews = Counter(
            "staticgroup_webhook_reviews_total", "Pods that were asked about, by what became of it.", ("outcome",),
            registry=self.registry,
        )
        self.review_seconds = Histogram(
            "staticgroup_webhook_review_seconds", "Duration of one review.",
            buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2), registry=self.registry,
        )


@dataclass(slots=True)
class WebhookServer:
    """Serve reviews.

    Parameters
    ----------
    port: TCP port for API servers. health_port: TCP port for probes and metrics.
    is_ready: True once a certificate is on show.
    """

    reviewer: Reviewer
    metrics: WebhookMetrics
    port: int
    health_port: int
    is_ready: Callable[[], bool]
    host: str = "0.0.0.0"
    context: ssl.SSLContext = field(default_factory=lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    _runner: web.AppRunner | None = None
    _health: HealthServer = field(init=False)

    def __post_init__(self) -> None:
        self._health = HealthServer(
            port=self.health_port, host=self.host, registry=self.metrics.registry, is_ready=self.is_ready,
            missing="no certificate is on show yet",
        )  # fmt: skip

    async def start(self) -> None:
        """Start listening; raises OSError when a port is taken."""
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        reviews = web.Application(client_max_size=REVIEW_MAX_BYTES)
        reviews.router.add_post(PATH, self._mutate)
        self._runner = web.AppRunner(reviews, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.host, self.port, ssl_context=self.context).start()
        await self._health.start()

    async def stop(self) -> None:
        """Stop listening, once reviews under way are answered."""
        if self._runner is not None:
            await self._runner.cleanup()
        await self._health.stop()

    def show(self, certificate: bytes, key: bytes) -> None:
        """Show a certificate from the next connection on; raises ValueError or OSError when it does not fit its key."""
        try:
            with private_file(f"{certificate.decode()}\n{key.decode()}") as path:
                # Tried in another context first: one that refuses a key has taken the certificate already.
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
                self.context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise ValueError("certificate and key do not fit") from error

    async def _mutate(self, request: web.Request) -> web.Response:
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                review = decoded(await request.read())
                answer, outcome = await self.reviewer.answer(review if isinstance(review, dict) else {})
        except ValueError as error:
            self.metrics.reviews.labels(Outcome.FAILED).inc()
            return web.Response(status=400, text=f"{error}\n")
        except TimeoutError:
            self.metrics.reviews.labels(Outcome.UNREADABLE).inc()
            return web.Response(status=503, text="the API server did not show the StaticGroups in time\n")
        self.metrics.reviews.labels(outcome).inc()
        self.metrics.review_seconds.observe(time.monotonic() - began_s)
        return web.json_response(answer)
