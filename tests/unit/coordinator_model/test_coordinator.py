"""The coordinator as a whole: reading and deleting groups, access, dispatch by group type."""

from __future__ import annotations

import pytest

from conformance.answers import expect
from conformance.classic_bench import BOTH, GROUP, ClassicBench
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import (
    ConsumerGroupHeartbeatRequest,
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
    Request,
    SyncGroupRequest,
)
from coordinator_model.base.offset_messages import OffsetCommitRequest, OffsetFetchRequest, TxnOffsetCommitRequest
from coordinator_model.base.records import RecordType
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.classic.group import ClassicGroup
from coordinator_model.classic.member import GroupMetadata
from coordinator_model.share.messages import ShareGroupHeartbeatRequest

from .coordinator_bench import NONE, UNKNOWN, commit, fetch, join_consumer_group

# reading and deleting groups ------------------------------------------------------------------------------------------


def test_describe_a_stable_and_a_rebalancing_group(bench: ClassicBench) -> None:
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
def test_describe_an_absent_group(bench: ClassicBench, version: int, error: ErrorCode) -> None:
    """GMMT.testDescribeGroupsGroupIdNotFoundException and …BeforeV6… (KIP-1043)."""
    answer = bench.send(DescribeGroupsRequest(api_version=version, groups=("nowhere",))).response
    assert isinstance(answer, DescribeGroupsResponse)
    (group,) = answer.groups
    assert (group.group_state, group.error_code) == ("Dead", error)


def test_list_groups_by_state_and_type(bench: ClassicBench) -> None:
    """GMMT.testListGroups: filters ignore case."""
    bench.stable("x")
    bench.send(JoinGroupRequest(group_id="other", group_instance_id="x", protocol_type="connect"))
    join_consumer_group(bench, "modern")

    def listed(**filters: tuple[str, ...]) -> dict[str, tuple[str, str, str]]:
        answer = expect(ListGroupsResponse, bench.send(ListGroupsRequest(**filters)).response)
        return {g.group_id: (g.protocol_type, g.group_state, g.group_type) for g in answer.groups}

    assert listed() == {
        GROUP: ("consumer", "Stable", "Classic"),
        "other": ("connect", "PreparingRebalance", "Classic"),
        "modern": ("consumer", "Stable", "Consumer"),
    }
    assert set(listed(states_filter=("sTaBlE",))) == {GROUP, "modern"}
    assert set(listed(types_filter=("classic",))) == {GROUP, "other"}
    assert set(listed(types_filter=("Consumer",), states_filter=("Empty",))) == set()


def test_delete_groups(bench: ClassicBench) -> None:
    """GroupCoordinatorShardTest.testDeleteGroups; GMMT.testClassicGroupDelete: offsets go first, then the group."""
    (m1,) = bench.stable("x")
    commit(bench, m1, "x", 1)
    bench.join()

    def delete(*group_ids: str) -> list[ErrorCode]:
        answer = expect(DeleteGroupsResponse, bench.send(DeleteGroupsRequest(group_ids=group_ids)).response)
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


def test_find_coordinator(bench: ClassicBench) -> None:
    answer = expect(FindCoordinatorResponse, bench.send(FindCoordinatorRequest(keys=("a", "b"))).response)
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
    bench = ClassicBench(BrokerSettings(is_denied=lambda principal, asked, group: (asked, group) == (operation, GROUP)))
    assert bench.send(request_).error is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert (bench.coordinator.groups, bench.log) == ({}, [])
    other = ClassicBench(BrokerSettings(is_denied=lambda principal, asked, group: asked != operation))
    answer = other.send(request_)
    assert answer.waits or answer.error is not ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_access_to_many_groups() -> None:
    """KafkaApis: denied groups are errors of their own, and are missing from a listing."""
    bench = ClassicBench(
        BrokerSettings(is_denied=lambda principal, asked, group: (principal, group) == ("User:m", GROUP))
    )
    bench.stable("x")
    denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
    described = bench.send(DescribeGroupsRequest(groups=(GROUP,), principal="User:m")).response
    assert isinstance(described, DescribeGroupsResponse)
    assert [g.error_code for g in described.groups] == [denied]
    deleted = bench.send(DeleteGroupsRequest(group_ids=(GROUP,), principal="User:m")).response
    assert isinstance(deleted, DeleteGroupsResponse)
    assert deleted.results == ((GROUP, denied),)
    assert expect(ListGroupsResponse, bench.send(ListGroupsRequest(principal="User:m")).response).groups == ()
    found = bench.send(FindCoordinatorRequest(keys=(GROUP,), principal="User:m")).response
    assert isinstance(found, FindCoordinatorResponse)
    assert [(c.node_id, c.error_code) for c in found.coordinators] == [(-1, denied)]


# group types ----------------------------------------------------------------------------------------------------------


def test_empty_consumer_group_becomes_classic(bench: ClassicBench) -> None:
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


def test_empty_consumer_group_stays_when_its_conversion_is_not_stored(bench: ClassicBench) -> None:
    join_consumer_group(bench, GROUP)
    bench.send(ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=-1))
    bench.coordinator.write_error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert bench.join("x").error is ErrorCode.NOT_COORDINATOR
    assert bench.coordinator.groups[GROUP].group_type == "consumer"


def test_empty_classic_group_becomes_a_consumer_group(bench: ClassicBench) -> None:
    """GMM.maybeDeleteEmptyClassicGroup."""
    (m1,) = bench.stable("x")
    bench.leave((m1, "x"))
    join_consumer_group(bench, GROUP)
    assert bench.coordinator.groups[GROUP].group_type == "consumer"
    bench.fail_over()
    assert bench.coordinator.groups[GROUP].group_type == "consumer"


def test_classic_requests_on_a_share_group(bench: ClassicBench) -> None:
    """GMM.classicGroupJoin, …Sync, …Heartbeat, …Leave: types without a classic protocol."""
    request = ShareGroupHeartbeatRequest(group_id=GROUP, member_id="m", subscribed_topic_names=("t",))
    assert bench.send(request).error is NONE
    assert bench.join("x").error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.send(SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="m")).error is UNKNOWN
    assert bench.send(HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")).error is UNKNOWN
    assert bench.leave(("m", None)) == [UNKNOWN]
    assert bench.send(OffsetCommitRequest(group_id=GROUP, offsets=(("t", 0, 1),))).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert fetch(bench, ("t", 0)) == (("t", 0, -1),)
