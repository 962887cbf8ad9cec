"""Answer kopf's requests with the operator's informers, and so over its one connection to the API server.

kopf takes a custom HTTP session (kopf, "Custom HTTP/TCP/SSL sessions"). Its own LIST has pages of one size however
large the objects are, its own WATCH ends for good at an object that it cannot decode and at any ERROR but 410, and
neither reports what vanished in between. So this session answers a LIST with no objects, once an informer has passed
all of them on, and a WATCH with the informer's changes; then comes the ERROR 410, upon which kopf lists again.
Discovery is answered without the API server: kopf would search for a CustomResourceDefinition once, and the informer
waits for one that is installed later.
Source: kopf 1.45, _cogs/clients/{api,fetching,watching,scanning}.py.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from pydantic_core import to_json

from ...kube.informer import Informer
from ...kube.transport import NAMESPACES, Json

LIST_AGAIN: Final = b'{"type": "ERROR", "object": {"code": 410}}\n'
SERVER: Final = "http://informers"
"""Stands for an address where kopf asks for one."""


class InformerAnswer:
    """One response, with what kopf uses of aiohttp's.

    Parameters
    ----------
    body: of a request that is no watch. changes: of one that is.
    """

    status = 200

    def __init__(self, body: Json | None = None, changes: AsyncGenerator[Json, None] | None = None) -> None:
        self._body = body
        self._changes = changes
        self.content = self

    async def __aenter__(self) -> InformerAnswer:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._changes is not None:
            await self._changes.aclose()

    def close(self) -> None:
        """Close nothing: kopf asks for it only while it is paused, which it never is."""

    async def json(self) -> Json | None:
        """Return the body."""
        return self._body

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        """Yield the lines of a watch, without managedFields, which are as long as the rest and read by nobody here."""
        assert self._changes is not None
        async for event in self._changes:
            event["object"]["metadata"].pop("managedFields", None)
            yield to_json(event) + b"\n"
        yield LIST_AGAIN


class Session:
    """Answer kopf from the informers of everything that it has a handler for."""

    closed = False

    def __init__(self, informers: Sequence[Informer]) -> None:
        self.headers: dict[str, str] = {}
        self._informers = {i.resource.path(namespace=i.scope): i for i in informers}
        self._discovery = _discovery(informers)

    async def request(self, *, url: str, **_: Any) -> InformerAnswer:
        """Answer one request; a LIST once it is done, however long the API server is away.

        Raises
        ------
        asyncio.CancelledError: the watcher was cancelled while its stream ended, where kopf swallows it
            (`streaming_block` awaits a task that it has cancelled), and would follow on for ever.
        """
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        asked = urlsplit(url)
        informer = self._informers.get(asked.path)
        if informer is None:
            return InformerAnswer(self._discovery[asked.path])
        query = parse_qs(asked.query)
        if "watch" in query:
            return InformerAnswer(changes=informer.changes(query["resourceVersion"][0]))
        return InformerAnswer({"metadata": {"resourceVersion": await informer.list()}, "items": []})

    async def close(self) -> None:
        """Close nothing: the connection is the operator's."""


def _discovery(informers: Sequence[Informer]) -> dict[str, Json]:
    """Return the discovery documents of what is followed, and of namespaces, without which kopf does not start."""
    served: defaultdict[tuple[str, str], dict[str, Json]] = defaultdict(dict)
    for resource, is_namespaced in [(NAMESPACES, False), *((i.resource, bool(i.scope)) for i in informers)]:
        served[resource.group, resource.version][resource.plural] = {
            "name": resource.plural, "kind": resource.plural, "singularName": resource.plural,
            "namespaced": is_namespaced, "verbs": ["list", "watch"],
        }  # fmt: skip
    versions = {group: {"version": version} for group, version in served if group}
    documents: dict[str, Json] = {
        "/api": {"versions": ["v1"]},
        "/apis": {"groups": [{"name": g, "versions": [v], "preferredVersion": v} for g, v in versions.items()]},
    }
    for (group, version), resources in served.items():
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        documents[path] = {"resources": list(resources.values())}
    return documents
