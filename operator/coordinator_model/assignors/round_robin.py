"""The client side's round-robin assignor: all partitions in turn, members in member order.

Source: org.apache.kafka.clients.consumer.RoundRobinAssignor.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..base.image import TopicImage
from ..base.messages import TopicPartitions
from .subscription import MemberSubscription, member_order, subscribers_by_topic, to_topic_partitions


def assign(members: Mapping[str, MemberSubscription], image: TopicImage) -> dict[str, TopicPartitions]:
    """Return the assignment that deals topics, by name, and their partitions, by number, to the next subscriber.

    Parameters
    ----------
    members: member id → what it subscribes to.
    image: the topics; subscribed topics that are missing in it are skipped.
    """
    assigned: dict[str, list[tuple[str, int]]] = {member_id: [] for member_id in members}
    order = member_order(members)
    turn = 0
    for topic, subscribers in subscribers_by_topic(members, image).items():
        entitled = set(subscribers)
        for partition in range(image.partitions[topic]):
            while order[turn % len(order)] not in entitled:
                turn += 1
            assigned[order[turn % len(order)]].append((topic, partition))
            turn += 1
    return {member_id: to_topic_partitions(pairs) for member_id, pairs in assigned.items()}
