"""A small API server in this process: real HTTP on loopback, so that the real client is driven.

It keeps what the operator's rules depend on: one counter of resource versions, consistent LISTs in chunks, watches
that replay from any version that is not compacted, selectors that turn a label edit into DELETED, bookmarks, 410,
conditional writes, server-side apply of a status, and an etcd restore. Everything else is left out. Faults are
switches and methods of the server, so a test says what goes wrong and when.
"""

import asyncio
import copy
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from kubernetes.aio.client import Configuration

Json = dict[str, Any]
Key = tuple[str, str, str]  # plural.group, namespace, name

BROKEN = 0
"""Stands for a status where the connection breaks without an answer."""
SHORT_WATCH_S = 5
"""Watches up to this long are replays: they get their bookmark at once instead of a second before their end."""


@dataclass
class _Event:
    resource_version: int
    resource: str
    kind: str
    current: Json | None
    previous: Json | None


@dataclass(eq=False)
class _Watch:
    resource: str
    namespace: str
    label_selector: str
    field_selector: str
    is_short: bool
    queue: "asyncio.Queue[_Event | str | None]" = field(default_factory=asyncio.Queue)
    transport: asyncio.Transport | None = None


def _labels(labels: Json, selector: str) -> bool:
    for term in filter(None, selector.split(",")):
        key, equals, value = term.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


class FakeApiServer:
    """The server; use `serving()`.

    Attributes
    ----------
    sends_bookmarks: short watches get one after their replay.
    is_stalled: long watches hold back what they should send.
    gone_as_event: a watch from a compacted version answers 200 and an ERROR event, else HTTP 410.
    denied: (verb, resource) pairs answered 403.
    failing_status: every request is answered with this status while it is not 0.
    user: as whom every caller is known. created_at: the server's clock, for what is created over HTTP.
    failing: per (verb, resource), the statuses that its next requests are answered with; BROKEN breaks the connection.
    failure_text: the message of what `failing` answers.
    failing_paths: requests of these paths are answered with 503.
    openapi: what is published of our resources; None: 404, as before any CRD is installed.
    """

    def __init__(self) -> None:
        self.resource_version = 100
        self.objects: dict[Key, Json] = {}
        self.history: list[_Event] = []
        self.compacted = 0
        self.watches: list[_Watch] = []
        self.requests: list[tuple[str, str]] = []
        self.agents: list[tuple[str, str]] = []
        self.watch_starts: list[tuple[str, int, str]] = []
        self.sends_bookmarks = True
        self.is_stalled = False
        self.gone_as_event = False
        self.denied: set[tuple[str, str]] = set()
        self.failing_status = 0
        self.failing: dict[tuple[str, str], list[int]] = {}
        self.failure_text = ""
        self.failing_paths: set[str] = set()
        self.openapi: Json | None = None
        self.port = 0
        self.serves_policy = True
        self.user = "alice"
        self.created_at = lambda: datetime.now(UTC).isoformat(timespec="seconds")
        self._pages: dict[str, tuple[int, list[Json]]] = {}

    # -- the world, as a test moves it

    def put(self, obj: Json, resource: str = "pods") -> Json:
        """Create or replace an object and return it with its new version."""
        obj = copy.deepcopy(obj)
        metadata = obj.setdefault("metadata", {})
        key = (resource, metadata.get("namespace", ""), metadata["name"])
        previous = self.objects.get(key)
        metadata.setdefault("uid", previous["metadata"]["uid"] if previous else str(uuid.uuid4()))
        self.resource_version += 1
        metadata["resourceVersion"] = str(self.resource_version)
        self.objects[key] = obj
        self._record(_Event(self.resource_version, resource, "MODIFIED" if previous else "ADDED", obj, previous))
        return copy.deepcopy(obj)

    def remove(self, namespace: str, name: str, resource: str = "pods") -> Json:
        """Delete an object at once, like the end of a graceful deletion or a forced one."""
        previous = self.objects.pop((resource, namespace, name))
        self.resource_version += 1
        last = copy.deepcopy(previous)
        last["metadata"]["resourceVersion"] = str(self.resource_version)
        self._record(_Event(self.resource_version, resource, "DELETED", last, previous))
        return last

    def _record(self, event: _Event) -> None:
        self.history.append(event)
        for watch in self.watches:
            watch.queue.put_nowait(event)

    def drop_event(self) -> None:
        """Make the last change invisible to every watch: a server bug, for the re-LIST to find."""
        event = self.history.pop()
        for watch in self.watches:
            kept = [e for e in iter_queue(watch.queue) if e is not event]
            for item in kept:
                watch.queue.put_nowait(item)

    def tick(self) -> None:
        """Move the version counter as a write of another resource would."""
        self.resource_version += 1

    def compact(self) -> None:
        """Forget all history up to now."""
        self.compacted = self.resource_version
        self.history.clear()

    def snapshot(self) -> tuple[int, dict[Key, Json]]:
        """Back etcd up."""
        return self.resource_version, copy.deepcopy(self.objects)

    def restore(self, backup: tuple[int, dict[Key, Json]]) -> None:
        """Restore etcd: versions go back and all connections break."""
        self.resource_version, self.objects = backup[0], copy.deepcopy(backup[1])
        self.history.clear()
        self.compacted = self.resource_version
        self.break_watches()

    def bookmark(self) -> None:
        """Send a bookmark at the present version to every watch."""
        for watch in self.watches:
            watch.queue.put_nowait(f"BOOKMARK {self.resource_version}")

    def send_error(self, code: int) -> None:
        """Send an ERROR event to every watch."""
        for watch in self.watches:
            watch.queue.put_nowait(f"ERROR {code}")

    def end_watches(self) -> None:
        """End all long watches in good order, as timeoutSeconds does."""
        for watch in self.watches:
            if not watch.is_short:
                watch.queue.put_nowait(None)

    def break_watches(self) -> None:
        """Cut the connections of all watches."""
        for watch in self.watches:
            if watch.transport is not None:
                watch.transport.abort()
        self.watches.clear()

    def set_stalled(self, is_stalled: bool) -> None:
        """Hold back or release what long watches send."""
        self.is_stalled = is_stalled
        for watch in self.watches:
            watch.queue.put_nowait("WAKE")

    def configuration(self) -> Configuration:
        """Return the client configuration for this server."""
        return Configuration(host=f"http://127.0.0.1:{self.port}")

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["FakeApiServer"]:
        """Serve on a free loopback port."""
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._handle)
        # Each test would wait that long for watches that nobody will answer any more.
        runner = web.AppRunner(application, shutdown_timeout=0.005)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        try:
            yield self
        finally:
            self.break_watches()
            await runner.cleanup()

    # -- HTTP

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        self.requests.append((request.method, request.path_qs))
        self.agents.append((request.headers.get("User-Agent", ""), request.path_qs))
        if self.failing_status or request.path in self.failing_paths:
            return _status(self.failing_status or 503)
        is_published = parts[0] == "openapi" and self.openapi is not None
        if is_published or parts in (["version"], ["api"], ["apis"]):
            discovery: Json = {"major": "1", "minor": "36", "versions": [], "groups": []}
            return web.json_response(self.openapi if is_published else discovery)
        group = "" if parts[0] == "api" else parts[1]
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        if not rest:
            policies = [{"name": "mutatingadmissionpolicies"}] if self.serves_policy else []
            return web.json_response({"resources": policies})
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource = f"{rest[0]}.{group}" if group else rest[0]
        name, subresource = (*rest[1:], "", "")[:2]
        verb = self._verb(request, name)
        if (verb, resource) in self.denied:
            return _status(403)
        if self.failing.get((verb, resource)):
            return _failed(request, self.failing[verb, resource].pop(0), self.failure_text)
        if verb == "watch":
            return await self._watch(request, resource, namespace)
        if verb == "list":
            return self._list(request, resource, namespace)
        return await self._object(request, (resource, namespace, name), subresource)

    @staticmethod
    def _verb(request: web.Request, name: str) -> str:
        if request.method == "GET":
            return "get" if name else ("watch" if request.query.get("watch") == "true" else "list")
        return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[request.method]

    def _list(self, request: web.Request, resource: str, namespace: str) -> web.Response:
        token = request.query.get("continue", "")
        if token:
            page = self._pages.get(token)
            if page is None or page[0] < self.compacted:
                return _status(410)
            resource_version, items = page
        else:
            resource_version = self.resource_version
            items = [
                o for (r, ns, _), o in self.objects.items()
                if r == resource and namespace in ("", ns) and self._selected(
                    o, request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))
            ]
        limit = int(request.query.get("limit", "0")) or len(items)
        metadata = {"resourceVersion": str(resource_version)}
        if len(items) > limit:
            metadata["continue"] = token = uuid.uuid4().hex
            self._pages[token] = (resource_version, copy.deepcopy(items[limit:]))
        return web.json_response({"kind": "List", "metadata": metadata, "items": items[:limit]})

    @staticmethod
    def _selected(obj: Json | None, label_selector: str, field_selector: str) -> bool:
        if obj is None or not _labels(obj["metadata"].get("labels") or {}, label_selector):
            return False
        name = field_selector.partition("=")[2]
        return not name or obj["metadata"]["name"] == name

    async def _object(self, request: web.Request, key: Key, subresource: str) -> web.Response:  # noqa: PLR0911
        resource, namespace, _ = key
        body: Json = json.loads(await request.text() or "{}")
        if resource == "selfsubjectaccessreviews.authorization.k8s.io":
            wanted = body["spec"]["resourceAttributes"]
            plural = f"{wanted['resource']}.{wanted['group']}" if wanted["group"] else wanted["resource"]
            return web.json_response({"status": {"allowed": (wanted["verb"], plural) not in self.denied}})
        if resource == "selfsubjectreviews.authentication.k8s.io":
            return web.json_response({"status": {"userInfo": {"username": self.user}}}, status=201)
        if request.method == "POST":
            body["metadata"]["creationTimestamp"] = self.created_at()
            key = (resource, namespace, body["metadata"]["name"])
            body["metadata"].setdefault("namespace", namespace)
            return _status(409) if key in self.objects else web.json_response(self.put(body, resource), status=201)
        present = self.objects.get(key)
        if present is None:
            return _status(404)
        if request.method == "GET":
            return web.json_response(present)
        if request.method == "PUT":
            if body["metadata"].get("resourceVersion") not in (None, present["metadata"]["resourceVersion"]):
                return _status(409)
            body["metadata"]["uid"] = present["metadata"]["uid"]
            return web.json_response(self.put(body, resource))
        # A uid in an apply to /status is ignored by the real server; the resourceVersion is compared.
        if body.get("metadata", {}).get("resourceVersion") not in (None, present["metadata"]["resourceVersion"]):
            return _status(409)
        if request.content_type == "application/apply-patch+yaml":
            assert subresource == "status", "only a status is applied"
            assert request.query["fieldManager"], "an apply without a field manager"
            return web.json_response(self.put({**present, "status": body.get("status")}, resource))
        return web.json_response(self.put(_merged(present, body), resource))

    async def _watch(self, request: web.Request, resource: str, namespace: str) -> web.StreamResponse:
        start = int(request.query["resourceVersion"])
        watch = _Watch(
            resource=resource, namespace=namespace, label_selector=request.query.get("labelSelector", ""),
            field_selector=request.query.get("fieldSelector", ""),
            is_short=int(request.query.get("timeoutSeconds", "300")) <= SHORT_WATCH_S,
            transport=request.transport,
        )
        self.watch_starts.append((resource, start, watch.field_selector))
        is_expired = start < self.compacted
        if is_expired and not self.gone_as_event:
            return _status(410)
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        if is_expired:
            watch.queue.put_nowait("ERROR 410")
            watch.queue.put_nowait(None)
        for event in self.history:
            if event.resource_version > start:
                watch.queue.put_nowait(event)
        self.watches.append(watch)
        try:
            await self._send_events(response, watch, start)
        except ConnectionError:
            pass
        finally:
            if watch in self.watches:
                self.watches.remove(watch)
        return response

    async def _send_events(self, response: web.StreamResponse, watch: _Watch, sent: int) -> None:
        while True:
            while self.is_stalled and not watch.is_short:
                await self._wake(watch)
            if watch.is_short and watch.queue.empty():
                if self.sends_bookmarks and self.resource_version > sent and not watch.field_selector:
                    await response.write(_line(_bookmark(self.resource_version)))
                await response.write_eof()
                return
            item = await watch.queue.get()
            if item is None:
                await response.write_eof()
                return
            if self.is_stalled and not watch.is_short:
                _push_front(watch.queue, item)
                continue
            event = self._rendered(watch, item, sent)
            if event is not None:
                await response.write(_line(event))
                sent = int(event["object"].get("metadata", {}).get("resourceVersion", sent))

    @staticmethod
    async def _wake(watch: _Watch) -> None:
        """Wait for anything to happen without taking what was held back."""
        held = iter_queue(watch.queue)
        item = await watch.queue.get()
        for waiting in [*held, item]:
            if waiting != "WAKE":
                watch.queue.put_nowait(waiting)

    def _rendered(self, watch: _Watch, item: "_Event | str", sent: int) -> Json | None:
        if isinstance(item, str):
            kind, _, number = item.partition(" ")
            if kind == "BOOKMARK":
                return _bookmark(int(number)) if int(number) > sent else None
            if kind == "ERROR":
                return {"type": "ERROR", "object": {"kind": "Status", "code": int(number)}}
            return None
        if item.resource != watch.resource or item.resource_version <= sent:
            return None
        known = item.current or item.previous
        assert known is not None
        if watch.namespace not in ("", known["metadata"].get("namespace", "")):
            return None
        is_now = item.kind != "DELETED" and self._selected(item.current, watch.label_selector, watch.field_selector)
        was = self._selected(item.previous, watch.label_selector, watch.field_selector)
        if not is_now and not was:
            return None
        if is_now:
            return {"type": "MODIFIED" if was else "ADDED", "object": item.current}
        # The API server's watch cache sends the previous content with the new version for both kinds of leaving.
        last = copy.deepcopy(item.previous)
        assert last is not None
        last["metadata"]["resourceVersion"] = str(item.resource_version)
        return {"type": "DELETED", "object": last}


def iter_queue(queue: "asyncio.Queue[Any]") -> list[Any]:
    """Empty a queue into a list."""
    items = []
    while not queue.empty():
        items.append(queue.get_nowait())
    return items


def _push_front(queue: "asyncio.Queue[Any]", item: object) -> None:
    rest = iter_queue(queue)
    for each in [item, *rest]:
        queue.put_nowait(each)


def _bookmark(resource_version: int) -> Json:
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(resource_version)}}}


def _line(event: Json) -> bytes:
    return json.dumps(event).encode() + b"\n"


def _status(code: int, message: str = "") -> web.Response:
    return web.json_response({"kind": "Status", "message": message, "code": code}, status=code)


def _failed(request: web.Request, status: int, message: str) -> web.Response:
    if status == BROKEN and request.transport is not None:
        request.transport.abort()
    return _status(status or 500, message)


def _merged(base: Json, patch: Json) -> Json:
    """Apply a JSON merge patch (RFC 7386)."""
    result = copy.deepcopy(base)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = _merged(result[key], value)
        else:
            result[key] = value
    return result
