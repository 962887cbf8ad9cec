"""The future work of KIP-345, items 1 to 4: what each would be worth, against the group as Kafka runs it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from conformance.answers import expect
from conformance.classic_bench import GROUP, RANGE, ClassicBench
from coordinator_model.assignors import CLIENT_ASSIGNORS, MemberSubscription
from coordinator_model.base.errors import ErrorCode
from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import TopicPartitions
from coordinator_model.base.settings import BrokerSettings
from coordinator_model.classic.future import (
    InvalidCommand,
    PlanGroupRequest,
    PlanGroupResponse,
    remove_members,
    remove_request,
)
from coordinator_model.classic.member import GroupMetadata

FOUR = ("a", "b", "c", "d")


def plan(
    bench: ClassicBench, *, expected: tuple[str, ...] | None = None, target: int | None = None
) -> PlanGroupResponse:
    request = PlanGroupRequest(group_id=GROUP, expected_instance_ids=expected, wait_ms=30_000, target_group_size=target)
    return expect(PlanGroupResponse, bench.send(request).response)


def rejoin_all(bench: ClassicBench) -> None:
    """Let every member send JoinGroup unless its JoinGroup waits already, the leader first, then SyncGroup."""
    for member in sorted(bench.group.members.values(), key=lambda m: m.member_id != bench.group.leader):
        if member.join_ticket is None:
            session_ms = member.session_timeout_ms
            bench.join(member.group_instance_id, member.member_id, session_timeout_ms=session_ms)
    bench.complete_round()


def scale_up_slowly(bench: ClassicBench) -> int:
    """Bring b, c and d up ten seconds apart beside a; returns how many generations that took."""
    (leader,) = bench.stable("a", session_timeout_ms=60_000)
    if bench.settings.pre_registration:
        assert plan(bench, expected=FOUR).waiting == 3
    before = bench.group.generation_id
    for instance_id in FOUR[1:]:
        bench.join(instance_id, session_timeout_ms=60_000)
        if bench.heartbeat(leader, "a") is ErrorCode.REBALANCE_IN_PROGRESS:
            rejoin_all(bench)
        bench.advance(10_000)
        for member in list(bench.group.members.values()):
            bench.heartbeat(member.member_id, member.group_instance_id)
    if bench.group.state != "Stable":
        rejoin_all(bench)
    assert set(bench.group.static_members) == set(FOUR)
    return bench.group.generation_id - before


def test_item_1_announced_scale_up_costs_one_rebalance_instead_of_three() -> None:
    assert scale_up_slowly(ClassicBench()) == 3
    assert scale_up_slowly(ClassicBench(BrokerSettings(pre_registration=True))) == 1


@pytest.mark.parametrize(("announced", "rebalances"), [(False, 2), (True, 1)])
def test_item_1_announced_scale_down_costs_one_rebalance(announced: bool, rebalances: int) -> None:
    bench = ClassicBench(BrokerSettings(pre_registration=True))
    ids = bench.stable(*FOUR)
    if announced:
        plan(bench, expected=("a", "b"))
    for instance_id, member_id in (("d", ids[3]), ("c", ids[2])):
        assert bench.leave((member_id, instance_id)) == [ErrorCode.NONE]
        if bench.heartbeat(ids[0], "a") is ErrorCode.REBALANCE_IN_PROGRESS:
            rejoin_all(bench)
    assert bench.group.generation_id == 1 + rebalances
    assert set(bench.group.static_members) == {"a", "b"}


def test_item_1_the_wait_ends_at_its_deadline() -> None:
    bench = ClassicBench(BrokerSettings(pre_registration=True))
    (leader,) = bench.stable("a", session_timeout_ms=60_000)
    plan(bench, expected=FOUR)
    joined = bench.join("b")
    bench.advance(29_999)
    assert (bench.group.state, joined.waits) == ("Stable", True)
    bench.advance(1)
    assert bench.heartbeat(leader, "a") is ErrorCode.REBALANCE_IN_PROGRESS
    bench.join("a", leader)
    assert joined.joined.generation_id == 2


def test_item_1_departures_are_followed_by_a_rebalance_at_the_deadline() -> None:
    bench = ClassicBench(BrokerSettings(pre_registration=True))
    ids = bench.stable(*FOUR, session_timeout_ms=60_000)
    plan(bench, expected=("a", "b"))
    assert bench.leave((ids[3], "d")) == [ErrorCode.NONE]
    assert bench.group.state == "Stable"
    bench.advance(30_000)
    assert bench.group.state == "PreparingRebalance"


def test_item_1_a_rebalance_on_the_way_takes_the_waiting_along() -> None:
    bench = ClassicBench(BrokerSettings(pre_registration=True))
    (leader,) = bench.stable("a")
    plan(bench, expected=FOUR)
    joined = bench.join("b")
    bench.join("a", leader)
    assert joined.joined.generation_id == 2
    assert len(bench.group.members) == 2


def test_item_1_a_rebalance_in_between_is_not_repeated_at_the_deadline() -> None:
    bench = ClassicBench(BrokerSettings(pre_registration=True))
    ids = bench.stable(*FOUR, session_timeout_ms=60_000)
    plan(bench, expected=("a", "b"))
    bench.leave((ids[3], "d"))
    rejoin_all(bench)
    assert bench.group.generation_id == 2
    for _ in range(4):
        bench.advance(10_000)
        for member in list(bench.group.members.values()):
            assert bench.heartbeat(member.member_id, member.group_instance_id) is ErrorCode.NONE


def test_item_1_second_process_with_a_waiting_id_fences_the_first() -> None:
    bench = ClassicBench(BrokerSettings(pre_registration=True))
    bench.stable("a")
    plan(bench, expected=FOUR)
    first, second = bench.join("b"), bench.join("b")
    assert first.error is ErrorCode.FENCED_INSTANCE_ID
    assert second.waits


def test_item_1_ids_that_were_not_announced_are_not_held_up() -> None:
    bench = ClassicBench(BrokerSettings(pre_registration=True))
    bench.stable("a")
    plan(bench, expected=("a", "b"))
    bench.join("z")
    assert bench.group.state == "PreparingRebalance"


def test_item_2_standby_joins_and_takes_over_without_a_rebalance() -> None:
    bench = ClassicBench(BrokerSettings(hot_standby=True))
    m1, m2 = bench.stable("a", "b", session_timeout_ms=60_000)
    plan(bench, target=2)
    standby = bench.join("spare").joined
    assert (standby.error_code, standby.generation_id) == (ErrorCode.NONE, 1)
    assert bench.sync(standby.member_id, instance_id="spare").synced.assignment == b""
    bench.advance(3_000)
    gone_ms = bench.now_ms
    assert bench.leave((m2, "b")) == [ErrorCode.NONE]
    assert bench.heartbeat(m1, "a") is ErrorCode.NONE, "no other member is disturbed"
    assert bench.heartbeat(standby.member_id, "spare") is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.join("spare", standby.member_id).joined.generation_id == 1
    taken = bench.sync(standby.member_id, instance_id="spare").synced
    assert taken.assignment == f"assigned-{m2}".encode()
    assert (bench.group.generation_id, bench.now_ms - gone_ms) == (1, 0)
    assert bench.heartbeat(standby.member_id, "spare") is ErrorCode.NONE


def test_item_2_short_session_is_enough_when_a_standby_takes_over() -> None:
    """The proposal: "we might not even need to extend the session timeout"."""
    rebalances = {}
    for hot_standby in (False, True):
        bench = ClassicBench(BrokerSettings(hot_standby=hot_standby))
        m1, m2 = bench.stable("a", "b", session_timeout_ms=6_000)
        if hot_standby:
            plan(bench, target=2)
            spare = bench.join("spare", session_timeout_ms=6_000).joined.member_id
        for _ in range(3):
            bench.advance(2_000)
            bench.heartbeat(m1, "a")
            if hot_standby:
                bench.heartbeat(spare, "spare")
        assert m2 not in bench.group.members
        rebalances[hot_standby] = bench.group.state != "Stable"
    assert rebalances == {False: True, True: False}


def test_item_2_the_leader_does_not_see_standbys() -> None:
    bench = ClassicBench(BrokerSettings(hot_standby=True))
    m1, _ = bench.stable("a", "b")
    plan(bench, target=2)
    standby = bench.join("spare").joined.member_id
    m2 = bench.bounce("b")
    leader = bench.join("a", m1)
    bench.join("spare", standby)
    bench.join("b", m2)
    assert {m.member_id for m in leader.joined.members} == {m1, m2}
    bench.complete_round()
    assert bench.group.standbys == {standby}


def test_item_2_bounced_standby_still_stands_by() -> None:
    bench = ClassicBench(BrokerSettings(hot_standby=True))
    bench.stable("a", "b")
    plan(bench, target=2)
    bench.join("spare")
    assert bench.group.standbys == {bench.bounce("spare")}
    assert (bench.group.state, bench.group.generation_id) == ("Stable", 1)


def test_item_2_below_the_target_size_a_newcomer_gets_partitions() -> None:
    bench = ClassicBench(BrokerSettings(hot_standby=True))
    bench.stable("a", "b")
    plan(bench, target=3)
    assert bench.join("c").waits
    assert bench.group.state == "PreparingRebalance"


def test_item_2_taking_over_is_over_with_the_next_rebalance() -> None:
    bench = ClassicBench(BrokerSettings(hot_standby=True))
    m1, m2 = bench.stable("a", "b")
    plan(bench, target=2)
    standby = bench.join("spare").joined.member_id
    bench.leave((m2, "b"))
    bench.join("a", m1)
    bench.join("spare", standby)
    bench.complete_round()
    assert bench.heartbeat(standby, "spare") is ErrorCode.NONE


def test_item_2_lost_leader_is_followed_by_a_member_with_partitions() -> None:
    bench = ClassicBench(BrokerSettings(hot_standby=True))
    m1, m2 = bench.stable("a", "b")
    plan(bench, target=2)
    standby = bench.join("spare").joined.member_id
    assert bench.leave((m1, "a")) == [ErrorCode.NONE]
    assert (bench.group.leader, bench.group.state) == (m2, "Stable")
    assert bench.group.members[standby].assignment == f"assigned-{m1}".encode()


def test_item_2_without_a_standby_the_loss_rebalances() -> None:
    bench = ClassicBench(BrokerSettings(hot_standby=True))
    _, m2 = bench.stable("a", "b")
    plan(bench, target=2)
    assert bench.leave((m2, "b")) == [ErrorCode.NONE]
    assert bench.group.state == "PreparingRebalance"


def test_item_2_take_over_is_in_the_log() -> None:
    bench = ClassicBench(BrokerSettings(hot_standby=True))
    _, m2 = bench.stable("a", "b")
    plan(bench, target=2)
    bench.join("spare")
    bench.leave((m2, "b"))
    record = expect(GroupMetadata, bench.log[-1].value)
    assert {m.group_instance_id: m.assignment for m in record.members}["spare"] == f"assigned-{m2}".encode()


@pytest.mark.parametrize("switch", ["expected", "target"])
def test_switches_are_off_by_default(switch: str) -> None:
    bench = ClassicBench()
    answer = plan(bench, expected=FOUR) if switch == "expected" else plan(bench, target=2)
    assert answer.error_code is ErrorCode.UNSUPPORTED_VERSION
    assert bench.coordinator.plans == {}


def test_item_1_announced_ids_must_be_legal() -> None:
    bench = ClassicBench(BrokerSettings(pre_registration=True))
    assert plan(bench, expected=("a", "b/c")).error_code is ErrorCode.INVALID_REQUEST
    assert bench.coordinator.plans == {}


def test_item_3_remove_command() -> None:
    bench = ClassicBench()
    bench.stable(*FOUR)
    arguments = ["--group-id", GROUP, "--group-instance-ids", "c,d,unknown", "--reason", "scale-down"]
    _, lines = remove_members(bench.coordinator, arguments, bench.now_ms)
    assert lines == ["c: removed", "d: removed", "unknown: UNKNOWN_MEMBER_ID"]
    assert bench.group.state == "PreparingRebalance"
    assert set(bench.group.static_members) == {"a", "b"}


def test_item_3_remove_command_says_why() -> None:
    """KIP-800: a client cuts its reason to 255 characters."""
    arguments = ["--group-id", GROUP, "--group-instance-ids", "c,d"]
    assert [m.reason for m in remove_request(arguments).members] == ["removed by command"] * 2
    assert [m.reason for m in remove_request([*arguments, "--reason", "r" * 300]).members] == ["r" * 255] * 2


def test_item_3_remove_command_of_a_group_without_access() -> None:
    bench = ClassicBench(BrokerSettings(is_denied=lambda principal, operation, group: group == "secret"))
    arguments = ["--group-id", "secret", "--group-instance-ids", "a"]
    assert remove_members(bench.coordinator, arguments, 0)[1] == ["secret: GROUP_AUTHORIZATION_FAILED"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--group-id", "g"],
        ["--group-id"],
        ["--group-instance-ids", "a"],
        ["--zookeeper", "z", "--group-id", "g"],
        ["--group-id", "g", "--group-instance-ids", "a b"],
    ],
)
def test_item_3_remove_command_that_is_not_understood(arguments: list[str]) -> None:
    with pytest.raises(InvalidCommand):
        remove_members(ClassicBench().coordinator, arguments, 0)


@pytest.mark.parametrize(("by_instance_id", "moved"), [(True, 0), (False, 9)])
def test_item_4_order_by_instance_id_keeps_every_partition_where_it_was(by_instance_id: bool, moved: int) -> None:
    """The proposal's nine partitions, on a real group: A is bounced, then the leader rebalances."""
    bench = ClassicBench()
    bench.stable("A", "B", "C")
    before = assigned(bench, by_instance_id)
    bench.bounce("A")
    rejoin_all(bench)
    after = assigned(bench, by_instance_id)
    changes = sum(len(set(before[i]) - set(after[i])) for i in before)
    assert changes == moved


def assigned(bench: ClassicBench, by_instance_id: bool) -> dict[str, tuple[int, ...]]:
    """Return instance id → partitions of a nine-partition topic, by the range assignor."""
    members = {
        m.member_id if by_instance_id else sequential(m.member_id): MemberSubscription(
            instance_id=m.group_instance_id if by_instance_id else None, topics=("t",)
        )
        for m in bench.group.members.values()
    }
    partitions: Mapping[str, TopicPartitions] = CLIENT_ASSIGNORS["range"](members, TopicImage({"t": 9}))
    owner = {
        m.member_id if by_instance_id else sequential(m.member_id): m.group_instance_id or ""
        for m in bench.group.members.values()
    }
    return {owner[member_id]: dict(topics).get("t", ()) for member_id, topics in partitions.items()}


def sequential(member_id: str) -> str:
    """Return the member id without its instance id: the proposal's example has ids 1, 2, 3, and 4 after the bounce."""
    return member_id.rsplit("-", 1)[1]


def test_plans_change_nothing_for_groups_without_one() -> None:
    """With both switches on and nothing announced the group behaves as Kafka's."""
    bench = ClassicBench(BrokerSettings(pre_registration=True, hot_standby=True))
    m1, m2 = bench.stable("a", "b")
    bench.join("c", protocols=RANGE)
    assert bench.group.state == "PreparingRebalance"
    bench.join("a", m1)
    bench.join("b", m2)
    bench.complete_round()
    assert bench.group.generation_id == 2
