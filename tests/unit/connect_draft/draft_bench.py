"""A cluster of the draft, and what workers ask of it."""

from __future__ import annotations

from dataclasses import replace

from conformance.answers import expect
from connect_draft import DraftSettings
from connect_draft.messages import (
    ConnectGroupDescribeRequest,
    ConnectGroupDescribeResponse,
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupPrepareAssignmentResponse,
    DescribedWorker,
    InstalledMember,
)
from connect_draft.metadata import encode_worker_metadata
from connect_draft.records import Assignor
from connect_draft.workers.assignors import DeclarativeAssignor
from connect_draft.workers.cluster import DraftCluster
from connect_draft.workers.worker import DraftWorker
from coordinator_model.connect.work import ClusterConfig, ConnectorsAndTasks, ConnectorTaskId

GROUP = "connect-cluster"
CONFIG = ClusterConfig(1, {"A": 2, "B": 1})
NOTHING = ConnectorsAndTasks()


def offer(
    low: int = 1,
    high: int = 2,
    name: str = "cooperative",
    reason: int = 0,
    config: ClusterConfig = CONFIG,
    url: str = "http://w:8083/",
) -> Assignor:
    return Assignor(name, low, high, reason, high, encode_worker_metadata(url, config))


def join(member_id: str, *assignors: Assignor, instance_id: str | None = None) -> ConnectGroupHeartbeatRequest:
    return ConnectGroupHeartbeatRequest(
        group_id=GROUP, member_id=member_id, instance_id=instance_id, rebalance_timeout_ms=60_000,
        client_assignors=assignors or (offer(),), connectors_and_tasks=NOTHING,
    )


def cluster_of(*names: str, settings: DraftSettings | None = None, instances: bool = False) -> DraftCluster:
    """A settled cluster."""
    cluster = DraftCluster(settings or DraftSettings())
    for name in names:
        worker = DraftWorker(name, DeclarativeAssignor(), CONFIG, instance_id=f"i-{name}" if instances else None)
        cluster.start(worker)
        cluster.settle()
    assert describe(cluster).group_state == "Stable"
    return cluster


def describe(cluster: DraftCluster) -> ConnectGroupDescribeResponse:
    return expect(ConnectGroupDescribeResponse, cluster.send(ConnectGroupDescribeRequest(group_id=GROUP)))


def member(cluster: DraftCluster, name: str) -> DescribedWorker:
    return next(m for m in describe(cluster).members if m.member_id == name)


def code(cluster: DraftCluster, request: object) -> object:
    return cluster.send(request).error_code  # type: ignore[arg-type]


def beat(cluster: DraftCluster, name: str, **changes: object) -> ConnectGroupHeartbeatResponse:
    """A bare heartbeat at the worker's own epoch, with some fields set."""
    worker = cluster.workers[name]
    request = ConnectGroupHeartbeatRequest(client_id=name, group_id=GROUP, member_id=name, member_epoch=worker.epoch)
    worker.answered_at_ms = cluster.now_ms
    return expect(ConnectGroupHeartbeatResponse, cluster.send(replace(request, **changes)))


def prepared_by(cluster: DraftCluster, name: str) -> ConnectGroupPrepareAssignmentResponse:
    return expect(ConnectGroupPrepareAssignmentResponse, cluster.send(cluster.workers[name].prepare()))


def changed_config(**tasks: int) -> ClusterConfig:
    return ClusterConfig(2, tasks)


def install(cluster: DraftCluster, name: str, **work: ConnectorsAndTasks) -> object:
    prepared = prepared_by(cluster, name)
    return code(
        cluster,
        ConnectGroupInstallAssignmentRequest(
            group_id=GROUP,
            member_id=name,
            member_epoch=cluster.workers[name].epoch,
            group_epoch=prepared.group_epoch,
            members=tuple(InstalledMember(member_id, given) for member_id, given in work.items()),
        ),
    )


ALL = CONFIG.configured()
A0 = ConnectorsAndTasks.of([], [ConnectorTaskId("A", 0)])
