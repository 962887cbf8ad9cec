"""The bytes of the draft's records: int16 key version and plain strings in keys, flexible (compact, tagged) values."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from coordinator_model.connect.protocol import Reader, SchemaError, encode_string
from coordinator_model.connect.work import ConnectorsAndTasks, ConnectorTaskId

from .records import (
    Assignor,
    ClassicWorker,
    ConnectorsTasksMetadata,
    CurrentMemberAssignment,
    DraftRecord,
    DraftRecordType,
    GroupConfiguration,
    GroupMetadata,
    MemberMetadata,
    TargetAssignment,
    TargetMember,
    Value,
)

NO_TAGS = b"\x00"
VALUE_VERSION = 0


def encode_key(record_type: DraftRecordType, key: tuple[str, ...]) -> bytes:
    """Encode a record key: its type as int16, then the group id and, for members, the member id."""
    return struct.pack(">h", record_type) + b"".join(encode_string(part) for part in key)


def decode_key(data: bytes) -> tuple[DraftRecordType, tuple[str, ...]]:
    """Decode a record key; raises SchemaError for bytes that are none."""
    reader = Reader(data)
    number = reader.number("h")
    if number not in DraftRecordType.__members__.values():
        raise SchemaError(f"key version {number}")
    parts = []
    while not reader.done():
        parts.append(reader.string())
    return DraftRecordType(number), tuple(parts)


def encode_value(value: Value) -> bytes:
    """Encode a record value, with its int16 version in front."""
    schema = next(schema for schema in _SCHEMAS.values() if schema.kind is type(value))
    return struct.pack(">h", VALUE_VERSION) + schema.encode(value) + NO_TAGS


def decode_record(key: bytes, value: bytes | None) -> DraftRecord:
    """Decode a whole record; value None is a tombstone. Raises SchemaError for bytes that are none."""
    record_type, parts = decode_key(key)
    if value is None:
        return DraftRecord(record_type, parts, None)
    reader = _ValueReader(value)
    if reader.number("h") != VALUE_VERSION:
        raise SchemaError("unknown value version")
    decoded = _SCHEMAS[record_type].decode(reader)
    reader.tags()
    return DraftRecord(record_type, parts, decoded)


class _ValueReader(Reader):
    def length(self) -> int | None:
        """A compact length is one more than the count; 0 is null."""
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return None if value == 0 else value - 1
            shift += 7

    def tags(self) -> None:
        if self.take(1) != NO_TAGS:
            raise SchemaError("unknown tagged fields")

    def blob(self) -> bytes:
        length = self.length()
        if length is None:
            raise SchemaError("null where bytes are wanted")
        return self.take(length)

    def optional_text(self) -> str | None:
        length = self.length()
        return None if length is None else self.take(length).decode()


@dataclass(frozen=True, slots=True)
class _Type:
    """One type of a schema: what a value is as bytes, and how it is read; `kind` is a structure's dataclass."""

    encode: Callable[[Any], bytes]
    decode: Callable[[_ValueReader], Any]
    kind: type | None = None


def _length(count: int | None) -> bytes:
    left, encoded = 0 if count is None else count + 1, b""
    while left >= 0x80:
        encoded += bytes([left & 0x7F | 0x80])
        left >>= 7
    return encoded + bytes([left])


def _number(form: str) -> _Type:
    return _Type(lambda value: struct.pack(f">{form}", value), lambda reader: reader.number(form))


def _array(item: _Type, tags: bytes = NO_TAGS) -> _Type:
    """Elements that are structures end with an empty tag section each."""

    def decode(reader: _ValueReader) -> tuple[Any, ...]:
        items = []
        for _ in range(reader.length() or 0):
            items.append(item.decode(reader))
            if tags:
                reader.tags()
        return tuple(items)

    return _Type(lambda items: _length(len(items)) + b"".join(item.encode(each) + tags for each in items), decode)


def _pair(first: _Type, second: _Type) -> _Type:
    return _Type(
        lambda pair: first.encode(pair[0]) + second.encode(pair[1]),
        lambda reader: (first.decode(reader), second.decode(reader)),
    )


def _structure(kind: type, *types: _Type) -> _Type:
    """The fields of a dataclass in its order."""
    names = [field.name for field in dataclasses.fields(kind)]

    def encode(value: Any) -> bytes:
        return b"".join(each.encode(getattr(value, name)) for name, each in zip(names, types, strict=True))

    return _Type(encode, lambda reader: kind(*[each.decode(reader) for each in types]), kind)


def _optional(structure: _Type) -> _Type:
    return _Type(
        lambda value: _INT8.encode(-1) if value is None else _INT8.encode(1) + structure.encode(value),
        lambda reader: structure.decode(reader) if _INT8.decode(reader) == 1 else None,
    )


_INT8, _INT16, _INT32, _INT64 = _number("b"), _number("h"), _number("i"), _number("q")
_BYTES = _Type(lambda data: _length(len(data)) + data, _ValueReader.blob)
_STRING = _Type(lambda text: _BYTES.encode(text.encode()), lambda reader: reader.blob().decode())
_NULLABLE_STRING = _Type(
    lambda text: _length(None) if text is None else _STRING.encode(text), _ValueReader.optional_text
)
_TASK = _structure(ConnectorTaskId, _STRING, _INT32)
_WORK = _structure(ConnectorsAndTasks, _array(_STRING, tags=b""), _array(_TASK))
_ASSIGNOR = _structure(Assignor, _STRING, _INT16, _INT16, _INT8, _INT16, _BYTES)
_TARGET_MEMBER = _structure(TargetMember, _STRING, _INT8, _WORK, _INT16, _BYTES)
_CLASSIC_WORKER = _structure(ClassicWorker, _INT32, _array(_pair(_STRING, _BYTES)))
_MEMBER = (_INT32, _NULLABLE_STRING, _STRING, _STRING, _INT32, _array(_ASSIGNOR), _optional(_CLASSIC_WORKER))
_TARGET = (_INT32, _INT8, _array(_TARGET_MEMBER), _array(_pair(_STRING, _WORK)))
_SCHEMAS: dict[DraftRecordType, _Type] = {
    DraftRecordType.GROUP_METADATA: _structure(GroupMetadata, _INT32, _STRING),
    DraftRecordType.CONNECTORS_TASKS_METADATA: _structure(ConnectorsTasksMetadata, _INT32, _WORK, _INT64),
    DraftRecordType.MEMBER_METADATA: _structure(MemberMetadata, *_MEMBER),
    DraftRecordType.TARGET_ASSIGNMENT: _structure(TargetAssignment, *_TARGET),
    DraftRecordType.CURRENT_MEMBER_ASSIGNMENT: _structure(
        CurrentMemberAssignment, _INT32, _INT32, _INT8, _WORK, _WORK, _INT16, _BYTES
    ),
    DraftRecordType.GROUP_CONFIGURATION: _structure(GroupConfiguration, _array(_pair(_STRING, _STRING))),
}
