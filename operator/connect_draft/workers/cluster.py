"""Workers and a coordinator of the draft in virtual time; every step is the caller's, messages may get lost."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from coordinator_model.base.messages import Request
from coordinator_model.connect.work import ConnectorsAndTasks

from ..broker.coordinator import ConnectDraftCoordinator
from ..broker.settings import DraftSettings
from ..messages import (
    AnyResponse,
    ClassicConnectGroup,
    ConnectGroupHeartbeatResponse,
    ConnectGroupInstallAssignmentResponse,
    ConnectGroupPrepareAssignmentResponse,
    DraftResult,
)
from ..records import DraftRecord
from .worker import DraftWorker


class Delivery(Enum):
    """What becomes of a request and its answer."""

    BOTH = "both arrive"
    REQUEST_LOST = "the request is lost"
    RESPONSE_LOST = "the answer is lost"


@dataclass(slots=True)
class DraftCluster:
    """One group's workers, the coordinator and its log.

    Parameters
    ----------
    log: every record ever written, in order; a new coordinator replays it.
    downgraded: the group as the old protocol got it back; None as long as it did not.
    """

    settings: DraftSettings = field(default_factory=DraftSettings)
    now_ms: int = 0
    workers: dict[str, DraftWorker] = field(default_factory=dict)
    log: list[DraftRecord] = field(default_factory=list)
    coordinator: ConnectDraftCoordinator = field(default_factory=ConnectDraftCoordinator)
    downgraded: ClassicConnectGroup | None = None

    def __post_init__(self) -> None:
        self.coordinator = ConnectDraftCoordinator(self.settings)

    def start(self, worker: DraftWorker) -> DraftWorker:
        """Add a worker process; it joins with its first heartbeat."""
        worker.answered_at_ms = self.now_ms
        self.workers[worker.member_id] = worker
        return worker

    def kill(self, member_id: str) -> DraftWorker:
        """End a worker process without a leave request."""
        return self.workers.pop(member_id)

    def send(self, request: Request) -> AnyResponse:
        """Let the coordinator answer a request and keep what it wrote."""
        result = self._keep(self.coordinator.handle(request, self.now_ms))
        assert result.response is not None
        return result.response

    def heartbeat(self, member_id: str, delivery: Delivery = Delivery.BOTH) -> ConnectGroupHeartbeatResponse | None:
        """Let a worker send one heartbeat and follow its answer; returns the answer, None when something was lost."""
        worker = self.workers[member_id]
        request = worker.heartbeat(self.now_ms)
        if delivery is Delivery.REQUEST_LOST:
            worker.on_no_answer()
            return None
        response = self.send(request)
        assert isinstance(response, ConnectGroupHeartbeatResponse)
        if delivery is Delivery.RESPONSE_LOST:
            worker.on_no_answer()
            return None
        worker.on_heartbeat(request, response, self.now_ms)
        return response

    def compute(self, member_id: str) -> ConnectGroupInstallAssignmentResponse | None:
        """Let the chosen worker compute; returns None when its assignment is no longer wanted."""
        worker = self.workers[member_id]
        prepared = self.send(worker.prepare())
        assert isinstance(prepared, ConnectGroupPrepareAssignmentResponse)
        if prepared.error_code:
            worker.must_compute = False
            return None
        installed = self.send(worker.assign(prepared, self.now_ms))
        assert isinstance(installed, ConnectGroupInstallAssignmentResponse)
        return installed

    def advance(self, duration_ms: int) -> None:
        """Let time pass: timers fire at their own times, and workers without contact stop by themselves."""
        end_ms = self.now_ms + duration_ms
        while (at_ms := self._next_event_ms()) is not None and at_ms <= end_ms:
            self.now_ms = max(at_ms, self.now_ms)
            for worker in self.workers.values():
                ends_ms = worker.gives_up_at_ms()
                if ends_ms is not None and ends_ms <= self.now_ms:
                    worker.abandon()
            self._keep(self.coordinator.expire(self.now_ms))
        self.now_ms = end_ms

    def _next_event_ms(self) -> int | None:
        times = [self.coordinator.timers.next_deadline_ms(), *(w.gives_up_at_ms() for w in self.workers.values())]
        return min((at_ms for at_ms in times if at_ms is not None), default=None)

    def fail_over(self) -> None:
        """Move the group to a new coordinator, which knows the log and nothing else."""
        self.coordinator = ConnectDraftCoordinator(self.settings)
        self.coordinator.replay(self.log, self.now_ms)
        for worker in self.workers.values():
            worker.on_no_answer()

    def settle(self, rounds: int = 20) -> None:
        """Let every worker heartbeat, compute and stop what it must, in turn, until nothing changes any more."""
        for _ in range(rounds):
            before = (len(self.log), self.running(), {m: w.epoch for m, w in self.workers.items()})
            for member_id in list(self.workers):
                self.heartbeat(member_id)
                if self.workers[member_id].must_compute:
                    self.compute(member_id)
                self.workers[member_id].stopped()
            if before == (len(self.log), self.running(), {m: w.epoch for m, w in self.workers.items()}):
                return

    def running(self) -> dict[str, ConnectorsAndTasks]:
        """What each live worker runs now, by its own account."""
        return {member_id: worker.owned for member_id, worker in self.workers.items()}

    def upgrade(self, classic: ClassicConnectGroup) -> None:
        """Take over a group of the old protocol."""
        self._keep(self.coordinator.upgrade(classic, self.now_ms))

    def _keep(self, result: DraftResult) -> DraftResult:
        self.log += result.records
        self.downgraded = result.downgraded or self.downgraded
        return result
