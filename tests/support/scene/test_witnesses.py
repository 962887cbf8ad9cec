"""Check the witnesses against a real process and a broker's log: an innocent verdict must mean something."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from support.devcluster.kafka_log import GroupLog, now_ms
from support.scene.witnesses import ProcessTable, live_removals
from support.waiting import until

COORDINATOR = "INFO [executor-Group-1] org.apache.kafka.coordinator.group.GroupMetadataManager "
INSTANCE_ID = f"witnessed-0.{uuid.uuid4().hex[:8]}"
MEMBER_ID = f"{INSTANCE_ID}-{uuid.uuid4()}"


class BrokerLog:
    """A log file in the brokers' layout."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def write(self, text: str) -> int:
        """Append one message of the coordinator now; returns its time in milliseconds since 1970."""
        at_ms = now_ms()
        stamp = datetime.fromtimestamp(at_ms / 1000, tz=UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")
        with self.path.open("a") as file:
            file.write(f"{stamp}Z {COORDINATOR}[GroupCoordinator id=1] {text}\n")
        return at_ms

    def join(self) -> None:
        self.write(
            f"Static member with groupInstanceId={INSTANCE_ID} and unknown member id joins group g in Stable state. "
            f"Created a new member id {MEMBER_ID} for this member and added to the group."
        )

    def remove(self, reason: str) -> int:
        return self.write(
            f"[Group g] Member {MEMBER_ID} has left group through explicit `LeaveGroup` request; client reason: "
            f"{reason}"
        )


@pytest.fixture
def log(tmp_path: Path) -> BrokerLog:
    return BrokerLog(tmp_path / "server.log")


@pytest.fixture
def table() -> Iterator[ProcessTable]:
    table = ProcessTable().start()
    yield table
    table.stop()


@pytest.fixture
def member(table: ProcessTable) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"], env={"KAFKA_GROUP_INSTANCE_ID": INSTANCE_ID})
    until(lambda: table.is_alive(INSTANCE_ID), deadline_s=10, what="the process in the table")
    yield process
    process.kill()
    process.wait(10)


def end(process: subprocess.Popen[bytes], table: ProcessTable) -> None:
    process.kill()
    process.wait(10)
    until(lambda: not table.is_alive(INSTANCE_ID), deadline_s=10, what="the end of the process")


def seen_after(at_ms: int, table: ProcessTable) -> bool:
    return any(life.last_seen_ms > at_ms for life in table.lives(INSTANCE_ID))


def test_removal_of_a_living_process_is_an_accusation(
    log: BrokerLog, table: ProcessTable, member: subprocess.Popen[bytes]
) -> None:
    log.join()
    removed_at_ms = log.remove("staticgroup ns/name: scaled to 0..1, ordinal 2 ended")
    until(lambda: seen_after(removed_at_ms, table), deadline_s=10, what="the process outlives the removal")
    (accusation,) = live_removals(GroupLog({1: log.path}), table)
    assert MEMBER_ID in accusation
    assert f"pid {member.pid} " in accusation


def test_a_connect_worker_lives_with_the_process_whose_agent_was_given_the_id(
    log: BrokerLog, table: ProcessTable
) -> None:
    process = subprocess.Popen(["sleep", "600"], env={"STATICGROUP_CONNECT_INSTANCE_ID": INSTANCE_ID})
    try:
        until(lambda: table.is_alive(INSTANCE_ID), deadline_s=10, what="the process in the table")
        log.join()
        removed_at_ms = log.remove("staticgroup ns/name: scaled to 0..1, ordinal 2 ended")
        until(lambda: seen_after(removed_at_ms, table), deadline_s=10, what="the process outlives the removal")
        (accusation,) = live_removals(GroupLog({1: log.path}), table)
        assert f"pid {process.pid} " in accusation
    finally:
        process.kill()
        process.wait(10)


def test_a_stream_thread_lives_with_the_process_whose_id_it_numbers(log: BrokerLog, table: ProcessTable) -> None:
    process = subprocess.Popen(["sleep", "600"], env={"KAFKA_STREAMS_GROUP_INSTANCE_ID": INSTANCE_ID})
    try:
        until(lambda: table.is_alive(INSTANCE_ID), deadline_s=10, what="the process in the table")
        thread = f"{INSTANCE_ID}-2-{uuid.uuid4()}"
        removed_at_ms = log.write(
            f"[Group g] Member {thread} has left group through explicit `LeaveGroup` request; "
            "client reason: staticgroup ns/name: scaled to 0..1, ordinal 2 ended"
        )
        until(lambda: seen_after(removed_at_ms, table), deadline_s=10, what="the process outlives the removal")
        (accusation,) = live_removals(GroupLog({1: log.path}), table)
        assert f"pid {process.pid} " in accusation
    finally:
        process.kill()
        process.wait(10)


@pytest.mark.parametrize("order", [1, -1], ids=["ours first", "ours last"])
def test_every_consumer_of_a_process_lives_with_it(log: BrokerLog, table: ProcessTable, order: int) -> None:
    ids = [
        ("SPRING_KAFKA_CONSUMER_PROPERTIES_GROUP_INSTANCE_ID", INSTANCE_ID),
        ("AUDIT_GROUP_INSTANCE_ID", f"other-{INSTANCE_ID}"),
    ]
    process = subprocess.Popen(["sleep", "600"], env=dict(ids[::order]))
    try:
        until(lambda: table.is_alive(INSTANCE_ID), deadline_s=10, what="the process in the table")
        assert {life.instance_id for life in table.lives() if life.pid == process.pid} == {value for _, value in ids}
        log.join()
        removed_at_ms = log.remove("staticgroup ns/name: scaled to 0..1, ordinal 2 ended")
        until(lambda: seen_after(removed_at_ms, table), deadline_s=10, what="the process outlives the removal")
        (accusation,) = live_removals(GroupLog({1: log.path}), table)
        assert f"pid {process.pid} " in accusation
    finally:
        process.kill()
        process.wait(10)


def test_removal_after_the_end_of_the_process_is_none(
    log: BrokerLog, table: ProcessTable, member: subprocess.Popen[bytes]
) -> None:
    log.join()
    end(member, table)
    log.remove("staticgroup ns/name: scaled to 0..1, ordinal 2 ended")
    assert len(GroupLog({1: log.path}).events("g")) == 2
    assert live_removals(GroupLog({1: log.path}), table) == []


def test_living_successor_of_a_removed_member_is_no_accusation(
    log: BrokerLog, table: ProcessTable, member: subprocess.Popen[bytes]
) -> None:
    log.join()
    end(member, table)
    successor = subprocess.Popen(["sleep", "600"], env={"KAFKA_GROUP_INSTANCE_ID": INSTANCE_ID})
    try:
        until(lambda: table.is_alive(INSTANCE_ID), deadline_s=10, what="the successor in the table")
        removed_at_ms = log.remove("staticgroup ns/name: scaled to 0..1, ordinal 2 ended")
        until(lambda: seen_after(removed_at_ms, table), deadline_s=10, what="the successor lives on")
        assert live_removals(GroupLog({1: log.path}), table) == []
    finally:
        successor.kill()
        successor.wait(10)


def test_member_that_closes_by_itself_is_nobodys_accusation(
    log: BrokerLog, table: ProcessTable, member: subprocess.Popen[bytes]
) -> None:
    log.join()
    removed_at_ms = log.remove("the consumer is being closed")
    until(lambda: seen_after(removed_at_ms, table), deadline_s=10, what="the process lives on for a moment")
    assert live_removals(GroupLog({1: log.path}), table) == []


def test_process_that_gets_its_environment_late_is_seen(table: ProcessTable) -> None:
    """A container's process begins as its runtime's, and on a busy machine calls exec only after seconds."""
    table._boot_ms -= 60_000  # every process looks a minute old
    late = f"late-0.{uuid.uuid4().hex[:8]}"
    with subprocess.Popen(
        ["sh", "-c", f"read go; exec env KAFKA_GROUP_INSTANCE_ID={late} sleep 60"], stdin=subprocess.PIPE
    ) as process:
        until(
            lambda: any(pid == process.pid for pid, _ in table._without),
            deadline_s=10,
            what="the runtime's process to be seen",
        )
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        until(lambda: table.lives(late), deadline_s=10, what="a life of the id")
        process.kill()
