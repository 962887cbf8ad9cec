"""What is remembered of nodes outlives the process: written when it is news, merged with what another one wrote."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from staticgroup.core.evidence.machines import NodeRecord
from staticgroup.core.evidence.pod import NodeView
from staticgroup.kube.nodes.ledger import NodeLedger, NodeScope
from staticgroup.kube.nodes.records import CHUNKS, KEY, NodeRecords, chunk_of, parsed, scope_of, text_of
from staticgroup.kube.nodes.store import NodeStore
from staticgroup.kube.transport import Transport
from support.clock import Clock
from support.fake_apiserver import BROKEN, FakeApiServer
from unit.core.test_machines import record, view
from unit.kube.raw_objects import eventually

SCOPE = NodeScope(cluster_uid="c1", timeline="t1", timeline_since_s=1_000.0, trusted_since_s=None)


class Process:
    """One operator process, as far as it remembers nodes."""

    def __init__(self, transport: Transport, now_s: float = 1_000.0, *, trusts_deletion: bool = False) -> None:
        self.clock = Clock(now_s)
        self.timeline, self.cluster_uid = "t1", "c1"
        self.ledger = NodeLedger(
            now_s=self.clock, timeline=lambda: self.timeline, cluster_uid=lambda: self.cluster_uid, trusts_deletion=trusts_deletion
        )
        self.records = NodeRecords(transport, self.ledger, namespace="ops", prefix="op")

    async def kept(self) -> bool:
        is_kept = await self.records.read()
        while is_kept and self.records.has_news:
            is_kept = await self.records.write()
        return is_kept

    @property
    def record(self) -> NodeRecord:
        found = self.ledger.record_of("n1")
        assert found is not None
        return found


def writes(server: FakeApiServer) -> int:
    return sum(method in ("POST", "PUT") for method, _ in server.requests)


@pytest.fixture(autouse=True)
def namespace(server: FakeApiServer) -> None:
    server.put({"metadata": {"name": "ops"}}, "namespaces")


async def test_a_machine_that_was_written_down_is_known_by_the_next_process(
    server: FakeApiServer, transport: Transport
) -> None:
    first = Process(transport)
    first.ledger.take(view())
    assert await first.kept()
    second = Process(transport, now_s=9_000.0)
    second.ledger.take(view())
    assert second.record.known_since_s == 9_060
    assert await second.kept()
    assert second.record == first.record
    assert [key for key in server.objects if key[0] == "configmaps"] == [("configmaps", "ops", f"op-nodes-{chunk_of('n1')}")]


async def test_nothing_is_written_that_stands_there(server: FakeApiServer, transport: Transport) -> None:
    first = Process(transport)
    first.ledger.take(view())
    await first.kept()
    before = writes(server)
    for process in (first, Process(transport, now_s=9_000.0)):
        process.ledger.take(view())
        assert await process.kept()
    assert writes(server) == before == 1


async def test_two_processes_that_write_lose_nothing_of_each_other(transport: Transport) -> None:
    names = [f"x{n}" for n in range(400)]
    other = next(name for name in names if chunk_of(name) == chunk_of("n1"))
    one, two = Process(transport), Process(transport)
    await one.records.read()
    await two.records.read()
    one.ledger.take(view())
    two.ledger.take(view(name=other, uid="node-9"))
    assert await one.kept()
    await two.kept()
    assert await two.kept()
    third = Process(transport)
    await third.records.read()
    assert {r.name for r in third.ledger.records()} == {"n1", other}


async def test_a_replaced_machine_is_not_taken_for_the_one_that_was_written_down(transport: Transport) -> None:
    first = Process(transport)
    first.ledger.take(view())
    await first.kept()
    second = Process(transport, now_s=9_000.0)
    second.ledger.take(view(machine_id="m2"))
    await second.kept()
    assert second.record.known_since_s == 9_060
    third = Process(transport, now_s=10_000.0)
    await third.records.read()
    assert third.record == second.record


async def test_a_node_that_went_while_nobody_looked_is_gone(transport: Transport) -> None:
    first = Process(transport)
    first.ledger.take(view())
    await first.kept()
    second = Process(transport, now_s=9_000.0)
    second.ledger.began(9_000.0, ())
    await second.kept()
    assert second.record.gone_since_s == 9_000


@pytest.mark.parametrize("refusal", [403, 500, BROKEN])
async def test_what_cannot_be_written_stays_news(server: FakeApiServer, transport: Transport, refusal: int) -> None:
    process = Process(transport)
    process.ledger.take(view())
    server.failing["create", "configmaps"] = [refusal]
    assert not await process.kept()
    assert process.records.has_news
    assert await process.kept()
    assert writes(server) == 2


async def test_what_cannot_be_read_is_as_good_as_nothing(server: FakeApiServer, transport: Transport) -> None:
    """Somebody edited it, or another version wrote what this one does not know."""
    head, good = text_of([record()], SCOPE).splitlines()
    entry = json.loads(good)
    broken = [
        "{", "7", "[]", json.dumps(entry | {"known_since_s": None}), json.dumps(entry | {"known_since_s": "1"}),
        json.dumps(entry | {"machine_id": 7}), json.dumps(entry | {"is_virtual": "no"}), json.dumps(entry | {"gone_since_s": -1}),
        json.dumps({k: v for k, v in entry.items() if k != "boot_since_s"}), json.dumps(entry | {"known_since_s": True}),
        '{"name": "n1", "known_since_s": NaN}', json.dumps(entry | {"known_since_s": float("inf")}), "[" * 100_000,
    ]  # fmt: skip
    for line in broken:
        assert parsed(line) == (), line
    assert parsed("\n".join([head, *broken, good])) == (record(),)
    assert scope_of(head) == SCOPE
    entry = json.loads(head)
    for line in ("", "{", "7", "[" * 100_000, good, json.dumps(entry | {"timeline": 7}), json.dumps(entry | {"timeline_since_s": None}), json.dumps(entry | {"trusted_since_s": "x"})):
        assert scope_of(line) is None, line
    name = f"op-nodes-{chunk_of('n1')}"
    server.put({"metadata": {"namespace": "ops", "name": name}, "data": {KEY: "\n".join([head, *broken])}}, "configmaps")
    process = Process(transport)
    process.ledger.take(view())
    assert await process.kept()
    assert process.record.known_since_s == 1_060
    assert parsed(server.objects["configmaps", "ops", name]["data"][KEY]) == (process.record,)


@pytest.mark.parametrize("changed", ["timeline", "cluster_uid"])
async def test_what_was_written_of_another_timeline_or_cluster_is_as_good_as_nothing(transport: Transport, changed: str) -> None:
    """A restored etcd and a restored namespace bring back what is not true here."""
    first = Process(transport)
    first.ledger.take(view())
    await first.kept()
    second = Process(transport, now_s=9_000.0)
    setattr(second, changed, "another")
    second.ledger.take(view())
    await second.kept()
    assert (second.record.known_since_s, second.ledger.fleet().timeline_since_s) == (9_060, 9_000)
    third = Process(transport, now_s=10_000.0)
    setattr(third, changed, "another")
    await third.kept()
    assert (third.record, third.ledger.fleet().timeline_since_s) == (second.record, 9_000)


async def test_a_process_that_sees_a_new_timeline_learns_the_nodes_again(transport: Transport) -> None:
    first = Process(transport)
    first.ledger.take(view())
    first.ledger.began(1_000.0, ["n1"])
    await first.kept()
    first.clock.now_s, first.timeline = 5_000.0, "t2"
    fleet = first.ledger.fleet()
    assert (fleet.records, fleet.is_listed, fleet.unbroken_since_s, fleet.timeline_since_s) == ({}, False, float("inf"), 5_000)
    assert first.ledger.is_outdated
    first.ledger.take(view())
    first.ledger.began(5_000.0, ["n1"])
    assert not first.ledger.is_outdated
    await first.kept()
    assert first.record.known_since_s == 5_060


async def test_it_is_kept_since_when_a_deletion_says_something(transport: Transport) -> None:
    """Nodes that people deleted before are not gone machines."""
    first = Process(transport, trusts_deletion=True)
    first.ledger.take(view())
    await first.kept()
    second = Process(transport, now_s=2_000.0, trusts_deletion=True)
    await second.kept()
    assert second.ledger.fleet().trusted_since_s == 1_000
    third = Process(transport, now_s=3_000.0)
    await third.kept()
    assert third.ledger.fleet().trusted_since_s == float("inf")
    fourth = Process(transport, now_s=4_000.0, trusts_deletion=True)
    await fourth.kept()
    assert fourth.ledger.fleet().trusted_since_s == 4_000


async def test_a_node_that_went_before_the_setting_was_seen_went_before_its_deletion_said_anything(transport: Transport) -> None:
    """It was deleted while no operator ran, or in the moment in which one was started with the setting."""
    first = Process(transport)
    first.ledger.take(view())
    await first.kept()
    second = Process(transport, now_s=9_000.0, trusts_deletion=True)
    second.ledger.began(9_000.0, ())
    second.clock.now_s += 5
    await second.kept()
    assert second.record.gone_since_s is not None
    assert second.ledger.fleet().trusted_since_s > second.record.gone_since_s
    third = Process(transport, now_s=20_000.0, trusts_deletion=True)
    third.ledger.began(20_000.0, ())
    await third.kept()
    assert third.ledger.fleet().trusted_since_s == second.ledger.fleet().trusted_since_s


async def test_a_node_that_went_unseen_while_its_deletion_said_something_counts(transport: Transport) -> None:
    first = Process(transport, trusts_deletion=True)
    first.ledger.take(view())
    await first.kept()
    second = Process(transport, now_s=9_000.0, trusts_deletion=True)
    second.ledger.began(9_000.0, ())
    await second.kept()
    assert second.ledger.fleet().trusted_since_s == 1_000


def test_every_chunk_has_room_for_its_part_of_the_most_nodes() -> None:
    """A ConfigMap takes 1 MiB."""
    long = record(name="n" * 200, uid="u" * 36)
    assert len(text_of([long], SCOPE)) * 10_000 / CHUNKS < 1_000_000
    counts = [0] * CHUNKS
    for n in range(10_000):
        counts[chunk_of(f"ip-10-0-{n // 250}-{n % 250}.eu-west-1.compute.internal")] += 1
    assert max(counts) < 1_500


# the watch that feeds it --------------------------------------------------------------------------------------------


def raw(name: str = "n1", **info: Any) -> dict[str, Any]:
    told = {"kubeletVersion": "v1.36.3", "machineID": "m1", "systemUUID": "s1", "bootID": "b1"} | info
    return {
        "metadata": {"name": name, "uid": f"{name}-uid", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"nodeInfo": told, "conditions": [{"type": "Ready", "status": "True"}]},
    }


@asynccontextmanager
async def watched(server: FakeApiServer, transport: Transport, ledger: NodeLedger) -> AsyncIterator[None]:
    """Watch the nodes into a ledger."""
    store = NodeStore(
        transport, on_change=lambda name: None, rng=Random(1), clock_s=Clock(), retry_delay_s=0.002, ledger=ledger
    )
    task = asyncio.create_task(store.run())
    try:
        await eventually(lambda: server.watches)
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_watch_of_nodes_tells_births_replacements_and_ends(server: FakeApiServer, transport: Transport) -> None:
    clock = Clock(1_800_000_000.0)
    ledger = NodeLedger(now_s=clock)
    server.put(raw(), "nodes")
    async with watched(server, transport, ledger):
        listed = ledger.record_of("n1")
        assert listed is not None
        assert (listed.known_since_s, ledger.unbroken_since_s, ledger.is_listed) == (clock.now_s + 60, clock.now_s, True)
        clock.now_s += 100
        server.put(raw("n2", machineID="m2"), "nodes")
        server.put(raw(machineID="m9"), "nodes")
        server.remove("", "n2", "nodes")
        await eventually(lambda: (r := ledger.record_of("n2")) and r.gone_since_s)
        born, replaced = ledger.record_of("n2"), ledger.record_of("n1")
        assert born is not None
        assert replaced is not None
        assert born.known_since_s == born.created_at_s == 1_767_225_600
        assert (replaced.known_since_s, replaced.earlier_until_s) == (clock.now_s + 60, clock.now_s)
        clock.now_s += 100
        server.compact()
        server.remove("", "n1", "nodes")
        server.compact()
        server.break_watches()
        await eventually(lambda: (r := ledger.record_of("n1")) and r.gone_since_s == clock.now_s)
        assert ledger.unbroken_since_s == clock.now_s
        server.put({"metadata": {"name": "odd"}, "status": {"nodeInfo": 7}}, "nodes")
        await eventually(lambda: not ledger.is_listed)


async def test_nodes_are_listed_again_on_a_new_timeline_and_a_boot_is_followed(server: FakeApiServer, transport: Transport) -> None:
    clock, timeline = Clock(1_800_000_000.0), ["t1"]
    ledger = NodeLedger(now_s=clock, timeline=lambda: timeline[0])
    server.put(raw(), "nodes")
    async with watched(server, transport, ledger):
        clock.now_s += 100
        server.put(raw(bootID="b2"), "nodes")
        await eventually(lambda: (r := ledger.record_of("n1")) and r.machine.boot_id == "b2")
        booted = ledger.record_of("n1")
        assert booted is not None
        assert (booted.boot_since_s, booted.old_boot_until_s) == (clock.now_s, clock.now_s - 100)
        timeline[0] = "t2"
        assert ledger.fleet().records == {}
        server.put(raw("n2", machineID="m2"), "nodes")
        await eventually(lambda: sorted(ledger.fleet().records) == ["n1", "n2"] and ledger.is_listed)


def test_a_boot_was_told_of_until_it_was_written_or_read_last() -> None:
    ledger = NodeLedger(now_s=Clock(1_000.0))
    ledger.take(view(written_at_s=900.0), at_s=950.0)
    ledger.take(view(written_at_s=930.0), is_next=True)
    ledger.take(view(boot_id="b2", written_at_s=990.0), is_next=True)
    booted = ledger.record_of("n1")
    assert booted is not None
    assert booted.old_boot_until_s == 950


def test_a_ledger_without_room_says_since_when_it_is_complete() -> None:
    clock = Clock()
    ledger = NodeLedger(now_s=clock, limit=2)
    told: list[str] = []
    ledger.on_news = told.append
    for n in range(3):
        clock.now_s += 10
        ledger.take(NodeView(name=f"n{n}", uid=f"u{n}"))
        ledger.take_gone(f"n{n}")
    assert sorted(ledger.fleet().records) == ["n1", "n2"]
    assert ledger.fleet().complete_since_s == 1_010
    assert "n0" in told
