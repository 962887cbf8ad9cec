"""Compare the journal with Kafka's own log of groups, fact by fact.

The one idea: the coordinator's own log is the reference. Each rebalance of the log must lie within the bounds of
exactly one fact of the journal, and each fact must contain one rebalance; the member id of an acknowledged removal must
disappear from the log; a restart that the journal calls absorbed must be absorbed in the log, too.

Two kinds of rebalances are counted separately and are no difference. *Merged*: DescribeGroups shows no generation, so
several classic rebalances between two reads are one fact. *Unseen*: rebalances while no operator beat, before an
operator first read the group, or within one read interval before the last beat. The audit of a group begins at its
first record in the log; it claims nothing about records that compaction removed. Sources: `sources.offsets_evidence`
for the log; `journal.rounds` for the meaning of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from journal.records import short

from ..sources.offsets_evidence import ChangeKind

TOLERANCE_MS: Final = 1_000
"""How far the brokers' clocks and the operator's may be apart."""
LOOK_MS: Final = 30_000
"""The operator reads a quiet group this often; a younger rebalance may not be recorded yet."""
CLASSIC: Final = "Classic"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChange:
    """One change that the log proves; fields that do not apply to its kind are None.

    Parameters
    ----------
    at_ms: when the coordinator wrote it, its clock.
    epochs: how many generations or epochs passed since the previous record; they ended between the two.
    """

    kind: ChangeKind
    group_type: str
    at_ms: int
    epoch: int | None = None
    epochs: int | None = None
    instance_id: str | None = None
    member_id: str | None = None
    previous_member_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRebalance:
    """One rebalance of the log, completed between `lo_ms` and `hi_ms`, which are equal if it has its own record."""

    epoch: int
    lo_ms: int
    hi_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One `group.rebalanced` of the journal; `epoch` None: the group does not number them."""

    event_id: str
    lo_ms: int
    hi_ms: int
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFact:
    """One `member.removed` or `member.rejoined`.

    Parameters
    ----------
    is_claimed: for a removal, it lasted; for a rejoin, the return was absorbed.
    """

    instance_id: str
    member_id: str
    at_ms: int
    is_claimed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The journal's account of one group.

    Parameters
    ----------
    seen: intervals in which an operator read the group, (from, to) in Unix milliseconds, ordered and disjoint.
    """

    facts: Sequence[Fact] = ()
    removals: Sequence[MemberFact] = ()
    rejoins: Sequence[MemberFact] = ()
    seen: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalances:
    """The rebalances of a group in both accounts.

    Parameters
    ----------
    journal: facts. log: rebalances.
    merged: rebalances of the log that share the bounds of a fact with another one.
    unseen: rebalances of the log without a fact, while no operator was reading.
    missing: the same, while an operator was reading. extra: facts without a rebalance.
    """

    journal: int = 0
    log: int = 0
    merged: int = 0
    unseen: int = 0
    missing: Sequence[LogRebalance] = ()
    extra: Sequence[Fact] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Removals:
    """Removals of the journal, and static members that are gone from the log.

    Parameters
    ----------
    journal: members that were removed and have not come back. log: members that are gone.
    others: members of the log that no operator removed: they were expelled, or left.
    replaced: removed members whose id another member held at the log's next record.
    unproven: removals without a trace in the log.
    """

    journal: int = 0
    log: int = 0
    others: int = 0
    replaced: int = 0
    unproven: Sequence[MemberFact] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """Restarts without a rebalance.

    Parameters
    ----------
    wrong: restarts that the journal calls absorbed and the log does not. The converse is no error: the journal calls a
        restart absorbed only when nothing else changed between two reads.
    """

    journal: int = 0
    log: int = 0
    wrong: Sequence[MemberFact] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One group in both accounts; not `is_in_log`: Kafka has no record of it."""

    group_id: str
    is_in_log: bool
    rebalances: Rebalances = Rebalances()
    removals: Removals = Removals()
    absorbed: Restarts = Restarts()

    @property
    def agrees(self) -> bool:
        """Return whether nothing is missing, extra, unproven or wrong."""
        r = self.rebalances
        return self.is_in_log and not (r.missing or r.extra or self.removals.unproven or self.absorbed.wrong)


def compare(
    log: Mapping[str, Sequence[LogChange]],
    journal: Mapping[str, Account],
    *,
    from_ms: int = 0,
    tolerance_ms: int = TOLERANCE_MS,
) -> list[Finding]:
    """Compare the journal of one Kafka cluster with its log.

    Parameters
    ----------
    log: changes in the order of the log, by group id.
    journal: accounts by group id.
    from_ms: what happened before does not count.

    Returns
    -------
    list[Finding]
        One per group of the journal, by group id.
    """
    return [
        _finding(group_id, log.get(group_id, ()), journal[group_id], from_ms, tolerance_ms)
        for group_id in sorted(journal)
    ]


def _finding(group_id: str, changes: Sequence[LogChange], account: Account, from_ms: int, tolerance_ms: int) -> Finding:
    if not changes:
        facts = [f for f in account.facts if f.hi_ms >= from_ms]
        unproven = [r for r in account.removals if r.is_claimed and r.at_ms >= from_ms]
        return Finding(
            group_id=group_id,
            is_in_log=not (facts or unproven),
            rebalances=Rebalances(journal=len(facts), extra=facts),
            removals=Removals(journal=len(unproven), unproven=unproven),
        )
    first_ms = min(c.at_ms for c in changes)
    since_ms = max(from_ms, first_ms - tolerance_ms)
    return Finding(
        group_id=group_id,
        is_in_log=True,
        rebalances=_rebalances(changes, account, from_ms, tolerance_ms),
        removals=_removals(changes, account.removals, from_ms, since_ms),
        absorbed=_restarts(changes, account.rejoins, from_ms, since_ms),
    )


# rebalances ----------------------------------------------------------------------------------------------------------


def log_rebalances(changes: Iterable[LogChange]) -> list[LogRebalance]:
    """Return each rebalance of the log with the bounds of its completion.

    A record may stand for several generations: earlier ones were abandoned, or compaction removed their records.
    """
    found: list[LogRebalance] = []
    last_ms = 0
    for change in changes:
        if change.kind is ChangeKind.REBALANCED and change.epoch is not None and change.epochs is not None:
            # A lower number means another group of the same name; this is its first known record.
            for epoch in range(change.epoch - max(change.epochs, 1) + 1, change.epoch + 1):
                lo_ms = change.at_ms if epoch == change.epoch else last_ms
                found.append(LogRebalance(epoch=epoch, lo_ms=lo_ms, hi_ms=change.at_ms))
        if change.kind in (ChangeKind.FOUND, ChangeKind.REBALANCED):
            last_ms = change.at_ms
    return found


def _rebalances(changes: Sequence[LogChange], account: Account, from_ms: int, tolerance_ms: int) -> Rebalances:
    classic = log_rebalances(c for c in changes if c.group_type == CLASSIC)
    numbered = log_rebalances(c for c in changes if c.group_type != CLASSIC)

    def holds(fact: Fact, rebalance: LogRebalance) -> bool:
        is_same = fact.epoch is None or fact.epoch == rebalance.epoch
        is_near = fact.lo_ms - tolerance_ms <= rebalance.hi_ms and rebalance.lo_ms <= fact.hi_ms + tolerance_ms
        return is_same and is_near

    by_looks = [f for f in account.facts if f.epoch is None]
    by_number = [f for f in account.facts if f.epoch is not None]
    classic_pairs = list(_paired(classic, by_looks, holds))
    numbered_pairs = list(_paired(numbered, by_number, holds))
    pairs = classic_pairs + numbered_pairs
    kept = [(r, f) for r, f in pairs if r.hi_ms >= from_ms]
    merged = [r for r, f in classic_pairs if f is None and r.hi_ms >= from_ms and any(holds(f, r) for f in by_looks)]
    alone = [r for r, f in kept if f is None]
    left = [r for r in alone if r not in merged]
    missing = [r for r in left if _is_seen(r, account.seen)]
    with_rebalance = {f.event_id for _, f in pairs if f is not None}
    extra = [
        f
        for f in account.facts
        if f.event_id not in with_rebalance and f.hi_ms >= from_ms and not _is_before(f, changes, tolerance_ms)
    ]
    return Rebalances(
        journal=len({f.event_id for _, f in kept if f is not None}) + len(extra),
        log=len(kept),
        merged=len(merged),
        unseen=len(left) - len(missing),
        missing=missing,
        extra=extra,
    )


def _paired(
    rebalances: Sequence[LogRebalance], facts: Iterable[Fact], holds: Callable[[Fact, LogRebalance], bool]
) -> Iterator[tuple[LogRebalance, Fact | None]]:
    """Pair as many as possible: each rebalance with the unpaired fact whose bounds end first.

    Source: Glover 1967, maximum matching in a convex bipartite graph.
    """
    free = sorted(facts, key=lambda f: (f.hi_ms, f.lo_ms, f.event_id))
    for rebalance in sorted(rebalances, key=lambda r: (r.hi_ms, r.lo_ms, r.epoch)):
        fact = next((f for f in free if holds(f, rebalance)), None)
        if fact is not None:
            free.remove(fact)
        yield rebalance, fact


def _is_seen(rebalance: LogRebalance, seen: Iterable[tuple[int, int]]) -> bool:
    return any(a <= rebalance.lo_ms and rebalance.hi_ms <= b - LOOK_MS for a, b in seen)


def _is_before(fact: Fact, changes: Iterable[LogChange], tolerance_ms: int) -> bool:
    """Return whether a fact may belong before the first record, by its bounds and its epoch, if any."""
    return any(
        fact.lo_ms <= c.at_ms + tolerance_ms and (fact.epoch is None or fact.epoch <= (c.epoch or 0))
        for c in changes
        if c.kind is ChangeKind.FOUND and (c.group_type == CLASSIC) == (fact.epoch is None)
    )


# members -------------------------------------------------------------------------------------------------------------


def _removals(changes: Sequence[LogChange], recorded: Iterable[MemberFact], from_ms: int, since_ms: int) -> Removals:
    gone = _members(changes, ChangeKind.GONE, lambda c: c.previous_member_id)
    replaced = _members(changes, ChangeKind.REPLACED, lambda c: c.previous_member_id)
    removed = {(r.instance_id, r.member_id): r for r in recorded if r.is_claimed}
    claimed = {key: r for key, r in removed.items() if r.at_ms >= since_ms}
    late = {key for key, at_ms in gone.items() if at_ms >= from_ms}
    return Removals(
        journal=len(claimed),
        log=len(late),
        others=len(late - removed.keys()),
        replaced=len(claimed.keys() & replaced.keys() - gone.keys()),
        unproven=[claimed[key] for key in sorted(claimed.keys() - gone.keys() - replaced.keys())],
    )


def _restarts(changes: Sequence[LogChange], recorded: Iterable[MemberFact], from_ms: int, since_ms: int) -> Restarts:
    absorbed = _members(changes, ChangeKind.ABSORBED, lambda c: c.member_id)
    claimed = {(r.instance_id, r.member_id): r for r in recorded if r.is_claimed and r.at_ms >= since_ms}
    return Restarts(
        journal=len(claimed),
        log=sum(at_ms >= from_ms for at_ms in absorbed.values()),
        wrong=[claimed[key] for key in sorted(claimed.keys() - absorbed.keys())],
    )


def _members(
    changes: Iterable[LogChange], kind: ChangeKind, member_id: Callable[[LogChange], str | None]
) -> dict[tuple[str, str], int]:
    """Return (instance id, member id as the journal records it) → time, for the changes of one kind."""
    return {(c.instance_id or "", short(member_id(c) or "")): c.at_ms for c in changes if c.kind is kind}
