"""Rebalances and new holders of ids, from two readings of the group.

A KIP-848 group numbers its rebalances: each epoch is told. A classic group does not show its generation
(DescribeGroups), so a rebalance of one is known by the members before and after it, and two between two looks are one.
Sources: KIP-848 (group epoch); KIP-345 (a static rejoin into a stable group does not rebalance it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Final

from ...api import journal as api
from ..group import GroupType, GroupView, MemberView
from .look import Collector, Epoch, RememberedGroup, short

EPOCHS_MAX: Final = 50
"""Most epochs told for one look; of a group that moved on further the newest are told."""
BEFORE_FIRST_EPOCH: Final = 1
"""A new KIP-848 group begins with epoch 2 since Kafka 4.3 (KAFKA-20268), with 1 before: 1 may never have been."""
UNSETTLED_MAX_MS: Final = 60_000
"""A rebalance is told when the group has settled, because only then is known what moved; or after so long anyway."""


def tell_rebalances(collector: Collector, group: GroupView) -> None:
    """Tell the rebalances that this reading shows, and remember the reading."""
    last = collector.remembered.group
    before = _continued(last, group)
    shares = _shares(group)
    now = RememberedGroup(
        group_type=group.group_type,
        state=group.state,
        epoch=group.group_epoch,
        seen_ms=collector.look.began_ms,
        last_epoch=group.group_epoch if group.group_epoch is not None or last is None else last.last_epoch,
        anew_ms=_anew_ms(last, group.group_epoch, collector.look.began_ms),
    )
    if before is not None and before.epoch is not None:
        now = replace(now, untold=_with_new_epochs(collector, group, before, before.epoch))
        now = _tell_epochs(collector, group, before, now, shares)
    elif before is not None and _is_settled(group):
        _tell_classic_rebalance(collector, group, before, shares)
    if _is_settled(group):
        now = replace(now, settled_ms=collector.look.began_ms, shares=shares, digest=_digest(group))
    elif before is not None:
        now = replace(now, settled_ms=before.settled_ms, shares=before.shares, digest=before.digest, was_unsettled=True)
    else:
        now = replace(now, was_unsettled=True)
    collector.remembered = replace(collector.remembered, group=now)


def _continued(before: RememberedGroup | None, group: GroupView) -> RememberedGroup | None:
    """Return what to compare with: a group that did not exist was one before its first certain epoch.

    A conversion between the protocols is no rebalance that can be counted: None.
    """
    if before is None or before.group_type is group.group_type:
        return before
    if before.group_type is GroupType.ABSENT:
        return replace(before, epoch=None if group.group_epoch is None else BEFORE_FIRST_EPOCH)
    return before if group.group_type is GroupType.ABSENT and before.epoch is None else None


def _anew_ms(before: RememberedGroup | None, epoch: int | None, began_ms: int) -> int | None:
    """Return since when the group is another one than that of its name at first: epochs only grow, until a group is deleted."""
    if before is None or before.last_epoch is None or epoch is None or epoch >= before.last_epoch:
        return None if before is None else before.anew_ms
    return began_ms


def _with_new_epochs(collector: Collector, group: GroupView, before: RememberedGroup, old: int) -> tuple[Epoch, ...]:
    """Add the epochs that this look is the first to see; none when the group is another one of the same name."""
    new = group.group_epoch if group.group_epoch is not None else old
    added = tuple(
        Epoch(number=n, lo_ms=before.seen_ms, hi_ms=collector.look.ended_ms, state_before=before.state)
        for n in range(max(old, new - EPOCHS_MAX) + 1, new + 1)
    )
    collector.remembered = replace(collector.remembered, rebalances=collector.remembered.rebalances + len(added))
    return before.untold + added


def _tell_epochs(
    collector: Collector,
    group: GroupView,
    before: RememberedGroup,
    now: RememberedGroup,
    shares: Mapping[str, int | None],
) -> RememberedGroup:
    is_settled = _is_settled(group)
    if not now.untold or not (is_settled or collector.look.ended_ms - now.untold[0].hi_ms >= UNSETTLED_MAX_MS):
        return now
    group_key = collector.group_key if now.anew_ms is None else f"{collector.group_key}/{now.anew_ms}"
    for epoch in now.untold:
        is_known = is_settled and epoch is now.untold[-1]
        collector.tell(
            f"{group_key}/{epoch.number}/rebalanced",
            api.GroupRebalanced,
            time_lo_ms=epoch.lo_ms,
            time_hi_ms=epoch.hi_ms,
            state_before=epoch.state_before,
            group_epoch=epoch.number,
            members=len(group.members) if is_known else None,
            partitions_total=_total(shares) if is_known else None,
            partitions_moved=_moved(before.shares, shares) if is_known and before.settled_ms is not None else None,
        )
    return replace(now, untold=())


def _tell_classic_rebalance(
    collector: Collector, group: GroupView, before: RememberedGroup, shares: Mapping[str, int | None]
) -> None:
    """Tell a rebalance that went by: it was in flight at a look, or only one explains the members now."""
    if not before.was_unsettled and (before.settled_ms is None or before.shares == shares):
        return
    lo_ms = before.settled_ms if before.settled_ms is not None else before.seen_ms
    after = _digest(group)
    fact_id = f"{collector.group_key}/{before.digest or 'unseen'}-{after}"
    if before.digest in ("", after):
        fact_id += f"/{lo_ms}"  # nothing but its time tells it from another one between the same members
    collector.remembered = replace(collector.remembered, rebalances=collector.remembered.rebalances + 1)
    collector.tell(
        f"{fact_id}/rebalanced",
        api.GroupRebalanced,
        time_lo_ms=before.settled_ms,
        time_hi_ms=collector.look.ended_ms,
        state_before=before.state,
        members=len(group.members),
        partitions_total=_total(shares) if _holds_partitions(group) else None,
        partitions_moved=_moved(before.shares, shares) if before.settled_ms is not None and _holds_partitions(group) else None,
    )


def tell_holders(collector: Collector, group: GroupView) -> None:
    """Tell ids of ours that another member.id holds now, and remember who holds them."""
    naming, table = collector.look.plan.naming, collector.look.plan.table
    if naming is None or table is None:
        return
    known, rebalances = collector.remembered.holders, collector.remembered.rebalances
    holders = {seat.key: known[seat.key] for seat in table.wanted if seat.key in known}
    duplicates = table.duplicates
    for member in group.members:
        i = member.instance_id
        if i is None or i in duplicates or naming.ordinal_of(i) is None:
            continue
        before = known.get(i)
        if collector.group_seen_ms is not None and (before is None or before[0] != member.member_id):
            is_quiet = before is not None and before[1] == rebalances and _is_quiet(group)
            _tell_rejoined(collector, group, i, member.member_id, before[0] if before else None, absorbed=is_quiet)
        holders[i] = (member.member_id, rebalances)
    collector.remembered = replace(collector.remembered, holders=holders)


def _tell_rejoined(
    collector: Collector, group: GroupView, instance_id: str, member_id: str, previous: str | None, *, absorbed: bool
) -> None:
    collector.tell(
        f"{collector.group_key}/{instance_id}/{short(member_id)}/rejoined",
        api.MemberRejoined,
        time_lo_ms=collector.group_seen_ms,
        time_hi_ms=collector.look.ended_ms,
        instance_id=instance_id,
        member_id=short(member_id),
        previous_member_id=None if previous is None else short(previous),
        group_epoch=group.group_epoch,
        absorbed=absorbed,
        members=len(group.members),
        partitions_total=_total(_shares(group)) if _is_settled(group) and _holds_partitions(group) else None,
    )


def _is_quiet(group: GroupView) -> bool:
    """True when no rebalance is on its way; a KIP-848 group has one exactly when its epoch moves."""
    return group.group_epoch is not None or _is_settled(group)


def _is_settled(group: GroupView) -> bool:
    return group.is_settled or group.group_type is GroupType.ABSENT


def _shares(group: GroupView) -> dict[str, int | None]:
    """Return how much each member holds; an instance id cannot be a member.id of another member in practice."""
    return {m.instance_id or m.member_id: _held_by(m) for m in group.members}


def _digest(group: GroupView) -> str:
    members = sorted((m.instance_id or "", m.member_id, str(_held_by(m))) for m in group.members)
    return sha256(repr(members).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _held_by(member: MemberView) -> int | None:
    """Return the partitions of a member, or the connectors and tasks of a Connect worker."""
    worker = member.worker
    if worker is None:
        return member.assigned_partitions
    return None if worker.connectors is None or worker.tasks is None else worker.connectors + worker.tasks


def _holds_partitions(group: GroupView) -> bool:
    return all(member.worker is None for member in group.members)


def _total(shares: Mapping[str, int | None]) -> int | None:
    counts = [count for count in shares.values() if count is not None]
    return sum(counts) if len(counts) == len(shares) else None


def _moved(before: Mapping[str, int | None], after: Mapping[str, int | None]) -> int | None:
    """Return how many partitions changed owners at least: what members gained, by their counts."""
    if None in before.values() or None in after.values():
        return None
    return sum(max(0, count - (before.get(who) or 0)) for who, count in after.items() if count is not None)
