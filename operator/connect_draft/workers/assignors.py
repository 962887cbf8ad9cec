"""Client-side assignors of the draft (its ConnectAssignor interface, item 84)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from coordinator_model.connect.eager import assign_eagerly
from coordinator_model.connect.incremental import DEFAULT_MAX_DELAY_MS, IncrementalCooperativeAssignor, Round
from coordinator_model.connect.work import ClusterConfig, ConnectorsAndTasks, ConnectorTaskId

from ..broker.conversion import COOPERATIVE, EAGER
from ..messages import ConnectGroupPrepareAssignmentResponse, HeartbeatAssignment

DELAY_EXPIRED = 1
"""A worker's reason for wanting an assignment when a delay is over; the draft names no values (item 74)."""


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """What an assignor returns: an error or all of the workers' work, and after how long it wants to be asked again."""

    work: Mapping[str, ConnectorsAndTasks]
    error: int = 0
    delay_ms: int = 0


class ConnectAssignor(Protocol):
    """What the draft asks of an assignor: a name, a version range, an assignment of the whole group."""

    name: str
    minimum_version: int
    maximum_version: int

    def assign(self, group: ConnectGroupPrepareAssignmentResponse, now_ms: int) -> GroupAssignment:
        """Assign everything that is configured to the workers of the group."""

    def on_assignment(self, assignment: HeartbeatAssignment) -> None:
        """Note the work assigned to this worker."""


class _LastAssignment:
    """Keeps the worker's last assignment."""

    last: HeartbeatAssignment | None = None

    def on_assignment(self, assignment: HeartbeatAssignment) -> None:
        """Remember it."""
        self.last = assignment


@dataclass
class EagerDraftAssignor(_LastAssignment):
    """Today's eager assignor, declared as a target: it is dealt again each time and moves what it likes."""

    name: str = EAGER
    minimum_version: int = 0
    maximum_version: int = 0

    def assign(self, group: ConnectGroupPrepareAssignmentResponse, now_ms: int) -> GroupAssignment:
        """Deal everything; nothing ever waits."""
        return GroupAssignment(assign_eagerly(_as_config(group.configured), [m.member_id for m in group.members]))


@dataclass
class TodaysAssignor(_LastAssignment):
    """Today's incremental cooperative assignor, asked until it wants no more revocations.

    It thinks in rounds: revoke first, assign in the next. A target says where everything ends, so the two rounds are
    played at once and the coordinator does the revoking.
    """

    name: str = COOPERATIVE
    minimum_version: int = 1
    maximum_version: int = 2
    inner: IncrementalCooperativeAssignor = field(default_factory=IncrementalCooperativeAssignor)

    def assign(self, group: ConnectGroupPrepareAssignmentResponse, now_ms: int) -> GroupAssignment:
        """Play rounds from the target in force; work held back by the coordinator counts as lost, not as new."""
        work = {member.member_id: member.work for member in group.members}
        lost = ConnectorsAndTasks.union(w for _, w in group.held_back)
        generation = self.inner.previous_generation_id
        if not self.inner.previous_members:
            # a worker chosen for the first time knows from the coordinator what was lost
            self.inner.previous_assignment = ConnectorsAndTasks.union(work.values()).plus(lost)
            self.inner.previous_members = frozenset((*work, *(owner for owner, _ in group.held_back)))
        while True:
            outcome = self.inner.assign(Round(_as_config(group.configured), work, generation, generation + 1), now_ms)
            generation += 1
            work = dict(outcome.complete)
            if not any(outcome.revoked.values()):
                return GroupAssignment(work, delay_ms=outcome.delay_ms)


@dataclass
class DeclarativeAssignor(_LastAssignment):
    """The assignor of the draft's case studies.

    They call it the IncrementalCooperativeAssignor but do not get its results: it would give W3 the connector BC0 and
    W1 the task BT1 (case study 87). Their numbers come out when connectors and tasks count alike, and each worker in
    turn is filled up to its share in the order AC0, AT1, AT2, BC0, BT1 and gives up what it has beyond it from the end.

    Parameters
    ----------
    max_delay_ms: how long work of a worker that left waits for it.
        As drafted, a worker that returns within the delay gets its work at once (case study 88); with real Connect it
        waits for the end of the delay.
    """

    name: str = COOPERATIVE
    minimum_version: int = 1
    maximum_version: int = 2
    max_delay_ms: int = DEFAULT_MAX_DELAY_MS
    scheduled_rebalance_ms: int | None = None

    def assign(self, group: ConnectGroupPrepareAssignmentResponse, now_ms: int) -> GroupAssignment:
        """Keep workers' work within their shares, return or hold back that of workers that left, share what remains."""
        work = {m.member_id: _items(m.work.common(group.configured)) for m in group.members}
        held_back = self._still_held_back(group, work, now_ms)
        waiting = {item for items in held_back for item in items}
        if not waiting:
            _level(work, _items(group.configured))
        else:
            # while work waits for its worker nothing is moved; only what is new finds a place
            taken = {item for items in work.values() for item in items} | waiting
            _fill(work, [item for item in _items(group.configured) if item not in taken])
        delay_ms = 0 if self.scheduled_rebalance_ms is None else self.scheduled_rebalance_ms - now_ms
        return GroupAssignment({member_id: _work(items) for member_id, items in work.items()}, delay_ms=delay_ms)

    def _still_held_back(
        self, group: ConnectGroupPrepareAssignmentResponse, work: dict[str, list[_Item]], now_ms: int
    ) -> list[list[_Item]]:
        held_back = []
        for owner, lost in group.held_back:
            if owner in work:
                work[owner] += _items(lost.common(group.configured))
            else:
                held_back.append(_items(lost.common(group.configured)))
        over = self.scheduled_rebalance_ms is not None and self.scheduled_rebalance_ms <= now_ms
        if not any(held_back) or over or self.max_delay_ms == 0:
            self.scheduled_rebalance_ms = None
            return []
        if self.scheduled_rebalance_ms is None:
            self.scheduled_rebalance_ms = now_ms + self.max_delay_ms
        return held_back


_Item = tuple[str, int]
"""A connector (number -1) or a task of it, in the order the case studies list them."""


def _items(work: ConnectorsAndTasks) -> list[_Item]:
    return sorted([*((c, -1) for c in work.connectors), *((t.connector, t.task) for t in work.tasks)])


def _work(items: Sequence[_Item]) -> ConnectorsAndTasks:
    return ConnectorsAndTasks.of(
        (name for name, number in items if number < 0),
        (ConnectorTaskId(name, number) for name, number in items if number >= 0),
    )


def _level(work: dict[str, list[_Item]], configured: Sequence[_Item]) -> None:
    """Bring every worker to its share: the workers that have most get the larger shares, so that least moves."""
    least, extras = divmod(len(configured), len(work))
    by_load = sorted(work, key=lambda member_id: (-len(work[member_id]), member_id))
    shares = {member_id: least + (place < extras) for place, member_id in enumerate(by_load)}
    for member_id, share in shares.items():
        work[member_id] = sorted(work[member_id])[:share]
    taken = {item for items in work.values() for item in items}
    left = iter([item for item in configured if item not in taken])
    for member_id in sorted(work):
        while len(work[member_id]) < shares[member_id]:
            work[member_id].append(next(left))


def _fill(work: dict[str, list[_Item]], items: Sequence[_Item]) -> None:
    for item in items:
        work[min(work, key=lambda member_id: (len(work[member_id]), member_id))].append(item)


def _as_config(configured: ConnectorsAndTasks) -> ClusterConfig:
    """Rebuild the config snapshot; tasks of a connector are numbered from 0 without gaps."""
    counts = dict.fromkeys(configured.connectors, 0)
    for task in configured.tasks:
        counts[task.connector] = max(counts.get(task.connector, 0), task.task + 1)
    return ClusterConfig(0, counts)
