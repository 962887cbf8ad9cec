"""What else may happen around static Connect workers: elections, brokers that go, changes, and what secures them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from staticgroup.core.group import GroupView, KafkaProblem, LeaveEntry, LeaveOutcome
from staticgroup.kafka.gateway import KioGateway
from staticgroup.kafka.login.credentials import ConnectionSettings
from support.connect import ticks
from support.connect.rolls import CONNECTORS, NAMES, TASK_COUNT, TASKS, assert_quiet, record_roll, roll, running
from support.connect.workers import ConnectGroup, GroupSettings, Worker
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_config import BrokerSettings
from support.devcluster.kafka_log import now_ms
from support.scene.figures import record
from support.waiting import holds, until

pytestmark = [pytest.mark.broker, pytest.mark.long]

ROUNDS = int(os.environ.get("CONNECT_ROLLS", "1"))
HEARTBEAT_S = 3
"""Longest time until a member learns of a round: `heartbeat.interval.ms`."""
REBALANCE_MS = 8_000
"""How long a round waits for a worker that is away, where a test waits for that."""


def static(group_id: str, **properties: str) -> GroupSettings:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return GroupSettings(
        group_id=group_id, static=True, session_timeout_ms=60_000, rebalance_delay_ms=0, properties=named
    )


def follower(group: ConnectGroup) -> Worker:
    return group.workers[next(name for name in NAMES if name != group.leader())]


def tasks_of(where: dict[str, str], name: str) -> set[str]:
    return {task for task, worker in where.items() if worker == name}


def remove(bootstrap: str, group_id: str, instance_id: str) -> None:
    """Remove a member as the operator does: by the pair of its ids."""

    async def run() -> None:
        gateway = KioGateway()
        settings = ConnectionSettings(bootstrap_servers=tuple(bootstrap.split(",")), allow_loopback=True)
        try:
            view = await gateway.describe(settings, group_id)
            assert isinstance(view, GroupView), view
            member_id = next(m.member_id for m in view.members if m.instance_id == instance_id)
            result = await gateway.leave(settings, group_id, [LeaveEntry(member_id=member_id, instance_id=instance_id)])
            assert not isinstance(result, KafkaProblem), result
            assert result.outcomes == (LeaveOutcome.REMOVED,)
        finally:
            await gateway.close()

    asyncio.run(run())


@pytest.mark.parametrize("led", [False, True])
def test_the_work_of_a_worker_that_is_removed_runs_elsewhere_at_once(
    brokers: Brokers, tmp_path: Path, led: bool
) -> None:
    group_id = f"removed-{led}".lower()
    with running(brokers.bootstrap, static(group_id), tmp_path) as group:
        before = group.await_rest(TASK_COUNT)
        gone = group.leader() if led else follower(group).name
        group.workers[gone].kill()
        began_ms = now_ms()
        remove(brokers.bootstrap, group_id, gone)
        lost = tasks_of(before, gone)
        until(
            lambda: lost <= set(ticks.tasks(group.lines(), began_ms)), deadline_s=60, what="its work to run elsewhere"
        )
        lines = group.lines()
        back = {line.work: line.at_ms for line in reversed(lines) if line.what == "TICK" and line.at_ms >= began_ms}
        elsewhere_s = max(back[task] - began_ms for task in lost) / 1000
        others = ticks.stopped(lines, began_ms, now_ms(), but=gone)
        kind = "leader" if led else "follower"
        record(
            f"Connect, static, {kind} killed for good and removed", elsewhere_s=elsewhere_s, others_stopped=len(others)
        )
        assert len(lost) == TASKS
        assert elsewhere_s <= 4
        assert others == []
        assert ticks.twice(lines) == []


def test_a_leader_elected_while_the_old_one_is_away_takes_nothing_from_it(brokers: Brokers, tmp_path: Path) -> None:
    settings = static("elected", rebalance_timeout_ms=str(REBALANCE_MS))
    with running(brokers.bootstrap, settings, tmp_path) as group:
        before, old = group.await_rest(TASK_COUNT), group.workers[group.leader()]
        began_ms = now_ms()
        old.stop()
        group.start("w-3")  # a round, which waits for the old leader as long as it may
        until(lambda: group.leader() != old.name, deadline_s=60, what="another leader")
        away = tasks_of(before, old.name)
        elected_ms = now_ms()
        holds(
            lambda: not away & set(ticks.tasks(group.lines(), elected_ms)),
            for_s=REBALANCE_MS / 1000,
            what="the work of the old leader to wait for it",
        )
        old.start()
        old.await_up()
        after = group.await_rest(TASK_COUNT, deadline_s=120)
        lines = group.lines()
        assert group.leader() != old.name
        assert len(set(after.values())) == len(NAMES) + 1
        assert ticks.twice(lines) == []
        record(
            "Connect, static, another leader elected while the old one was away",
            rebalances=brokers.group_log.count_rebalances("elected", since_ms=began_ms),
            tasks_back=len(away & tasks_of(after, old.name)),
        )


def test_a_leader_without_the_last_allocations_starts_no_work_of_the_old_one(brokers: Brokers, tmp_path: Path) -> None:
    """The only worker takes along what it knows; the next leader is a new process and holds back."""
    settings = static("alone", rebalance_timeout_ms=str(REBALANCE_MS))
    group = ConnectGroup(settings, brokers.bootstrap, tmp_path)
    try:
        group.start("w-0")
        group.configure("a", TASKS)
        group.await_rest(TASKS, deadline_s=120)
        old = group.workers["w-0"]
        old.kill()
        began_ms = now_ms()
        group.start("w-3")
        log, said = group.workers["w-3"].process.log, "no worker here knows the last work of [w-0]"
        until(lambda: said in log.read_text(), deadline_s=60, what="the newcomer to lead and hold back")
        elected_ms = now_ms()
        holds(lambda: not ticks.tasks(group.lines(), elected_ms), for_s=REBALANCE_MS / 1000, what="all work to wait")
        old.start()
        old.await_up()
        after = group.await_rest(TASKS, deadline_s=120)
        assert set(after.values()) == {"w-0", "w-3"}
        assert ticks.twice(group.lines()) == []
        record(
            "Connect, static, the only worker killed, another one elected before it was back",
            rebalances=brokers.group_log.count_rebalances("alone", since_ms=began_ms),
        )
        old.kill()
        remove(brokers.bootstrap, "alone", "w-0")
        until(lambda: set(group.await_rest(TASKS).values()) == {"w-3"}, deadline_s=60, what="all work to run in w-3")
        assert ticks.twice(group.lines()) == []
    finally:
        group.down()


def test_the_coordinator_is_started_again(brokers: Brokers, tmp_path: Path) -> None:
    """Workers without a coordinator stop everything after 3 s (KAFKA-9184), and get back what they were given."""
    with running(brokers.bootstrap, static("restarted"), tmp_path) as group:
        before = group.await_rest(TASK_COUNT)
        brokers.restart(brokers.nodes[0])
        assert group.await_rest(TASK_COUNT, deadline_s=120) == before
        assert ticks.twice(group.lines()) == []
        measured = roll(group, follower(group).name, brokers.group_log, task_count=TASK_COUNT)
        record_roll("Connect, static, after a restart of the broker", measured)
        assert_quiet(measured, generations=0)


@pytest.fixture
def three_brokers() -> Iterator[Brokers]:
    started = Brokers.up(BrokerSettings(name="connect-three", nodes=3, heap_mb=256))
    yield started
    started.down()


def test_the_coordinator_moves_to_another_broker(three_brokers: Brokers, tmp_path: Path) -> None:
    replicated = {f"{name}_storage_replication_factor": "3" for name in ("config", "offset", "status")}
    with running(three_brokers.bootstrap, static("moved", **replicated), tmp_path) as group:
        before, began_ms = group.await_rest(TASK_COUNT), now_ms()
        left = three_brokers.coordinator("moved")
        three_brokers.stop(left)
        until(lambda: three_brokers.coordinator("moved") != left, deadline_s=30, what="another coordinator")
        group.await_heartbeats()
        assert group.await_rest(TASK_COUNT, deadline_s=120) == before
        record(
            "Connect, static, coordinator moved to another broker",
            longest_gap_s=max(ticks.gaps_ms(group.lines(), began_ms, now_ms()).values()) / 1000,
        )
        for name in (follower(group).name, group.leader()):
            measured = roll(group, name, three_brokers.group_log, task_count=TASK_COUNT)
            record_roll("Connect, static, after the coordinator moved", measured)
            assert_quiet(measured, generations=int(measured.led))
        assert ticks.twice(group.lines()) == []


def test_a_change_while_a_worker_is_away_waits_for_it_and_moves_nothing(brokers: Brokers, tmp_path: Path) -> None:
    with running(brokers.bootstrap, static("changed"), tmp_path) as group:
        before, worker = group.await_rest(TASK_COUNT), follower(group)
        worker.stop()
        config = {"connector.class": "ticking.TickSource", "tasks.max": str(TASKS), "changed": "yes"}
        group.workers[group.leader()].call("PUT", "/connectors/a/config", config)
        worker.start()
        worker.await_up()
        assert group.await_rest(TASK_COUNT, deadline_s=120) == before
        assert ticks.twice(group.lines()) == []


def test_connectors_that_are_paused_and_resumed_run_where_they_ran(brokers: Brokers, tmp_path: Path) -> None:
    with running(brokers.bootstrap, static("resumed"), tmp_path) as group:
        before, worker, began_ms = group.await_rest(TASK_COUNT), follower(group), now_ms()
        for connector in CONNECTORS:
            group.any().call("PUT", f"/connectors/{connector}/pause")
        worker.stop()
        worker.start()
        worker.await_up()
        for connector in CONNECTORS:
            group.any().call("PUT", f"/connectors/{connector}/resume")
        assert group.await_rest(TASK_COUNT) == before
        assert brokers.group_log.count_rebalances("resumed", since_ms=began_ms) == 0
        assert ticks.twice(group.lines()) == []


def test_every_worker_restarts_tasks_and_takes_changes_after_the_leader_came_back(
    brokers: Brokers, tmp_path: Path
) -> None:
    """Requests are forwarded by the leader's knowledge, and task configurations with the group's session key."""
    with running(brokers.bootstrap, static("forwarded"), tmp_path) as group:
        led = group.leader()
        group.workers[led].stop()
        group.workers[led].start()
        group.workers[led].await_up()
        where = group.await_rest(TASK_COUNT)
        for asked in group.workers.values():
            for task in sorted(where):
                began_ms, (connector, number) = now_ms(), task.split("/")
                asked.call("POST", f"/connectors/{connector}/tasks/{number}/restart")
                until(lambda: (task, where[task]) in started(group, began_ms), deadline_s=30, what=task)  # noqa: B023
        for tasks, asked in enumerate(group.workers.values(), start=TASKS + 1):
            config = {"connector.class": "ticking.TickSource", "tasks.max": str(tasks)}
            asked.call("PUT", "/connectors/a/config", config)
            group.await_rest(TASK_COUNT - TASKS + tasks, deadline_s=120)
        assert group.leader() == led
        assert ticks.twice(group.lines()) == []


def started(group: ConnectGroup, since_ms: int) -> set[tuple[str, str]]:
    return {(line.work, line.worker) for line in group.lines() if line.what == "START" and line.at_ms >= since_ms}


def test_exactly_once_source_tasks_come_back_and_are_fenced_by_a_leader_that_came_back(
    brokers: Brokers, tmp_path: Path
) -> None:
    """A transactional task starts by requests to the herder, which answers none during the leader's round."""
    settings = static("once", exactly_once_source_support="enabled")
    with running(brokers.bootstrap, settings, tmp_path) as group:
        for name in (follower(group).name, group.leader()) * ROUNDS:
            measured = roll(group, name, brokers.group_log, task_count=TASK_COUNT)
            record_roll("Connect 4.3.1 sessioned, static, exactly-once sources", measured)
            assert_quiet(measured, generations=int(measured.led), start_s=2 + HEARTBEAT_S * measured.led)
        group.configure("a", TASKS + 1)  # another number of tasks: the leader fences those of before
        group.await_rest(TASK_COUNT + 1, deadline_s=120)
        assert ticks.twice(group.lines()) == []


@pytest.fixture
def secured() -> Iterator[Brokers]:
    started = Brokers.up(
        BrokerSettings(name="connect-secured", security=True, users={"admin": "admin-secret"}, heap_mb=256)
    )
    yield started
    started.down()


def test_workers_log_in_over_tls(secured: Brokers, tmp_path: Path) -> None:
    login = "org.apache.kafka.common.security.scram.ScramLoginModule"
    client = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{login} required username="admin" password="admin-secret";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(secured.ca_path),
    }
    properties = {
        f"{prefix}{name}": value for prefix in ("", "producer.", "consumer.") for name, value in client.items()
    }
    with running(secured.sasl_bootstrap, static("secured", **properties), tmp_path) as group:
        for name in (follower(group).name, group.leader()):
            measured = roll(group, name, secured.group_log, task_count=TASK_COUNT)
            record_roll("Connect, static, TLS and SCRAM", measured)
            assert_quiet(measured, generations=int(measured.led))
        assert ticks.twice(group.lines()) == []
