"""Debezium's connector on a busy PostgreSQL, under workers that are rolled.

What the topics tell is compared with the database itself: with the history that it keeps of every change, and with the
rows that it has in the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.connect import debezium
from support.connect.changes import Account, judge, replayed
from support.connect.debezium import LEDGER, LEDGER_ROWS, TABLES, Capture, Rolled
from support.connect.postgres import Database
from support.connect.rolls import NAMES
from support.connect.workers import ConnectGroup, GroupSettings, Worker
from support.devcluster.kafka_broker import Brokers
from support.devcluster.process import Process
from support.scene.figures import record
from support.waiting import until

pytestmark = [pytest.mark.broker, pytest.mark.long]

STOCK_DELAY_MS = 15_000
WRITES_PER_S = 40
SETTLE_S = 8
"""A task's own start, beside that of its process: it opens connections and searches its place in the log."""


@dataclass(slots=True)
class Written:
    """A database that is being written to."""

    database: Database
    scripts: dict[str, str]
    writers: list[Process] = field(default_factory=list)

    def start(self) -> None:
        """Write until `stop`."""
        self.writers.append(self.database.write(self.scripts, per_s=WRITES_PER_S, for_s=1_200))

    def stop(self) -> None:
        """Write no more; AssertionError when the writer had given up."""
        writer = self.writers.pop()
        assert writer.pid() is not None, writer.last_lines()
        writer.stop()
        until(self._is_quiet, deadline_s=10, what="the writer's last transaction to end")

    def _is_quiet(self) -> bool:
        return not self.database.query("select 1 from pg_stat_activity where application_name = 'pgbench'")


@pytest.fixture(scope="module")
def written() -> Iterator[Written]:
    database = Database.up()
    written = Written(database, debezium.prepare(database))
    yield written
    for writer in written.writers:
        writer.stop()
    database.down()


def captured(brokers: Brokers, written: Written, settings: GroupSettings, folder: Path) -> Capture:
    """Workers that stream three tables, at rest while these are written to."""
    group = ConnectGroup(settings, brokers.bootstrap, folder)
    capture = Capture(group=group, database=written.database)
    try:
        group.start(*NAMES)
        written.start()
        for table in TABLES:
            capture.connect(table)
        capture.await_rest(TABLES)
    except BaseException:
        group.down()
        raise
    return capture


def account_of(capture: Capture, table: str) -> Account:
    """Compare a topic with its table, once it has caught up with it; what is wrong stays wrong until the deadline."""
    changes, begun = debezium.history(capture.database, table), capture.snapshots(table)
    assert begun > 0, "the connector logged no snapshot"
    found: list[Account] = []

    def is_complete() -> bool:
        found[:] = [judge(changes, capture.events(table), snapshots=begun)]
        return not found[0].wrong

    try:
        until(is_complete, deadline_s=60, what=f"{table} to be complete", poll_s=1)
    except AssertionError:
        raise AssertionError(f"{table}: {len(found[0].wrong)} wrong: {found[0].wrong[:5]}") from None
    assert replayed(capture.events(table)) == debezium.table_now(capture.database, table)
    return found[0]


def tell(name: str, accounts: dict[str, Account], rolls: list[tuple[str, Rolled]]) -> dict[str, list[tuple[int, int]]]:
    delays_ms = {table: account.delays_ms for table, account in accounts.items()}
    for what, rolled in rolls:
        debezium.tell(f"Debezium, {name}, {what}", rolled, delays_ms)
    for table, account in accounts.items():
        record(
            f"Debezium, {name}, {table}",
            rows_of_snapshot=account.snapshot,
            changes_streamed=account.streamed,
            told_again=account.again,
            wrong=len(account.wrong),
        )
    return delays_ms


def test_every_row_is_streamed_through_static_rolls(brokers: Brokers, written: Written, tmp_path: Path) -> None:
    settings = GroupSettings(
        group_id="static",
        static=True,
        session_timeout_ms=30_000,
        rebalance_delay_ms=0,
        properties=debezium.plugin_path(),
    )
    capture = captured(brokers, written, settings, tmp_path)
    group, log = capture.group, brokers.group_log
    try:
        capture.connect_slowly()
        first = until(capture.reader_of_snapshot, deadline_s=60, what="the ledger's snapshot to begin")
        group.await_heartbeats()
        capture.await_rest(TABLES)
        begun = len(capture.events(LEDGER))
        assert capture.reader_of_snapshot() == first
        rolls = [("in a snapshot", debezium.roll(capture, first, TABLES, log))]
        assert 0 < begun < LEDGER_ROWS
        capture.await_rest([*TABLES, LEDGER])
        written.database.query(f"update {LEDGER} set version = default where id % 10 = 0")
        everything = [*TABLES, LEDGER]
        for name in (name for name in NAMES if name != first):
            rolls.append(("restarted", debezium.roll(capture, name, everything, log)))
        follower = next(name for name in NAMES if name != group.leader())
        rolls.append(("killed", debezium.roll(capture, follower, everything, log, end=Worker.kill)))
        written.stop()
        accounts = {table: account_of(capture, table) for table in everything}
    finally:
        group.down()
    delays_ms = tell("static", accounts, rolls)
    assert {rolled.led for _, rolled in rolls[:3]} == {True, False}
    for what, rolled in rolls:
        assert rolled.generations <= int(rolled.led), (what, rolled)
        assert rolled.others_stopped == 0, (what, rolled)
        assert rolled.moved == 0, (what, rolled)
        assert debezium.standstill_s(rolled, delays_ms)[0] <= rolled.restart_s + SETTLE_S, (what, rolled)
    assert accounts[LEDGER].again > 0  # the snapshot that was cut off was begun again


def test_a_roll_of_workers_as_they_come_lets_their_streams_stand_still(
    brokers: Brokers, written: Written, tmp_path: Path
) -> None:
    settings = GroupSettings(
        group_id="stock", static=False, rebalance_delay_ms=STOCK_DELAY_MS, properties=debezium.plugin_path()
    )
    capture = captured(brokers, written, settings, tmp_path)
    group = capture.group
    try:
        follower = next(name for name in NAMES if name != group.leader())
        rolled = debezium.roll(capture, follower, TABLES, brokers.group_log)
        written.stop()
        accounts = {table: account_of(capture, table) for table in TABLES}
    finally:
        group.down()
    delays_ms = tell(f"as they come, delay {STOCK_DELAY_MS // 1000} s", accounts, [("restarted", rolled)])
    assert rolled.generations >= 2
    assert debezium.standstill_s(rolled, delays_ms)[0] > STOCK_DELAY_MS / 1000
