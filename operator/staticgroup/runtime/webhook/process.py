"""Run one webhook process: its settings, its parts, and its end."""

from __future__ import annotations

import asyncio
import signal
import time
from functools import partial
from typing import Annotated

from pydantic import Field, StringConstraints

from ...api.names import STATIC_GROUP_PLURAL
from ...api.rendering import AgentImage
from ...kube.gateway import KubeGateway
from ...kube.webhook_objects import WebhookObjects
from ..process import kube_client, logs
from ..process.metrics import export_process
from ..process.settings import EnvironmentSettings, Listed, LogFormat, LogLevel, Port
from .keeper import Keeper
from .review import Reviewer
from .server import WebhookMetrics, WebhookServer
from .shared_reads import SharedReads

DNS_NAME = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"
DRAIN_S = 3.0
"""API servers still call this pod for a moment after its end was requested; until then it answers."""


class WebhookSettings(EnvironmentSettings):
    """How one webhook process runs."""

    namespace: str = "staticgroup-system"
    """Of the Secret; the pod's own namespace."""
    secret_name: str = "staticgroup-webhook"
    """Secret with the certificates."""
    configuration_name: str = "staticgroup-inject"
    """The MutatingWebhookConfiguration."""
    service_names: Listed[Annotated[str, StringConstraints(pattern=DNS_NAME)]] = Field(
        ("staticgroup-webhook.staticgroup-system.svc",), min_length=1
    )
    """DNS names under which API servers call."""
    own_certificate: bool = True
    """Make and rotate certificates; False where cert-manager does."""
    port: Port = 9443
    """For API servers."""
    health_port: Port = 8080
    """/healthz, /readyz and /metrics."""
    agent_image: str = ""
    """Of the operator, which brings the agent of Connect workers; empty: none is brought."""
    agent_pull_policy: str = "IfNotPresent"
    """Of that init container."""
    slot_image: str = ""
    """Of the init container in which pods of Deployments wait for their slot; empty: they get none."""
    slot_pull_policy: str = "IfNotPresent"
    """Of that one."""
    log_level: LogLevel = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""
    log_format: LogFormat = "json"
    """`json`, or `text` for people."""


async def run(settings: WebhookSettings) -> int:
    """Answer until a signal ends the process; returns the exit status, 0 after SIGTERM or SIGINT."""
    logs.configure(settings.log_level, settings.log_format, lambda: ())
    transport = await kube_client.connected()
    kube = KubeGateway(transport, instance="webhook", now_s=time.time)
    metrics = WebhookMetrics()
    export_process(metrics.registry)
    server = WebhookServer(
        reviewer=Reviewer(
            read=SharedReads(partial(kube.list_objects, STATIC_GROUP_PLURAL)),
            agent=AgentImage(name=settings.agent_image, pull_policy=settings.agent_pull_policy),
            waiter=AgentImage(name=settings.slot_image, pull_policy=settings.slot_pull_policy),
        ),
        metrics=metrics,
        port=settings.port,
        health_port=settings.health_port,
        is_ready=lambda: keeper.is_showing,
    )
    keeper = Keeper(
        objects=WebhookObjects(
            transport,
            namespace=settings.namespace,
            secret_name=settings.secret_name,
            configuration_name=settings.configuration_name,
        ),
        names=settings.service_names,
        is_own=settings.own_certificate,
        show=server.show,
        now_s=time.time,
        monotonic_s=time.monotonic,
    )
    await server.start()
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    keeping = asyncio.create_task(keeper.run(), name="certificates")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait((keeping, stopping), return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            await asyncio.sleep(DRAIN_S)
        return 0 if stop.is_set() else 1
    finally:
        for task in (keeping, stopping):
            task.cancel()
        await asyncio.gather(keeping, stopping, return_exceptions=True)
        await server.stop()
        await transport.close()
