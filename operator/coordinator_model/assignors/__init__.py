"""Assignors as pure functions: from subscriptions and owned partitions to each member's new partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..base.image import TopicImage
from ..base.messages import TopicPartitions
from . import range as range_assignor
from . import round_robin, sticky, uniform
from .subscription import MemberSubscription, member_order

Assignor = Callable[[Mapping[str, MemberSubscription], TopicImage], dict[str, TopicPartitions]]

SERVER_ASSIGNORS: dict[str, Assignor] = {"uniform": uniform.assign, "range": range_assignor.assign}
"""KIP-848's assignors by their names in group.consumer.assignors."""

CLIENT_ASSIGNORS: dict[str, Assignor] = {
    "range": range_assignor.assign_client,
    "roundrobin": round_robin.assign,
    "sticky": sticky.assign,
    "cooperative-sticky": sticky.assign_cooperative,
}
"""The classic protocol's assignors by their names in partition.assignment.strategy."""

__all__ = ["CLIENT_ASSIGNORS", "SERVER_ASSIGNORS", "Assignor", "MemberSubscription", "member_order"]
