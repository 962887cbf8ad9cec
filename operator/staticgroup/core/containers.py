"""Which container of a pod the Kafka client is in, where the spec does not say.

The first container is often a proxy or an exporter: charts put them there, and meshes that start their proxy first do
(Istio's holdApplicationUntilProxyStarts). So the container is chosen by its name and written into the status.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ..api.injection import env_entries
from ..api.resources.client import Client
from .workload import ContainerBudget

SIDECARS: Final = re.compile(
    r"istio-proxy|linkerd-proxy|envoy(-.*)?|daprd|consul-dataplane|kuma-sidecar"  # meshes and runtimes
    r"|vault-agent|cloud-?sql-proxy|csql-proxy.*"  # secrets and databases
    r"|.*-exporter|.*exporter-.*|.*jmx.*|otc-container|otel-.*|opentelemetry-.*|datadog-agent"  # metrics and traces
    r"|fluent-?bit|fluentd|filebeat|promtail|vector|.*-log-?(shipper|agent)"  # logs
    r"|git-sync|config-reloader|.*-reloader|oauth2?-proxy|kube-rbac-proxy"  # configuration and access
)
"""Names under which the documentation of these projects, and public charts, run them beside an application."""


def consumer_container(client: Client, containers: Sequence[ContainerBudget]) -> str:
    """Return the name of the container that receives what names no container itself; "" while none is known.

    Parameters
    ----------
    containers: of the pod template, in their order.
    """
    # Step 1: the spec says it.
    if client.container:
        return client.container

    # Step 2: a container that has the variable already, whatever its value.
    named = {entry.instance_id_name for entry in env_entries(client)}
    reads_it = [c.name for c in containers if named & set(c.env_names)]
    if reads_it:
        return reads_it[0]

    # Step 3: the only one that is no known sidecar, else the first of them, else the first of all.
    others = [c.name for c in containers if not SIDECARS.fullmatch(c.name)] or [c.name for c in containers]
    return others[0] if others else ""
