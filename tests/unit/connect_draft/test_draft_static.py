"""Static workers in the draft: an extension of ours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.answers import expect
from connect_draft import ConnectDraftCoordinator, DraftSettings
from connect_draft.messages import ConnectGroupHeartbeatResponse
from connect_draft.workers.assignors import DeclarativeAssignor
from connect_draft.workers.cluster import DraftCluster
from connect_draft.workers.worker import DraftWorker
from coordinator_model.base.errors import ErrorCode
from coordinator_model.connect.work import ConnectorsAndTasks

from .draft_bench import CONFIG, beat, cluster_of, code, describe, join, member


def static_pair() -> tuple[DraftCluster, dict[str, ConnectorsAndTasks]]:
    cluster = cluster_of("W1", "W2", settings=DraftSettings(static_workers=True), instances=True)
    return cluster, cluster.running()


@pytest.mark.parametrize("new_id", ["W2", "W2-again"])
def test_static_worker_comes_back_to_its_work(new_id: str) -> None:
    """Epoch -2, a restart, epoch 0 with the same instance id: same work, no new group epoch, nobody else disturbed."""
    cluster, before = static_pair()
    epoch = describe(cluster).group_epoch
    worker = cluster.kill("W2")
    assert code(cluster, worker.leave_for_a_while()) is ErrorCode.NONE
    assert member(cluster, "W2").member_epoch == -2
    cluster.advance(30_000)
    cluster.settle()
    cluster.start(DraftWorker(new_id, DeclarativeAssignor(), CONFIG, instance_id="i-W2"))
    if new_id != "W2":
        # its URL is another one, which is a change of metadata like any other
        cluster.workers[new_id].member_id = "W2"
        request = replace(cluster.workers[new_id].heartbeat(cluster.now_ms), member_id=new_id)
        cluster.workers[new_id].member_id = new_id
        response = expect(ConnectGroupHeartbeatResponse, cluster.send(request))
        cluster.workers[new_id].on_heartbeat(request, response, cluster.now_ms)
    else:
        cluster.heartbeat(new_id)
    assert cluster.running() == {"W1": before["W1"], new_id: before["W2"]}
    assert describe(cluster).group_epoch == epoch


def test_static_worker_that_stays_away_is_removed() -> None:
    """Its session goes on while it is away; then it is gone as if it had died."""
    cluster, before = static_pair()
    cluster.send(cluster.kill("W2").leave_for_a_while())
    for _ in range(9):
        cluster.advance(5_000)
        cluster.settle()
    described = describe(cluster)
    assert [m.member_id for m in described.members] == ["W1"]
    assert described.held_back.same_as(before["W2"])


def test_static_instance_in_use_is_not_given_away() -> None:
    """UNRELEASED_INSTANCE_ID for a second worker; FENCED_INSTANCE_ID for one that changes its instance id."""
    cluster, _ = static_pair()
    before = len(cluster.log)
    assert code(cluster, join("W9", instance_id="i-W2")) is ErrorCode.UNRELEASED_INSTANCE_ID
    assert beat(cluster, "W1", instance_id="i-W2").error_code is ErrorCode.FENCED_INSTANCE_ID
    assert beat(cluster, "W1", member_epoch=-2, instance_id="i-W2").error_code is ErrorCode.FENCED_INSTANCE_ID
    assert len(cluster.log) == before


def test_static_workers_off_means_no_epoch_minus_2() -> None:
    """As drafted the epoch is ≥ -1, although the request has an instance id."""
    cluster = cluster_of("W1", instances=True)
    assert beat(cluster, "W1", member_epoch=-2, instance_id="i-W1").error_code is ErrorCode.INVALID_REQUEST
    assert isinstance(cluster.coordinator, ConnectDraftCoordinator)
