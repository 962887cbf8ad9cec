"""What members did between two rounds: returns without a rebalance are counted, and how long members were away is measured.

The one idea: both follow from two readings of one process, so a restart or a take-over loses some and invents none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...api.absences import EventKind, MemberEvent
from ...api.resources.staticgroup import StaticGroupSpec
from ...core.absences.causes import Cause
from ...core.absences.following import Following, follow, with_ended
from ...core.absences.member_runs import by_member
from ...core.absences.readings import Reading, read_again, with_holders
from ...core.absences.reservoir import Reservoir
from ...core.absences.runs import RunChange
from ...core.group import GroupView
from ...core.ids.naming import Naming
from ...core.plan import ACTIVE_REQUEUE_S, Survey
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
    _readings: dict[Key, tuple[str, Reading]] = field(default_factory=dict)
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
        back = self._back(key, spec, snapshot, found, began_ms, now_ms)
        wanted = frozenset(seat.key for seat in found.table.wanted)
        counter.inc(sum(e.absorbed and e.previous_member_id != "" and e.instance_id in wanted for e in back))
        changes = self.runs.taken(key)
        events = [*_of_runs(changes, found.issuance.naming, spec, now_ms), *back]
        following = self._following.get(key, Following(since_ms=began_ms))
        group = snapshot.group if isinstance(snapshot.group, GroupView) else None
        self._following[key], ended = follow(following, events, group, wanted=wanted, began_ms=began_ms, now_ms=now_ms)
        if not ended:
            return before
        longest_ms = longest_restart_ms(snapshot.workload)
        return with_ended(before, ended, longest_ms=longest_ms, seed=snapshot.uid)

    def _back(
        self, key: Key, spec: StaticGroupSpec, snapshot: Snapshot, found: Survey, began_ms: int, now_ms: int
    ) -> tuple[MemberEvent, ...]:
        """Return who came back since the group was last read.

        Notes
        -----
        KIP-345: a known instance id that rejoins a stable group gets a new member.id, and nothing rebalances. A holder
        that was replaced twice between two readings counts once.
        """
        group, naming, table = snapshot.group, found.issuance.naming, found.table
        if not isinstance(group, GroupView) or naming is None or table is None:
            return ()
        cluster_id = self.stores.kafka_cluster_id(spec.connection_ref.key(key[0])) or ""
        # Another StaticGroup of this name, or another cluster, has readings of its own.
        of = f"{snapshot.uid}/{cluster_id}/{spec.group_id}"
        known = self._readings.get(key)
        last = known[1] if known is not None and known[0] == of else None
        now, back = with_holders(last, read_again(last, group, began_ms), group, naming, table, now_ms)
        self._readings[key] = (of, now)
        return back

    def seen_again(self, key: Key, began_ms: int) -> None:
        """Note that the group, read again since then, Unix milliseconds, showed the same as last time."""
        if (known := self._readings.get(key)) is not None:
            self._readings[key] = (known[0], known[1].seen_again(began_ms))

    def requeue_after_s(self, key: Key) -> float | None:
        """Return when to begin the next round because a member is away, whose return makes no event; None: none is."""
        following = self._following.get(key)
        if following is None or not following.away:
            return None
        latest_ms = max(following.away.values())
        return ACTIVE_REQUEUE_S if self.now_s() * 1000 - latest_ms < WATCHED_MAX_MS else None

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a StaticGroup that is gone."""
        self._readings.pop(key, None)
        self._following.pop(key, None)
        self.runs.taken(key)

    def forget_all(self) -> None:
        """Drop all, because another replica ran rounds meanwhile; what pods did lately stays."""
        self._readings.clear()
        self._following.clear()


def _of_runs(
    changes: Sequence[RunChange], naming: Naming | None, spec: StaticGroupSpec, now_ms: int
) -> Iterator[MemberEvent]:
    for change, instance_id in by_member(changes, naming, spec, now_ms) if naming is not None else ():
        yield MemberEvent(
            kind=EventKind.STARTED if change.is_up else EventKind.ENDED,
            instance_id=instance_id,
            observed_at_ms=change.observed_at_ms,
            source_time_ms=change.source_time_ms,
            time_lo_ms=change.lo_ms,
            time_hi_ms=change.hi_ms,
            pod_uid=change.pod.uid,
            restart_count=change.restart_count,
            rollout_id=change.pod.rollout_id,
            reason=change.reason,
        )
