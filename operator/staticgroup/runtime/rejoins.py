"""Count the static rejoins that this process saw: what static membership is for, whether or not a journal is kept.

The one idea: it is counted from two looks of one process, by the journal's own rule, so a restart or a take-over loses
some and invents none. What a rebalance would have cost instead is an estimate of the fleet learner, not a count.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from ..api.resources.staticgroup import StaticGroupSpec
from ..core.journal import Look, Remembered, static_rejoins
from ..core.outcomes import Executed
from ..core.plan import Plan
from ..core.snapshot import Snapshot
from .metrics import Metrics
from .stores import Stores
from .work_queue import Key

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Rejoins:
    """Remember who holds which id from round to round.

    Parameters
    ----------
    now_s: seconds since the Unix epoch.
    """

    stores: Stores
    metrics: Metrics
    now_s: Callable[[], float]
    _remembered: dict[Key, Remembered] = field(default_factory=dict)

    def round(self, key: Key, spec: StaticGroupSpec, snapshot: Snapshot, decided: Plan, began_s: float) -> None:
        """Count what a round has shown; a fault in here never fails the round.

        Parameters
        ----------
        began_s: before the group was described.
        """
        try:
            look = Look(
                operator_id="-",  # of facts that are counted and not told
                kafka_cluster_id=self.stores.kafka_cluster_id(spec.connection_ref.key(key[0])) or "",
                spec=spec,
                snapshot=snapshot,
                plan=decided,
                executed=Executed(),
                began_ms=int(began_s * 1000),
                ended_ms=int(self.now_s() * 1000),
            )
            self._remembered[key], count = static_rejoins(self._remembered.get(key), look)
        except Exception:
            log.exception("static rejoins could not be counted", extra={"key": "/".join(key)})
            return
        counter = self.metrics.static_rejoins.labels(*key)  # made at 0, so that the first one is seen as an increase
        if count:
            counter.inc(count)

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a StaticGroup that is gone."""
        self._remembered.pop(key, None)

    def forget_all(self) -> None:
        """Drop all, because another replica looked meanwhile."""
        self._remembered.clear()
