"""One Connect worker: what it offers, how it assigns as leader, and how it reacts to an assignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .eager import assign_eagerly
from .incremental import NO_GENERATION, ClusterAssignment, IncrementalCooperativeAssignor, Round
from .protocol import (
    Assignment,
    AssignmentError,
    ConnectProtocolCompatibility,
    WorkerState,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from .static import StaticMembership
from .work import NOTHING, ClusterConfig, ConnectorsAndTasks


@dataclass(slots=True)
class ConnectWorker:
    """A worker process (WorkerCoordinator and the parts of DistributedHerder that react to a rebalance).

    Parameters
    ----------
    url: its advertised REST address, which goes into metadata and assignments.
    mode: its `connect.protocol`.
    config: its own snapshot of the config topic; may be older than that of others.
    """

    url: str
    mode: ConnectProtocolCompatibility
    config: ClusterConfig
    assignor: IncrementalCooperativeAssignor
    member_id: str = ""
    running: ConnectorsAndTasks = NOTHING
    assignment: Assignment | None = None
    generation_id: int = NO_GENERATION
    protocol: ConnectProtocolCompatibility | None = None
    rejoin_requested: bool = True
    scheduled_rebalance_ms: int | None = None
    revocations: list[ConnectorsAndTasks] = field(default_factory=list)
    """Everything it was made to stop, in order (calls of WorkerRebalanceListener.onRevoked)."""
    static: StaticMembership | None = None
    """Set when the agent gives it a static identity; None: Connect without the agent."""

    def protocols(self) -> tuple[tuple[str, bytes], ...]:
        """Return name and metadata of the protocols to offer in JoinGroup, most preferred first.

        Source: WorkerCoordinator.metadata.
        """
        state = WorkerState(self.url, self.config.offset, self.assignment)
        offered = ((mode.protocol, encode_metadata(state, mode)) for mode in self.mode.offered())
        return tuple((name, self.static.with_last_generation(data) if self.static else data) for name, data in offered)

    def on_join_prepare(self) -> None:
        """Get ready to join: with the eager protocol everything stops now, else everything keeps running."""
        if (self.protocol or self.mode) is ConnectProtocolCompatibility.EAGER:
            self._stop(self.running)
        self.rejoin_requested = False

    def on_leader_elected(
        self, protocol: str, members: Mapping[str, bytes], generation_id: int, now_ms: int
    ) -> dict[str, bytes]:
        """Assign for the whole group; returns the bytes of SyncGroup per member id.

        A leader whose config snapshot is older than a member's assigns nothing and answers CONFIG_MISMATCH to all.
        Source: WorkerCoordinator.onLeaderElected, IncrementalCooperativeAssignor.performAssignment.
        """
        chosen = ConnectProtocolCompatibility.from_protocol(protocol)
        states = {member_id: decode_metadata(data) for member_id, data in members.items()}
        newest = max(state.config_offset for state in states.values())
        error = AssignmentError.CONFIG_MISMATCH if self.config.offset < newest else AssignmentError.NO_ERROR
        offset = max(newest, self.config.offset)
        if error:
            outcome = ClusterAssignment({}, {}, {}, 0)
        elif chosen is ConnectProtocolCompatibility.EAGER:
            everything = assign_eagerly(self.config, states)
            outcome = ClusterAssignment(everything, {}, everything, 0)
        else:
            reported = {m: s.allocation.assigned if s.allocation else NOTHING for m, s in states.items()}
            outcome = self.assignor.assign(Round(self.config, reported, self.generation_id, generation_id), now_ms)
        return {
            member_id: encode_assignment(
                Assignment(
                    version=chosen.version,
                    error=error,
                    leader=self.member_id,
                    leader_url=self.url,
                    config_offset=offset,
                    assigned=outcome.assigned.get(member_id, NOTHING),
                    revoked=outcome.revoked.get(member_id, NOTHING),
                    delay_ms=outcome.delay_ms,
                )
            )
            for member_id in states
        }

    def on_join_complete(self, generation_id: int, protocol: str, data: bytes, now_ms: int) -> None:
        """Follow an assignment: stop what is revoked, add what is new, and see whether to join again.

        It rejoins at once after revoking something, after a failed assignment, and when its config snapshot is
        another than the assignment's; it rejoins when the delay of the assignment has passed.
        Source: WorkerCoordinator.onJoinComplete, DistributedHerder.handleRebalanceCompleted.
        """
        round_wanted = False
        if self.static is not None:
            running = self.assignment.assigned if self.assignment else NOTHING
            seen = self.static.received(data, generation_id, self.member_id, self.url, self.config.offset, running)
            data, round_wanted = seen.shown, seen.round_wanted
        received = decode_assignment(data)
        self.protocol = ConnectProtocolCompatibility.from_protocol(protocol)
        held = NOTHING
        if self.protocol is not ConnectProtocolCompatibility.EAGER:
            self._stop(received.revoked)
            held = self.assignment.assigned.minus(received.revoked) if self.assignment else NOTHING
        self.generation_id = generation_id
        self.scheduled_rebalance_ms = now_ms + received.delay_ms if received.delay_ms > 0 else None
        self.assignment = Assignment(
            version=received.version,
            error=received.error,
            leader=received.leader,
            leader_url=received.leader_url,
            config_offset=received.config_offset,
            assigned=received.assigned.plus(held),
        )
        if received.failed or received.config_offset != self.config.offset:
            self.rejoin_requested = True
            return
        self.running = self.assignment.assigned
        self.rejoin_requested = bool(received.revoked) or round_wanted

    def wants_to_join(self, now_ms: int) -> bool:
        """Whether it asks for a new round at this time (WorkerCoordinator.rejoinNeededOrPending)."""
        due = self.scheduled_rebalance_ms is not None and self.scheduled_rebalance_ms <= now_ms
        return self.rejoin_requested or due or self.assignment is None or self.assignment.failed

    def stop_everything(self) -> None:
        """Stop all work and forget the assignment: on shut-down, and when the coordinator can't be reached.

        Source: DistributedHerder.halt; WorkerCoordinator.poll (KAFKA-9184).
        """
        self._stop(self.running)
        self.assignment = None

    def _stop(self, work: ConnectorsAndTasks) -> None:
        stopped = self.running.common(work)
        if stopped:
            self.revocations.append(stopped)
        self.running = self.running.minus(work)
