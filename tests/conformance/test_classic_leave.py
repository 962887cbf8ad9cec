"""Rows L of the catalogue: how members leave a classic group, by themselves and by an administrator's batch."""

from __future__ import annotations

import pytest

from conformance.answers import expect
from conformance.classic_bench import GROUP, ClassicBench
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    LeaveGroupRequest,
    MemberIdentity,
)
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.classic.member import GroupMetadata

NONE, UNKNOWN, FENCED = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("api_version", range(0, 6))
def test_L01_unknown_group(bench: ClassicBench, api_version: int) -> None:
    """GMMT.testLeaveGroupInvalidGroup, testLeaveGroupUnknownGroup, testStaticMembersLeaveUnknownGroup."""
    identities = (MemberIdentity(member_id="m1"),)
    if api_version >= 3:
        identities += (MemberIdentity(group_instance_id="x"),)
    answer = bench.send(LeaveGroupRequest(api_version=api_version, group_id=GROUP, members=identities)).left
    if api_version < 3:
        assert (answer.error_code, answer.members) == (UNKNOWN, ())
    else:
        assert answer.error_code is NONE
        assert [m.error_code for m in answer.members] == [UNKNOWN, UNKNOWN]
        assert [(m.member_id, m.group_instance_id) for m in answer.members] == [("m1", None), ("", "x")]
    assert bench.coordinator.groups == {}


def test_L02_unknown_member(bench: ClassicBench) -> None:
    """GMMT.testLeaveGroupUnknownMemberIdExistingGroup: the top level says NONE, nothing moves."""
    (m1,) = bench.stable("x")
    assert bench.leave(("made-up", None)) == [UNKNOWN]
    assert bench.leave(("", None)) == [UNKNOWN]
    assert (bench.group.state, list(bench.group.members)) == ("Stable", [m1])


def test_L03_dead_group(bench: ClassicBench) -> None:
    """GMMT.testLeaveDeadGroup."""
    (m1,) = bench.stable("x")
    bench.group.transition_to("Dead", bench.now_ms)
    answer = bench.send(LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=m1),))).left
    assert (answer.error_code, answer.members) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, ())


def test_L04_last_member_leaves(bench: ClassicBench) -> None:
    """GMMT.testValidLeaveGroup: Empty, the next generation, one record without members."""
    joined = bench.join_dynamic()
    bench.advance(3_000)
    bench.complete_round()
    logged = len(bench.log)
    assert bench.leave((joined.joined.member_id, None)) == [NONE]
    assert (bench.group.state, bench.group.generation_id) == ("Empty", 2)
    (record,) = bench.log[logged:]
    assert isinstance(record.value, GroupMetadata)
    assert (record.value.generation_id, record.value.members) == (2, ())
    assert len(bench.coordinator.timers) == 0


def test_L05_stale_member_id_with_instance_id_is_fenced(bench: ClassicBench) -> None:
    """GMMT.testLeaveGroupWithFencedInstanceId: both ids together are a compare-and-set."""
    (m1,) = bench.stable("x")
    assert bench.leave(("made-up", "x")) == [FENCED]
    assert list(bench.group.members) == [m1]
    assert bench.group.state == "Stable"


def test_L06_removal_by_instance_id_alone(bench: ClassicBench) -> None:
    """GMMT.testLeaveGroupStaticMemberWithUnknownMemberId: the answer echoes the empty member id."""
    bench.stable("x")
    assert bench.leave(("", "x")) == [NONE]
    assert bench.group.static_members == {}
    assert bench.group.state == "Empty"


def test_L07_batch_of_leader_and_follower(bench: ClassicBench) -> None:
    """GMMT.testStaticMembersValidBatchLeaveGroup."""
    bench.stable("x", "y")
    assert bench.leave(("", "x"), ("", "y")) == [NONE, NONE]
    assert (bench.group.state, bench.group.generation_id) == ("Empty", 2)


def test_L08_batch_with_a_fenced_entry(bench: ClassicBench) -> None:
    """GMMT.testStaticMembersFencedInstanceBatchLeaveGroup: successes stay although others fail."""
    m1, m2 = bench.stable("x", "y")
    assert bench.leave(("made-up", "x"), (m2, "y")) == [FENCED, NONE]
    assert list(bench.group.members) == [m1]
    assert bench.group.state == "PreparingRebalance"


def test_L09_batch_with_an_unknown_instance(bench: ClassicBench) -> None:
    """GMMT.testStaticMembersUnknownInstanceBatchLeaveGroup."""
    m1, _ = bench.stable("x", "y")
    assert bench.leave(("", "unknown"), ("", "y")) == [UNKNOWN, NONE]
    assert list(bench.group.members) == [m1]


def test_L09_the_same_identity_twice(bench: ClassicBench) -> None:
    """GMM.classicGroupLeaveToClassicGroup judges one entry after the other."""
    _, m2 = bench.stable("x", "y")
    assert bench.leave((m2, "y"), ("", "y"), (m2, None)) == [NONE, UNKNOWN, UNKNOWN]


def test_L10_pending_members_leave_in_a_batch(bench: ClassicBench) -> None:
    """GMMT.testPendingMemberBatchLeaveGroup, testJoinedMemberPendingMemberBatchLeaveGroup(WithUnknownMember)."""
    bench.stable("x", "y")
    pending = bench.join().joined.member_id
    assert pending in bench.group.pending_members
    assert bench.leave(("", "unknown"), (pending, None), ("made-up", None), ("", "y")) == [UNKNOWN, NONE, UNKNOWN, NONE]
    assert not bench.group.pending_members
    assert set(bench.group.static_members) == {"x"}
    assert bench.coordinator.timers.deadline_ms(("classic-session", GROUP, pending)) is None


def test_L10_pending_member_that_leaves_lets_the_round_complete(bench: ClassicBench) -> None:
    """GMMT.testPendingMembersLeaveGroup: a given-out id holds the join phase up."""
    (m1,) = bench.stable("x")
    pending = bench.join().joined.member_id
    rejoined = bench.join("x", m1)
    assert rejoined.waits
    assert bench.leave((pending, None)) == [NONE]
    assert rejoined.joined.generation_id == 2


@pytest.mark.parametrize("api_version", range(0, 6))
def test_L11_no_access(api_version: int) -> None:
    """KafkaApisTest (LeaveGroup): READ on the group, else GROUP_AUTHORIZATION_FAILED on top and nothing removed."""
    bench = ClassicBench(
        BrokerSettings(is_denied=lambda principal, operation, group: (principal, operation) == ("User:m", "READ"))
    )
    (m1,) = bench.stable("x")
    members = (MemberIdentity(member_id=m1),)
    request = LeaveGroupRequest(api_version=api_version, group_id=GROUP, members=members, principal="User:m")
    answer = bench.send(request).left
    assert (answer.error_code, answer.members) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, ())
    assert list(bench.group.members) == [m1]


def test_A1_late_requests_of_a_removed_member(bench: ClassicBench) -> None:
    """A removal and the removed process's own late requests: never a second removal."""
    m1, m2 = bench.stable("x", "y")
    assert bench.leave((m2, "y")) == [NONE]
    assert bench.heartbeat(m2, "y") is UNKNOWN
    assert bench.sync(m2, instance_id="y").error is UNKNOWN
    assert bench.join("y", m2).error is UNKNOWN
    assert bench.leave((m2, "y")) == [UNKNOWN]
    assert list(bench.group.members) == [m1]


def test_A8_batch_of_two_out_of_five_costs_one_generation(bench: ClassicBench) -> None:
    """Scale-down from five to three in one LeaveGroup: one rebalance."""
    ids = bench.stable("a", "b", "c", "d", "e")
    assert bench.leave((ids[3], "d"), (ids[4], "e")) == [NONE, NONE]
    rejoins = [bench.join(i, m) for i, m in zip("abc", ids[:3], strict=True)]
    assert [r.joined.generation_id for r in rejoins] == [2, 2, 2]
    bench.complete_round()
    assert bench.group.generation_id == 2
    assert set(bench.group.static_members) == {"a", "b", "c"}


def test_A9_the_same_one_by_one_costs_at_most_two(bench: ClassicBench) -> None:
    """One by one: one generation if the second removal comes during the first's join phase, else two."""
    generations = []
    for wait_for_round in (False, True):
        bench = ClassicBench()
        ids = bench.stable("a", "b", "c", "d", "e")
        assert bench.leave((ids[4], "e")) == [NONE]
        if wait_for_round:
            for i, m in zip("abcd", ids[:4], strict=True):
                bench.join(i, m)
            bench.complete_round()
        assert bench.leave((ids[3], "d")) == [NONE]
        for i, m in zip("abc", ids[:3], strict=True):
            bench.join(i, m)
        bench.complete_round()
        generations.append(bench.group.generation_id)
    assert generations == [2, 3]


def test_A10_late_removal_spares_the_pod_that_came_back(bench: ClassicBench) -> None:
    """Scale 3→2→3: the removal that was decided for the former process carries its member id and is fenced."""
    ids = bench.stable("a", "b", "c")
    returned = bench.bounce("c")
    assert bench.leave((ids[2], "c")) == [FENCED]
    assert bench.group.static_members["c"] == returned
    assert bench.group.state == "Stable"
    assert bench.leave(("", "c")) == [NONE], "without the member id the living one is removed"


def test_A11_all_threads_of_a_streams_pod_in_one_request(bench: ClassicBench) -> None:
    """A Streams pod is one member per thread, `<instance id>-<n>` from 1: one batch, one rebalance."""
    ids = bench.stable("app-0-1", "app-0-2", "app-0-3", "app-1-1", "app-1-2", "app-1-3")
    gone = [(m, i) for m, i in zip(ids, bench.group.static_members, strict=True) if i.startswith("app-1-")]
    assert bench.leave(*gone) == [NONE, NONE, NONE]
    for member in list(bench.group.members.values()):
        bench.join(member.group_instance_id, member.member_id)
    bench.complete_round()
    assert bench.group.generation_id == 2
    assert set(bench.group.static_members) == {"app-0-1", "app-0-2", "app-0-3"}


def test_I07_error_of_one_member_is_that_members_alone(bench: ClassicBench) -> None:
    """KafkaAdminClientConsumerGroupTest: per-member errors; identities for removeAll come from describe."""
    bench.stable("x", "y", "z")
    assert bench.leave(("", "y"), ("", "gone"), ("wrong", "z")) == [NONE, UNKNOWN, FENCED]
    answer = expect(DescribeGroupsResponse, bench.send(DescribeGroupsRequest(groups=(GROUP,))).response)
    all_members = [(m.member_id, m.group_instance_id) for m in answer.groups[0].members]
    assert bench.leave(*all_members) == [NONE, NONE]
    assert bench.group.members == {}


@pytest.mark.parametrize("api_version", range(0, 6))
def test_I07_several_members_need_version_3(bench: ClassicBench, api_version: int) -> None:
    """KafkaAdminClientConsumerGroupTest.testRemoveMembersFromGroup…: UnsupportedVersion for older brokers."""
    ids = bench.stable("x", "y")
    members = tuple(MemberIdentity(member_id=m) for m in ids)
    answer = bench.send(LeaveGroupRequest(api_version=api_version, group_id=GROUP, members=members)).left
    if api_version < 3:
        assert (answer.error_code, answer.members) == (ErrorCode.UNSUPPORTED_VERSION, ())
        assert list(bench.group.members) == ids
    else:
        assert [m.error_code for m in answer.members] == [NONE, NONE]


def test_removal_that_was_not_persisted_is_lost_at_a_fail_over(bench: ClassicBench) -> None:
    """LeaveGroup writes no record while members remain: the next coordinator still lists the acknowledged leaver."""
    m1, m2 = bench.stable("x", "y")
    logged = len(bench.log)
    assert bench.leave((m2, "y")) == [NONE]
    assert len(bench.log) == logged
    bench.fail_over()
    assert set(bench.group.members) == {m1, m2}
    assert bench.leave((m2, "y")) == [NONE]
    bench.join("x", m1)
    bench.complete_round()
    bench.fail_over()
    assert set(bench.group.members) == {m1}
