"""Follow the pods of one scope without losing an event, or say that one may be lost.

All pods are watched, without a label selector, and those that cannot sit on a seat are dropped on arrival (`seat_filter`).

One scope is one namespace or all of them; it has one position: every event up to that resourceVersion has been
folded. A watch resumed from the position is continuous, however often and for whatever reason the connection broke.
Only four things end continuity (a *gap*): the API server no longer has the events (410; beside going on with a LIST,
others are asked for them, see `look_back`), it sends an ERROR or an
unreadable pod, its resourceVersions go backwards or leap ahead (a restored etcd), or a complete LIST contradicts what was folded.

Why start-up may LIST and replay at the same time
-------------------------------------------------
Resuming from a stored position p: (1) every pod that existed at p and has changed since is in the replay with its
whole object, deletions included, because the server either replays everything after p or answers 410; (2) every pod
that has not changed since p still exists, so the LIST at r shows it. Together they are complete. They cannot undo
each other: a deletion has a higher resourceVersion than any version of the same uid, so when the replay has folded a
DELETED at d, the LIST's version v < d of that uid is older and only absorbed; when the LIST is folded first, the
DELETED at d > v is newer and vanishes it. A pod that the LIST does not show is called vanished only after the stream
has passed r, so its true end, if it lies in the replay, was folded first.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any, Final

from ....core.evidence.pod import PodVersion
from ...outage import RETRY_MAX_S, Backoff
from ...pages import PAGE_LIMIT, PageLimit, pages
from ...problem import KubeProblem
from ...translate import MalformedObject
from ...transport import CONNECTION_ERRORS, PODS, Json, Transport, is_gone
from .look_back import lost_events
from .position import Position
from .replay import Replay
from .seat_filter import may_hold_a_seat, uid_in
from .sink import Gap, Listing, PodSink

SERVER_TIMEOUT_S: Final = 300
STALL_TIMEOUT_S: Final = 75.0
"""The API server sends a bookmark about every 60 s and its watch cache keeps events for 75 s."""


class PodStream:
    """LIST and WATCH one scope.

    Parameters
    ----------
    scope: a namespace; "" for all.
    clock_s: monotonic seconds.
    rng: spreads retries. sleep: waits between them.

    Notes
    -----
    While `is_anchored`, every event after `anchored_at` has been or will be folded without a gap.
    """

    def __init__(
        self, transport: Transport, sink: PodSink, *, scope: str, rng: Random, clock_s: Callable[[], float],
        sleep: Callable[[float], Any] = asyncio.sleep, chunk_size: int = PAGE_LIMIT,
        stall_timeout_s: float = STALL_TIMEOUT_S, reconnect_delay_s: float = 0.2,
    ) -> None:
        self.scope = scope
        self.is_anchored = False
        self.anchored_at = 0
        self.problem: KubeProblem | None = None
        self._transport = transport
        self._sink = sink
        self._clock_s = clock_s
        self._sleep = sleep
        self._page_limit = PageLimit(chunk_size)
        self._stall_timeout_s = stall_timeout_s
        self._backoff = Backoff(rng, first_s=reconnect_delay_s)
        self._stored = 0
        self._reported_gap: Gap | None = None
        self._gap_reported = asyncio.Event()
        self._gap_count = 0
        self._opened_s: float | None = None
        self._position = Position(clock_s)
        self._replay = Replay(transport, scope, self._position, self._take_event)
        self._look_back_task: asyncio.Task[None] | None = None

    # -- position

    @property
    def position(self) -> int:
        """The resourceVersion up to which every event has been folded; 0 before the first LIST."""
        return self._position.reached

    @property
    def last_heard_s(self) -> float:
        """When the API server said anything last, monotonic seconds."""
        return self._position.last_heard_s

    async def reach(self, resource_version: int, timeout_s: float) -> bool:
        """Wait until every event up to a resourceVersion has been folded; False when time ran out."""
        return await self._position.reach(resource_version, timeout_s)

    async def catch_up(self, resource_version: int) -> bool:
        """Bring the position up to a resourceVersion by a replay; see `Replay.catch_up`."""
        return await self._replay.catch_up(resource_version)

    def report_gap(self, gap: Gap) -> None:
        """End continuity from outside: a consistent read shows a restore, or a LIST contradicts."""
        if self._reported_gap is None or gap.is_restore:
            self._reported_gap = gap
            self._gap_reported.set()

    @property
    def has_reported_gap(self) -> bool:
        """True while a gap was reported that the stream has not begun to recover from."""
        return self._reported_gap is not None

    def knew(self, resource_version: int, *, age_s: float) -> None:
        """Take what an earlier process knew to be the present resourceVersion so many seconds ago, before `run`."""
        self._position.read(resource_version, age_s=age_s)

    @property
    def latest_read(self) -> tuple[int, float]:
        """The highest resourceVersion that a consistent read has answered, and how many seconds ago; 0 when none is known."""
        return self._position.latest, self._position.latest_age_s

    def restore_shown(self, current: int, known: int) -> Gap | None:
        """Compare a consistent read with what was known before; None when etcd was not restored as far as it shows."""
        if current < known:
            return Gap.restored(current, known)
        if self._position.is_out_of_reach(current):
            return Gap.raised(current, self._position.latest)
        self._position.read(current)
        return None

    # -- the main loop

    async def run(self, resume_from: int | None, *, stored: int = 0) -> None:
        """Follow the scope until cancelled.

        Parameters
        ----------
        resume_from: a durably stored position; None to begin with a LIST.
        stored: a later one to go on from when the history after `resume_from` is gone; 0: there is none.
        """
        if resume_from is None:
            await self._anchor()
            await self._follow()
            return
        self._position.reached, self._stored = resume_from, stored
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._complete_resume(max(resume_from, stored)))

    async def _complete_resume(self, resume_from: int) -> None:
        """LIST what the replay cannot show, and anchor once the stream has passed that LIST."""
        # Asked before the LIST: what another replica writes during it may well be newer.
        known = max(resume_from, self._sink.stored_maximum())
        listing = await self._list(fold=True, is_restore=False)
        while not isinstance(listing, Listing):
            await self._sleep(1.0)
            listing = await self._list(fold=True, is_restore=False)
        if (restore := self.restore_shown(listing.resource_version, known)) is not None:
            self.report_gap(restore)
            return
        while self._gap_count == 0 and not await self.catch_up(listing.resource_version):
            await self._sleep(0.2)
        self._take_up(listing)
        # After a gap the stream anchors itself with a LIST of its own.
        if self._gap_count == 0 and self._reported_gap is None:
            self._sink.take_absent(self.scope, listing)
            self._set_anchored()

    async def _follow(self) -> None:
        is_first = True
        while True:
            self._opened_s = None
            gap = await self._watch_until_gap(check_restore=not is_first)
            is_first = False
            # One that ends at once is no success: whatever ended it, all pods listed anew each time, would come again without a pause.
            if self._opened_s is not None and self._clock_s() - self._opened_s >= RETRY_MAX_S:
                self._backoff.reset()
            if gap is not None and not self._skips(gap):
                await self._recover(gap)
            await self._sleep(self._backoff.next_s())

    def _skips(self, gap: Gap) -> bool:
        """Go on from the stored position when only the history before it is gone; False when that is no way out."""
        stored, self._stored = self._stored, 0
        if not gap.is_expired or self.position >= stored:
            return False
        self._position.advance(stored)
        self._sink.skipped(self)
        return True

    async def _recover(self, gap: Gap) -> None:
        """Give up continuity and anchor again."""
        self._gap_count += 1
        was_anchored, self.is_anchored = self.is_anchored, False
        if self._reported_gap is not None and self._reported_gap.is_restore:
            gap = self._reported_gap  # told while another gap began
        self._reported_gap = None
        self._gap_reported.clear()
        await self.close()
        self._sink.gap_opened(self, gap, was_anchored=was_anchored)
        since = self.position
        is_restored = await self._anchor(gap if gap.is_restore else None)
        if gap.is_expired and not is_restored and self.position >= since > 0:
            self._look_back_task = asyncio.create_task(self._look_back(since, self.position))

    async def _look_back(self, since: int, until: int) -> None:
        """Fold the events of a gap if another API server still has them; the next gap ends the search."""
        events = await lost_events(
            self._transport, scope=self.scope, since=since, until=until, clock_s=self._clock_s, sleep=self._sleep
        )
        versions: list[tuple[PodVersion, bool]] = []
        met: set[str] = set()
        for event in events or ():
            if not self._is_followed(event.get("object")) and uid_in(event.get("object")) not in met:
                continue
            version = self._sink.translate(event["object"])
            if isinstance(version, MalformedObject):
                return
            met.add(version.uid)
            versions.append((version, event["type"] == "DELETED"))
        if events is None or not self.is_anchored or self._reported_gap is not None:
            return
        for version, is_deleted in versions:
            self._sink.take_event(self, version, is_deleted=is_deleted)
        self._sink.gap_healed(self.scope)

    async def _watch_until_gap(self, *, check_restore: bool) -> Gap | None:
        """Run one watch; None when it may simply be resumed."""
        watching = asyncio.ensure_future(self._watch_once(check_restore=check_restore))
        reported = asyncio.ensure_future(self._gap_reported.wait())
        try:
            await asyncio.wait({watching, reported}, return_when=asyncio.FIRST_COMPLETED)
            if self._reported_gap is not None:
                return self._reported_gap
            return watching.result()
        except CONNECTION_ERRORS:
            return None
        finally:
            watching.cancel()
            reported.cancel()
            await asyncio.gather(watching, reported, return_exceptions=True)

    async def _watch_once(self, *, check_restore: bool) -> Gap | None:
        # An etcd restore breaks every connection, so a reconnect is the moment to look for one: a watch from a
        # position that lies in the server's future is accepted and stays silent.
        if check_restore:
            known = self.position  # a replay may bring it beyond the read meanwhile
            current = await self.current_resource_version()
            if current is None:
                return None
            if (restore := self.restore_shown(current, known)) is not None:
                return restore
        position = self.position
        query = {"resourceVersion": str(position), "timeoutSeconds": str(SERVER_TIMEOUT_S)}
        async with self._transport.watch(PODS, namespace=self.scope, query=query) as stream:
            if isinstance(stream, KubeProblem):
                self.problem = stream
                return Gap.expired(position) if is_gone(stream) else None
            self.problem = None
            self._opened_s = self._clock_s()
            while (event := await stream.next_event(self._stall_timeout_s)) is not None:
                gap = self._take_event(event)
                if gap is not None:
                    return gap
        return None

    def _take_event(self, event: Json) -> Gap | None:
        """Fold one event and move the position; a Gap when the event cannot be believed."""
        kind, raw = event.get("type"), event.get("object")
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK") or not isinstance(raw, dict):
            code = raw.get("code") if isinstance(raw, dict) else None
            if code == 410:
                return Gap.expired(self.position)
            return Gap(reason=f"the pod watch sent an {kind} event (code {code}) after resourceVersion {self.position}")
        if kind == "BOOKMARK":
            self._advance_beyond(raw)
            return None
        if not self._is_followed(raw):
            self._advance_beyond(raw)
            return None
        version = self._sink.translate(raw)
        if isinstance(version, MalformedObject):
            return Gap(reason=f"the pod watch sent a pod whose {version.field} cannot be read")
        self._sink.take_event(self, version, is_deleted=kind == "DELETED")
        self._position.advance(version.resource_version)
        return None

    def _is_followed(self, raw: object) -> bool:
        """True for a pod that may sit on a seat, and for one that is in the book because it once could."""
        return may_hold_a_seat(raw) or self._sink.knows(uid_in(raw))

    def _advance_beyond(self, raw: Json) -> None:
        """Move the position over something that nothing is folded of."""
        resource_version = str((raw.get("metadata") or {}).get("resourceVersion", ""))
        if resource_version.isdigit():
            self._position.advance(int(resource_version))

    # -- LIST

    async def _anchor(self, restore: Gap | None = None) -> bool:
        """LIST everything and start from there; repeats until it succeeds. Returns True when etcd was restored."""
        if restore is not None:
            self._position.forget_reads()
            self._sink.timeline_ended(self, restore.reason)
        known = max(self.position, self._sink.stored_maximum())
        while True:
            listing = await self._list(fold=True, is_restore=restore is not None)
            if isinstance(listing, Listing):
                break
            await self._sleep(self._backoff.next_s())
        found = self.restore_shown(listing.resource_version, 0 if restore is not None else known)
        if found is not None:
            # What was seen or stored comes from a time line that the API server no longer knows.
            return await self._anchor(found)
        self._position.reached = listing.resource_version
        self._sink.gap_closed(self.scope, listing)
        self._sink.take_absent(self.scope, listing)
        self._position.advance(listing.resource_version)
        self._set_anchored()
        return restore is not None

    def _set_anchored(self) -> None:
        self.is_anchored = True
        self.anchored_at = self.position
        self._sink.anchored(self)

    async def _list(self, *, fold: bool, is_restore: bool) -> Listing | KubeProblem:
        """LIST in chunks of one consistent resourceVersion; an expired continue token is a problem, start over."""
        versions: dict[str, int] = {}
        passed_over: dict[str, int] = {}
        resource_version, begun_at = 0, self.position
        async for page in self._pages():
            if isinstance(page, KubeProblem):
                self.problem = page
                return page
            resource_version = int(page["metadata"]["resourceVersion"])
            for raw in page.get("items") or ():
                if not self._is_followed(raw):
                    if begun_at and (at := int(raw["metadata"]["resourceVersion"])) > begun_at:
                        passed_over[raw["metadata"]["uid"]] = at
                    continue
                # What this watch did not follow before, because only a ledger knew it, this LIST shows first.
                if not fold and (may_hold_a_seat(raw) or not self._sink.is_unseen(uid_in(raw))):
                    versions[raw["metadata"]["uid"]] = int(raw["metadata"]["resourceVersion"])
                    continue
                version = self._sink.translate(raw)
                if isinstance(version, PodVersion):
                    versions[version.uid] = version.resource_version
                    self._sink.take_listed(version, is_restore=is_restore)
            self._position.heard()
            # Decoding and folding a chunk takes tens of milliseconds; let others run in between.
            await asyncio.sleep(0)
        self.problem = None
        return Listing(resource_version=resource_version, versions=versions, passed_over=passed_over)

    def _take_up(self, listing: Listing) -> None:
        """Count in what a LIST showed of pods that events of before it have made our concern, once these are folded."""
        listing.versions.update((uid, at) for uid, at in listing.passed_over.items() if self._sink.knows(uid))

    def _pages(self) -> AsyncIterator[Json | KubeProblem]:
        return pages(self._transport, PODS, self._page_limit, namespace=self.scope)

    async def current_resource_version(self) -> int | None:
        """Read consistently where the API server is now; None when it does not answer."""
        query = {"limit": "1"}
        page = await self._transport.call("list", PODS, namespace=self.scope, query=query)
        if isinstance(page, KubeProblem):
            self.problem = page
            return None
        return int(page["metadata"]["resourceVersion"])

    async def relist(self) -> bool:
        """Compare a fresh LIST with what was folded, and report a gap when they contradict each other.

        Returns
        -------
        False when no comparison could be made now; the next period tries again.
        """
        before = self.position
        listing = await self._list(fold=False, is_restore=False)
        if not isinstance(listing, Listing) or not self.is_anchored:
            return False
        if (restore := self.restore_shown(listing.resource_version, before)) is not None:
            self.report_gap(restore)
            return True
        if not await self.catch_up(listing.resource_version) or not self.is_anchored:
            return False
        self._take_up(listing)
        contradiction = self._sink.contradiction(self.scope, listing)
        if contradiction:
            self.report_gap(Gap(reason=contradiction))
        return True

    async def close(self) -> None:
        """End a replay and a look back that are under way."""
        tasks = [*self._replay.tasks, *([self._look_back_task] if self._look_back_task is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
