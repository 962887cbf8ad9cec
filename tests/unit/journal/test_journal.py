"""The journal of a process: numbered, told by the holder of the Lease only, and never a reason for a round to fail."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from journal.journal import PENDING_AGE_MS, Journal
from journal.records import CoverageBeat, Data, Record, read
from journal.sinks import MemorySink
from staticgroup.core.evidence.pod import PodVersion
from staticgroup.kube.translate import pod_version
from staticgroup.runtime.metrics import Metrics
from unit.kube.raw_objects import at, pod
from unit.runtime.operator_world import CANARY, UNREACHABLE, OperatorWorld, kafka_connection

CONNECTION = ("shop", "kafka")


class FullSink(MemorySink):
    """A sink whose broker or disk is gone."""

    def offer(self, key: str, line: str) -> bool:
        return False


class Told:
    """A world whose operator keeps a journal."""

    def __init__(self, *sinks: MemorySink, cluster_id: str | None = "kc-1") -> None:
        self.world = OperatorWorld()
        self.sink = MemorySink()
        self.metrics = Metrics()
        self.connected(cluster_id)
        self.journal = self.process("op-1", sinks or (self.sink,))

    def process(self, operator_id: str, sinks: tuple[MemorySink, ...]) -> Journal:
        """Give the world's operator a journal, as a new process has it."""
        journal = Journal(
            operator_id=operator_id,
            sinks=sinks,
            stores=self.world.stores,
            counters=self.metrics,
            may_write=lambda: self.world.is_holder,
            now_s=lambda: self.world.now_s,
            watch_scope="pay,shop",
        )
        journal.k8s_cluster_uid = "k8s-1"
        self.world.reconciler.journal = journal
        return journal

    def connected(self, cluster_id: str | None) -> None:
        """Let the KafkaConnection's status say which cluster it is."""
        status = {"observedGeneration": 1, "clusterId": cluster_id, "brokers": 3} if cluster_id is not None else {}
        self.world.stores.put_connection(CONNECTION, kafka_connection() | {"status": status})

    @property
    def records(self) -> list[Record[Data]]:
        return [read(line) for line in self.sink.lines]

    def nouns(self) -> list[str]:
        return [r.data.noun for r in self.records]

    def counted(self, name: str, *labels: str) -> float:
        counter = getattr(self.metrics, name)
        return float(counter.labels(*labels)._value.get())

    async def scaled_down(self) -> None:
        """Three members, then one departs and is removed."""
        await self.world.started()
        await self.world.settled(2)
        self.world.scale(2)
        self.world.end(2)
        await self.world.settled()


async def test_scale_down_is_told_by_a_whole_round() -> None:
    told = Told()
    await told.scaled_down()
    assert {"workload.scaled", "member.departed", "member.removed", "group.rebalanced"} <= set(told.nouns())
    (removed,) = (r for r in told.records if r.data.noun == "member.removed")
    assert removed.source == "/k8s/k8s-1/ns/shop/staticgroup/orders"
    assert removed.partitionkey == "kc-1/orders"
    assert removed.subject == f"kc-1/orders/{told.world.id_of(2)}"
    told.journal.beat("e")
    assert {r.data.watch_scope for r in told.records} == {"pay,shop"}


async def test_records_are_numbered_without_holes() -> None:
    told = Told()
    await told.scaled_down()
    told.journal.beat("1-00000001")
    assert [r.data.seq for r in told.records] == list(range(len(told.records)))
    assert {r.data.operator_id for r in told.records} == {"op-1"}


async def test_dropped_record_leaves_a_hole_and_is_counted() -> None:
    """A full or dead broker must not delay a round: the sink refuses, the number is gone."""
    told = Told()
    told.process("op-2", (FullSink(), told.sink))
    await told.scaled_down()
    assert told.counted("journal_dropped", "memory", "full") == len(told.records) > 0
    assert told.counted("journal_records", "memory") == len(told.records)


async def test_only_the_holder_of_the_lease_tells_anything() -> None:
    """A standby looks at nothing, so a beat of it would claim a coverage that nobody has."""
    told = Told()
    await told.world.started()
    told.sink.lines.clear()
    told.world.is_holder = False
    told.world.scale(2)
    await told.world.settled()
    assert told.sink.lines == []


async def test_fault_in_the_journal_does_not_fail_the_round(caplog: pytest.LogCaptureFixture) -> None:
    told = Told()
    await told.world.started()

    def explode() -> float:
        raise RuntimeError("clock gone")

    told.journal._now_s = explode
    told.world.scale(2)
    told.world.end(2)
    await told.world.settled()
    assert [i for _, i in told.world.left] == [told.world.id_of(2)]
    assert told.counted("journal_dropped", "", "fault") > 0
    assert "could not be recorded" in caplog.text


async def test_fault_in_the_journal_does_not_cost_the_watch_an_event() -> None:
    """What the pod store folds is evidence; the journal only listens."""
    told = Told()
    await told.world.started()

    def explode() -> float:
        raise RuntimeError("clock gone")

    told.journal._now_s = explode
    seen(told, 0)
    told.journal._pods["shop", "web-0"] = {"u-gone": None}  # type: ignore[dict-item]
    told.journal.pod_changed("shop", "web-0", told.world.pods)  # type: ignore[arg-type]
    assert told.counted("journal_dropped", "", "fault") == 2


async def test_nothing_is_told_before_the_cluster_has_a_name() -> None:
    """A subject with an empty cluster and later one with its name would be two groups to every reader."""
    told = Told(cluster_id=None)
    await told.world.started()
    seen(told, 0)
    await told.world.round()
    assert told.sink.lines == []
    assert told.counted("journal_dropped", "", "fault") == 0
    told.connected("kc-1")
    await told.world.round()
    assert [(r.partitionkey, r.data.noun) for r in told.records] == [("kc-1/orders", "member.up")]


async def test_brokers_that_do_not_tell_their_cluster_are_told_without_it() -> None:
    told = Told()
    told.world.stores.put_connection(
        CONNECTION, kafka_connection() | {"status": {"observedGeneration": 1, "brokers": 1}}
    )
    await told.world.started()
    assert {r.partitionkey for r in told.records} == {"/orders"}


async def test_restarted_operator_tells_the_same_facts_under_the_same_ids() -> None:
    told = Told()
    await told.scaled_down()
    before = {(r.source, r.id) for r in told.records}
    told.world.restart()
    told.process("op-2", (told.sink,))
    await told.world.settled(2)
    again = [r for r in told.records if r.data.operator_id == "op-2"]
    assert [r.data.noun for r in again] == ["member.removed"]
    assert {(r.source, r.id) for r in again} <= before
    assert [r.data.seq for r in again] == [0]


async def test_no_secret_is_in_a_record() -> None:
    told = Told()
    await told.scaled_down()
    told.world.kafka.problems["describe"] = UNREACHABLE
    await told.world.settled(2)
    told.journal.beat("1-00000001")
    assert CANARY not in "".join(told.sink.lines)


def beat_of(told: Told) -> CoverageBeat:
    told.journal.beat("1-00000001")
    beat = told.records[-1].data
    assert isinstance(beat, CoverageBeat)
    return beat


async def test_beat_says_what_is_looked_at_and_what_could_not_be_read() -> None:
    """Silence is evidence only where somebody looks."""
    told = Told()
    beat = beat_of(told)
    assert (beat.static_groups, beat.unreachable_groups, beat.unreachable_total) == (1, ["shop/orders"], 1)
    await told.world.started()
    beat = beat_of(told)
    assert (beat.unreachable_groups, beat.watch_epoch, beat.interval_ms) == ([], "1-00000001", 30_000)
    told.world.kafka.problems["describe"] = UNREACHABLE
    await told.world.round()
    assert beat_of(told).unreachable_groups == ["shop/orders"]
    told.world.delete_group()
    await told.world.round()
    assert (beat_of(told).static_groups, beat_of(told).unreachable_total) == (0, 0)


# pods ------------------------------------------------------------------------------------------------------------


def seen(told: Told, count: int, *, uid: str = "u0", name: str = "web-0") -> None:
    """Show a version of a pod whose container has been restarted so often, the last time just now."""
    now = datetime.fromtimestamp(told.world.now_s, tz=UTC).isoformat()
    entry: dict[str, Any] = {"name": "app", "restartCount": count, "state": {"running": {"startedAt": now}}}
    if count:
        entry["lastState"] = {"terminated": {"startedAt": now, "finishedAt": now, "reason": "Error"}}
    raw = at(pod(name, uid=uid, statuses=[entry], instance_id=told.world.id_of(0)), count + 1)
    version = pod_version(raw)
    assert isinstance(version, PodVersion)
    told.journal.pod_seen(raw, version)


async def test_pods_are_told_in_the_next_round() -> None:
    told = Told()
    await told.world.started()
    told.sink.lines.clear()
    seen(told, 0)
    seen(told, 1)
    assert told.sink.lines == []
    await told.world.round()
    assert [(r.data.noun, r.id) for r in told.records] == [
        ("member.up", f"u0/0/{told.world.id_of(0)}/up"),
        ("member.down", f"u0/0/{told.world.id_of(0)}/down"),
        ("member.up", f"u0/1/{told.world.id_of(0)}/up"),
    ]
    await told.world.round()
    assert len(told.records) == 3


async def test_pod_whose_object_is_gone_while_it_ran_is_told_as_deleted() -> None:
    told = Told()
    await told.world.started()
    seen(told, 0)
    await told.world.round()
    told.sink.lines.clear()
    told.world.now_s += 5
    told.world.remove_object(0)
    told.journal.pod_changed("shop", "web-0", told.world.pods)  # type: ignore[arg-type]  # the same answers
    told.journal.pod_changed("shop", "web-0", told.world.pods)  # type: ignore[arg-type]
    await told.world.round()
    (down,) = (r for r in told.records if r.data.noun == "member.down")
    assert (down.id, down.data.model_dump()["reason"]) == (f"u0/0/{told.world.id_of(0)}/down", "Deleted")


async def test_pods_of_no_staticgroup_cost_nothing() -> None:
    told = Told()
    await told.world.started()
    seen(told, 0, name="other-0")
    assert (told.journal._pods, told.journal._pending) == ({}, {})


async def test_standby_keeps_what_pods_did_in_the_last_minutes_for_when_it_takes_over() -> None:
    """Whatever the former holder told of it has the same id; what it could not tell is told now."""
    told = Told()
    await told.world.started()
    told.sink.lines.clear()
    told.world.is_holder = False
    seen(told, 0)
    told.world.now_s += PENDING_AGE_MS / 1000 + 1
    seen(told, 1)
    told.world.is_holder = True
    told.journal.forget_all()
    await told.world.round()
    assert [r.id.split("/", 1)[1].replace(told.world.id_of(0), "i") for r in told.records] == ["0/i/down", "1/i/up"]


async def test_nothing_of_a_deleted_staticgroup_is_told_for_the_next_of_its_name() -> None:
    told = Told()
    await told.world.started()
    seen(told, 0)
    told.world.delete_group()
    assert told.journal._pending == {}
    assert told.journal._remembered == {}
