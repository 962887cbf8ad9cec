"""A worker of the draft: what it sends, and how it follows the answers (items 73 and 80)."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator_model.base.errors import ErrorCode
from coordinator_model.connect.work import NOTHING, ClusterConfig, ConnectorsAndTasks

from ..errors import DraftErrorCode
from ..messages import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupPrepareAssignmentRequest,
    ConnectGroupPrepareAssignmentResponse,
    InstalledMember,
)
from ..metadata import encode_worker_metadata
from ..records import Assignor
from .assignors import DELAY_EXPIRED, ConnectAssignor


@dataclass(slots=True)
class DraftWorker:
    """One worker process.

    Parameters
    ----------
    rebalance_timeout_ms, session_timeout_ms: if stopping takes that long, or no answer comes for that long, it stops
        everything by itself. Both are counted from the sending of the first request that may have
        started the coordinator's own timer, so it has stopped before its work is given away.
    listener: calls of WorkerRebalanceListener, in order: ("revoked" or "assigned", what).
    stopping: the work that it has to stop and has not stopped yet.
    """

    member_id: str
    assignor: ConnectAssignor
    config: ClusterConfig
    group_id: str = "connect-cluster"
    instance_id: str | None = None
    rebalance_timeout_ms: int = 60_000
    session_timeout_ms: int = 45_000
    epoch: int = 0
    owned: ConnectorsAndTasks = NOTHING
    stopping: ConnectorsAndTasks = NOTHING
    listener: list[tuple[str, ConnectorsAndTasks]] = field(default_factory=list)
    must_compute: bool = False
    ask_again_at_ms: int | None = None
    answered_at_ms: int = 0
    unanswered_since_ms: int | None = None
    stop_by_ms: int | None = None
    reason: int = 0
    _say_all: bool = True
    _last_owned: ConnectorsAndTasks | None = None
    _last_assignors: tuple[Assignor, ...] | None = None

    def heartbeat(self, now_ms: int) -> ConnectGroupHeartbeatRequest:
        """Return the next heartbeat: all fields at first and after an error, else what changed only."""
        if self.ask_again_at_ms is not None and self.ask_again_at_ms <= now_ms:
            self.ask_again_at_ms = None
            self.reason = DELAY_EXPIRED
        if self.unanswered_since_ms is None:
            self.unanswered_since_ms = now_ms
        offered = self._offered()
        changed = self._say_all or offered != self._last_assignors
        owned_changed = self._say_all or self.owned != self._last_owned
        return ConnectGroupHeartbeatRequest(
            client_id=self.member_id,
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id if self._say_all else None,
            rebalance_timeout_ms=self.rebalance_timeout_ms if self._say_all else -1,
            client_assignors=offered if changed else None,
            connectors_and_tasks=self.owned if owned_changed else None,
        )

    def _offered(self) -> tuple[Assignor, ...]:
        assignor = self.assignor
        metadata = encode_worker_metadata(f"http://{self.member_id}:8083/", self.config)
        return (
            Assignor(
                assignor.name,
                assignor.minimum_version,
                assignor.maximum_version,
                self.reason,
                assignor.maximum_version,
                metadata,
            ),
        )

    def on_heartbeat(
        self, request: ConnectGroupHeartbeatRequest, response: ConnectGroupHeartbeatResponse, sent_at_ms: int
    ) -> None:
        """Follow an answer: take over the epoch, stop what is gone from the assignment, or start what is new in it.

        When something must stop, it stops first (`stopped`), and the next heartbeat says so. Refused with
        UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH it abandons all and joins with the same id and epoch 0.
        """
        self.answered_at_ms = sent_at_ms
        since_ms, self.unanswered_since_ms = self.unanswered_since_ms, None
        self.must_compute = response.error_code is DraftErrorCode.COMPUTE_ASSIGNMENT
        if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self.abandon()
            return
        if response.error_code is not ErrorCode.NONE and not self.must_compute:
            self.on_no_answer()
            return
        if request.client_assignors is not None:
            self._last_assignors = request.client_assignors
            self.reason = 0 if request.client_assignors[0].reason == self.reason else self.reason
        if request.connectors_and_tasks is not None:
            self._last_owned = request.connectors_and_tasks
        self._say_all = False
        if self.must_compute:
            return
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.assignor.on_assignment(response.assignment)
            self._follow(response.assignment.work, sent_at_ms if since_ms is None else since_ms)

    def _follow(self, work: ConnectorsAndTasks, since_ms: int) -> None:
        revoked, added = self.owned.minus(work), work.minus(self.owned)
        if revoked:
            self.stopping = revoked
            if self.stop_by_ms is None:
                self.stop_by_ms = since_ms + self.rebalance_timeout_ms
        elif added:
            self.owned = self.owned.plus(added)
            self.listener.append(("assigned", added))

    def stopped(self) -> None:
        """Finish stopping; the acknowledgement goes out with the next heartbeat, at once."""
        if self.stopping:
            self.listener.append(("revoked", self.stopping))
            self.owned = self.owned.minus(self.stopping)
            self.stopping = NOTHING
            self.stop_by_ms = None

    def on_no_answer(self) -> None:
        """A request got no answer or an error that says nothing: say everything again next time."""
        self._say_all = True

    def gives_up_at_ms(self) -> int | None:
        """When it must assume that the coordinator has removed it; None while it runs nothing.

        The draft leaves a removed worker running until its next answer; today's workers follow KAFKA-9184.
        """
        if not self.owned:
            return None
        session_ends_ms = self.answered_at_ms + self.session_timeout_ms
        return session_ends_ms if self.stop_by_ms is None else min(session_ends_ms, self.stop_by_ms)

    def abandon(self) -> None:
        """Stop everything at once and start over as the same member with epoch 0 (item 73)."""
        if self.owned:
            self.listener.append(("revoked", self.owned))
        self.owned = self.stopping = NOTHING
        self.stop_by_ms = None
        self.epoch = 0
        self.must_compute = False
        self._say_all = True

    def prepare(self) -> ConnectGroupPrepareAssignmentRequest:
        """Return the request for what to assign."""
        return ConnectGroupPrepareAssignmentRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch
        )

    def assign(
        self, prepared: ConnectGroupPrepareAssignmentResponse, now_ms: int
    ) -> ConnectGroupInstallAssignmentRequest:
        """Run the assignor and return the request that installs its result."""
        assigned = self.assignor.assign(prepared, now_ms)
        self.must_compute = False
        self.ask_again_at_ms = now_ms + assigned.delay_ms if assigned.delay_ms > 0 else None
        return ConnectGroupInstallAssignmentRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            group_epoch=prepared.group_epoch,
            error=assigned.error,
            members=tuple(InstalledMember(member_id, work) for member_id, work in sorted(assigned.work.items())),
        )

    def leave(self) -> ConnectGroupHeartbeatRequest:
        """Stop everything and return the heartbeat that leaves for good."""
        return self._goodbye(LEAVE_EPOCH)

    def leave_for_a_while(self) -> ConnectGroupHeartbeatRequest:
        """Stop everything and return the heartbeat with which a static worker keeps its place."""
        return self._goodbye(LEAVE_STATIC_EPOCH)

    def _goodbye(self, epoch: int) -> ConnectGroupHeartbeatRequest:
        self.abandon()
        return ConnectGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
