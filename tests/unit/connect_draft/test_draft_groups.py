"""The draft's groups, members, epochs and assignors rule by rule; items refer to the list of its mechanisms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from connect_draft import DraftErrorCode, DraftSettings
from connect_draft.broker.selection import able_workers, fits_together, select_assignor
from connect_draft.messages import ConnectGroupHeartbeatRequest
from connect_draft.records import Assignor
from connect_draft.workers.assignors import DeclarativeAssignor
from connect_draft.workers.cluster import DraftCluster
from connect_draft.workers.worker import DraftWorker
from coordinator_model.base.errors import ErrorCode
from coordinator_model.connect.work import ClusterConfig, ConnectorTaskId

from .draft_bench import (
    CONFIG,
    GROUP,
    beat,
    changed_config,
    cluster_of,
    code,
    describe,
    join,
    member,
    offer,
    prepared_by,
)

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
    """Phase 1 is capped by rebalance.timeout.ms, in full again on a new coordinator; others get the work after it."""
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


# assignors and their workers ---------------------------------------------------------------------------------------


def test_item_68_assignor_is_common_and_preferred() -> None:
    """Only what all support counts; the order of preference decides."""
    both = (offer(), offer(0, 0, "eager"))
    assert select_assignor({"a": both, "b": both}) == "cooperative"
    assert select_assignor({"a": both, "b": (offer(0, 0, "eager"),)}) == "eager"
    assert select_assignor({"a": both[::-1], "b": both[::-1], "c": both}) == "eager"
    assert select_assignor({"a": (offer(),), "b": (offer(0, 0, "eager"),)}) is None


@pytest.mark.parametrize(
    ("assignors", "server"),
    [((offer(0, 0, "eager"),), None), ((offer(3, 4),), None), ((), "uniform")],
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


def test_item_69_no_worker_covers_all_versions() -> None:
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
