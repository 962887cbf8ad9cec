"""Real bytes from a real broker: its `__consumer_offsets`, its transactions and its compaction.

Two static members of a classic group and two of a KIP-848 group go through a restart within the session timeout and one
death; then the changes in the records are compared with the coordinator's log. Plain Python first, Spark once.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from fleet_learner.offsets.codec import GroupRecord, RecordKind, decode
from fleet_learner.sources import kafka
from fleet_learner.sources.offsets_evidence import Change, ChangeKind, Fold
from fleet_learner.sources.offsets_topic import BAD, TOPIC, assignment_intervals, group_changes, offsets_members
from fleet_learner.sources.topic import Range, TopicReader, ranges, resolve
from pipeline.group_brokers import running_brokers
from support.devcluster.kafka_admin import BrokerAdmin
from support.devcluster.kafka_broker import Brokers
from support.devcluster.kafka_log_lines import GroupEventKind
from support.devcluster.kafka_member import Member
from support.waiting import until

pytestmark = pytest.mark.broker
NAME = f"offsets-{os.getpid()}"
SESSION_MS = 6000
PATIENT_SESSION_MS = 30_000
"""Session timeout during a restart: processes may be slow, because these tests run with low priority."""


@pytest.fixture(scope="module")
def brokers() -> Iterator[Brokers]:
    """Run a real broker with short group timeouts."""
    with running_brokers(NAME, session_ms=SESSION_MS, log_cleaner_backoff_ms="200") as running:
        yield running


@pytest.fixture(scope="module")
def lived(brokers: Brokers) -> dict[str, Member]:
    """Run the groups: a restart that static membership absorbs, then a death that it cannot absorb."""
    BrokerAdmin(brokers.bootstrap).create_topic("orders", partitions=6)
    members: dict[str, Member] = {}
    for protocol in ("classic", "consumer"):
        for ordinal in (0, 1):
            members[f"{protocol}-{ordinal}"] = start(brokers, protocol, ordinal, PATIENT_SESSION_MS)
        settled(brokers, protocol)
        restart(brokers, protocol, members)
        members[f"{protocol}-1"].kill()
        expired = GroupEventKind.SESSION_EXPIRED
        brokers.group_log.wait_for_kind(expired, protocol, timeout_s=120)
        members[f"{protocol}-0"].wait_for(lambda event: len(event.partitions) == 6 or event.kind == "assigned", 60)
        members[f"{protocol}-0"].terminate()
    return members


def start(brokers: Brokers, protocol: str, ordinal: int, session_ms: int) -> Member:
    """Start a static member of the group that has the protocol's name; a classic one has the session timeout."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": brokers.bootstrap, "group.id": protocol, "group.instance.id": f"{protocol}-{ordinal}",
        "group.protocol": protocol, "auto.offset.reset": "earliest",
    }  # fmt: skip
    if protocol == "classic":
        settings |= {"session.timeout.ms": session_ms, "heartbeat.interval.ms": 500}
    member = Member(settings, "orders")
    member.wait_for_kind("assigned", 60)
    return member


def settled(brokers: Brokers, protocol: str) -> None:
    """Wait until both members share the partitions."""
    description = BrokerAdmin(brokers.bootstrap)
    for _ in range(600):
        group = description.describe_group(protocol)
        if str(group.state).upper().endswith("STABLE") and len(group.members) == 2:
            return
        time.sleep(0.1)
    raise TimeoutError(f"{protocol} did not settle: {description.describe_group(protocol)}")


def restart(brokers: Brokers, protocol: str, members: dict[str, Member]) -> None:
    """Restart member 0 within its session timeout, as a rolling deploy does."""
    admin, timeout = BrokerAdmin(brokers.bootstrap), "consumer.session.timeout.ms"
    if protocol == "consumer":
        admin.alter_group(protocol, {timeout: str(PATIENT_SESSION_MS)})
    members[f"{protocol}-0"].terminate()
    members[f"{protocol}-0"] = start(brokers, protocol, 0, SESSION_MS)
    if protocol == "consumer":
        admin.alter_group(protocol, {timeout: str(SESSION_MS)})
    settled(brokers, protocol)


def records(brokers: Brokers) -> list[tuple[Range, int, bytes | None, bytes | None]]:
    """Return every record of the topic in the order of its partition."""
    reader = TopicReader({"bootstrap.servers": brokers.bootstrap})
    logs = reader.watermarks((TOPIC,))
    found = []
    for wanted in ranges(resolve(-2, logs), resolve(-1, logs)):
        for batch in reader.read(wanted):
            found += [(wanted, m.offset(), m.key(), m.value()) for m in batch]
    reader.close()
    return found


def changes(brokers: Brokers) -> list[Change]:
    """Fold every partition."""
    folds: dict[int, Fold] = {}
    found: list[Change] = []
    for wanted, _, key, value in records(brokers):
        found += folds.setdefault(wanted.partition, Fold()).take(decode(key, value))
    return found


def test_every_record_of_a_real_broker_is_decoded(brokers: Brokers, lived: dict[str, Member]) -> None:
    decoded: list[GroupRecord] = [decode(key, value) for _, _, key, value in records(brokers)]
    kinds = Counter(record.kind for record in decoded)
    assert kinds[RecordKind.UNKNOWN] == 0
    wanted = {RecordKind.GROUP_METADATA, RecordKind.EPOCH, RecordKind.MEMBER, RecordKind.TARGET_EPOCH}
    assert wanted | {RecordKind.TARGET_MEMBER, RecordKind.CURRENT_MEMBER} <= set(kinds)
    classic = [r for r in decoded if r.group_id == "classic" and r.kind is RecordKind.GROUP_METADATA and r.members]
    full = [r for r in classic if len(r.members) == 2]
    assert {m.instance_id for r in full for m in r.members} == {"classic-0", "classic-1"}
    timeouts = {(m.instance_id, m.session_timeout_ms) for r in classic for m in r.members}
    assert timeouts == {("classic-0", PATIENT_SESSION_MS), ("classic-0", SESSION_MS), ("classic-1", PATIENT_SESSION_MS)}
    assert {p for m in full[-1].members for p in m.assignment or ()} == {f"orders-{n}" for n in range(6)}
    assert {r.value_version for r in classic} == {3}, "the highest version that is not flexible"
    modern = [m for r in decoded if r.group_id == "consumer" and r.kind is RecordKind.MEMBER for m in r.members]
    assert {m.instance_id for m in modern if m.instance_id} == {"consumer-0", "consumer-1"}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_records_prove_what_the_coordinator_logged(
    brokers: Brokers, lived: dict[str, Member], protocol: str
) -> None:
    """One absorbed restart, one member that is gone, and as many rebalances as in the broker's log."""
    log = brokers.group_log
    mine = [change for change in changes(brokers) if change.group_id == protocol]
    absorbed = [c for c in mine if c.kind is ChangeKind.ABSORBED]
    assert [c.instance_id for c in absorbed] == [f"{protocol}-0"]
    replaced = log.events(protocol, kind=GroupEventKind.STATIC_MEMBER_REPLACED)
    assert len(replaced) == 1
    gone = [c.instance_id for c in mine if c.kind is ChangeKind.GONE]
    assert f"{protocol}-1" in gone
    steps = sum(c.epochs or 0 for c in mine if c.kind is ChangeKind.REBALANCED)
    if protocol == "classic":
        # The first record is that of a new, empty group of generation 0.
        assert steps == log.count_rebalances(protocol)
    else:
        # The first record is that of epoch 1 or 2, by the version.
        assert steps == log.count_epoch_bumps(protocol) - 1
        assert next(c.instance_id for c in mine if c.kind is ChangeKind.LEFT_FOR_A_WHILE) == "consumer-0"


def test_spark_finds_the_same_in_the_same_topic(brokers: Brokers, lived: dict[str, Member], spark: Any) -> None:
    kafka.register(spark)
    options = {"kafka.bootstrap.servers": brokers.bootstrap, "subscribe": TOPIC}

    def read() -> dict[str, list[Any]] | None:
        """Spark's result and the truth; None if the topic grew meanwhile, because a member's session ended."""
        before = records(brokers)
        # A frame's end is fixed at its creation: a frame older than `before` would lack records.
        frame = spark.read.format(kafka.FORMAT).options(**options).load()
        seen: dict[str, list[Any]] = {
            "rows": offsets_members(frame).select("kind", "group_id", "member_id").collect(),
            "found": group_changes(frame)
            .select("kind", "group_id", "group_epoch", "instance_id", "member_id")
            .collect(),
            "intervals": assignment_intervals(offsets_members(frame), "kafka-1").collect(),
            "plain": [decode(key, value) for _, _, key, value in before],
            "changes": changes(brokers),
        }
        return seen if len(records(brokers)) == len(before) else None

    seen = until(read, deadline_s=240, what="a topic without writers")
    rows, found, intervals = seen["rows"], seen["found"], seen["intervals"]
    assert not [row for row in rows if row["kind"] in {BAD, "UNKNOWN"}]
    decoded = [r for r in seen["plain"] if r.kind is not RecordKind.OFFSET_COMMIT]
    assert len(rows) == sum(max(1, len(r.members)) for r in decoded)
    shared = [r for r in intervals if r["group_id"] == "classic" and r["partitions"] == 3]
    assert {r["instance_id"] for r in shared} == {"classic-0", "classic-1"}
    assert all(r["to_ms"] is None or r["to_ms"] >= r["from_ms"] for r in intervals)
    alone = [r for r in intervals if r["instance_id"] == "consumer-0" and r["partitions"] == 6]
    assert alone, "after the other member's death the last one held all partitions"
    expected = [(c.kind.value, c.group_id, c.epoch, c.instance_id, c.member_id) for c in seen["changes"]]
    assert sorted(map(str, map(tuple, found))) == sorted(map(str, expected))


def end_of(reader: TopicReader, topic: str, end: int) -> int:
    """Read where the topic ends, until it is there: a commit is answered before its markers are written (KIP-98,
    4.2)."""
    deadline = time.monotonic() + 30
    while (log := reader.watermarks((topic,))[topic][0]).high != end and time.monotonic() < deadline:
        time.sleep(0.05)
    assert log.low == 0
    return log.high


def test_offsets_without_records_are_passed(brokers: Brokers) -> None:
    """A transaction ends in a marker that takes an offset; an aborted one leaves nothing but offsets."""
    BrokerAdmin(brokers.bootstrap).create_topic("ledger", partitions=1)
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "transactional.id": "t", "linger.ms": 0})
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for part in range(3):
            producer.produce("ledger", b"%d-%d" % (number, part))
        producer.flush(30)
        if number in (1, 5):
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    reader = TopicReader({"bootstrap.servers": brokers.bootstrap}, stall_timeout_ms=20_000)
    assert end_of(reader, "ledger", 24) == 24
    committed = [b"%d-%d" % (n, p) for n in (0, 2, 3, 4) for p in range(3)]
    # The last offsets of the log are a hole, and so are the last ones of a range in its middle.
    for end, count in ((24, 12), (20, 12), (8, 3), (7, 3), (4, 3)):
        values = [m.value() for batch in reader.read(Range("ledger", 0, 0, end)) for m in batch]
        assert values == committed[:count], end
    assert [m.offset() for batch in reader.read(Range("ledger", 0, 4, 8)) for m in batch] == []
    reader.close()
    dirty = TopicReader({"bootstrap.servers": brokers.bootstrap, "isolation.level": "read_uncommitted"})
    assert sum(len(batch) for batch in dirty.read(Range("ledger", 0, 0, 24))) == 18
    dirty.close()


def test_an_open_transaction_ends_the_log_until_it_is_decided(brokers: Brokers) -> None:
    """With read_committed the end of the log is the last stable offset: a range never waits for a slow producer."""
    BrokerAdmin(brokers.bootstrap).create_topic("open", partitions=1)
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "transactional.id": "o", "linger.ms": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("open", b"1")
    producer.flush(30)
    reader = TopicReader({"bootstrap.servers": brokers.bootstrap})
    assert reader.watermarks(("open",))["open"][0].high == 0
    producer.commit_transaction(30)
    assert end_of(reader, "open", 2) == 2
    assert [m.value() for batch in reader.read(Range("open", 0, 0, 2)) for m in batch] == [b"1"]
    reader.close()


def test_what_compaction_took_is_passed(brokers: Brokers) -> None:
    """A compacted topic keeps the last record of each key; the others are offsets that no message has."""
    settings = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    settings |= {"max.compaction.lag.ms": "100", "segment.bytes": "1048576"}
    admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
    for future in admin.create_topics([NewTopic("state", 1, 1, config=settings)]).values():
        future.result(30)
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "linger.ms": 0})
    reader = TopicReader({"bootstrap.servers": brokers.bootstrap}, stall_timeout_ms=20_000)
    offsets: list[int] = []
    for number in range(400):
        producer.produce("state", b"%d" % number, key=b"same")
        producer.flush(30)
        log = reader.watermarks(("state",))["state"][0]
        offsets = [m.offset() for batch in reader.read(Range("state", 0, 0, log.high)) for m in batch]
        if len(offsets) < log.high // 2:
            break
    assert len(offsets) < log.high // 2, "the cleaner has run"
    assert offsets[-1] == log.high - 1
    hole = next(end for end in range(1, log.high) if end - 1 not in offsets)
    begin = max([o + 1 for o in offsets if o < hole], default=0)
    assert [m for batch in reader.read(Range("state", 0, begin, hole)) for m in batch] == []
    reader.close()
