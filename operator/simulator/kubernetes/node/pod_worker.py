"""One pod on one node, as its kubelet sees it through.

Source: kubelet pod_workers.go (a pod is starting, running, terminating, terminated and never goes back) and
kubelet_pods.go (a terminal phase is withheld until every container has stopped, since 1.27).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ..objects import Json, is_true, name_of, namespace_of, uid_of, with_condition
from .container_status import ContainerRecord, statuses

BACKOFF_FIRST_S: Final = 10.0
BACKOFF_MAX_S: Final = 300.0
BACKOFF_FORGOTTEN_S: Final = 600.0


class Stage(StrEnum):
    """How far a pod has come on its node."""

    STARTING = "starting"
    RUNNING = "running"
    TERMINATING = "terminating"
    ENDED = "ended"


@dataclass(slots=True, kw_only=True)
class PodWorker:
    """What a kubelet process remembers of a pod.

    Parameters
    ----------
    pod: the newest version it has received.
    records: of its containers, shared with the runtime, which outlives the kubelet process.
    is_orphan: the object is gone, so nothing can be written any more.
    eviction: status.reason and message when the kubelet itself ends the pod.
    """

    pod: Json
    records: list[ContainerRecord]
    stage: Stage = Stage.STARTING
    is_orphan: bool = False
    is_rejected: bool = False
    is_dirty: bool = False
    eviction: tuple[str, str] | None = None
    kill_timer: asyncio.TimerHandle | None = None
    kill_at_s: float = float("inf")
    restarts: dict[str, int] = field(default_factory=dict)

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return uid_of(self.pod)

    @property
    def name(self) -> str:
        """The pod's name."""
        return name_of(self.pod)

    @property
    def namespace(self) -> str:
        """The pod's namespace."""
        return namespace_of(self.pod)

    @property
    def is_ending(self) -> bool:
        """True once the pod will not be started again."""
        return self.stage in (Stage.TERMINATING, Stage.ENDED)

    @property
    def is_stopped(self) -> bool:
        """True while no container runs as far as the kubelet knows."""
        return not any(record.is_running for record in self.records)

    @property
    def is_misreported(self) -> bool:
        """True while the object of a pod that runs calls it not Ready, as after its node was silent, though it is."""
        mains = [r for r in self.records if r.kind == "containerStatuses"]
        is_ready = self.stage is Stage.RUNNING and all(r.is_running and r.is_ready for r in mains)
        return is_ready and not is_true(self.pod, "Ready")

    def record(self, container: str) -> ContainerRecord:
        """Return the record of a container."""
        return next(r for r in self.records if r.name == container)

    def backoff_s(self, record: ContainerRecord) -> float:
        """Return how long to wait before a restart: at once, then 10 s, 20 s, 40 s … 300 s."""
        run_s = (record.finished_s or 0.0) - (record.started_s or 0.0)
        count = 0 if run_s >= BACKOFF_FORGOTTEN_S else self.restarts.get(record.name, 0)
        self.restarts[record.name] = count + 1
        return 0.0 if count == 0 else min(BACKOFF_MAX_S, BACKOFF_FIRST_S * 2.0 ** (count - 1))

    def phase(self) -> str:
        """Return the phase the kubelet would post."""
        if self.is_rejected:
            return "Failed"
        if self.stage is Stage.ENDED:
            mains = [r for r in self.records if not r.is_oneshot]
            is_clean = all(r.run and not r.is_lost and r.exit_code == 0 for r in mains)
            return "Succeeded" if is_clean and self.eviction is None else "Failed"
        return "Running" if all(r.run for r in self.records if r.kind == "containerStatuses") else "Pending"

    def status(self, present: Json, now_s: float) -> Json:
        """Build the status to post over what the API server has."""
        old = present.get("status") or {}
        if self.is_rejected:
            return {
                "phase": "Failed",
                "reason": "OutOfcpu",
                "message": "Pod was rejected: Node didn't have enough resource: cpu",
                "startTime": old.get("startTime"),
                "conditions": old.get("conditions"),
                "containerStatuses": None,
                "initContainerStatuses": None,
            }
        mains = [r for r in self.records if r.kind == "containerStatuses"]
        is_ready = not self.is_ending and all(r.is_running and r.is_ready for r in mains)
        if self.stage is Stage.TERMINATING:
            is_ready = all(r.is_running and r.is_ready for r in mains)
        conditions = old.get("conditions") or []
        is_initialized = all(r.run for r in self.records if r.kind == "initContainerStatuses")
        for type_, is_met in (
            ("PodReadyToStartContainers", any(r.run for r in self.records) and self.stage is not Stage.ENDED),
            ("Initialized", is_initialized),
            ("ContainersReady", is_ready),
            ("Ready", is_ready),
        ):
            reason = "" if is_met else ("PodCompleted" if self.stage is Stage.ENDED else "ContainersNotReady")
            conditions = with_condition(conditions, type_, "True" if is_met else "False", now_s, reason=reason)
        status: Json = {"phase": self.phase(), "conditions": conditions}
        if self.eviction is not None and self.stage is Stage.ENDED:
            status |= {"reason": self.eviction[0], "message": self.eviction[1]}
            status["conditions"] = with_condition(
                conditions, "DisruptionTarget", "True", now_s, reason="TerminationByKubelet", message=self.eviction[1]
            )
        return status | statuses(
            self.records, self.uid, is_pod_ending=self.is_ending, is_final=self.stage is Stage.ENDED
        )
