"""What the coordinator and its clients do with the ordinal's ids.

Classic (KIP-345): the newest joiner takes the id, the one before learns of it at its next heartbeat; a change may be lost
by a fail-over until the generation is stored (GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin).
KIP-848: a holder is replaced only after it left with epoch -2, else UNRELEASED_INSTANCE_ID. Clients rejoin whenever
they can, so they also duel for an id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .move import Actors, Move
from .state import ALIVE, FAILOVER, TEMPORARY_LEAVE, Seat, State, is_alive, next_member


class Kafka(Actors):
    """Moves of clients and coordinator."""

    def moves(self, state: State) -> Iterator[Move]:
        """Yield every move of every thread and of every seat."""
        for uid, process in enumerate(state.processes, start=1):
            if process.life == ALIVE:
                for slot, member in enumerate(process.members):
                    yield from self._client(state, uid, slot, member)
        for slot, seat in enumerate(state.seats):
            yield from self._seat(state, slot, seat)
        if self.variant.stranger and (not state.stranger or state.stranger != state.seats[0].holder):
            new = next_member(state)
            after = self._with_seat(state, 0, holder=new, away=False)._replace(stranger=new)
            yield Move("a process of another cluster joins under the id", after)

    def _with_seat(self, state: State, slot: int, **changes: Any) -> State:
        seat = state.seats[slot]._replace(**changes)
        if not self.variant.failovers:
            seat = seat._replace(stored=seat.holder)
        return state._replace(seats=(*state.seats[:slot], seat, *state.seats[slot + 1 :]))

    def _with_member(self, state: State, uid: int, slot: int, member: int) -> State:
        members = state.processes[uid - 1].members
        return self.with_process(state, uid, members=(*members[:slot], member, *members[slot + 1 :]))

    def _thread(self, slot: int) -> str:
        return f", thread {slot}," if self.variant.members > 1 else ""

    def _client(self, state: State, uid: int, slot: int, member: int) -> Iterator[Move]:
        seat, who = state.seats[slot], f"the process of pod {uid}{self._thread(slot)}"
        if member and member != seat.holder:
            yield Move(
                f"{who} hears that it is no member any more", self._with_member(state, uid, slot, 0), is_fair=True
            )
        if not member and (not self.variant.consumer or not seat.holder or seat.away):
            new = next_member(state)
            joined = self._with_seat(state, slot, holder=new, away=False)
            yield Move(f"{who} joins", self._with_member(joined, uid, slot, new))
        if member and member == seat.holder and self.variant.consumer:
            if seat.away:
                yield Move(f"{who} comes back under its own member id", self._with_seat(state, slot, away=False))
            elif state.spent[TEMPORARY_LEAVE] < self.variant.temporary_leaves:
                after = self._with_seat(state, slot, away=True)._replace(spent=self.spend(state, TEMPORARY_LEAVE))
                yield Move(f"{who} polls too late: it leaves with epoch -2 and runs on", after)

    def _seat(self, state: State, slot: int, seat: Seat) -> Iterator[Move]:
        if seat.holder and (seat.away or not is_alive(state, seat.holder)):
            yield Move("the session expires", self._with_seat(state, slot, holder=0, away=False))
        if seat.holder != seat.stored:
            yield Move("the coordinator stores the group", self._with_seat(state, slot, stored=seat.holder))
            if state.spent[FAILOVER] < self.variant.failovers and not self.variant.consumer:
                after = self._with_seat(state, slot, holder=seat.stored, away=False)
                yield Move(
                    "the coordinator fails over to the state stored before",
                    after._replace(spent=self.spend(state, FAILOVER)),
                )
