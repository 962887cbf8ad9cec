"""What is remembered after the coordinator answered: an acknowledged removal is not a finished one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..api.resources.memory import SETTLING_MAX
from .group import KafkaProblem, LeaveOutcome, RebalanceOutcome, ReleaseOutcome
from .plan import Removal
from .releases import Release
from .snapshot import NOTHING_REMEMBERED, History, ReleaseRecord, RemovalRecord, SeatMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What became of the plan's actions.

    Parameters
    ----------
    removals, outcomes: entries of the batch and the coordinator's answer to each, in order.
    problem: why nothing could be sent; None when it was sent or nothing was to be sent.
    releases, release_outcomes: temporary leaves, and the coordinator's answer to each, in order.
    release_problem: why one could not be sent.
    group_config_problem: why the last attempt to set the group's own session timeout failed, in this round or before.
    rebalance: what came of the rebalance that was asked for; None when none was, or `rebalance_problem` says why not.
    observe_only: the plan was not executed because the operator may only observe.
    """

    removals: tuple[Removal, ...] = ()
    outcomes: tuple[LeaveOutcome, ...] = ()
    problem: KafkaProblem | None = None
    releases: tuple[Release, ...] = ()
    release_outcomes: tuple[ReleaseOutcome, ...] = ()
    release_problem: KafkaProblem | None = None
    group_config_problem: KafkaProblem | None = None
    rebalance: RebalanceOutcome | None = None
    rebalance_problem: KafkaProblem | None = None
    observe_only: bool = False

    @property
    def refusal(self) -> KafkaProblem | None:
        """Why one of the calls about members could not be sent; None when all of them were."""
        return self.problem or self.release_problem or self.rebalance_problem

    @property
    def removed(self) -> tuple[Removal, ...]:
        """Removals that the coordinator acknowledged."""
        return tuple(r for r, o in zip(self.removals, self.outcomes, strict=True) if o is LeaveOutcome.REMOVED)


def with_outcomes(
    history: History, removals: Sequence[Removal], outcomes: Sequence[LeaveOutcome], coordinator: str, now_s: float
) -> History:
    """Return the history after one batch of removals.

    Notes
    -----
    REMOVED opens a record that later readings verify. FENCED, UNKNOWN and RETRY leave no record: the next round
    describes the group again and decides afresh. UNKNOWN is not "gone": it is also the answer for a group of
    another type (GroupMetadataManager.classicGroupLeave).
    """
    seats = dict(history.seats)
    for removal, outcome in zip(removals, outcomes, strict=True):
        if outcome is LeaveOutcome.REMOVED:
            key = removal.entry.instance_id
            record = RemovalRecord(
                instance_id=key,
                member_id=removal.entry.member_id,
                coordinator=coordinator,
                acknowledged_at_s=now_s,
                attempts=removal.attempt,
            )
            seats[key] = replace(seats.get(key, NOTHING_REMEMBERED), removal=record)
    return replace(history, seats=_bounded(seats))


def with_release(history: History, release: Release, outcome: ReleaseOutcome) -> History:
    """Return the history after one temporary leave.

    Whatever may have been executed is remembered, so no member is released twice: one that comes back later is alive.
    """
    if outcome not in (ReleaseOutcome.RELEASED, ReleaseOutcome.RETRY):
        return history
    key, seats = release.entry.instance_id, dict(history.seats)
    record = ReleaseRecord(member_id=release.entry.member_id)
    seats[key] = replace(seats.get(key, NOTHING_REMEMBERED), release=record)
    return replace(history, seats=seats)


def _bounded(seats: Mapping[str, SeatMemory]) -> Mapping[str, SeatMemory]:
    """Keep the newest records that a status has room for; unsettled ones before settled ones."""
    records = [memory.removal for memory in seats.values() if memory.removal is not None]
    ranked = sorted(records, key=lambda r: (r.settled_at_s is not None, -r.acknowledged_at_s))
    late = {record.instance_id for record in ranked[SETTLING_MAX:]}
    return {key: replace(memory, removal=None) if key in late else memory for key, memory in seats.items()}
