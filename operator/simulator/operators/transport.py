"""The operator's connection to the model API server: the product's `Transport`, with virtual wires instead of sockets.

A request travels, is carried out by the server in the world's name, and its answer travels back; so a request that was
sent is carried out even if its sender dies meanwhile.

Source: staticgroup.kube.transport (problems as values, exceptions of a watch).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import aiohttp

from staticgroup.kube.outage import Outage
from staticgroup.kube.problem import KubeProblem, problem_of
from staticgroup.kube.transport import APPLY_PATCH, CALL_TIMEOUT_S, JSON, Resource, Transport, WatchStream

from ..engine.loop import Process, SimulationLoop
from ..kubernetes.api_server import ApiServer
from ..kubernetes.objects import Json
from ..kubernetes.storage import ApiError
from ..kubernetes.watch_log import Selector
from .connection import ClientFaults, Connection, Link

_WRITES: Final = frozenset({"update", "patch"})


class ModelStream(WatchStream):
    """One open watch as the operator reads it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._waiter: asyncio.Future[None] | None = None
        self.connection = Connection(link, self._wake)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next_event(self, stall_timeout_s: float) -> Json | None:
        """Return the next event; None at the end; see the product's `WatchStream`."""
        connection = self.connection
        deadline_s = self._link.loop.time() + stall_timeout_s
        while not connection.arrived:
            if self._link.is_dead or connection.is_broken:
                raise aiohttp.ClientPayloadError("the watch was cut")
            if connection.has_ended:
                return None
            if self._link.loop.time() >= deadline_s:
                raise TimeoutError
            await self._wait_until(deadline_s)
        return connection.arrived.popleft()

    async def _wait_until(self, deadline_s: float) -> None:
        self._waiter = self._link.loop.create_future()
        timer = self._link.loop.call_at(deadline_s, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None


_Act = Callable[[], Json]


@dataclass(slots=True, kw_only=True)
class _Request:
    verb: str
    label: str
    namespace: str
    act: _Act
    answer: asyncio.Future[Json | KubeProblem]
    sent_s: float
    is_answer_lost: bool = False


class ModelTransport(Transport):
    """The product's transport over a `Link`.

    Parameters
    ----------
    user: whose rights apply.
    process: the operator process; once it is dead every call fails.
    """

    def __init__(
        self, server: ApiServer, loop: SimulationLoop, *, user: str, rng: Random, process: Process | None = None
    ) -> None:
        self.outage = Outage(clock_s=loop.time)
        self.clock_ahead_s = 0.0  # all of a model world have one clock
        self.link = Link(server, loop, user=user, rng=rng, process=process)

    @property
    def faults(self) -> ClientFaults:
        """What is wrong with this client's connection."""
        return self.link.faults

    async def close(self) -> None:
        """Close all watches."""
        self.link.break_watches()

    async def call(
        self,
        verb: str,
        resource: Resource,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        query: Mapping[str, str] | None = None,
        body: Json | None = None,
        content_type: str = JSON,
    ) -> Json | KubeProblem:
        """Send one request; see the product's `Transport.call`."""
        label, base = resource.label(subresource), resource.label()
        asked = dict(query or {})

        def act() -> Json:
            return _carry_out(
                self.link, verb, base, namespace, name, subresource, asked, body or {}, content_type == APPLY_PATCH
            )

        return await self._exchange(verb, label, namespace, act)

    async def call_path(self, verb: str, path: str, label: str) -> Json | KubeProblem:
        """Send one request to a path that is not a resource."""
        return await self._exchange(verb, label, "", lambda: _discovery(path))

    async def _exchange(self, verb: str, label: str, namespace: str, act: _Act) -> Json | KubeProblem:
        link, loop = self.link, self.link.loop
        if link.is_dead or link.faults.is_refusing:
            return self._noted(problem_of(0, verb=verb, resource=label, namespace=namespace))
        request = _Request(
            verb=verb, label=label, namespace=namespace, act=act, answer=loop.create_future(), sent_s=loop.time()
        )
        for hook in tuple(link.on_request):
            hook(verb, label)
        faults = link.faults
        if faults.is_cut or faults.lost_requests > 0:
            faults.lost_requests = max(0, faults.lost_requests - 1)
            self._give_up(request)
        else:
            if faults.lost_answers > 0:
                faults.lost_answers -= 1
                request.is_answer_lost = True
            held_s, faults.held_s = faults.held_s, 0.0
            loop.world_call_later(link.one_way_s() + held_s, self._reach_server, request)
        answer = await request.answer
        if isinstance(answer, KubeProblem):
            return self._noted(answer)
        self.outage.answered()
        return answer

    def _give_up(self, request: _Request) -> None:
        """Let the caller wait in vain for as long as the product's transport does."""
        loop = self.link.loop
        problem = problem_of(0, verb=request.verb, resource=request.label, namespace=request.namespace)
        loop.world_call_later(
            max(0.0, request.sent_s + CALL_TIMEOUT_S - loop.time()), _resolve, request.answer, problem
        )

    def _reach_server(self, request: _Request) -> None:
        link, faults = self.link, self.link.faults
        answer: Json | KubeProblem
        try:
            if faults.failing_status:
                raise ApiError(faults.failing_status)
            if refusals := faults.refusals.get((request.verb, request.label)):
                raise ApiError(refusals.pop(0), "refused")
            if faults.conflicts > 0 and request.verb in _WRITES:
                faults.conflicts -= 1
                raise ApiError(409, "somebody was faster")
            if not link.server.is_allowed(link.user, request.verb, request.label):
                raise ApiError(403)
            answer = request.act()
        except ApiError as error:
            answer = problem_of(error.status, verb=request.verb, resource=request.label, namespace=request.namespace)
        if request.is_answer_lost:
            self._give_up(request)
        else:
            link.loop.world_call_later(link.one_way_s(), self._reach_client, request, answer)

    def _reach_client(self, request: _Request, answer: Json | KubeProblem) -> None:
        if self.link.faults.is_cut:
            self._give_up(request)
        else:
            _resolve(request.answer, answer)

    @asynccontextmanager
    async def watch(
        self, resource: Resource, *, namespace: str = "", query: Mapping[str, str]
    ) -> AsyncIterator[WatchStream | KubeProblem]:
        """Open a watch; see the product's `Transport.watch`."""
        label = resource.label()
        stream = ModelStream(self.link)

        def act() -> Json:
            stream.connection.open(
                label,
                namespace=namespace,
                selector=Selector(query.get("labelSelector", ""), query.get("fieldSelector", "")),
                since=int(query["resourceVersion"]),
                timeout_s=float(query.get("timeoutSeconds", "300")),
                bookmarks=True,
            )
            return {}

        try:
            opened = await self._exchange("watch", label, namespace, act)
            if isinstance(opened, KubeProblem) and opened.status == 0:
                raise aiohttp.ClientConnectionError("the watch could not be opened")
            yield opened if isinstance(opened, KubeProblem) else stream
        finally:
            stream.connection.close()


def _resolve(answer: asyncio.Future[Json | KubeProblem], value: Json | KubeProblem) -> None:
    if not answer.done():
        answer.set_result(value)


def _discovery(path: str) -> Json:
    """Answer what is not a resource."""
    if path == "/version":
        return {"major": "1", "minor": "36", "gitVersion": "v1.36.3"}
    if path == "/apis/admissionregistration.k8s.io/v1":
        return {"resources": [{"name": "mutatingadmissionpolicies"}]}
    raise ApiError(404, path)


def _carry_out(
    link: Link,
    verb: str,
    resource: str,
    namespace: str,
    name: str,
    subresource: str,
    query: dict[str, str],
    body: Json,
    is_apply: bool,
) -> Json:
    """Carry out one request at the server."""
    server = link.server
    if verb == "list":
        selector = Selector(query.get("labelSelector", ""), query.get("fieldSelector", ""))
        stale_s = link.faults.stale_s if query.get("resourceVersion") == "0" else 0.0
        if stale_s:
            return server.list_stale(resource, namespace, selector, stale_s)
        return server.list_page(
            resource, namespace, selector, limit=int(query.get("limit", "0")), token=query.get("continue", "")
        )
    if verb == "get":
        found = server.get(resource, namespace, name)
        if found is None:
            raise ApiError(404, name)
        return found
    if verb == "create":
        metadata: dict[str, Any] = body.get("metadata") or {}
        return server.create(resource, body | {"metadata": metadata | ({"namespace": namespace} if namespace else {})})
    if verb == "update":
        return server.update(resource, body, subresource=subresource)
    if is_apply:
        if subresource != "status" or not query.get("fieldManager"):
            raise ApiError(400, "only a status is applied here, by a named field manager")
        return server.apply_status(resource, namespace, name, body)
    return server.patch(resource, namespace, name, body, subresource=subresource)
