"""Static Connect workers in the model: bounces are quiet, nothing runs twice, nothing is lost."""

from __future__ import annotations

import os
import random

import pytest

from coordinator_model.connect.protocol import ConnectProtocolCompatibility
from coordinator_model.connect.static_cluster import StaticConnectCluster

MODES = tuple(ConnectProtocolCompatibility)
INCREMENTAL = (ConnectProtocolCompatibility.COMPATIBLE, ConnectProtocolCompatibility.SESSIONED)
HISTORIES = int(os.environ.get("CONNECT_HISTORIES", "150"))
MAX_DELAY_MS = 60_000
SESSION_MS = 30_000


def three_workers(
    mode: ConnectProtocolCompatibility = ConnectProtocolCompatibility.SESSIONED,
    max_delay_ms: int = MAX_DELAY_MS,
    session_timeout_ms: int = SESSION_MS,
) -> StaticConnectCluster:
    cluster = StaticConnectCluster(mode=mode, max_delay_ms=max_delay_ms, session_timeout_ms=session_timeout_ms)
    cluster.start("w-0", "w-1", "w-2")
    for connector in ("a", "b", "c"):
        cluster.configure(connector, 4)
    cluster.advance(2 * max_delay_ms)
    assert all(len(work) == 5 for work in cluster.running().values())
    assert_right(cluster)
    return cluster


def assert_right(cluster: StaticConnectCluster) -> None:
    assert cluster.duplicates() == []
    assert not cluster.idle(), f"{cluster.idle()} runs nowhere: {cluster.running()}"


def bounce(cluster: StaticConnectCluster, name: str, away_ms: int = 5_000) -> None:
    cluster.stop(name)
    cluster.advance(away_ms)
    cluster.start(name)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["w-0", "w-1", "w-2"])
def test_a_bounce_is_quiet_and_brings_the_same_tasks_back(mode: ConnectProtocolCompatibility, name: str) -> None:
    cluster = three_workers(mode)
    before, generation = cluster.running(), cluster.generation_id
    stopped = {n: len(w.revocations) for n, w in cluster.workers.items() if n != name}
    bounce(cluster, name)
    leads = name == cluster.leader() and mode in INCREMENTAL
    assert cluster.generation_id - generation == (1 if leads else 0)
    assert {n: w.sorted() for n, w in cluster.running().items()} == {n: w.sorted() for n, w in before.items()}
    assert {n: len(w.revocations) for n, w in cluster.workers.items() if n != name} == stopped
    assert_right(cluster)


@pytest.mark.parametrize("name", ["w-0", "w-1"])
def test_stock_workers_beside_it_move_or_idle(name: str) -> None:
    cluster = StaticConnectCluster(max_delay_ms=MAX_DELAY_MS)
    cluster.start_stock("w-0", "w-1", "w-2")
    for connector in ("a", "b", "c"):
        cluster.configure(connector, 4)
    cluster.advance(2 * MAX_DELAY_MS)
    generation = cluster.generation_id
    cluster.stop(name)
    cluster.start_stock(name)
    assert cluster.generation_id - generation >= 2
    stopped = any(worker.revocations for n, worker in cluster.workers.items() if n != name)
    assert cluster.idle() or stopped


def test_a_static_follower_of_a_stock_leader_asks_for_a_round_rather_than_live_on_an_increment() -> None:
    """What a stock leader stores is the last increment: with it three of four tasks would be lost silently."""
    cluster = StaticConnectCluster(max_delay_ms=MAX_DELAY_MS)
    cluster.start_stock("w-0")
    cluster.start("w-1")
    for connector in ("a", "b", "c"):
        cluster.configure(connector, 4)
    cluster.advance(2 * MAX_DELAY_MS)
    generation = cluster.generation_id
    bounce(cluster, "w-1")
    assert cluster.generation_id > generation
    assert cluster.duplicates() == []
    cluster.advance(3 * MAX_DELAY_MS)
    assert_right(cluster)


def test_two_workers_away_leader_among_them() -> None:
    cluster = three_workers()
    before = cluster.running()
    cluster.stop("w-0", "w-2")
    cluster.advance(3_000)
    cluster.start("w-0")
    cluster.advance(2_000)
    cluster.start("w-2")
    assert {n: w.sorted() for n, w in cluster.running().items()} == {n: w.sorted() for n, w in before.items()}
    assert_right(cluster)


def test_a_returned_leader_counts_an_absent_follower_as_owner_after_the_rebalance_timeout() -> None:
    cluster = three_workers(session_timeout_ms=300_000)
    before = cluster.running()
    cluster.stop("w-0", "w-2")
    cluster.advance(3_000)
    cluster.start("w-0")
    cluster.advance(100_000)  # the leader's round has gone on without w-2
    assert cluster.running()["w-1"].same_as(before["w-1"])
    cluster.start("w-2")
    assert {n: w.sorted() for n, w in cluster.running().items()} == {n: w.sorted() for n, w in before.items()}


@pytest.mark.parametrize("mode", INCREMENTAL)
@pytest.mark.parametrize("away", [("w-0",), ("w-0", "w-2")])
def test_a_leader_elected_while_the_old_one_is_away_takes_nothing_from_it(
    mode: ConnectProtocolCompatibility, away: tuple[str, ...]
) -> None:
    """A newcomer is elected where it joins first (ClassicGroup.maybeElectNewJoinedLeader): it remembers nothing."""
    cluster = three_workers(mode, max_delay_ms=0, session_timeout_ms=300_000)
    before = cluster.running()
    cluster.choose = lambda names: "w-3" if "w-3" in names else names[0]
    cluster.stop(*away)
    cluster.start("w-3")
    cluster.advance(100_000)
    assert cluster.leader() == "w-3"
    taken = {n: w.common(before[a]) for n, w in cluster.running().items() for a in away}
    assert not any(taken.values()), taken
    cluster.start(*away)
    cluster.advance(10_000)
    assert_right(cluster)


def test_a_leader_without_the_last_allocations_moves_no_work() -> None:
    """Who was alone took it along: it neither reports it nor tells of it until it is back."""
    cluster = StaticConnectCluster(max_delay_ms=0, session_timeout_ms=300_000)
    cluster.start("w-0")
    cluster.configure("a", 4)
    before = cluster.running()["w-0"]
    cluster.kill("w-0")
    cluster.start("w-3")
    cluster.advance(100_000)
    assert cluster.leader() == "w-3"
    assert not cluster.running()["w-3"]
    cluster.start("w-0")
    cluster.advance(10_000)
    assert before
    assert_right(cluster)


def test_the_work_of_a_leader_that_never_comes_back_runs_once_its_seat_is_removed() -> None:
    cluster = StaticConnectCluster(max_delay_ms=0, session_timeout_ms=3_000_000)
    cluster.start("w-0")
    cluster.configure("a", 4)
    cluster.kill("w-0")
    cluster.start("w-3")
    cluster.advance(100_000)
    assert cluster.idle()
    cluster.remove("w-0")
    cluster.advance(1_000)
    assert_right(cluster)


def test_workers_that_all_start_into_an_empty_group_of_old_need_one_round_more() -> None:
    """None of them knows that nobody is away."""
    cluster = three_workers(max_delay_ms=0)
    cluster.kill("w-0", "w-1", "w-2")
    cluster.advance(2 * SESSION_MS)
    generation = cluster.generation_id
    cluster.start("w-0", "w-1", "w-2")
    assert_right(cluster)
    assert cluster.generation_id - generation <= 3


def test_a_member_that_is_gone_for_good_gives_its_work_away_at_once_without_a_delay() -> None:
    cluster = three_workers(max_delay_ms=0)
    cluster.kill("w-1")
    cluster.remove("w-1")
    assert_right(cluster)
    assert cluster.rounds[-1].delay_ms == 0


def test_pausing_while_a_worker_is_away_costs_no_round() -> None:
    cluster = three_workers()
    generation = cluster.generation_id
    cluster.stop("w-1")
    cluster.pause()
    cluster.start("w-1")
    assert cluster.generation_id == generation
    assert_right(cluster)


def test_a_stalled_worker_is_given_no_double() -> None:
    """It heartbeats and runs its tasks, but joins no round: the coordinator keeps it, and its metadata gets old."""
    cluster = three_workers(session_timeout_ms=300_000)
    cluster.start("w-3")  # revokes and assigns: what w-1 said in JoinGroup is not what it has now
    cluster.advance(MAX_DELAY_MS)
    cluster.stalled.add("w-1")
    cluster.configure("d", 4)
    cluster.advance(100_000)
    assert cluster.duplicates() == []
    cluster.configure("a", 8)
    cluster.advance(100_000)
    assert cluster.duplicates() == []
    cluster.resume("w-1")
    cluster.advance(5 * MAX_DELAY_MS)
    assert_right(cluster)


class History:
    """One random history; every step keeps the invariants."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        mode = self.random.choice(MODES)
        self.cluster = three_workers(mode, self.random.choice([0, 5_000, MAX_DELAY_MS]))
        self.cluster.choose = self.random.choice
        self.names = [f"w-{n}" for n in range(5)]
        self.steps: list[str] = []

    def run(self, length: int) -> None:
        for _ in range(length):
            step = self.random.choice(
                (
                    *(self.stop, self.stop, self.come_back, self.come_back, self.quiet_bounce, self.configure),
                    *(self.delete, self.pause, self.wait, self.wait, self.stall, self.resume),
                    *(self.lose_coordinator, self.lose_sync, self.roll_out),
                )
            )
            self.steps.append(step.__name__)
            step()
            self.check()
        self.settle()

    def check(self) -> None:
        assert self.cluster.duplicates() == [], self.steps

    def live(self) -> list[str]:
        return [n for n in self.cluster.workers if n not in self.cluster.stalled]

    def stop(self) -> None:
        name = self.random.choice(self.live())
        if len(self.live()) > 1:
            self.random.choice([self.cluster.stop, self.cluster.kill])(name)

    def come_back(self) -> None:
        away = [n for n in self.names if n not in self.cluster.workers]
        if away:
            self.cluster.start(self.random.choice(away))

    def roll_out(self) -> None:
        """The agent is taken out of a worker, or was never there."""
        away = [n for n in self.names if n not in self.cluster.workers]
        if away and not self.cluster.stalled:
            self.cluster.start_stock(self.random.choice(away))

    def quiet_bounce(self) -> None:
        cluster, workers = self.cluster, self.cluster.workers.values()
        is_static = all(worker.static is not None for worker in workers)
        is_stable = not cluster._round_needed and not cluster._absent() and set(cluster.workers) <= set(cluster.seats)
        is_at_rest = not cluster.unsynced and all(w.scheduled_rebalance_ms is None for w in workers)
        # a leader without a memory does not know what was deleted before, and learns it a round later: as ever
        is_known = all(worker.running.within(cluster.config.configured()) for worker in workers)
        if not (is_static and is_stable and is_at_rest and is_known):
            return
        name = self.random.choice(list(self.cluster.workers))
        before, generation = self.cluster.running(), self.cluster.generation_id
        leads = name == self.cluster.leader() and self.cluster._selected() != "default"
        bounce(self.cluster, name, away_ms=self.random.randrange(SESSION_MS))
        assert self.cluster.generation_id - generation == int(leads), self.steps
        after = self.cluster.running()
        assert {n: w.sorted() for n, w in after.items()} == {n: w.sorted() for n, w in before.items()}, self.steps

    def configure(self) -> None:
        self.cluster.configure(self.random.choice("abcde"), self.random.randint(1, 8))

    def delete(self) -> None:
        self.cluster.delete(self.random.choice("bcde"))

    def pause(self) -> None:
        self.cluster.pause()

    def wait(self) -> None:
        self.cluster.advance(self.random.choice([100, 3_000, 10_000, 70_000]))

    def stall(self) -> None:
        # The eager protocol asks nobody what he runs, and a stock leader does not know what he was given: as ever
        # there, a worker that neither follows nor goes away runs beside its successor.
        is_known = all(w.static is not None for w in self.cluster.workers.values())
        name = self.random.choice(self.live())
        if len(self.live()) > 1 and is_known and self.cluster.mode in INCREMENTAL:
            self.cluster.stalled.add(name)

    def resume(self) -> None:
        if self.cluster.stalled:
            self.cluster.resume(self.random.choice(sorted(self.cluster.stalled)))

    def lose_coordinator(self) -> None:
        self.cluster.lose_coordinator(self.random.choice(self.live()))

    def lose_sync(self) -> None:
        name = self.random.choice(self.live())
        self.cluster.unsynced.add(name)

    def settle(self) -> None:
        for name in sorted(self.cluster.stalled):
            self.cluster.resume(name)
        self.cluster.unsynced.clear()
        for _ in range(8):
            self.cluster.advance(2 * MAX_DELAY_MS)
        assert self.cluster.duplicates() == [], self.steps
        assert not self.cluster.idle(), (self.steps, self.cluster.idle(), self.cluster.running())


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_nothing_runs_twice_and_nothing_is_lost(seed: int) -> None:
    History(seed).run(40)
