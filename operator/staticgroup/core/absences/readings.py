"""What two readings of a group show: how often it rebalanced in between, and which members returned.

A KIP-848 group numbers its rebalances by its epoch. A classic group does not show its generation (DescribeGroups), so
a rebalance of one is known by the members before and after it, and two between two readings are one.
Sources: KIP-848 (group epoch); KIP-345 (a static rejoin into a stable group does not rebalance it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ..group import GroupType, GroupView, MemberView
from ..ids.naming import Naming
from ..seats import SeatTable

BEFORE_FIRST_EPOCH: Final = 1
"""A new KIP-848 group begins with epoch 2 since Kafka 4.3 (KAFKA-20268), with 1 before: 1 may never have been."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the last complete reading of a group showed, and what of earlier ones still counts.

    Parameters
    ----------
    began_ms: before the group was described, Unix milliseconds.
    settled_ms: `began_ms` of the last reading that saw it settled; None: none did.
    settled: its members then, each as (instance id or "", member id, what it held or None where unknown).
    was_unsettled: a rebalance was in flight at a reading since.
    rebalances: how many were seen.
    holders: per id of ours its member id, and how many rebalances had been seen when it was last described.
    """

    group_type: GroupType
    state: str
    epoch: int | None
    began_ms: int
    settled_ms: int | None = None
    settled: tuple[tuple[str, str, int | None], ...] = ()
    was_unsettled: bool = False
    rebalances: int = 0
    holders: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def shares(self) -> dict[str, int | None]:
        """Return what each member held when it was settled, static ones by instance id."""
        return {instance_id or member_id: share for instance_id, member_id, share in self.settled}

    def seen_again(self, began_ms: int) -> Reading:
        """Return it after a reading, begun at `began_ms`, that showed the same: what changes next does after that."""
        settled_ms = began_ms if self.settled_ms == self.began_ms else self.settled_ms
        return replace(self, began_ms=began_ms, settled_ms=settled_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Return:
    """Another member holds an id of ours than at the reading before.

    Parameters
    ----------
    previous_member_id: the holder before; "" when none is known.
    lo_ms, hi_ms: between which times the group had the new one first, Unix milliseconds.
    is_absorbed: the group did not rebalance for it.
    """

    instance_id: str
    member_id: str
    previous_member_id: str
    lo_ms: int
    hi_ms: int
    is_absorbed: bool


def read_again(
    last: Reading | None, group: GroupView, naming: Naming | None, table: SeatTable | None, *, began_ms: int, ended_ms: int
) -> tuple[Reading, tuple[Return, ...]]:
    """Compare a reading with the last one.

    Parameters
    ----------
    last: None: there was none, so nothing is known to have changed.
    naming, table: which ids are ours and wanted; None while that is not known.
    began_ms, ended_ms: before the group was described and after, Unix milliseconds.

    Returns
    -------
    What is remembered of this reading, and a return for each id of ours that another member holds than before; ids of two members are
    a wrong reading.
    """
    # Step 1: the rebalances since then, and what the group was when it was last settled.
    before = comparable(last, group)
    rebalances = (last.rebalances if last is not None else 0) + rebalances_since(before, group)
    known = last.holders if last is not None else {}
    earlier = (before.settled_ms, before.settled) if before is not None else (None, ())
    settled_ms, settled = (began_ms, held_by_members(group)) if is_settled(group) else earlier
    now = Reading(
        group_type=group.group_type,
        state=group.state,
        epoch=group.group_epoch,
        began_ms=began_ms,
        settled_ms=settled_ms,
        settled=settled,
        was_unsettled=not is_settled(group),
        rebalances=rebalances,
        holders=known,
    )
    if naming is None or table is None:
        return now, ()

    # Step 2: who holds our ids. A holder that was replaced twice between two readings returned once.
    holders = {seat.key: known[seat.key] for seat in table.wanted if seat.key in known}
    is_quiet = group.group_epoch is not None or is_settled(group)  # an epoch shows a rebalance at once
    returns = []
    for member in group.members:
        instance_id = member.instance_id
        if instance_id is None or instance_id in table.duplicates or naming.ordinal_of(instance_id) is None:
            continue
        previous_id, seen_rebalances = known.get(instance_id, ("", -1))
        if last is not None and previous_id != member.member_id:
            returns.append(
                Return(
                    instance_id=instance_id,
                    member_id=member.member_id,
                    previous_member_id=previous_id,
                    lo_ms=last.began_ms,
                    hi_ms=ended_ms,
                    is_absorbed=is_quiet and seen_rebalances == rebalances,
                )
            )
        holders[instance_id] = (member.member_id, rebalances)
    return replace(now, holders=holders), tuple(returns)


def comparable(last: Reading | None, group: GroupView) -> Reading | None:
    """Return what to compare a reading with; None after a conversion of the protocol, whose rebalances do not count.

    A group that did not exist was one before its first certain epoch.
    """
    if last is None or last.group_type is group.group_type:
        return last
    if last.group_type is GroupType.ABSENT:
        return replace(last, epoch=None if group.group_epoch is None else BEFORE_FIRST_EPOCH)
    return last if group.group_type is GroupType.ABSENT and last.epoch is None else None


def rebalances_since(before: Reading | None, group: GroupView) -> int:
    """Count the rebalances that a reading shows; of a classic group at most one, once it has settled."""
    if before is None:
        return 0
    if before.epoch is not None:
        return max(0, (group.group_epoch or 0) - before.epoch)
    is_other = before.settled_ms is not None and before.shares != shares_of(group)
    return int(is_settled(group) and (before.was_unsettled or is_other))


def is_settled(group: GroupView) -> bool:
    """Whether no rebalance is on its way, as far as the state shows."""
    return group.is_settled or group.group_type is GroupType.ABSENT


def shares_of(group: GroupView) -> dict[str, int | None]:
    """Return how much each member holds; an instance id cannot be a member.id of another member in practice."""
    return {m.instance_id or m.member_id: _share(m) for m in group.members}


def held_by_members(group: GroupView) -> tuple[tuple[str, str, int | None], ...]:
    """Return the members as `Reading.settled` has them."""
    return tuple((m.instance_id or "", m.member_id, _share(m)) for m in group.members)


def _share(member: MemberView) -> int | None:
    """Return the partitions of a member, or the connectors and tasks of a Connect worker."""
    worker = member.worker
    if worker is None:
        return member.assigned_partitions
    return None if worker.connectors is None or worker.tasks is None else worker.connectors + worker.tasks
