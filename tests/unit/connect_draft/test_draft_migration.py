"""The Connect draft's migration (items 75 and 76): today's workers and the draft's in one group.

The draft's sections on JoinGroup, SyncGroup and Heartbeat are empty; what is pinned here is ours. The workers of the
old protocol are those of the Connect model, with their real bytes.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from conformance.answers import answered
from connect_draft import ConnectDraftCoordinator
from connect_draft.messages import ClassicConnectGroup, ClassicConnectMember
from connect_draft.workers.assignors import ConnectAssignor, DeclarativeAssignor, EagerDraftAssignor
from connect_draft.workers.cluster import DraftCluster
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import HeartbeatRequest, JoinGroupRequest, Protocol, SyncGroupRequest
from coordinator_model.connect.incremental import IncrementalCooperativeAssignor
from coordinator_model.connect.protocol import (
    Assignment,
    AssignmentError,
    ConnectProtocolCompatibility,
    decode_assignment,
    encode_assignment,
)
from coordinator_model.connect.work import ConnectorsAndTasks
from coordinator_model.connect.worker import ConnectWorker

from .draft_bench import describe
from .migration_bench import (
    CONFIG,
    EAGER,
    GROUP,
    SESSIONED,
    OldWorker,
    assert_once,
    classic_group,
    new_worker,
    running,
    settle,
    upgraded,
)


def test_item_75_upgrade_keeps_generation_and_work() -> None:
    """The group epoch starts at the generation, all workers at it with their work; nothing moves."""
    classic = classic_group("W1", "W2")
    cluster, old = upgraded("W1", "W2")
    described = describe(cluster)
    assert described.group_epoch == described.assignment_epoch == classic.generation_id
    assert described.group_state == "Stable"
    assert {m.url: m.assigned.sorted() for m in described.members} == {
        w.url: w.running.sorted() for w in classic.workers.values()
    }
    assert [m.worker_state for m in described.members] == ["STABLE", "STABLE"]
    assert all(worker.heartbeat() is ErrorCode.NONE for worker in old.values())


@pytest.mark.parametrize(
    ("mode", "assignor"), [(SESSIONED, DeclarativeAssignor), (EAGER, EagerDraftAssignor)], ids=["sessioned", "eager"]
)
def test_item_76_mixed_group(mode: ConnectProtocolCompatibility, assignor: type[ConnectAssignor]) -> None:
    """A new worker comes into an old group: it alone computes, old ones rejoin, stop, and rejoin again."""
    cluster, old = upgraded("W1", "W2", mode=mode)
    generation = describe(cluster).group_epoch
    cluster.start(new_worker("W3", assignor()))
    cluster.heartbeat("W3")
    described = describe(cluster)
    assert (described.group_epoch, described.chosen) == (generation + 1, "W3")
    settle(cluster, old)
    described = describe(cluster)
    assert described.group_state == "Stable"
    work = running(cluster, old)
    assert ConnectorsAndTasks.union(work.values()).same_as(CONFIG.configured())
    assert sorted(len(w) for w in work.values()) == [2, 3, 3]
    assert all(worker.worker.generation_id == described.group_epoch for worker in old.values())


def test_item_76_states_of_a_worker_of_the_old_protocol() -> None:
    """STABLE, asked to rejoin: PREPARING_REBALANCE, joined: COMPLETING_REBALANCE, synced: STABLE."""
    cluster, old = upgraded("W1")
    cluster.start(new_worker("W2"))
    cluster.heartbeat("W2")
    cluster.heartbeat("W2")
    cluster.compute("W2")
    states = []

    def see() -> None:
        states.append(next(m.worker_state for m in describe(cluster).members if m.worker_state))

    see()
    assert old["W1"].heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    see()
    assert old["W1"].join() is ErrorCode.NONE
    see()
    assert old["W1"].sync() is ErrorCode.NONE
    see()
    assert states == ["STABLE", "PREPARING_REBALANCE", "COMPLETING_REBALANCE", "STABLE"]
    assert old["W1"].must_join, "it stopped something, so it joins again at once"


def test_item_76_errors_of_the_old_protocol() -> None:
    """Wrong generation, unknown id, another protocol type, no Connect protocol, the id of a worker of the new kind."""
    cluster, old = upgraded("W1")
    cluster.start(new_worker("W2"))
    cluster.heartbeat("W2")
    known = old["W1"].worker.member_id
    protocols = tuple(Protocol(name, data) for name, data in old["W1"].worker.protocols())
    join = JoinGroupRequest(group_id=GROUP, member_id=known, protocol_type="connect", protocols=protocols)
    sync = SyncGroupRequest(group_id=GROUP, generation_id=999, member_id=known)
    cases = [
        (HeartbeatRequest(group_id=GROUP, generation_id=999, member_id=known), ErrorCode.ILLEGAL_GENERATION),
        (sync, ErrorCode.ILLEGAL_GENERATION),
        (HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="?"), ErrorCode.UNKNOWN_MEMBER_ID),
        (HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="W2"), ErrorCode.UNKNOWN_MEMBER_ID),
        (HeartbeatRequest(group_id="other", generation_id=1, member_id=known), ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    for request, expected in cases:
        assert cluster.send(request).error_code is expected
    refused = [
        JoinGroupRequest(group_id=GROUP, member_id=known, protocol_type="consumer", protocols=protocols),
        JoinGroupRequest(group_id=GROUP, member_id=known, protocol_type="connect", protocols=(Protocol("range"),)),
        JoinGroupRequest(group_id=GROUP, member_id=known, protocol_type="connect", protocols=()),
        JoinGroupRequest(group_id=GROUP, member_id=known, protocol_type="connect", protocols=protocols[2:]),
    ]
    assert {cluster.send(r).error_code for r in refused} == {ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
    assert cluster.send(join).error_code is ErrorCode.NONE


def test_item_76_sessions_and_rounds_have_limits() -> None:
    """An old worker that is silent for its own session timeout, or does not rejoin in time, is removed."""
    cluster, old = upgraded("W1", "W2")
    cluster.start(new_worker("W3"))
    cluster.heartbeat("W3")
    cluster.heartbeat("W3")
    cluster.compute("W3")
    cluster.advance(9_999)
    assert len(describe(cluster).members) == 3
    stays = old.pop("W1")
    assert stays.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    cluster.heartbeat("W3")
    cluster.advance(1)
    assert old["W2"].worker.member_id not in [m.member_id for m in describe(cluster).members]
    for _ in range(12):
        cluster.advance(5_000)
        cluster.heartbeat("W3")
        stays.heartbeat()
    assert [m.member_id for m in describe(cluster).members] == ["W3"]


def test_item_67_rejoining_does_not_prolong_a_revocation() -> None:
    """A worker that comes again with part of what it had to stop keeps the deadline of the first time."""
    cluster, old = upgraded("W1")
    cluster.start(new_worker("W2"))
    for name in ("W2", "W2"):
        cluster.heartbeat(name)
    cluster.compute("W2")
    before = old["W1"].worker.running
    old["W1"].step()
    kept = old["W1"].worker.running
    still = ConnectorsAndTasks.of(tasks=before.minus(kept).tasks[:1])
    worker = old["W1"].worker
    assert worker.assignment is not None
    assert len(still) == 1
    left = ConnectorsAndTasks(kept.connectors, kept.tasks[:1])
    worker.assignment = replace(worker.assignment, assigned=left.plus(still))
    worker.running = worker.assignment.assigned
    key = ("connect_rebalance", GROUP, worker.member_id)
    deadline_ms = answered(cluster.coordinator.timers.deadline_ms(key))
    cluster.advance(1_000)
    log = len(cluster.log)
    assert old["W1"].join() is ErrorCode.NONE
    assert len(cluster.log) > log
    assert cluster.coordinator.timers.deadline_ms(key) == deadline_ms


def test_item_75_downgrade_when_the_last_new_worker_leaves() -> None:
    """The group goes back with the epoch as generation and every worker's work; nothing of it is left here."""
    cluster, old = upgraded("W1", "W2")
    cluster.start(new_worker("W3"))
    settle(cluster, old)
    before = {name: worker.worker.running for name, worker in old.items()}
    epoch = describe(cluster).group_epoch
    cluster.send(cluster.kill("W3").leave())
    classic = answered(cluster.downgraded)
    assert (classic.generation_id, classic.protocol_name) == (epoch + 1, "sessioned")
    given = {m.client_id: decode_assignment(m.assignment).assigned.sorted() for m in classic.members}
    assert given == {old[name].worker.url: work.sorted() for name, work in before.items()}
    assert describe(cluster).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    replayed = ConnectDraftCoordinator()
    replayed.replay(cluster.log)
    assert replayed.groups == {}
    assert cluster.coordinator.timers.keys() == ()


def test_item_75_downgrade_when_the_last_new_worker_dies() -> None:
    """Its session ends: the same as if it had left. And up again from what came back."""
    cluster, old = upgraded("W1")
    cluster.start(new_worker("W2"))
    settle(cluster, old)
    cluster.kill("W2")
    for _ in range(10):
        cluster.advance(5_000)
        if cluster.downgraded is None:
            old["W1"].step()
    assert cluster.downgraded is not None
    again = DraftCluster()
    again.upgrade(cluster.downgraded)
    assert describe(again).group_epoch == cluster.downgraded.generation_id


def test_item_75_upgrade_reads_what_the_last_round_changed() -> None:
    """Incremental: what a worker reported when it joined, minus its revoked work, plus its assigned work."""
    a, b, c = (ConnectorsAndTasks.of([name]) for name in "ABC")
    worker = classic_group("W1").workers["W1"]
    assert worker.assignment is not None
    worker.assignment = replace(worker.assignment, assigned=a.plus(b))
    assignment = replace(worker.assignment, assigned=c, revoked=b)
    protocols = worker.protocols()
    member = ClassicConnectMember("W1", "c", "/h", 10_000, 60_000, protocols, encode_assignment(assignment))
    cluster = DraftCluster()
    cluster.upgrade(ClassicConnectGroup(GROUP, 7, "sessioned", (member,)))
    assert describe(cluster).members[0].assigned.same_as(a.plus(c))


def test_upgrade_of_a_failed_assignment_assigns_nothing() -> None:
    """A worker whose last assignment failed runs nothing of it."""
    worker = classic_group("W1").workers["W1"]
    failed = Assignment(2, AssignmentError.CONFIG_MISMATCH, "W1", "u", 2)
    group = ClassicConnectGroup(
        GROUP,
        7,
        "sessioned",
        (ClassicConnectMember("W1", "c", "/h", 10_000, 60_000, worker.protocols(), encode_assignment(failed)),),
    )
    cluster = DraftCluster()
    cluster.upgrade(group)
    assert not describe(cluster).members[0].assigned


class Rolling:
    """Old workers leave, die and come; new ones come and leave; all step in random order."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster, self.old = upgraded("W1", "W2", "W3")
        self.cluster.start(new_worker("N0"))
        self.cluster.heartbeat("N0")
        self.started = 0
        self.replayed = ConnectDraftCoordinator()
        self.applied = 0

    def run(self, steps: int) -> None:
        moves = [self.old_ends, self.old_starts, self.new_starts, self.new_leaves, *[self.time_passes] * 2]
        moves += [*[self.old_steps] * 8, *[self.new_steps] * 8]
        for _ in range(steps):
            self.random.choice(moves)()
            self.check()
            if self.cluster.downgraded is not None:
                return

    def check(self) -> None:
        assert_once(running(self.cluster, self.old))
        self.replayed.replay(self.cluster.log[self.applied :])
        self.applied = len(self.cluster.log)
        assert self.replayed.groups == self.cluster.coordinator.groups

    def old_ends(self) -> None:
        if self.old:
            gone = self.old.pop(self.random.choice(sorted(self.old)))
            if self.random.random() < 0.5:
                gone.leave()

    def old_starts(self) -> None:
        if len(self.old) < 3:
            self.started += 1
            worker = ConnectWorker(f"http://O{self.started}/", SESSIONED, CONFIG, IncrementalCooperativeAssignor())
            self.old[f"O{self.started}"] = OldWorker(self.cluster, worker)

    def new_starts(self) -> None:
        if len(self.cluster.workers) < 3:
            self.started += 1
            self.cluster.start(new_worker(f"N{self.started}"))

    def new_leaves(self) -> None:
        if self.cluster.workers:
            self.cluster.send(self.cluster.kill(self.random.choice(sorted(self.cluster.workers))).leave())

    def time_passes(self) -> None:
        self.cluster.advance(self.random.choice([100, 1_000, 3_000]))
        for worker in self.old.values():
            worker.give_up_in_time()

    def old_steps(self) -> None:
        if self.old:
            self.old[self.random.choice(sorted(self.old))].step()

    def new_steps(self) -> None:
        if self.cluster.workers:
            name = self.random.choice(sorted(self.cluster.workers))
            self.cluster.heartbeat(name)
            if self.cluster.workers[name].must_compute:
                self.cluster.compute(name)
            self.cluster.workers[name].stopped()


def test_rolling_upgrade_and_back_in_random_order() -> None:
    """Item 76: whatever is rolled when, nothing runs twice, replay is exact, and a mixed group settles."""
    ends = {"downgraded": 0, "mixed": 0}
    for seed in range(60):
        rolling = Rolling(seed)
        rolling.run(150)
        cluster, old = rolling.cluster, rolling.old
        if cluster.downgraded is not None:
            ends["downgraded"] += 1
            continue
        rolling.new_starts()
        for _ in range(12):
            settle(cluster, old)
            cluster.advance(4_000)
        work = running(cluster, old)
        assert ConnectorsAndTasks.union(work.values()).same_as(CONFIG.configured()), seed
        assert describe(cluster).group_state == "Stable", seed
        ends["mixed"] += bool(old)
    assert min(ends.values()) >= 5
