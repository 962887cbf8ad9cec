"""The client side's sticky assignors, their memory kept by instance id.

Kafka's sticky assignors know the past only from what each member reports, so a static member that was away and
reports nothing looks like a newcomer. KIP-345 ("future works") proposes to decide by instance id instead: here equals
are decided in member order, and a leader that remembers the last assignment by instance id gives it back.
Source: AbstractStickyAssignor, CooperativeStickyAssignor (KIP-429); KIP-345, Assignor changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..base.image import TopicImage
from ..base.messages import TopicPartitions
from .subscription import MemberSubscription, to_pairs, to_topic_partitions
from .uniform import Owned, spread


def assign(
    members: Mapping[str, MemberSubscription],
    image: TopicImage,
    remembered: Mapping[str, TopicPartitions] | None = None,
) -> dict[str, TopicPartitions]:
    """Return a balanced assignment with the fewest moves from what the members own.

    Parameters
    ----------
    members: member id → what it subscribes to and owns, with the generation in which it did.
    image: the topics; subscribed topics that are missing in it are skipped.
    remembered: instance id → last assignment, for static members that report nothing; None: no memory, as in Kafka.
    """
    claims, _ = _claims(members, remembered or {})
    return spread(members, image, claims)


def assign_cooperative(members: Mapping[str, MemberSubscription], image: TopicImage) -> dict[str, TopicPartitions]:
    """Return the sticky assignment without the partitions that another member still has to give up first.

    Source: CooperativeStickyAssignor.adjustAssignment: the next rebalance, after the revocations, hands them out.
    """
    claims, disputed = _claims(members, {})
    owner: dict[tuple[str, int], str | None] = dict.fromkeys(disputed)
    owner |= {pair: member_id for member_id, pairs in claims.items() for pair in pairs}
    target = assign(members, image)
    return {
        member_id: to_topic_partitions(p for p in to_pairs(partitions) if owner.get(p, member_id) == member_id)
        for member_id, partitions in target.items()
    }


def _claims(
    members: Mapping[str, MemberSubscription], remembered: Mapping[str, TopicPartitions]
) -> tuple[Owned, set[tuple[str, int]]]:
    """Return owned and disputed partitions: the later generation wins, of two equal claims neither (KAFKA-12984).

    A memory counts only for partitions that no member claims.
    """
    best: dict[tuple[str, int], tuple[int, str | None]] = {}
    for member_id, member in members.items():
        for pair in to_pairs(member.owned):
            generation, _ = best.get(pair, (-2, None))
            if member.generation > generation:
                best[pair] = (member.generation, member_id)
            elif member.generation == generation:
                best[pair] = (generation, None)
    claims: Owned = {member_id: [] for member_id in members}
    for pair, (_, owner) in best.items():
        if owner is not None:
            claims[owner].append(pair)
    for member_id, member in members.items():
        if member.instance_id is not None and not member.owned:
            past = to_pairs(remembered.get(member.instance_id, ()))
            claims[member_id] += [pair for pair in past if pair not in best]
    return claims, {pair for pair, (_, owner) in best.items() if owner is None}
