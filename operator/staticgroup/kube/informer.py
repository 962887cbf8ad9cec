"""Know all objects of one resource: a LIST shows those that exist, and events show what changes after it.

kopf drives it (runtime/process/session.py): it asks for a LIST, then for the changes after it, and hands each change
back through its handlers. Nothing is resumed: whatever ends the changes (410, a broken connection, a server that forgot
events, a restored etcd), a LIST comes next, and what it does not show is gone. kopf handles the events of different
objects out of order, and later than a LIST that was asked for meanwhile; so under one name the highest resourceVersion
counts.
Source: resourceVersions compare (KEP-5504).
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from random import Random
from typing import Any, Final, Protocol, TypeVar

from .outage import RETRY_MAX_S, Backoff, Outage
from .pages import PageLimit, pages
from .problem import KubeProblem, KubeProblemKind, problem_of
from .transport import CONNECTION_ERRORS, Json, Resource, Transport

_log = logging.getLogger(__name__)
T = TypeVar("T")
Key = tuple[str, str]

STALL_TIMEOUT_S: Final = 75.0
"""The API server sends a bookmark about every 60 s."""
RELIST_S: Final = 600.0
REFUSED_RETRY_MAX_S: Final = 60.0
"""A kind that is not installed, or that the operator has no right to, hardly comes from one second to the next."""
_REFUSED: Final = frozenset({KubeProblemKind.FORBIDDEN, KubeProblemKind.NOT_FOUND})
LOG_AFTER_S: Final = 10.0
"""Trouble with one resource while the API server answers other calls is logged when it has lasted this long."""


class OnObject(Protocol):
    """Receive the objects of an informer."""

    def __call__(self, raw: Json, *, is_deleted: bool) -> None:
        """Take an object as it is now; a deleted one has only namespace, name and uid."""


class Informer:
    """The objects of one resource in one scope.

    Parameters
    ----------
    on_object: receives every object, also listed ones that have not changed; must not block. For one name it receives
        the end of an object before its successor.
    scope: a namespace; "" for all.
    outage: whether the API server answers at all, so that trouble is not logged twice.
    clock_s: monotonic seconds.
    sleep: waits between tries.
    relist_s: longest time between two LISTs, seconds; each watch is shortened at random by up to a fifth.
    on_refused: for a resource that the operator can do without: receives why it cannot be read, or None once it can.
        A LIST that is refused then counts as complete.
    """

    def __init__(
        self, transport: Transport, resource: Resource, on_object: OnObject, *, scope: str, outage: Outage, rng: Random,
        clock_s: Callable[[], float], sleep: Callable[[float], Any] = asyncio.sleep, relist_s: float = RELIST_S,
        retry_delay_s: float = 0.2, on_refused: Callable[[KubeProblem | None], None] | None = None,
    ) -> None:
        self.name = f"{resource.label()} in {scope or 'all namespaces'}"
        self.resource = resource
        self.on_object = on_object
        self.scope = scope
        self._transport = transport
        self._outage = outage
        self._rng = rng
        self._clock_s = clock_s
        self._sleep = sleep
        self._page_limit = PageLimit()
        self._relist_s = relist_s
        self._backoff = Backoff(rng, first_s=retry_delay_s)
        self._refused_backoff = Backoff(rng, first_s=retry_delay_s, max_s=REFUSED_RETRY_MAX_S)
        self._on_refused = on_refused
        self._known: dict[Key, tuple[str, int]] = {}
        """Uid and resourceVersion of what is there, by namespace and name."""
        self._listed_version = 0
        self._newest_version = 0
        """Of what the present LIST and the changes after it have shown."""
        self._outcome: str | KubeProblem = ""
        self._begun = 0
        self._finished = 0
        self._has_listed = asyncio.Condition()
        self._is_list_asked = False
        self._waiting: asyncio.Timeout | None = None
        self._failing_since_s: float | None = None
        self._logged: KubeProblem | None = None

    @property
    def is_complete(self) -> bool:
        """True once every object was passed on, or none can be read."""
        return self._finished > 0

    async def wait_complete(self) -> None:
        """Wait until `is_complete`."""
        await self._finish_of(1)

    def hurry(self) -> None:
        """Have a LIST next, without waiting for the answer: changes end, a pause before the next try is cut short."""
        self._is_list_asked = True
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def refresh(self) -> None:
        """Wait until a LIST that begins after this call has shown what exists and what is gone."""
        number = self._begun + 1
        self.hurry()
        await self._finish_of(number)

    async def _finish_of(self, number: int) -> None:
        async with self._has_listed:
            await self._has_listed.wait_for(lambda: self._finished >= number)

    async def _unless_hurried(self, work: Awaitable[T]) -> T:
        """Await something; TimeoutError when a LIST is asked for before it is done."""
        try:
            async with asyncio.timeout(0 if self._is_list_asked else None) as self._waiting:
                return await work
        finally:
            self._waiting = None

    # -- LIST

    async def list(self) -> str:
        """Pass on what exists and what is gone, and return where changes go on from; ends with success only."""
        while True:
            if self._begun:
                with suppress(TimeoutError):
                    await self._unless_hurried(self._sleep(self._pause_s()))
            self._outcome = await self._list()
            if isinstance(self._outcome, str):
                return self._outcome
            self._note(self._outcome)

    def _pause_s(self) -> float:
        """Return how long to wait before the next LIST, in seconds."""
        is_refused = isinstance(self._outcome, KubeProblem) and self._outcome.kind in _REFUSED
        return (self._refused_backoff if is_refused and self._on_refused is not None else self._backoff).next_s()

    async def _list(self) -> str | KubeProblem:
        self._begun += 1
        number = self._begun
        self._is_list_asked = False
        found: set[Key] = set()
        resource_version = ""
        async for page in pages(self._transport, self.resource, self._page_limit, namespace=self.scope):
            if isinstance(page, KubeProblem):
                if self._on_refused is not None and page.kind in _REFUSED:
                    self._on_refused(page)
                    await self._finish(number)
                return page
            resource_version = page["metadata"]["resourceVersion"]
            self._listed_version = self._newest_version = _version_of(page)
            found.update(self._put(raw) for raw in page.get("items") or ())
        for key in [k for k in self._known if k not in found]:
            self._drop(key)
        if self._on_refused is not None:
            self._refused_backoff.reset()
            self._on_refused(None)
        await self._finish(number)
        return resource_version

    async def _finish(self, number: int) -> None:
        async with self._has_listed:
            self._finished = number
            self._has_listed.notify_all()

    # -- changes

    async def changes(self, resource_version: str) -> AsyncGenerator[Json, None]:
        """Yield events until they end, for whatever reason; the next LIST shows what was missed."""
        timeout_s = max(1, int(self._relist_s * (1 - self._rng.random() / 5)))
        query = {"resourceVersion": resource_version, "timeoutSeconds": str(timeout_s)}
        opened_s: float | None = None
        try:
            async with AsyncExitStack() as stack:
                opening = self._transport.watch(self.resource, namespace=self.scope, query=query)
                stream = await self._unless_hurried(stack.enter_async_context(opening))
                if isinstance(stream, KubeProblem):
                    self._note(stream)
                    return
                opened_s = self._clock_s()
                self._note(None)
                while (event := await self._unless_hurried(stream.next_event(STALL_TIMEOUT_S))) is not None:
                    if event["type"] == "ERROR":
                        self._log_end(str(event.get("object")))
                        break
                    self._newest_version = max(self._newest_version, _version_of(event["object"]))
                    yield event
        except CONNECTION_ERRORS as error:
            if opened_s is not None:
                self._log_end(str(error) or type(error).__name__)
            elif not self._is_list_asked:
                self._note(problem_of(0, verb="watch", resource=self.resource.label(), namespace=self.scope))
        # A watch that ends at once is no success: it would be opened again without a pause.
        if opened_s is not None and self._clock_s() - opened_s >= RETRY_MAX_S:
            self._backoff.reset()

    def _log_end(self, cause: str) -> None:
        if not self._is_list_asked:
            _log.info("a watch broke; listing again", extra={"resource": self.name, "cause": cause[:200]})

    def take(self, event: Json) -> None:
        """Pass on a change of the present watch, unless something newer was received under its name."""
        if event["type"] not in ("ADDED", "MODIFIED", "DELETED"):
            return
        key, version = _key_of(event["object"]), _version_of(event["object"])
        if not self._listed_version < version <= self._newest_version:  # listed, or of before a restore of etcd
            return
        if key in self._known and version <= self._known[key][1]:
            return
        if event["type"] == "DELETED":
            self._drop(key)
        else:
            self._put(event["object"])

    def _put(self, raw: Json) -> Key:
        key, uid = _key_of(raw), str(raw["metadata"].get("uid", ""))
        if key in self._known and self._known[key][0] != uid:
            self._drop(key)  # the end of its predecessor went unseen, or is still to come
        self._known[key] = uid, _version_of(raw)
        self._pass_on(raw, is_deleted=False)
        return key

    def _drop(self, key: Key) -> None:
        uid, _ = self._known.pop(key, ("", 0))
        if uid:
            self._pass_on({"metadata": {"namespace": key[0], "name": key[1], "uid": uid}}, is_deleted=True)

    def _pass_on(self, raw: Json, *, is_deleted: bool) -> None:
        """Pass on one object; a fault over one of them must not affect the others."""
        try:
            self.on_object(raw, is_deleted=is_deleted)
        except Exception:
            name = raw["metadata"].get("name")
            _log.exception("an object could not be taken", extra={"resource": self.resource.label(), "object": name})

    # -- trouble

    def _note(self, problem: KubeProblem | None) -> None:
        """Log trouble of this resource once, and its end; an outage of the whole API server is logged elsewhere."""
        if problem is None:
            if self._logged is not None:
                _log.info("followed again", extra={"resource": self.name})
            self._failing_since_s, self._logged = None, None
            return
        now_s = self._clock_s()
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        is_lasting = now_s - self._failing_since_s >= LOG_AFTER_S and not self._outage.is_on
        if is_lasting and (self._logged is None or self._logged.kind is not problem.kind):
            self._logged = problem
            _log.warning("cannot be followed", extra={"resource": self.name, "problem": problem.message})


def _key_of(raw: Json) -> Key:
    return raw["metadata"].get("namespace") or "", raw["metadata"].get("name") or ""


def _version_of(raw: Json) -> int:
    return int(raw["metadata"]["resourceVersion"])
