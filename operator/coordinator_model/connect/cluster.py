"""A Connect cluster in virtual time: workers, the group they form, and the rounds they go through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from .incremental import DEFAULT_MAX_DELAY_MS, IncrementalCooperativeAssignor
from .protocol import ConnectProtocolCompatibility, decode_assignment
from .work import ClusterConfig, ConnectorsAndTasks
from .worker import ConnectWorker


@dataclass(frozen=True, slots=True)
class CompletedRound:
    """One finished rebalance as it could be read from DescribeGroups afterwards; delay_ms is the one it announced."""

    at_ms: int
    generation_id: int
    protocol: str
    leader: str
    delay_ms: int
    running: Mapping[str, ConnectorsAndTasks]


def select_protocol(offers: Mapping[str, tuple[str, ...]]) -> str:
    """Choose the protocol of a group from what its members offer, most preferred first.

    Every member votes for its first choice among those that all support; ties go to the name that sorts first.
    Returns the name; ValueError when nothing is common (JoinGroup would refuse such a member).
    Source: ClassicGroup.selectProtocol.
    """
    common = set.intersection(*(set(names) for names in offers.values()))
    if not common:
        raise ValueError("no common protocol")
    votes = Counter(next(name for name in names if name in common) for names in offers.values())
    return min(votes, key=lambda name: (-votes[name], name))


@dataclass(slots=True)
class ConnectCluster:
    """Workers of one group, driven by a clock that the caller moves.

    A round takes no time once every live member has joined; a killed worker holds it up until its session ends.

    Parameters
    ----------
    max_delay_ms: `scheduled.rebalance.max.delay.ms` of every worker.
    session_timeout_ms: `session.timeout.ms` of every worker.
    """

    max_delay_ms: int = DEFAULT_MAX_DELAY_MS
    session_timeout_ms: int = 10_000
    mode: ConnectProtocolCompatibility = ConnectProtocolCompatibility.SESSIONED
    now_ms: int = 0
    generation_id: int = 0
    config: ClusterConfig = field(default_factory=lambda: ClusterConfig(0))
    workers: dict[str, ConnectWorker] = field(default_factory=dict)
    """Live processes by name, in the order in which they joined."""
    rounds: list[CompletedRound] = field(default_factory=list)
    _dead_until_ms: dict[str, int] = field(default_factory=dict)
    _round_needed: bool = False
    _started: int = 0

    def configure(self, connector: str, tasks: int) -> None:
        """Create a connector or change its number of tasks; every worker reads it and a round starts."""
        self._set_config({**self.config.tasks_per_connector, connector: tasks})

    def delete(self, connector: str) -> None:
        """Delete a connector; every worker reads it and a round starts."""
        self._set_config({name: n for name, n in self.config.tasks_per_connector.items() if name != connector})

    def _set_config(self, tasks_per_connector: Mapping[str, int]) -> None:
        self.config = ClusterConfig(self.config.offset + 1, tasks_per_connector)
        for worker in self.workers.values():
            worker.config = self.config
        self._round_needed = True
        self._settle()

    def start(self, *names: str, mode: ConnectProtocolCompatibility | None = None) -> None:
        """Start worker processes; each is a new member, whatever was called so before, and leads with no memory."""
        for name in names:
            if name in self.workers:
                raise ValueError(f"{name} is running")
            self._started += 1
            self.workers[name] = ConnectWorker(
                url=f"http://{name}:8083/",
                mode=mode or self.mode,
                config=self.config,
                assignor=IncrementalCooperativeAssignor(self.max_delay_ms),
                member_id=f"{name}-{self._started}",
            )
        self._round_needed = True
        self._settle()

    def stop(self, *names: str) -> None:
        """Shut workers down: they stop their work, leave the group, and a round starts."""
        for name in names:
            self.workers.pop(name).stop_everything()
        self._round_needed = True
        self._settle()

    def kill(self, *names: str) -> None:
        """Kill workers: their work stops, the group notices when the session ends."""
        for name in names:
            worker = self.workers.pop(name)
            worker.stop_everything()
            self._dead_until_ms[worker.member_id] = self.now_ms + self.session_timeout_ms

    def advance(self, duration_ms: int) -> None:
        """Let time pass; sessions end and scheduled rounds run at their own times on the way."""
        end_ms = self.now_ms + duration_ms
        while (at_ms := self._next_event_ms()) is not None and at_ms <= end_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self._settle()
        self.now_ms = end_ms

    def running(self) -> dict[str, ConnectorsAndTasks]:
        """What each live worker runs now."""
        return {name: worker.running for name, worker in self.workers.items()}

    def _next_event_ms(self) -> int | None:
        times = [*self._dead_until_ms.values()]
        times += [w.scheduled_rebalance_ms for w in self.workers.values() if w.scheduled_rebalance_ms is not None]
        # what is due already and has not happened waits for the end of a killed worker's session
        return min((at_ms for at_ms in times if at_ms > self.now_ms), default=None)

    def _settle(self) -> None:
        for member_id in [m for m, at_ms in self._dead_until_ms.items() if at_ms <= self.now_ms]:
            del self._dead_until_ms[member_id]
            self._round_needed = True
        while self.workers and not self._dead_until_ms and self._round_wanted():
            self._round()

    def _round_wanted(self) -> bool:
        return self._round_needed or any(worker.wants_to_join(self.now_ms) for worker in self.workers.values())

    def _round(self) -> None:
        self._round_needed = False
        self.generation_id += 1
        for worker in self.workers.values():
            worker.on_join_prepare()
        offers = {worker.member_id: dict(worker.protocols()) for worker in self.workers.values()}
        protocol = select_protocol({member_id: tuple(offered) for member_id, offered in offers.items()})
        # the first member to join leads until it goes, then the one that joined next (ClassicGroup)
        leader = next(iter(self.workers.values()))
        metadata = {member_id: offered[protocol] for member_id, offered in offers.items()}
        synced = leader.on_leader_elected(protocol, metadata, self.generation_id, self.now_ms)
        for worker in self.workers.values():
            worker.on_join_complete(self.generation_id, protocol, synced[worker.member_id], self.now_ms)
            if worker.config.offset < self.config.offset:
                worker.config = self.config
        delay_ms = decode_assignment(synced[leader.member_id]).delay_ms
        self.rounds.append(
            CompletedRound(self.now_ms, self.generation_id, protocol, leader.member_id, delay_ms, self.running())
        )
