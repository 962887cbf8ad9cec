"""What an operator process does about gaps: loses its watch, lists again, judges the name, notices a restore."""

from __future__ import annotations

from collections.abc import Iterator

from .actor import Actor, Step
from .scenario import GAP
from .state import BROKEN, DOWN, ENDED, LISTED, LOST, WATCHES, Facts, Replica, Span, State, bit, everyone, unused_number


class Gaps(Actor):
    """What the end of a gap does to a process."""

    def broken(self, replica: Replica) -> Replica:
        """Return the process after its watch was lost; a gap that is not judged yet goes on."""
        if replica.mode == DOWN:
            return replica
        shown = replica.pod.uid if replica.pod is not None else 0
        base = shown if replica.mode == WATCHES else replica.base
        return replica._replace(mode=BROKEN, base=base, log=(), pending=None, owed=0, behind=-1)

    def relisted(self, state: State, replica: Replica) -> Replica:
        """Return the process after a complete, consistent LIST, from which its watch goes on."""
        pod = self.visible(state.pod)
        is_same = replica.pod is not None and pod is not None and replica.pod.uid == pod.uid
        listed = replica._replace(
            pod=pod,
            log=(),
            is_born=replica.is_born and is_same and not self.rules.ends_births,
            has_read_lease=False,
            epoch=self.new_epoch(state),
        )
        if pod is None:
            return listed
        dead = listed.dead | bit(pod) if self.rules.certifies(pod, listed.is_born) else listed.dead
        return listed._replace(known=listed.known | bit(pod), dead=dead)

    def judged(self, state: State, n: int, replica: Replica) -> State:
        """Keep the name clear, open a span for it, or wait for the read of the StatefulSet."""
        base, pod, early = replica.base, replica.pod, replica.early
        if not self.rules.suspects_absent and pod is None and base > 0 and not replica.dead & (1 << base):
            replica = replica._replace(known=replica.known & ~(1 << base))
        clear = self.set_replica(state, n, replica._replace(mode=WATCHES, base=0, early=None))
        if not self.rules.compares:
            return clear
        blind = self.opened(clear, n)
        if base == LOST:
            return clear if self.rules.remembers(base) else blind
        if pod is not None:
            return clear if self.rules.is_same_object(base, pod.uid) else blind
        if replica.facts is None or not self.rules.was_outside(replica.facts):
            return blind
        if early is not None:
            return clear if early == replica.facts else blind
        return self.set_replica(state, n, replica._replace(mode=LISTED))

    def opened(self, state: State, n: int) -> State:
        """Open a span over all that may have come and gone before this moment."""
        replica = state.replicas[n]
        unseen = (everyone(state) & ~replica.known | state.revived) & ~bit(state.pod)
        for span in replica.spans:
            unseen &= ~span.hides
        span = Span(unused_number(state), unseen & state.alive)
        kept = tuple(s for s in (*replica.spans, span) if not self.rules.is_closed(s, state))
        return self.set_replica(state, n, replica._replace(spans=kept))

    def new_epoch(self, state: State) -> int:
        """Return an epoch that is nowhere in use; 0 where epochs do not matter because no position is stored."""
        if not self.scenario.has_positions:
            return 0
        held = [state.status, state.lease, state.copy, state.flight and state.flight[0], *state.replicas]
        return 1 + max(h.epoch for h in held if h is not None)


class Watch(Gaps):
    """Steps of every process's watch."""

    def steps(self, state: State) -> Iterator[Step]:
        """Yield every step of every watch."""
        if state.left[GAP]:
            replicas = tuple(self.broken(r) for r in state.replicas)
            says = "the API server restarts and has lost the history of its watches (410)"
            yield Step(says, state._replace(replicas=replicas, lease=None, left=self.spend(state, GAP)))
        for n, replica in enumerate(state.replicas):
            is_watching = replica.mode in (WATCHES, LISTED)
            if replica.log and is_watching:
                yield Step(f"the watch shows {self.who(n)} one version", self.set_replica(state, n, self._next(replica)))
            if replica.is_rewound and is_watching and self.rules.notices_old_reads:
                says = f"{self.who(n)} reads what is older than it saw: etcd was restored"
                yield Step(says, self._restored(state, n, replica))
            elif replica.mode == BROKEN:
                yield from self._list(state, n, replica)
            elif replica.mode == LISTED:
                yield self._end(state, n, replica)

    def _next(self, replica: Replica) -> Replica:
        behind = max(replica.behind - 1, 0) if replica.behind > 0 else replica.behind
        after = self.shown(replica, replica.log[0])
        return after._replace(log=replica.log[1:], behind=behind, owed=max(replica.owed - 1, 0))

    def _list(self, state: State, n: int, replica: Replica) -> Iterator[Step]:
        now, who = state.stateful_set, self.who(n)
        if not self.rules.reads_lease_after_list and not replica.has_read_lease and not replica.is_rewound:
            read = replica._replace(has_read_lease=True)
            yield Step(f"{who} reads its Lease, which is as it wrote it", self.set_replica(state, n, read))
        if not self.rules.reads_after_list and replica.early is None:
            read = replica._replace(early=Facts(now.uid, now.generation, now.wanted))
            yield Step(f"{who} reads the StatefulSet: generation {now.generation}", self.set_replica(state, n, read))
            return
        pod = self.visible(state.pod)
        says = f"{who} lists pod {pod.uid}" if pod else f"{who} lists no object"
        is_revived = pod is not None and pod.phase != ENDED and bool(replica.dead & bit(pod))
        if replica.is_rewound and self.rules.compares_own_writes and not replica.has_read_lease:
            says = f"{says}, and finds its Lease older than it wrote it: etcd was restored"
            yield Step(says, self._restored(state, n, replica))
        elif is_revived and self.rules.notices_old_reads:
            yield Step(f"{says}, which is proven dead: etcd was restored", self._restored(state, n, replica))
        else:
            listed = self.relisted(state, replica)._replace(is_rewound=False)
            yield Step(says, self.judged(state, n, listed))

    def _end(self, state: State, n: int, replica: Replica) -> Step:
        now = state.stateful_set
        after = self.set_replica(state, n, replica._replace(mode=WATCHES, base=0))
        is_kept = replica.facts is not None and self.rules.is_unchanged(replica.facts, now)
        says = f"{self.who(n)} reads the StatefulSet: generation {now.generation}"
        return Step(says, after if is_kept else self.opened(after, n))

    def _restored(self, state: State, n: int, replica: Replica) -> State:
        """Begin again: a span for all names, and nothing of the other timeline is believed of what is there."""
        listed = self.relisted(state, replica)
        dead = listed.dead
        if listed.pod is not None and listed.pod.phase != ENDED and self.rules.ends_certificates:
            dead &= ~bit(listed.pod)
        begun = listed._replace(
            mode=WATCHES,
            dead=dead,
            base=0,
            facts=None if self.rules.ends_facts else listed.facts,
            is_born=False,
            early=None,
            pending=None,
            owed=0,
            behind=-1,
            is_current=False,
            is_rewound=False,
        )
        return self.opened(self.set_replica(state, n, begun), n)
