"""Turn calls into frames and frames into answers; this, `calls`, and `errors` for its numbers, alone know kio.

Why: version differences, kio's classes and the adapter to aiokafka's connection must not leak. One idea: a `Call`
offers exactly what `AIOKafkaConnection.send` touches, hands the raw answer back undecoded (so that a bad answer fails
its own request only, not the connection), and `decode` turns it into a value.
Source: Kafka protocol guide.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, TypeVar, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from kafka_frames import BadFrame, check_frame

ELEMENTS_MAX = 200_000
"""Of all arrays of one answer, numbers not counted: a hundred groups of a thousand members. Each takes microseconds of
the event loop, so that an answer of millions would keep everybody else waiting for many seconds."""

T = TypeVar("T")
VersionRanges = Mapping[int, tuple[int, int]]
"""API key to (lowest, highest) version of one broker."""


class Api(IntEnum):
    """Keys of the calls that the operator makes or asks about."""

    METADATA = 3
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    DESCRIBE_CONFIGS = 32
    INCREMENTAL_ALTER_CONFIGS = 44
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89


PINNED: Mapping[Api, tuple[int, int]] = {
    Api.METADATA: (8, 12),  # 8: Kafka 2.3
    Api.FIND_COORDINATOR: (1, 4),  # 4: many groups in one request (3.0)
    Api.JOIN_GROUP: (5, 5),  # 5: group.instance.id (2.3); no later one is needed to join for a moment
    Api.HEARTBEAT: (3, 4),
    Api.LEAVE_GROUP: (3, 5),  # 3: both ids (2.4); 5: reason (3.2)
    Api.DESCRIBE_GROUPS: (4, 6),  # 4: instance ids (2.4); 6: GROUP_ID_NOT_FOUND (4.0)
    Api.LIST_GROUPS: (0, 5),  # 5: group type (3.8)
    Api.DESCRIBE_CONFIGS: (1, 4),
    Api.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    Api.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    Api.CONSUMER_GROUP_DESCRIBE: (0, 1),
    Api.STREAMS_GROUP_HEARTBEAT: (0, 0),  # 0: Kafka 4.1; instance ids are taken since 4.4, in 0 too
    Api.STREAMS_GROUP_DESCRIBE: (0, 0),
}
"""Lowest and highest version of each call that this module reads and writes."""


def negotiate(api: Api, offered: VersionRanges) -> int | None:
    """Choose the highest common version of a call; None when there is none."""
    if api not in offered:
        return None
    (ours_min, ours_max), (theirs_min, theirs_max) = PINNED[api], offered[api]
    version = min(ours_max, theirs_max)
    return version if version >= max(ours_min, theirs_min) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """One request, not yet bound to a version; satisfies aiokafka's Request protocol by `prepare`.

    Parameters
    ----------
    build: makes kio's request of the negotiated class and version.
    read: turns kio's response and the version into an answer.
    """

    api: Api
    build: Callable[[Any, int], Any]
    read: Callable[[Any, int], T]

    def prepare(self, versions: VersionRanges) -> Frame:
        """Encode for one broker; ValueError without a common version, which `BrokerConnection.call` has ruled out."""
        version = negotiate(self.api, versions)
        if version is None:
            raise ValueError(f"{self.api.name}: the broker serves none of the versions {PINNED[self.api]}")
        request = self.build(load_request_schema(self.api, version), version)
        header_type = request.__header_schema__
        return Frame(API_KEY=self.api, API_VERSION=version, body=_encode(request), header_type=header_type)

    def decode(self, version: int, body: bytes) -> T:
        """Read an answer, all of it.

        Raises
        ------
        BadFrame: the bytes are not an answer of this call and version, or hold an unknown error code.
        TooManyElements: they have more than ELEMENTS_MAX entries.
        """
        response_type = load_response_schema(self.api, version)
        end = check_frame(response_type, body, max_elements=ELEMENTS_MAX)
        if end != len(body):
            raise BadFrame("the frame is longer than its answer")
        try:
            response, _ = entity_reader(response_type)(body, 0)
        except Exception as error:  # kio: DecodeError, KeyError (unknown tag), ValueError (unknown error code)
            raise BadFrame(f"{self.api.name} v{version}: {type(error).__name__}") from None
        return self.read(response, version)


class RawAnswer(bytes):
    """The undecoded body of an answer; aiokafka calls `decode` on the response type."""

    @classmethod
    def decode(cls, buffer: io.BytesIO) -> RawAnswer:  # type: ignore[override]  # aiokafka's Response protocol
        """Take the whole body as it is."""
        return cls(buffer.read())

    def __repr__(self) -> str:
        return f"RawAnswer({len(self)} bytes)"


@dataclass(frozen=True, slots=True)
class _Encoded:
    content: bytes
    correlation_id: int = 0

    def encode(self) -> bytes:
        return self.content


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """An encoded request in the form that aiokafka's connection sends (its RequestStruct protocol)."""

    API_KEY: Api
    API_VERSION: int
    body: bytes
    header_type: Any
    RESPONSE_TYPE: type[RawAnswer] = RawAnswer

    def build_request_header(self, correlation_id: int, client_id: str) -> _Encoded:
        """Encode the header that goes before the body."""
        header = self.header_type(
            request_api_key=self.API_KEY,
            request_api_version=self.API_VERSION,
            correlation_id=correlation_id,
            client_id=client_id,
        )
        return _Encoded(_encode(header))

    def encode(self) -> bytes:
        """Return the body."""
        return self.body

    def parse_response_header(self, buffer: io.BytesIO) -> _Encoded:
        """Read the correlation id and leave the buffer at the body."""
        header_type = load_response_schema(self.API_KEY, self.API_VERSION).__header_schema__
        content = buffer.getvalue()
        end = check_frame(header_type, content)
        header: Any = entity_reader(header_type)(content, 0)[0]
        buffer.seek(end)
        return _Encoded(b"", header.correlation_id)

    def __repr__(self) -> str:
        return f"Frame({self.API_KEY.name} v{self.API_VERSION})"


def _encode(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def fill(cls: Any, **values: object) -> Any:
    """Build an entity from those values that its version has."""
    names = {field.name for field in dataclasses.fields(cls)}
    return cls(**{name: value for name, value in values.items() if name in names})


def element_type(cls: Any, field_name: str) -> Any:
    """Return X of the field `field_name: tuple[X, ...]` of a kio class, also where it may be None."""
    annotation: Any = next(field.type for field in dataclasses.fields(cls) if field.name == field_name)
    is_optional = get_origin(annotation) is not tuple
    return (annotation.__args__[0] if is_optional else annotation).__args__[0]
