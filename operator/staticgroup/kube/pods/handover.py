"""Say what a later process may rest on, and take over what an earlier or another one rests on.

What is stored is the epoch with a position for each scope: everything up to there is in a status. A process that
resumes from it begins below that position, and a replica that was watching meanwhile may go on under that epoch, if its
own watch overlaps what the other one knew.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final

from .behind import BEHIND_MAX
from .book import IncarnationBook
from .continuity import ConsistentRead, Continuity, Workload
from .epochs import Epochs
from .watch.stream import PodStream

ALL_NAMESPACES: Final = ""


class Handover:
    """The position of a watch, carried from one process to the next.

    Parameters
    ----------
    streams: one for each scope.
    now_s: seconds since the Unix epoch.
    """

    def __init__(
        self, streams: Mapping[str, PodStream], book: IncarnationBook, epochs: Epochs, *, now_s: Callable[[], float]
    ) -> None:
        self._streams = streams
        self._book = book
        self._epochs = epochs
        self._now_s = now_s
        self._passed: dict[str, int] = {}

    def begin_timeline(self) -> None:
        """Forget how far the position was: it compares within one timeline only."""
        self._passed.clear()

    def positions(self, stored: Continuity | None) -> dict[str, int | None]:
        """Choose each scope's position; a namespace may resume from the position of a watch over all of them."""
        if stored is None:
            return dict.fromkeys(self._streams)
        known = stored.resource_versions
        return {scope: known.get(scope, known.get(ALL_NAMESPACES)) for scope in self._streams}

    def continuity(self, age_s: float) -> Continuity | None:
        """Return what may be stored durably now; None while the watch is not continuous.

        Parameters
        ----------
        age_s: seconds since the quietest stream last heard anything.
        """
        if not self._epochs.epoch:
            return None
        positions: dict[str, int] = {}
        behind: dict[Workload, int] = {}
        room = max(1, BEHIND_MAX // len(self._streams))
        for scope, stream in self._streams.items():
            position, late = self._book.unwritten.stored_position(scope, stream.position, room=room)
            # What the position has passed once stays passed, also when a StaticGroup is made that would have held it.
            positions[scope] = self._passed[scope] = max(position, self._passed.get(scope, 0))
            behind |= late
        return Continuity(
            epoch=self._epochs.epoch,
            resource_versions=positions,
            behind=behind,
            since=dict(self._epochs.lineage.since),
            timeline=self._epochs.timeline,
            at_s=round(min(self._now_s() - max(0.0, age_s), self._book.unwritten.oldest_unwritten_s() or math.inf), 1),
            restored=self._epochs.restored,
            read=self._read(),
        )

    def _read(self) -> ConsistentRead:
        """Return the latest consistent read that every scope has made."""
        resource_version, age_s = min(stream.latest_read for stream in self._streams.values())
        return ConsistentRead(resource_version, round(self._now_s() - age_s, 1))

    def adopt(self, stored: Continuity) -> bool:
        """Go on under the epoch that the last holder of the Lease stored, if our own watch overlaps its knowledge.

        Parameters
        ----------
        stored: read before the durable ledgers that were merged since; the other way round an end may be in neither.

        Returns
        -------
        True when the epoch is now the stored one, or goes on from it.

        Notes
        -----
        What ended up to the stored position is in a status, and so was merged; what happened after it was folded by
        our own watch when that has been anchored since before. Together they lack nothing, as after a resume. Two
        replicas that start on a cluster without a Lease, and a standby after a gap of its own, come together this way.
        Positions compare within one timeline, so nothing is adopted of another one.
        """
        epochs = self._epochs
        if not epochs.take_timeline(stored.timeline):
            return False
        positions = self.positions(stored)
        if epochs.epoch == stored.epoch:
            for scope, position in positions.items():
                self._book.unwritten.take_durable(scope, position or 0, stored.behind)
            return True
        overlaps = all((positions[scope] or 0) >= s.anchored_at for scope, s in self._streams.items())
        if epochs.epoch and overlaps:
            epochs.adopt(stored, {scope: stream.anchored_at for scope, stream in self._streams.items()})
        return epochs.goes_on_from(stored.epoch)
