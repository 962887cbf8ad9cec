"""The simulator's API server behind real HTTP on loopback, so that the real client is driven.

What the operator's rules depend on is the model's: versions, LISTs in chunks, watches that replay from any version that
is not compacted, selectors that turn a label edit into DELETED, conditional writes, server-side apply of a status, and
an etcd restore. What is here is the way to it, bookmarks that come when a test wants them, and faults: switches and
methods of the server, so a test says what goes wrong and when.
"""

import copy
import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from aiohttp import web
from kubernetes.aio.client import Configuration

from simulator.kubernetes.objects import EPOCH_S, NAMESPACES
from simulator.kubernetes.storage import ApiError, Backup
from simulator.kubernetes.watch_log import Event, Selector
from support.fake_etcd import Etcd, Key, Objects
from support.fake_watch import Json, Watch, as_line, as_text, bookmark, iter_queue, push_front, rendered

BROKEN = 0
"""Stands for a status where the connection breaks without an answer."""
SHORT_WATCH_S = 5
"""Watches up to this long are replays: they get their bookmark at once instead of a second before their end."""


NAMESPACES_THERE = ("bill", "ops", "shop")
"""Nothing can be created over HTTP in any other, unless a test puts it there."""


class FakeApiServer:
    """The server; use `serving()`.

    Attributes
    ----------
    model: what answers.
    compacted: a watch or a next page from below is answered 410.
    sends_bookmarks: short watches get one after their replay.
    is_stalled: long watches hold back what they should send.
    gone_as_event: a watch from a compacted version answers 200 and an ERROR event, else HTTP 410.
    denied: (verb, resource) pairs answered 403.
    failing_status: every request is answered with this status while it is not 0.
    user: of every caller. created_at: the server's clock, for what is created over HTTP.
    failing: per (verb, resource), the statuses that its next requests are answered with; BROKEN breaks the connection.
    failure_text: the message of what `failing` answers.
    failing_paths, forbidden_paths: requests of these paths are answered with 503, or with 403.
    openapi: what is published of our resources; None: 404, as before any CRD is installed.
    served: by path, the discovery documents of installed groups; others are answered with 404. And what
        nodes answer.
    """

    def __init__(self) -> None:
        self.model = Etcd(now_s=lambda: datetime.fromisoformat(self.created_at()).timestamp() - EPOCH_S)
        self.objects: MutableMapping[Key, Json] = Objects(self.model)
        self._compacted = 0
        self.watches: list[Watch] = []
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
        self.forbidden_paths: set[str] = set()
        self.openapi: Json | None = None
        self.served: dict[str, Json] = {}
        self.port = 0
        self.user = "alice"
        self.created_at = lambda: datetime.now(UTC).isoformat(timespec="seconds")
        for namespace in NAMESPACES_THERE:
            self.objects[NAMESPACES, "", namespace] = {
                "metadata": {"name": namespace, "uid": namespace, "resourceVersion": "1"}
            }

    @property
    def resource_version(self) -> int:
        """The counter of all versions."""
        return self.model.resource_version

    @resource_version.setter
    def resource_version(self, version: int) -> None:
        self.model.resource_version = version

    @property
    def compacted(self) -> int:
        return self._compacted

    @compacted.setter
    def compacted(self, version: int) -> None:
        self._compacted = version
        self.model.keep(self.model.history, version)

    @property
    def history(self) -> list[tuple[str, Event]]:
        """Every event that a watch can still be sent, with its resource, in order."""
        return self.model.history

    @history.setter
    def history(self, history: list[tuple[str, Event]]) -> None:
        self.model.keep(history, self._compacted)

    # -- the world, as a test moves it

    def put(self, obj: Json, resource: str = "pods") -> Json:
        """Create or replace an object and return it with its new version."""
        return copy.deepcopy(self.model.write(resource, copy.deepcopy(obj)))

    def remove(self, namespace: str, name: str, resource: str = "pods") -> Json:
        """Delete an object at once, like the end of a graceful deletion or a forced one."""
        return self.model.erase(resource, namespace, name)

    def drop_event(self) -> None:
        """Make the last change invisible to every watch: a server bug, for the re-LIST to find."""
        version = str(self.model.forget_last().resource_version)
        for watch in self.watches:
            for item in iter_queue(watch.queue):
                if not isinstance(item, dict) or item["object"]["metadata"]["resourceVersion"] != version:
                    watch.queue.put_nowait(item)

    def tick(self) -> None:
        """Move the version counter as a write of another resource would."""
        self.resource_version += 1

    def compact(self) -> None:
        """Forget all history up to now."""
        self._compacted = self.resource_version
        self.model.keep([], self._compacted)

    def snapshot(self) -> Backup:
        """Back etcd up."""
        return copy.deepcopy(self.model.backup())

    def restore(self, backup: Backup) -> None:
        """Restore etcd: versions go back and all connections break."""
        self.model.restore(copy.deepcopy(backup))
        self.compact()
        self.break_watches()

    def bookmark(self) -> None:
        """Send a bookmark at the present version to every watch."""
        for watch in self.watches:
            watch.queue.put_nowait(f"BOOKMARK {self.resource_version}")

    def send_error(self, code: int) -> None:
        """Send an ERROR event to every watch."""
        for watch in self.watches:
            watch.queue.put_nowait(f"ERROR {code}")

    def send_line(self, line: str) -> None:
        """Send anything to every watch."""
        for watch in self.watches:
            watch.queue.put_nowait(f"LINE {line}")

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
        if self.failing_status or request.path in self.failing_paths | self.forbidden_paths:
            return _status(self.failing_status or (403 if request.path in self.forbidden_paths else 503))
        is_published = parts[0] == "openapi" and self.openapi is not None
        if is_published or parts in (["version"], ["api"], ["apis"]):
            discovery: Json = {"major": "1", "minor": "36", "versions": [], "groups": []}
            return web.json_response(self.openapi if is_published else discovery)
        if request.path in self.served or (parts[0] == "apis" and len(parts) == 3):
            return web.json_response(self.served[request.path]) if request.path in self.served else _status(404)
        group = "" if parts[0] == "api" else parts[1]
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource = f"{rest[0]}.{group}" if group else rest[0]
        name, subresource = (*rest[1:], "", "")[:2]
        verb = self._verb(request, name)
        try:
            if (verb, resource) in self.denied:
                raise ApiError(403)
            if self.failing.get((verb, resource)):
                return _failed(request, self.failing[verb, resource].pop(0), self.failure_text)
            if verb == "watch":
                return await self._watch(request, resource, namespace)
            if verb == "list":
                return web.json_response(text=as_text(self._list(request, resource, namespace)))
            return await self._object(request, (resource, namespace, name), subresource)
        except ApiError as error:
            return _status(error.status, str(error))

    @staticmethod
    def _verb(request: web.Request, name: str) -> str:
        if request.method == "GET":
            return "get" if name else ("watch" if request.query.get("watch") == "true" else "list")
        return {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[request.method]

    def _list(self, request: web.Request, resource: str, namespace: str) -> Json:
        limit, token = int(request.query.get("limit", "0")), request.query.get("continue", "")
        return self.model.list_page(resource, namespace, _selector(request), limit=limit, token=token)

    async def _object(self, request: web.Request, key: Key, subresource: str) -> web.Response:
        resource, namespace, _ = key
        body: Json = json.loads(await request.text() or "{}")
        if resource == "selfsubjectaccessreviews.authorization.k8s.io":
            wanted = body["spec"]["resourceAttributes"]
            named = [wanted["resource"], f"{wanted['resource']}/{wanted.get('subresource', '')}"]
            asked = {(wanted["verb"], f"{each}.{wanted['group']}" if wanted["group"] else each) for each in named}
            return web.json_response({"status": {"allowed": not asked & self.denied}})
        if resource == "selfsubjectreviews.authentication.k8s.io":
            return web.json_response({"status": {"userInfo": {"username": self.user}}}, status=201)
        if request.method == "POST":
            body["metadata"].setdefault("namespace", namespace)
            return web.json_response(self.model.create(resource, body), status=201)
        present = self.model.get(*key)
        if present is None:
            return _status(404)
        if request.method == "GET":
            return web.json_response(text=as_text(present))
        if request.method == "PUT":
            return web.json_response(self.model.update(resource, body, subresource=subresource))
        if request.content_type == "application/apply-patch+yaml":
            assert subresource == "status", "only a status is applied"
            assert request.query["fieldManager"], "an apply without a field manager"
            return web.json_response(self.model.apply_status(*key, body))
        return web.json_response(self.model.patch(*key, body, subresource=subresource))

    async def _watch(self, request: web.Request, resource: str, namespace: str) -> web.StreamResponse:
        start, fields = int(request.query["resourceVersion"]), request.query.get("fieldSelector", "")
        is_short = int(request.query.get("timeoutSeconds", "300")) <= SHORT_WATCH_S
        watch = Watch(resource, namespace, is_short, transport=request.transport)
        self.watch_starts.append((resource, start, fields))
        try:
            self._subscribe(watch, _selector(request), start)
        except ApiError as error:
            if not self.gone_as_event:
                return _status(error.status)
            watch.queue.put_nowait(f"ERROR {error.status}")
            watch.queue.put_nowait(None)
        self.watches.append(watch)
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        try:
            await response.prepare(request)
            await self._send_events(response, watch, start, bookmarks=not fields)
        except ConnectionError:
            pass  # the client went away, which is how a watch ends
        finally:
            if watch in self.watches:
                self.watches.remove(watch)
            if watch.subscription is not None:
                watch.subscription.close()
        return response

    def _subscribe(self, watch: Watch, selector: Selector, start: int) -> None:
        if start < self._compacted:
            raise ApiError(410, "too old resource version")

        def deliver(event: Json) -> None:
            if watch in self.watches:
                watch.queue.put_nowait(event)

        watch.subscription, missed = self.model.subscribe(
            watch.resource, watch.namespace, selector, start, deliver, lambda: None
        )
        for event in missed:
            watch.queue.put_nowait(event)

    async def _send_events(
        self, response: web.StreamResponse, watch: Watch, sent: int, *, bookmarks: bool
    ) -> None:
        while True:
            while self.is_stalled and not watch.is_short:
                await self._wake(watch)
            if watch.is_short and watch.queue.empty():
                if self.sends_bookmarks and self.resource_version > sent and bookmarks:
                    await response.write(as_line(bookmark(self.resource_version)))
                await response.write_eof()
                return
            item = await watch.queue.get()
            if item is None:
                await response.write_eof()
                return
            if self.is_stalled and not watch.is_short:
                push_front(watch.queue, item)
                continue
            if isinstance(item, str) and item.startswith("LINE "):
                await response.write(item.removeprefix("LINE ").encode() + b"\n")
                continue
            event = rendered(item, sent)
            if event is not None:
                await response.write(as_line(event))
                sent = int(event["object"].get("metadata", {}).get("resourceVersion", sent))

    @staticmethod
    async def _wake(watch: Watch) -> None:
        """Wait for anything to happen without taking what was held back."""
        held = iter_queue(watch.queue)
        item = await watch.queue.get()
        for waiting in [*held, item]:
            if waiting != "WAKE":
                watch.queue.put_nowait(waiting)


def _selector(request: web.Request) -> Selector:
    return Selector(request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))


def _status(code: int, message: str = "") -> web.Response:
    return web.json_response({"kind": "Status", "message": message, "code": code}, status=code)


def _failed(request: web.Request, status: int, message: str) -> web.Response:
    if status == BROKEN and request.transport is not None:
        request.transport.abort()
    return _status(status or 500, message)
