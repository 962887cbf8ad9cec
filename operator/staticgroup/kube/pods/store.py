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
import hashlib
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from ...core.chain import Incarnation
from ...core.pod import PodVersion
from ...core.words import Word
from ..pages import PAGE_LIMIT
from ..problem import KubeProblem
from ..translate import MalformedObject, pod_version
from ..transport import Transport
from .behind import BEHIND_MAX, Lineage
from .book import GONE_MAX, Change, CountedOn, IncarnationBook, IsManaged, NodeOf
from .continuity import Continuity, Workload
from .names import EPOCHS_MAX, NameContinuity
from .stream import STALL_TIMEOUT_S, Gap, Listing, PodStream

_log = logging.getLogger(__name__)

ALL_NAMESPACES: Final = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStoreSettings:
    """Times and bounds of the store.

    Parameters
    ----------
    barrier_patience_s: how long a barrier waits for the main stream before it replays. Short, because the main stream
        may still win while the replay runs: measured on 1.36.3 with no pod event after the read, barriers took
        1.0-1.2 s with no patience and 1.1-2.4 s with 0.7 s.
    relist_interval_s: between two comparisons with a complete LIST.
    stall_timeout_s: silence after which a stream is reconnected.
    chunk_size: most pods per LIST page.
    env_names: further environment variables that carry instance ids.
    """

    barrier_patience_s: float = 0.1
    relist_interval_s: float = 600.0
    stall_timeout_s: float = STALL_TIMEOUT_S
    reconnect_delay_s: float = 0.2
    chunk_size: int = PAGE_LIMIT
    gone_max: int = GONE_MAX
    env_names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStoreHooks:
    """What the store asks of and tells to its surroundings; all calls are synchronous and must not block.

    Parameters
    ----------
    node_of: facts of a node by name.
    is_managed: (namespace, pod name) belongs to a StaticGroup.
    counted_on: see `CountedOn`.
    on_change: (namespace, owner name, pod name) has changed in a way that decisions can see.
    on_gap: continuity ended, with the reason in words.
    on_anchor: the store is complete and continuous, with its epoch.
    on_uncertified: a pod that a StaticGroup manages vanished without a certificate, with the kind of what stood against it.
    on_object: a raw pod as a watch or a LIST showed it, and its translation, before it is folded.
    """

    node_of: NodeOf
    is_managed: IsManaged
    on_change: Callable[[str, str, str], None]
    on_gap: Callable[[str], None]
    counted_on: CountedOn = field(default=lambda suspect: {})
    on_anchor: Callable[[str], None] = field(default=lambda epoch: None)
    on_uncertified: Callable[[str], None] = field(default=lambda reason: None)
    on_object: Callable[[object, PodVersion], None] = field(default=lambda raw, version: None)


class PodStore:
    """Follow the pods of all namespaces or of some.

    Parameters
    ----------
    scopes: namespaces to follow, one stream each; `("",)` for all in one stream.
    rng: draws epochs and spreads retries; must differ between processes.
    now_s: seconds since the Unix epoch.
    clock_s: monotonic seconds.
    """

    def __init__(
        self, transport: Transport, hooks: PodStoreHooks, *, rng: Random, now_s: Callable[[], float],
        clock_s: Callable[[], float], scopes: Sequence[str] = (ALL_NAMESPACES,),
        settings: PodStoreSettings | None = None, sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        self._settings = settings or PodStoreSettings()
        self._transport = transport
        self._hooks = hooks
        self._rng = rng
        self._clock_s = clock_s
        self._sleep = sleep
        self._book = IncarnationBook(
            node_of=hooks.node_of, now_s=now_s, is_managed=hooks.is_managed, counted_on=hooks.counted_on,
            gone_max=self._settings.gone_max,
        )
        self._streams = {
            scope: PodStream(
                transport, self, scope=scope, rng=rng, clock_s=clock_s, sleep=sleep, chunk_size=self._settings.chunk_size,
                stall_timeout_s=self._settings.stall_timeout_s, reconnect_delay_s=self._settings.reconnect_delay_s,
            )
            for scope in scopes
        }
        self._names = NameContinuity(scopes)
        self._lineage = Lineage(hooks.is_managed)
        self._now_s = now_s
        self._timeline = ""
        self._is_timeline_stored = False
        self._restored = ""
        self._is_rewinding = False
        self._passed: dict[str, int] = {}
        self._epoch_of_era: dict[tuple[str, int], str] = {}
        self._ended_at_s: dict[str, float] = {}
        self._epoch = ""
        self._ended_epoch = ""
        self._resumed_epoch = ""
        self._stored_maximum = 0
        self._before_gap: dict[str, frozenset[str]] = {}
        self._gapped: set[str] = set()
        self._saw_restore = False
        self._begins_after_restore = False
        self._came_back = ""
        self._anchored = asyncio.Event()
        self.gap_count = 0

    # -- life

    async def run(self, resume: Continuity | None, *, restored: str = "") -> None:
        """Follow all scopes until cancelled.

        Parameters
        ----------
        restored: the word about a restored etcd that is known at the beginning, see `restored`.
        resume: what the last process stored, see `continuity`; None begins a new epoch. `merge` the durable ledger
            before: the replay shows what changed after the stored position, the ledger what ended before it.
        """
        positions = self._resume_positions(resume)
        self._restored = restored
        self._begins_after_restore = bool(restored) and resume is None
        self._is_timeline_stored = resume is not None and bool(resume.timeline)
        self._timeline = resume.timeline if resume is not None and resume.timeline else self._draw()
        if resume is not None and resume.at_s:
            self._ended_at_s[resume.epoch] = resume.at_s
        self._resumed_epoch = resume.epoch if resume is not None and None not in positions.values() else ""
        if resume is not None and not self._resumed_epoch:
            self.gap_count += 1
            self._hooks.on_gap("the pod watch covers namespaces that the stored position does not")
            positions = dict.fromkeys(self._streams)
        if resume is not None and self._resumed_epoch:
            self._book.is_resumed = True
            self._lineage.begin(resume)
        floors = {scope: position and self._lineage.floor(scope, position) for scope, position in positions.items()}
        try:
            async with asyncio.TaskGroup() as tasks:
                for scope, stream in self._streams.items():
                    tasks.create_task(stream.run(floors[scope], stored=positions[scope] or 0))
                tasks.create_task(self._relist_periodically())
        finally:
            await asyncio.gather(*(s.close() for s in self._streams.values()), return_exceptions=True)

    def _resume_positions(self, resume: Continuity | None) -> dict[str, int | None]:
        """Choose each scope's start; a namespace may resume from the position of a watch over all of them."""
        if resume is None:
            return dict.fromkeys(self._streams)
        stored = resume.resource_versions
        return {scope: stored.get(scope, stored.get(ALL_NAMESPACES)) for scope in self._streams}

    def _draw(self) -> str:
        return f"{self._rng.getrandbits(64):016x}"

    async def _relist_periodically(self) -> None:
        while True:
            await self._sleep(self._settings.relist_interval_s)
            await self.relist()

    async def relist(self) -> None:
        """Compare every scope with a complete LIST now; a contradiction is a gap."""
        for stream in self._streams.values():
            await stream.relist()

    # -- what a stream feeds (PodSink)

    def translate(self, raw: object) -> PodVersion | MalformedObject:
        """Translate a raw pod; a pod that cannot be read is logged by the field that is wrong, never by its content."""
        version = pod_version(raw, env_names=self._settings.env_names)
        if isinstance(version, MalformedObject):
            _log.error("pod object cannot be read", extra={"field": version.field, "found": version.found})
        else:
            self._hooks.on_object(raw, version)
        return version

    def take_event(self, stream: PodStream, version: PodVersion, *, is_deleted: bool) -> None:
        """Fold a version that a watch delivered."""
        # An event from before the position was looked up afterwards, and says what was so then.
        is_news = not is_deleted and version.resource_version > stream.position
        contradiction = self._book.comes_back(version) if is_news else ""
        if contradiction:
            self.went_back(f"{contradiction} (etcd restored?)")
        change = self._book.take(version, is_deleted=is_deleted, in_order=True)
        self._announce(change)
        if is_deleted:
            self._book.purge()

    def take_listed(self, version: PodVersion, *, is_restore: bool) -> None:
        """Fold a version that a LIST showed."""
        if is_restore:
            self._announce(self._book.take_after_restore(version))
        else:
            self._came_back = self._came_back or self._book.comes_back(version)
            self._announce(self._book.take(version, is_deleted=False, in_order=False))

    def take_absent(self, scope: str, listing: Listing) -> None:
        """Record as vanished what a complete LIST does not show."""
        for change in self._book.take_absent(scope, listing.versions, listing.resource_version):
            self._announce(change)

    def contradiction(self, scope: str, listing: Listing) -> str:
        """Compare a complete LIST with the book; "" when they agree."""
        return self._book.contradiction(scope, listing.versions, listing.resource_version)

    def stored_maximum(self) -> int:
        """Return the highest resourceVersion in the durable ledger, 0 when it is empty or void."""
        return self._stored_maximum

    def version_counter_reset(self, resource_version: int) -> None:
        """Start comparing versions anew after an etcd restore."""
        self._stored_maximum = 0
        self._end_timeline()
        self._book.forget_versions(resource_version)

    def gap_opened(self, stream: PodStream, gap: Gap, *, was_anchored: bool) -> None:
        """End the epoch; what had a name is noted, because names whose object stays keep their history."""
        self._book.next_era(stream.scope)
        # Before the first epoch it is what was resumed that may go on, unless some workload lags behind its position.
        ended = self._epoch or self._ended_epoch or ("" if self._lineage.is_behind else self._resumed_epoch)
        # What a scope lost in a gap before that, under the same epoch, the events of this one do not bring back.
        is_first = stream.scope not in self._gapped
        self._gapped.add(stream.scope)
        before = self._names.of_scope(stream.scope) | ({ended} if ended else set())
        self._before_gap[stream.scope] = before if is_first else frozenset()
        if self._epoch:
            self._ended_at_s[self._epoch] = self._now_s() - max(0.0, self._clock_s() - stream.last_heard_s)
            self._ended_at_s = dict(list(self._ended_at_s.items())[-EPOCHS_MAX:])
        if gap.is_restore:
            self._end_timeline()
        else:
            self._names.begin_gap(stream.scope, self._book.sightings(stream.scope) if was_anchored else {})
        self._ended_epoch = self._epoch or self._ended_epoch
        self._epoch = self._resumed_epoch = ""
        self._lineage.end()
        self._anchored.clear()
        self.gap_count += 1
        _log.warning("pod watch gap", extra={"scope": stream.scope, "reason": gap.reason})
        self._hooks.on_gap(gap.reason)

    def _end_timeline(self) -> None:
        """Begin another timeline at once: uids may come back, so no name of any scope stays clear."""
        self._names.rewind()
        if not self._is_rewinding:
            self._timeline, self._is_rewinding = self._draw(), True
        self._saw_restore = True
        self._before_gap.clear()
        self._passed.clear()
        self._epoch = self._ended_epoch = self._resumed_epoch = ""
        self._anchored.clear()

    def gap_closed(self, scope: str, listing: Listing) -> None:
        """Compare the names with what had them before the gap."""
        self._names.end_gap(scope, self._book.sightings_of(listing.versions))

    def gap_healed(self, scope: str) -> None:
        """Take the epochs of before the gap for unbroken again."""
        self._names.heal(scope, self._before_gap.pop(scope, frozenset()))
        _log.info("pod events of the gap were found after all", extra={"scope": scope})
        if self._epoch:
            self._hooks.on_anchor(self._epoch)

    def skipped(self, stream: PodStream) -> None:
        """Note which workloads have missed what lies before the stored position; nobody else has."""
        self._lineage.skip(stream.scope)

    def anchored(self, stream: PodStream) -> None:
        """Draw a new epoch, or keep the resumed one, once every scope is complete."""
        if self._came_back:  # with a bumped counter a restore looks like any other gap
            reason, self._came_back = self._came_back, ""
            self.went_back(f"{reason} (etcd restored?)")
            return
        if not all(s.is_anchored and not s.has_reported_gap for s in self._streams.values()):
            return
        if not self._epoch:
            resumed = self._resumed_epoch
            self._epoch = self._lineage.go_on(resumed, self._draw) if resumed else self._draw()
            self._names.draw(self._ended_epoch)
        self._resumed_epoch = self._ended_epoch = ""
        self._is_rewinding = False
        self._gapped.clear()
        for scope in self._streams:
            self._epoch_of_era.setdefault((scope, self._book.era_of(scope)), self._epoch)
        self._epoch_of_era = dict(list(self._epoch_of_era.items())[-EPOCHS_MAX * len(self._streams) :])
        self._anchored.set()
        self._hooks.on_anchor(self._epoch)

    def _announce(self, change: Change) -> None:
        if change.refusal_reason:
            self._hooks.on_uncertified(change.refusal_reason)
        if change.is_visible:
            record = change.record
            self._hooks.on_change(record.namespace, record.owner_name, record.pod_name)

    # -- what others ask

    @property
    def epoch(self) -> str:
        """The continuity epoch; "" while a scope is not anchored, when nothing may be concluded."""
        return self._epoch

    @property
    def behind_workloads(self) -> Mapping[Workload, int]:
        """Workloads whose ends after this position, up to where the watch was resumed, are known to nobody."""
        return self._lineage.blind

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
        if not self._epoch:
            return frozenset()
        earlier = self._names.epochs(namespace, pod_name) if pod_name else self._names.of_scope(namespace)
        continued = self._lineage.epochs((namespace, workload or pod_name.rpartition("-")[0]))
        return earlier | {self._epoch} | (continued if workload or pod_name else frozenset())

    @property
    def timeline(self) -> str:
        """What changes whenever the API server goes back in time; uids compare only within one."""
        return self._timeline

    @property
    def ended_at_s(self) -> Mapping[str, float]:
        """When earlier epochs ended, seconds since the Unix epoch; only those that this process knows of."""
        return self._ended_at_s

    def seen_under(self, uid: str) -> str:
        """Return the epoch in which this process saw an object last; "" when it did not, or under none that is known."""
        record = self._book.records.get(uid)
        if record is None:
            return ""
        scope = record.namespace if record.namespace in self._streams else ALL_NAMESPACES
        return self._epoch_of_era.get((scope, record.seen_in), "")

    def restored(self, mark: str) -> None:
        """Take a person's word that etcd was restored: every history ends, as if the server had been seen to go back.

        Parameters
        ----------
        mark: which word it is; "" is none, and the one that is known already changes nothing.
        """
        if not mark or mark == self._restored:
            return
        self._restored = mark
        if not self._is_rewinding:
            # The same one for every replica that was told and shared the timeline before.
            self._timeline, self._is_rewinding = hashlib.sha256(f"{self._timeline} {mark}".encode()).hexdigest()[:16], True
        self.went_back(f"etcd was restored, as was said at {mark}")

    def went_back(self, reason: str) -> None:
        """End every history, because the API server was seen to go back in time, on whatever object."""
        self._end_timeline()
        for stream in self._streams.values():
            stream.report_gap(Gap(reason=reason, is_restore=True))

    async def wait_anchored(self) -> str:
        """Wait until every scope is complete and return the epoch."""
        await self._anchored.wait()
        return self._epoch

    def position(self, namespace: str) -> int:
        """Return the resourceVersion up to which this namespace is folded; 0 when it is not followed.

        Notes
        -----
        Take it before a consistent read and hand it to `barrier` as `not_below`.
        """
        stream = self._stream_of(namespace)
        return stream.position if stream else 0

    async def barrier(self, namespace: str, resource_version: int, *, not_below: int = 0) -> bool:
        """Bring the watch of a namespace up to the resourceVersion of a consistent read.

        Parameters
        ----------
        resource_version: of a consistent read of pods.
        not_below: `position(namespace)` as it was before that read; a read below it is an etcd restore and a gap.

        Returns
        -------
        True when every pod event up to `resource_version` has been folded without a gap; False: observe again,
        never proceed.
        """
        stream = self._stream_of(namespace)
        epoch = self._epoch
        if stream is None or not epoch or not stream.is_anchored:
            return False
        if resource_version < not_below:
            self.went_back(
                f"a consistent read of pods answered resourceVersion {resource_version}, below {not_below} seen before "
                "(etcd restored?)"
            )
            return False
        passed = await stream.reach(resource_version, self._settings.barrier_patience_s)
        passed = passed or await stream.catch_up(resource_version)
        return passed and self._epoch == epoch

    def _stream_of(self, namespace: str) -> PodStream | None:
        return self._streams.get(namespace) or self._streams.get(ALL_NAMESPACES)

    def chain(
        self, namespace: str, *, pod_names: Iterable[str] = (), instance_ids: Iterable[str] = ()
    ) -> tuple[Incarnation, ...]:
        """Return every known incarnation with one of the pod names or one of the ids, oldest version first."""
        return self._book.chain(namespace, pod_names, instance_ids)

    def carriers(self, instance_ids: Iterable[str]) -> tuple[Incarnation, ...]:
        """Return every known incarnation of any namespace that ever carried one of the ids, oldest version first."""
        return self._book.carriers(instance_ids)

    def strays(self, namespace: str, workload_name: str, instance_ids: Iterable[str]) -> tuple[Incarnation, ...]:
        """Return every incarnation of another name than a StatefulSet gives that ever carried one of the ids."""
        return self._book.strays(namespace, workload_name, instance_ids)

    def of_workload(self, namespace: str, workload_name: str) -> tuple[Incarnation, ...]:
        """Return every known incarnation named after a StatefulSet, present or gone, oldest version first."""
        found = (r.incarnation() for r in self._book.records.of_workload(namespace, workload_name))
        return tuple(sorted(found, key=lambda i: (i.resource_version, i.uid)))

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
        """Return up to where every object of a namespace is known; 0 while its LIST is not complete."""
        stream = self._stream_of(namespace)
        return stream.position if stream is not None and stream.is_anchored else 0

    def hear(self, words: Iterable[Word]) -> None:
        """Take all words that people have given about lost pods, in place of those of before."""
        for change in self._book.hear(words):
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
        return self._book.mark_durable(written)

    def is_durable(self, uid: str) -> bool:
        """True unless the incarnation's end was not written to a status yet."""
        return self._book.is_durable(uid)

    def continuity(self) -> Continuity | None:
        """Return what may be stored durably now; None while the watch is not continuous."""
        if not self._epoch:
            return None
        positions: dict[str, int] = {}
        behind: dict[Workload, int] = {}
        room = max(1, BEHIND_MAX // len(self._streams))
        for scope, stream in self._streams.items():
            position, late = self._book.stored_position(scope, stream.position, room=room)
            # What the position has passed once stays passed, also when a StaticGroup is made that would have held it.
            positions[scope] = self._passed[scope] = max(position, self._passed.get(scope, 0))
            behind |= late
        return Continuity(
            epoch=self._epoch,
            resource_versions=positions,
            behind=behind,
            since=dict(self._lineage.since),
            timeline=self._timeline,
            at_s=round(min(self._now_s() - max(0.0, self.age_s()), self._book.oldest_unwritten_s() or math.inf), 1),
            restored=self._restored,
        )

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
        if stored.timeline != self._timeline and not self._take_timeline(stored.timeline):
            return False
        positions = self._resume_positions(stored)
        if self._epoch == stored.epoch:
            for scope, position in positions.items():
                self._book.take_durable(scope, position or 0, stored.behind)
            return True
        overlaps = all((positions[scope] or 0) >= s.anchored_at for scope, s in self._streams.items())
        if self._epoch and overlaps:
            begun = {scope: stream.anchored_at for scope, stream in self._streams.items()}
            if adopted := self._lineage.adopt(stored, begun, self._draw):
                # Our own watch was complete meanwhile: a gap of the other one, which began its epoch, says nothing against it.
                self._names.keep_all(self._epoch)
                self._epoch = adopted
        return self._epoch == stored.epoch or stored.epoch in self._lineage.since

    def _take_timeline(self, timeline: str) -> bool:
        """Go on under the timeline of the last holder, unless the two have not seen the same restores.

        Notes
        -----
        A timeline of our own was drawn when no Lease was there to read: the holder began to write after we had begun
        to watch, and we have seen no restore since. Otherwise the other one has seen a restore that we have not.
        """
        if self._saw_restore or not timeline:
            return False
        if self._is_timeline_stored:
            self.went_back("the last holder saw the API server go back in time")
            return False
        self._timeline, self._is_timeline_stored = timeline, True
        return True

    @property
    def saw_restore(self) -> bool:
        """True when this process saw, or was told, that the API server went back in time."""
        return self._saw_restore or self._begins_after_restore

    def age_s(self) -> float:
        """Return the seconds since the quietest stream last heard anything (an event, a bookmark, a LIST page)."""
        return self._clock_s() - min(stream.last_heard_s for stream in self._streams.values())

    @property
    def problems(self) -> tuple[KubeProblem, ...]:
        """What keeps streams from following now; empty when all is well."""
        return tuple(s.problem for s in self._streams.values() if s.problem is not None)
