"""The journal of a process: numbered, written only by the holder of the Lease, and never failing a round."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from journal.journal import PENDING_AGE_MS, Journal
from journal.records import CoverageBeat, Data, Record, read
from journal.sinks import MemorySink
from staticgroup.core.evidence.pod import PodVersion
from staticgroup.kube.translate import pod_version
from staticgroup.runtime.process.metrics import Metrics
from unit.kube.raw_objects import at, pod
from unit.runtime.operator_world import CANARY, UNREACHABLE, OperatorWorld, kafka_connection

CONNECTION = ("shop", "kafka")


class FullSink(MemorySink):
    """A sink whose broker or disk is gone."""

    def offer(self, key: str, line: str) -> bool:
        return False


class Journaling:
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
            operator_id=operator_id, sinks=sinks, stores=self.world.stores, counters=self.metrics,
            may_write=lambda: self.world.is_holder, now_s=lambda: self.world.now_s, watch_scope="pay,shop",
        )  # fmt: skip
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


@pytest.fixture
def journaling() -> Journaling:
    return Journaling()


async def test_a_whole_round_records_a_scale_down(journaling: Journaling) -> None:
    await journaling.scaled_down()
    nouns = {r.data.noun for r in journaling.records}
    assert {"workload.scaled", "member.departed", "member.removed", "group.rebalanced"} <= nouns
    (removed,) = (r for r in journaling.records if r.data.noun == "member.removed")
    assert removed.source == "/k8s/k8s-1/ns/shop/staticgroup/orders"
    assert removed.partitionkey == "kc-1/orders"
    assert removed.subject == f"kc-1/orders/{journaling.world.id_of(2)}"
    journaling.journal.beat("e")
    assert [r.data.seq for r in journaling.records] == list(range(len(journaling.records))), "numbered without holes"
    assert {(r.data.operator_id, r.data.watch_scope) for r in journaling.records} == {("op-1", "pay,shop")}


async def test_dropped_record_leaves_a_hole_and_is_counted(journaling: Journaling) -> None:
    """A full or dead broker must not delay a round: the sink refuses, and the number is skipped."""
    journaling.process("op-2", (FullSink(), journaling.sink))
    await journaling.scaled_down()
    assert journaling.counted("journal_dropped", "memory", "full") == len(journaling.records) > 0
    assert journaling.counted("journal_records", "memory") == len(journaling.records)


async def test_only_the_holder_of_the_lease_tells_anything(journaling: Journaling) -> None:
    """A standby reads no group, so its beat would claim a coverage that does not exist."""
    await journaling.world.started()
    journaling.sink.lines.clear()
    journaling.world.is_holder = False
    journaling.world.scale(2)
    await journaling.world.settled()
    assert journaling.sink.lines == []


def explode() -> float:
    raise RuntimeError("clock gone")


async def test_fault_in_the_journal_fails_no_round(journaling: Journaling, caplog: pytest.LogCaptureFixture) -> None:
    await journaling.world.started()
    journaling.journal._now_s = explode
    journaling.world.scale(2)
    journaling.world.end(2)
    await journaling.world.settled()
    assert [i for _, i in journaling.world.left] == [journaling.world.id_of(2)]
    assert journaling.counted("journal_dropped", "", "fault") > 0
    assert "could not be recorded" in caplog.text


async def test_fault_in_the_journal_does_not_cost_the_watch_an_event(journaling: Journaling) -> None:
    """A fault of the journal must not disturb the pod store, which holds evidence."""
    await journaling.world.started()
    journaling.journal._now_s = explode
    seen(journaling, 0)
    journaling.journal._pods["shop", "web-0"] = {"u-gone": None}  # type: ignore[dict-item]
    journaling.journal.pod_changed("shop", "web-0", journaling.world.pods)  # type: ignore[arg-type]
    assert journaling.counted("journal_dropped", "", "fault") == 2


async def test_nothing_is_recorded_before_the_cluster_has_a_name() -> None:
    """Readers would see two groups: one with an empty cluster id, and later one with its id."""
    journaling = Journaling(cluster_id=None)
    await journaling.world.started()
    seen(journaling, 0)
    await journaling.world.round()
    assert journaling.sink.lines == []
    assert journaling.counted("journal_dropped", "", "fault") == 0
    journaling.connected("kc-1")
    await journaling.world.round()
    assert [(r.partitionkey, r.data.noun) for r in journaling.records] == [("kc-1/orders", "member.up")]


async def test_records_lack_the_cluster_id_that_brokers_do_not_report(journaling: Journaling) -> None:
    journaling.world.stores.put_connection(
        CONNECTION, kafka_connection() | {"status": {"observedGeneration": 1, "brokers": 1}}
    )
    await journaling.world.started()
    assert {r.partitionkey for r in journaling.records} == {"/orders"}


async def test_restarted_operator_tells_the_same_facts_under_the_same_ids(journaling: Journaling) -> None:
    await journaling.scaled_down()
    before = {(r.source, r.id) for r in journaling.records}
    journaling.world.restart()
    journaling.process("op-2", (journaling.sink,))
    await journaling.world.settled(2)
    again = [r for r in journaling.records if r.data.operator_id == "op-2"]
    assert [r.data.noun for r in again] == ["member.removed"]
    assert {(r.source, r.id) for r in again} <= before
    assert [r.data.seq for r in again] == [0]


async def test_no_secret_is_in_a_record(journaling: Journaling) -> None:
    await journaling.scaled_down()
    journaling.world.kafka.problems["describe"] = UNREACHABLE
    await journaling.world.settled(2)
    journaling.journal.beat("1-00000001")
    assert CANARY not in "".join(journaling.sink.lines)


def beat_of(journaling: Journaling) -> CoverageBeat:
    journaling.journal.beat("1-00000001")
    beat = journaling.records[-1].data
    assert isinstance(beat, CoverageBeat)
    return beat


async def test_beat_says_what_is_looked_at_and_what_could_not_be_read(journaling: Journaling) -> None:
    """Only a beat makes silence evidence."""
    beat = beat_of(journaling)
    assert (beat.static_groups, beat.unreachable_groups, beat.unreachable_total) == (1, ["shop/orders"], 1)
    await journaling.world.started()
    beat = beat_of(journaling)
    assert (beat.unreachable_groups, beat.watch_epoch, beat.interval_ms) == ([], "1-00000001", 30_000)
    journaling.world.kafka.problems["describe"] = UNREACHABLE
    await journaling.world.round()
    assert beat_of(journaling).unreachable_groups == ["shop/orders"]
    journaling.world.delete_group()
    await journaling.world.round()
    assert (beat_of(journaling).static_groups, beat_of(journaling).unreachable_total) == (0, 0)


# pods ------------------------------------------------------------------------------------------------------------


def seen(journaling: Journaling, count: int, *, uid: str = "u0", name: str = "web-0") -> None:
    """Show a version of a pod whose container has restarted so often, the last time just now."""
    now = datetime.fromtimestamp(journaling.world.now_s, tz=UTC).isoformat()
    entry: dict[str, Any] = {"name": "app", "restartCount": count, "state": {"running": {"startedAt": now}}}
    if count:
        entry["lastState"] = {"terminated": {"startedAt": now, "finishedAt": now, "reason": "Error"}}
    raw = at(pod(name, uid=uid, statuses=[entry], instance_id=journaling.world.id_of(0)), count + 1)
    version = pod_version(raw)
    assert isinstance(version, PodVersion)
    journaling.journal.pod_seen(version)


async def test_pods_are_recorded_in_the_next_round(journaling: Journaling) -> None:
    await journaling.world.started()
    journaling.sink.lines.clear()
    seen(journaling, 0)
    seen(journaling, 1)
    assert journaling.sink.lines == []
    await journaling.world.round()
    assert [(r.data.noun, r.id) for r in journaling.records] == [
        ("member.up", f"u0/0/{journaling.world.id_of(0)}/up"),
        ("member.down", f"u0/0/{journaling.world.id_of(0)}/down"),
        ("member.up", f"u0/1/{journaling.world.id_of(0)}/up"),
    ]
    await journaling.world.round()
    assert len(journaling.records) == 3


async def test_pod_whose_object_is_gone_while_it_ran_is_recorded_as_deleted(journaling: Journaling) -> None:
    await journaling.world.started()
    seen(journaling, 0)
    await journaling.world.round()
    journaling.sink.lines.clear()
    journaling.world.now_s += 5
    journaling.world.remove_object(0)
    journaling.journal.pod_changed("shop", "web-0", journaling.world.pods)  # type: ignore[arg-type]  # the same answers
    journaling.journal.pod_changed("shop", "web-0", journaling.world.pods)  # type: ignore[arg-type]
    await journaling.world.round()
    (down,) = (r for r in journaling.records if r.data.noun == "member.down")
    assert (down.id, down.data.model_dump()["reason"]) == (f"u0/0/{journaling.world.id_of(0)}/down", "Deleted")


async def test_pods_of_no_staticgroup_cost_nothing(journaling: Journaling) -> None:
    await journaling.world.started()
    seen(journaling, 0, name="other-0")
    assert (journaling.journal._pods, journaling.journal._pending) == ({}, {})


async def test_standby_keeps_what_pods_did_in_the_last_minutes_for_when_it_takes_over(journaling: Journaling) -> None:
    """Facts that the former holder recorded have the same id; other facts are recorded now."""
    await journaling.world.started()
    journaling.sink.lines.clear()
    journaling.world.is_holder = False
    seen(journaling, 0)
    journaling.world.now_s += PENDING_AGE_MS / 1000 + 1
    seen(journaling, 1)
    journaling.world.is_holder = True
    journaling.journal.forget_all()
    await journaling.world.round()
    assert [r.id.split("/", 1)[1].replace(journaling.world.id_of(0), "i") for r in journaling.records] == [
        "0/i/down",
        "1/i/up",
    ]


async def test_nothing_of_a_deleted_staticgroup_is_recorded_for_the_next_of_its_name(journaling: Journaling) -> None:
    await journaling.world.started()
    seen(journaling, 0)
    journaling.world.delete_group()
    assert journaling.journal._pending == {}
    assert journaling.journal._remembered == {}
