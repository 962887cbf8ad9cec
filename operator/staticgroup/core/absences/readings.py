"""What two readings of a group show: how often it rebalanced in between, and which ids another member holds now.

A KIP-848 group numbers its rebalances by its epoch. A classic group does not show its generation (DescribeGroups), so
a rebalance of one is known by the members before and after it, and two between two readings are one.
Sources: KIP-848 (group epoch); KIP-345 (a static rejoin into a stable group does not rebalance it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ...api.absences import EventKind, MemberEvent
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


def read_again(last: Reading | None, group: GroupView, began_ms: int) -> Reading:
    """Return the reading of a group as described, with the rebalances since the last one; None: it is the first."""
    before = comparable(last, group)
    now = Reading(
        group_type=group.group_type,
        state=group.state,
        epoch=group.group_epoch,
        began_ms=began_ms,
        rebalances=(last.rebalances if last is not None else 0) + rebalances_since(before, group),
        holders=last.holders if last is not None else {},
    )
    if is_settled(group):
        return replace(now, settled_ms=began_ms, settled=held_by_members(group))
    if before is None:
        return replace(now, was_unsettled=True)
    return replace(now, settled_ms=before.settled_ms, settled=before.settled, was_unsettled=True)


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


def with_holders(
    last: Reading | None, now: Reading, group: GroupView, naming: Naming, table: SeatTable, ended_ms: int
) -> tuple[Reading, tuple[MemberEvent, ...]]:
    """Note who holds which of our ids; those of two members are a wrong reading.

    Parameters
    ----------
    last: the reading before; None: there was none, so nothing is known to have changed.
    now: the reading of `group`, made of `last`.
    ended_ms: when the reading had ended, Unix milliseconds.

    Returns
    -------
    The reading with its holders, and a return for each id that another member holds than before.
    """
    holders = {seat.key: now.holders[seat.key] for seat in table.wanted if seat.key in now.holders}
    returns = []
    for member in group.members:
        instance_id = member.instance_id
        if instance_id is None or instance_id in table.duplicates or naming.ordinal_of(instance_id) is None:
            continue
        before = now.holders.get(instance_id)
        if last is not None and (before is None or before[0] != member.member_id):
            is_quiet = group.group_epoch is not None or is_settled(group)  # an epoch shows a rebalance at once
            returns.append(
                MemberEvent(
                    kind=EventKind.RETURNED,
                    instance_id=instance_id,
                    observed_at_ms=ended_ms,
                    time_lo_ms=last.began_ms,
                    time_hi_ms=ended_ms,
                    member_id=member.member_id,
                    previous_member_id=before[0] if before is not None else "",
                    absorbed=is_quiet and before is not None and before[1] == now.rebalances,
                )
            )
        holders[instance_id] = (member.member_id, now.rebalances)
    return replace(now, holders=holders), tuple(returns)


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
