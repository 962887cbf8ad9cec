"""Debezium's PostgreSQL connector under Connect workers: one connector, slot and task for each table.

One idea: the database, not Connect, shows the streaming process: a slot is read by one sending process over one TCP
connection, whose other end is one worker. A task that was stopped and started again reads by another sender.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from support.connect.builds import ensure_debezium
from support.connect.changes import Change, Event
from support.connect.cluster import REST_MS
from support.connect.postgres import Database, holder_of
from support.connect.workers import ConnectGroup, Worker
from support.devcluster.kafka_log import GroupLog, now_ms
from support.scene.figures import record
from support.waiting import until

TABLES = ("customers", "orders", "parts")
LEDGER = "ledger"
ROWS = 1_000
"""Rows of each table at first; only the first keys are changed, so the others are in the snapshot only."""
CHANGED_KEYS = 300
LEDGER_ROWS = 2_500
SLOWLY_MS = 6
"""How long the ledger's snapshot takes for each row, so that a restart can hit it."""
_TABLE = """
create table {table} (id int primary key, version bigint not null default nextval('versions'), body text not null);
alter table {table} replica identity full;
create trigger noted after insert or update or delete on {table} for each row execute function note();
insert into {table} (id, body) select id, md5(random()::text) from generate_series(1, {rows}) as id;
"""
_HISTORY = """
create sequence versions;
create table history (number bigserial primary key, tab text, op text, id int, before bigint, after bigint);
create function note() returns trigger language plpgsql as $$ begin
  insert into history (tab, op, id, before, after)
  values (tg_table_name, case tg_op when 'INSERT' then 'c' when 'UPDATE' then 'u' else 'd' end,
          coalesce(new.id, old.id), old.version, new.version);
  return null;
end $$;
"""
_SCRIPT = """
\\set id random(1, {keys})
\\set dice random(1, 10)
\\if :dice <= 3
insert into {table} (id, body) values (:id, md5(random()::text)) on conflict do nothing;
\\elif :dice <= 7
update {table} set version = default, body = md5(random()::text) where id = :id;
\\elif :dice <= 9
delete from {table} where id = :id;
\\else
begin;
update {table} set version = default where id between :id and :id + 4;
delete from {table} where id = :id + 5;
insert into {table} (id, body) values (:id, 'again') on conflict do nothing;
commit;
\\endif
"""


def prepare(database: Database) -> dict[str, str]:
    """Make the tables and their history; returns for each the script that changes it."""
    database.query(_HISTORY)
    for table in TABLES:
        database.query(_TABLE.format(table=table, rows=ROWS))
    database.query(_TABLE.format(table=LEDGER, rows=LEDGER_ROWS))
    return {table: _SCRIPT.format(table=table, keys=CHANGED_KEYS) for table in TABLES}


def history(database: Database, table: str) -> list[Change]:
    """Return every change of a table, with the time at which PostgreSQL committed it."""
    rows = database.query(
        "select number, op, id, before, after, floor(extract(epoch from pg_xact_commit_timestamp(xmin)) * 1000)::bigint"
        f" from history where tab = '{table}' order by number"
    )
    return [
        Change(
            number=int(number), op=op, key=int(key), before=_version(before), after=_version(after),
            committed_ms=int(at),
        )
        for number, op, key, before, after, at in rows
    ]  # fmt: skip


def _version(text: str) -> int | None:
    return int(text) if text else None


def table_now(database: Database, table: str) -> dict[int, tuple[int, str]]:
    """Return version and body by key, as the database has them."""
    rows = database.query(f"select id, version, body from {table}")
    return {int(key): (int(version), body) for key, version, body in rows}


def plugin_path() -> dict[str, str]:
    """Return the worker property by which Connect finds the connector, apart from its own jars."""
    return {"plugin.path": str(ensure_debezium(print))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Who streams a table: the database's sending process, and the worker that reads from it."""

    sender: int
    worker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """The connectors of one group of workers."""

    group: ConnectGroup
    database: Database

    def name(self, table: str) -> str:
        """Return the name of a table's connector, slot, publication and topic prefix."""
        return f"{self.group.settings.group_id}_{table}"

    def connect(self, table: str, **more: str) -> None:
        """Create the connector of a table; underscores of other properties stand for dots."""
        converter = "org.apache.kafka.connect.json.JsonConverter"
        name = self.name(table)
        config = {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "plugin.name": "pgoutput",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.database.port),
            "database.user": "postgres",
            "database.password": "",
            "database.dbname": "postgres",
            "topic.prefix": name,
            "slot.name": name,
            "publication.name": name,
            "publication.autocreate.mode": "filtered",
            "table.include.list": f"public.{table}",
            "topic.creation.default.partitions": "3",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.message.timestamp.type": "LogAppendTime",
            **{f"{side}.converter": converter for side in ("key", "value")},
            **{f"{side}.converter.schemas.enable": "false" for side in ("key", "value")},
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        self.group.create(name, config)

    def connect_slowly(self) -> None:
        """Create the ledger's connector, whose snapshot takes its time, as that of a large table does."""
        table = f"public.{LEDGER}"
        rows = f"SELECT one.* FROM {table} one, LATERAL (SELECT pg_sleep({SLOWLY_MS / 1000} + 0 * one.id)) slowly"
        override = "snapshot.select.statement.overrides"
        self.connect(LEDGER, **{override: table, f"{override}.{table}": rows, "snapshot.fetch.size": "20"})

    def events(self, table: str) -> list[Event]:
        """Return what the topic of a table holds now, partition by partition."""
        return _read(self.group.bootstrap, f"{self.name(table)}.public.{table}")

    def snapshots(self, table: str) -> int:
        """Return how often a snapshot of a table was begun, by what the connector logged in all processes."""
        begun = re.compile(rf"-{self.name(table)}-change-event-source-coordinator\].* Snapshot step 7 ")
        logs = (self.group.folder / "log").glob("*.log")
        return sum(len(begun.findall(log.read_text(errors="replace"))) for log in logs)

    def streams(self, tables: Collection[str]) -> dict[str, Stream] | None:
        """Return the streaming processes; None while a table has none."""
        pids = {name: pid for name, worker in self.group.workers.items() if (pid := worker.process.pid()) is not None}
        found = self.database.streams()
        streams: dict[str, Stream] = {}
        for table in tables:
            sender, port = found.get(self.name(table), (0, 0))
            worker = holder_of(port, pids)
            if worker is None:
                return None
            streams[table] = Stream(sender=sender, worker=worker)
        return streams

    def reader_of_snapshot(self) -> str | None:
        """Return the worker that reads the ledger's rows now, if one does."""
        rows = self.database.query(
            "select client_port from pg_stat_activity where query like '%slowly%' and pid <> pg_backend_pid()"
            " and state <> 'idle'"
        )
        pids = {name: pid for name, worker in self.group.workers.items() if (pid := worker.process.pid()) is not None}
        return holder_of(int(rows[0][0]), pids) if rows else None

    def await_rest(self, tables: Collection[str], deadline_s: float = 120) -> dict[str, Stream]:
        """Wait until every table has a stable stream; returns the streams."""
        seen: list[tuple[int, dict[str, Stream] | None]] = [(now_ms(), None)]

        def settled() -> dict[str, Stream] | None:
            streams = self.streams(tables)
            if streams is None or streams != seen[-1][1]:
                seen.append((now_ms(), streams))
            return streams if now_ms() - seen[-1][0] > REST_MS else None

        return until(settled, deadline_s=deadline_s, what=f"{len(tables)} streams to rest", poll_s=0.2)


def _read(bootstrap: str, topic: str) -> list[Event]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": "false"})
    try:
        known = consumer.list_topics(topic, timeout=10).topics[topic]
        events: list[Event] = []
        for number in sorted(known.partitions):
            partition = TopicPartition(topic, number, OFFSET_BEGINNING)
            end = consumer.get_watermark_offsets(partition, timeout=10)[1]
            consumer.assign([partition])
            at = 0
            while at < end:
                message = consumer.poll(10)
                assert message is not None, f"{topic}-{number} ends at {end}, and nothing is to be read at {at}"
                assert message.error() is None, message.error()
                at = message.offset() + 1
                events.append(_event(message.key(), message.value(), message.timestamp()[1]))
        return events
    finally:
        consumer.close()


def _event(key: bytes, value: bytes | None, appended_ms: int) -> Event:
    row = int(json.loads(key)["id"])
    if value is None:
        return Event(op="", key=row, appended_ms=appended_ms)
    change = json.loads(value)
    before, after = change["before"] or {}, change["after"] or {}
    return Event(
        op=change["op"], key=row, before=before.get("version"), after=after.get("version"), body=after.get("body", ""),
        appended_ms=appended_ms,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolled:
    """What the restart of one worker did to the streams; `own` are the tables that it streamed before."""

    led: bool
    generations: int
    restart_s: float
    began_ms: int
    ended_ms: int
    own: frozenset[str]
    others_stopped: int
    moved: int


def roll(
    capture: Capture, name: str, tables: Collection[str], group_log: GroupLog,
    end: Callable[[Worker], None] = Worker.stop,
) -> Rolled:  # fmt: skip
    """Restart one worker and measure what became of the streams that were stable before."""
    group, worker = capture.group, capture.group.workers[name]
    before = capture.streams(tables)
    assert before is not None, "a table is not streamed"
    led, began_ms = group.leader() == name, now_ms()
    end(worker)
    worker.start()
    worker.await_up()
    restart_ms = now_ms() - began_ms
    group.await_heartbeats()
    after = capture.await_rest(tables)
    return Rolled(
        led=led, generations=group_log.count_rebalances(group.settings.group_id, since_ms=began_ms),
        restart_s=restart_ms / 1000, began_ms=began_ms, ended_ms=now_ms(),
        own=frozenset(table for table, stream in before.items() if stream.worker == name),
        others_stopped=sum(after[t].sender != s.sender for t, s in before.items() if s.worker != name),
        moved=sum(after[table].worker != stream.worker for table, stream in before.items()),
    )  # fmt: skip


def standstill_s(rolled: Rolled, delays_ms: dict[str, list[tuple[int, int]]]) -> tuple[float, float]:
    """Return the longest way of a row from its commit to its append during a restart: of own tables, and of others."""
    longest = {True: 0, False: 0}
    for table, delays in delays_ms.items():
        for committed_ms, delay_ms in delays:
            if rolled.began_ms <= committed_ms <= rolled.ended_ms:
                is_own = table in rolled.own
                longest[is_own] = max(longest[is_own], delay_ms)
    return longest[True] / 1000, longest[False] / 1000


def tell(name: str, rolled: Rolled, delays_ms: dict[str, list[tuple[int, int]]]) -> None:
    """Record the figures of a restart."""
    own_s, others_s = standstill_s(rolled, delays_ms)
    record(
        f"{name}, {'leader' if rolled.led else 'follower'}", restart_s=rolled.restart_s, generations=rolled.generations,
        own_tables=len(rolled.own), own_standstill_s=own_s, others_longest_delay_s=others_s,
        others_stopped=rolled.others_stopped, moved=rolled.moved,
    )  # fmt: skip
