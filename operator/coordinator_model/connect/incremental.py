"""The leader's assignor of today's Connect: incremental cooperative rebalancing (KIP-415)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .loads import WorkerLoad, assign_connectors, assign_tasks, load_balancing_revocations, worker_loads
from .work import NOTHING, ClusterConfig, ConnectorsAndTasks

DEFAULT_MAX_DELAY_MS = 300_000
"""`scheduled.rebalance.max.delay.ms`, DistributedConfig."""

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class Round:
    """What the leader knows when it must assign.

    Parameters
    ----------
    config: its snapshot of the config topic.
    workers: what each member of the generation reports to run now.
    last_completed_generation_id: the generation whose assignment this leader itself received; -1 for none.
    generation_id: the generation being formed.
    """

    config: ClusterConfig
    workers: Mapping[str, ConnectorsAndTasks]
    last_completed_generation_id: int
    generation_id: int


@dataclass(frozen=True, slots=True)
class ClusterAssignment:
    """The outcome of a round, for every worker of it (IncrementalCooperativeAssignor.ClusterAssignment).

    Parameters
    ----------
    assigned: what to start now.
    revoked: what to stop now; given away in a later round only.
    complete: what each runs once it has followed.
    delay_ms: after how long every worker asks for the next round; 0 for never.
    """

    assigned: Mapping[str, ConnectorsAndTasks]
    revoked: Mapping[str, ConnectorsAndTasks]
    complete: Mapping[str, ConnectorsAndTasks]
    delay_ms: int


@dataclass(slots=True)
class IncrementalCooperativeAssignor:
    """The memory of one leader; a new leader starts with an empty one, so for it nothing was ever lost.

    Source of every rule: KIP-415 and IncrementalCooperativeAssignor.
    """

    max_delay_ms: int = DEFAULT_MAX_DELAY_MS
    previous_assignment: ConnectorsAndTasks = NOTHING
    previous_revocation: ConnectorsAndTasks = NOTHING
    previous_members: frozenset[str] = frozenset()
    previous_generation_id: int = NO_GENERATION
    scheduled_rebalance_ms: int = 0
    delay_ms: int = 0
    revoked_in_previous: bool = False
    successive_revoking_rebalances: int = 0
    candidate_workers: list[str] = field(default_factory=list)

    def assign(self, this_round: Round, now_ms: int) -> ClusterAssignment:
        """Compute one round and remember it; returns what every worker starts, stops and holds afterwards.

        Parameters: now_ms is the leader's clock. Source: performTaskAssignment.
        """
        previous = self._trusted_previous(this_round)
        configured = this_round.config.configured()
        active = ConnectorsAndTasks.union(this_round.workers.values())
        deleted = previous.minus(configured).sorted()
        lost = previous.minus(active, deleted).sorted()
        created = configured.minus(previous, active)

        to_revoke = _held(deleted.plus(duplicated(this_round.workers)), this_round.workers)
        loads = worker_loads(this_round.workers)
        _take(loads, to_revoke)

        lost_to_reassign = self.handle_lost_assignments(lost, loads, now_ms)
        for worker, work in self._balancing_revocations(configured, loads, now_ms).items():
            to_revoke[worker] = to_revoke.get(worker, NOTHING).plus(work)

        to_assign = created.plus(lost_to_reassign)
        assign_connectors(loads, to_assign.connectors)
        assign_tasks(loads, to_assign.tasks)
        return self._remember(this_round, loads, to_revoke, lost, deleted)

    def _trusted_previous(self, this_round: Round) -> ConnectorsAndTasks:
        """The last assignment, unless it never reached the group.

        After a generation this leader missed it is forgotten; when something revoked last time is still reported as
        running, the revocation got lost and what the workers report counts instead.
        """
        if self.previous_generation_id != this_round.last_completed_generation_id:
            self.previous_assignment = NOTHING
        active = ConnectorsAndTasks.union(this_round.workers.values())
        if self.previous_revocation.common(active):
            self.previous_assignment = active
        self.previous_revocation = NOTHING
        return self.previous_assignment

    def handle_lost_assignments(
        self, lost: ConnectorsAndTasks, loads: Sequence[WorkerLoad], now_ms: int
    ) -> ConnectorsAndTasks:
        """Decide about work whose worker is gone; returns what may be assigned like new work at once.

        While a delay runs, nothing of it is assigned; at its end it goes in turn to the workers that were empty
        meanwhile (loads are changed in place), or like new work when none of them is there any more.
        Source: handleLostAssignments, KAFKA-9848 (lost SyncGroup), KAFKA-15693 (delay 0).
        """
        if not lost and not self.revoked_in_previous:
            self._reset_delay()
            return NOTHING
        members = {load.worker for load in loads}
        if (self.scheduled_rebalance_ms <= 0 and self.previous_members <= members) or self.max_delay_ms == 0:
            return lost
        if 0 < self.scheduled_rebalance_ms <= now_ms:
            candidates = [load for name in self.candidate_workers for load in loads if load.worker == name]
            self._reset_delay()
            # the full delay has passed, so a further revoking round needs no back-off
            self.revoked_in_previous = False
            if not candidates:
                return lost
            for place, connector in enumerate(lost.connectors):
                candidates[place % len(candidates)].connectors.append(connector)
            for place, task in enumerate(lost.tasks):
                candidates[place % len(candidates)].tasks.append(task)
            return NOTHING
        self.candidate_workers += [w.worker for w in loads if not w and w.worker not in self.candidate_workers]
        remaining_ms = self.scheduled_rebalance_ms - now_ms
        self.delay_ms = min(remaining_ms, self.max_delay_ms) if remaining_ms > 0 else self.max_delay_ms
        self.scheduled_rebalance_ms = now_ms + self.delay_ms
        return NOTHING

    def _balancing_revocations(
        self, configured: ConnectorsAndTasks, loads: Sequence[WorkerLoad], now_ms: int
    ) -> dict[str, ConnectorsAndTasks]:
        """Work revoked for balance in this round, by worker, already taken off the loads.

        None while a delay runs. After a round that revoked, the next one that would revoke again starts a delay of
        min(40^n, max delay) ms instead (KAFKA-12495), unless the max delay is 0.
        """
        if self.delay_ms:
            self.revoked_in_previous = False
            return {}
        surplus = load_balancing_revocations(configured, loads)
        if not surplus:
            if self.revoked_in_previous:
                self.successive_revoking_rebalances = 0
            self.revoked_in_previous = False
            return {}
        if self.revoked_in_previous:
            self.successive_revoking_rebalances += 1
            self.delay_ms = successive_revocation_delay_ms(self.successive_revoking_rebalances, self.max_delay_ms)
            if self.delay_ms:
                self.scheduled_rebalance_ms = now_ms + self.delay_ms
                return {}
        self.revoked_in_previous = True
        _take(loads, surplus)
        return surplus

    def _remember(
        self,
        this_round: Round,
        loads: Sequence[WorkerLoad],
        to_revoke: Mapping[str, ConnectorsAndTasks],
        lost: ConnectorsAndTasks,
        deleted: ConnectorsAndTasks,
    ) -> ClusterAssignment:
        complete = {load.worker: load.work() for load in loads}
        revoked = {worker: work for worker, work in to_revoke.items() if work}
        self.previous_revocation = ConnectorsAndTasks.union(revoked.values())
        self.previous_assignment = (
            ConnectorsAndTasks.union(complete.values()).minus(self.previous_revocation).plus(lost)
        )
        self.previous_generation_id = this_round.generation_id
        self.previous_members = frozenset(this_round.workers)
        return ClusterAssignment(
            assigned={w: work.minus(this_round.workers[w].minus(deleted)) for w, work in complete.items()},
            revoked={worker: revoked.get(worker, NOTHING) for worker in complete},
            complete={w: work.minus(revoked.get(w, NOTHING)) for w, work in complete.items()},
            delay_ms=self.delay_ms,
        )

    def _reset_delay(self) -> None:
        self.candidate_workers = []
        self.scheduled_rebalance_ms = 0
        self.delay_ms = 0


def successive_revocation_delay_ms(rounds: int, max_delay_ms: int) -> int:
    """How long a further revoking round is put off after `rounds` of them in a row, in ms; 0 when delays are off.

    Source: ExponentialBackoff(initial 1, multiplier 40, no jitter) in IncrementalCooperativeAssignor.
    """
    delay_ms = 1
    for _ in range(rounds):
        if delay_ms >= max_delay_ms:
            break
        delay_ms *= 40
    return min(delay_ms, max_delay_ms)


def duplicated(workers: Mapping[str, ConnectorsAndTasks]) -> ConnectorsAndTasks:
    """What more than one worker reports to run; it is revoked from all of them (KAFKA-12495's duplicates)."""
    connectors = Counter(c for work in workers.values() for c in work.connectors)
    tasks = Counter(t for work in workers.values() for t in work.tasks)
    return ConnectorsAndTasks.of(
        sorted(c for c, count in connectors.items() if count > 1), sorted(t for t, count in tasks.items() if count > 1)
    )


def _held(work: ConnectorsAndTasks, workers: Mapping[str, ConnectorsAndTasks]) -> dict[str, ConnectorsAndTasks]:
    return {worker: held.common(work) for worker, held in workers.items()}


def _take(loads: Sequence[WorkerLoad], revocations: Mapping[str, ConnectorsAndTasks]) -> None:
    for load in loads:
        load.remove(revocations.get(load.worker, NOTHING))
