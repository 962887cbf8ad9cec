"""Know every pod that can hold an instance id, and know whether that knowledge is complete.

The store follows all pods that have a name as StatefulSets give them, in one stream per scope, and folds what it sees
into incarnations. Its one promise is the *continuity epoch*: while `epoch` keeps its value, no pod
can have come and gone unseen; "" means that nothing may be concluded now. Everything that breaks the promise draws a
new epoch. The barrier extends the promise to a given moment: once it has passed resourceVersion r, every pod event up
to r has been folded.

Sources: Kubernetes API concepts (resource versions, 410, bookmarks), KEP-3157/KEP-2340 (consistent reads),
KEP-5504 (resourceVersions of one type are comparable).
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Set

from ...core.evidence.certificate import Certificate
from ...core.evidence.chain import Incarnation
from ...core.evidence.words import Word
from ..namespaces import is_gone
from ..problem import KubeProblem
from .continuity import Continuity, Workload
from .following import PodFollower
from .handover import ALL_NAMESPACES
from .records import oldest_first
from .unwritten import NEWEST
from .watch.stream import PodStream


class PodStore(PodFollower):
    """Answer what decisions ask of the pods that are followed, and take what is known of them from elsewhere."""

    @property
    def behind_workloads(self) -> Mapping[Workload, int]:
        """Workloads whose ends after this position, up to where the watch was resumed, are known to nobody."""
        return self._epochs.lineage.blind

    def unbroken_since(self, namespace: str, pod_name: str = "", *, workload: str = "") -> frozenset[str]:
        """Return the epochs since which no pod of a name can have come and gone unseen.

        Parameters
        ----------
        pod_name: "" asks for what holds for every name of the namespace.
        workload: asks, without a pod name, for what holds for every name of this StatefulSet.

        Returns
        -------
        The present epoch and earlier ones; none while a scope is not anchored.
        """
        return self._epochs.unbroken_since(namespace, pod_name, workload)

    @property
    def timeline(self) -> str:
        """What changes whenever the API server goes back in time; uids compare only within one."""
        return self._epochs.timeline

    @property
    def ended_at_s(self) -> Mapping[str, float]:
        """When earlier epochs ended, seconds since the Unix epoch; only those that this process knows of."""
        return self._epochs.ended_at_s

    def seen_under(self, uid: str) -> str:
        """Return the epoch in which this process saw an object last; "" when it did not, or under none that is known."""
        record = self._book.records.get(uid)
        if record is None:
            return ""
        scope = record.namespace if record.namespace in self._streams else ALL_NAMESPACES
        return self._epochs.of_era(scope, record.seen_in)

    def restored(self, mark: str) -> None:
        """Take a person's word that etcd was restored: every history ends, as if the server had been seen to go back.

        Parameters
        ----------
        mark: which word it is; "" is none, and the one that is known already changes nothing.
        """
        if self._epochs.hear_restored(mark):
            self.went_back(f"etcd was restored, as was said at {mark}")

    async def wait_anchored(self) -> str:
        """Wait until every scope is complete and return the epoch."""
        await self._anchored.wait()
        return self._epochs.epoch

    def position(self, namespace: str) -> int:
        """Return the resourceVersion up to which this namespace is folded; 0 when it is not followed.

        Notes
        -----
        Take it before a consistent read and hand it to `barrier` as `not_below`.
        """
        stream = self._stream_of(namespace)
        return stream.position if stream else 0

    async def reach_present(self, namespace: str) -> bool:
        """Bring the watch of every namespace up to a consistent read that begins now; False: ask again, never proceed."""
        stream = self._stream_of(namespace)
        if stream is None:
            return False
        position = stream.position
        current = await stream.current_resource_version()
        return current is not None and await self.barrier(namespace, current, not_below=position)

    @property
    def watch(self) -> tuple[str, float]:
        """Name of this watch, another one whenever pods may have come and gone unseen, and since when it is whole; "" while it is not."""
        epoch = self._epochs.epoch
        return epoch, self._since_s.get(epoch, self._now_s())

    @property
    def ends(self) -> int:
        """Count the certificates that the watch has brought in this process."""
        return self._book.ends

    async def barrier(self, namespace: str, resource_version: int, *, not_below: int = 0) -> bool:
        """Bring the watch up to the resourceVersion of a consistent read of a namespace.

        Parameters
        ----------
        resource_version: of a consistent read of pods.
        not_below: `position(namespace)` as it was before that read; a read below it is an etcd restore and a gap,
            one further ahead than any cluster writes is, too.

        Returns
        -------
        True when every pod event up to `resource_version` has been folded without a gap; False: observe again,
        never proceed.

        Notes
        -----
        Of every namespace, because a copy of a pod holds its id in any: resourceVersions of pods compare over namespaces (KEP-5504).
        """
        stream = self._stream_of(namespace)
        epoch = self.epoch
        if stream is None or not epoch or not stream.is_anchored:
            return False
        if (restore := stream.restore_shown(resource_version, not_below)) is not None:
            self.went_back(restore.reason)
            return False
        passed = await asyncio.gather(*(self._reaches(s, resource_version) for s in self._streams.values()))
        return all(passed) and self.epoch == epoch

    async def _reaches(self, stream: PodStream, resource_version: int) -> bool:
        patience_s = self._settings.barrier_patience_s
        return await stream.reach(resource_version, patience_s) or await stream.catch_up(resource_version)

    async def unfollowed(self) -> str:
        """Return a namespace that is to be followed and is not, and of which the API server does not say that it is gone; "": none."""
        for namespace in self._gone:
            if not await is_gone(self._transport, namespace):
                return namespace
        return ""

    def _stream_of(self, namespace: str) -> PodStream | None:
        return self._streams.get(namespace) or self._streams.get(ALL_NAMESPACES)

    def chain(
        self, namespace: str, *, pod_names: Iterable[str] = (), instance_ids: Iterable[str] = ()
    ) -> tuple[Incarnation, ...]:
        """Return every known incarnation with one of the pod names or one of the ids, oldest version first."""
        return self._book.records.chain(namespace, pod_names, instance_ids)

    def carriers(self, instance_ids: Iterable[str]) -> tuple[Incarnation, ...]:
        """Return every known incarnation of any namespace that ever carried one of the ids, oldest version first."""
        return self._book.records.carriers(instance_ids)

    def strays(self, namespace: str, workload_name: str, carried: Iterable[tuple[str, str]]) -> tuple[Incarnation, ...]:
        """Return every incarnation that is no seat of a StatefulSet and ever carried an id in a namespace."""
        return self._book.records.strays(namespace, workload_name, carried)

    def strays_anywhere(self, namespace: str, workload_name: str, instance_ids: Set[str]) -> tuple[Incarnation, ...]:
        """Return every incarnation of any namespace that is no seat of a StatefulSet and ever carried one of the ids."""
        return self._book.records.strays_anywhere(namespace, workload_name, instance_ids)

    def ids(self) -> Iterator[tuple[str, str]]:
        """Iterate over every id that any incarnation ever carried, each with its namespace."""
        return self._book.records.ids()

    @property
    def forgotten_suspects(self) -> int:
        """Count the suspects of nobody that were dropped for want of room; it stays as it is while none is."""
        return self._book.gone.forgotten_suspects

    @property
    def new_ids(self) -> int:
        """Count the ids that came to a namespace; it stays as it is while none does."""
        return self._book.records.new_ids

    def of_workload(self, namespace: str, workload_name: str) -> tuple[Incarnation, ...]:
        """Return every known incarnation named after a StatefulSet, present or gone, oldest version first."""
        return oldest_first(self._book.records.of_workload(namespace, workload_name))

    def get(self, uid: str) -> Incarnation | None:
        """Return one incarnation; None when the uid is unknown."""
        record = self._book.records.get(uid)
        return record.incarnation() if record else None

    def __len__(self) -> int:
        return len(self._book.records)

    def merge(self, entries: Iterable[Incarnation]) -> None:
        """Add the incarnations that a status holds from an earlier process.

        Notes
        -----
        A certificate or a suspicion is kept, an unknown live one is verified by the LIST (or is a suspect at once
        when the store is already complete and does not know it).
        """
        kept = tuple(entries)
        self._stored_maximum = max((self._stored_maximum, *(e.resource_version for e in kept)))
        self._book.merge(kept, complete_until=self._complete_until)

    def _complete_until(self, namespace: str) -> int:
        """Return up to where every object of a namespace is known: 0 while its LIST is not complete, all when it is not followed."""
        stream = self._stream_of(namespace)
        if stream is None:
            return NEWEST
        return stream.position if stream.is_anchored else 0

    def hear(self, words: Iterable[Word]) -> None:
        """Take all words that people have given about lost pods, in place of those of before."""
        for change in self._book.hear(words):
            self._announce(change)

    def doubtful(self) -> Iterator[Incarnation]:
        """Iterate over the suspects, and over the pods of which a run is lost."""
        return self._book.doubtful()

    def suspects(self) -> Iterator[Incarnation]:
        """Iterate over every suspect that was bound to a node."""
        return self._book.suspects()

    def close(self, uid: str, proof: Certificate) -> bool:
        """Close a suspicion by what became of a node; False when the uid is no suspect any more."""
        change = self._book.close(uid, proof)
        if change is not None:
            self._announce(change)
        return change is not None

    def owe(self, uid: str, owed: str) -> None:
        """Note, for people, what the node of a suspect has not shown yet."""
        change = self._book.owe(uid, owed)
        if change is not None:
            self._announce(change)

    def forget(self, uid: str) -> bool:
        """Drop a vanished incarnation that no decision needs any more; False when its object is present or unknown."""
        return self._book.forget(uid)

    def node_changed(self, node_name: str) -> None:
        """Judge again the ends that waited for the facts of this node."""
        for change in self._book.take_node(node_name):
            self._announce(change)

    def mark_durable(self, written: Incarnation) -> bool:
        """Note that a status now holds this state; False when the incarnation has moved on since."""
        return self._book.unwritten.mark_durable(written)

    def is_durable(self, uid: str) -> bool:
        """True unless the incarnation's end was not written to a status yet."""
        return self._book.unwritten.is_durable(uid)

    def continuity(self) -> Continuity | None:
        """Return what may be stored durably now; None while the watch is not continuous."""
        return self._handover.continuity(self.age_s())

    def adopt(self, stored: Continuity) -> bool:
        """Go on under the epoch that the last holder of the Lease stored, if that lacks nothing; see `Handover.adopt`."""
        if self._epochs.missed_restore(stored.timeline):
            self.went_back("the last holder saw the API server go back in time")
        return self._handover.adopt(stored)

    @property
    def saw_restore(self) -> bool:
        """True when this process saw, or was told, that the API server went back in time."""
        return self._epochs.saw_restore

    def age_s(self) -> float:
        """Return the seconds since the quietest stream last heard anything (an event, a bookmark, a LIST page)."""
        return self._clock_s() - min(stream.last_heard_s for stream in self._streams.values())

    @property
    def problems(self) -> tuple[KubeProblem, ...]:
        """What keeps streams from following now; empty when all is well."""
        return tuple(s.problem for s in self._streams.values() if s.problem is not None)
