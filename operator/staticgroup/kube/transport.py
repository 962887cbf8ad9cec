"""Raw JSON over `kubernetes.aio`'s connection: one call, one watch.

The generated API methods build a model object per answer (slow, large) and the `Watch` class keeps bookmarks to
itself. What remains useful of the client is its configuration: TLS, tokens that rotate, exec plugins. So every
request here goes through `ApiClient.param_serialize` and `rest_client.request` and yields plain JSON.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.http_exceptions import LineTooLong
from kubernetes.aio.client import ApiClient, Configuration

from .decoding import NO_JSON, decoded
from .envelope import is_answer, is_event
from .outage import Outage
from .problem import KubeProblem, KubeProblemKind, problem_of

CALL_TIMEOUT_S: Final = 15.0
CONNECT_TIMEOUT_S: Final = 10.0
CONNECTIONS_MAX: Final = 20
"""Upper bound of parallel connections for calls; watches have connections of their own."""

RESPONSE_MAX_MIB: Final = 32
RESPONSE_MAX_BYTES = RESPONSE_MAX_MIB * 1024 * 1024
"""A larger answer is not read: an object has at most 1.5 MiB in etcd, and 9 MiB in JSON when all is escaped."""
EVENT_MAX_BYTES = 16 * 1024 * 1024
"""Of one line of a watch, for the same reason."""
REFUSAL_MAX_BYTES: Final = 16 * 1024
"""Of the answer to a refused write that is read; the reason stands at its beginning."""
_WRITES: Final = frozenset({"create", "update", "patch"})

JSON: Final = "application/json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
MERGE_PATCH: Final = "application/merge-patch+json"

CONNECTION_ERRORS: Final = (aiohttp.ClientError, TimeoutError, OSError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Where a resource type lives.

    Parameters
    ----------
    group: "" for the core group.
    """

    group: str
    version: str
    plural: str

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Build the URL path of a collection, an object or a subresource."""
        parts = ["/api", self.version] if not self.group else ["/apis", self.group, self.version]
        parts += ["namespaces", namespace] if namespace else []
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)

    def label(self, subresource: str = "") -> str:
        """Name the resource as RBAC messages do: plural.group/subresource."""
        base = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{base}/{subresource}" if subresource else base


PODS: Final = Resource(group="", version="v1", plural="pods")
NODES: Final = Resource(group="", version="v1", plural="nodes")
NAMESPACES: Final = Resource(group="", version="v1", plural="namespaces")
SECRETS: Final = Resource(group="", version="v1", plural="secrets")
DEPLOYMENTS: Final = Resource(group="apps", version="v1", plural="deployments")
STATEFULSETS: Final = Resource(group="apps", version="v1", plural="statefulsets")
LEASES: Final = Resource(group="coordination.k8s.io", version="v1", plural="leases")
EVENTS: Final = Resource(group="events.k8s.io", version="v1", plural="events")
_ADMISSION: Final = "admissionregistration.k8s.io"
MUTATING_POLICIES: Final = Resource(group=_ADMISSION, version="v1", plural="mutatingadmissionpolicies")
VALIDATING_POLICIES: Final = Resource(group=_ADMISSION, version="v1", plural="validatingadmissionpolicies")
MUTATING_WEBHOOKS: Final = Resource(group=_ADMISSION, version="v1", plural="mutatingwebhookconfigurations")

Json = dict[str, Any]


class Answer(Json):
    """A decoded answer that knows the size of the JSON that it was decoded from."""

    size_bytes = 0


class WatchStream:
    """Read one open watch line by line."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def next_event(self, stall_timeout_s: float) -> Json | None:
        """Return the next event.

        Parameters
        ----------
        stall_timeout_s: longest silence that still counts as a working stream.

        Returns
        -------
        The event's JSON; None at the end of the stream (the server's timeoutSeconds, or it closed).

        Raises
        ------
        TimeoutError: When nothing arrived in time.
        aiohttp.ClientError: When the connection broke, or a line was cut short or has more than EVENT_MAX_BYTES.
        """
        try:
            async with asyncio.timeout(stall_timeout_s):
                line = await self._response.content.readline(max_line_length=EVENT_MAX_BYTES)
        except LineTooLong as error:
            raise aiohttp.ClientPayloadError("the watch stream sent an event that is too large") from error
        if not line:
            return None
        try:
            event = decoded(line)
        except NO_JSON as error:
            raise aiohttp.ClientPayloadError("the watch stream ended inside an event") from error
        if not isinstance(event, dict) or not is_event(event):
            raise aiohttp.ClientPayloadError("the watch stream sent something that is not an event")
        return event


class Transport:
    """Send requests to one API server.

    Parameters
    ----------
    client: a configured ApiClient, see `connect`.
    watch_client: for watches; None sends them through `client`.
    call_timeout_s: for every call that is not a watch.
    clock_s: monotonic seconds. now_s: seconds since the Unix epoch.
    """

    def __init__(
        self, client: ApiClient, *, watch_client: ApiClient | None = None, call_timeout_s: float = CALL_TIMEOUT_S,
        clock_s: Callable[[], float] = time.monotonic, now_s: Callable[[], float] = time.time,
    ) -> None:
        self.outage = Outage(clock_s=clock_s)
        self._client = client
        self._watch_client = watch_client or client
        self._call_timeout = aiohttp.ClientTimeout(total=call_timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        self._watch_timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=None)
        self._now_s = now_s
        self.clock_ahead_s = 0.0
        """By how much the API server's clock is ahead of ours, by the Date of its last answer, in whole seconds."""

    async def close(self) -> None:
        """Close all connections."""
        for client in {self._client, self._watch_client}:
            await client.close()  # type: ignore[no-untyped-call]

    async def _send(
        self, client: ApiClient, *, method: str, path: str, query: Sequence[tuple[str, str]], body: Json | None,
        content_type: str, limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": JSON, "Content-Type": content_type}
        serialized = await client.param_serialize(
            method, path, query_params=list(query), header_params=headers, auth_settings=["BearerToken"]
        )
        url, sent_headers = serialized[1], serialized[2]
        # The body is JSON already, without models of the library, for which it would be copied value by value.
        answer = await client.rest_client.request(  # type: ignore[no-untyped-call]
            method, url, headers=sent_headers, body=body, _request_timeout=limits
        )
        response: aiohttp.ClientResponse = answer.response
        self._note_date(response.headers.get("Date", ""))
        return response

    def _note_date(self, date: str) -> None:
        """Compare the Date of an answer with our clock; what cannot be read changes nothing."""
        try:
            self.clock_ahead_s = float(round(parsedate_to_datetime(date).timestamp() - self._now_s()))
        except (ValueError, TypeError, OverflowError):
            return

    async def call(
        self, verb: str, resource: Resource, *, namespace: str = "", name: str = "", subresource: str = "",
        query: Mapping[str, str] | None = None, body: Json | None = None, content_type: str = JSON,
    ) -> Json | KubeProblem:
        """Send one request and return its JSON.

        Parameters
        ----------
        verb: get, list, create, update or patch.
        query: query parameters, unquoted.

        Returns
        -------
        The decoded object, an Answer; or the problem, TOO_LARGE when it has more than RESPONSE_MAX_BYTES; never an
        exception for trouble on the wire.
        """
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return await self._call(
            verb, path, resource.label(subresource), namespace=namespace, query=query, body=body,
            content_type=content_type, is_answer=partial(is_answer, verb=verb, group=resource.group),
        )

    async def call_path(self, verb: str, path: str, label: str) -> Json | KubeProblem:
        """Send one request to a path that is not a resource, such as /version; see `call`."""
        return await self._call(verb, path, label)

    async def _call(
        self, verb: str, path: str, label: str, *, namespace: str = "", query: Mapping[str, str] | None = None,
        body: Json | None = None, content_type: str = JSON, is_answer: Callable[[object], bool] = lambda decoded: True,
    ) -> Json | KubeProblem:
        method = {"get": "GET", "list": "GET", "create": "POST", "update": "PUT", "patch": "PATCH"}[verb]
        try:
            response = await self._send(
                self._client, method=method, path=path, query=tuple((query or {}).items()), body=body,
                content_type=content_type, limits=self._call_timeout,
            )
            async with response:
                if not 200 <= (status := response.status) < 300:
                    text = await _beginning(response) if verb in _WRITES else ""
                    return self._noted(problem_of(status, verb=verb, resource=label, namespace=namespace, text=text))
                content = await _read(response, RESPONSE_MAX_BYTES)
                if len(content) > RESPONSE_MAX_BYTES:
                    why = f"has more than {RESPONSE_MAX_MIB} MiB, which is not read"
                    return _unread(KubeProblemKind.TOO_LARGE, verb, label, namespace, why)
                found = decoded(content)
        except CONNECTION_ERRORS:
            return self._noted(problem_of(0, verb=verb, resource=label, namespace=namespace))
        except NO_JSON:  # of somebody in the API server's stead
            why = "cannot be decoded: it is not JSON"
            return self._noted(_unread(KubeProblemKind.UNAVAILABLE, verb, label, namespace, why))
        if not isinstance(found, dict) or not is_answer(found):
            return self._noted(problem_of(0, verb=verb, resource=label, namespace=namespace))
        self.outage.answered()
        answer = Answer(found)
        answer.size_bytes = len(content)
        return answer

    def _noted(self, problem: KubeProblem) -> KubeProblem:
        """Report to the outage whether this was an answer, as a refusal is, and return the problem."""
        if problem.kind is KubeProblemKind.UNAVAILABLE:
            self.outage.missed(problem.message)
        else:
            self.outage.answered()
        return problem

    @asynccontextmanager
    async def watch(
        self, resource: Resource, *, namespace: str = "", query: Mapping[str, str]
    ) -> AsyncIterator[WatchStream | KubeProblem]:
        """Open a watch; the caller reads it while the context is open.

        Parameters
        ----------
        query: resourceVersion, selectors, timeoutSeconds; watch and bookmarks are added here.

        Yields
        ------
        The stream, or the problem the server answered instead (GONE for 410).

        Raises
        ------
        aiohttp.ClientError, TimeoutError, OSError: When the connection fails while it is opened or read.
        """
        asked = (*query.items(), ("watch", "true"), ("allowWatchBookmarks", "true"))
        path = resource.path(namespace=namespace)
        async with asyncio.timeout(CALL_TIMEOUT_S):
            response = await self._send(
                self._watch_client, method="GET", path=path, query=asked, body=None, content_type=JSON,
                limits=self._watch_timeout,
            )
        try:
            if 200 <= response.status < 300:
                self.outage.answered()
                yield WatchStream(response)
            else:
                label = resource.label()
                yield self._noted(problem_of(response.status, verb="watch", resource=label, namespace=namespace))
        finally:
            # close, not release: an unread watch must not go back to the pool.
            response.close()


async def _read(response: aiohttp.ClientResponse, max_bytes: int) -> bytearray:
    """Read a body; of one that is larger only the beginning, a little more than the bound, and close the connection."""
    content = bytearray()
    async for piece in response.content.iter_any():
        content += piece
        if len(content) > max_bytes:
            response.close()
            break
    return content


async def _beginning(response: aiohttp.ClientResponse) -> str:
    """Read the beginning of a body; what breaks off says nothing."""
    try:
        content = await _read(response, REFUSAL_MAX_BYTES)
    except CONNECTION_ERRORS:
        return ""
    return content[:REFUSAL_MAX_BYTES].decode(errors="replace")


def _unread(kind: KubeProblemKind, verb: str, label: str, namespace: str, why: str) -> KubeProblem:
    where = f" in namespace {namespace}" if namespace else ""
    return KubeProblem(
        kind=kind, verb=verb, resource=label, namespace=namespace,
        message=f"the API server's answer to {verb} {label}{where} {why}",
    )


def proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for an API server (HTTPS_PROXY, NO_PROXY); None: there is none."""
    parts = urlsplit(url)
    is_direct = not parts.hostname or proxy_bypass(parts.hostname)
    return None if is_direct else getproxies().get(parts.scheme)


def connect(configuration: Configuration) -> Transport:
    """Make a Transport from a client configuration (in-cluster, kubeconfig or a test server).

    Parameters
    ----------
    configuration: as `kubernetes.aio.config` fills it; its connection limits are set here.

    Notes
    -----
    A watch holds its connection for as long as it is followed, so in one pool with the calls many namespaces would
    leave none for renewals of the Lease. The pool of watches has no limit: the parts that open them bound their number
    (for each followed namespace the main stream and at most one replay; one of nodes; ten proofs).
    """
    # aiohttp would ask the environment, and a netrc file, in threads of their own before each request.
    configuration.proxy = configuration.proxy or proxy_for(configuration.host)
    configuration.client_session_kwargs = {"trust_env": False}
    configuration.tcp_connector_limit_per_host = None
    # Each client takes the size over when it is made; tokens that rotate stay in the one configuration they share.
    configuration.connection_pool_maxsize = CONNECTIONS_MAX
    client = ApiClient(configuration=configuration)
    configuration.connection_pool_maxsize = 0
    return Transport(client, watch_client=ApiClient(configuration=configuration))
