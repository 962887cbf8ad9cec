"""The Connect model's own parts: wire forms, protocol selection, worker steps, the cluster in virtual time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_model.connect.cluster import ConnectCluster, select_protocol
from coordinator_model.connect.eager import assign_eagerly
from coordinator_model.connect.incremental import IncrementalCooperativeAssignor, Round, successive_revocation_delay_ms
from coordinator_model.connect.protocol import (
    Assignment,
    AssignmentError,
    ConnectProtocolCompatibility,
    SchemaError,
    WorkerState,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from coordinator_model.connect.work import ClusterConfig, ConnectorsAndTasks, ConnectorTaskId

EAGER, COMPATIBLE, SESSIONED = ConnectProtocolCompatibility

names = st.text(min_size=1, max_size=8)
works = st.builds(
    ConnectorsAndTasks.of,
    st.lists(names, max_size=4),
    st.lists(st.builds(ConnectorTaskId, names, st.integers(0, 2**31 - 1)), max_size=6),
)
assignments = st.builds(
    Assignment, version=st.sampled_from([1, 2]), error=st.sampled_from(AssignmentError), leader=names, leader_url=names,
    config_offset=st.integers(-1, 2**63 - 1), assigned=works, revoked=works, delay_ms=st.integers(0, 2**31 - 1),
)


def test_assignment_bytes_of_version_2() -> None:
    """The schema ASSIGNMENT_V1 of IncrementalCooperativeConnectProtocol, byte by byte; -1 is the connector itself."""
    data = encode_assignment(
        Assignment(
            version=2,
            error=AssignmentError.NO_ERROR,
            leader="L",
            leader_url="u",
            config_offset=7,
            assigned=ConnectorsAndTasks.of(["c"], [ConnectorTaskId("c", 0)]),
            revoked=ConnectorsAndTasks.of([], [ConnectorTaskId("d", 3)]),
            delay_ms=300_000,
        )
    )
    assert data.hex(" ") == (
        "00 02 00 00 00 01 4c 00 01 75 00 00 00 00 00 00 00 07 "
        "00 00 00 01 00 01 63 00 00 00 02 ff ff ff ff 00 00 00 00 "
        "00 00 00 01 00 01 64 00 00 00 01 00 00 00 03 00 04 93 e0"
    )


def test_metadata_bytes() -> None:
    """CONFIG_STATE and ALLOCATION_V1: the eager form ends after the offset, the others say null with length -1."""
    state = WorkerState("u", 7)
    assert encode_metadata(state, EAGER).hex(" ") == "00 00 00 01 75 00 00 00 00 00 00 00 07"
    assert encode_metadata(state, SESSIONED).hex(" ") == "00 02 00 01 75 00 00 00 00 00 00 00 07 ff ff ff ff"


def _same(left: ConnectorsAndTasks, right: ConnectorsAndTasks) -> bool:
    return left.same_as(right)


@given(assignments)
def test_assignment_round_trip(assignment: Assignment) -> None:
    """Everything survives; tasks come back grouped by connector, as ExtendedAssignment.asMap writes them."""
    back = decode_assignment(encode_assignment(assignment))
    assert _same(back.assigned, assignment.assigned)
    assert _same(back.revoked, assignment.revoked)
    for name in ("version", "error", "leader", "leader_url", "config_offset", "delay_ms"):
        assert getattr(back, name) == getattr(assignment, name)
    assert encode_assignment(back) == encode_assignment(assignment)


@given(assignments | st.none(), st.sampled_from([COMPATIBLE, SESSIONED]))
def test_metadata_round_trip(allocation: Assignment | None, mode: ConnectProtocolCompatibility) -> None:
    """A worker's state comes back with its allocation or without."""
    back = decode_metadata(encode_metadata(WorkerState("http://w1", 12, allocation), mode))
    assert (back.url, back.config_offset) == ("http://w1", 12)
    assert (back.allocation is None) == (allocation is None)
    if allocation is not None and back.allocation is not None:
        assert _same(back.allocation.assigned, allocation.assigned)


@given(assignments, st.data())
def test_cut_bytes_are_refused(assignment: Assignment, data: st.DataObject) -> None:
    """Bytes that end inside a field are no assignment (SchemaException)."""
    whole = encode_assignment(assignment)
    with pytest.raises(SchemaError):
        decode_assignment(whole[: data.draw(st.integers(0, 8))])


def test_missing_end_has_defaults() -> None:
    """An eager assignment read by the incremental schema has no revocations and no delay (TOLERATE_MISSING_FIELDS…)."""
    work = ConnectorsAndTasks.of(["c"])
    assignment = Assignment(0, AssignmentError.NO_ERROR, "L", "u", 7, work, revoked=work, delay_ms=9)
    assert decode_assignment(encode_assignment(assignment)) == Assignment(
        0, AssignmentError.NO_ERROR, "L", "u", 7, work
    )
    with pytest.raises(SchemaError):
        decode_assignment(b"\xff\xff" + encode_assignment(assignment)[2:])


def test_offered_protocols() -> None:
    """metadataRequest: each mode also offers the older ones, newest first."""
    assert EAGER.offered() == (EAGER,)
    assert COMPATIBLE.offered() == (COMPATIBLE, EAGER)
    assert SESSIONED.offered() == (SESSIONED, COMPATIBLE, EAGER)


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ([SESSIONED, SESSIONED], "sessioned"),
        ([SESSIONED, COMPATIBLE], "compatible"),
        ([SESSIONED, SESSIONED, EAGER], "default"),
    ],
)
def test_protocol_selection(modes: list[ConnectProtocolCompatibility], expected: str) -> None:
    """ClassicGroup.selectProtocol: one older worker takes the whole group to its protocol."""
    offers = {str(i): tuple(m.protocol for m in mode.offered()) for i, mode in enumerate(modes)}
    assert select_protocol(offers) == expected
    with pytest.raises(ValueError, match="no common"):
        select_protocol({"a": ("x",), "b": ("y",)})


def test_eager_assignment_deals_connectors_then_tasks() -> None:
    """EagerAssignor: one circle over the sorted members, connectors first, tasks after where it stopped."""
    outcome = assign_eagerly(ClusterConfig(1, {"b": 1, "a": 2}), ["w2", "w1"])
    assert outcome == {
        "w1": ConnectorsAndTasks.of(["a"], [ConnectorTaskId("a", 0), ConnectorTaskId("b", 0)]),
        "w2": ConnectorsAndTasks.of(["b"], [ConnectorTaskId("a", 1)]),
    }


def test_backoff_of_revoking_rounds() -> None:
    """ExponentialBackoff(1, 40, max, 0): 40, 1600, 64000, then the cap; nothing when delays are off."""
    assert [successive_revocation_delay_ms(n, 300_000) for n in (1, 2, 3, 4, 9)] == [40, 1600, 64_000, 300_000, 300_000]
    assert successive_revocation_delay_ms(1, 1) == 1
    assert successive_revocation_delay_ms(5, 0) == 0


@pytest.mark.parametrize(("last_completed", "delay_ms"), [(1, 300_000), (2, 0)])
def test_memory_of_an_older_generation_is_forgotten(last_completed: int, delay_ms: int) -> None:
    """performTaskAssignment: a leader that did not assign the last completed generation can't tell what was lost."""
    config = ClusterConfig(1, {"a": 2})
    assignor = IncrementalCooperativeAssignor(previous_generation_id=0)
    nothing = ConnectorsAndTasks()
    first = assignor.assign(Round(config, {"w1": nothing, "w2": nothing}, 0, 1), 0)
    outcome = assignor.assign(Round(config, {"w1": first.complete["w1"]}, last_completed, 3), 10)
    assert outcome.delay_ms == delay_ms
    assert bool(outcome.assigned["w1"]) is (delay_ms == 0)


def test_lost_revocations_make_the_reports_count() -> None:
    """performTaskAssignment: what a round assigned that never arrived is new, not lost, and waits for nobody."""
    assignor = IncrementalCooperativeAssignor(previous_generation_id=0)
    nothing = ConnectorsAndTasks()
    first = assignor.assign(Round(ClusterConfig(1, {"a": 4}), {"w1": nothing}, 0, 1), 0)
    more = ClusterConfig(2, {"a": 4, "b": 1})
    undelivered = assignor.assign(Round(more, {"w1": first.complete["w1"], "w2": nothing}, 1, 2), 0)
    assert undelivered.revoked["w1"]
    assert undelivered.assigned["w2"]
    outcome = assignor.assign(Round(more, {"w1": first.complete["w1"]}, 2, 3), 0)
    assert outcome.complete["w1"].same_as(more.configured())


def cluster_of(*workers: str, mode: ConnectProtocolCompatibility = SESSIONED) -> ConnectCluster:
    cluster = ConnectCluster(max_delay_ms=60_000, mode=mode)
    cluster.start(*workers)
    cluster.configure("a", 4)
    cluster.configure("b", 4)
    cluster.advance(1_000)
    return cluster


def test_killed_worker_is_noticed_when_its_session_ends() -> None:
    """Without a LeaveGroup the round and its delay start session.timeout.ms later."""
    cluster = cluster_of("w1", "w2")
    rounds = len(cluster.rounds)
    cluster.kill("w2")
    cluster.advance(9_999)
    assert len(cluster.rounds) == rounds
    cluster.advance(1)
    assert cluster.rounds[-1].delay_ms == 60_000
    cluster.advance(60_000)
    assert len(cluster.running()["w1"]) == 10


def test_eager_workers_stop_everything_in_every_round() -> None:
    """onJoinPrepare of the eager protocol: even a worker that keeps all its work stops it first."""
    cluster = cluster_of("w1", mode=EAGER)
    before = len(cluster.workers["w1"].revocations)
    running = cluster.running()["w1"]
    cluster.start("w2")
    assert cluster.workers["w1"].revocations[before:] == [running]


def test_cooperative_workers_stop_only_what_moves() -> None:
    """KIP-415: a new worker costs the others just what it gets."""
    cluster = cluster_of("w1")
    before = len(cluster.workers["w1"].revocations)
    cluster.start("w2")
    (stopped,) = cluster.workers["w1"].revocations[before:]
    assert stopped.same_as(cluster.running()["w2"])
    assert len(stopped) == 5


def test_leader_with_old_config_assigns_nothing() -> None:
    """ensureLeaderConfig: a leader behind a member says CONFIG_MISMATCH; having read on, the next round assigns."""
    cluster = cluster_of("w1", "w2")
    leader = cluster.workers["w1"]
    before = cluster.running()
    leader.config = ClusterConfig(1, {"a": 4})
    assignments = {
        member_id: decode_assignment(data)
        for member_id, data in leader.on_leader_elected(
            "sessioned", {w.member_id: dict(w.protocols())["sessioned"] for w in cluster.workers.values()}, 99, 0
        ).items()
    }
    assert {a.error for a in assignments.values()} == {AssignmentError.CONFIG_MISMATCH}
    assert {a.config_offset for a in assignments.values()} == {cluster.config.offset}
    cluster.start("w3")
    assert leader.config == cluster.config
    cluster.advance(1_000)
    assert {t.connector for work in cluster.running().values() for t in work.tasks} == {"a", "b"}
    assert all(cluster.running()[name].within(work) for name, work in before.items())


def test_a_leaders_death_moves_its_work_at_once() -> None:
    """The new leader's memory is empty: no delay, unlike for a follower (facts of K05 and K07 side by side)."""
    follower_left = cluster_of("w1", "w2", "w3")
    follower_left.stop("w3")
    assert follower_left.rounds[-1].delay_ms == 60_000
    leader_left = cluster_of("w1", "w2", "w3")
    leader_left.stop("w1")
    assert leader_left.rounds[-1].delay_ms == 0
    assert sum(len(work) for work in leader_left.running().values()) == 10


def test_returning_follower_gets_its_work_only_when_the_delay_ends() -> None:
    """Bounce of 20 s under a delay of 60 s: nothing moves, the work sleeps the whole 60 s."""
    cluster = cluster_of("w1", "w2", "w3")
    before = cluster.running()
    cluster.stop("w3")
    cluster.advance(20_000)
    cluster.start("w3")
    cluster.advance(39_999)
    assert not cluster.running()["w3"]
    cluster.advance(1)
    assert {n: w.sorted() for n, w in cluster.running().items()} == {n: w.sorted() for n, w in before.items()}
