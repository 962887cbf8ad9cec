"""Check the shape of an answer before the native decoder sees it.

Why: kio's decoder reserves memory for as many array elements as the frame *claims*; a claim of four billion ends the
whole process (seen with kio 0.6.5: "memory allocation of 34359738352 bytes failed", abort). A broker is not trusted
that far: anybody who may create a KafkaConnection chooses it. One idea: walk the frame along kio's own schema and
refuse any length that the remaining bytes cannot hold. To be dropped when kio bounds its reservations.
Source: Kafka protocol guide (compact lengths, KIP-482).
"""

from __future__ import annotations

import dataclasses
import struct
import types
import typing
from collections.abc import Callable
from functools import cache

MAX_DEPTH = 8
"""Nesting of the deepest answer we read is 4 (ConsumerGroupDescribe)."""

Walk = Callable[[bytes, int], int]

_FIXED_SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "error_code": 2,
    "int32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "timedelta_i64": 8,
    "uuid": 16,
}


class UnreadableAnswer(Exception):
    """An answer that does not have the shape its version promises; the text never holds received bytes."""


def check_shape(entity: type, frame: bytes, offset: int = 0) -> int:
    """Walk one entity and return the offset after it.

    Raises
    ------
    UnreadableAnswer: a length exceeds the frame, or the frame ends early.
    """
    return _entity_walk(entity, 0)(frame, offset)


@cache
def _entity_walk(entity: type, depth: int) -> Walk:
    if depth > MAX_DEPTH:
        raise UnreadableAnswer("the schema is nested too deeply")
    flexible: bool = entity.__flexible__  # type: ignore[attr-defined]  # of every kio entity
    hints = typing.get_type_hints(entity)
    walks = tuple(_field_walk(field, hints[field.name], flexible, depth) for field in dataclasses.fields(entity))

    def walk(frame: bytes, offset: int) -> int:
        for step in walks:
            offset = step(frame, offset)
        return _skip_tags(frame, offset) if flexible else offset

    return walk


def _field_walk(field: dataclasses.Field[object], hint: object, flexible: bool, depth: int) -> Walk:
    element = _tuple_element(hint)
    kafka_type = field.metadata.get("kafka_type")
    if element is None and not kafka_type:
        return _entity_walk(typing.cast(type, hint), depth + 1)
    if element is None:
        return _scalar_walk(kafka_type, flexible)
    inner = _scalar_walk(kafka_type, flexible) if kafka_type else _entity_walk(typing.cast(type, element), depth + 1)
    return _array_walk(inner, flexible)


def _tuple_element(hint: object) -> object | None:
    """Return X of `tuple[X, ...]` or `tuple[X, ...] | None`; None when the field is no array."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    return typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else None


def _scalar_walk(kafka_type: object, flexible: bool) -> Walk:
    if kafka_type in _FIXED_SIZES:
        size = _FIXED_SIZES[str(kafka_type)]
        return lambda frame, offset: _advance(frame, offset, size)
    if kafka_type in ("string", "bytes"):
        wide = kafka_type == "bytes"

        def walk(frame: bytes, offset: int) -> int:
            length, offset = _length(frame, offset, flexible, wide)
            return _advance(frame, offset, max(length, 0))

        return walk
    raise UnreadableAnswer(f"fields of type {kafka_type} are not expected in our answers")


def _array_walk(inner: Walk, flexible: bool) -> Walk:
    def walk(frame: bytes, offset: int) -> int:
        count, offset = _length(frame, offset, flexible, wide=True)
        if count > len(frame) - offset:  # every element takes at least one byte
            raise UnreadableAnswer("an array claims more elements than the frame has bytes")
        for _ in range(count):
            offset = inner(frame, offset)
        return offset

    return walk


def _length(frame: bytes, offset: int, flexible: bool, wide: bool) -> tuple[int, int]:
    """Read a length: compact (n+1, 0 = null) when flexible, else int32 (bytes, arrays) or int16 (strings)."""
    if flexible:
        value, offset = _unsigned_varint(frame, offset)
        return value - 1, offset
    size, code = (4, ">i") if wide else (2, ">h")
    end = _advance(frame, offset, size)
    length: int = struct.unpack_from(code, frame, offset)[0]
    if length < -1:
        raise UnreadableAnswer("a length is negative")
    return length, end


def _skip_tags(frame: bytes, offset: int) -> int:
    count, offset = _unsigned_varint(frame, offset)
    for _ in range(min(count, len(frame))):
        _, offset = _unsigned_varint(frame, offset)
        size, offset = _unsigned_varint(frame, offset)
        offset = _advance(frame, offset, size)
    return offset


def _unsigned_varint(frame: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        end = _advance(frame, offset, 1)
        byte = frame[offset]
        offset = end
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, offset
    raise UnreadableAnswer("a length has more than five bytes")


def _advance(frame: bytes, offset: int, size: int) -> int:
    if offset + size > len(frame):
        raise UnreadableAnswer("the frame ends early")
    return offset + size
