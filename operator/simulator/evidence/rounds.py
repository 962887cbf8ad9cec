"""What the operator does: rounds of requests in the variant's order, restarts, gaps of its watch.

Between two requests the world may do anything. A round may be abandoned after each of them, so a crash at any step
is covered; a restart (which loses the book) is a move of its own. A LeaveGroup that was decided may arrive at any later
time. What the watch shows matters only to the step that takes the chains, so it is shown at once, except between the read
of the pod and that step, where any number of events may be on its way (`Variant.lags` shows them one by one instead).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .move import Actors, Move
from .policy import Policy
from .questions import VERSIONS_PER_POD, Event, Reading
from .state import (
    BROKEN,
    CONTINUOUS,
    GAP,
    GAPPED,
    RESTART,
    REWOUND,
    SUSPENSION,
    Durable,
    Replica,
    RoundSoFar,
    Seat,
    State,
    is_alive,
)
from .variant import Variant


class Operator(Actors):
    """Moves of every replica."""

    def __init__(self, variant: Variant, policy: Policy) -> None:
        super().__init__(variant, policy)
        self._hopes: dict[RoundSoFar, bool] = {}

    def moves(self, state: State) -> Iterator[Move]:
        """Yield every move of every replica."""
        for n, replica in enumerate(state.replicas):
            who = f"operator {n + 1}" if self.variant.operators > 1 else "operator"
            yield from self._step(state, n, replica, who)
            if replica.step:
                yield Move(f"{who} abandons the round", self.set_replica(state, n, self.idle(replica)))
            yield from self._gaps(state, n, replica, who)
            if self.variant.lags and replica.log:
                behind = replica.round._replace(behind=max(0, replica.round.behind - 1))
                shown = self.delivered(replica, 1)._replace(round=behind)
                yield Move(f"the watch shows {who} one event", self.set_replica(state, n, shown), is_fair=True)
            if state.spent[RESTART] < self.variant.restarts:
                yield from self._restarts(state, n, replica, who)
        if state.spent[SUSPENSION] < self.variant.suspensions:
            replicas = tuple(r._replace(round=r.round._replace(outdated=True)) if r.step else r for r in state.replicas)
            after = state._replace(
                suspended=not state.suspended, spent=self.spend(state, SUSPENSION), replicas=replicas
            )
            yield Move(f"user sets suspend to {str(after.suspended).lower()}", after)

    # the round ------------------------------------------------------------------------------------------------------

    def _step(self, state: State, n: int, replica: Replica, who: str) -> Iterator[Move]:
        if state.suspended and replica.step == 0:
            return
        name = self.variant.steps[replica.step]
        if name == "describe":
            yield from self._describe(state, n, replica, who)
        elif name == "read workload":
            intent = "wanted" if state.wanted else "not wanted"
            yield from self._read(state, n, replica, f"{who} reads: the ordinal is {intent}", wanted=state.wanted)
        elif name == "read pod":
            uid = state.pod.uid if state.pod is not None else 0
            says = f"{who} reads: pod object {uid} exists" if uid else f"{who} reads: no pod object"
            yield from self._read(
                state, n, replica, says, object_uid=uid, rewound=replica.watch == REWOUND, behind=len(replica.log)
            )
        elif name.startswith("barrier"):
            yield from self._barrier(state, n, replica, who, takes=name.endswith("chains"))
        elif name == "chains":
            yield from self._read(state, n, replica, f"{who} takes the chain", book=replica.book)
        else:
            yield self._leave(state, n, replica, who)

    def _describe(self, state: State, n: int, replica: Replica, who: str) -> Iterator[Move]:
        seen = {tuple((s.holder, s.away) for s in state.seats): "describes the group"}
        seen.setdefault(
            tuple((s.stored, s.away and s.stored == s.holder) for s in state.seats),
            "describes the group as it was before the last write",
        )
        for seats, says in seen.items():
            if any(holder for holder, _ in seats):
                members = tuple(holder for holder, _ in seats)
                away = tuple(is_away for _, is_away in seats) if self.variant.consumer else ()
                unwanted = not state.wanted if self.variant.intent else True
                yield from self._read(state, n, replica, f"{who} {says}", members=members, away=away, unwanted=unwanted)

    def _read(self, state: State, n: int, replica: Replica, says: str, **read: Any) -> Iterator[Move]:
        """Note what a step has read; when only the leave is left, let the product decide about it."""
        after = replica._replace(step=replica.step + 1, round=replica.round._replace(**read))
        if self.variant.steps[after.step] != "leave":
            if not self._may_end_well(after.round):
                return
            yield Move(says, self.set_replica(state, n, after), is_fair=True)
            return
        for held_long in (False, True) if self.variant.hold_seconds else (True,):
            decision = self.policy.decide(
                after.round.book, GAPPED if after.watch == GAPPED else CONTINUOUS, self._reading(after.round, held_long)
            )
            why = f"removes {len(decision.removals)}" if decision.removals else f"holds: {', '.join(decision.guards)}"
            violation = self._too_many(decision.removals, after.round)
            if decision.removals and not held_long:
                violation = "a member is removed before the hold window is over"
            decided = self.idle(after)
            if decision.removals:
                members = tuple(m if slot in decision.removals else 0 for slot, m in enumerate(after.round.members))
                kept = RoundSoFar(
                    members=members,
                    slots=decision.removals,
                    outdated=after.round.outdated,
                    unwanted=after.round.unwanted,
                )
                decided = decided._replace(step=after.step, round=kept)
            yield Move(
                f"{says}; the plan {why}", self.set_replica(state, n, decided), is_fair=True, violation=violation
            )

    def _may_end_well(self, read: RoundSoFar) -> bool:
        """Ask the product whether this reading could still lead to a removal if all that is left were perfect.

        A round that cannot is the same as an abandoned one. Guards only ever add up, so perfect evidence is the best case.
        """
        known = self._hopes.get(read)
        if known is None:
            hoped = read if read.members else read._replace(members=(1,) * len(self.policy.instance_ids))
            reading = self._reading(hoped, held_long=True)
            known = bool(self.policy.decide(self.policy.perfect_book, CONTINUOUS, reading).removals)
            self._hopes[read] = known
        return known

    def _reading(self, read: RoundSoFar, held_long: bool) -> Reading:
        slots = len(self.policy.instance_ids)
        return Reading(
            described=tuple(bool(m) for m in read.members),
            away=read.away or (False,) * slots,
            wanted=read.wanted,
            object_uid=read.object_uid,
            barrier_passed=read.barrier_passed,
            held_long=held_long,
        )

    def _too_many(self, removals: tuple[int, ...], read: RoundSoFar) -> str:
        """Say whether one batch exceeds the budget that the user gave; the group has one member besides these."""
        size = 1 + sum(bool(m) for m in read.members)
        allowed = max(1, size * self.variant.max_percent_of_group // 100)
        return "the batch exceeds the removal budget" if len(removals) > allowed else ""

    def _barrier(self, state: State, n: int, replica: Replica, who: str, *, takes: bool) -> Iterator[Move]:
        if replica.watch == REWOUND and replica.round.rewound and not self.variant.restore_unnoticed:
            after = self.idle(self._anchored_again(state, replica, is_restore=True))
            says = f"{who}: the read lies below the watch's position: etcd was restored"
            yield Move(says, self.set_replica(state, n, after))
            return
        if replica.watch != BROKEN:
            # What happened up to the read was shown before it; what happened since may or may not be shown.
            for count in range(replica.round.behind, len(replica.log) + 1):
                passed = self.delivered(replica, count)
                read: dict[str, Any] = {"barrier_passed": True} | ({"book": passed.book} if takes else {})
                more = f", and sees {count} later events" if takes and count else ""
                yield from self._read(state, n, passed, f"{who} brings its watch up to the read{more}", **read)
        read = {"barrier_passed": False} | ({"book": replica.book} if takes else {})
        yield from self._read(state, n, replica, f"{who}: no bookmark came, the watch lags", **read)

    def _leave(self, state: State, n: int, replica: Replica, who: str) -> Move:
        idle = self.set_replica(state, n, self.idle(replica))
        if replica.round.outdated and not self.variant.suspension_unnoticed:
            return Move(f"{who} drops the removal: the spec has changed since", idle, is_fair=True)
        after, said, violation = idle, [], ""
        for slot in replica.round.slots:
            member, seat = replica.round.members[slot], state.seats[slot]
            if not seat.holder or (seat.holder != member and not self.variant.instance_only_leave):
                said.append("FENCED_INSTANCE_ID" if seat.holder else "UNKNOWN_MEMBER_ID")
                continue
            said.append("removed")
            if is_alive(state, seat.holder):
                violation = "a living member is removed"
            left = Seat(stored=seat.stored if self.variant.failovers else 0)
            seats = (*after.seats[:slot], left, *after.seats[slot + 1 :])
            after = after._replace(seats=seats)
        if "removed" in said:
            violation = violation or self._unwanted(state, replica.round)
        says = f"LeaveGroup of {who} arrives: {', '.join(said)}"
        return Move(says, after, is_fair=True, violation=violation, removes="removed" in said)

    def _unwanted(self, state: State, decided: RoundSoFar) -> str:
        if state.suspended:
            return "a member is removed while the StaticGroup is suspended"
        if self.variant.intent and not decided.unwanted:
            return "a member is removed whose ordinal was wanted all the time"
        return ""

    # gaps -----------------------------------------------------------------------------------------------------------

    def _anchored_again(self, state: State, replica: Replica, *, is_restore: bool) -> Replica:
        shown = state.pod
        book = self.policy.list_again(replica.book, shown, is_restore=is_restore)
        return replica._replace(book=book, log=(), watch=GAPPED)

    def _gaps(self, state: State, n: int, replica: Replica, who: str) -> Iterator[Move]:
        if replica.watch == REWOUND:
            after = self._anchored_again(state, replica, is_restore=True)
            yield Move(f"{who} reconnects its watch and finds etcd restored", self.set_replica(state, n, after))
        elif replica.watch == BROKEN:
            after = self._anchored_again(state, replica, is_restore=False)
            yield Move(f"{who} gets 410 and lists again", self.set_replica(state, n, after))
        elif state.spent[GAP] < self.variant.gaps:
            broken = self.set_replica(state, n, replica._replace(watch=BROKEN))
            yield Move(f"the watch of {who} breaks for long", broken._replace(spent=self.spend(state, GAP)))

    # restarts -------------------------------------------------------------------------------------------------------

    def _restarts(self, state: State, n: int, replica: Replica, who: str) -> Iterator[Move]:
        """Write the ledger, store the position, end and begin again: what outlives the process must be enough."""
        durable = state.durable
        book, ledger = self.policy.status_written(replica.book)
        if (book, ledger) != (replica.book, durable.ledger):
            after = self.set_replica(state, n, replica._replace(book=book))
            yield Move(f"{who} writes the ledger", after._replace(durable=durable._replace(ledger=ledger)))
        seen = len(durable.history) - len(replica.log)
        if seen > 0:
            stored = self.policy.durable_position(replica.book, version_of(durable.history[seen - 1]))
            rest = tuple(e for e in durable.history if version_of(e) > stored)
            if rest != durable.history:
                after = state._replace(durable=durable._replace(history=rest))
                yield Move(f"{who} stores the position of its watch", after)
        shown = state.pod
        spent = self.spend(state, RESTART)
        # Nobody reads what is durable after the last restart.
        left = durable if spent[RESTART] < self.variant.restarts else Durable()
        for list_first in (True, False):
            new = Replica(book=self.policy.resume(durable.ledger, durable.history, shown, list_first=list_first))
            after = self.set_replica(state, n, new)._replace(spent=spent, durable=left)
            order = "LIST, then replay" if list_first else "replay, then LIST"
            yield Move(f"{who} dies; the next one resumes ({order})", after)


def version_of(event: Event) -> int:
    """Return the resourceVersion of an event where versions are counted."""
    return event.pod.uid * VERSIONS_PER_POD + event.pod.seq
