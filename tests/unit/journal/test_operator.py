"""The journal of a whole operator process, from its settings to its files, over a real-HTTP API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from journal.records import CoverageBeat, Data, Record, read
from simulator.operators.entrance import entered
from staticgroup.kube.transport import connect
from staticgroup.runtime.operator import Operator
from staticgroup.runtime.process.settings import Settings
from support.fake_apiserver import FakeApiServer
from unit.kube.raw_objects import eventually
from unit.runtime.operator_world import kafka_connection
from unit.runtime.process_world import Cluster

CONNECTIONS = "kafkaconnections.staticgroup.io"


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with FakeApiServer().serving() as server:
        cluster = Cluster(server)
        status = {"observedGeneration": 1, "clusterId": "cluster-k", "brokers": 1}
        server.put(kafka_connection() | {"status": status}, CONNECTIONS)
        yield cluster


def records(directory: Path) -> list[Record[Data]]:
    return [
        read(line)
        for path in sorted(directory.glob("journal-*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


async def test_scale_down_is_in_the_files_when_the_process_has_ended(cluster: Cluster, tmp_path: Path) -> None:
    """The pods' ends come from the watch, other facts from rounds; ending the process loses no queued record."""
    transport = connect(cluster.server.configuration())
    settings = Settings(
        identity="one", namespace="ops", lease_retry_s=0.05, barrier_patience_s=0.05,
        journal_files_path=str(tmp_path / "journal"),
    )  # fmt: skip
    operator = Operator(settings, transport, kafka=cluster.kafka)
    task = asyncio.create_task(entered(operator))
    try:
        await cluster.populated()
        cluster.scale(2)
        cluster.end(2)
        await eventually(lambda: cluster.id_of(2) not in cluster.kafka.members)
        await eventually(lambda: (cluster.status.get("lastRemoval") or {}).get("count") == 1)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await transport.close()
    written = records(tmp_path / "journal")
    assert [r.data.seq for r in written] == list(range(len(written)))
    nouns = {r.data.noun for r in written}
    assert {"coverage.beat", "workload.scaled", "member.down", "member.departed", "member.removed"} <= nouns
    assert {r.source.split("/")[2] for r in written} == {"cluster-1"}
    assert {r.partitionkey for r in written if not isinstance(r.data, CoverageBeat)} == {"cluster-k/orders"}
    (removed,) = (r for r in written if r.data.noun == "member.removed")
    assert removed.data.model_dump()["instance_id"] == cluster.id_of(2)
