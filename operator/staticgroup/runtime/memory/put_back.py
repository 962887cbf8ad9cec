"""Look back at what was written to StaticGroups while no replica looked: which histories somebody has put back.

A tool that writes the status of a backup and then the whole object, metadata.managedFields and all, leaves an object that
says that the operator wrote its history. Only the version in between names the tool, and only a watch shows that one. So
the Lease carries how far StaticGroups have been looked at, as it does for pods, and whoever takes it over has the events
since told again before its first round. Nothing is asked where no StaticGroup is newer than that, and nothing is kept but names.

Where no API server has these events any more (410), or tells them within five minutes, every history that is in an object which was
written since is doubted: it may have been an edit of the spec, and nobody can tell. What is doubted stays so over restarts, until the operator has written
over it.

Source: Kubernetes API concepts (resourceVersion, watch, 410 Gone); resourceVersions of one resource compare (KEP-5504).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ...kube.object_stream import ObjectStream, number_of
from ...kube.pods.continuity import Continuity
from ...kube.problem import KubeProblem, KubeProblemKind
from ...kube.translate.owners import digest_of, is_put_back
from ...kube.transport import CONNECTION_ERRORS, Json, Resource, Transport
from ..stores import Stores
from ..work_queue import Key

log = logging.getLogger(__name__)

ANSWER_WITHIN_S: Final = 6.0
"""An event is there to come, so silence is trouble."""
SERVER_TIMEOUT_S: Final = 60
ASK_EVERY_S: Final = 1.0
ASK_FOR_S: Final = 10.0
"""Behind one address there may be several API servers, and one that was not restarted has the events that another one lacks."""
WAIT_FOR_S: Final = 300.0
"""Nothing is removed meanwhile, and no status can say why. After that nobody can tell either, as after a 410."""
SETTLED_WITHIN_S: Final = 120.0
"""So long the Lease says that a status was sent and is not answered: an API server gives each request up after one minute, and forgets
what it told after five. After that its StaticGroup is doubted."""
DOUBTED_MAX: Final = 200
"""More are not listed with the Lease; the position stays behind them instead."""


class Looked(NamedTuple):
    """How far StaticGroups were looked at: `Continuity.groups`, `doubted` and `unsettled`."""

    groups: Mapping[str, int]
    doubted: frozenset[Key]
    unsettled: Mapping[Key, int]

    def told_in(self, continuity: Continuity) -> Continuity:
        """Return a continuity that tells this of StaticGroups."""
        return replace(continuity, groups=self.groups, doubted=self.doubted, unsettled=self.unsettled)


class LookBack:
    """How far StaticGroups were looked at, carried from one active replica to the next.

    Parameters
    ----------
    streams: of the StaticGroups, one for each scope. clock_s: monotonic seconds. sleep: waits between attempts, seconds.
    """

    def __init__(
        self, transport: Transport, resource: Resource, streams: Sequence[ObjectStream], stores: Stores, *,
        clock_s: Callable[[], float], sleep: Callable[[float], Any] = asyncio.sleep,
    ) -> None:
        self._transport = transport
        self._resource = resource
        self._streams = streams
        self._stores = stores
        self._clock_s = clock_s
        self._sleep = sleep
        self._positions: dict[str, int] = {}
        self._listed: frozenset[Key] = frozenset()
        self._unsettled: dict[Key, tuple[int, float]] = {}
        """The position that all of it comes after, and when the status was sent."""

    def stored(self) -> Looked:
        """Go on as far as the watches have told, and return what the Lease may say."""
        unsettled, doubted = self._follow_unsettled(), self._stores.doubted
        if len(doubted) + len(unsettled) <= DOUBTED_MAX:
            self._positions = {s.scope: s.position for s in self._streams if s.position}
            self._listed = frozenset((*doubted, *unsettled))
        # Those of before the position stay listed: nothing that is told again from there shows them.
        first = {key: (key not in self._listed, key) for key in (*doubted, *unsettled)}
        listed = sorted(doubted, key=first.__getitem__)[:DOUBTED_MAX]
        sent = sorted(unsettled, key=first.__getitem__)[:DOUBTED_MAX]
        return Looked(self._positions, frozenset(listed), {key: unsettled[key] for key in sent})

    def _follow_unsettled(self) -> dict[Key, int]:
        """Return what is sent and not answered, each with a position before it; doubt what has waited for too long.

        Notes
        -----
        If a watch that began anew shows what was there before, then either the status was not taken, or somebody has put that back.
        Behind its own position it holds nobody else back. What was stored last was stored before it was sent.
        """
        known, self._unsettled = self._unsettled, {}
        before = {s.scope: min(self._positions.get(s.scope, 0), s.position) for s in self._streams}
        for key, (told_version, since_s) in tuple(self._stores.unsettled.items()):
            if self._clock_s() - since_s >= SETTLED_WITHIN_S:
                del self._stores.unsettled[key]
                self._stores.doubted.add(key)
                continue
            found = known.get(key)
            if found is None or found[1] != since_s:
                found = max(told_version, before.get("", before.get(key[0], 0)), 1), since_s
            self._unsettled[key] = found
        return {key: position for key, (position, _) in self._unsettled.items()}

    async def begin(self, stored: Continuity | None) -> None:
        """Find which histories were put back since the last holder of the Lease looked, asking until that is known.

        Parameters
        ----------
        stored: what that one has stored, or this process knows that it said; the stores have every StaticGroup as it was at some
            moment since. None where nobody knows: then there is no position, and no history goes on anyway.
        """
        known = stored.groups if stored is not None else {}
        self._stores.doubted = {key for key in (stored.doubted if stored is not None else ()) if key in self._stores.group_uids}
        self._listed = frozenset(self._stores.doubted)
        self._positions = {s.scope: known.get(s.scope, known.get("", s.position)) for s in self._streams}
        reached = {scope: position for scope, position in self._positions.items() if scope in known or "" in known}
        ends_s = self._clock_s() + WAIT_FOR_S
        await self._reach_unsettled(stored.unsettled if stored is not None else {}, ends_s)
        # What came in while another scope was asked about is looked at as well, up to the moment at which rounds begin.
        while late := [scope for scope, newest in self._newest().items() if newest > reached.get(scope, newest)]:
            found = await asyncio.gather(*(self._reach(scope, reached[scope], ends_s) for scope in late))
            reached |= dict(zip(late, found, strict=True))
        if self._stores.doubted:
            log.warning("histories in statuses may have been put back", extra={"count": len(self._stores.doubted)})

    async def _reach_unsettled(self, unsettled: Mapping[Key, int], ends_s: float) -> None:
        """Look at the events of StaticGroups that stayed behind the position, as far as anything was written to them since."""
        histories, by_scope = self._stores.histories, dict[str, dict[Key, int]]()
        for key, position in unsettled.items():
            if histories.get(key, (0, ""))[0] > position:
                by_scope.setdefault("" if "" in self._positions else key[0], {})[key] = position
        await asyncio.gather(
            *(self._reach(scope, min(of.values()), ends_s, only=of.keys()) for scope, of in by_scope.items())
        )

    def _newer(self, scope: str, position: int) -> set[Key]:
        """Return the StaticGroups of a scope that tell a history and were written after a position."""
        histories = self._stores.histories
        return {key for key, (version, _) in histories.items() if version > position and scope in ("", key[0])}

    def _newest(self) -> dict[str, int]:
        """Return the resourceVersion of the newest object of each scope that tells a history."""
        newest: dict[str, int] = {}
        for (namespace, _), (version, _) in self._stores.histories.items():
            scope = "" if "" in self._positions else namespace
            newest[scope] = max(version, newest.get(scope, 0))
        return newest

    async def _reach(self, scope: str, position: int, ends_s: float, *, only: Set[Key] | None = None) -> int:
        """Look at every event after a position, up to the newest object of a scope, and return how far that is.

        Parameters
        ----------
        ends_s: when what cannot be looked at is waited for no more, monotonic seconds. only: whose events matter; None for all.
        """
        replay, gone_since_s, told = _Replay(position), None, ""
        while True:
            try:
                problem = await self._watch(scope, replay)
            except CONNECTION_ERRORS:
                problem = "no answer"
            if problem is None:
                self._doubt(replay.put_back.keys(), only)
                return replay.position
            now_s = self._clock_s()
            gone_since_s = None if problem != KubeProblemKind.GONE else now_s if gone_since_s is None else gone_since_s
            if now_s >= ends_s or (gone_since_s is not None and now_s - gone_since_s >= ASK_FOR_S):
                self._doubt(replay.put_back.keys() | self._newer(scope, replay.position), only)
                return self._newest().get(scope, replay.position)
            if problem != told:
                told = problem
                log.warning("waiting for what was written to StaticGroups meanwhile", extra={"scope": scope, "problem": problem})
            await self._sleep(ASK_EVERY_S)

    def _doubt(self, found: Set[Key], only: Set[Key] | None) -> None:
        self._stores.doubted |= found if only is None else found & only

    async def _watch(self, scope: str, replay: _Replay) -> str | None:
        """Have events told again; return why they end too early, or None when they do not."""
        query = {"resourceVersion": str(replay.position), "timeoutSeconds": str(SERVER_TIMEOUT_S)}
        async with self._transport.watch(self._resource, namespace=scope, query=query) as stream:
            if isinstance(stream, KubeProblem):
                return stream.kind if stream.kind is KubeProblemKind.GONE else stream.message
            target = 0
            while replay.position < target or replay.position < (target := self._newest().get(scope, 0)):
                event = await stream.next_event(ANSWER_WITHIN_S)
                if event is None:
                    return "the watch has ended"
                if not replay.take(event):
                    is_gone = (event.get("object") or {}).get("code") == 410
                    return KubeProblemKind.GONE if is_gone else "the watch has failed"
        return None


class _Replay:
    """How far events were told again, and whose history was put back until then, with its digest."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.put_back: dict[Key, str] = {}

    def take(self, event: Json) -> bool:
        """Take the next event; False when it cannot be believed, an ERROR for instance."""
        kind, raw = event.get("type"), event.get("object")
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK") or not isinstance(raw, dict):
            return False
        metadata = raw.get("metadata") or {}
        key, digest = (str(metadata.get("namespace", "")), str(metadata.get("name", ""))), digest_of(raw)
        if kind == "DELETED":
            self.put_back.pop(key, None)
        elif kind != "BOOKMARK" and is_put_back(raw):
            self.put_back[key] = digest
        elif digest and self.put_back.get(key, digest) != digest:
            # Only who writes a history gets it noted as another one of his own, and the operator has seen what it wrote over.
            del self.put_back[key]
        self.position = max(self.position, number_of(metadata.get("resourceVersion")))
        return True
