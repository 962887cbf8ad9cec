"""One webhook process: its settings, its parts, and its end."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass

from ...api.names import GROUP, STATIC_GROUP_PLURAL, VERSION
from ...api.rendering import AgentImage
from ...kube.pages import PageLimit, pages
from ...kube.problem import KubeProblem
from ...kube.transport import Json, Resource, Transport
from ...kube.webhook_objects import WebhookObjects
from ..process import kube_client, logs
from ..process.settings import PREFIX, SettingsError, values_from
from .keeper import Keeper
from .review import Reviewer
from .server import WebhookMetrics, WebhookServer
from .shared_reads import SharedReads

DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
DRAIN_S = 3.0
"""API servers are still sent here for a moment after the pod was told to end; until then it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """How one webhook process runs.

    Parameters
    ----------
    namespace: of the Secret; the pod's own namespace.
    secret_name: Secret with the certificates.
    configuration_name: the MutatingWebhookConfiguration.
    service_names: DNS names under which API servers call.
    own_certificate: make and rotate certificates; False where cert-manager does.
    port: for API servers, 1-65535.
    health_port: /healthz, /readyz and /metrics, 1-65535.
    agent_image: of the operator, which brings the agent of Connect workers; empty: none is brought.
    agent_pull_policy: of that init container.
    log_level: DEBUG, INFO, WARNING or ERROR.
    log_format: json, or text for people.
    """

    namespace: str = "staticgroup-system"
    secret_name: str = "staticgroup-webhook"
    configuration_name: str = "staticgroup-inject"
    service_names: tuple[str, ...] = ("staticgroup-webhook.staticgroup-system.svc",)
    own_certificate: bool = True
    port: int = 9443
    health_port: int = 8080
    agent_image: str = ""
    agent_pull_policy: str = "IfNotPresent"
    log_level: str = "INFO"
    log_format: str = "json"

    def __post_init__(self) -> None:
        for name in ("port", "health_port"):
            if not 1 <= getattr(self, name) <= 65_535:
                raise SettingsError(f"{PREFIX}{name.upper()} must be between 1 and 65535, got {getattr(self, name)}")
        if not self.service_names or not all(DNS_NAME.fullmatch(each) for each in self.service_names):
            raise SettingsError(f"{PREFIX}SERVICE_NAMES must be DNS names, separated by commas")
        if self.log_level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
            raise SettingsError(f"{PREFIX}LOG_LEVEL must be DEBUG, INFO, WARNING or ERROR, got {self.log_level!r}")


def from_environment(environment: Mapping[str, str]) -> WebhookSettings:
    """Read the settings from environment variables named STATICGROUP_<FIELD>; raises SettingsError as the operator's do."""
    return WebhookSettings(**values_from(environment, WebhookSettings))  # type: ignore[arg-type]


@dataclass(slots=True)
class Webhook:
    """The parts of one process, wired."""

    server: WebhookServer
    keeper: Keeper


def webhook_of(settings: WebhookSettings, transport: Transport) -> Webhook:
    """Make every part once."""
    limit = PageLimit()
    resource = Resource(group=GROUP, version=VERSION, plural=STATIC_GROUP_PLURAL)

    async def read(namespace: str) -> list[Json] | KubeProblem:
        found: list[Json] = []
        async for page in pages(transport, resource, limit, namespace=namespace):
            if isinstance(page, KubeProblem):
                return page
            found += page.get("items") or ()
        return found

    agent = AgentImage(name=settings.agent_image, pull_policy=settings.agent_pull_policy)
    server = WebhookServer(
        reviewer=Reviewer(read=SharedReads(read), agent=agent),
        metrics=WebhookMetrics(),
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
    return Webhook(server=server, keeper=keeper)


async def run(settings: WebhookSettings) -> int:
    """Answer until told to stop; returns the exit status, 0 after SIGTERM or SIGINT."""
    logs.configure(settings.log_level, settings.log_format, lambda: ())
    transport = await kube_client.connected()
    webhook = webhook_of(settings, transport)
    await webhook.server.start()
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    keeping = asyncio.create_task(webhook.keeper.run(), name="certificates")
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
        await webhook.server.stop()
        await transport.close()
