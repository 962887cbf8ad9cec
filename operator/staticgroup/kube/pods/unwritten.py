"""Know the ends of pods that no status holds yet: the stored position of the watch must not pass them.

A restart resumes from the stored position: everything after it is replayed, everything before it must be in a status.
So each end is noted with its resourceVersion until a StaticGroup has written it. Whose end it is follows from the name
of the pod, or from an id that it has carried. And so is each version that shows an id of a live pod first: a later one may
show it no more.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Final

from ...core.evidence.chain import Incarnation, IncarnationState
from .behind import BEHIND_MAX, IsManaged, stored_position
from .continuity import Workload
from .records import PodRecord, PodRecords

NEWEST: Final = 2**63
"""Above every resourceVersion."""

CountedOn = Callable[[Incarnation], Mapping[Workload, bool]]
"""The StatefulSets whose StaticGroups count on ids of a pod that its name does not tell, and whether it must still be written."""


class UnwrittenEnds:
    """The ends of the pods of some records that no status holds yet.

    Attributes
    ----------
    versions: uid to the resourceVersion of its end, or of the version that showed an id first.

    Parameters
    ----------
    now_s: operator's clock, seconds since the Unix epoch.
    is_managed: (namespace, pod name) belongs to a StaticGroup, so its end must be written to a status.
    counted_on: see `CountedOn`.
    """

    def __init__(
        self, records: PodRecords, *, now_s: Callable[[], float], is_managed: IsManaged, counted_on: CountedOn
    ) -> None:
        self.versions: dict[str, int] = {}
        self._shown_s: dict[str, float] = {}
        self._records = records
        self._now_s = now_s
        self._is_managed = is_managed
        self._counted_on = counted_on

    def forget_versions(self, resource_version: int) -> None:
        """Take all ends for as new as this, because the resourceVersion counter went back to it."""
        self.versions = dict.fromkeys(self.versions, resource_version)

    def note_end(self, before: Incarnation | None, uid: str, resource_version: int) -> None:
        """Note an end; an id that the pod showed before, and no status holds yet, is no less unwritten for it."""
        shown_at = self.versions.get(uid)
        if shown_at is not None and (before is None or not any(self._counts(before).values())):
            shown_at = None
        self.versions[uid] = resource_version if shown_at is None else min(shown_at, resource_version)
        self._shown_s.pop(uid, None)

    def note_ids(self, before: Incarnation | None, uid: str, resource_version: int) -> None:
        """Note that a version of a live pod showed ids that none had shown before."""
        self.versions.setdefault(uid, resource_version)
        if before is not None:
            self._shown_s.setdefault(uid, self._now_s())

    def drop(self, uid: str) -> None:
        """Take a pod for written."""
        self.versions.pop(uid, None)
        self._shown_s.pop(uid, None)

    def mark_durable(self, written: Incarnation) -> bool:
        """Note that a status holds this state of an incarnation; False when it has moved on and another write is due."""
        record = self._records.get(written.uid)
        if record is not None and (record.state is not written.state or not written.instance_ids.issuperset(record.instance_ids)):
            return False
        self.drop(written.uid)
        return True

    def is_durable(self, uid: str) -> bool:
        """True unless the incarnation entered SUSPECT or DEAD, or showed an id, and that was not written yet."""
        return uid not in self.versions

    def durable_position(self, scope: str, position: int) -> int:
        """Cap a position just below the oldest end of a managed pod that is not durable yet.

        Notes
        -----
        A restart resumes from the stored position: everything after it is replayed, everything before it must be
        in a status.
        """
        return max(0, min((position, *(version - 1 for _, version, _ in self._ends(scope, position)))))

    def stored_position(self, scope: str, position: int, *, room: int = BEHIND_MAX) -> tuple[int, dict[Workload, int]]:
        """Cap a position below the ends that have just been seen, and list the workloads with older ones; see `behind`."""
        return stored_position(self._ends(scope, position), position, scope=scope, now_s=self._now_s(), room=room)

    def _ends(self, scope: str, position: int) -> Iterator[tuple[Workload, int, float]]:
        """Yield workload, resourceVersion and time of each end of a managed pod up to a position that is not durable, the lowest first."""
        for uid, resource_version in sorted(self.versions.items(), key=itemgetter(1)):
            record = self._records.get(uid) if resource_version <= position else None
            if record is None or (scope and record.namespace != scope):
                continue
            for workload in self._waiting(record):
                yield workload, resource_version, self._since_s(record)

    def _waiting(self, record: PodRecord) -> list[Workload]:
        """Return whose StaticGroups have yet to write a pod; a live one that none has to is written."""
        workloads = self._workloads(record)
        if not workloads and record.state is IncarnationState.LIVE:
            self.drop(record.uid)
        return workloads

    def _since_s(self, record: PodRecord) -> float:
        return self._shown_s.get(record.uid, record.since_s)

    def _workloads(self, record: PodRecord) -> list[Workload]:
        """Return the StatefulSets whose StaticGroups must know of a pod: of its end by its name, or by an id that it carried."""
        counting = {workload for workload, is_unwritten in self._counts_of(record).items() if is_unwritten}
        if record.state is not IncarnationState.LIVE and self._is_managed(record.namespace, record.pod_name):
            counting.add((record.namespace, record.pod_name.rpartition("-")[0]))
        return sorted(counting)

    def is_counted_on(self, record: PodRecord) -> bool:
        """True when a StaticGroup has the pod, or counts on a suspect that carried an id of its own."""
        return self._is_managed(record.namespace, record.pod_name) or bool(self._counts_of(record))

    def _counts_of(self, record: PodRecord) -> Mapping[Workload, bool]:
        # The dead are counted on by nobody, and unpacking each costs more than that answer.
        return {} if record.state is IncarnationState.DEAD else self._counts(record.incarnation())

    def _counts(self, pod: Incarnation) -> Mapping[Workload, bool]:
        return self._counted_on(pod) if pod.state is not IncarnationState.DEAD and pod.instance_ids else {}

    def oldest_unwritten_s(self) -> float | None:
        """Return when the first end of a managed pod was seen that no status holds yet, seconds since the Unix epoch."""
        records = [record for uid in self.versions if (record := self._records.get(uid)) is not None]
        oldest_first = sorted(records, key=self._since_s)
        return next((self._since_s(record) for record in oldest_first if self._waiting(record)), None)

    def take_durable(self, scope: str, position: int, behind: Mapping[Workload, int]) -> None:
        """Note that another process has written every end of a scope up to a position, of some workloads up to their own."""
        for workloads, resource_version, uid in [
            (self._workloads(record), version, uid)
            for uid, version in self.versions.items()
            if (record := self._records.get(uid)) is not None and scope in ("", record.namespace)
        ]:
            if resource_version <= min((position, *(behind.get(workload, position) for workload in workloads))):
                self.drop(uid)
