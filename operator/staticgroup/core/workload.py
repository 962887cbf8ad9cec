"""What the workload object (a StatefulSet) says, reduced to what the decisions need."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class JavaOptions(StrEnum):
    """What a container of the pod template says of KAFKA_OPTS; the text itself, which may hold a secret, is not kept."""

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
    image: str = ""
    env_names: tuple[str, ...] = ()
    env_values: tuple[tuple[str, str], ...] = ()
    startup_budget_s: int | None = None
    java_options: JavaOptions = JavaOptions.ABSENT
    has_agent_mount: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadView:
    """One StatefulSet as read.

    Parameters
    ----------
    start: spec.ordinals.start; ordinals are [start, start + replicas).
    partition: spec.updateStrategy.rollingUpdate.partition, an index counted from `start`.
    is_orphaning: it is being deleted with the `orphan` finalizer, so its pods live on.
    termination_grace_s: terminationGracePeriodSeconds of the template.
    agent_names: paths of what the template itself calls as the agent's volume and init container are called.
    """

    namespace: str
    name: str
    uid: str
    metadata_generation: int
    observed_generation: int
    replicas: int
    start: int = 0
    update_strategy: str = "RollingUpdate"
    partition: int = 0
    pod_management_policy: str = "OrderedReady"
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
    host_pid: bool = False
    agent_names: tuple[str, ...] = ()

    @property
    def ordinals(self) -> range:
        """Ordinals the workload wants now: [start, start + replicas) (KEP-3335)."""
        return range(self.start, self.start + self.replicas)

    @property
    def is_ending(self) -> bool:
        """True while it is being deleted together with its pods, in the foreground."""
        return self.is_deleting and not self.is_orphaning

    @property
    def is_rolling(self) -> bool:
        """True while a rolling update is in progress."""
        return self.observed_generation < self.metadata_generation or (
            self.update_revision != self.current_revision
            and self.update_strategy == "RollingUpdate"
            and self.updated_replicas < max(0, self.replicas - self.partition)
        )
