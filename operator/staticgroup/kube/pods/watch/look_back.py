"""Ask once more, elsewhere, for events that one API server no longer has.

Behind one address there may be several API servers, and each keeps the history of watches for itself: one that was
restarted answers 410 where another still has every event. Each watch opens a connection of its own, so a later one may
reach another server. A watch that delivers everything from the old position up to the LIST that ended a gap shows that
nothing was lost after all.

Source: Kubernetes API concepts (410 Gone, watch cache per API server).
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ...problem import KubeProblem
from ...transport import CONNECTION_ERRORS, PODS, Json, Transport

ASK_FOR_S: Final = 30.0
ASK_EVERY_S: Final = 2.0
ANSWER_WITHIN_S: Final = 6.0
SERVER_TIMEOUT_S: Final = 3
"""Shortest watch that brings a bookmark."""
EVENTS_MAX: Final = 50_000
"""More than these are not kept; the gap then stays one."""


async def lost_events(
    transport: Transport, *, scope: str, since: int, until: int, clock_s: Callable[[], float],
    sleep: Callable[[float], Any],
) -> list[Json] | None:
    """Ask for the pod events of a scope between two resourceVersions until some API server has them.

    Parameters
    ----------
    since: exclusive; the position of the watch that was answered 410. until: inclusive; of the LIST after it.
    clock_s: monotonic seconds. sleep: waits between attempts, seconds.

    Returns
    -------
    Every event in order, without bookmarks, perhaps some beyond `until`; None when nobody had them within `ASK_FOR_S`.
    """
    ends_s = clock_s() + ASK_FOR_S
    while clock_s() < ends_s:
        await sleep(ASK_EVERY_S)
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                found = await _watched(transport, scope=scope, since=since, until=until)
        except CONNECTION_ERRORS:
            continue
        if found is not None:
            return found
    return None


async def _watched(transport: Transport, *, scope: str, since: int, until: int) -> list[Json] | None:
    query = {"resourceVersion": str(since), "timeoutSeconds": str(SERVER_TIMEOUT_S)}
    found: list[Json] = []
    async with transport.watch(PODS, namespace=scope, query=query) as stream:
        if isinstance(stream, KubeProblem):
            return None
        while len(found) <= EVENTS_MAX:
            event = await stream.next_event(ANSWER_WITHIN_S)
            if event is None or event.get("type") not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"):
                return None
            if event["type"] != "BOOKMARK":
                found.append(event)
            resource_version = str(((event.get("object") or {}).get("metadata") or {}).get("resourceVersion", ""))
            if resource_version.isdigit() and int(resource_version) >= until:
                return found
    return None
