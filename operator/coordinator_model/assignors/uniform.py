"""KIP-848's uniform assignor: balance first, then as few moves as possible.

Source: UniformAssignor, UniformHomogeneousAssignmentBuilder and UniformHeterogeneousAssignmentBuilder. Kafka iterates
members in hash order; here it is member order, so that equals are decided by instance id.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from ..base.image import TopicImage
from ..base.messages import TopicPartitions
from .subscription import MemberSubscription, member_order, subscribers_by_topic, to_pairs, to_topic_partitions

MAX_ITERATIONS = 16
"""Rounds of the final balancing of differing subscriptions (MAX_ITERATION_COUNT)."""

Owned = dict[str, list[tuple[str, int]]]
"""member id → (topic, partition) pairs."""


def assign(members: Mapping[str, MemberSubscription], image: TopicImage) -> dict[str, TopicPartitions]:
    """Return the uniform assignment; `owned` of each member is its previous target.

    Parameters
    ----------
    members: member id → what it subscribes to and had.
    image: the topics; subscribed topics that are missing in it are skipped.
    """
    owned = {member_id: to_pairs(subscription.owned) for member_id, subscription in members.items()}
    return spread(members, image, owned)


def spread(members: Mapping[str, MemberSubscription], image: TopicImage, owned: Owned) -> dict[str, TopicPartitions]:
    """Return a balanced assignment that keeps of `owned` what balance and subscriptions allow."""
    subscribers = subscribers_by_topic(members, image)
    kept = _valid(members, image, owned)
    if all(len(subscribed) == len(members) for subscribed in subscribers.values()):
        assigned = _spread_equal(members, image, subscribers, kept)
    else:
        assigned = _Different(members, image, subscribers, kept).spread()
    return {member_id: to_topic_partitions(assigned[member_id]) for member_id in members}


def _valid(members: Mapping[str, MemberSubscription], image: TopicImage, owned: Owned) -> Owned:
    """Return what is still subscribed and exists; a partition named by several stays with the first in order."""
    seen: set[tuple[str, int]] = set()
    kept: Owned = {}
    for member_id in member_order(members):
        topics = set(members[member_id].topics)
        kept[member_id] = []
        for topic, partition in sorted(owned.get(member_id, [])):
            pair = (topic, partition)
            if topic in topics and partition < image.partitions.get(topic, 0) and pair not in seen:
                seen.add(pair)
                kept[member_id].append(pair)
    return kept


def _all_pairs(image: TopicImage, subscribers: Mapping[str, list[str]]) -> list[tuple[str, int]]:
    return [(topic, partition) for topic in subscribers for partition in range(image.partitions[topic])]


def _spread_equal(
    members: Mapping[str, MemberSubscription], image: TopicImage, subscribers: Mapping[str, list[str]], kept: Owned
) -> Owned:
    """All subscribe to the same: each member gets the floor or the ceiling of the average.

    A member above the floor keeps one more while there are extras; a member below it gives up its claim to an extra,
    unless only as many members are left as extras. Source: UniformHomogeneousAssignmentBuilder.maybeRevokePartitions.
    """
    pairs = _all_pairs(image, subscribers)
    taken = {pair for owned in kept.values() for pair in owned}
    free = [pair for pair in pairs if pair not in taken]
    floor, extras = divmod(len(pairs), len(members)) if members else (0, 0)
    short: list[tuple[str, int]] = []
    for position, member_id in enumerate(kept):
        has_extra = extras > 0
        quota = floor + has_extra
        free += kept[member_id][quota:]
        del kept[member_id][quota:]
        missing = quota - len(kept[member_id])
        if missing > 0 and has_extra and len(members) - position > extras:
            missing -= 1
            has_extra = False
        if missing > 0:
            short.append((member_id, missing))
        extras -= has_extra
    for member_id, missing in short:
        kept[member_id] += free[:missing]
        del free[:missing]
    return kept


class _Different:
    """Subscriptions differ: sticky start, other partitions to the least loaded, then moves from most to least loaded.

    Source: UniformHeterogeneousAssignmentBuilder.
    """

    def __init__(
        self,
        members: Mapping[str, MemberSubscription],
        image: TopicImage,
        subscribers: Mapping[str, list[str]],
        kept: Owned,
    ) -> None:
        self._image = image
        self._subscribers = subscribers
        self._rank = {member_id: rank for rank, member_id in enumerate(member_order(members))}
        self._assigned = {member_id: set(pairs) for member_id, pairs in kept.items()}

    def spread(self) -> Owned:
        taken = set().union(*self._assigned.values())
        topics = sorted(self._subscribers, key=self._weight)
        for topic in topics:
            partitions = range(self._image.partitions[topic])
            self._hand_out(topic, [p for p in partitions if (topic, p) not in taken])
        movable = [topic for topic in topics if len(self._subscribers[topic]) >= 2]
        for _ in range(MAX_ITERATIONS):
            if not any([self._balance(topic) for topic in movable]):
                break
        return {member_id: sorted(pairs) for member_id, pairs in self._assigned.items()}

    def _weight(self, topic: str) -> tuple[float, int, str]:
        """Topics with the most partitions per subscriber go first, then those with the fewest subscribers."""
        count = len(self._subscribers[topic])
        return (-self._image.partitions[topic] / count, count, topic)

    def _by_load(self, topic: str) -> list[tuple[int, int, str]]:
        """Return (load, place, member id) of a topic's subscribers, the least loaded first."""
        loads = sorted((len(self._assigned[m]), self._rank[m], m) for m in self._subscribers[topic])
        return [(load, place, member_id) for place, (load, _, member_id) in enumerate(loads)]

    def _hand_out(self, topic: str, partitions: list[int]) -> None:
        heap = self._by_load(topic)
        for partition in partitions:
            load, place, member_id = heap[0]
            self._assigned[member_id].add((topic, partition))
            heapq.heapreplace(heap, (load + 1, place, member_id))

    def _balance(self, topic: str) -> bool:
        """Move partitions of one topic until its subscribers differ by one at most or none can give; return if any."""
        moved = False
        loads = {member_id: (load, place) for load, place, member_id in self._by_load(topic)}
        held = {m: sorted(p for t, p in self._assigned[m] if t == topic) for m in loads}
        while givers := [m for m in loads if held[m]]:
            giver = max(givers, key=loads.__getitem__)
            taker = min(loads, key=loads.__getitem__)
            if loads[giver][0] - loads[taker][0] <= 1:
                break
            partition = held[giver].pop()
            self._assigned[giver].remove((topic, partition))
            self._assigned[taker].add((topic, partition))
            loads[giver] = (loads[giver][0] - 1, loads[giver][1])
            loads[taker] = (loads[taker][0] + 1, loads[taker][1])
            moved = True
        return moved
