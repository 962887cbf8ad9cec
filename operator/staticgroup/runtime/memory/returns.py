"""What members did between two rounds: how many returned without a rebalance, and how long members were away.

Both follow from two readings of one process, so a restart or a take-over loses some and invents none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ...api.resources.staticgroup import StaticGroupSpec
from ...core.absences.measure import Following, Reading, measure, read_again
from ...core.absences.samples import Cause, Reservoir
from ...core.group import GroupView
from ...core.plan import ACTIVE_REQUEUE_S, Survey
from ...core.snapshot import Snapshot
from ..process.metrics import Metrics
from ..stores import Stores
from ..work_queue import Key

log = logging.getLogger(__name__)

WATCHED_MAX_MS: Final = 600_000
"""A member that is away for longer is looked for at the usual pace only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is remembered of one group.

    Parameters
    ----------
    of: the StaticGroup, the Kafka cluster and the group; another one has readings of its own.
    reading: None before the first.
    following: by id, of those that are wanted.
    """

    of: tuple[str, str, str]
    reading: Reading | None = None
    following: Mapping[str, Following] = field(default_factory=dict)


@dataclass(slots=True)
class Returns:
    """Remember from round to round who holds which id, and who is away.

    Parameters
    ----------
    now_s: seconds since the Unix epoch.
    """

    stores: Stores
    metrics: Metrics
    now_s: Callable[[], float]
    _watched: dict[Key, Watched] = field(default_factory=dict)

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
        try:
            return self._round(key, spec, snapshot, found, int(began_s * 1000))
        except Exception:
            log.exception("returns of members could not be counted", extra={"key": "/".join(key)})
            return found.history.absences

    def _round(
        self, key: Key, spec: StaticGroupSpec, snapshot: Snapshot, found: Survey, began_ms: int
    ) -> Mapping[Cause, Reservoir]:
        counter = self.metrics.static_rejoins.labels(*key)  # made at 0, so that the first one is seen as an increase
        naming, table, absences = found.issuance.naming, found.table, found.history.absences
        if naming is None or table is None or not isinstance(snapshot.group, GroupView):
            return absences

        # Step 1: who returned since the last reading. KIP-345: an id that rejoins a stable group gets a new member.id.
        of = (snapshot.uid, self.stores.kafka_cluster_id_of(spec, key[0]) or "", spec.group_id)
        known = self._watched.get(key)
        known = known if known is not None and known.of == of else Watched(of=of)
        now_ms = int(self.now_s() * 1000)
        reading, returns = read_again(known.reading, snapshot.group, naming, table, began_ms=began_ms, ended_ms=now_ms)

        # Step 2: of the members that are wanted, how many returned without a rebalance, and how long they were away.
        wanted = {seat.key for seat in table.wanted}
        counter.inc(sum(each.is_absorbed for each in returns if each.instance_id in wanted))
        following, kept = measure(known.following, absences, snapshot, naming, table.wanted, returns, began_ms=began_ms)
        self._watched[key] = Watched(of=of, reading=reading, following=following)
        return kept

    def seen_again(self, key: Key, began_ms: int) -> None:
        """Note that the group, read again since then, Unix milliseconds, showed the same as last time."""
        known = self._watched.get(key)
        if known is not None and known.reading is not None:
            self._watched[key] = replace(known, reading=known.reading.seen_again(began_ms))

    def requeue_after_s(self, key: Key) -> float | None:
        """Return when to begin the next round because a member is away, whose return makes no event; None: none is."""
        known = self._watched.get(key)
        following = known.following.values() if known is not None else ()
        ends_ms = [each.end.at_ms for each in following if each.end is not None]
        is_awaited = bool(ends_ms) and self.now_s() * 1000 - max(ends_ms) < WATCHED_MAX_MS
        return ACTIVE_REQUEUE_S if is_awaited else None

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a StaticGroup that is gone."""
        self._watched.pop(key, None)

    def forget_all(self) -> None:
        """Drop all, because another replica ran rounds meanwhile."""
        self._watched.clear()
