"""The coordinator as a whole: dispatch by group type, access, offsets, reading groups, the log and reloading it."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conformance.classic_bench import BOTH, GROUP, RANGE, Bench
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberIdentity,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Request,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from coordinator_model.base.records import RecordType
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.classic.group import ClassicGroup
from coordinator_model.classic.member import GroupMetadata
from coordinator_model.coordinator import TIMER_RETRY_MS, GroupCoordinator
from coordinator_model.share.messages import ShareGroupHeartbeatRequest
from coordinator_model.streams.messages import StreamsGroupHeartbeatRequest, Subtopology, Topology

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID


@pytest.fixture
def bench() -> Bench:
    return Bench()


def fetch(bench: Bench, *partitions: tuple[str, int]) -> tuple[tuple[str, int, int], ...]:
    answer = bench.send(OffsetFetchRequest(group_id=GROUP, partitions=partitions or None)).response
    assert isinstance(answer, OffsetFetchResponse)
    assert answer.error_code is NONE
    return answer.offsets


def commit(bench: Bench, member_id: str, instance_id: str | None, generation_id: int, version: int = 10) -> ErrorCode:
    request = OffsetCommitRequest(
        api_version=version,
        group_id=GROUP,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=instance_id,
        offsets=(("t", 0, 42),),
    )
    answer = bench.send(request).response
    assert isinstance(answer, OffsetCommitResponse)
    assert answer.results == (("t", 0, answer.error_code),)
    return answer.error_code


# offsets --------------------------------------------------------------------------------------------------------------


def test_member_commits_and_anybody_fetches(bench: Bench) -> None:
    """OffsetMetadataManagerTest.testGenericGroupOffsetCommit…."""
    (m1,) = bench.stable("x")
    assert commit(bench, m1, "x", 1) is NONE
    assert fetch(bench) == (("t", 0, 42),)
    assert fetch(bench, ("t", 0), ("t", 1)) == (("t", 0, 42), ("t", 1, -1))
    bench.fail_over()
    assert fetch(bench) == (("t", 0, 42),)


def test_commit_of_a_replaced_member_is_fenced(bench: Bench) -> None:
    """OffsetMetadataManagerTest: …WithFencedInstanceId; before version 7 the instance id is not on the wire."""
    (m1,) = bench.stable("x")
    new = bench.bounce("x")
    assert commit(bench, m1, "x", 1) is ErrorCode.FENCED_INSTANCE_ID
    assert commit(bench, m1, "x", 1, version=6) is UNKNOWN
    assert commit(bench, new, "x", 2) is ErrorCode.ILLEGAL_GENERATION
    assert commit(bench, new, None, 1) is NONE
    assert fetch(bench) == (("t", 0, 42),)


def test_commit_without_a_generation(bench: Bench) -> None:
    """OffsetMetadataManagerTest.testSimpleGroupOffsetCommit…: only while nobody is a member."""
    assert commit(bench, "", None, -1) is NONE
    assert bench.group.is_simple
    bench.fail_over()
    assert bench.group.is_simple, "a group of offsets alone is found again"
    bench.advance(0)
    bench.join("x")
    assert commit(bench, "", None, -1) is UNKNOWN


def test_commit_to_an_absent_group(bench: Bench) -> None:
    """OffsetMetadataManagerTest.testOffsetCommitWithUnknownGroup: the error changed with version 9."""
    assert commit(bench, "m", None, 1, version=8) is ErrorCode.ILLEGAL_GENERATION
    assert commit(bench, "m", None, 1, version=9) is ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.coordinator.groups == {}


def test_commit_counts_as_a_heartbeat(bench: Bench) -> None:
    """OffsetMetadataManagerTest.testGenericGroupOffsetCommitMaintainsSession."""
    (m1,) = bench.stable("x", session_timeout_ms=6_000)
    for _ in range(3):
        bench.advance(5_999)
        assert commit(bench, m1, "x", 1) is NONE
    bench.advance(6_000)
    assert bench.group.members == {}


def test_commit_while_the_rebalance_completes(bench: Bench) -> None:
    """ClassicGroup.validateOffsetCommit."""
    answer = bench.join("x")
    bench.advance(3_000)
    assert commit(bench, answer.joined.member_id, "x", 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_transactional_offsets_count_when_the_transaction_ends(bench: Bench) -> None:
    """OffsetMetadataManagerTest.testConsumerGroupTransactionalOffsetCommit and testCompleteTransaction…."""
    (m1,) = bench.stable("x")

    def txn(member_id: str, instance_id: str | None, generation_id: int, producer_id: int, offset: int) -> ErrorCode:
        request = TxnOffsetCommitRequest(
            group_id=GROUP,
            producer_id=producer_id,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
            offsets=(("t", producer_id, offset),),
        )
        return bench.send(request).error

    assert txn(m1, "x", 1, 1, 10) is NONE
    assert txn("", None, -1, 2, 20) is NONE
    assert txn("made-up", "x", 1, 3, 30) is ErrorCode.FENCED_INSTANCE_ID
    assert txn(m1, "x", 2, 3, 30) is ErrorCode.ILLEGAL_GENERATION
    assert fetch(bench) == ()
    bench.log += bench.coordinator.end_transaction(1, 0, committed=True).records
    bench.log += bench.coordinator.end_transaction(2, 0, committed=False).records
    assert fetch(bench) == (("t", 1, 10),)
    bench.fail_over()
    assert fetch(bench) == (("t", 1, 10),)


# reading and deleting groups ------------------------------------------------------------------------------------------


def test_describe_a_stable_and_a_rebalancing_group(bench: Bench) -> None:
    """GMMT.testDescribeGroupStable and testDescribeGroupRebalancing: metadata only while stable."""
    m1, m2 = bench.stable("x", "y", protocols=BOTH)

    def described(version: int = 6) -> DescribeGroupsResponse:
        answer = bench.send(DescribeGroupsRequest(api_version=version, groups=(GROUP,))).response
        assert isinstance(answer, DescribeGroupsResponse)
        return answer

    (group,) = described().groups
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert [(m.member_id, m.group_instance_id, m.client_id, m.client_host) for m in group.members] == [
        (m1, "x", "client", "/127.0.0.1"),
        (m2, "y", "client", "/127.0.0.1"),
    ]
    assert [m.member_metadata for m in group.members] == [b"topics", b"topics"]
    assert group.members[1].member_assignment == f"assigned-{m2}".encode()
    assert [m.group_instance_id for m in described(3).groups[0].members] == [None, None]
    bench.join("x", m1, protocols=BOTH)
    (group,) = described().groups
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [m.member_metadata for m in group.members] == [b"", b""]
    assert group.members[1].member_assignment == f"assigned-{m2}".encode()


@pytest.mark.parametrize(("version", "error"), [(5, NONE), (6, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_describe_an_absent_group(bench: Bench, version: int, error: ErrorCode) -> None:
    """GMMT.testDescribeGroupsGroupIdNotFoundException and …BeforeV6… (KIP-1043)."""
    answer = bench.send(DescribeGroupsRequest(api_version=version, groups=("nowhere",))).response
    assert isinstance(answer, DescribeGroupsResponse)
    (group,) = answer.groups
    assert (group.group_state, group.error_code) == ("Dead", error)


def test_list_groups_by_state_and_type(bench: Bench) -> None:
    """GMMT.testListGroups: filters ignore case."""
    bench.stable("x")
    bench.send(JoinGroupRequest(group_id="other", group_instance_id="x", protocol_type="connect"))
    join_consumer_group(bench, "modern")

    def listed(**filters: tuple[str, ...]) -> dict[str, tuple[str, str, str]]:
        answer = bench.send(ListGroupsRequest(**filters)).response  # type: ignore[arg-type]
        assert isinstance(answer, ListGroupsResponse)
        return {g.group_id: (g.protocol_type, g.group_state, g.group_type) for g in answer.groups}

    assert listed() == {
        GROUP: ("consumer", "Stable", "Classic"),
        "other": ("connect", "PreparingRebalance", "Classic"),
        "modern": ("consumer", "Stable", "Consumer"),
    }
    assert set(listed(states_filter=("sTaBlE",))) == {GROUP, "modern"}
    assert set(listed(types_filter=("classic",))) == {GROUP, "other"}
    assert set(listed(types_filter=("Consumer",), states_filter=("Empty",))) == set()


def join_consumer_group(bench: Bench, group_id: str, member_id: str = "m") -> None:
    answer = bench.send(
        ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            rebalance_timeout_ms=5_000,
            subscribed_topic_names=("t",),
            topic_partitions=(),
        )
    ).response
    assert isinstance(answer, ConsumerGroupHeartbeatResponse)
    assert answer.error_code is NONE, answer.error_message


def test_delete_groups(bench: Bench) -> None:
    """GroupCoordinatorShardTest.testDeleteGroups; GMMT.testClassicGroupDelete: offsets go first, then the group."""
    (m1,) = bench.stable("x")
    commit(bench, m1, "x", 1)
    bench.join()

    def delete(*group_ids: str) -> list[ErrorCode]:
        answer = bench.send(DeleteGroupsRequest(group_ids=group_ids)).response
        assert isinstance(answer, DeleteGroupsResponse)
        return [error for _, error in answer.results]

    assert delete(GROUP, "nowhere") == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
    bench.leave((m1, "x"))
    bench.advance(10_000)
    logged = len(bench.log)
    assert delete(GROUP) == [NONE]
    assert [(r.record_type, r.value) for r in bench.log[logged:]] == [
        (RecordType.OFFSET_COMMIT, None),
        (RecordType.CLASSIC_GROUP_METADATA, None),
    ]
    assert (bench.coordinator.groups, bench.coordinator.offsets, len(bench.coordinator.timers)) == ({}, {}, 0)
    bench.fail_over()
    assert bench.coordinator.groups == {}


def test_find_coordinator(bench: Bench) -> None:
    answer = bench.send(FindCoordinatorRequest(keys=("a", "b"))).response
    assert isinstance(answer, FindCoordinatorResponse)
    assert [(c.key, c.node_id, c.host, c.port, c.error_code) for c in answer.coordinators] == [
        ("a", 1, "127.0.0.1", 9092, NONE),
        ("b", 1, "127.0.0.1", 9092, NONE),
    ]


# access ---------------------------------------------------------------------------------------------------------------

ONE_GROUP: list[tuple[Request, str]] = [
    (JoinGroupRequest(group_id=GROUP, group_instance_id="x"), "READ"),
    (SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="m"), "READ"),
    (HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m"), "READ"),
    (LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id="m"),)), "READ"),
    (OffsetCommitRequest(group_id=GROUP, offsets=(("t", 0, 1),)), "READ"),
    (TxnOffsetCommitRequest(group_id=GROUP, offsets=(("t", 0, 1),)), "READ"),
    (OffsetFetchRequest(group_id=GROUP), "DESCRIBE"),
    (ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m"), "READ"),
]


@pytest.mark.parametrize(
    ("request_", "operation"), ONE_GROUP, ids=lambda v: v if isinstance(v, str) else type(v).__name__
)
def test_access_to_one_group(request_: Request, operation: str) -> None:
    """KafkaApis: which access each request needs; a refusal changes nothing."""
    bench = Bench(BrokerSettings(is_denied=lambda principal, asked, group: (asked, group) == (operation, GROUP)))
    assert bench.send(request_).error is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert (bench.coordinator.groups, bench.log) == ({}, [])
    other = Bench(BrokerSettings(is_denied=lambda principal, asked, group: asked != operation))
    answer = other.send(request_)
    assert answer.waits or answer.error is not ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_access_to_many_groups() -> None:
    """KafkaApis: denied groups are errors of their own, and are missing from a listing."""
    bench = Bench(BrokerSettings(is_denied=lambda principal, asked, group: (principal, group) == ("User:m", GROUP)))
    bench.stable("x")
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    described = bench.send(DescribeGroupsRequest(groups=(GROUP,), principal="User:m")).response
    assert isinstance(described, DescribeGroupsResponse)
    assert [g.error_code for g in described.groups] == [denied]
    deleted = bench.send(DeleteGroupsRequest(group_ids=(GROUP,), principal="User:m")).response
    assert isinstance(deleted, DeleteGroupsResponse)
    assert deleted.results == ((GROUP, denied),)
    listed = bench.send(ListGroupsRequest(principal="User:m")).response
    assert isinstance(listed, ListGroupsResponse)
    assert listed.groups == ()
    found = bench.send(FindCoordinatorRequest(keys=(GROUP,), principal="User:m")).response
    assert isinstance(found, FindCoordinatorResponse)
    assert [(c.node_id, c.error_code) for c in found.coordinators] == [(-1, denied)]


# group types ----------------------------------------------------------------------------------------------------------


def test_empty_consumer_group_becomes_classic(bench: Bench) -> None:
    """GMMT.testJoinGroupToEmptyConsumerGroup…: its tombstones, then the new group's empty record."""
    join_consumer_group(bench, GROUP)
    leave = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=-1)
    assert bench.send(leave).error is NONE
    bench.coordinator.timers.arm(("consumer-session", GROUP, "m"), 1_000_000)
    logged = len(bench.log)
    answer = bench.join("x")
    assert answer.waits
    assert [r.value for r in bench.log[logged:-1]] == [None] * (len(bench.log) - logged - 1)
    assert bench.log[-1].value == GroupMetadata("", 0, None, None, 0)
    assert bench.coordinator.timers.of_group(GROUP) == (
        ("classic-session", GROUP, "x-00000001"),
        ("classic-join", GROUP),
    )
    bench.advance(3_000)
    assert answer.joined.generation_id == 1
    bench.fail_over()
    assert isinstance(bench.coordinator.groups[GROUP], ClassicGroup)


def test_empty_consumer_group_stays_when_its_conversion_is_not_stored(bench: Bench) -> None:
    join_consumer_group(bench, GROUP)
    bench.send(ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=-1))
    bench.coordinator.write_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.join("x").error is ErrorCode.NOT_COORDINATOR
    assert bench.coordinator.groups[GROUP].group_type == "consumer"


def test_empty_classic_group_becomes_a_consumer_group(bench: Bench) -> None:
    """GMM.maybeDeleteEmptyClassicGroup."""
    (m1,) = bench.stable("x")
    bench.leave((m1, "x"))
    join_consumer_group(bench, GROUP)
    assert bench.coordinator.groups[GROUP].group_type == "consumer"
    bench.fail_over()
    assert bench.coordinator.groups[GROUP].group_type == "consumer"


def test_classic_requests_on_a_share_group(bench: Bench) -> None:
    """GMM.classicGroupJoin, …Sync, …Heartbeat, …Leave: types without a classic protocol."""
    request = ShareGroupHeartbeatRequest(group_id=GROUP, member_id="m", subscribed_topic_names=("t",))
    assert bench.send(request).error is NONE
    assert bench.join("x").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.send(SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="m")).error is UNKNOWN
    assert bench.send(HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")).error is UNKNOWN
    assert bench.leave(("m", None)) == [UNKNOWN]
    assert bench.send(OffsetCommitRequest(group_id=GROUP, offsets=(("t", 0, 1),))).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert fetch(bench, ("t", 0)) == (("t", 0, -1),)


# the log --------------------------------------------------------------------------------------------------------------


def join_streams_group(bench: Bench) -> None:
    bench.coordinator.image = TopicImage({"t": 1})
    joined = StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m",
        process_id="p",
        rebalance_timeout_ms=1_000,
        topology=Topology(0, (Subtopology("s", ("t",)),)),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
    )
    assert bench.send(joined).error is NONE


def test_streams_group_becomes_classic_only_when_it_is_empty(bench: Bench) -> None:
    """GMM.classicGroupJoin: INCONSISTENT_GROUP_PROTOCOL while it has members."""
    join_streams_group(bench)
    assert bench.join("x").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.send(StreamsGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=-1)).error is NONE
    assert bench.join("x").waits
    bench.fail_over()
    assert isinstance(bench.coordinator.groups[GROUP], ClassicGroup)


def test_known_member_id_finds_nobody_in_an_empty_consumer_group(bench: Bench) -> None:
    """GMM.classicGroupJoinToClassicGroup: the group is forgotten, but its tombstones are not written."""
    join_consumer_group(bench, GROUP)
    bench.send(ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=-1))
    logged = len(bench.log)
    assert bench.join("x", "made-up").error is UNKNOWN
    assert (GROUP in bench.coordinator.groups, len(bench.log)) == (False, logged)
    bench.fail_over()
    assert bench.coordinator.groups[GROUP].group_type == "consumer"


def test_streams_group_fences_commits(bench: Bench) -> None:
    """StreamsGroup.validateOffsetCommit and validateOffsetFetch."""
    join_streams_group(bench)
    epoch = bench.coordinator.groups[GROUP].members["m"].current.member_epoch
    assert commit(bench, "m", None, epoch) is NONE
    assert commit(bench, "m", None, epoch, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert commit(bench, "n", None, epoch) is UNKNOWN
    assert commit(bench, "m", None, epoch + 1) is ErrorCode.STALE_MEMBER_EPOCH
    txn = TxnOffsetCommitRequest(group_id=GROUP, generation_id=epoch + 1, member_id="m", offsets=(("t", 0, 1),))
    assert bench.send(txn).error is ErrorCode.ILLEGAL_GENERATION, "the only error that older versions know"
    assert bench.send(replace(txn, api_version=6)).error is ErrorCode.STALE_MEMBER_EPOCH
    absent = replace(txn, group_id="nowhere")
    assert bench.send(absent).error is ErrorCode.ILLEGAL_GENERATION
    assert bench.send(replace(absent, api_version=6)).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert bench.send(TxnOffsetCommitRequest(group_id=GROUP, offsets=(("t", 0, 1),))).error is NONE
    assert fetch(bench) == (("t", 0, 42),)
    stale = OffsetFetchRequest(group_id=GROUP, member_id="m", member_epoch=epoch + 1)
    assert bench.send(stale).error is ErrorCode.STALE_MEMBER_EPOCH


def test_refused_append_undoes_the_step_of_a_consumer_group(bench: Bench) -> None:
    """CoordinatorRuntime: state made of records goes back to what the log has."""
    join_consumer_group(bench, GROUP)
    before = len(bench.log)
    bench.coordinator.write_error = ErrorCode.NOT_ENOUGH_REPLICAS
    joiner = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="n", rebalance_timeout_ms=5_000, subscribed_topic_names=("t",), topic_partitions=()
    )
    assert bench.send(joiner).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(bench.coordinator.groups[GROUP].members) == ["m"]
    assert commit_to(bench, "loner") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "loner" not in bench.coordinator.groups
    assert len(bench.log) == before
    bench.coordinator.write_error = None
    assert bench.send(joiner).error is NONE


def commit_to(bench: Bench, group_id: str) -> ErrorCode:
    return bench.send(OffsetCommitRequest(group_id=group_id, offsets=(("t", 0, 1),))).error


def test_expiry_that_is_not_stored_is_tried_again(bench: Bench) -> None:
    """CoordinatorTimerImpl: modern groups' timers retry after 500 ms; classic ones do not need the log."""
    join_consumer_group(bench, GROUP)
    bench.coordinator.write_error = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.advance(45_000)
    assert list(bench.coordinator.groups[GROUP].members) == ["m"]
    bench.coordinator.write_error = None
    bench.advance(TIMER_RETRY_MS - 1)
    assert list(bench.coordinator.groups[GROUP].members) == ["m"]
    bench.advance(1)
    assert bench.coordinator.groups[GROUP].is_empty


def test_leave_that_is_not_stored_has_ended_the_session(bench: Bench) -> None:
    """GMM.cancelTimers: called while the records are made, and a failed append brings back records, not timers."""
    join_consumer_group(bench, GROUP)
    bench.coordinator.write_error = ErrorCode.NOT_ENOUGH_REPLICAS
    leave = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id="m"),))
    assert bench.send(leave).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.coordinator.write_error = None
    bench.advance(1_000_000)
    assert list(bench.coordinator.groups[GROUP].members) == ["m"]
    assert bench.send(leave).error is NONE
    assert bench.coordinator.groups[GROUP].is_empty


def test_classic_expiry_does_not_wait_for_the_log(bench: Bench) -> None:
    """GMM.completeClassicGroupJoin: the failed empty record is only warned about."""
    bench.stable("x", session_timeout_ms=6_000)
    logged = len(bench.log)
    bench.coordinator.write_error = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.advance(6_000)
    assert (bench.group.state, len(bench.log)) == ("Empty", logged)


def test_default_ids_repeat_and_given_ones_are_used() -> None:
    request = JoinGroupRequest(group_id=GROUP, group_instance_id="x")
    for _ in range(2):
        coordinator = GroupCoordinator()
        coordinator.handle(request, 0)
        assert list(coordinator.groups[GROUP].members) == ["x-00000001"]
    coordinator = GroupCoordinator(new_uuid=lambda: "abc", image=TopicImage({"t": 1}))
    coordinator.handle(request, 0)
    assert list(coordinator.groups[GROUP].members) == ["x-abc"]


def test_timers_fire_at_their_own_deadlines(bench: Bench) -> None:
    """However late `expire` is called, time in between is not lost: the delay is over at 3 s, the session at 9 s."""
    bench.join("x", session_timeout_ms=6_000, rebalance_timeout_ms=60_000)
    bench.advance(1_000_000)
    assert isinstance(bench.log[-1].value, GroupMetadata)
    assert bench.log[-1].value.current_state_timestamp_ms == 9_000
    assert bench.group.generation_id == 2


# histories ------------------------------------------------------------------------------------------------------------

Move = tuple[str, int, int]
MOVES = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "join",
                "rejoin",
                "sync",
                "round",
                "round",
                "round",
                "heartbeat",
                "leave",
                "commit",
                "advance",
                "fail over",
                "refuse",
            ]
        ),
        st.integers(0, 3),
        st.sampled_from([0, 1, 2_000, 7_000]),
    ),
    min_size=10,
    max_size=40,
)
SIZES = st.integers(0, 3)


def started(size: int) -> Bench:
    """Return a bench whose group is stable with this many static members, or absent for 0."""
    bench = Bench()
    if size:
        bench.stable(*"xyz"[:size])
    return bench


def play(bench: Bench, moves: list[Move]) -> None:
    """Play a history; members are found by their position, so that most moves mean somebody."""
    for move, who, amount in moves:
        group = bench.coordinator.groups.get(GROUP)
        members = list(group.members.values()) if group is not None else []
        member = members[who % len(members)] if members else None
        if move == "join":
            bench.join("xyz"[who % 3] if who else None, protocols=BOTH if amount else RANGE)
        elif move == "advance":
            bench.advance(amount)
        elif move == "round":
            finish_round(bench)
        elif move == "fail over":
            bench.fail_over()
        elif move == "refuse":
            refused = bench.coordinator.write_error is None and amount == 1
            bench.coordinator.write_error = ErrorCode.NOT_ENOUGH_REPLICAS if refused else None
        elif member is not None:
            act(bench, move, member.member_id, member.group_instance_id)


def finish_round(bench: Bench) -> None:
    """Wait for a join phase to end, if one runs, and let everybody sync."""
    group = bench.coordinator.groups.get(GROUP)
    if group is not None and group.state == "PreparingRebalance":
        bench.advance(7_000)
    if group is not None and group.state == "CompletingRebalance" and bench.coordinator.write_error is None:
        bench.complete_round()


def act(bench: Bench, move: str, member_id: str, instance_id: str | None) -> None:
    if move == "rejoin":
        bench.join(instance_id, member_id)
    elif move == "sync":
        bench.sync(member_id, instance_id=instance_id, assign=list(bench.group.members), protocol_name=None)
    elif move == "heartbeat":
        bench.heartbeat(member_id, instance_id)
    elif move == "leave":
        bench.leave((member_id, instance_id))
    else:
        commit(bench, member_id, instance_id, bench.group.generation_id)


@settings(derandomize=True, max_examples=250, deadline=None)
@given(SIZES, MOVES)
def test_group_is_consistent_and_the_log_tells_what_was_persisted(size: int, moves: list[Move]) -> None:
    """After any history: counts and maps of the group agree, and replaying the log twice gives the same group."""
    bench = started(size)
    play(bench, moves)
    group = bench.coordinator.groups.get(GROUP)
    if group is not None:
        static = {m.group_instance_id: i for i, m in group.members.items() if m.is_static}
        assert group.static_members == static
        assert group.awaiting_join == sum(m.join_ticket is not None for m in group.members.values())
        assert group.leader in group.members or (group.leader is None and not group.members)
        assert not group.pending_members & set(group.members)
        assert group.state != "Stable" or group.awaiting_join == 0
        tickets = {t for m in group.members.values() for t in (m.join_ticket, m.sync_ticket) if t is not None}
        assert tickets <= set(bench.waiting), "nobody is answered twice"
        # A member that asks again before it was answered is answered once, as in Kafka.
        assert len(bench.waiting) - len(tickets) <= sum(move in ("rejoin", "sync") for move, _, _ in moves)
    first, second = GroupCoordinator(), GroupCoordinator()
    first.replay(bench.log, 0)
    second.replay([r for r in bench.log], 0)
    assert first.groups == second.groups
    last = next((r for r in reversed(bench.log) if r.record_type is RecordType.CLASSIC_GROUP_METADATA), None)
    if last is not None and isinstance(last.value, GroupMetadata):
        loaded = first.groups[GROUP]
        assert loaded.generation_id == last.value.generation_id
        assert [m.member_id for m in last.value.members] == list(loaded.members)
        assert {k[2] for k in first.timers.of_group(GROUP)} == set(loaded.members)
    assert first.offsets == bench.coordinator.offsets


@settings(derandomize=True, max_examples=120, deadline=None)
@given(SIZES, MOVES)
def test_nothing_but_the_known_triggers_ends_a_stable_generation(size: int, moves: list[Move]) -> None:
    """KIP-345: new member, leader's or changed member's rejoin, removal, expiry; never a heartbeat, sync or commit."""
    bench = started(size)
    for move, who, amount in moves:
        before = copy.deepcopy(bench.coordinator.groups.get(GROUP))
        play(bench, [(move, who, amount)])
        group = bench.coordinator.groups.get(GROUP)
        if before is None or before.state != "Stable" or move == "fail over" or group.state == "Stable":
            continue
        assert was_triggered(before, group, move, who), (move, before, group)


def was_triggered(before: ClassicGroup, after: ClassicGroup, move: str, who: int) -> bool:
    """Return whether a move was a reason for the group not to be stable any more."""
    if move == "join":
        return len(after.members) > len(before.members) or after.select_protocol() != before.protocol_name
    if move == "rejoin":
        rejoined = list(before.members.values())[who % len(before.members)]
        return rejoined.member_id == before.leader or rejoined.protocols != RANGE
    removed = len(after.members) < len(before.members)
    return removed if move == "leave" else move == "advance" and (removed or bool(before.pending_sync_members))


def test_histories_reach_what_they_are_about() -> None:
    """The generator above is not hollow: a good part of its histories persist members and fail over with them."""
    reached = {"two generations persisted": 0, "reloaded with members": 0, "an append refused": 0}

    @settings(derandomize=True, max_examples=250, deadline=None, database=None)
    @given(SIZES, MOVES)
    def count(size: int, moves: list[Move]) -> None:
        bench = started(size)
        play(bench, moves)
        generations = {
            r.value.generation_id for r in bench.log if isinstance(r.value, GroupMetadata) and r.value.members
        }
        reached["two generations persisted"] += len(generations) > 1
        reached["reloaded with members"] += bool(generations) and any(move == "fail over" for move, _, _ in moves)
        reached["an append refused"] += ("refuse", 1) in {(move, amount) for move, _, amount in moves}

    count()
    assert all(count >= 40 for count in reached.values()), reached


@settings(derandomize=True, max_examples=100, deadline=None)
@given(SIZES, MOVES)
def test_generation_never_goes_back_between_fail_overs(size: int, moves: list[Move]) -> None:
    bench = started(size)
    highest = 0
    for move in moves:
        play(bench, [move])
        group = bench.coordinator.groups.get(GROUP)
        if group is None or move[0] == "fail over":
            highest = 0 if group is None else group.generation_id
            continue
        assert group.generation_id >= highest
        highest = group.generation_id
