"""The draft's assignments rule by rule: what may be installed, what is refused, and when one is asked for again."""

from __future__ import annotations

import pytest

from conformance.answers import answered
from connect_draft import DraftErrorCode
from connect_draft.messages import ConnectGroupHeartbeatRequest, ConnectGroupInstallAssignmentRequest
from connect_draft.workers.assignors import DeclarativeAssignor
from connect_draft.workers.worker import DraftWorker
from coordinator_model.base.errors import ErrorCode
from coordinator_model.connect.work import ConnectorsAndTasks

from .draft_bench import (
    A0,
    ALL,
    CONFIG,
    GROUP,
    NOTHING,
    beat,
    changed_config,
    cluster_of,
    code,
    describe,
    install,
    join,
    member,
    offer,
    prepared_by,
)

UNKNOWN = ConnectorsAndTasks.of(["Z"])


@pytest.mark.parametrize(
    "work",
    [{"W1": ALL.minus(A0)}, {"W1": ALL, "W2": A0}, {"W1": ALL, "W9": NOTHING}, {"W1": ALL.plus(UNKNOWN)}],
    ids=["not all", "twice", "unknown worker", "not configured"],
)
def test_item_71_invalid_assignments(work: dict[str, ConnectorsAndTasks]) -> None:
    """Each invariant that is broken makes INVALID_ASSIGNMENT; the target stays and the worker is asked again."""
    cluster = cluster_of("W1")
    cluster.send(join("W2"))
    cluster.heartbeat("W1")
    before = describe(cluster)
    assert install(cluster, "W1", **work) is DraftErrorCode.INVALID_ASSIGNMENT
    assert describe(cluster) == before
    assert beat(cluster, "W1").error_code is DraftErrorCode.COMPUTE_ASSIGNMENT
    assert install(cluster, "W1", W1=ALL) is ErrorCode.NONE


def test_item_71_only_what_a_left_worker_had_may_wait() -> None:
    """Against "all are assigned" stands the draft's own leave case: a left worker's work may be held back, no other."""
    cluster = cluster_of("W1", "W2")
    kept, lost = member(cluster, "W1").assigned, member(cluster, "W2").assigned
    beat(cluster, "W2", member_epoch=-1)
    cluster.heartbeat("W1")
    assert install(cluster, "W1", W1=kept.minus(A0)) is DraftErrorCode.INVALID_ASSIGNMENT
    assert install(cluster, "W1", W1=kept) is ErrorCode.NONE
    assert describe(cluster).held_back.same_as(lost)
    cluster.send(join("W3"))
    cluster.heartbeat("W1")
    assert install(cluster, "W1", W1=kept, W3=lost) is ErrorCode.NONE
    assert not describe(cluster).held_back


def test_item_71_held_against_the_metadata_it_was_computed_from() -> None:
    """A worker and a connector that appeared, or one that left meanwhile, don't make an assignment invalid."""
    cluster = cluster_of("W1", "W2")
    cluster.send(join("W3"))
    cluster.heartbeat("W1")
    prepared = prepared_by(cluster, "W1")
    beat(cluster, "W2", member_epoch=-1)
    newer = offer(url="http://W1:8083/", config=changed_config(A=2, B=1, C=1))
    beat(cluster, "W1", client_assignors=(newer,))
    installed = cluster.send(cluster.workers["W1"].assign(prepared, 0))
    assert installed.error_code is ErrorCode.NONE
    assert describe(cluster).group_state == "Assigning"


def test_item_72_an_assignment_error_keeps_the_assignment() -> None:
    """Everybody keeps what they have and comes to the new epoch; the error is passed on."""
    cluster = cluster_of("W1", "W2")
    before = {m.member_id: m.assigned for m in describe(cluster).members}
    cluster.send(join("W3"))
    cluster.heartbeat("W1")
    epoch = prepared_by(cluster, "W1").group_epoch
    request = ConnectGroupInstallAssignmentRequest(
        group_id=GROUP, member_id="W1", member_epoch=cluster.workers["W1"].epoch, group_epoch=epoch, error=7
    )
    assert code(cluster, request) is ErrorCode.NONE
    response = answered(cluster.heartbeat("W1"))
    assert response.assignment is not None
    assert (response.assignment.error, response.member_epoch) == (7, epoch)
    cluster.heartbeat("W2")
    assert {m: w for m, w in cluster.running().items() if m in before} == before
    assert describe(cluster).assignment_error == 7


def test_item_74_a_reason_brings_the_delayed_rebalance() -> None:
    """The worker that held work back gives a reason when the delay is over, once."""
    cluster = cluster_of("W1", "W2")
    cluster.kill("W2")
    cluster.send(ConnectGroupHeartbeatRequest(group_id=GROUP, member_id="W2", member_epoch=-1))
    cluster.settle()
    epoch = describe(cluster).group_epoch
    assert len(cluster.running()["W1"]) == 3
    for _ in range(59):
        cluster.advance(5_000)
        cluster.settle()
    assert describe(cluster).group_epoch == epoch
    cluster.advance(5_000)
    cluster.settle()
    assert describe(cluster).group_epoch == epoch + 1
    assert cluster.running()["W1"].same_as(ALL)


def test_item_74_a_restarted_assigning_worker_is_asked_again() -> None:
    """Only it knew when the delay ends; back under its id before its session ended, nothing else would trigger."""
    cluster = cluster_of("W1", "W2")
    cluster.kill("W2")
    cluster.send(ConnectGroupHeartbeatRequest(group_id=GROUP, member_id="W2", member_epoch=-1))
    cluster.settle()
    epoch = describe(cluster).group_epoch
    cluster.kill("W1")
    cluster.start(DraftWorker("W1", DeclarativeAssignor(), CONFIG))
    cluster.heartbeat("W1")
    assert describe(cluster).group_epoch == epoch + 1
