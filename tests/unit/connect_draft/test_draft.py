"""The Connect draft rule by rule; item numbers are those of the list of the proposals' mechanisms (62 to 85)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_draft import ConnectDraftCoordinator, DraftErrorCode, DraftSettings
from connect_draft.broker.selection import able_workers, fits_together, select_assignor
from connect_draft.codec import decode_record, encode_key, encode_value
from connect_draft.messages import (
    AlterConnectGroupConfigRequest,
    ConnectGroupDescribeRequest,
    ConnectGroupDescribeResponse,
    ConnectGroupHeartbeatRequest,
    ConnectGroupHeartbeatResponse,
    ConnectGroupInstallAssignmentRequest,
    ConnectGroupPrepareAssignmentRequest,
    ConnectGroupPrepareAssignmentResponse,
    DescribedWorker,
    InstalledMember,
)
from connect_draft.metadata import encode_worker_metadata
from connect_draft.records import (
    Assignor,
    ClassicWorker,
    ConnectorsTasksMetadata,
    CurrentMemberAssignment,
    DraftRecord,
    DraftRecordType,
    GroupConfiguration,
    GroupMetadata,
    MemberMetadata,
    TargetAssignment,
    TargetMember,
    Value,
)
from connect_draft.workers.assignors import DeclarativeAssignor, EagerDraftAssignor, TodaysAssignor
from connect_draft.workers.cluster import Delivery, DraftCluster
from connect_draft.workers.worker import DraftWorker
from coordinator_model.base.errors import ErrorCode
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
        group_id=GROUP,
        member_id=member_id,
        instance_id=instance_id,
        rebalance_timeout_ms=60_000,
        client_assignors=assignors or (offer(),),
        connectors_and_tasks=NOTHING,
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
    described = cluster.send(ConnectGroupDescribeRequest(group_id=GROUP))
    assert isinstance(described, ConnectGroupDescribeResponse)
    return described


def member(cluster: DraftCluster, name: str) -> DescribedWorker:
    return next(m for m in describe(cluster).members if m.member_id == name)


def code(cluster: DraftCluster, request: object) -> object:
    return cluster.send(request).error_code  # type: ignore[arg-type]


def beat(cluster: DraftCluster, name: str, **changes: object) -> ConnectGroupHeartbeatResponse:
    """A bare heartbeat at the worker's own epoch, with some fields set."""
    worker = cluster.workers[name]
    request = ConnectGroupHeartbeatRequest(client_id=name, group_id=GROUP, member_id=name, member_epoch=worker.epoch)
    worker.answered_at_ms = cluster.now_ms
    response = cluster.send(replace(request, **changes))  # type: ignore[arg-type]
    assert isinstance(response, ConnectGroupHeartbeatResponse)
    return response


def prepared_by(cluster: DraftCluster, name: str) -> ConnectGroupPrepareAssignmentResponse:
    response = cluster.send(cluster.workers[name].prepare())
    assert isinstance(response, ConnectGroupPrepareAssignmentResponse)
    return response


# groups, members, epochs -------------------------------------------------------------------------------------------


def test_item_62_feature_flag() -> None:
    """Off, every request of the draft is refused and nothing is written."""
    cluster = DraftCluster(DraftSettings(enabled=False))
    assert code(cluster, join("W1")) is ErrorCode.UNSUPPORTED_VERSION
    assert cluster.log == []
    assert cluster.coordinator.groups == {}


def test_item_63_data_model() -> None:
    """A group, its workers with URL and assignors; no subscriptions."""
    cluster = cluster_of("W1")
    described = describe(cluster)
    assert (described.group_epoch, described.assignor_name) == (1, "cooperative")
    assert described.members[0].url == "http://W1:8083/"
    stored = cluster.coordinator.groups[GROUP].members["W1"].assignors[0]
    assert (stored.name, stored.minimum_version, stored.maximum_version, stored.reason) == ("cooperative", 1, 2, 0)


def test_item_64_task_numbers_beyond_an_int8() -> None:
    """The draft's int8 would end at task 127; the record keeps an int32."""
    config = ClusterConfig(1, {"big": 300})
    cluster = DraftCluster()
    cluster.start(DraftWorker("W1", DeclarativeAssignor(), config))
    cluster.settle()
    cluster.fail_over()
    assert ConnectorTaskId("big", 299) in member(cluster, "W1").assigned.tasks


def changed_config(**tasks: int) -> ClusterConfig:
    return ClusterConfig(2, tasks)


TRIGGERS: dict[str, Callable[[DraftCluster], object]] = {
    "1 a worker joins": lambda c: c.send(join("W3")),
    "2 assignors change": lambda c: beat(c, "W1", client_assignors=(offer(1, 2), offer(0, 0, "eager"))),
    "3 a reason is given": lambda c: beat(c, "W1", client_assignors=(offer(url="http://W1:8083/", reason=1),)),
    "3 metadata change": lambda c: beat(c, "W1", client_assignors=(offer(url="http://elsewhere:8083/"),)),
    "4 a worker leaves": lambda c: beat(c, "W2", member_epoch=-1),
    "4 a worker is fenced": lambda c: beat(c, "W2", member_epoch=77),
    "4 a session ends": lambda c: (c.kill("W1"), c.advance(20_000), beat(c, "W2"), c.advance(26_000)),
    "5 a connector is added": lambda c: beat(
        c, "W1", client_assignors=(offer(url="http://W1:8083/", config=changed_config(A=2, B=1, C=1)),)
    ),
    "6 a task is removed": lambda c: beat(
        c, "W1", client_assignors=(offer(url="http://W1:8083/", config=changed_config(A=1, B=1)),)
    ),
}


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_item_65_each_trigger_raises_the_epoch_once(trigger: str) -> None:
    """Triggers 1 to 6 of the draft: one new group epoch each, with a new assignment wanted."""
    cluster = cluster_of("W1", "W2")
    before = describe(cluster).group_epoch
    TRIGGERS[trigger](cluster)
    described = describe(cluster)
    assert described.group_epoch == before + 1
    assert described.assignment_epoch == before
    assert described.group_state == "Assigning"


def test_item_65_what_is_no_trigger() -> None:
    """Heartbeats, another timeout, a reason taken back, and reading what the group knows change nothing."""
    cluster = cluster_of("W1", "W2")
    before = describe(cluster).group_epoch
    beat(cluster, "W1")
    beat(cluster, "W1", rebalance_timeout_ms=90_000)
    newer = changed_config(A=2, B=1, C=1)
    beat(cluster, "W1", client_assignors=(offer(url="http://W1:8083/", config=newer, reason=1),))
    assert describe(cluster).group_epoch == before + 1
    beat(cluster, "W1", client_assignors=(offer(url="http://W1:8083/", config=newer),))
    beat(cluster, "W2", client_assignors=(offer(url="http://W2:8083/", config=newer),))
    assert describe(cluster).group_epoch == before + 1
    assert cluster.coordinator.groups[GROUP].members["W1"].rebalance_timeout_ms == 90_000


def test_item_66_computed_for_an_older_epoch() -> None:
    """The target gets the epoch it was computed from; the group is ahead, so the next one is wanted at once."""
    cluster = cluster_of("W1")
    cluster.send(join("W2"))
    cluster.heartbeat("W1")
    prepared = prepared_by(cluster, "W1")
    cluster.send(join("W3"))
    installed = cluster.send(cluster.workers["W1"].assign(prepared, 0))
    assert installed.error_code is ErrorCode.NONE
    described = describe(cluster)
    assert (described.group_epoch, described.assignment_epoch) == (3, 2)
    assert described.chosen is not None


@pytest.mark.parametrize("fail_over", [False, True])
def test_item_67_a_worker_that_does_not_stop_is_kicked(fail_over: bool) -> None:
    """Phase 1 is capped by rebalance.timeout.ms, in full again on a new coordinator: only then others get what it had."""
    cluster = cluster_of("W1")
    cluster.start(DraftWorker("W2", DeclarativeAssignor(), CONFIG))
    cluster.heartbeat("W2")
    cluster.heartbeat("W1")
    cluster.compute("W1")
    cluster.heartbeat("W1")
    assert member(cluster, "W1").revoking
    cluster.workers["W1"].stop_by_ms = None  # so stuck that it does not even give up by itself
    if fail_over:
        cluster.advance(5_000)
        cluster.fail_over()
    for _ in range(11):
        cluster.advance(5_000)
        beat(cluster, "W1")
        cluster.heartbeat("W2")
    assert not member(cluster, "W2").assigned
    cluster.advance(5_000)
    assert [m.member_id for m in describe(cluster).members] == ["W2"]


def test_item_71_an_assignment_for_an_unknown_epoch() -> None:
    """Computed from a group epoch that was never handed out, or that is settled already: refused."""
    cluster = cluster_of("W1")
    cluster.send(join("W2"))
    cluster.heartbeat("W1")
    request = cluster.workers["W1"].assign(prepared_by(cluster, "W1"), 0)
    for epoch in (0, 1, 3):
        assert code(cluster, replace(request, group_epoch=epoch)) is DraftErrorCode.INVALID_ASSIGNMENT
    assert code(cluster, request) is ErrorCode.NONE


# assignors and who runs them ---------------------------------------------------------------------------------------


def test_item_68_assignor_is_common_and_preferred() -> None:
    """Only what all support counts; the order of preference decides."""
    both = (offer(), offer(0, 0, "eager"))
    assert select_assignor({"a": both, "b": both}) == "cooperative"
    assert select_assignor({"a": both, "b": (offer(0, 0, "eager"),)}) == "eager"
    assert select_assignor({"a": both[::-1], "b": both[::-1], "c": both}) == "eager"
    assert select_assignor({"a": (offer(),), "b": (offer(0, 0, "eager"),)}) is None


@pytest.mark.parametrize(
    ("assignors", "server"),
    [
        ((offer(0, 0, "eager"),), None),
        ((offer(3, 4),), None),
        ((), "uniform"),
    ],
    ids=["no common assignor", "versions do not overlap", "unknown server assignor"],
)
def test_item_68_unsupported_assignor(assignors: tuple[Assignor, ...], server: str | None) -> None:
    """A worker that does not go with the others is refused and leaves no trace."""
    cluster = cluster_of("W1")
    before = len(cluster.log)
    request = replace(join("W2"), client_assignors=assignors or None, server_assignor=server)
    assert code(cluster, request) is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert len(cluster.log) == before


def test_item_69_the_worker_that_covers_all_versions() -> None:
    """The draft's example: A [1-5], B [3-4], C [2-4]: A must be selected."""
    members = {"B": (offer(3, 4),), "C": (offer(2, 4),), "A": (offer(1, 5),)}
    assert able_workers("cooperative", members, members) == ["A"]
    assert not fits_together({"A": (offer(1, 3),), "B": (offer(2, 5),)}, ["A", "B"])
    cluster = DraftCluster()
    for name, assignors in members.items():
        cluster.send(join(name, *assignors))
    assert describe(cluster).chosen == "A"


def test_item_69_nobody_covers_all_versions() -> None:
    """FATAL, decided: the joining worker is refused; if the only able one goes, the assignment stays as it is."""
    cluster = DraftCluster()
    cluster.send(join("A", offer(1, 3)))
    assert code(cluster, join("B", offer(2, 5))) is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert code(cluster, join("D", offer(1, 5))) is ErrorCode.NONE
    assert code(cluster, join("B", offer(2, 5))) is ErrorCode.NONE
    cluster.send(ConnectGroupHeartbeatRequest(group_id=GROUP, member_id="D", member_epoch=-1))
    described = describe(cluster)
    assert (described.group_state, described.chosen) == ("Assigning", None)


@pytest.mark.parametrize(("sticky", "expected"), [(True, "W2"), (False, "W1")])
def test_item_70_stickiness(sticky: bool, expected: str) -> None:
    """Open in the draft, so a switch: the worker that assigned last goes on, also on a new coordinator."""
    cluster = DraftCluster(DraftSettings(sticky_assignor_worker=sticky))
    cluster.start(DraftWorker("W2", DeclarativeAssignor(), CONFIG))
    cluster.settle()
    cluster.fail_over()
    cluster.send(join("W1"))
    assert describe(cluster).chosen == expected


def test_assignment_must_be_done_within_the_rebalance_timeout() -> None:
    """The draft gives no consequence; another worker is chosen, the slow one stays and is not asked again."""
    cluster = cluster_of("W1", "W2")
    cluster.send(join("W3"))
    assert beat(cluster, "W1").error_code is DraftErrorCode.COMPUTE_ASSIGNMENT
    for _ in range(12):
        cluster.advance(5_000)
        beat(cluster, "W1")
        beat(cluster, "W2")
    described = describe(cluster)
    assert described.chosen == "W2"
    assert "W1" in [m.member_id for m in described.members]


# assignments -------------------------------------------------------------------------------------------------------


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
UNKNOWN = ConnectorsAndTasks.of(["Z"])


@pytest.mark.parametrize(
    "work",
    [
        {"W1": ALL.minus(A0)},
        {"W1": ALL, "W2": A0},
        {"W1": ALL, "W9": NOTHING},
        {"W1": ALL.plus(UNKNOWN)},
    ],
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
    """A worker and a connector that appeared meanwhile don't make an assignment invalid; one that left doesn't either."""
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
    response = cluster.heartbeat("W1")
    assert response is not None
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


# requests ----------------------------------------------------------------------------------------------------------


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
    response = cluster.heartbeat("W1")
    assert response is not None
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
    response = cluster.heartbeat("W2")
    assert response is not None
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, 3)
    cluster.heartbeat("W2")
    assert (cluster.workers["W2"].epoch, cluster.workers["W2"].owned) == (4, owned)


def test_item_80_a_worker_gives_up_before_it_is_kicked() -> None:
    """Told to stop by the second answer only, it counts from the first request, which started the coordinator's timer."""
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
    response = cluster.heartbeat("W2")
    assert response is not None
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
    response = cluster.heartbeat("W2")
    assert response is not None
    assert response.error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert worker.listener[-1] == ("revoked", owned)
    assert (worker.owned, worker.epoch, worker.member_id) == (NOTHING, 0, "W2")
    cluster.settle()
    assert describe(cluster).group_state == "Stable"
    assert worker.owned


def test_item_73_listener_hears_revocation_before_assignment() -> None:
    """A worker that both loses and gets work is told to stop first; only after the acknowledgement it gets more."""
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
            group_id=request.group_id,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            group_epoch=3,
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


def test_item_77_only_the_chosen_worker_is_told_to_compute() -> None:
    """COMPUTE_ASSIGNMENT goes to one worker, again and again until the assignment is there."""
    cluster = cluster_of("W1", "W2")
    cluster.send(join("W3"))
    assert beat(cluster, "W2").error_code is ErrorCode.NONE
    assert beat(cluster, "W1").error_code is DraftErrorCode.COMPUTE_ASSIGNMENT
    assert beat(cluster, "W1").error_code is DraftErrorCode.COMPUTE_ASSIGNMENT
    cluster.compute("W1")
    assert beat(cluster, "W1").error_code is ErrorCode.NONE
    assert not {e.value for e in DraftErrorCode} & {e.value for e in ErrorCode}


# records -----------------------------------------------------------------------------------------------------------

texts = st.text(max_size=6)
int32 = st.integers(-(2**31), 2**31 - 1)
int16 = st.integers(-(2**15), 2**15 - 1)
int8 = st.integers(-128, 127)
works = st.builds(
    ConnectorsAndTasks.of, st.lists(texts, max_size=3), st.lists(st.builds(ConnectorTaskId, texts, int32), max_size=4)
)
assignors = st.builds(Assignor, texts, int16, int16, int8, int16, st.binary(max_size=200))
owners = st.tuples(texts, works)
VALUES: dict[DraftRecordType, st.SearchStrategy[Value]] = {
    DraftRecordType.GROUP_METADATA: st.builds(GroupMetadata, int32, texts),
    DraftRecordType.CONNECTORS_TASKS_METADATA: st.builds(ConnectorsTasksMetadata, int32, works, st.integers(-1, 9)),
    DraftRecordType.MEMBER_METADATA: st.builds(
        MemberMetadata,
        int32,
        st.none() | texts,
        texts,
        texts,
        int32,
        st.lists(assignors, max_size=2).map(tuple),
        st.none()
        | st.builds(ClassicWorker, int32, st.lists(st.tuples(texts, st.binary(max_size=5)), max_size=2).map(tuple)),
    ),
    DraftRecordType.TARGET_ASSIGNMENT: st.builds(
        TargetAssignment,
        int32,
        int8,
        st.lists(st.builds(TargetMember, texts, int8, works, int16, st.binary(max_size=5)), max_size=3).map(tuple),
        st.lists(owners, max_size=2).map(tuple),
    ),
    DraftRecordType.CURRENT_MEMBER_ASSIGNMENT: st.builds(
        CurrentMemberAssignment, int32, int32, int8, works, works, int16, st.binary(max_size=5)
    ),
    DraftRecordType.GROUP_CONFIGURATION: st.builds(
        GroupConfiguration, st.lists(st.tuples(texts, texts), max_size=2).map(tuple)
    ),
}


@given(st.data(), st.sampled_from(DraftRecordType))
def test_item_83_records_round_trip(data: st.DataObject, record_type: DraftRecordType) -> None:
    """Every record type comes back from its bytes; a tombstone has none."""
    member_key = record_type in (DraftRecordType.MEMBER_METADATA, DraftRecordType.CURRENT_MEMBER_ASSIGNMENT)
    record = DraftRecord(record_type, ("g", "W1") if member_key else ("g",), data.draw(VALUES[record_type]))
    assert record.value is not None
    assert decode_record(encode_key(record_type, record.key), encode_value(record.value)) == record
    assert decode_record(encode_key(record_type, record.key), None) == replace(record, value=None)


def test_item_83_bytes() -> None:
    """Key version and plain strings in the key; value version, big-endian fields, compact strings and tags in the value."""
    assert encode_key(DraftRecordType.CURRENT_MEMBER_ASSIGNMENT, ("g", "W1")).hex(" ") == "00 07 00 01 67 00 02 57 31"
    assert encode_value(GroupMetadata(5, "W1")).hex(" ") == "00 00 00 00 00 05 03 57 31 00"
    assert [t.value for t in DraftRecordType] == [3, 4, 5, 6, 7, 8]


def test_item_83_only_what_changed_is_written() -> None:
    """X + 2 records make a group of X workers, and one more for what each runs; later only what changed is written."""
    cluster = DraftCluster()
    cluster.send(join("W1"))
    assert [r.record_type for r in cluster.log] == [
        DraftRecordType.MEMBER_METADATA,
        DraftRecordType.CONNECTORS_TASKS_METADATA,
        DraftRecordType.GROUP_METADATA,
        DraftRecordType.CURRENT_MEMBER_ASSIGNMENT,
    ]
    cluster = cluster_of("W1", "W2")
    before = len(cluster.log)
    beat(cluster, "W1")
    assert len(cluster.log) == before
    beat(cluster, "W2", member_epoch=-1)
    assert [(r.record_type, r.key, r.value is None) for r in cluster.log[before:]] == [
        (DraftRecordType.CURRENT_MEMBER_ASSIGNMENT, (GROUP, "W2"), True),
        (DraftRecordType.MEMBER_METADATA, (GROUP, "W2"), True),
        (DraftRecordType.GROUP_METADATA, (GROUP,), False),
    ]


def test_item_83_group_configuration() -> None:
    """Key 8: a group's own session timeout; it holds from the next heartbeat on, and across coordinators."""
    cluster = cluster_of("W1", "W2")
    config = AlterConnectGroupConfigRequest(group_id=GROUP, configs=(("connect.session.timeout.ms", "10000"),))
    assert code(cluster, config) is ErrorCode.NONE
    for bad in (("connect.session.timeout.ms", "soon"), ("session.timeout.ms", "1")):
        assert code(cluster, replace(config, configs=(bad,))) is ErrorCode.INVALID_CONFIG
    cluster.advance(11_000)
    assert len(describe(cluster).members) == 2
    beat(cluster, "W1")
    beat(cluster, "W2")
    cluster.fail_over()
    cluster.advance(9_999)
    assert len(describe(cluster).members) == 2
    cluster.advance(1)
    assert describe(cluster).group_state == "Empty"


def test_item_84_assignors_plug_in() -> None:
    """Eager, today's incremental cooperative and the draft's own serve the same interface and assign everything once."""
    for make in (EagerDraftAssignor, TodaysAssignor, DeclarativeAssignor):
        cluster = DraftCluster()
        for name in ("W1", "W2", "W3"):
            cluster.start(DraftWorker(name, make(), CONFIG))
            cluster.settle()
        running = cluster.running()
        assert ConnectorsAndTasks.union(running.values()).same_as(ALL)
        assert sum(len(work) for work in running.values()) == len(ALL)
        assert describe(cluster).assignor_name == make().name


# static workers: our extension -------------------------------------------------------------------------------------


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
        response = cluster.send(request)
        assert isinstance(response, ConnectGroupHeartbeatResponse)
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
