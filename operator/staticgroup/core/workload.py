"""What the workload object says, reduced to what the decisions need, whatever its kind.

A StatefulSet wants a range of ordinals, a StrimziPodSet those of the pods that it lists, which may have holes, and a
Deployment the numbers of the slots that its pods have or will take over (`core.slots`). What a kind does not say is
never assumed (`api.workloads.WorkloadKind`).

The Kafka client is often not in the first container: charts put proxies and exporters there, and meshes that start
their proxy first do (Istio's holdApplicationUntilProxyStarts). So its container is chosen by name.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ..api.injection import env_entries
from ..api.resources.client import Client
from ..api.schema import INT32_MAX
from ..api.workloads import STATEFUL_SET, WorkloadKind

RUNS_MAX: Final = 256
"""From how many listed pods on `reach` is one range."""
SIDECARS: Final = re.compile(
    r"istio-proxy|linkerd-proxy|envoy(-.*)?|daprd|consul-dataplane|kuma-sidecar"  # meshes and runtimes
    r"|vault-agent|cloud-?sql-proxy|csql-proxy.*"  # secrets and databases
    r"|.*-exporter|.*exporter-.*|.*jmx.*|otc-container|otel-.*|opentelemetry-.*|datadog-agent"  # metrics and traces
    r"|fluent-?bit|fluentd|filebeat|promtail|vector|.*-log-?(shipper|agent)"  # logs
    r"|git-sync|config-reloader|.*-reloader|oauth2?-proxy|kube-rbac-proxy"  # configuration and access
)
"""Names under which the documentation of these projects, and public charts, run them beside an application."""


class JavaOptions(StrEnum):
    """What a container of the pod template says of KAFKA_OPTS, without the text itself, which may hold a secret."""

    ABSENT = "absent"
    PERHAPS_FROM_ELSEWHERE = "perhaps from envFrom"
    TEXT = "text"
    WITH_AGENT = "text that names the agent"
    REFERENCE = "valueFrom"
    TWICE = "twice"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerBudget:
    """Start-up facts of one container of the pod template, for the structural estimate of time away.

    Parameters
    ----------
    env_names: names of its literal or referenced environment variables, in order.
    env_values: literal values by name; references are absent.
    startup_budget_s: initialDelaySeconds + failureThreshold x periodSeconds of startupProbe, or of readinessProbe
        when there is none; None when it has neither.
    has_agent_mount: something is mounted where the agent would be.
    """

    name: str
    env_names: tuple[str, ...] = ()
    env_values: tuple[tuple[str, str], ...] = ()
    startup_budget_s: int | None = None
    java_options: JavaOptions = JavaOptions.ABSENT
    has_agent_mount: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """How a Deployment, or a Rollout of Argo, replaces its pods.

    Parameters
    ----------
    max_unavailable: how many of the wanted pods may be lacking meanwhile, as resolved.
    max_unavailable_text: the same as it is written.
    is_recreate: all pods end before the first new one begins.
    is_paused: it replaces none now, beside those for which new ones have come already.
    min_ready_s: a pod counts as available once it is Ready for so long, seconds.
    begins_beside: new pods may begin beside as many old ones as are wanted: another colour, or steps with a surge.
    path: the fields that decide all this.
    """

    max_unavailable: int = 1
    max_unavailable_text: str = ""
    is_recreate: bool = False
    is_paused: bool = False
    min_ready_s: int = 0
    begins_beside: bool = False
    path: str = "spec.strategy.rollingUpdate"

    @property
    def ends_before_it_begins(self) -> bool:
        """True where pods end before those that replace them are Ready."""
        return not self.begins_beside and (self.is_recreate or self.max_unavailable > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadView:
    """One workload as read.

    Parameters
    ----------
    listed: ordinals of the pods that it lists, ascending and without repetition; None where it wants a range. Of a
        Deployment: the numbers of its slots, see `core.slots.deployment.with_slots`.
    replicas: how many pods it wants.
    start: spec.ordinals.start; ordinals are [start, start + replicas), unless pods are listed: then the lowest of them.
    partition: spec.updateStrategy.rollingUpdate.partition, an index counted from `start`.
    is_orphaning: it is being deleted with the `orphan` finalizer, so its pods live on.
    termination_grace_s: terminationGracePeriodSeconds of the template.
    agent_names: paths of what the template itself calls as the agent's volume and init container are called.
    rollout: of a kind whose pods get slots; None of any other.
    """

    namespace: str
    name: str
    uid: str
    metadata_generation: int
    observed_generation: int
    replicas: int
    kind: WorkloadKind = STATEFUL_SET
    listed: tuple[int, ...] | None = None
    start: int = 0
    update_strategy: str = "RollingUpdate"
    partition: int = 0
    current_revision: str = ""
    update_revision: str = ""
    status_replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    is_deleting: bool = False
    is_orphaning: bool = False
    termination_grace_s: int = 30
    containers: tuple[ContainerBudget, ...] = ()
    init_container_count: int = 0
    agent_names: tuple[str, ...] = ()
    rollout: Rollout | None = None

    @property
    def runs(self) -> tuple[range, ...]:
        """Ordinals the workload wants now: [start, start + replicas) (KEP-3335), or those of the pods that it lists."""
        if self.listed is None:
            return (range(self.start, self.start + self.replicas),)
        return tuple(range(ordinal, ordinal + 1) for ordinal in self.listed)

    def wants(self, ordinal: int) -> bool:
        """True for an ordinal whose pod the workload wants now."""
        if self.listed is None:
            return self.start <= ordinal < self.start + self.replicas
        at = bisect_left(self.listed, ordinal)
        return at < len(self.listed) and self.listed[at] == ordinal

    @property
    def reach(self) -> tuple[range, ...]:
        """Ordinals that include all wanted ones, as few ranges: a long list with holes must stay cheap to remember."""
        if self.rollout is not None:  # any number may be one
            return (range(INT32_MAX + 1),)
        if self.listed is None or len(self.listed) <= RUNS_MAX:
            return self.runs
        return (range(self.listed[0], self.listed[-1] + 1),)

    @property
    def is_ending(self) -> bool:
        """True while it is being deleted together with its pods, in the foreground."""
        return self.is_deleting and not self.is_orphaning

    @property
    def is_rolling(self) -> bool:
        """True while a rolling update is in progress."""
        if self.listed is not None:  # its status counts the pods of the revision that is wanted, and names none
            return self.observed_generation < self.metadata_generation or self.updated_replicas < self.replicas
        return self.observed_generation < self.metadata_generation or (
            self.update_revision != self.current_revision
            and self.update_strategy == "RollingUpdate"
            and self.updated_replicas < max(0, self.replicas - self.partition)
        )


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
