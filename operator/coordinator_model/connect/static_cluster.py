"""A Connect cluster whose workers may be static members: they keep their seat while their process is away."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .cluster import CompletedRound, ConnectCluster, select_protocol
from .incremental import IncrementalCooperativeAssignor
from .protocol import ConnectProtocolCompatibility, decode_assignment
from .static import RoundMember, StaticMembership
from .work import ConnectorsAndTasks, ConnectorTaskId
from .worker import ConnectWorker

SETTLED_AFTER = 200
"""More joins than that without time passing are taken for an endless loop."""


@dataclass(slots=True)
class Seat:
    """A member as the coordinator knows it; expires_ms is when its session ends, None while it heartbeats."""

    instance_id: str | None
    """None for a dynamic member."""
    member_id: str = ""
    offers: Mapping[str, bytes] = field(default_factory=dict)
    stored: bytes = b""
    expires_ms: int | None = None


class NeverSettles(AssertionError):
    """The workers join again and again."""


@dataclass(slots=True)
class StaticConnectCluster(ConnectCluster):
    """Today's cluster with the switch that makes workers static.

    A round waits for the members that are away until their sessions end or the rebalance timeout has passed; then it
    goes on with the metadata of their last join (ClassicGroup keeps static members).

    Parameters
    ----------
    rebalance_timeout_ms: `rebalance.timeout.ms` of every worker.
    identify: makes the membership of a static worker's process from its instance id.
    """

    rebalance_timeout_ms: int = 60_000
    identify: Callable[[str], StaticMembership] = StaticMembership
    choose: Callable[[Sequence[str]], str] = operator.itemgetter(0)
    """Elects a leader from the joined members."""
    seats: dict[str, Seat] = field(default_factory=dict)
    """Members by worker's name, the first that joined leads."""
    stalled: set[str] = field(default_factory=set)
    """Live workers that neither join nor follow assignments for a while, and keep heartbeating."""
    unsynced: set[str] = field(default_factory=set)
    """Workers whose next SyncGroup answer gets lost."""
    _pending_since_ms: int | None = None

    def start(self, *names: str, mode: ConnectProtocolCompatibility | None = None) -> None:
        """Start static workers; one whose seat is still there comes back to it."""
        self._start_all(names, mode or self.mode, is_static=True)

    def start_stock(self, *names: str, mode: ConnectProtocolCompatibility | None = None) -> None:
        """Start workers without the agent: dynamic members, beside the seat that a static one left."""
        self._start_all(names, mode or self.mode, is_static=False)

    def _start_all(self, names: tuple[str, ...], mode: ConnectProtocolCompatibility, is_static: bool) -> None:
        for name in names:
            if name in self.workers:
                raise ValueError(f"{name} is running")
            self._started += 1
            self.workers[name] = ConnectWorker(
                url=f"http://{name}:8083/",
                mode=mode,
                config=self.config,
                assignor=IncrementalCooperativeAssignor(self.max_delay_ms),
                member_id=f"{name}-{self._started:036}",
                static=self.identify(name) if is_static else None,
            )
            if name in self.seats and (not is_static or self.seats[name].instance_id is None):
                # this is another member; the old seat waits for the end of its session under another name
                left = f"{name}, left before {self._started}"
                self.seats = {left if n == name else n: seat for n, seat in self.seats.items()}
        self._settle()

    def stop(self, *names: str) -> None:
        """Shut workers down: a static one keeps its seat until its session ends, a dynamic one leaves."""
        for name in names:
            worker = self.workers.pop(name)
            worker.stop_everything()
            self.stalled.discard(name)
            self.unsynced.discard(name)
            if worker.static is None:
                self._round_needed |= self.seats.pop(name, None) is not None
            elif name in self.seats:
                self.seats[name].expires_ms = self.now_ms + self.session_timeout_ms
        self._settle()

    def kill(self, *names: str) -> None:
        """Kill workers: their seats stay until their sessions end."""
        for name in names:
            self.workers.pop(name).stop_everything()
            self.stalled.discard(name)
            self.unsynced.discard(name)
            if name in self.seats:
                self.seats[name].expires_ms = self.now_ms + self.session_timeout_ms
        self._settle()

    def remove(self, *names: str) -> None:
        """Remove members that are away, as LeaveGroup with member id and instance id does."""
        for name in names:
            if name in self.workers:
                raise ValueError(f"{name} is live")
            del self.seats[name]
            self._round_needed = True
        self._settle()

    def pause(self) -> None:
        """Write something to the config topic that needs no round, such as pausing a connector."""
        self.config = type(self.config)(self.config.offset + 1, self.config.tasks_per_connector)
        for worker in self.workers.values():
            worker.config = self.config

    def resume(self, name: str) -> None:
        """Let a stalled worker go on."""
        self.stalled.discard(name)
        self._settle()

    def lose_coordinator(self, name: str) -> None:
        """A worker that can't reach the coordinator stops everything and joins again (KAFKA-9184)."""
        self.workers[name].stop_everything()
        self._settle()

    def duplicates(self) -> list[ConnectorTaskId | str]:
        """Everything that more than one live worker runs."""
        seen: set[ConnectorTaskId | str] = set()
        twice: list[ConnectorTaskId | str] = []
        for work in self.running().values():
            held: tuple[ConnectorTaskId | str, ...] = (*work.connectors, *work.tasks)
            for each in held:
                twice += [each] if each in seen else []
                seen.add(each)
        return twice

    def idle(self) -> ConnectorsAndTasks:
        """Everything that is configured and that no live worker runs."""
        return self.config.configured().minus(*self.running().values())

    def leader(self) -> str | None:
        """The name whose seat leads; None in an empty group."""
        return next(iter(self.seats), None)

    def _next_event_ms(self) -> int | None:
        times = [seat.expires_ms for seat in self.seats.values() if seat.expires_ms is not None]
        times += [w.scheduled_rebalance_ms for w in self.workers.values() if w.scheduled_rebalance_ms is not None]
        if self._pending_since_ms is not None:
            times.append(self._pending_since_ms + self.rebalance_timeout_ms)
        return min((at_ms for at_ms in times if at_ms > self.now_ms), default=None)

    def _settle(self) -> None:
        for name, seat in list(self.seats.items()):
            if seat.expires_ms is not None and seat.expires_ms <= self.now_ms:
                del self.seats[name]
                self._round_needed = True
        for _ in range(SETTLED_AFTER):
            if not self._step():
                return
        raise NeverSettles(f"generation {self.generation_id}: {self.running()}")

    def _step(self) -> bool:
        """Let one event happen; returns whether there was one."""
        if not self.workers:
            return False
        if self._round_needed:
            return self._try_round()
        for name, worker in self.workers.items():
            if name not in self.stalled and worker.wants_to_join(self.now_ms):
                self._join(name, worker)
                return True
        return False

    def _join(self, name: str, worker: ConnectWorker) -> None:
        """JoinGroup of one worker while the group is stable (ClassicGroup)."""
        offers = dict(worker.protocols())
        seat = self.seats.get(name)
        is_back = seat is not None and seat.member_id != worker.member_id
        if seat is None or (not is_back and (name == self.leader() or seat.offers != offers)):
            self._round_needed = True
            return
        # a static member that comes back, or one that has nothing new to say: no round, what is stored is its answer
        selected = self._selected()
        seat.member_id, seat.offers, seat.expires_ms = worker.member_id, offers, None
        if self._selected() != selected:
            self._round_needed = True
            return
        worker.on_join_prepare()
        worker.on_join_complete(self.generation_id, selected, seat.stored, self.now_ms)
        self._catch_up(worker)

    def _selected(self) -> str:
        return select_protocol({seat.member_id: tuple(seat.offers) for seat in self.seats.values()})

    def _catch_up(self, worker: ConnectWorker) -> None:
        if worker.config.offset < self.config.offset:
            worker.config = self.config

    def _absent(self) -> list[str]:
        return [name for name in self.seats if name not in self.workers or name in self.stalled]

    def _try_round(self) -> bool:
        """Run a round when all members have joined, or when it has waited long enough."""
        if self._pending_since_ms is None:
            self._pending_since_ms = self.now_ms
        absent = self._absent()
        waited_ms = self.now_ms - self._pending_since_ms
        if not set(self.workers) - self.stalled or (absent and waited_ms < self.rebalance_timeout_ms):
            return False
        self._round()
        return True

    def _round(self) -> None:
        self._round_needed, self._pending_since_ms = False, None
        joined = {name: worker for name, worker in self.workers.items() if name not in self.stalled}
        for name, worker in joined.items():
            worker.on_join_prepare()
            seat = self.seats.setdefault(name, Seat(name if worker.static else None))
            seat.member_id, seat.offers, seat.expires_ms = worker.member_id, dict(worker.protocols()), None
        for name in [n for n in self._absent() if (w := self.workers.get(n)) is not None and w.static is None]:
            del self.seats[name]
        self._elect(joined)
        self.generation_id += 1
        protocol = self._selected()
        name = next(n for n in self.seats if n in joined)
        leader = joined[name]
        stored = self._assign(leader, protocol)
        for each, seat in self.seats.items():
            seat.stored = stored[seat.member_id]
            if each in joined and each not in self.unsynced:
                joined[each].on_join_complete(self.generation_id, protocol, seat.stored, self.now_ms)
                self._catch_up(joined[each])
            elif each in self.unsynced:
                self.workers[each].rejoin_requested = True
                self._round_needed = True  # its JoinGroup differs from the last one, or it leads
        self.unsynced.clear()
        delay_ms = decode_assignment(stored[leader.member_id]).delay_ms
        self.rounds.append(
            CompletedRound(self.now_ms, self.generation_id, protocol, leader.member_id, delay_ms, self.running())
        )
        for each in self.stalled & set(self.workers):
            self.workers[each].rejoin_requested = True

    def _elect(self, joined: Mapping[str, ConnectWorker]) -> None:
        """Elect a joined member as leader if the old one has not joined (ClassicGroup.maybeElectNewJoinedLeader)."""
        if self.leader() not in joined:
            name = self.choose([n for n in self.seats if n in joined])
            self.seats = {name: self.seats[name], **self.seats}

    def _assign(self, leader: ConnectWorker, protocol: str) -> dict[str, bytes]:
        metadata = {seat.member_id: seat.offers[protocol] for seat in self.seats.values()}
        if leader.static is None:
            return leader.on_leader_elected(protocol, metadata, self.generation_id, self.now_ms)
        members = [
            RoundMember(seat.member_id, seat.instance_id, seat.offers[protocol]) for seat in self.seats.values()
        ]
        seen = leader.static.view(members, self.generation_id, leader.member_id)
        held = leader.static.held_back(leader.member_id)
        if held is not None:
            return held
        increments = leader.on_leader_elected(protocol, seen, self.generation_id, self.now_ms)
        return leader.static.stored(increments, leader.member_id)
