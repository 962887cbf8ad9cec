"""Follow pods in one stream per scope, and fold what the streams tell into incarnations and epochs.

What a stream tells comes here before its position moves (`watch.sink.PodSink`). Whatever breaks the promise of the *continuity epoch*,
while which no pod can have come and gone unseen, draws a new one.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from ...core.evidence.pod import PodVersion
from ..translate import MalformedObject, pod_version
from ..transport import Transport
from .book import Change, IncarnationBook
from .continuity import Continuity
from .contradictions import comes_back, contradiction
from .epochs import Epochs
from .handover import ALL_NAMESPACES, Handover
from .hooks import PodStoreHooks, PodStoreSettings
from .watch.sink import FollowedScope, Gap, Listing
from .watch.stream import PodStream

_log = logging.getLogger(__name__)


class PodFollower:
    """Follow the pods of all namespaces or of some.

    Parameters
    ----------
    scopes: namespaces to follow, one stream each; `("",)` for all in one stream.
    gone: namespaces to follow that there were not when the process began; see `PodStore.unfollowed`.
    rng: draws epochs and spreads retries; must differ between processes.
    now_s: seconds since the Unix epoch.
    clock_s: monotonic seconds.
    """

    def __init__(
        self, transport: Transport, hooks: PodStoreHooks, *, rng: Random, now_s: Callable[[], float],
        clock_s: Callable[[], float], scopes: Sequence[str] = (ALL_NAMESPACES,), gone: Sequence[str] = (),
        settings: PodStoreSettings | None = None, sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        self._settings = settings or PodStoreSettings()
        self._hooks = hooks
        self._transport = transport
        self._gone = tuple(gone)
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
        self._epochs = Epochs(scopes, hooks.is_managed, rng)
        self._handover = Handover(self._streams, self._book, self._epochs, now_s=now_s)
        self._now_s = now_s
        self._stored_maximum = 0
        self._came_back = ""
        self._since_s: dict[str, float] = {}
        self._anchored = asyncio.Event()
        self.gap_count = 0

    async def run(self, resume: Continuity | None, *, restored: str = "") -> None:
        """Follow all scopes until cancelled.

        Parameters
        ----------
        restored: the word about a restored etcd that is known at the beginning, see `restored`.
        resume: what the last process stored, see `continuity`; None begins a new epoch. `merge` the durable ledger
            before: the replay shows what changed after the stored position, the ledger what ended before it.
        """
        positions = self._handover.positions(resume)
        self._book.is_resumed = self._epochs.begin(resume, restored=restored, covers=None not in positions.values())
        if resume is not None and not self._book.is_resumed:
            self.gap_count += 1
            self._hooks.on_gap("the pod watch covers namespaces that the stored position does not")
            positions = dict.fromkeys(self._streams)
        floors = {scope: position and self._epochs.lineage.floor(scope, position) for scope, position in positions.items()}
        if resume is not None:
            # An earlier release stores no read; its position was the present one no later than at `at_s`.
            latest, at_s = resume.read if resume.read.resource_version else (max(resume.resource_versions.values(), default=0), resume.at_s)
            for stream in self._streams.values():
                stream.knew(latest, age_s=max(0.0, self._now_s() - at_s))
        try:
            async with asyncio.TaskGroup() as tasks:
                for scope, stream in self._streams.items():
                    tasks.create_task(stream.run(floors[scope], stored=positions[scope] or 0))
                tasks.create_task(self._relist_periodically())
        finally:
            await asyncio.gather(*(s.close() for s in self._streams.values()), return_exceptions=True)

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

    def knows(self, uid: str) -> bool:
        """True for a pod that is in the book, whatever it looks like now."""
        return self._book.records.get(uid) is not None

    def is_unseen(self, uid: str) -> bool:
        """True for a pod of the book that only a ledger names."""
        record = self._book.records.get(uid)
        return record is not None and record.seen_in < 0

    def take_event(self, stream: FollowedScope, version: PodVersion, *, is_deleted: bool) -> None:
        """Fold a version that a watch delivered."""
        # An event from before the position was looked up afterwards, and says what was so then.
        is_news = not is_deleted and version.resource_version > stream.position
        if is_news and (back := comes_back(self._book.records, version)):
            self.went_back(f"{back} (etcd restored?)")
        self._announce(self._book.take(version, is_deleted=is_deleted, in_order=True))
        if is_deleted:
            self._book.purge()

    def take_listed(self, version: PodVersion, *, is_restore: bool) -> None:
        """Fold a version that a LIST showed."""
        if is_restore:
            self._announce(self._book.take_after_restore(version))
        else:
            self._came_back = self._came_back or comes_back(self._book.records, version)
            self._announce(self._book.take(version, is_deleted=False, in_order=False))

    def take_absent(self, scope: str, listing: Listing) -> None:
        """Record as vanished what a complete LIST does not show."""
        for change in self._book.take_absent(scope, listing.versions, listing.resource_version):
            self._announce(change)

    def contradiction(self, scope: str, listing: Listing) -> str:
        """Compare a complete LIST with the book; "" when they agree."""
        return contradiction(self._book.records, scope, listing.versions, listing.resource_version)

    def stored_maximum(self) -> int:
        """Return the highest resourceVersion in the durable ledger, 0 when it is empty or void."""
        return self._stored_maximum

    def timeline_ended(self, stream: FollowedScope, reason: str) -> None:
        """Start comparing versions again after an etcd restore."""
        self._stored_maximum = 0
        if self._end_timeline():
            self._report_restore(reason, but=stream)
            self._tell_gap(stream, reason)
        self._book.forget_versions(0, stream.scope)  # others have listed since, or will yet begin anew

    def gap_opened(self, stream: FollowedScope, gap: Gap, *, was_anchored: bool) -> None:
        """End the epoch; what had a name is noted, because names whose object stays keep their history."""
        self._book.next_era(stream.scope)
        is_seen_first = gap.is_restore and not self._epochs.is_rewinding
        if gap.is_restore:
            self._handover.begin_timeline()
        self._epochs.begin_gap(
            stream.scope, is_restore=gap.is_restore,
            present=self._book.sightings(stream.scope) if was_anchored and not gap.is_restore else {},
            at_s=self._now_s() - max(0.0, self._clock_s() - stream.last_heard_s),
        )
        self._anchored.clear()
        if is_seen_first:
            self._report_restore(gap.reason, but=stream)
        self._tell_gap(stream, gap.reason)

    def _tell_gap(self, stream: FollowedScope, reason: str) -> None:
        self.gap_count += 1
        _log.warning("pod watch gap", extra={"scope": stream.scope, "reason": reason})
        self._hooks.on_gap(reason)

    def _end_timeline(self) -> bool:
        """End the timeline; False when it had ended since the last epoch, so that every scope has been told."""
        is_news = not self._epochs.is_rewinding
        self._epochs.end_timeline()
        self._handover.begin_timeline()
        self._anchored.clear()
        return is_news

    def _report_restore(self, reason: str, *, but: FollowedScope | None = None) -> None:
        """Let every scope begin anew, also where its own stream has not seen the restore yet."""
        for stream in self._streams.values():
            if stream is not but:
                stream.report_gap(Gap(reason=reason, is_restore=True))

    def gap_closed(self, scope: str, listing: Listing) -> None:
        """Compare the names with what had them before the gap."""
        self._epochs.end_gap(scope, self._book.sightings_of(listing.versions))

    def gap_healed(self, scope: str) -> None:
        """Take the epochs of before the gap for unbroken again."""
        self._epochs.heal(scope)
        _log.info("pod events of the gap were found after all", extra={"scope": scope})
        if self.epoch:
            self._hooks.on_anchor(self.epoch)

    def skipped(self, stream: FollowedScope) -> None:
        """Note which workloads have missed what lies before the stored position; nobody else has."""
        self._epochs.lineage.skip(stream.scope)

    def anchored(self, stream: FollowedScope) -> None:
        """Draw a new epoch, or keep the resumed one, once every scope is complete."""
        if self._came_back:  # with a bumped counter a restore looks like any other gap
            reason, self._came_back = self._came_back, ""
            self.went_back(f"{reason} (etcd restored?)")
            return
        if not all(s.is_anchored and not s.has_reported_gap for s in self._streams.values()):
            return
        self._epochs.draw({scope: self._book.era_of(scope) for scope in self._streams})
        self._since_s.setdefault(self.epoch, self._now_s())
        self._anchored.set()
        self._hooks.on_anchor(self.epoch)

    def went_back(self, reason: str) -> None:
        """End every history, because the API server was seen to go back in time, on whatever object."""
        self._end_timeline()
        self._report_restore(reason)

    def _announce(self, change: Change) -> None:
        if change.refusal_reason:
            self._hooks.on_uncertified(change.refusal_reason)
        record = change.record
        if change.is_visible:
            self._hooks.on_change(record.namespace, record.owner_name, record.pod_name)
        if change.is_end:
            self._hooks.on_end(record.namespace, record.owner_name, record.pod_name)

    @property
    def epoch(self) -> str:
        """The continuity epoch; "" while a scope is not anchored, when nothing may be concluded."""
        return self._epochs.epoch
