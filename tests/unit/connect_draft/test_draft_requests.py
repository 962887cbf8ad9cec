"""The draft's requests rule by rule: heartbeats, answers that were lost, and the two calls of the assigning worker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance.answers import answered
from connect_draft import DraftErrorCode, DraftSettings
from connect_draft.messages import (
    ConnectGroupHeartbeatRequest,
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupPrepareAssignmentRequest,
    InstalledMember,
)
from connect_draft.metadata import encode_worker_metadata
from connect_draft.workers.assignors import DeclarativeAssignor, EagerDraftAssignor
from connect_draft.workers.cluster import Delivery, DraftCluster
from connect_draft.workers.worker import DraftWorker
from coordinator_model.base.errors import ErrorCode
from coordinator_model.connect.work import ConnectorsAndTasks, ConnectorTaskId

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


@pytest.mark.parametrize(
    "change",
    [
        {"group_id": ""},
        {"member_id": ""},
        {"member_epoch": -2},
        {"member_epoch": -3},
        {"instance_id": ""},
        {"rebalance_timeout_ms": 0},
        {"rebalance_timeout_ms": -1},
        {"server_assignor": "uniform"},
        {"client_assignors": (offer(name=""),)},
        {"client_assignors": (offer(-2, 2),)},
        {"client_assignors": (replace(offer(), minimum_version=-1, maximum_version=-1, version=-1),)},
        {"client_assignors": (replace(offer(), minimum_version=3),)},
        {"client_assignors": (replace(offer(), version=0),)},
        {"client_assignors": (replace(offer(), version=3),)},
        {"client_assignors": (replace(offer(), metadata=b"?"),)},
        {"connectors_and_tasks": A0},
    ],
    ids=str,
)
def test_item_78_invalid_heartbeats(change: dict[str, object]) -> None:
    """Every rule of the draft, and two of ours: readable metadata, and nothing running at a join."""
    cluster = DraftCluster()
    assert code(cluster, replace(join("W1"), **change)) is ErrorCode.INVALID_REQUEST  # type: ignore[arg-type]
    assert cluster.log == []


def test_item_78_unchanged_fields_may_be_left_out() -> None:
    """Null and -1 mean unchanged: a bare heartbeat keeps assignors, timeout and instance id."""
    cluster = cluster_of("W1", instances=True)
    before = cluster.coordinator.groups[GROUP].members["W1"]
    assert beat(cluster, "W1").error_code is ErrorCode.NONE
    assert cluster.coordinator.groups[GROUP].members["W1"] == before


def test_item_78_read_on_the_group_is_needed() -> None:
    """ACL: Read Group, for all three requests."""
    cluster = DraftCluster(DraftSettings(is_denied=lambda principal, operation, group: operation == "READ"))
    for request in (
        join("W1"),
        ConnectGroupPrepareAssignmentRequest(group_id=GROUP, member_id="W1", member_epoch=0),
        ConnectGroupInstallAssignmentRequest(group_id=GROUP, member_id="W1", member_epoch=0, group_epoch=1),
    ):
        assert code(cluster, request) is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_item_79_assignment_only_while_behind() -> None:
    """An answer carries an assignment only to a request whose epoch is smaller than the target's."""
    cluster = cluster_of("W1")
    assert beat(cluster, "W1").assignment is None
    cluster.send(join("W2"))
    cluster.heartbeat("W1")
    cluster.compute("W1")
    assert beat(cluster, "W1").assignment is not None


def test_item_79_lost_answer_is_given_again() -> None:
    """The answer that moved a worker on is lost: with its old epoch and what it runs it is accepted once more."""
    cluster = cluster_of("W1")
    cluster.start(DraftWorker("W2", DeclarativeAssignor(), CONFIG))
    cluster.heartbeat("W2")
    cluster.heartbeat("W1")
    cluster.compute("W1")
    cluster.heartbeat("W1")
    cluster.workers["W1"].stopped()
    assert cluster.heartbeat("W1", Delivery.RESPONSE_LOST) is None
    assert (cluster.workers["W1"].epoch, member(cluster, "W1").member_epoch) == (1, 2)
    response = answered(cluster.heartbeat("W1"))
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 2)
    assert cluster.workers["W1"].owned.same_as(member(cluster, "W1").assigned)


def test_item_79_two_lost_answers_do_not_fence_a_live_worker() -> None:
    """A request with the epoch before moves nobody on, so a worker is never two epochs behind."""
    cluster = cluster_of("W1", "W2")
    owned = cluster.workers["W2"].owned
    for name in ("X1", "X2"):
        cluster.send(join(name))
        cluster.heartbeat("W1")
        request = cluster.workers["W1"].assign(prepared_by(cluster, "W1"), 0)
        cluster.send(replace(request, error=7, members=()))
        cluster.heartbeat("W1")
        assert cluster.heartbeat("W2", Delivery.RESPONSE_LOST) is None
    response = answered(cluster.heartbeat("W2"))
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 3)
    cluster.heartbeat("W2")
    assert (cluster.workers["W2"].epoch, cluster.workers["W2"].owned) == (4, owned)


def test_item_80_a_worker_gives_up_before_it_is_kicked() -> None:
    """If only the second answer revokes, time counts from the first request, which started the coordinator's timer."""
    cluster = cluster_of("W1")
    cluster.start(DraftWorker("W2", DeclarativeAssignor(), CONFIG))
    cluster.heartbeat("W2")
    cluster.heartbeat("W1")
    cluster.compute("W1")
    assert cluster.heartbeat("W1", Delivery.RESPONSE_LOST) is None
    told_at_ms = cluster.now_ms
    cluster.advance(5_000)
    cluster.heartbeat("W1")
    cluster.heartbeat("W2")
    worker = cluster.workers["W1"]
    assert worker.stopping
    worker.answered_at_ms += 60_000
    assert worker.gives_up_at_ms() == told_at_ms + worker.rebalance_timeout_ms
    assert cluster.coordinator.timers.deadline_ms(("connect_rebalance", GROUP, "W1")) == worker.gives_up_at_ms()


def test_item_80_never_revoked_and_assigned_in_one_answer() -> None:
    """What a lost answer gave is not in the answer that revokes: the worker stops first, and gets it after."""
    cluster = cluster_of("W1", "W2")
    config = changed_config(A=2, B=1, C=1)
    beat(cluster, "W1", client_assignors=(offer(url="http://W1:8083/", config=config),))
    a, b, c = (ConnectorsAndTasks.of([name]) for name in "ABC")
    a0, a1, b0, c0 = (
        ConnectorsAndTasks.of([], [ConnectorTaskId(n, t)]) for n, t in (("A", 0), ("A", 1), ("B", 0), ("C", 0))
    )
    beat(cluster, "W1")
    assert install(cluster, "W1", W1=a.plus(a1, c0), W2=b.plus(b0, c, a0)) is ErrorCode.NONE
    assert cluster.heartbeat("W2", Delivery.RESPONSE_LOST) is None
    assert member(cluster, "W2").assigned.same_as(b.plus(b0, c))
    cluster.send(join("X"))
    beat(cluster, "W1")
    assert install(cluster, "W1", W1=a.plus(a1, c0, b), W2=b0.plus(c, a0)) is ErrorCode.NONE
    response = answered(cluster.heartbeat("W2"))
    assert response.assignment is not None
    assert response.assignment.work == b0
    cluster.workers["W2"].stopped()
    cluster.heartbeat("W2")
    assert cluster.workers["W2"].owned.same_as(b0.plus(c))


def test_item_79_old_epoch_with_foreign_work_is_fenced() -> None:
    """The same epoch, but running what it was not given: fenced."""
    cluster = cluster_of("W1", "W2")
    old = member(cluster, "W1").member_epoch - 1
    foreign = member(cluster, "W2").assigned
    response = beat(cluster, "W1", member_epoch=old, connectors_and_tasks=foreign)
    assert response.error_code is ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("removed", [True, False])
def test_item_79_a_late_request_removes_a_live_worker(removed: bool) -> None:
    """As drafted, fencing also removes: after a late copy of an old request W1 runs what W2 is still running."""
    cluster = DraftCluster(DraftSettings(fenced_member_is_removed=removed))
    for name in ("W1", "W2"):
        cluster.start(DraftWorker(name, DeclarativeAssignor(max_delay_ms=0), CONFIG))
        cluster.settle()
    late = ConnectGroupHeartbeatRequest(group_id=GROUP, member_id="W2", member_epoch=1)
    cluster.start(DraftWorker("W3", DeclarativeAssignor(max_delay_ms=0), CONFIG))
    cluster.settle()
    assert code(cluster, late) is ErrorCode.FENCED_MEMBER_EPOCH
    for name in ("W1", "W1", "W3", "W1", "W3"):
        cluster.heartbeat(name)
        if cluster.workers[name].must_compute:
            cluster.compute(name)
        cluster.workers[name].stopped()
    running = cluster.running()
    assert bool(running["W1"].plus(running["W3"]).common(running["W2"])) is removed


def test_item_80_refused_worker_abandons_and_joins_with_the_same_id() -> None:
    """UNKNOWN_MEMBER_ID or FENCED_MEMBER_EPOCH: stop all, tell the listener, epoch 0 under the same id (item 73)."""
    cluster = cluster_of("W1", "W2")
    worker = cluster.workers["W2"]
    owned = worker.owned
    beat(cluster, "W2", member_epoch=77)
    assert answered(cluster.heartbeat("W2")).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert worker.listener[-1] == ("revoked", owned)
    assert (worker.owned, worker.epoch, worker.member_id) == (NOTHING, 0, "W2")
    cluster.settle()
    assert describe(cluster).group_state == "Stable"
    assert worker.owned


def test_item_73_listener_hears_revocation_before_assignment() -> None:
    """A worker that both loses and gets work has to stop first; only after the acknowledgement it gets more."""
    cluster = DraftCluster()
    for name in ("W1", "W2", "W3"):
        cluster.start(DraftWorker(name, EagerDraftAssignor(), CONFIG))
    cluster.settle()
    before = {name: len(worker.listener) for name, worker in cluster.workers.items()}
    cluster.start(DraftWorker("W0", EagerDraftAssignor(), CONFIG))
    cluster.settle()
    moved = [[call for call, _ in cluster.workers[name].listener[before[name] :]] for name in ("W1", "W2", "W3")]
    assert ["revoked", "assigned"] in moved
    assert all(calls in (["revoked"], ["assigned"], ["revoked", "assigned"]) for calls in moved)


PREPARE = ConnectGroupPrepareAssignmentRequest(group_id=GROUP, member_id="W1", member_epoch=2)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ({"group_id": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_id": "W9"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_epoch": 1}, ErrorCode.FENCED_MEMBER_EPOCH),
        ({"member_id": "W2"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({}, ErrorCode.NONE),
    ],
    ids=str,
)
@pytest.mark.parametrize("api", ["prepare", "install"])
def test_items_81_82_prepare_and_install(api: str, change: dict[str, object], expected: ErrorCode) -> None:
    """Validation and rules 1 to 4 in their order, alike for both; a wrong epoch removes nobody here."""
    cluster = cluster_of("W1", "W2")
    cluster.send(join("W3"))
    assert describe(cluster).chosen == "W1"
    request = replace(PREPARE, **change)  # type: ignore[arg-type]
    if api == "install":
        installed = ConnectGroupInstallAssignmentRequest(
            group_id=request.group_id, member_id=request.member_id, member_epoch=request.member_epoch, group_epoch=3,
            members=(InstalledMember("W1", ALL),),
        )
        assert code(cluster, installed) is expected
    else:
        assert code(cluster, request) is expected
    assert len(describe(cluster).members) == 3


def test_item_81_what_prepare_hands_out() -> None:
    """Group epoch, assignor, and per worker epoch, metadata and its part of the target in force."""
    cluster = cluster_of("W1", "W2", instances=True)
    cluster.send(join("W3"))
    cluster.heartbeat("W1")
    prepared = prepared_by(cluster, "W1")
    assert (prepared.group_epoch, prepared.assignor_name, prepared.configured) == (3, "cooperative", ALL)
    assert [(m.member_id, m.member_epoch, m.instance_id) for m in prepared.members] == [
        ("W1", 2, "i-W1"),
        ("W2", 2, "i-W2"),
        ("W3", 2, None),
    ]
    assert [m.work for m in prepared.members] == [m.target for m in describe(cluster).members]
    assert prepared.members[0].metadata == encode_worker_metadata("http://W1:8083/", CONFIG)


def test_item_77_only_the_chosen_worker_computes() -> None:
    """COMPUTE_ASSIGNMENT goes to one worker, again and again until the assignment is there."""
    cluster = cluster_of("W1", "W2")
    cluster.send(join("W3"))
    assert beat(cluster, "W2").error_code is ErrorCode.NONE
    assert beat(cluster, "W1").error_code is DraftErrorCode.COMPUTE_ASSIGNMENT
    assert beat(cluster, "W1").error_code is DraftErrorCode.COMPUTE_ASSIGNMENT
    cluster.compute("W1")
    assert beat(cluster, "W1").error_code is ErrorCode.NONE
    assert not {e.value for e in DraftErrorCode} & {e.value for e in ErrorCode}
