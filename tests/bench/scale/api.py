"""Many requests at once to a real API server, and a watch of the statuses.

One idea: what a status says counts from the moment in which the watch shows it, which is when a user can see it.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from staticgroup.api import names
from support.devcluster.apiserver_client import ApiServerClient

Json = dict[str, Any]
Key = tuple[str, str]
GROUPS_PATH = f"/apis/{names.API_VERSION}/staticgroups"
MERGE, APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
CONFLICT, RETRIES_MAX = 409, 30
ASKED_AGAIN = frozenset({CONFLICT, 429, 504})
"""Answers of an API server that had no time, or whose object another client wrote meanwhile."""
LINE_MAX_BYTES = 16 * 1024 * 1024


class ApiServer:
    """A client for as many requests at once as are asked.

    Attributes
    ----------
    asked_again: how often a request was made again, by the status that was answered.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url
        self.asked_again: Counter[int] = Counter()

    @classmethod
    @asynccontextmanager
    async def connected(cls, client: ApiServerClient) -> AsyncIterator[ApiServer]:
        """Connect as the administrator."""
        trust = ssl.create_default_context(cafile=str(client.ca_file))
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=trust, limit=64), headers={"Authorization": f"Bearer {client.token}"},
            timeout=aiohttp.ClientTimeout(total=120), read_bufsize=LINE_MAX_BYTES,
        ) as session:  # fmt: skip
            yield cls(session, client.url)

    async def call(
        self, method: str, path: str, body: object = None, *, content: str = "application/json", manager: str = ""
    ) -> Json:
        """Make one request.

        Parameters
        ----------
        manager: field manager of the write; empty: the client's own name.
        """
        for _ in range(RETRIES_MAX):
            status, text = await self._ask(method, path, body, content, manager)
            if status not in ASKED_AGAIN or (status == CONFLICT and method == "POST"):
                break
            self.asked_again[status] += 1
            await asyncio.sleep(1)  # as the API server's own priority and fairness asks for (Retry-After)
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {text[:300]}")
        found: Json = json.loads(text) if text.startswith("{") else {"text": text}
        return found

    async def _ask(self, method: str, path: str, body: object, content: str, manager: str) -> tuple[int, str]:
        parameters = {"fieldManager": manager} if manager else {}
        async with self._session.request(
            method, self._url + path, params=parameters, data=None if body is None else json.dumps(body),
            headers={"Content-Type": content, "Accept": "application/json"},
        ) as answer:  # fmt: skip
            return answer.status, await answer.text()

    async def text(self, path: str) -> str:
        """Read a page that is no object, such as /metrics."""
        async with self._session.get(self._url + path) as answer:
            return await answer.text()

    async def watch(self, path: str, resource_version: str) -> AsyncIterator[Json]:
        """Yield the events of a watch until it ends."""
        parameters = {"watch": "1", "resourceVersion": resource_version, "allowWatchBookmarks": "true"}
        patience = aiohttp.ClientTimeout(total=None, sock_read=None)
        async with self._session.get(self._url + path, params=parameters, timeout=patience) as answer:
            async for line in answer.content:
                yield json.loads(line)


@dataclass(slots=True)
class Seen:
    """What the latest status of one StaticGroup says."""

    generation: int = 0
    observed_generation: int = 0
    joined: int = -1
    expected: int = -1
    departed: int = -1
    injected: Json | None = None
    events: int = 0

    def take(self, body: Json) -> None:
        """Take a newer version."""
        status = body.get("status") or {}
        members = status.get("members") or {}
        self.generation = body["metadata"]["generation"]
        self.observed_generation = status.get("observedGeneration") or 0
        self.joined, self.expected = members.get("joined", -1), members.get("expected", -1)
        self.departed = members.get("departed", 0) if members else -1
        self.injected = status.get("injected")
        self.events += 1


@dataclass(slots=True)
class StatusWatch:
    """Follow the statuses of all StaticGroups.

    Attributes
    ----------
    observed_s: monotonic seconds at which each (StaticGroup, generation) was first shown as observed.
    news_s: when anything was shown last.
    """

    api: ApiServer
    seen: dict[Key, Seen] = field(default_factory=dict)
    observed_s: dict[tuple[Key, int], float] = field(default_factory=dict)
    news_s: float = 0.0

    async def run(self) -> None:
        """Follow until cancelled; a watch that ends goes on from where it was."""
        listed = await self.api.call("GET", GROUPS_PATH)
        version = listed["metadata"]["resourceVersion"]
        for item in listed["items"]:
            self._take(item)
        while True:
            async for event in self.api.watch(GROUPS_PATH, version):
                if event["type"] == "ERROR":
                    raise RuntimeError(f"the watch of StaticGroups broke: {event['object']}")
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self._take(event["object"])

    def _take(self, body: Json) -> None:
        key = (body["metadata"]["namespace"], body["metadata"]["name"])
        known = self.seen.setdefault(key, Seen())
        before = known.observed_generation
        known.take(body)
        self.news_s = time.monotonic()
        for generation in range(before + 1, known.observed_generation + 1):
            self.observed_s.setdefault((key, generation), self.news_s)

    async def quiet(self, for_s: float, *, deadline_s: float) -> bool:
        """Wait until nothing was shown for a while; False when that does not come in time."""
        ends_s = time.monotonic() + deadline_s
        while time.monotonic() - self.news_s < for_s:
            if time.monotonic() > ends_s:
                return False
            await asyncio.sleep(0.5)
        return True
