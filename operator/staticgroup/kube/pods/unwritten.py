"""Know the ends of pods that no status holds yet: the stored position of the watch must not pass them.

A restart resumes from the stored position: everything after it is replayed, everything before it must be in a status.
So each end is noted with its resourceVersion until a StaticGroup has written it. Whose end it is follows from the name
of the pod, or from an id that a suspect of any other name has carried.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ...core.evidence.chain import Incarnation, IncarnationState
from .behind import BEHIND_MAX, IsManaged, stored_position
from .continuity import Workload
from .records import PodRecord, PodRecords

NEWEST: Final = 2**63
"""Above every resourceVersion."""

CountedOn = Callable[[Incarnation], Mapping[str, bool]]
"""Names of the StatefulSets whose StaticGroups count on a suspect of any other name, and whether it must still be written."""


class UnwrittenEnds:
    """The ends of the pods of some records that no status holds yet.

    Attributes
    ----------
    versions: uid to the resourceVersion of its end.

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
        self._records = records
        self._now_s = now_s
        self._is_managed = is_managed
        self._counted_on = counted_on

    def forget_versions(self, resource_version: int) -> None:
        """Take all ends for as new as this, because the resourceVersion counter went back to it."""
        self.versions = dict.fromkeys(self.versions, resource_version)

    def mark_durable(self, written: Incarnation) -> bool:
        """Note that a status holds this state of an incarnation; False when it has moved on and another write is due."""
        record = self._records.get(written.uid)
        if record is not None and record.state is not written.state:
            return False
        self.versions.pop(written.uid, None)
        return True

    def is_durable(self, uid: str) -> bool:
        """True unless the incarnation entered SUSPECT or DEAD and that was not written yet."""
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
        return stored_position(self._ends(scope, position), position, now_s=self._now_s(), room=room)

    def _ends(self, scope: str, position: int) -> Iterable[tuple[Workload, int, float]]:
        """Yield workload, resourceVersion and time of each end of a managed pod up to a position that is not durable."""
        for uid, resource_version in self.versions.items():
            record = self._records.get(uid) if resource_version <= position else None
            if record is None or (scope and record.namespace != scope):
                continue
            for workload in self._workloads(record):
                yield workload, resource_version, record.since_s

    def _workloads(self, record: PodRecord) -> list[Workload]:
        """Return the StatefulSets whose StaticGroups must know of the end of a pod: by its name, or by an id that it carried."""
        if self._is_managed(record.namespace, record.pod_name):
            return [(record.namespace, record.pod_name.rpartition("-")[0])]
        return sorted((record.namespace, name) for name, is_unwritten in self._counts(record).items() if is_unwritten)

    def is_counted_on(self, record: PodRecord) -> bool:
        """True when a StaticGroup has the pod, or counts on a suspect that carried an id of its own."""
        return self._is_managed(record.namespace, record.pod_name) or bool(self._counts(record))

    def _counts(self, record: PodRecord) -> Mapping[str, bool]:
        is_suspect = record.state is IncarnationState.SUSPECT and bool(record.instance_ids)
        return self._counted_on(record.incarnation()) if is_suspect else {}

    def oldest_unwritten_s(self) -> float | None:
        """Return when the first end of a managed pod was seen that no status holds yet, seconds since the Unix epoch."""
        return min((since_s for _, _, since_s in self._ends("", NEWEST)), default=None)

    def take_durable(self, scope: str, position: int, behind: Mapping[Workload, int]) -> None:
        """Note that another process has written every end of a scope up to a position, of some workloads up to their own."""
        for workloads, resource_version, uid in [
            (self._workloads(record), version, uid)
            for uid, version in self.versions.items()
            if (record := self._records.get(uid)) is not None and scope in ("", record.namespace)
        ]:
            if resource_version <= min((position, *(behind.get(workload, position) for workload in workloads))):
                del self.versions[uid]
