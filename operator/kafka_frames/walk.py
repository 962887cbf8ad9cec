"""Refuse a frame whose lengths cannot be true before the native decoder sees it.

Why: kio's decoder reserves memory for as many elements as an array *claims* to have, and a false claim ends the whole
process (seen with kio 0.6.5: "memory allocation of 34359738352 bytes failed", abort). One idea: walk the frame along
kio's own schema and compare each claimed length with the bytes that are left. To be dropped when kio bounds its
reservations.
Source: Kafka protocol guide (primitive types; KIP-482 compact lengths and tagged fields).
"""

from __future__ import annotations

import dataclasses
import struct
import typing
from collections.abc import Callable
from functools import cache

MAX_DEPTH = 8
"""Nesting of the deepest frame that is read here is 4 (ConsumerGroupDescribe)."""

_SIZES = {
    **{"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "error_code": 2, "int32": 4, "timedelta_i32": 4},
    **{"int64": 8, "timedelta_i64": 8, "datetime_i64": 8, "float64": 8, "uuid": 16},
}


class BadFrame(Exception):
    """A frame that is not what its version promises; the text never holds received bytes."""


class TooManyElements(BadFrame):
    """A frame whose arrays have more elements than the caller wants to decode, or that claims so."""


@dataclasses.dataclass(slots=True)
class Cursor:
    """A place in a frame.

    Parameters
    ----------
    end: the offset at which the frame, or the tagged field that is being walked, ends.
    left: how many more elements of arrays may be walked, numbers not counted; None: as many as the frame has bytes.
    """

    frame: bytes
    offset: int
    end: int
    left: int | None = None

    def skip(self, size: int) -> int:
        """Step over bytes and return where they began.

        Raises
        ------
        BadFrame: the frame ends before.
        """
        begin = self.offset
        if size > self.end - begin:
            raise BadFrame("the frame ends early")
        self.offset += size
        return begin

    def varint(self) -> int:
        """Read an unsigned varint of at most 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.frame[self.skip(1)]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise BadFrame("a varint has more than five bytes")

    def length(self, flexible: bool, wide: bool) -> int:
        """Read the length of a string (not wide), of bytes or an array (wide); -1 is null."""
        if flexible:
            return self.varint() - 1
        layout = ">i" if wide else ">h"
        length: int = struct.unpack_from(layout, self.frame, self.skip(4 if wide else 2))[0]
        if length < -1:
            raise BadFrame("a length is negative")
        return length

    def count(self, elements: int) -> None:
        """Take note of elements that are about to be walked.

        Raises
        ------
        TooManyElements: there may not be so many.
        """
        if self.left is not None:
            self.left -= elements
            if self.left < 0:
                raise TooManyElements("the frame has more elements than any that is read here")


Walk = Callable[[Cursor], None]


def check_frame(entity: type, frame: bytes, offset: int = 0, *, max_elements: int | None = None) -> int:
    """Walk one entity and return the offset after it.

    Parameters
    ----------
    entity: a class of kio's schemas.
    max_elements: of all arrays together but those of numbers, which cost little more than their bytes; None: every
        element takes a byte, so the frame is the bound.

    Raises
    ------
    BadFrame: a claimed length exceeds what is left of the frame, the frame ends early, or a null stands where the
        schema has none; TooManyElements, which is one, at the first array that exceeds the bound.
    """
    cursor = Cursor(frame, offset, len(frame), max_elements)
    _entity(entity, 0)(cursor)
    return cursor.offset


@cache
def _entity(entity: type, depth: int) -> Walk:
    if depth > MAX_DEPTH:
        raise BadFrame("nested too deeply")
    flexible: bool = entity.__flexible__  # type: ignore[attr-defined]  # every kio entity has it
    hints = typing.get_type_hints(entity)
    fields = dataclasses.fields(entity)
    plain = [f for f in fields if "tag" not in f.metadata]
    walks = [_field(f, hints[f.name], flexible and not _is_client_id(entity, f), depth) for f in plain]
    tagged = {f.metadata["tag"]: _field(f, hints[f.name], flexible, depth) for f in fields if "tag" in f.metadata}

    def walk(cursor: Cursor) -> None:
        for step in walks:
            step(cursor)
        if flexible:
            _walk_tags(cursor, tagged)

    return walk


def _is_client_id(entity: type, field: dataclasses.Field[object]) -> bool:
    """Say whether this is the header's client id, which never has a compact length (KIP-482)."""
    return entity.__name__ == "RequestHeader" and field.name == "client_id"


def _field(field: dataclasses.Field[object], hint: object, flexible: bool, depth: int) -> Walk:
    kafka_type = field.metadata.get("kafka_type")
    options = [hint] if typing.get_origin(hint) is tuple else [hint, *typing.get_args(hint)]
    array = next((o for o in options if typing.get_origin(o) is tuple), None)
    nested = next((o for o in typing.get_args(array) if dataclasses.is_dataclass(o)), None)
    if array is not None:
        inner = _scalar(str(kafka_type), flexible) if nested is None else _entity(typing.cast(type, nested), depth + 1)
        is_of_numbers = nested is None and str(kafka_type) in _SIZES
        return _array(inner, flexible, is_nullable=array is not hint, is_counted=not is_of_numbers)
    if kafka_type:
        return _scalar(str(kafka_type), flexible)
    structure = typing.cast(type, next(o for o in options if dataclasses.is_dataclass(o)))
    inner = _entity(structure, depth + 1)
    return _nullable(inner) if len(options) > 1 else inner


def _nullable(inner: Walk) -> Walk:
    """Return the walk of a structure that a leading signed byte says to be there (1) or null (-1)."""

    def walk(cursor: Cursor) -> None:
        if cursor.frame[cursor.skip(1)] < 0x80:
            inner(cursor)

    return walk


def _scalar(kafka_type: str, flexible: bool) -> Walk:
    if kafka_type in ("string", "bytes", "records"):
        wide = kafka_type != "string"

        def walk(cursor: Cursor) -> None:
            cursor.skip(max(0, cursor.length(flexible, wide)))

        return walk
    size = _SIZES.get(kafka_type)
    if size is None:
        raise BadFrame(f"fields of type {kafka_type} are not known here")

    def walk_fixed(cursor: Cursor) -> None:
        cursor.skip(size)

    return walk_fixed


def _array(inner: Walk, flexible: bool, *, is_nullable: bool, is_counted: bool) -> Walk:
    def walk(cursor: Cursor) -> None:
        count = cursor.length(flexible, wide=True)
        if count < 0 and not is_nullable:  # kio lets it pass before the compact lengths
            raise BadFrame("an array is null that may not be")
        if count > cursor.end - cursor.offset:
            raise BadFrame("an array claims more elements than the frame can hold")
        if is_counted:
            cursor.count(max(0, count))
        for _ in range(count):
            inner(cursor)

    return walk


def _walk_tags(cursor: Cursor, tagged: dict[int, Walk]) -> None:
    count = cursor.varint()
    if count > cursor.end - cursor.offset:
        raise BadFrame("more tagged fields than the frame can hold")
    for _ in range(count):
        tag = cursor.varint()
        size = cursor.varint()
        begin = cursor.skip(size)
        if tag in tagged:
            inner = Cursor(cursor.frame, begin, cursor.offset, cursor.left)
            tagged[tag](inner)
            cursor.left = inner.left
