"""The range assignors: each topic is cut into contiguous ranges, one per subscriber in member order.

Source: the server's org.apache.kafka.coordinator.group.assignor.RangeAssignor (KIP-848) and the client's
org.apache.kafka.clients.consumer.RangeAssignor, which first looks for equal racks (KIP-881).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..base.image import TopicImage
from ..base.messages import TopicPartitions
from .subscription import MemberSubscription, subscribers_by_topic, to_topic_partitions


@dataclass(slots=True)
class _Topic:
    """One topic while it is being handed out."""

    name: str
    partitions: int
    subscribers: list[str]
    racks: dict[str, str]
    image: TopicImage
    free: list[int] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    extras: int = 0

    def __post_init__(self) -> None:
        self.free = list(range(self.partitions))
        self.counts = dict.fromkeys(self.subscribers, 0)
        self.extras = self.partitions % len(self.subscribers)

    @property
    def quota(self) -> int:
        return self.partitions // len(self.subscribers)

    def room(self, member_id: str) -> int:
        """Return how many more partitions a member may get; the first members take the remainder."""
        return max(0, self.quota + (self.extras > 0) - self.counts[member_id])

    def give(self, member_id: str, partitions: list[int], assigned: dict[str, set[tuple[str, int]]]) -> None:
        self.counts[member_id] += len(partitions)
        if self.counts[member_id] > self.quota:
            self.extras -= 1
        taken = set(partitions)
        self.free = [p for p in self.free if p not in taken]
        assigned[member_id].update((self.name, p) for p in partitions)

    def rack_fits(self, member_id: str, partition: int) -> bool:
        rack = self.racks.get(member_id)
        return rack is None or rack in self.image.racks.get((self.name, partition), frozenset())

    def racks_matter(self) -> bool:
        """Return whether some subscriber is nearer to some partitions (useRackAwareAssignment)."""
        consumer_racks = {self.racks[m] for m in self.subscribers if m in self.racks}
        by_partition = [self.image.racks.get((self.name, p), frozenset()) for p in range(self.partitions)]
        all_racks = frozenset[str]().union(*by_partition)
        return not consumer_racks.isdisjoint(all_racks) and any(racks != all_racks for racks in by_partition)


def assign(members: Mapping[str, MemberSubscription], image: TopicImage) -> dict[str, TopicPartitions]:
    """Return the server side's range assignment: racks play no part.

    Parameters
    ----------
    members: member id → what it subscribes to.
    image: the topics; subscribed topics that are missing in it are skipped.
    """
    return _assign(members, image, racks={})


def assign_client(members: Mapping[str, MemberSubscription], image: TopicImage) -> dict[str, TopicPartitions]:
    """Return the client side's range assignment: ranges like the server's, cut along equal racks where these help."""
    return _assign(members, image, racks={m: s.rack_id for m, s in members.items() if s.rack_id})


def _assign(
    members: Mapping[str, MemberSubscription], image: TopicImage, racks: dict[str, str]
) -> dict[str, TopicPartitions]:
    assigned: dict[str, set[tuple[str, int]]] = {member_id: set() for member_id in members}
    topics = [
        _Topic(name, image.partitions[name], subscribers, racks, image)
        for name, subscribers in subscribers_by_topic(members, image).items()
    ]
    if any(topic.racks_matter() for topic in topics):
        _match_racks(topics, assigned)
    for topic in topics:
        for member_id in topic.subscribers:
            topic.give(member_id, topic.free[: topic.room(member_id)], assigned)
    return {member_id: to_topic_partitions(pairs) for member_id, pairs in assigned.items()}


def _match_racks(topics: list[_Topic], assigned: dict[str, set[tuple[str, int]]]) -> None:
    """Hand out what can stay within racks; topics of equal size and subscribers keep equal partition numbers."""
    alike: dict[tuple[tuple[str, ...], int], list[_Topic]] = {}
    for topic in topics:
        alike.setdefault((tuple(topic.subscribers), topic.partitions), []).append(topic)
    for group in alike.values():
        if len(group) > 1:
            _match_co_partitioned(group, assigned)
        elif group[0].racks_matter():
            topic = group[0]
            for member_id in topic.subscribers:
                near = [p for p in topic.free if topic.rack_fits(member_id, p)]
                topic.give(member_id, near[: topic.room(member_id)], assigned)


def _match_co_partitioned(group: list[_Topic], assigned: dict[str, set[tuple[str, int]]]) -> None:
    for partition in range(group[0].partitions):
        for member_id in group[0].subscribers:
            if all(t.room(member_id) > 0 and t.rack_fits(member_id, partition) for t in group):
                for topic in group:
                    topic.give(member_id, [partition], assigned)
                break
