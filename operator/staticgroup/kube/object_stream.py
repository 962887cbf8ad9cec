"""Follow all objects of one resource: tell each as it is now, and each that is gone.

For stores that need no history, only the present. Every watch begins with a complete LIST of its own, and what that
LIST does not show is gone; so nothing can be missed for longer than until the next LIST, whatever ended the watch: 410,
a broken connection, a server that forgot events, a restored etcd. There is one order, the API server's, and objects
are told apart by uid: the end of an object is never taken for the end of another one with its name.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, Protocol

from .outage import RETRY_MAX_S, Backoff, Outage
from .pages import PAGE_LIMIT, PageLimit, pages
from .problem import KubeProblem, KubeProblemKind, problem_of
from .transport import CONNECTION_ERRORS, Json, Resource, Transport

_log = logging.getLogger(__name__)

STALL_TIMEOUT_S: Final = 75.0
"""The API server sends a bookmark about every 60 s."""
RELIST_S: Final = 600.0
REFUSED_RETRY_MAX_S: Final = 60.0
"""A kind that is not installed, or that the operator has no right to, hardly comes from one second to the next."""
_REFUSED: Final = frozenset({KubeProblemKind.FORBIDDEN, KubeProblemKind.NOT_FOUND})
TELL_AFTER_S: Final = 10.0
"""Trouble with one resource while the API server answers other calls is logged when it has lasted this long."""


class Tell(Protocol):
    """What a stream feeds."""

    def __call__(self, raw: Json, *, is_deleted: bool) -> None:
        """Take an object as it is now; of a deleted one only `metadata` with namespace, name and uid is certain."""


class ObjectStream:
    """LIST and WATCH one resource in one scope.

    Parameters
    ----------
    tell: is told every object, listed ones too when nothing about them is new; must not block.
    scope: a namespace; "" for all.
    outage: whether the API server answers at all, so that trouble is not told twice.
    clock_s: monotonic seconds.
    sleep: waits between tries.
    relist_s: longest time between two LISTs, seconds; each watch is shortened at random by up to a fifth.
    on_refused: given for a resource that the operator can do without. It is told why the resource cannot be read, or None once it
        can, and a LIST that is refused counts as complete.

    Attributes
    ----------
    position: the resourceVersion up to which everything was told as it was then; 0 when that is not known.
    """

    def __init__(
        self, transport: Transport, resource: Resource, tell: Tell, *, scope: str, outage: Outage, rng: Random,
        clock_s: Callable[[], float], sleep: Callable[[float], Any] = asyncio.sleep, chunk_size: int = PAGE_LIMIT,
        stall_timeout_s: float = STALL_TIMEOUT_S, relist_s: float = RELIST_S, retry_delay_s: float = 0.2,
        on_refused: Callable[[KubeProblem | None], None] | None = None,
    ) -> None:
        self.name = f"{resource.label()} in {scope or 'all namespaces'}"
        self._transport = transport
        self._resource = resource
        self.tell = tell
        self.scope = scope
        self.position = 0
        self._outage = outage
        self._rng = rng
        self._clock_s = clock_s
        self._sleep = sleep
        self._page_limit = PageLimit(chunk_size)
        self._stall_timeout_s = stall_timeout_s
        self._relist_s = relist_s
        self._backoff = Backoff(rng, first_s=retry_delay_s)
        self._refused_backoff = Backoff(rng, first_s=retry_delay_s, max_s=REFUSED_RETRY_MAX_S)
        self._on_refused = on_refused
        self._known: dict[str, tuple[str, str]] = {}
        self._begun = 0
        self._finished = 0
        self._has_listed = asyncio.Condition()
        self._refresh_asked = asyncio.Event()
        self._failing_since_s: float | None = None
        self._told_problem: KubeProblem | None = None

    @property
    def is_complete(self) -> bool:
        """True once every object was told, or it is known that none can be."""
        return self._finished > 0

    async def wait_complete(self) -> None:
        """Wait until every object was told once."""
        await self._finish_of(1)

    def hurry(self) -> None:
        """LIST again at once, without waiting for the answer."""
        self._refresh_asked.set()

    async def refresh(self) -> None:
        """LIST again and wait until what is there, and what is gone, was told; the LIST begins after this call."""
        number = self._begun + 1
        self.hurry()
        await self._finish_of(number)

    async def _finish_of(self, number: int) -> None:
        async with self._has_listed:
            await self._has_listed.wait_for(lambda: self._finished >= number)

    async def run(self) -> None:
        """Follow until cancelled; no trouble at the API server ends it."""
        while True:
            outcome = await self._list()
            if isinstance(outcome, str):
                await self._until_refresh(self._watch(outcome))
            else:
                self._note(outcome)
            await self._until_refresh(self._sleep(self._pause_s(outcome)))

    def _pause_s(self, outcome: str | KubeProblem) -> float:
        """Return how long to wait before the next LIST, in seconds."""
        is_refused = self._on_refused is not None and isinstance(outcome, KubeProblem) and outcome.kind in _REFUSED
        return (self._refused_backoff if is_refused else self._backoff).next_s()

    async def _until_refresh(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something until it is done or a refresh is asked for."""
        working = asyncio.ensure_future(work)
        asked = asyncio.ensure_future(self._refresh_asked.wait())
        try:
            await asyncio.wait({working, asked}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
        finally:
            working.cancel()
            asked.cancel()
            await asyncio.gather(working, asked, return_exceptions=True)

    # -- LIST

    async def _list(self) -> str | KubeProblem:
        """Tell what is there and what is gone, and return where to watch from."""
        self._begun += 1
        number = self._begun
        self._refresh_asked.clear()
        found: set[str] = set()
        resource_version = ""
        async for page in pages(self._transport, self._resource, self._page_limit, namespace=self.scope):
            if isinstance(page, KubeProblem):
                if self._on_refused is not None and page.kind in _REFUSED:
                    self._on_refused(page)
                    await self._finish(number)
                return page
            found.update(self._take(raw) for raw in page.get("items") or ())
            resource_version = str((page.get("metadata") or {}).get("resourceVersion", ""))
        for uid in [u for u in self._known if u not in found]:
            self._take_gone(uid)
        self.position = number_of(resource_version)
        if self._on_refused is not None:
            self._refused_backoff.reset()
            self._on_refused(None)
        await self._finish(number)
        return resource_version

    async def _finish(self, number: int) -> None:
        async with self._has_listed:
            self._finished = number
            self._has_listed.notify_all()

    def _take(self, raw: Json) -> str:
        metadata = raw.get("metadata") or {}
        uid = str(metadata.get("uid", ""))
        self._known[uid] = str(metadata.get("namespace", "")), str(metadata.get("name", ""))
        self._say(raw, is_deleted=False)
        return uid

    def _take_gone(self, uid: str) -> None:
        namespace, name = self._known.pop(uid)
        self._say({"metadata": {"namespace": namespace, "name": name, "uid": uid}}, is_deleted=True)

    def _say(self, raw: Json, *, is_deleted: bool) -> None:
        """Tell one object; a fault over one of them must not keep the others from being told."""
        try:
            self.tell(raw, is_deleted=is_deleted)
        except Exception:
            name = (raw.get("metadata") or {}).get("name")
            _log.exception("an object could not be taken", extra={"resource": self._resource.label(), "object": name})

    # -- WATCH

    async def _watch(self, resource_version: str) -> None:
        """Tell events until the watch ends, for whatever reason; the next LIST shows what was missed."""
        timeout_s = max(1, int(self._relist_s * (1 - self._rng.random() / 5)))
        query = {"resourceVersion": resource_version, "timeoutSeconds": str(timeout_s)}
        opened_s: float | None = None
        try:
            async with self._transport.watch(self._resource, namespace=self.scope, query=query) as stream:
                if isinstance(stream, KubeProblem):
                    self._note(stream)
                    return
                opened_s = self._clock_s()
                self._note(None)
                while (event := await stream.next_event(self._stall_timeout_s)) is not None:
                    if not self._take_event(event):
                        break
        except CONNECTION_ERRORS:
            if opened_s is None:
                self._note(problem_of(0, verb="watch", resource=self._resource.label(), namespace=self.scope))
        # A watch that ends at once is no success: whatever ended it would be asked again without a pause.
        if opened_s is not None and self._clock_s() - opened_s >= RETRY_MAX_S:
            self._backoff.reset()

    def _take_event(self, event: Json) -> bool:
        """Tell one event; False when it cannot be believed, an ERROR for instance."""
        kind, raw = event.get("type"), event.get("object")
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK") or not isinstance(raw, dict):
            return False
        if kind == "DELETED":
            self._known.pop(str((raw.get("metadata") or {}).get("uid", "")), None)
            self._say(raw, is_deleted=True)
        elif kind != "BOOKMARK":
            self._take(raw)
        self.position = max(self.position, number_of((raw.get("metadata") or {}).get("resourceVersion")))
        return True

    # -- trouble

    def _note(self, problem: KubeProblem | None) -> None:
        """Log trouble of this resource once, and its end; an outage of the whole API server is told elsewhere."""
        if problem is None:
            if self._told_problem is not None:
                _log.info("followed again", extra={"resource": self.name})
            self._failing_since_s, self._told_problem = None, None
            return
        now_s = self._clock_s()
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        is_lasting = now_s - self._failing_since_s >= TELL_AFTER_S and not self._outage.is_on
        if is_lasting and (self._told_problem is None or self._told_problem.kind is not problem.kind):
            self._told_problem = problem
            _log.warning("cannot be followed", extra={"resource": self.name, "problem": problem.message})


def number_of(resource_version: object) -> int:
    """Return a resourceVersion as the number that it is (KEP-5504); 0 for what is none, which is before all others."""
    text = str(resource_version or "")
    return int(text) if text.isdecimal() else 0
