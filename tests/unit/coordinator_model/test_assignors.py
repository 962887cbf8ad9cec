"""Assignors: what Kafka's own tests pin, and the properties that hold for any group."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_model.assignors import (
    CLIENT_ASSIGNORS,
    SERVER_ASSIGNORS,
    MemberSubscription,
    member_order,
    sticky,
    uniform,
)
from coordinator_model.assignors import range as range_assignor
from coordinator_model.assignors.subscription import to_pairs, to_topic_partitions
from coordinator_model.base.image import TopicImage

EVERY = {
    **{f"client {name}": assign for name, assign in CLIENT_ASSIGNORS.items()},
    **{f"server {name}": assign for name, assign in SERVER_ASSIGNORS.items()},
}
TOPICS = ("a", "b", "c")

images = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 7), min_size=1).map(TopicImage)


@st.composite
def groups(draw: st.DrawFn, *, equal: bool) -> tuple[dict[str, MemberSubscription], TopicImage]:
    """Members with instance ids or without, whose `owned` is disjoint, as after any earlier generation."""
    image = draw(images)
    count = draw(st.integers(1, 5))
    common = draw(st.sets(st.sampled_from(TOPICS), min_size=1))
    topics = [common if equal else draw(st.sets(st.sampled_from(TOPICS), min_size=1)) for _ in range(count)]
    pairs = [(topic, p) for topic, n in sorted(image.partitions.items()) for p in range(n)]
    owner = draw(st.lists(st.integers(-1, count - 1), min_size=len(pairs), max_size=len(pairs)))
    statics = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return {
        f"m{i}": MemberSubscription(
            instance_id=f"i{count - i}" if statics[i] else None,
            topics=frozenset(topics[i]),
            owned=to_topic_partitions(pair for pair, o in zip(pairs, owner, strict=True) if o == i),
        )
        for i in range(count)
    }, image


def wanted(members: dict[str, MemberSubscription], image: TopicImage) -> set[tuple[str, int]]:
    topics = set().union(*(m.topics for m in members.values()))
    return {(topic, p) for topic, n in image.partitions.items() if topic in topics for p in range(n)}


@pytest.mark.parametrize("name", [name for name in EVERY if "cooperative" not in name])
@settings(max_examples=60, derandomize=True, deadline=None)
@given(data=st.data())
def test_every_subscribed_partition_is_assigned_exactly_once_to_a_subscriber(name: str, data: st.DataObject) -> None:
    """ConsumerPartitionAssignor's contract; verifyValidityAndBalance of AbstractStickyAssignorTest."""
    members, image = data.draw(groups(equal=data.draw(st.booleans())))
    assigned = EVERY[name](members, image)
    assert list(assigned) == list(members)
    count = Counter(pair for partitions in assigned.values() for pair in to_pairs(partitions))
    assert count == Counter(wanted(members, image))
    for member_id, partitions in assigned.items():
        assert {topic for topic, _ in partitions} <= set(members[member_id].topics)
        assert partitions == to_topic_partitions(to_pairs(partitions))


@pytest.mark.parametrize("name", ["client sticky", "server uniform", "client roundrobin"])
@settings(max_examples=80, derandomize=True, deadline=None)
@given(group=groups(equal=True))
def test_equal_subscriptions_are_balanced_within_one(
    name: str, group: tuple[dict[str, MemberSubscription], TopicImage]
) -> None:
    """UniformHomogeneousAssignmentBuilder: sizes of any two members differ by one at most."""
    members, image = group
    sizes = [len(to_pairs(partitions)) for partitions in EVERY[name](members, image).values()]
    assert max(sizes) - min(sizes) <= 1


@settings(max_examples=120, derandomize=True, deadline=None)
@given(group=groups(equal=True))
def test_uniform_moves_no_more_than_balance_demands(group: tuple[dict[str, MemberSubscription], TopicImage]) -> None:
    """Balance > Stickiness: a member within the floor keeps everything, and members that had more get the ceilings."""
    members, image = group
    pairs = wanted(members, image)
    assigned = uniform.assign(members, image)
    floor, extras = divmod(len(pairs), len(members))
    before = {m: [p for p in to_pairs(s.owned) if p in pairs] for m, s in members.items()}
    kept = sum(len(set(before[m]) & set(to_pairs(assigned[m]))) for m in members)
    ceilings = min(extras, sum(len(owned) > floor for owned in before.values()))
    assert kept == sum(min(len(owned), floor) for owned in before.values()) + ceilings


@settings(max_examples=80, derandomize=True, deadline=None)
@given(group=groups(equal=False))
def test_uniform_is_stable_once_reached(group: tuple[dict[str, MemberSubscription], TopicImage]) -> None:
    """AbstractStickyAssignorTest.testNewSubscription and others: the same group assigned again moves nothing."""
    members, image = group
    first = uniform.assign(members, image)
    again = {
        m: MemberSubscription(instance_id=s.instance_id, topics=s.topics, owned=first[m]) for m, s in members.items()
    }
    assert uniform.assign(again, image) == first


@pytest.mark.parametrize(("equal", "rounds"), [(True, 2), (False, 5)])
@settings(max_examples=60, derandomize=True, deadline=None)
@given(data=st.data())
def test_cooperative_sticky_converges_without_a_partition_owned_twice(
    equal: bool, rounds: int, data: st.DataObject
) -> None:
    """KIP-429: a round only takes away or hands out what is free; equal subscriptions are complete in the second."""
    members, image = data.draw(groups(equal=equal))
    for _ in range(rounds):
        owner = {pair: m for m, s in members.items() for pair in to_pairs(s.owned)}
        assigned = sticky.assign_cooperative(members, image)
        for member_id, partitions in assigned.items():
            assert all(owner.get(pair, member_id) == member_id for pair in to_pairs(partitions))
        members = {m: replace(s, owned=assigned[m]) for m, s in members.items()}
    assert {pair for partitions in assigned.values() for pair in to_pairs(partitions)} == wanted(members, image)


def test_different_subscriptions_are_balanced_where_topics_overlap() -> None:
    """UniformHeterogeneousAssignmentBuilderTest: the topic with one subscriber fixes its load, the others level out."""
    image = TopicImage({"a": 3, "b": 6})
    members = {"m1": MemberSubscription(topics=("a", "b")), "m2": MemberSubscription(topics=("b",))}
    assigned = uniform.assign(members, image)
    assert assigned == {"m1": (("a", (0, 1, 2)), ("b", (4,))), "m2": (("b", (0, 1, 2, 3, 5)),)}


def test_different_subscriptions_move_partitions_from_the_most_to_the_least_loaded() -> None:
    """UniformHeterogeneousAssignmentBuilder.balanceTopic: the last partitions of the most loaded go first."""
    image = TopicImage({"a": 1, "b": 6})
    members = {
        "m1": MemberSubscription(topics=("a", "b"), owned=(("b", (0, 1, 2, 3, 4, 5)),)),
        "m2": MemberSubscription(topics=("b",)),
    }
    assert uniform.assign(members, image) == {"m1": (("a", (0,)), ("b", (0, 1, 2))), "m2": (("b", (3, 4, 5)),)}


def test_different_subscriptions_hand_out_the_most_demanding_topics_first() -> None:
    """UniformHeterogeneousAssignmentBuilder.topicComparator: partitions per subscriber, then fewest subscribers."""
    image = TopicImage({"a": 2, "z": 4})
    members = {"m1": MemberSubscription(topics=("a", "z")), "m2": MemberSubscription(topics=("a",))}
    assert uniform.assign(members, image) == {"m1": (("z", (0, 1, 2, 3)),), "m2": (("a", (0, 1)),)}
    pair = {m: MemberSubscription(topics=("a", "z")) for m in ("m1", "m2")} | {"m3": MemberSubscription(topics=("c",))}
    assert uniform.assign(pair, TopicImage({"a": 1, "c": 1, "z": 6})) == {
        "m1": (("a", (0,)), ("z", (0, 2, 4))), "m2": (("z", (1, 3, 5)),), "m3": (("c", (0,)),),
    }


def test_sticky_partition_claimed_twice_goes_to_the_highest_generation() -> None:
    """AbstractStickyAssignorTest.testEnsurePartitionsAssignedToHighestGeneration."""
    image = TopicImage({"topic": 3, "topic2": 3, "topic3": 3})

    def member(generation: int, *owned: tuple[str, int]) -> MemberSubscription:
        return MemberSubscription(topics=image.partitions, owned=to_topic_partitions(owned), generation=generation)

    assigned = sticky.assign(
        {
            "consumer1": member(10, ("topic", 0), ("topic2", 0), ("topic3", 0)),
            "consumer2": member(9, ("topic", 1), ("topic2", 1), ("topic3", 1)),
            "consumer3": member(8, ("topic2", 1), ("topic3", 0), ("topic3", 2)),
        },
        image,
    )
    assert assigned == {f"consumer{n + 1}": (("topic", (n,)), ("topic2", (n,)), ("topic3", (n,))) for n in range(3)}


def test_sticky_partition_claimed_twice_in_one_generation_is_taken_from_both() -> None:
    """…testPartitionsTransferringOwnershipIncludeThePartitionClaimedByMultipleConsumersInSameGeneration."""
    image = TopicImage({"topic": 3})
    members = {
        "consumer1": MemberSubscription(topics=("topic",), owned=(("topic", (0, 1)),), generation=10),
        "consumer2": MemberSubscription(topics=("topic",), owned=(("topic", (0, 2)),), generation=10),
        "consumer3": MemberSubscription(topics=("topic",), generation=10),
    }
    assigned = {"consumer1": (("topic", (1,)),), "consumer2": (("topic", (2,)),), "consumer3": (("topic", (0,)),)}
    assert sticky.assign(members, image) == assigned
    assert sticky.assign_cooperative(members, image) == {**assigned, "consumer3": ()}


def test_client_range_follows_racks_where_they_help() -> None:
    """RangeAssignorTest, rack-aware cases (KIP-881): each partition is read in the rack that has a replica."""
    racks = {("t", 0): frozenset("z"), ("t", 1): frozenset("y"), ("t", 2): frozenset("x")}
    image = TopicImage({"t": 3}, racks)
    members = {f"m{rack}": MemberSubscription(rack_id=rack, topics=("t",)) for rack in "xyz"}
    assert range_assignor.assign_client(members, image) == {
        "mx": (("t", (2,)),), "my": (("t", (1,)),), "mz": (("t", (0,)),),
    }
    assert range_assignor.assign(members, image)["mx"] == (("t", (0,)),)


def test_client_range_keeps_co_partitioned_topics_together_along_racks() -> None:
    """RangeAssignorTest, co-partitioning under racks: equal partition numbers of both topics go to one member."""
    racks = {(t, p): frozenset("yx"[p]) for t in ("t", "u") for p in (0, 1)}
    image = TopicImage({"t": 2, "u": 2}, racks)
    members = {f"m{rack}": MemberSubscription(rack_id=rack, topics=("t", "u")) for rack in "xy"}
    assert range_assignor.assign_client(members, image) == {
        "mx": (("t", (1,)), ("u", (1,))),
        "my": (("t", (0,)), ("u", (0,))),
    }


def test_member_order_is_static_by_instance_id_then_dynamic_by_member_id() -> None:
    """AbstractPartitionAssignor.MemberInfo.compareTo."""
    members = {
        "a": MemberSubscription(), "b": MemberSubscription(instance_id="2"), "c": MemberSubscription(instance_id="1"),
        "A": MemberSubscription(),
    }
    assert member_order(members) == ["c", "b", "A", "a"]
