"""Assignors: the rows on instance ids, and what a new member id of the same instance must not change."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from coordinator_model.assignors import CLIENT_ASSIGNORS, SERVER_ASSIGNORS, MemberSubscription, round_robin, sticky
from coordinator_model.assignors import range as range_assignor
from coordinator_model.base.image import TopicImage
from coordinator_model.base.messages import TopicPartitions

Assign = Callable[[Mapping[str, MemberSubscription], TopicImage], dict[str, TopicPartitions]]

ORDERED: dict[str, Assign] = {
    "client range": range_assignor.assign_client,
    "client round-robin": round_robin.assign,
    "server range": range_assignor.assign,
}
EVERY: dict[str, Assign] = {
    **{f"client {name}": assign for name, assign in CLIENT_ASSIGNORS.items()},
    **{f"server {name}": assign for name, assign in SERVER_ASSIGNORS.items()},
}
TWO_TOPICS = ("topic1", "topic2")


def static(instance_id: str, *topics: str) -> MemberSubscription:
    return MemberSubscription(instance_id=instance_id, topics=topics or TWO_TOPICS)


def dynamic(*topics: str) -> MemberSubscription:
    return MemberSubscription(topics=topics or TWO_TOPICS)


def by_instance(
    members: Mapping[str, MemberSubscription], assigned: Mapping[str, TopicPartitions]
) -> dict[str | None, TopicPartitions]:
    return {members[member_id].instance_id: partitions for member_id, partitions in assigned.items()}


def test_I12_client_range_orders_two_static_members_by_instance_id() -> None:
    """RangeAssignorTest.testTwoStaticConsumersTwoTopicsSixPartitions (clients)."""
    members = {"consumer-b": static("instance1"), "consumer-a": static("instance2")}
    assert range_assignor.assign_client(members, TopicImage({"topic1": 3, "topic2": 3})) == {
        "consumer-b": (("topic1", (0, 1)), ("topic2", (0, 1))),
        "consumer-a": (("topic1", (2,)), ("topic2", (2,))),
    }


def test_I12_client_range_puts_static_before_dynamic() -> None:
    """RangeAssignorTest.testOneStaticConsumerAndOneDynamicConsumerTwoTopicsSixPartitions (clients)."""
    members = {"consumer-b": static("instance1"), "consumer-a": dynamic()}
    assert range_assignor.assign_client(members, TopicImage({"topic1": 3, "topic2": 3})) == {
        "consumer-b": (("topic1", (0, 1)), ("topic2", (0, 1))),
        "consumer-a": (("topic1", (2,)), ("topic2", (2,))),
    }


def test_I12_client_range_keeps_static_members_when_a_dynamic_one_is_replaced() -> None:
    """RangeAssignorTest.testStaticMemberRangeAssignmentPersistent (clients)."""
    image = TopicImage({"topic1": 5, "topic2": 4})
    statics = {f"consumer{n}": static(f"instance{n}") for n in (1, 2, 3)}
    expected = {
        "consumer1": (("topic1", (0, 1)), ("topic2", (0,))),
        "consumer2": (("topic1", (2,)), ("topic2", (1,))),
        "consumer3": (("topic1", (3,)), ("topic2", (2,))),
    }
    last = (("topic1", (4,)), ("topic2", (3,)))
    for newcomer in ("consumer4", "consumer5"):
        assert range_assignor.assign_client({**statics, newcomer: dynamic()}, image) == {**expected, newcomer: last}


def test_I12_client_round_robin_orders_by_instance_id() -> None:
    """RoundRobinAssignorTest.testTwoStaticConsumersTwoTopicsSixPartitions and the mixed case after it."""
    image = TopicImage({"topic1": 3, "topic2": 3})
    expected = {
        "consumer-b": (("topic1", (0, 2)), ("topic2", (1,))),
        "consumer-a": (("topic1", (1,)), ("topic2", (0, 2))),
    }
    assert round_robin.assign({"consumer-b": static("instance1"), "consumer-a": static("instance2")}, image) == expected
    assert round_robin.assign({"consumer-b": static("instance1"), "consumer-a": dynamic()}, image) == expected


def test_I12_client_round_robin_keeps_static_members_when_a_dynamic_one_is_replaced() -> None:
    """RoundRobinAssignorTest.testStaticMemberRoundRobinAssignmentPersistent."""
    image = TopicImage({"topic1": 3, "topic2": 3})
    statics = {f"consumer{n}": static(f"instance{n}") for n in (1, 2, 3)}
    expected = {
        "consumer1": (("topic1", (0,)), ("topic2", (1,))),
        "consumer2": (("topic1", (1,)), ("topic2", (2,))),
        "consumer3": (("topic1", (2,)),),
    }
    for newcomer in ("consumer4", "consumer5"):
        assigned = round_robin.assign({**statics, newcomer: dynamic()}, image)
        assert assigned == {**expected, newcomer: (("topic2", (0,)),)}


@pytest.mark.parametrize("name", ORDERED)
def test_I12_new_member_ids_of_the_same_instances_change_nothing(name: str) -> None:
    """…PersistentAfterMemberIdChanges (clients, range and round-robin); RangeAssignorTest.testStaticMembership."""
    image = TopicImage({"topic1": 5, "topic2": 5})
    before = {f"consumer{n}": static(f"instance{n}") for n in (1, 2, 3)}
    after = {"consumer1": before["consumer1"], "consumer4": before["consumer3"], "consumer5": before["consumer2"]}
    assign = ORDERED[name]
    first = by_instance(before, assign(before, image))
    assert by_instance(after, assign(after, image)) == first
    assert len(set(first.values())) == 3


def test_I12_server_range_keeps_dynamic_neighbours_of_a_returning_static_member() -> None:
    """RangeAssignorTest.testMixedStaticMembership (server)."""
    image = TopicImage({"topic1": 5})
    others = {"memberB": dynamic("topic1"), "memberC": static("instanceC", "topic1")}
    first = range_assignor.assign({"memberA": static("instanceA", "topic1"), **others}, image)
    second = range_assignor.assign({"memberA1": static("instanceA", "topic1"), **others}, image)
    assert first == {"memberA": (("topic1", (0, 1)),), "memberC": (("topic1", (2, 3)),), "memberB": (("topic1", (4,)),)}
    assert second == {"memberA1": first["memberA"], "memberB": first["memberB"], "memberC": first["memberC"]}


@pytest.mark.parametrize("name", EVERY)
def test_nine_partitions_stay_with_their_instances_after_a_restart(name: str) -> None:
    """KIP-345, "Client behavior changes": instances A, B, C as members 1, 2, 3; A comes back as member 4.

    By member id all nine partitions would move; by instance id none does, whichever assignor is used, even if nobody
    reports what it owned.
    """
    image = TopicImage({"orders": 9})
    before = {"1": static("A", "orders"), "2": static("B", "orders"), "3": static("C", "orders")}
    after = {"2": static("B", "orders"), "3": static("C", "orders"), "4": static("A", "orders")}
    first = by_instance(before, EVERY[name](before, image))
    assert by_instance(after, EVERY[name](after, image)) == first
    if "robin" in name:
        expected = {"A": (0, 3, 6), "B": (1, 4, 7), "C": (2, 5, 8)}
    else:
        expected = {"A": (0, 1, 2), "B": (3, 4, 5), "C": (6, 7, 8)}
    assert first == {instance_id: (("orders", numbers),) for instance_id, numbers in expected.items()}


@pytest.mark.parametrize("name", ORDERED)
def test_nine_partitions_all_move_when_the_order_is_by_member_id(name: str) -> None:
    """KIP-345, the same example without instance ids: its reason for sending them to the leader."""
    image = TopicImage({"orders": 9})
    first = ORDERED[name]({m: dynamic("orders") for m in ("1", "2", "3")}, image)
    second = ORDERED[name]({m: dynamic("orders") for m in ("2", "3", "4")}, image)
    assert second["2"] == first["1"] != first["2"]
    assert second["3"] == first["2"] != first["3"]


def test_sticky_gives_a_returning_static_member_its_partitions_back_from_the_leaders_memory() -> None:
    """KIP-345, future works: stickiness by instance id; today's sticky assignors know only what members report."""
    image = TopicImage({"orders": 6})
    held = {"A": (("orders", (1, 4)),), "B": (("orders", (0, 3)),), "C": (("orders", (2, 5)),)}
    back = {
        "4": static("C", "orders"),
        "2": MemberSubscription(instance_id="B", topics=("orders",), owned=held["B"], generation=7),
        "3": static("A", "orders"),
    }
    with_memory = by_instance(back, sticky.assign(back, image, held))
    assert with_memory == held
    without = by_instance(back, sticky.assign(back, image))
    assert without["B"] == held["B"]
    assert without["A"] == (("orders", (1, 2)),)


def test_cooperative_sticky_withholds_what_another_member_still_owns() -> None:
    """CooperativeStickyAssignorTest (KIP-429): a moving partition is assigned only after its owner gave it up."""
    image = TopicImage({"orders": 4})
    owner = MemberSubscription(topics=("orders",), owned=(("orders", (0, 1, 2, 3)),), generation=3)
    first = sticky.assign_cooperative({"m1": owner, "m2": dynamic("orders")}, image)
    assert first == {"m1": (("orders", (0, 1)),), "m2": ()}
    revoked = MemberSubscription(topics=("orders",), owned=first["m1"], generation=4)
    second = sticky.assign_cooperative({"m1": revoked, "m2": dynamic("orders")}, image)
    assert second == {"m1": (("orders", (0, 1)),), "m2": (("orders", (2, 3)),)}
