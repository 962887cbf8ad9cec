"""What is remembered after the coordinator answered: an acknowledged removal is not a finished one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .group import LeaveOutcome
from .plan import Removal
from .snapshot import History, RemovalRecord

REMOVALS_MAX = 100
"""Most removals remembered for zombie detection; the oldest settled ones go first."""


def with_outcomes(
    history: History, removals: Sequence[Removal], outcomes: Sequence[LeaveOutcome], coordinator: str, now_s: float
) -> History:
    """Return the history after one batch LeaveGroup.

    Parameters
    ----------
    outcomes: one per removal, in the order of the request.
    coordinator: broker that acknowledged them.

    Notes
    -----
    REMOVED opens a record that later readings verify. FENCED, UNKNOWN and RETRY leave no record: the next round
    describes the group again and decides afresh. UNKNOWN is not "gone": it is also the answer for a group of
    another type (GroupMetadataManager.classicGroupLeave).
    """
    records = {r.instance_id: r for r in history.removals}
    for removal, outcome in zip(removals, outcomes, strict=True):
        if outcome is not LeaveOutcome.REMOVED:
            continue
        i = removal.entry.instance_id
        records[i] = RemovalRecord(
            instance_id=i,
            member_id=removal.entry.member_id,
            coordinator=coordinator,
            acknowledged_at_s=now_s,
            attempts=removal.attempt,
            pod_uids=frozenset(u.uid for u in removal.chain.incarnations),
        )
    return replace(history, removals=_bounded(tuple(records.values())))


def _bounded(records: tuple[RemovalRecord, ...]) -> tuple[RemovalRecord, ...]:
    """Keep the newest records; unsettled ones before settled ones."""
    if len(records) <= REMOVALS_MAX:
        return records
    ranked = sorted(records, key=lambda r: (r.settled_at_s is not None, -r.acknowledged_at_s))
    return tuple(ranked[:REMOVALS_MAX])
