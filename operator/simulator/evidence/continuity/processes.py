"""How operator processes end and begin, and what befalls a status meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

from .actor import Step
from .checkpoints import Merging
from .scenario import DEATH, EMPTIED, PUT_BACK, TAKE_OVER
from .state import BROKEN, DOWN, LISTED, LOST, WATCHES, Lease, Replica, State, Status, bit


class Processes(Merging):
    """Steps of processes as such."""

    def steps(self, state: State) -> Iterator[Step]:
        """Yield every death, start, take-over, and every damage to a status."""
        for n, replica in enumerate(state.replicas):
            if replica.mode != DOWN and state.left[DEATH]:
                yield Step(f"{self.who(n)} dies", self._died(state, n, replica))
            elif replica.mode == DOWN:
                yield from self._starts(state, n, replica)
        if state.left[TAKE_OVER]:
            yield from self._takes_over(state)
        yield from self._damages(state)

    def _died(self, state: State, n: int, replica: Replica) -> State:
        """End a process; a LeaveGroup that it sent may still arrive. What a replay would show the next one is kept."""
        left = self.spend(state, DEATH)
        is_stored = state.lease is not None and state.lease.epoch == replica.epoch
        if is_stored and replica.mode in (WATCHES, LISTED):
            kept = replica._replace(mode=DOWN, is_born=False, spans=(), facts=None)
            return self.set_replica(state, n, kept, left=left)
        gone = Replica(mode=DOWN, epoch=replica.epoch, asked=replica.asked, is_decided=replica.is_decided)
        return self.set_replica(state, n, gone, left=left)

    def _starts(self, state: State, n: int, replica: Replica) -> Iterator[Step]:
        status, lease, who = state.status, state.lease, self.who(n)
        if n != state.leader:
            new = Replica(epoch=replica.epoch, has_led=False, is_current=False)
            yield Step(f"{who} starts as the standby and lists", self.set_replica(state, n, self.relisted(state, new)))
            return
        if lease is not None and lease.epoch == replica.epoch:
            yield Step(f"{who} starts and resumes the stored position", self._resumed(state, n, replica, lease))
        begun = Replica(mode=BROKEN, base=LOST, epoch=replica.epoch)
        if status is not None:
            begun = self._from_status(state, begun, status)
        if state.is_restored_said:
            begun = begun._replace(base=LOST)
        yield Step(f"{who} starts without a position", self.set_replica(state, n, begun, lease=None))

    def _from_status(self, state: State, replica: Replica, status: Status) -> Replica:
        """Return the process with checkpoint, ledger and spans of a status; what was there is in the ledger by its uid."""
        own = 1 << status.uid if status.uid else 0
        confirmed = state.confirmed & status.known & ~bit(state.pod)
        return replica._replace(
            known=replica.known | status.known | own,
            dead=replica.dead | status.dead | confirmed,
            spans=tuple(s for s in status.spans if not self.rules.is_closed(s, state)),
            facts=status.facts,
            base=status.uid,
        )

    def _resumed(self, state: State, n: int, replica: Replica, lease: Lease) -> State:
        """Begin with the status and a replay of all since the position; compare unless the checkpoint is of this epoch."""
        status = state.status
        begun = Replica(
            epoch=replica.epoch, pod=replica.pod, known=replica.known & ~lease.gone, dead=replica.dead & ~lease.gone
        )
        if status is not None:
            begun = self._from_status(state, begun, status)
        is_rewound = state.is_restored_said and self.rules.doubts_position
        if status is None or is_rewound or (lease.is_older and self.rules.checks_position):
            return self.judged(state, n, begun._replace(base=LOST))
        if status.epoch == lease.epoch or not self.rules.compares_resumed:
            return self.set_replica(state, n, begun._replace(base=0))
        return self.judged(state, n, begun)

    def _takes_over(self, state: State) -> Iterator[Step]:
        """Give the Lease to the other process; the one before may not have noticed."""
        n = 1 - state.leader
        replica = state.replicas[n]
        if replica.mode != WATCHES or state.status is None:
            return
        after = self.merged(state._replace(leader=n, left=self.spend(state, TAKE_OVER)), n, replica)
        new = after.replicas[n]._replace(has_led=True, base=state.status.uid, facts=state.status.facts)
        if self.rules.compares_taken:
            after = self.judged(after, n, new)
        else:
            after = self.set_replica(after, n, new._replace(base=0))
        yield Step(f"{self.who(n)} takes the Lease over", after)

    def _damages(self, state: State) -> Iterator[Step]:
        """Let somebody empty or overwrite the status, or replace the StaticGroup by another one with the same ids."""
        if state.left[PUT_BACK] and state.copy is None:
            yield Step("somebody keeps a copy of the status", state._replace(copy=state.status))
        if state.has_twin and not any(r.mode in (BROKEN, LISTED) for r in state.replicas):
            yield Step("user deletes the first StaticGroup, the other one stays", self._inherited(state))
        if any(r.mode != DOWN for r in state.replicas) or state.status is None:
            return
        if state.left[EMPTIED]:
            after = state._replace(status=None, left=self.spend(state, EMPTIED))
            yield Step("somebody empties the status", after)
        if state.left[PUT_BACK] and state.copy not in (None, state.status):
            lease = state.lease and state.lease._replace(is_older=True)
            after = state._replace(status=state.copy, copy=None, lease=lease, left=self.spend(state, PUT_BACK))
            yield Step("somebody puts the older copy of the status back", after)

    def _inherited(self, state: State) -> State:
        """Go on with the other StaticGroup's memory, which begins here: what is there now, and nothing else."""
        after = state._replace(has_twin=False, status=None, copy=None, flight=None, lease=None)
        for n, replica in enumerate(state.replicas):
            if replica.mode != DOWN:
                own = bit(replica.pod)
                begun = Replica(epoch=replica.epoch, pod=replica.pod, known=own, dead=replica.dead & own, base=LOST)
                after = self.judged(after, n, begun)
        return after
