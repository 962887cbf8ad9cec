"""Rebalances and new holders of ids, from two readings of the group.

A rebalance is recorded when the group has settled, because only then is known what moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Final

from staticgroup.core.absences.measure import (
    Reading,
    comparable,
    held_by_members,
    is_settled,
    read_again,
    rebalances_since,
    shares_of,
)
from staticgroup.core.group import GroupView

from .. import records as api
from .recorder import Epoch, Epochs, Recorder

EPOCHS_MAX: Final = 50
"""Most epochs recorded for one round; of a group that moved on further the newest are."""
UNSETTLED_MAX_MS: Final = 60_000
"""After so long a rebalance is recorded although the group has not settled."""


def record_group(recorder: Recorder, group: GroupView) -> None:
    """Record the rebalances and the new holders that this reading shows, and remember the reading."""
    last, naming, table = recorder.remembered.reading, recorder.plan.naming, recorder.plan.table
    before = comparable(last, group)
    now, returns = read_again(last, group, naming, table, began_ms=recorder.began_ms, ended_ms=recorder.ended_ms)
    epochs = _epochs(recorder.remembered.epochs, before, group, recorder.began_ms, recorder.ended_ms)
    if before is not None and before.epoch is not None:
        epochs = _record_epochs(recorder, group, before, epochs)
    elif rebalances_since(before, group) and before is not None:
        _record_classic(recorder, group, before)
    for each in returns:
        member_id = api.short(each.member_id)
        recorder.record(
            f"{recorder.group_key}/{each.instance_id}/{member_id}/rejoined",
            api.MemberRejoined,
            time_lo_ms=each.lo_ms,
            time_hi_ms=each.hi_ms,
            instance_id=each.instance_id,
            member_id=member_id,
            previous_member_id=api.short(each.previous_member_id) or None,
            group_epoch=group.group_epoch,
            absorbed=each.is_absorbed,
            members=len(group.members),
            partitions_total=_total(shares_of(group)) if is_settled(group) and _holds_partitions(group) else None,
        )
    recorder.remembered = replace(recorder.remembered, reading=now, epochs=epochs)


def _epochs(known: Epochs, before: Reading | None, group: GroupView, began_ms: int, ended_ms: int) -> Epochs:
    """Add the epochs that this round is the first to see; epochs only grow, until a group is deleted and made anew."""
    epoch = group.group_epoch
    is_anew = known.last is not None and epoch is not None and epoch < known.last
    anew_ms = began_ms if is_anew else known.anew_ms
    now = Epochs(last=known.last if epoch is None else epoch, anew_ms=anew_ms)
    if before is None or before.epoch is None:
        return now
    new = before.epoch if epoch is None else epoch
    added = tuple(
        Epoch(number=n, lo_ms=before.began_ms, hi_ms=ended_ms, state_before=before.state)
        for n in range(max(before.epoch, new - EPOCHS_MAX) + 1, new + 1)
    )
    return replace(now, waiting=known.waiting + added)


def _record_epochs(recorder: Recorder, group: GroupView, before: Reading, epochs: Epochs) -> Epochs:
    waiting = epochs.waiting
    if not waiting or not (is_settled(group) or recorder.ended_ms - waiting[0].hi_ms >= UNSETTLED_MAX_MS):
        return epochs
    group_key = recorder.group_key if epochs.anew_ms is None else f"{recorder.group_key}/{epochs.anew_ms}"
    for epoch in waiting:
        is_known = is_settled(group) and epoch is waiting[-1]
        shares = shares_of(group)
        recorder.record(
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
    return replace(epochs, waiting=())


def _record_classic(recorder: Recorder, group: GroupView, before: Reading) -> None:
    """Record a rebalance that went by: it was in flight at a reading, or only one explains the members now."""
    lo_ms = before.settled_ms if before.settled_ms is not None else before.began_ms
    digest_before = _digest(before.settled) if before.settled_ms is not None else ""
    digest_after = _digest(held_by_members(group))
    fact_id = f"{recorder.group_key}/{digest_before or 'unseen'}-{digest_after}"
    if digest_before in ("", digest_after):
        fact_id += f"/{lo_ms}"  # nothing but its time tells it from another one between the same members
    shares, holds_partitions = shares_of(group), _holds_partitions(group)
    is_known = before.settled_ms is not None and holds_partitions
    recorder.record(
        f"{fact_id}/rebalanced",
        api.GroupRebalanced,
        time_lo_ms=before.settled_ms,
        time_hi_ms=recorder.ended_ms,
        state_before=before.state,
        members=len(group.members),
        partitions_total=_total(shares) if holds_partitions else None,
        partitions_moved=_moved(before.shares, shares) if is_known else None,
    )


def _digest(members: tuple[tuple[str, str, int | None], ...]) -> str:
    rows = sorted((instance_id, member_id, str(share)) for instance_id, member_id, share in members)
    return sha256(repr(rows).encode("utf-8", "surrogatepass")).hexdigest()[:16]


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
