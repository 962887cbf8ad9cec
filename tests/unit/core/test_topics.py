"""When a group is rebalanced because nobody reads a topic: once for each change, at rest, and never otherwise.

Restates KAFKA-12759: static members that come back with another subscription cause no rebalance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticgroup.api.reasons import ConditionStatus, ConditionType, Reason
from staticgroup.api.resources.memory import UNREAD_TOPICS_MAX
from staticgroup.api.schema import Condition
from staticgroup.core.consuming import (
    PACE_S,
    SETTLED_S,
    STUCK_AFTER_S,
    Rebalance,
    RebalanceGuard,
    with_rebalance,
)
from staticgroup.core.group import GroupType, GroupView, KafkaProblem, KafkaProblemKind, MemberView
from staticgroup.core.outcomes import Executed
from staticgroup.core.plan import Plan, plan
from staticgroup.core.snapshot import History, Snapshot, UnreadTopics
from staticgroup.core.status.memory import unread_from, wire_unread

from .builders import NOW_S, departure, group, history, known_pod, member, spec, workload
from .plans import conditions_of

WISH = {"groupProtocol": "Classic"}
BEFORE = UnreadTopics(topics=("payments",), since_s=NOW_S - 90, rest_since_s=NOW_S - SETTLED_S)
AT_REST = {"assignor": "range", "topics": (("orders", 6), ("payments", 0))}


def world(*members: MemberView, partitions: dict[str, int] | None = None, **changes: Any) -> Snapshot:
    """Two pods whose members are in the group and subscribe a topic that nobody reads."""
    known = (known_pod(0, "u0"), known_pod(1, "u1"))
    described = group(*(members or (member(0), member(1))), **(AT_REST | changes))
    counts = {"orders": 6, "payments": 6} if partitions is None else partitions
    return departure(group=described, workload=workload(2), pods=known, known=known, partitions=counts)


def decided(seen: Snapshot, unread: UnreadTopics | None = BEFORE, now_s: float = NOW_S, **wish: Any) -> Plan:
    return plan(spec(**(WISH | wish)), seen, history(unread=unread), now_s)


def test_a_group_at_rest_is_rebalanced_once() -> None:
    found = decided(world()).topics
    assert found.action == Rebalance(group_id="orders", assignor="range", topics=("payments",))
    after = with_rebalance(found.unread, NOW_S)
    assert decided(world(), after).topics.action is None
    assert decided(world(), after).topics.held_by is RebalanceGuard.DONE_BEFORE


def test_it_is_announced_and_waited_for_first() -> None:
    first = decided(world(), None)
    assert first.topics.action is None
    assert first.topics.held_by is RebalanceGuard.NOT_AT_REST
    assert first.requeue_after_s <= SETTLED_S
    later = decided(world(), first.history.unread, NOW_S + SETTLED_S - 1)
    assert later.topics.action is None
    assert decided(world(), later.history.unread, NOW_S + SETTLED_S).topics.action is not None


@pytest.mark.parametrize(
    "seen",
    [
        replace(world(), workload=workload(2, ready_replicas=1)),
        replace(world(), workload=workload(2, updated_replicas=1, update_revision="r2")),
        replace(world(), workload=workload(2, is_deleting=True)),
        replace(world(), workload=None),
        world(member(0)),
        world(member(0), member(1), member(2)),
        world(member(0), member(1), MemberView(member_id="d", instance_id=None)),
        world(member(0), member(1), MemberView(member_id="f", instance_id="somebody")),
    ],
    ids=["not Ready", "rolling", "deleted", "gone", "one away", "a departed one", "a dynamic one", "a foreign one"],
)
def test_whoever_could_keep_the_others_waiting_is_waited_for(seen: Snapshot) -> None:
    """A rebalance of an eager group lasts until the slowest member has joined again."""
    found = decided(seen).topics
    assert found.action is None
    assert found.unread is not None
    assert found.unread.rest_since_s is None


def test_a_group_that_is_not_at_rest_begins_anew() -> None:
    rolling = replace(world(), workload=workload(2, ready_replicas=1))
    back = decided(world(), decided(rolling).history.unread, NOW_S + 5)
    assert back.topics.action is None
    assert back.history.unread is not None
    assert back.history.unread.rest_since_s == NOW_S + 5


@pytest.mark.parametrize("wish", [{"mode": "Observe"}, {"onTopicChange": "Report"}], ids=["Observe", "Report"])
def test_it_is_only_reported_where_the_spec_says_so(wish: dict[str, str]) -> None:
    found = decided(world(), **wish).topics
    assert (found.action, found.held_by) == (None, RebalanceGuard.NOT_ASKED_FOR)


@pytest.mark.parametrize(
    "other", [MemberView(member_id="console-1", instance_id=None), MemberView(member_id="web-9-1", instance_id="web-9")],
    ids=["dynamic", "foreign"],
)
def test_no_rebalance_is_promised_while_somebody_else_is_in_the_group(other: MemberView) -> None:
    """Nobody knows when such a member polls, so it might keep the others waiting; and it may stay for ever."""
    seen = world(member(0), member(1), other)
    assert decided(seen).topics.held_by is RebalanceGuard.OTHERS_IN_GROUP
    found = conditions_of(seen, history(unread=BEFORE), wish=spec(**WISH))
    assert "once the members that are not of this StaticGroup have left it" in found[ConditionType.CONSUMING].message
    assert found[ConditionType.READY].reason == Reason.TOPICS_UNREAD


@pytest.mark.parametrize("wish", [{}, {"mode": "Observe"}, {"onTopicChange": "Report"}], ids=str)
def test_kafka_streams_is_only_reported(wish: dict[str, str]) -> None:
    """Whatever is asked for: a message that promised a rebalance under Rebalance would not be true."""
    found = decided(world(assignor="stream"), **wish).topics
    assert (found.action, found.held_by) == (None, RebalanceGuard.KAFKA_STREAMS)


@pytest.mark.parametrize(
    ("topics", "partitions"),
    [
        ((("orders", 6),), {"orders": 6}),
        ((("orders", 6), ("payments", 0)), {"orders": 6}),
        ((("orders", 6), ("payments", 0)), {"orders": 6, "payments": 0}),
        ((), {"orders": 6}),
    ],
    ids=["all read", "no such topic, or no right to describe it", "without partitions", "no subscription"],
)
def test_nothing_is_unread(topics: tuple[tuple[str, int], ...], partitions: dict[str, int]) -> None:
    found = decided(world(topics=topics, partitions=partitions))
    assert found.topics.unread is None
    assert found.history.unread is None


def test_added_partitions_count() -> None:
    """A leader that is static and restarted never notices them (sarama, aiokafka, kafka-python, Java before 3.2)."""
    found = decided(world(topics=(("orders", 6),), partitions={"orders": 8}), None)
    assert found.history.unread is not None
    assert found.history.unread.topics == ("orders",)


@pytest.mark.parametrize("changes", [{"topics": None, "state": "PreparingRebalance"}, {"topics": None}])
def test_what_is_not_known_changes_nothing_but_begins_the_rest_anew(changes: dict[str, Any]) -> None:
    found = decided(world(**changes))
    assert found.topics.action is None
    assert found.history.unread == replace(BEFORE, rest_since_s=None)


def test_the_newer_protocols_assign_what_is_subscribed_by_themselves() -> None:
    changes: dict[str, Any] = {"topics": None, "assignor": "", "group_epoch": 3, "assignment_epoch": 3}
    members = (member(0, member_epoch=3), member(1, member_epoch=3))
    seen = world(*members, group_type=GroupType.CONSUMER, **changes)
    assert decided(seen, groupProtocol="Consumer").history.unread is None


def test_another_change_is_another_rebalance_but_not_at_once() -> None:
    done = replace(BEFORE, rebalanced_for=("orders",), rebalanced_at_s=NOW_S - PACE_S + 1)
    assert decided(world(), done).topics.held_by is RebalanceGuard.DONE_LATELY
    assert decided(world(), done, NOW_S + 1).topics.action is not None


def test_the_pause_counts_from_the_rebalance_for_other_topics() -> None:
    for_orders = UnreadTopics(topics=("orders",), since_s=NOW_S - 90, rest_since_s=NOW_S - SETTLED_S)
    other = replace(for_orders, rebalanced_for=("orders",), rebalanced_at_s=NOW_S - 60)
    found = decided(world(), other)
    assert found.topics.held_by is RebalanceGuard.DONE_LATELY
    assert found.history.unread is not None
    assert (found.history.unread.topics, found.history.unread.since_s) == (("payments",), NOW_S)


def test_what_is_left_of_topics_that_a_rebalance_was_for_is_no_other_change() -> None:
    done = replace(BEFORE, rebalanced_for=("orders", "payments"), rebalanced_at_s=NOW_S - PACE_S)
    assert decided(world(), done).topics.held_by is RebalanceGuard.DONE_BEFORE


def test_a_group_whose_assignor_is_not_known_is_not_joined() -> None:
    """The coordinator refuses a member that has no assignor in common with the others."""
    found = decided(world(assignor="")).topics
    assert (found.action, found.held_by) == (None, RebalanceGuard.NOT_AT_REST)


def test_many_topics_are_bounded() -> None:
    names = [f"t{n:03}" for n in range(UNREAD_TOPICS_MAX + 5)]
    seen = world(topics=tuple((name, 0) for name in names), partitions=dict.fromkeys(names, 1))
    found = decided(seen, None).history.unread
    assert found is not None
    assert found.topics == tuple(names[:UNREAD_TOPICS_MAX])


def test_it_is_remembered_over_a_restart_but_for_the_rest() -> None:
    unread = replace(BEFORE, rebalanced_for=("payments",), rebalanced_at_s=NOW_S)
    assert unread_from(wire_unread(unread)) == replace(unread, rest_since_s=None)
    assert unread_from(wire_unread(None)) is None


@pytest.mark.parametrize(
    ("unread", "wish", "said"),
    [
        (None, {}, "rebalanced once, as soon as every pod is Ready"),
        (None, {}, "during that rebalance, members with an eager assignor stand still"),
        (None, {"onTopicChange": "Report"}, "or scale down by one until that pod's member has left the group, and back"),
        (
            replace(BEFORE, rebalanced_for=("payments",), rebalanced_at_s=NOW_S - 60), {},
            "A rebalance was asked for once, and that changed nothing",
        ),
        (replace(BEFORE, rebalanced_for=("orders",), rebalanced_at_s=NOW_S - 60), {}, "half an hour after that"),
        (BEFORE, {}, "The group is rebalanced once now."),
    ],
    ids=["to come", "what it costs", "Report", "in vain", "lately", "now"],
)
def test_the_condition_says_what_follows(unread: UnreadTopics | None, wish: dict[str, str], said: str) -> None:
    condition = conditions_of(world(), history(unread=unread), wish=spec(**(WISH | wish)))[ConditionType.CONSUMING]
    assert (condition.status, condition.reason) == (ConditionStatus.FALSE, Reason.TOPICS_UNREAD)
    assert "payments. Static members that restart cause no rebalance, so nobody was given them." in condition.message
    assert said in condition.message


@pytest.mark.parametrize("wish", [{}, {"mode": "Observe"}, {"onTopicChange": "Report"}], ids=str)
def test_no_rebalance_is_promised_while_another_goes_on(wish: dict[str, str]) -> None:
    found = consuming(world(topics=None, state="PreparingRebalance"), history(unread=BEFORE), **wish)
    assert found.message.endswith("Looked at again once the group is Stable and what its members subscribe can be read.")


# a rebalance that does not end, and members without partitions ------------------------------------------------------


def rebalancing(**changes: Any) -> Snapshot:
    return world(**({"topics": None, "state": "PreparingRebalance"} | changes))


def consuming(seen: Snapshot, memory: History, **wish: Any) -> Condition:
    return conditions_of(seen, memory, wish=spec(**(WISH | wish)))[ConditionType.CONSUMING]


def test_a_rebalance_that_does_not_end_is_said() -> None:
    """A member whose poll loop hangs while its heartbeats go on keeps all others waiting."""
    first = decided(rebalancing(), None)
    assert first.history.rebalancing_since_s == NOW_S
    assert consuming(rebalancing(), history()).status is ConditionStatus.TRUE
    long_ago = history(rebalancing_since_s=NOW_S - STUCK_AFTER_S)
    found = consuming(rebalancing(), long_ago)
    assert (found.status, found.reason) == (ConditionStatus.FALSE, Reason.REBALANCE_STUCK)
    assert "and with an eager assignor nobody consumes: it waits for a member that does not poll" in found.message
    assert "Else the others wait for max.poll.interval.ms, and its partitions for its session timeout more" in found.message
    assert conditions_of(rebalancing(), long_ago, wish=spec(**WISH))["Ready"].status is ConditionStatus.FALSE
    assert decided(world()).history.rebalancing_since_s is None
    empty = rebalancing()
    empty = replace(empty, group=replace(group_of(empty), members=()))
    assert decided(empty, None).history.rebalancing_since_s is None


def test_a_roll_is_no_stuck_rebalance() -> None:
    rolling = replace(rebalancing(), workload=workload(2, updated_replicas=1, update_revision="r2"))
    assert consuming(rolling, history(rebalancing_since_s=NOW_S - 500)).status is ConditionStatus.TRUE


def test_whom_a_group_with_epochs_waits_for_is_named() -> None:
    members = (member(0, member_epoch=4), member(1, member_epoch=3))
    seen = rebalancing(state="Reconciling", group_type=GroupType.CONSUMER, assignor="", group_epoch=4, assignment_epoch=4)
    seen = replace(seen, group=replace(group_of(seen), members=members))
    found = consuming(seen, history(rebalancing_since_s=NOW_S - STUCK_AFTER_S), groupProtocol="Consumer")
    assert found.reason == Reason.REBALANCE_STUCK
    assert "waits for web-1 " in found.message
    assert "else it is given up after its max.poll.interval.ms" in found.message


def group_of(seen: Snapshot) -> GroupView:
    assert isinstance(seen.group, GroupView)
    return seen.group


def test_members_without_any_partition_are_said() -> None:
    members = (member(0, assigned_partitions=0), member(1, assigned_partitions=0))
    found = consuming(world(*members, topics=(), partitions={}), history())
    assert (found.status, found.reason) == (ConditionStatus.FALSE, Reason.NOTHING_ASSIGNED)
    one_works = (member(0, assigned_partitions=0), member(1, assigned_partitions=1))
    assert consuming(world(*one_works, topics=(), partitions={}), history()).status is ConditionStatus.TRUE


def test_topic_that_cannot_be_seen_is_not_called_read() -> None:
    """Metadata answers UNKNOWN_TOPIC_OR_PARTITION for a topic without DESCRIBE as for one that does not exist."""
    found = consuming(world(topics=(("orders", 6), ("payments", 0)), partitions={"orders": 6}), history())
    assert (found.status, found.reason) == (ConditionStatus.TRUE, Reason.ALL_TOPICS_READ)
    assert "Every partition" not in found.message
    assert "lacks DESCRIBE on them: payments." in found.message
    all_seen = consuming(world(topics=(("orders", 6),), partitions={"orders": 6}), history())
    assert all_seen.message.startswith("Every partition")


def test_a_right_that_is_missing_for_the_rebalance_is_named() -> None:
    """Nobody has joined, so it is asked for again in the next round, and the status says what to grant."""
    denied = KafkaProblem(
        kind=KafkaProblemKind.NOT_AUTHORIZED, message="User:op lacks READ on Group 'orders'", missing_acl="READ"
    )
    found = conditions_of(world(), history(unread=BEFORE), Executed(rebalance_problem=denied), wish=spec(**WISH))
    condition = found[ConditionType.AUTHORIZED]
    assert (condition.status, condition.reason) == (ConditionStatus.FALSE, Reason.READ_GROUP_DENIED)
    assert "READ on Group" in condition.message
