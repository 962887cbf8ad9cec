"""Let one workload whose ends cannot be written stay behind, so that it holds nobody else back.

The position of the pod watch that is stored promises that everything up to it is in a status. A status that is refused, a
StaticGroup that is new, one whose rounds do not end: each would keep the position where it is, until the API server's
history is gone and a restart is a gap for all. The one idea: the promise is kept for each workload by itself. The
position moves on, and who cannot follow is listed with a position of its own. A process that resumes begins below all of
them, and where that history is gone, it begins at the stored position and is blind for the listed ones alone.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from .continuity import Continuity, Workload, continued

_log = logging.getLogger(__name__)

FRESH_S: Final = 1.5
"""An end that was seen less long ago holds the position, because its status is about to be written: a workload is listed
for trouble, not for being at work. With a renewal of the Lease every 2 s the stored position is never 5 s old, while the
API server takes less than half a second for a call."""
BEHIND_MAX: Final = 64
"""Most workloads behind the position (by scope of the watch: its share, and one at least). Those that have no room keep the
position below their oldest end: that costs nobody anything until the history is gone, and a gap would at once. An entry has
no age limit, because a position of long ago says no less than a new one: a restart finds the history gone, and the workload
blind. It goes when all ends of the workload are written, or when no StaticGroup is left that they belong to."""

IsManaged = Callable[[str, str], bool]


def stored_position(
    ends: Iterable[tuple[Workload, int, float]], position: int, *, scope: str, now_s: float, room: int
) -> tuple[int, dict[Workload, int]]:
    """Say how far the stored position may go, and who is behind it.

    Parameters
    ----------
    ends: workload, resourceVersion and time (seconds since the Unix epoch) of every end that no status holds yet, the lowest
        resourceVersion first. They are taken only until no later one can change the answer, for it is asked at each renewal of
        the Lease, also after a start, when the pods of thousands of workloads are written nowhere.
    position: resourceVersion up to which the watch is folded.
    scope: namespace of the watch; "" for all.
    now_s: seconds since the Unix epoch. room: most workloads that may be behind.

    Returns
    -------
    The position, and for each workload behind it the position up to which its ends are in a status.
    """
    late: dict[Workload, int] = {}
    fresh: dict[Workload, int] = {}
    for workload, resource_version, since_s in ends:
        below = max(0, resource_version - 1)
        if scope and workload[0] != scope:
            # One is listed with a position of its own namespace's watch, so what it misses in another one holds all.
            position = min(position, below)
            break
        # A clock that went back says nothing about the age of an end.
        (fresh if 0 <= now_s - since_s < FRESH_S else late).setdefault(workload, below)
        if len(late) > room:
            break
    for workload in late.keys() & fresh.keys():
        late[workload] = min(late[workload], fresh.pop(workload))
    oldest_first = sorted(late.items(), key=lambda item: (item[1], item[0]))
    behind, homeless = oldest_first[:room], oldest_first[room:]
    position = min((position, *fresh.values(), *(p for _, p in homeless)))
    return position, {workload: own for workload, own in behind if own < position}


class Lineage:
    """Which earlier epochs the present one goes on from, and for which workloads it does not.

    Parameters
    ----------
    is_managed: (namespace, pod name) belongs to a StaticGroup; of other workloads nothing need be known.

    Attributes
    ----------
    blind: workloads whose ends after that position, up to where the watch was resumed, nobody knows.
    since: as in Continuity.
    """

    def __init__(self, is_managed: IsManaged) -> None:
        self.blind: dict[Workload, int] = {}
        self.since: dict[str, frozenset[Workload]] = {}
        self._is_managed = is_managed
        self._resumed: Continuity | None = None

    @property
    def is_behind(self) -> bool:
        """True when what was resumed from lists workloads behind its position."""
        return self._resumed is not None and bool(self._resumed.behind)

    def begin(self, resumed: Continuity) -> None:
        """Take what a process resumes from."""
        self._resumed, self.since = resumed, dict(resumed.since)

    def end(self) -> None:
        """Forget all of it: a gap began a new epoch, and names that outlived it are known by themselves."""
        self._resumed, self.blind, self.since = None, {}, {}

    def floor(self, scope: str, position: int) -> int:
        """Return where the watch of a scope shall resume: below every workload that still matters there.

        Notes
        -----
        One without any position cannot be resumed (0 would ask for a watch from anywhere), so it is blind at once.
        """
        behind = self._behind(scope)
        without = {workload: own for workload, own in behind.items() if own <= 0}
        if without:
            self._note_missed(scope, without)
        return min((position, *(own for own in behind.values() if own > 0)))

    def skip(self, scope: str) -> None:
        """Note that the history from the floor up to the stored position is gone."""
        if missed := self._behind(scope):
            self._note_missed(scope, missed)

    def _note_missed(self, scope: str, missed: Mapping[Workload, int]) -> None:
        self.blind |= missed
        named = ", ".join(f"{namespace}/{name}" for namespace, name in sorted(missed))
        _log.warning("pod watch resumed without the history of some workloads", extra={"scope": scope, "workloads": named})

    def _behind(self, scope: str) -> dict[Workload, int]:
        return self._managed(self._resumed.behind, scope) if self._resumed is not None else {}

    def _managed(self, behind: Mapping[Workload, int], scope: str) -> dict[Workload, int]:
        return {w: p for w, p in behind.items() if scope in ("", w[0]) and self._is_managed(w[0], f"{w[1]}-0")}

    def go_on(self, epoch: str, draw: Callable[[], str]) -> str:
        """Return the epoch to go on under: the resumed one, or one that continues it for all but the blind."""
        if not self.blind:
            return epoch
        self.since = continued(self.since, epoch, frozenset(self.blind))
        return draw()

    def adopt(self, stored: Continuity, unseen: Mapping[str, int], draw: Callable[[], str]) -> str:
        """Return the epoch under which a watch goes on that was complete itself and overlaps what a holder stored.

        Parameters
        ----------
        unseen: for each scope, the position from which on this watch has seen everything.

        Returns
        -------
        "" when the present epoch goes on from the stored one already, and knows more of no workload by adopting it.
        """
        blind = {
            w: p
            for scope, begun in unseen.items()
            for w, p in self._managed(stored.behind, scope).items()
            if p < begun
        }
        if blind and stored.epoch in self.since:
            return ""
        self.blind = blind
        self.since = {e: void for e, void in (self.since | dict(stored.since)).items() if e != stored.epoch}
        return self.go_on(stored.epoch, draw)

    def epochs(self, workload: Workload) -> frozenset[str]:
        """Return the earlier epochs that the present one continues for a workload."""
        return frozenset(epoch for epoch, void in self.since.items() if workload not in void)
