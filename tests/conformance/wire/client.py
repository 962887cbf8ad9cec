"""A client that sends the model's messages over TCP: the same verbs for the model's listener and a real broker."""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from coordinator_model.base import messages as m
from coordinator_model.wire.codec import Api, Body, decode, encode, request_type, response_type

from .translation import TRANSLATIONS

ANSWER_TIMEOUT_S = 120.0  # these tests run on what other programs leave of the machine
VersionRange = tuple[int, int]


class NotServed(Exception):
    """The broker does not serve this API in the version that is needed."""


@dataclass(slots=True)
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    serial: int = 0

    async def call(self, api: int, version: int, body: Mapping[str, Any], client_id: str) -> Body:
        asked, answered = request_type(api, version), response_type(api, version)
        self.serial += 1
        header = {
            "request_api_key": api, "request_api_version": version, "correlation_id": self.serial,
            "client_id": client_id,
        }
        frame = encode(asked.__header_schema__, header) + encode(asked, body)
        self.writer.write(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        answer = await self.reader.readexactly(size)
        head, offset = decode(answered.__header_schema__, answer)
        assert head["correlation_id"] == self.serial
        content, end = decode(answered, answer, offset)
        assert end == len(answer)
        return content


@dataclass(slots=True)
class WireClient:
    """Requests to one broker; a request that waits has its connection for itself.

    Parameters
    ----------
    versions: API key → (lowest, highest) version that the broker serves.
    """

    host: str
    port: int
    versions: dict[int, VersionRange] = field(default_factory=dict)
    topic_ids: dict[uuid.UUID, str] = field(default_factory=dict)
    _idle: list[_Connection] = field(default_factory=list)

    @classmethod
    async def connect(cls, host: str, port: int) -> WireClient:
        """Connect and learn the versions that the broker serves."""
        client = cls(host, port)
        answer = await client.call(Api.API_VERSIONS, 0)
        client.versions = {row["api_key"]: (row["min_version"], row["max_version"]) for row in answer["api_keys"]}
        return client

    async def close(self) -> None:
        """Close all idle connections."""
        for connection in self._idle:
            connection.writer.close()
        self._idle.clear()

    async def call(self, api: int, version: int, *, client_id: str = "conformance", **body: Any) -> Body:
        """Send one request in exactly this version.

        Raises
        ------
        NotServed: the broker has no such version.
        """
        low, high = self.versions.get(api, (0, 0) if api == Api.API_VERSIONS else (0, -1))
        if not low <= version <= high:
            raise NotServed(f"API {int(api)} v{version}; served: {low} to {high}")
        connection = self._idle.pop() if self._idle else await self._open()
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                answer = await connection.call(api, version, body, client_id)
        except BaseException:
            connection.writer.close()
            raise
        self._idle.append(connection)
        return answer

    async def ask(self, request: m.Request) -> m.Response:
        """Send a message of the model and read the answer as one; the version is the request's or the broker's own."""
        api, build, read = TRANSLATIONS[type(request)]
        highest = self.versions.get(api, (0, request.api_version))[1]
        version = min(request.api_version, highest, _HIGHEST.get(api, highest))
        if api in _BY_TOPIC_ID and not self.topic_ids:
            await self.learn_topics()
        body = build(request, version, self)
        return read(await self.call(api, version, **body), version, self)

    async def learn_topics(self) -> None:
        """Ask which topic has which id."""
        answer = await self.call(Api.METADATA, min(12, self.versions[Api.METADATA][1]), topics=None)
        self.topic_ids = {topic["topic_id"]: topic["name"] for topic in answer["topics"]}

    def id_of(self, topic: str) -> uuid.UUID:
        """Return a topic's id."""
        return next(topic_id for topic_id, name in self.topic_ids.items() if name == topic)

    async def _open(self) -> _Connection:
        return _Connection(*await asyncio.open_connection(self.host, self.port))


_HIGHEST = {Api.OFFSET_COMMIT: 9, Api.OFFSET_FETCH: 9, Api.STREAMS_GROUP_HEARTBEAT: 0, Api.STREAMS_GROUP_DESCRIBE: 0}
_BY_TOPIC_ID = frozenset({Api.CONSUMER_GROUP_HEARTBEAT})
