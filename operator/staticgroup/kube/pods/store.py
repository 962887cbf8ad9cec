"""Know every pod that can hold an instance id, and know whether that knowledge is whole.

The store follows all pods that have a name as StatefulSets give them, in one stream per scope, and folds what it sees.
Its one promise is the *name of the watch*: while the name stays, no pod of the scope can have come and gone unseen;
"" means that nothing may be concluded now. The barrier extends the promise to a given moment: once it has passed
resourceVersion r, every pod event up to r has been folded.

Sources: Kubernetes API concepts (resource versions, 410, bookmarks), KEP-3157/KEP-2340 (consistent reads),
KEP-5504 (resourceVersions of one type are comparable).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from ...core.evidence.chain import KnownPod
from ...core.evidence.pod import PodVersion
from ..translate import MalformedObject, pod_version
from ..transport import Transport
from .book import Change, IsManaged, NodeOf, PodBook
from .position import ScopePosition, WatchPosition
from .watch.messages import Gap, PodListing, restored
from .watch.stream import PodStream

_log = logging.getLogger(__name__)
ALL_NAMESPACES: Final = ""
REPLAYED_S: Final = 20.0
"""A later process resumes from the position of so long ago, because no status may show yet what happened since.

API servers keep events for at least 75 s (`eventFreshDuration` of their watch cache), so 55 s remain for a restart.
"""
SAMPLES_APART_S: Final = 5.0
SAMPLES_MAX: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStoreHooks:
    """The functions that the store calls; all are synchronous and must not block.

    Parameters
    ----------
    node_of: facts of a node by name.
    is_managed: (namespace, workload name) belongs to a StaticGroup.
    on_change: a pod has changed in a way that decisions can see.
    on_end: likewise, afterwards: a pod or a container of it has ended, or may have.
    on_gap: a watch is not whole any more, with the reason.
    on_anchor: the watch of a scope is whole, with its name.
    on_uncertified: a StaticGroup's pod vanished without a certificate, with the reason why there is none.
    on_version: one version of a pod as a watch or a LIST showed it, before it is folded.
    """

    node_of: NodeOf
    is_managed: IsManaged
    on_change: Callable[[KnownPod], None]
    on_gap: Callable[[str], None]
    on_end: Callable[[KnownPod], None] = field(default=lambda pod: None)
    on_anchor: Callable[[str], None] = field(default=lambda watch: None)
    on_uncertified: Callable[[str], None] = field(default=lambda reason: None)
    on_version: Callable[[PodVersion], None] = field(default=lambda version: None)


class PodStore:
    """Follow the pods of all namespaces or of some.

    Parameters
    ----------
    scopes: namespaces to follow, one stream each; `("",)` for all in one stream.
    rng: draws names and spreads retries; must differ between processes.
    now_s: seconds since the Unix epoch.
    clock_s: monotonic seconds.
    barrier_patience_s: how long a barrier waits for the main stream before it replays. Short, because the main stream
        may still win meanwhile: barriers after which no pod changed took 1.0-1.2 s without patience and 1.1-2.4 s with
        0.7 s (measured on 1.36.3).
    relist_interval_s: between two comparisons with a complete LIST.
    """

    def __init__(
        self, transport: Transport, hooks: PodStoreHooks, *, rng: Random, now_s: Callable[[], float],
        clock_s: Callable[[], float], scopes: Sequence[str] = (ALL_NAMESPACES,), barrier_patience_s: float = 0.1,
        relist_interval_s: float = 600.0, sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        self._barrier_patience_s = barrier_patience_s
        self._relist_interval_s = relist_interval_s
        self._hooks = hooks
        self._clock_s = clock_s
        self._sleep = sleep
        self._book = PodBook(node_of=hooks.node_of, now_s=now_s, is_managed=hooks.is_managed)
        self._streams = {
            scope: PodStream(transport, self, scope=scope, rng=rng, now_s=now_s, clock_s=clock_s, sleep=sleep)
            for scope in scopes
        }
        # What is known of pods, the book answers.
        known = self._book.index
        self.get, self.chain, self.of_workload, self.ids = known.get, known.chain, known.of_workload, known.ids
        self.carriers, self.strays, self.strays_anywhere = known.carriers, known.strays, known.strays_anywhere
        self.doubtful = self._book.doubtful
        self._samples: deque[tuple[float, WatchPosition]] = deque()
        self._is_known = asyncio.Event()
        self.gap_count = 0

    async def run(self, resume: WatchPosition | None) -> None:
        """Follow all scopes until cancelled.

        Parameters
        ----------
        resume: what the last process stored, see `lease_position`; None begins new watches.
        """
        found = {scope: resume.of(scope) if resume is not None else None for scope in self._streams}
        self._book.is_resumed = all(found.values())
        if resume is not None and self._book.is_resumed:
            self._samples.append((float("-inf"), WatchPosition({s: p for s, p in found.items() if p is not None})))
        try:
            async with asyncio.TaskGroup() as tasks:
                for scope, stream in self._streams.items():
                    tasks.create_task(stream.run(found[scope]))
                tasks.create_task(self._relist_periodically())
        finally:
            await asyncio.gather(*(s.close() for s in self._streams.values()), return_exceptions=True)

    async def _relist_periodically(self) -> None:
        while True:
            await self._sleep(self._relist_interval_s)
            await self.relist()

    async def relist(self) -> None:
        """Compare every scope with a complete LIST now; a contradiction is a gap."""
        for stream in self._streams.values():
            await stream.relist()

    # -- what a stream calls

    def translate(self, raw: object) -> PodVersion | MalformedObject:
        """Translate a raw pod; a pod that cannot be read is logged by the field that is wrong, never by its content."""
        version = pod_version(raw)
        if isinstance(version, MalformedObject):
            _log.error("pod object cannot be read", extra={"field": version.field, "found": version.found})
        else:
            self._hooks.on_version(version)
        return version

    def knows(self, uid: str) -> bool:
        """Return True for a pod that is in the book."""
        return self._book.index.get(uid) is not None

    def take_event(self, version: PodVersion, *, is_deleted: bool) -> None:
        """Fold a version that a watch delivered."""
        self._announce(self._book.take(version, is_deleted=is_deleted, in_order=True))
        if is_deleted:
            self._book.purge()

    def take_listed(self, version: PodVersion, *, listed_at: int) -> None:
        """Fold a version that a consistent LIST of a resourceVersion showed."""
        self._announce(self._book.take(version, is_deleted=False, in_order=False, listed_at=listed_at))

    def take_absent(self, scope: str, listing: PodListing) -> None:
        """Record as vanished what a complete LIST does not show."""
        for change in self._book.take_absent(scope, listing.versions, listing.resource_version):
            self._announce(change)

    def contradiction(self, scope: str, listing: PodListing) -> str:
        """Compare a complete LIST with the book; "" when they agree."""
        return self._book.contradiction(scope, listing.versions, listing.resource_version)

    def gap_opened(self, scope: str, gap: Gap) -> None:
        """Forget the order of versions after a restore, and the stored positions of a scope after any gap."""
        if gap.is_restore:
            self._book.forget_versions(scope)
        self._book.is_resumed = False
        self._book.watch_no += 1
        self.gap_count += 1
        kept = ((at_s, {s: p for s, p in sample.scopes.items() if s != scope}) for at_s, sample in self._samples)
        self._samples = deque((at_s, WatchPosition(scopes)) for at_s, scopes in kept if scopes)
        _log.warning("pod watch gap", extra={"scope": scope, "reason": gap.reason})
        self._hooks.on_gap(gap.reason)

    def anchored(self, scope: str) -> None:
        """Note that a scope is whole from now on."""
        self.troubled(scope)
        self._hooks.on_anchor(self._streams[scope].watch)

    def troubled(self, scope: str) -> None:
        """Note that a scope is known to be followed, or not to be."""
        if all(s.is_anchored or s.problem is not None for s in self._streams.values()):
            self._is_known.set()

    def begin_anew(self, reason: str, *, is_restore: bool = True) -> None:
        """Begin new watches: the API server went back in time, or nobody knows what the last watch showed."""
        for stream in self._streams.values():
            stream.report_gap(Gap(reason=reason, is_restore=is_restore))

    def _announce(self, change: Change) -> None:
        if change.refusal_reason:
            self._hooks.on_uncertified(change.refusal_reason)
        pod = change.pod
        if change.is_back:
            why = f"pod {pod.namespace}/{pod.pod_name} (uid {pod.uid}) is back (etcd restored?)"
            self.begin_anew(why, is_restore=False)
        if change.is_visible:
            self._hooks.on_change(pod)
        if change.is_end:
            self._hooks.on_end(pod)

    # -- what decisions ask

    async def wait_anchored(self) -> None:
        """Wait until each scope is whole, or known not to be followed now."""
        await self._is_known.wait()

    def watch(self, namespace: str) -> str:
        """Return the name of the watch of a namespace; "" while it is not whole."""
        stream = self._stream_of(namespace)
        if stream is None or not stream.is_anchored or stream.has_reported_gap:
            return ""
        return stream.watch

    def names(self) -> str:
        """Return the names of all watches as one text; "" while one of them is not whole."""
        streams = self._streams.values()
        return ",".join(s.watch for s in streams) if all(s.is_anchored for s in streams) else ""

    @property
    def is_whole(self) -> bool:
        """True while every scope that can be followed is whole."""
        return all(s.is_anchored for s in self._streams.values() if s.problem is None) and self._is_known.is_set()

    @property
    def ends(self) -> int:
        """Count the certificates that the watch has brought in this process."""
        return self._book.ends

    @property
    def watch_no(self) -> int:
        """Count how often a watch began in this process, see `PodBook`."""
        return self._book.watch_no

    @property
    def suspect_count(self) -> int:
        """Count how often a pod became a suspect, or a run of one was lost, in this process."""
        return self._book.suspect_count

    def position(self, namespace: str) -> int:
        """Return the resourceVersion up to which this namespace is folded; 0 when it is not followed.

        Take it before a consistent read and hand it to `barrier` as `not_below`.
        """
        stream = self._stream_of(namespace)
        return stream.position if stream else 0

    async def reach_present(self, namespace: str) -> bool:
        """Bring the watch up to a consistent read that begins now; False: ask again, never proceed."""
        stream = self._stream_of(namespace)
        if stream is None or not stream.is_anchored:
            return False
        position = stream.position
        current = await stream.current_resource_version()
        return current is not None and await self.barrier(namespace, current, not_below=position)

    async def barrier(self, namespace: str, resource_version: int, *, not_below: int = 0) -> bool:
        """Bring the watch up to the resourceVersion of a consistent read of a namespace.

        Parameters
        ----------
        resource_version: of a consistent read of pods.
        not_below: `position(namespace)` as it was before that read; a read below it is an etcd restore.

        Returns
        -------
        True when every pod event up to `resource_version` has been folded without a gap; False: observe again,
        never proceed.

        Notes
        -----
        It covers every namespace that may be followed, because a copy of a pod may hold its id in any of them.
        resourceVersions of pods compare over namespaces (KEP-5504). One that may not be followed delays no other.
        """
        stream = self._stream_of(namespace)
        name = self.watch(namespace)
        if stream is None or not name:
            return False
        if resource_version < not_below:
            self.begin_anew(restored(resource_version, not_below))
            return False
        followed = [s for s in self._streams.values() if s is stream or not s.is_refused]
        passed = await asyncio.gather(*(self._reaches(s, resource_version) for s in followed))
        has_passed = all(p for s, p in zip(followed, passed, strict=True) if s is stream or not s.is_refused)
        return has_passed and self.watch(namespace) == name

    async def _reaches(self, stream: PodStream, resource_version: int) -> bool:
        """Wait a moment for the main stream, then replay."""
        reached = await stream.reach(resource_version, self._barrier_patience_s)
        return reached or await stream.catch_up(resource_version)

    def _stream_of(self, namespace: str) -> PodStream | None:
        return self._streams.get(namespace) or self._streams.get(ALL_NAMESPACES)

    def __len__(self) -> int:
        return len(self._book.index)

    # -- what the Lease keeps

    def lease_position(self, unstored_since_s: float | None) -> WatchPosition | None:
        """Return the position of `REPLAYED_S` ago, for a later process to resume from, of scopes whose watch is whole.

        Parameters
        ----------
        unstored_since_s: start of the oldest round after which changes are in no status yet, monotonic seconds; None
            when all are. The position stays before it, so that the next process sees them again.

        Returns
        -------
        None before anything is known, which keeps what is stored.
        """
        now_s = self._clock_s()
        anchored = [(scope, s) for scope, s in self._streams.items() if s.is_anchored and not s.has_reported_gap]
        whole = {scope: ScopePosition(s.position, s.watch) for scope, s in anchored}
        if whole and (not self._samples or now_s - self._samples[-1][0] >= SAMPLES_APART_S):
            self._samples.append((now_s if self._samples else float("-inf"), WatchPosition(whole)))
            if len(self._samples) > SAMPLES_MAX:
                del self._samples[-2]
        limit_s = now_s - REPLAYED_S if unstored_since_s is None else min(now_s, unstored_since_s) - REPLAYED_S
        while len(self._samples) > 1 and self._samples[1][0] <= limit_s:
            self._samples.popleft()
        if not self._samples:
            return WatchPosition({}) if self.gap_count else None
        kept = self._samples[0][1].scopes.items()
        return WatchPosition({s: p for s, p in kept if not self._streams[s].has_reported_gap})

    def adopt(self, stored: WatchPosition) -> None:
        """Take the names that the last holder of the Lease stored, where our watch was whole before its position."""
        adopted: dict[str, ScopePosition] = {}
        for scope, stream in self._streams.items():
            position = stored.of(scope)
            if position is None or not stream.is_anchored:
                continue
            if stream.watch == position.watch or stream.anchored_at <= position.resource_version:
                stream.watch = position.watch
                adopted[scope] = position
        self._samples = deque([(float("-inf"), WatchPosition(adopted))] if adopted else ())

    def age_s(self) -> float:
        """Return for how long the quietest stream that may follow its scope has received nothing, in seconds."""
        now_s = self._clock_s()
        return now_s - min((s.received_s for s in self._streams.values() if not s.is_refused), default=now_s)
