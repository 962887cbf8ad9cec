"""Follow the pods of one scope without losing an event, or say that one may be lost.

All pods are watched, without a label selector; those that hold no seat are dropped on arrival (`may_hold_a_seat`).

One scope is one namespace or all of them; it has one position: every event up to that resourceVersion has been
folded. A watch resumed from the position is whole, however often the connection broke, and keeps its name. Only
four things end that (a *gap*): the API server no longer has the events (410), it sends an ERROR or an
unreadable pod, its resourceVersions go backwards (a restored etcd), or a complete LIST contradicts what was folded.

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
from collections.abc import Callable
from random import Random
from typing import Any, Final

from ....core.evidence.pod import PodVersion
from ...outage import RETRY_MAX_S, Backoff
from ...pages import PageLimit, pages
from ...problem import KubeProblem, KubeProblemKind
from ...translate import MalformedObject
from ...translate.pods import may_hold_a_seat, uid_of
from ...transport import CONNECTION_ERRORS, PODS, Json, Transport
from ..position import ScopePosition, new_watch
from .messages import Gap, PodListing, PodSink, restored

SERVER_TIMEOUT_S: Final = 300
STALL_TIMEOUT_S: Final = 75.0
"""The API server sends a bookmark about every 60 s and its watch cache keeps events for 75 s."""
REPLAY_TIMEOUT_S: Final = 3
"""Shortest watch that brings a bookmark: seen after 0.4-1.7 s; with 2 s or less none comes."""
REPLAY_SLACK_S: Final = 3.0


class PodStream:
    """LIST and WATCH one scope.

    Attributes
    ----------
    watch: name of the watch, another one after each gap; it counts while the stream is anchored.
    position: the resourceVersion up to which every event has been folded; 0 before the first LIST.
    received_s: when the API server last sent anything, monotonic seconds.
    is_anchored: every event after `anchored_at` has been or will be folded without a gap.
    problem: why the scope cannot be followed now; None while it is.

    Parameters
    ----------
    store: takes every version before the position moves, because its methods are synchronous.
    scope: a namespace; "" for all.
    now_s: seconds since the Unix epoch. clock_s: monotonic seconds.
    rng: draws names and spreads retries. sleep: waits between them.
    """

    def __init__(
        self, transport: Transport, store: PodSink, *, scope: str, rng: Random, now_s: Callable[[], float],
        clock_s: Callable[[], float], sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        self.scope = scope
        self.position = 0
        self.received_s = clock_s()
        self.is_anchored = False
        self.anchored_at = 0
        self.watch = ""
        self.problem: KubeProblem | None = None
        self._transport = transport
        self._store = store
        self._rng = rng
        self._now_s = now_s
        self._clock_s = clock_s
        self._sleep = sleep
        self._page_limit = PageLimit()
        self._backoff = Backoff(rng, first_s=0.2)
        self._reported_gap: Gap | None = None
        self._gap_reported = asyncio.Event()
        self._gap_count = 0
        self._opened_s: float | None = None
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._replaying: asyncio.Task[None] | None = None
        self._replay_target = 0

    @property
    def is_refused(self) -> bool:
        """True while the right to follow the scope is missing, or the scope itself."""
        return self.problem is not None and self.problem.kind in (KubeProblemKind.FORBIDDEN, KubeProblemKind.NOT_FOUND)

    @property
    def has_reported_gap(self) -> bool:
        """True while a gap was reported that the stream has not begun to recover from."""
        return self._reported_gap is not None

    def report_gap(self, gap: Gap) -> None:
        """End the watch from outside: a consistent read shows a restore, or a LIST contradicts."""
        if self._reported_gap is None or gap.is_restore:
            self._reported_gap = gap
            self._gap_reported.set()

    async def close(self) -> None:
        """End a replay that is under way."""
        if self._replaying is not None:
            self._replaying.cancel()
            await asyncio.gather(self._replaying, return_exceptions=True)

    # -- the main loop

    async def run(self, resume_from: ScopePosition | None) -> None:
        """Follow the scope until cancelled.

        Parameters
        ----------
        resume_from: a stored position with the name of its watch; None to begin with a LIST.
        """
        if resume_from is None:
            await self._anchor()
            await self._follow()
            return
        self.position, self.watch = resume_from
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            tasks.create_task(self._complete_resume(resume_from.resource_version))

    async def _complete_resume(self, resume_from: int) -> None:
        # Step 1: a LIST of what the replay cannot show, because it has not changed since the stored position.
        while not isinstance(listing := await self._list(fold=True), PodListing):
            await self._sleep(1.0)
        if listing.resource_version < resume_from:
            self._store.begin_anew(restored(listing.resource_version, resume_from))
            return
        # Step 2: the stream passes that LIST, so that every deletion before it has been folded.
        while self._gap_count == 0 and not await self.catch_up(listing.resource_version):
            await self._sleep(0.2)
        self._count_in(listing)
        # Step 3: pods that the LIST does not show are gone. After a gap the stream anchors itself with its own LIST.
        if self._gap_count == 0 and self._reported_gap is None:
            self._store.take_absent(self.scope, listing)
            self._set_anchored()

    async def _follow(self) -> None:
        is_first = True
        while True:
            # Step 1: watch from the position until the connection ends or a gap opens.
            self._opened_s = None
            gap = await self._watch_until_gap(check_restore=not is_first)
            is_first = False
            # A watch that ends at once is no success: whatever ended it, all pods would be listed anew without a pause.
            if self._opened_s is not None and self._clock_s() - self._opened_s >= RETRY_MAX_S:
                self._backoff.reset()
            # Step 2: after a gap, a new watch; otherwise the same one goes on from the position.
            if gap is not None:
                await self._recover(gap)
            await self._sleep(self._backoff.next_s())

    async def _recover(self, gap: Gap) -> None:
        """Begin a new watch."""
        self._gap_count += 1
        self.is_anchored = False
        if self._reported_gap is not None and self._reported_gap.is_restore:
            gap = self._reported_gap  # reported while another gap began
        self._reported_gap = None
        self._gap_reported.clear()
        await self.close()
        self._store.gap_opened(self.scope, gap)
        await self._anchor()

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
        # Step 1: is the API server older than the position? An etcd restore breaks every connection, so a reconnect is
        # the moment to ask: a watch from a position that lies in the server's future is accepted and stays silent.
        if check_restore:
            known = self.position  # a replay may bring it beyond the read meanwhile
            current = await self.current_resource_version()
            if current is None:
                return None
            if current < known:
                self._store.begin_anew(restored(current, known))
                return None
        # Step 2: fold every event after the position.
        position = self.position
        query = {"resourceVersion": str(position), "timeoutSeconds": str(SERVER_TIMEOUT_S)}
        async with self._transport.watch(PODS, namespace=self.scope, query=query) as stream:
            if isinstance(stream, KubeProblem):
                self._set_problem(stream)
                return _expired(position) if stream.kind is KubeProblemKind.GONE else None
            self.problem = None
            self._opened_s = self._clock_s()
            while (event := await stream.next_event(STALL_TIMEOUT_S)) is not None:
                gap = self._take_event(event)
                if gap is not None:
                    return gap
        return None

    def _set_problem(self, problem: KubeProblem) -> None:
        self.problem = problem
        self._store.troubled(self.scope)

    def _take_event(self, event: Json) -> Gap | None:
        """Fold one event and move the position; a Gap when the event cannot be believed."""
        kind = event.get("type")
        raw: Any = event.get("object")
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
            code = raw.get("code") if isinstance(raw, dict) else None
            if code == 410:
                return _expired(self.position)
            return Gap(reason=f"the pod watch sent an {kind} event (code {code}) after resourceVersion {self.position}")
        if kind == "BOOKMARK" or not self._is_followed(raw):
            self._advance(int(raw["metadata"]["resourceVersion"]))
            return None
        version = self._store.translate(raw)
        if isinstance(version, MalformedObject):
            return Gap(reason=f"the pod watch sent a pod whose {version.field} cannot be read")
        self._store.take_event(version, is_deleted=kind == "DELETED")
        self._advance(version.resource_version)
        return None

    def _is_followed(self, raw: Json) -> bool:
        """True for a pod that may hold a seat, and for one that is in the book because it once could."""
        return may_hold_a_seat(raw) or self._store.knows(uid_of(raw))

    # -- the position

    def _advance(self, resource_version: int) -> None:
        """Move the position on, never back, and wake the callers that wait for it."""
        self.received_s = self._clock_s()
        self.position = max(self.position, resource_version)
        if any(target <= self.position for target, _ in self._waiters):
            for target, reached in self._waiters:
                if target <= self.position and not reached.done():
                    reached.set_result(None)
            self._waiters = [waiter for waiter in self._waiters if waiter[0] > self.position]

    async def reach(self, resource_version: int, timeout_s: float) -> bool:
        """Wait until every event up to a resourceVersion has been folded; False when time ran out."""
        if self.position >= resource_version:
            return True
        waiter = (resource_version, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                await waiter[1]
        except TimeoutError:
            return False
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return True

    async def catch_up(self, resource_version: int) -> bool:
        """Bring the position up to a resourceVersion by a replay: a short watch beside the main one, shared by callers.

        Returns
        -------
        False when neither an event nor a bookmark reached it: ask again, never assume.
        """
        is_ours = False
        while self.position < resource_version and not is_ours:
            # A replay that is under way may end short of a target that it did not know; then ours follows, once.
            self._replay_target = max(self._replay_target, resource_version)
            if self._replaying is None or self._replaying.done():
                self._replaying = asyncio.create_task(self._replay())
                is_ours = True
            reached = asyncio.ensure_future(self.reach(resource_version, REPLAY_TIMEOUT_S + REPLAY_SLACK_S))
            try:
                await asyncio.wait({self._replaying, reached}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                reached.cancel()
        return self.position >= resource_version

    async def _replay(self) -> None:
        """Fold every event that is still missing, which a watch from the position brings at once, and then a bookmark.

        Trouble here ends only the replay: the main stream, which may still hold those events, decides what a gap is.
        """
        query = {"resourceVersion": str(self.position), "timeoutSeconds": str(REPLAY_TIMEOUT_S)}
        try:
            async with (
                asyncio.timeout(REPLAY_TIMEOUT_S + REPLAY_SLACK_S),
                self._transport.watch(PODS, namespace=self.scope, query=query) as stream,
            ):
                if isinstance(stream, KubeProblem):
                    return
                while self.position < self._replay_target:
                    event = await stream.next_event(REPLAY_TIMEOUT_S + REPLAY_SLACK_S)
                    if event is None or self._take_event(event) is not None:
                        return
        except CONNECTION_ERRORS:
            return
        finally:
            self._replay_target = 0

    # -- LIST

    async def _anchor(self) -> None:
        """LIST everything and begin a new watch from there; repeats until it succeeds."""
        while not isinstance(listing := await self._list(fold=True), PodListing):
            await self._sleep(self._backoff.next_s())
        if listing.resource_version < self.position:
            self._store.begin_anew(restored(listing.resource_version, self.position))
        self.position = listing.resource_version
        self._store.take_absent(self.scope, listing)
        self._advance(listing.resource_version)
        self.watch = new_watch(self._now_s(), self._rng)
        self._set_anchored()

    def _set_anchored(self) -> None:
        self.is_anchored = True
        self.anchored_at = self.position
        self._store.anchored(self.scope)

    async def _list(self, *, fold: bool) -> PodListing | KubeProblem:
        """LIST in chunks of one consistent resourceVersion; an expired continue token is a problem, start over."""
        versions: dict[str, int] = {}
        passed_over: dict[str, int] = {}
        resource_version, begun_at = 0, self.position
        async for page in pages(self._transport, PODS, self._page_limit, namespace=self.scope):
            if isinstance(page, KubeProblem):
                self._set_problem(page)
                return page
            resource_version = int(page["metadata"]["resourceVersion"])
            for raw in page.get("items") or ():
                uid, at = uid_of(raw), int(raw["metadata"]["resourceVersion"])
                if not self._is_followed(raw):
                    if begun_at and at > begun_at:
                        passed_over[uid] = at
                elif not fold:
                    versions[uid] = at
                elif isinstance(version := self._store.translate(raw), PodVersion):
                    versions[uid] = at
                    self._store.take_listed(version, listed_at=resource_version)
            self.received_s = self._clock_s()
            # Decoding and folding a chunk takes tens of milliseconds; let others run in between.
            await asyncio.sleep(0)
        self.problem = None
        return PodListing(resource_version=resource_version, versions=versions, passed_over=passed_over)

    def _count_in(self, listing: PodListing) -> None:
        """Count in the pods of a LIST that became followed by events of before it, once these are folded."""
        listing.versions.update((uid, at) for uid, at in listing.passed_over.items() if self._store.knows(uid))

    async def current_resource_version(self) -> int | None:
        """Read consistently where the API server is now; None when it does not answer."""
        page = await self._transport.call("list", PODS, namespace=self.scope, query={"limit": "1"})
        if isinstance(page, KubeProblem):
            self._set_problem(page)
            return None
        return int(page["metadata"]["resourceVersion"])

    async def relist(self) -> None:
        """Compare a fresh LIST, if one is answered, with what was folded, and report a gap when they contradict."""
        before = self.position
        listing = await self._list(fold=False)
        if not isinstance(listing, PodListing) or not self.is_anchored:
            return
        if listing.resource_version < before:
            self._store.begin_anew(restored(listing.resource_version, before))
            return
        if not await self.catch_up(listing.resource_version) or not self.is_anchored:
            return
        self._count_in(listing)
        contradiction = self._store.contradiction(self.scope, listing)
        if contradiction:
            self.report_gap(Gap(reason=contradiction))


def _expired(position: int) -> Gap:
    return Gap(reason=f"the API server no longer has the pod events after resourceVersion {position} (410)")
