"""Replay a group's stops through Kafka's coordinator with static and with dynamic members, and compare.

The one idea: the question "what would dynamic members have cost?" is not answered by "twice the restarts": stops
overlap, rebalances merge, sessions run out. So the same timeline runs through `coordinator_model`, with clients that
react as Java clients do, and the two results are compared. Between stops nothing happens in a group that is stable and
complete: that time is skipped (heartbeats reset every timer of the coordinator), so a month of a group takes
milliseconds for each stop. Source: KIP-345, KIP-848; `coordinator_model.shell_clients` for the clients.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from coordinator_model.base import messages as m
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.base.result import Result
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.coordinator import GroupCoordinator
from coordinator_model.shell.clients import ClassicClient, Client, ConsumerClient

GROUP = "group"
TOPIC = "topic"
SETTLE_MS_MAX = 3_600_000
"""A group that is unstable an hour after its last stop is an error of the model, not a long rebalance."""
NEVER_MS = 2**62

BACK_OFF_MS, BACK_OFF_MS_MAX = 10_000, 300_000
"""CrashLoopBackOff of the kubelet: 10 s, doubled each time, five minutes at most."""


class Membership(StrEnum):
    """Name the kind of membership that is replayed."""

    STATIC = "static"
    DYNAMIC = "dynamic"


class Rebalancing(StrEnum):
    """Name how the group rebalances."""

    EAGER = "eager"
    COOPERATIVE = "cooperative"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Hold one stop.

    Parameters
    ----------
    member: from 0.
    down_ms, back_ms: when its process ends, and when another one joins; any clock; back_ms None: it does not return.
    is_clean: the process closed its client (a rollout); false: it was killed (a crash).
    removed_ms: when the operator removed it; None: it did not. Static members only.
    """

    member: int
    down_ms: int
    back_ms: int | None
    is_clean: bool = True
    removed_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSetup:
    """Describe the group.

    Parameters
    ----------
    session_timeout_ms, heartbeat_interval_ms: of every member.
    leaves_on_close: whether a dynamic member leaves when its client is closed (consumers do; Kafka Streams did not).
    """

    members: int
    partitions: int
    rebalancing: Rebalancing
    session_timeout_ms: int
    heartbeat_interval_ms: int = 3_000
    leaves_on_close: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The costs of a timeline.

    Parameters
    ----------
    rebalances: generations or group epochs after the group was formed.
    evictions: members that returned after the group had expelled them.
    idle_partition_ms: ∫ partitions that nobody consumes dt.
    """

    rebalances: int
    evictions: int
    idle_partition_ms: int


def replay(setup: GroupSetup, stops: Sequence[Stop], membership: Membership, *, seed: int = 0) -> Replayed:
    """Replay a timeline with one kind of membership.

    Returns
    -------
    Replayed

    Raises
    ------
    RuntimeError
        When the group does not become stable.
    """
    return Replay(setup, membership, seed).run(stops)


def heartbeat_phases_ms(setup: GroupSetup, seed: int) -> list[int]:
    """Draw the phase of each member's heartbeats within an interval."""
    rng = np.random.Generator(np.random.Philox(key=[seed, setup.members]))
    phases: list[int] = rng.integers(0, setup.heartbeat_interval_ms, setup.members).tolist()
    return phases


class _CooperativeClient(ClassicClient):
    """Join once more after giving partitions up, as ConsumerCoordinator.onJoinComplete does: KIP-429's second step."""

    def _synced(self, answer: m.SyncGroupResponse) -> None:
        before = _flat(self.owned)
        super()._synced(answer)
        if self.state == "running" and before - _flat(self.owned):
            self._join()


def _flat(owned: m.TopicPartitions) -> set[tuple[str, int]]:
    return {(topic, partition) for topic, partitions in owned for partition in partitions}


class Replay:
    """One coordinator, its clients, and a clock that skips quiet stretches."""

    def __init__(self, setup: GroupSetup, membership: Membership, seed: int) -> None:
        self.setup = setup
        self.membership = membership
        self.image = TopicImage({TOPIC: setup.partitions})
        timeout = setup.session_timeout_ms
        self.coordinator = GroupCoordinator(
            BrokerSettings(
                group_min_session_timeout_ms=1,
                group_max_session_timeout_ms=86_400_000,
                group_initial_rebalance_delay_ms=0,
                consumer_session_timeout_ms=timeout,
                consumer_min_session_timeout_ms=1,
                consumer_max_session_timeout_ms=86_400_000,
                consumer_heartbeat_interval_ms=setup.heartbeat_interval_ms,
                consumer_min_heartbeat_interval_ms=1,
                consumer_max_heartbeat_interval_ms=max(15_000, setup.heartbeat_interval_ms),
            ),
            image=self.image,
        )
        self.phases = heartbeat_phases_ms(setup, seed)
        self.clients = [self._client(index) for index in range(setup.members)]
        self.index_of = {client.name: index for index, client in enumerate(self.clients)}
        self.alive = [True] * setup.members
        self.last_beat_ms = [0] * setup.members
        self.waiting: dict[int, Client] = {}
        self.now_ms = 0
        self.skipped_ms = 0
        self.ids = 0
        self.refused = [0] * setup.members
        self.restart_ms: dict[int, int] = {}
        self.evictions = 0
        self.idle_partition_ms = 0
        self.formed = 0
        self.steps: list[tuple[int, int, int, str]] = []
        self.laid: list[Stop] = []

    def _client(self, index: int) -> Client:
        settings: dict[str, Any] = {
            "network": self,
            "name": f"member-{index:04d}",
            "group_id": GROUP,
            "instance_id": f"member-{index:04d}" if self.membership is Membership.STATIC else None,
            "topics": (TOPIC,),
            "session_ms": self.setup.session_timeout_ms,
        }
        match self.setup.rebalancing:
            case Rebalancing.CONSUMER:
                return ConsumerClient(**settings)
            case Rebalancing.COOPERATIVE:
                return _CooperativeClient(**settings, assignors=("cooperative-sticky",))
            case Rebalancing.EAGER:
                return ClassicClient(**settings, assignors=("range",))

    # for the clients ------------------------------------------------------------------------------------------------

    def send(self, client: Client, request: m.Request) -> m.Response | None:
        """Hand a request to the coordinator."""
        result = self.coordinator.handle(request, self.now_ms)
        if result.ticket is not None:
            self.waiting[result.ticket] = client
        self._deliver(result)
        return result.response

    def new_member_id(self, client: Client) -> str:
        """Return an unused id."""
        self.ids += 1
        return f"{client.name}-{self.ids}"

    def _deliver(self, result: Result) -> None:
        for completed in result.completed:
            client = self.waiting.pop(completed.ticket, None)
            if client is not None and self.alive[self.index_of[client.name]]:
                client.receive(completed.response)

    # time ------------------------------------------------------------------------------------------------------------

    def run(self, stops: Sequence[Stop]) -> Replayed:
        """Replay a timeline until the group is stable after the last stop."""
        self.form(min((stop.down_ms for stop in stops), default=0))
        for stop in stops:
            self.expect(stop)
        self.carry_on(None)
        return self.replayed

    @property
    def replayed(self) -> Replayed:
        """Return what happened since the group was formed."""
        return Replayed(
            rebalances=self._epoch - self.formed, evictions=self.evictions, idle_partition_ms=self.idle_partition_ms
        )

    def form(self, first_ms: int) -> None:
        """Form the group with all its members, shortly before the first stop."""
        for index, client in enumerate(self.clients):
            self.last_beat_ms[index] = 0
            client.start()
        self._until(None)
        self.formed, self.idle_partition_ms = self._epoch, 0
        self.skipped_ms = first_ms - 2 * self.setup.heartbeat_interval_ms - self.now_ms

    def expect(self, stop: Stop) -> None:
        """Schedule the steps of a stop; at one moment the order is heartbeats, ends, removals, returns."""
        phase, interval = self.phases[stop.member], self.setup.heartbeat_interval_ms
        steps = [((stop.down_ms - phase) // interval * interval + phase, 0, "beat"), (stop.down_ms, 1, "down")]
        if stop.back_ms is not None:
            steps.append((stop.back_ms, 3, "up"))
        if stop.removed_ms is not None and self.membership is Membership.STATIC:
            steps.append((stop.removed_ms, 2, "removed"))
        for moment, rank, kind in steps:
            heapq.heappush(self.steps, (moment, rank, len(self.laid), kind))
        self.laid.append(stop)

    def carry_on(self, until_ms: int | None) -> None:
        """Carry out all steps before a moment and advance time to it; None: until the group is stable."""
        while self.steps and (until_ms is None or self.steps[0][0] < until_ms):
            moment, _, number, kind = heapq.heappop(self.steps)
            self._until(moment)
            self._carry_out(kind, self.laid[number])
        self._until(until_ms)

    def _carry_out(self, kind: str, stop: Stop) -> None:
        client = self.clients[stop.member]
        if kind == "beat":
            self._beat(stop.member)
        elif kind == "down":
            leaves = self.membership is Membership.STATIC or self.setup.leaves_on_close
            self.alive[stop.member] = False
            self.restart_ms.pop(stop.member, None)
            self.refused[stop.member] = 0
            if stop.is_clean and leaves:
                client.stop(for_good=False)
            client.state = "away"
        elif kind == "removed":
            self.send(client, client.leave_request())
        else:
            self.alive[stop.member] = True
            self._start(stop.member, was_removed=stop.removed_ms is not None)

    def _start(self, index: int, *, was_removed: bool = False) -> None:
        """Start a process; while its predecessor's member keeps it out, the kubelet restarts it with backoff."""
        client = self.clients[index]
        is_known = client.member_id in self._group.members
        if self.membership is Membership.STATIC and not is_known and not was_removed:
            self.evictions += 1
        self.last_beat_ms[index] = self.now_ms
        former, client.state = client.member_id, "starting"
        client.start()
        if client.state != ErrorCode.UNRELEASED_INSTANCE_ID.name:
            self.refused[index] = 0
            self.restart_ms.pop(index, None)
            return
        # The broker still waits for the killed process, so the new one is not in the group.
        client.member_id = former
        self.restart_ms[index] = self.now_ms + min(BACK_OFF_MS << self.refused[index], BACK_OFF_MS_MAX)
        self.refused[index] = self.refused[index] + 1

    def _until(self, moment: int | None) -> None:
        """Advance time to a moment of the timeline; None: until the group is stable."""
        given_up_ms = self.now_ms + SETTLE_MS_MAX
        while True:
            target = None if moment is None else moment - self.skipped_ms
            if self.is_at_rest():
                if target is not None and target > self.now_ms:
                    self.skipped_ms += target - self.now_ms
                return
            due = self._next_ms()
            if target is not None and target <= due:
                self._pass(max(target, self.now_ms))
                return
            if target is None and due > given_up_ms:
                raise RuntimeError(f"the group is {self._group.state} an hour after the last stop")
            self._pass(due)

    def _next_ms(self) -> int:
        deadline = self.coordinator.timers.next_deadline_ms()
        moments = (self._next_beat_ms(), *self.restart_ms.values(), *(() if deadline is None else (deadline,)))
        return max(min(moments), self.now_ms)

    def _next_beat_ms(self) -> int:
        """Return when a client's heartbeat matters: at the next interval during a rebalance, else before it expires."""
        interval, timeout = self.setup.heartbeat_interval_ms, self.setup.session_timeout_ms
        if self._group.state == "Stable" and timeout > 2 * interval:
            beats = [beat for beat, is_alive in zip(self.last_beat_ms, self.alive, strict=True) if is_alive]
            return min(beats) + timeout - 2 * interval if beats else NEVER_MS
        moment = self.now_ms + self.skipped_ms
        waits = [
            interval - (moment - phase) % interval
            for phase, is_alive in zip(self.phases, self.alive, strict=True)
            if is_alive
        ]
        return self.now_ms + min(waits) if waits else NEVER_MS

    def _pass(self, until_ms: int) -> None:
        self.idle_partition_ms += (until_ms - self.now_ms) * self._idle_partitions()
        self.now_ms = until_ms
        turns = self._turns()
        self._deliver(self.coordinator.expire(self.now_ms))
        for index in turns:
            self._beat(index)
        for index in [each for each, moment in self.restart_ms.items() if moment <= self.now_ms]:
            self._start(index)

    def _turns(self) -> list[int]:
        """List the clients whose heartbeat is due: all at their interval during a rebalance, else the late ones."""
        interval, timeout = self.setup.heartbeat_interval_ms, self.setup.session_timeout_ms
        late_since_ms = self.now_ms - (timeout - 2 * interval)
        moment, is_quiet = self.now_ms + self.skipped_ms, self._group.state == "Stable"
        return [
            index
            for index, is_alive in enumerate(self.alive)
            if is_alive
            and (
                self.last_beat_ms[index] <= late_since_ms
                or (not is_quiet and (moment - self.phases[index]) % interval == 0)
            )
        ]

    def _beat(self, index: int) -> None:
        self.last_beat_ms[index] = self.now_ms
        if self.clients[index].state == "running":
            self.clients[index].beat()

    # the group -------------------------------------------------------------------------------------------------------

    @property
    def _group(self) -> Any:
        return self.coordinator.groups[GROUP]

    @property
    def _epoch(self) -> int:
        group = self._group
        return int(group.group_epoch if self.setup.rebalancing is Rebalancing.CONSUMER else group.generation_id)

    def is_at_rest(self) -> bool:
        """Return whether the group is stable and consists of exactly the living clients, all running."""
        running = sum(client.state == "running" for client in self.clients)
        return self._group.state in {"Stable", "Empty"} and running == sum(self.alive) == len(self._group.members)

    def _idle_partitions(self) -> int:
        """Count partitions that nobody consumes: a joining eager member has given up its partitions."""
        keeps = self.setup.rebalancing is not Rebalancing.EAGER
        owned = 0
        for client, is_alive in zip(self.clients, self.alive, strict=True):
            if is_alive and (client.state == "running" or (keeps and client.state == "starting")):
                owned += sum(len(partitions) for _, partitions in client.owned)
        return max(self.setup.partitions - owned, 0)
