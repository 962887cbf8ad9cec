"""The model behind a TCP socket with Kafka's wire protocol.

One idea: the listener owns what the model must not know, the clock and the sockets; each request becomes one step of
the coordinator, and one timer wakes it at the model's next deadline. As in Kafka, a connection's requests are answered
one after the other, so a JoinGroup that waits holds up only its own connection.
Source: SocketServer (one request in flight per connection), ApiVersionsRequest (unknown version is answered in v0).
"""

from __future__ import annotations

import asyncio
import dataclasses
import struct
import time
import traceback
import uuid
from collections.abc import Callable, Mapping

from kafka_frames import BadFrame

from ..base import messages as m
from ..base.errors import ErrorCode
from ..base.image import TopicImage
from ..base.records import Record
from ..base.result import Result
from ..base.settings import BrokerSettings
from ..coordinator import GroupCoordinator
from .cluster import CLUSTER_APIS, Broker
from .codec import SERVED, Api, Body, decode, encode, request_type, response_type
from .groups import GROUP_APIS, Peer, to_body, to_requests
from .values import TopicIds

INTERNAL_ERROR = "internal error"
MAX_FRAME_BYTES = 8 * 1024 * 1024
Observer = Callable[[m.Request, m.Response], None]


def _random_uuid() -> str:
    return str(uuid.uuid4())


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Listener:
    """One broker of one cluster.

    Parameters
    ----------
    topics: topic name → number of partitions.
    observe: called with each group request and its answer.
    complain: called with the reason when a connection is closed.
    now_ms: the clock that the model's timers run by.
    new_uuid: returns the random part of member ids.
    """

    def __init__(
        self,
        settings: BrokerSettings | None = None,
        *,
        topics: Mapping[str, int] | None = None,
        observe: Observer | None = None,
        complain: Callable[[str], None] | None = None,
        now_ms: Callable[[], int] = _monotonic_ms,
        new_uuid: Callable[[], str] = _random_uuid,
    ) -> None:
        self.coordinator = GroupCoordinator(settings, image=TopicImage(dict(topics or {})), new_uuid=new_uuid)
        self._observe = observe
        self._complain = complain
        self._now_ms = now_ms
        self._new_uuid = new_uuid
        self._log: dict[tuple[object, ...], Record] = {}
        self._waiting: dict[int, asyncio.Future[m.Response]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._broker: Broker | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; port 0 takes a free one.

        Returns
        -------
        The address, which is also the one in answers to clients.
        """
        self._server = await asyncio.start_server(self._accept, host, port)
        port = self._server.sockets[0].getsockname()[1]
        self.coordinator.settings = dataclasses.replace(self.coordinator.settings, host=host, port=port)
        ids = TopicIds(lambda: self.coordinator.image)
        self._broker = Broker(self.coordinator, host, port, ids, self.submit)
        return host, port

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        assert self._server is not None
        self._server.close()
        if self._alarm:
            self._alarm.cancel()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def fail_over(self) -> None:
        """Lose everything that is not in the log, as when another broker becomes the coordinator.

        Parked requests get no answer, their connections are closed. Group configs are kept in the cluster's metadata.
        """
        before, self.coordinator = self.coordinator, self._fresh()
        self.coordinator.group_configs = before.group_configs
        if self._broker is not None:
            self._broker = dataclasses.replace(self._broker, coordinator=self.coordinator)
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.cancel()
        self._settle(self.coordinator.replay(tuple(self._log.values()), self._now_ms()))

    def _fresh(self) -> GroupCoordinator:
        before = self.coordinator
        return GroupCoordinator(before.settings, image=before.image, new_uuid=self._new_uuid)

    def submit(self, request: m.Request) -> m.Response:
        """Carry out a request that never waits."""
        result = self._step(request)
        assert result.response is not None, f"{type(request).__name__} waits"
        return result.response

    async def ask(self, request: m.Request) -> m.Response:
        """Carry out a request and wait for its answer."""
        result = self._step(request)
        response = result.response
        if response is None:
            assert result.ticket is not None
            future: asyncio.Future[m.Response] = asyncio.get_running_loop().create_future()
            self._waiting[result.ticket] = future
            response = await future
        if self._observe:
            self._observe(request, response)
        return response

    def _step(self, request: m.Request) -> Result:
        now_ms = self._now_ms()
        self._settle(self.coordinator.expire(now_ms))
        result = self.coordinator.handle(request, now_ms)
        self._settle(result)
        return result

    def _settle(self, result: Result) -> None:
        """Write the log, answer waiting requests, and set the alarm to the model's next deadline."""
        for record in result.records:  # compacted: the last record of a key, none after a tombstone
            key = (record.record_type, *record.key)
            self._log.pop(key, None)
            if record.value is not None:
                self._log[key] = record
        for completed in result.completed:
            future = self._waiting.pop(completed.ticket, None)
            if future is not None and not future.done():
                future.set_result(completed.response)
        if self._alarm:
            self._alarm.cancel()
        deadline_ms = self.coordinator.timers.next_deadline_ms()
        if deadline_ms is not None:
            delay_s = max(0.0, (deadline_ms - self._now_ms()) / 1000)
            self._alarm = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._settle(self.coordinator.expire(self._now_ms()))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the listener stops
        except BadFrame as error:  # as in Kafka, it costs the connection
            self._tell(f"connection closed: {error}")
        except Exception:  # a mistake of the model's must not take other clients' connections along
            self._tell(f"connection closed: {INTERNAL_ERROR}: {traceback.format_exc(limit=-6)}")
        finally:
            self._tasks.discard(task)
            writer.close()

    def _tell(self, line: str) -> None:
        if self._complain:
            self._complain(line)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = f"/{writer.get_extra_info('peername')[0]}"
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            if not 8 <= size <= MAX_FRAME_BYTES:
                raise BadFrame(f"a frame of {size} bytes")
            answer = await self._answer(await reader.readexactly(size), host)
            writer.write(struct.pack(">i", len(answer)) + answer)
            await writer.drain()

    async def _answer(self, frame: bytes, client_host: str) -> bytes:
        key, version, correlation_id = struct.unpack_from(">hhi", frame)
        try:
            api = Api(key)
            low, high = SERVED[api]
        except ValueError:
            raise BadFrame(f"API {key} is not served") from None
        if not low <= version <= high:
            if api is not Api.API_VERSIONS:
                raise BadFrame(f"{api.name} v{version} is not served")
            refusal = await self._body(
                api, 0, {"error_code": int(ErrorCode.UNSUPPORTED_VERSION)}, Peer("", client_host)
            )
            return struct.pack(">i", correlation_id) + encode(response_type(api, 0), refusal)
        asked_type = request_type(api, version)
        header, offset = decode(asked_type.__header_schema__, frame)
        body, _ = decode(asked_type, frame, offset)  # like Kafka, not minding bytes after it: librdkafka sends some
        answer_type = response_type(api, version)
        answer = await self._body(api, version, body, Peer(header.get("client_id") or "", client_host))
        head = encode(answer_type.__header_schema__, {"correlation_id": correlation_id})
        return head + encode(answer_type, answer)

    async def _body(self, api: Api, version: int, body: Body, peer: Peer) -> Body:
        assert self._broker is not None
        if api in GROUP_APIS:
            requests = to_requests(api, version, body, peer, self._broker.ids)
            answers = [await self.ask(request) for request in requests]
            return to_body(api, version, body, answers, self._broker.ids)
        if api is Api.FETCH:
            await asyncio.sleep(max(0, min(body["max_wait_ms"], 30_000)) / 1000)
        return CLUSTER_APIS[api](self._broker, version, body, peer)
