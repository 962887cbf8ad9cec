"""What a process writes down: the facts of the StatefulSet behind a barrier, the status, the position of its watch."""

from __future__ import annotations

from collections.abc import Iterator

from .actor import Step
from .scenario import LATE_WRITE
from .state import RUNS, WATCHES, Facts, Lease, Replica, State, Status, bit
from .watch import Gaps


class Merging(Gaps):
    """What a process takes over from a status."""

    def merged(self, state: State, n: int, replica: Replica) -> State:
        """Return the state after the union of ledgers and spans: suspects and spans leave only by a certificate or a word."""
        status = state.status
        if status is None:
            return self.set_replica(state, n, replica._replace(is_current=True))
        runs = bit(state.pod) if state.pod is not None and state.pod.phase == RUNS else 0
        spans = sorted({s.number: s for s in (*status.spans, *replica.spans)}.values())
        after = replica._replace(
            known=replica.known | status.known,
            dead=replica.dead | (status.dead & ~runs),
            spans=tuple(s for s in spans if not self.rules.is_closed(s, state)),
            is_current=True,
        )
        return self.set_replica(state, n, after)


class Checkpoints(Merging):
    """Steps of every process that write or read the status while it watches."""

    def steps(self, state: State) -> Iterator[Step]:
        """Yield every step that writes something down."""
        for n, replica in enumerate(state.replicas):
            if replica.mode != WATCHES or (replica.is_rewound and self.rules.notices_old_reads):
                continue
            yield from self._records(state, n, replica)
            if self.scenario.is_durable:
                yield from self._writes(state, n, replica)
        if state.flight is not None:
            yield self._arrives(state, *state.flight)

    def _records(self, state: State, n: int, replica: Replica) -> Iterator[Step]:
        """Read the StatefulSet for the checkpoint; the facts count when the barrier has passed."""
        now = state.stateful_set
        facts = Facts(now.uid, now.generation, now.wanted)
        says = f"{self.who(n)} reads the StatefulSet for its checkpoint: generation {now.generation}"
        if self.rules.may_record(now) and facts not in (replica.facts, replica.pending):
            owed = len(replica.log) if self.rules.records_behind_barrier else 0
            if owed:
                yield Step(says, self.set_replica(state, n, replica._replace(pending=facts, owed=owed)))
            else:
                after = replica._replace(facts=facts, pending=None)
                yield Step(f"{says}; recorded", self.set_replica(state, n, after))
        if replica.pending is not None and not replica.owed:
            says = f"the barrier of {self.who(n)} passes: generation {replica.pending.generation} recorded"
            after = replica._replace(facts=replica.pending, pending=None)
            yield Step(says, self.set_replica(state, n, after))

    def _writes(self, state: State, n: int, replica: Replica) -> Iterator[Step]:
        who = self.who(n)
        if not replica.is_current:
            if n == state.leader:
                yield Step(f"{who} reads the status and merges it", self.merged(state, n, replica))
            return
        spans = replica.spans if self.rules.keeps_spans else ()
        uid = replica.pod.uid if replica.pod is not None else 0
        new = Status(replica.epoch, uid, replica.facts, replica.known, replica.dead, spans)
        if state.left[LATE_WRITE] and replica.has_led:
            sent = state._replace(flight=(new, True), left=self.spend(state, LATE_WRITE))
            yield Step(f"{who} sends the status, and waits no longer", sent)
        if new != state.status and replica.has_led:
            yield Step(f"{who} writes the status", self._written(state, n, new))
        gone = replica.known & ~bit(replica.pod)
        lease = Lease(replica.epoch, gone)
        if self.scenario.has_positions and lease != state.lease and self._may_pass(state.status, replica, gone):
            yield Step(f"{who} stores the position of its watch", state._replace(lease=lease))

    def _may_pass(self, status: Status | None, replica: Replica, gone: int) -> bool:
        """Tell whether the status holds every end that the position would pass (UnwrittenEnds.durable_position)."""
        if status is None or replica.log:
            return False
        return not replica.known & gone & ~status.known and not replica.dead & gone & ~status.dead

    def _written(self, state: State, n: int, new: Status) -> State:
        """Write at the version that is known; everybody else, and every write on its way, is outdated by it."""
        replicas = tuple(r._replace(is_current=m == n) for m, r in enumerate(state.replicas))
        flight = (state.flight[0], False) if state.flight is not None else None
        is_owed = state.is_restored_said and not new.spans
        return state._replace(status=new, replicas=replicas, flight=flight, is_restored_said=is_owed)

    def _arrives(self, state: State, new: Status, is_newest: bool) -> Step:
        if self.rules.binds_writes and not is_newest:
            return Step("a status write that was on its way is refused (409)", state._replace(flight=None))
        lease = state.lease
        if lease is not None and not is_newest:
            lease = lease._replace(is_older=True)
        # Whoever sent it has not heard of it and merges before it writes again.
        replicas = tuple(r._replace(is_current=r.is_current and not self.rules.binds_writes) for r in state.replicas)
        says = "a status write that was on its way arrives"
        return Step(says, state._replace(status=new, flight=None, replicas=replicas, lease=lease))
