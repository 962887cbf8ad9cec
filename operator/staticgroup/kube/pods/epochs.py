"""Say under which epoch, and on which timeline, the pod watch is complete now, and what ended the earlier ones.

While an epoch holds, no pod can have come and gone unseen. A gap of any scope ends it and a new one is drawn once every
scope is complete again; a gap that was healed, a name that outlived it, and a process that resumed where another one
stood go on from earlier epochs. A timeline lasts longer: it ends only when the API server goes back in time, for then
uids come back. No I/O: the streams and the book are told of by the store.
"""

import hashlib
from collections.abc import Iterable, Mapping
from random import Random

from .behind import IsManaged, Lineage
from .continuity import Continuity
from .names import EPOCHS_MAX, Name, NameContinuity, Sighting


class Epochs:
    """The epoch and the timeline of a watch over some scopes.

    Attributes
    ----------
    epoch: "" while a scope is not complete, when nothing may be concluded.
    timeline: what changes whenever the API server goes back in time; uids compare only within one.
    ended_at_s: when earlier epochs ended, seconds since the Unix epoch; only those that this process knows of.
    restored: the latest word about a restored etcd that is known; "" when there was none.
    lineage: from which epochs the present one goes on, and for which workloads it does not.

    Parameters
    ----------
    scopes: namespaces that are followed; "" for all of them.
    rng: draws epochs and timelines; must differ between processes.
    """

    def __init__(self, scopes: Iterable[str], is_managed: IsManaged, rng: Random) -> None:
        self.epoch = ""
        self.timeline = ""
        self.ended_at_s: dict[str, float] = {}
        self.restored = ""
        self.lineage = Lineage(is_managed)
        self._scopes = tuple(scopes)
        self._names = NameContinuity(self._scopes)
        self._rng = rng
        self._is_timeline_stored = False
        self._is_rewinding = False
        self._of_era: dict[tuple[str, int], str] = {}
        self._ended_epoch = ""
        self._resumed_epoch = ""
        self._before_gap: dict[str, frozenset[str]] = {}
        self._gapped: set[str] = set()
        self._saw_restore = False
        self._begins_after_restore = False

    def _draw(self) -> str:
        return f"{self._rng.getrandbits(64):016x}"

    # -- where a process begins

    def begin(self, resume: Continuity | None, *, restored: str, covers: bool) -> bool:
        """Go on from what the last process stored, or begin again.

        Parameters
        ----------
        restored: the word about a restored etcd that is known at the beginning.
        covers: `resume` has a position of every scope.

        Returns
        -------
        True when the epoch that was stored goes on.
        """
        self.restored = restored
        self._begins_after_restore = bool(restored) and resume is None
        self._is_timeline_stored = resume is not None and bool(resume.timeline)
        self.timeline = resume.timeline if resume is not None and resume.timeline else self._draw()
        if resume is not None and resume.at_s:
            self.ended_at_s[resume.epoch] = resume.at_s
        self._resumed_epoch = resume.epoch if resume is not None and covers else ""
        if resume is None or not self._resumed_epoch:
            return False
        self.lineage.begin(resume)
        return True

    # -- gaps

    def begin_gap(self, scope: str, *, is_restore: bool, present: Mapping[Name, Sighting], at_s: float) -> None:
        """End the epoch; what had a name is noted, because names whose object stays keep their history.

        Parameters
        ----------
        present: the object that has each name now; empty when that is not known for certain.
        at_s: when the watch was heard of last, seconds since the Unix epoch.
        """
        # Before the first epoch it is what was resumed that may go on, unless some workload lags behind its position.
        ended = self.epoch or self._ended_epoch or ("" if self.lineage.is_behind else self._resumed_epoch)
        # What a scope lost in a gap before that, under the same epoch, the events of this one do not bring back.
        is_first = scope not in self._gapped
        self._gapped.add(scope)
        before = self._names.of_scope(scope) | ({ended} if ended else set())
        self._before_gap[scope] = before if is_first else frozenset()
        if self.epoch:
            self.ended_at_s[self.epoch] = at_s
            self.ended_at_s = dict(list(self.ended_at_s.items())[-EPOCHS_MAX:])
        if is_restore:
            self.end_timeline()
        else:
            self._names.begin_gap(scope, present)
        self._ended_epoch = self.epoch or self._ended_epoch
        self.epoch = self._resumed_epoch = ""
        self.lineage.end()

    def end_gap(self, scope: str, listed: Mapping[Name, Sighting]) -> None:
        """Compare the names with what had them before the gap."""
        self._names.end_gap(scope, listed)

    def heal(self, scope: str) -> None:
        """Take the epochs of before the latest gap for unbroken again: every event of it was folded after all."""
        self._names.heal(scope, self._before_gap.pop(scope, frozenset()))

    def draw(self, eras: Mapping[str, int]) -> None:
        """Draw a new epoch, or keep the resumed one, now that every scope is complete.

        Parameters
        ----------
        eras: how many gaps each scope has had.
        """
        if not self.epoch:
            resumed = self._resumed_epoch
            self.epoch = self.lineage.go_on(resumed, self._draw) if resumed else self._draw()
            self._names.draw(self._ended_epoch)
        self._resumed_epoch = self._ended_epoch = ""
        self._is_rewinding = False
        self._gapped.clear()
        for era in eras.items():
            self._of_era.setdefault(era, self.epoch)
        self._of_era = dict(list(self._of_era.items())[-EPOCHS_MAX * len(self._scopes) :])

    # -- timelines

    def end_timeline(self) -> None:
        """Begin another timeline at once: uids may come back, so no name of any scope stays clear."""
        self._names.rewind()
        if not self._is_rewinding:
            self.timeline, self._is_rewinding = self._draw(), True
        self._saw_restore = True
        self._before_gap.clear()
        self.epoch = self._ended_epoch = self._resumed_epoch = ""

    @property
    def is_rewinding(self) -> bool:
        """True from the end of a timeline until an epoch is drawn on the next one."""
        return self._is_rewinding

    def hear_restored(self, mark: str) -> bool:
        """Take a person's word that etcd was restored; `end_timeline` is to follow.

        Returns
        -------
        False when it is no word (""), or the one that is known already.
        """
        if not mark or mark == self.restored:
            return False
        self.restored = mark
        if not self._is_rewinding:
            # The same one for every replica that was told and shared the timeline before.
            self.timeline, self._is_rewinding = hashlib.sha256(f"{self.timeline} {mark}".encode()).hexdigest()[:16], True
        return True

    @property
    def saw_restore(self) -> bool:
        """True when this process saw, or was told, that the API server went back in time."""
        return self._saw_restore or self._begins_after_restore

    def missed_restore(self, timeline: str) -> bool:
        """True when the timeline of the last holder shows that it saw the API server go back in time, and this process did not."""
        return timeline not in ("", self.timeline) and not self._saw_restore and self._is_timeline_stored

    def take_timeline(self, timeline: str) -> bool:
        """Go on under the timeline of the last holder; False when the two have not seen the same restores.

        Notes
        -----
        A timeline of our own was drawn when no Lease was there to read: the holder began to write after we had begun
        to watch, and we have seen no restore since. Otherwise the other one has seen a restore that we have not.
        """
        if timeline == self.timeline:
            return True
        if self._saw_restore or not timeline or self._is_timeline_stored:
            return False
        self.timeline, self._is_timeline_stored = timeline, True
        return True

    # -- earlier epochs

    def adopt(self, stored: Continuity, begun: Mapping[str, int]) -> None:
        """Go on under the epoch that the last holder of the Lease stored.

        Parameters
        ----------
        begun: for each scope, the position from which on this watch has seen everything.
        """
        if adopted := self.lineage.adopt(stored, begun, self._draw):
            # Our own watch was complete meanwhile: a gap of the other one, which began its epoch, says nothing against it.
            self._names.keep_all(self.epoch)
            self.epoch = adopted

    def goes_on_from(self, epoch: str) -> bool:
        """True when the present epoch is this one or goes on from it."""
        return self.epoch == epoch or epoch in self.lineage.since

    def unbroken_since(self, namespace: str, pod_name: str, workload: str) -> frozenset[str]:
        """Return the epochs since which no pod of a name can have come and gone unseen; see `PodStore.unbroken_since`."""
        if not self.epoch:
            return frozenset()
        earlier = self._names.epochs(namespace, pod_name) if pod_name else self._names.of_scope(namespace)
        continued = self.lineage.epochs((namespace, workload or pod_name.rpartition("-")[0]))
        return earlier | {self.epoch} | (continued if workload or pod_name else frozenset())

    def of_era(self, scope: str, era: int) -> str:
        """Return the epoch that held after so many gaps of a scope; "" when it is not known."""
        return self._of_era.get((scope, era), "")
