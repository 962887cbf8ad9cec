"""The kopf side of the shell: events fill the stores and mark keys, nothing else.

Only `on.event` is used: it writes nothing on objects, so no finalizer or annotation of ours can outlive the operator.
Every event may be lost, repeated or late; the rounds decide from state.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import kopf

from ..api import names
from ..kube.translate import MalformedObject, workload_view
from .operator import Operator

log = logging.getLogger(__name__)


SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def _login_in_cluster() -> kopf.ConnectionInfo | None:
    """Log in as the pod's service account; None outside of a cluster.

    Notes
    -----
    kopf's own login asks DNS for kubernetes.default.svc; the address in the environment works without DNS, and is what
    every other client here uses.
    """
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    token = SERVICE_ACCOUNT / "token"
    if not host or not token.exists():
        return None
    return kopf.ConnectionInfo(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ca_path=str(SERVICE_ACCOUNT / "ca.crt"),
        scheme="Bearer",
        token=token.read_text().strip(),
    )


def register(registry: kopf.OperatorRegistry, operator: Operator) -> None:
    """Register every handler of one operator on a registry of its own."""

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.scanning.disabled = True
        settings.peering.standalone = True
        settings.posting.enabled = False
        settings.watching.server_timeout = 300
        settings.watching.client_timeout = 330
        settings.watching.connect_timeout = 30
        settings.networking.request_timeout = 30
        settings.networking.connect_timeout = 10
        # Never used: a guard against somebody adding a handler that needs one.
        settings.persistence.finalizer = f"{names.GROUP}/finalizer"

    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return _login_in_cluster() or kopf.login_with_kubeconfig(**kwargs)

    @kopf.on.event(names.GROUP, names.VERSION, names.STATIC_GROUP_PLURAL, registry=registry)
    async def static_group_event(event: kopf.RawEvent, **_: Any) -> None:
        operator.static_group_changed(dict(event["object"]), is_deleted=event["type"] == "DELETED")

    @kopf.on.event(names.GROUP, names.VERSION, names.KAFKA_CONNECTION_PLURAL, registry=registry)
    async def kafka_connection_event(event: kopf.RawEvent, **_: Any) -> None:
        operator.kafka_connection_changed(dict(event["object"]), is_deleted=event["type"] == "DELETED")

    @kopf.on.event("apps", "v1", "statefulsets", registry=registry)
    async def stateful_set_event(event: kopf.RawEvent, **_: Any) -> None:
        view = workload_view(dict(event["object"]))
        if isinstance(view, MalformedObject):
            log.error("StatefulSet cannot be read", extra={"field": view.field, "found": view.found})
            return
        operator.workload_changed(view, is_deleted=event["type"] == "DELETED")
