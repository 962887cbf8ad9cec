"""The Connect draft under random schedules: nobody owns twice, replay is exact, and everything settles."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from conformance.answers import expect
from connect_draft import ConnectDraftCoordinator, DraftSettings
from connect_draft.broker.group import ConnectGroup
from connect_draft.messages import (
    ConnectGroupDescribeRequest,
    ConnectGroupDescribeResponse,
    ConnectGroupHeartbeatRequest,
)
from connect_draft.records import DraftRecord
from connect_draft.workers.assignors import DeclarativeAssignor, TodaysAssignor
from connect_draft.workers.cluster import Delivery, DraftCluster
from connect_draft.workers.worker import DraftWorker
from coordinator_model.base.errors import ErrorCode
from coordinator_model.connect.incremental import IncrementalCooperativeAssignor
from coordinator_model.connect.work import ClusterConfig, ConnectorsAndTasks
from support.long_drills import by_length

GROUP = "connect-cluster"
NAMES = [f"W{i}" for i in range(1, 6)]
MAX_DELAY_MS = 10_000


class Schedule:
    """One seeded history: workers come, go, stall and lose messages; the coordinator fails over."""

    def __init__(self, seed: int, steps: int, static: bool) -> None:
        self.random = random.Random(seed)
        self.cluster = DraftCluster(DraftSettings(static_workers=static, session_timeout_ms=45_000))
        self.static = static
        self.steps = steps
        self.config = ClusterConfig(1, {"A": 3, "B": 2})
        self.shadow = ConnectDraftCoordinator()
        self.replayed = 0
        self.both_at_once = 0
        self.epoch = 0
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        moves = [
            *[self.heartbeat] * 10,
            *[self.everybody_heartbeats] * 20,
            *[self.compute] * 14,
            *[self.stop_work] * 8,
            *[self.advance] * 8,
            *[self.start] * 6,
            self.kill,
            self.leave,
            self.configure,
            self.read_config,
            self.fail_over,
            self.stale_heartbeat,
        ]
        for _ in range(self.steps):
            move = self.random.choice(moves)
            move()
            self.counts[move.__name__] += 1
            self.check()

    def worker(self) -> DraftWorker | None:
        names = sorted(self.cluster.workers)
        return self.cluster.workers[self.random.choice(names)] if names else None

    def start(self) -> None:
        name = self.random.choice(NAMES)
        if name in self.cluster.workers:
            return
        instance = f"i-{name}" if self.static else None
        if self.random.random() < 0.5:
            assignor: DeclarativeAssignor | TodaysAssignor = DeclarativeAssignor(max_delay_ms=MAX_DELAY_MS)
        else:
            assignor = TodaysAssignor(inner=IncrementalCooperativeAssignor(MAX_DELAY_MS))
        self.cluster.start(DraftWorker(name, assignor, self.config, instance_id=instance))

    def kill(self) -> None:
        if worker := self.worker():
            self.cluster.kill(worker.member_id)

    def leave(self) -> None:
        if worker := self.worker():
            self.cluster.kill(worker.member_id)
            self.cluster.send(
                worker.leave_for_a_while() if self.static and self.random.random() < 0.7 else worker.leave()
            )

    def heartbeat(self, worker: DraftWorker | None = None) -> None:
        worker = worker or self.worker()
        if worker is None:
            return
        owned = worker.owned
        stopping = worker.stopping
        delivery = self.random.choices(list(Delivery), weights=[8, 1, 1])[0]
        response = self.cluster.heartbeat(worker.member_id, delivery)
        if response and response.assignment and not response.error_code:
            assigned = response.assignment.work
            if owned.minus(assigned) and assigned.minus(owned):
                self.both_at_once += 1
            self.counts["revoked"] += bool(owned.minus(assigned)) and not stopping

    def everybody_heartbeats(self) -> None:
        for name in list(self.cluster.workers):
            self.heartbeat(self.cluster.workers[name])

    def compute(self) -> None:
        asked = [worker for worker in self.cluster.workers.values() if worker.must_compute]
        if asked:
            worker = self.random.choice(asked)
            if self.random.random() < 0.2:
                self.cluster.send(worker.prepare())
            else:
                self.cluster.compute(worker.member_id)

    def stop_work(self) -> None:
        if worker := self.worker():
            worker.stopped()

    def advance(self) -> None:
        self.cluster.advance(self.random.choice([100, 1_000, 2_000, 5_000, 5_000, 5_000, 20_000]))

    def configure(self) -> None:
        tasks = dict(self.config.tasks_per_connector)
        name = self.random.choice("ABC")
        if name in tasks and self.random.random() < 0.3:
            del tasks[name]
        else:
            tasks[name] = self.random.randint(1, 4)
        self.config = ClusterConfig(self.config.offset + 1, tasks)

    def read_config(self) -> None:
        for worker in self.cluster.workers.values():
            worker.config = self.config

    def fail_over(self) -> None:
        self.cluster.fail_over()

    def stale_heartbeat(self) -> None:
        """A request of a worker nobody knows, or with an epoch that never was: it must be refused."""
        group = self.cluster.coordinator.groups.get(GROUP)
        name = self.random.choice(NAMES)
        if group is None or name in self.cluster.workers or name in group.members:
            return
        response = self.cluster.send(
            ConnectGroupHeartbeatRequest(group_id=GROUP, member_id=name, member_epoch=self.random.randint(1, 9))
        )
        assert response.error_code is ErrorCode.UNKNOWN_MEMBER_ID

    def group(self) -> ConnectGroup | None:
        return self.cluster.coordinator.groups.get(GROUP)

    def check(self) -> None:
        self.shadow.replay(self.cluster.log[self.replayed :])
        self.replayed = len(self.cluster.log)
        assert self.shadow.groups == self.cluster.coordinator.groups
        running = [item for work in self.cluster.running().values() for item in (*work.connectors, *work.tasks)]
        assert len(running) == len(set(running)), "two workers run the same"
        group = self.group()
        if group is None:
            return
        held = [
            item
            for current in group.current.values()
            for work in (current.assigned, current.revoking)
            for item in (*work.connectors, *work.tasks)
        ]
        assert len(held) == len(set(held)), "two workers own the same"
        assert group.target.assignment_epoch <= group.epoch
        assert all(current.member_epoch <= group.target.assignment_epoch for current in group.current.values())
        assert self.epoch <= group.epoch
        self.epoch = group.epoch
        for member_id, current in group.current.items():
            worker = self.cluster.workers.get(member_id)
            if worker is not None:
                assert worker.owned.within(current.assigned.plus(current.revoking))

    def settle(self) -> ConnectGroupDescribeResponse:
        """No more faults: all workers heartbeat for some minutes."""
        for name in NAMES[:2]:
            if name not in self.cluster.workers:
                self.cluster.start(DraftWorker(name, DeclarativeAssignor(max_delay_ms=MAX_DELAY_MS), self.config))
        self.read_config()
        for _ in range(60):
            self.cluster.settle(rounds=3)
            self.check()
            self.cluster.advance(5_000)
        self.cluster.settle()
        self.check()
        return expect(ConnectGroupDescribeResponse, self.cluster.send(ConnectGroupDescribeRequest(group_id=GROUP)))


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
@pytest.mark.parametrize("block", range(by_length(short=3, long=6)))
def test_random_schedules(block: int, static: bool) -> None:
    """Items 66, 67, 73, 79, 83: at every step one owner, exact replay, epochs in order; at the end all runs once."""
    reached: Counter[str] = Counter()
    for seed in range(block * 10, block * 10 + 10):
        schedule = Schedule(seed, 300, static)
        schedule.run()
        described = schedule.settle()
        assert described.group_state == "Stable", seed
        assert not described.held_back
        running = schedule.cluster.running()
        everything = ConnectorsAndTasks.union(running.values())
        assert everything.same_as(schedule.config.configured()), seed
        assert all(member.assigned.same_as(running[member.member_id]) for member in described.members)
        assert schedule.both_at_once == 0
        reached += schedule.counts
    assert min(reached[what] for what in ("revoked", "fail_over", "kill", "leave", "configure")) >= 10


def test_log_may_be_compacted() -> None:
    """Item 83: with only the last record of each key, and without tombstones, replay gives the same group."""
    for seed in range(10):
        schedule = Schedule(seed, 200, static=True)
        schedule.run()
        last: dict[tuple[object, ...], DraftRecord] = {}
        for record in schedule.cluster.log:
            key = (record.record_type, *record.key)
            last.pop(key, None)
            last[key] = record
        compacted = ConnectDraftCoordinator()
        compacted.replay(record for record in last.values() if record.value is not None)
        assert compacted.groups == schedule.cluster.coordinator.groups
        assert len(last) < len(schedule.cluster.log)
