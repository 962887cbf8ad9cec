"""Whether the agent comes into the next Connect workers, and which field of the pod template keeps it out.

The admission policy decides it for each pod (`api.worker_patches`); the same asked of the pod template tells it before a pod is made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ...api.injection import identity_of, options_may_be_absent
from ...api.names import AGENT_MOUNT_PATH, AGENT_NAME, JAVA_OPTIONS_VARIABLE
from ...api.resources.identity import AgentSource
from ...api.resources.staticgroup import StaticGroupSpec
from ..workload import ContainerBudget, JavaOptions, WorkloadView


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentHindrance:
    """What keeps the agent out of the next pods.

    Parameters
    ----------
    cause: a clause. remedy: what to do in the pod template, without the roll that follows.
    """

    cause: str
    remedy: str


_EMPTY: Final = f'- {{name: {JAVA_OPTIONS_VARIABLE}, value: ""}}'
_AS_IMAGE: Final = f"or with the text that the image itself gives {JAVA_OPTIONS_VARIABLE}"
_OPTIONS: Final = {
    JavaOptions.ABSENT: (
        f"has no {JAVA_OPTIONS_VARIABLE}, and one that is written would replace what its image may set",
        f"add {_EMPTY} to its env, {_AS_IMAGE}",
    ),
    JavaOptions.PERHAPS_FROM_ELSEWHERE: (
        f"has envFrom, and a {JAVA_OPTIONS_VARIABLE} that is written would replace one that may come from there",
        f"add {_EMPTY} to its env, or with the text that comes from there",
    ),
    JavaOptions.REFERENCE: (
        f"takes {JAVA_OPTIONS_VARIABLE} by valueFrom, to which nothing can be added",
        f"write it as text in its env ({JAVA_OPTIONS_VARIABLE}.value)",
    ),
    JavaOptions.TWICE: (f"sets {JAVA_OPTIONS_VARIABLE} twice", "set it once in its env"),
    JavaOptions.WITH_AGENT: (
        f"names the agent in {JAVA_OPTIONS_VARIABLE} itself, and a worker must not run two",
        "take it out there, or set spec.identity.agent to Provided",
    ),
}


def hindrance(spec: StaticGroupSpec, workload: WorkloadView | None) -> AgentHindrance | None:
    """Return what keeps the agent out of the next pods; None where nothing does, it is not asked for, or nobody knows."""
    if workload is None or spec.identity.agent is not AgentSource.INJECT:
        return None
    if workload.agent_names:
        field = workload.agent_names[0]
        cause = f"{field} of {workload.kind.kind} {workload.name} has a {AGENT_NAME} of its own"
        return AgentHindrance(cause=cause, remedy="rename it, or set spec.identity.agent to Provided")
    container = _worker(spec, workload)
    if container is None:
        return None
    where = f"container {container.name} of {workload.kind.kind} {workload.name}"
    if container.has_agent_mount:
        return AgentHindrance(
            cause=f"{where} mounts something at or above {AGENT_MOUNT_PATH}", remedy="mount it elsewhere, or set spec.identity.agent to Provided"
        )
    if container.java_options is JavaOptions.ABSENT and options_may_be_absent(identity_of(spec)):
        return None
    if container.java_options is JavaOptions.TEXT:
        return None
    cause, remedy = _OPTIONS[container.java_options]
    return AgentHindrance(cause=f"{where} {cause}", remedy=remedy)


def is_brought(spec: StaticGroupSpec, workload: WorkloadView | None) -> bool:
    """True when the agent is asked for, and nothing in the pod template keeps it out."""
    return workload is not None and spec.identity.agent is AgentSource.INJECT and hindrance(spec, workload) is None


def with_init_container(spec: StaticGroupSpec, workload: WorkloadView | None) -> WorkloadView | None:
    """Return a workload with the init container that its pods get besides those of their template."""
    if workload is None or not is_brought(spec, workload):
        return workload
    return replace(workload, init_container_count=workload.init_container_count + 1)


def _worker(spec: StaticGroupSpec, workload: WorkloadView) -> ContainerBudget | None:
    name = spec.identity.container
    return next((c for c in workload.containers if name in (None, c.name)), None)
