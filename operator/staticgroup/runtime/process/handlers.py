"""The kopf side of the shell: what the framework is told when it starts and how it logs in.

No handler of a resource is registered, so kopf watches nothing and writes on nothing: no finalizer or annotation of
ours can outlive the operator. The operator's own streams watch, because they know what went unseen.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kopf

from ...api import names
from ...kube.outage import RETRY_MAX_S

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


class _UntilAnswered:
    """Delays between the tries of one request of kopf, without an end.

    By default kopf gives a request up after nine tries, and the process with it. When the API server is away, waiting
    is all that helps.
    """

    def __iter__(self) -> Iterator[float]:
        """Begin a new row of delays, seconds."""
        return itertools.chain((0.5, 1.0, 2.0), itertools.repeat(RETRY_MAX_S))


def register(registry: kopf.OperatorRegistry) -> None:
    """Register every handler on a registry of its own."""

    @kopf.on.startup(registry=registry)
    async def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.scanning.disabled = True
        settings.peering.standalone = True
        settings.posting.enabled = False
        settings.networking.request_timeout = 30
        settings.networking.connect_timeout = 10
        settings.networking.error_backoffs = _UntilAnswered()
        # Never used: a guard against somebody adding a handler that needs one.
        settings.persistence.finalizer = f"{names.GROUP}/finalizer"

    @kopf.on.login(registry=registry)
    async def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return _login_in_cluster() or kopf.login_with_kubeconfig(**kwargs)
