"""What members did between two rounds: who came back without a rebalance is counted, and for how long members were away is measured.

The one idea: both follow from two looks of one process, by the journal's own rules, whether or not a journal is kept; so a
restart or a take-over loses some and invents none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ...api.resources.staticgroup import StaticGroupSpec
from ...core.absences.causes import Cause
from ...core.absences.following import Following, follow, with_ended
from ...core.absences.reservoir import Reservoir
from ...core.group import GroupView
from ...core.journal import Look, Remembered, facts_of_members, static_rejoins
from ...core.outcomes import Executed
from ...core.plan import ACTIVE_REQUEUE_S, Plan, Survey
from ...core.snapshot import Snapshot
from ...core.timeouts.desired import longest_restart_ms
from ..metrics import Metrics
from ..stores import Stores
from ..work_queue import Key
from .recent_runs import RecentRuns

log = logging.getLogger(__name__)

WATCHED_MAX_MS: Final = 600_000
"""A member that is away for longer is looked for at the usual pace only."""


@dataclass(slots=True)
class Returns:
    """Remember who holds which id, and who is away, from round to round.

    Parameters
    ----------
    may_write: True while this replica holds the Lease.
    now_s: seconds since the Unix epoch.
    """

    stores: Stores
    metrics: Metrics
    may_write: Callable[[], bool]
    now_s: Callable[[], float]
    runs: RecentRuns = field(init=False)
    _remembered: dict[Key, Remembered] = field(default_factory=dict)
    _following: dict[Key, Following] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.runs = RecentRuns(stores=self.stores, may_write=self.may_write, now_s=self.now_s)

    def round(
        self, key: Key, spec: StaticGroupSpec, snapshot: Snapshot, found: Survey, began_s: float
    ) -> Mapping[Cause, Reservoir]:
        """Count and measure what a round has shown; a fault in here never fails the round.

        Parameters
        ----------
        began_s: before the group was described.

        Returns
        -------
        What is kept of absences; the very mapping of before where no absence has ended.
        """
        before = found.history.absences
        try:
            return self._round(key, spec, snapshot, found, began_s, before)
        except Exception:
            log.exception("returns of members could not be counted", extra={"key": "/".join(key)})
            return before

    def _round(
        self, key: Key, spec: StaticGroupSpec, snapshot: Snapshot, found: Survey, began_s: float, before: Mapping[Cause, Reservoir]
    ) -> Mapping[Cause, Reservoir]:
        counter = self.metrics.static_rejoins.labels(*key)  # made at 0, so that the first one is seen as an increase
        if found.table is None:
            return before  # what pods did waits until it is known who is wanted
        began_ms, now_ms = int(began_s * 1000), int(self.now_s() * 1000)
        look = Look(
            operator_id="-",  # of facts that are counted and not told
            kafka_cluster_id=self.stores.kafka_cluster_id(spec.connection_ref.key(key[0])) or "",
            spec=spec,
            snapshot=snapshot,
            plan=Plan(table=found.table, naming=found.issuance.naming, history=found.history),
            executed=Executed(),
            began_ms=began_ms,
            ended_ms=now_ms,
            runs=self.runs.of(key),
        )
        self._remembered[key], facts = facts_of_members(self._remembered.get(key), look)
        self.runs.taken(key)
        wanted = frozenset(seat.key for seat in found.table.wanted)
        counter.inc(static_rejoins(facts, wanted))
        following = self._following.get(key, Following(since_ms=began_ms))
        group = snapshot.group if isinstance(snapshot.group, GroupView) else None
        self._following[key], ended = follow(following, facts, group, wanted=wanted, began_ms=began_ms, now_ms=now_ms)
        if not ended:
            return before
        longest_ms = longest_restart_ms(snapshot.workload)
        return with_ended(before, ended, longest_ms=longest_ms, seed=snapshot.uid)

    def seen_again(self, key: Key, began_ms: int) -> None:
        """Take the word that a look since then, Unix milliseconds, saw the same as the last one."""
        if (remembered := self._remembered.get(key)) is not None:
            self._remembered[key] = remembered.seen_again(began_ms)

    def requeue_after_s(self, key: Key) -> float | None:
        """Return when to look again because a member is away, whose return no event tells; None while none is."""
        following = self._following.get(key)
        if following is None or not following.away:
            return None
        latest_ms = max(following.away.values())
        return ACTIVE_REQUEUE_S if self.now_s() * 1000 - latest_ms < WATCHED_MAX_MS else None

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a StaticGroup that is gone."""
        self._remembered.pop(key, None)
        self._following.pop(key, None)
        self.runs.taken(key)

    def forget_all(self) -> None:
        """Drop all, because another replica looked meanwhile; what pods did lately stays."""
        self._remembered.clear()
        self._following.clear()
