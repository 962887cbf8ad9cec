"""Frames of Kafka's wire protocol to plain dictionaries and back, along kio's schemas.

One idea: a body is a dictionary with the field names of Kafka's schemas in snake case; durations are integers and end
in `_ms`. Fields that a version lacks are dropped when written, fields that are not given get the schema's default or
null, zero or empty. So no other module of the listener sees a version's own class.
Source: Kafka protocol guide; KIP-482 (headers v1 and v2).
"""

from __future__ import annotations

import dataclasses
import io
import types
import typing
from collections.abc import Mapping
from datetime import timedelta
from enum import IntEnum
from functools import cache
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.serial import entity_reader, entity_writer

from kafka_frames import BadFrame, check_frame

Body = dict[str, Any]
MAX_ELEMENTS = 1 << 20
"""Of all arrays of one frame; a request of group membership has a few thousand at most."""


class Api(IntEnum):
    """API keys that the listener serves."""

    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    OFFSET_FOR_LEADER_EPOCH = 23
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    DESCRIBE_CLUSTER = 60
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    SHARE_GROUP_HEARTBEAT = 76
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89


SERVED: Mapping[Api, tuple[int, int]] = {
    Api.FETCH: (4, 18),
    Api.LIST_OFFSETS: (1, 11),
    Api.METADATA: (0, 13),
    Api.OFFSET_COMMIT: (2, 10),
    Api.OFFSET_FETCH: (1, 10),
    Api.FIND_COORDINATOR: (0, 6),
    Api.JOIN_GROUP: (0, 9),
    Api.HEARTBEAT: (0, 4),
    Api.LEAVE_GROUP: (0, 5),
    Api.SYNC_GROUP: (0, 5),
    Api.DESCRIBE_GROUPS: (0, 6),
    Api.LIST_GROUPS: (0, 5),
    Api.API_VERSIONS: (0, 4),
    Api.CREATE_TOPICS: (2, 7),
    Api.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    Api.TXN_OFFSET_COMMIT: (0, 5),
    Api.DESCRIBE_CONFIGS: (1, 4),
    Api.DELETE_GROUPS: (0, 2),
    Api.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    Api.DESCRIBE_CLUSTER: (0, 2),
    Api.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    Api.CONSUMER_GROUP_DESCRIBE: (0, 1),
    Api.SHARE_GROUP_HEARTBEAT: (1, 1),
    Api.STREAMS_GROUP_HEARTBEAT: (0, 0),
    Api.STREAMS_GROUP_DESCRIBE: (0, 0),
}
"""Lowest and highest version of each API: those of Kafka 4.4, as far as kio 0.6 knows them."""


def decode(entity: type, frame: bytes, offset: int = 0) -> tuple[Body, int]:
    """Read one entity of a kio schema; returns its fields and the offset after it.

    Raises
    ------
    BadFrame: the bytes are no such entity.
    """
    check_frame(entity, frame, offset, max_elements=MAX_ELEMENTS)
    try:
        read: Any = entity_reader(entity)
        value, size = read(frame, offset)
    except Exception as error:  # kio: DecodeError, ValueError, KeyError
        raise BadFrame(f"{entity.__name__}: {type(error).__name__}") from None
    return _plain(value), offset + size


def encode(entity: type, body: Mapping[str, Any]) -> bytes:
    """Write one entity of a kio schema."""
    buffer = io.BytesIO()
    entity_writer(entity)(buffer, _fill(entity, body))
    return buffer.getvalue()


def request_type(api: int, version: int) -> Any:
    """Return kio's class of a request."""
    return load_request_schema(api, version)


def response_type(api: int, version: int) -> Any:
    """Return kio's class of a response."""
    return load_response_schema(api, version)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        body: Body = {}
        for field in dataclasses.fields(value):
            content = getattr(value, field.name)
            if isinstance(content, timedelta):
                body[f"{field.name}_ms"] = content // timedelta(milliseconds=1)
            else:
                body[field.name] = _plain(content)
        return body
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return int(value) if isinstance(value, KioErrorCode) else value


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """How one field is filled: under which name it is given, what it becomes, and its value when not given."""

    name: str
    given: str
    kafka_type: str
    nested: type | None
    is_array: bool
    convert: Any
    default: Any


@cache
def fields_of(entity: type) -> tuple[Field, ...]:
    """Return how the fields of an entity are filled, in their order on the wire."""
    hints = typing.get_type_hints(entity)
    return tuple(_field(field, hints[field.name]) for field in dataclasses.fields(entity))


def _field(field: dataclasses.Field[Any], hint: Any) -> Field:
    is_nullable = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    core = next(part for part in typing.get_args(hint) if part is not type(None)) if is_nullable else hint
    is_array = typing.get_origin(core) is tuple
    element = typing.get_args(core)[0] if is_array else core
    nested = element if dataclasses.is_dataclass(element) else None
    kafka_type = str(field.metadata.get("kafka_type"))
    is_duration = kafka_type.startswith("timedelta")
    convert: Any = None
    if is_duration:
        convert = _milliseconds
    elif kafka_type == "error_code":
        convert = KioErrorCode
    default = field.default
    if default is dataclasses.MISSING:
        default = None if is_nullable else _zero(kafka_type, nested, is_array)
    given = f"{field.name}_ms" if is_duration else field.name
    return Field(field.name, given, kafka_type, typing.cast("type | None", nested), is_array, convert, default)


def _milliseconds(value: int) -> timedelta:
    return timedelta(milliseconds=value)


def _zero(kafka_type: str, nested: Any, is_array: bool) -> Any:
    if is_array:
        return ()
    if nested is not None:
        return _fill(nested, {})
    zeros: dict[str, Any] = {"string": "", "bytes": b"", "bool": False, "error_code": KioErrorCode.none}
    return _milliseconds(0) if kafka_type.startswith("timedelta") else zeros.get(kafka_type, 0)


def _fill(entity: type, body: Mapping[str, Any]) -> Any:
    content: Body = {}
    for slot in fields_of(entity):
        if slot.given not in body:
            content[slot.name] = slot.default
            continue
        value = body[slot.given]
        if value is None:
            content[slot.name] = None
        elif slot.nested is not None:
            nested = slot.nested
            content[slot.name] = tuple(_fill(nested, each) for each in value) if slot.is_array else _fill(nested, value)
        elif slot.is_array:
            content[slot.name] = tuple(value)
        else:
            content[slot.name] = slot.convert(value) if slot.convert else value
    return entity(**content)
