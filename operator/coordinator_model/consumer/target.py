"""What follows from a member's join or change: group epoch, target assignment, reconciliation, in this order.

Each function adds records and reads the group as it was before the step; a returning static member is both the copy
(`old`) that its replacement made and its update (`new`).
Source: GroupMetadataManager.updateSubscriptionMetadata, maybeUpdateTargetAssignment, maybeReconcile.
"""

from __future__ import annotations

from ..assignors import SERVER_ASSIGNORS, MemberSubscription
from ..assignors.subscription import to_pairs, to_topic_partitions
from ..base.group_config import may_assign
from ..base.image import metadata_hash
from ..base.messages import TopicPartitions
from ..base.records import Record
from ..base.result import Step
from ..base.shard import Shard
from .group import ConsumerGroup
from .member import Member, MemberState
from .reconciliation import Reconciliation
from .records import current_record, group_record, member_record, target_epoch_record, target_record


def record_member(group: ConsumerGroup, old: Member, new: Member, records: list[Record]) -> bool:
    """Record what a member says of itself if it changed; returns whether its topic names changed."""
    if new.metadata == old.metadata:
        return False
    records.append(member_record(group.group_id, new))
    return new.metadata.subscribed_topic_names != old.metadata.subscribed_topic_names


def updated_epoch(
    shard: Shard, group: ConsumerGroup, old: Member, new: Member, bump: bool, records: list[Record]
) -> int:
    """Return the group epoch after the change: one more if asked for, or if the topics' metadata changed."""
    before, after = old.metadata.subscribed_topic_regex, new.metadata.subscribed_topic_regex
    dropped = [before] if before and before != after and group.regex_counts[before] == 1 else []
    names = group.subscribed_names([old], new, dropped)
    new_hash = metadata_hash(names, shard.image)
    if not bump and new_hash == group.metadata_hash:
        return group.group_epoch
    records.append(group_record(group.group_id, group.group_epoch + 1, new_hash))
    return group.group_epoch + 1


def current_target(
    shard: Shard,
    step: Step,
    group: ConsumerGroup,
    group_epoch: int,
    old: Member,
    new: Member,
    records: list[Record],
) -> tuple[int, TopicPartitions]:
    """Return (assignment epoch, the member's target), computed again if the group epoch is ahead and it is time.

    Since 4.3 the next one waits for group.consumer.assignment.interval.ms after the last (KIP-1263), except the first
    of a group that was empty.
    """
    if group.assignment_epoch >= group_epoch or not may_assign(
        shard, step, "consumer", group.group_id, group.assignment_timestamp_ms
    ):
        return group.assignment_epoch, group.target_of(new)
    name = group.preferred_assignor(old, new) or step.settings.consumer_assignors[0]
    members, targets = _with_update(group, new)
    subscriptions = {
        member.member_id: MemberSubscription(
            member.instance_id, member.metadata.rack_id, group.topics_of(member), targets.get(member.member_id, ())
        )
        for member in members.values()
    }
    assigned = SERVER_ASSIGNORS[name](subscriptions, shard.image)
    for member_id in members:
        target = assigned.get(member_id, ())
        if target != targets.get(member_id):
            records.append(target_record(group.group_id, member_id, target))
    records.append(target_epoch_record(group.group_id, group_epoch, step.now_ms))
    return group_epoch, assigned.get(new.member_id, ())


def _with_update(group: ConsumerGroup, new: Member) -> tuple[dict[str, Member], dict[str, TopicPartitions]]:
    members, targets = dict(group.members), dict(group.targets)
    holder = group.static_member(new.instance_id)
    if holder is not None and holder.member_id != new.member_id:
        del members[holder.member_id]
        if holder.member_id in targets:
            targets[new.member_id] = targets.pop(holder.member_id)
    members[new.member_id] = new
    return members, targets


def reconciled(
    shard: Shard,
    group: ConsumerGroup,
    member: Member,
    target: tuple[int, TopicPartitions],
    subscription_changed: bool,
    owned: TopicPartitions | None,
    records: list[Record],
) -> Member:
    """Return the member one step nearer to its target, recorded if that changed anything.

    Parameters
    ----------
    target: (assignment epoch, target of this member).
    owned: what the member says it owns; None: it did not say.
    """
    epoch, partitions = target
    if not subscription_changed and member.is_reconciled_to(epoch):
        return member
    topics = group.topics_of(member)
    current = Reconciliation(
        target_epoch=epoch,
        target=to_pairs(partitions),
        subscribed={topic for topic in topics if topic in shard.image.partitions},
        wants_nothing=not topics,
        subscription_changed=subscription_changed,
        owner_epoch=group.owner_epoch,
        owned=None if owned is None else to_pairs(owned),
    ).next(member.current)
    if current == member.current:
        return member
    moved = Member(member.member_id, member.metadata, current)
    records.append(current_record(group.group_id, moved))
    return moved


def arm_rebalance_timer(step: Step, group: ConsumerGroup, before: Member, after: Member) -> None:
    """Start the rebalance timer of a member that now has to revoke; cancel it when the member went on.

    Members of the classic protocol have join and sync timers instead.
    """
    if after.current == before.current or after.uses_classic_protocol:
        return
    key = ("consumer-rebalance", group.group_id, after.member_id)
    if after.current.state is MemberState.UNREVOKED_PARTITIONS:
        group.rebalance_timer_epochs[after.member_id] = after.member_epoch
        step.arm(key, after.metadata.rebalance_timeout_ms)
    else:
        step.cancel(key)


def assignment_of(member: Member) -> TopicPartitions:
    """Return what an answer shows as a member's assignment."""
    return to_topic_partitions(member.current.assigned)
