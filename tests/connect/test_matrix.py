"""Static Connect workers of several versions and protocols, and what else may happen to them than a restart."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.connect import ticks
from support.connect.rolls import NAMES, TASK_COUNT, assert_quiet, record_roll, roll, running
from support.connect.workers import ConnectGroup, GroupSettings, Worker
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_log import now_ms
from support.fault_proxy.free_port import free_port
from support.scene.figures import record
from support.waiting import until

pytestmark = [pytest.mark.broker, pytest.mark.long]

VERSIONS = tuple(os.environ.get("CONNECT_VERSIONS", "4.3.1 3.9.2 2.8.2").split())
PROTOCOLS = ("sessioned", "compatible", "eager")
ROUNDS = int(os.environ.get("CONNECT_ROLLS", "1"))
"""How often all three workers are restarted, one after the other; 5 are ten followers and five leaders."""
FENCED_STATUS = 82


def static(group_id: str, **more: Any) -> GroupSettings:
    fixed: dict[str, Any] = {"static": True, "session_timeout_ms": 30_000, "rebalance_delay_ms": 0}
    return GroupSettings(group_id=group_id, **fixed, **more)


def pause(group: ConnectGroup, connector: str) -> None:
    group.any().call("PUT", f"/connectors/{connector}/pause")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("version", VERSIONS)
def test_rolls_are_quiet(brokers: Brokers, tmp_path: Path, version: str, protocol: str) -> None:
    settings = static(f"rolls-{version}-{protocol}", version=version, protocol=protocol)
    with running(brokers.bootstrap, settings, tmp_path) as group:
        for name in NAMES * ROUNDS:
            measured = roll(group, name, brokers.group_log, task_count=TASK_COUNT)
            record_roll(f"Connect {version} {protocol}, static", measured)
            if measured.led and protocol == "eager" and version < "3.2":
                continue  # its leader learns each worker's work by a round only, which stops everything
            assert_quiet(measured, generations=1 if measured.led and protocol != "eager" else 0)
        assert ticks.twice(group.lines()) == []


@pytest.mark.parametrize("led", [False, True])
def test_a_killed_worker_comes_back_as_quietly(brokers: Brokers, tmp_path: Path, led: bool) -> None:
    with running(brokers.bootstrap, static(f"killed-{led}"), tmp_path) as group:
        for _ in range(ROUNDS):
            name = next(name for name in NAMES if (name == group.leader()) is led)
            measured = roll(group, name, brokers.group_log, task_count=TASK_COUNT, end=Worker.kill)
            record_roll("Connect 4.3.1 sessioned, static, killed", measured)
            assert_quiet(measured, generations=int(led))
        assert ticks.twice(group.lines()) == []


def test_two_workers_away_with_the_leader_find_everything_as_it_was(brokers: Brokers, tmp_path: Path) -> None:
    with running(brokers.bootstrap, static("two-away"), tmp_path) as group:
        for _ in range(ROUNDS):
            before, leader, began_ms = group.await_rest(TASK_COUNT), group.leader(), now_ms()
            follower = next(name for name in NAMES if name != leader)
            other = next(name for name in NAMES if name not in (leader, follower))
            group.workers[leader].stop()
            group.workers[follower].stop()
            group.workers[leader].start()
            group.workers[leader].await_up()
            group.workers[follower].start()
            group.workers[follower].await_up()
            group.await_heartbeats()
            assert group.await_rest(TASK_COUNT) == before
            lines = group.lines()
            stopped = [line for line in lines if line.what == "STOP" and line.worker == other and line.at_ms > began_ms]
            assert stopped == []
            rebalances = brokers.group_log.count_rebalances("two-away", since_ms=began_ms)
            record("Connect, static, two away with the leader", rebalances=rebalances, others_stopped=len(stopped))
            assert rebalances <= 1
            assert ticks.twice(lines) == []


def test_pausing_while_a_worker_is_away_costs_no_round(brokers: Brokers, tmp_path: Path) -> None:
    with running(brokers.bootstrap, static("paused"), tmp_path) as group:
        name = next(name for name in NAMES if name != group.leader())
        worker, began_ms = group.workers[name], now_ms()
        worker.stop()
        pause(group, "a")
        worker.start()
        worker.await_up()
        until(
            lambda: len(ticks.tasks(group.lines(), now_ms() - 900)) == TASK_COUNT - 4,
            deadline_s=60,
            what="the tasks of two connectors to tick",
        )
        group.await_heartbeats()
        assert brokers.group_log.count_rebalances("paused", since_ms=began_ms) == 0
        assert worker.process.log.read_text().count("Rebalance started") == 1


def test_of_two_processes_with_one_identity_the_newer_stays(brokers: Brokers, tmp_path: Path) -> None:
    with running(brokers.bootstrap, static("duel"), tmp_path) as group:
        before = group.await_rest(TASK_COUNT)
        name = next(name for name in NAMES if name != group.leader())
        old, new = (
            group.workers[name],
            Worker(name=f"{name}-twin", port=free_port(), group=group, instance_id=name),
        )
        group.workers[new.name] = new
        new.start()
        until(lambda: old.process.pid() is None, deadline_s=60, what="the older process to end")
        fenced = old.process.log.read_text()
        assert f"another process holds {name}; this worker ends now, with status {FENCED_STATUS}" in fenced
        new.await_up()
        after = group.await_rest(TASK_COUNT)
        assert {task: where.removesuffix("-twin") for task, where in after.items()} == before
        overlaps = [one.ended_ms - other.began_ms for one, other in ticks.twice(group.lines())]
        assert max(overlaps, default=0) < 4_000, overlaps  # a heartbeat interval of 3 s


def test_the_agent_is_rolled_in_and_out(brokers: Brokers, tmp_path: Path) -> None:
    """A rolling deploy that brings the agent, and one that takes it away: nothing runs twice, everything runs again."""
    settings = GroupSettings(group_id="mixed", static=False, session_timeout_ms=10_000, rebalance_delay_ms=10_000)
    with running(brokers.bootstrap, settings, tmp_path) as group:
        for is_static in (True, False):
            for name in NAMES:
                worker = group.workers[name]
                worker.stop()
                worker.is_static = is_static
                worker.start()
                worker.await_up()
                group.await_ticking(TASK_COUNT, deadline_s=120)
                assert ticks.twice(group.lines()) == []
            group.await_rest(TASK_COUNT, deadline_s=120)
