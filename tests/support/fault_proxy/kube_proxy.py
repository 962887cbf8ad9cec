"""A reverse proxy before an API server that ends TLS itself, so that it can answer in the server's stead.

The one idea: a request is either passed, or answered as API servers do (a `Status`), or its answer is spoiled. Watches
are lines, passed one by one, and can be ended or fall silent while they last. Faults of bytes and not of HTTP are done
by a `ByteRelay` that stands before it.
Source: Kubernetes API concepts (watch, 410 Gone as an ERROR event); API priority and fairness (429 with Retry-After).
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import aiohttp
from aiohttp import web

from support.fault_proxy.tripwire import Passing, Peer, Tripwire

BODY_MAX_BYTES = 64 * 1024 * 1024
LINE_MAX_BYTES = 16 * 1024 * 1024
RETRY_AFTER_S = 1
_WRITES = frozenset({"POST", "PUT", "PATCH"})
_OF_ONE_HOP = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "content-encoding"}
)


class KubeFault(StrEnum):
    """What an API server can answer."""

    CONFLICT = "409"
    GONE = "410"
    GONE_EVENT = "410 as an event"
    THROTTLED = "429"
    INTERNAL_ERROR = "500"
    STALLED_WATCH = "stalled watch"
    TRUNCATED = "truncated JSON"


_REFUSALS: Mapping[KubeFault, tuple[int, str]] = {
    KubeFault.CONFLICT: (409, "Conflict"), KubeFault.GONE: (410, "Expired"),
    KubeFault.THROTTLED: (429, "TooManyRequests"), KubeFault.INTERNAL_ERROR: (500, "InternalError"),
}  # fmt: skip


def status_object(code: int, reason: str) -> dict[str, object]:
    """Return what an API server says when it refuses."""
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": f"fault: {reason}", "reason": reason, "code": code,
    }  # fmt: skip


@dataclass(eq=False, slots=True)
class Watch:
    """One open watch.

    Parameters
    ----------
    is_stalled: nothing more comes, and it is not ended; it stays so when the fault is over.
    """

    is_stalled: bool = False
    interrupted: asyncio.Event = field(default_factory=asyncio.Event)


class KubeProxy:
    """Answer for one API server.

    Parameters
    ----------
    upstream: its URL. trust: verifies its certificate. identity: the proxy's own certificate.
    """

    def __init__(self, upstream: str, *, trust: ssl.SSLContext, identity: ssl.SSLContext, tripwire: Tripwire) -> None:
        self.fault: KubeFault | None = None
        self.port = 0
        self._upstream, self._trust, self._identity, self._tripwire = upstream, trust, identity, tripwire
        self._watches: set[Watch] = set()
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    async def open(self) -> None:
        """Listen on a free port of loopback."""
        connector = aiohttp.TCPConnector(ssl=self._trust, limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=None), read_bufsize=LINE_MAX_BYTES,
            auto_decompress=True,
        )  # fmt: skip
        app = web.Application(client_max_size=BODY_MAX_BYTES)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._identity)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Listen no more."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    def begin(self, fault: KubeFault) -> None:
        """Switch a fault on, for watches that are open too."""
        self.fault = fault
        for watch in self._watches:
            if fault is KubeFault.STALLED_WATCH:
                watch.is_stalled = True
            elif fault in (KubeFault.GONE, KubeFault.GONE_EVENT):
                watch.interrupted.set()

    async def end(self) -> None:
        """Switch the fault off."""
        self.fault = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self._tripwire.see(Passing(peer=Peer.API_SERVER, call=request.method, path=request.path_qs))
        is_watch = request.query.get("watch") in ("true", "1")
        if self._is_refused(request, is_watch):
            assert self.fault is not None
            code, reason = _REFUSALS[self.fault]
            headers = {"Retry-After": str(RETRY_AFTER_S)} if code == 429 else {}
            return web.json_response(status_object(code, reason), status=code, headers=headers)
        assert self._session is not None
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _OF_ONE_HOP}
        body = await request.read()
        try:
            async with self._session.request(
                request.method, f"{self._upstream}{request.raw_path}", headers=headers, data=body or None
            ) as answer:
                return await (self._watch(request, answer) if is_watch and answer.status == 200 else self._pass(answer))
        except aiohttp.ClientError:
            return web.json_response(status_object(502, "BadGateway"), status=502)

    def _is_refused(self, request: web.Request, is_watch: bool) -> bool:
        match self.fault:
            case KubeFault.CONFLICT:
                return request.method in _WRITES
            case KubeFault.GONE:
                return is_watch or "continue" in request.query
            case KubeFault.THROTTLED | KubeFault.INTERNAL_ERROR:
                return True
        return False

    async def _pass(self, answer: aiohttp.ClientResponse) -> web.Response:
        content = await answer.read()
        if self.fault is KubeFault.TRUNCATED:
            content = content[: len(content) // 2]
        kind = answer.headers.get("Content-Type", "application/json")
        return web.Response(status=answer.status, body=content, headers={"Content-Type": kind})

    async def _watch(self, request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Pass lines until the watch ends; `prepare` sends the headers, so nothing else can be answered afterwards."""
        watch = Watch(is_stalled=self.fault is KubeFault.STALLED_WATCH)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        self._watches.add(watch)
        if self.fault is KubeFault.GONE_EVENT:
            watch.interrupted.set()
        interrupted = asyncio.ensure_future(watch.interrupted.wait())
        try:
            while line := await self._next(answer, interrupted):
                if watch.is_stalled:
                    continue
                if self.fault is KubeFault.TRUNCATED:
                    await response.write(line[: len(line) // 2])
                    break
                await response.write(line)
            if watch.is_stalled:
                await asyncio.Event().wait()  # until the client gives it up
            if interrupted.done() and self.fault is KubeFault.GONE_EVENT:
                event = {"type": "ERROR", "object": status_object(410, "Expired")}
                await response.write(json.dumps(event).encode() + b"\n")
            await response.write_eof()
        except ConnectionError:
            pass  # the client has gone
        finally:
            interrupted.cancel()
            self._watches.discard(watch)
        return response

    async def _next(self, answer: aiohttp.ClientResponse, interrupted: asyncio.Future[bool]) -> bytes:
        """Return the next line; empty when the watch is to end."""
        reading = asyncio.ensure_future(answer.content.readline())
        try:
            await asyncio.wait({reading, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else b""
        finally:
            reading.cancel()
